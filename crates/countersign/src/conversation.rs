//! A conversation: from a message in a channel to what happened and what the channel says.
//!
//! Enters: a message from a verified sender, and the fact that a card was shown. Leaves: [`Said`]. The order is
//! fixed: the pending approval first, then the reading, then the act.
//!
//! Which card stands in a channel is remembered in the store. A yes to a card that nobody remembers decides nothing:
//! it is shown again.

mod memory;

use memory::{Card, Memory, remember};

use crate::approval::{Approval, SharedApproval};
use crate::call::{Because, Call};
use crate::card::WholeCard;
use crate::decision::{Choice, Decider, Decision, Refusal, Verdict};
use crate::executor::Outcome;
use crate::gate::{Gate, Heard, Reply, Resolved};
use crate::id::{Channel, Key, Tenant};
use crate::prompt::{Button, Delivery, LONGEST_MESSAGE, Pressed, Prompt, SHORTEST_LIMIT, summary};
use crate::reply::{Interpreted, Reading, Why, interpret};
use crate::sentence::{Sentences, fill};
use crate::state::{CallState, State};
use crate::store::StoreError;

/// A message in a channel.
#[derive(Clone, Debug)]
pub struct Message {
    /// Whose world.
    pub tenant: Tenant,
    /// The conversation.
    pub channel: Channel,
    /// Who sent it, as the channel's adapter verified.
    pub sender: Decider,
    /// What they wrote.
    pub text: String,
    /// Their language, if it is known.
    pub language: Option<String>,
    /// The message's id in its channel.
    pub id: Key,
    /// What kind of message it is.
    pub origin: Origin,
    /// The last message of ours that stood in the channel when this one was sent, or that it answers.
    pub after: Option<Key>,
}

/// How a message came to be. Only a person's own, new words decide anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Written by its sender, just now.
    Written,
    /// An older message, changed.
    Edited,
    /// Somebody else's words, passed on.
    Forwarded,
    /// From a program, ours or another.
    Program,
}

/// What came of a message.
#[derive(Debug)]
pub struct Said {
    /// How it was read; nothing when it was not looked at.
    pub read: Option<Interpreted>,
    /// What happened.
    pub heard: Heard,
    /// What the channel says now.
    pub say: Option<String>,
    /// The card to show now.
    pub show: Option<Prompt>,
    /// Whether the message goes on to the agent.
    pub goes_on: bool,
}

/// Conversations over one gate. Clones share everything.
#[derive(Clone)]
pub struct Conversations {
    gate: Gate,
    sentences: Option<Sentences>,
    limit: usize,
    page: Option<String>,
}

impl Conversations {
    /// Conversations over a gate, in each person's language so far as there is a catalogue.
    pub fn new(gate: Gate) -> Conversations {
        Conversations {
            gate,
            sentences: None,
            limit: LONGEST_MESSAGE,
            page: None,
        }
    }

    /// Writes messages of at most so many UTF-16 code units, as chats count; at least [`SHORTEST_LIMIT`]. A card that is
    /// longer is shown in part, and cannot be approved in the conversation.
    pub fn with_limit(self, limit: usize) -> Conversations {
        Conversations {
            limit: limit.max(SHORTEST_LIMIT),
            ..self
        }
    }

    /// Names the inbox page's address, `https://approvals.example.com` say: what does not fit is shown there.
    pub fn with_page(self, page: impl Into<String>) -> Conversations {
        Conversations {
            page: Some(page.into()),
            ..self
        }
    }

    /// Says these sentences to everybody.
    pub fn with_sentences(self, sentences: Sentences) -> Conversations {
        Conversations {
            sentences: Some(sentences),
            ..self
        }
    }

    /// The gate behind them.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The card of an approval. Once it stands in the channel, say so with [`Conversations::shown`].
    pub async fn prompt(&self, approval: &Approval, language: Option<&str>) -> Result<Prompt, StoreError> {
        self.prompt_in(approval, &self.sentences(language)).await
    }

    async fn prompt_in(&self, approval: &Approval, sentences: &Sentences) -> Result<Prompt, StoreError> {
        let concerns = match approval.state {
            State::Pending => self.gate.concerns(approval).await?,
            _ => Vec::new(),
        };
        let delivery = Delivery {
            limit: self.limit,
            concerns: &concerns,
            page: self.page.as_deref(),
        };
        Ok(Prompt::of(approval, self.gate.policy(), sentences, delivery))
    }

