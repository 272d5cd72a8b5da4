//! Schemas of tools that the policy does not describe, such as those of an MCP server, for the fields of an edit.
//!
//! Input: the schema that a server listed with a tool's definition. Output: the values that it lists for a place. The
//! gateway stores the schema when it holds a call, because the page may be in another process. A schema only offers
//! choices: it is the server's own, and no rule.

use std::time::Duration;

use countersign::approval::Approval;
use countersign::hash::Hash;
use countersign::id::Tenant;
use countersign::policy::{Definition, SchemaChoices};
use countersign::registry::{Entry, Kind};
use countersign::store::{Store, StoreError};

/// Largest schema that is stored, in bytes.
pub const LARGEST: usize = 32 * 1024;
/// How long a schema is stored: longer than any approval is pending.
const LASTS: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Stores the input schema of a tool under the hash of the tool's definition, unless it is stored already.
pub async fn keep(
    store: &dyn Store,
    tenant: &Tenant,
    definition: Hash,
    schema: &str,
) -> Result<(), StoreError> {
    let key = key(tenant, definition);
    if store.entry(Kind::Setting, &key).await?.is_some() {
        return Ok(());
    }
    let entry = Entry {
        kind: Kind::Setting,
        key,
        tenant: tenant.clone(),
        body: schema.as_bytes().into(),
        version: 0,
        expires_at: Some(store.now().await?.plus(LASTS)),
    };
    // If another gateway was faster, it has stored the same.
    store.put_entry(entry).await.map(|_| ())
}

/// Returns the values that the stored schemas of an approval's calls list, one entry for each call. A call without a
/// stored schema has none.
pub async fn choices(store: &dyn Store, approval: &Approval) -> Result<Vec<SchemaChoices>, StoreError> {
    let mut found = Vec::with_capacity(approval.calls.len());
    for call in &approval.calls {
        let entry = match call.definition {
            Definition::Read(hash) => store.entry(Kind::Setting, &key(&approval.tenant, hash)).await?,
            // A proposer's claim about the definition is no reason to show another tool's schema.
            Definition::Claimed(_) | Definition::Unknown => None,
        };
        let schema = entry.and_then(|entry| serde_json::from_slice(&entry.body).ok());
        found.push(
            schema
                .map(|schema| SchemaChoices::of(&schema))
                .unwrap_or_default(),
        );
    }
    Ok(found)
}

fn key(tenant: &Tenant, definition: Hash) -> String {
    // A hash, because the names of tenants may be long.
    Hash::of(format!("schema/{tenant}/{definition}").as_bytes()).to_string()
}
