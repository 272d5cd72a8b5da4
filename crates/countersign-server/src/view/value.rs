//! Values of a call, one by one, as cards show them.

use std::collections::HashMap;

use countersign::display::{self, Warning, clip_value, escape};
use countersign::json::{self, Kind};
use countersign::summary::{Row, table};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CallView;

/// Maximum length of a value in a row, in characters, unless the value is shown in full.
const LONGEST: usize = 1_000;

/// One value of arguments or of a snapshot that contain a secret and are therefore not sent as a whole.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValueView {
    /// JSON pointer of the value, escaped.
    pub pointer: String,
    /// Pointer for people: a member name that could be mistaken for an index, or seem to end early, is quoted. Absent
    /// from older servers.
    #[serde(default)]
    pub name: Option<String>,
    /// JSON type of the value. Absent from older servers.
    #[serde(default, rename = "type")]
    #[schema(value_type = Option<ValueType>)]
    pub kind: Option<Kind>,
    /// Complete text of the value, or a mark if it is secret.
    pub value: String,
    /// True if the value is secret.
    pub hidden: bool,
    /// Warnings about the value for the person.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Warning>,
}

/// JSON types, for the API description.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes `Kind`, which the library owns")]
pub enum ValueType {
    String,
    Number,
    Boolean,
    Null,
    Object,
    Array,
}

/// Row of a card, and the full text of its value unless that is secret. The full text is not escaped yet.
pub struct RowWithFullText {
    /// Row as the card shows it, escaped.
    pub row: Row,
    /// Full value, unescaped. `None` for secrets.
    pub whole: Option<String>,
}

impl CallView {
    /// Returns all values, in the order of the arguments. Secrets are replaced with a mark.
    pub fn value_rows(&self) -> Vec<RowWithFullText> {
        match (&self.values, self.argument_bytes()) {
            (Some(values), _) => values.iter().map(shown).collect(),
            (None, Some(bytes)) => with_whole(table(&bytes, &[], &[]), &bytes),
            (None, None) => Vec::new(),
        }
    }
}

/// Adds the full text to rows that are not secret.
pub fn with_whole(rows: Vec<Row>, bytes: &[u8]) -> Vec<RowWithFullText> {
    let leaves = json::leaves(bytes);
    let leaves: HashMap<_, _> = leaves.iter().map(|leaf| (escape(&leaf.pointer), leaf)).collect();
    let shown = |row: Row| {
        let leaf = leaves.get(row.pointer.as_str()).filter(|_| !row.hidden);
        let whole = leaf.map(|leaf| leaf.text().into_owned());
        RowWithFullText { row, whole }
    };
    rows.into_iter().map(shown).collect()
}

impl From<RowWithFullText> for ValueView {
    fn from(shown: RowWithFullText) -> ValueView {
        let row = shown.row;
        ValueView {
            pointer: row.pointer,
            name: Some(row.name),
            kind: Some(row.kind),
            value: shown.whole.unwrap_or(row.value),
            hidden: row.hidden,
            warnings: row.warnings,
        }
    }
}

impl ValueView {
    /// Returns the value as cards show it: escaped, and quoted if it could be mistaken for a value of another type.
    pub fn card_text(&self) -> String {
        match self.kind.filter(|_| !self.hidden) {
            Some(kind) => display::value(kind, &self.value),
            None => escape(&self.value).into_owned(),
        }
    }
}

/// Makes a row from a value that another process sent. The value is escaped again.
fn shown(value: &ValueView) -> RowWithFullText {
    // Neither the replacement of a secret nor a value whose type an older server did not send is quoted.
    let as_kind = value.kind.filter(|_| !value.hidden).unwrap_or(Kind::Null);
    let (text, is_clipped) = clip_value(as_kind, &value.value, LONGEST);
    let row = Row {
        pointer: crate::output::once(&value.pointer),
        name: crate::output::once(value.name.as_deref().unwrap_or(&value.pointer)),
        kind: value.kind.unwrap_or(as_kind),
        value: text,
        bytes: value.value.len(),
        clipped: is_clipped,
        hidden: value.hidden,
        warnings: value.warnings.clone(),
    };
    RowWithFullText {
        whole: (!row.hidden).then(|| value.value.clone()),
        row,
    }
}
