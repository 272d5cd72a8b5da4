//! Links, mail addresses and paths in a text; each counts as stated only as a whole.
//!
//! Input: a text and a byte range in it. Output: whether the range covers only part of an address. For example,
//! `https://acme.com` is not stated by `https://acme.com/a?b`, `https://acme.com@example.net` or
//! `https://acme.com.example.net`, nor `acme.com` by `maria@acme.com`, nor `/home/ana` by `/home/ana/notes.txt`.

use std::ops::Range;

use super::text::is_inside_word;

/// Maximum distance in bytes, to either side, within which an address is searched.
const FARTHEST: usize = 2048;

/// Returns true if `text[from..to]` covers only part of an address. A missing scheme, `www.` or trailing slash is
/// ignored.
pub(super) fn is_cut(text: &str, from: usize, to: usize) -> bool {
    let token = token(text, from, to);
    let addresses = addresses_in(text, token);
    addresses.into_iter().any(|address| {
        let overlaps = address.start < to && from < address.end;
        let before = text
            .get(address.start..from.max(address.start))
            .unwrap_or_default();
        let after = text.get(to.min(address.end)..address.end).unwrap_or_default();
        overlaps && !(is_scheme(before) && matches!(after, "" | "/"))
    })
}

/// Finds every address in a text, in order.
pub(super) fn all(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for (index, character) in text.char_indices() {
        if is_boundary(character) {
            if at < index {
                found.extend(addresses_in(text, at..index));
            }
            at = index + character.len_utf8();
        }
    }
    found.extend(addresses_in(text, at..text.len()));
    found
}

/// Returns the token around `text[from..to]`, delimited by whitespace, quotes and similar characters.
fn token(text: &str, from: usize, to: usize) -> Range<usize> {
    let head = text.get(..from).unwrap_or_default();
    let start = head
        .char_indices()
        .rev()
        .take_while(|(at, character)| from - at <= FARTHEST && !is_boundary(*character))
        .last()
        .map_or(from, |(at, _)| at);
    let tail = text.get(to..).unwrap_or_default();
    let end = tail
        .char_indices()
        .find(|(at, character)| *at > FARTHEST || is_boundary(*character))
        .map_or(text.len(), |(at, _)| to + at);
    start..end
}

/// Returns true for characters that never occur in an address.
fn is_boundary(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '"' | '<' | '>' | '`' | '{' | '}' | '|' | '^' | '\u{2018}'..='\u{201f}'
        )
        || !character.is_ascii() && !is_inside_word(character)
}

/// Finds the addresses in `piece`, a range of the text that may contain several words.
fn addresses_in(text: &str, piece: Range<usize>) -> Vec<Range<usize>> {
    let Some(words) = text.get(piece.clone()) else {
        return Vec::new();
    };
    if !words.contains(['@', '/', '\\']) && !words.contains("www.") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = piece.start;
    for word in words.split_inclusive(is_boundary) {
        let end = at + word.len();
        let bare = word.trim_end_matches(is_boundary);
        found.extend(addresses_in_word(bare).map(|place| at + place.start..at + place.end));
        at = end;
    }
    found
}

fn addresses_in_word(word: &str) -> impl Iterator<Item = Range<usize>> {
    let link = link(word);
    let rest = link.as_ref().map_or(word.len(), |link| link.start);
    let head = word.get(..rest).unwrap_or_default();
    let path = match link {
        None => path(word),
        Some(_) => None,
    };
    let mails: Vec<Range<usize>> = match path {
        Some(_) => Vec::new(),
        None => mails(head),
    };
    link.into_iter().chain(path).chain(mails)
}

/// Finds the link in a word, from its scheme or `www.` to the end, without trailing punctuation and brackets. `None` if
/// the word contains neither a scheme nor `www.`.
fn link(word: &str) -> Option<Range<usize>> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    let with_scheme = word.find("://").map(|at| {
        let scheme = word.get(..at).unwrap_or_default();
        scheme.trim_end_matches(is_scheme).len()
    });
    let start = with_scheme.or_else(|| {
        let at = word.find("www.")?;
        let before = word.get(..at)?.chars().next_back();
        (!before.is_some_and(|c| is_inside_word(c) || matches!(c, '.' | '-' | '@'))).then_some(at)
    })?;
    Some(start..start + trimmed(word.get(start..)?).len())
}

