//! The strict door: is this exactly one JSON object, said in only one way?
//!
//! Enters: raw bytes. Leaves: yes, or the byte where it stops being acceptable and why; for accepted bytes also
//! the list of leaves with their JSON pointers.
//! Deliberately absent: values, numbers as numbers, and any rewriting. Accepted bytes are stored, hashed, shown and
//! run as they came; this file only ever looks.

mod canonical;
mod leaf;
mod number;
mod scan;
mod tree;
mod twins;

pub use leaf::{Key, Kind, Leaf, find, keys, leaves, unescape};
pub(crate) use leaf::{pointer_at, push_segment};

pub(crate) use canonical::{FLAGS, canonical};
pub(crate) use number::Number;
pub(crate) use tree::{Node, Tree};
pub(crate) use twins::twins;

use scan::scan;

/// How much the door lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of bytes, whitespace included.
    pub bytes: usize,
    /// Deepest nesting; the outer object is 1.
    pub depth: usize,
    /// Largest sum of the path lengths of all leaves. One long key over many leaves would otherwise turn 64 KiB of
    /// arguments into hundreds of megabytes of pointers for everything that shows or traces them.
    pub paths: usize,
}

impl Limits {
    /// The limits for a call's arguments.
    pub const ARGUMENTS: Limits = Limits {
        bytes: 64 * 1024,
        depth: 64,
        paths: 4 * 1024 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::ARGUMENTS
    }
}

/// Where and why bytes were turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed arguments at byte {at}: {reason}")]
pub struct Malformed {
    /// Offset of the first byte that cannot be accepted.
    pub at: usize,
    /// What is wrong there.
    pub reason: Reason,
}

/// What can be wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// More bytes than allowed.
    #[error("larger than {0} bytes\nhint: pass a reference to the content instead of the content")]
    TooLarge(usize),
    /// Nested deeper than allowed.
    #[error("nested deeper than {0} levels\nhint: flatten the arguments")]
    TooDeep(usize),
    /// The paths of all leaves together are longer than allowed.
    #[error("the paths to its values add up to more than {0} bytes\nhint: use shorter keys or fewer values")]
    TooSprawling(usize),
    /// Not UTF-8.
    #[error("not UTF-8\nhint: encode the arguments as UTF-8")]
    NotUtf8,
    /// Starts with a byte order mark.
    #[error("starts with a byte order mark\nhint: send the JSON object without it")]
    ByteOrderMark,
    /// Some other JSON value.
    #[error("not a JSON object\nhint: wrap the arguments in `{{` and `}}`")]
    NotAnObject,
    /// The same key twice in one object, after unescaping.
    #[error("a key occurs twice in one object\nhint: keep one of them; escapes do not make keys different")]
    DuplicateKey,
    /// More keys in one object than allowed.
    #[error("an object has more than {0} keys\nhint: use an array, or several objects")]
    TooManyKeys(usize),
    /// Half of a surrogate pair.
    #[error("a `\\u` escape is half of a surrogate pair\nhint: write the character itself, or both halves")]
    LoneSurrogate,
    /// A raw control character inside a string.
    #[error("a raw control character in a string\nhint: escape it, as in `\\n`")]
    ControlCharacter,
    /// An escape JSON does not have.
    #[error("not a JSON escape\nhint: double the backslash if it is meant literally")]
    BadEscape,
    /// Not a number by the JSON grammar.
    #[error("not a JSON number\nhint: no leading zeros, no `+`, digits on both sides of the point")]
    BadNumber,
    /// A character that has no place here.
    #[error("an unexpected character\nhint: check quotes, commas and brackets before it")]
    Unexpected,
    /// The text stops too early.
    #[error("the text ends too early\nhint: it may have been cut off")]
    Ended,
    /// Something follows the object.
    #[error("something follows the JSON object\nhint: send exactly one object")]
    Trailing,
}

/// Checks that `bytes` are exactly one acceptable JSON object.
pub fn check(bytes: &[u8], limits: Limits) -> Result<(), Malformed> {
    scan(bytes, limits, Top::Object, |_| {})
}

/// Checks that `bytes` are exactly one JSON object which every reader reads alike, as for a message between programs.
///
/// The rules are those of [`check`], but for one: a string value may hold an escaped half of a surrogate pair. JavaScript
/// writes those when a program cuts text between the halves, and they change nothing about where the string ends. Keys
/// may not: two of them could become one key in a reader that replaces the halves.
pub fn check_message(bytes: &[u8], limits: Limits) -> Result<(), Malformed> {
    scan(bytes, limits, Top::Message, |_| {})
}

/// What may stand at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// Only an object, whose string values may hold halves of surrogate pairs.
    Message,
    /// Only an object, as for arguments.
    Object,
    /// Any value, as for a tool's result.
    Any,
}

#[cfg(test)]
mod tests;
