//! Converts arguments to a form with a field for each value, and the submitted fields back to arguments.
//!
//! Input: the proposed bytes and the submitted fields. Output: the proposed bytes with the changed values in place of the
//! old ones.
//! INVARIANT: a value that was not changed keeps its bytes, and so does everything between the values.
//! INVARIANT: no field contains a secret; see `edit.rs`.

use std::ops::Range;

use countersign::call::Arguments;
use countersign::decision::Choice;
use countersign::display::{escape, one_line};
use countersign::json::{self, Kind};
use serde::Serialize;
use serde_json::Value;

use super::edit::{KEPT, affects_rendering, line_breaks, spliced};

/// Maximum number of fields. Calls with more values are edited as JSON.
const MOST_FIELDS: usize = 200;
/// Maximum number of choices. A value with more choices gets an ordinary field.
const MOST_CHOICES: usize = 100;

/// Field for one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Path of the value within the arguments, for people.
    pub label: String,
    /// How the submitted text is converted to JSON.
    pub input: Input,
    /// Content of the field.
    pub text: String,
    pub lines: usize,
    /// Texts to choose from. Empty unless the field is a choice.
    pub choices: Vec<String>,
    #[serde(skip)]
    range: Range<usize>,
}

/// How the text of a field is converted to a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The text becomes a JSON string, unchanged.
    Text,
    Number,
    /// The text is one of the choices, each of which is JSON.
    Choice,
    /// The text is JSON. Used for values that the other kinds cannot represent.
    Json,
}

/// Returns the fields for arguments, in their order. `None` if there are no values, or too many. `choices` returns the
/// values that the tool's schema lists for a JSON pointer.
pub fn fields<'s>(
    arguments: &[u8],
    is_secret: impl Fn(&str) -> bool,
    choices: impl Fn(&str) -> Option<&'s [Value]>,
) -> Option<Vec<Field>> {
    let secrets = json::find(arguments, is_secret);
    let mut fields: Vec<Field> = secrets
        .iter()
        .map(|(pointer, range)| Field {
            input: Input::Text,
            text: KEPT.to_owned(),
            ..field(pointer, range.clone())
        })
        .collect();
    for leaf in json::leaves(arguments) {
        let is_inside = |(_, range): &(String, Range<usize>)| {
            range.start <= leaf.range.start && leaf.range.end <= range.end
        };
        if secrets.iter().any(is_inside) {
            continue;
        }
        let offered = choices(&leaf.pointer).filter(|offered| offered.len() <= MOST_CHOICES);
        let plain = field(&leaf.pointer, leaf.range.clone());
        fields.push(match (leaf.kind, offered) {
            (_, Some(offered)) => choice(plain, leaf.raw, offered.iter().map(Value::to_string)),
            (Kind::Bool, None) => choice(plain, leaf.raw, ["true", "false"].into_iter().map(str::to_owned)),
            (Kind::Number, None) => Field {
                input: Input::Number,
                text: leaf.raw.to_owned(),
                ..plain
            },
            (Kind::String, None) if is_plain(&leaf.text()) => Field {
                lines: leaf.text().split('\n').count().clamp(1, 20),
                text: leaf.text().into_owned(),
                input: Input::Text,
                ..plain
            },
            _ => Field {
                text: super::edit::visible(leaf.raw),
                ..plain
            },
        });
    }
    fields.sort_by_key(|field| field.range.start);
    (!fields.is_empty() && fields.len() <= MOST_FIELDS).then_some(fields)
}

fn field(pointer: &str, range: Range<usize>) -> Field {
    let label = escape(pointer.strip_prefix('/').unwrap_or(pointer)).into_owned();
    Field {
        label: one_line(&label).into_owned(),
        input: Input::Json,
        text: String::new(),
        lines: 1,
        choices: Vec::new(),
        range,
    }
}

/// Turns `field` into a choice between the offered values. The proposed value keeps its exact text `raw`, and is added
/// in front if it is not among the offered ones.
fn choice(field: Field, raw: &str, offered: impl Iterator<Item = String>) -> Field {
    let is_same = |one: &str| {
        let [one, proposed] = [one, raw].map(serde_json::from_str::<Value>);
        matches!((one, proposed), (Ok(one), Ok(proposed)) if one == proposed)
    };
    let offered: Vec<String> = offered.map(|one| super::edit::visible(&one)).collect();
    let text = super::edit::visible(raw);
    let is_listed = offered.iter().any(|one| is_same(one));
    let mut choices: Vec<String> = offered
        .into_iter()
        .map(|one| if is_same(&one) { text.clone() } else { one })
        .collect();
    if !is_listed {
        choices.insert(0, text.clone());
    }
    Field {
        input: Input::Choice,
        text,
        choices,
        ..field
    }
}

/// Returns true if a browser's field preserves the text: it contains no invisible characters, and no line breaks that
/// browsers change.
fn is_plain(text: &str) -> bool {
    text.chars().all(|character| {
        character == '\n' || character == '\t' || !(character.is_control() || affects_rendering(character))
    })
}

