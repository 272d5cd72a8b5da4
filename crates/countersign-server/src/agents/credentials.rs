//! Credentials that an agent's calls run with, from the places that its file names.
//!
//! Input: the agent's file, and the environment. Output: a source of credentials for the agent. They are read once, when
//! the agent is loaded, and stay in memory; the gate seals the one of each call while the call waits.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use countersign::seal::Secret;
use countersign_agent::agent::{Credentials, TurnContext};
use countersign_agent::file::{AgentFile, CredentialSource};

use crate::regular;

/// Largest file with a credential, in bytes.
const LARGEST: u64 = 16 * 1024;

/// Reads the credentials of an agent's tools. `None` if its file names none. Fails if one cannot be read, because a call
/// without its credential is not the call that was meant.
pub fn credentials(
    file: &AgentFile,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Arc<dyn Credentials>>, String> {
    let mut secrets: HashMap<String, Secret> = HashMap::new();
    for (tool, source) in file.credentials() {
        let bad = |problem: String| format!("the credential of `{tool}`: {problem}");
        let text = match source {
            CredentialSource::Env(name) => {
                variable(name).ok_or_else(|| bad(format!("the environment variable `{name}` is not set")))?
            }
            CredentialSource::File(path) => read(path).map_err(bad)?,
        };
        let secret = Secret::new(text.trim());
        secret.check().map_err(|problem| bad(problem.to_string()))?;
        secrets.insert(tool.to_owned(), secret);
    }
    if secrets.is_empty() {
        return Ok(None);
    }
    let source = move |_: &TurnContext, tool: &str| secrets.get(tool).cloned();
    Ok(Some(Arc::new(source)))
}

fn read(path: &Path) -> Result<String, String> {
    if !path.is_absolute() {
        return Err(format!("`{}` is not a full path", path.display()));
    }
    regular::read_text(path, LARGEST).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: &str = r#"[{"name":"note","description":"n","input_schema":{"type":"object"}},
        {"name":"mail","description":"m","input_schema":{"type":"object"}}]"#;
    const AGENT: &str = "name = \"crm\"\n[[specialist]]\nname = \"one\"\nabout = \"a\"\nprompt = \"p\"\nmodel = \"m\"\ntools = [\"note\"]\n[models.m]\n";

    fn found(credentials: &str) -> Result<Option<String>, String> {
        let agent = format!("{AGENT}[credentials]\n{credentials}\n");
        let file = AgentFile::parse(&agent, TOOLS, None).map_err(|problem| problem.to_string())?;
        let variable = |name: &str| (name == "NOTE_TOKEN").then(|| "abc 123\n".to_owned());
        let source = super::credentials(&file, variable)?;
        let context = TurnContext {
            tenant: countersign::id::Tenant::single(),
            channel: countersign::id::Channel::new("c").unwrap(),
            person: countersign::id::Person::new("ana").unwrap(),
        };
        let secret = source.and_then(|source| source.credential(&context, "note"));
        Ok(secret.map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned()))
    }

    #[test]
    fn a15_a_credential_is_named_by_a_variable_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "from a file\n").unwrap();
        assert_eq!(
            found("note = { env = \"NOTE_TOKEN\" }"),
            Ok(Some("abc 123".to_owned()))
        );
        let named = format!("note = {{ file = \"{}\" }}", file.display());
        assert_eq!(found(&named), Ok(Some("from a file".to_owned())));
        let other = format!("mail = {{ file = \"{}\" }}", file.display());
        assert_eq!(found(&other), Ok(None), "it is the credential of another tool");
        assert_eq!(found(""), Ok(None));
    }

    #[test]
    fn x31_a_credential_in_the_file_itself_is_refused_and_not_repeated() {
        for (credentials, words) in [
            ("note = \"hunter2-canary\"", "never written here"),
            ("note = { value = \"hunter2-canary\" }", "never written here"),
            ("other = { env = \"NOTE_TOKEN\" }", "there is no tool `other`"),
            ("note = { env = \"NOT_SET\" }", "`NOT_SET` is not set"),
            ("note = { file = \"token\" }", "not a full path"),
            ("note = { file = \"/nonexistent/token\" }", "cannot read"),
        ] {
            let problem = found(credentials).unwrap_err();
            assert!(problem.contains(words), "{credentials}: {problem}");
            assert!(!problem.contains("canary"), "{problem}");
        }
    }
}
