//! Several servers behind one gateway: each has a relay of its own, and this stands between them and the client.
//!
//! Enters: messages of the client and of all servers. Leaves: each message of the client at the one server it is for,
//! with nothing changed but the name's prefix; lists and greetings of all servers as one; questions of servers under
//! ids that tell who asks. What cannot be told whose it is, is refused, not guessed (X42).
//! Deliberately absent: rulings and waiting. A relay does that for each server as if it were alone.
//!
//! `servers` reads the file, `leg` is one server, `client` and `server` are the two directions, `greet` and `lists`
//! ask all of them, `subscribe` listens to all, `route` remembers what went where.

mod client;
mod connection;
mod greet;
mod leg;
mod lists;
mod merge;
mod names;
mod offered;
mod owner;
mod route;
mod server;
mod servers;
mod start;
mod subscribe;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

pub use connection::Connection;
pub use leg::collision;
pub use route::Routed;
pub use servers::{At, Spec, read, way};
pub use start::{Connections, Ends, Started, connect, run};
pub use subscribe::subscription_of;

use super::frame::Id;
use super::gateway::Gateway;
use super::one_line::OneLine;
use super::relay::{Back, Next, Who};
use super::server::Server;
use leg::Leg;
use route::Routes;
use subscribe::Subscription;

/// How long answers may take once the client is gone.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// One client, and several servers.
pub struct Switch {
    /// What it shares with others.
    pub gateway: Arc<Gateway>,
    /// Who the client is.
    pub who: Who,
    legs: Vec<Arc<Leg>>,
    routes: Mutex<Routes>,
    greeting: Mutex<Greeting>,
    subscriptions: Mutex<HashMap<Id, Subscription>>,
    /// To the client, for as long as anybody reads there.
    to_client: OnceLock<mpsc::WeakSender<OneLine>>,
    /// What takes longer.
    tasks: TaskTracker,
}

/// How far the client is.
#[derive(Default)]
struct Greeting {
    /// It has begun to greet.
    has_begun: bool,
    /// What it said when it was ready.
    initialized: Option<OneLine>,
}

impl Switch {
    /// Finds out in the background where a message goes, and sends it.
    pub fn later(self: &Arc<Self>, next: Next<Routed>, back: &Back) {
        let Next::Later(routed) = next else {
            return;
        };
        let back = back.clone();
        self.tasks.spawn(async move {
            if let Some(routed) = routed.await {
                routed.send(&back).await;
            }
        });
    }

    /// Returns all its servers.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.legs.iter().map(|leg| &leg.relay.server)
    }

    /// The client is gone: its calls wait on without it. Gives back once all that is known was said.
    pub async fn left(&self) {
        for leg in &self.legs {
            leg.relay.left().await;
        }
        self.tasks.close();
        // A server that is slow to greet has nobody to greet any more.
        let _ = tokio::time::timeout(LAST_ANSWERS, self.tasks.wait()).await;
    }

    fn leg(&self, name: &str) -> Option<(usize, &Arc<Leg>)> {
        self.legs.iter().enumerate().find(|(_, leg)| leg.name() == name)
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
