//! Reads a person's reply to a pending approval as a yes, a no, a selection of calls, or something else.
//!
//! A reply is read against an [`Offer`], in the person's language if it is known. The result is a [`Reading`] and the
//! reason for it. No model takes part, and nothing is guessed or remembered: the same words in reply to the same offer
//! are always read the same way.
//!
//! A reply is a yes or a no only if *every* word belongs to a known piece (see `kind.rs`) and the pieces make sense in
//! that order. An unknown word, a question, a number that was not offered or a condition makes it [`Reading::Other`].

mod about_card;
mod act;
mod card;
mod cover;
mod dont;
mod echo;
mod grammar;
mod kind;
mod language;
mod lexicon;
mod offer;
mod parse;
mod part;
mod phrases;
#[cfg(test)]
mod tests;
mod undo;
mod why;
mod word;

pub(crate) use about_card::{CardWords, begins_with_no, is_about_card};
pub use kind::PieceKind;
pub use offer::{Bare, Offer};
pub use part::Part;
pub(crate) use part::{mentions_action, positions_in};
pub use undo::asks_for_undo;
pub use why::Why;

use card::Enough;
use echo::OfferVocabulary;
use kind::{Kinds, ReplyState};
use language::{Language, Tables, tables};
use lexicon::Word;
use parse::{MOST_WORDS, Parse};
use word::{Words, code, is_plain_text, split, trails_off, unwrapped};

/// Meaning of a reply to the pending approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A plain yes.
    Yes,
    /// A plain no.
    No,
    /// A plain yes to some of several numbered calls.
    Part(Part),
    /// Anything else: a question, a change of plan, another subject.
    Other,
}

impl Reading {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Reading::Yes => "yes",
            Reading::No => "no",
            Reading::Part(_) => "part",
            Reading::Other => "other",
        }
    }
}

/// A reading and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interpreted {
    /// Meaning of the reply.
    pub reading: Reading,
    /// Words or rule that determined the reading.
    pub why: Why,
}

/// Longest reply that is read, in bytes. Anything longer is [`Why::TooLong`].
const LONGEST: usize = 1024;
/// Longest language tag that is looked up, in bytes.
const LONGEST_TAG: usize = 35;

/// Returns true if replies in the language of this tag can be read.
pub(crate) fn can_read(tag: &str) -> bool {
    tag.len() <= LONGEST_TAG && tables().language(tag).is_some()
}

/// Reads `text` as a reply to `offer`. `language` is the tag of the person's language, such as `de` or `pt-BR`. Without
/// one, the card's language and English are tried first, then all others.
pub fn interpret(offer: &Offer<'_>, text: &str, language: Option<&str>) -> Interpreted {
    read(offer, text, language).unwrap_or_else(|why| Interpreted {
        reading: Reading::Other,
        why,
    })
}

fn read(offer: &Offer<'_>, text: &str, language: Option<&str>) -> Result<Interpreted, Why> {
    if text.len() > LONGEST {
        return Err(Why::TooLong);
    }
    let whole_text = text;
    let text = unwrapped(text);
    let words = Words::of(text, MOST_WORDS).ok_or(Why::TooLong)?;
    if let Some(hidden) = words.hidden {
        return Err(Why::Hidden(hidden));
    }
    if words.len() == 0 {
        return Err(Why::Empty);
    }
    if words.is_question {
        return Err(Why::Question);
    }
    let whole = || words.iter().collect::<Vec<_>>().join(" ");
    let said = language.filter(|tag| !tag.is_empty());
    let decided = |reading| Interpreted {
        reading,
        why: Why::Words(vec![whole()]),
    };
    let mut is_all = false;
    let read = match part::part(&words, offer.numbered) {
        Some(part::Selected::Some(part)) => decided(Reading::Part(part)),
        Some(part::Selected::Unclear) if offer.is_card() => return Err(Why::WhichOnes(whole())),
        _ if card::grants_all(tables(), offer, &words, said) => {
            is_all = true;
            decided(Reading::Yes)
        }
        _ => of_card(
            offer,
            &words,
            said,
            ReplyReader::new(offer, &words, language).read(),
        )?,
    };
    if offer.is_card() && matches!(read.reading, Reading::Yes | Reading::Part(_)) {
        // INVARIANT: a card is approved only by its label, in plain listed words or by naming its act (X54, X55), and
        // never by words that are quoted, trail off or may mean the denying label.
        let enough = match read.why {
            Why::Offered(_) => Enough::IsLabel,
            _ => Enough::Yes,
        };
        let is_plain = || {
            matches!(read.reading, Reading::Part(_))
                || is_all
                || card::approves(tables(), offer, &words, said, enough)
        };
        if !is_plain_text(whole_text)
            || trails_off(whole_text)
            || card::may_mean_no(offer, &words, said)
            || !is_plain()
        {
            if dont::refuses(tables(), offer, &words, said) {
                return Ok(decided(Reading::No));
            }
            return Err(Why::NotPlain(whole()));
        }
    }
    // Brackets, keys and paths suggest that a program wrote the reply. Such a reply may deny, but not approve.
    match read.reading {
        Reading::No => Ok(read),
        _ => code(text).map_or(Ok(read), |code| Err(Why::Code(code))),
    }
}

