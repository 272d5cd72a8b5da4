//! Echoes: words of the offer, said again.
//!
//! Enters: what was offered, and a reply from some word on. Leaves: how far the reply only repeats the offer.
//!
//! A word of refusal is an echo only where it is the act itself that was offered: "yes, cancel it" repeats "Cancel the
//! order?", and not the "or "no" to cancel" of another question.
//!
//! An echo keeps the offer's order, so that "from savings to checking" is no echo of "from checking to savings". A
//! number keeps its neighbours. And an echo names the whole of a list or nothing of it: who says one item of three
//! may mean only that one.

use std::cell::OnceCell;

use super::kind::Kind;
use super::language::{Language, Tables};
use super::lexicon::Word;
use super::offer::{Offer, OfferWords};
use super::word::{Words, split};

/// The most words of an offer that are looked at.
const MOST_OFFERED: usize = 2048;

/// Words with which an offer leaves something open.
const CHOICES: [&str; 8] = ["or", "which", "what", "who", "how", "o", "oder", "ou"];

/// How far before a word its prompt is searched for a no or an "or" that makes it the other choice.
const NEAR: usize = 6;

/// Which words of an offer name the act.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Every act that a prompt of another program names.
    Any,
    /// The first word of the label, which has so many, that does more than agree.
    Label(usize),
    /// The first act in the operator's own words.
    First,
}

/// What was offered, word by word.
pub(super) struct Vocabulary<'a> {
    tables: &'a Tables,
    reply: &'a Words,
    reply_stems: Vec<u8>,
    offered: Words,
    /// How long each word's stem is.
    stems: Vec<u8>,
    ids: OnceCell<Vec<Option<Word>>>,
    has_from: bool,
    /// It offers a choice between things.
    is_choice: bool,
    head: Head,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn new(tables: &'a Tables, offer: &Offer<'_>, reply: &'a Words) -> Option<Vocabulary<'a>> {
        let offered = Words::of(&offer.text(), MOST_OFFERED)?;
        let head = match &offer.words {
            OfferWords::Text(_) => Head::Any,
            OfferWords::Act { label: None, .. } => Head::First,
            OfferWords::Act {
                label: Some(label), ..
            } => Head::Label(split(label).len()),
        };
        let says = |wanted: &str| offered.iter().any(|word| word == wanted);
        Some(Vocabulary {
            tables,
            has_from: says("from"),
            is_choice: CHOICES.into_iter().any(says),
            reply,
            reply_stems: stems(reply),
            stems: stems(&offered),
            ids: OnceCell::new(),
            offered,
            head,
        })
    }

    /// The number of the word at `place`. Looked up late: most replies are settled without.
    fn id(&self, place: usize) -> Option<Word> {
        let ids = self.ids.get_or_init(|| {
            let words = self.offered.iter();
            words.map(|word| self.tables.lexicon.find(word)).collect()
        });
        ids.get(place).copied().flatten()
    }

    /// Whether it asks for more to do rather than for leave.
    pub(super) fn asks_for_more(&self, language: &Language) -> bool {
        self.head == Head::Any && (0..self.offered.len()).any(|place| language.asks_for_more(self.id(place)))
    }

    /// Whether `word` stands in it.
    pub(super) fn says(&self, word: &str) -> bool {
        self.offered.iter().any(|offered| offered == word)
    }

    /// Whether word `at` of the reply could be an echo at all.
    pub(super) fn may_echo(&self, language: &Language, at: usize, id: Option<Word>) -> bool {
        (0..self.offered.len()).any(|place| self.shares_stem(at, place))
            || (language.acts(id) != 0
                && (0..self.offered.len())
                    .any(|place| language.acts(id) & language.acts(self.id(place)) != 0))
    }

    fn shares_stem(&self, at: usize, place: usize) -> bool {
        let (Some(said), Some(offered)) = (self.reply_stems.get(at), self.stems.get(place)) else {
            return false;
        };
        if said != offered {
            return false;
        }
        let (said_word, offered_word) = (self.reply.get(at), self.offered.get(place));
        said_word.get(..usize::from(*said)) == offered_word.get(..usize::from(*offered))
    }

    /// The word's side in a pair that a prompt offers, such as `y/n`: true for the first, false for the second. Other
    /// words with a slash between them are no pair.
    pub(super) fn side_of(&self, word: &str) -> Option<bool> {
        if self.head != Head::Any {
            return None;
        }
        let mut sides = (1..self.offered.len()).filter(|index| self.offered.gap(*index).is_slash);
        sides.find_map(|second| {
            let (yes, no) = (self.offered.get(second - 1), self.offered.get(second));
            match (yes == word, no == word) {
                (true, false) if self.tables.is_pair(yes, no) => Some(true),
                (false, true) if self.tables.is_pair(yes, no) => Some(false),
                _ => None,
            }
        })
    }

    fn is_joint(&self, index: usize) -> bool {
        self.offered.gap(index).is_joint
            || matches!(
                self.offered.get(index),
                "and" | "or" | "y" | "und" | "et" | "e" | "o" | "&"
            )
    }

    /// Whether the word at `place` stands behind one that turns it, as in "without subtitles".
    fn is_turned(&self, language: &Language, place: usize) -> bool {
        place
            .checked_sub(1)
            .is_some_and(|before| language.is_stop(self.id(before)))
    }

    /// Whether word `at` of the reply says what the offer says at `place`.
    fn meets(&self, language: &Language, at: usize, id: Option<Word>, place: usize) -> bool {
        let acts = language.acts(id);
        let is_met = self.shares_stem(at, place) || (acts != 0 && acts & language.acts(self.id(place)) != 0);
        is_met && (!self.refuses(language, at, id, place) || self.is_offered_act(language, place))
    }

    /// Whether the reply's word or the offer's, in this language or in English, refuses.
    fn refuses(&self, language: &Language, at: usize, id: Option<Word>, place: usize) -> bool {
        let is_refusal = |id: Option<Word>, word: &str| {
            let languages = [Some(language), self.tables.english()];
            let is_in = |id: Option<Word>| languages.iter().flatten().any(|language| language.is_refusal(id));
            is_in(id) || is_in(self.tables.lexicon.find(stem(word)))
        };
        is_refusal(id, self.reply.get(at)) || is_refusal(self.id(place), self.offered.get(place))
    }

    /// Whether the word at `place` names what would be done, and not the way out of it.
    fn is_offered_act(&self, language: &Language, place: usize) -> bool {
        if self.head != Head::Any {
            return self.is_head(language, place);
        }
        let turns = |before: usize| {
            let (id, word) = (self.id(before), self.offered.get(before));
            let english = self.tables.english();
            language.is_refusal(id)
                || english.is_some_and(|english| english.is_refusal(id))
                || CHOICES.contains(&word)
                || matches!(word, "otherwise" | "instead" | "not")
        };
        !(place.saturating_sub(NEAR)..place).any(turns)
    }

    /// Whether the word at `place` names the act, so that saying it alone is as good as a yes.
    fn is_head(&self, language: &Language, place: usize) -> bool {
        match self.head {
            Head::Any => language.is_act(self.id(place)),
            Head::First => {
                (0..self.offered.len()).find(|place| language.is_act(self.id(*place))) == Some(place)
            }
            Head::Label(length) => {
                let is_content = |place: &usize| {
                    let id = self.id(*place);
                    !(language.is_glue(id) || language.is_stop(id) || language.agrees(id))
                };
                (0..length).find(is_content) == Some(place)
            }
        }
    }
}

