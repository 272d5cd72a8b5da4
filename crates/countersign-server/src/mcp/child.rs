//! A server that we start: messages on its standard input and output, its complaints on our standard error.
//!
//! It gets the environment that a program needs to start, and what the operator adds (`environment`). It leads a process
//! group of its own: once it has ended, by itself or because nobody needs it any more, the whole group is (`group`).

use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lines::{self, Lines};
use super::one_line::OneLine;
use super::server::{Gone, Upstream};
use crate::environment;
use crate::failure::{Exit, Failure};
use crate::group::Group;

/// What a shell adds to the signal that ended a process.
const SIGNAL: i32 = 128;

/// A server that was started. Dropping it ends the server, too.
pub struct Child {
    input: mpsc::Sender<OneLine>,
    closing: DropGuard,
    ended: JoinHandle<io::Result<ExitStatus>>,
}

/// A server, the way to it, and what it says.
pub type Started = (Child, Box<dyn Upstream>, Lines<Output>);

/// What a server writes to its standard output, up to a limit.
pub struct Output {
    pipe: ChildStdout,
    left: u64,
    limit: Limit,
}

/// The most that a server may send, and whether it has sent more.
#[derive(Clone, Debug)]
pub struct Limit {
    bytes: u64,
    is_exceeded: Arc<AtomicBool>,
}

impl Default for Limit {
    /// As much as it likes.
    fn default() -> Limit {
        Limit::bytes(u64::MAX)
    }
}

impl Limit {
    /// So many bytes in all.
    pub fn bytes(bytes: u64) -> Limit {
        Limit {
            bytes,
            is_exceeded: Arc::default(),
        }
    }

    /// Returns true once a server has sent more.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            self.limit.is_exceeded.store(true, Ordering::Relaxed);
            let most = self.limit.bytes;
            return Poll::Ready(Err(io::Error::other(format!(
                "a server sent more than {most} bytes"
            ))));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.pipe).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        self.left = self.left.saturating_sub(read as u64);
        polled
    }
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables that it gets, with their values.
    pub env: Vec<(String, String)>,
    /// Variables of ours that it gets besides the usual ones.
    pub pass_env: Vec<String>,
    /// The most that it may send.
    pub limit: Limit,
}

/// The way to its standard input.
struct Input(mpsc::WeakSender<OneLine>);

impl Upstream for Input {
    fn send(&self, frame: OneLine) -> BoxFuture<'_, Result<(), Gone>> {
        async move {
            let sender = self.0.upgrade().ok_or(Gone)?;
            sender.send(frame).await.map_err(|_| Gone)
        }
        .boxed()
    }
}

impl Child {
    /// Starts a server.
    pub fn start(launch: &Launch) -> Result<Started, Failure> {
        let (program, arguments) = launch
            .words
            .split_first()
            .ok_or_else(|| Failure::usage("there is no server to start").hint("write it behind `--`"))?;
        let started = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment::inherited(&launch.pass_env))
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn();
        let mut process = started.map_err(|error| {
            Failure::error("no_server", format!("cannot start `{program}`: {error}"))
                .hint("give the server's command behind `--`, as in `countersign mcp -- npx -y SERVER`")
        })?;
        let pipes = (process.stdin.take(), process.stdout.take());
        let closing = CancellationToken::new();
        let ended = tokio::spawn(supervise(process, closing.clone()));
        let closing = closing.drop_guard();
        let (Some(stdin), Some(stdout)) = pipes else {
            return Err(Failure::error(
                "no_server",
                format!("cannot speak to `{program}`"),
            ));
        };
        let (input, messages) = mpsc::channel(lines::QUEUE);
        tokio::spawn(lines::write_all(messages, stdin));
        let way = Box::new(Input(input.downgrade()));
        let child = Child {
            input,
            closing,
            ended,
        };
        let output = Output {
            pipe: stdout,
            left: launch.limit.bytes,
            limit: launch.limit.clone(),
        };
        Ok((child, way, Lines::new(output)))
    }

    /// Closes its input, waits for its end, and gives its exit code. What does not end by itself is ended, with all that
    /// it started.
    pub async fn end(self) -> Exit {
        drop(self.input);
        drop(self.closing);
        let Ok(Ok(status)) = self.ended.await else {
            return Exit::Error;
        };
        use std::os::unix::process::ExitStatusExt as _;
        let code = status.code().or(status.signal().map(|signal| SIGNAL + signal));
        Exit::Server(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}

/// Waits until a server has ended or is not needed any more, and ends its group. What it left running would hold its
/// output open, so that nobody saw its end.
async fn supervise(mut process: tokio::process::Child, closing: CancellationToken) -> io::Result<ExitStatus> {
    let group = Group::of(&process);
    tokio::select! {
        _ = process.wait() => {}
        () = closing.cancelled() => {}
    }
    match group {
        Some(group) => group.end(&mut process).await,
        None => process.wait().await,
    }
}