fn trimmed(word: &str) -> &str {
    let closing = ['.', ',', ';', ':', '!', '?', '\'', '(', ')', '[', ']', '*', '\\'];
    word.trim_end_matches(closing)
}

/// Returns true if `before`, the start of a link, does not change the link's target: a web scheme, `www.` or `./`.
fn is_scheme(before: &str) -> bool {
    let before = before.to_ascii_lowercase();
    let rest = before.strip_suffix("www.").unwrap_or(&before);
    matches!(rest, "" | "http://" | "https://" | "./")
}

fn mails(word: &str) -> Vec<Range<usize>> {
    let is_name = |c: char| is_inside_word(c) || matches!(c, '.' | '_' | '%' | '+' | '-');
    let is_host = |c: char| is_inside_word(c) || matches!(c, '.' | '-' | '_' | '@');
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in word.match_indices('@') {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let head = word.get(..at).unwrap_or_default();
        let start = head.trim_end_matches(is_name).len();
        let tail = word.get(at + 1..).unwrap_or_default();
        let host = tail.split(|c| !is_host(c)).next().unwrap_or_default();
        let host = host.trim_end_matches(['.', '-', '_']);
        if start < at && !host.is_empty() {
            found.push(start..at + 1 + host.len());
        }
    }
    found
}

/// Finds a path: a text that begins like one, or whose last component looks like a file name. `None` if there is none;
/// `and/or` is not a path.
fn path(word: &str) -> Option<Range<usize>> {
    let is_path =
        |c: char| is_inside_word(c) || matches!(c, '/' | '\\' | '.' | '_' | '-' | '~' | '+' | '%' | '$');
    let separator = word.find(['/', '\\'])?;
    let head = word.get(..separator)?;
    let mut start = head.trim_end_matches(is_path).len();
    // A path on a Windows drive: `C:\notes`.
    let drive = word
        .get(..start)?
        .strip_suffix(':')
        .and_then(|before| before.chars().next_back());
    if drive.is_some_and(|c| c.is_ascii_alphabetic()) && start == separator {
        start = start.saturating_sub(2);
    }
    let tail = word.get(separator..)?;
    let length = tail.find(|c| !is_path(c)).unwrap_or(tail.len());
    let path = trimmed(word.get(start..separator + length)?);
    let last = path.rsplit(['/', '\\']).find(|step| !step.is_empty())?;
    let has_extension = last.rsplit_once('.').is_some_and(|(name, extension)| {
        !name.is_empty()
            && (1..=5).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.contains(|c: char| c.is_ascii_alphabetic())
    });
    let begins = path.starts_with(['/', '~', '\\']) || path.starts_with("./") || path.starts_with("../");
    let is_drive = path.get(1..3).is_some_and(|two| matches!(two, ":\\" | ":/"));
    let has_steps = path.contains(|c: char| c.is_alphabetic());
    (has_steps && (begins || is_drive || has_extension)).then(|| start..start + path.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_whole() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<&str> = all(text).into_iter().map(|at| text.get(at).unwrap()).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("see https://acme.com/a?b=c#d.", &["https://acme.com/a?b=c#d"]);
        check("(https://acme.com/a), then", &["https://acme.com/a"]);
        check("[it](https://acme.com/a).", &["https://acme.com/a"]);
        check("https://acme.com/a,b and on", &["https://acme.com/a,b"]);
        check("https://acme.com@example.net", &["https://acme.com@example.net"]);
        check(
            r#"{"u":"https://acme.com/a","m":"m@acme.com"}"#,
            &["https://acme.com/a", "m@acme.com"],
        );
        check(
            "mail maria@acme.com, bo@acme.com.",
            &["maria@acme.com", "bo@acme.com"],
        );
        check("a@acme.com,b@acme.com", &["a@acme.com", "b@acme.com"]);
        check("in /home/ana/notes.txt", &["/home/ana/notes.txt"]);
        check(r"C:\Users\ana\a.txt it is", &[r"C:\Users\ana\a.txt"]);
        check("docs/plan.docx or and/or 10/20", &["docs/plan.docx"]);
        check("www.acme.com/a!", &["www.acme.com/a"]);
        check("@maria said 5/6", &[]);
    }
}
