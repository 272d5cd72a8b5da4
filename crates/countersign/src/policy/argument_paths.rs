//! The paths that each argument may mean, for conditions that use a variable such as `paths.file_path`.
//!
//! Each text in an argument may be a path: as written, resolved against the working folder if that is known, and with
//! links followed. Words within a longer text are not taken as paths, because the text may be the content of a file;
//! the file names in a patch are the exception.

use super::sensitive_paths;
use crate::json::{Node, Tree};
use crate::path_names;
use crate::working_folder::{HOME, WorkingFolder};

/// The name of each argument, with the paths that it may mean.
type Paths<'t> = Vec<(&'t str, Vec<String>)>;

/// Returns the paths that each argument may mean, or an error message if there are too many to compare.
pub(super) fn read<'t>(arguments: &'t Tree<'_>, folder: Option<&WorkingFolder>) -> Result<Paths<'t>, String> {
    let Node::Object(members) = &arguments.node else {
        return Ok(Vec::new());
    };
    let bases = sensitive_paths::bases(members);
    if bases.len() > path_names::MOST_BASES {
        return Err("the arguments name too many folders and paths to compare them all".to_owned());
    }
    let paths = members.iter().map(|(key, value)| {
        let mut texts = Vec::new();
        collect(value, &mut texts);
        let paths = texts.into_iter().flat_map(|text| readings(text, &bases, folder));
        (key.as_ref(), paths.collect())
    });
    Ok(paths.collect())
}

fn collect<'t>(value: &'t Tree<'_>, texts: &mut Vec<&'t str>) {
    match &value.node {
        Node::String(text) => {
            texts.push(text);
            texts.extend(path_names::patched_files(text));
        }
        Node::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Node::Object(members) => members.iter().for_each(|(key, value)| {
            texts.push(key);
            collect(value, texts);
        }),
        Node::Null | Node::Bool(_) | Node::Number => {}
    }
}

/// Returns the paths that a text may mean: as written, resolved against each possible base folder, and with links
/// followed; each of them also with `.` and `..` removed.
fn readings(text: &str, bases: &[String], folder: Option<&WorkingFolder>) -> Vec<String> {
    let targets = |path: &str| {
        let links = folder.into_iter().flat_map(WorkingFolder::links);
        let links = links.filter(move |link| link.path == path);
        links.map(|link| link.target.clone()).collect::<Vec<_>>()
    };
    let is_absolute = |path: &str| path.starts_with(['/', '\\', '~']);
    let working = folder.map(|folder| folder.path().to_owned());
    let mut folders: Vec<String> = working
        .iter()
        .flat_map(|path| targets(path))
        .chain(working.clone())
        .collect();
    for base in bases.iter().filter(|base| *base != text) {
        match is_absolute(base) {
            true => folders.push(base.clone()),
            false => folders.extend(working.iter().map(|working| format!("{working}/{base}"))),
        }
    }
    let url = text.strip_prefix("file://").filter(|path| path.starts_with('/'));
    let written = url.into_iter().chain([text]);
    let mut readings: Vec<String> = written.clone().map(str::to_owned).collect();
    for path in written.filter(|path| !is_absolute(path)) {
        readings.extend(folders.iter().map(|folder| format!("{folder}/{path}")));
    }
    if let Some(rest) = text.strip_prefix('~') {
        readings.extend(targets(HOME).into_iter().map(|home| format!("{home}{rest}")));
    }
    readings.extend(targets(text));
    let plain: Vec<String> = readings.iter().map(|path| without_dots(path)).collect();
    readings.extend(plain);
    readings.sort();
    readings.dedup();
    readings
}

/// Removes `.`, `..` and repeated slashes from the text of a path.
fn without_dots(path: &str) -> String {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", names.join("/"))
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
            let found = read(&tree, folder).unwrap();
            assert_eq!(
                found,
                [("x", expected.iter().map(|&path| path.to_owned()).collect())]
            );
        };
        let folder = Some(&folder);
        let many = format!(
            "{{\"cwd\":[{}]}}",
            vec!["\"d\""; path_names::MOST_BASES + 1].join(",")
        );
        let many = Tree::read(many.as_bytes(), TopLevel::Object).unwrap();
        assert!(
            read(&many, folder).is_err(),
            "a folder must not hide behind others"
        );
        check(r#""a""#, None, &["a"]);
        check(r#""a""#, folder, &["/k/a", "/real/a", "/w/a", "a"]);
        check(r#""see a""#, folder, &["/real/see a", "/w/see a", "see a"]);
        check(
            r#""../b/./c""#,
            folder,
            &["../b/./c", "/b/c", "/real/../b/./c", "/w/../b/./c", "b/c"],
        );
        check(r#""/w/..//b""#, folder, &["/b", "/w/..//b"]);
        check(
            r#""file:///b""#,
            folder,
            &[
                "/b",
                "/real/file:///b",
                "/real/file:/b",
                "/w/file:///b",
                "/w/file:/b",
                "file:///b",
                "file:/b",
            ],
        );
        check(r#"["/b"]"#, folder, &["/b"]);
        check(r#"{"/b":1}"#, folder, &["/b"]);
        check("1", folder, &[]);
        let patch = r#""*** Begin Patch\n*** Update File: /b\n+a: /c\n*** Move to: /d\n""#;
        let text = "*** Begin Patch\n*** Update File: /b\n+a: /c\n*** Move to: /d\n";
        check(patch, None, &[text, "/b", "/d"]);
    }
}
