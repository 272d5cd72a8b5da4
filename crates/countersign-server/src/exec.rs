//! Runs calls with a command: the exact argument bytes on standard input, the result on standard output.
//!
//! Exit code 0 means that the call succeeded, any other code that it failed. If the command is killed by a signal or
//! times out, the outcome is unknown and the call is never run again automatically.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign::executor::{Executor, LARGEST_RESULT, Outcome, Permit};
use countersign::id::ToolName;
use countersign::seal::Secret;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::environment;
use crate::failure::Failure;
use crate::group;
use crate::output;
use crate::output::foreign::Foreign;

/// Time by which the command's limit is shorter than the gate's, so that the command is killed before the gate gives
/// up.
const BEFORE_THE_GATE: Duration = Duration::from_millis(200);
/// Maximum time that output is read after the command has exited. A process that the command left running may hold
/// the pipe open.
const AFTER_EXIT: Duration = Duration::from_secs(1);
/// Maximum bytes of standard error that are kept as the reason of a failure.
const LARGEST_COMPLAINT: usize = 16 * 1024;

/// One call to run.
pub struct Job {
    pub tool: String,
    /// Id of the call; `None` for a read that passed, which has no record.
    pub call: Option<String>,
    /// Exact bytes of the arguments.
    pub arguments: Vec<u8>,
    /// Credential that was submitted with the call, if any.
    pub secret: Option<Secret>,
    /// Time limit of the call. The command gets slightly less.
    pub timeout: Duration,
}

impl From<&Permit> for Job {
    fn from(permit: &Permit) -> Job {
        Job {
            tool: permit.tool().to_string(),
            call: permit.call().map(|call| call.to_string()),
            arguments: permit.arguments().as_bytes().to_vec(),
            secret: permit.secret().cloned(),
            timeout: permit.timeout(),
        }
    }
}

/// Executor that runs every tool with the same command.
#[derive(Clone, Debug)]
pub struct CommandExecutor {
    program: String,
    arguments: Vec<String>,
    /// Names of environment variables that the command gets in addition to the usual ones.
    pass_env: Vec<String>,
}

impl CommandExecutor {
    /// Creates an executor from a program and its arguments. Fails if the program is not found, so that this is known
    /// before anything is approved.
    pub fn new(command: &[String], pass_env: &[String]) -> Result<CommandExecutor, Failure> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| Failure::usage("`--exec` needs a command"))?;
        if !is_there(program) {
            let message = format!("command `{program}` not found");
            return Err(
                Failure::error("no_command", message).hint("give its path, as in `--exec ./send-mail`")
            );
        }
        Ok(CommandExecutor {
            program: program.clone(),
            arguments: arguments.to_vec(),
            pass_env: pass_env.to_vec(),
        })
    }

    fn spawn(&self, job: &Job) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            // The environment is cleared: a tool that could read the token of this process could decide approvals.
            .env_clear()
            .envs(environment::inherited(&self.pass_env))
            .env("COUNTERSIGN_TOOL", &job.tool)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(call) = &job.call {
            command.env("COUNTERSIGN_CALL_ID", call);
        }
        if let Some(secret) = &job.secret {
            command.env(
                "COUNTERSIGN_SECRET",
                String::from_utf8_lossy(secret.reveal()).as_ref(),
            );
        }
        // A process group of its own, so that Ctrl-C does not interrupt the command.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }

    /// Runs the command for one call. The command is never repeated, whatever the outcome.
    pub async fn run_once(self, job: Job) -> Outcome {
        let mut child = match self.spawn(&job) {
            Ok(child) => child,
            Err(error) => return Outcome::NotSent(format!("cannot start `{}`: {error}", self.program)),
        };
        let stdin = child.stdin.take().map(|mut stdin| {
            let bytes = job.arguments;
            // A command may exit without reading its arguments, so a failed write is not an error.
            tokio::spawn(async move { stdin.write_all(&bytes).await })
        });
        let stdout = child
            .stdout
            .take()
            .map(|pipe| Collected::start(pipe, LARGEST_RESULT, false));
        let stderr = child
            .stderr
            .take()
            .map(|pipe| Collected::start(pipe, LARGEST_COMPLAINT, true));
        let limit = job.timeout.saturating_sub(BEFORE_THE_GATE);
        let status = match tokio::time::timeout(limit, child.wait()).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => {
                return Outcome::Unknown(format!("cannot get the command's exit status: {error}"));
            }
            Err(_) => {
                let _ = group::kill(&mut child).await;
                return Outcome::Unknown("no answer in time".to_owned());
            }
        };
        drop(stdin);
        outcome(status, finish(stdout).await, finish(stderr).await)
    }
}

