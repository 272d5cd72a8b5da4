//! A server process that the gateway starts. Messages go over its standard input and output; its standard error is the
//! gateway's own.
//!
//! The server gets a minimal environment plus the variables that the operator adds (`environment`). The server runs in
//! a process group of its own. When it has ended or is no longer needed, the whole group is ended (`group`).

use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
use crate::links::{self, StartFolders};

/// Offset that shells add to the number of the signal that ended a process, to make an exit code.
const SIGNAL: i32 = 128;

/// A running server process. Dropping this value ends the process.
pub struct Child {
    input: mpsc::Sender<OneLine>,
    closing: DropGuard,
    ended: JoinHandle<io::Result<ExitStatus>>,
}

/// A server process, the sender to its standard input, and the messages that it writes to its standard output.
pub type Started = (Child, Box<dyn Upstream>, Lines<Output>);

/// A server's standard output, up to a limit.
pub struct Output {
    pipe: ChildStdout,
    limit: Limit,
}

/// Maximum number of bytes that a server may send, and the count so far.
#[derive(Clone, Debug)]
pub struct Limit {
    bytes: u64,
    sent: Arc<AtomicU64>,
}

impl Default for Limit {
    /// Creates a limit that is never exceeded.
    fn default() -> Limit {
        Limit::bytes(u64::MAX)
    }
}

impl Limit {
    /// Creates a limit of `bytes` in total.
    pub fn bytes(bytes: u64) -> Limit {
        Limit {
            bytes,
            sent: Arc::default(),
        }
    }

    /// Counts bytes that were just received. Returns an error once the total exceeds the limit.
    pub fn count(&self, bytes: usize) -> io::Result<()> {
        if self.bytes == u64::MAX {
            return Ok(());
        }
        let before = self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        match before.saturating_add(bytes as u64) > self.bytes {
            true => Err(io::Error::other(format!(
                "a server sent more than {} bytes",
                self.bytes
            ))),
            false => Ok(()),
        }
    }

    /// Returns true once the server has sent more than the limit.
    pub fn is_exceeded(&self) -> bool {
        self.sent.load(Ordering::Relaxed) > self.bytes
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.pipe).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        match (polled, self.limit.count(read)) {
            (Poll::Ready(Ok(())), Err(exceeded)) => Poll::Ready(Err(exceeded)),
            (polled, _) => polled,
        }
    }
}

/// Command and environment of a server.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Extra environment variables, with their values.
    pub env: Vec<(String, String)>,
    /// Names of the gateway's environment variables that are passed on in addition to the usual ones.
    pub pass_env: Vec<String>,
    /// Maximum number of bytes that the server may send.
    pub limit: Limit,
}

/// Sends messages to the process's standard input.
struct Input {
    messages: mpsc::WeakSender<OneLine>,
    /// Working folder of the process, which is the gateway's own, and the folders that the command line names.
    folders: StartFolders,
}

impl Upstream for Input {
    fn send(&self, frame: OneLine) -> BoxFuture<'_, Result<(), Gone>> {
        async move {
            let sender = self.messages.upgrade().ok_or(Gone)?;
            sender.send(frame).await.map_err(|_| Gone)
        }
        .boxed()
    }

    fn folders(&self) -> Option<&StartFolders> {
        Some(&self.folders)
    }
}

impl Child {
    /// Starts a server in the gateway's folder, with its input and output connected to the gateway.
    pub fn start(launch: &Launch) -> Result<Started, Failure> {
        let (program, arguments) = launch
            .words
            .split_first()
            .ok_or_else(|| Failure::usage("there is no server to start").hint("write it behind `--`"))?;
        let folders = StartFolders::of_command(links::current_folder()?, arguments);
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
        let way = Box::new(Input {
            messages: input.downgrade(),
            folders,
        });
        let child = Child {
            input,
            closing,
            ended,
        };
        let output = Output {
            pipe: stdout,
            limit: launch.limit.clone(),
        };
        Ok((child, way, Lines::new(output)))
    }

    /// Closes the server's standard input, waits until the server has ended and returns its exit code. A server that
    /// does not end by itself is terminated together with its process group.
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

/// Waits until a server has ended or is no longer needed, then ends its process group. A process left over from the
/// group would keep the output pipe open and hide the server's end.
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
