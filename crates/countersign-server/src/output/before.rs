//! Shows what a call would change, compared with the current state, and how a person edited the call.

use super::card::{Length, result_text};
use super::foreign::{Foreign, named, shown};
use super::style::{self, paint};
use crate::view::{BeforeView, ChangeView, ValueView};

/// Maximum number of changes listed.
const MOST: usize = 40;
/// Maximum length of a value in a change, in characters.
const CHARS: usize = 200;

/// Lists a person's edits and the changes that the call would make. The complete current state is shown only with
/// [`Length::Whole`].
pub fn changes(edits: &[ChangeView], before: Option<&BeforeView>, indent: &str, length: Length) -> String {
    let mut text = list("changed by who approved it:", edits, indent);
    let Some(before) = before else { return text };
    text.push_str(&list("would change", &before.changes, indent));
    let shown = match (&before.result, &before.values, length) {
        (Some(result), _, Length::Whole) => Foreign::lines(&result_text(result)).mark(),
        (None, Some(values), Length::Whole) if !values.is_empty() => {
            let line = |value: &ValueView| {
                let name = value.name.as_deref().unwrap_or(&value.pointer);
                format!("\n{indent}  {}", shown(&format!("{name}: {}", value.card_text())))
            };
            values.iter().map(line).collect()
        }
        (None, _, Length::Whole) => "something in it is secret".to_owned(),
        (_, _, Length::Short) => "see it with `--full`".to_owned(),
    };
    text.push_str(&format!(
        "{indent}{} as {} read it, {} bytes: {shown}\n",
        paint(style::FAINT, "what is there now,"),
        named(&before.tool),
        before.bytes
    ));
    text
}

fn list(label: &str, changes: &[ChangeView], indent: &str) -> String {
    let side = |text: &Option<String>, none: &str| match text {
        Some(text) => Foreign::clip(text, CHARS).mark(),
        None => paint(style::FAINT, none),
    };
    let line = |change: &ChangeView| {
        let label = paint(style::NOTICE, label);
        let pointer = Foreign::clip(&change.pointer, CHARS).mark();
        let (was, is) = (side(&change.was, "(nothing)"), side(&change.is, "(gone)"));
        format!("{indent}{label} {pointer}: {was} → {is}\n")
    };
    let mut text: String = changes.iter().take(MOST).map(line).collect();
    if changes.len() > MOST {
        text.push_str(&format!("{indent}… and {} more\n", changes.len() - MOST));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign::hash::Hash;
    use serde_json::value::RawValue;

    fn change(pointer: &str, was: Option<&str>, is: Option<&str>) -> ChangeView {
        ChangeView {
            pointer: pointer.to_owned(),
            was: was.map(str::to_owned),
            is: is.map(str::to_owned),
        }
    }

    fn shown(text: &str) -> String {
        anstream::adapter::strip_str(&super::super::layout::lay(text, None)).to_string()
    }

    #[test]
    fn x15_x22_old_and_new_stand_on_one_line_and_nothing_acts() {
        let result = r#"{"title":"Old\u001b[2J"}"#.to_owned();
        let before = BeforeView {
            tool: "get_page".to_owned(),
            hash: Hash::of(b""),
            bytes: 29,
            result: RawValue::from_string(result).ok(),
            values: None,
            changes: vec![change("/title", Some("Old\u{1b}[2J"), Some("New\n[from you]"))],
        };
        let text = changes(&[], Some(&before), "  ", Length::Short);
        assert_eq!(
            shown(&text),
            "  would change │ /title: │ Old\\u{1b}[2J → │ New↵[from you]\n  \
             what is there now, as get_page read it, 29 bytes: see it with `--full`\n"
        );
        let whole = changes(&[], Some(&before), "  ", Length::Whole);
        assert!(
            shown(&whole).contains("│ {\"title\":\"Old\\u001b[2J\"}"),
            "{whole}"
        );
        let secret = BeforeView {
            result: None,
            changes: Vec::new(),
            ..before
        };
        let text = shown(&changes(&[], Some(&secret), "", Length::Whole));
        assert!(text.ends_with("something in it is secret\n"), "{text}");
    }

    #[test]
    fn x44_an_edit_says_what_came_and_what_went() {
        let edits = [change("/a", None, Some("1")), change("/b", Some("2"), None)];
        let text = shown(&changes(&edits, None, "", Length::Short));
        let label = "changed by who approved it:";
        assert_eq!(
            text,
            format!("{label} │ /a: (nothing) → │ 1\n{label} │ /b: │ 2 → (gone)\n")
        );
    }
}
