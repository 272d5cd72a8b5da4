//! Open calls whose server process or gateway has ended (X77).
//!
//! If the operator declared the server stateless (`resume`), such a call runs here; otherwise it ends as not run, with
//! the reason. A stateful server is never replaced without its client's knowledge, so a held call runs in the process
//! it was proposed to, or not at all.

use std::sync::{Arc, PoisonError, Weak};

use countersign::approval::{Approval, SharedApproval};
use countersign::id::Actor;
use countersign::state::{CallState, State};
use countersign::store::{Filter, StoreError};

use super::gateway::{Gateway, LOOKS_BACK, ToolCallRequest};
use super::lease::Standing;
use super::server::Server;
use super::upstreams::Origin;

/// Reason recorded on a pending approval whose server process has ended.
const ENDED: &str = "not run: the server process that it was proposed to has ended; the agent can ask again";
/// Reason recorded on a pending approval whose session the client has ended.
const CLOSED: &str = "not run: the client ended the session that it was proposed in; the agent can ask again";

/// Maximum number of passes over the open calls of a session or server process that has ended. A pass may miss a call
/// that is decided meanwhile.
const LOOKS: usize = 5;

impl Gateway {
    /// Registers a server under this gateway's lease. A server with `resume = true` also takes over open calls of
    /// gateways whose lease has lapsed.
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

    /// Renews this gateway's lease and handles calls of processes that have ended, until the gateway stops.
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
            // Listing open approvals costs more than renewing the lease, so do it every third time.
            if count.is_multiple_of(3)
                && let Err(error) = self.end_abandoned().await
            {
                tracing::warn!("cannot see what other gateways left open: {error}");
            }
            count = count.wrapping_add(1);
        }
    }

    /// Ends this gateway's open calls, because their servers end with it, and gives up the lease. Calls of stateless
    /// servers (`resume`) stay open for another gateway.
    pub async fn leave(&self) {
        let ended = async {
            for name in self.runs.keys().filter(|name| !self.resumes(name)) {
                for approval in self.open_calls_of(name).await? {
                    if self.lease.own_server(approval.session.as_ref()).is_some() {
                        self.end(approval, ENDED).await?;
                    }
                }
            }
            self.lease.leave(self.gate.store(), &self.tenant).await
        };
        if let Err(error) = ended.await {
            tracing::warn!("what is left open cannot be ended: {error}");
        }
    }

    /// Returns true if a repeated call may be answered from an existing approval of the same call. The approval has to
    /// be of the same session, unless the server is stateless. A call that a dead process had started is also joined,
    /// so that its outcome is reported and nobody is asked again.
    pub(super) async fn may_join(
        &self,
        request: &ToolCallRequest,
        approval: &Approval,
    ) -> Result<bool, StoreError> {
        let server = request.tool.split_once('/').map_or("", |(server, _)| server);
        if request.session == approval.session || self.resumes(server) {
            return Ok(true);
        }
        let has_started = approval.state != State::Pending && !is_open(approval);
        Ok(has_started && self.standing(approval).await? != Standing::Alive)
    }

    /// Waits until an approved call may run here: at once if it was proposed to this gateway, otherwise when the lease
    /// of its gateway has lapsed. Returns false if the call is no longer open.
    pub(super) async fn may_run(&self, approval: &SharedApproval) -> bool {
        if self.lease.own_server(approval.session.as_ref()).is_some() {
            return true;
        }
        loop {
            match self.standing(approval).await {
                // Acting before the gateway is surely dead does no harm: the store starts a call only once.
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

    /// Takes over open calls whose process has ended, or ends them if their server is stateful.
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
                    (Standing::Dead, false) => self.end(approval, ENDED).await?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Ends the open calls of a session that its client has ended: pending ones are withdrawn, and approved ones that
    /// have not started do not run. This holds for stateless servers too, because no client waits for the answer.
    pub async fn end_session(&self, server: &Server) {
        self.end_calls_of(server, CLOSED).await;
    }

    /// Ends the open calls of a server process that has just ended, in the background, so that nobody approves what can
    /// no longer run. Calls of stateless servers stay open for the next process.
    pub fn server_ended(self: &Arc<Self>, server: &Arc<Server>) {
        if self.resumes(&server.name) {
            return;
        }
        let (gateway, server) = (self.clone(), server.clone());
        self.tasks
            .spawn(async move { gateway.end_calls_of(&server, ENDED).await });
    }

    async fn end_calls_of(&self, server: &Server, why: &str) {
        let session = self.lease.session(server.number_here);
        let ended = async {
            // A call that is decided while it is being withdrawn is found by the next pass.
            for _ in 0..LOOKS {
                let mut open = self.open_calls_of(&server.name).await?;
                open.retain(|approval| approval.session == session);
                if open.is_empty() {
                    break;
                }
                for approval in open {
                    self.end(approval, why).await?;
                }
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = ended.await {
            tracing::warn!("what a server left open cannot be ended yet: {error}");
        }
    }

    /// Ends a call that can no longer run, and records why.
    async fn end(&self, approval: SharedApproval, why: &str) -> Result<(), StoreError> {
        let id = approval.id;
        tracing::info!(%id, "{why}");
        if approval.state == State::Pending {
            // If the approval was decided in the meantime, the next pass finds its call released.
            let reason = Some(why.to_owned());
            // A refusal means that the call has ended already.
            let _ = self.gate.withdraw(&self.tenant, id, Actor::Gate, reason).await?;
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

/// Returns the origin for a call that another process proposed and that will now run at `server`.
fn taken_over(server: &Arc<Server>, approval: &Approval) -> Origin {
    Origin {
        server: server.clone(),
        definition: approval.calls.first().and_then(|call| call.definition.hash()),
        place: Origin::place_of(approval),
        params: None,
        request: Weak::new(),
    }
}

/// Returns true if the approval has exactly one call and that call may still run.
fn is_open(approval: &Approval) -> bool {
    match approval.calls.as_slice() {
        [call] => matches!(call.state, CallState::Held | CallState::Released),
        _ => false,
    }
}