/// The places where an echo that begins at word `start` of the reply may end, and what it then is.
pub(super) fn echoes(
    offer: &Vocabulary<'_>,
    language: &Language,
    words: &[Option<Word>],
    start: usize,
    mut found: impl FnMut(usize, Kind),
) {
    // Little words in front belong to the echo; the first other one says where in the offer it begins.
    let mut at = start;
    while words.get(at).is_some_and(|id| language.is_glue(*id)) {
        at += 1;
    }
    let Some(id) = words.get(at).copied() else { return };
    if language.is_stop(id) {
        return;
    }
    for place in 0..offer.offered.len() {
        if !offer.meets(language, at, id, place) || offer.is_turned(language, place) {
            continue;
        }
        let mut echo = Echo {
            offer,
            language,
            first: place,
            last: place,
            content: 1,
            begins_with_act: match offer.head {
                Head::Any => language.is_act(id),
                _ => offer.is_head(language, place),
            },
            is_number: is_number(offer.reply.get(at)),
            has_number: is_number(offer.reply.get(at)),
        };
        let mut next = at + 1;
        loop {
            if !echo.cuts_something() {
                found(next, echo.kind());
            }
            match words.get(next) {
                Some(id) if echo.goes_on(next, *id) => next += 1,
                _ => break,
            }
        }
    }
}

/// A walk through the offer, beside the reply.
struct Echo<'a> {
    offer: &'a Vocabulary<'a>,
    language: &'a Language,
    /// The first and the last place of the offer that was met.
    first: usize,
    last: usize,
    /// How many words of substance it has.
    content: usize,
    begins_with_act: bool,
    is_number: bool,
    has_number: bool,
}

