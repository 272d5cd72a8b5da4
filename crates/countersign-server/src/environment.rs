//! Environment of the processes that this program starts.
//!
//! A child gets the variables that a program needs to start and to find its files, and further ones that the operator
//! names. Everything else is withheld (X78): this program's settings, tokens for other servers, keys of the person's
//! other programs.

use std::ffi::{OsStr, OsString};

/// Variables that every child process gets: those that the MCP SDKs pass on (`HOME`, `LOGNAME`, `PATH`, `SHELL`,
/// `TERM`, `USER`), language and time zone, and paths of files, sockets and certificates. None of them holds a secret.
const NAMES: [&str; 20] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "PWD",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// Prefix of locale variables.
const LOCALE: &str = "LC_";
/// Prefix of this program's own settings; no child gets one of them.
const OURS: &str = "COUNTERSIGN_";

/// Hint for failures of a child that may lack a variable.
pub const HINT: &str = "it gets PATH, HOME and the like, not the whole environment; if it needs another variable, name it with \
                        `--pass-env NAME`, or `pass_env` in the servers' file";

/// Checks the name of a further variable for a child process. Refuses this program's own settings.
pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['=', '\0']) || text.contains(char::is_whitespace) {
        return Err(format!(
            "`{text}` is not the name of an environment variable; give names only, such as `GITHUB_TOKEN`"
        ));
    }
    if text.starts_with(OURS) {
        return Err(format!(
            "`{text}` is Countersign's own variable; child processes never get it"
        ));
    }
    Ok(text.to_owned())
}

/// Returns the variables that a child gets: the usual ones, and those that the operator named.
pub fn inherited(named: &[String]) -> Vec<(OsString, OsString)> {
    select(std::env::vars_os(), named)
}

#[cfg(feature = "tui")]
/// Returns this process's environment without `COUNTERSIGN_*`, for programs that the person chose, such as an editor.
pub fn without_ours() -> Vec<(OsString, OsString)> {
    let mut all: Vec<_> = std::env::vars_os().collect();
    all.retain(|(name, _)| !is_ours(name));
    all
}

fn select(all: impl Iterator<Item = (OsString, OsString)>, named: &[String]) -> Vec<(OsString, OsString)> {
    let is_named = |name: &OsStr| named.iter().any(|named| name == named.as_str());
    all.filter(|(name, value)| {
        // Bash exports functions as variables and would define them in the child.
        let is_function = value.as_encoded_bytes().starts_with(b"()");
        (is_usual(name) || is_named(name)) && !is_ours(name) && !is_function
    })
    .collect()
}

fn is_usual(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    NAMES.iter().any(|usual| usual.as_bytes() == name) || name.starts_with(LOCALE.as_bytes())
}

fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(OURS.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x78_children_get_only_what_is_listed_or_named() {
        let all = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("COUNTERSIGN_STORE", "/x"),
            ("COUNTERSIGN_ANYTHING_NEW", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("GITHUB_TOKEN", "x"),
            ("PATHS", "x"),
            ("TERM", "() { :; }; echo"),
        ];
        let check = |named: &[&str], expected: &[&str]| {
            let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
            let all = all.iter().map(|(name, value)| (name.into(), value.into()));
            let got: Vec<_> = select(all, &named).into_iter().map(|(name, _)| name).collect();
            assert_eq!(got, expected, "{named:?}");
        };
        check(&[], &["PATH", "LC_ALL"]);
        check(&["GITHUB_TOKEN"], &["PATH", "LC_ALL", "GITHUB_TOKEN"]);
        // `name` refuses this program's settings; they are filtered here, too.
        check(&["COUNTERSIGN_STORE"], &["PATH", "LC_ALL"]);
    }

    #[test]
    fn names_are_names() {
        assert_eq!(name("GITHUB_TOKEN").as_deref(), Ok("GITHUB_TOKEN"));
        for bad in ["", "A=1", "A B", "A\n", "A\0", "COUNTERSIGN_TOKEN"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
