//! Checks the direction of imports: surfaces depend on the service, and never on each other.

#![expect(
    clippy::unwrap_used,
    reason = "this is a test; the exceptions in clippy.toml end at its helpers"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each module with the modules that it must not import.
const FORBIDDEN: [(&str, &[&str]); 9] = [
    (
        "webhooks",
        &[
            "web", "http", "inbox", "agents", "mcp", "hook", "chat", "terminal", "serve", "commands",
            "backend",
        ],
    ),
    (
        "service",
        &[
            "web", "http", "inbox", "agents", "mcp", "hook", "chat", "terminal", "serve", "commands",
            "backend",
        ],
    ),
    (
        "web",
        &[
            "http", "inbox", "agents", "mcp", "hook", "chat", "terminal", "serve", "commands", "backend",
        ],
    ),
    (
        "http",
        &[
            "inbox", "agents", "mcp", "hook", "chat", "terminal", "serve", "commands", "backend",
        ],
    ),
    (
        "inbox",
        &[
            "http", "agents", "mcp", "hook", "chat", "terminal", "serve", "commands", "backend",
        ],
    ),
    (
        "agents",
        &[
            "http", "inbox", "mcp", "hook", "chat", "terminal", "serve", "commands", "backend",
        ],
    ),
    (
        "mcp",
        &[
            "http", "inbox", "agents", "hook", "chat", "terminal", "serve", "commands",
        ],
    ),
    (
        "hook",
        &[
            "http", "inbox", "agents", "mcp", "chat", "terminal", "serve", "commands",
        ],
    ),
    (
        "view",
        &[
            "web", "http", "inbox", "agents", "mcp", "hook", "chat", "terminal", "serve", "commands",
            "backend",
        ],
    ),
];

#[test]
fn surfaces_never_import_each_other() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (module, forbidden) in FORBIDDEN {
        let mut files = Vec::new();
        list(&source.join(module), &mut files);
        assert!(!files.is_empty(), "there is no module `{module}`");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let imported = imports(&text);
            for name in forbidden.iter().filter(|name| imported.contains(**name)) {
                wrong.push(format!("{} imports `{name}`", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The service knows nothing of HTTP.
#[test]
fn the_service_does_not_use_axum() {
    let mut files = Vec::new();
    list(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/service"),
        &mut files,
    );
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let uses = ["axum", "hyper"].iter().find(|name| text.contains(**name));
        assert_eq!(uses, None, "{}", file.display());
    }
}

/// Returns the top-level modules that a file names after `crate::`, also in braces.
fn imports(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => _ = found.insert(rest.split(|c| !is_name(c)).next().unwrap_or_default()),
            Some(list) => {
                let mut depth = 0;
                let mut begin = 0;
                for (index, c) in list.char_indices() {
                    let ends = depth == 0 && (c == ',' || c == '}');
                    if ends {
                        let item = list[begin..index].trim();
                        found.insert(item.split(|c| !is_name(c)).next().unwrap_or_default());
                        begin = index + 1;
                    }
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => list(&path, files),
            false if path.extension().is_some_and(|kind| kind == "rs") => files.push(path),
            false => {}
        }
    }
}

#[test]
fn imports_are_found_in_braces_too() {
    let text =
        "use crate::{backend, http::{self, wire}, store};\nuse crate::web::App; let a = crate::mcp::b();";
    let found: Vec<&str> = imports(text).into_iter().collect();
    assert_eq!(found, ["backend", "http", "mcp", "store", "web"]);
}
