//! Hook state in files: which approval a call waits for, and the permits of started calls.
//!
//! A hook is one process per event, so these files connect the event before a call with the one after it. Forging them
//! does not make anything run: only the gate starts calls, and a permit only allows recording its own call's outcome.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use countersign::hash::Hash;
use countersign::id::{ApprovalId, CallId};
use serde::{Deserialize, Serialize};

use super::Hook;
use super::event::{Before, CallIdentity};
use crate::failure::Failure;
use crate::{private_file, regular, store};

/// Age at which a file that a killed process left behind is deleted.
const OLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum number of files examined per cleanup.
const LOOKED_AT: usize = 512;
/// Maximum size of a state file in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Folder with the hook state of one coding agent and one store or server.
pub struct HookState {
    folder: PathBuf,
    backend: String,
    agent: &'static str,
}

/// A started call, saved for the process that receives the event after it.
#[derive(Serialize, Deserialize)]
pub struct Started {
    pub call: String,
    /// Permit that is needed to record the outcome.
    pub permit: String,
    /// True if the policy let the call pass. Only the store prevents such a call from running twice.
    #[serde(default)]
    pub passed: bool,
    /// Hash of the arguments that were allowed. Files of earlier versions have none.
    #[serde(default)]
    pub arguments: Option<String>,
}

/// Reservation for a call that is about to be started.
pub struct Reservation(PathBuf);

impl HookState {
    /// Opens the state folder, and creates it if it does not exist.
    pub fn open(hook: &Hook<'_>) -> Result<HookState, Failure> {
        let folder = match &hook.options.state {
            Some(folder) => folder.clone(),
            None => default_folder().ok_or_else(|| {
                unusable("neither XDG_STATE_HOME nor HOME says where").hint("name a folder with `--state`")
            })?,
        };
        private_file::create_folder(&folder).map_err(|error| unusable(&error.to_string()))?;
        let backend = match &hook.global.server {
            Some(url) => url.clone(),
            None => {
                let store = hook.global.store();
                // The same relative path in another folder is a different store.
                let full = std::path::absolute(store)
                    .ok()
                    .filter(|_| !store::is_postgres(store));
                let full = full.and_then(|full| full.to_str().map(str::to_owned));
                format!("{}\n{}", full.as_deref().unwrap_or(store), hook.global.tenant())
            }
        };
        Ok(HookState {
            folder,
            backend,
            agent: hook.dialect.as_str(),
        })
    }

    /// Returns the approval that an identical call in the same folder and the same session waits for, if there is one.
    pub fn waiting(&self, call: &Before) -> Option<ApprovalId> {
        let text = regular::read_text(&self.waiting_file(call), LARGEST).ok()?;
        text.trim().parse().ok()
    }

    /// Returns the approval that this tool use was held for, even if its links led elsewhere at that time; `None` if
    /// there is none or the coding agent sends no ids.
    pub fn held_for(&self, call: &Before) -> Option<ApprovalId> {
        let text = regular::read_text(&self.held_file(call)?, LARGEST).ok()?;
        text.trim().parse().ok()
    }

    /// Saves which approval this call waits for.
    pub fn wait_for(&self, call: &Before, approval: ApprovalId) -> Result<(), Failure> {
        let files = std::iter::once(self.waiting_file(call)).chain(self.held_file(call));
        for file in files {
            let written = private_file::replace(&file, format!("{approval}\n").as_bytes());
            written.map_err(|error| unusable(&error.to_string()))?;
        }
        Ok(())
    }

    /// Deletes the record that this call waits for an approval.
    pub fn forget(&self, call: &Before) {
        // If the file cannot be deleted, a later call reads it and finds that the approval has ended.
        let _ = std::fs::remove_file(self.waiting_file(call));
    }

    /// Deletes the record of the approval that a started call was held for.
    pub fn forget_held(&self, call: &Before) {
        // The file only helps to word a refusal, and old files are deleted.
        let _ = self.held_file(call).map(std::fs::remove_file);
    }

