//! The desk a command works at: the gate over the store, whose world it is, and the policy's file.

use std::path::PathBuf;
use std::sync::Arc;

use countersign::decision::Decider;
use countersign::executor::Executor;
use countersign::gate::Gate;
use countersign::id::{Person, Tenant};
use countersign::store::Store;

use crate::cli::Global;
use crate::failure::Failure;
use crate::store::{Missing, Watch};
use crate::{identity, keys, policy, store};

/// Everything most commands need.
pub struct Desk {
    /// The gate.
    pub gate: Gate,
    /// Whose world.
    pub tenant: Tenant,
    /// The policy's file; nothing when everything is held for want of one.
    pub policy_file: Option<PathBuf>,
    name: Option<String>,
    groups: Vec<String>,
}

impl Desk {
    /// Opens everything. Nothing is made unless the command makes something new.
    pub async fn open(global: &Global, missing: Missing) -> Result<Desk, Failure> {
        Desk::open_with(global, missing, Watch::Nobody, None).await
    }

    /// As [`Desk::open`], for commands that wait, and with an executor for calls that are run from here.
    pub async fn open_with(
        global: &Global,
        missing: Missing,
        watch: Watch,
        executor: Option<Arc<dyn Executor>>,
    ) -> Result<Desk, Failure> {
        let tenant = tenant(global)?;
        // First what can be wrong without touching the store.
        let loaded = policy::load(global.policy.as_deref())?;
        let sealer = keys::sealer(global.seal_key_file.as_deref())?;
        let store = store::open(global.store(), missing, watch).await?;
        let mut gate = Gate::new(store, Arc::new(loaded.policy));
        if let Some(executor) = executor {
            gate = gate.with_executor(executor);
        }
        if let Some(sealer) = sealer {
            gate = gate.with_sealer(sealer);
        }
        Ok(Desk {
            gate,
            tenant,
            policy_file: loaded.file,
            name: global.name.clone(),
            groups: global.group.clone(),
        })
    }

    /// The store behind the gate.
    pub fn store(&self) -> &dyn Store {
        self.gate.store()
    }

    /// Who sits here.
    pub fn person(&self) -> Result<Person, Failure> {
        identity::person(self.name.as_deref())
    }

    /// Who sits here, as one who decides.
    pub fn decider(&self) -> Result<Decider, Failure> {
        Ok(identity::decider(self.person()?, &self.groups))
    }
}

/// Whose world, from the command line.
pub fn tenant(global: &Global) -> Result<Tenant, Failure> {
    Tenant::new(global.tenant.as_str()).map_err(|problem| Failure::error("bad_name", problem.to_string()))
}
