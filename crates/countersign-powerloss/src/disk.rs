//! A simulated disk for one folder: its visible content, its content after a power cut, and the time of the cut.
//!
//! Input: operations, reported by the VFS. Output: whether an operation may happen, and after the cut the surviving
//! files. While there is power, the files are ordinary files in the folder.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::random::Random;
use crate::survive;

/// All disks, by folder.
static DISKS: Mutex<BTreeMap<PathBuf, Arc<Disk>>> = Mutex::new(BTreeMap::new());

/// A folder whose files lose unsynced changes at a power cut.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    sync: Sync,
    state: Mutex<State>,
}

/// How strictly SQLite syncs on this disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// With the `synchronous` setting that the store chooses.
    AsSet,
    /// Always `synchronous=NORMAL`, to check that the tests notice lost commits.
    Normal,
}

/// Kind of operation that is counted to determine the power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Any operation.
    Any,
    /// A sync, which then does not happen.
    Sync,
    /// A write to the database file: a checkpoint, or a transaction without a WAL.
    DatabaseWrite,
    /// A truncation.
    Truncate,
    /// The creation or deletion of a file.
    Entry,
}

/// Moment of the power cut: the `count`th operation of a kind, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Kind of operation to count.
    pub when: When,
    /// Number of the operation, among those of this kind, at which the power is cut; counted from 1.
    pub count: u64,
}

/// Counters of operations, and of unsynced changes at the power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of operations: changes and syncs.
    pub operations: u64,
    /// Number of file syncs.
    pub syncs: u64,
    /// Number of writes to the database file.
    pub database_writes: u64,
    /// Number of unsynced writes and truncations of the WAL.
    pub unsynced_wal: usize,
    /// Number of unsynced writes and truncations of the database file.
    pub unsynced_database: usize,
    /// Number of unsynced writes and truncations of the rollback journal.
    pub unsynced_journal: usize,
    /// Number of unsynced creations and deletions.
    pub unsynced_entries: usize,
}

/// Id of a file, independent of its name.
pub(crate) type FileId = u64;

#[derive(Debug, Default)]
struct State {
    files: HashMap<FileId, File>,
    next: FileId,
    /// Names that programs see.
    names: BTreeMap<String, FileId>,
    /// Names that survive a power cut.
    synced_names: BTreeMap<String, FileId>,
    /// Creations (with the file) and deletions since the last directory sync, oldest first.
    entries: Vec<(String, Option<FileId>)>,
    cut: Option<Cut>,
    is_off: bool,
    tally: Tally,
}

#[derive(Debug, Default)]
struct File {
    kind: Option<Kind>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    /// True until the first sync, which then also syncs the directory, as SQLite does for journals that it creates.
    syncs_directory: bool,
}

/// A change to a file's content.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

/// Role of a file in SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Database,
    Journal,
    Wal,
}

/// Error: the power is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Off;

