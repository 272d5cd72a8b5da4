//! Messages on a byte stream, one per line.
//!
//! Enters: bytes. Leaves: whole lines, each with its line end, sharing the memory they were read into.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// The longest message.
pub const LONGEST: usize = 256 * 1024 * 1024;
/// How many messages may wait to be written.
pub const QUEUE: usize = 64;
const READ: usize = 64 * 1024;

/// Reads lines.
pub struct Lines<R> {
    source: R,
    buffer: BytesMut,
    /// So many bytes of the buffer hold no line end.
    scanned: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of this stream.
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            buffer: BytesMut::new(),
            scanned: 0,
        }
    }

    /// The next line; nothing at the end. What stands behind the last line end is a line as well.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let rest = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', rest) {
                let line = self.buffer.split_to(self.scanned + end + 1).freeze();
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LONGEST {
                return Err(io::Error::other(format!(
                    "a message has more than {LONGEST} bytes"
                )));
            }
            if self.buffer.capacity() == self.buffer.len() {
                // Twice as much each time, so that a long message is moved a few times only.
                self.buffer.reserve(READ.max(self.scanned));
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                self.scanned = 0;
                return Ok((!rest.is_empty()).then_some(rest));
            }
        }
    }
}

/// Writes messages in the order in which they come, until nobody sends any more or nobody reads.
pub async fn write_all(mut messages: mpsc::Receiver<Bytes>, mut sink: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        // A sign of life, for who has no other.
        if message.is_empty() {
            continue;
        }
        let written = async {
            sink.write_all(&message).await?;
            if !message.ends_with(b"\n") {
                sink.write_all(b"\n").await?;
            }
            sink.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_unchanged() {
        let long = "x".repeat(3 * READ);
        let text = format!("{{}}\n\r\n{long}\n  {{\"a\":1}}\r\nrest");
        let mut lines = Lines::new(text.as_bytes());
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(
            read,
            ["{}\n", "\r\n", &format!("{long}\n"), "  {\"a\":1}\r\n", "rest"]
        );
    }

    #[tokio::test]
    async fn messages_are_written_in_order_each_on_its_line() {
        let (sender, receiver) = mpsc::channel(QUEUE);
        for message in ["a\n", "b", "c\r\n"] {
            sender.send(Bytes::from_static(message.as_bytes())).await.unwrap();
        }
        drop(sender);
        let mut written = Vec::new();
        write_all(receiver, &mut written).await;
        assert_eq!(written, b"a\nb\nc\r\n");
    }
}
