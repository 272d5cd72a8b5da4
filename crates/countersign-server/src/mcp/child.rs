//! A server that we start: messages on its standard input and output, its complaints on our standard error.

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::process::{ChildStdout, Command};
use tokio::sync::mpsc;

use super::lines::{self, Lines};
use super::server::{Gone, Upstream};
use crate::failure::{Exit, Failure};

/// How long a server may take to end once nobody speaks to it any more.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// What a shell adds to the signal that ended a process.
const SIGNAL: i32 = 128;

/// A server that was started.
pub struct Child {
    process: tokio::process::Child,
    input: mpsc::Sender<Bytes>,
}

/// A server, the way to it, and what it says.
pub type Started = (Child, Box<dyn Upstream>, Lines<ChildStdout>);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What it finds in its environment beside ours.
    pub env: Vec<(String, String)>,
}

/// The way to its standard input.
struct Input(mpsc::WeakSender<Bytes>);

impl Upstream for Input {
    fn send(&self, frame: Bytes) -> BoxFuture<'_, Result<(), Gone>> {
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
            // Whoever can read them could decide.
            .env_remove("COUNTERSIGN_TOKEN")
            .env_remove("COUNTERSIGN_SEAL_KEY")
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn();
        let mut process = started.map_err(|error| {
            Failure::error("no_server", format!("cannot start `{program}`: {error}"))
                .hint("give the server's command behind `--`, as in `countersign mcp -- npx -y SERVER`")
        })?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::error(
                "no_server",
                format!("cannot speak to `{program}`"),
            ));
        };
        let (input, messages) = mpsc::channel(lines::QUEUE);
        tokio::spawn(lines::write_all(messages, stdin));
        let way = Box::new(Input(input.downgrade()));
        Ok((Child { process, input }, way, Lines::new(stdout)))
    }

    /// Closes its input, waits for its end, and gives its exit code. One that does not end is ended.
    pub async fn end(mut self) -> Exit {
        drop(self.input);
        let status = match tokio::time::timeout(ENDS_WITHIN, self.process.wait()).await {
            Ok(status) => status,
            Err(_) => {
                let _ = self.process.start_kill();
                self.process.wait().await
            }
        };
        let Ok(status) = status else {
            return Exit::Error;
        };
        use std::os::unix::process::ExitStatusExt as _;
        let code = status.code().or(status.signal().map(|signal| SIGNAL + signal));
        Exit::Server(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}
