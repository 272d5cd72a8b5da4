//! Messages on a byte stream, one per line.
//!
//! Enters: bytes. Leaves: whole messages as the door reads them, sharing the memory they were read into, or why a line is
//! none. A line that is too long is passed over, and the next one counts.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::bad::Bad;
use super::frame::{Frame, LONGEST, Unreadable};
use super::one_line::OneLine;

/// How many messages may wait to be written.
pub const QUEUE: usize = 64;
const READ: usize = 64 * 1024;

/// A line as the door reads it.
pub type Read = Result<Frame, Bad>;

/// Reads lines.
pub struct Lines<R> {
    source: R,
    buffer: BytesMut,
    /// So many bytes of the buffer hold no line end.
    scanned: usize,
    /// The beginning of a line that is too long, while the rest of it is passed over.
    too_long: Option<Bytes>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of this stream.
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            buffer: BytesMut::new(),
            scanned: 0,
            too_long: None,
        }
    }

    /// The next message; nothing at the end. Blank lines are none.
    pub async fn next(&mut self) -> io::Result<Option<Read>> {
        loop {
            let Some(line) = self.line().await? else {
                return Ok(None);
            };
            let read = match self.too_long.take() {
                Some(begun) => {
                    let problem = format!("it has more than {LONGEST} bytes");
                    Err(Bad::new(Unreadable::new(&problem), begun))
                }
                None => Frame::read(line),
            };
            match read {
                Err(bad) if bad.is_blank() => {}
                read => return Ok(Some(read)),
            }
        }
    }

    /// The next line with its end; nothing at the end. What stands behind the last line end is a line as well.
    async fn line(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let rest = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', rest) {
                let line = self.buffer.split_to(self.scanned + end + 1).freeze();
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LONGEST || (self.too_long.is_some() && self.scanned >= READ) {
                // A copy, so that the memory of the rest is given back.
                let begun = self.buffer.get(..READ).unwrap_or_default();
                self.too_long.get_or_insert_with(|| Bytes::copy_from_slice(begun));
                self.buffer = BytesMut::new();
                self.scanned = 0;
            }
            if self.buffer.capacity() == self.buffer.len() {
                // Twice as much each time, so that a long message is moved a few times only.
                self.buffer.reserve(READ.max(self.scanned));
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                self.scanned = 0;
                return Ok((!rest.is_empty() || self.too_long.is_some()).then_some(rest));
            }
        }
    }
}

/// Writes messages in the order in which they come, each on its line, until nobody sends any more or nobody reads.
pub async fn write_all(mut messages: mpsc::Receiver<OneLine>, mut sink: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        // A sign of life, for who has no other.
        if message.is_empty() {
            continue;
        }
        // Both in one system call, where the sink can do that.
        let mut line = message.bytes().chain(&b"\n"[..]);
        let written = async {
            sink.write_all_buf(&mut line).await?;
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

    async fn all(source: impl AsyncRead + Unpin) -> Vec<String> {
        let mut lines = Lines::new(source);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(match line {
                Ok(frame) => String::from_utf8(frame.line.to_vec()).unwrap(),
                Err(bad) => bad.problem().to_string(),
            });
        }
        read
    }

    #[tokio::test]
    async fn messages_come_whole_and_unchanged() {
        let ping = |text: &str| format!(r#"{{"id":1,"method":"ping","params":{{"x":"{text}"}}}}"#);
        let long = ping(&"x".repeat(3 * READ));
        let text = format!("{}\n\r\n{long}\n  {}\r\n{}", ping("a"), ping("b"), ping("c"));
        let expected = [ping("a"), long, format!("  {}", ping("b")), ping("c")];
        assert_eq!(all(text.as_bytes()).await, expected);
    }

    #[tokio::test]
    async fn x82_a_line_that_is_too_long_is_passed_over() {
        let ping = r#"{"id":1,"method":"ping"}"#;
        let long = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 2 * LONGEST as u64 + 7);
        let rest = format!("\n{ping}\n");
        let source = long.chain(rest.as_bytes());
        let expected = [format!("it has more than {LONGEST} bytes"), ping.to_owned()];
        assert_eq!(all(source).await, expected);
        let long = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), LONGEST as u64 + 7);
        assert_eq!(all(long).await.len(), 1);
    }

    #[tokio::test]
    async fn messages_are_written_in_order_each_on_its_line() {
        let (sender, receiver) = mpsc::channel(QUEUE);
        for message in ["a\n", "b", "", "c\r\n", "d\re"] {
            sender.send(OneLine::new(message)).await.unwrap();
        }
        drop(sender);
        let mut written = Vec::new();
        write_all(receiver, &mut written).await;
        assert_eq!(written, b"a\nb\nc\nd e\n");
    }
}
