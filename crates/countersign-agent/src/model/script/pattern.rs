//! Patterns of scripts: a sentence with places, as in `create a contact for {name} at {company}`.
//!
//! A pattern matches a whole message, whatever its case and its last full stop. `{name}` takes some text, as little as
//! will do, and `*` takes any, also none.

use std::collections::{BTreeMap, HashSet};

/// The most characters of a message that is matched.
const LONGEST: usize = 1_000;

/// A sentence with places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// One or more blanks.
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

    /// What its places took, if it matches the whole text.
    pub(super) fn matches(&self, text: &str) -> Option<BTreeMap<String, String>> {
        let text: Vec<char> = text.trim().trim_end_matches(['.', '!', '?']).chars().collect();
        if text.len() > LONGEST {
            return None;
        }
        let mut walk = Walk {
            text: &text,
            failed: HashSet::new(),
            taken: BTreeMap::new(),
        };
        walk.from(&self.0, 0).then_some(walk.taken)
    }
}

struct Walk<'a> {
    text: &'a [char],
    /// Where it is known that nothing goes on: keeps the search short, whatever the text.
    failed: HashSet<(usize, usize)>,
    taken: BTreeMap<String, String>,
}

impl Walk<'_> {
    fn from(&mut self, tokens: &[Token], at: usize) -> bool {
        let Some((token, rest)) = tokens.split_first() else {
            return at == self.text.len();
        };
        if self.failed.contains(&(tokens.len(), at)) {
            return false;
        }
        let found = match token {
            Token::Letter(letter) => {
                let is_same = |c: &char| c.to_lowercase().eq(letter.to_lowercase());
                self.text.get(at).is_some_and(is_same) && self.from(rest, at + 1)
            }
            Token::Blank => {
                let blanks = self
                    .text
                    .iter()
                    .skip(at)
                    .take_while(|c| c.is_whitespace())
                    .count();
                blanks > 0 && self.from(rest, at + blanks)
            }
            Token::Any => (at..=self.text.len()).any(|end| self.from(rest, end)),
            Token::Capture(name) => (at + 1..=self.text.len()).any(|end| {
                let is_blank = self.text.get(end - 1).is_none_or(|c| c.is_whitespace());
                // What ends in a blank is the same capture, one shorter.
                if is_blank || !self.from(rest, end) {
                    return false;
                }
                let taken: String = self.text.get(at..end).unwrap_or_default().iter().collect();
                self.taken.insert(name.clone(), taken.trim().to_owned());
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
        let taken = Pattern::parse(pattern).unwrap().matches(text);
        let expected = expected.map(|pairs| {
            let pairs = pairs
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        });
        assert_eq!(taken, expected, "`{pattern}` over `{text}`");
    }

    #[test]
    fn a_pattern_takes_what_stands_in_its_places() {
        let pattern = "create a contact for {name} at {company}, {email}";
        let maria = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";
        let taken: &[_] = &[
            ("company", "Acme Corp"),
            ("email", "maria@acme.com"),
            ("name", "Maria Garcia"),
        ];
        check(pattern, maria, Some(taken));
        check(pattern, &format!("  {maria}. "), Some(taken));
        check(pattern, "create a contact for Maria", None);
        check("delete*page*", "Delete the about page, please", Some(&[]));
        check("borra {lo}", "BORRA  todo", Some(&[("lo", "todo")]));
        check("sí", "SÍ!", Some(&[]));
        check("a {x} b", "a  b", None);
    }

    #[test]
    fn a_long_text_is_given_up_soon() {
        let text = "a ".repeat(490);
        check("{a} {b} {c} {d} {e} {f}!x", &text, None);
    }

    #[test]
    fn mistakes_are_found() {
        for bad in ["", "{", "{a b}", "{}"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
