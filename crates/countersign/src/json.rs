//! The strict door: is this exactly one JSON object, said in only one way?
//!
//! Enters: raw bytes. Leaves: yes, or the byte where it stops being acceptable and why; for accepted bytes also
//! the list of leaves with their JSON pointers.
//! Deliberately absent: values, numbers as numbers, and any rewriting. Accepted bytes are stored, hashed, shown and
//! run as they came; this file only ever looks.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

mod leaf;
mod number;
mod tree;

pub(crate) use leaf::push_segment;
pub use leaf::{Kind, Leaf, leaves, unescape};

pub(crate) use number::Number;
pub(crate) use tree::{Node, Tree};

/// Objects with more keys than this are checked for duplicates with a hash set instead of one by one.
const LINEAR_KEYS: usize = 16;

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

/// What may stand at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// Only an object, as for arguments.
    Object,
    /// Any value, as for a tool's result.
    Any,
}

/// What the scanner tells its listener on the way.
enum Step<'a> {
    /// An object or array that is not empty begins at this byte.
    Open { is_object: bool, at: usize },
    /// The next value stands under this key; raw text between the quotes.
    Key(&'a str),
    /// The next value is this element of an array.
    Index(usize),
    /// A value without parts: its kind, and its range with quotes.
    Leaf(Kind, Range<usize>),
    /// The innermost object or array ended before this byte.
    Close { at: usize },
}

/// Runs over `bytes` once, telling `listen` every step; stops at the first fault.
fn scan<'a>(
    bytes: &'a [u8],
    limits: Limits,
    top: Top,
    listen: impl FnMut(Step<'a>),
) -> Result<(), Malformed> {
    if bytes.len() > limits.bytes {
        let reason = Reason::TooLarge(limits.bytes);
        return Err(Malformed {
            at: limits.bytes,
            reason,
        });
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        let reason = Reason::ByteOrderMark;
        return Err(Malformed { at: 0, reason });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Malformed {
        at: error.valid_up_to(),
        reason: Reason::NotUtf8,
    })?;
    let mut scanner = Scanner {
        text,
        bytes,
        at: 0,
        frames: Vec::with_capacity(8),
        keys: Vec::with_capacity(LINEAR_KEYS),
        limits,
        paths: 0,
        listen,
    };
    scanner.whitespace();
    match scanner.peek() {
        Some(b'{') => scanner.value()?,
        Some(_) if top == Top::Any => scanner.value()?,
        Some(_) => return scanner.fault(Reason::NotAnObject),
        None => return scanner.fault(Reason::Ended),
    }
    while !scanner.frames.is_empty() {
        scanner.advance()?;
    }
    scanner.whitespace();
    match scanner.peek() {
        None => Ok(()),
        Some(_) => scanner.fault(Reason::Trailing),
    }
}

/// An object or array being read.
struct Frame<'a> {
    is_object: bool,
    /// Elements before the current one.
    index: usize,
    /// Where this object's keys begin in `Scanner::keys`.
    first_key: usize,
    /// All keys of this object, once there are more than `LINEAR_KEYS`.
    key_set: Option<HashSet<Cow<'a, str>>>,
    /// Length of the path to this frame, and to its current value.
    base: usize,
    path: usize,
}

/// The nesting lives in `frames`, on the heap and limited, so that no input can exhaust the stack.
struct Scanner<'a, L> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    frames: Vec<Frame<'a>>,
    keys: Vec<Cow<'a, str>>,
    limits: Limits,
    paths: usize,
    listen: L,
}

