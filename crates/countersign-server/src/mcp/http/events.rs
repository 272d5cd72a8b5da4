//! Parses server-sent events and writes them again.
//!
//! Input: chunks of a stream. Output: whole events, and the text of an event for a message. Lines end at LF, CR or
//! CRLF, as the standard says: a parser that knows only LF would see one event where the client sees two. Besides
//! messages, only event ids and retry times are forwarded, and only in printable ASCII.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::mcp::frame::LONGEST;
use crate::mcp::lines::make_room;
use crate::mcp::one_line::OneLine;

/// After a line longer than this the buffer is replaced, because later lines would keep all of its memory alive.
const LONG: usize = 256 * 1024;

/// Parses a stream of chunks into events.
#[derive(Default)]
pub struct Events {
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer known to contain no line end.
    scanned: usize,
    /// Whether the last line ended with CR, so that a following LF belongs to it.
    is_after_cr: bool,
    /// Whether a line was read, so that no byte order mark can follow.
    has_begun: bool,
    event: Event,
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `data` lines: one message, or empty in an event that only sets the event id.
    pub data: Option<Bytes>,
    id: Option<String>,
    retry: Option<String>,
    /// Whether the event has a type other than `message`.
    is_other: bool,
    /// Whether the event has a comment, which serves as a keepalive.
    has_remark: bool,
}

impl Events {
    /// Adds a chunk. Returns false if the event exceeds the maximum size.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        make_room(&mut self.buffer, piece.len());
        self.buffer.extend_from_slice(piece);
        let kept = self.event.data.as_ref().map_or(0, Bytes::len);
        self.buffer.len() + kept <= LONGEST
    }

    /// Returns the next whole event. An event that is incomplete at the end of the stream is dropped.
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
        if line.len() > LONG {
            self.buffer = BytesMut::from(&*self.buffer);
        }
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

    /// Returns the message of the event; `None` if the event has another type or no data.
    pub fn message(&self) -> Option<Bytes> {
        self.data
            .clone()
            .filter(|data| !data.is_empty() && !self.is_other)
    }

    /// Returns the text of the event with this message in place of its own.
    pub fn with(&self, message: &OneLine) -> Bytes {
        let mut made = Vec::with_capacity(message.len() + 64);
        for (name, value) in [("id", &self.id), ("retry", &self.retry)] {
            if let Some(value) = value {
                made.extend_from_slice(format!("{name}: {value}\n").as_bytes());
            }
        }
        match message.is_empty() {
            // An event that only sets the event id or the retry time.
            true if !made.is_empty() => made.extend_from_slice(b"data: \n\n"),
            _ => write_event(&mut made, message),
        }
        made.into()
    }

    /// Returns the text to forward for an event without a message; `None` if there is nothing to forward.
    pub fn without_message(&self) -> Option<Bytes> {
        let is_passed = self.message().is_none() && !self.is_other;
        is_passed.then(|| self.with(&OneLine::sign_of_life()))
    }
}

/// Returns a value if it is printable ASCII, which every parser reads alike.
fn plain(value: &[u8]) -> Option<String> {
    let is_plain = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_plain.then(|| String::from_utf8_lossy(value).into_owned())
}

/// Returns the text of an event with this message; for an empty message, a keepalive.
pub fn event_of(message: &OneLine) -> Vec<u8> {
    let mut made = Vec::with_capacity(message.len() + 16);
    write_event(&mut made, message);
    made
}

fn write_event(made: &mut Vec<u8>, message: &OneLine) {
    if message.is_empty() {
        made.extend_from_slice(b": waiting\n\n");
        return;
    }
    made.extend_from_slice(b"data: ");
    made.extend_from_slice(message);
    made.extend_from_slice(b"\n\n");
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
