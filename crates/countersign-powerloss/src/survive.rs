//! Computes which unsynced changes survive a power cut.
//!
//! Input: the synced content, and the changes since. Output: one of the many possible states of the disk after the cut.
//! Damage to bytes next to those that were written is not simulated: SQLite assumes `SQLITE_IOCAP_POWERSAFE_OVERWRITE`,
//! which the usual file systems provide.

use std::collections::BTreeMap;

use crate::disk::{Change, FileId};
use crate::random::Random;

/// Unit of atomic writes, in bytes.
const SECTOR: usize = 512;

/// How many of the unsynced changes reached the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// None of the changes.
    Nothing,
    /// All of the changes.
    Everything,
    /// The first changes reached the disk completely, the next one in part, and the others not at all.
    InOrder,
    /// Random changes reached the disk in random order, each completely, in part, or only as a new file length.
    AnyOrder,
    /// Each sector is in the state after a random number of the changes.
    BySector,
}

impl Manner {
    pub(crate) fn any(random: &mut Random) -> Manner {
        match random.below(8) {
            0 => Manner::Nothing,
            1 => Manner::Everything,
            2 | 3 => Manner::InOrder,
            4 | 5 => Manner::AnyOrder,
            _ => Manner::BySector,
        }
    }
}

/// Returns the surviving names: a prefix or a random subset of the unsynced entries is applied.
pub(crate) fn names(
    synced: &BTreeMap<String, FileId>,
    entries: &[(String, Option<FileId>)],
    random: &mut Random,
) -> BTreeMap<String, FileId> {
    let mut names = synced.clone();
    let first = random.index(entries.len() + 1);
    let is_any = random.one_in(2);
    for (number, (name, id)) in entries.iter().enumerate() {
        let is_left = match is_any {
            true => random.one_in(2),
            false => number < first,
        };
        match id {
            Some(id) if is_left => _ = names.insert(name.clone(), *id),
            None if is_left => _ = names.remove(name),
            _ => {}
        }
    }
    names
}

/// Returns the surviving content of a file.
pub(crate) fn file(synced: &[u8], unsynced: &[Change], manner: Manner, random: &mut Random) -> Vec<u8> {
    let mut bytes = synced.to_vec();
    match manner {
        Manner::Nothing => {}
        Manner::Everything => unsynced.iter().for_each(|change| apply(&mut bytes, change)),
        Manner::InOrder => {
            let whole = random.index(unsynced.len() + 1);
            let (first, rest) = unsynced.split_at(whole.min(unsynced.len()));
            first.iter().for_each(|change| apply(&mut bytes, change));
            rest.iter()
                .take(1)
                .for_each(|change| apply_torn(&mut bytes, change, random));
        }
        Manner::AnyOrder => {
            let mut changes: Vec<&Change> = unsynced.iter().collect();
            random.shuffle(&mut changes);
            for change in changes {
                match random.below(4) {
                    0 => {}
                    1 => apply_torn(&mut bytes, change, random),
                    _ => apply(&mut bytes, change),
                }
            }
        }
        Manner::BySector => by_sector(&mut bytes, unsynced, random),
    }
    bytes
}

pub(crate) fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate(length) => bytes.resize(*length, 0),
        Change::Write { offset, bytes: new } => put(bytes, *offset, new),
    }
}

/// Overwrites random sectors with garbage.
pub(crate) fn spoil(bytes: &mut [u8], random: &mut Random) {
    for sector in bytes.chunks_mut(SECTOR) {
        if random.one_in(2) {
            let value = u8::try_from(random.below(256)).unwrap_or(0);
            sector.fill(value);
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(new);
    }
}

/// Applies part of a write: its first sectors, random sectors, or only the new file length. One sector may be garbage,
/// because it was being written at the power cut.
fn apply_torn(bytes: &mut Vec<u8>, change: &Change, random: &mut Random) {
    let Change::Write { offset, bytes: new } = change else {
        return apply(bytes, change);
    };
    let pieces = pieces(*offset, new);
    let first = random.index(pieces.len() + 1);
    let manner = random.below(3);
    for (number, (at, piece)) in pieces.into_iter().enumerate() {
        let is_left = match manner {
            0 => number < first,
            1 => random.one_in(2),
            _ => false,
        };
        if is_left {
            put(bytes, at, piece);
        } else if number == first && random.one_in(2) {
            let mut spoiled = piece.to_vec();
            spoil(&mut spoiled, random);
            put(bytes, at, &spoiled);
        }
    }
    let end = offset + new.len();
    if manner == 2 && bytes.len() < end {
        bytes.resize(end, 0);
    }
}

/// Splits a write at sector boundaries.
fn pieces(offset: usize, mut new: &[u8]) -> Vec<(usize, &[u8])> {
    let mut pieces = Vec::new();
    let mut at = offset;
    while !new.is_empty() {
        let length = (SECTOR - at % SECTOR).min(new.len());
        let (piece, rest) = new.split_at(length);
        pieces.push((at, piece));
        (at, new) = (at + length, rest);
    }
    pieces
}

/// Applies changes as if each sector had been flushed at its own moment.
fn by_sector(bytes: &mut Vec<u8>, unsynced: &[Change], random: &mut Random) {
    let mut until: BTreeMap<usize, usize> = BTreeMap::new();
    let count = unsynced.len();
    for (number, change) in unsynced.iter().enumerate() {
        match change {
            // A file length is a single value and changes atomically.
            Change::Truncate(length) if random.one_in(2) => bytes.resize(*length, 0),
            Change::Truncate(_) => {}
            Change::Write { offset, bytes: new } => {
                for (at, piece) in pieces(*offset, new) {
                    let moment = until
                        .entry(at / SECTOR)
                        .or_insert_with(|| random.index(count + 1));
                    if number < *moment {
                        put(bytes, at, piece);
                    }
                }
            }
        }
    }
}
