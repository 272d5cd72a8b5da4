//! Clips long values: keeps the beginning and the end, and says how much is not shown.

use std::fmt::{self, Write as _};

use super::{Units, is_plain};

/// A value shortened for display. All parts are escaped already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clipped {
    /// Beginning of the value, or all of it if nothing is hidden.
    pub head: String,
    /// End of the value; empty if nothing is hidden.
    pub tail: String,
    /// Number of characters that are not shown.
    pub hidden_chars: usize,
    /// Number of bytes that are not shown.
    pub hidden_bytes: usize,
    /// Number of bytes in the whole value.
    pub total_bytes: usize,
}

impl Clipped {
    /// Returns true if anything is hidden.
    pub fn is_clipped(&self) -> bool {
        self.hidden_bytes > 0
    }
}

impl fmt::Display for Clipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_clipped() {
            return f.write_str(&self.head);
        }
        let (hidden, total) = (Grouped(self.hidden_bytes), Grouped(self.total_bytes));
        write!(
            f,
            "{}… [{hidden} of {total} bytes not shown] …{}",
            self.head, self.tail
        )
    }
}

/// Escapes `text` and keeps about `max_chars` shown characters: two thirds from the front and one third from the back,
/// because the dangerous part of a long value is often at its end. Escapes are never cut in two.
pub fn clip(text: &str, max_chars: usize) -> Clipped {
    match is_plain(text) {
        true => clip_plain(text, max_chars),
        false => clip_units(text, max_chars),
    }
}

fn clip_units(text: &str, max_chars: usize) -> Clipped {
    let units: Vec<_> = Units::new(text).collect();
    let width: usize = units.iter().map(|unit| unit.width()).sum();
    let tail_width = max_chars / 3;
    let head_length = match width <= max_chars {
        true => units.len(),
        false => fitting(units.iter(), max_chars - tail_width),
    };
    let (head, rest) = units.split_at_checked(head_length).unwrap_or_default();
    let mut hidden = rest.len() - fitting(rest.iter().rev(), tail_width);
    // A combining mark at the beginning of the tail would be drawn on the ellipsis.
    while rest.get(hidden).is_some_and(|unit| unit.is_mark()) {
        hidden += 1;
    }
    let mut clipped = Clipped {
        head: String::new(),
        tail: String::new(),
        hidden_chars: 0,
        hidden_bytes: 0,
        total_bytes: text.len(),
    };
    head.iter().for_each(|unit| unit.push_to(&mut clipped.head));
    for (at, unit) in rest.iter().enumerate() {
        if at < hidden {
            clipped.hidden_chars += unit.count;
            clipped.hidden_bytes += unit.bytes();
        } else {
            unit.push_to(&mut clipped.tail);
        }
    }
    clipped
}

/// Clips text that needs no escaping, where every byte is one shown character.
fn clip_plain(text: &str, max_chars: usize) -> Clipped {
    let tail_width = max_chars / 3;
    let cut = match text.len() <= max_chars {
        true => text.len()..text.len(),
        false => max_chars - tail_width..text.len() - tail_width,
    };
    Clipped {
        head: text.get(..cut.start).unwrap_or_default().to_owned(),
        tail: text.get(cut.end..).unwrap_or_default().to_owned(),
        hidden_chars: cut.len(),
        hidden_bytes: cut.len(),
        total_bytes: text.len(),
    }
}

/// Appends `text` to `shown`, clipped as by [`clip`].
pub(crate) fn clip_to(shown: &mut String, text: &str, max_chars: usize) {
    if text.len() <= max_chars && is_plain(text) {
        shown.push_str(text);
        return;
    }
    // Writing to a string cannot fail.
    let _ = write!(shown, "{}", clip(text, max_chars));
}

/// Returns how many of the leading units fit into `width` characters.
fn fitting<'a>(units: impl Iterator<Item = &'a super::Unit>, width: usize) -> usize {
    let mut used = 0;
    units
        .take_while(|unit| {
            used += unit.width();
            used <= width
        })
        .count()
}

/// A number with commas between groups of digits: `16,384`.
struct Grouped(usize);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_text_is_cut_like_any_other(text in "[ -~]{0,60}", max_chars in 0usize..70) {
            prop_assume!(is_plain(&text));
            prop_assert_eq!(clip_plain(&text, max_chars), clip_units(&text, max_chars));
        }
    }
}
