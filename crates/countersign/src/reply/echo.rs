//! Echoes: words of the offer that a reply repeats.
//!
//! Given a reply from some word on, this module finds how far the reply only repeats the offer.
//!
//! A refusing word is an echo only if it names the act that was offered: "yes, cancel it" repeats "Cancel the order?",
//! but not the words "or "no" to cancel" of another question.
//!
//! An echo keeps the offer's order, so "from savings to checking" does not echo "from checking to savings". A number
//! keeps its neighbours. An echo names all of a list or none of it: a person who names one item of three may mean only
//! that one.

use std::cell::OnceCell;

use super::card;
use super::kind::PieceKind;
use super::language::{Language, Tables};
use super::lexicon::Word;
use super::offer::{Offer, OfferWords};
use super::word::{Words, split};

/// Maximum number of words in an offer that is compared with the reply; a longer offer is not compared.
const MOST_OFFERED: usize = 2048;

/// Words in an offer that leave a choice open.
const CHOICES: [&str; 8] = ["or", "which", "what", "who", "how", "o", "oder", "ou"];

/// Number of words before a refusal that are searched for a no or an "or". One of these makes the refusal the
/// alternative to the act.
const NEAR: usize = 6;

/// Rule that selects the words of an offer that name the act.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Every act word in the prompt of another program.
    Any,
    /// The first word of the label that is more than an agreement such as "yes". Holds the number of words in the
    /// label.
    Label(usize),
    /// The first act word of the operator's own description.
    First,
}

/// The words of an offer, prepared for comparison with one reply.
pub(super) struct OfferVocabulary<'a> {
    tables: &'a Tables,
    reply: &'a Words,
    reply_stems: Vec<u8>,
    offered: Words,
    /// Length of each offered word's stem, in bytes.
    stems: Vec<u8>,
    ids: OnceCell<Vec<Option<Word>>>,
    has_from: bool,
    /// True if the offer contains a word of [`CHOICES`].
    is_choice: bool,
    head: Head,
}

