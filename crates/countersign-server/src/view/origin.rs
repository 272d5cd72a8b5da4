//! Where values came from, as JSON.

use countersign::display::clip;
use countersign::provenance::{Counts, Mark, Provenance};
use serde::Serialize;
use utoipa::ToSchema;

/// Where each value of a call came from.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceView {
    /// One line for people.
    verdict: String,
    #[schema(value_type = Object)]
    counts: Counts,
    /// The conversation was too long to be looked at from its beginning.
    partial: bool,
    leaves: Vec<LeafView>,
}

/// Where one value came from.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeafView {
    /// A JSON pointer.
    pointer: String,
    /// `user`, `tool:NAME`, `derived`, `default`, `none` (stated by nobody) or `unknown`.
    mark: String,
    /// The mark as cards show it.
    tag: &'static str,
    /// The message of the conversation, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<u32>,
    /// Bytes of that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<u32>>)]
    span: Option<(u32, u32)>,
    /// The words it was found in; not for secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// What the tag leaves open, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// Everything that is known about where values came from.
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
            tag: leaf.mark.tag(),
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
        counts: provenance.counts(),
        partial: provenance.is_partial,
        leaves: leaves.collect(),
    }
}
