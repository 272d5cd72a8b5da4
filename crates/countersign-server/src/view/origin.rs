//! Provenance of a call's values, as JSON.

use countersign::display::clip;
use countersign::provenance::{Counts, Coverage, Mark, Provenance, Voucher};
use countersign::secrecy::Secrecy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tag that cards show for text that strangers may have written.
const OUTSIDE: &str = "FROM OUTSIDE";

/// Origins of a call's values.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceView {
    /// Summary of the origins in one line.
    pub verdict: String,
    /// Source of the conversation: `agent` if the proposer supplied it, `gate` if the gate recorded it itself. Only a
    /// conversation from the gate can let a call pass.
    #[serde(default = "agent")]
    pub conversation_from: String,
    #[schema(value_type = Object)]
    pub counts: Counts,
    /// True if the conversation was not searched completely: it was too long, or had no messages of the person, only
    /// tool results.
    pub partial: bool,
    pub leaves: Vec<LeafView>,
}

/// Origin of one value.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeafView {
    /// JSON pointer of the value; for the name of a member, `key:` followed by the member's pointer.
    pub pointer: String,
    /// `user`, `tool:NAME`, `derived`, `default`, `none` (stated by nobody) or `unknown`.
    pub mark: String,
    /// Mark as cards show it.
    pub tag: String,
    /// Position of the message in which the value was found, counted from 0. Absent if it was found in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u32>,
    /// Byte range of the value's words in that message. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<u32>>)]
    pub span: Option<(u32, u32)>,
    /// Words of the message in which the value was found. Absent for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Further detail about the origin, for people. Absent if the tag says everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl ProvenanceView {
    /// Replaces secrets in words, details and pointers.
    pub fn hide(mut self, secrecy: &Secrecy) -> ProvenanceView {
        for leaf in &mut self.leaves {
            for text in [&mut leaf.words, &mut leaf.detail].into_iter().flatten() {
                *text = secrecy.text(text).into_owned();
            }
            leaf.pointer = secrecy.text(&leaf.pointer).into_owned();
        }
        self
    }
}

impl LeafView {
    /// Returns how much the mark should stand out, as [`Mark::prominence`] does. A mark that this version does not know
    /// counts as of unknown origin.
    pub fn prominence(&self) -> u8 {
        match self.mark.as_str() {
            "none" => 5,
            _ if self.tag == OUTSIDE => 4,
            "derived" => 2,
            "user" | "default" => 0,
            mark if mark.starts_with("tool:") => 1,
            _ => 3,
        }
    }
}

/// Returns the default of `conversationFrom`, for the JSON of older servers that do not send it.
fn agent() -> String {
    Voucher::Agent.as_str().to_owned()
}

/// Returns why the values of a call were not traced, for a call without provenance.
pub fn untraced(is_undo: bool) -> &'static str {
    match is_undo {
        true => "its values are taken from the call that it undoes",
        false => "no conversation came with the call, so its values are not traced",
    }
}

/// Converts provenance to its view.
pub fn view(provenance: &Provenance) -> ProvenanceView {
    let leaves = provenance.leaves.iter().map(|leaf| {
        let quote = match &leaf.mark {
            Mark::Person(quote) => Some(quote),
            Mark::Tool(tool) => Some(&tool.quote),
            _ => None,
        };
        LeafView {
            pointer: leaf.pointer.clone(),
            mark: leaf.mark.word(),
            tag: leaf.mark.tag(provenance.vouched_by()).to_owned(),
            message: quote.map(|quote| quote.message),
            span: quote.and_then(|quote| quote.span),
            words: quote
                .map(|quote| clip(&quote.words, 200).to_string())
                .filter(|words| !words.is_empty()),
            detail: leaf.mark.detail(),
        }
    });
    ProvenanceView {
        verdict: provenance.verdict(),
        conversation_from: provenance.vouched_by().as_str().to_owned(),
        counts: provenance.counts(),
        partial: provenance.heard != Coverage::Whole,
        leaves: leaves.collect(),
    }
}

#[cfg(test)]
mod tests {
    use countersign::provenance::{Conversation, Message, trace};

    use super::*;

    #[test]
    fn marks_are_as_loud_in_json() {
        let said = |text: &str| text.to_owned();
        let conversation = Conversation {
            messages: vec![
                Message::Person {
                    text: said("Write to Maria tomorrow"),
                    at: None,
                },
                Message::Tool {
                    name: said("crm"),
                    text: said("maria@acme.com"),
                },
                Message::Outside {
                    name: said("web"),
                    text: said("eve@evil.example"),
                },
            ],
        };
        let arguments =
            br#"{"a":"Maria","b":"maria@acme.com","c":"eve@evil.example","d":"nobody said this","e":null}"#;
        let provenance = trace(&conversation, arguments, &|_| false);
        let shown = view(&provenance);
        for (leaf, shown) in provenance.leaves.iter().zip(&shown.leaves) {
            assert_eq!(leaf.mark.prominence(), shown.prominence(), "{shown:?}");
        }
        let outside = shown.leaves.iter().filter(|leaf| leaf.tag == OUTSIDE).count();
        assert_eq!(outside, 1, "{shown:?}");
    }
}
