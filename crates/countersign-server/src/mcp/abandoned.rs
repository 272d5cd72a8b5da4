//! Calls whose process has ended (X77).
//!
//! Enters: what is open in the store. Leaves: a call that runs here, where the operator says that its server keeps nothing
//! (`resume`); else its honest end: not run, and why. A server with state of its own is never changed under a client, so
//! a held call runs in the process that it was proposed to, or not at all.

use std::sync::{Arc, PoisonError, Weak};

use countersign::approval::{Approval, SharedApproval};
use countersign::id::Actor;
use countersign::state::{CallState, State};
use countersign::store::{Filter, StoreError};

use super::gateway::{Gateway, LOOKS_BACK, Wish};
use super::lease::Standing;
use super::server::Server;
use super::upstreams::Origin;

/// What people read about a pending approval that was ended.
const ENDED: &str = "not run: the server process that it was proposed to has ended; the agent can ask again";

impl Gateway {
    /// Registers a server under this gateway's lease. A server with `resume = true` also takes over open calls of gateways whose
    /// lease has lapsed.
    pub async fn resume(self: &Arc<Self>, server: &Arc<Server>) -> Result<(), StoreError> {
        self.register(server);
        if !self.resumes(&server.name) {
            return Ok(());
        }
        for approval in self.open_calls_of(&server.name).await? {
            self.follow(&approval, taken_over(server, &approval));
        }
        Ok(())
    }

    /// Renews our lease and looks after calls of processes that have ended, until we end.
    pub async fn keep_lease(self: Arc<Self>) {
        let mut beats = tokio::time::interval(self.lease.beat_every());
        let mut count: u32 = 0;
        loop {
            tokio::select! {
                _ = beats.tick() => {}
                () = self.stopping.cancelled() => return,
            }
            if let Err(error) = self.lease.beat(self.gate.store(), &self.tenant).await {
                tracing::warn!("the lease of this gateway cannot be renewed: {error}");
            }
            // Reading what is open costs more than saying that we are alive.
            if count.is_multiple_of(3)
                && let Err(error) = self.end_abandoned().await
            {
                tracing::warn!("cannot see what other gateways left open: {error}");
            }
            count = count.wrapping_add(1);
        }
    }

    /// Ends our own calls that nobody has decided, because their servers end with us, and gives up the lease.
    pub async fn leave(&self) {
        let ended = async {
            for name in self.runs.keys().filter(|name| !self.resumes(name)) {
                for approval in self.open_calls_of(name).await? {
                    if self.lease.own_server(approval.session.as_ref()).is_some() {
                        self.end(approval).await?;
                    }
                }
            }
            self.lease.leave(self.gate.store(), &self.tenant).await
        };
        if let Err(error) = ended.await {
            tracing::warn!("what is left open cannot be ended: {error}");
        }
    }

    /// Returns true if a call may get the answer of an approval for the same call: its own process's, or any process's
    /// where the server keeps nothing. What a dead process has started is told, rather than asked again.
    pub(super) async fn may_join(&self, wish: &Wish, approval: &Approval) -> Result<bool, StoreError> {
        let server = wish.tool.split_once('/').map_or("", |(server, _)| server);
        if wish.session == approval.session || self.resumes(server) {
            return Ok(true);
        }
        let has_started = approval.state != State::Pending && !is_open(approval);
        Ok(has_started && self.standing(approval).await? != Standing::Alive)
    }

    /// Waits until an approved call may run here: at once if it is our own, else when its own gateway is dead. False when
    /// it is not open any more.
    pub(super) async fn may_run(&self, approval: &SharedApproval) -> bool {
        if self.lease.own_server(approval.session.as_ref()).is_some() {
            return true;
        }
        loop {
            match self.standing(approval).await {
                // Early is no harm: the store starts it once.
                Ok(Standing::Silent | Standing::Dead) => return true,
                Ok(Standing::Alive) => {}
                Err(error) => tracing::warn!(id = %approval.id, "cannot see whose it is: {error}"),
            }
            tokio::time::sleep(self.lease.beat_every()).await;
            let found = self.gate.store().approval(&self.tenant, approval.id).await;
            if found.is_ok_and(|found| !found.is_some_and(|found| is_open(&found))) {
                return false;
            }
        }
    }

