//! Finds the values that a call's summary contains, from the text of its template.
//!
//! A template is analysed when the policy is read. Applied to a call's arguments, the analysis gives the pointers of
//! the values that the summary shows whole and unchanged. All other values are listed below the summary.
//!
//! INVARIANT: a value counts as shown only if that is certain. Anything that is not understood (loops, filters, other
//! conditions) counts as not shown, which shows a value twice but hides none.

use std::collections::HashSet;

use super::{MAX_ITEMS, MAX_VALUE_CHARS, to_value};
use crate::display::{clip, escape, needs_quotes};
use crate::json::{Node, Tree, push_segment};

/// The values that a template is certain to print.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateOutput(Vec<Print>);

/// One `{{ path }}`, and the paths that must be truthy for it to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Print {
    path: Vec<String>,
    within: Vec<Vec<String>>,
    /// Fixed texts of the template between this value and the last printed value, trimmed. A value that contains one of
    /// these texts could look like two values.
    until_last: Vec<String>,
}

impl Print {
    /// Returns true if this text, printed as the value, cannot be mistaken for several values.
    fn is_clear(&self, text: &str) -> bool {
        let may_end = |words: &String| match words.is_empty() {
            true => text.contains(char::is_whitespace),
            false => text.contains(words.as_str()),
        };
        !self.until_last.iter().any(may_end)
    }
}

/// The values that a summary contains.
#[derive(Debug)]
pub(crate) enum ShownValues {
    /// All values.
    All,
    /// The values at these pointers, escaped as in rows.
    These(HashSet<String>),
}

impl ShownValues {
    /// Returns the empty set.
    pub(crate) fn nothing() -> ShownValues {
        ShownValues::These(HashSet::new())
    }

    /// Returns true if the summary contains the value of the row at this pointer.
    pub(crate) fn includes(&self, pointer: &str) -> bool {
        match self {
            ShownValues::All => true,
            ShownValues::These(pointers) => pointers.contains(pointer),
        }
    }
}

/// Block of a template that encloses the current position.
enum Block {
    /// `{% if path %}`, with the segments of the path.
    If(Vec<String>),
    /// A branch or loop that may not be reached.
    Unclear,
}

impl TemplateOutput {
    /// Analyses a template that compiles. If it cannot be analysed, no value counts as shown.
    pub(crate) fn read(template: &str) -> TemplateOutput {
        read(template).map(TemplateOutput).unwrap_or_default()
    }

    /// Returns the values that the template prints for these arguments, in which secrets must be hidden already.
    pub(crate) fn shown_values(&self, arguments: &Tree<'_>) -> ShownValues {
        let mut pointers = HashSet::new();
        for print in &self.0 {
            let is_reached = |path: &Vec<String>| find(arguments, path).is_some_and(is_true);
            if !print.within.iter().all(is_reached) {
                continue;
            }
            let Some(value) = find(arguments, &print.path) else {
                continue;
            };
            let mut pointer = String::new();
            print.path.iter().for_each(|key| push_segment(&mut pointer, key));
            match &value.node {
                Node::Array(items) if is_plain_list(items) && print.is_clear(&list_text(items)) => {
                    pointers
                        .extend((0..items.len()).map(|at| escape(&format!("{pointer}/{at}")).into_owned()));
                }
                _ if prints_whole(value) && print.is_clear(value.text()) => {
                    pointers.insert(escape(&pointer).into_owned());
                }
                _ => {}
            }
        }
        ShownValues::These(pointers)
    }
}

