//! Reading a reply: what a person's own words say to what was offered.
//!
//! Enters: the offer, the text, and the language if it is known. Leaves: yes, no or other, and which words decided.
//! Deliberately absent: models, guesses and memory. The same words to the same offer are always read the same way.
//!
//! A reply is yes or no only if *every* word of it belongs to a known piece (see [`kind`]) and the pieces make sense
//! one behind the other. One unknown word, a question, a number that was not offered, a condition: other.

mod card;
mod echo;
mod grammar;
mod kind;
mod language;
mod lexicon;
mod offer;
mod parse;
mod part;
#[cfg(test)]
mod tests;
mod undo;
mod why;
mod word;

pub use kind::Kind;
pub use offer::{Bare, Offer};
pub use part::Part;
pub use undo::asks_for_undo;
pub use why::Why;

use echo::Vocabulary;
use kind::{Kinds, Stand};
use language::{Language, Tables, tables};
use lexicon::Word;
use parse::{MOST_WORDS, Parse};
use word::{Words, code, split, unwrapped};

/// What a reply says to the pending approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Plainly yes.
    Yes,
    /// Plainly no.
    No,
    /// Plainly yes, to these of several things.
    Part(Part),
    /// Anything else: a question, a change of plan, another subject.
    Other,
}

impl Reading {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Reading::Yes => "yes",
            Reading::No => "no",
            Reading::Part(_) => "part",
            Reading::Other => "other",
        }
    }
}

/// A reading, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreted {
    /// What the reply says.
    pub reading: Reading,
    /// What decided.
    pub why: Why,
}

/// The longest reply that is read; nobody needs more to say yes.
const LONGEST: usize = 1024;

/// Reads a reply to what was offered.
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
    let read = match part::part(&words, offer.numbered) {
        Some(part) => Interpreted {
            reading: Reading::Part(part),
            why: Why::Words(vec![words.iter().collect::<Vec<_>>().join(" ")]),
        },
        None => Reader::new(offer, &words, language).read()?,
    };
    // INVARIANT: a card is approved in plain words of its own language, or by naming its act (X54, X55).
    let is_plain = || {
        let said = language.filter(|tag| !tag.is_empty());
        matches!(read.why, Why::Offered(_)) || card::approves(tables(), offer, &words, said)
    };
    if read.reading == Reading::Yes && offer.is_card() && !is_plain() {
        return Err(Why::Undecided(words.iter().collect::<Vec<_>>().join(" ")));
    }
    // Programs write like that; a no is taken from anybody.
    match read.reading {
        Reading::No => Ok(read),
        _ => code(text).map_or(Ok(read), |code| Err(Why::Code(code))),
    }
}

/// One reply on its way through the languages.
struct Reader<'a> {
    tables: &'static Tables,
    offer: &'a Offer<'a>,
    words: &'a Words,
    ids: Vec<Option<Word>>,
    /// Places inside words with a hyphen, by bit.
    hyphens: u128,
    /// The language the person is said to speak.
    tag: Option<&'a str>,
    vocabulary: std::cell::OnceCell<Option<Vocabulary<'a>>>,
}

