//! Server-sent events on their way through: whole events as the bytes they came in, and the message in each.

use bytes::{Bytes, BytesMut};

use crate::mcp::lines::LONGEST;

/// Puts pieces of a stream together to events.
#[derive(Default)]
pub struct Events {
    buffer: BytesMut,
    /// Where the line begins that is not whole yet.
    line: usize,
}

impl Events {
    /// Adds a piece; false when an event grows beyond all bounds.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        self.buffer.extend_from_slice(piece);
        self.buffer.len() <= LONGEST
    }

    /// The next whole event, with the empty line behind it.
    pub fn take(&mut self) -> Option<Bytes> {
        loop {
            let rest = self.buffer.get(self.line..)?;
            let length = memchr::memchr(b'\n', rest)?;
            let is_empty = matches!(rest.get(..length), Some(b"" | b"\r"));
            self.line += length + 1;
            if is_empty {
                let end = std::mem::take(&mut self.line);
                return Some(self.buffer.split_to(end).freeze());
            }
        }
    }

    /// What is left when the stream ends.
    pub fn rest(&mut self) -> Bytes {
        self.line = 0;
        self.buffer.split().freeze()
    }
}

/// The message in an event; nothing in one that only keeps the stream alive.
pub fn data(event: &[u8]) -> Option<Bytes> {
    let mut data: Option<Vec<u8>> = None;
    for line in event.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut data {
                None => data = Some(value.to_vec()),
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            }
        }
    }
    data.filter(|data| !data.is_empty()).map(Bytes::from)
}

/// The event with another message in it.
pub fn with_data(event: &[u8], message: &[u8]) -> Bytes {
    let lines = event.split(|byte| *byte == b'\n');
    let kept = lines.filter(|line| !line.starts_with(b"data:") && !line.is_empty() && *line != b"\r");
    let mut made = Vec::with_capacity(message.len() + 64);
    for line in kept {
        made.extend_from_slice(line);
        made.push(b'\n');
    }
    made.extend_from_slice(&event_of(message));
    made.into()
}

/// An event with this message, which has no line ends inside; without one, a sign of life.
pub fn event_of(message: &[u8]) -> Vec<u8> {
    if message.is_empty() {
        return b": waiting\n\n".to_vec();
    }
    let message = message.strip_suffix(b"\n").unwrap_or(message);
    let mut made = b"data: ".to_vec();
    made.extend_from_slice(message);
    made.extend_from_slice(b"\n\n");
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let stream =
            ": hello\n\nid: 1\nevent: message\ndata: {\"a\":1}\n\ndata: x\r\ndata: y\r\n\r\nretry: 5\n\n";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let mut taken = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                assert!(events.push(piece));
                while let Some(event) = events.take() {
                    taken.push(String::from_utf8(event.to_vec()).unwrap());
                }
            }
            assert_eq!(taken.concat(), stream, "{size}");
            assert_eq!(taken.len(), 4, "{size}");
            let messages: Vec<_> = taken.iter().map(|event| data(event.as_bytes())).collect();
            assert_eq!(messages[1].as_deref(), Some(b"{\"a\":1}".as_slice()));
            assert_eq!(messages[2].as_deref(), Some(b"x\ny".as_slice()));
            assert_eq!((&messages[0], &messages[3]), (&None, &None));
        }
    }

    #[test]
    fn another_message_keeps_the_events_name_and_place() {
        let event = b"id: 1\nevent: message\ndata: old\n\n";
        assert_eq!(with_data(event, b"new"), "id: 1\nevent: message\ndata: new\n\n");
    }
}
