//! The agent's own earlier words, which remain the agent's in whatever form a tool returns them.
//!
//! Input: the agent's messages and the arguments of its calls. Output: whether the agent wrote a value: as it is, in
//! another case or spacing, percent-encoded, as base64 or hexadecimal, inside JSON, or in pieces. Arguments that the
//! person or an earlier tool stated do not count as the agent's own.

use std::cell::OnceCell;
use std::collections::HashSet;

use jiff::civil::{Date, Time};

use super::date;
use super::form::Value;
use super::number::Decimal;
use super::text::{Text, fold_value};
use crate::json;

/// Minimum length for comparing values by their letters and digits alone; shorter ones are compared whole.
const SHORTEST_SKELETON: usize = 6;
/// Minimum number of letters and digits in a piece that a value may be assembled from.
const SHORTEST_PIECE: usize = 2;
/// Maximum length in bytes of a text that is decoded.
const LONGEST_DECODED: usize = 8 * 1024;
/// Maximum nesting of JSON inside strings.
const DEEPEST: usize = 3;

pub(super) struct AgentMessage<'c> {
    pub(super) message: usize,
    text: Text<'c>,
    arguments: OnceCell<Vec<Argument>>,
}

/// A value that the agent wrote.
pub(super) struct Argument {
    pub(super) value: Value,
    /// The value as written, and in each decoded form.
    texts: Vec<Text<'static>>,
    skeletons: Vec<String>,
    is_given: OnceCell<bool>,
}

impl<'c> AgentMessage<'c> {
    pub(super) fn new(message: usize, text: &'c str) -> AgentMessage<'c> {
        AgentMessage {
            message,
            text: Text::new(text),
            arguments: OnceCell::new(),
        }
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        self.text.words().contains(word)
    }

    pub(super) fn has_day(&self, date: Date) -> bool {
        self.text.dates().iter().any(|stated| stated.day.is(date))
    }

    pub(super) fn has_time(&self, time: Time) -> bool {
        let mut times = date::times(self.text.folded()).into_iter();
        times.any(|(_, written)| written == time)
    }

    pub(super) fn states(&self, value: &Value) -> bool {
        value.stated_in(&self.text).is_some()
    }

    pub(super) fn has_number(&self, number: &Decimal) -> bool {
        let number_matches = self.text.number_matches();
        number_matches
            .iter()
            .any(|number_match| number_match.readings.contains(number))
    }

    /// The argument values of the call in this message; the whole text as one value if there is no call.
    fn arguments(&self) -> &[Argument] {
        self.arguments.get_or_init(|| {
            let raw = self.text.raw();
            let mut texts = Vec::new();
            match raw.find('{').and_then(|at| raw.get(at..)) {
                Some(object)
                    if json::check(object.trim_end().as_bytes(), json::Limits::ARGUMENTS).is_ok() =>
                {
                    texts_of(object, DEEPEST, &mut texts);
                    // The text before the arguments is the tool's name, or prose.
                    texts.push(raw.split('{').next().unwrap_or_default().to_owned());
                }
                _ => texts.push(raw.to_owned()),
            }
            let is_call = texts.len() > 1;
            let texts = texts.into_iter().filter(|text| !text.trim().is_empty());
            texts.map(|text| Argument::new(text, is_call)).collect()
        })
    }
}

impl Argument {
    /// Builds an argument. If `is_call` is false, the text is prose, which always counts as the agent's own.
    fn new(text: String, is_call: bool) -> Argument {
        let mut spellings = decoded(&text);
        let is_given = OnceCell::new();
        if !is_call {
            let _ = is_given.set(false);
        }
        spellings.push(text.clone());
        Argument {
            skeletons: spellings.iter().map(|spelling| skeleton(spelling)).collect(),
            texts: spellings.into_iter().map(Text::new).collect(),
            value: Value::of_text(text, ""),
            is_given,
        }
    }
}

/// Query about what the agent wrote before a message.
pub(super) struct AgentEchoCheck<'o, 'c, G> {
    pub(super) agent_messages: &'o [AgentMessage<'c>],
    /// Returns true if the person or a tool stated the given value as a whole before the message with the given index.
    pub(super) is_given: G,
}

impl<G: Fn(&Value, usize) -> bool> AgentEchoCheck<'_, '_, G> {
    /// Returns true if the agent itself wrote `value` before `message`. With `implied`, the value in other words counts
    /// too.
    pub(super) fn has(&self, value: &Value, message: usize, implied: bool) -> bool {
        let earlier = || {
            self.agent_messages
                .iter()
                .filter(|agent_message| agent_message.message < message)
        };
        if earlier().next().is_none() {
            return false;
        }
        let spelled: Vec<Value> = decoded(&value.text)
            .into_iter()
            .map(|text| Value::of_text(text, ""))
            .collect();
        let wanted = skeleton(&value.text);
        let states = |argument: &Argument| {
            let mut texts = argument.texts.iter();
            texts.any(|text| {
                value.stated_in(text).is_some()
                    || implied && value.implied_in(text, None).is_some()
                    || spelled.iter().any(|value| value.stated_in(text).is_some())
            }) || wanted.len() >= SHORTEST_SKELETON
                && argument
                    .skeletons
                    .iter()
                    .any(|skeleton| skeleton.contains(&wanted))
        };
        let own_arguments = |agent_message: &AgentMessage<'_>, argument: &Argument| {
            !*argument
                .is_given
                .get_or_init(|| (self.is_given)(&argument.value, agent_message.message))
        };
        let is_there = earlier().any(|agent_message| {
            let mut arguments = agent_message.arguments().iter();
            arguments.any(|argument| states(argument) && own_arguments(agent_message, argument))
        });
        if is_there || wanted.len() < SHORTEST_SKELETON {
            return is_there;
        }
        // The value may be assembled from several pieces that the agent wrote, at least one of them its own.
        let (mut given, mut all) = (HashSet::new(), HashSet::new());
        for agent_message in earlier() {
            for argument in agent_message.arguments() {
                let inside = argument.skeletons.iter().filter(|skeleton| {
                    (SHORTEST_PIECE..wanted.len()).contains(&skeleton.len()) && wanted.contains(*skeleton)
                });
                for piece in inside {
                    all.insert(piece);
                    if !own_arguments(agent_message, argument) {
                        given.insert(piece);
                    }
                }
            }
        }
        is_made_of(&wanted, &all) && !is_made_of(&wanted, &given)
    }
}

