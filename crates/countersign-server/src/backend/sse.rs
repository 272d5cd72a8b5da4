//! Parser for server-sent events, limited to what our server sends.
//!
//! Input: chunks of a stream, split anywhere. Output: complete events with their ids.

/// Largest buffered size. Our server sends no larger event, so beyond it the buffer is discarded.
const LARGEST: usize = 4 * 1024 * 1024;

/// Server-sent event.
#[derive(Debug, PartialEq, Eq)]
pub struct Sent {
    /// Id to resume the stream after this event.
    pub id: Option<String>,
    /// Content of the event; empty if it only states the position.
    pub data: String,
}

/// Assembles chunks into events.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        if self.bytes.len() > LARGEST {
            self.bytes.clear();
        }
    }

    /// Takes the next complete event. An event without data only states the position in the stream.
    pub fn take(&mut self) -> Option<Sent> {
        loop {
            let end = self.bytes.windows(2).position(|pair| pair == b"\n\n")?;
            let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block);
            let (mut id, mut data) = (None, Vec::new());
            for line in block.lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "id" => id = Some(value.to_owned()),
                    "data" => data.push(value),
                    // Comments are keep-alives; the event name is also in the data.
                    _ => {}
                }
            }
            if id.is_some() || !data.is_empty() {
                let data = data.join("\n");
                return Some(Sent { id, data });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f17_events_are_read_wherever_they_are_cut() {
        let text = ": alive\n\nid: 0-7\n\nid:0-8\nevent: approved\ndata: {\"a\":\ndata: 1}\n\n:\n\ndata: é\n\nid: 0-9\ndata: half";
        let whole = |id: Option<&str>, data: &str| Sent {
            id: id.map(str::to_owned),
            data: data.to_owned(),
        };
        let expected = [
            whole(Some("0-7"), ""),
            whole(Some("0-8"), "{\"a\":\n1}"),
            whole(None, "é"),
        ];
        for size in 1..text.len() {
            let mut reader = Reader::default();
            let mut read = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                reader.push(piece);
                read.extend(std::iter::from_fn(|| reader.take()));
            }
            assert_eq!(read, expected, "pieces of {size} bytes");
        }
    }
}
