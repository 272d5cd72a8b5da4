//! Fits a conversation into what a model can read.
//!
//! Input: the messages of a session, and a budget in bytes. Output: the latest whole turns within the budget, and one
//! sentence about what was left out. A turn begins with a person's message, so a call is never separated from its result.
//! If the last turn alone is too long, its tool results are shortened, the oldest first.

use std::collections::BTreeMap;

use super::calls::truncate;
use crate::message::Message;

/// Bytes counted for each message and call besides their text, for the JSON that the APIs add.
const OVERHEAD: usize = 40;
/// Maximum bytes that remain of a result that had to be shortened.
const SHORTENED_RESULT: usize = 400;

/// The part of a conversation that is sent to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fitted {
    /// Latest messages, oldest first, without those of the channel.
    pub(super) messages: Vec<Message>,
    /// Sentence about what was left out, for the system prompt; `None` if everything is there.
    pub(super) left_out: Option<String>,
}

/// Returns the latest whole turns that fit into `most` bytes. The last turn is always included.
pub(super) fn fit(messages: &[Message], most: usize) -> Fitted {
    let mut bytes = 0usize;
    let mut start = messages.len();
    for (index, message) in messages.iter().enumerate().rev() {
        bytes = bytes.saturating_add(size(message));
        if bytes > most && start < messages.len() {
            break;
        }
        if matches!(message, Message::Person { .. }) {
            start = index;
        }
    }
    let (earlier, latest) = messages.split_at_checked(start).unwrap_or((&[], messages));
    let mut latest: Vec<Message> = latest
        .iter()
        .filter(|message| !matches!(message, Message::Channel { .. }))
        .cloned()
        .collect();
    let is_shortened = shorten_results(&mut latest, most);
    Fitted {
        messages: latest,
        left_out: left_out(earlier, is_shortened),
    }
}

/// Returns the size of messages in bytes, including [`OVERHEAD`], as counted against a budget.
pub(super) fn total_size(messages: &[Message]) -> usize {
    messages.iter().map(size).fold(0, usize::saturating_add)
}

fn size(message: &Message) -> usize {
    match message {
        Message::Person { text, .. } | Message::Reply { text } => text.len() + OVERHEAD,
        // Models do not get it.
        Message::Channel { .. } => 0,
        Message::Agent { text, calls } => {
            let calls = calls.iter();
            let calls = calls.map(|call| call.arguments.len() + call.tool.len() + OVERHEAD);
            text.len() + OVERHEAD + calls.sum::<usize>()
        }
        Message::Results { results } => {
            let results = results.iter();
            results.map(|result| result.content.len() + OVERHEAD).sum()
        }
    }
}

/// Shortens results, the oldest first, until the messages fit into `most` bytes or every result is short. Returns true if
/// any result was shortened.
fn shorten_results(messages: &mut [Message], most: usize) -> bool {
    let mut excess = total_size(messages).saturating_sub(most);
    let mut is_shortened = false;
    let results = messages.iter_mut().filter_map(|message| match message {
        Message::Results { results } => Some(results),
        _ => None,
    });
    for result in results.flatten() {
        let length = result.content.len();
        if excess == 0 || length <= SHORTENED_RESULT {
            continue;
        }
        let note = format!(" … (left out to save room: {length} bytes in all)");
        let keep = length
            .saturating_sub(excess.saturating_add(note.len()))
            .max(SHORTENED_RESULT.saturating_sub(note.len()));
        result.content = format!("{}{note}", truncate(&result.content, keep));
        excess = excess.saturating_sub(length.saturating_sub(result.content.len()));
        is_shortened = true;
    }
    is_shortened
}

