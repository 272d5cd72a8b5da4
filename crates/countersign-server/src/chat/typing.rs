//! State shared by the line editor and the conversation.
//!
//! Input: whether a card is shown, the text in the line, keys. Output: the prompt, the selected calls, and whether the
//! text in the line is older than the card.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::line::Button;

/// Delay before a key can answer a card that appeared on its own, as in the inbox.
const LOOK_FIRST: Duration = Duration::from_millis(800);

/// Text that the person is typing, and the card that is shown. Shared by the line editor and the conversation; clones
/// refer to the same state.
#[derive(Clone, Default)]
pub struct Typing(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    card: Option<Card>,
    /// True if there is text in the line.
    is_begun: bool,
    /// True if the text in the line was begun before the card appeared.
    is_older_than_card: bool,
    pressed: Option<Button>,
}

/// Direction in which Tab moves the mark, the call that Space toggles.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// Moves to the next call, wrapping around.
    Next,
    /// Moves to the previous call, wrapping around.
    Before,
}

struct Card {
    /// Selection of each numbered call; empty if there is only one call.
    chosen: Vec<bool>,
    /// The marked call, counted from 1; 0 for none.
    marked: usize,
    /// Time before which a key cannot answer the card.
    answerable_at: Instant,
}

impl Typing {
    /// Sets the current card and its number of calls. `by_itself` is true if the card was not caused by an action of
    /// the person at this terminal.
    pub fn card(&self, numbered: usize, by_itself: bool) {
        let mut state = self.state();
        let now = Instant::now();
        state.is_older_than_card = by_itself && state.is_begun;
        state.card = Some(Card {
            chosen: vec![true; numbered],
            marked: 0,
            answerable_at: if by_itself { now + LOOK_FIRST } else { now },
        });
    }

    /// Clears the current card.
    pub fn no_card(&self) {
        let mut state = self.state();
        state.card = None;
        state.is_older_than_card = false;
    }

    /// Returns true if the finished line was begun before the card appeared, and resets that state for the next line.
    pub fn take_older(&self) -> bool {
        let mut state = self.state();
        state.is_begun = false;
        std::mem::take(&mut state.is_older_than_card)
    }

    /// Records the text in the line.
    pub fn typed(&self, line: &str) {
        let mut state = self.state();
        state.is_begun = !line.is_empty();
        // Text typed after the line was emptied is newer than the card.
        state.is_older_than_card &= state.is_begun;
    }

    /// Records a button key. Returns false if there is no card that it could answer now.
    pub fn press(&self, button: Button) -> bool {
        let mut state = self.state();
        let is_answerable = |card: &Card| card.answerable_at <= Instant::now();
        let is_now = state.card.as_ref().is_some_and(is_answerable);
        state.pressed = is_now.then_some(button);
        is_now
    }

    /// Returns the button key that ended the line, if one did, and clears it.
    pub fn take_pressed(&self) -> Option<Button> {
        self.state().pressed.take()
    }

    /// Leaves a call out of the approval, or includes it again. Returns false if there is no such call.
    pub fn toggle(&self, position: usize) -> bool {
        let mut state = self.state();
        let card = state.card.as_mut();
        let chosen = card.and_then(|card| card.chosen.get_mut(position.checked_sub(1)?));
        let Some(chosen) = chosen else { return false };
        *chosen = !*chosen;
        true
    }

    /// Moves the mark. Returns false if there are no calls to select.
    pub fn mark(&self, to: Mark) -> bool {
        let mut state = self.state();
        let Some(card) = state.card.as_mut().filter(|card| !card.chosen.is_empty()) else {
            return false;
        };
        let last = card.chosen.len();
        card.marked = match (to, card.marked) {
            (Mark::Next, marked) if marked >= last => 1,
            (Mark::Next, marked) => marked + 1,
            (Mark::Before, 0 | 1) => last,
            (Mark::Before, marked) => marked - 1,
        };
        true
    }

    /// Leaves the marked call out of the approval, or includes it again. Returns false if no call is marked.
    pub fn toggle_marked(&self) -> bool {
        let marked = self.state().card.as_ref().map_or(0, |card| card.marked);
        self.toggle(marked)
    }

    /// Returns the positions of the selected calls, or `None` if all calls are selected or no card is shown.
    pub fn some(&self) -> Option<Vec<u8>> {
        let state = self.state();
        let chosen = &state.card.as_ref()?.chosen;
        let positions = (1u8..).zip(chosen).filter(|(_, chosen)| **chosen);
        let positions: Vec<u8> = positions.map(|(position, _)| position).collect();
        (positions.len() < chosen.len()).then_some(positions)
    }