    /// Records that a card stands in the channel now, as the message `id`. Until this is done, a yes shows it again. A
    /// prompt that leaves something out is no card that a yes could be about.
    pub async fn shown(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        prompt: &Prompt,
        id: Key,
    ) -> Result<(), StoreError> {
        match prompt.whole() {
            Some(card) => {
                let language = prompt.offered().language();
                self.shown_whole(tenant, channel, card, language, id).await
            }
            None => self.said(tenant, channel).await,
        }
    }

    /// As [`Conversations::shown`], for whoever knows that all of the card stands there.
    pub async fn shown_whole(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        card: &WholeCard,
        language: Option<&str>,
        id: Key,
    ) -> Result<(), StoreError> {
        let card = Card {
            message: id,
            digest: card.digest(),
            language: Some(self.sentences(language).language),
            whole: true,
        };
        let change = |memory: &mut Memory| memory.card = Some(card.clone());
        remember(self.gate.store(), tenant, channel, change).await?;
        Ok(())
    }

    /// Records that something else of ours stands in the channel now: the card is no longer the last thing shown.
    pub async fn said(&self, tenant: &Tenant, channel: &Channel) -> Result<(), StoreError> {
        let change = |memory: &mut Memory| memory.card = None;
        remember(self.gate.store(), tenant, channel, change).await?;
        Ok(())
    }

    /// Hears a message.
    pub async fn hear(&self, message: Message) -> Result<Said, StoreError> {
        if message.origin != Origin::Written {
            return Ok(Said::passed_on(message.origin != Origin::Program));
        }
        let store = self.gate.store();
        let (memory, is_new) = remember(store, &message.tenant, &message.channel, |memory| {
            memory.hear(&message.id)
        })
        .await?;
        if !is_new {
            return Ok(Said::passed_on(false));
        }
        let (tenant, channel, id) = (
            message.tenant.clone(),
            message.channel.clone(),
            message.id.clone(),
        );
        let said = self.hear_new(message, &memory).await;
        if said.is_err() {
            // It will be sent again, and then it counts. Deciding twice is kept apart by its key.
            let forgotten = remember(store, &tenant, &channel, |memory| memory.forget(&id));
            // The store fails already; what was heard stays so, and decides nothing.
            let _ = forgotten.await;
        }
        said
    }

    /// Hears a message that did not come before.
    async fn hear_new(&self, message: Message, memory: &Memory) -> Result<Said, StoreError> {
        let store = self.gate.store();
        let Some(pending) = store.pending_in(&message.tenant, &message.channel).await? else {
            return Ok(Said::passed_on(true));
        };
        // Nobody says which language a reply is in: then it answers the card in the card's own.
        let shown_in = memory.card.as_ref().and_then(|card| card.language.as_deref());
        let sentences = &self.sentences(message.language.as_deref().or(shown_in));
        // Only for reading: what is shown is made again, with all that is known.
        let prompt = Prompt::of(&pending, self.gate.policy(), sentences, Delivery::default());
        let read = interpret(prompt.offered(), &message.text, message.language.as_deref());
        let is_approver = |call: &Call| message.sender.is_among(&call.terms.approvers);
        if matches!(read.why, Why::Filler(_)) && pending.calls.iter().any(is_approver) {
            let too_little = match prompt.can_undo {
                true => &sentences.too_little,
                false => &sentences.too_little_for_ever,
            };
            let say = fill(too_little, &[("yes", &prompt.yes), ("no", &prompt.no)]);
            let show = self.prompt_in(&pending, sentences).await?;
            return Ok(Said {
                read: Some(read),
                heard: Heard::ShowAgain(pending),
                say: Some(say),
                show: Some(show),
                goes_on: false,
            });
        }
        let reply = Reply {
            seen: seen(memory, &message, &pending),
            tenant: message.tenant,
            channel: message.channel,
            sender: message.sender,
            reading: read.reading,
            message: Some(message.id),
        };
        let (tenant, channel) = (reply.tenant.clone(), reply.channel.clone());
        let heard = self.gate.hear(reply).await?;
        let asks_again = matches!(&heard, Heard::Decided(resolved) if is_not_as_shown(resolved));
        let mut said = self.answer(read, heard, sentences).await?;
        if asks_again && let Some(again) = store.pending_in(&tenant, &channel).await? {
            said.show = Some(self.prompt_in(&again, sentences).await?);
        }
        Ok(said)
    }