    /// Looks after open calls whose process has ended.
    async fn end_abandoned(self: &Arc<Self>) -> Result<(), StoreError> {
        let names: Vec<String> = self.runs.keys().cloned().collect();
        for name in names {
            for approval in self.open_calls_of(&name).await? {
                let standing = self.standing(&approval).await?;
                match (standing, self.resumes(&name)) {
                    (Standing::Silent | Standing::Dead, true) => {
                        if let Some(server) = self.server(&name) {
                            self.follow(&approval, taken_over(&server, &approval));
                        }
                    }
                    (Standing::Dead, false) => self.end(approval).await?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Ends a call that cannot run any more, and says why.
    async fn end(&self, approval: SharedApproval) -> Result<(), StoreError> {
        let id = approval.id;
        tracing::info!(%id, "{ENDED}");
        if approval.state == State::Pending {
            // Decided meanwhile: then the next look finds it released.
            let reason = Some(ENDED.to_owned());
            self.gate.withdraw(&self.tenant, id, Actor::Gate, reason).await?;
            return Ok(());
        }
        self.upstreams.abandon(id);
        let ran = self.gate.run_released(&self.tenant, approval).await;
        self.upstreams.forget(id);
        ran.map(drop)
    }

    async fn open_calls_of(&self, server: &str) -> Result<Vec<SharedApproval>, StoreError> {
        let run = self.run_of(&format!("{server}/")).clone();
        let mut open = Vec::new();
        for state in [State::Pending, State::Approved] {
            let filter = Filter {
                state: Some(state),
                run: Some(run.clone()),
                limit: Some(LOOKS_BACK),
                ..Filter::default()
            };
            open.extend(self.gate.store().list(&self.tenant, &filter).await?);
        }
        let is_for = |approval: &SharedApproval| {
            let tool = approval
                .calls
                .first()
                .and_then(|call| call.tool.as_str().split_once('/'));
            tool.is_some_and(|(name, _)| name == server)
        };
        open.retain(|approval| is_for(approval) && is_open(approval));
        Ok(open)
    }

    async fn standing(&self, approval: &Approval) -> Result<Standing, StoreError> {
        let session = approval.session.as_ref();
        match self.lease.own_server(session) {
            None => self.lease.standing(self.gate.store(), session).await,
            Some(number) => Ok(match self.alive(|server| server.number_here == number) {
                Some(_) => Standing::Alive,
                None => Standing::Dead,
            }),
        }
    }

    fn resumes(&self, server: &str) -> bool {
        self.resumed.iter().any(|name| name == server)
    }

    fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.alive(|server| server.name == name)
    }

    fn register(&self, server: &Arc<Server>) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| server.strong_count() > 0);
        servers.push(Arc::downgrade(server));
    }

    fn alive(&self, is_it: impl Fn(&Server) -> bool) -> Option<Arc<Server>> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut alive = servers.iter().filter_map(Weak::upgrade);
        alive.find(|server| is_it(server) && !server.is_gone())
    }
}

/// A call of another process that runs at this server instead.
fn taken_over(server: &Arc<Server>, approval: &Approval) -> Origin {
    Origin {
        server: server.clone(),
        definition: approval.calls.first().and_then(|call| call.definition.hash()),
        params: None,
        request: Weak::new(),
    }
}

/// Returns true if an approval has one call, and that may still run.
fn is_open(approval: &Approval) -> bool {
    match approval.calls.as_slice() {
        [call] => matches!(call.state, CallState::Held | CallState::Released),
        _ => false,
    }
}
