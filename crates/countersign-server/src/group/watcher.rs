//! Ends the process groups of this program's children after the program was killed.
//!
//! MCP clients give a gateway two seconds to exit, and then kill it. So a small shell process, the watcher, runs
//! alongside this one and knows the process groups of its children. The watcher's standard input closes when this
//! process ends, for whatever reason; then the watcher ends the groups, after the same grace periods that this process
//! would use. (PR_SET_PDEATHSIG would need unsafe code, and is tied to one thread of the parent, not to the process.)

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

/// Standard input of the watcher; `None` if it could not be started.
static WATCHER: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();

/// Registers a group that the watcher ends after this process.
pub fn add(group: Pid) {
    tell("add", group);
}

/// Unregisters a group that has ended, before its id can be reused.
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
        // In its own process group, so that a signal to the whole group of this process does not reach the watcher.
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
