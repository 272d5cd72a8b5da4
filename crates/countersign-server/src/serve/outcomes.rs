//! Outcome file: saves outcomes that the store has not accepted before the service ends.
//!
//! Input: outcomes at shutdown. Output: the same outcomes at the next start, to be recorded then. The file is next to
//! the store by default, and only its owner can read it. Results are encrypted if there is a sealing key. Without one,
//! the result of a call with secrets is left out, and only its outcome, size and hash are saved.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use countersign::command::Finish;
use countersign::executor::Outcome;
use countersign::hash::Hash;
use countersign::id::{CallId, Tenant};
use countersign::seal::Sealer;
use countersign::store::Store;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::trust::{Folder, absolute, check_others};
use crate::{private_file, regular};

/// Maximum size of the file in bytes: more than all outcomes that a service keeps in memory, written as hexadecimal.
const LARGEST_FILE: u64 = 512 * 1024 * 1024;

/// Size in bytes of the reserve file (see [`OutcomeFile::reserve`]): enough for some thousand outcomes without long
/// results.
const ROOM: usize = 1024 * 1024;

/// The outcome file of a service.
pub struct OutcomeFile {
    path: PathBuf,
    sealer: Option<Sealer>,
}

/// An outcome as a line of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    tenant: String,
    call: String,
    /// Hash of the permit's token, which the store compares.
    permit: String,
    policy: String,
    ended: Ended,
    /// The result in hexadecimal digits.
    result: String,
    is_sealed: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ended {
    Succeeded,
    Failed,
    NotSent,
    Unknown,
}

impl OutcomeFile {
    /// Returns the outcome file next to a store: `-outcomes` is appended to the path of the store.
    pub fn next_to(store: &Path, sealer: Option<Sealer>) -> OutcomeFile {
        let mut path = store.as_os_str().to_owned();
        path.push("-outcomes");
        OutcomeFile::at(PathBuf::from(path), sealer)
    }

    /// Returns the outcome file at `path`. Results in it are encrypted if there is a `sealer`.
    pub fn at(path: PathBuf, sealer: Option<Sealer>) -> OutcomeFile {
        OutcomeFile { path, sealer }
    }

