//! Searches without a path, and in the home folder.

use std::path::Path;

use super::folder::{project, read};
use super::*;

#[track_caller]
fn check(place: &TestFolder, id: usize, folder: &Path, tool: &str, input: &Value, expected: bool) {
    let (held, notes) = read(place, folder, id, tool, input);
    assert_eq!(held, expected, "{tool} {input} in {}: {notes}", folder.display());
}

#[test]
fn x81_a_search_without_a_path_searches_the_working_folder() {
    let place = agents();
    let [project, _] = project(&place);
    std::fs::create_dir_all(project.join("src")).unwrap();
    let grep = serde_json::json!({"pattern": "x"});
    let empty = serde_json::json!({"pattern": "x", "path": ""});
    let null = serde_json::json!({"pattern": "x", "path": null});
    let below = serde_json::json!({"pattern": "x", "path": "nothing/here"});
    let glob = serde_json::json!({"pattern": "*.md"});
    for (id, (folder, tool, input, expected)) in [
        ("/etc", "Grep", &grep, true),
        ("/etc", "Grep", &empty, true),
        ("/etc", "Grep", &null, true),
        ("/etc", "Grep", &below, false),
        ("/etc", "Glob", &glob, true),
        ("/etc", "LS", &serde_json::json!({}), true),
        ("/", "Grep", &grep, true),
        ("/home/nobody-here", "Grep", &grep, true),
        ("/home/nobody-here/.aws", "Grep", &grep, true),
        ("/home/nobody-here/project", "Grep", &grep, false),
        ("/home/nobody-here/project", "Glob", &glob, false),
    ]
    .into_iter()
    .enumerate()
    {
        check(&place, id, Path::new(folder), tool, input, expected);
    }
    check(&place, 100, &project, "Grep", &empty, false);
}

#[test]
fn x81_the_home_folder_is_where_the_environment_says() {
    // The tests' `HOME` is the folder `home` of a temporary one.
    let place = agents();
    let [project, ssh] = project(&place);
    let home = ssh.parent().unwrap();
    std::os::unix::fs::symlink(home, project.join("house")).unwrap();
    let grep = |path: &str| serde_json::json!({"pattern": "x", "path": path});
    let at_home = home.display().to_string();
    for (id, (folder, path, expected)) in [
        (home, "", true),
        (home, ".", true),
        (&project, &*at_home, true),
        (&project, &*format!("{at_home}/**"), true),
        (&project, "../home", true),
        (&project, "house", true),
        (&project, ".", false),
        (&project, &*format!("{at_home}/work"), false),
    ]
    .into_iter()
    .enumerate()
    {
        check(&place, id, folder, "Grep", &grep(path), expected);
    }
}
