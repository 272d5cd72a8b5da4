//! Patterns of scripts: a sentence with placeholders, such as `create a contact for {name} at {company}`.
//!
//! A pattern matches a whole message, ignoring case and trailing punctuation. `{name}` captures at least one character,
//! as few as possible; `*` matches any text, including none.

use std::collections::{BTreeMap, HashSet};

/// Maximum characters of a message; longer ones do not match.
const LONGEST_TEXT: usize = 1_000;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// One or more whitespace characters.
    Blank,
    Capture(String),
    Any,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Pattern, String> {
        let mut tokens = Vec::new();
        let mut rest = text.trim().chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '*' => tokens.push(Token::Any),
                '{' => {
                    let name: String = rest.by_ref().take_while(|c| *c != '}').collect();
                    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    if name.is_empty() || !name.chars().all(is_name) {
                        return Err(format!("`{{{name}}}` is not a place in the pattern `{text}`"));
                    }
                    tokens.push(Token::Capture(name));
                }
                c if c.is_whitespace() => {
                    while rest.peek().is_some_and(|c| c.is_whitespace()) {
                        rest.next();
                    }
                    tokens.push(Token::Blank);
                }
                c => tokens.push(Token::Letter(c)),
            }
        }
        match tokens.is_empty() {
            true => Err("a pattern is empty".to_owned()),
            false => Ok(Pattern(tokens)),
        }
    }

    /// Returns the captures if the pattern matches the whole text. A text longer than [`LONGEST_TEXT`] never matches.
    pub(super) fn matches(&self, text: &str) -> Option<BTreeMap<String, String>> {
        let text: Vec<char> = text.trim().trim_end_matches(['.', '!', '?']).chars().collect();
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let mut matcher = Matcher {
            text: &text,
            failed: HashSet::new(),
            captures: BTreeMap::new(),
        };
        matcher.matches_from(&self.0, 0).then_some(matcher.captures)
    }
}

struct Matcher<'a> {
    text: &'a [char],
    /// Positions (remaining tokens, offset) known not to match. Keeps backtracking polynomial.
    failed: HashSet<(usize, usize)>,
    captures: BTreeMap<String, String>,
}

impl Matcher<'_> {
    fn matches_from(&mut self, tokens: &[Token], at: usize) -> bool {
        let Some((token, rest)) = tokens.split_first() else {
            return at == self.text.len();
        };
        if self.failed.contains(&(tokens.len(), at)) {
            return false;
        }
        let found = match token {
            Token::Letter(letter) => {
                let is_same = |c: &char| c.to_lowercase().eq(letter.to_lowercase());
                self.text.get(at).is_some_and(is_same) && self.matches_from(rest, at + 1)
            }
            Token::Blank => {
                let blanks = self
                    .text
                    .iter()
                    .skip(at)
                    .take_while(|c| c.is_whitespace())
                    .count();
                blanks > 0 && self.matches_from(rest, at + blanks)
            }
            Token::Any => (at..=self.text.len()).any(|end| self.matches_from(rest, end)),
            Token::Capture(name) => (at + 1..=self.text.len()).any(|end| {
                let is_blank = self.text.get(end - 1).is_none_or(|c| c.is_whitespace());
                // A capture that ends in whitespace was already tried without it.
                if is_blank || !self.matches_from(rest, end) {
                    return false;
                }
                let capture: String = self.text.get(at..end).unwrap_or_default().iter().collect();
                self.captures.insert(name.clone(), capture.trim().to_owned());
                true
            }),
        };
        if !found {
            self.failed.insert((tokens.len(), at));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: Option<&[(&str, &str)]>) {
        let captures = Pattern::parse(pattern).unwrap().matches(text);
        let expected = expected.map(|pairs| {
            let pairs = pairs
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        });
        assert_eq!(captures, expected, "`{pattern}` over `{text}`");
    }

    #[test]
    fn placeholders_capture_text() {
        let pattern = "create a contact for {name} at {company}, {email}";
        let maria = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";
        let captures: &[_] = &[
            ("company", "Acme Corp"),
            ("email", "maria@acme.com"),
            ("name", "Maria Garcia"),
        ];
        check(pattern, maria, Some(captures));
        check(pattern, &format!("  {maria}. "), Some(captures));
        check(pattern, "create a contact for Maria", None);
        check("delete*page*", "Delete the about page, please", Some(&[]));
        check("borra {lo}", "BORRA  todo", Some(&[("lo", "todo")]));
        check("sí", "SÍ!", Some(&[]));
        check("a {x} b", "a  b", None);
    }

    #[test]
    fn a_long_text_fails_quickly() {
        let text = "a ".repeat(490);
        check("{a} {b} {c} {d} {e} {f}!x", &text, None);
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for bad in ["", "{", "{a b}", "{}"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