    /// Takes a button pressed in a channel: bound to its card whatever else was shown since. Nothing when no such
    /// button stands in this channel.
    pub async fn press(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        payload: &str,
        by: Decider,
        key: Option<Key>,
    ) -> Result<Option<Resolved>, StoreError> {
        self.press_only(tenant, channel, payload, None, by, key).await
    }

    /// The same where the card lets one choose: of several calls only those at these positions, from 1, are approved.
    pub async fn press_only(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        payload: &str,
        only: Option<&[u8]>,
        by: Decider,
        key: Option<Key>,
    ) -> Result<Option<Resolved>, StoreError> {
        let Some(pressed) = Pressed::read(payload) else {
            return Ok(None);
        };
        let approval = self.gate.store().approval(tenant, pressed.approval).await?;
        let approval = approval.filter(|approval| pressed.is_from(approval, channel));
        let Some(approval) = approval else {
            return Ok(None);
        };
        let refused = |refusal, approval| {
            Ok(Some(Resolved {
                refusal: Some(refusal),
                approval: Some(approval),
                ran: Vec::new(),
            }))
        };
        let (id, digest) = (approval.id, approval.digest);
        let decision = match (pressed.says(&approval, channel), only) {
            (None, _) => return refused(Refusal::Stale { id, digest }, approval),
            (Some(Button::Deny), _) => Decision::deny(tenant.clone(), id, by),
            (Some(Button::Approve(card)), None) => Decision::on(tenant.clone(), card, by, Verdict::Approve),
            (Some(Button::Approve(card)), Some(only)) => match choices(&approval, only) {
                Ok(choices) => Decision::on(tenant.clone(), card, by, Verdict::Each(choices)),
                Err(refusal) => return refused(refusal, approval),
            },
        };
        let decision = Decision {
            digest: Some(digest),
            key,
            ..decision
        };
        self.gate.decide_and_run(decision).await.map(Some)
    }

    /// What the channel says to a decision, from a button or a reply.
    pub fn outcome(&self, resolved: &Resolved, language: Option<&str>) -> String {
        outcome(resolved, &self.sentences(language))
    }

    /// What the channel says about an approval that ended without it: decided on a page, by another program, or by
    /// time. Nothing when it was taken back or replaced, which whoever did so has said.
    pub fn ending(&self, approval: &Approval, language: Option<&str>) -> Option<String> {
        let sentences = self.sentences(language);
        match approval.state {
            State::Approved => Some(part_outcome(approval, &sentences)),
            State::Denied => Some(sentences.cancelled),
            State::Expired => {
                let what = summary(approval, &sentences);
                Some(fill(&sentences.expired, &[("what", &what)]))
            }
            State::Pending | State::Superseded | State::Withdrawn | State::Passed => None,
        }
    }

    async fn answer(
        &self,
        read: Interpreted,
        heard: Heard,
        sentences: &Sentences,
    ) -> Result<Said, StoreError> {
        let card = match &heard {
            Heard::Kept(approval) | Heard::ShowAgain(approval) | Heard::Incomplete(approval) => {
                Some(self.prompt_in(approval, sentences).await?)
            }
            _ => None,
        };
        // What cannot be shown whole here is not worth showing again: a yes would be as little as before.
        let heard = match (heard, &card) {
            (Heard::ShowAgain(approval), Some(card)) if card.whole().is_none() => Heard::Incomplete(approval),
            (heard, _) => heard,
        };
        let what = |approval: &SharedApproval| summary(approval, sentences);
        let (say, show, goes_on) = match &heard {
            Heard::NotForUs => (None, None, true),
            Heard::Decided(resolved) => (Some(outcome(resolved, sentences)), None, false),
            Heard::Cancelled(approval) => {
                let say = fill(&sentences.cancelled_by_other, &[("what", &what(approval))]);
                (Some(say), None, true)
            }
            Heard::Kept(_) => (Some(sentences.kept.clone()), card, true),
            Heard::ShowAgain(_) => (Some(sentences.show_again.clone()), card, false),
            Heard::Incomplete(_) => {
                let place = card.as_ref().map(Prompt::place).unwrap_or_default();
                let say = fill(&sentences.incomplete, &[("where", place)]);
                (Some(say), None, false)
            }
            Heard::Refused(refusal) => {
                let say = fill(
                    &sentences.refused,
                    &[("why", &sentences.reasons.refusal(refusal))],
                );
                // Words that were no answer still have a reader.
                (Some(say), None, read.reading == Reading::Other)
            }
        };
        Ok(Said {
            read: Some(read),
            heard,
            say,
            show,
            goes_on,
        })
    }

