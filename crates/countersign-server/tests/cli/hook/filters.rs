//! Filters of searches, however their patterns are written.

use std::os::unix::fs::symlink;

use super::folder::{project, read};
use super::*;

#[test]
fn x81_a_filter_that_is_escaped_or_cannot_be_read_is_held() {
    let place = agents();
    let [project, _] = project(&place);
    let filters = [
        (r"\.env", true),
        (r".\env", true),
        (r".e\nv", true),
        (r"**/id_\rsa", true),
        (".[[:alpha:]]nv", true),
        (".[]e]nv", true),
        (".[e]nv.local", true),
        (".en?.local", true),
        (".e*.local", true),
        (".@(env)", true),
        (".+(e)nv", true),
        (".!(x)", true),
        (".e?(n)v", true),
        (".{e..f}nv", true),
        ("{.env", true),
        (".e{nv,${x}}", true),
        ("*.{ts,tsx}", false),
        ("app/[slug]/page.tsx", false),
        ("[a-z]*.rs", false),
    ];
    for (id, (filter, expected)) in filters.into_iter().enumerate() {
        let glob = serde_json::json!({ "pattern": filter });
        let grep = serde_json::json!({"pattern": "x", "glob": filter});
        for (more, tool, input) in [(0, "Glob", glob), (100, "Grep", grep)] {
            let (held, notes) = read(&place, &project, id + more, tool, &input);
            assert_eq!(held, expected, "{tool} {filter}: {notes}");
        }
    }
}

#[test]
fn x81_a_filter_is_followed_through_links() {
    let place = agents();
    let [project, ssh] = project(&place);
    std::fs::create_dir_all(project.join("src")).unwrap();
    symlink(&ssh, project.join("keys")).unwrap();
    symlink(&ssh, project.join("src/deep")).unwrap();
    let above = project.parent().unwrap();
    let glob = |pattern: &str, path: &str| serde_json::json!({"pattern": pattern, "path": path});
    let grep = |glob: &str| serde_json::json!({"pattern": "x", "glob": glob});
    for (id, (folder, tool, input, expected)) in [
        (&*project, "Glob", glob("keys/*", "."), true),
        (&project, "Glob", glob("**/x", "keys"), true),
        (&project, "Glob", glob("deep/*", "src"), true),
        (above, "Glob", glob("deep/*", "project/src"), true),
        (&project, "Glob", glob("{keys,src}/*", "."), true),
        (&project, "Glob", glob(r"k\eys/*", "."), true),
        (&project, "Grep", grep("keys/*"), true),
        (&project, "Glob", glob("src/*.rs", "."), false),
        (&project, "Grep", grep("*.rs"), false),
    ]
    .into_iter()
    .enumerate()
    {
        let (held, notes) = read(&place, folder, id, tool, &input);
        assert_eq!(held, expected, "{tool} {input} in {}: {notes}", folder.display());
    }
}
