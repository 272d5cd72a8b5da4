//! Splits a reply, from its first word to its last, into known pieces.
//!
//! A reply may be split in several ways. The parse keeps the states in which a reading of the whole reply can end, and
//! the pieces of one reading for each. `reply.rs` derives the verdict from them.

use super::echo::{OfferVocabulary, echoes};
use super::kind::{PieceKind, ReplyState};
use super::language::Language;
use super::lexicon::Word;

/// Maximum number of words in a reply; a longer one is not interpreted. No plain yes is longer.
pub(super) const MOST_WORDS: usize = 64;

/// One piece of a reading: its kind and its words, from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: PieceKind,
    pub(super) start: u8,
    pub(super) end: u8,
}

/// Back pointer: the piece by which a state was reached, and the state before it.
#[derive(Clone, Copy)]
struct Step {
    from: u8,
    reply_state: u8,
    kind: PieceKind,
}

/// All readings of one reply in one language.
pub(super) struct Parse {
    length: usize,
    /// For each word boundary, the states reached there, one bit each.
    reached: [u16; MOST_WORDS + 1],
    steps: Vec<[Step; ReplyState::ALL.len()]>,
    /// True if a readable beginning of the reply is followed by a doubt, whatever comes after it.
    pub(super) is_doubtful: bool,
    /// Furthest word boundary that any reading reached.
    pub(super) furthest: usize,
    /// Word boundaries inside hyphenated words, one bit each. No piece may begin or end there.
    barred: u128,
}

impl Parse {
    /// Creates all readings of `words`, in which `None` is a word that no table knows. `labels` are button labels in
    /// the reply, each with its kind, start and end.
    pub(super) fn of(
        words: &[Option<Word>],
        language: &Language,
        offer: Option<&OfferVocabulary<'_>>,
        labels: &[(PieceKind, usize, usize)],
        barred: u128,
    ) -> Parse {
        let length = words.len().min(MOST_WORDS);
        let nowhere = Step {
            from: 0,
            reply_state: 0,
            kind: PieceKind::Courtesy,
        };
        let mut parse = Parse {
            length,
            reached: [0; MOST_WORDS + 1],
            steps: vec![[nowhere; ReplyState::ALL.len()]; length + 1],
            is_doubtful: false,
            furthest: 0,
            barred,
        };
        if let Some(first) = parse.reached.first_mut() {
            *first = 1;
        }
        for start in 0..length {
            if parse.reached.get(start).is_none_or(|stands| *stands == 0) {
                continue;
            }
            let mut state = 0;
            let rest = words.get(start..length).unwrap_or_default();
            for (offset, word) in rest.iter().enumerate() {
                let Some(next) = word.and_then(|word| language.automaton.step(state, word)) else {
                    break;
                };
                state = next;
                for kind in language.automaton.kinds(state).iter() {
                    parse.join(start, start + offset + 1, kind);
                }
            }
            for (kind, from, to) in labels.iter().filter(|label| label.1 == start) {
                parse.join(*from, *to, *kind);
            }
            if let Some(offer) = offer {
                echoes(offer, language, words, start, |end, kind| {
                    parse.join(start, end, kind)
                });
            }
        }
        parse
    }

    /// Adds a piece from `start` to `end` to every reading that reached `start`.
    fn join(&mut self, start: usize, end: usize, kind: PieceKind) {
        if self.barred >> end & 1 != 0 {
            return;
        }
        let stands = self.reached.get(start).copied().unwrap_or(0);
        self.is_doubtful |= kind == PieceKind::Doubt;
        for (number, reply_state) in (0u8..).zip(ReplyState::ALL) {
            if stands & (1 << number) == 0 {
                continue;
            }
            let Some(next) = reply_state.after(kind) else {
                continue;
            };
            let bit = 1u16 << next as u16;
            let Some(reached) = self.reached.get_mut(end) else {
                return;
            };
            if *reached & bit == 0 {
                *reached |= bit;
                self.furthest = self.furthest.max(end);
                let step = Step {
                    from: u8::try_from(start).unwrap_or(u8::MAX),
                    reply_state: number,
                    kind,
                };
                let slot = self
                    .steps
                    .get_mut(end)
                    .and_then(|steps| steps.get_mut(next as usize));
                if let Some(slot) = slot {
                    *slot = step;
                }
            }
        }
    }

    /// Returns true if some reading of the whole reply ends in `reply_state`.
    pub(super) fn ends_in(&self, reply_state: ReplyState) -> bool {
        let last = self.reached.get(self.length).copied().unwrap_or(0);
        last & (1 << reply_state as u16) != 0
    }

    /// Returns true if the whole reply could be read.
    pub(super) fn is_whole(&self) -> bool {
        self.reached.get(self.length).is_some_and(|stands| *stands != 0)
    }

    /// Returns the pieces of a reading that ends in `reply_state`, in order.
    pub(super) fn pieces(&self, reply_state: ReplyState) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut at, mut reply_state) = (self.length, reply_state as usize);
        while at > 0 {
            let Some(step) = self.steps.get(at).and_then(|steps| steps.get(reply_state)) else {
                break;
            };
            pieces.push(Piece {
                kind: step.kind,
                start: step.from,
                end: u8::try_from(at).unwrap_or(u8::MAX),
            });
            if usize::from(step.from) >= at {
                break;
            }
            (at, reply_state) = (usize::from(step.from), usize::from(step.reply_state));
        }
        pieces.reverse();
        pieces
    }
}
