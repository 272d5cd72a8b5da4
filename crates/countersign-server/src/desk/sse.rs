//! Reading server-sent events, as far as our server sends them.
//!
//! Enters: pieces of a stream, cut anywhere. Leaves: whole events with their ids.

/// No event of ours is larger; what is, is not ours.
const LARGEST: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct Sent {
    /// Where to go on behind it.
    pub id: Option<String>,
    /// What it says.
    pub data: String,
}

/// Puts pieces together.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        if self.bytes.len() > LARGEST {
            self.bytes.clear();
        }
    }

    /// Takes the next whole event. One that only says where the stream is has no data.
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
                    // Comments keep the connection alive; names are in the data.
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
