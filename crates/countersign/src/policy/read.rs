//! Typed access to TOML values that records every mistake instead of stopping at the first.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, nearest};
use crate::duration;

/// The policy's text, with the mistakes found so far.
pub(super) struct Reader<'t> {
    text: &'t str,
    pub(super) problems: Vec<Problem>,
}

/// A string and its position in the policy.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) value: String,
    /// Byte offset of the value, including its quote.
    pub(super) start: usize,
    /// Byte offset of the first character after the quote; `None` if the string contains escapes.
    inside: Option<usize>,
}

impl Text {
    /// Converts a byte offset in this string to one in the policy. If the string contains escapes, returns the string's
    /// start.
    pub(super) fn at(&self, offset: usize) -> usize {
        self.inside
            .map_or(self.start, |inside| inside + offset.min(self.value.len()))
    }
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        Reader {
            text,
            problems: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, at: usize, message: impl Into<String>, hint: impl Into<String>) {
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self.problems
            .push(Problem::at(self.text, at, message.into(), hint));
    }

    /// Reports a template error at its position; `example` is a correct template for the hint.
    pub(super) fn bad_template(&mut self, text: &Text, error: &minijinja::Error, example: &str) {
        let detail = error
            .detail()
            .map(str::to_owned)
            .unwrap_or_else(|| error.kind().to_string());
        let at = text.at(error.range().map_or(0, |range| range.start));
        let hint = format!("templates look like `{example}`");
        self.problem(at, format!("bad template: {detail}"), hint);
    }

    /// Builds a warning, without recording it as a mistake.
    pub(super) fn notice(&self, at: usize, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::at(self.text, at, message.into(), Some(hint.into()))
    }

    /// Reports every key of `table` that is not in `known`.
    pub(super) fn only(&mut self, table: &DeTable<'_>, place: &str, known: &[&str]) {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            self.problem(key.span().start, format!("unknown key `{name}` in {place}"), hint);
        }
    }

    pub(super) fn table<'v, 'd>(
        &mut self,
        table: &'v DeTable<'d>,
        key: &str,
    ) -> Option<&'v Spanned<DeValue<'d>>> {
        let value = table.get(key)?;
        if !value.get_ref().is_table() {
            self.wrong_kind(key, value, "a table");
            return None;
        }
        Some(value)
    }

    pub(super) fn string(&mut self, table: &DeTable<'_>, key: &str) -> Option<Text> {
        let value = table.get(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(self.text_at(value, text)),
            None => {
                self.wrong_kind(key, value, "a string");
                None
            }
        }
    }

    pub(super) fn strings(&mut self, table: &DeTable<'_>, key: &str) -> Option<Vec<Text>> {
        let value = table.get(key)?;
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_kind(key, value, "a list of strings");
            return None;
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_str() {
                Some(text) => texts.push(self.text_at(item, text)),
                None => self.wrong_kind(key, item, "a string"),
            }
        }
        Some(texts)
    }

    /// Reads one of a fixed set of words. `None` if the key is absent or has another value, which is then reported.
    pub(super) fn choice<T: Copy>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let word = self.string(table, key)?;
        let chosen = choices.iter().find(|(name, _)| *name == word.value);
        if chosen.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let hint = format!("one of {}", names.join(", "));
            self.problem(word.start, format!("unknown {key} `{}`", word.value), hint);
        }
        chosen.map(|(_, value)| *value)
    }

    pub(super) fn boolean(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.wrong_kind(key, value, "true or false");
        }
        found
    }

    /// Reads an integer within a range. `None` if the key is absent or has another value, which is then reported.
    pub(super) fn number<N: TryFrom<u64> + PartialOrd + std::fmt::Display>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        allowed: RangeInclusive<N>,
    ) -> Option<N> {
        let value = table.get(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_kind(key, value, "a whole number");
            return None;
        };
        let digits: String = number.as_str().chars().filter(|c| *c != '_').collect();
        let number = u64::from_str_radix(&digits, number.radix()).ok();
        let fits = number.and_then(|number| N::try_from(number).ok());
        let fits = fits.filter(|number| allowed.contains(number));
        if fits.is_none() {
            let hint = format!("between {} and {}", allowed.start(), allowed.end());
            self.problem(value.span().start, format!("{key} is out of range"), hint);
        }
        fits
    }

    /// Reads an integer within a range, or the word `unlimited`, which gives `Some(None)`. `None` if the key is absent
    /// or has another value, which is then reported.
    pub(super) fn limit<N: TryFrom<u64> + PartialOrd + std::fmt::Display>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        allowed: RangeInclusive<N>,
    ) -> Option<Option<N>> {
        let value = table.get(key)?;
        match value.get_ref().as_str() {
            Some("unlimited") => Some(None),
            Some(_) => {
                self.wrong_kind(key, value, "a whole number, or \"unlimited\"");
                None
            }
            None => self.number(table, key, allowed).map(Some),
        }
    }

    pub(super) fn duration(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        allowed: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let word = self.string(table, key)?;
        // All durations of a policy are whole seconds.
        let whole = |duration: &Duration| duration.subsec_millis() == 0;
        let Some(duration) = duration::parse(&word.value).filter(whole) else {
            let message = format!("`{}` is not a duration", word.value);
            self.problem(word.start, message, "write it as `90s`, `5m` or `1h30m`");
            return None;
        };
        if !allowed.contains(&duration) {
            let seconds = (allowed.start().as_secs(), allowed.end().as_secs());
            let message = format!("{key} `{}` is out of range", word.value);
            self.problem(
                word.start,
                message,
                format!("between {} and {} seconds", seconds.0, seconds.1),
            );
            return None;
        }
        Some(duration)
    }

    pub(super) fn text_at(&self, value: &Spanned<DeValue<'_>>, text: &str) -> Text {
        let span = value.span();
        let written = self.text.get(span.clone()).unwrap_or_default();
        Text {
            value: text.to_owned(),
            start: span.start,
            inside: written.find(text).map(|offset| span.start + offset),
        }
    }

    pub(super) fn wrong_kind(&mut self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.problem(
            value.span().start,
            format!("`{key}` should be {wanted}, not {found}"),
            "",
        );
    }
}
