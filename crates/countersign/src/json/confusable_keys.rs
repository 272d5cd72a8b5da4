//! Detection of member names that some tools treat as equal, such as `amount` and `Amount`.
//!
//! A policy's condition reads one of the two members; a tool that ignores case, spaces or dashes may read the other.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use super::keys;
use crate::display::escape;

/// Finds two members of one object whose names are equal apart from letter case, punctuation and whitespace; `None` if
/// there are none. The names are escaped for display.
pub(crate) fn confusable_keys(bytes: &[u8]) -> Option<(String, String)> {
    let mut seen: HashMap<(String, String), String> = HashMap::new();
    for key in keys(bytes) {
        let parent = key.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        let name = (parent.to_owned(), fold(&key.text));
        match seen.get(&name) {
            Some(other) if *other != key.text => {
                return Some((escape(other).into_owned(), escape(&key.text).into_owned()));
            }
            _ => {
                seen.insert(name, key.text);
            }
        }
    }
    None
}

/// Finds a member, at any depth, whose name is none of `words` but equals one of them apart from letter case, punctuation
/// and whitespace; `None` if there is none. Returns the word and the member's name, escaped for display.
pub(crate) fn similar_key(bytes: &[u8], words: &[String]) -> Option<(String, String)> {
    let folded: HashMap<String, &String> = words.iter().map(|word| (fold(word), word)).collect();
    let mut others = keys(bytes).into_iter().filter(|key| !words.contains(&key.text));
    others.find_map(|key| {
        let word = folded.get(&fold(&key.text))?;
        Some((escape(word).into_owned(), escape(&key.text).into_owned()))
    })
}

fn fold(name: &str) -> String {
    let letters: String = name.nfkc().filter(|c| c.is_alphanumeric()).collect();
    match letters.is_empty() {
        true => name.to_owned(),
        false => letters.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x15_members_that_differ_in_little_are_found() {
        for (text, expected) in [
            (r#"{"amount":1,"Amount":2}"#, true),
            (r#"{"amount":1,"amount ":2}"#, true),
            (r#"{"amount":1,"amount\u0000":2}"#, true),
            (r#"{"amount":1,"amount[]":2}"#, true),
            (r#"{"user_id":1,"userId":2}"#, true),
            (r#"{"a":{"to":1},"b":{"TO":2,"To":3}}"#, true),
            (r#"{"ａmount":1,"amount":2}"#, true),
            (r#"{"amount":1,"account":2}"#, false),
            (r#"{"a":{"to":1},"b":{"TO":2}}"#, false),
            (r#"{"a":[{"to":1},{"To":2}]}"#, false),
            (r#"{"+":1,"-":2}"#, false),
            ("{}", false),
        ] {
            assert_eq!(confusable_keys(text.as_bytes()).is_some(), expected, "{text}");
        }
    }
}
