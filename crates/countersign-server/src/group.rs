//! A child process and everything it starts, as one process group that is ended as a whole.
//!
//! All processes in the group are ended, even if this program is killed (`watcher`). Processes that leave the group
//! (daemons) are not tracked.

mod watcher;

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

/// Maximum time for a process to exit after its standard input is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time for a group to exit after SIGTERM.
const TERMINATES_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time to wait until a group is gone after SIGKILL.
const KILLED_WITHIN: Duration = Duration::from_secs(1);
/// Interval at which to check whether a group still exists.
const LOOKS: Duration = Duration::from_millis(10);

/// A process group that is ended on drop.
#[derive(Debug)]
pub struct Group {
    id: Pid,
    is_over: bool,
}

impl Group {
    /// Returns the group of a child that was started with `process_group(0)`, and registers it with the watcher. `None`
    /// if the child has already exited.
    pub fn of(child: &Child) -> Option<Group> {
        let id = group_of(child)?;
        watcher::add(id);
        Some(Group { id, is_over: false })
    }

    /// Waits for the child to exit by itself, then ends the rest of its group. A child or group that does not exit in
    /// time gets SIGTERM, then SIGKILL. Returns the child's exit status.
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

    /// Ends the processes of the group that are still running after the child has exited.
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

    /// Signals every process of the group. An error means that the group is gone.
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

/// Kills a child and its whole process group.
pub async fn kill(child: &mut Child) -> io::Result<()> {
    if let Some(id) = group_of(child) {
        let _ = kill_process_group(id, Signal::KILL);
    }
    child.kill().await
}

/// Returns the group that a child leads, or `None` if the child has exited.
fn group_of(child: &Child) -> Option<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    id.and_then(Pid::from_raw)
}

impl Drop for Group {
    /// Sends SIGTERM to a group that was not ended. The watcher ends processes that ignore it, after this process
    /// exits.
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::TERM);
        }
    }
}
