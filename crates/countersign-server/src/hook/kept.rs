//! What a hook keeps between two of its processes: which approval a call waits for, and the permit of a call that was
//! started.
//!
//! Both only save a question or an answer. Whoever changes these files gets nothing to run: what runs is what the gate
//! starts, and a permit only says how its own call ended.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use countersign::hash::Hash;
use countersign::id::{ApprovalId, CallId};
use serde::{Deserialize, Serialize};

use super::Hook;
use super::event::{Before, Place};
use crate::failure::Failure;
use crate::{private, store};

/// What was left behind by a process that was killed is thrown away after this long.
const OLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// So many files are looked through when they are tidied up.
const LOOKED_AT: usize = 512;

/// The folder.
pub struct Kept {
    folder: PathBuf,
    desk: String,
    agent: &'static str,
}

/// A started call, for the process that hears of its end.
#[derive(Serialize, Deserialize)]
pub struct Started {
    /// Which call.
    pub call: String,
    /// What finishing it takes.
    pub permit: String,
    /// True for a call that the policy let pass: the store alone keeps it from running twice.
    #[serde(default)]
    pub passed: bool,
}

/// A place that is taken for a call that is about to be started.
pub struct Taken(PathBuf);

impl Kept {
    /// Makes the folder, if it is not there.
    pub fn open(hook: &Hook<'_>) -> Result<Kept, Failure> {
        let folder = match &hook.options.state {
            Some(folder) => folder.clone(),
            None => usual().ok_or_else(|| {
                unusable("neither XDG_STATE_HOME nor HOME says where").hint("name a folder with `--state`")
            })?,
        };
        private::create_folder(&folder).map_err(|error| unusable(&error.to_string()))?;
        let desk = match &hook.global.server {
            Some(url) => url.clone(),
            None => {
                let store = hook.global.store();
                // The same name in another folder is another store.
                let full = std::path::absolute(store)
                    .ok()
                    .filter(|_| !store::is_postgres(store));
                let full = full.and_then(|full| full.to_str().map(str::to_owned));
                format!("{}\n{}", full.as_deref().unwrap_or(store), hook.global.tenant)
            }
        };
        Ok(Kept {
            folder,
            desk,
            agent: hook.dialect.as_str(),
        })
    }

    /// The approval that exactly this call waits for, if it was asked before.
    pub fn waiting(&self, call: &Before) -> Option<ApprovalId> {
        let text = std::fs::read_to_string(self.waiting_file(call)).ok()?;
        text.trim().parse().ok()
    }

    /// Remembers which approval this call waits for.
    pub fn wait_for(&self, call: &Before, approval: ApprovalId) -> Result<(), Failure> {
        let written = private::replace(&self.waiting_file(call), format!("{approval}\n").as_bytes());
        written.map_err(|error| unusable(&error.to_string()))
    }

    /// It waits no more.
    pub fn forget(&self, call: &Before) {
        // One that stays is looked at again, and found to be over.
        let _ = std::fs::remove_file(self.waiting_file(call));
    }

    /// Takes the place of a call that is about to be started; nothing when it was taken before.
    pub fn take(&self, place: &Place) -> Result<Option<Taken>, Failure> {
        self.tidy();
        let file = self.started_file(place);
        match private::write_new(&file, b"") {
            Ok(()) => Ok(Some(Taken(file))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(unusable(&error.to_string())),
        }
    }

    /// Keeps the permit of a call that passes, in place of that of an earlier one which never told its end.
    pub fn pass(&self, place: &Place, started: &Started) -> Result<(), Failure> {
        self.tidy();
        let text = serde_json::to_vec(started).map_err(|error| unusable(&error.to_string()))?;
        private::replace(&self.started_file(place), &text).map_err(|error| unusable(&error.to_string()))
    }

    /// The permit of a call that was started here.
    pub fn started(&self, place: &Place) -> Option<(CallId, Started)> {
        let text = std::fs::read(self.started_file(place)).ok()?;
        let started: Started = serde_json::from_slice(&text).ok()?;
        let call = started.call.parse().ok()?;
        Some((call, started))
    }

    /// Whether this very call was started before, however it ended. Of calls that passed the store knows it.
    pub fn was_started(&self, place: &Place) -> bool {
        match self.started(place) {
            Some((_, started)) => !started.passed,
            None => self.started_file(place).exists(),
        }
    }

    /// Its end is on record. A call that has an id stays known, so that it is not started a second time.
    pub fn ended(&self, place: &Place) {
        let file = self.started_file(place);
        let passed = self.started(place).is_some_and(|(_, started)| started.passed);
        let _ = match place.id {
            Some(_) if !passed => private::replace(&file, b""),
            _ => std::fs::remove_file(file),
        };
    }

    fn waiting_file(&self, call: &Before) -> PathBuf {
        let parts = [
            self.desk.as_bytes(),
            self.agent.as_bytes(),
            call.run.as_str().as_bytes(),
            call.tool.as_str().as_bytes(),
            call.arguments.as_bytes(),
        ];
        self.folder.join(format!("{}.waiting", name(&parts)))
    }

    fn started_file(&self, place: &Place) -> PathBuf {
        let which = match &place.id {
            Some(id) => id,
            None => &place.values,
        };
        let parts = [
            self.desk.as_bytes(),
            self.agent.as_bytes(),
            place.session.as_bytes(),
            place.tool.as_bytes(),
            which.as_bytes(),
        ];
        self.folder.join(format!("{}.started", name(&parts)))
    }

    /// Throws away what is old.
    fn tidy(&self) {
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

impl Taken {
    /// Writes down what finishing the call takes.
    pub fn write(self, started: &Started) {
        let Ok(text) = serde_json::to_vec(started) else {
            return;
        };
        // Without it nobody can say how the call ended, and it becomes unknown. That is true, and no reason to stop.
        let _ = private::replace(&self.0, &text);
    }

    /// It was not started after all.
    pub fn leave(self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One name for several parts, none of which can pass for another.
fn name(parts: &[&[u8]]) -> Hash {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    Hash::of(&bytes)
}

fn usual() -> Option<PathBuf> {
    let named = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(base.join("countersign/hooks"))
}

fn unusable(problem: &str) -> Failure {
    let message = format!("there is no folder to keep a call's permit in: {problem}");
    Failure::error("no_state", message).hint("name another folder with `--state`")
}
