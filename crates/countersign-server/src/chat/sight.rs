//! Whether the card that waits has been on the screen, all of it, and still is.
//!
//! Enters: a card that was laid out, and the size of the screen. Leaves: the card page by page, and why it cannot be
//! approved yet. A window of another size starts over: what was on the screen has moved.

use crate::output::Size;

/// Fewer rows than these have no room for a row of the card, the line that says how much is left, and the prompt.
const FEWEST_ROWS: usize = 4;

/// What of a card has been on the screen.
#[derive(Default)]
pub struct Sight {
    /// Rows that were not shown yet, the last one first.
    rest: Vec<String>,
    size: Option<Size>,
    /// Rows that had been printed when the page that was printed last began.
    page_began: usize,
}

/// Why a card cannot be approved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// It goes on.
    More,
    /// It has left the screen, or the window has another size now.
    Gone,
    /// No card can be read on so small a screen.
    TooSmall,
}

impl Unseen {
    /// What the person is told.
    pub fn as_str(self) -> &'static str {
        match self {
            Unseen::More => "not all of the card was on the screen: press Enter for the rest, then answer",
            Unseen::Gone => "the card was not on the screen any more: look at it, then answer again",
            Unseen::TooSmall => "this window is too small to show a card: make it larger, then say `/card`",
        }
    }
}

impl Sight {
    /// A card of which nothing was shown yet.
    pub fn of(laid: &str, size: Size) -> Sight {
        Sight {
            rest: laid.split_inclusive('\n').rev().map(str::to_owned).collect(),
            size: Some(size),
            page_began: 0,
        }
    }

    /// The next page; `rows` is how many rows were printed so far.
    pub fn next(&mut self, rows: usize) -> Option<String> {
        let height = self.size?.rows.max(FEWEST_ROWS);
        let count = match self.rest.len() {
            0 => return None,
            // The prompt takes a row, and so does the line that says how much is left.
            left if left < height => left,
            _ => height - 2,
        };
        self.page_began = rows;
        let page = self.rest.split_off(self.rest.len() - count);
        Some(page.into_iter().rev().collect())
    }

    /// Rows that were not shown yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Why the card cannot be approved now, on a screen of this size, after so many printed rows.
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
