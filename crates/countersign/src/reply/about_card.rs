//! Determines whether a reply that decides nothing is still about the card: a question, a correction, a request to
//! wait.
//!
//! If it is, the card stays pending while the agent answers, even if other messages cancel it. This result lets no call
//! run, so it may depend on the words of the card, part of which an agent writes.

use std::collections::BTreeSet;

use super::word::{Words, split};
use super::{Interpreted, MOST_WORDS, Offer, Reading, Why, interpret};

/// Maximum number of bytes of a card whose words are compared.
const MOST_BYTES: usize = 32 * 1024;
/// A question of at most this many words is taken to be about the card, in any language: "why?", "¿cuáles son?".
const SHORT_QUESTION: usize = 3;
/// Minimum number of letters that two words need in common at their beginning to count as forms of one word.
const STEM: usize = 4;
/// Maximum number of letters in which two forms of one word differ at their end.
const ENDING: usize = 3;

/// Words that begin a question even without a question mark.
const QUESTION: &[&str] = &[
    "what", "whats", "which", "who", "whose", "whom", "why", "how", "where", "when", "qué", "cuál", "cuáles",
    "quién", "cuántos",
];
/// Words that say nothing about the subject of a question. A question made of these and of words of the card is about
/// the card. Verbs that ask for something else ("show", "find", "list") are left out on purpose.
const SMALL: &[&str] = &[
    "a",
    "about",
    "actually",
    "affect",
    "affected",
    "affects",
    "after",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "back",
    "be",
    "before",
    "being",
    "but",
    "by",
    "can",
    "cannot",
    "cant",
    "card",
    "change",
    "changed",
    "changes",
    "could",
    "did",
    "do",
    "does",
    "doesnt",
    "each",
    "else",
    "everything",
    "exactly",
    "explain",
    "first",
    "for",
    "from",
    "get",
    "gets",
    "go",
    "goes",
    "going",
    "gone",
    "happen",
    "happens",
    "has",
    "have",
    "he",
    "her",
    "here",
    "hey",
    "him",
    "his",
    "hold",
    "how",
    "i",
    "if",
    "in",
    "is",
    "it",
    "its",
    "just",
    "know",
    "last",
    "lose",
    "lost",
    "many",
    "may",
    "me",
    "mean",
    "means",
    "moment",
    "much",
    "my",
    "need",
    "needed",
    "not",
    "of",
    "ok",
    "okay",
    "on",
    "one",
    "ones",
    "only",
    "or",
    "our",
    "out",
    "part",
    "permanent",
    "permanently",
    "please",
    "really",
    "restore",
    "restored",
    "reverse",
    "reversible",
    "right",
    "run",
    "said",
    "same",
    "say",
    "second",
    "she",
    "should",
    "so",
    "some",
    "sorry",
    "still",
    "sure",
    "tell",
    "than",
    "that",
    "thats",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "to",
    "undo",
    "undone",
    "us",
    "wait",
    "was",
    "we",
    "were",
    "what",
    "whats",
    "when",
    "where",
    "which",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "would",
    "wrong",
    "yes",
    "you",
    "your",
    "de",
    "dónde",
    "el",
    "ella",
    "en",
    "es",
    "esa",
    "ese",
    "eso",
    "espera",
    "esta",
    "este",
    "esto",
    "está",
    "exactamente",
    "la",
];
/// Continuation of [`SMALL`] with Spanish words.
const SMALL_SPANISH: &[&str] = &[
    "las", "le", "les", "lo", "los", "me", "no", "para", "pero", "pasa", "pasará", "por", "puede", "puedo",
    "que", "qué", "quién", "se", "ser", "serán", "será", "si", "son", "su", "sus", "también", "todo",
    "todos", "una", "un", "va", "van", "y", "cuál", "cuáles", "cuántos",
];

