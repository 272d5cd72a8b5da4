//! Tracks which rows of the selected card have been on the screen.
//!
//! Input, for each drawing: the size of the card's area, the card's number of rows, and which of them are visible.
//! Output: whether all rows have been visible. If the size or the number of rows changes, tracking starts over, because
//! the rows are then different ones.

use std::ops::Range;

/// Rows of the card that have been visible since the card's area got its current size.
#[derive(Debug, Default)]
pub struct Seen {
    /// Columns and rows of the card's area.
    size: (u16, u16),
    rows: Vec<bool>,
}

impl Seen {
    /// Records that a drawing showed the rows in `visible`, out of `rows` rows of the card.
    pub fn note(&mut self, size: (u16, u16), rows: usize, visible: Range<usize>) {
        if self.size != size || self.rows.len() != rows {
            self.size = size;
            self.rows = vec![false; rows];
        }
        let seen = self.rows.get_mut(visible).unwrap_or_default();
        seen.fill(true);
    }

    /// Returns true if there is a card and each of its rows was on the screen.
    pub fn is_whole(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|seen| *seen)
    }

    /// Starts over after the card has changed.
    pub fn forget(&mut self) {
        self.rows.clear();
    }

    /// Returns the number of rows to scroll by so that no row is skipped.
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
