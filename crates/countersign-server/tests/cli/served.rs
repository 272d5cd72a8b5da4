//! A service over a folder's store, and commands that use it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::test_folder::{Left, TestFolder, look_first};

/// A service that runs until this is dropped.
pub struct Served<'p> {
    pub place: &'p TestFolder,
    pub url: String,
    child: Child,
}

impl<'p> Served<'p> {
    /// Starts a service on a free port.
    pub fn start(place: &'p TestFolder) -> Served<'p> {
        Served::start_at(place, "127.0.0.1:0")
    }

    /// Starts a service on this address.
    pub fn start_at(place: &'p TestFolder, address: &str) -> Served<'p> {
        Served::start_with(place, &["serve", "--listen", address, "--color", "never"])
    }

    /// Starts a service with these arguments.
    pub fn start_with(place: &'p TestFolder, arguments: &[&str]) -> Served<'p> {
        Served::spawn(place, place.command(arguments))
    }

    /// Starts a service on a free port, with these environment variables.
    pub fn start_in(place: &'p TestFolder, environment: &[(&str, &str)]) -> Served<'p> {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--color", "never"]);
        command.envs(environment.iter().copied());
        Served::spawn(place, command)
    }

    fn spawn(place: &'p TestFolder, mut command: Command) -> Served<'p> {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("PAY_KEY", "0123456789abcdef0123456789abcdef");
        command.env("HOOK_KEYS", crate::webhooks::KEYS);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        // Drain the rest of its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let url = first.split_whitespace().last().unwrap();
        let url = url.trim_end_matches("/approvals").to_owned();
        Served { place, url, child }
    }

    /// Returns the address as `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.url.replace("http://localhost", "127.0.0.1")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Creates a token with these arguments of `token create`.
    pub fn token(&self, arguments: &[&str]) -> String {
        let arguments: Vec<&str> = ["token", "create"].iter().chain(arguments).copied().collect();
        self.place.good(&arguments).trim().to_owned()
    }

    /// Creates a token for the agent `crm`.
    pub fn agent(&self) -> String {
        self.token(&["--agent", "crm", "--scope", "propose,wait"])
    }

    /// Creates a token for `ana`, whose account the service creates at its first start.
    pub fn person(&self) -> String {
        self.token(&["--person", "ana", "--scope", "read,decide"])
    }

    /// Prepares a command that uses the service instead of the store.
    pub fn command(&self, token: &str, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command
            .env_remove("COUNTERSIGN_STORE")
            .env("COUNTERSIGN_SERVER", &self.url)
            .env("COUNTERSIGN_TOKEN", token);
        command
    }

    /// Runs a command that uses the service. For `approve`, first reads the card and adds its digest.
    pub fn run(&self, token: &str, arguments: &[&str]) -> Left {
        let looked = look_first(arguments, |show| {
            let shown = self.command(token, show).output().unwrap();
            shown.status.success().then_some(shown.stdout)
        });
        let arguments: Vec<&str> = looked.iter().map(String::as_str).collect();
        Left::of(self.command(token, &arguments).output().unwrap())
    }

    /// Runs a command that must succeed and returns its output.
    #[track_caller]
    pub fn good(&self, token: &str, arguments: &[&str]) -> String {
        let left = self.run(token, arguments);
        assert_eq!(left.code, 0, "{arguments:?}: {left:?}");
        left.stdout
    }

    /// Proposes through the service and returns the approval's id.
    #[track_caller]
    pub fn propose(&self, token: &str, arguments: &[&str]) -> String {
        let arguments: Vec<&str> = ["--json", "propose"].iter().chain(arguments).copied().collect();
        let answer: serde_json::Value = serde_json::from_str(&self.good(token, &arguments)).unwrap();
        answer["approval"]["id"].as_str().unwrap().to_owned()
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
