//! Base URL of the service, stored so that commands which use the same store can print links to the service.

use countersign::command::{Command, PutEntry, TakeEntry};
use countersign::id::Tenant;
use countersign::registry::{Entry, Kind};
use countersign::store::{Store, StoreError};

/// Records the address of a service that starts, replacing an earlier one.
pub async fn note(store: &dyn Store, tenant: &Tenant, address: &str) -> Result<(), StoreError> {
    let key = key(tenant);
    let kind = Kind::Setting;
    store
        .write(Command::TakeEntry(TakeEntry {
            kind,
            key: key.clone(),
        }))
        .await?;
    let entry = Entry {
        kind,
        key,
        tenant: tenant.clone(),
        body: address.as_bytes().into(),
        version: 0,
        expires_at: None,
    };
    store.write(Command::PutEntry(PutEntry(entry))).await?;
    Ok(())
}

/// Returns the address of the service that started last; `None` if no service has started on this store.
pub async fn find(store: &dyn Store, tenant: &Tenant) -> Result<Option<String>, StoreError> {
    let entry = store.entry(Kind::Setting, &key(tenant)).await?;
    Ok(entry.and_then(|entry| String::from_utf8(entry.body.to_vec()).ok()))
}

fn key(tenant: &Tenant) -> String {
    format!("address/{tenant}")
}
