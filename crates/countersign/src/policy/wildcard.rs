//! Compares components of paths that may contain wildcards, classes and braces.
//!
//! A component of a pattern for sensitive files, in which only `*` is special, is compared with a component of a path
//! that a call names. The question is whether both could mean the same file. Syntax that tools interpret differently
//! counts as a match or is reported as unreadable.

use std::borrow::Cow;

use super::sensitive_paths::MOST_NAMES;

/// Maximum length in characters of a path component whose wildcards are compared; a longer one counts as a match.
const LONGEST_WILD: usize = 1024;

/// Extensions of ordinary files that some sensitive files have, too: `Cargo.toml` and `secrets.toml`.
const ORDINARY: [&str; 4] = ["json", "php", "toml", "yml"];

/// Returns true for a filter that asks for all files of an ordinary kind: `*.toml`.
pub(super) fn is_ordinary_filter(name: &str) -> bool {
    let rest = name.trim_start_matches('*');
    let extension = rest.strip_prefix('.').filter(|_| rest.len() < name.len());
    extension.is_some_and(|extension| ORDINARY.contains(&extension))
}

/// Returns a path without the wildcards and filters for ordinary files at its end.
pub(super) fn without_wildcards<'p, 'n>(path: &'p [&'n str]) -> &'p [&'n str] {
    let last = path
        .iter()
        .rposition(|name| !is_plain_wildcard(name) && !is_ordinary_filter(name));
    path.get(..last.map_or(0, |at| at + 1)).unwrap_or_default()
}

/// Returns true if a component of a pattern and a component of a path could mean the same file. If the path component
/// is mostly wildcards, it is compared with the shortest name that the pattern matches. So `*.ts` is not the same as
/// `.env*`, although both match `.env.ts`.
pub(super) fn is_same(pattern: &str, name: &str) -> bool {
    if matches(pattern, name) {
        return true;
    }
    // `~*` would match every name that begins with a wildcard.
    if !name.contains(['*', '?', '[']) || pattern.starts_with('~') {
        return false;
    }
    let shortest = || match pattern.starts_with('*') {
        true => Cow::Owned(format!("x{}", pattern.replace('*', ""))),
        false => Cow::Owned(pattern.replace('*', "")),
    };
    // `.*` and the like match hidden files, which most patterns are about.
    let is_hidden =
        || name.starts_with('.') && name.trim_start_matches('.').chars().all(|c| "*?".contains(c));
    matches(name, &shortest()) || pattern.starts_with('.') && is_hidden() || is_overlap(pattern, name)
}

/// Returns true if some name matches both a pattern and a path component with wildcards, and the component fixes enough
/// of that name's beginning or end to refer to it; `*a*` fixes neither.
fn is_overlap(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = one_for_each_class(pattern);
    let name: Vec<char> = one_for_each_class(name);
    let is_star = |c: &char| *c == '*';
    let head: Vec<&char> = name.iter().take_while(|c| !is_star(c)).collect();
    let end = |text: &[char]| text.iter().rev().take_while(|c| !is_star(c)).count();
    let says_enough = match pattern.first() {
        _ if head.len() == name.len() => true,
        Some('*') => end(&pattern) > 0 && end(&name) >= end(&pattern),
        _ => head.first() == Some(&&'.') || head.len() > 1 && head.iter().any(|c| **c != '?'),
    };
    says_enough && (name.len() > LONGEST_WILD || have_common_name(&pattern, &name))
}

/// Returns true if some name matches both patterns of `*` and `?`.
fn have_common_name(one: &[char], other: &[char]) -> bool {
    // One row of a dynamic-programming table, built from the ends of both patterns: entry `j` says whether the rest of
    // `one` and the rest of `other` from `j` on match a common name.
    let stars = other.iter().rev().take_while(|c| **c == '*').count();
    let mut row: Vec<bool> = (0..=other.len()).map(|j| j + stars >= other.len()).collect();
    for c in one.iter().rev() {
        let mut is_common = *c == '*' && row.last().is_some_and(|last| *last);
        let mut above = vec![is_common];
        for (d, pair) in other.iter().zip(row.windows(2)).rev() {
            let [same, next] = pair else { continue };
            is_common = match (*c, *d) {
                ('*', _) | (_, '*') => *same || is_common,
                (c, d) => (c == d || c == '?' || d == '?') && *next,
            };
            above.push(is_common);
        }
        above.reverse();
        row = above;
    }
    row.first().is_some_and(|first| *first)
}

