//! Which values a call's sentence says, told from the template's own text.
//!
//! Enters: a template when the policy is read; later a call's arguments. Leaves: the pointers of the values that stand
//! in the sentence whole and unchanged. Every other value is listed below the sentence.
//!
//! INVARIANT: a value counts as said only if that is certain. What this does not understand (loops, filters, other
//! conditions) counts as not said, which lists a value twice and hides none.

use std::collections::HashSet;

use super::{MAX_ITEMS, MAX_VALUE_CHARS, to_value};
use crate::display::{clip, escape};
use crate::json::{Node, Tree, push_segment};

/// What a template is certain to print.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prints(Vec<Print>);

/// One `{{ path }}`, and the paths that must be truthy for it to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Print {
    path: Vec<String>,
    within: Vec<Vec<String>>,
}

/// The values that a sentence says.
#[derive(Debug)]
pub(crate) enum Said {
    /// All of them.
    All,
    /// Those at these pointers, escaped as rows have them.
    These(HashSet<String>),
}

impl Said {
    /// Nothing is said.
    pub(crate) fn nothing() -> Said {
        Said::These(HashSet::new())
    }

    /// Returns true if the sentence says the value of the row at this pointer.
    pub(crate) fn says(&self, pointer: &str) -> bool {
        match self {
            Said::All => true,
            Said::These(pointers) => pointers.contains(pointer),
        }
    }
}

/// What surrounds a place in a template.
enum Block {
    /// `{% if path %}`
    If(Vec<String>),
    /// A branch or a loop that may not be reached.
    Unclear,
}

impl Prints {
    /// Reads a template that compiles.
    pub(crate) fn read(template: &str) -> Prints {
        read(template).map(Prints).unwrap_or_default()
    }

    /// Returns the values that are said of these arguments, whose secrets are hidden already.
    pub(crate) fn said(&self, arguments: &Tree<'_>) -> Said {
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
                Node::Array(items) if is_plain_list(items) => {
                    pointers
                        .extend((0..items.len()).map(|at| escape(&format!("{pointer}/{at}")).into_owned()));
                }
                _ if prints_whole(value) => {
                    pointers.insert(escape(&pointer).into_owned());
                }
                _ => {}
            }
        }
        Said::These(pointers)
    }
}

/// Nothing when something in the template could make the reading wrong.
fn read(template: &str) -> Option<Vec<Print>> {
    let mut prints = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let from = rest.get(at..)?;
        let (inside, kind) = match from.get(..2) {
            Some("{{") => (inside(from, "}}")?, '{'),
            Some("{%") => (inside(from, "%}")?, '%'),
            Some("{#") => (inside(from, "#}")?, '#'),
            _ => {
                rest = from.get(1..)?;
                continue;
            }
        };
        rest = from.get(inside.len() + 4..)?;
        let words = inside.trim_matches(['-', '+']).trim();
        // Where a text begins, the end that was found may stand inside of it.
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
                if let (Some(path), Some(within)) = (path(words), within) {
                    prints.push(Print { path, within });
                }
            }
            '%' => follow(words, &mut blocks)?,
            _ => {}
        }
    }
    blocks.is_empty().then_some(prints)
}

fn inside<'t>(from: &'t str, end: &str) -> Option<&'t str> {
    let rest = from.get(2..)?;
    rest.get(..rest.find(end)?)
}

/// Follows a tag; nothing when it is one that changes what names mean.
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

/// `name` or `address.city`, also behind `args.`; nothing for any other expression.
fn path(expression: &str) -> Option<Vec<String>> {
    let is_name = |name: &str| {
        let mut characters = name.chars();
        let is_first = |character: char| character.is_ascii_alphabetic() || character == '_';
        characters.next().is_some_and(is_first)
            && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    let mut names: Vec<&str> = expression.split('.').collect();
    // An argument of that name would hide all of them.
    if names.first() == Some(&"args") {
        names.remove(0);
    }
    // Keywords, and what the read before answered.
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

/// As a template's `if` has it.
fn is_true(tree: &Tree<'_>) -> bool {
    to_value(tree, &|_| None).is_some_and(|value| value.is_true())
}

/// A list whose items can be told apart in a sentence.
fn is_plain_list(items: &[Tree<'_>]) -> bool {
    let is_plain = |item: &Tree<'_>| prints_whole(item) && !item.text().contains(", ");
    (1..=MAX_ITEMS).contains(&items.len()) && items.iter().all(is_plain)
}

/// Whether a template prints a value as it is, to the last character.
fn prints_whole(tree: &Tree<'_>) -> bool {
    match &tree.node {
        Node::String(text) => !text.is_empty() && !clip(text, MAX_VALUE_CHARS).is_clipped(),
        Node::Bool(_) | Node::Null => true,
        Node::Number => to_value(tree, &|_| None).is_some_and(|value| value.to_string() == *tree.raw),
        Node::Array(_) | Node::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Top;

    #[track_caller]
    fn check(template: &str, arguments: &str, expected: &[&str]) {
        let tree = Tree::read(arguments.as_bytes(), Top::Object).unwrap();
        let Said::These(said) = Prints::read(template).said(&tree) else {
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
        // An empty text leaves nothing to see.
        check("{{ e }}", all, &[]);
        check("{% if a %}, {{ a }}{% endif %}", all, &["/a"]);
        check("{% if e %}, {{ a }}{% endif %}", all, &[]);
        check(
            "{% if a %}{% if e %}{{ d }}{% endif %}{{ a }}{% endif %}",
            all,
            &["/a"],
        );
        // What may not be reached, or is changed on its way, is not said.
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
        check("{{ a }} {{ b }} {{ c }} {{ e }}", list, &["/a/0", "/a/1"]);
        let many = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(20));
        check("{{ a }}", &many, &[]);
    }
}