impl Disk {
    /// Creates a disk from the files in this folder, all of them synced. SQLite's files in the folder are on this disk
    /// until [`Disk::remove`] is called.
    pub fn new(folder: &Path, sync: Sync) -> io::Result<Arc<Disk>> {
        let folder = folder.canonicalize()?;
        let mut state = State::default();
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let id = state.add(File {
                synced: std::fs::read(entry.path())?,
                ..File::default()
            });
            let name = entry.file_name().to_string_lossy().into_owned();
            state.names.insert(name.clone(), id);
            state.synced_names.insert(name, id);
        }
        let disk = Arc::new(Disk {
            folder: folder.clone(),
            sync,
            state: Mutex::new(state),
        });
        lock(&DISKS).insert(folder, disk.clone());
        Ok(disk)
    }

    /// Returns the disk of the path's folder and the file's name; `None` if the folder has no simulated disk.
    pub(crate) fn of(path: &Path) -> Option<(Arc<Disk>, String)> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let disk = lock(&DISKS).get(path.parent()?)?.clone();
        Some((disk, name))
    }

    /// Detaches the disk from its folder.
    pub fn remove(&self) {
        lock(&DISKS).remove(&self.folder);
    }

    /// Sets the moment of the power cut.
    pub fn cut_at(&self, cut: Cut) {
        self.lock().cut = Some(cut);
    }

    /// Cuts the power now, unless it is off already.
    pub fn cut_now(&self) {
        self.lock().turn_off();
    }

    /// Returns true after the power cut.
    pub fn is_off(&self) -> bool {
        self.lock().is_off
    }

    /// Returns the counters. Those of unsynced changes are zero until the power cut.
    pub fn tally(&self) -> Tally {
        self.lock().tally
    }

    pub(crate) fn is_normal(&self) -> bool {
        self.sync == Sync::Normal
    }

    /// Writes the files that survive the power cut to another folder. `random` decides about unsynced changes.
    pub fn survivors(&self, random: &mut Random, folder: &Path) -> io::Result<()> {
        let state = self.lock();
        let manner = survive::Manner::any(random);
        let names = survive::names(&state.synced_names, &state.entries, random);
        for (name, id) in &names {
            let Some(file) = state.files.get(id) else { continue };
            let bytes = survive::file(&file.synced, &file.unsynced, manner, random);
            std::fs::write(folder.join(name), bytes)?;
        }
        self.leave_index(random, folder)
    }

    /// Copies the WAL index (`-shm`), corrupts it or leaves it out at random: it is shared memory, and SQLite must not
    /// trust it after a crash.
    fn leave_index(&self, random: &mut Random, folder: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with("-shm") {
                continue;
            }
            let mut bytes = std::fs::read(entry.path())?;
            match random.below(4) {
                0 => {}
                1 => survive::spoil(&mut bytes, random),
                _ => continue,
            }
            std::fs::write(folder.join(name), bytes)?;
        }
        Ok(())
    }

    /// Registers an opened file and returns its id. `is_new` is true if SQLite has just created the file.
    pub(crate) fn open(&self, name: &str, kind: Kind, is_new: bool) -> Result<FileId, Off> {
        let mut state = self.lock();
        if state.is_off {
            return Err(Off);
        }
        let known = state.names.get(name).copied().filter(|_| !is_new);
        let id = match known {
            Some(id) => id,
            // A file that is not known yet counts as new, even if the store created it before SQLite opened it.
            None => {
                state.step(When::Entry)?;
                let id = state.add(File {
                    syncs_directory: kind != Kind::Database,
                    ..File::default()
                });
                state.names.insert(name.to_owned(), id);
                state.entries.push((name.to_owned(), Some(id)));
                state.check()?;
                id
            }
        };
        if let Some(file) = state.files.get_mut(&id) {
            file.kind = Some(kind);
        }
        Ok(id)
    }

    /// Registers a deletion.
    pub(crate) fn delete(&self, name: &str, sync_directory: bool) -> Result<(), Off> {
        let mut state = self.lock();
        state.step(When::Entry)?;
        if state.names.remove(name).is_some() {
            state.entries.push((name.to_owned(), None));
        }
        state.check()?;
        if sync_directory {
            state.sync_directory();
        }
        Ok(())
    }

    /// Registers a write. If the power is cut here, the write counts as unsynced.
    pub(crate) fn write(&self, id: FileId, offset: usize, bytes: &[u8]) -> Result<(), Off> {
        let change = Change::Write {
            offset,
            bytes: bytes.to_vec(),
        };
        self.change(id, change)
    }

    /// Registers a truncation or extension.
    pub(crate) fn truncate(&self, id: FileId, length: usize) -> Result<(), Off> {
        self.change(id, Change::Truncate(length))
    }

    fn change(&self, id: FileId, change: Change) -> Result<(), Off> {
        let mut state = self.lock();
        let kind = state.files.get(&id).and_then(|file| file.kind);
        let when = match &change {
            Change::Truncate(_) => When::Truncate,
            Change::Write { .. } if kind == Some(Kind::Database) => When::DatabaseWrite,
            Change::Write { .. } => When::Any,
        };
        state.step(when)?;
        if when == When::DatabaseWrite {
            state.tally.database_writes += 1;
        }
        if let Some(file) = state.files.get_mut(&id) {
            file.unsynced.push(change);
        }
        state.check()
    }

    /// Registers a sync. If the power is cut here, the sync did not happen.
    pub(crate) fn sync(&self, id: FileId) -> Result<(), Off> {
        let mut state = self.lock();
        state.step(When::Sync)?;
        state.check()?;
        state.tally.syncs += 1;
        let Some(file) = state.files.get_mut(&id) else {
            return Ok(());
        };
        for change in std::mem::take(&mut file.unsynced) {
            survive::apply(&mut file.synced, &change);
        }
        if std::mem::take(&mut file.syncs_directory) {
            state.sync_directory();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn add(&mut self, file: File) -> FileId {
        self.next += 1;
        self.files.insert(self.next, file);
        self.next
    }

    /// Counts an operation. Fails if the power is off.
    fn step(&mut self, when: When) -> Result<(), Off> {
        if self.is_off {
            return Err(Off);
        }
        self.tally.operations += 1;
        if let Some(cut) = &mut self.cut
            && (cut.when == When::Any || cut.when == when)
        {
            cut.count = cut.count.saturating_sub(1);
        }
        Ok(())
    }

    /// Cuts the power and fails if this operation is the one to cut at.
    fn check(&mut self) -> Result<(), Off> {
        match self.cut {
            Some(Cut { count: 0, .. }) => {
                self.turn_off();
                Err(Off)
            }
            _ => Ok(()),
        }
    }

    fn sync_directory(&mut self) {
        for (name, id) in self.entries.drain(..) {
            match id {
                Some(id) => _ = self.synced_names.insert(name, id),
                None => _ = self.synced_names.remove(&name),
            }
        }
    }

    fn turn_off(&mut self) {
        if std::mem::replace(&mut self.is_off, true) {
            return;
        }
        let unsynced = |kind| {
            let files = self.files.values().filter(|file| file.kind == Some(kind));
            files.map(|file| file.unsynced.len()).sum()
        };
        self.tally.unsynced_wal = unsynced(Kind::Wal);
        self.tally.unsynced_database = unsynced(Kind::Database);
        self.tally.unsynced_journal = unsynced(Kind::Journal);
        self.tally.unsynced_entries = self.entries.len();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, Arc<Disk>) {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), Sync::AsSet).unwrap();
        (folder, disk)
    }

    /// Returns all different sets of surviving files that occur with many seeds.
    fn all_left(disk: &Disk) -> Vec<BTreeMap<String, Vec<u8>>> {
        disk.cut_now();
        let mut all = Vec::new();
        for seed in 0..2_000 {
            let folder = tempfile::tempdir().unwrap();
            disk.survivors(&mut Random::new(seed), folder.path()).unwrap();
            let mut left = BTreeMap::new();
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                left.insert(name, std::fs::read(entry.path()).unwrap());
            }
            if !all.contains(&left) {
                all.push(left);
            }
        }
        all
    }

    #[test]
    fn what_was_synced_is_always_left() {
        let (_folder, disk) = disk();
        let wal = disk.open("store.db-wal", Kind::Wal, true).unwrap();
        disk.write(wal, 0, b"kept").unwrap();
        disk.sync(wal).unwrap();
        let left = all_left(&disk);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0]["store.db-wal"], b"kept");
        disk.remove();
    }

    #[test]
    fn what_was_not_synced_is_left_whole_in_part_or_not_at_all() {
        let (_folder, disk) = disk();
        let wal = disk.open("store.db-wal", Kind::Wal, true).unwrap();
        disk.write(wal, 0, &[1; 1024]).unwrap();
        disk.sync(wal).unwrap();
        disk.write(wal, 0, &[2; 1024]).unwrap();
        let left = all_left(&disk);
        let has = |first: u8, second: u8| {
            left.iter()
                .map(|left| &left["store.db-wal"])
                .any(|bytes| (bytes[0], bytes[512]) == (first, second))
        };
        assert!(has(1, 1) && has(2, 1) && has(1, 2) && has(2, 2));
        disk.remove();
    }

    #[test]
    fn a_new_file_without_a_directory_sync_may_be_gone_and_a_deleted_one_may_be_back() {
        let (_folder, disk) = disk();
        let database = disk.open("store.db", Kind::Database, true).unwrap();
        disk.write(database, 0, b"data").unwrap();
        // The content is synced, but the directory entry is not.
        disk.sync(database).unwrap();
        let gone = all_left(&disk).iter().any(|left| !left.contains_key("store.db"));
        assert!(gone);
        disk.remove();

        let (_folder, disk) = self::disk();
        let journal = disk.open("store.db-journal", Kind::Journal, true).unwrap();
        disk.sync(journal).unwrap();
        disk.delete("store.db-journal", false).unwrap();
        let left = all_left(&disk);
        assert!(left.iter().any(|left| left.contains_key("store.db-journal")));
        assert!(left.iter().any(|left| !left.contains_key("store.db-journal")));
        disk.remove();
    }

    #[test]
    fn nothing_happens_after_the_cut() {
        let (_folder, disk) = disk();
        let wal = disk.open("store.db-wal", Kind::Wal, true).unwrap();
        disk.write(wal, 0, b"data").unwrap();
        disk.cut_at(Cut {
            when: When::Sync,
            count: 1,
        });
        disk.write(wal, 4, b"more").unwrap();
        assert!(disk.sync(wal).is_err(), "the sync that was cut off");
        assert!(disk.write(wal, 0, b"late").is_err());
        assert!(disk.sync(wal).is_err() && disk.delete("store.db-wal", true).is_err());
        assert_eq!(disk.tally().unsynced_wal, 2);
        disk.remove();
    }
}
