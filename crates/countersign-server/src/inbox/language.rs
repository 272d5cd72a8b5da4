//! Language of the pages: English, or Spanish if the browser prefers it or an agent speaks it.
//!
//! Input: a request's `Accept-Language`, or an agent's language. Output: the words of a page in that language. Templates
//! contain the English words, as `t("…")`; `spanish.txt` has the others. What the library writes in English only, such
//! as concerns and notes, stays English.

use std::collections::HashMap;
use std::future::Future;
use std::sync::LazyLock;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

use crate::web::PreferredLanguages;

tokio::task_local! {
    /// Language of the page that this task makes. All of a page is made in the task of its request.
    static LANGUAGE: Language;
}

/// A language that the pages have words for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    #[default]
    English,
    Spanish,
}

impl Language {
    /// Returns the language that the browser prefers among those of the pages.
    pub fn preferred(languages: &PreferredLanguages) -> Language {
        match languages.choose(&["en", "es"]) {
            Some("es") => Language::Spanish,
            _ => Language::English,
        }
    }

    /// Returns the language of a tag such as `es-UY`. `None` if the pages have no words for it.
    pub fn of_tag(tag: &str) -> Option<Language> {
        match tag.split('-').next().map(str::to_ascii_lowercase).as_deref() {
            Some("es") => Some(Language::Spanish),
            Some("en") => Some(Language::English),
            _ => None,
        }
    }

    /// Returns the language of the page that is being made. English outside of a request for a page.
    pub fn current() -> Language {
        LANGUAGE.try_with(|language| *language).unwrap_or_default()
    }

    /// Runs a future whose pages are in this language.
    pub async fn scope<T>(self, future: impl Future<Output = T>) -> T {
        LANGUAGE.scope(self, future).await
    }

    /// Runs a function whose pages are in this language.
    pub fn within<T>(self, make: impl FnOnce() -> T) -> T {
        LANGUAGE.sync_scope(self, make)
    }

    /// Returns the tag for the `lang` attribute.
    pub fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Spanish => "es",
        }
    }

    /// Translates words of a page. Words without a translation stay English.
    pub fn say(self, english: &str) -> &str {
        match self {
            Language::English => english,
            Language::Spanish => SPANISH.get(english).copied().unwrap_or(english),
        }
    }
}

/// Translates words into the language of the page that is being made.
pub fn say(english: &str) -> &str {
    Language::current().say(english)
}

/// The function `t` of the templates.
pub fn translate(english: &str) -> String {
    say(english).to_owned()
}

/// Middleware that sets the language of a page by the request's `Accept-Language`.
pub async fn choose(languages: PreferredLanguages, request: Request, next: Next) -> Response {
    Language::preferred(&languages).scope(next.run(request)).await
}

/// Words by their English form: a line in English, then the same in Spanish, then an empty line.
static SPANISH: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let pairs = include_str!("spanish.txt").split("\n\n");
    pairs.filter_map(|pair| pair.trim().split_once('\n')).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::page::TEMPLATES;

    /// Returns the words that a template says, from each `t("…")`.
    fn words(source: &str) -> Vec<&str> {
        let parts = source.split("t(\"").skip(1);
        parts
            .filter_map(|part| part.split_once('"'))
            .map(|(words, _)| words)
            .collect()
    }

    #[test]
    fn every_word_of_the_templates_is_translated() {
        let mut count = 0;
        for (name, source) in TEMPLATES {
            for words in words(source) {
                count += 1;
                assert!(
                    SPANISH.contains_key(words),
                    "{name} says `{words}`, which is not in spanish.txt"
                );
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn placeholders_are_the_same_in_both_languages() {
        for (english, spanish) in SPANISH.iter() {
            let of = |text: &str| {
                let mut names: Vec<String> = text
                    .split('{')
                    .skip(1)
                    .filter_map(|part| part.split_once('}'))
                    .map(|(name, _)| name.to_owned())
                    .collect();
                names.sort_unstable();
                names
            };
            assert_eq!(of(english), of(spanish), "{english}");
        }
    }

    #[test]
    fn an_unknown_word_stays_english() {
        assert_eq!(Language::Spanish.say("Inbox"), "Bandeja");
        assert_eq!(Language::Spanish.say("no such words"), "no such words");
        assert_eq!(Language::of_tag("es-UY"), Some(Language::Spanish));
        assert_eq!(Language::of_tag("fr"), None);
    }
}
