//! Checks the store: whether it opens, who can read it, its clock, and which tokens expire soon.

use std::path::Path;
use std::time::Duration;

use countersign::store::Store;
use countersign::time::{Clock as _, SystemClock, Time};

use super::Finding;
use crate::access::Token;
use crate::cli::Global;
use crate::store::{Missing, Watch, is_postgres, open};
use crate::{backend, duration};

/// Maximum difference between the store's clock and the machine's before a warning.
const CLOCK_MAY_DIFFER: Duration = Duration::from_secs(5);
/// Remaining lifetime below which a token causes a warning.
const SOON: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub async fn check(global: &Global, place: &str, is_full: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_file = !is_postgres(place);
    if is_file {
        let path = Path::new(place);
        if matches!(path.try_exists(), Ok(false)) {
            let message = format!("there is none at `{place}` yet; it is created when needed");
            return vec![Finding::good("store", message)];
        }
        findings.extend(look_at_file(path));
    }
    let store = match open(place, Missing::Refuse, Watch::Nobody).await {
        Ok(store) => store,
        Err(failure) => {
            findings.push(Finding::failed("store", failure));
            return findings;
        }
    };
    // Opening the store has already checked the versions of the database and the schema.
    findings.push(Finding::good("store", "it opens, and its schema is up to date"));
    match store.now().await {
        Err(error) => findings.push(Finding::problem("clock", error.to_string(), error.hint())),
        Ok(now) => {
            findings.push(match store.clock_trouble() {
                Some(trouble) => Finding::warning("clock", trouble.to_string(), trouble.hint()),
                None => look_at_clock(now, SystemClock::default().now()),
            });
            findings.extend(look_at_tokens(global, store.as_ref(), now).await);
        }
    }
    findings.push(super::history::check(place, is_full).await);
    if is_file {
        // X18: agents under the same account are not separated from the person.
        findings.push(Finding::warning(
            "accounts",
            "everyone who runs under this account, or can read and write the file, can decide",
            "run agents under another account, with a token of their own",
        ));
    }
    findings
}

/// Checks the permissions of the store's file and of the files that SQLite keeps next to it.
fn look_at_file(path: &Path) -> Vec<Finding> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        std::path::PathBuf::from(name)
    };
    let files = [path.to_owned(), beside("-wal"), beside("-shm")];
    let open: Vec<_> = files
        .iter()
        .filter(|file| std::fs::metadata(file).is_ok_and(|metadata| crate::keys::is_open_to_all(&metadata)))
        .map(|file| file.display().to_string())
        .collect();
    let shared: Vec<_> = files
        .iter()
        .filter(|file| std::fs::metadata(file).is_ok_and(|metadata| crate::keys::is_open_to_group(&metadata)))
        .map(|file| file.display().to_string())
        .collect();
    if open.is_empty() && shared.is_empty() {
        return vec![Finding::good("file", "only its owner can use it")];
    }
    if open.is_empty() {
        // This program creates files that only their owner can access, so someone has changed the permissions, perhaps
        // on purpose.
        let message = format!("its group can access `{}`", shared.join("`, `"));
        let hint = format!("unless this is intended, run: chmod 600 {}", shared.join(" "));
        return vec![Finding::warning("file", message, &hint)];
    }
    // H06: everybody on the machine could read what was proposed, or even decide.
    let message = format!("all accounts on this machine can access `{}`", open.join("`, `"));
    vec![Finding::problem(
        "file",
        message,
        format!("chmod 600 {}", open.join(" ")),
    )]
}

fn look_at_clock(store: Time, machine: Time) -> Finding {
    let apart = store.since(machine).max(machine.since(store));
    match apart > CLOCK_MAY_DIFFER {
        false => Finding::good("clock", "the store's clock and this machine's agree"),
        true => Finding::warning(
            "clock",
            format!(
                "the store's clock and this machine's are {} apart",
                duration::show(apart)
            ),
            "correct the clocks (only the store's clock counts for expiry); if the store's clock stays ahead, run `countersign clock --reset`",
        ),
    }
}

async fn look_at_tokens(global: &Global, store: &dyn Store, now: Time) -> Vec<Finding> {
    let tokens = match backend::tenant(global) {
        Ok(tenant) => Token::list(store, &tenant).await,
        Err(failure) => return vec![Finding::failed("tokens", failure)],
    };
    let tokens = match tokens {
        Ok(tokens) => tokens,
        Err(error) => return vec![Finding::problem("tokens", error.to_string(), error.hint())],
    };
    let ending: Vec<Finding> = tokens
        .iter()
        .filter(|(_, token)| token.expires_at.since(now) < SOON)
        .map(|(id, token)| {
            let left = duration::show(token.expires_at.since(now));
            let message = format!("token {id} of `{}` expires in {left}", token.name);
            Finding::warning(
                "tokens",
                message,
                "make a new one with `countersign token create`",
            )
        })
        .collect();
    let refused = match backend::tenant(global) {
        Ok(tenant) => super::access::check(store, &tenant).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let ending: Vec<Finding> = ending.into_iter().chain(refused).collect();
    match ending.is_empty() {
        true => vec![Finding::good(
            "tokens",
            format!("{} valid, none expires within a week", tokens.len()),
        )],
        false => ending,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    #[test]
    fn x47_clocks_that_differ_are_told() {
        let now = SystemClock::default().now();
        let later = now.plus(Duration::from_secs(60));
        assert_eq!(look_at_clock(now, now).state, Health::Good);
        assert_eq!(look_at_clock(later, now).state, Health::Warning);
        assert_eq!(look_at_clock(now, later).state, Health::Warning);
    }
}