/// Returns true if the text is a concatenation of some of these pieces.
fn is_made_of(wanted: &str, pieces: &HashSet<&String>) -> bool {
    let mut reached = vec![false; wanted.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for from in 0..wanted.len() {
        if !reached.get(from).is_some_and(|reached| *reached) {
            continue;
        }
        let Some(rest) = wanted.get(from..) else { continue };
        for piece in pieces {
            if rest.starts_with(piece.as_str())
                && let Some(end) = reached.get_mut(from + piece.len())
            {
                *end = true;
            }
        }
    }
    reached.last() == Some(&true)
}

/// Collects the texts of an object's values and keys, including those of JSON objects inside strings.
fn texts_of(object: &str, deepest: usize, texts: &mut Vec<String>) {
    let bytes = object.trim_end().as_bytes();
    for leaf in json::leaves(bytes) {
        let text = leaf.text().into_owned();
        let is_object = text.trim_start().starts_with('{');
        if is_object && deepest > 0 && json::check(text.as_bytes(), json::Limits::ARGUMENTS).is_ok() {
            texts_of(&text, deepest - 1, texts);
        }
        texts.push(text);
    }
    texts.extend(json::keys(bytes).into_iter().map(|key| key.text));
}

/// Reduces a text to its folded letters and digits.
fn skeleton(text: &str) -> String {
    fold_value(text).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Decodes a text in every way that gives readable text.
fn decoded(text: &str) -> Vec<String> {
    let text = text.trim();
    if text.len() > LONGEST_DECODED {
        return Vec::new();
    }
    let decoders = [percent, base64, hexadecimal, entities, escapes];
    let readable = decoders.into_iter().filter_map(|decode| decode(text));
    let mut found: Vec<String> = readable.filter(|plain| plain != text).collect();
    // Percent-decode once more, for a link within a link.
    let again: Vec<String> = found.iter().filter_map(|plain| percent(plain)).collect();
    found.extend(again);
    found
}

fn percent(text: &str) -> Option<String> {
    if !text.contains(['%', '+']) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            (other, _) => {
                bytes.push(*other);
                rest = after;
            }
        }
    }
    readable(bytes)
}

fn base64(text: &str) -> Option<String> {
    let body = text.trim_end_matches('=');
    if body.len() < 8 {
        return None;
    }
    let (mut bits, mut count) = (0u32, 0u32);
    let mut bytes = Vec::with_capacity(body.len());
    for character in body.bytes() {
        let six = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    readable(bytes)
}

fn hexadecimal(text: &str) -> Option<String> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    if text.len() < 8 || !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    readable(bytes.collect::<Option<Vec<u8>>>()?)
}

fn entities(text: &str) -> Option<String> {
    if !text.contains('&') {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let character = after.split_once(';').and_then(|(name, tail)| {
            let character = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                "commat" => '@',
                "period" => '.',
                "sol" => '/',
                _ => {
                    let number = name.strip_prefix('#')?;
                    let code = match number.strip_prefix(['x', 'X']) {
                        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                        None => number.parse().ok()?,
                    };
                    char::from_u32(code)?
                }
            };
            Some((character, tail))
        });
        match character {
            Some((character, tail)) => {
                plain.push(character);
                rest = tail;
            }
            None => {
                plain.push('&');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    Some(plain)
}

fn escapes(text: &str) -> Option<String> {
    text.contains('\\').then(|| json::unescape(text).into_owned())
}

/// Returns the bytes as text if they are UTF-8 without control characters.
fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let is_readable = !text.is_empty() && !text.chars().any(|c| c.is_control() && !c.is_whitespace());
    is_readable.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_in_each_way() {
        let check = |text: &str, expected: &str| {
            assert!(decoded(text).iter().any(|plain| plain == expected), "{text}");
        };
        check("eve%40evil.example", "eve@evil.example");
        check("eve%2540evil.example", "eve@evil.example");
        check("ZXZlQGV2aWwuZXhhbXBsZQ==", "eve@evil.example");
        check("ZXZlQGV2aWwuZXhhbXBsZQ", "eve@evil.example");
        check("657665406576696c2e6578616d706c65", "eve@evil.example");
        check("eve&#64;evil.example", "eve@evil.example");
        check("eve&commat;evil&period;example", "eve@evil.example");
        check(r"eve\u0040evil.example", "eve@evil.example");
        assert!(decoded("Maria Garcia").is_empty());
    }
}
