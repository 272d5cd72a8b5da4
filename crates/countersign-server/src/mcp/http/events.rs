//! Server-sent events on their way through: cut where every reader cuts them, and written anew.
//!
//! Enters: pieces of a stream. Leaves: whole events, and an event's text for a message. Lines end at LF, CR or CRLF, as
//! the standard says: who ends them at LF alone reads one event where the client reads two. Of what a server writes beside
//! a message, only an event's id and the time to reconnect are passed on, and only in plain ASCII.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::mcp::frame::LONGEST;
use crate::mcp::one_line::OneLine;

/// Puts pieces of a stream together to events.
#[derive(Default)]
pub struct Events {
    buffer: BytesMut,
    /// So many bytes of the buffer hold no line end.
    scanned: usize,
    /// The last line ended with CR: a LF that follows belongs to it.
    is_after_cr: bool,
    /// A line was read: no byte order mark can follow.
    has_begun: bool,
    event: Event,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What stands behind `data`: one message. Empty in an event that only names a place in the stream.
    pub data: Option<Bytes>,
    id: Option<String>,
    retry: Option<String>,
    /// Whether clients take it for something else than a message.
    is_other: bool,
    /// Whether it holds a remark, as a sign of life.
    has_remark: bool,
}

impl Events {
    /// Adds a piece; false when an event grows beyond all bounds.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        self.buffer.extend_from_slice(piece);
        let kept = self.event.data.as_ref().map_or(0, Bytes::len);
        self.buffer.len() + kept <= LONGEST
    }

    /// The next whole event. What has not ended when the stream ends is none.
    pub fn take(&mut self) -> Option<Event> {
        loop {
            let line = self.line()?;
            if !line.is_empty() {
                self.event.add(&line);
                continue;
            }
            let event = std::mem::take(&mut self.event);
            if event != Event::default() {
                return Some(event);
            }
        }
    }

    fn line(&mut self) -> Option<Bytes> {
        if self.is_after_cr && self.buffer.first() == Some(&b'\n') {
            self.buffer.advance(1);
        }
        self.is_after_cr &= self.buffer.is_empty();
        let rest = self.buffer.get(self.scanned..)?;
        let Some(length) = memchr::memchr2(b'\r', b'\n', rest) else {
            self.scanned = self.buffer.len();
            return None;
        };
        self.is_after_cr = rest.get(length) == Some(&b'\r');
        let end = std::mem::take(&mut self.scanned) + length;
        let mut line = self.buffer.split_to(end).freeze();
        self.buffer.advance(1);
        if !std::mem::replace(&mut self.has_begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Some(line)
    }
}

impl Event {
    fn add(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line);
        let name = line.get(..colon.unwrap_or(line.len())).unwrap_or_default();
        let mut value = line.slice(colon.map_or(line.len(), |colon| colon + 1)..);
        if value.starts_with(b" ") {
            value.advance(1);
        }
        match name {
            b"" => self.has_remark = true,
            b"data" => {
                self.data = Some(match self.data.take() {
                    None => value,
                    Some(before) => [&before, b"\n".as_slice(), &value].concat().into(),
                });
            }
            b"event" => self.is_other = !matches!(&*value, b"" | b"message"),
            b"id" => self.id = plain(&value),
            b"retry" => self.retry = plain(&value).filter(|value| value.parse::<u32>().is_ok()),
            _ => {}
        }
    }

    /// The message in it; nothing in one that clients take for something else.
    pub fn message(&self) -> Option<Bytes> {
        self.data
            .clone()
            .filter(|data| !data.is_empty() && !self.is_other)
    }

    /// What is passed on of an event, with this message in it.
    pub fn with(&self, message: &OneLine) -> Bytes {
        let mut made = Vec::with_capacity(message.len() + 64);
        for (name, value) in [("id", &self.id), ("retry", &self.retry)] {
            if let Some(value) = value {
                made.extend_from_slice(format!("{name}: {value}\n").as_bytes());
            }
        }
        match message.is_empty() {
            false => made.extend_from_slice(&event_of(message)),
            // It names a place, or is a sign of life.
            true if !made.is_empty() => made.extend_from_slice(b"data: \n\n"),
            true => made.extend_from_slice(&event_of(message)),
        }
        made.into()
    }

    /// What is passed on of an event without a message; nothing when that is nothing.
    pub fn without_message(&self) -> Option<Bytes> {
        let is_passed = self.message().is_none() && !self.is_other;
        is_passed.then(|| self.with(&OneLine::sign_of_life()))
    }
}

