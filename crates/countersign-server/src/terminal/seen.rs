//! Which rows of the card that is looked at have been on the screen.
//!
//! Enters: for each drawing, its size, the card's rows, and which of them were visible. Leaves: whether that was all of
//! them. Another size, or another number of rows, starts over: then other rows stand there.

use std::ops::Range;

/// The rows that were seen at one size.
#[derive(Debug, Default)]
pub struct Seen {
    /// Columns and rows there were for the card.
    size: (u16, u16),
    rows: Vec<bool>,
}

impl Seen {
    /// Notes what a drawing showed.
    pub fn note(&mut self, size: (u16, u16), rows: usize, visible: Range<usize>) {
        if self.size != size || self.rows.len() != rows {
            self.size = size;
            self.rows = vec![false; rows];
        }
        let seen = self.rows.get_mut(visible).unwrap_or_default();
        seen.fill(true);
    }

    /// True when there is a card and each of its rows was on the screen.
    pub fn is_whole(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|seen| *seen)
    }

    /// Starts over, since the card changed.
    pub fn forget(&mut self) {
        self.rows.clear();
    }

    /// How far a page goes without leaving out a row.
    pub fn page(&self) -> usize {
        usize::from(self.size.1).saturating_sub(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x103_every_row_has_to_be_seen_at_one_size() {
        let mut seen = Seen::default();
        assert!(!seen.is_whole(), "there is no card");
        seen.note((80, 4), 6, 0..3);
        seen.note((80, 4), 6, 4..6);
        assert!(!seen.is_whole(), "the fourth row was jumped over");
        seen.note((80, 4), 6, 3..6);
        assert!(seen.is_whole());
        seen.note((79, 4), 6, 0..4);
        assert!(!seen.is_whole(), "a window of another size starts over");
        seen.note((79, 4), 6, 4..6);
        assert!(seen.is_whole());
        seen.note((79, 4), 7, 5..7);
        assert!(!seen.is_whole(), "another card");
        seen.note((79, 0), 7, 0..0);
        assert!(!seen.is_whole());
    }
}