/// Returns the values that a template prints; `None` if something in the template could make the analysis wrong.
fn read(template: &str) -> Option<Vec<Print>> {
    let mut prints: Vec<Print> = Vec::new();
    // Fixed texts between printed values, and how many of them there were when each entry of `prints` was added.
    let mut words_between: Vec<String> = Vec::new();
    let mut words_before: Vec<usize> = Vec::new();
    let mut words_at_last = 0;
    let mut literal = String::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let from = rest.get(at..)?;
        literal.push_str(rest.get(..at)?);
        let (inside, kind) = match from.get(..2) {
            Some("{{") => (inside(from, "}}")?, '{'),
            Some("{%") => (inside(from, "%}")?, '%'),
            Some("{#") => (inside(from, "#}")?, '#'),
            _ => {
                literal.push('{');
                rest = from.get(1..)?;
                continue;
            }
        };
        let is_print = kind == '{';
        // Whitespace counts as the separator of two values only if there is no other text between them.
        if is_print || !literal.trim().is_empty() {
            words_between.push(literal.trim().to_owned());
            literal.clear();
        }
        rest = from.get(inside.len() + 4..)?;
        let words = inside.trim_matches(['-', '+']).trim();
        // With a quotation mark inside, the end that was found may be part of a string.
        if kind != '#' && words.contains(['"', '\'']) {
            return None;
        }
        match kind {
            '{' => {
                let within: Option<Vec<_>> = blocks
                    .iter()
                    .map(|block| match block {
                        Block::If(path) => Some(path.clone()),
                        Block::Unclear => None,
                    })
                    .collect();
                words_at_last = words_between.len();
                if let (Some(path), Some(within)) = (path(words), within) {
                    words_before.push(words_at_last);
                    prints.push(Print {
                        path,
                        within,
                        until_last: Vec::new(),
                    });
                }
            }
            '%' => follow(words, &mut blocks)?,
            _ => {}
        }
    }
    for (print, from) in prints.iter_mut().zip(words_before) {
        print.until_last = words_between
            .get(from..words_at_last)
            .unwrap_or_default()
            .to_vec();
    }
    blocks.is_empty().then_some(prints)
}

fn inside<'t>(from: &'t str, end: &str) -> Option<&'t str> {
    let rest = from.get(2..)?;
    rest.get(..rest.find(end)?)
}

/// Applies a tag to the open blocks. Returns `None` for a tag that may change what names mean.
fn follow(words: &str, blocks: &mut Vec<Block>) -> Option<()> {
    let (tag, what) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    match tag {
        "if" => blocks.push(path(what.trim()).map_or(Block::Unclear, Block::If)),
        "for" => blocks.push(Block::Unclear),
        "elif" | "else" => {
            blocks.pop()?;
            blocks.push(Block::Unclear);
        }
        "endif" | "endfor" => {
            blocks.pop()?;
        }
        _ => return None,
    }
    Some(())
}

