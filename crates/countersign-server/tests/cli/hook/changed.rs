//! Links and folders that change while a call waits: the approval is for what was shown.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// A change that another program makes while a call waits. The argument is the test's folder.
type Change = fn(&Path);

/// Creates `project`, `scratch` and `precious` in one folder. `project/docs` and `project/b.txt` are links into
/// `scratch`.
fn laid_out() -> (TestFolder, PathBuf) {
    let place = agents();
    let root = place.path().canonicalize().unwrap();
    for folder in ["project/plain", "scratch", "precious"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    symlink(root.join("scratch"), root.join("project/docs")).unwrap();
    symlink(root.join("scratch/b.txt"), root.join("project/b.txt")).unwrap();
    (place, root)
}

fn event(id: &str, root: &Path, file: &str) -> String {
    let input = serde_json::json!({"file_path": file, "content": "x"});
    let folder = root.join("project");
    before(id, "Write", &input.to_string())
        .replace(r#""cwd":"/""#, &format!(r#""cwd":"{}""#, folder.display()))
}

fn is_allowed(left: &Left) -> bool {
    one(left)["hookSpecificOutput"]["permissionDecision"] == "allow"
}

/// Checks that an answer names the old and the new target, and claims nothing else.
#[track_caller]
fn assert_tells(left: &Left, root: &Path, change: &str) {
    let told = one(left)["hookSpecificOutput"]["permissionDecisionReason"].to_string();
    let at = |path: &str| format!("`{}`", root.join(path).display());
    let [now, shown] = match change {
        "retarget" => [at("precious/a.txt"), at("scratch/a.txt")],
        "folder_to_link" | "nothing_to_link" => [at("precious/a.txt"), "was no link".to_owned()],
        "link_to_file" => ["is no link now".to_owned(), at("scratch/b.txt")],
        "working_folder" => [at("precious"), "was no link".to_owned()],
        _ => panic!("{change}"),
    };
    for part in [&*now, &*shown, "Nothing was run"] {
        assert!(told.contains(part), "{change}: {part}: {told}");
    }
    assert!(
        !told.contains("tool_use_id") && !told.contains("was used"),
        "{told}"
    );
}

/// Changes the target of the link `docs`.
fn retarget(root: &Path, target: &str) {
    std::fs::remove_file(root.join("project/docs")).unwrap();
    symlink(root.join(target), root.join("project/docs")).unwrap();
}

#[test]
fn i3_the_same_tool_use_is_told_that_its_link_leads_elsewhere() {
    for is_approved in [true, false] {
        let (place, root) = laid_out();
        let call = event("1", &root, "docs/a.txt");
        let brief = || ask(&place, &["claude-code", "--hold", "10ms"], call.as_bytes());
        assert!(brief().stdout.contains("still waits"));
        let id = pending(&place);
        if is_approved {
            place.good(&["approve", &id]);
        }
        retarget(&root, "precious");
        for _ in 0..2 {
            let left = brief();
            assert!(blocks("claude-code", &left), "{left:?}");
            assert_tells(&left, &root, "retarget");
        }
        let expected = if is_approved { "released" } else { "held" };
        assert_eq!(state(&place, &id), expected);
        // Where the approval leads, the call still runs.
        retarget(&root, "scratch");
        assert_eq!(is_allowed(&brief()), is_approved);
    }
}

#[test]
fn i3_a_link_that_changes_during_the_wait_is_told_to_the_same_tool_use_again() {
    let (place, root) = laid_out();
    let call = event("1", &root, "docs/a.txt");
    let waiting = fed(hook(&place, &["claude-code", "--hold", "30s"]), call.as_bytes());
    let id = pending(&place);
    retarget(&root, "precious");
    place.good(&["approve", &id]);
    assert_tells(&Left::of(waiting.wait_with_output().unwrap()), &root, "retarget");
    let left = ask(&place, &["claude-code", "--hold", "10ms"], call.as_bytes());
    assert_tells(&left, &root, "retarget");
    assert_eq!(state(&place, &id), "released");
    // Another call under the same id is not mistaken for this one.
    let other = event("1", &root, "docs/b.txt");
    let left = ask(&place, &["claude-code", "--hold", "10ms"], other.as_bytes());
    assert!(left.stdout.contains("belongs to an earlier call"), "{left:?}");
}

#[test]
fn i3_what_changes_while_a_call_waits_is_not_started() {
    let retarget: Change = |root| {
        std::fs::remove_file(root.join("project/docs")).unwrap();
        symlink(root.join("precious"), root.join("project/docs")).unwrap();
    };
    let folder_to_link: Change = |root| {
        std::fs::remove_dir(root.join("project/plain")).unwrap();
        symlink(root.join("precious"), root.join("project/plain")).unwrap();
    };
    let nothing_to_link: Change = |root| {
        symlink(root.join("precious/a.txt"), root.join("project/plain/a.txt")).unwrap();
    };
    let link_to_file: Change = |root| {
        std::fs::remove_file(root.join("project/b.txt")).unwrap();
        std::fs::write(root.join("project/b.txt"), "plain").unwrap();
    };
    let working_folder: Change = |root| {
        std::fs::rename(root.join("project"), root.join("away")).unwrap();
        symlink(root.join("precious"), root.join("project")).unwrap();
    };
    let nothing: Change = |_| {};
    for (name, file, change) in [
        ("retarget", "docs/a.txt", retarget),
        ("folder_to_link", "plain/a.txt", folder_to_link),
        ("nothing_to_link", "plain/a.txt", nothing_to_link),
        ("link_to_file", "b.txt", link_to_file),
        ("working_folder", "c.txt", working_folder),
        ("nothing", "docs/a.txt", nothing),
    ] {
        let (place, root) = laid_out();
        let waiting = fed(
            hook(&place, &["claude-code", "--hold", "30s"]),
            event("1", &root, file).as_bytes(),
        );
        let id = pending(&place);
        change(&root);
        place.good(&["approve", &id]);
        let left = Left::of(waiting.wait_with_output().unwrap());
        if name == "nothing" {
            assert!(is_allowed(&left), "{left:?}");
            assert_eq!(state(&place, &id), "running");
            continue;
        }
        assert!(blocks("claude-code", &left), "{name}: {left:?}");
        assert!(left.stdout.contains("has changed"), "{name}: {left:?}");
        assert_tells(&left, &root, name);
        assert_eq!(state(&place, &id), "released", "{name}");
        // The changed place is another question.
        let again = event("2", &root, file);
        let left = ask(&place, &["claude-code", "--hold", "10ms"], again.as_bytes());
        assert!(left.stdout.contains("still waits"), "{name}: {left:?}");
        assert_ne!(pending(&place), id, "{name}");
    }
}
