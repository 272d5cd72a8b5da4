//! The languages: their tables, compiled on first use, and the yes and no words of every locale.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::grammar::{Automaton, Table, TableProblem};
use super::kind::PieceKind;
use super::lexicon::{FastMap, Lexicon, Word};
use super::word::{Words, split};

/// Languages with a file of their own. The first tag names the language; the others share its table.
const RICH: [(&str, &str); 14] = [
    ("en", include_str!("tables/english.txt")),
    ("es", include_str!("tables/spanish.txt")),
    ("de gsw", include_str!("tables/german.txt")),
    ("fr", include_str!("tables/french.txt")),
    ("pt", include_str!("tables/portuguese.txt")),
    ("it", include_str!("tables/italian.txt")),
    ("nl", include_str!("tables/dutch.txt")),
    ("pl", include_str!("tables/polish.txt")),
    ("tr", include_str!("tables/turkish.txt")),
    ("ar", include_str!("tables/arabic.txt")),
    ("hi", include_str!("tables/hindi.txt")),
    ("ja", include_str!("tables/japanese.txt")),
    ("ko", include_str!("tables/korean.txt")),
    ("zh yue", include_str!("tables/chinese.txt")),
];

/// Tables of languages with few phrases. Each table follows a line `@ TAG …` with the tags of its language.
const SHORT: &str = include_str!("tables/others.txt");
/// Phrases that look like a yes but are none. Those of each language follow a line `@ TAG`.
const DOUBTS: &str = include_str!("tables/doubts.txt");
const UNIVERSAL: &str = include_str!("tables/universal.txt");
/// Yes and no words of locales; see the comment in the file.
const LOCALES: &str = include_str!("tables/locales.tsv");

static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables::build().unwrap_or_default());

/// Returns all languages. A mistake in a table would leave none, so that every reply reads as `Other`; a test builds
/// the tables to detect that.
pub(super) fn tables() -> &'static Tables {
    &TABLES
}

/// The tables of all languages.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) lexicon: Lexicon,
    pub(super) languages: Vec<Language>,
    /// By word id: the languages, one bit each, that have the word in a pattern or as a glue word.
    known: Vec<u64>,
    tags: HashMap<&'static str, usize>,
    locales: HashMap<String, Locale>,
    /// For each whole reply, two flags: whether it means yes in some locale, and whether it means no in some locale.
    anywhere: HashMap<String, (bool, bool)>,
    longest_phrase: usize,
}

#[derive(Debug)]
pub(super) struct Language {
    pub(super) tag: &'static str,
    pub(super) automaton: Automaton,
    marks: Vec<u8>,
    acts: FastMap<Word, u64>,
}

/// Yes and no words of one locale.
#[derive(Debug, Default)]
struct Locale {
    yes: Vec<String>,
    no: Vec<String>,
}

const GLUE: u8 = 1;
const STOP: u8 = 2;
const INTERNATIONAL: u8 = 4;
const MORE: u8 = 8;
const ACT: u8 = 16;
const REFUSAL: u8 = 32;

impl Language {
    fn is(&self, word: Option<Word>, mark: u8) -> bool {
        let marks = word.and_then(|word| self.marks.get(word.0 as usize));
        marks.is_some_and(|marks| marks & mark != 0)
    }

    /// Returns true for a glue word such as "the" or "it", which may occur anywhere in an echo.
    pub(super) fn is_glue(&self, word: Option<Word>) -> bool {
        self.is(word, GLUE)
    }

    /// Returns true for a word that is never part of an echo, because it reverses or narrows the meaning.
    pub(super) fn is_stop(&self, word: Option<Word>) -> bool {
        self.is(word, STOP)
    }

    /// Returns true for a word that speakers of all languages use.
    pub(super) fn is_international(&self, word: Option<Word>) -> bool {
        self.is(word, INTERNATIONAL)
    }

    /// Returns true for a word by which a prompt asks for more to do.
    pub(super) fn asks_for_more(&self, word: Option<Word>) -> bool {
        self.is(word, MORE)
    }

    /// Returns true for a word that names an act.
    pub(super) fn is_act(&self, word: Option<Word>) -> bool {
        self.is(word, ACT)
    }

    /// Returns true for a word that refuses when it stands alone, or that names the same act as such a word
    /// (`cancellation`).
    pub(super) fn is_refusal(&self, word: Option<Word>) -> bool {
        self.is(word, REFUSAL)
    }

