//! Ends the groups of our children when we cannot, because we were killed.
//!
//! Clients give a gateway two seconds to end, and kill it then. So a small shell waits beside us: it knows the groups of
//! our children, and its input ends when we do, whatever ended us. It leaves them as long to end by themselves as we do.
//! (PR_SET_PDEATHSIG would need unsafe code, and follows a thread of ours, not the process.)

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::Pid;

const SCRIPT: &str = r#"
groups=
while read -r word group; do
    case $word in
    add) groups="$groups $group" ;;
    remove)
        left=
        for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
        groups=$left
        ;;
    esac
done
any_left() {
    left=
    for one in $groups; do kill -s 0 -- "-$one" 2>/dev/null && left="$left $one"; done
    groups=$left
    [ -n "$groups" ]
}
signal() {
    for one in $groups; do kill -s "$1" -- "-$one" 2>/dev/null; done
}
for second in 1 2 3 4 5; do any_left || exit 0; sleep 1; done
any_left && signal TERM
for second in 1 2; do any_left || exit 0; sleep 1; done
any_left && signal KILL
exit 0
"#;

/// Where the watcher is told; nothing when it could not be started.
static WATCHER: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();

/// Has a group ended after us.
pub fn add(group: Pid) {
    tell("add", group);
}

/// Forgets a group that is over, before its number can be another's.
pub fn remove(group: Pid) {
    tell("remove", group);
}

fn tell(word: &str, group: Pid) {
    let Some(watcher) = WATCHER.get_or_init(|| start().map(Mutex::new)) else {
        return;
    };
    let mut input = watcher.lock().unwrap_or_else(PoisonError::into_inner);
    let line = format!("{word} {}\n", group.as_raw_nonzero());
    if let Err(error) = input.write_all(line.as_bytes()) {
        tracing::debug!("the watcher over our children is gone: {error}");
    }
}

fn start() -> Option<ChildStdin> {
    let started = Command::new("/bin/sh")
        .args(["-c", SCRIPT])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Whoever kills our whole group does not end it.
        .process_group(0)
        .spawn();
    match started {
        Ok(mut child) => child.stdin.take(),
        Err(error) => {
            tracing::debug!("no watcher over our children: {error}");
            None
        }
    }
}
