//! What the one who types and the one who shows have to know of each other.
//!
//! Enters: that a card stands now, or none; what is in the line; keys. Leaves: the prompt, which of several calls are
//! chosen, and whether what is being typed is older than the card.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::line::Button;

/// A card that came by itself has to be looked at before a key can answer it, as in the inbox.
const LOOK_FIRST: Duration = Duration::from_millis(800);

/// Shared by the line editor and the conversation.
#[derive(Clone, Default)]
pub struct Typing(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    card: Option<Card>,
    /// Something stands in the line.
    is_begun: bool,
    /// What stands there was begun before the card came.
    is_older_than_card: bool,
    pressed: Option<Button>,
}

/// Where a mark goes.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// To the next call, and from the last to the first.
    Next,
    /// To the one before.
    Before,
}

struct Card {
    /// One for each of its numbered calls; empty when there is but one.
    chosen: Vec<bool>,
    /// The call that is marked, from 1; at first none.
    marked: usize,
    /// Not before then a key can answer it.
    answerable_at: Instant,
}

impl Typing {
    /// A card stands now, with so many numbered calls. `by_itself`: the person did nothing to bring it here.
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

    /// No card stands any more.
    pub fn no_card(&self) {
        let mut state = self.state();
        state.card = None;
        state.is_older_than_card = false;
    }

    /// Whether what was typed is older than the card. Asked once a line is done.
    pub fn take_older(&self) -> bool {
        let mut state = self.state();
        state.is_begun = false;
        std::mem::take(&mut state.is_older_than_card)
    }

    /// What stands in the line now.
    pub fn typed(&self, line: &str) {
        let mut state = self.state();
        state.is_begun = !line.is_empty();
        // Who takes all of it back begins anew.
        state.is_older_than_card &= state.is_begun;
    }

    /// A key that is a button. True when it is one now.
    pub fn press(&self, button: Button) -> bool {
        let mut state = self.state();
        let is_answerable = |card: &Card| card.answerable_at <= Instant::now();
        let is_now = state.card.as_ref().is_some_and(is_answerable);
        state.pressed = is_now.then_some(button);
        is_now
    }

    /// The button that ended the line.
    pub fn take_pressed(&self) -> Option<Button> {
        self.state().pressed.take()
    }

    /// Leaves a call out, or takes it in again. False when there is no such call to choose.
    pub fn toggle(&self, position: usize) -> bool {
        let mut state = self.state();
        let card = state.card.as_mut();
        let chosen = card.and_then(|card| card.chosen.get_mut(position.checked_sub(1)?));
        let Some(chosen) = chosen else { return false };
        *chosen = !*chosen;
        true
    }

    /// Marks the next call, or the one before; false when there are none to choose from.
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

    /// Leaves the marked call out, or takes it in again; false when none is marked.
    pub fn toggle_marked(&self) -> bool {
        let marked = self.state().card.as_ref().map_or(0, |card| card.marked);
        self.toggle(marked)
    }

    /// The positions that are chosen; nothing when that is all of them.
    pub fn some(&self) -> Option<Vec<u8>> {
        let state = self.state();
        let chosen = &state.card.as_ref()?.chosen;
        let positions = (1u8..).zip(chosen).filter(|(_, chosen)| **chosen);
        let positions: Vec<u8> = positions.map(|(position, _)| position).collect();
        (positions.len() < chosen.len()).then_some(positions)
    }

    /// The prompt: a question while a card stands, with the calls that are chosen.
    pub fn prompt(&self) -> String {
        let state = self.state();
        let Some(card) = &state.card else {
            return "> ".to_owned();
        };
        if card.chosen.is_empty() {
            return "? ".to_owned();
        }
        // Whatever is chosen or marked, it is as wide: the line behind it must not move.
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

    /// The prompt in the width of another, for a line that is being typed behind that one.
    pub fn prompt_in_place_of(&self, other: &str) -> String {
        let prompt = self.prompt();
        let width = other.chars().count();
        if prompt.chars().count() == width {
            return prompt;
        }
        let last = if self.has_card() { "? " } else { "> " };
        format!("{}{last}", " ".repeat(width.saturating_sub(last.len())))
    }

    /// Whether a card stands now.
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
        // Behind a prompt that stands already nothing moves.
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
