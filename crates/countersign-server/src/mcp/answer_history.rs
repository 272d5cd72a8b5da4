//! Answer history: what servers answered a client, so that a card can say which of a call's values occur in those
//! answers.
//!
//! Answers are recorded as they are forwarded. The result is a conversation without the person's words, which never
//! pass through the gateway. The history is kept in memory only. Answers are not trusted: anything a server answers may
//! have been written by strangers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use countersign::provenance::{Conversation, Message};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::{Frame, Id, pick};
use crate::mcp::lock;

/// Maximum number of answers kept.
const MOST_ANSWERS: usize = 200;
/// Maximum total size of the answers in bytes; provenance tracing uses no more.
const MOST_BYTES: usize = countersign::provenance::MOST_BYTES;
/// Maximum size of one answer in bytes. Larger ones are not kept, so values that occur only in them have unknown
/// provenance.
pub const LARGEST: usize = 256 * 1024;
/// Number of unanswered requests at which all of them are forgotten.
const MOST_ASKED: usize = 1000;

/// Records the answers that a client has seen, for provenance: the open requests to one server, and the history of
/// answers, which all servers of the same client share.
#[derive(Default)]
pub struct Seen {
    asked: Mutex<HashMap<Id, AwaitedAnswer>>,
    answers: Arc<Mutex<Answers>>,
}

/// A request whose answer will be kept.
pub struct AwaitedAnswer {
    /// The tool's qualified name, or the method of another request.
    pub name: String,
    /// Arguments of the call. A tool that repeats them is not their source, because the agent wrote them first.
    pub arguments: Arc<[u8]>,
}

#[derive(Default)]
struct Answers {
    all: VecDeque<Vec<Message>>,
    bytes: usize,
}

impl Seen {
    /// Returns a handle for another server of the same client, which shares the history of answers but has its own open
    /// requests.
    pub fn for_another_server(&self) -> Seen {
        Seen {
            asked: Mutex::default(),
            answers: self.answers.clone(),
        }
    }

    /// Registers a request whose answer is to be recorded.
    pub fn ask(&self, id: &Id, asked: AwaitedAnswer) {
        let mut all = lock(&self.asked);
        // A server that leaves so many requests unanswered will not answer them.
        if all.len() >= MOST_ASKED {
            all.clear();
        }
        all.insert(id.clone(), asked);
    }

    /// Forgets a request that will not be answered.
    pub fn forget(&self, id: &Id) {
        lock(&self.asked).remove(id);
    }

    /// Adds an answer that is forwarded to the client to the history. Does nothing if its request was not registered.
    pub fn answered(&self, id: &Id, frame: &Frame) {
        let Some(asked) = lock(&self.asked).remove(id) else {
            return;
        };
        match (frame.part(&frame.result), frame.part(&frame.error)) {
            (Some(result), _) => self.saw(asked, result),
            (None, Some(error)) => self.keep(asked, error, vec![String::from_utf8_lossy(error).into_owned()]),
            (None, None) => {}
        }
    }

    /// Adds a result to the history, which may drop the oldest ones. Results larger than [`LARGEST`] are left out.
    pub fn saw(&self, asked: AwaitedAnswer, result: &[u8]) {
        if result.len() <= LARGEST {
            self.keep(asked, result, texts(result));
        }
    }

    fn keep(&self, asked: AwaitedAnswer, answer: &[u8], texts: Vec<String>) {
        if answer.len() > LARGEST || asked.arguments.len() > LARGEST || texts.is_empty() {
            return;
        }
        let said = String::from_utf8_lossy(&asked.arguments).into_owned();
        let name = asked.name;
        let stated = texts.into_iter().map(|text| Message::Outside {
            name: name.clone(),
            text,
        });
        let messages: Vec<Message> = std::iter::once(Message::Agent { text: said })
            .chain(stated)
            .collect();
        lock(&self.answers).push(messages);
    }

    /// Returns the history as a conversation; `None` if it is empty.
    pub fn conversation(&self) -> Option<Conversation> {
        let answers = lock(&self.answers);
        let messages = answers.all.iter().flatten().cloned();
        let messages: Vec<Message> = std::iter::once(Message::Unheard).chain(messages).collect();
        (messages.len() > 1).then_some(Conversation { messages })
    }
}

impl Answers {
    fn push(&mut self, messages: Vec<Message>) {
        self.bytes += size(&messages);
        self.all.push_back(messages);
        while self.all.len() > MOST_ANSWERS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.all.pop_front() else {
                return;
            };
            self.bytes -= size(&oldest);
        }
    }
}

fn size(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.text().len()).sum()
}

