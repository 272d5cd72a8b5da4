//! The question as a conversation renders it: the card as text, two labels, two opaque payloads, an end.
//!
//! Enters: a pending approval, and how long a message may be. Leaves: a [`Prompt`]. What a button sends back is bound to
//! the approval, its channel, exactly what it showed, and one of the two answers.
//!
//! INVARIANT: a prompt that leaves something out has nothing to approve with: no button, and no [`WholeCard`].

use crate::approval::Approval;
use crate::card::{CardText, Missing, WholeCard, length};
use crate::concern::Concern;
use crate::hash::{Fields, Hash};
use crate::id::{ApprovalId, Channel};
use crate::policy::{Policy, Undoable};
use crate::provenance::Teller;
use crate::reply::Offer;
use crate::secrecy::Secrecy;
use crate::sentence::{Origins, Sentences, fill};
use crate::time::Time;

/// How many calls of a batch are named in a sentence about what became of it.
const MOST_LINES: usize = 20;

/// The longest message, unless a conversation says otherwise: what Telegram takes, less some room.
pub const LONGEST_MESSAGE: usize = 4_000;
/// The least that a conversation may set: a shorter message has no room for the question itself.
pub const SHORTEST_LIMIT: usize = 400;

/// What a prompt is made with, beside the approval.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The longest text, in UTF-16 code units, as chats count.
    pub limit: usize,
    /// What deserves a second look, call by call.
    pub concerns: &'a [Vec<Concern>],
    /// The address of the inbox page, where there is one: what does not fit is shown there.
    pub page: Option<&'a str>,
}

impl Default for Delivery<'_> {
    fn default() -> Self {
        Delivery {
            limit: LONGEST_MESSAGE,
            concerns: &[],
            page: None,
        }
    }
}

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
    /// The card and the question, to be shown as it is. Where the card does not fit, it says how much is missing and
    /// where to see it.
    pub text: String,
    /// Present when `text` leaves nothing out.
    whole: Option<WholeCard>,
    /// Where the whole card is, for people.
    place: String,
    offer: Box<Offer<'static>>,
    /// What the approving button says.
    pub yes: String,
    /// What the denying button says.
    pub no: String,
    /// What the approving button sends back; nothing where part of the card is missing: then there is no such button.
    pub approve: Option<String>,
    /// What the denying button sends back.
    pub deny: String,
    /// Whether "ok" is too little.
    pub needs_yes: bool,
    /// Whether every call of it can be undone.
    pub can_undo: bool,
    /// How many calls it numbers, so that a reply can name some of them; none when there is one.
    pub numbered: usize,
    /// From then on nobody can answer.
    pub expires_at: Time,
}

impl Prompt {
    /// The question an approval asks, in these sentences. The policy says what is secret.
    pub fn of(approval: &Approval, policy: &Policy, sentences: &Sentences, delivery: Delivery<'_>) -> Prompt {
        let numbered = match approval.calls.len() {
            0 | 1 => 0,
            count => count,
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
        let card = CardText::new(approval, policy, delivery.concerns, sentences);
        let place = place(approval, delivery.page);
        let text = ask(&card.whole());
        let whole = (length(&text) <= delivery.limit).then(|| WholeCard::shown(approval));
        let text = match whole {
            Some(_) => text,
            None => part(
                &card,
                sentences,
                delivery.limit,
                &[("where", &place), ("no", &no)],
            ),
        };
        Prompt {
            approval: approval.id,
            digest: approval.digest,
            text,
            origins,
            approve: whole.as_ref().map(|_| payload(approval, APPROVE)),
            deny: payload(approval, DENY),
            whole,
            place,
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

    /// The statement that all of it was shown, for whoever showed `text`; nothing where part of it is missing.
    pub fn whole(&self) -> Option<&WholeCard> {
        self.whole.as_ref()
    }

    /// Where the whole card is, for people: an address, or a command.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What a reply is read against: labels and the act's own words, never this text.
    pub fn offered(&self) -> &Offer<'static> {
        &self.offer
    }
}

/// Where all of a card can be seen, and decided.
fn place(approval: &Approval, page: Option<&str>) -> String {
    let command = format!("`countersign show {} --full`", approval.id.short());
    match page {
        Some(page) => format!("{page}/approvals/{} ({command})", approval.id),
        None => command,
    }
}

/// As much of a card as fits, how much is missing, and where it is. `values` are the place and the denying label.
fn part(card: &CardText, sentences: &Sentences, limit: usize, values: &[(&str, &str)]) -> String {
    let tail = |missing: Missing| {
        let (calls, of) = (missing.calls.to_string(), missing.of.to_string());
        let bytes = missing.bytes.to_string();
        let sentence = match missing.of {
            1 => &sentences.missing_bytes,
            _ => &sentences.missing_calls,
        };
        let missing = fill(sentence, &[("calls", &calls), ("total", &of), ("bytes", &bytes)]);
        fill(&sentences.part, &[&[("missing", &*missing)], values].concat())
    };
    let (_, all) = card.fitting(0);
    let room = limit.saturating_sub(length(&tail(all)) + 1);
    let (text, missing) = card.fitting(room);
    match text.is_empty() {
        true => tail(missing),
        false => format!("{text}\n{}", tail(missing)),
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

/// What a button says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Button {
    /// Yes, to a card that was shown whole.
    Approve(WholeCard),
    /// No.
    Deny,
}

/// The letters of a proof: 96 bits, so that a payload fits into the 64 bytes some chats allow.
const PROOF: usize = 24;

/// What a button under a whole card says.
const APPROVE: &[u8] = b"approve the whole card";
const DENY: &[u8] = b"deny";

fn payload(approval: &Approval, answer: &[u8]) -> String {
    let id: String = approval
        .id
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{id}.{}", proof(approval, answer))
}

fn proof(approval: &Approval, answer: &[u8]) -> String {
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
    pub fn says(&self, approval: &Approval, channel: &Channel) -> Option<Button> {
        let is = |answer| self.is_from(approval, channel) && is_same(&proof(approval, answer), &self.proof);
        // Such a payload is given out with a whole card only.
        let approve = is(APPROVE).then(|| Button::Approve(WholeCard::shown(approval)));
        approve.or_else(|| is(DENY).then_some(Button::Deny))
    }
}

/// Compares in a time that tells nothing of where they differ.
fn is_same(expected: &str, given: &str) -> bool {
    let pairs = expected.bytes().zip(given.bytes());
    expected.len() == given.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
