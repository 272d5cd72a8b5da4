//! Escapes untrusted text, so that no character of it can act on the screen that shows it.
//!
//! Input: any text. Output: text in which every character is visible and from which the original can be recovered.
//! Quoting for HTML, Markdown or terminals is left to each surface.
//!
//! The escapes:
//! - a character that is invisible, moves others, or means nothing by itself: `\u{202e}`;
//! - more than three of the same such character, or of spaces, in a row: `\u{20×4000}`;
//! - a real backslash before `u{`: `\u{5c}`, so that nobody can fake an escape;
//! - the sign `↵`, which stands for a line break where text is on one line: `\u{21b5}`.
//!
//! Line breaks are escaped, too. Surfaces turn these escapes back into line breaks ([`lines`], [`with_line_breaks`]),
//! or into `↵` where there is only one line ([`one_line`]).

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

mod clip;
mod punycode;
mod value;
mod warning;

use clip::clip_to;
pub use clip::{Clipped, clip};
pub use value::{EMPTY, LINE_BREAK, clip_value, lines, one_line, up_to_lines, value, with_line_breaks};
pub(crate) use value::{needs_quotes, push_value, shown_name, unescaped_value};
pub use warning::{Warning, is_unremarkable, warnings};

/// Longest run of spaces that is not escaped.
const PLAIN_BLANKS: usize = 3;
/// Maximum number of combining marks on one base character that are not escaped.
const PLAIN_MARKS: usize = 4;

/// Characters that look blank although their category is letter, mark or symbol.
const BLANK: [char; 9] = [
    '\u{2800}',  // braille pattern blank
    '\u{2d7f}',  // Tifinagh consonant joiner
    '\u{303f}',  // ideographic half fill space
    '\u{fffc}',  // object replacement character
    '\u{1107f}', // Brahmi number joiner
    '\u{13441}', // Egyptian hieroglyph full blank
    '\u{13442}', // Egyptian hieroglyph half blank
    '\u{16fe4}', // Khitan small script filler
    '\u{1d159}', // musical symbol null notehead
];

/// Makes every character of `text` visible. Printable ASCII is returned unchanged, except for long runs of spaces and
/// text that looks like an escape.
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        Units::new(text).fold(String::with_capacity(text.len() + 16), |mut shown, unit| {
            unit.push_to(&mut shown);
            shown
        }),
    )
}

/// Wrapper whose `Display` implementation escapes the text as [`escape`] does.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self.0))
    }
}

/// Returns true if `text` is ASCII that needs no escaping.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_long_blank = |four: &[u8]| four == b"    ";
    // No early exit, so that the compiler can vectorise the loop.
    let is_ascii = bytes
        .iter()
        .fold(true, |so_far, byte| so_far & (0x20..0x7f).contains(byte));
    is_ascii
        && !(bytes.contains(&b'\\') && text.contains("\\u{"))
        && !(bytes.contains(&b' ') && bytes.windows(4).any(is_long_blank))
}

/// Returns true if a character must always be escaped.
pub(crate) fn is_forbidden(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    if is_common_letter(character) {
        return false;
    }
    match character.general_category() {
        GeneralCategory::Control
        | GeneralCategory::Format
        | GeneralCategory::LineSeparator
        | GeneralCategory::ParagraphSeparator
        | GeneralCategory::PrivateUse
        | GeneralCategory::Surrogate
        | GeneralCategory::Unassigned => true,
        // U+3000 is the space of Chinese and Japanese.
        GeneralCategory::SpaceSeparator => character != '\u{3000}',
        _ => BLANK.contains(&character) || is_default_ignorable(character),
    }
}

/// Returns true for letters of the most used scripts, which are neither hidden nor marks. Looking up the category takes
/// six times as long, and long texts consist mostly of these.
fn is_common_letter(character: char) -> bool {
    matches!(character,
        '\u{c0}'..='\u{2af}'         // Latin
        | '\u{400}'..='\u{482}'      // Cyrillic
        | '\u{620}'..='\u{64a}'      // Arabic
        | '\u{3041}'..='\u{3096}'    // Hiragana
        | '\u{30a1}'..='\u{30fa}'    // Katakana
        | '\u{4e00}'..='\u{9fff}'    // Chinese characters
        | '\u{ac00}'..='\u{d7a3}') // Hangul
}

