//! Row-level security: restricts a connection to some tenants, in addition to the tenant condition of every query.
//!
//! Input: the tenants that a query or a group of commands names. Output: a connection on which only their rows are
//! visible. The tenants' names are in a setting of the connection, which the policies in `0003_row_security.sql`
//! compare with each row's tenant.

use std::collections::BTreeSet;

use countersign::id::Tenant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// Value of the setting `countersign.tenants`. Empty if no tenant's rows are visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VisibleTenants(String);

impl VisibleTenants {
    /// Returns the setting that makes the rows of one tenant visible.
    pub(super) fn one(tenant: &Tenant) -> VisibleTenants {
        VisibleTenants(tenant.as_str().to_owned())
    }

    /// Returns the setting that makes the rows of all tenants visible: for sweeps, the log, audits, and waiters of this
    /// process, whose ids come from queries that named a tenant.
    pub(super) fn all() -> VisibleTenants {
        VisibleTenants("\n".to_owned())
    }

    /// Returns the setting that makes the rows of several tenants visible. Line breaks, which no name contains,
    /// separate the names.
    pub(super) fn of<'t>(tenants: impl Iterator<Item = &'t Tenant>) -> VisibleTenants {
        let names: BTreeSet<&str> = tenants.map(Tenant::as_str).collect();
        VisibleTenants(names.into_iter().collect::<Vec<_>>().join("\n"))
    }

    /// Returns true if no tenant's rows are visible.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Restricts a connection to the rows of these tenants until the next call.
    pub(super) async fn apply(&self, client: &Client) -> Result<(), Error> {
        let sql = "SELECT set_config('countersign.tenants', $1, false)";
        client
            .query_typed(sql, &[(&self.0, Type::TEXT)])
            .await
            .map(|_| ())
    }
}
