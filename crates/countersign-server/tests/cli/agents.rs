//! Conflicting configurations of served agents: the service does not start, and says why.

use crate::test_folder::TestFolder;

#[track_caller]
fn check(policy: &str, config: &str, expected: &str) {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", policy);
    place.write("countersign-serve.toml", config);
    let left = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(left.code, 1, "{config}: {left:?}");
    assert!(left.stderr.contains(expected), "{config}: {}", left.stderr);
}

/// A2: of two entries for one tool, which one counts must not depend on their order.
#[test]
fn a2_a_tool_that_two_list_or_two_run_is_refused() {
    let own = "[tools.create_contact]\neffect = \"read\"\n";
    let crm = "[agents.crm]\nworld = \"crm\"\n";
    check(
        own,
        crm,
        "tool `create_contact` is listed by the policy and by the world `crm`",
    );
    let twice = "[agents.a]\nworld = \"crm\"\n[agents.b]\nworld = \"crm\"\n";
    check("", twice, "is listed by the world `crm` and by the world `crm`");
    let echo = "[tools.create_contact]\necho = true\n[agents.crm]\nworld = \"crm\"\n";
    check(
        "",
        echo,
        "the example `crm` contains it, but something else is configured to run it",
    );
    check(
        "",
        "[agents.crm]\nworld = \"crm\"\nplanet = 1\n",
        "unknown field `planet`",
    );
}
