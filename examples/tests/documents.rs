//! Checks the documents against the tree: every code used in a test name or comment is defined, and the policy
//! reference lists every key.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is wrong"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use countersign::policy::Policy;

/// Letters of codes, and the document that defines them.
const DOCUMENTS: [(&str, &str); 2] = [("XIFHK", "threats.md"), ("ABCDE", "requirements.md")];

#[test]
fn every_code_in_the_tree_is_defined() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut used: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in source_files(root) {
        let text = fs::read_to_string(&file).unwrap();
        for code in codes_in(&text) {
            used.entry(code).or_insert_with(|| file.clone());
        }
    }
    assert!(used.contains_key("X54"), "the scan found nothing");

    let mut defined = BTreeSet::new();
    for (letters, document) in DOCUMENTS {
        let text = fs::read_to_string(root.join("docs").join(document)).unwrap();
        defined.extend(upper_case_codes(&text, letters));
    }
    let missing: Vec<_> = used.iter().filter(|(code, _)| !defined.contains(*code)).collect();
    assert!(missing.is_empty(), "codes without a definition: {missing:?}");
}

#[test]
fn the_policy_reference_has_every_key_and_no_other() {
    let reference = document("policy.md");
    let sections = [
        ("`[tools.NAME]`", "[tools.t]\neffect = 'read'\n"),
        ("`[channel]`", "[channel]\n"),
        ("`[agents]`", "[agents]\n"),
        ("`[surfaces]`", "[surfaces]\n"),
        ("`[places]`", "[places]\n"),
    ];
    for (heading, table) in sections {
        assert_eq!(
            documented_keys(&reference, heading),
            parser_keys(table),
            "{heading}"
        );
    }
}

#[test]
fn the_examples_of_the_policy_reference_use_every_key_and_parse() {
    let reference = document("policy.md");
    let examples: Vec<&str> = reference
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let policy = examples.concat();
    if let Err(problems) = Policy::parse(&policy) {
        panic!("{problems}");
    }
    for heading in [
        "`[tools.NAME]`",
        "`[channel]`",
        "`[agents]`",
        "`[surfaces]`",
        "`[places]`",
    ] {
        for key in documented_keys(&reference, heading) {
            let assignment = format!("\n{key} = ");
            assert!(policy.contains(&assignment), "no example uses `{key}`");
        }
    }
}

fn document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join("docs").join(name)).unwrap()
}

/// Returns the keys in the first column of the first table below a heading.
fn documented_keys(reference: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = reference.split_once(&format!("## {heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    lines
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect()
}

/// Returns the keys that the parser knows in a table, taken from its error about an unknown key.
fn parser_keys(table: &str) -> BTreeSet<String> {
    let unknown = "q".repeat(30);
    let problems = Policy::parse(&format!("{table}{unknown} = 1\n"))
        .unwrap_err()
        .to_string();
    let (_, known) = problems.split_once("known here: ").unwrap();
    let known = known.lines().next().unwrap();
    known.split(", ").map(|key| key.trim().to_owned()).collect()
}

/// Returns the Rust, SQL and shell sources below `root`, without build output.
fn source_files(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["crates", "examples", "scripts", "fuzz"]
        .map(|folder| root.join(folder))
        .to_vec();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_source = [".rs", ".sql"].iter().any(|ending| name.ends_with(ending));
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.is_file() && (is_source || folder.ends_with("scripts")) {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the codes in test names (`fn x54_...`) and, in upper case, in comments.
fn codes_in(text: &str) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for line in text.lines() {
        if let Some((_, name)) = line.split_once("fn ")
            && let Some((code, _)) = name.split_once('_')
            && is_code(&code.to_uppercase(), "ABCDEXIFHK")
            && code.chars().all(|letter| !letter.is_uppercase())
        {
            codes.insert(normal(&code.to_uppercase()));
        }
        if let Some((_, comment)) = line.split_once("//") {
            codes.extend(upper_case_codes(comment, "XIFHK"));
        }
    }
    codes
}

fn upper_case_codes(text: &str, letters: &str) -> BTreeSet<String> {
    text.split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| is_code(word, letters))
        .map(normal)
        .collect()
}

/// Returns true for one of these letters followed by a number from 1 to 199.
fn is_code(word: &str, letters: &str) -> bool {
    let mut rest = word.chars();
    rest.next().is_some_and(|first| letters.contains(first))
        && rest
            .as_str()
            .parse::<u8>()
            .is_ok_and(|number| (1..200).contains(&number))
}

/// Pads `X5` to `X05`, so that both forms are equal.
fn normal(code: &str) -> String {
    let (letter, number) = code.split_at(1);
    match number.parse::<u8>() {
        Ok(number) if letter == "X" || letter == "F" || letter == "H" => format!("{letter}{number:02}"),
        Ok(number) => format!("{letter}{number}"),
        Err(_) => panic!("`{code}` is no code"),
    }
}
