//! Filters of searches, however their patterns are written.

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
