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
use crate::decision::{Choice, Decider, Decision, Refusal, Verdict};
use crate::executor::Outcome;
use crate::gate::{Gate, Heard, Reply, Resolved};
use crate::hash::Hash;
use crate::id::{Channel, Key, Tenant};
use crate::prompt::{Pressed, Prompt, summary};
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
}

impl Conversations {
    /// Conversations over a gate, in each person's language so far as there is a catalogue.
    pub fn new(gate: Gate) -> Conversations {
        Conversations {
            gate,
            sentences: None,
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
    pub fn prompt(&self, approval: &Approval, language: Option<&str>) -> Prompt {
        Prompt::of(approval, self.gate.policy(), &self.sentences(language))
    }

    /// Records that a card stands in the channel now, as the message `id`. Until this is done, a yes shows it again.
    pub async fn shown(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        prompt: &Prompt,
        id: Key,
    ) -> Result<(), StoreError> {
        let card = Card {
            message: id,
            digest: prompt.digest,
            language: prompt.offered().language().map(str::to_owned),
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
        let Some(pending) = store.pending_in(&message.tenant, &message.channel).await? else {
            return Ok(Said::passed_on(true));
        };
        // Nobody says which language a reply is in: then it answers the card in the card's own.
        let shown_in = memory.card.as_ref().and_then(|card| card.language.as_deref());
        let sentences = self.sentences(message.language.as_deref().or(shown_in));
        let prompt = Prompt::of(&pending, self.gate.policy(), &sentences);
        let read = interpret(prompt.offered(), &message.text, message.language.as_deref());
        let is_approver = |call: &Call| message.sender.is_among(&call.terms.approvers);
        if matches!(read.why, Why::Filler(_)) && pending.calls.iter().any(is_approver) {
            let too_little = match prompt.can_undo {
                true => &sentences.too_little,
                false => &sentences.too_little_for_ever,
            };
            let say = fill(too_little, &[("yes", &prompt.yes), ("no", &prompt.no)]);
            return Ok(Said {
                read: Some(read),
                heard: Heard::ShowAgain(pending),
                say: Some(say),
                show: Some(prompt),
                goes_on: false,
            });
        }
        let reply = Reply {
            seen: seen(&memory, &message),
            tenant: message.tenant,
            channel: message.channel,
            sender: message.sender,
            reading: read.reading,
            message: Some(message.id),
        };
        let (tenant, channel, id) = (reply.tenant.clone(), reply.channel.clone(), reply.message.clone());
        match self.gate.hear(reply).await {
            Ok(heard) => {
                let asks_again = matches!(&heard, Heard::Decided(resolved) if is_not_as_shown(resolved));
                let mut said = self.answer(read, heard, &sentences);
                if asks_again {
                    let again = self.gate.store().pending_in(&tenant, &channel).await?;
                    said.show = again.map(|again| Prompt::of(&again, self.gate.policy(), &sentences));
                }
                Ok(said)
            }
            Err(error) => {
                // It will be sent again, and then it counts. Deciding twice is kept apart by its key.
                if let Some(id) = id {
                    let forgotten = remember(store, &tenant, &channel, |memory| memory.forget(&id));
                    // The store fails already; what was heard stays so, and decides nothing.
                    let _ = forgotten.await;
                }
                Err(error)
            }
        }
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
        let verdict = match (pressed.verdict(&approval, channel), only) {
            (None, _) => return refused(Refusal::Stale { id, digest }, approval),
            (Some(Verdict::Approve), Some(only)) => match choices(&approval, only) {
                Ok(choices) => Verdict::Each(choices),
                Err(refusal) => return refused(refusal, approval),
            },
            (Some(verdict), _) => verdict,
        };
        let decision = Decision {
            tenant: tenant.clone(),
            approval: approval.id,
            decider: by,
            verdict,
            digest: Some(approval.digest),
            comment: None,
            claimed_by: None,
            key,
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
            State::Pending | State::Superseded | State::Withdrawn => None,
        }
    }

    fn answer(&self, read: Interpreted, heard: Heard, sentences: &Sentences) -> Said {
        let policy = self.gate.policy();
        let card = |approval: &SharedApproval| Some(Prompt::of(approval, policy, sentences));
        let what = |approval: &SharedApproval| summary(approval, sentences);
        let (say, show, goes_on) = match &heard {
            Heard::NotForUs => (None, None, true),
            Heard::Decided(resolved) => (Some(outcome(resolved, sentences)), None, false),
            Heard::Cancelled(approval) => {
                let say = fill(&sentences.cancelled_by_other, &[("what", &what(approval))]);
                (Some(say), None, true)
            }
            Heard::Kept(approval) => (Some(sentences.kept.clone()), card(approval), true),
            Heard::ShowAgain(approval) => (Some(sentences.show_again.clone()), card(approval), false),
            Heard::Refused(refusal) => {
                let say = fill(
                    &sentences.refused,
                    &[("why", &sentences.reasons.refusal(refusal))],
                );
                // Words that were no answer still have a reader.
                (Some(say), None, read.reading == Reading::Other)
            }
        };
        Said {
            read: Some(read),
            heard,
            say,
            show,
            goes_on,
        }
    }

    /// What is said to somebody who speaks this language.
    pub fn sentences(&self, language: Option<&str>) -> Sentences {
        match &self.sentences {
            Some(sentences) => sentences.clone(),
            None => Sentences::for_language(language.unwrap_or("en")),
        }
    }
}

/// The digest of the card the sender had before their eyes: the last thing shown, and before their message.
fn seen(memory: &Memory, message: &Message) -> Option<Hash> {
    let card = memory.card.as_ref()?;
    (message.after.as_ref() == Some(&card.message)).then_some(card.digest)
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