/// Returns the texts of a result: its content and its structured content.
fn texts(result: &[u8]) -> Vec<String> {
    let Ok([content, contents, structured]) = pick(result, ["content", "contents", "structuredContent"])
    else {
        // A client might read any part of a malformed result, so keep all of it.
        return vec![String::from_utf8_lossy(result).into_owned()];
    };
    let pieces = [content, contents].into_iter().flatten().map(pieces);
    let structured = structured.map(|structured| structured.get().to_owned());
    pieces.chain(structured).filter(|text| !text.is_empty()).collect()
}

/// One item of a content list.
#[derive(Deserialize)]
struct Piece {
    text: Option<String>,
    resource: Option<Resource>,
}

/// A resource embedded in a content list.
#[derive(Deserialize)]
struct Resource {
    text: Option<String>,
}

fn pieces(content: &RawValue) -> String {
    let Ok(pieces) = serde_json::from_str::<Vec<Piece>>(content.get()) else {
        return content.get().to_owned();
    };
    let texts = pieces
        .into_iter()
        .filter_map(|piece| piece.text.or_else(|| piece.resource?.text));
    texts.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &str) -> AwaitedAnswer {
        AwaitedAnswer {
            name: "s/read".to_owned(),
            arguments: arguments.as_bytes().into(),
        }
    }

    #[track_caller]
    fn check(result: &str, expected: &[&str]) {
        assert_eq!(texts(result.as_bytes()), expected, "{result}");
    }

    #[test]
    fn only_texts_are_kept_of_a_result() {
        check(
            r#"{"content":[{"type":"text","text":"a\u00e9"},{"type":"image","data":"eA=="},{"type":"text","text":"b"}]}"#,
            &["aé\nb"],
        );
        check(
            r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"b": 1e2}}"#,
            &["a", r#"{"b": 1e2}"#],
        );
        check(
            r#"{"contents":[{"uri":"u","text":"a"},{"uri":"v","blob":"eA=="}]}"#,
            &["a"],
        );
        check(
            r#"{"content":[{"type":"resource","resource":{"uri":"u","text":"a"}}]}"#,
            &["a"],
        );
        check(r#"{"content":[{"type":"image","data":"eA=="}]}"#, &[]);
        check("{}", &[]);
        // Anything that another parser might take for text counts as text.
        check(r#"{"content":{"text":"a"}}"#, &[r#"{"text":"a"}"#]);
        check(
            r#"{"content":[],"content":["a"]}"#,
            &[r#"{"content":[],"content":["a"]}"#],
        );
    }

    #[test]
    fn the_newest_answers_are_kept_within_limits() {
        let seen = Seen::default();
        assert!(seen.conversation().is_none());
        for number in 0..MOST_ANSWERS * 3 {
            let result = format!(r#"{{"content":[{{"text":"n{number}"}}]}}"#);
            seen.saw(asked("{}"), result.as_bytes());
        }
        let kept = seen.conversation().unwrap().messages;
        assert_eq!(kept.len(), 1 + 2 * MOST_ANSWERS);
        assert_eq!(kept[0], Message::Unheard);
        assert_eq!((kept[2].text(), kept[400].text()), ("n400", "n599"));

        let large = format!(r#"{{"content":[{{"text":"{}"}}]}}"#, "x".repeat(LARGEST - 100));
        for _ in 0..20 {
            seen.for_another_server().saw(asked("{}"), large.as_bytes());
        }
        let answers = lock(&seen.answers);
        assert!(answers.bytes <= MOST_BYTES, "{}", answers.bytes);
        assert_eq!(answers.all.len(), 4);
        assert_eq!(
            answers.bytes,
            answers.all.iter().map(|all| size(all)).sum::<usize>()
        );
        drop(answers);

        let seen = Seen::default();
        let larger = format!(r#"{{"content":[{{"text":"{}"}}]}}"#, "x".repeat(LARGEST));
        seen.saw(asked("{}"), larger.as_bytes());
        assert!(seen.conversation().is_none());
    }

    #[test]
    fn an_answer_counts_once_and_only_to_what_was_asked() {
        let seen = Seen::default();
        let frame = |text: &'static str| Frame::read(bytes::Bytes::from_static(text.as_bytes())).unwrap();
        let answer = frame(r#"{"id":1,"result":{"content":[{"text":"a"}]}}"#);
        let id = Id::own("1");
        seen.answered(&id, &answer);
        assert!(seen.conversation().is_none());
        seen.ask(&id, asked(r#"{"q":"b"}"#));
        seen.answered(&id, &answer);
        seen.answered(&id, &answer);
        let name = "s/read".to_owned();
        let (said, text) = (r#"{"q":"b"}"#.to_owned(), "a".to_owned());
        let expected = vec![
            Message::Unheard,
            Message::Agent { text: said },
            Message::Outside { name, text },
        ];
        assert_eq!(seen.conversation().unwrap().messages, expected);
        for number in 0..MOST_ASKED * 2 {
            seen.ask(&Id::own(&number.to_string()), asked("{}"));
        }
        assert_eq!(lock(&seen.asked).len(), MOST_ASKED);
    }
}