impl<'a> OfferVocabulary<'a> {
    pub(super) fn new(
        tables: &'a Tables,
        offer: &Offer<'_>,
        reply: &'a Words,
    ) -> Option<OfferVocabulary<'a>> {
        let offered = Words::of(&offer.text(), MOST_OFFERED)?;
        let head = match &offer.words {
            OfferWords::Text(_) => Head::Any,
            OfferWords::Act { label: None, .. } => Head::First,
            OfferWords::Act {
                label: Some(label), ..
            } => Head::Label(split(label).len()),
        };
        let says = |wanted: &str| offered.iter().any(|word| word == wanted);
        Some(OfferVocabulary {
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

    /// Returns the id of the offered word at `place`; `None` if no table has the word. Ids are looked up on first use,
    /// because most replies do not need them.
    fn id(&self, place: usize) -> Option<Word> {
        let ids = self.ids.get_or_init(|| {
            let words = self.offered.iter();
            words.map(|word| self.tables.lexicon.find(word)).collect()
        });
        ids.get(place).copied().flatten()
    }

    /// Returns true if the prompt asks for more to do ("anything else?") rather than for permission.
    pub(super) fn asks_for_more(&self, language: &Language) -> bool {
        self.head == Head::Any && (0..self.offered.len()).any(|place| language.asks_for_more(self.id(place)))
    }

    /// Returns true if the offer contains `word`.
    pub(super) fn says(&self, word: &str) -> bool {
        self.offered.iter().any(|offered| offered == word)
    }

    /// Returns true if word `at` of the reply could be part of an echo.
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

    /// Returns which side of an offered pair such as `y/n` the word is: true for the first, false for the second,
    /// `None` if it is neither. Only known pairs of yes and no count, not any two words with a slash in between.
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

    /// Returns true if a prompt offers a yes and a no of the same locale.
    fn offers_pair(&self) -> bool {
        let says_yes = |word: &&str| self.tables.anywhere(word).0;
        self.offered.iter().filter(says_yes).any(|yes| {
            let mut words = self.offered.iter();
            words.any(|no| self.tables.is_pair(yes, no))
        })
    }

    /// Returns true if a glue word of the reply may change the meaning of an echo. Applies to prompts of other programs
    /// only.
    fn is_loose(&self, language: &Language, at: usize) -> bool {
        self.head == Head::Any && !card::is_object(language.tag, self.reply.get(at))
    }

    fn is_joint(&self, index: usize) -> bool {
        self.offered.gap(index).is_joint
            || matches!(
                self.offered.get(index),
                "and" | "or" | "y" | "und" | "et" | "e" | "o" | "&"
            )
    }

    /// Returns true if the word before `place` reverses its meaning, as in "without subtitles".
    fn is_turned(&self, language: &Language, place: usize) -> bool {
        place
            .checked_sub(1)
            .is_some_and(|before| language.is_stop(self.id(before)))
    }

    /// Returns true if word `at` of the reply repeats the offered word at `place`. A refusing word repeats only an
    /// offered act.
    fn meets(&self, language: &Language, at: usize, id: Option<Word>, place: usize) -> bool {
        let acts = language.acts(id);
        let is_met = self.shares_stem(at, place) || (acts != 0 && acts & language.acts(self.id(place)) != 0);
        is_met && (!self.refuses(language, at, id, place) || self.is_offered_act(language, place))
    }

    /// Returns true if the reply's word or the offered one is a refusal, in this language or in English.
    fn refuses(&self, language: &Language, at: usize, id: Option<Word>, place: usize) -> bool {
        let is_refusal = |id: Option<Word>, word: &str| {
            let languages = [Some(language), self.tables.english()];
            let is_in = |id: Option<Word>| languages.iter().flatten().any(|language| language.is_refusal(id));
            is_in(id) || is_in(self.tables.lexicon.find(stem(word)))
        };
        is_refusal(id, self.reply.get(at)) || is_refusal(self.id(place), self.offered.get(place))
    }

    /// Returns true if the word at `place` names the offered act, not the alternative to it.
    fn is_offered_act(&self, language: &Language, place: usize) -> bool {
        if self.head != Head::Any {
            return self.is_head(language, place);
        }
        // "Type yes to continue, cancel to abort": after a way to agree and without a matching no, a refusal is the
        // alternative.
        let agrees = |before: usize| {
            let id = self.id(before);
            let is_on = matches!(self.offered.get(before), "continue" | "proceed");
            let english = self.tables.english();
            is_on || language.agrees(id) || english.is_some_and(|english| english.agrees(id))
        };
        if (0..place).any(agrees) && !self.offers_pair() {
            return false;
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

    /// Returns true if the word at `place` names the act, so that repeating it alone counts as a yes.
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

/// Calls `found` for each word boundary at which an echo that begins at word `start` of the reply may end, with the
/// kind of piece that the echo is then.
pub(super) fn echoes(
    offer: &OfferVocabulary<'_>,
    language: &Language,
    words: &[Option<Word>],
    start: usize,
    mut found: impl FnMut(usize, PieceKind),
) {
    // Leading glue words belong to the echo. The first other word determines where in the offer the echo begins.
    let mut at = start;
    let mut is_loose = false;
    while words.get(at).is_some_and(|id| language.is_glue(*id)) {
        is_loose |= offer.is_loose(language, at);
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
            is_loose,
            ends_in_glue: false,
            is_broken_off: false,
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

/// Progress of one echo through the offer.
struct Echo<'a> {
    offer: &'a OfferVocabulary<'a>,
    language: &'a Language,
    /// First and last place of the offer that was repeated.
    first: usize,
    last: usize,
    /// Number of words that are not glue.
    content: usize,
    begins_with_act: bool,
    is_number: bool,
    has_number: bool,
    /// True if the echo has a glue word that is neither in the offer at that place nor a reference to what was offered:
    /// "delete to me".
    is_loose: bool,
    /// True if the last word is a glue word that the offer does not have at that place.
    ends_in_glue: bool,
    /// True if the last word is an article, so that the word after it is missing.
    is_broken_off: bool,
}

impl Echo<'_> {
    /// Returns the kind of the echo. A short echo that begins with the act counts as a yes; a longer one has to
    /// accompany a yes.
    fn kind(&self) -> PieceKind {
        let is_plain = self.content <= 4 && !self.has_number && !self.offer.is_choice;
        // For a card, `card.rs` checks every word.
        let is_strict = self.offer.head != Head::Any || !(self.is_loose || self.is_broken_off);
        match self.begins_with_act && is_plain && is_strict {
            true => PieceKind::EchoAct,
            false => PieceKind::Echo,
        }
    }

    /// Adds word `at` of the reply to the echo if the offer continues with it; returns false if it does not.
    fn goes_on(&mut self, at: usize, id: Option<Word>) -> bool {
        let said = self.offer.reply.get(at);
        let from = self.last + 1;
        if self.language.is_stop(id) {
            return false;
        }
        if self.language.is_glue(id) && !(said == "to" && self.offer.has_from) {
            // Glue words are not searched for, but count as repeated if they come next in the offer.
            match from < self.offer.offered.len() && self.offer.meets(self.language, at, id, from) {
                true => (self.last, self.ends_in_glue) = (from, false),
                false => {
                    self.is_loose |= self.ends_in_glue || self.offer.is_loose(self.language, at);
                    self.ends_in_glue = true;
                }
            }
            self.is_broken_off = card::is_article(self.language.tag, said);
            return true;
        }
        let is_number = is_number(said);
        let found = self.search(at, id, is_number || self.is_number);
        let Some(place) = found.or_else(|| self.object_before(at, id)) else {
            return false;
        };
        self.last = place;
        self.content += 1;
        (self.ends_in_glue, self.is_broken_off) = (false, false);
        self.is_number = is_number;
        self.has_number |= is_number;
        true
    }

    /// Returns the next place in the offer that the word repeats; `None` if there is none. A number keeps its
    /// neighbours. The search does not cross into another item of a list, nor past a word that reverses the meaning.
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

    /// Returns the place of the act's object where the offer names it before the act: "play the movie" repeats "shall
    /// the movie be played?". `None` if there is no such place. Only one object is looked for, because the order of two
    /// would matter; numbers and list items are excluded.
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

    /// Returns true if the echo so far covers only one item of a list, or half of a number.
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

/// Returns the part of an English word that its forms share: `book` for `booking` and `booked`.
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
    // Of two equal letters at the end, as in `cancelling`, the stem keeps one.
    let mut ends = stem.bytes().rev();
    match (ends.next(), ends.next()) {
        (Some(last), Some(before)) if last == before && stem.len() > 4 => {
            stem.get(..stem.len() - 1).unwrap_or(stem)
        }
        _ => stem,
    }
}
