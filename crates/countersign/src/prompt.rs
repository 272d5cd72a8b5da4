//! The question as every surface renders it: a short text, two labels, two opaque payloads, an end.
//!
//! Enters: a pending approval. Leaves: a [`Prompt`]. Ids and raw arguments stay out of the visible text; what a button
//! sends back is bound to the approval, its channel, exactly what it showed, and one of the two answers.

use crate::approval::Approval;
use crate::decision::Verdict;
use crate::hash::{Fields, Hash};
use crate::id::{ApprovalId, Channel};
use crate::policy::{Policy, Undoable};
use crate::provenance::Teller;
use crate::reply::Offer;
use crate::secrecy::Secrecy;
use crate::sentence::{Origins, Sentences, fill};
use crate::time::Time;

/// How many calls of a batch are written out.
const MOST_LINES: usize = 20;

/// What a surface shows while an approval is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The approval it asks about; not for people.
    pub approval: ApprovalId,
    /// The digest of what it shows; a decision on another one is stale.
    pub digest: Hash,
    /// What would happen, safe to show.
    pub summary: String,
    /// How far its values are the person's, and which are not; nothing when no conversation was given. Safe to show.
    pub origins: Option<String>,
    /// The whole question, for a surface without buttons.
    pub text: String,
    offer: Box<Offer<'static>>,
    /// What the approving button says.
    pub yes: String,
    /// What the denying button says.
    pub no: String,
    /// What the approving button sends back.
    pub approve: String,
    /// What the denying button sends back.
    pub deny: String,
    /// Whether "ok" is too little.
    pub needs_yes: bool,
    /// Whether every call of it can be undone.
    pub can_undo: bool,
    /// How many calls it numbers, so that a reply can name some of them; none when there is one, or not all are shown.
    pub numbered: usize,
    /// From then on nobody can answer.
    pub expires_at: Time,
}

impl Prompt {
    /// The question an approval asks, in these sentences. The policy says what is secret.
    pub fn of(approval: &Approval, policy: &Policy, sentences: &Sentences) -> Prompt {
        let numbered = match approval.calls.len() {
            count @ 2..=MOST_LINES => count,
            _ => 0,
        };
        let offer = Offer::of_card(approval, policy, sentences, numbered);
        let (yes, no) = offer.labels();
        let (yes, no) = (yes.to_owned(), no.to_owned());
        let summary = summary(approval, sentences);
        let origins = origins(approval, policy, &sentences.origins);
        let ask = |what: &str| {
            let values = [("what", what), ("yes", yes.as_str()), ("no", no.as_str())];
            fill(&sentences.ask, &values)
        };
        let text = match &origins {
            Some(origins) => ask(&format!("{summary}\n{origins}")),
            None => ask(&summary),
        };
        Prompt {
            approval: approval.id,
            digest: approval.digest,
            text,
            origins,
            approve: payload(approval, &Verdict::Approve),
            deny: payload(approval, &Verdict::Deny),
            needs_yes: offer.needs_yes(),
            can_undo: approval.calls.iter().all(|call| call.terms.undo == Undoable::Yes),
            numbered,
            expires_at: approval.expires_at,
            summary,
            yes,
            no,
            offer: Box::new(offer),
        }
    }

    /// What a reply is read against: labels and the act's own words, never this text.
    pub fn offered(&self) -> &Offer<'static> {
        &self.offer
    }
}

/// What would happen, in one sentence or in a list of them.
pub(crate) fn summary(approval: &Approval, sentences: &Sentences) -> String {
    if let [call] = approval.calls.as_slice() {
        return call.terms.summary.clone();
    }
    let count = approval.calls.len();
    let mut lines = vec![fill(&sentences.several, &[("count", &count.to_string())])];
    let shown = approval.numbered().take(MOST_LINES);
    lines.extend(shown.map(|(position, call)| format!("{position}. {}", call.terms.summary)));
    if count > MOST_LINES {
        lines.push(format!("… + {}", count - MOST_LINES));
    }
    lines.join("\n")
}