/// Beginnings of a reply that asks for time.
const WAIT: &[&[&str]] = &[
    &["wait"],
    &["hold", "on"],
    &["hang", "on"],
    &["one", "moment"],
    &["one", "second"],
    &["one", "sec"],
    &["a", "moment"],
    &["just", "a", "moment"],
    &["just", "a", "second"],
    &["give", "me", "a"],
    &["let", "me", "think"],
    &["let", "me", "see"],
    &["let", "me", "check"],
    &["not", "yet"],
    &["hmm"],
    &["hm"],
    &["espera"],
    &["un", "momento"],
    &["déjame"],
    &["warte"],
    &["moment"],
    &["attends"],
    &["aspetta"],
    &["um", "momento"],
];
/// Beginnings of a reply that is a correction, whatever follows.
const CORRECTION: &[&[&str]] = &[
    &["make", "it"],
    &["make", "that"],
    &["make", "them"],
    &["change", "it"],
    &["change", "that"],
    &["it", "should"],
    &["that", "should"],
    &["should", "be"],
    &["all", "but"],
    &["all", "except"],
    &["everything", "but"],
    &["everything", "except"],
    &["everyone", "but"],
    &["everyone", "except"],
    &["leave", "out"],
    &["que", "sea"],
    &["que", "sean"],
    &["cámbialo"],
    &["todos", "menos"],
    &["todas", "menos"],
    &["todo", "menos"],
    &["alle", "ausser"],
];
/// Beginnings of a reply that is a correction only if a word of the card or a number follows.
const CORRECTION_OF: &[&str] = &[
    "change", "correct", "drop", "except", "fix", "instead", "just", "make", "not", "only", "rather",
    "remove", "rename", "replace", "set", "skip", "use", "with", "without", "cambia", "solo", "sin",
];
/// Verbs that ask for something else: "just show me my contacts".
const REQUEST: &[&str] = &[
    "display", "fetch", "find", "get", "give", "list", "look", "open", "read", "search", "show", "tell",
    "muestra", "busca",
];
/// Words that may come before a correction and do not change it.
const LEADING: &[&str] = &["actually", "oh", "please", "sorry", "and", "well"];
/// Words before the name of a value: "her email is …".
const OWNER: &[&str] = &[
    "her", "his", "its", "their", "the", "my", "our", "your", "su", "sus", "el", "la",
];
/// Words that join a correction to a yes: "yes but …".
const BUT: &[&str] = &[
    "but", "except", "only", "with", "without", "pero", "aber", "mais", "mas", "ma",
];

/// The words of a card, and the names of its values.
#[derive(Debug, Default)]
pub(crate) struct CardWords {
    words: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl CardWords {
    /// Collects words from texts, and names of values, up to a limit in bytes.
    pub(crate) fn of<'t>(
        texts: impl IntoIterator<Item = std::borrow::Cow<'t, str>>,
        names: impl IntoIterator<Item = String>,
    ) -> CardWords {
        let mut card = CardWords::default();
        let mut room = MOST_BYTES;
        for text in texts {
            let Some(left) = room.checked_sub(text.len()) else {
                break;
            };
            room = left;
            card.words.extend(split(&text));
        }
        for name in names.into_iter().take(MOST_BYTES / 32) {
            card.names.extend(split(&name.replace(['_', '-'], " ")));
        }
        card
    }

    /// Returns true if the card has this word, or another form of it.
    fn has(&self, word: &str) -> bool {
        self.names.contains(word)
            || self.words.contains(word)
            || self.words.iter().any(|known| is_form_of(known, word))
    }
}

/// Returns true if the reply, which was read as [`Reading::Other`] because of `why`, is about the card.
pub(crate) fn is_about_card(
    offer: &Offer<'_>,
    text: &str,
    why: &Why,
    language: Option<&str>,
    card: &CardWords,
) -> bool {
    match why {
        Why::Undecided(_) | Why::Courtesy(_) | Why::Empty => return true,
        // A program may have written the reply, or the reply does not look as it reads.
        Why::Hidden(_) | Why::TooLong => return false,
        _ => {}
    }
    let Some(read) = Words::of(text, MOST_WORDS) else {
        return false;
    };
    let words: Vec<&str> = read.iter().collect();
    asks_to_wait(&words)
        || asks_about(&words, read.is_question, card)
        || corrects(&words, card)
        || begins_with_yes(offer, text, language)
}

/// Returns true if the reply begins with a no and continues: "no, make it 50".
pub(crate) fn begins_with_no(offer: &Offer<'_>, text: &str, language: Option<&str>) -> bool {
    beginning(text).is_some_and(|head| interpret(offer, head, language).reading == Reading::No)
}

fn asks_to_wait(words: &[&str]) -> bool {
    WAIT.iter().any(|start| words.starts_with(start))
}

fn asks_about(words: &[&str], has_question_mark: bool, card: &CardWords) -> bool {
    if has_question_mark && words.len() <= SHORT_QUESTION {
        return true;
    }
    let is_question = has_question_mark || words.first().is_some_and(|first| QUESTION.contains(first));
    let is_small = |word: &str| SMALL.contains(&word) || SMALL_SPANISH.contains(&word);
    is_question && words.iter().all(|word| is_small(word) || card.has(word))
}

