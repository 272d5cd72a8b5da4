//! Parser for server-sent events in a stream that may be split anywhere.
//!
//! Input: chunks of bytes. Output: whole events; an event that is incomplete at the end of the stream is dropped. Lines
//! end at LF, CR or CRLF, as the standard requires: a parser that knows only LF would see one event where others see
//! two. Values are not checked to be UTF-8: they are bytes that share the buffer's memory, and callers that need text
//! validate them.

use bytes::{Buf as _, Bytes, BytesMut};

/// Line length in bytes above which the buffer is replaced once the line has been read. Otherwise later lines, which
/// share the buffer, would keep all of its memory alive.
const LONG_LINE: usize = 256 * 1024;

/// Length in bytes up to which a buffer grows sixteenfold; beyond it, fourfold.
const LARGE_STEPS: usize = 1024 * 1024;

/// One server-sent event. A field that was sent more than once has its last value, except `data`. A field that was not
/// sent is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Type of the event, from the field `event`; `None` if the event has no such field.
    pub name: Option<Bytes>,
    /// All `data` lines, joined with line feeds.
    pub data: Option<Bytes>,
    /// Id to resume the stream after this event.
    pub id: Option<Bytes>,
    /// Time to wait before reconnecting, in milliseconds; not checked to be a number.
    pub retry: Option<Bytes>,
    /// True if there was a comment before the end of the event. Servers send comments as keepalives.
    pub has_comment: bool,
}

/// A line or an event is larger than the reader's limit. Nothing more can be read from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {0} bytes")]
pub struct EventTooLarge(usize);

/// Incremental parser: takes chunks of a stream and returns whole events.
#[derive(Debug)]
pub struct EventReader {
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer known to contain no line end.
    scanned: usize,
    /// True if the last line ended with CR, so that a following LF belongs to it.
    is_after_cr: bool,
    /// True if a line was read, after which a byte order mark cannot follow.
    has_begun: bool,
    event: Event,
    /// Joined data of the current event if it has more than one `data` line; otherwise empty. Joining in place keeps
    /// the work linear in the size of an event with many short lines.
    joined: BytesMut,
    limit: usize,
}

impl EventReader {
    /// Creates a reader that refuses lines longer than `limit` bytes, and events with more than `limit` bytes of data.
    pub fn new(limit: usize) -> EventReader {
        EventReader {
            buffer: BytesMut::new(),
            scanned: 0,
            is_after_cr: false,
            has_begun: false,
            event: Event::default(),
            joined: BytesMut::new(),
            limit,
        }
    }