/// A value that every reader of events reads alike.
fn plain(value: &[u8]) -> Option<String> {
    let is_plain = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_plain.then(|| String::from_utf8_lossy(value).into_owned())
}

/// An event with this message; without one, a sign of life.
pub fn event_of(message: &OneLine) -> Vec<u8> {
    if message.is_empty() {
        return b": waiting\n\n".to_vec();
    }
    let mut made = Vec::with_capacity(message.len() + 8);
    made.extend_from_slice(b"data: ");
    made.extend_from_slice(message);
    made.extend_from_slice(b"\n\n");
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(stream: &str, size: usize) -> Vec<Event> {
        let mut events = Events::default();
        let mut taken = Vec::new();
        for piece in stream.as_bytes().chunks(size) {
            assert!(events.push(piece));
            while let Some(event) = events.take() {
                taken.push(event);
            }
        }
        taken
    }

    #[track_caller]
    fn check(stream: &str, expected: &[Option<&str>]) {
        for size in 1..=stream.len() {
            let taken = all(stream, size);
            let messages: Vec<Option<Bytes>> = taken.iter().map(Event::message).collect();
            let expected: Vec<Option<Bytes>> = expected
                .iter()
                .map(|message| message.map(|message| Bytes::copy_from_slice(message.as_bytes())))
                .collect();
            assert_eq!(messages, expected, "{stream:?} in pieces of {size}");
        }
    }

    #[test]
    fn events_come_whole_however_they_are_cut() {
        check(
            ": hello\n\nid: 1\nevent: message\ndata: {\"a\":1}\n\ndata: x\r\ndata: y\r\n\r\nretry: 5\n\n",
            &[None, Some("{\"a\":1}"), Some("x\ny"), None],
        );
        check("data: a\n\ndata: not ended\n", &[Some("a")]);
        check("\u{feff}data:a\n\n", &[Some("a")]);
        check("\n\n\r\n\rdata\n\n", &[None]);
    }

    #[test]
    fn x73_an_event_ends_where_every_reader_ends_it() {
        check("data: a\rdata: b\r\rdata: c\n\r", &[Some("a\nb"), Some("c")]);
        check(
            "data: {\"x\":\r\rdata: {}\r\r}\n\n",
            &[Some("{\"x\":"), Some("{}")],
        );
        check("event: other\ndata: {}\n\ndata: {}\n\n", &[None, Some("{}")]);
    }

    #[test]
    fn of_what_stands_beside_a_message_only_plain_text_is_kept() {
        let message = OneLine::new("new");
        let written = |stream: &str| -> Vec<String> {
            let events = all(stream, 7);
            let write = |event: &Event| String::from_utf8(event.with(&message).to_vec()).unwrap();
            events.iter().map(write).collect()
        };
        assert_eq!(
            written("id: 1\nevent: message\nretry: 5\nx: y\ndata: old\n\n"),
            ["id: 1\nretry: 5\ndata: new\n\n"]
        );
        assert_eq!(
            written("id: 1\u{2028}data: x\nretry: x\ndata: old\n\n"),
            ["data: new\n\n"]
        );
        let places = all("id: 1\ndata:\n\n: hi\n\nevent: other\ndata: x\n\n", 5);
        let kept: Vec<Option<Bytes>> = places.iter().map(Event::without_message).collect();
        assert_eq!(
            kept,
            [
                Some("id: 1\ndata: \n\n".into()),
                Some(": waiting\n\n".into()),
                None
            ]
        );
    }
}
