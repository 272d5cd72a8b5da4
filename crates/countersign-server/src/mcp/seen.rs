//! What a client was answered by its servers, so that a card can say which of a call's values stand there.
//!
//! Enters: requests that are answered with text, and their answers as they pass. Leaves: a conversation in which the
//! person is unheard, because what they said never passes here.
//! Deliberately absent: the disk, and trust. Whatever a server answers may have been written by strangers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign::provenance::{Conversation, Message};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::{Frame, Id, pick};

/// The most answers that are kept.
const MOST_ANSWERS: usize = 200;
/// The most bytes of them; as many as are looked at.
const MOST_BYTES: usize = countersign::provenance::MOST_BYTES;
/// A larger answer is not kept: a value that only stands there is unknown.
pub const LARGEST: usize = 256 * 1024;
/// The most questions that wait for an answer.
const MOST_ASKED: usize = 1000;

/// What was asked of one server, and what all servers of the client answered.
#[derive(Default)]
pub struct Seen {
    asked: Mutex<HashMap<Id, Asked>>,
    answers: Arc<Mutex<Answers>>,
}

/// What a client asks for.
pub struct Asked {
    /// The tool's qualified name, or what else is asked.
    pub name: String,
    /// What the agent wrote: a tool that repeats it states nothing.
    pub arguments: Arc<[u8]>,
}

#[derive(Default)]
struct Answers {
    all: VecDeque<Vec<Message>>,
    bytes: usize,
}

impl Seen {
    /// For another server of the same client: what one answered is known of the other's calls.
    pub fn beside(&self) -> Seen {
        Seen {
            asked: Mutex::default(),
            answers: self.answers.clone(),
        }
    }

    /// The answer to this is to be kept.
    pub fn ask(&self, id: &Id, asked: Asked) {
        let mut all = open(&self.asked);
        // A server that leaves so many unanswered has forgotten them.
        if all.len() >= MOST_ASKED {
            all.clear();
        }
        all.insert(id.clone(), asked);
    }

    /// Nothing will be answered to this.
    pub fn forget(&self, id: &Id) {
        open(&self.asked).remove(id);
    }

    /// An answer passes to the client.
    pub fn answered(&self, id: &Id, frame: &Frame) {
        let Some(asked) = open(&self.asked).remove(id) else {
            return;
        };
        match (frame.part(&frame.result), frame.part(&frame.error)) {
            (Some(result), _) => self.saw(asked, result),
            (None, Some(error)) => self.keep(asked, error, vec![String::from_utf8_lossy(error).into_owned()]),
            (None, None) => {}
        }
    }

    /// This was answered with this result.
    pub fn saw(&self, asked: Asked, result: &[u8]) {
        if result.len() <= LARGEST {
            self.keep(asked, result, texts(result));
        }
    }

    fn keep(&self, asked: Asked, answer: &[u8], texts: Vec<String>) {
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
        open(&self.answers).push(messages);
    }

    /// All that is kept; nothing when that is nothing.
    pub fn conversation(&self) -> Option<Conversation> {
        let answers = open(&self.answers);
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

/// The texts of a result: what stands in its content, and its structured form.
fn texts(result: &[u8]) -> Vec<String> {
    let Ok([content, contents, structured]) = pick(result, ["content", "contents", "structuredContent"])
    else {
        // Whoever reads it may read all of it.
        return vec![String::from_utf8_lossy(result).into_owned()];
    };
    let pieces = [content, contents].into_iter().flatten().map(pieces);
    let structured = structured.map(|structured| structured.get().to_owned());
    pieces.chain(structured).filter(|text| !text.is_empty()).collect()
}

/// One piece of a content.
#[derive(Deserialize)]
struct Piece {
    text: Option<String>,
    resource: Option<Resource>,
}

/// A resource that stands in a content.
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

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &str) -> Asked {
        Asked {
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
        // What another reader might take for text is text.
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
            seen.beside().saw(asked("{}"), large.as_bytes());
        }
        let answers = open(&seen.answers);
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
        assert_eq!(open(&seen.asked).len(), MOST_ASKED);
    }
}