    /// Adds a chunk. Take all events with [`EventReader::next_event`] before adding the next chunk, because the size
    /// limit is checked only then.
    pub fn push(&mut self, piece: &[u8]) {
        make_room(&mut self.buffer, piece.len(), self.limit);
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next whole event, or `None` if more chunks are needed first. An event that has neither a field that
    /// the standard knows nor a comment is skipped.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLarge> {
        while let Some(line) = self.next_line()? {
            if !line.is_empty() {
                self.add(&line);
                continue;
            }
            let mut event = std::mem::take(&mut self.event);
            if !self.joined.is_empty() {
                event.data = Some(std::mem::take(&mut self.joined).freeze());
            }
            if event != Event::default() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<Option<Bytes>, EventTooLarge> {
        if self.is_after_cr && self.buffer.first() == Some(&b'\n') {
            self.buffer.advance(1);
        }
        self.is_after_cr &= self.buffer.is_empty();
        let rest = self.buffer.get(self.scanned..).unwrap_or_default();
        let end = memchr::memchr2(b'\r', b'\n', rest);
        let length = self.scanned + end.unwrap_or(rest.len());
        let data = self.event.data.as_ref().map_or(0, Bytes::len) + self.joined.len();
        if length + data > self.limit {
            return Err(EventTooLarge(self.limit));
        }
        let Some(end) = end else {
            self.scanned = length;
            return Ok(None);
        };
        self.is_after_cr = rest.get(end) == Some(&b'\r');
        self.scanned = 0;
        let mut line = self.buffer.split_to(length).freeze();
        self.buffer.advance(1);
        if line.len() > LONG_LINE {
            self.buffer = BytesMut::from(&*self.buffer);
        }
        if !std::mem::replace(&mut self.has_begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Ok(Some(line))
    }

    fn add(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line);
        let field = line.get(..colon.unwrap_or(line.len())).unwrap_or_default();
        let mut value = line.slice(colon.map_or(line.len(), |colon| colon + 1)..);
        if value.starts_with(b" ") {
            value.advance(1);
        }
        match field {
            b"" => self.event.has_comment = true,
            b"data" => self.add_data(value),
            b"event" => self.event.name = Some(value),
            b"id" => self.event.id = Some(value),
            b"retry" => self.event.retry = Some(value),
            _ => {}
        }
    }

    fn add_data(&mut self, value: Bytes) {
        match self.event.data.take() {
            None if self.joined.is_empty() => self.event.data = Some(value),
            first => {
                self.joined.extend_from_slice(&first.unwrap_or_default());
                self.joined.extend_from_slice(b"\n");
                self.joined.extend_from_slice(&value);
            }
        }
    }
}

/// Makes room for `more` bytes in a buffer that holds the beginning of a message of at most `limit` bytes.
///
/// The capacity grows in large steps, so that the buffers a message outgrows are small compared with it: 64 KiB and 1
/// MiB for a message of up to 16 MiB. Capacity that is never written to takes no memory.
pub fn make_room(buffer: &mut BytesMut, more: usize, limit: usize) {
    let held = buffer.len();
    if buffer.capacity().saturating_sub(held) < more {
        let factor = match held <= LARGE_STEPS {
            true => 15,
            false => 3,
        };
        let most = limit.saturating_sub(held).max(more);
        buffer.reserve(held.saturating_mul(factor).clamp(more, most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 2 * 1024 * 1024;

    fn read(stream: &[u8], size: usize) -> Vec<Event> {
        let mut reader = EventReader::new(LIMIT);
        let mut events = Vec::new();
        for piece in stream.chunks(size) {
            reader.push(piece);
            while let Some(event) = reader.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    /// Checks name, id and data of the events in `stream`, read in pieces of every size.
    #[track_caller]
    fn check(stream: &str, expected: &[(Option<&str>, Option<&str>, Option<&str>)]) {
        let bytes = |text: Option<&str>| text.map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, id, data)| (bytes(*name), bytes(*id), bytes(*data)))
            .collect();
        for size in 1..=stream.len() {
            let events = read(stream.as_bytes(), size).into_iter();
            let found: Vec<_> = events.map(|event| (event.name, event.id, event.data)).collect();
            assert_eq!(found, expected, "{stream:?} in pieces of {size}");
        }
    }

    fn data(text: &str) -> (Option<&str>, Option<&str>, Option<&str>) {
        (None, None, Some(text))
    }

    #[test]
    fn f17_events_are_whole_wherever_the_stream_is_cut() {
        check(
            "\u{feff}event: a\ndata: {\"é\":1}\n\n: note\r\nid: 7\r\ndata:x\r\ndata: y\r\n\r\ndata\rdata\r\r\ndata: half",
            &[
                (Some("a"), None, Some("{\"é\":1}")),
                (None, Some("7"), Some("x\ny")),
                data("\n"),
            ],
        );
        check(
            ": alive\n\nid: 0-7\n\nid:0-8\nevent: approved\ndata: {\"a\":\ndata: 1}\n\n:\n\ndata: é\n\nid: 0-9\ndata: half",
            &[
                (None, None, None),
                (None, Some("0-7"), None),
                (Some("approved"), Some("0-8"), Some("{\"a\":\n1}")),
                (None, None, None),
                data("é"),
            ],
        );
        check("data: a\n\ndata: not ended\n", &[data("a")]);
        check("\u{feff}data:a\n\n", &[data("a")]);
        check("\u{feff}\ndata:a\n\n", &[data("a")]);
        check("\n\n\r\n\rdata\n\nunknown: x\n\n", &[data("")]);
        check("data\ndata\ndata: x\n\n", &[data("\n\nx")]);
    }

    #[test]
    fn x73_an_event_ends_where_every_reader_ends_it() {
        check("data: a\rdata: b\r\rdata: c\n\r", &[data("a\nb"), data("c")]);
        check(
            "data: {\"x\":\r\rdata: {}\r\r}\n\n",
            &[data("{\"x\":"), data("{}")],
        );
    }

    #[test]
    fn a_retry_time_and_a_comment_are_events_too() {
        let events = read(b"retry: 5\n\n: hi\n\n", 4);
        let [retry, comment] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!(retry.retry.as_deref(), Some(b"5".as_slice()));
        assert!(comment.has_comment && !retry.has_comment);
    }

    #[test]
    fn oversized_lines_and_events_are_refused() {
        let too_large = Err(EventTooLarge(LIMIT));
        let mut reader = EventReader::new(LIMIT);
        reader.push(&vec![b'a'; LIMIT]);
        assert_eq!(reader.next_event(), Ok(None));
        reader.push(b"a");
        assert_eq!(reader.next_event(), too_large);

        let mut reader = EventReader::new(LIMIT);
        let line = format!("data: {}\n", "a".repeat(LIMIT / 2));
        reader.push(line.as_bytes());
        assert_eq!(reader.next_event(), Ok(None));
        reader.push(line.as_bytes());
        assert_eq!(reader.next_event(), too_large);

        // The limit applies to each event, so several events in one chunk may exceed it together.
        let mut reader = EventReader::new(LIMIT);
        reader.push(format!("{line}\n{line}\n").as_bytes());
        assert!(matches!(reader.next_event(), Ok(Some(_))));
        assert!(matches!(reader.next_event(), Ok(Some(_))));
    }

    /// A reader that copied all earlier lines for each new line would take minutes here.
    #[test]
    fn an_event_of_many_short_lines_takes_linear_time() {
        let lines = LIMIT / 4;
        let stream = "data:x\n".repeat(lines) + "\n";
        let events = read(stream.as_bytes(), 64 * 1024);
        let [event] = events.as_slice() else {
            panic!("{} events", events.len());
        };
        assert_eq!(event.data.as_ref().map(Bytes::len), Some(2 * lines - 1));
    }
}
