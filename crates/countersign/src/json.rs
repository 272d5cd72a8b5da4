//! Strict JSON checks: accepts exactly one JSON object that every parser reads the same way.
//!
//! Rejected bytes are reported with the offset and reason of the first fault. Accepted bytes can be listed as leaves
//! with their JSON pointers. They are never rewritten: the same bytes are stored, hashed, shown and run.

mod canonical;
mod confusable_keys;
mod leaf;
mod number;
mod scan;
mod tree;

#[cfg(feature = "provenance")]
pub(crate) use leaf::pointer_at;
pub(crate) use leaf::push_segment;
pub use leaf::{Key, Kind, Leaf, find, keys, leaves, unescape};

pub(crate) use canonical::{FLAGS, canonical};
pub(crate) use confusable_keys::{confusable_keys, similar_key};
pub(crate) use number::Number;
pub(crate) use tree::{Node, Tree};

use scan::scan;

/// Limits on accepted JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size in bytes, including whitespace.
    pub bytes: usize,
    /// Maximum nesting; the outer object counts as 1.
    pub depth: usize,
    /// Maximum sum of the path lengths of all leaves. Without it, one long key above many leaves would turn 64 KiB of
    /// arguments into hundreds of megabytes of pointers.
    pub paths: usize,
}

impl Limits {
    /// Limits for a call's arguments: 64 KiB, 64 levels, and 4 MiB of pointers.
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

/// Position and reason of a rejection of JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed arguments at byte {at}: {reason}")]
#[non_exhaustive]
pub struct Malformed {
    /// Offset of the first byte that cannot be accepted.
    pub at: usize,
    /// Reason for the rejection.
    pub reason: Reason,
}

/// Reason for rejecting JSON text. A number is the limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// The bytes are not UTF-8.
    #[error("not UTF-8\nhint: encode the arguments as UTF-8")]
    NotUtf8,
    /// Starts with a byte order mark.
    #[error("starts with a byte order mark\nhint: send the JSON object without it")]
    ByteOrderMark,
    /// A JSON value other than an object.
    #[error("not a JSON object\nhint: wrap the arguments in `{{` and `}}`")]
    NotAnObject,
    /// The same key twice in one object, after unescaping.
    #[error("a key occurs twice in one object\nhint: keep one of them; escapes do not make keys different")]
    DuplicateKey,
    /// More keys in one object than allowed.
    #[error("an object has more than {0} keys\nhint: use an array, or several objects")]
    TooManyKeys(usize),
    /// An escaped lone surrogate.
    #[error("a `\\u` escape is half of a surrogate pair\nhint: write the character itself, or both halves")]
    LoneSurrogate,
    /// A raw control character inside a string.
    #[error("a raw control character in a string\nhint: escape it, as in `\\n`")]
    ControlCharacter,
    /// An escape that JSON does not define.
    #[error("not a JSON escape\nhint: double the backslash if it is meant literally")]
    BadEscape,
    /// A number that does not follow the JSON grammar.
    #[error("not a JSON number\nhint: no leading zeros, no `+`, digits on both sides of the point")]
    BadNumber,
    /// An unexpected character.
    #[error("an unexpected character\nhint: check quotes, commas and brackets before it")]
    Unexpected,
    /// The text ends too early.
    #[error("the text ends too early\nhint: it may have been cut off")]
    Ended,
    /// Content after the object.
    #[error("something follows the JSON object\nhint: send exactly one object")]
    Trailing,
}

/// Checks that `bytes` are exactly one JSON object that every parser reads the same way, within `limits`.
pub fn check(bytes: &[u8], limits: Limits) -> Result<(), Malformed> {
    scan(bytes, limits, TopLevel::Object, |_| {})
}

/// Checks that `bytes` are exactly one JSON object that every parser reads the same way, for messages between programs.
///
/// The rules are those of [`check`], with one exception: a string value may contain an escaped lone surrogate.
/// JavaScript writes those when a program cuts text between the halves of a pair, and they do not affect where the
/// string ends. Keys may not contain them: two keys could become equal in a parser that replaces lone surrogates.
pub fn check_message(bytes: &[u8], limits: Limits) -> Result<(), Malformed> {
    scan(bytes, limits, TopLevel::Message, |_| {})
}

/// Permitted top-level value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopLevel {
    /// An object whose string values may contain lone surrogates.
    Message,
    /// An object, as for arguments.
    Object,
    /// Any value, as for a tool's result.
    Any,
}

#[cfg(test)]
mod tests;