/// Returns true if braces are left that were not expanded, other than those of a variable (`${x}`).
pub(super) fn has_brace(name: &str) -> bool {
    let mut before = None;
    name.chars().any(|c| {
        let is_brace = c == '{' && before != Some('$');
        before = Some(c);
        is_brace
    })
}

/// Returns true if a component has a class `[…]` that tools read in different ways: one that does not end, or with a
/// bracket or a backslash in it.
pub(super) fn has_unreadable_class(name: &str) -> bool {
    // Web frameworks use file names such as `[[...slug]]`. Read as a class, such a name matches no sensitive file.
    let optional = name
        .strip_prefix("[[...")
        .and_then(|rest| rest.strip_suffix("]]"));
    if optional.is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c))) {
        return false;
    }
    let mut rest = name;
    while let Some((_, class)) = rest.split_once('[') {
        let class = class.strip_prefix(['!', '^']).unwrap_or(class);
        match class.split_once(']') {
            Some((inside, after)) if !inside.is_empty() && !inside.contains(['[', '\\']) => rest = after,
            _ => return true,
        }
    }
    false
}

/// Returns true for a wildcard that says nothing about the names it matches: `*`, `**`, `*.*`.
pub(super) fn is_plain_wildcard(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && name.chars().all(|c| "*?.".contains(c))
}

/// Returns true if a name matches a glob of `*`, `?` and `[…]`; a class `[…]` matches any one character.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = one_for_each_class(pattern);
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut of, mut star) = (0, 0, None);
    while at < name.len() {
        match (pattern.get(of), name.get(at)) {
            (Some('*'), _) => {
                star = Some((of, at));
                of += 1;
            }
            (Some('?'), _) => (at, of) = (at + 1, of + 1),
            (Some(wanted), Some(found)) if wanted == found => (at, of) = (at + 1, of + 1),
            _ => match star {
                Some((star_of, star_at)) => {
                    star = Some((star_of, star_at + 1));
                    (at, of) = (star_at + 1, star_of + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(of..).unwrap_or_default().iter().all(|c| *c == '*')
}

fn one_for_each_class(pattern: &str) -> Vec<char> {
    let mut simple = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let class = rest
            .strip_prefix('[')
            .and_then(|inside| inside.find(']').map(|end| end + 2));
        let length = class.unwrap_or(first.len_utf8());
        simple.push(if class.is_some() { '?' } else { first });
        rest = rest.get(length..).unwrap_or_default();
    }
    simple
}

/// Expands all brace alternatives; `None` if there are more than [`MOST_NAMES`], or a range.
pub(super) fn alternatives(text: &str) -> Option<Vec<String>> {
    let mut names = vec![text.to_owned()];
    let mut done = Vec::new();
    while let Some(name) = names.pop() {
        if names.len() + done.len() > MOST_NAMES {
            return None;
        }
        // Expand the innermost pair first, so that nested braces are expanded too.
        let close = name.find('}');
        let open = close.and_then(|close| name.get(..close).and_then(|before| before.rfind('{')));
        let parts = open
            .zip(close)
            .filter(|(open, _)| !name.get(..*open).is_some_and(|before| before.ends_with('$')));
        match parts.and_then(|(open, close)| {
            Some((
                name.get(..open)?,
                name.get(open + 1..close)?,
                name.get(close + 1..)?,
            ))
        }) {
            // A range: `{a..z}`.
            Some((_, inside, _)) if inside.contains("..") && !inside.contains(',') => return None,
            Some((before, inside, after)) => {
                names.extend(inside.split(',').map(|choice| format!("{before}{choice}{after}")));
            }
            None => done.push(name),
        }
    }
    Some(done)
}
