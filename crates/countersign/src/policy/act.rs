//! The act: the operator's words for what a tool does, which a reply may repeat to name what it approves.
//!
//! The words are taken from the tool's name, title and summary template. Only this module builds an [`Act`], so no
//! argument value can become part of one.

/// Placeholder for a value shown by a template. It is never a word, and a reply that contains it is not interpreted.
pub(crate) const VALUE: char = '\u{fffc}';

/// Words that the policy uses for what one tool does, without the values of any call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Act {
    text: String,
    summary: Option<String>,
    every: Option<String>,
    title: String,
    has_title: bool,
}

impl Act {
    pub(super) fn of(name: &str, title: Option<&str>, template: Option<&str>) -> Act {
        let has_title = title.is_some();
        let title = title.map_or_else(|| words_of_name(name), str::to_owned);
        let summary = template.map(|template| literals(template, false));
        Act {
            text: format!("{}{VALUE}{title}", summary.as_deref().unwrap_or_default()),
            summary,
            every: template.map(|template| literals(template, true)),
            title,
            has_title,
        }
    }

    /// Returns the words in their original order, with [`VALUE`] in place of everything that is not fixed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the fixed words of the summary; `None` if the policy has no summary for the tool.
    pub(crate) fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Returns all words of the summary, including those that are shown only under a condition; `None` if there is no
    /// summary. If this is more than [`Act::summary`] returns, the summary may describe more than a reply can repeat.
    pub(crate) fn every(&self) -> Option<&str> {
        self.every.as_deref()
    }

    /// Returns the title; without one, the words of the tool's name.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns true if the operator wrote a title.
    pub(crate) fn has_title(&self) -> bool {
        self.has_title
    }
}

/// Returns the parts of a template that are shown whatever the arguments are. Text inside conditions and loops is left
/// out, unless `with_conditions` is true.
fn literals(template: &str, with_conditions: bool) -> String {
    let mut found = String::with_capacity(template.len());
    let mut depth = 0usize;
    let mut rest = template;
    while let Some((start, end)) = next_tag(rest) {
        if depth == 0 || with_conditions {
            found.push_str(rest.get(..start).unwrap_or_default());
        }
        found.push(VALUE);
        let tag = rest.get(start..end).unwrap_or_default();
        match tag.strip_prefix("{%").map(opens) {
            Some(Some(true)) => depth += 1,
            Some(Some(false)) => depth = depth.saturating_sub(1),
            _ => {}
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    if depth == 0 || with_conditions {
        found.push_str(rest);
    }
    found
}

/// Returns the byte range of the next template tag; `None` if there is none. An unclosed tag extends to the end of the
/// text.
fn next_tag(text: &str) -> Option<(usize, usize)> {
    let tags = [("{{", "}}"), ("{%", "%}"), ("{#", "#}")];
    let found = tags
        .into_iter()
        .filter_map(|(open, close)| Some((text.find(open)?, close)));
    let (start, close) = found.min()?;
    let after = text.get(start + 2..)?;
    let end = after.find(close).map_or(text.len(), |at| start + 2 + at + 2);
    Some((start, end))
}

/// Returns `Some(true)` if a statement opens a block, `Some(false)` if it closes one, `None` otherwise.
fn opens(statement: &str) -> Option<bool> {
    let statement = statement.trim_start_matches(['-', '+']).trim_start();
    let word = statement.split(|c: char| !c.is_ascii_alphabetic()).next()?;
    match word {
        "if" | "for" | "macro" | "block" | "filter" | "call" | "with" | "autoescape" | "raw" => Some(true),
        // `set x = 1` is complete; `set x` and `set x | f(a=1)` open a block.
        "set" => {
            let target = statement.split('|').next().unwrap_or_default();
            (!target.contains('=')).then_some(true)
        }
        _ => word.starts_with("end").then_some(false),
    }
}

/// Splits a tool name into words: `cms/deletePage` becomes `delete Page`.
fn words_of_name(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    let mut words = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_uppercase() && words.ends_with(char::is_lowercase) {
            words.push(' ');
        }
        words.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, expected: &str) {
        assert_eq!(
            literals(template, false).replace(VALUE, "*"),
            expected,
            "`{template}`"
        );
    }

    #[test]
    fn x55_only_what_is_always_shown_is_the_acts_own() {
        check("Create contact {{ name }}", "Create contact *");
        check("Send to {{ url }}: {{ body }}", "Send to *: *");
        check("{% if x %}Delete{% else %}Archive{% endif %} page", "*** page");
        check(
            "Delete {% for x in y %}{{ x }} or {% endfor -%} now",
            "Delete *** now",
        );
        check("{% set a = 1 %}Delete {# keep #}{{ a }}", "*Delete **");
        check("{% set a %}keep{% endset %}Delete", "**Delete");
        check("{% set a | f(b=1) %}keep{% endset %}Delete", "**Delete");
        check("Delete {{ name", "Delete *");
        check("{% if x %}Delete", "*");
        check("plain", "plain");
        check("", "");
    }

    #[test]
    fn a_name_is_read_as_words() {
        assert_eq!(words_of_name("cms/deletePage"), "delete Page");
        assert_eq!(words_of_name("delete_contact"), "delete contact");
    }
}