    /// What is said to somebody who speaks this language.
    pub fn sentences(&self, language: Option<&str>) -> Sentences {
        match &self.sentences {
            Some(sentences) => sentences.clone(),
            None => Sentences::for_language(language.unwrap_or("en")),
        }
    }
}

/// The card the sender had before their eyes, all of it: the last thing shown, and before their message.
fn seen(memory: &Memory, message: &Message, pending: &Approval) -> Option<WholeCard> {
    let card = memory.card.as_ref().filter(|card| card.whole)?;
    let is_seen = message.after.as_ref() == Some(&card.message) && card.digest == pending.digest;
    is_seen.then(|| WholeCard::of(pending.id, card.digest))
}

impl Said {
    fn passed_on(goes_on: bool) -> Said {
        Said {
            read: None,
            heard: Heard::NotForUs,
            say: None,
            show: None,
            goes_on,
        }
    }
}

/// One choice for each call. Positions that the card does not have are somebody's mistake, and no choice.
fn choices(approval: &Approval, only: &[u8]) -> Result<Vec<Choice>, Refusal> {
    let is_there = |position: &u8| approval.call(*position).is_some();
    if only.is_empty() || !only.iter().all(is_there) {
        return Err(Refusal::BadChoices {
            id: approval.id,
            calls: approval.calls.len(),
            choices: only.len(),
        });
    }
    let choice = |(position, _)| match only.contains(&position) {
        true => Choice::Approve,
        false => Choice::Deny,
    };
    Ok(approval.numbered().map(choice).collect())
}

/// Whether something was not run because what it would change has changed.
fn is_not_as_shown(resolved: &Resolved) -> bool {
    let approval = resolved.approval.as_ref();
    approval.is_some_and(|approval| approval.calls.iter().any(|call| not_as_shown(call).is_some()))
}

fn not_as_shown(call: &Call) -> Option<&Because> {
    let because = call.because.as_ref();
    because.filter(|because| {
        matches!(
            because,
            Because::Changed | Because::Unreadable | Because::NothingToUndo
        )
    })
}

fn outcome(resolved: &Resolved, sentences: &Sentences) -> String {
    if let Some(refusal) = &resolved.refusal {
        return fill(
            &sentences.refused,
            &[("why", &sentences.reasons.refusal(refusal))],
        );
    }
    let Some(approval) = &resolved.approval else {
        return sentences.cancelled.clone();
    };
    let what = summary(approval, sentences);
    if approval.state == State::Pending {
        return fill(&sentences.endorsed, &[("what", &what)]);
    }
    if approval
        .decision
        .as_ref()
        .is_none_or(|decision| !decision.approved)
    {
        return sentences.cancelled.clone();
    }
    let not_as_shown = approval.calls.iter().find_map(not_as_shown);
    if let (Some(because), []) = (not_as_shown, resolved.ran.as_slice()) {
        return fill(
            &sentences.refused,
            &[("why", &sentences.reasons.because(because))],
        );
    }
    let is_left_out = |call: &Call| call.because == Some(Because::Denied);
    if approval.calls.iter().any(is_left_out) {
        return part_outcome(approval, sentences);
    }
    let ended = |wanted: fn(&Outcome) -> bool| resolved.ran.iter().any(|ran| wanted(&ran.outcome));
    let sentence = if ended(|outcome| matches!(outcome, Outcome::Unknown(_))) {
        &sentences.unknown
    } else if ended(|outcome| matches!(outcome, Outcome::Failed(_))) {
        &sentences.failed
    } else if approval
        .calls
        .iter()
        .all(|call| call.state == CallState::Succeeded)
    {
        &sentences.done
    } else {
        &sentences.approved
    };
    fill(sentence, &[("what", &what)])
}

/// What became of each call of a card that was approved, in whole or in part.
fn part_outcome(approval: &Approval, sentences: &Sentences) -> String {
    let line = |call: &crate::call::Call| {
        let sentence = match (call.state, &call.because) {
            (CallState::Succeeded, _) => &sentences.done,
            (CallState::Failed, _) => &sentences.failed,
            (CallState::Unknown, _) => &sentences.unknown,
            (CallState::Refused, Some(Because::Denied)) => &sentences.left_out,
            (CallState::Refused, _) => &sentences.not_run,
            _ => &sentences.approved,
        };
        fill(sentence, &[("what", &call.terms.summary)])
    };
    let lines: Vec<String> = approval.calls.iter().map(line).collect();
    lines.join("\n")
}