/// Parses `name` or `address.city`, optionally after `args.`; returns `None` for any other expression.
fn path(expression: &str) -> Option<Vec<String>> {
    let is_name = |name: &str| {
        let mut characters = name.chars();
        let is_first = |character: char| character.is_ascii_alphabetic() || character == '_';
        characters.next().is_some_and(is_first)
            && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    let mut names: Vec<&str> = expression.split('.').collect();
    // `args` is the set of all arguments, even if one of them is named `args`.
    if names.first() == Some(&"args") {
        names.remove(0);
    }
    // Keywords, and the snapshot.
    let is_other = |name: &&str| matches!(*name, "before" | "true" | "false" | "none" | "loop" | "self");
    let is_path = !names.is_empty() && names.iter().all(|name| is_name(name));
    (is_path && !names.first().is_some_and(is_other)).then(|| names.into_iter().map(str::to_owned).collect())
}

fn find<'t, 'a>(tree: &'t Tree<'a>, path: &[String]) -> Option<&'t Tree<'a>> {
    let Some((key, rest)) = path.split_first() else {
        return Some(tree);
    };
    let Node::Object(fields) = &tree.node else {
        return None;
    };
    let (_, below) = fields.iter().find(|(name, _)| name == key)?;
    find(below, rest)
}

/// Returns true if a template's `if` would accept the value.
fn is_true(tree: &Tree<'_>) -> bool {
    to_value(tree, &|_| None).is_some_and(|value| value.is_true())
}

/// Returns true if a summary shows the list unambiguously: each item can be told from the next, and the list from a
/// single text.
fn is_plain_list(items: &[Tree<'_>]) -> bool {
    let is_plain = |item: &Tree<'_>| prints_whole(item) && is_item(item.text());
    (2..=MAX_ITEMS).contains(&items.len()) && items.iter().all(is_plain)
}

/// Returns the list as a summary prints it. The separator counts, too: after `{{ name }}, {{ email }}`, two addresses look
/// like a name and an address.
fn list_text(items: &[Tree<'_>]) -> String {
    let texts: Vec<&str> = items.iter().map(|item| item.text()).collect();
    texts.join(", ")
}

fn is_item(text: &str) -> bool {
    !text.is_empty() && !text.contains(|character: char| character.is_whitespace() || character == ',')
}

/// Returns true if a text looks like a list in a summary.
fn is_like_list(text: &str) -> bool {
    text.contains(", ") && text.split(", ").all(is_item)
}

/// Returns true if a template prints a value to the last character and no other value looks the same.
fn prints_whole(tree: &Tree<'_>) -> bool {
    match &tree.node {
        Node::String(text) => {
            !needs_quotes(text) && !is_like_list(text) && !clip(text, MAX_VALUE_CHARS).is_clipped()
        }
        Node::Bool(_) | Node::Null => true,
        Node::Number => to_value(tree, &|_| None).is_some_and(|value| value.to_string() == *tree.raw),
        Node::Array(_) | Node::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::TopLevel;

    #[track_caller]
    fn check(template: &str, arguments: &str, expected: &[&str]) {
        let tree = Tree::read(arguments.as_bytes(), TopLevel::Object).unwrap();
        let ShownValues::These(said) = TemplateOutput::read(template).shown_values(&tree) else {
            panic!("these");
        };
        let mut said: Vec<&str> = said.iter().map(String::as_str).collect();
        said.sort_unstable();
        assert_eq!(said, expected, "{template} over {arguments}");
    }

    #[test]
    fn x56_only_what_is_certainly_printed_counts_as_said() {
        let all = r#"{"a":"x","b":{"c":1},"d":true,"e":""}"#;
        check("{{ a }} and {{b.c}}{{- args.d -}}", all, &["/a", "/b/c", "/d"]);
        // An empty text shows nothing.
        check("{{ e }}", all, &[]);
        check("{% if a %}, {{ a }}{% endif %}", all, &["/a"]);
        check("{% if e %}, {{ a }}{% endif %}", all, &[]);
        check(
            "{% if a %}{% if e %}{{ d }}{% endif %}{{ a }}{% endif %}",
            all,
            &["/a"],
        );
        // Values that may not be reached, or are changed before they are printed.
        for template in [
            "{% if not a %}{{ a }}{% endif %}",
            "{% if e %}y{% else %}{{ a }}{% endif %}",
            "{% for a in b %}{{ a }}{% endfor %}",
            "{{ a|upper }}",
            "{{ a[0] }}",
            "{# {{ a }} #}",
            "{% set a = d %}{{ a }}",
            "{% raw %}{{ a }}{% endraw %}",
            "{{ \"}} {{ a }}\" }}",
            "{{ b }}",
            "{{ before.a }}",
            "a { a } {{ missing }}",
        ] {
            check(template, all, &[]);
        }
    }

    #[test]
    fn x56_a_value_that_is_cut_or_rewritten_is_not_said() {
        let long = format!(r#"{{"a":"{}","n":1e2,"m":100}}"#, "x".repeat(301));
        check("{{ a }} {{ n }} {{ m }}", &long, &["/m"]);
        let list = r#"{"a":["x","y"],"b":["x, y"],"c":[{"d":1}],"e":[]}"#;
        check("{{ a }} / {{ b }} / {{ c }} / {{ e }}", list, &["/a/0", "/a/1"]);
        check("{{ a }} {{ b }}", list, &[]);
        check("{{ a }}, {{ b }}", r#"{"a":["x","y"],"b":"z"}"#, &["/b"]);
        check(
            "{{ a }}, {{ b }}",
            r#"{"a":"x","b":["y","z"]}"#,
            &["/a", "/b/0", "/b/1"],
        );
        check("{{ a }} for {{ b }}", list, &["/a/0", "/a/1"]);
        let many = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(20));
        check("{{ a }}", &many, &[]);
    }
}
