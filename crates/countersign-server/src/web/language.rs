//! Language of a request, from its `Accept-Language` header.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

/// Longest header that is read, in bytes.
const LONGEST: usize = 1000;
/// Longest language tag, in bytes, as RFC 5646 recommends.
const LONGEST_TAG: usize = 35;

/// Extracts the language tags that the client prefers, best first, such as `es-UY`. Empty if the client has no
/// preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreferredLanguages(Vec<String>);

impl PreferredLanguages {
    /// Reads the languages from the headers of a request.
    pub fn of(headers: &HeaderMap) -> PreferredLanguages {
        let header = headers.get(header::ACCEPT_LANGUAGE);
        let text = header.and_then(|value| value.to_str().ok());
        PreferredLanguages(text.map(tags).unwrap_or_default())
    }

    /// Returns the tag that the client prefers most.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Returns the first of the given languages that the client accepts, by its preference. `known` has primary
    /// languages such as `es`, in lower case.
    pub fn choose<'k>(&self, known: &[&'k str]) -> Option<&'k str> {
        let primary = |tag: &str| tag.split('-').next().unwrap_or_default().to_ascii_lowercase();
        self.0.iter().find_map(|tag| {
            let wanted = primary(tag);
            known.iter().find(|one| **one == wanted).copied()
        })
    }
}

impl<S: Sync> FromRequestParts<S> for PreferredLanguages {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(PreferredLanguages::of(&parts.headers))
    }
}

/// Returns the tags of a header by their weight. What is not a language tag, such as `*`, is left out.
fn tags(header: &str) -> Vec<String> {
    if header.len() > LONGEST {
        return Vec::new();
    }
    let mut weighted: Vec<(u16, String)> = header.split(',').filter_map(weighted_tag).collect();
    // The sort is stable, so that tags of equal weight keep their order.
    weighted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    weighted.into_iter().map(|(_, tag)| tag).collect()
}

/// Reads a part of the header, such as `es-UY;q=0.8`. `None` if it is no tag, or its weight is zero.
fn weighted_tag(part: &str) -> Option<(u16, String)> {
    let mut parts = part.split(';').map(str::trim);
    let tag = parts.next().filter(|tag| is_tag(tag))?;
    let weight = match parts.next() {
        None => 1000,
        Some(parameter) => {
            let value: f32 = parameter.strip_prefix("q=")?.parse().ok()?;
            (value.clamp(0.0, 1.0) * 1000.0) as u16
        }
    };
    (weight > 0).then(|| (weight, tag.to_owned()))
}

fn is_tag(tag: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    tag.len() <= LONGEST_TAG && tag.split('-').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, expected: &[&str]) {
        assert_eq!(tags(header), expected, "`{header}`");
    }

    #[test]
    fn languages_come_by_their_weight() {
        check("es-UY,es;q=0.9,en;q=0.8", &["es-UY", "es", "en"]);
        check("en;q=0.5, es", &["es", "en"]);
        check("*", &[]);
        check("de;q=0, *;q=0.1", &[]);
        check("a b, <script>, -, es-, fr;q=x", &[]);
        check("", &[]);
        check(&"en,".repeat(1000), &[]);
    }

    #[test]
    fn the_first_known_language_is_chosen() {
        let languages = PreferredLanguages(tags("fr, ES-uy;q=0.7, en;q=0.5"));
        assert_eq!(languages.choose(&["en", "es"]), Some("es"));
        assert_eq!(languages.choose(&["de"]), None);
        assert_eq!(languages.first(), Some("fr"));
    }
}
