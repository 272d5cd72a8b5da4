//! The paths that an argument may mean, for conditions: `paths.file_path`.
//!
//! Input: a call's arguments, and its working folder if that is known. Output: for each argument the texts in it, each as
//! it is written, from the working folder, and where links lead.
//! Not here: words within a text, except for the files that a patch names. A word of a file's content is no path.

use crate::json::{Node, Tree};
use crate::working_folder::WorkingFolder;

/// Beginning of the lines with which a patch for Codex names its files: `*** Update File: src/a.rs`.
const PATCHED: &str = "*** ";

/// Returns the name of each argument with the paths that it may mean. Without a folder, these are the texts alone.
pub(super) fn read<'t>(
    arguments: &'t Tree<'_>,
    folder: Option<&WorkingFolder>,
) -> Vec<(&'t str, Vec<String>)> {
    let Node::Object(members) = &arguments.node else {
        return Vec::new();
    };
    let paths = members.iter().map(|(key, value)| {
        let mut texts = Vec::new();
        collect(value, &mut texts);
        let paths = texts.into_iter().flat_map(|text| readings(text, folder));
        (key.as_ref(), paths.collect())
    });
    paths.collect()
}

fn collect<'t>(value: &'t Tree<'_>, texts: &mut Vec<&'t str>) {
    match &value.node {
        Node::String(text) => {
            texts.push(text);
            let lines = text.lines().filter_map(|line| line.strip_prefix(PATCHED));
            texts.extend(lines.filter_map(|line| Some(line.split_once(':')?.1.trim())));
        }
        Node::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Node::Object(members) => members.iter().for_each(|(key, value)| {
            texts.push(key);
            collect(value, texts);
        }),
        Node::Null | Node::Bool(_) | Node::Number => {}
    }
}

fn readings(text: &str, folder: Option<&WorkingFolder>) -> Vec<String> {
    let mut readings = vec![text.to_owned()];
    let Some(folder) = folder else {
        return readings;
    };
    let targets = |path: &str| {
        let links = folder.links().iter().filter(move |link| link.path == path);
        links.map(|link| link.target.clone()).collect::<Vec<_>>()
    };
    if !text.starts_with(['/', '\\', '~']) {
        let folders = std::iter::once(folder.path().to_owned()).chain(targets(folder.path()));
        readings.extend(folders.map(|folder| format!("{folder}/{text}")));
    }
    readings.extend(targets(text));
    readings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::TopLevel;
    use crate::working_folder::Link;

    #[test]
    fn x81_an_argument_means_what_is_written_and_where_it_leads() {
        let link = |path: &str, target: &str| Link {
            path: path.to_owned(),
            target: target.to_owned(),
        };
        let links = vec![link("/w", "/real"), link("a", "/k/a")];
        let folder = WorkingFolder::new("/w", links).unwrap();
        let check = |argument: &str, folder: Option<&WorkingFolder>, expected: &[&str]| {
            let arguments = format!("{{\"x\":{argument}}}");
            let tree = Tree::read(arguments.as_bytes(), TopLevel::Object).unwrap();
            let found = read(&tree, folder);
            assert_eq!(
                found,
                [("x", expected.iter().map(|&path| path.to_owned()).collect())]
            );
        };
        let folder = Some(&folder);
        check(r#""a""#, None, &["a"]);
        check(r#""a""#, folder, &["a", "/w/a", "/real/a", "/k/a"]);
        check(r#""see a""#, folder, &["see a", "/w/see a", "/real/see a"]);
        check(r#"["/b"]"#, folder, &["/b"]);
        check(r#"{"/b":1}"#, folder, &["/b"]);
        check("1", folder, &[]);
        let patch = r#""*** Begin Patch\n*** Update File: /b\n+a: /c\n*** Move to: /d\n""#;
        let text = "*** Begin Patch\n*** Update File: /b\n+a: /c\n*** Move to: /d\n";
        check(patch, None, &[text, "/b", "/d"]);
    }
}
