//! Parsing: a reply is read when its words, from first to last, are a row of known pieces.
//!
//! Enters: the words of a reply, one language, and what was offered. Leaves: the stands a whole reading ends in, and
//! the pieces of it. Deliberately absent: verdicts; see `reply.rs`.

use super::echo::{Vocabulary, echoes};
use super::kind::{Kind, Stand};
use super::language::Language;
use super::lexicon::Word;

/// The most words of a reply that is read at all. No plain yes is longer.
pub(super) const MOST_WORDS: usize = 64;

/// One piece of a reading: its kind and its words, from `start` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    pub(super) start: u8,
    pub(super) end: u8,
}

/// Where a stand was reached from.
#[derive(Clone, Copy)]
struct Step {
    from: u8,
    stand: u8,
    kind: Kind,
}

/// All readings of one reply in one language.
pub(super) struct Parse {
    length: usize,
    /// For each place between words the stands reached there, by bit.
    reached: [u16; MOST_WORDS + 1],
    steps: Vec<[Step; Stand::ALL.len()]>,
    /// Whether a doubt stands anywhere behind a beginning that was read, whatever follows it.
    pub(super) is_doubtful: bool,
    /// How far any reading came.
    pub(super) furthest: usize,
    /// Places, by bit, where no piece may begin or end: inside a word with a hyphen.
    barred: u128,
}

impl Parse {
    /// Reads `words`; `None` stands for one that no table knows.
    pub(super) fn of(
        words: &[Option<Word>],
        language: &Language,
        offer: Option<&Vocabulary<'_>>,
        labels: &[(Kind, usize, usize)],
        barred: u128,
    ) -> Parse {
        let length = words.len().min(MOST_WORDS);
        let nowhere = Step {
            from: 0,
            stand: 0,
            kind: Kind::Courtesy,
        };
        let mut parse = Parse {
            length,
            reached: [0; MOST_WORDS + 1],
            steps: vec![[nowhere; Stand::ALL.len()]; length + 1],
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

    /// Adds a piece from `start` to `end` behind every reading that reached `start`.
    fn join(&mut self, start: usize, end: usize, kind: Kind) {
        if self.barred >> end & 1 != 0 {
            return;
        }
        let stands = self.reached.get(start).copied().unwrap_or(0);
        self.is_doubtful |= kind == Kind::Doubt;
        for (number, stand) in (0u8..).zip(Stand::ALL) {
            if stands & (1 << number) == 0 {
                continue;
            }
            let Some(next) = stand.after(kind) else { continue };
            let bit = 1u16 << next as u16;
            let Some(reached) = self.reached.get_mut(end) else {
                return;
            };
            if *reached & bit == 0 {
                *reached |= bit;
                self.furthest = self.furthest.max(end);
                let step = Step {
                    from: u8::try_from(start).unwrap_or(u8::MAX),
                    stand: number,
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

    /// Whether some reading of the whole reply ends in `stand`.
    pub(super) fn ends_in(&self, stand: Stand) -> bool {
        let last = self.reached.get(self.length).copied().unwrap_or(0);
        last & (1 << stand as u16) != 0
    }

    /// Whether the whole reply was read at all.
    pub(super) fn is_whole(&self) -> bool {
        self.reached.get(self.length).is_some_and(|stands| *stands != 0)
    }

    /// The pieces of a reading that ends in `stand`, in order.
    pub(super) fn pieces(&self, stand: Stand) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut at, mut stand) = (self.length, stand as usize);
        while at > 0 {
            let Some(step) = self.steps.get(at).and_then(|steps| steps.get(stand)) else {
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
            (at, stand) = (usize::from(step.from), usize::from(step.stand));
        }
        pieces.reverse();
        pieces
    }
}