/// Corrects the reading of a reply to a card. The language tables are made for all kinds of questions, and do not know
/// every verb that an act may have; `tables/cards.txt` is made for cards.
fn of_card(
    offer: &Offer<'_>,
    words: &Words,
    said: Option<&str>,
    read: Result<Interpreted, Why>,
) -> Result<Interpreted, Why> {
    if !offer.is_card() {
        return read;
    }
    let whole = words.iter().collect::<Vec<_>>().join(" ");
    let decided = |reading| Interpreted {
        reading,
        why: Why::Words(vec![whole.clone()]),
    };
    // Some languages join an object to its verb with a hyphen. In all others, a hyphen makes a different word.
    let is_joined = || matches!(offer.language(), Some("ro" | "pt" | "fr"));
    let is_enough = |enough: Enough| {
        (words.hyphens() == 0 || is_joined()) && card::approves(tables(), offer, words, said, enough)
    };
    let approves = || is_enough(Enough::Yes);
    match read {
        Ok(read) if read.reading == Reading::No && !matches!(read.why, Why::Offered(_)) && approves() => {
            // A word of refusal that is also the act's verb, such as the Hungarian word for "delete", may mean yes or
            // no.
            match card::has_plain_yes(offer, words, said) {
                true => Ok(decided(Reading::Yes)),
                false => Err(Why::Ambiguous(whole)),
            }
        }
        // "Kill the process" may also name the act of a card that kills a process.
        Ok(read)
            if read.reading == Reading::No
                && !matches!(read.why, Why::Offered(_))
                && card::names_refusing_act(offer, words, said)
                && !dont::refuses(tables(), offer, words, said) =>
        {
            Err(Why::Ambiguous(whole))
        }
        // The English tables know more words than a card accepts, so only the act's own words may be unknown to them.
        Err(Why::Unknown(_)) if card::may_be_unknown(offer, words, said) && approves() => {
            Ok(decided(Reading::Yes))
        }
        // After "delete it", the person is asked again; the reply does not count as another subject.
        Err(Why::Unknown(_)) if card::may_be_unknown(offer, words, said) && is_enough(Enough::SomeOfAct) => {
            Err(Why::NotPlain(whole))
        }
        Err(_) if dont::refuses(tables(), offer, words, said) => Ok(decided(Reading::No)),
        // "Yes, stop" in reply to a card that stops something counts as both yes and no in the language tables.
        Err(Why::Ambiguous(_) | Why::Undecided(_) | Why::Unknown(_))
            if card::has_plain_yes(offer, words, said)
                && card::holds_refusing_act(offer, words, said)
                && approves() =>
        {
            Ok(decided(Reading::Yes))
        }
        read => read,
    }
}

/// Reads one reply in one language after another.
struct ReplyReader<'a> {
    tables: &'static Tables,
    offer: &'a Offer<'a>,
    words: &'a Words,
    ids: Vec<Option<Word>>,
    /// Bit set by word index: bit `n` is set if only a hyphen separates word `n` from the one before.
    hyphens: u128,
    /// Tag of the person's language, if given.
    tag: Option<&'a str>,
    vocabulary: std::cell::OnceCell<Option<OfferVocabulary<'a>>>,
}