impl Echo<'_> {
    /// An echo that names the act shortly is as good as a yes; a longer one needs one.
    fn kind(&self) -> Kind {
        let is_plain = self.content <= 4 && !self.has_number && !self.offer.is_choice;
        match self.begins_with_act && is_plain {
            true => Kind::EchoAct,
            false => Kind::Echo,
        }
    }

    /// Takes word `at` of the reply, if the offer goes on like that.
    fn goes_on(&mut self, at: usize, id: Option<Word>) -> bool {
        let said = self.offer.reply.get(at);
        let from = self.last + 1;
        if self.language.is_stop(id) {
            return false;
        }
        if self.language.is_glue(id) && !(said == "to" && self.offer.has_from) {
            // Little words are not searched for, but when they stand next they are met.
            if from < self.offer.offered.len() && self.offer.meets(self.language, at, id, from) {
                self.last = from;
            }
            return true;
        }
        let is_number = is_number(said);
        let found = self.search(at, id, is_number || self.is_number);
        let Some(place) = found.or_else(|| self.object_before(at, id)) else {
            return false;
        };
        self.last = place;
        self.content += 1;
        self.is_number = is_number;
        self.has_number |= is_number;
        true
    }

    /// The next place that meets the word. Numbers keep their neighbours; nothing leaps into another item of a list,
    /// or over a word that turns the meaning.
    fn search(&self, at: usize, id: Option<Word>, is_strict: bool) -> Option<usize> {
        let from = self.last + 1;
        for place in from..self.offer.offered.len() {
            if self.offer.meets(self.language, at, id, place) {
                return Some(place);
            }
            let skipped = self.offer.id(place);
            let is_barred = self.language.is_stop(skipped) || self.offer.is_joint(place);
            if is_barred || (is_strict && !self.language.is_glue(skipped)) {
                return None;
            }
        }
        None
    }

    /// Where the offer names, before the act, the one thing that it is done to: "play the movie" repeats "shall the
    /// movie be played?". With a second thing the order would matter, and a number or an item of a list is not one.
    fn object_before(&self, at: usize, id: Option<Word>) -> Option<usize> {
        if !self.begins_with_act || self.content > 1 || is_number(self.offer.reply.get(at)) {
            return None;
        }
        let is_alone = |place: &usize| {
            let offer = self.offer;
            !offer.is_joint(*place) && !offer.is_joint(*place + 1) && !offer.is_turned(self.language, *place)
        };
        (0..self.first)
            .filter(is_alone)
            .find(|place| self.offer.meets(self.language, at, id, *place))
    }

    /// Whether what was said so far is one item of a list, or half of a number.
    fn cuts_something(&self) -> bool {
        let next = self.last + 1;
        let is_value = |place: usize| self.offer.offered.gap(place).is_value;
        let goes_on = next < self.offer.offered.len() && self.offer.is_joint(next) && !is_value(next);
        let began_earlier = self.first > 0 && self.offer.is_joint(self.first) && !self.begins_with_act;
        let is_half = (self.is_number && is_number(self.offer.offered.get(next)))
            || (is_number(self.offer.offered.get(self.first))
                && self.first > 0
                && is_number(self.offer.offered.get(self.first - 1)));
        goes_on || began_earlier || is_half
    }
}

fn is_number(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
}

fn stems(words: &Words) -> Vec<u8> {
    let lengths = words
        .iter()
        .map(|word| u8::try_from(stem(word).len()).unwrap_or(u8::MAX));
    lengths.collect()
}

/// The part of a word that its forms share: `booking` and `booked` are `book`.
fn stem(word: &str) -> &str {
    if word.len() < 4 || !word.is_ascii() {
        return word;
    }
    let mut stem = word;
    for ending in ["ation", "ings", "ing", "ied", "ies", "ed", "es", "s"] {
        if let Some(shorter) = stem.strip_suffix(ending).filter(|shorter| shorter.len() >= 3) {
            stem = shorter;
            break;
        }
    }
    stem = stem.strip_suffix(['e', 'y']).unwrap_or(stem);
    // `cancelling` keeps one of its two letters.
    let mut ends = stem.bytes().rev();
    match (ends.next(), ends.next()) {
        (Some(last), Some(before)) if last == before && stem.len() > 4 => {
            stem.get(..stem.len() - 1).unwrap_or(stem)
        }
        _ => stem,
    }
}