/// Parses the submitted fields. `typed` returns the text of a field by its index, or `None` if the field was not sent.
/// If no field has changed, the arguments are approved as proposed. Fails with a message for the person.
pub fn read<'t>(
    arguments: &Arguments,
    fields: &[Field],
    typed: impl Fn(usize) -> Option<&'t str>,
) -> Result<Choice, String> {
    let proposed = arguments.as_bytes();
    let mut changes = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let Some(text) = typed(at).map(line_breaks).filter(|text| *text != field.text) else {
            continue;
        };
        let json = match field.input {
            Input::Text => Value::String(text).to_string(),
            Input::Number | Input::Json | Input::Choice => text.trim().to_owned(),
        };
        match field.input {
            Input::Number if serde_json::from_str::<serde_json::Number>(&json).is_err() => {
                return Err(format!("`{}` has to be a number", field.label));
            }
            Input::Choice if !field.choices.contains(&json) => {
                return Err(format!("`{}` is none of the choices", field.label));
            }
            _ => {}
        }
        // Accept exactly one JSON value, so that no field can change what is next to it.
        if serde_json::from_str::<Value>(&json).is_err() {
            return Err(format!("`{}` is not valid JSON", field.label));
        }
        changes.push((field.range.clone(), json.into_bytes()));
    }
    if changes.is_empty() {
        return Ok(Choice::Approve);
    }
    Arguments::parse(spliced(proposed, changes))
        .map(Choice::Edit)
        .map_err(|problem| problem.reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = r#"{ "id": 9007199254740993, "n": 1.0, "to":"Ana\u0041", "body":"a\nb", "size":"m", "ok":true, "x":null, "key":{"a":1} }"#;

    fn order() -> Vec<Field> {
        let sizes: &'static [Value] = Box::leak(Box::new([Value::from("s"), Value::from("m")]));
        let choices = move |pointer: &str| (pointer == "/size").then_some(sizes);
        fields(
            ORDER.as_bytes(),
            |pointer| pointer == "/key" || pointer.starts_with("/key/"),
            choices,
        )
        .unwrap()
    }

    fn edited(changes: &[(usize, &str)]) -> Result<String, String> {
        let arguments = Arguments::parse(ORDER.as_bytes()).unwrap();
        let fields = order();
        let typed = |at: usize| {
            let change = changes.iter().find(|(index, _)| *index == at);
            Some(change.map_or(fields[at].text.as_str(), |(_, text)| *text))
        };
        match read(&arguments, &fields, typed)? {
            Choice::Edit(edited) => Ok(String::from_utf8(edited.as_bytes().to_vec()).unwrap()),
            other => Ok(format!("{other:?}")),
        }
    }

    #[test]
    fn each_value_has_a_field_of_its_kind() {
        let shown: Vec<_> = order()
            .into_iter()
            .map(|field| (field.label, field.input, field.text))
            .collect();
        let expected = [
            ("id", Input::Number, "9007199254740993"),
            ("n", Input::Number, "1.0"),
            ("to", Input::Text, "AnaA"),
            ("body", Input::Text, "a\nb"),
            ("size", Input::Choice, "\"m\""),
            ("ok", Input::Choice, "true"),
            ("x", Input::Json, "null"),
            ("key", Input::Text, KEPT),
        ];
        let expected = expected.map(|(label, input, text)| (label.to_owned(), input, text.to_owned()));
        assert_eq!(shown, expected);
        assert_eq!(order()[4].choices, ["\"s\"", "\"m\""]);
    }

    #[test]
    fn untouched_values_keep_their_bytes() {
        assert_eq!(edited(&[]), Ok("Approve".to_owned()));
        assert_eq!(edited(&[(3, "a\r\nb")]), Ok("Approve".to_owned()));
        assert_eq!(edited(&[(2, "B\"o")]), Ok(ORDER.replace("Ana\\u0041", "B\\\"o")));
        assert_eq!(
            edited(&[(4, "\"s\""), (5, "false"), (6, "[1, 2]")]),
            Ok(ORDER
                .replace("\"m\"", "\"s\"")
                .replace("true", "false")
                .replace("null", "[1, 2]"))
        );
        assert_eq!(edited(&[(7, "new")]), Ok(ORDER.replace(r#"{"a":1}"#, r#""new""#)));
    }

    #[test]
    fn x44_a_field_changes_its_own_value_only() {
        for (at, text) in [
            (0, "1,5"),
            (0, ""),
            (0, "1, \"to\":\"eve\""),
            (4, "\"xl\""),
            (5, "null"),
            (6, "1, \"evil\":2"),
            (6, "1}, {\"a\":2"),
            (6, ""),
        ] {
            assert!(edited(&[(at, text)]).is_err(), "{text}");
        }
    }

    #[test]
    fn x16_what_cannot_be_seen_is_edited_as_json() {
        let json = "{\"a\":\"x\u{202e}y\",\"b\":\"c\\r\\n\"}";
        let fields = fields(json.as_bytes(), |_| false, |_| None).unwrap();
        let shown: Vec<_> = fields
            .iter()
            .map(|field| (field.input, field.text.as_str()))
            .collect();
        assert_eq!(
            shown,
            [(Input::Json, "\"x\\u202ey\""), (Input::Json, "\"c\\r\\n\"")]
        );
    }
}