    /// Reads the outcomes that an earlier service could not record; empty if there is no file.
    pub fn read(&self) -> Result<Vec<Finish>, Failure> {
        let size = match self.path.symlink_metadata() {
            Ok(found) if found.is_file() => found.len(),
            Ok(_) => return Err(self.unreadable(&"it is not a regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unreadable(&error)),
        };
        // Anyone who can write the file can forge outcomes.
        check_others(&absolute(&self.path)?, Folder::Own)?;
        if size > LARGEST_FILE {
            return Err(self.unreadable(&"it is too large"));
        }
        let text = regular::read_text(&self.path, LARGEST_FILE).map_err(|error| self.unreadable(&error))?;
        let lines = text.lines().map(|line| {
            let kept: Kept = serde_json::from_str(line).map_err(|error| error.to_string())?;
            self.open(&kept)
        });
        let outcomes: Result<Vec<Finish>, String> = lines.collect();
        outcomes.map_err(|problem| self.unreadable(&problem))
    }

    /// Replaces the file's content with these outcomes, or removes the file if there are none. Returns the number of
    /// outcomes written.
    pub async fn write(&self, store: &dyn Store, rest: Vec<Finish>) -> std::io::Result<usize> {
        if rest.is_empty() {
            self.remove();
            // The reserve file is needed only while a service runs. If removing fails, the next start uses the file
            // again.
            let _ = std::fs::remove_file(self.reserve_path());
            return Ok(0);
        }
        let mut text = String::new();
        for finish in &rest {
            let kept = self.seal(store, finish).await;
            text.push_str(&serde_json::to_string(&kept)?);
            text.push('\n');
        }
        if let Err(error) = private_file::replace(&self.path, text.as_bytes()) {
            // The disk may be too full for a new file.
            self.write_into_room(text.as_bytes()).map_err(|_| error)?;
        }
        Ok(rest.len())
    }

    /// Creates a reserve file that occupies disk space, so that outcomes can be saved when the disk is full.
    pub fn reserve(&self) -> std::io::Result<()> {
        let room = self.reserve_path();
        match room.symlink_metadata() {
            Ok(found) if found.is_file() && found.len() >= ROOM as u64 => Ok(()),
            _ => private_file::replace(&room, &vec![0; ROOM]),
        }
    }

    /// Overwrites the reserve file, which takes no further disk space, and renames it to the outcome file.
    fn write_into_room(&self, text: &[u8]) -> std::io::Result<()> {
        let room = self.reserve_path();
        if !room.symlink_metadata()?.is_file() || text.len() > ROOM {
            return Err(ErrorKind::StorageFull.into());
        }
        let mut file = std::fs::OpenOptions::new().write(true).open(&room)?;
        if !private_file::is_same_file(&file, &room)? {
            return Err(ErrorKind::StorageFull.into());
        }
        file.write_all(text)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        std::fs::rename(&room, &self.path)?;
        private_file::sync_parent(&self.path)
    }

    fn reserve_path(&self) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(".room");
        PathBuf::from(path)
    }

    /// Removes the file once everything in it is recorded.
    pub fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            // A file that remains does no harm: recording an outcome again changes nothing.
            tracing::warn!("`{}` cannot be removed: {error}", self.path.display());
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn seal(&self, store: &dyn Store, finish: &Finish) -> Kept {
        let sealed = self.sealer.as_ref().and_then(|sealer| {
            let (_, result) = parts(&finish.outcome);
            sealer.seal_result(result, &finish.tenant, finish.call).ok()
        });
        let outcome = match &sealed {
            None if holds_secrets(store, finish).await => finish.outcome.clone().shortened(),
            _ => finish.outcome.clone(),
        };
        let (ended, result) = parts(&outcome);
        Kept {
            tenant: finish.tenant.to_string(),
            call: finish.call.to_string(),
            permit: finish.permit.to_string(),
            policy: finish.policy.to_string(),
            ended,
            result: hex(sealed.as_deref().unwrap_or(result)),
            is_sealed: sealed.is_some(),
        }
    }

    fn open(&self, kept: &Kept) -> Result<Finish, String> {
        let tenant = Tenant::new(kept.tenant.as_str()).map_err(|problem| problem.to_string())?;
        let call: CallId = kept.call.parse().map_err(|_| "a call's id is wrong")?;
        let hash = |text: &str| Hash::from_hex(text).ok_or("a hash is wrong");
        let (permit, policy) = (hash(&kept.permit)?, hash(&kept.policy)?);
        let result = bytes(&kept.result).ok_or("a result is not hexadecimal")?;
        let result = match (kept.is_sealed, &self.sealer) {
            (false, _) => result,
            (true, None) => return Err("its results are encrypted, and no key is given".to_owned()),
            (true, Some(sealer)) => {
                let opened = sealer.open_result(&result, &tenant, call);
                opened.map_err(|problem| problem.to_string())?.reveal().to_vec()
            }
        };
        let outcome = match kept.ended {
            Ended::Succeeded => Outcome::succeeded(result),
            Ended::Failed => Outcome::failed(result),
            Ended::NotSent => Outcome::NotSent(String::from_utf8_lossy(&result).into_owned()),
            Ended::Unknown => Outcome::Unknown(String::from_utf8_lossy(&result).into_owned()),
        };
        Ok(Finish {
            tenant,
            call,
            permit,
            outcome,
            policy,
            start_next: None,
            late: true,
        })
    }

    fn unreadable(&self, problem: &dyn std::fmt::Display) -> Failure {
        let path = self.path.display();
        let message = format!(
            "`{path}`, with outcomes that an earlier service could not record, cannot be used: {problem}"
        );
        Failure::error("outcomes_unreadable", message).hint(
            "start with the same sealing key, or move the file away: its calls are then shown as unknown, and \
             `countersign reconcile` settles them",
        )
    }
}

/// Returns true if a value of the call is or may be secret: false only if the store shows that none is.
async fn holds_secrets(store: &dyn Store, finish: &Finish) -> bool {
    let Ok(Some(approval)) = store.approval(&finish.tenant, finish.call.approval).await else {
        return true;
    };
    approval.call(finish.call.position).is_none_or(|call| {
        let paths = call.terms.secret.as_deref();
        call.sealed.is_some() || paths.is_none_or(|paths| !paths.is_empty())
    })
}

fn parts(outcome: &Outcome) -> (Ended, &[u8]) {
    match outcome {
        Outcome::Succeeded(result) => (Ended::Succeeded, result),
        Outcome::Failed(result) => (Ended::Failed, result),
        Outcome::NotSent(said) => (Ended::NotSent, said.as_bytes()),
        Outcome::Unknown(said) => (Ended::Unknown, said.as_bytes()),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let read = pairs.map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use countersign::id::ApprovalId;
    use countersign::store::memory::MemoryStore;

    use super::*;

    fn finish(outcome: Outcome) -> Finish {
        Finish {
            tenant: Tenant::single(),
            call: CallId {
                approval: ApprovalId::from_parts(1, &[1; 10]),
                position: 2,
            },
            permit: Hash([3; 32]),
            outcome,
            policy: Hash([4; 32]),
            start_next: None,
            late: true,
        }
    }

    fn all() -> Vec<Finish> {
        vec![
            finish(Outcome::succeeded([0, 159, 146, 150])),
            finish(Outcome::failed("no such key-canary")),
            finish(Outcome::Unknown("who knows".to_owned())),
        ]
    }

    fn outcomes(finishes: &[Finish]) -> Vec<Outcome> {
        finishes.iter().map(|finish| finish.outcome.clone()).collect()
    }

    #[tokio::test]
    async fn x87_what_is_kept_comes_back_and_is_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        let file = OutcomeFile::next_to(&folder.path().join("store.db"), Some(sealer));
        assert!(file.read().unwrap().is_empty());
        let store = MemoryStore::default();
        assert_eq!(file.write(&store, all()).await.unwrap(), 3);
        assert_eq!(file.path().file_name().unwrap(), "store.db-outcomes");
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(&hex(b"key-canary")), "{text}");
        let mode = file.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = file.read().unwrap();
        assert_eq!(outcomes(&read), outcomes(&all()));
        assert_eq!((read[0].call, read[0].permit), (all()[0].call, all()[0].permit));
        // Without the key the file is refused.
        let keyless = OutcomeFile::at(file.path().to_owned(), None);
        assert!(keyless.read().is_err_and(|failure| failure.hint.is_some()));
        file.write(&store, Vec::new()).await.unwrap();
        assert!(!file.path().exists());
    }

