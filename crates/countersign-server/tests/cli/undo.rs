//! Tests what cards say about undo, and the `undo` command, under different policies.

use crate::test_folder::{MARIA, POLICY, TestFolder};

/// Creates a contact with approval and returns the approval's id.
fn created(place: &TestFolder) -> String {
    let id = place.contact();
    place.script("tool", "echo '{\"id\":7}'");
    place.good(&["approve", &id]);
    place.good(&["wait", &id, "--exec", "./tool"]);
    id
}

#[test]
fn what_a_card_calls_undoable_is_undone_or_the_policy_is_asked_for() {
    let place = TestFolder::new();
    let id = created(&place);
    // The way to undo is known only with the policy under which the call was proposed.
    place.write("other.toml", "[tools.create_contact]\neffect = \"write\"\n");
    std::fs::remove_file(place.path().join("countersign.toml")).unwrap();
    for other in [&[][..], &["--policy", "other.toml"]] {
        let show: Vec<&str> = ["show", &id].iter().chain(other).copied().collect();
        assert!(place.good(&show).contains("can be undone"));
        let undo: Vec<&str> = ["undo", &id].iter().chain(other).copied().collect();
        let left = place.run(&undo);
        assert_eq!(left.code, 4, "{left:?}");
        assert!(left.stderr.contains("this policy declares no `undo`"), "{left:?}");
        assert!(left.stderr.contains("name it with `--policy FILE`"), "{left:?}");
    }
    place.write("countersign.toml", POLICY);
    let undo = place.json(&["undo", &id]);
    assert_eq!(undo["approval"]["description"], "Delete contact 7");
}

#[test]
fn what_a_card_calls_final_is_not_undone_under_a_later_policy() {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", "[tools.create_contact]\neffect = \"write\"\n");
    let id = place.propose(&["create_contact", MARIA]);
    place.script("tool", "echo '{\"id\":7}'");
    place.good(&["approve", &id]);
    place.good(&["wait", &id, "--exec", "./tool"]);
    place.write("countersign.toml", POLICY);
    assert!(place.good(&["show", &id]).contains("cannot be undone"));
    let left = place.run(&["undo", &id]);
    assert_eq!(left.code, 4, "{left:?}");
    assert!(left.stderr.contains("declares no `undo`"), "{left:?}");
    assert!(left.stderr.contains("by hand"), "{left:?}");
}
