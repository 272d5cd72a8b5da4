//! Runs the program as a service in a temporary directory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

pub const POLICY: &str = r#"
[channel]
ttl = "5m"

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}"
yes = "Create"
no = "Do not create"

[tools.create_contact.schema]
type = "object"
required = ["name"]

[tools.create_contact.schema.properties]
name = { type = "string", minLength = 1 }

[tools.note]
effect = "write"
risk = "low"
summary = "Note {{ text }}"

[tools.delete_contact]
effect = "destructive"
risk = "high"
summary = "Delete contact {{ id }}"

[tools.brief]
effect = "write"
risk = "low"
summary = "Brief {{ text }}"
ttl = "4s"
"#;

/// A running service. Dropping this kills it.
pub struct Service {
    directory: tempfile::TempDir,
    child: Child,
    /// Address: `http://localhost:PORT`.
    pub base: String,
    /// One-time sign-in link.
    pub link: String,
}

impl Service {
    pub fn start() -> Service {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("countersign.toml"), POLICY).unwrap();
        Service::start_in(directory)
    }

    /// Starts a service without a policy file.
    pub fn start_bare() -> Service {
        Service::start_in(tempfile::tempdir().unwrap())
    }

    fn start_in(directory: tempfile::TempDir) -> Service {
        let (child, base, link) = serve(&directory, "127.0.0.1:0");
        Service {
            directory,
            child,
            base,
            link: link.expect("a link to sign in with"),
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts the service at the same address, over the same store.
    pub fn start_again(&mut self) {
        let port = self.base.rsplit(':').next().unwrap().to_owned();
        let (child, base, _) = serve(&self.directory, &format!("127.0.0.1:{port}"));
        assert_eq!(base, self.base);
        self.child = child;
    }

    /// Proposes one call and returns the approval's id.
    pub fn propose(&self, tool: &str, arguments: &str) -> String {
        let text = self.run(&["propose", tool, arguments, "--agent", "crm"], "");
        id(&text)
    }

    /// Proposes one call after a conversation.
    pub fn propose_after(
        &self,
        conversation: &serde_json::Value,
        tool: &str,
        arguments: &serde_json::Value,
    ) -> String {
        let file = self.directory.path().join("conversation.json");
        std::fs::write(&file, conversation.to_string()).unwrap();
        let (file, arguments) = (file.display().to_string(), arguments.to_string());
        let asked = [
            "propose",
            tool,
            &arguments,
            "--agent",
            "crm",
            "--conversation",
            &file,
        ];
        id(&self.run(&asked, ""))
    }

    /// Proposes several calls, one per line, and returns the approval's id.
    pub fn propose_batch(&self, lines: &str) -> String {
        id(&self.run(&["propose", "--calls", "-", "--agent", "crm"], lines))
    }

    /// Runs a command as `bo`, who is not the person signed in at the page, and returns its JSON output.
    pub fn run(&self, arguments: &[&str], input: &str) -> String {
        let mut child = command(&self.directory)
            .args(["--json", "--as", "bo"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Approves a card as `bo`.
    pub fn approve(&self, id: &str) {
        let shown = self.show(id);
        self.run(
            &["approve", id, "--digest", shown["digest"].as_str().unwrap()],
            "",
        );
    }

    /// Returns the approval as JSON.
    pub fn show(&self, id: &str) -> serde_json::Value {
        serde_json::from_str(&self.run(&["show", id], "")).unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn id(text: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"));
    let approval = json.get("approval").unwrap_or(&json);
    approval["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no id: {text}"))
        .to_owned()
}

fn command(directory: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command
        .current_dir(directory.path())
        .env("HOME", directory.path())
        .env_remove("XDG_CONFIG_HOME");
    let policy = directory.path().join("countersign.toml");
    if policy.exists() {
        command.env("COUNTERSIGN_POLICY", policy);
    }
    // Without API keys, agents answer from their scripts.
    command
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("OPENAI_API_KEY");
    command
}

/// Starts the service and reads its address and sign-in link from its output.
fn serve(directory: &tempfile::TempDir, listen: &str) -> (Child, String, Option<String>) {
    let mut child = command(directory)
        .args(["serve", "--listen", listen, "--as", "ana"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut base = None;
    let mut link = None;
    for line in lines.by_ref().map_while(Result::ok) {
        if let Some(at) = line.find("http://") {
            let address = line.get(at..).unwrap().trim().to_owned();
            match address.strip_suffix("/approvals") {
                Some(start) => base = Some(start.to_owned()),
                None if address.contains("/sign-in?") => link = Some(address),
                None => {}
            }
        }
        if line.contains("Ctrl-C") {
            break;
        }
    }
    // Keep reading its output, so that it never blocks on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (child, base.expect("an address"), link)
}
