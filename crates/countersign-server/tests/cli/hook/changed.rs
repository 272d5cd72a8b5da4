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
        assert_eq!(state(&place, &id), "released", "{name}");
        // The changed place is another question.
        let again = event("2", &root, file);
        let left = ask(&place, &["claude-code", "--hold", "10ms"], again.as_bytes());
        assert!(left.stdout.contains("still waits"), "{name}: {left:?}");
        assert_ne!(pending(&place), id, "{name}");
    }
}