    /// Reserves a call before it is started. Returns `None` if the call was reserved before.
    pub fn reserve(&self, identity: &CallIdentity) -> Result<Option<Reservation>, Failure> {
        self.delete_old_files();
        let file = self.started_file(identity);
        match private_file::write_new(&file, b"") {
            Ok(()) => Ok(Some(Reservation(file))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(unusable(&error.to_string())),
        }
    }

    /// Saves the permit of a call that passes. It replaces the permit of an earlier call that never reported its
    /// outcome.
    pub fn pass(&self, identity: &CallIdentity, started: &Started) -> Result<(), Failure> {
        self.delete_old_files();
        let text = serde_json::to_vec(started).map_err(|error| unusable(&error.to_string()))?;
        private_file::replace(&self.started_file(identity), &text)
            .map_err(|error| unusable(&error.to_string()))
    }

    /// Returns the saved permit of a call that a hook started; `None` if there is none or its file cannot be read.
    pub fn started(&self, identity: &CallIdentity) -> Option<(CallId, Started)> {
        let text = regular::read(&self.started_file(identity), LARGEST).ok()?;
        let started: Started = serde_json::from_slice(&text).ok()?;
        let call = started.call.parse().ok()?;
        Some((call, started))
    }

    /// Returns true if this call was started before, even if it has ended. Always false for calls that passed, because
    /// the store tracks those.
    pub fn was_started(&self, identity: &CallIdentity) -> bool {
        match self.started(identity) {
            Some((_, started)) => !started.passed,
            None => self.started_file(identity).exists(),
        }
    }

    /// Deletes the permit of a call whose outcome is recorded. For an approved call with an id, an empty file remains,
    /// so that the call is not started again.
    pub fn ended(&self, identity: &CallIdentity) {
        let file = self.started_file(identity);
        let passed = self.started(identity).is_some_and(|(_, started)| started.passed);
        let _ = match identity.id {
            Some(_) if !passed => private_file::replace(&file, b""),
            _ => std::fs::remove_file(file),
        };
    }

    fn waiting_file(&self, call: &Before) -> PathBuf {
        let parts = [
            self.backend.as_bytes(),
            self.agent.as_bytes(),
            call.run.as_str().as_bytes(),
            call.tool.as_str().as_bytes(),
            call.arguments.as_bytes(),
            &call.working_folder.hash().0,
        ];
        self.folder.join(format!("{}.waiting", name(&parts)))
    }

    /// Returns the file that names the approval of a tool use, if the coding agent sends ids. Unlike
    /// [`waiting_file`](Self::waiting_file), it does not depend on the call's folder and links.
    fn held_file(&self, call: &Before) -> Option<PathBuf> {
        let parts = [
            self.backend.as_bytes(),
            self.agent.as_bytes(),
            call.identity.session.as_bytes(),
            call.identity.id.as_ref()?.as_bytes(),
            call.tool.as_str().as_bytes(),
            call.arguments.as_bytes(),
        ];
        Some(self.folder.join(format!("{}.held", name(&parts))))
    }

    fn started_file(&self, identity: &CallIdentity) -> PathBuf {
        let which = match &identity.id {
            Some(id) => id,
            None => &identity.values,
        };
        let parts = [
            self.backend.as_bytes(),
            self.agent.as_bytes(),
            identity.session.as_bytes(),
            identity.tool.as_bytes(),
            which.as_bytes(),
        ];
        self.folder.join(format!("{}.started", name(&parts)))
    }

    /// Deletes files that are older than `OLD`.
    fn delete_old_files(&self) {
        let Ok(files) = std::fs::read_dir(&self.folder) else {
            return;
        };
        for file in files.take(LOOKED_AT).flatten() {
            let changed = file.metadata().and_then(|metadata| metadata.modified());
            let age = changed.ok().and_then(|changed| changed.elapsed().ok());
            if age.is_some_and(|age| age > OLD) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

impl Reservation {
    /// Saves the permit of the started call.
    pub fn write(self, started: &Started) {
        let Ok(text) = serde_json::to_vec(started) else {
            return;
        };
        // Without the permit the outcome cannot be recorded and the call becomes unknown. That is correct, so continue.
        let _ = private_file::replace(&self.0, &text);
    }

    /// Releases the reservation of a call that was not started.
    pub fn release(self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Hashes several parts into one file name. Lengths are included, so that different parts never give the same input.
fn name(parts: &[&[u8]]) -> Hash {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    Hash::of(&bytes)
}

fn default_folder() -> Option<PathBuf> {
    Some(user_folder()?.join("hooks"))
}

/// Returns the person's state folder for this program; `None` if neither `XDG_STATE_HOME` nor `HOME` is set.
pub fn user_folder() -> Option<PathBuf> {
    let named = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(base.join("countersign"))
}

fn unusable(problem: &str) -> Failure {
    let message = format!("there is no folder to keep a call's permit in: {problem}");
    Failure::error("no_state", message).hint("name another folder with `--state`")
}