    #[tokio::test]
    async fn x87_the_room_that_was_kept_becomes_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = Sealer::from_hex(&"ab".repeat(32)).unwrap();
        let file = OutcomeFile::next_to(&folder.path().join("store.db"), Some(sealer));
        file.reserve().unwrap();
        assert_eq!(file.reserve_path().metadata().unwrap().len(), ROOM as u64);
        file.reserve().unwrap();
        let finishes = [finish(Outcome::failed("no such order"))];
        let text = serde_json::to_string(&file.seal(&MemoryStore::default(), &finishes[0]).await).unwrap();
        file.write_into_room(text.as_bytes()).unwrap();
        assert_eq!(outcomes(&file.read().unwrap()), outcomes(&finishes));
        assert!(!file.reserve_path().exists());
        assert!(file.write_into_room(b"").is_err(), "there is no space left");
    }

    /// Results of calls that the store does not know count as secret and are left out.
    #[tokio::test]
    async fn x87_without_a_key_the_results_of_secret_calls_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = OutcomeFile::next_to(&folder.path().join("store.db"), None);
        file.write(&MemoryStore::default(), all()).await.unwrap();
        let read = file.read().unwrap();
        let shortened: Vec<Outcome> = all().into_iter().map(|one| one.outcome.shortened()).collect();
        assert_eq!(outcomes(&read), shortened);
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(&hex(b"key-canary")), "{text}");
    }

    #[test]
    fn x87_a_file_that_is_not_ours_or_broken_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = OutcomeFile::next_to(&folder.path().join("store.db"), None);
        private_file::replace(file.path(), b"{\"tenant\":1}\n").unwrap();
        assert!(
            file.read()
                .is_err_and(|failure| failure.code == "outcomes_unreadable")
        );
        std::fs::remove_file(file.path()).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), file.path()).unwrap();
        assert!(file.read().is_err());
    }
}
