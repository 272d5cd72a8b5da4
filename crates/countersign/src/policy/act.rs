//! The act's own words: what the operator wrote about a tool, and nothing that an agent sends to it.
//!
//! Enters: a tool's name, title and summary template, as the policy has them. Leaves: the words with which a reply may
//! name the act. Deliberately absent: arguments. Only this module makes an [`Act`], so no value can become one.

/// Stands where a template shows a value. It is no word, and a reply that contains it is not read.
pub(crate) const VALUE: char = '\u{fffc}';

/// The words of one tool in a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Act(String);

impl Act {
    pub(super) fn of(name: &str, title: Option<&str>, template: Option<&str>) -> Act {
        let mut text = template.map(literals).unwrap_or_default();
        let name = || words_of_name(name);
        text.push(VALUE);
        text.push_str(&title.map_or_else(name, str::to_owned));
        Act(text)
    }

    /// The words in the operator's order, with [`VALUE`] wherever something else would stand.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// The parts of a template that are always shown, whatever the arguments are: what stands in a condition or in a loop
/// is left out.
fn literals(template: &str) -> String {
    let mut found = String::with_capacity(template.len());
    let mut depth = 0usize;
    let mut rest = template;
    while let Some((start, end)) = next_tag(rest) {
        if depth == 0 {
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
    if depth == 0 {
        found.push_str(rest);
    }
    found
}

/// Where the next tag of a template begins and ends. One that is not closed reaches to the end.
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

/// Whether a statement begins a block or ends one; nothing when it does neither.
fn opens(statement: &str) -> Option<bool> {
    let statement = statement.trim_start_matches(['-', '+']).trim_start();
    let word = statement.split(|c: char| !c.is_ascii_alphabetic()).next()?;
    match word {
        "if" | "for" | "macro" | "block" | "filter" | "call" | "with" | "autoescape" | "raw" => Some(true),
        // `set x = 1` ends with itself, `set x` does not.
        "set" => (!statement.contains('=')).then_some(true),
        _ => word.starts_with("end").then_some(false),
    }
}

/// `cms/deletePage` as words: `delete page`.
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
        assert_eq!(literals(template).replace(VALUE, "*"), expected, "`{template}`");
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
