//! Handles key presses: everything that needs neither the backend nor the terminal.

use std::time::Instant;

use countersign::state::State;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::editor::Edited;
use super::state::{Inbox, Mode};
use crate::backend::Deciding;
use crate::output::once;

/// Maximum length of a comment in bytes. The API's limit is the same number of characters.
const LONGEST_COMMENT: usize = 4096;
/// Message if `a` is pressed before every row of the card was on the screen.
const UNSEEN: &str = "not every row of the card was on this screen yet: PgDn";

/// Action that needs the backend or the terminal.
pub enum Act {
    /// Quits the inbox.
    Leave,
    /// Reloads the list.
    Refresh,
    /// Sends a decision.
    Decide(Box<Deciding>),
    /// Opens an editor on a call's arguments.
    Edit {
        /// Position of the call in the approval, counted from 1.
        position: u8,
        /// Exact bytes of the arguments, or of the person's last valid edit.
        original: Vec<u8>,
    },
}

impl PartialEq for Act {
    fn eq(&self, other: &Act) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Handles a key press according to the current mode. Returns the action that needs the backend or the terminal, if
/// any.
pub fn key(inbox: &mut Inbox, key: KeyEvent, now: Instant) -> Option<Act> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && matches!(key.code, KeyCode::Char('c')) {
        return Some(Act::Leave);
    }
    match inbox.mode.clone() {
        Mode::Look => look(inbox, key, now),
        Mode::Help => {
            inbox.mode = Mode::Look;
            None
        }
        Mode::Comment => {
            comment(inbox, key);
            None
        }
        Mode::Confirm(_) => {
            inbox.mode = Mode::Look;
            match key.code {
                KeyCode::Char('y') if !is_control && !inbox.seen.is_whole() => {
                    inbox.complain(UNSEEN);
                    None
                }
                KeyCode::Char('y') if !is_control => decide(inbox.approving()),
                _ => {
                    inbox.say("not approved");
                    None
                }
            }
        }
    }
}

/// Handles pasted text. Pasting works only in a comment: elsewhere each pasted letter would act as a key.
pub fn paste(inbox: &mut Inbox, text: &str) {
    if inbox.mode == Mode::Comment {
        text.chars().for_each(|character| write(inbox, character));
    }
}

fn look(inbox: &mut Inbox, key: KeyEvent, now: Instant) -> Option<Act> {
    inbox.message = None;
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('d') if is_control => inbox.scroll = inbox.scroll.saturating_add(inbox.seen.page()),
        KeyCode::Char('u') if is_control => inbox.scroll = inbox.scroll.saturating_sub(inbox.seen.page()),
        _ if is_control => {}
        KeyCode::Char('q') => return Some(Act::Leave),
        KeyCode::Char('?') => inbox.mode = Mode::Help,
        KeyCode::Char('r') => return Some(Act::Refresh),
        KeyCode::Down | KeyCode::Char('j') => inbox.step(1, now),
        KeyCode::Up | KeyCode::Char('k') => inbox.step(-1, now),
        KeyCode::Char('J') => inbox.scroll = inbox.scroll.saturating_add(1),
        KeyCode::Char('K') => inbox.scroll = inbox.scroll.saturating_sub(1),
        KeyCode::PageDown => inbox.scroll = inbox.scroll.saturating_add(inbox.seen.page()),
        KeyCode::PageUp => inbox.scroll = inbox.scroll.saturating_sub(inbox.seen.page()),
        KeyCode::Home | KeyCode::Char('g') => inbox.scroll = 0,
        KeyCode::End | KeyCode::Char('G') => inbox.scroll = usize::MAX,
        code => return about_card(inbox, code, now),
    }
    None
}