    /// Returns true if the word alone agrees: a yes, a filler, praise or a please.
    pub(super) fn agrees(&self, word: Option<Word>) -> bool {
        let kinds = word.map(|word| self.automaton.alone(word)).unwrap_or_default();
        [
            PieceKind::Yes,
            PieceKind::Fine,
            PieceKind::Ok,
            PieceKind::Praise,
            PieceKind::Please,
        ]
        .into_iter()
        .any(|kind| kinds.has(kind))
    }

    /// Returns the groups of synonyms that the word belongs to, as bits. Tables with more than 64 groups share bits.
    pub(super) fn acts(&self, word: Option<Word>) -> u64 {
        word.and_then(|word| self.acts.get(&word)).copied().unwrap_or(0)
    }
}

impl Tables {
    pub(super) fn build() -> Result<Tables, TableProblem> {
        let mut tables = Tables::default();
        tables.read_locales();
        let rich = RICH.map(|(tags, text)| (tags, text.to_owned()));
        for (tags, text) in rich.into_iter().chain(blocks(SHORT)) {
            tables.add(tags, &text)?;
        }
        tables.lexicon.add_plain_forms();
        Ok(tables)
    }

    fn add(&mut self, tags: &'static str, text: &str) -> Result<(), TableProblem> {
        let number = self.languages.len();
        let mut table = Table::default();
        table.read(UNIVERSAL, &mut self.lexicon)?;
        table.read(text, &mut self.lexicon)?;
        let tag = tags.split_whitespace().next().unwrap_or_default();
        for (_, doubts) in blocks(DOUBTS).into_iter().filter(|(tags, _)| *tags == tag) {
            table.read(&doubts, &mut self.lexicon)?;
        }
        for tag in tags.split_whitespace() {
            self.tags.insert(tag, number);
        }
        if let Some(locale) = self.locales.get(tag) {
            for (kind, phrases) in [(PieceKind::Yes, &locale.yes), (PieceKind::No, &locale.no)] {
                // Single letters count only as a whole reply: see `Tables::locale`.
                for phrase in phrases.iter().filter(|phrase| phrase.chars().count() > 1) {
                    table.add(kind, phrase, &mut self.lexicon);
                }
            }
        }
        let mut language = Language {
            tag,
            automaton: table.compile(),
            marks: vec![0; self.lexicon.len()],
            acts: FastMap::default(),
        };
        let bit = 1u64
            .checked_shl(u32::try_from(number).unwrap_or(u32::MAX))
            .unwrap_or(0);
        self.known.resize(self.lexicon.len(), 0);
        let refuses = |word: &Word| language.automaton.alone(*word).has(PieceKind::No);
        let mut refusals: Vec<Word> = table.words.iter().copied().filter(refuses).collect();
        for (_, words) in table.lists.iter().filter(|(list, _)| *list == "acts") {
            if words.iter().any(refuses) {
                refusals.extend(words);
            }
        }
        for word in refusals {
            if let Some(marks) = language.marks.get_mut(word.0 as usize) {
                *marks |= REFUSAL;
            }
        }
        let mut group = 1u64;
        for (list, words) in &table.lists {
            let mark = match *list {
                "glue" => GLUE,
                "stop" => STOP,
                "international" => INTERNATIONAL,
                "more" => MORE,
                "acts" => ACT,
                _ => 0,
            };
            let is_group = matches!(*list, "acts" | "same");
            for word in words {
                if let Some(marks) = language.marks.get_mut(word.0 as usize) {
                    *marks |= mark;
                }
                if is_group {
                    *language.acts.entry(*word).or_default() |= group;
                }
                if mark == GLUE
                    && let Some(known) = self.known.get_mut(word.0 as usize)
                {
                    *known |= bit;
                }
            }
            if is_group {
                group = group.rotate_left(1);
            }
        }
        for word in &table.words {
            if let Some(known) = self.known.get_mut(word.0 as usize) {
                *known |= bit;
            }
        }
        self.languages.push(language);
        Ok(())
    }

