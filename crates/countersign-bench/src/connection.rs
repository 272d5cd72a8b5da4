//! A minimal HTTP/1.1 client on one keep-alive connection.

use anyhow::{Context as _, bail};
use countersign_http_client::events::EventReader;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum size of an event, in bytes.
const LARGEST_EVENT: usize = 1024 * 1024;

/// A connection and its read buffer.
pub(super) struct Connection {
    stream: TcpStream,
    address: String,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: &str) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            address: address.to_owned(),
            buffer: Vec::with_capacity(8 * 1024),
        })
    }

    pub(super) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &str,
    ) -> anyhow::Result<String> {
        self.send(method, path, token, body).await?;
        self.receive().await
    }

    pub(super) async fn send(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &str,
    ) -> anyhow::Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    /// Reads one response with a `Content-Length`. Any status other than 2xx is an error.
    pub(super) async fn receive(&mut self) -> anyhow::Result<String> {
        loop {
            if let Some(answer) = self.take_answer()? {
                return Ok(answer);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the service closed the connection");
            }
        }
    }

    fn take_answer(&mut self) -> anyhow::Result<Option<String>> {
        let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") else {
            return Ok(None);
        };
        let (head, rest) = self.buffer.split_at_checked(end + 4).unwrap_or_default();
        let length = length(head).context("an answer without a length")?;
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        if !head.starts_with(b"HTTP/1.1 2") {
            bail!(
                "{}{}",
                String::from_utf8_lossy(head),
                String::from_utf8_lossy(body)
            );
        }
        let body = std::str::from_utf8(body)?.to_owned();
        self.buffer.drain(..end + 4 + length);
        Ok(Some(body))
    }

    /// Reads to the end of the stream and counts the events of this name. The response's head and the sizes of its
    /// chunks have no field of an event, so the parser skips them.
    pub(super) async fn count_events(mut self, name: &'static str) -> usize {
        let mut events = EventReader::new(LARGEST_EVENT);
        let mut count = 0;
        loop {
            events.push(&self.buffer);
            self.buffer.clear();
            while let Ok(Some(event)) = events.next_event() {
                count += usize::from(event.name.as_deref() == Some(name.as_bytes()));
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                _ => return count,
            }
        }
    }
}

/// Returns the `Content-Length`, or `None` if the header is missing. The measured servers send header names in lower
/// case.
fn length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let behind = head.get(memmem::find(head, NAME)? + NAME.len()..)?;
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(behind.get(..digits)?).ok()?.parse().ok()
}
