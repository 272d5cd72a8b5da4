//! Resolves escapes in a text, and maps ranges of the result back to the original text.
//!
//! Percent encoding and `\u` and `&#` escapes are resolved, even if only some characters are escaped. Whitespace can be
//! removed as well, as in wrapped base64. Each pass is linear in the text, and there are at most [`MOST_PASSES`].

use std::ops::Range;

/// Maximum number of levels of nested escapes that are resolved, as in `%2575` or in JSON within JSON.
const MOST_PASSES: usize = 4;

/// A text that was derived from another one.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) text: String,
    pieces: Vec<Piece>,
}

/// Part of a derived text, and the part of the original that it came from.
#[derive(Debug)]
struct Piece {
    at: usize,
    original: Range<usize>,
    /// True if the piece is unchanged, so that each byte has its own place in the original.
    is_copy: bool,
}

impl Decoded {
    /// Resolves all escapes; `None` if the text contains no escape.
    pub(super) fn escapes(text: &str) -> Option<Decoded> {
        let mut decoded = pass(text)?;
        for _ in 1..MOST_PASSES {
            let Some(further) = pass(&decoded.text) else { break };
            decoded = decoded.then(further);
        }
        Some(decoded)
    }

    /// Removes all whitespace; `None` if the text contains none.
    pub(super) fn without_blanks(text: &str) -> Option<Decoded> {
        if !text.contains(char::is_whitespace) {
            return None;
        }
        let mut decoded = Decoded::default();
        let mut copied_to = 0;
        for (at, blank) in text.match_indices(char::is_whitespace) {
            decoded.copy(text, copied_to..at);
            copied_to = at + blank.len();
        }
        decoded.copy(text, copied_to..text.len());
        Some(decoded)
    }

    /// Composes two derivations: `further` was derived from the text of `self`.
    pub(super) fn then(&self, further: Decoded) -> Decoded {
        let pieces = further.pieces.into_iter().map(|piece| Piece {
            // A piece that overlaps a resolved escape maps to the whole escape, never to part of it.
            is_copy: piece.is_copy && self.is_copied(&piece.original),
            original: self.original(&piece.original),
            at: piece.at,
        });
        Decoded {
            pieces: pieces.collect(),
            text: further.text,
        }
    }

    /// Returns the range of the original that a range of this text came from.
    pub(super) fn original(&self, place: &Range<usize>) -> Range<usize> {
        let piece = |at: usize| {
            let behind = self.pieces.partition_point(|piece| piece.at <= at);
            behind.checked_sub(1).and_then(|index| self.pieces.get(index))
        };
        let start = piece(place.start).map_or(0, |piece| match piece.is_copy {
            true => piece.original.start + (place.start - piece.at),
            false => piece.original.start,
        });
        let last = place.end.saturating_sub(1);
        let end = piece(last).map_or(start, |piece| match piece.is_copy {
            true => piece.original.start + (place.end - piece.at),
            false => piece.original.end,
        });
        start..end.max(start)
    }

    fn is_copied(&self, place: &Range<usize>) -> bool {
        let behind = self.pieces.partition_point(|piece| piece.at <= place.start);
        let piece = behind.checked_sub(1).and_then(|index| self.pieces.get(index));
        let next = self.pieces.get(behind).map_or(usize::MAX, |next| next.at);
        piece.is_some_and(|piece| piece.is_copy) && place.end <= next
    }

    fn copy(&mut self, text: &str, range: Range<usize>) {
        let Some(copied) = text.get(range.clone()).filter(|copied| !copied.is_empty()) else {
            return;
        };
        self.pieces.push(Piece {
            at: self.text.len(),
            original: range,
            is_copy: true,
        });
        self.text.push_str(copied);
    }

    fn push(&mut self, character: char, original: Range<usize>) {
        self.pieces.push(Piece {
            at: self.text.len(),
            original,
            is_copy: false,
        });
        self.text.push(character);
    }
}

/// Resolves one level of escapes; `None` if the text contains no escape.
fn pass(text: &str) -> Option<Decoded> {
    if !text.contains(['%', '\\', '&']) {
        return None;
    }
    let mut decoded = Decoded::default();
    let (mut at, mut copied_to) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(['%', '\\', '&'])) {
        at += found;
        let rest = text.get(at..).unwrap_or_default();
        let resolved = match rest.as_bytes().first() {
            Some(b'%') => percent(rest),
            Some(b'&') => entity(rest),
            _ => backslash(rest),
        };
        let Some((character, length)) = resolved else {
            // Skip a run of backslashes at once.
            let run = rest.len() - rest.trim_start_matches('\\').len();
            at += run.max(1);
            continue;
        };
        decoded.copy(text, copied_to..at);
        decoded.push(character, at..at + length);
        at += length;
        copied_to = at;
    }
    if copied_to == 0 {
        return None;
    }
    decoded.copy(text, copied_to..text.len());
    Some(decoded)
}