fn about_card(inbox: &mut Inbox, code: KeyCode, now: Instant) -> Option<Act> {
    let listed = inbox.current()?;
    let count = u8::try_from(listed.approval.calls.len()).unwrap_or(u8::MAX);
    let is_open = listed.approval.status == State::Pending && listed.left(now).is_some();
    let means_something = matches!(
        code,
        KeyCode::Char('a' | 'd' | 'c' | 'e' | ' ' | '1'..='9') | KeyCode::Left | KeyCode::Right
    );
    if means_something && !is_open {
        inbox.complain("it has ended: there is nothing to decide");
        return None;
    }
    match code {
        KeyCode::Char('a') => return approve(inbox, now),
        KeyCode::Char('d') => return decide(inbox.denying()),
        KeyCode::Char('c') => inbox.mode = Mode::Comment,
        KeyCode::Char('e') => return edit(inbox),
        KeyCode::Right if inbox.draft.focus < count => inbox.draft.focus += 1,
        KeyCode::Left if inbox.draft.focus > 1 => inbox.draft.focus -= 1,
        KeyCode::Char(' ') if count > 1 => inbox.draft.toggle(inbox.draft.focus),
        KeyCode::Char(digit @ '1'..='9') if count > 1 => {
            let position = digit.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
            if let Some(position) = position.filter(|position| *position <= count) {
                inbox.draft.focus = position;
                inbox.draft.toggle(position);
            }
        }
        _ => {}
    }
    None
}

/// Approves the card if all of it has been on the screen, and it has not only just appeared. For a risky card, asks for
/// confirmation by a second key instead. Returns `None` if there is nothing to send yet.
fn approve(inbox: &mut Inbox, now: Instant) -> Option<Act> {
    if inbox.is_new(now) {
        inbox.complain("it has only just arrived: read it first");
        return None;
    }
    if !inbox.seen.is_whole() {
        inbox.complain(UNSEEN);
        return None;
    }
    match inbox.question() {
        Some(question) => {
            inbox.mode = Mode::Confirm(question);
            None
        }
        None => decide(inbox.approving()),
    }
}

fn decide(deciding: Option<Deciding>) -> Option<Act> {
    deciding.map(|deciding| Act::Decide(Box::new(deciding)))
}

fn edit(inbox: &mut Inbox) -> Option<Act> {
    let position = inbox.draft.focus;
    let changed = inbox.draft.edits.get(&position);
    let bytes = match changed {
        Some(arguments) => Some(arguments.as_bytes().to_vec()),
        None => inbox
            .current()?
            .approval
            .call(position)
            .and_then(|call| call.argument_bytes()),
    };
    match bytes {
        Some(original) => Some(Act::Edit { position, original }),
        None => {
            inbox.complain(
                "some of its arguments are secret: the inbox page can edit them without showing them",
            );
            None
        }
    }
}

/// Adds the editor's result for the call at `position` to the draft decision.
pub fn edited(inbox: &mut Inbox, position: u8, edited: Result<Edited, String>) {
    match edited {
        Err(problem) => inbox.complain(once(&problem)),
        Ok(Edited::Same) => {
            inbox.draft.unfinished.remove(&position);
            inbox.say("nothing was changed");
        }
        Ok(Edited::Changed(arguments)) => {
            inbox.draft.unfinished.remove(&position);
            inbox.draft.edits.insert(position, arguments);
            // The call would run with other arguments, so the card has to be seen again.
            inbox.seen.forget();
            inbox.scroll = 0;
            inbox.say(format!(
                "call {position} would run with your arguments; `a` approves it so"
            ));
        }
        Ok(Edited::Bad { problem, text }) => {
            inbox.draft.unfinished.insert(position, text);
            inbox.complain(format!("{}; `e` goes on with what you wrote", once(&problem)));
        }
    }
}

fn comment(inbox: &mut Inbox, key: KeyEvent) {
    match key.code {
        KeyCode::Enter => {
            inbox.mode = Mode::Look;
            if !inbox.draft.comment.is_empty() {
                inbox.say("the comment goes with your decision: `a` approves, `d` denies");
            }
        }
        KeyCode::Esc => {
            inbox.draft.comment.clear();
            inbox.mode = Mode::Look;
        }
        KeyCode::Backspace => _ = inbox.draft.comment.pop(),
        KeyCode::Char(character) if !key.modifiers.contains(KeyModifiers::CONTROL) => write(inbox, character),
        _ => {}
    }
}

fn write(inbox: &mut Inbox, character: char) {
    let character = if character == '\n' { ' ' } else { character };
    let fits = inbox.draft.comment.len() + character.len_utf8() <= LONGEST_COMMENT;
    if fits && !character.is_control() {
        inbox.draft.comment.push(character);
    }
}
