//! Server-sent events: from pieces of a stream, cut anywhere, to whole events.
//!
//! Enters: bytes. Leaves: events with their name and data. What the stream ends in the middle of is no event.

/// The largest event that is taken.
const LARGEST: usize = 2 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; empty when it has none.
    pub(super) name: String,
    /// What it says.
    pub(super) data: String,
}

/// Why a stream is none of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadStream {
    /// A line or an event does not end.
    TooLarge,
    /// Not UTF-8.
    NotText,
}

/// Puts pieces together.
#[derive(Debug, Default)]
pub(super) struct Reader {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed behind it belongs to it.
    after_return: bool,
    /// Something was read before: only the very first line may begin with a byte order mark.
    has_begun: bool,
}

impl Reader {
    /// Takes a piece, and gives the events that are whole with it.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<Event>, BadStream> {
        let mut events = Vec::new();
        for byte in piece {
            let is_second_half = self.after_return && *byte == b'\n';
            self.after_return = *byte == b'\r';
            match byte {
                b'\n' if is_second_half => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                byte => {
                    self.line.push(*byte);
                    if self.line.len() > LARGEST {
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
        let line = match std::mem::replace(&mut self.has_begun, true) {
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
                if data.len() > LARGEST {
                    return Err(BadStream::TooLarge);
                }
                self.data = Some(data);
            }
            // Comments, ids and what nobody knows.
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
    fn events_are_whole_however_the_stream_is_cut() {
        let stream = "\u{feff}event: a\ndata: {\"é\":1}\n\n: note\r\nid: 7\r\ndata:x\r\ndata: y\r\n\r\ndata\rdata\r\r\ndata: half";
        let expected = [event("a", "{\"é\":1}"), event("", "x\ny"), event("", "\n")];
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            let mut reader = Reader::default();
            let mut found = reader.push(left).unwrap();
            found.extend(reader.push(right).unwrap());
            assert_eq!(found, expected, "cut at {cut}");
        }
        let mut reader = Reader::default();
        let found: Vec<Event> = bytes
            .chunks(1)
            .flat_map(|byte| reader.push(byte).unwrap())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_turned_away() {
        assert_eq!(Reader::default().push(b"data: \xff\n"), Err(BadStream::NotText));
        let mut reader = Reader::default();
        assert_eq!(reader.push(&vec![b'a'; LARGEST]), Ok(Vec::new()));
        assert_eq!(reader.push(b"a"), Err(BadStream::TooLarge));
        let mut reader = Reader::default();
        let line = format!("data: {}\n", "a".repeat(LARGEST / 2));
        reader.push(line.as_bytes()).unwrap();
        reader.push(line.as_bytes()).unwrap_err();
    }
}
