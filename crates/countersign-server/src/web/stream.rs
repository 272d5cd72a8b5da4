//! Write timeouts for connections.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Time for which data may wait to be read by a client. After that, the client must have read at least [`LEAST_RATE`]
/// bytes per second.
const BEHIND_AT_MOST: Duration = Duration::from_secs(30);
const LEAST_RATE: u64 = 4 * 1024;

/// A stream whose writes fail if they make no progress for `patience`, or too little progress over a longer time. This
/// closes the connections of stalled event readers (F17) and of clients that read byte by byte (X61).
pub struct Impatient<S> {
    inner: S,
    patience: Duration,
    // Created only when a write has to wait, which never happens on most connections.
    deadline: Option<Pin<Box<Sleep>>>,
    is_stuck: bool,
    /// Time since which data has been waiting to be written, and number of bytes written since then. `None` if no data
    /// is waiting.
    behind: Option<(Instant, u64)>,
}

impl<S> Impatient<S> {
    /// Creates a wrapper around a connection. A write fails if it makes no progress for `patience`.
    pub fn new(inner: S, patience: Duration) -> Impatient<S> {
        Impatient {
            inner,
            patience,
            deadline: None,
            is_stuck: false,
            behind: None,
        }
    }

    fn wrote(&mut self, polled: &Poll<io::Result<usize>>) {
        if let (Some((_, written)), Poll::Ready(Ok(bytes))) = (&mut self.behind, polled) {
            *written += u64::try_from(*bytes).unwrap_or_default();
        }
    }

    fn is_too_slow(&mut self) -> bool {
        let (since, written) = *self.behind.get_or_insert((Instant::now(), 0));
        let elapsed = since.elapsed();
        elapsed >= BEHIND_AT_MOST && written < elapsed.as_secs() * LEAST_RATE
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_stuck = false;
            return polled;
        }
        if self.is_too_slow() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        if !self.is_stuck {
            deadline.as_mut().reset(Instant::now() + patience);
            self.is_stuck = true;
        }
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(&polled);
        self.watch(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        self.wrote(&polled);
        self.watch(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        // All data has been written.
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.behind = None;
        }
        self.watch(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.watch(polled, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[tokio::test(start_paused = true)]
    async fn f17_who_does_not_read_is_let_go() {
        let (ours, theirs) = tokio::io::duplex(16);
        let mut stream = Impatient::new(ours, Duration::from_secs(5));
        let began = Instant::now();
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 5);
        drop(theirs);
    }

    #[tokio::test(start_paused = true)]
    async fn x61_who_takes_an_answer_byte_by_byte_is_let_go() {
        use tokio::io::AsyncReadExt as _;
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = Impatient::new(ours, Duration::from_secs(5));
        let began = Instant::now();
        let writing = tokio::spawn(async move {
            let written = stream.write_all(&[7; 1000]).await;
            (written.is_err(), began.elapsed().as_secs())
        });
        let mut some = [0; 1];
        while theirs.read(&mut some).await.is_ok_and(|read| read > 0) {
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        let (has_failed, seconds) = writing.await.unwrap();
        assert!(has_failed && (30..40).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_but_reads_is_served() {
        use tokio::io::AsyncReadExt as _;
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = Impatient::new(ours, Duration::from_secs(5));
        let writing = tokio::spawn(async move { stream.write_all(&[7; 64]).await });
        let mut total = 0;
        while total < 64 {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let mut some = [0; 8];
            total += theirs.read(&mut some).await.unwrap();
        }
        assert!(writing.await.unwrap().is_ok());
    }
}
