//! Newline-delimited messages on a byte stream.
//!
//! Each line gives a parsed message that shares the read buffer's memory, or the reason why the line is not a message.
//! A line that is too long is skipped, and reading continues with the next.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use countersign_http_client::events::make_room;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::bad::Bad;
use super::frame::{Frame, LONGEST, Unreadable};
use super::one_line::OneLine;

/// Capacity of the queues of outgoing messages.
pub const QUEUE: usize = 64;
const READ: usize = 64 * 1024;
/// After a line longer than this the buffer is replaced, because later lines would keep all of its memory alive.
const LONG: usize = 4 * READ;

/// A parsed line, or why it is not a message.
pub type Read = Result<Frame, Bad>;

/// Reads messages from a stream, one per line.
pub struct Lines<R> {
    source: R,
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer known to contain no line end.
    scanned: usize,
    /// Start of a line that is too long, while the rest of it is skipped.
    too_long: Option<Bytes>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a reader of messages from `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            buffer: BytesMut::new(),
            scanned: 0,
            too_long: None,
        }
    }

    /// Returns the next message, or `None` at the end of the stream. Blank lines are skipped.
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

    /// Returns the next line with its line end, or `None` at the end of the stream. The last line needs no line end.
    async fn line(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let rest = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', rest) {
                let line = self.buffer.split_to(self.scanned + end + 1).freeze();
                self.scanned = 0;
                if line.len() > LONG {
                    self.buffer = BytesMut::from(&*self.buffer);
                }
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LONGEST || (self.too_long.is_some() && self.scanned >= READ) {
                // Copy, so that the large buffer is freed.
                let begun = self.buffer.get(..READ).unwrap_or_default();
                self.too_long.get_or_insert_with(|| Bytes::copy_from_slice(begun));
                self.buffer = BytesMut::new();
                self.scanned = 0;
            }
            if self.buffer.capacity() == self.buffer.len() {
                make_room(&mut self.buffer, READ, LONGEST);
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                self.scanned = 0;
                return Ok((!rest.is_empty() || self.too_long.is_some()).then_some(rest));
            }
        }
    }
}

/// Writes messages in order, one per line, until all senders are dropped or the reader is gone.
pub async fn write_all(mut messages: mpsc::Receiver<OneLine>, mut sink: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        // A keepalive, which only HTTP streams need.
        if message.is_empty() {
            continue;
        }
        // The time limit of the message may have passed while the server did not read its input.
        if !message.is_in_time() {
            continue;
        }
        // Message and line end in one system call, where the sink supports that.
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
