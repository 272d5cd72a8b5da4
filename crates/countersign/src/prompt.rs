//! The prompt: an approval as shown in a conversation, with text, two labels and two opaque button payloads.
//!
//! A [`Prompt`] is built for a pending approval and a maximum length of a message. A button's payload is bound to the
//! approval, its channel, the exact card, and one of the two answers.
//!
//! INVARIANT: a prompt that leaves something out offers no way to approve: no button and no [`WholeCard`].

use crate::approval::Approval;
use crate::card::{CardText, Missing, WholeCard, length};
use crate::concern::Concern;
use crate::display::one_line;
use crate::hash::{Fields, Hash};
use crate::id::{ApprovalId, Channel};
use crate::policy::{Policy, Undoable};
use crate::provenance::Voucher;
use crate::reply::Offer;
use crate::secrecy::Secrecy;
use crate::sentence::{Origins, Sentences, fill};
use crate::time::Time;

/// Maximum number of calls listed in the summary of a batch.
const MOST_LINES: usize = 20;

/// Default maximum length of a message, in UTF-16 code units: a little less than Telegram allows.
pub const LONGEST_MESSAGE: usize = 4_000;
/// Lowest limit that a conversation may set; a shorter message has no room for the question itself.
pub const SHORTEST_LIMIT: usize = 400;

/// Settings for building a prompt.
#[derive(Clone, Copy, Debug)]
pub struct PromptOptions<'a> {
    /// Maximum length of the text, in UTF-16 code units, as chats count. Default: [`LONGEST_MESSAGE`].
    pub limit: usize,
    /// Concerns to show: one list for each call, in the order of the calls.
    pub concerns: &'a [Vec<Concern>],
    /// Address of the inbox, if there is one, for cards that do not fit.
    pub page: Option<&'a str>,
}

impl Default for PromptOptions<'_> {
    fn default() -> Self {
        PromptOptions {
            limit: LONGEST_MESSAGE,
            concerns: &[],
            page: None,
        }
    }
}

/// A pending approval as shown in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// Id of the approval; not for display.
    pub approval: ApprovalId,
    /// Digest of the card; a decision that names another digest is stale.
    pub digest: Hash,
    /// Summary of the calls, escaped for display.
    pub summary: String,
    /// Verdict on the provenance of the values, with those that the person did not give; `None` if no conversation was
    /// given. Escaped for display.
    pub origins: Option<String>,
    /// Card and question, to be shown unchanged. If the card does not fit, the text says how much is missing and where
    /// to see it.
    pub text: String,
    /// The statement that `text` shows the whole card; `None` if part of the card is missing.
    whole: Option<WholeCard>,
    /// Location of the whole card, for display.
    place: String,
    offer: Box<Offer<'static>>,
    /// Label of the approve button.
    pub yes: String,
    /// Label of the deny button.
    pub no: String,
    /// Payload of the approve button; `None` if part of the card is missing, so that there is no such button.
    pub approve: Option<String>,
    /// Payload of the deny button.
    pub deny: String,
    /// Whether approving takes an explicit yes, not just a filler such as "ok".
    pub needs_yes: bool,
    /// Whether every call can be undone.
    pub can_undo: bool,
    /// Number of calls that a reply can refer to by number; 0 if there is only one call.
    pub numbered: usize,
    /// Time from which the approval can no longer be decided.
    pub expires_at: Time,
}