impl<'a> Reader<'a> {
    fn new(offer: &'a Offer<'a>, words: &'a Words, tag: Option<&'a str>) -> Reader<'a> {
        let tables = tables();
        let ids = words.iter().map(|word| find(tables, word)).collect();
        Reader {
            tables,
            offer,
            words,
            ids,
            hyphens: words.hyphens(),
            tag: tag.filter(|tag| !tag.is_empty()),
            vocabulary: std::cell::OnceCell::new(),
        }
    }

    /// The offer's words, read only when they matter.
    fn vocabulary(&self) -> Option<&Vocabulary<'a>> {
        let read = || Vocabulary::new(self.tables, self.offer, self.words);
        self.vocabulary.get_or_init(read).as_ref()
    }

    fn read(&self) -> Result<Interpreted, Why> {
        if let Some(answer) = self.label() {
            return answer;
        }
        self.plain()
    }

    /// What the words say by themselves: in the person's language, else in the card's, else in any.
    fn plain(&self) -> Result<Interpreted, Why> {
        match (self.tag, self.offer.language()) {
            (Some(tag), _) => self.in_language(tag),
            (None, Some(tag)) => self.in_language_of_card(tag),
            (None, None) => self.in_any_language(),
        }
    }

    /// Whoever answers a card can read its language. Only what means nothing in it, nor in English, may be another's.
    fn in_language_of_card(&self, tag: &str) -> Result<Interpreted, Why> {
        match self.in_language(tag) {
            Err(why) if !matches!(why, Why::Filler(_)) => {
                self.in_any_language().map_err(|other| match other {
                    Why::Ambiguous(_) | Why::Filler(_) => other,
                    _ => why,
                })
            }
            read => read,
        }
    }

    /// The whole reply is what a button says, or a side of a pair such as `y/n`.
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
        // A button that says "Cancel order" is no reason to take a "cancel" for a yes.
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

    /// English from somebody whose language is another one. A single word may be a word of theirs.
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
            // A word of the offer may stand in any language.
            match self.tables.known(*word) {
                0 => known,
                languages => known & languages,
            }
        });
        if self.ids.iter().all(|word| self.tables.known(*word) == 0) {
            // An act of some language, named as the prompt names it; or no word of any.
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
                    // Understood as neither yes nor no, if only in one language, is not a yes.
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
            // A letter of one locale is no answer from somebody whose locale is not known.
            (None, (true, false)) if self.is_too_short() || whole.chars().count() == 1 => {
                Err(Why::Ambiguous(whole))
            }
            (None, (true, false)) => Ok(self.said(true)),
            (None, (false, true)) => Ok(self.said(false)),
            (None, _) => Err(failure.unwrap_or_else(|| self.unknown())),
        }
    }

    /// Two letters are a word of some language for nearly everything; only these are known well enough.
    fn is_too_short(&self) -> bool {
        let word = self.words.get(0);
        self.words.len() == 1 && word.is_ascii() && word.len() < 3 && !matches!(word, "ok" | "si" | "ja")
    }

    /// A word that flips its meaning between locales counts only when the prompt itself used it, in English.
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
            // Most other messages end here: a word that is in no piece and not the offer's either.
            let id = |at: usize| self.ids.get(at).copied().flatten();
            let may_echo = |at: &usize| {
                let is_offered = |offer: &Vocabulary<'_>| offer.may_echo(language, *at, id(*at));
                language.is_glue(id(*at)) || self.vocabulary().is_some_and(is_offered)
            };
            if let Some(at) = unknown.into_iter().find(|at| !may_echo(at)) {
                return Err(Why::Unknown(self.words.get(at).to_owned()));
            }
        }
        // Only now the offer matters: some words may be its own.
        let parse =
            parse.unwrap_or_else(|| Parse::of(&self.ids, language, self.vocabulary(), &labels, barred));
        if !parse.is_whole() {
            return Err(self.why_not(language, &parse));
        }
        self.verdict(language, &parse)
    }

    /// Where in the reply the words of a button stand. Behind a label that names an act, "it" and the like belong to it.
    fn labels(&self, language: &Language) -> Vec<(Kind, usize, usize)> {
        let mut found = Vec::new();
        let (yes, no) = (self.offer.yes.as_deref(), self.offer.no.as_deref());
        for (label, kind) in [(yes, Kind::Yes), (no, Kind::No)] {
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
        // The first word that no piece could take, or failing that the one after the longest beginning.
        let unknown = (0..self.words.len()).find(|index| {
            let id = self.ids.get(*index).copied().flatten();
            !id.is_some_and(|word| language.automaton.knows(word)) && !language.is_glue(id)
        });
        let at = unknown.unwrap_or(parse.furthest.min(self.words.len().saturating_sub(1)));
        Why::Unknown(self.words.get(at).to_owned())
    }

    fn verdict(&self, language: &Language, parse: &Parse) -> Result<Interpreted, Why> {
        let first = |stands: &[Stand]| stands.iter().copied().find(|stand| parse.ends_in(*stand));
        let says_no = first(&[Stand::No, Stand::NoLed]);
        let says_yes = first(&[Stand::Echoed, Stand::Yes, Stand::Fine]);
        let fills = first(&[Stand::Ok, Stand::Praise, Stand::ThankedOk, Stand::Please]);
        let undecided = || Err(Why::Undecided(self.whole()));
        let stand = match (says_yes, says_no, fills) {
            // Doubts take nothing from a no.
            (Some(_), _, _) | (_, None, _) if parse.is_doubtful => return undecided(),
            (Some(_), Some(_), _) | (_, Some(_), Some(_)) => return Err(Why::Ambiguous(self.whole())),
            (None, Some(no), None) => return Ok(self.decided(parse, no, Reading::No)),
            // Thanks in so many words are not an answer, however they can be taken apart.
            _ if parse.ends_in(Stand::Thanks) => return undecided(),
            (Some(yes), None, _) => yes,
            (None, None, Some(filler)) => filler,
            (None, None, None) => Stand::Start,
        };
        let is_enough = parse.ends_in(Stand::Enough);
        let asks_for_more = || {
            self.vocabulary()
                .is_some_and(|offer| offer.asks_for_more(language))
        };
        match stand {
            _ if is_enough && asks_for_more() => {
                return Ok(self.decided(parse, Stand::Enough, Reading::No));
            }
            _ if is_enough => return undecided(),
            Stand::Start => return Err(Why::Courtesy(self.whole())),
            Stand::Yes | Stand::Echoed => {}
            // To "anything else?" only a yes is one.
            _ if asks_for_more() => return undecided(),
            _ => {}
        }
        if self.offer.is_nothing() {
            // Where nothing was offered, thanks and praise are the end of a conversation.
            let is_farewell = parse.pieces(stand).iter().any(|piece| piece.kind == Kind::Thanks);
            if is_farewell || stand == Stand::Praise {
                return undecided();
            }
        }
        match stand {
            Stand::Yes | Stand::Echoed | Stand::Fine => Ok(self.decided(parse, stand, Reading::Yes)),
            // Courtesy and praise let nothing happen by themselves.
            Stand::Please | Stand::Praise => Err(Why::Filler(self.whole())),
            _ if self.offer.needs_yes => Err(Why::Filler(self.whole())),
            _ => Ok(self.decided(parse, stand, Reading::Yes)),
        }
    }

    fn decided(&self, parse: &Parse, stand: Stand, reading: Reading) -> Interpreted {
        let deciding = parse
            .pieces(stand)
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

/// Finds a word; letters that were held down are let go.
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

/// The word with no letter more than `most` times in a row.
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