/// Returns a sentence about earlier messages, or `None` if nothing was left out. The sentence contains only counts,
/// tools and statuses, because text that others wrote must not get into a system prompt.
fn left_out(earlier: &[Message], is_shortened: bool) -> Option<String> {
    let people = earlier
        .iter()
        .filter(|message| matches!(message, Message::Person { .. } | Message::Reply { .. }));
    let people = people.count();
    let mut statuses: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for message in earlier {
        if let Message::Results { results } = message {
            for result in results {
                *statuses.entry((&result.tool, &result.status)).or_default() += 1;
            }
        }
    }
    if people == 0 && statuses.is_empty() && !is_shortened {
        return None;
    }
    let mut sentence = "This conversation is longer than what you see.".to_owned();
    if people > 0 {
        sentence.push_str(&format!(" Left out: {people} earlier messages of the person."));
    }
    if !statuses.is_empty() {
        let calls = statuses.iter().take(MOST_NAMED);
        let calls = calls.map(|((tool, status), count)| format!("{tool} {status} ({count})"));
        let calls: Vec<String> = calls.collect();
        sentence.push_str(&format!(" Calls in that part: {}.", calls.join(", ")));
    }
    if is_shortened {
        sentence.push_str(" Long results are shortened.");
    }
    sentence.push_str(" Ask, or look again, if you need something from there; do not guess.");
    Some(sentence)
}

/// Maximum number of tools and statuses that the sentence about earlier messages names.
const MOST_NAMED: usize = 20;

#[cfg(test)]
mod tests {
    use countersign::time::Time;

    use super::*;
    use crate::message::{CallResult, ModelCall, Source};

    fn turn(number: usize, result: usize) -> Vec<Message> {
        let call = ModelCall {
            id: format!("c{number}"),
            tool: "look".to_owned(),
            arguments: "{}".to_owned(),
        };
        let result = CallResult {
            id: call.id.clone(),
            tool: call.tool.clone(),
            status: "ok".to_owned(),
            is_error: false,
            content: "x".repeat(result),
            from: Source::Tool,
        };
        vec![
            Message::Person {
                text: format!("message {number}"),
                at: Time::from_micros(0),
            },
            Message::Agent {
                text: String::new(),
                calls: vec![call],
            },
            Message::Results {
                results: vec![result],
            },
            Message::Agent {
                text: "done".to_owned(),
                calls: Vec::new(),
            },
        ]
    }

    fn is_whole(messages: &[Message]) -> bool {
        let pairs = messages.iter().zip(messages.iter().skip(1));
        let mut pairs =
            pairs.filter(|(first, _)| matches!(first, Message::Agent { calls, .. } if !calls.is_empty()));
        matches!(messages.first(), Some(Message::Person { .. }))
            && pairs.all(|(_, second)| matches!(second, Message::Results { .. }))
    }

    #[test]
    fn whole_turns_are_left_out_and_counted() {
        let messages: Vec<Message> = (0..10).flat_map(|number| turn(number, 1000)).collect();
        let everything = fit(&messages, usize::MAX);
        assert_eq!((everything.messages.len(), everything.left_out), (40, None));
        for most in [0, 500, 2_000, 5_000, 11_000] {
            let fitted = fit(&messages, most);
            assert!(is_whole(&fitted.messages), "{most}");
            assert_eq!(fitted.messages.len() % 4, 0, "{most}");
            let fits = total_size(&fitted.messages) <= most.max(1_000);
            assert!(fits, "{most}: {}", total_size(&fitted.messages));
        }
        let fitted = fit(&messages, 5_000);
        assert_eq!(fitted.messages.len(), 16);
        assert_eq!(
            fitted.left_out.unwrap(),
            "This conversation is longer than what you see. Left out: 6 earlier messages of the person. Calls in that part: \
             look ok (6). Ask, or look again, if you need something from there; do not guess."
        );
    }

    #[test]
    fn a_single_turn_that_is_too_long_keeps_its_calls_and_loses_text_of_results() {
        let mut messages = turn(0, 50_000);
        messages.extend(turn(1, 50_000).into_iter().skip(1));
        let fitted = fit(&messages, 60_000);
        assert!(is_whole(&fitted.messages) && fitted.messages.len() == 7);
        assert!(total_size(&fitted.messages) <= 60_000);
        let results: Vec<usize> = fitted
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::Results { results } => Some(results[0].content.len()),
                _ => None,
            })
            .collect();
        assert!(
            results[0] < 10_000 && results[1] == 50_000,
            "the oldest first: {results:?}"
        );
        assert!(total_size(&fit(&messages, 0).messages) < 1_500);
    }
}