impl Executor for CommandExecutor {
    fn runs(&self, _tool: &ToolName) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> BoxFuture<'static, Outcome> {
        match permit.time_left() {
            Some(_) => Box::pin(self.clone().run_once(Job::from(&permit))),
            None => Box::pin(async { Outcome::NotSent("not started: its deadline passed first".to_owned()) }),
        }
    }
}

fn outcome(status: ExitStatus, answer: Kept, complaint: Kept) -> Outcome {
    match status.code() {
        Some(0) => Outcome::succeeded(answer.bounded()),
        Some(_) if answer.total > 0 => Outcome::failed(answer.bounded()),
        Some(_) if complaint.total > 0 => Outcome::failed(complaint.bytes),
        Some(code) => Outcome::failed(format!("exit code {code}")),
        None => Outcome::Unknown(format!("the command was killed: {status}")),
    }
}

/// Output of a pipe: its first bytes up to a limit, and its total length.
#[derive(Clone, Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    total: u64,
}

impl Kept {
    /// Returns the bytes if they are complete. Otherwise returns a JSON note with the total length instead.
    fn bounded(self) -> Vec<u8> {
        match self.total > self.bytes.len() as u64 {
            false => self.bytes,
            true => format!(
                "{{\"omitted\":\"the result was too large to keep\",\"bytes\":{}}}",
                self.total
            )
            .into_bytes(),
        }
    }
}

/// A task that reads a pipe to its end, so that the command never blocks on a full pipe.
struct Collected {
    kept: Arc<Mutex<Kept>>,
    task: JoinHandle<()>,
}

impl Collected {
    fn start(mut pipe: impl AsyncRead + Unpin + Send + 'static, limit: usize, is_shown: bool) -> Collected {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 8 * 1024];
            let mut lines = Lines::default();
            while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
                let piece = buffer.get(..count).unwrap_or_default();
                if is_shown {
                    lines.show(piece);
                }
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = limit.saturating_sub(kept.bytes.len());
                kept.bytes.extend(piece.iter().take(room));
                kept.total += piece.len() as u64;
            }
            lines.end();
        });
        Collected { kept, task }
    }
}

async fn finish(pipe: Option<Collected>) -> Kept {
    let Some(Collected { kept, mut task }) = pipe else {
        return Kept::default();
    };
    if tokio::time::timeout(AFTER_EXIT, &mut task).await.is_err() {
        task.abort();
    }
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.clone()
}

/// Buffer for the current line of standard error. Each line is escaped and printed once it is complete.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    const LONGEST: usize = 4 * 1024;

    fn show(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                b'\n' => self.end(),
                byte => self.0.push(*byte),
            }
            if self.0.len() >= Lines::LONGEST {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        if !self.0.is_empty() {
            let line = String::from_utf8_lossy(&self.0);
            output::print_foreign_to_stderr(&Foreign::new(line.trim_end_matches('\r')));
            self.0.clear();
        }
    }
}

fn is_there(program: &str) -> bool {
    if program.contains('/') || cfg!(not(unix)) {
        return Path::new(program).is_file() || cfg!(not(unix));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