fn corrects(words: &[&str], card: &CardWords) -> bool {
    let leading = words.iter().take_while(|word| LEADING.contains(word)).count();
    let words = words.get(leading..).unwrap_or_default();
    if CORRECTION.iter().any(|start| words.starts_with(start)) {
        return true;
    }
    let has_digits = |word: &&str| word.chars().any(|c| c.is_ascii_digit());
    match words {
        [first, rest @ ..] if CORRECTION_OF.contains(first) => {
            let is_small = |word: &str| SMALL.contains(&word);
            let is_of_card = |word: &&str| has_digits(word) || (!is_small(word) && card.has(word));
            rest.iter().any(is_of_card) && !rest.iter().any(|word| REQUEST.contains(word))
        }
        [owner, name, ..] if OWNER.contains(owner) => card.names.contains(*name),
        [name, is, ..] => card.names.contains(*name) && matches!(*is, "is" | "should" | "es"),
        _ => false,
    }
}

/// Returns true if the reply begins with a yes and continues: "yes, but her email is …". Such a reply approves nothing.
fn begins_with_yes(offer: &Offer<'_>, text: &str, language: Option<&str>) -> bool {
    let is_yes = |head: &str| {
        let Interpreted { reading, why } = interpret(offer, head, language);
        matches!(reading, Reading::Yes | Reading::Part(_)) || matches!(why, Why::Filler(_))
    };
    beginning(text).is_some_and(is_yes)
}

/// Returns the text before the first comma, other punctuation mark or joining word such as "but". `None` if there is no
/// text before or after it.
fn beginning(text: &str) -> Option<&str> {
    let text = text.trim();
    let at_mark = text.find([',', ';', ':', '.', '!', '–', '—', '\n', '，', '、', '。']);
    let mut start = 0;
    let at_word = text.split_inclusive(char::is_whitespace).find_map(|word| {
        let at = start;
        start += word.len();
        let is_but = BUT.contains(&word.trim().to_lowercase().as_str());
        (is_but && at > 0).then_some(at)
    });
    let end = match (at_mark, at_word) {
        (Some(mark), Some(word)) => mark.min(word),
        (mark, word) => mark.or(word)?,
    };
    let (head, rest) = text.split_at_checked(end)?;
    let has_more = rest.chars().any(char::is_alphanumeric);
    (has_more && !head.trim().is_empty()).then(|| head.trim())
}

/// Returns true if two words look like forms of one word: "delete" and "deleted".
fn is_form_of(known: &str, word: &str) -> bool {
    let common = known.chars().zip(word.chars()).take_while(|(a, b)| a == b);
    let common = common.count();
    let ending = |word: &str| word.chars().count().saturating_sub(common);
    common >= STEM && ending(known) <= ENDING && ending(word) <= ENDING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Bare;

    fn card() -> CardWords {
        let texts = [
            "Delete page “About Us” and its 3 sections",
            "Maria Garcia",
            "maria@acme.com",
        ];
        let names = ["name", "email", "first_name"];
        CardWords::of(
            texts.into_iter().map(std::borrow::Cow::Borrowed),
            names.into_iter().map(str::to_owned),
        )
    }

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let offer = Offer::from(Bare::default());
        let read = interpret(&offer, text, None);
        assert_eq!(read.reading, Reading::Other, "reply `{text}`: {}", read.why);
        let found = is_about_card(&offer, text, &read.why, None, &card());
        assert_eq!(found, expected, "reply `{text}`: {}", read.why);
    }

    #[test]
    fn c9_questions_about_the_card() {
        check("wait, what will be deleted?", true);
        check("which ones?", true);
        check("why?", true);
        check("¿cuáles?", true);
        check("pourquoi ?", true);
        check("what will be deleted", true);
        check("which sections are these?", true);
        check("can this be undone?", true);
        check("how many sections does it have?", true);
        check("what is the weather like", false);
        check("can you show me my pipeline?", false);
        check("can you find Maria Garcia?", false);
    }

    #[test]
    fn e1_corrections_of_the_card() {
        check("yes, but her email is zoe@x.com", true);
        check("yes but with zoe@x.com", true);
        check("sí, pero con otro correo", true);
        check("make it 50", true);
        check("all but maria", true);
        check("her email is zoe@x.com", true);
        check("email is zoe@x.com", true);
        check("use zoe@x.com for maria", true);
        check("actually, show me my pipeline", false);
        check("actually, make it 50", true);
        check("actually, show me the pages", false);
        check("just show me my pipeline", false);
        check("just show me the pages", false);
        check("show me my contacts", false);
        check("find maria", false);
    }

    #[test]
    fn a7_what_begins_with_a_no_is_known() {
        let offer = Offer::from(Bare::default());
        assert!(begins_with_no(&offer, "no, make it 50", None));
        assert!(!begins_with_no(&offer, "now, make it 50", None));
        assert!(!begins_with_no(&offer, "no", None));
    }
}
