//! Tracks whether every row of the pending card has been on the screen and still is.
//!
//! Input: a laid-out card and the size of the screen. Output: the card page by page, and the reason why it cannot be
//! approved yet. After a resize the card has to be shown again, because its rows have moved.

use crate::output::Size;

/// Minimum rows of a screen: room for rows of the card, the line with the number of remaining rows, and the prompt.
const FEWEST_ROWS: usize = 4;

/// Rows of the current card that are still to be shown, and where its latest page began.
#[derive(Default)]
pub struct Sight {
    /// Rows not shown yet, in reverse order.
    rest: Vec<String>,
    size: Option<Size>,
    /// Number of rows that had been printed on the screen when the latest page began.
    page_began: usize,
}

/// Reason why a card cannot be approved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Part of the card has not been shown yet.
    More,
    /// The card has scrolled off the screen, or the window was resized.
    Gone,
    /// The screen is too small for a card.
    TooSmall,
}

impl Unseen {
    /// Returns the message for the person.
    pub fn as_str(self) -> &'static str {
        match self {
            Unseen::More => "not all of the card was on the screen: press Enter for the rest, then answer",
            Unseen::Gone => "the card was not on the screen any more: look at it, then answer again",
            Unseen::TooSmall => "this window is too small to show a card: make it larger, then say `/card`",
        }
    }
}

impl Sight {
    /// Starts tracking a card that has not been shown yet.
    pub fn of(laid: &str, size: Size) -> Sight {
        Sight {
            rest: laid.split_inclusive('\n').rev().map(str::to_owned).collect(),
            size: Some(size),
            page_began: 0,
        }
    }

    /// Returns the next page, or `None` if all rows were shown. `rows` is the number of rows printed so far.
    pub fn next(&mut self, rows: usize) -> Option<String> {
        let height = self.size?.rows.max(FEWEST_ROWS);
        let count = match self.rest.len() {
            0 => return None,
            // Two rows are needed for the prompt and the line with the number of remaining rows.
            left if left < height => left,
            _ => height - 2,
        };
        self.page_began = rows;
        let page = self.rest.split_off(self.rest.len() - count);
        Some(page.into_iter().rev().collect())
    }

    /// Returns the number of rows not shown yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns why the card cannot be approved now, given the screen's size and the number of rows printed so far.
    /// `None` if it can be approved.
    pub fn unseen(&self, size: Size, rows: usize) -> Option<Unseen> {
        if size.rows < FEWEST_ROWS {
            return Some(Unseen::TooSmall);
        }
        if self.size != Some(size) {
            return Some(Unseen::Gone);
        }
        if !self.rest.is_empty() {
            return Some(Unseen::More);
        }
        let is_gone = rows.saturating_sub(self.page_began) >= size.rows;
        is_gone.then_some(Unseen::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(rows: usize, columns: usize) -> Size {
        Size { rows, columns }
    }

    #[test]
    fn x103_a_card_is_in_sight_when_every_row_has_been_on_the_screen() {
        let laid: String = (0..10).map(|row| format!("{row}\n")).collect();
        let mut sight = Sight::of(&laid, size(24, 80));
        assert_eq!(sight.unseen(size(24, 80), 0), Some(Unseen::More));
        assert_eq!(sight.next(5).unwrap(), laid);
        assert_eq!(sight.unseen(size(24, 80), 15), None);
        assert_eq!(
            sight.unseen(size(24, 80), 28),
            None,
            "its first row is the top one"
        );
        assert_eq!(sight.unseen(size(24, 80), 29), Some(Unseen::Gone));
        assert_eq!(sight.unseen(size(24, 79), 15), Some(Unseen::Gone), "another size");
        assert_eq!(sight.unseen(size(3, 80), 15), Some(Unseen::TooSmall));
    }

    #[test]
    fn x103_a_long_card_comes_page_by_page() {
        let laid: String = (0..8).map(|row| format!("{row}\n")).collect();
        let mut sight = Sight::of(&laid, size(5, 20));
        assert_eq!(sight.next(0).unwrap(), "0\n1\n2\n");
        assert_eq!(sight.unseen(size(5, 20), 4), Some(Unseen::More));
        assert_eq!(sight.next(5).unwrap(), "3\n4\n5\n");
        assert_eq!(sight.next(10).unwrap(), "6\n7\n");
        assert_eq!(sight.unseen(size(5, 20), 12), None);
        assert_eq!(sight.next(12), None);
        assert_eq!(Sight::default().unseen(size(24, 80), 0), Some(Unseen::Gone));
    }
}
