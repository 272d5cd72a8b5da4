//! A server that only returns fixed bytes, as the baseline for the response times of the service.

use std::io::Write as _;

use anyhow::Context as _;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// The baseline server, running in its own process like the service.
pub(super) struct Bare {
    pub(super) address: String,
    _child: Child,
}

pub(super) async fn start(bytes: String) -> anyhow::Result<Bare> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("bare")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(bytes.as_bytes()).await?;
    drop(stdin);
    let stdout = child.stdout.take().context("no output")?;
    let address = BufReader::new(stdout).lines().next_line().await?;
    Ok(Bare {
        address: address.context("the bare server did not start")?,
        _child: child,
    })
}

/// Reads the response body from standard input and serves it until the process is killed. Prints its address first.
pub(super) async fn serve() -> anyhow::Result<()> {
    let text = std::io::read_to_string(std::io::stdin())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    drop(stdout);
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let app = Router::new().fallback(get(move || {
        let text = text.clone();
        async move { (kind, text) }
    }));
    Ok(axum::serve(listener, app).await?)
}
