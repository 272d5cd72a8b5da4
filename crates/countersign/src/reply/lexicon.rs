//! Interns every word of every table as a number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Id of a known word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Word(pub(super) u32);

/// The words of all tables and their ids.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    words: FastMap<Box<str>, Word>,
}

impl Lexicon {
    /// Returns the word's id, and assigns one to a new word.
    pub(super) fn intern(&mut self, word: &str) -> Word {
        if let Some(known) = self.words.get(word) {
            return *known;
        }
        let number = Word(u32::try_from(self.words.len()).unwrap_or(u32::MAX));
        self.words.insert(word.into(), number);
        number
    }

    /// Returns the word's id if any table has the word.
    pub(super) fn find(&self, word: &str) -> Option<Word> {
        self.words.get(word).copied()
    }

    /// Adds Latin words without their accents, unless that spelling is a word of its own.
    pub(super) fn add_plain_forms(&mut self) {
        let mut plain: Vec<(String, Word)> = Vec::new();
        for (text, word) in &self.words {
            let form: String = text.nfd().filter(|c| !is_combining_mark(*c)).map(base).collect();
            if form.is_ascii() && form != **text {
                plain.push((form, *word));
            }
        }
        // Sorted, so that the result for a spelling shared by two words does not depend on the map's order.
        plain.sort_unstable();
        for (form, word) in plain {
            self.words.entry(form.into()).or_insert(word);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }
}

/// Returns the base letter of a letter with a stroke, and any other character unchanged.
fn base(c: char) -> char {
    match c {
        'ł' => 'l',
        'đ' => 'd',
        'ø' => 'o',
        _ => c,
    }
}

/// A map with a fast hash. All keys come from tables that are compiled into the program, so nobody can force
/// collisions.
pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

/// Fast hasher without protection against collisions. Multiplies and rotates, eight bytes at a time.
#[derive(Default)]
pub(super) struct QuickHasher(u64);

impl QuickHasher {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix(chunk.try_into().map_or(0, u64::from_le_bytes));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            for (to, from) in last.iter_mut().zip(rest) {
                *to = *from;
            }
            self.mix(u64::from_le_bytes(last));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn finish(&self) -> u64 {
        // The hash map takes the bucket from the low bits and its tag from the high ones.
        self.0 ^ (self.0 >> 32)
    }
}