/// Returns true for characters that a program shows as nothing if it does not support them (Unicode's
/// `Default_Ignorable_Code_Point`, which reserves ranges for future characters).
fn is_default_ignorable(character: char) -> bool {
    matches!(character,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns true if a character leaves no mark on the screen: whitespace, joiners, fillers. Characters missing from a
/// font are drawn as a box, so they do not count.
pub(crate) fn is_unseen(character: char) -> bool {
    character.is_whitespace()
        || BLANK.contains(&character)
        || ('\u{fff9}'..='\u{fffb}').contains(&character)
        || is_default_ignorable(character)
}

/// Returns true if a character is drawn onto the one before it.
pub(crate) fn is_mark(character: char) -> bool {
    !character.is_ascii()
        && !is_common_letter(character)
        && character.general_category_group() == GeneralCategoryGroup::Mark
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\u{3000}')
}

/// The smallest piece of shown text that is kept or clipped as a whole: one character, or one escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    character: char,
    /// Number of repetitions in a row.
    count: usize,
    is_escaped: bool,
}

impl Unit {
    fn push_to(self, shown: &mut String) {
        if !self.is_escaped {
            shown.push(self.character);
            return;
        }
        let code = u32::from(self.character);
        // Writing to a string cannot fail.
        let _ = match self.count {
            1 => write!(shown, "\\u{{{code:x}}}"),
            count => write!(shown, "\\u{{{code:x}×{count}}}"),
        };
    }

    /// Returns the length of the unit in the original text, in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.character.len_utf8() * self.count
    }

    /// Returns the length of the unit in the shown text, in characters.
    pub(crate) fn width(self) -> usize {
        if !self.is_escaped {
            return 1;
        }
        let digits = |number: usize, base: usize| number.checked_ilog(base).unwrap_or(0) as usize + 1;
        let code = digits(u32::from(self.character) as usize, 16);
        match self.count {
            1 => 4 + code,
            count => 5 + code + digits(count, 10),
        }
    }

    /// Returns true if the unit is drawn onto the character before it.
    pub(crate) fn is_mark(self) -> bool {
        !self.is_escaped && is_mark(self.character)
    }
}

/// Splits text into units.
pub(crate) struct Units<'a> {
    rest: &'a str,
    /// Number of combining marks since the last base character; `None` before the first base character.
    marks: Option<usize>,
    /// End of the run of mixed whitespace that is being escaped, as the number of bytes that follow it in the text.
    blanks_until: usize,
}

impl<'a> Units<'a> {
    pub(crate) fn new(text: &'a str) -> Units<'a> {
        Units {
            rest: text,
            marks: None,
            blanks_until: usize::MAX,
        }
    }

    /// Takes a unit from the front: the whole run of `character` if the run is long, otherwise one character.
    fn run(&mut self, character: char) -> Unit {
        let after = self.rest.trim_start_matches(character);
        let count = (self.rest.len() - after.len()) / character.len_utf8();
        self.take(character, if count > PLAIN_BLANKS { count } else { 1 }, true)
    }

    fn take(&mut self, character: char, count: usize, is_escaped: bool) -> Unit {
        let unit = Unit {
            character,
            count,
            is_escaped,
        };
        self.rest = self.rest.get(unit.bytes()..).unwrap_or_default();
        unit
    }

    /// Returns true if the whitespace at the front belongs to a run that is long enough to be escaped.
    fn is_in_long_blank(&mut self) -> bool {
        if self.blanks_until < self.rest.len() {
            return true;
        }
        let after = self.rest.trim_start_matches(is_blank);
        let is_long = self
            .rest
            .chars()
            .take_while(|c| is_blank(*c))
            .nth(PLAIN_BLANKS)
            .is_some();
        if is_long {
            self.blanks_until = after.len();
        }
        is_long
    }
}

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let character = self.rest.chars().next()?;
        if is_forbidden(character) {
            self.marks = None;
            return Some(self.run(character));
        }
        if is_blank(character) && self.is_in_long_blank() {
            self.marks = None;
            return Some(self.run(character));
        }
        if is_mark(character) {
            // A mark without a base would be drawn on the text around the value; a stack of marks, on the lines above.
            let is_escaped = self.marks.is_none_or(|marks| marks >= PLAIN_MARKS);
            if is_escaped {
                return Some(self.run(character));
            }
            self.marks = self.marks.map(|marks| marks + 1);
            return Some(self.take(character, 1, false));
        }
        let is_escaped = character == LINE_BREAK || self.rest.starts_with("\\u{");
        self.marks = (!is_escaped).then_some(0);
        Some(self.take(character, 1, is_escaped))
    }
}

#[cfg(test)]
mod tests;
