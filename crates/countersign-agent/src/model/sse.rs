//! Parser for server-sent events in a stream that may be split anywhere.
//!
//! Enters: bytes. Leaves: events with their name and data. An incomplete event at the end of the stream is dropped.

/// Maximum bytes of a line or an event.
const LARGEST_EVENT: usize = 2 * 1024 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Name of the event; empty if it has none.
    pub(super) name: String,
    pub(super) data: String,
}

/// Error in an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadStream {
    /// A line or an event is larger than [`LARGEST_EVENT`].
    TooLarge,
    /// A line is not UTF-8.
    NotText,
}

/// Incremental parser.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    /// True after a carriage return: a line feed that follows belongs to the same line end.
    after_return: bool,
    /// True after the first line, which alone may begin with a byte order mark.
    has_first_line: bool,
}

impl EventReader {
    /// Takes a chunk and returns the events that it completes.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<Event>, BadStream> {
        let mut events = Vec::new();
        for byte in piece {
            let is_crlf = self.after_return && *byte == b'\n';
            self.after_return = *byte == b'\r';
            match byte {
                b'\n' if is_crlf => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                byte => {
                    self.line.push(*byte);
                    if self.line.len() > LARGEST_EVENT {
                        return Err(BadStream::TooLarge);
                    }
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<Event>, BadStream> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| BadStream::NotText)?;
        let line = match std::mem::replace(&mut self.has_first_line, true) {
            true => line,
            false => line.strip_prefix('\u{feff}').unwrap_or(line),
        };
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return Ok(self.data.take().map(|data| Event { name, data }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => {
                let data = match self.data.take() {
                    Some(earlier) => format!("{earlier}\n{value}"),
                    None => value.to_owned(),
                };
                if data.len() > LARGEST_EVENT {
                    return Err(BadStream::TooLarge);
                }
                self.data = Some(data);
            }
            // Comments, ids and unknown fields.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_complete_wherever_the_stream_is_split() {
        let stream = "\u{feff}event: a\ndata: {\"é\":1}\n\n: note\r\nid: 7\r\ndata:x\r\ndata: y\r\n\r\ndata\rdata\r\r\ndata: half";
        let expected = [event("a", "{\"é\":1}"), event("", "x\ny"), event("", "\n")];
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            let mut reader = EventReader::default();
            let mut found = reader.push(left).unwrap();
            found.extend(reader.push(right).unwrap());
            assert_eq!(found, expected, "cut at {cut}");
        }
        let mut reader = EventReader::default();
        let found: Vec<Event> = bytes
            .chunks(1)
            .flat_map(|byte| reader.push(byte).unwrap())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn invalid_utf8_and_oversized_events_are_refused() {
        assert_eq!(
            EventReader::default().push(b"data: \xff\n"),
            Err(BadStream::NotText)
        );
        let mut reader = EventReader::default();
        assert_eq!(reader.push(&vec![b'a'; LARGEST_EVENT]), Ok(Vec::new()));
        assert_eq!(reader.push(b"a"), Err(BadStream::TooLarge));
        let mut reader = EventReader::default();
        let line = format!("data: {}\n", "a".repeat(LARGEST_EVENT / 2));
        reader.push(line.as_bytes()).unwrap();
        reader.push(line.as_bytes()).unwrap_err();
    }
}
