//! Tests signals and closed pipes.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::test_folder::{Left, TestFolder};

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = TestFolder::new();
    let id = place.contact();
    for arguments in [
        &["list", "--all"][..],
        &["show", &id, "--json"],
        &["--help"],
        &["policy", "check"],
    ] {
        let mut command = place.command(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let left = Left::of(child.wait_with_output().unwrap());
        assert!(
            left.code == 0 && left.stderr.is_empty(),
            "{arguments:?}: {left:?}"
        );
    }
}

#[test]
fn ctrl_c_ends_a_wait() {
    let place = TestFolder::new();
    let id = place.contact();
    let mut wait = place.command(&["wait", &id]);
    let wait = wait
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    let status = Command::new("kill")
        .args(["-INT", &wait.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let left = Left::of(wait.wait_with_output().unwrap());
    assert_eq!((left.code, left.stderr.as_str()), (130, ""), "{left:?}");
}
