//! X98 for hooks: all hooks of one coding agent on one store use the same policy.

use super::{LS, agents, ask, before, blocks};
use crate::test_folder::Left;

const HELD: &str = "not approved yet";

#[test]
fn x98_a_hook_with_another_policy_than_the_one_on_record_denies() {
    let place = agents();
    let install = ["hook", "install", "claude-code", "--settings", "settings.json"];
    let hook = |event: &str| ask(&place, &["claude-code", "--hold", "10ms"], event.as_bytes());
    let event = |id: &str| before(id, "Bash", LS);
    place.good(&install);
    assert!(hook(&event("t1")).stdout.contains(HELD));
    // A policy that lets the call pass is refused.
    let other = "[tools.Bash]\neffect = \"read\"\n";
    place.write("countersign.toml", other);
    let denied = hook(&event("t2"));
    assert!(blocks("claude-code", &denied) && denied.code == 2, "{denied:?}");
    assert!(denied.stderr.contains("not the one on record"), "{denied:?}");
    assert!(denied.stderr.contains("--policy-change"), "{denied:?}");
    // Installing again is refused too, and the self-test reports the difference.
    let refused = place.run(&install);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("--policy-change"), "{refused:?}");
    let status = Left::of(
        place
            .command(&["hook", "status", "claude-code", "--settings", "settings.json"])
            .output()
            .unwrap(),
    );
    assert!(status.stdout.contains("not the one on record"), "{status:?}");
    let advice: String = status.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        advice.contains("the self-test failed:")
            && advice.contains("hook install claude-code --settings settings.json --policy-change"),
        "{status:?}"
    );
    // Other coding agents are not affected.
    let codex = ask(&place, &["codex", "--hold", "10ms"], event("t3").as_bytes());
    assert_eq!(codex.stdout, "{}\n", "{codex:?}");
    // `--policy-change` accepts the new policy.
    let change: Vec<&str> = install.iter().chain(&["--policy-change"]).copied().collect();
    place.good(&change);
    let other_call = before("t4", "Bash", r#"{"command":"pwd"}"#);
    assert_eq!(hook(&other_call).stdout, "{}\n");
}