/// Decodes `%41` or `%C3%A9` at the start of `rest`; `None` if there is no such escape. Returns the character and the
/// length of its escape in bytes.
fn percent(rest: &str) -> Option<(char, usize)> {
    let mut bytes = [0; 4];
    let mut digits = rest;
    let mut count = 0;
    for slot in &mut bytes {
        let Some(byte) = digits.strip_prefix('%').and_then(|digits| hex(digits, 2)) else {
            break;
        };
        *slot = byte as u8;
        count += 1;
        digits = digits.get(3..)?;
    }
    let valid = bytes.get(..count)?.utf8_chunks().next()?.valid();
    let character = valid.chars().next()?;
    Some((character, character.len_utf8() * 3))
}

/// Decodes `&#65;`, `&#x41;` or a named entity at the start of `rest`, as [`percent`] does.
fn entity(rest: &str) -> Option<(char, usize)> {
    const NAMED: [(&str, char); 6] = [
        ("&amp;", '&'),
        ("&lt;", '<'),
        ("&gt;", '>'),
        ("&quot;", '"'),
        ("&apos;", '\''),
        ("&sol;", '/'),
    ];
    if let Some((name, character)) = NAMED.into_iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((character, name.len()));
    }
    const LONGEST: usize = 12;
    let end = rest.bytes().take(LONGEST).position(|byte| byte == b';')?;
    let number = rest.get(..end)?.strip_prefix("&#")?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    Some((char::from_u32(code)?, end + 1))
}

/// Decodes a backslash escape of JSON or most programming languages at the start of `rest`, with any number of
/// backslashes; see [`percent`] for the result.
fn backslash(rest: &str) -> Option<(char, usize)> {
    let behind = rest.trim_start_matches('\\');
    let slashes = rest.len() - behind.len();
    let (character, length) = match behind.as_bytes().first()? {
        b'u' => unicode(behind.get(1..)?)?,
        b'U' => (char::from_u32(hex(behind.get(1..)?, 8)?)?, 9),
        b'x' => (char::from_u32(hex(behind.get(1..)?, 2)?)?, 3),
        b'n' => ('\n', 1),
        b'r' => ('\r', 1),
        b't' => ('\t', 1),
        b'/' => ('/', 1),
        b'"' => ('"', 1),
        b'\'' => ('\'', 1),
        // Backslashes that escape each other.
        _ if slashes > 1 => ('\\', 0),
        _ => return None,
    };
    Some((character, slashes + length))
}

/// Decodes `0041`, `{41}` or `d83d\ude00` after a `u`; `None` for anything else. The length includes the `u`.
fn unicode(digits: &str) -> Option<(char, usize)> {
    if let Some(inside) = digits.strip_prefix('{') {
        let end = inside.bytes().take(7).position(|byte| byte == b'}')?;
        let code = hex(inside, end).filter(|_| end > 0)?;
        return Some((char::from_u32(code)?, end + 3));
    }
    let code = hex(digits, 4)?;
    match char::from_u32(code) {
        Some(character) => Some((character, 5)),
        None => pair(digits).map(|(character, length)| (character, length + 1)),
    }
}

/// Decodes a surrogate pair such as `d83d\ude00`; `None` for anything else.
fn pair(digits: &str) -> Option<(char, usize)> {
    let high = hex(digits, 4)? as u16;
    let behind = digits.get(4..)?;
    let low = behind.trim_start_matches('\\');
    let slashes = behind.len() - low.len();
    let low = hex(low.strip_prefix('u').filter(|_| slashes > 0)?, 4)? as u16;
    let character = char::decode_utf16([high, low]).next()?.ok()?;
    Some((character, 4 + slashes + 5))
}

fn hex(text: &str, count: usize) -> Option<u32> {
    let digits = text.get(..count)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// Replaces each of these ranges of a text with its mark. The ranges are in order and do not overlap.
pub(super) fn with_marks<'m>(
    text: &str,
    places: impl IntoIterator<Item = (Range<usize>, &'m str)>,
) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut shown_to = 0;
    for (place, mark) in places {
        shown.push_str(text.get(shown_to..place.start).unwrap_or_default());
        shown.push_str(mark);
        shown_to = place.end;
    }
    shown.push_str(text.get(shown_to..).unwrap_or_default());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_and_their_places_known() {
        for (text, expected) in [
            ("a%73%c3%A9b", "aséb"),
            ("%2573", "s"),
            ("\\u0073\\u00E9", "sé"),
            ("\\\\u0073", "s"),
            ("\\ud83d\\ude00!", "😀!"),
            ("\\x73\\u{e9}", "sé"),
            ("&#115;&#xE9;&amp;", "sé&"),
            ("line\\nnext", "line\nnext"),
            ("%ff%73", "%ffs"),
        ] {
            let decoded = Decoded::escapes(text).unwrap();
            assert_eq!(decoded.text, expected, "{text}");
            assert_eq!(
                decoded.original(&(0..decoded.text.len())),
                0..text.len(),
                "{text}"
            );
        }
        for text in ["", "plain", "100 %", "a & b", "C:\\dir", "%zz"] {
            assert!(Decoded::escapes(text).is_none(), "{text}");
        }
        let decoded = Decoded::escapes("ab%2573cd").unwrap();
        assert_eq!(decoded.original(&(2..3)), 2..7);
        let squeezed = Decoded::without_blanks("ab \r\n cd").unwrap();
        assert_eq!(
            (squeezed.text.as_str(), squeezed.original(&(1..3))),
            ("abcd", 1..7)
        );
    }
}
