//! A process that we started together with all that it starts: one process group, ended as a whole.
//!
//! Enters: a child that leads a group of its own. Leaves: no process of that group, also when we are killed ourselves
//! (`watcher`). Processes that leave the group on purpose (daemons) are not followed.

mod watcher;

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

/// How long a process may take to end by itself once its input is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// How long a group may take to end after SIGTERM.
const TERMINATES_WITHIN: Duration = Duration::from_secs(2);
/// How long we wait for the system to end a group after SIGKILL.
const KILLED_WITHIN: Duration = Duration::from_secs(1);
/// How often we look whether a group is still there.
const LOOKS: Duration = Duration::from_millis(10);

/// A group that is ended with whoever holds this.
#[derive(Debug)]
pub struct Group {
    id: Pid,
    is_over: bool,
}

impl Group {
    /// Takes the group of a child that was started with `process_group(0)`; nothing when the child has ended already.
    pub fn of(child: &Child) -> Option<Group> {
        let id = group_of(child)?;
        watcher::add(id);
        Some(Group { id, is_over: false })
    }

    /// Waits for the child to end by itself, then ends what is left of its group: SIGTERM first, SIGKILL if that does
    /// not help.
    pub async fn end(mut self, child: &mut Child) -> io::Result<ExitStatus> {
        let by_itself = tokio::time::timeout(ENDS_WITHIN, child.wait()).await;
        let status = match by_itself {
            Ok(status) => status,
            Err(_) => {
                self.signal(Signal::TERM);
                match tokio::time::timeout(TERMINATES_WITHIN, child.wait()).await {
                    Ok(status) => status,
                    Err(_) => {
                        self.signal(Signal::KILL);
                        child.wait().await
                    }
                }
            }
        };
        self.end_rest().await;
        status
    }

    /// Ends what the child left behind.
    async fn end_rest(&mut self) {
        if self.is_there() {
            self.signal(Signal::TERM);
            self.is_gone_within(TERMINATES_WITHIN).await;
        }
        if self.is_there() {
            self.signal(Signal::KILL);
            self.is_gone_within(KILLED_WITHIN).await;
        }
        self.is_over = true;
        watcher::remove(self.id);
    }

    fn is_there(&self) -> bool {
        test_kill_process_group(self.id).is_ok()
    }

    /// Signals every process of the group. That it is gone is what we want.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
    }

    async fn is_gone_within(&self, limit: Duration) {
        let give_up = Instant::now() + limit;
        while self.is_there() && Instant::now() < give_up {
            tokio::time::sleep(LOOKS).await;
        }
    }
}

/// Kills a child that leads a group of its own, with its whole group.
pub async fn kill(child: &mut Child) -> io::Result<()> {
    if let Some(id) = group_of(child) {
        let _ = kill_process_group(id, Signal::KILL);
    }
    child.kill().await
}

/// The group that a child leads; nothing when it has ended.
fn group_of(child: &Child) -> Option<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    id.and_then(Pid::from_raw)
}

impl Drop for Group {
    /// Nobody ended it in order. What does not mind SIGTERM is ended by the watcher, after us.
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::TERM);
        }
    }
}
