//! Single-pass JSON scanner; the only place that implements the grammar.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::{Kind, Limits, Malformed, Reason, TopLevel, unescape};

/// Number of keys above which an object is checked for duplicates with a hash set instead of a linear search.
const LINEAR_KEYS: usize = 32;
/// Maximum number of keys in one object. The set of seen keys needs several times their size in the text.
const MOST_KEYS: usize = 1 << 20;
/// Number of bytes of a string examined at once.
const CHUNK: usize = 32;

/// Event reported by the scanner.
pub(super) enum Step<'a> {
    /// A non-empty object or array begins at this byte.
    Open { is_object: bool, at: usize },
    /// Key of the next value, as raw text between the quotes.
    Key(&'a str),
    /// Array index of the next value.
    Index(usize),
    /// A scalar or empty container: its type, and its byte range including quotes.
    Leaf(Kind, Range<usize>),
    /// The innermost object or array ended just before this byte.
    Close { at: usize },
}

/// Scans `bytes` once and reports every step to `listen`. Stops at the first fault.
pub(super) fn scan<'a>(
    bytes: &'a [u8],
    limits: Limits,
    top: TopLevel,
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
        keys: Vec::with_capacity(16),
        limits,
        paths: 0,
        allow_lone_surrogates: top == TopLevel::Message,
        listen,
    };
    scanner.whitespace();
    match scanner.peek() {
        Some(b'{') => scanner.value()?,
        Some(_) if top == TopLevel::Any => scanner.value()?,
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

/// An object or array that is still open.
struct Frame<'a> {
    is_object: bool,
    /// Index of the current element.
    index: usize,
    /// Index of this object's first key in `Scanner::keys`.
    first_key: usize,
    /// Set of all keys of this object; `None` while there are at most `LINEAR_KEYS`.
    key_set: Option<HashSet<Cow<'a, str>>>,
    /// Path length of this container, and of its current value.
    base: usize,
    path: usize,
}

impl Frame<'_> {
    fn is_full(&self) -> bool {
        self.key_set.as_ref().is_some_and(|keys| keys.len() >= MOST_KEYS)
    }
}

/// Scanner state. Nesting is kept in `frames`, on the heap and limited, so that no input can exhaust the stack.
struct Scanner<'a, L> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    frames: Vec<Frame<'a>>,
    keys: Vec<Cow<'a, str>>,
    limits: Limits,
    paths: usize,
    /// True if string values may contain lone surrogates.
    allow_lone_surrogates: bool,
    listen: L,
}

impl<'a, L: FnMut(Step<'a>)> Scanner<'a, L> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault<T>(&self, reason: Reason) -> Result<T, Malformed> {
        Err(Malformed { at: self.at, reason })
    }

    /// Returns the fault for an unexpected byte, or for the end of the text.
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

    /// Reads the text after a value: the beginning of the next value of the same container, or the container's end.
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

    /// Reads the next leaf, and enters all containers before it.
    fn value(&mut self) -> Result<(), Malformed> {
        loop {
            let start = self.at;
            let kind = match self.peek() {
                Some(b'"') => {
                    self.string(self.allow_lone_surrogates)?;
                    Kind::String
                }
                Some(b'{') if self.open(true)? => Kind::Object,
                Some(b'[') if self.open(false)? => Kind::Array,
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

    /// Enters an object or array. Returns true if it was empty and has been read completely. Otherwise the scanner is
    /// now before the first value.
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

    /// Reads a key, its colon, and the whitespace before the value.
    fn key(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return self.unexpected();
        }
        let has_escapes = self.string(false)?;
        let raw = self.text.get(start + 1..self.at - 1).unwrap_or_default();
        let key = if has_escapes {
            unescape(raw)
        } else {
            Cow::Borrowed(raw)
        };
        let is_full = self.frames.last().is_some_and(Frame::is_full);
        if is_full {
            return self.fault(Reason::TooManyKeys(MOST_KEYS));
        }
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

    /// Records a key of the innermost object. Returns false if the object has this key already.
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

    /// Reads a string. Returns true if it contains escapes.
    fn string(&mut self, allow_lone_surrogates: bool) -> Result<bool, Malformed> {
        self.at += 1;
        let mut has_escapes = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += plain_length(rest);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.escape(allow_lone_surrogates)?;
                }
                Some(_) => return self.fault(Reason::ControlCharacter),
                None => return self.fault(Reason::Ended),
            }
        }
    }

    fn escape(&mut self, allow_lone_surrogates: bool) -> Result<(), Malformed> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let unit = self.code_unit(self.at)?;
                let is_low = |unit| (0xdc00..0xe000).contains(&unit);
                if is_low(unit) && !allow_lone_surrogates {
                    return self.fault(Reason::LoneSurrogate);
                }
                if (0xd800..0xdc00).contains(&unit) && !allow_lone_surrogates {
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

    /// Parses the four hex digits of the `\u` escape at `at`.
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

    /// Reads a number according to RFC 8259, section 6. Size and precision are not checked.
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

/// Returns the number of bytes before the next quote, backslash or control character.
///
/// Chunks are examined without an early exit, which lets the compiler vectorise the loop: most of a large message is
/// the inside of strings.
fn plain_length(bytes: &[u8]) -> usize {
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    let is_all_plain = |chunk: &[u8]| chunk.iter().fold(true, |all, byte| all & is_plain(byte));
    let plain_chunks = bytes.chunks_exact(CHUNK).take_while(|chunk| is_all_plain(chunk));
    let skipped = plain_chunks.count() * CHUNK;
    let rest = bytes.get(skipped..).unwrap_or_default();
    skipped + rest.iter().take_while(|byte| is_plain(byte)).count()
}

fn decimal_digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}