impl Prompt {
    /// Builds the prompt for an approval. The policy determines what is secret.
    pub fn of(
        approval: &Approval,
        policy: &Policy,
        sentences: &Sentences,
        options: PromptOptions<'_>,
    ) -> Prompt {
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
        let card = CardText::new(approval, policy, options.concerns, sentences);
        let place = place(approval, options.page);
        let text = ask(&card.whole());
        let fits = length(&text) <= options.limit;
        let whole = match fits && approval.concealed(policy).is_none() {
            true => Some(WholeCard::shown(approval)),
            false => None,
        };
        let text = match fits {
            true => text,
            false => part(&card, sentences, options.limit, &[("where", &place), ("no", &no)]),
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

    /// Returns the statement that the whole card was shown, for callers that displayed `text`; `None` if part of the
    /// card is missing.
    pub fn whole(&self) -> Option<&WholeCard> {
        self.whole.as_ref()
    }

    /// Returns the location of the whole card, for people: an address or a command.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the labels and words of the act that replies are interpreted against. The text of the card is never part
    /// of them.
    pub fn offered(&self) -> &Offer<'static> {
        &self.offer
    }
}

/// Returns where the whole card can be seen and decided.
fn place(approval: &Approval, page: Option<&str>) -> String {
    let command = format!("`countersign show {} --full`", approval.id.short());
    match page {
        Some(page) => format!("{page}/approvals/{} ({command})", approval.id),
        None => command,
    }
}

/// Returns as much of a card as fits, how much is missing, and where to see it. `values` fills the placeholders for
/// that location and for the deny label.
fn part(card: &CardText, sentences: &Sentences, limit: usize, values: &[(&str, &str)]) -> String {
    let tail = |missing: Missing| {
        let (calls, of) = (missing.calls.to_string(), missing.of.to_string());
        let bytes = missing.bytes.to_string();
        let sentence = match missing.of {
            1 => &sentences.missing_bytes,
            _ => &sentences.missing_calls,
        };
        let missing = fill(sentence, &[("calls", &calls), ("total", &of), ("bytes", &bytes)]);
        fill(
            &sentences.truncated_ask,
            &[&[("missing", &*missing)], values].concat(),
        )
    };
    let (_, all) = card.fitting(0);
    let room = limit.saturating_sub(length(&tail(all)) + 1);
    let (text, missing) = card.fitting(room);
    match text.is_empty() {
        true => tail(missing),
        false => format!("{text}\n{}", tail(missing)),
    }
}

/// Returns the summary of the calls: one sentence, or a numbered list.
pub(crate) fn summary(approval: &Approval, sentences: &Sentences) -> String {
    if let [call] = approval.calls.as_slice() {
        return one_line(&call.terms.summary).into_owned();
    }
    let count = approval.calls.len();
    let mut lines = vec![fill(&sentences.several, &[("count", &count.to_string())])];
    let shown = approval.numbered().take(MOST_LINES);
    lines.extend(shown.map(|(position, call)| format!("{position}. {}", one_line(&call.terms.summary))));
    if count > MOST_LINES {
        lines.push(format!("… + {}", count - MOST_LINES));
    }
    lines.join("\n")
}

/// Returns the provenance to show: for a single call, the verdict and the values not given by the person; for a batch,
/// the verdicts of calls with such values. `None` if there is nothing to show.
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
                .any(|(_, provenance)| provenance.vouched_by() == Voucher::Agent);
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

/// A button press: the approval, and a proof of which card and answer it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pressed {
    /// Id of the approval.
    pub approval: ApprovalId,
    proof: String,
}

/// Answer that a button press gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Button {
    /// Approves a card that was shown whole.
    Approve(WholeCard),
    /// Denies the card.
    Deny,
}

/// Length of a proof in hex digits: 96 bits, so that a payload fits into the 64 bytes that some chats allow.
const PROOF: usize = 24;

/// Answer hashed into the proof of an approve button.
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
    /// Parses a button's payload; `None` if it does not have the form of one. [`Pressed::says`] checks whether its
    /// proof is right.
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

    /// Returns true if the card belongs to this channel. A press relayed under another channel's name is ignored,
    /// because it cannot come from the person who saw the card.
    pub fn is_from(&self, approval: &Approval, channel: &Channel) -> bool {
        self.approval == approval.id && approval.channel.as_ref() == Some(channel)
    }

    /// Returns the answer for this approval in this channel; `None` if the button belongs to another card.
    pub fn says(&self, approval: &Approval, channel: &Channel) -> Option<Button> {
        let is = |answer| self.is_from(approval, channel) && is_same(&proof(approval, answer), &self.proof);
        // A payload that approves is issued only with a whole card.
        let approve = is(APPROVE).then(|| Button::Approve(WholeCard::shown(approval)));
        approve.or_else(|| is(DENY).then_some(Button::Deny))
    }
}

/// Returns true if two proofs are equal. Takes constant time, so that the time reveals nothing about the expected one.
fn is_same(expected: &str, given: &str) -> bool {
    let pairs = expected.bytes().zip(given.bytes());
    expected.len() == given.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
