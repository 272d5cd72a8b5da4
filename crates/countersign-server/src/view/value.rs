//! The values of a call one by one, as cards show them.

use std::collections::HashMap;

use countersign::display::{Warning, clip, escape};
use countersign::json;
use countersign::summary::{Row, table};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::CallView;

/// Longest value in a row, in characters, unless it is shown whole.
const LONGEST: usize = 1_000;

/// One value of arguments that are not given whole.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValueView {
    /// Where it stands: a JSON pointer, made safe to show.
    pub pointer: String,
    /// The whole text of the value, or only a mark when it is secret.
    pub value: String,
    /// Whether it is secret.
    pub hidden: bool,
    /// What a person should be told about it.
    #[schema(value_type = Vec<Object>)]
    pub warnings: Vec<Warning>,
}

/// A row of a card, and the whole text behind it where that may be shown. The text is not made safe yet.
pub struct Shown {
    /// What a card shows.
    pub row: Row,
    /// The whole value.
    pub whole: Option<String>,
}

impl CallView {
    /// Every value that may be shown, in the order of the arguments.
    pub fn shown(&self) -> Vec<Shown> {
        match (&self.values, self.argument_bytes()) {
            (Some(values), _) => values.iter().map(shown).collect(),
            (None, Some(bytes)) => with_whole(table(&bytes, &[], &[]), &bytes),
            (None, None) => Vec::new(),
        }
    }
}

/// Rows with the whole text of what is not secret.
pub fn with_whole(rows: Vec<Row>, bytes: &[u8]) -> Vec<Shown> {
    let leaves = json::leaves(bytes);
    let leaves: HashMap<_, _> = leaves.iter().map(|leaf| (escape(&leaf.pointer), leaf)).collect();
    let shown = |row: Row| {
        let leaf = leaves.get(row.pointer.as_str()).filter(|_| !row.hidden);
        let whole = leaf.map(|leaf| leaf.text().into_owned());
        Shown { row, whole }
    };
    rows.into_iter().map(shown).collect()
}

impl From<Shown> for ValueView {
    fn from(shown: Shown) -> ValueView {
        let row = shown.row;
        ValueView {
            pointer: row.pointer,
            value: shown.whole.unwrap_or(row.value),
            hidden: row.hidden,
            warnings: row.warnings,
        }
    }
}

/// Whatever came over the wire is made safe here again.
fn shown(value: &ValueView) -> Shown {
    let clipped = clip(&value.value, LONGEST);
    let row = Row {
        pointer: crate::output::once(&value.pointer),
        value: clipped.to_string(),
        bytes: value.value.len(),
        clipped: clipped.is_clipped(),
        hidden: value.hidden,
        warnings: value.warnings.clone(),
    };
    Shown {
        whole: (!row.hidden).then(|| value.value.clone()),
        row,
    }
}
