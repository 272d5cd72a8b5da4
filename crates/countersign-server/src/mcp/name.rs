//! Default name of a server: its package without version and scope.

use crate::failure::Failure;

/// Programs that only launch other programs, so that their own name says nothing about the server.
const LAUNCHERS: [&str; 12] = [
    "npx", "bunx", "pnpx", "uvx", "uv", "pipx", "node", "bun", "deno", "python", "python3", "docker",
];
/// Maximum length of a server's name in bytes, which leaves room for the tool's name after it.
const LONGEST: usize = 40;

/// Returns the given name, or one derived from the command. Fails if the name is too long, is empty or has characters
/// that are not allowed.
pub fn of(named: Option<&str>, command: &[String]) -> Result<String, Failure> {
    let name = match named {
        Some(named) => named.to_owned(),
        None => from_command(command),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_good = !name.is_empty() && name.len() <= LONGEST && name.bytes().all(fits) && !name.contains("__");
    match is_good {
        true => Ok(name),
        false => Err(Failure::usage(format!("`{name}` cannot be a server's name"))
            .hint(format!("use 1 to {LONGEST} of A-Z a-z 0-9 - _ . without `__`"))),
    }
}

fn from_command(command: &[String]) -> String {
    let words = command.iter().map(String::as_str);
    let is_launcher = |word: &str| LAUNCHERS.contains(&last(word)) || matches!(word, "run" | "exec" | "x");
    let meant = words
        .clone()
        .find(|word| !word.starts_with('-') && !is_launcher(word));
    let meant = last(
        meant
            .or_else(|| command.first().map(String::as_str))
            .unwrap_or("server"),
    );
    let meant = meant.split('@').next().unwrap_or(meant);
    let meant = [".js", ".mjs", ".ts", ".py"]
        .iter()
        .find_map(|end| meant.strip_suffix(end))
        .unwrap_or(meant);
    let plain = |byte: char| if byte.is_ascii_alphanumeric() { byte } else { '-' };
    let plain: String = meant.chars().map(plain).take(LONGEST).collect();
    let plain = plain.trim_matches('-');
    match plain.is_empty() {
        true => "server".to_owned(),
        false => plain.to_owned(),
    }
}

fn last(word: &str) -> &str {
    word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: &str) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(of(None, &words).unwrap(), expected, "{command}");
    }

    #[test]
    fn servers_are_called_after_their_package() {
        check(
            "npx -y @modelcontextprotocol/server-filesystem /tmp",
            "server-filesystem",
        );
        check(
            "npx -y @modelcontextprotocol/server-everything@2026.8.31",
            "server-everything",
        );
        check("uvx mcp-server-git --repository .", "mcp-server-git");
        check("uv run server.py", "server");
        check(
            "/usr/bin/python3 tools/agentdojo_mcp_server.py banking x",
            "agentdojo-mcp-server",
        );
        check("./my_server", "my-server");
        check("python3 -m", "python3");
    }

    #[test]
    fn x42_names_cannot_hide_a_border() {
        for bad in ["", "a/b", "a__b", "ü", &"x".repeat(41)] {
            assert!(of(Some(bad), &[]).is_err(), "`{bad}`");
        }
        assert_eq!(of(Some("files-2"), &[]).unwrap(), "files-2");
    }
}
