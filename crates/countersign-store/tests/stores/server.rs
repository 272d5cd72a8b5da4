//! PostgreSQL servers owned by a test: killed, frozen, restarted, and with a standby that takes over.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::database::connect;

/// A server that is stopped and removed with this value.
pub struct Server {
    folder: Arc<TempDir>,
    directory: PathBuf,
    pub url: String,
}

impl Server {
    pub fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        // The server's user account needs to enter the directory.
        set_mode(folder.path(), 0o711);
        let directory = folder.path().join("a");
        let url = script(&["start", path(&directory)]);
        Server {
            folder: Arc::new(folder),
            directory,
            url,
        }
    }

    /// Starts a standby of this server.
    pub fn standby(&self) -> Server {
        let directory = self.folder.path().join("b");
        let url = script(&["standby", path(&directory), path(&self.directory)]);
        Server {
            folder: self.folder.clone(),
            directory,
            url,
        }
    }

    /// Deletes this server's data and restarts it as a standby of `primary`, at its old address.
    pub fn follow(&self, primary: &Server) {
        std::fs::remove_dir_all(self.directory.join("data")).unwrap();
        let url = script(&["standby", path(&self.directory), path(&primary.directory)]);
        assert_eq!(url, self.url, "it is where it was");
    }

    pub fn promote(&self) {
        script(&["promote", path(&self.directory)]);
    }

    pub fn postmaster(&self) -> u32 {
        let file = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    /// Kills the postmaster with SIGKILL; its children notice and exit.
    pub fn kill(&self) {
        signal("-KILL", self.postmaster());
    }

    pub fn stop(&self) {
        script(&["stop", path(&self.directory)]);
    }

    pub fn restart(&self) {
        let url = script(&["start", path(&self.directory)]);
        assert_eq!(url, self.url, "it is where it was");
    }

    pub async fn client(&self) -> Client {
        connect(&self.url).await
    }

    /// Returns the process ids of this server that meet a condition on `pg_stat_activity`.
    pub async fn processes(&self, condition: &str) -> Vec<u32> {
        processes(&self.client().await, condition).await
    }

    /// Waits until a process meets the condition, and returns the first one's id.
    pub async fn process(&self, condition: &str) -> u32 {
        let client = self.client().await;
        let begun = Instant::now();
        loop {
            if let Some(process) = processes(&client, condition).await.first() {
                return *process;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "no process: {condition}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Process::new(program()).arg("stop").arg(&self.directory).status();
    }
}

async fn processes(client: &Client, condition: &str) -> Vec<u32> {
    let sql = format!("SELECT pid FROM pg_stat_activity WHERE {condition}");
    let rows = client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, i32>(0) as u32).collect()
}

/// Connects to a server that may not be up yet, retrying for 30 seconds.
pub async fn connect_soon(url: &str) -> Client {
    let begun = Instant::now();
    loop {
        match tokio_postgres::connect(url, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return client;
            }
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends a signal by name, such as `-KILL`. Returns false if the process is gone.
pub fn signal(name: &str, process: u32) -> bool {
    let sent = Process::new("kill")
        .args([name, &process.to_string()])
        .stderr(std::process::Stdio::null())
        .status();
    sent.unwrap().success()
}

/// Processes suspended with SIGSTOP until this value is dropped.
pub struct Frozen(Vec<u32>);

impl Frozen {
    pub fn new(processes: Vec<u32>) -> Frozen {
        for process in &processes {
            assert!(signal("-STOP", *process));
        }
        Frozen(processes)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.0 {
            signal("-CONT", *process);
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres")
}

/// Runs the server script, which returns once the server accepts connections. Returns its URL, if it prints one.
fn script(arguments: &[&str]) -> String {
    let output = Process::new(program()).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let url = said.lines().find_map(|line| line.strip_prefix("url="));
    url.unwrap_or_default().to_owned()
}