    fn read_locales(&mut self) {
        let rows = LOCALES.lines().filter(|line| !line.starts_with('#'));
        for row in rows {
            let mut columns = row.split('\t');
            let (Some(tag), Some(yes), Some(no)) = (columns.next(), columns.next(), columns.next()) else {
                continue;
            };
            let phrases = |list: &str| -> Vec<String> {
                let phrases = list.split('|').map(|phrase| split(phrase).join(" "));
                phrases.filter(|phrase| !phrase.is_empty()).collect()
            };
            let locale = Locale {
                yes: phrases(yes),
                no: phrases(no),
            };
            for phrase in locale.yes.iter().chain(&locale.no) {
                self.longest_phrase = self.longest_phrase.max(phrase.split(' ').count());
            }
            for phrase in &locale.yes {
                self.anywhere.entry(phrase.clone()).or_default().0 = true;
            }
            for phrase in &locale.no {
                self.anywhere.entry(phrase.clone()).or_default().1 = true;
            }
            self.locales.insert(tag.to_owned(), locale);
        }
    }

    /// Returns the language for a tag such as `pt-BR` or `sr_RS@latin`; `None` if no table has it.
    pub(super) fn language(&self, tag: &str) -> Option<&Language> {
        let exact = self.tags.get(tag).copied();
        let shorter = || {
            fallbacks(tag)
                .into_iter()
                .find_map(|tag| self.tags.get(tag.as_str()).copied())
        };
        self.languages.get(exact.or_else(shorter)?)
    }

    /// Returns true if the whole reply means yes in a locale, false if it means no, `None` if it means neither or both.
    pub(super) fn locale(&self, tag: &str, reply: &Words) -> Option<bool> {
        let exact = self.locales.get(tag);
        let shorter = || fallbacks(tag).into_iter().find_map(|tag| self.locales.get(&tag));
        let locale = exact.or_else(shorter)?;
        let says = |phrases: &[String]| phrases.iter().any(|phrase| phrase.split(' ').eq(reply.iter()));
        match (says(&locale.yes), says(&locale.no)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    /// Returns two flags: true if the whole reply means yes in some locale, and true if it means no in some locale.
    pub(super) fn anywhere(&self, reply: &str) -> (bool, bool) {
        self.anywhere.get(reply).copied().unwrap_or_default()
    }

    /// Returns true if one locale uses `yes` for yes and `no` for no: a pair such as `y/n` that a prompt may offer.
    pub(super) fn is_pair(&self, yes: &str, no: &str) -> bool {
        let says = |phrases: &[String], word: &str| phrases.iter().any(|phrase| phrase == word);
        self.locales
            .values()
            .any(|locale| says(&locale.yes, yes) && says(&locale.no, no))
    }

    /// Returns the number of words in the longest phrase of any locale.
    pub(super) fn longest_phrase(&self) -> usize {
        self.longest_phrase
    }

    /// Returns the languages that know the word, one bit each.
    pub(super) fn known(&self, word: Option<Word>) -> u64 {
        let known = word.and_then(|word| self.known.get(word.0 as usize));
        known.copied().unwrap_or(0)
    }

    /// Returns English, the fallback of all other languages. `None` only if the tables could not be built.
    pub(super) fn english(&self) -> Option<&Language> {
        self.languages.first()
    }

    /// Returns the yes and no words of all locales.
    #[cfg(test)]
    pub(super) fn every_locale(&self) -> std::collections::BTreeMap<&str, (&[String], &[String])> {
        let locales = self.locales.iter();
        locales
            .map(|(tag, locale)| (tag.as_str(), (locale.yes.as_slice(), locale.no.as_slice())))
            .collect()
    }
}

/// Returns a tag and its shorter forms, longest first: `sr-latn-rs`, `sr-latn`, `sr`.
fn fallbacks(tag: &str) -> Vec<String> {
    let tag = tag
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase()
        .replace('_', "-");
    let (base, variant) = tag.split_once('@').unwrap_or((&tag, ""));
    let mut forms = Vec::new();
    let primary = base.split('-').next().unwrap_or_default();
    if variant == "latin" {
        forms.push(format!("{primary}-latn"));
    }
    let mut form = base;
    loop {
        forms.push(form.to_owned());
        match form.rsplit_once('-') {
            Some((shorter, _)) => form = shorter,
            None => break,
        }
    }
    let alias = match primary {
        "nb" | "nn" => "no",
        "iw" => "he",
        "in" => "id",
        "tl" => "fil",
        "sh" => "sr-latn",
        _ => return forms,
    };
    forms.push(alias.to_owned());
    forms
}

/// Splits a file that holds several tables into pairs of a table's tags and its text.
fn blocks(text: &'static str) -> Vec<(&'static str, String)> {
    let mut tables: Vec<(&'static str, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("@ ") {
            Some(tags) => tables.push((tags, String::new())),
            None => {
                if let Some((_, text)) = tables.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    tables
}
