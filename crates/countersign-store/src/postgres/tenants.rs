//! Whose rows a connection sees: the server's own wall between tenants, behind the one in every query.
//!
//! Enters: the tenants that a question or a group of commands names. Leaves: a connection that sees their rows and no
//! others, by the setting that the policies in `0003_row_security.sql` compare with.

use std::collections::BTreeSet;

use countersign::id::Tenant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// The value of the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tenants(String);

impl Tenants {
    /// The rows of one tenant.
    pub(super) fn one(tenant: &Tenant) -> Tenants {
        Tenants(tenant.as_str().to_owned())
    }

    /// The rows of all tenants: for the sweep, and for waiters of this process, who got their ids from questions that
    /// named a tenant.
    pub(super) fn all() -> Tenants {
        Tenants("\n".to_owned())
    }

    /// The rows of several tenants. Names hold no line breaks.
    pub(super) fn several<'t>(tenants: impl Iterator<Item = &'t Tenant>) -> Tenants {
        let names: BTreeSet<&str> = tenants.map(Tenant::as_str).collect();
        Tenants(names.into_iter().collect::<Vec<_>>().join("\n"))
    }

    /// True if no row is to be seen.
    pub(super) fn is_nobody(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets a connection see these rows and no others, until it is told otherwise.
    pub(super) async fn show(&self, client: &Client) -> Result<(), Error> {
        let sql = "SELECT set_config('countersign.tenants', $1, false)";
        client
            .query_typed(sql, &[(&self.0, Type::TEXT)])
            .await
            .map(|_| ())
    }
}
