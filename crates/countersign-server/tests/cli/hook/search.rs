//! Searches without a path, and in the home folder.

use std::path::Path;

use super::folder::{project, read};
use super::*;

#[track_caller]
fn check(place: &Place, id: usize, folder: &Path, tool: &str, input: &Value, expected: bool) {
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
