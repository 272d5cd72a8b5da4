//! Resources of one server: listed URIs, URI templates, and links from tool results.

use std::collections::{HashSet, VecDeque};

use serde_json::value::RawValue;

use crate::mcp::frame::pick;

/// Maximum number of links remembered per server; the oldest is dropped.
const MOST_LINKS: usize = 4096;
/// Maximum length in bytes of a URI or template that is matched.
const LONGEST: usize = 8 * 1024;

/// Known resources of one server.
#[derive(Debug, Default)]
pub struct KnownResources {
    /// Listed URIs; `None` if they have not been fetched since the last change.
    pub listed: Option<HashSet<String>>,
    /// URI templates; `None` if they have not been fetched since the last change.
    pub templates: Option<Vec<String>>,
    links: VecDeque<String>,
}

impl KnownResources {
    /// Returns true if the server lists this URI, has a template for it, or linked to it in a tool's result.
    pub fn has(&self, uri: &str) -> bool {
        let listed = self.listed.as_ref().is_some_and(|listed| listed.contains(uri));
        let mut templates = self.templates.iter().flatten();
        listed
            || templates.any(|template| template == uri || is_made_from(template, uri))
            || self.links.iter().any(|link| link == uri)
    }

    /// Forgets listed URIs and templates, because the server announced a change.
    pub fn changed(&mut self) {
        self.listed = None;
        self.templates = None;
    }

    /// Remembers the resource links in a tool's result, because a linked resource need not be in the server's list.
    pub fn learn(&mut self, result: &[u8]) {
        // Fast path: most results have no links.
        if memchr::memmem::find(result, b"resource_link").is_none() {
            return;
        }
        let Ok([Some(content)]) = pick(result, ["content"]) else {
            return;
        };
        let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
        for block in blocks {
            if let Ok([Some(kind), Some(uri)]) = pick(block.get().as_bytes(), ["type", "uri"])
                && kind.get() == "\"resource_link\""
                && let Ok(uri) = serde_json::from_str::<String>(uri.get())
                && !self.links.contains(&uri)
            {
                if self.links.len() >= MOST_LINKS {
                    self.links.pop_front();
                }
                self.links.push_back(uri);
            }
        }
    }
}

/// Returns true if a URI can be an expansion of a template (RFC 6570).
fn is_made_from(template: &str, uri: &str) -> bool {
    if uri.len() > LONGEST || template.len() > LONGEST {
        return false;
    }
    let (mut rest, uri) = (template, uri.as_bytes());
    // Positions in the URI at which a match of the template can end, as far as the template has been read.
    let mut reached = vec![false; uri.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    while !rest.is_empty() {
        let (piece, behind) = match rest.strip_prefix('{') {
            None => rest.split_at(rest.find('{').unwrap_or(rest.len())),
            Some(inner) => match inner.split_once('}') {
                Some((expression, behind)) => (expression, behind),
                None => return false,
            },
        };
        reached = match rest.starts_with('{') {
            false => after_text(&reached, uri, piece.as_bytes()),
            true => after_expression(&reached, uri, piece),
        };
        rest = behind;
    }
    reached.last() == Some(&true)
}

fn after_text(reached: &[bool], uri: &[u8], text: &[u8]) -> Vec<bool> {
    let mut next = vec![false; reached.len()];
    for place in (0..reached.len()).filter(|place| reached.get(*place) == Some(&true)) {
        let fits = uri.get(place..).is_some_and(|rest| rest.starts_with(text));
        if let Some(end) = next.get_mut(place + text.len()).filter(|_| fits) {
            *end = true;
        }
    }
    next
}

fn after_expression(reached: &[bool], uri: &[u8], expression: &str) -> Vec<bool> {
    let is_plain = expression
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_' || first == b'%');
    let mut next = vec![false; reached.len()];
    let mut is_open = false;
    for place in 0..reached.len() {
        let before = place.checked_sub(1).and_then(|before| uri.get(before));
        // A plain value has at least one character and none of `/?#`; other expressions match anything.
        let goes_on = !is_plain || before.is_some_and(|byte| !b"/?#".contains(byte));
        let is_here = reached.get(place) == Some(&true);
        let was_open = is_open && goes_on;
        if let Some(end) = next.get_mut(place) {
            *end = was_open || (is_here && !is_plain);
        }
        is_open = was_open || is_here;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: bool) {
        assert_eq!(is_made_from(template, uri), expected, "{template} {uri}");
    }

    #[test]
    fn addresses_are_told_by_their_templates() {
        check(
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/text/1",
            true,
        );
        check(
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/text/",
            false,
        );
        check(
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/blob/1",
            false,
        );
        check("demo://a/{x}/b", "demo://a/1/b", true);
        check("demo://a/{x}/b", "demo://a/1/2/b", false);
        check("file:///{+path}", "file:///a/b.txt", true);
        check("x://y{?q}", "x://y?q=1", true);
        check("x://y{?q}", "x://y", true);
        check("x://{a}-{b}", "x://1-2", true);
        check("x://{a", "x://1", false);
        check("x://plain", "x://plain", true);
        check("{a}", "", false);
    }

    #[test]
    fn links_are_remembered() {
        let mut offered = KnownResources::default();
        assert!(!offered.has("a://b"));
        offered.learn(br#"{"content":[{"type":"text","text":"resource_link"},{"type":"resource_link","uri":"a://b","name":"x"}]}"#);
        assert!(offered.has("a://b") && !offered.has("a://c"));
        offered.templates = Some(vec!["t://{x}".to_owned()]);
        assert!(offered.has("t://1") && offered.has("t://{x}"));
    }
}
