//! Finds the filters and tests in a template that do not exist, with their offsets.
//!
//! The template engine reports an unknown name only when it renders, that is when a person is about to be asked. Names
//! of variables are checked in `template`.

use minijinja::{Environment, ErrorKind};

/// Name of a filter or test that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownName {
    /// `filter` or `test`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Byte offset in the template.
    pub(super) at: usize,
}

/// Returns the unknown filters and tests of a template that compiles.
pub(super) fn unknown_names(template: &str) -> Vec<UnknownName> {
    let environment = Environment::new();
    let mut state = environment.empty_state();
    let named = code(template).flat_map(|(at, code)| {
        // The offset is that of the code, after `{%`.
        let is_block = template.as_bytes().get(at - 1) == Some(&b'%');
        named_in(at, code, is_block)
    });
    named
        .filter(|named| {
            // A known filter or test that is called without arguments fails too, but with another kind of error.
            let problem = match named.kind {
                "filter" => state.apply_filter(&named.name, &[]).err(),
                _ => state.perform_test(&named.name, &[]).err(),
            };
            let kinds = [ErrorKind::UnknownFilter, ErrorKind::UnknownTest];
            problem.is_some_and(|problem| kinds.contains(&problem.kind()))
        })
        .collect()
}

/// Returns the insides of `{{ … }}` and `{% … %}`, with their offsets. Comments and raw blocks are left out.
fn code(template: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let mut is_raw = false;
    std::iter::from_fn(move || {
        loop {
            let rest = template.get(at..)?;
            let start = at + rest.find('{')?;
            let opened = template.get(start..)?;
            let end = match opened.as_bytes().get(1) {
                Some(b'{') => "}}",
                Some(b'%') => "%}",
                Some(b'#') => "#}",
                _ => {
                    at = start + 1;
                    continue;
                }
            };
            let inside = opened.get(2..)?;
            let length = match end {
                "#}" => inside.find(end),
                _ => end_of_code(inside, end),
            };
            let inside = inside.get(..length?)?;
            at = start + 2 + inside.len() + 2;
            let word = inside.trim_matches(['-', '+', ' ']);
            match (end, word) {
                ("%}", "raw") => is_raw = true,
                ("%}", "endraw") => is_raw = false,
                ("#}", _) => {}
                _ if is_raw => {}
                _ => return Some((start + 2, inside)),
            }
        }
    })
}

/// Returns the offset of the first `end` that is not inside a string literal; `None` if there is none.
fn end_of_code(code: &str, end: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, letter) in code.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if code.get(at..).is_some_and(|rest| rest.starts_with(end)) => return Some(at),
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None => {}
        }
    }
    None
}

/// Returns the filters and tests in a piece of code: after `|`, after `is` or `is not`, and in `{% filter NAME %}`.
fn named_in(offset: usize, code: &str, is_block: bool) -> Vec<UnknownName> {
    let mut found = Vec::new();
    let mut kind = None;
    let mut last = "";
    for (at, token) in tokens(code) {
        match (kind, token) {
            (Some("test"), "not") => {}
            (Some(kind), name) => {
                found.push(UnknownName {
                    kind,
                    name: name.to_owned(),
                    at: offset + at,
                });
            }
            (None, _) => {}
        }
        kind = match token {
            "|" => Some("filter"),
            // In `x.is`, `is` is the name of a member.
            "is" if last != "." => Some("test"),
            "not" if kind == Some("test") => Some("test"),
            "filter" if is_block && last.is_empty() => Some("filter"),
            _ => None,
        };
        last = match token {
            "-" | "+" if last.is_empty() => "",
            token => token,
        };
    }
    let is_name = |named: &UnknownName| named.name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    found.retain(is_name);
    found
}

/// Splits code into names and single other characters, each with its offset. Whitespace is skipped, and a string
/// literal becomes `""`.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = code.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = code.get(at..).unwrap_or_default();
        let length = match first {
            '"' | '\'' => {
                let inside = rest.get(1..).unwrap_or_default();
                let quote = if first == '"' { "\"" } else { "'" };
                let length = string_length(inside, quote);
                tokens.push((at, "\"\""));
                length + 1
            }
            first if is_letter(first) => rest.find(|c: char| !is_letter(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        if is_letter(first) || !(first.is_whitespace() || first == '"' || first == '\'') {
            tokens.extend(rest.get(..length).map(|token| (at, token)));
        }
        at += length.max(1);
    }
    tokens
}

/// Returns the length of a string after its opening quote, including the closing one.
fn string_length(inside: &str, quote: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if inside.get(at..).is_some_and(|rest| rest.starts_with(quote)) => return at + quote.len(),
            _ => {}
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, expected: &[(&str, &str)]) {
        let found = unknown_names(template);
        let names: Vec<(&str, &str)> = found
            .iter()
            .map(|found| (found.kind, found.name.as_str()))
            .collect();
        assert_eq!(names, expected, "{template}");
        for found in &found {
            assert!(template[found.at..].starts_with(&found.name), "{template}");
        }
    }

    #[test]
    fn unknown_filters_and_tests_are_found() {
        check("{{ args.x | nosuch }}", &[("filter", "nosuch")]);
        check("{{ args.x|upper|nosuch(1) }}", &[("filter", "nosuch")]);
        check("a {{ x }} b {{- (y | nosuch) -}}", &[("filter", "nosuch")]);
        check("{% if x | nosuch %}{% endif %}", &[("filter", "nosuch")]);
        check("{% filter nosuch %}x{% endfilter %}", &[("filter", "nosuch")]);
        check(
            "{{ x if x is nosuch else y is not other }}",
            &[("test", "nosuch"), ("test", "other")],
        );
        check("{{ '}}' ~ x | nosuch }}", &[("filter", "nosuch")]);
    }

    #[test]
    fn known_names_and_other_text_are_not() {
        for template in [
            "",
            "a | nosuch",
            "{ | nosuch }",
            "{# {{ x | nosuch }} #}",
            "{% raw %}{{ x | nosuch }}{% endraw %}",
            "{{ 'x | nosuch' }} {{ \"is nosuch\" }}",
            "{{ 'it\\'s | nosuch' }}",
            "{{ x | upper | default('-') | join(', ') | length }}",
            "{{ x is defined }} {{ x is not none }} {{ x is string and y is number }}",
            "{{ filter if filter else filter }}",
            "{{ x.is }} {{ x.filter }} {{ list | map('upper') }}",
            "{% filter upper %}x{% endfilter %}",
            "{% for item in items if item is odd %}{{ item }}{% endfor %}",
        ] {
            check(template, &[]);
        }
    }
}