impl<'a, L: FnMut(Step<'a>)> Scanner<'a, L> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault<T>(&self, reason: Reason) -> Result<T, Malformed> {
        Err(Malformed { at: self.at, reason })
    }

    /// The fault for a byte that is none of those wanted here.
    fn unexpected<T>(&self) -> Result<T, Malformed> {
        self.fault(match self.peek() {
            Some(_) => Reason::Unexpected,
            None => Reason::Ended,
        })
    }

    fn whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads what follows a finished value: the next one in the same frame, or the frame's end.
    fn advance(&mut self) -> Result<(), Malformed> {
        self.whitespace();
        let Some(frame) = self.frames.last_mut() else {
            return Ok(());
        };
        match (self.bytes.get(self.at), frame.is_object) {
            (Some(b','), true) => {
                self.at += 1;
                self.whitespace();
                self.key()?;
                self.value()
            }
            (Some(b','), false) => {
                self.at += 1;
                frame.index += 1;
                frame.path = frame.base + 1 + decimal_digits(frame.index);
                (self.listen)(Step::Index(frame.index));
                self.whitespace();
                self.value()
            }
            (Some(b'}'), true) | (Some(b']'), false) => {
                self.at += 1;
                self.keys.truncate(frame.first_key);
                self.frames.pop();
                (self.listen)(Step::Close { at: self.at });
                Ok(())
            }
            _ => self.unexpected(),
        }
    }

    /// Reads a whole leaf, or opens a frame and goes on to its first value.
    fn value(&mut self) -> Result<(), Malformed> {
        loop {
            let start = self.at;
            let kind = match self.peek() {
                Some(b'"') => {
                    self.string()?;
                    Kind::String
                }
                Some(b'{') if self.open(true)? => Kind::EmptyObject,
                Some(b'[') if self.open(false)? => Kind::EmptyArray,
                Some(b'{' | b'[') => continue,
                Some(b't') => self.word("true", Kind::Bool)?,
                Some(b'f') => self.word("false", Kind::Bool)?,
                Some(b'n') => self.word("null", Kind::Null)?,
                Some(b'-' | b'0'..=b'9') => {
                    self.number()?;
                    Kind::Number
                }
                _ => return self.unexpected(),
            };
            self.paths += self.frames.last().map_or(0, |frame| frame.path);
            if self.paths > self.limits.paths {
                self.at = start;
                return self.fault(Reason::TooSprawling(self.limits.paths));
            }
            (self.listen)(Step::Leaf(kind, start..self.at));
            return Ok(());
        }
    }

    /// Steps into an object or array. Says whether it was empty, and has then read past its end; otherwise the
    /// scanner stands before the first value.
    fn open(&mut self, is_object: bool) -> Result<bool, Malformed> {
        if self.frames.len() >= self.limits.depth {
            return self.fault(Reason::TooDeep(self.limits.depth));
        }
        let start = self.at;
        self.at += 1;
        self.whitespace();
        if self.peek() == Some(if is_object { b'}' } else { b']' }) {
            self.at += 1;
            return Ok(true);
        }
        let base = self.frames.last().map_or(0, |frame| frame.path);
        self.frames.push(Frame {
            is_object,
            index: 0,
            first_key: self.keys.len(),
            key_set: None,
            base,
            path: base + 2,
        });
        (self.listen)(Step::Open { is_object, at: start });
        if is_object {
            self.key()?;
        } else {
            (self.listen)(Step::Index(0));
        }
        Ok(false)
    }

    /// Reads a key, its colon, and the whitespace up to the value.
    fn key(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return self.unexpected();
        }
        let has_escapes = self.string()?;
        let raw = self.text.get(start + 1..self.at - 1).unwrap_or_default();
        let key = if has_escapes {
            unescape(raw)
        } else {
            Cow::Borrowed(raw)
        };
        if !self.remember(key, raw.len()) {
            self.at = start;
            return self.fault(Reason::DuplicateKey);
        }
        (self.listen)(Step::Key(raw));
        self.whitespace();
        if self.peek() != Some(b':') {
            return self.unexpected();
        }
        self.at += 1;
        self.whitespace();
        Ok(())
    }

    /// Notes a key of the innermost object; false if it is there already.
    fn remember(&mut self, key: Cow<'a, str>, raw_length: usize) -> bool {
        let Some(frame) = self.frames.last_mut() else {
            return true;
        };
        frame.path = frame.base + 1 + raw_length;
        if let Some(set) = &mut frame.key_set {
            return set.insert(key);
        }
        let siblings = self.keys.get(frame.first_key..).unwrap_or_default();
        if siblings.contains(&key) {
            return false;
        }
        if siblings.len() < LINEAR_KEYS {
            self.keys.push(key);
        } else {
            let mut set: HashSet<_> = self.keys.drain(frame.first_key..).collect();
            set.insert(key);
            frame.key_set = Some(set);
        }
        true
    }

    /// Reads a string from quote to quote; says whether it holds escapes.
    fn string(&mut self) -> Result<bool, Malformed> {
        self.at += 1;
        let mut has_escapes = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let plain = rest
                .iter()
                .take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f));
            self.at += plain.count();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.escape()?;
                }
                Some(_) => return self.fault(Reason::ControlCharacter),
                None => return self.fault(Reason::Ended),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let unit = self.code_unit(self.at)?;
                let is_low = |unit| (0xdc00..0xe000).contains(&unit);
                if is_low(unit) {
                    return self.fault(Reason::LoneSurrogate);
                }
                if (0xd800..0xdc00).contains(&unit) {
                    let next = self.bytes.get(self.at + 6..self.at + 8);
                    if next != Some(b"\\u") || !is_low(self.code_unit(self.at + 6)?) {
                        return self.fault(Reason::LoneSurrogate);
                    }
                    self.at += 6;
                }
                self.at += 6;
            }
            Some(_) => return self.fault(Reason::BadEscape),
            None => return self.fault(Reason::Ended),
        }
        Ok(())
    }

    /// The number behind the `\u` at `at`.
    fn code_unit(&self, at: usize) -> Result<u32, Malformed> {
        let digits = self.bytes.get(at + 2..at + 6).unwrap_or_default();
        let unit = digits.iter().try_fold(0u32, |unit, byte| {
            let digit = char::from(*byte).to_digit(16)?;
            Some(unit * 16 + digit)
        });
        match unit {
            Some(unit) if digits.len() == 4 => Ok(unit),
            _ => self.fault(Reason::BadEscape),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<Kind, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return self.fault(Reason::Unexpected);
        }
        self.at += word.len();
        Ok(kind)
    }

    /// RFC 8259, section 6. Size and precision are nobody's business here.
    fn number(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.peek();
        let mut is_good = match self.digits() {
            0 => false,
            1 => true,
            _ => first != Some(b'0'),
        };
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_good &= self.digits() > 0;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            is_good &= self.digits() > 0;
        }
        if !is_good {
            self.at = start;
            return self.fault(Reason::BadNumber);
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }
}

fn decimal_digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests;