impl<'a> ReplyReader<'a> {
    fn new(offer: &'a Offer<'a>, words: &'a Words, tag: Option<&'a str>) -> ReplyReader<'a> {
        let tables = tables();
        let ids = words.iter().map(|word| find(tables, word)).collect();
        ReplyReader {
            tables,
            offer,
            words,
            ids,
            hyphens: words.hyphens(),
            tag: tag.filter(|tag| !tag.is_empty()),
            vocabulary: std::cell::OnceCell::new(),
        }
    }

    /// Returns the words of the offer, which are split on first use; `None` if the offer is too long to be compared.
    fn vocabulary(&self) -> Option<&OfferVocabulary<'a>> {
        let read = || OfferVocabulary::new(self.tables, self.offer, self.words);
        self.vocabulary.get_or_init(read).as_ref()
    }

    fn read(&self) -> Result<Interpreted, Why> {
        if let Some(answer) = self.label() {
            return answer;
        }
        self.plain()
    }

    /// Reads the words in the person's language if it is known, otherwise in the card's, otherwise in any.
    fn plain(&self) -> Result<Interpreted, Why> {
        match (self.tag, self.offer.language()) {
            (Some(tag), _) => self.in_language(tag),
            (None, Some(tag)) => self.in_language_of_card(tag),
            (None, None) => self.in_any_language(),
        }
    }

    /// Reads the reply in the card's language, or as a yes or no in English, because the person can read the card.
    /// Other languages are tried only if the reply makes sense in neither.
    fn in_language_of_card(&self, tag: &str) -> Result<Interpreted, Why> {
        let read = self.in_language(tag);
        // Cards without sentences in their language are shown in English, so `y` and `n` answer them too.
        if let (Err(_), Some(is_yes)) = (&read, self.tables.locale("en", self.words)) {
            return Ok(self.said(is_yes));
        }
        match read {
            Err(why) if !matches!(why, Why::Filler(_)) => {
                self.in_any_language().map_err(|other| match other {
                    Why::Ambiguous(_) | Why::Filler(_) => other,
                    _ => why,
                })
            }
            read => read,
        }
    }

    /// Reads a reply that is exactly a button's label, or one side of a pair such as `y/n`; `None` if it is neither.
    fn label(&self) -> Option<Result<Interpreted, Why>> {
        let is = |label: Option<&str>| {
            label.is_some_and(|label| split(label).iter().map(String::as_str).eq(self.words.iter()))
        };
        let (yes, no) = (self.offer.yes.as_deref(), self.offer.no.as_deref());
        let mut side = match (is(yes), is(no)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        };
        if side.is_none() && self.words.len() == 1 && self.words.get(0).chars().count() < 3 {
            side = self
                .vocabulary()
                .and_then(|offer| offer.side_of(self.words.get(0)));
        }
        let reading = match side? {
            true => Reading::Yes,
            false => Reading::No,
        };
        // If the approving button says "Cancel", the reply "cancel" may still mean no.
        let is_doubtful = match self.plain() {
            Ok(plain) => plain.reading == Reading::No,
            Err(why) => matches!(why, Why::Ambiguous(_)) && self.words.get(0).chars().count() > 2,
        };
        if reading == Reading::Yes && is_doubtful {
            return Some(Err(Why::Ambiguous(self.whole())));
        }
        Some(Ok(Interpreted {
            reading,
            why: Why::Offered(self.whole()),
        }))
    }

    fn whole(&self) -> String {
        self.words.iter().collect::<Vec<_>>().join(" ")
    }

    fn in_language(&self, tag: &str) -> Result<Interpreted, Why> {
        if let Some(is_yes) = self.tables.locale(tag, self.words) {
            return Ok(self.said(is_yes));
        }
        let english = self.tables.english().ok_or(Why::Empty)?;
        let Some(language) = self.tables.language(tag) else {
            return self.in_english_abroad(english);
        };
        match self.parse(language) {
            Err(why) if language.tag != english.tag => self.in_english_abroad(english).map_err(|_| why),
            read => read,
        }
    }

    /// Reads English from a person who speaks another language. A single word has to be known internationally, because
    /// it may also be a word of that language.
    fn in_english_abroad(&self, english: &Language) -> Result<Interpreted, Why> {
        let read = self.parse(english)?;
        match self.ids.as_slice() {
            [word] if !english.is_international(*word) => Err(Why::Unknown(self.whole())),
            _ => Ok(read),
        }
    }

    fn in_any_language(&self) -> Result<Interpreted, Why> {
        let mut answer: Option<Interpreted> = None;
        let mut failure = None;
        let mut is_doubtful = false;
        let mut known = self.ids.iter().fold(u64::MAX, |known, word| {
            // A word that no table knows excludes no language: it may come from the offer.
            match self.tables.known(*word) {
                0 => known,
                languages => known & languages,
            }
        });
        if self.ids.iter().all(|word| self.tables.known(*word) == 0) {
            // A reply of acts alone may be in any language. If the lexicon has none of the words, trying one language
            // is enough, because the others would fail in the same way.
            known = if self.ids.iter().all(Option::is_none) {
                1
            } else {
                u64::MAX
            };
        }
        for (number, language) in self.tables.languages.iter().enumerate() {
            if known
                & (1u64
                    .checked_shl(u32::try_from(number).unwrap_or(u32::MAX))
                    .unwrap_or(0))
                == 0
            {
                continue;
            }
            match self.parse(language) {
                Ok(read) if answer.as_ref().is_some_and(|first| first.reading != read.reading) => {
                    return Err(Why::Ambiguous(self.whole()));
                }
                Ok(read) => {
                    answer.get_or_insert(read);
                }
                Err(why) => {
                    // A reply that is undecided in one language is not a yes in another.
                    is_doubtful |= matches!(why, Why::Undecided(_) | Why::Ambiguous(_));
                    failure.get_or_insert(why);
                }
            }
        }
        let whole = match self.words.len() <= self.tables.longest_phrase() {
            true => self.whole(),
            false => String::new(),
        };
        let anywhere = self.tables.anywhere(&whole);
        if anywhere == (true, true) {
            return self.offered_letter(whole);
        }
        let says_yes = answer.as_ref().is_some_and(|read| read.reading == Reading::Yes);
        if says_yes && (is_doubtful || self.is_too_short()) {
            return Err(Why::Ambiguous(self.whole()));
        }
        match (answer, anywhere) {
            (Some(read), (false, false)) => Ok(read),
            (Some(read), (is_yes, _)) => match (read.reading == Reading::Yes) == is_yes {
                true => Ok(read),
                false => Err(Why::Ambiguous(whole)),
            },
            // A letter or a very short word that means yes in some locale is no answer while the locale is unknown.
            (None, (true, false)) if self.is_too_short() || whole.chars().count() == 1 => {
                Err(Why::Ambiguous(whole))
            }
            (None, (true, false)) => Ok(self.said(true)),
            (None, (false, true)) => Ok(self.said(false)),
            (None, _) => Err(failure.unwrap_or_else(|| self.unknown())),
        }
    }

    /// Returns true for a single ASCII word of one or two letters, except the unambiguous ones listed here. Nearly all
    /// others mean something in some language.
    fn is_too_short(&self) -> bool {
        let word = self.words.get(0);
        self.words.len() == 1 && word.is_ascii() && word.len() < 3 && !matches!(word, "ok" | "si" | "ja")
    }

    /// Reads a word that means yes in one locale and no in another. The English meaning counts, and only if the prompt
    /// itself used the word.
    fn offered_letter(&self, whole: String) -> Result<Interpreted, Why> {
        let is_offered = self.vocabulary().is_some_and(|offer| offer.says(&whole));
        match is_offered.then(|| self.tables.locale("en", self.words)).flatten() {
            Some(is_yes) => Ok(self.said(is_yes)),
            None => Err(Why::Ambiguous(whole)),
        }
    }

    fn said(&self, is_yes: bool) -> Interpreted {
        Interpreted {
            reading: if is_yes { Reading::Yes } else { Reading::No },
            why: Why::Words(vec![self.whole()]),
        }
    }

    fn unknown(&self) -> Why {
        let mut unknown = (0..self.words.len()).filter(|index| {
            let id = self.ids.get(*index).copied().flatten();
            self.tables.known(id) == 0
        });
        Why::Unknown(
            unknown
                .next()
                .map_or_else(|| self.whole(), |index| self.words.get(index).to_owned()),
        )
    }

    fn parse(&self, language: &Language) -> Result<Interpreted, Why> {
        let labels = self.labels(language);
        let barred = self.hyphens;
        let knows = |word: &Option<Word>| word.is_some_and(|word| language.automaton.knows(word));
        let unknown = (0..self.ids.len()).filter(|at| !self.ids.get(*at).is_some_and(knows));
        let unknown: Vec<usize> = unknown.collect();
        let mut parse = None;
        let names_act = self.ids.iter().any(|word| language.acts(*word) != 0);
        if unknown.is_empty() && !names_act {
            parse = Some(Parse::of(&self.ids, language, None, &labels, barred)).filter(Parse::is_whole);
        } else if !unknown.is_empty() && labels.is_empty() {
            // Most unrelated messages end here: a word is neither in a table nor in the offer.
            let id = |at: usize| self.ids.get(at).copied().flatten();
            let may_echo = |at: &usize| {
                let is_offered = |offer: &OfferVocabulary<'_>| offer.may_echo(language, *at, id(*at));
                language.is_glue(id(*at)) || self.vocabulary().is_some_and(is_offered)
            };
            if let Some(at) = unknown.into_iter().find(|at| !may_echo(at)) {
                return Err(Why::Unknown(self.words.get(at).to_owned()));
            }
        }
        // The offer is split only now, because some of the words may repeat it.
        let parse =
            parse.unwrap_or_else(|| Parse::of(&self.ids, language, self.vocabulary(), &labels, barred));
        if !parse.is_whole() {
            return Err(self.why_not(language, &parse));
        }
        self.verdict(language, &parse)
    }

    /// Finds the button labels in the reply. Glue words such as "it" after a label that names an act belong to the
    /// label.
    fn labels(&self, language: &Language) -> Vec<(PieceKind, usize, usize)> {
        let mut found = Vec::new();
        let (yes, no) = (self.offer.yes.as_deref(), self.offer.no.as_deref());
        for (label, kind) in [(yes, PieceKind::Yes), (no, PieceKind::No)] {
            let label = label.map(split).filter(|label| !label.is_empty());
            let Some(label) = label else { continue };
            for start in 0..self.words.len() {
                let mut end = start + label.len();
                let says = |(index, word): (usize, &String)| self.words.get(start + index) == word;
                if end > self.words.len() || !label.iter().enumerate().all(says) {
                    continue;
                }
                found.push((kind, start, end));
                let id = |at: usize| self.ids.get(at).copied().flatten();
                let is_act = !id(end - 1).is_some_and(|word| language.automaton.alone(word) != Kinds::NONE);
                while is_act && end < self.words.len() && language.is_glue(id(end)) {
                    end += 1;
                    found.push((kind, start, end));
                }
            }
        }
        found
    }

    fn why_not(&self, language: &Language, parse: &Parse) -> Why {
        // The first word that is in no table; failing that, the word after the longest beginning that was read.
        let unknown = (0..self.words.len()).find(|index| {
            let id = self.ids.get(*index).copied().flatten();
            !id.is_some_and(|word| language.automaton.knows(word)) && !language.is_glue(id)
        });
        let at = unknown.unwrap_or(parse.furthest.min(self.words.len().saturating_sub(1)));
        Why::Unknown(self.words.get(at).to_owned())
    }

    fn verdict(&self, language: &Language, parse: &Parse) -> Result<Interpreted, Why> {
        let first = |states: &[ReplyState]| states.iter().copied().find(|state| parse.ends_in(*state));
        let says_no = first(&[ReplyState::No, ReplyState::NoLed]);
        let says_yes = first(&[ReplyState::Echoed, ReplyState::Yes, ReplyState::Fine]);
        let fills = first(&[
            ReplyState::Ok,
            ReplyState::Praise,
            ReplyState::ThankedOk,
            ReplyState::Please,
        ]);
        let undecided = || Err(Why::Undecided(self.whole()));
        let state = match (says_yes, says_no, fills) {
            // A doubt cancels a yes, but not a no.
            (Some(_), _, _) | (_, None, _) if parse.is_doubtful => return undecided(),
            (Some(_), Some(_), _) | (_, Some(_), Some(_)) => return Err(Why::Ambiguous(self.whole())),
            (None, Some(no), None) => return Ok(self.decided(parse, no, Reading::No)),
            // A reply that can be read as thanks alone is not an answer, even if another reading of it would be one.
            _ if parse.ends_in(ReplyState::Thanks) => return undecided(),
            (Some(yes), None, _) => yes,
            (None, None, Some(filler)) => filler,
            (None, None, None) => ReplyState::Start,
        };
        let is_enough = parse.ends_in(ReplyState::Enough);
        let asks_for_more = || {
            self.vocabulary()
                .is_some_and(|offer| offer.asks_for_more(language))
        };
        match state {
            _ if is_enough && asks_for_more() => {
                return Ok(self.decided(parse, ReplyState::Enough, Reading::No));
            }
            _ if is_enough => return undecided(),
            ReplyState::Start => return Err(Why::Courtesy(self.whole())),
            ReplyState::Yes | ReplyState::Echoed => {}
            // "Anything else?" takes a full yes; a filler is not enough.
            _ if asks_for_more() => return undecided(),
            _ => {}
        }
        if self.offer.is_nothing() {
            // If nothing was offered, thanks and praise end a conversation.
            let is_farewell = parse
                .pieces(state)
                .iter()
                .any(|piece| piece.kind == PieceKind::Thanks);
            if is_farewell || state == ReplyState::Praise {
                return undecided();
            }
        }
        match state {
            ReplyState::Yes | ReplyState::Echoed | ReplyState::Fine => {
                Ok(self.decided(parse, state, Reading::Yes))
            }
            // In reply to a card, "ok, thanks" often just ends the conversation.
            ReplyState::ThankedOk if self.offer.is_card() => undecided(),
            // Courtesy and praise alone approve nothing.
            ReplyState::Please | ReplyState::Praise => Err(Why::Filler(self.whole())),
            _ if self.offer.needs_yes => Err(Why::Filler(self.whole())),
            _ => Ok(self.decided(parse, state, Reading::Yes)),
        }
    }

    fn decided(&self, parse: &Parse, state: ReplyState, reading: Reading) -> Interpreted {
        let deciding = parse
            .pieces(state)
            .into_iter()
            .filter(|piece| piece.kind.decides());
        let text = |piece: parse::Piece| {
            let words = usize::from(piece.start)..usize::from(piece.end);
            words
                .map(|index| self.words.get(index))
                .collect::<Vec<_>>()
                .join(" ")
        };
        Interpreted {
            reading,
            why: Why::Words(deciding.map(text).collect()),
        }
    }
}

/// Looks up a word; `None` if no table has it. An unknown word with a letter three or more times in a row ("yesssss")
/// is tried again with shorter runs.
fn find(tables: &Tables, word: &str) -> Option<Word> {
    let found = tables.lexicon.find(word);
    if found.is_some() {
        return found;
    }
    let is_stretched = word.chars().zip(word.chars().skip(1)).zip(word.chars().skip(2));
    if !is_stretched.into_iter().any(|((a, b), c)| a == b && b == c) {
        return None;
    }
    [2, 1]
        .into_iter()
        .find_map(|most| tables.lexicon.find(&squeeze(word, most)))
}

/// Shortens every run of one letter to at most `most`.
fn squeeze(word: &str, most: usize) -> String {
    let mut squeezed = String::with_capacity(word.len());
    let mut run = 0;
    for c in word.chars() {
        run = if squeezed.ends_with(c) { run + 1 } else { 1 };
        if run <= most {
            squeezed.push(c);
        }
    }
    squeezed
}