/// Of a single call the values that the person did not state; of a batch the verdicts that are not all theirs.
fn origins(approval: &Approval, policy: &Policy, words: &Origins) -> Option<String> {
    if let [call] = approval.calls.as_slice() {
        let rows = Secrecy::of(call, policy, &approval.salt).table(call.arguments.as_bytes());
        return Some(call.provenance.as_deref()?.prompt(&rows, words));
    }
    let traced = approval
        .numbered()
        .filter_map(|(position, call)| Some((position, call.provenance.as_deref()?)));
    let (own, others): (Vec<_>, Vec<_>) = traced.partition(|(_, provenance)| provenance.is_all_given());
    let lines = others.iter().take(MOST_LINES);
    let mut lines: Vec<String> = lines
        .map(|(position, provenance)| format!("{position}: {}", provenance.verdict_in(words)))
        .collect();
    match (own.len(), others.len()) {
        (0, 0) => return None,
        (_, 0) if own.len() == approval.calls.len() => {
            let is_told = own
                .iter()
                .any(|(_, provenance)| provenance.told_by() == Teller::Agent);
            let verdict = words.all_given_in_all.clone();
            lines.push(match is_told {
                true => fill(&words.as_told, &[("verdict", &verdict)]),
                false => verdict,
            });
        }
        (_, count) if count > MOST_LINES => lines.push(format!("… + {}", count - MOST_LINES)),
        _ => {}
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A pressed button: which approval, and the proof of what it showed and said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pressed {
    /// The approval it belongs to.
    pub approval: ApprovalId,
    proof: String,
}

/// The letters of a proof: 96 bits, so that a payload fits into the 64 bytes some chats allow.
const PROOF: usize = 24;

fn payload(approval: &Approval, verdict: &Verdict) -> String {
    let id: String = approval
        .id
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{id}.{}", proof(approval, verdict))
}

fn proof(approval: &Approval, verdict: &Verdict) -> String {
    let answer: &[u8] = match verdict {
        Verdict::Approve => b"approve",
        _ => b"deny",
    };
    let channel = approval.channel.as_ref().map_or("", Channel::as_str);
    let hash = Fields::new("countersign/button/2")
        .field(approval.tenant.as_str().as_bytes())
        .field(channel.as_bytes())
        .field(approval.id.as_bytes())
        .field(&approval.digest.0)
        .field(&approval.nonce)
        .field(answer)
        .finish();
    hash.to_string().chars().take(PROOF).collect()
}

impl Pressed {
    /// Reads what a button sent back.
    pub fn read(payload: &str) -> Option<Pressed> {
        let (id, proof) = payload.split_once('.')?;
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if id.len() != 32 || proof.len() != PROOF || !is_hex(id) || !is_hex(proof) {
            return None;
        }
        Some(Pressed {
            approval: ApprovalId::from_bytes(u128::from_str_radix(id, 16).ok()?.to_be_bytes()),
            proof: proof.to_owned(),
        })
    }

    /// True if the card stands in this channel. A button pressed under another channel's name says nothing: whoever
    /// passes it on there did not get it from the person who saw the card.
    pub fn is_from(&self, approval: &Approval, channel: &Channel) -> bool {
        self.approval == approval.id && approval.channel.as_ref() == Some(channel)
    }

    /// What it says to this approval, pressed in this channel; nothing when it belongs to another card.
    pub fn verdict(&self, approval: &Approval, channel: &Channel) -> Option<Verdict> {
        let verdicts = [Verdict::Approve, Verdict::Deny].into_iter();
        verdicts
            .filter(|_| self.is_from(approval, channel))
            .find(|verdict| is_same(&proof(approval, verdict), &self.proof))
    }
}

/// Compares in a time that tells nothing of where they differ.
fn is_same(expected: &str, given: &str) -> bool {
    let pairs = expected.bytes().zip(given.bytes());
    expected.len() == given.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