    /// Returns the prompt. While a card is shown, the prompt is a question mark, with the selected calls if there are
    /// several.
    pub fn prompt(&self) -> String {
        let state = self.state();
        let Some(card) = &state.card else {
            return "> ".to_owned();
        };
        if card.chosen.is_empty() {
            return "? ".to_owned();
        }
        // The width is constant, because the text behind the prompt must not move.
        let show = |(position, chosen): (usize, &bool)| {
            let before = if position == card.marked { '>' } else { ' ' };
            let number = position.to_string();
            match chosen {
                true => format!("{before}{number}"),
                false => format!("{before}{}", "·".repeat(number.len())),
            }
        };
        let calls: String = (1..).zip(&card.chosen).map(show).collect();
        format!("[{calls} ] ? ")
    }

    /// Returns the prompt padded to the width of `other`, which is the prompt before the line being typed. If the two
    /// differ in width, only `? ` or `> ` remains of the prompt.
    pub fn prompt_in_place_of(&self, other: &str) -> String {
        let prompt = self.prompt();
        let width = other.chars().count();
        if prompt.chars().count() == width {
            return prompt;
        }
        let last = if self.has_card() { "? " } else { "> " };
        format!("{}{last}", " ".repeat(width.saturating_sub(last.len())))
    }

    /// Returns true if a card is shown.
    pub fn has_card(&self) -> bool {
        self.state().card.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_says_what_is_chosen() {
        let typing = Typing::default();
        assert_eq!(typing.prompt(), "> ");
        typing.card(0, false);
        assert_eq!((typing.prompt().as_str(), typing.some()), ("? ", None));
        assert!(!typing.toggle(1), "there is nothing to choose from");
        typing.card(11, false);
        assert!(typing.toggle(3) && typing.toggle(10) && !typing.toggle(12) && !typing.toggle(0));
        assert_eq!(typing.prompt(), "[ 1 2 · 4 5 6 7 8 9 ·· 11 ] ? ");
        assert_eq!(typing.some(), Some(vec![1, 2, 4, 5, 6, 7, 8, 9, 11]));
        assert!(typing.toggle(3) && typing.toggle(10));
        assert_eq!(typing.some(), None);
        // The width of a prompt that is already shown does not change.
        assert_eq!(typing.prompt_in_place_of("> "), "? ");
        typing.no_card();
        assert_eq!(typing.prompt_in_place_of("[ 1 2 ] ? "), "        > ");
    }

    #[test]
    fn a16_a_mark_moves_from_call_to_call() {
        let typing = Typing::default();
        typing.card(0, false);
        assert!(!typing.mark(Mark::Next) && !typing.toggle_marked());
        typing.card(3, false);
        assert!(!typing.toggle_marked(), "none is marked at first");
        let check = |to: Mark, expected: &str| {
            assert!(typing.mark(to));
            assert_eq!(typing.prompt(), expected);
        };
        check(Mark::Next, "[>1 2 3 ] ? ");
        check(Mark::Next, "[ 1>2 3 ] ? ");
        assert!(typing.toggle_marked());
        check(Mark::Next, "[ 1 ·>3 ] ? ");
        check(Mark::Next, "[>1 · 3 ] ? ");
        check(Mark::Before, "[ 1 ·>3 ] ? ");
        check(Mark::Before, "[ 1>· 3 ] ? ");
        assert!(typing.toggle_marked());
        assert_eq!((typing.prompt().as_str(), typing.some()), ("[ 1>2 3 ] ? ", None));
    }

    #[test]
    fn x01_words_that_were_begun_before_a_card_came_do_not_answer_it() {
        let typing = Typing::default();
        let check = |begun: &str, by_itself, then: Option<&str>, expected: bool| {
            typing.no_card();
            typing.typed(begun);
            typing.card(0, by_itself);
            then.into_iter().for_each(|then| typing.typed(then));
            assert_eq!(typing.take_older(), expected, "`{begun}` {by_itself} {then:?}");
        };
        check("ye", true, Some("yes"), true);
        check("ye", true, Some(""), false);
        check("", true, Some("yes"), false);
        check("ye", false, Some("yes"), false);
    }

    #[test]
    fn x01_a_key_answers_no_card_that_nobody_looked_at() {
        let typing = Typing::default();
        assert!(!typing.press(Button::Yes));
        typing.card(0, true);
        assert!(!typing.press(Button::Yes) && typing.take_pressed().is_none());
        typing.card(0, false);
        assert!(typing.press(Button::Yes));
        assert_eq!(typing.take_pressed(), Some(Button::Yes));
    }
}
