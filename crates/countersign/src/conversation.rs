//! Chat conversations: handles the messages of a channel and decides what to reply.
//!
//! Input: messages from verified senders, and reports that a card was shown. Output: [`MessageResponse`]. The order is
//! fixed: look up the pending approval, interpret the message, then act.
//!
//! The card that was shown last in a channel is remembered in the store. If a yes does not refer to that card, it
//! decides nothing, and the card is shown again.

mod channel_state;

use channel_state::{
    Card, ChannelState, FetchedCard, Undecided, UndecidedEffect, mark_heard, read_channel, unmark_heard,
    update_channel,
};

use std::borrow::Cow;

use crate::approval::{Approval, SharedApproval};
use crate::call::{Call, RefusalReason};
use crate::card::WholeCard;
use crate::decision::{Choice, Decider, Decision, Refusal, Verdict};
use crate::display::{clip, one_line};
use crate::effect::Effect;
use crate::executor::Outcome;
use crate::gate::{Gate, Reply, ReplyOutcome, Resolved, Until, Waited, may_answer};
use crate::id::{Channel, Key, Tenant};
use crate::json;
use crate::policy::{OnOther, Policy};
use crate::prompt::{Button, LONGEST_MESSAGE, Pressed, Prompt, PromptOptions, SHORTEST_LIMIT, summary};
use crate::reply::{
    CardWords, Interpreted, Reading, Why, begins_with_no, interpret, is_about_card, mentions_action,
    positions_in,
};
use crate::sentence::{Sentences, fill};
use crate::state::{CallState, State};
use crate::store::StoreError;

/// Maximum length of a tool's message about a call in a reply, in characters.
const LONGEST_TOOL_WORDS: usize = 400;

/// A message that was sent in a channel.
#[derive(Clone, Debug)]
pub struct Message {
    /// Tenant of the channel.
    pub tenant: Tenant,
    /// Channel in which the message was sent.
    pub channel: Channel,
    /// Sender, as verified by the channel's adapter.
    pub sender: Decider,
    /// Text of the message.
    pub text: String,
    /// Language tag of the sender, such as `de`. `None` if it is unknown.
    pub language: Option<String>,
    /// Id of the message within its channel.
    pub id: Key,
    /// Origin of the message: written, edited, forwarded or sent by a program.
    pub origin: Origin,
    /// Id of the last message from the service that the sender saw: the one that this message replies to, or the latest
    /// in the channel when this message was sent. `None` if it is unknown; a yes then decides nothing.
    pub after: Option<Key>,
}

/// Origin of a message. Only new text written by its sender can decide anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Newly written by its sender.
    Written,
    /// An edit of an earlier message.
    Edited,
    /// Forwarded text of another sender.
    Forwarded,
    /// Sent by a program.
    Program,
}

/// Result of handling a message.
#[derive(Debug)]
#[non_exhaustive]
pub struct MessageResponse {
    /// Interpretation of the message; `None` if it was not interpreted.
    pub read: Option<Interpreted>,
    /// Effect of the message on the pending approval.
    pub heard: ReplyOutcome,
    /// Text to send to the channel, if any.
    pub say: Option<String>,
    /// Card to show in the channel, if any.
    pub show: Option<Prompt>,
    /// True if the message should be passed on to the agent.
    pub forward_to_agent: bool,
    /// True if the message decides nothing and asks about the pending card or corrects it.
    pub is_about_card: bool,
    /// True if a message with this id was handled before. The response then says what came of it at that time, and the
    /// message is not passed on a second time.
    pub is_repeated: bool,
}

/// Handles conversations for one gate. Clones share the gate.
#[derive(Clone)]
pub struct Conversations {
    gate: Gate,
    sentences: Option<Sentences>,
    limit: usize,
    page: Option<String>,
    keeps_cards: bool,
}

impl Conversations {
    /// Creates conversations that answer in each person's language, or in English if the library has no sentences for
    /// that language.
    pub fn new(gate: Gate) -> Conversations {
        Conversations {
            gate,
            sentences: None,
            limit: LONGEST_MESSAGE,
            page: None,
            keeps_cards: false,
        }
    }

    /// Leaves a card pending when a message about something else comes, as `on_other = "keep"` does, and overrides that
    /// setting of the policy.
    pub fn with_cards_kept(self) -> Conversations {
        Conversations {
            keeps_cards: true,
            ..self
        }
    }

    /// Limits messages to this many UTF-16 code units, the unit in which chats count; the limit is at least
    /// [`SHORTEST_LIMIT`]. A longer card is shown in part and cannot be approved in the conversation.
    pub fn with_limit(self, limit: usize) -> Conversations {
        Conversations {
            limit: limit.max(SHORTEST_LIMIT),
            ..self
        }
    }

    /// Sets the address of the inbox, such as `https://approvals.example.com`. Messages refer people to it for a card
    /// that does not fit.
    pub fn with_page(self, page: impl Into<String>) -> Conversations {
        Conversations {
            page: Some(page.into()),
            ..self
        }
    }

    /// Uses these sentences for all people, whatever their language.
    pub fn with_sentences(self, sentences: Sentences) -> Conversations {
        Conversations {
            sentences: Some(sentences),
            ..self
        }
    }

    /// Returns the gate that decides and runs the calls.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Builds the prompt for an approval. Once it has been sent to the channel, call [`Conversations::shown`].
    pub async fn prompt(&self, approval: &Approval, language: Option<&str>) -> Result<Prompt, StoreError> {
        self.prompt_in(approval, &self.sentences(language)).await
    }

    async fn prompt_in(&self, approval: &Approval, sentences: &Sentences) -> Result<Prompt, StoreError> {
        let concerns = match approval.state {
            State::Pending => self.gate.concerns(approval).await?,
            _ => Vec::new(),
        };
        let options = PromptOptions {
            limit: self.limit,
            concerns: &concerns,
            page: self.page.as_deref(),
        };
        Ok(Prompt::of(approval, self.gate.policy(), sentences, options))
    }

    /// Records that a prompt was sent to the channel as the message `id`. Before that, a yes only causes the card to be
    /// shown again. A prompt that leaves something out is not recorded as a card that a yes can refer to.
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

    /// Records that a card was fetched in a language, for an adapter to post it in the channel. If the adapter then
    /// reports the card as shown without a language, this language is assumed.
    pub async fn fetched(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        approval: &Approval,
        language: &str,
    ) -> Result<(), StoreError> {
        let fetched = FetchedCard {
            digest: approval.digest,
            language: self.sentences(Some(language)).language,
        };
        let change = |state: &mut ChannelState| state.fetched = Some(fetched.clone());
        update_channel(self.gate.store(), tenant, channel, change).await?;
        Ok(())
    }

    /// Like [`Conversations::shown`], but for callers that know that the whole card was shown. If `language` is `None`,
    /// the language in which the card was [fetched](Self::fetched) is used.
    pub async fn shown_whole(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        card: &WholeCard,
        language: Option<&str>,
        id: Key,
    ) -> Result<(), StoreError> {
        let change = |state: &mut ChannelState| {
            let fetched = state.fetched.take_if(|fetched| fetched.digest == card.digest());
            let language = language.or(fetched.as_ref().map(|fetched| fetched.language.as_str()));
            state.card = Some(Card {
                message: id.clone(),
                digest: card.digest(),
                language: Some(self.sentences(language).language),
                whole: true,
            });
        };
        update_channel(self.gate.store(), tenant, channel, change).await?;
        Ok(())
    }

    /// Records that something other than a card was sent to the channel, so that the card is no longer the last thing
    /// shown.
    pub async fn said(&self, tenant: &Tenant, channel: &Channel) -> Result<(), StoreError> {
        let change = |state: &mut ChannelState| state.forget_card();
        update_channel(self.gate.store(), tenant, channel, change).await?;
        Ok(())
    }

    /// Returns the language in which an approval's card was shown in the channel, or else fetched for it.
    pub async fn card_language(
        &self,
        tenant: &Tenant,
        channel: &Channel,
        approval: &Approval,
    ) -> Result<Option<String>, StoreError> {
        let state = read_channel(self.gate.store(), tenant, channel).await?;
        Ok(state.language_of(approval.digest).map(str::to_owned))
    }

    /// Handles a message. A message whose id was handled before has no further effect: the response says again what came
    /// of it, or nothing if that is no longer known.
    pub async fn hear(&self, message: Message) -> Result<MessageResponse, StoreError> {
        if message.origin != Origin::Written {
            return Ok(MessageResponse::passed_on(message.origin != Origin::Program));
        }
        let store = self.gate.store();
        let pending = store.pending_in(&message.tenant, &message.channel).await?;
        let pending_id = pending.as_ref().map(|pending| pending.id);
        let (state, is_new) = update_channel(store, &message.tenant, &message.channel, |state| {
            state.record_message(&message.id, pending_id)
        })
        .await?;
        if !is_new {
            return self.hear_again(&message, &state).await;
        }
        let (tenant, channel, id) = (
            message.tenant.clone(),
            message.channel.clone(),
            message.id.clone(),
        );
        let said = match (mark_heard(store, &tenant, &channel, &id).await, pending) {
            (Ok(true), Some(pending)) => self.hear_new(message, pending, &state).await,
            (Ok(true), None) => Ok(MessageResponse::passed_on(true)),
            (Ok(false), _) => self.hear_again(&message, &state).await,
            (Err(error), _) => Err(error),
        };
        match &said {
            Ok(said) => {
                if let Some(undecided) = said.undecided() {
                    let change = |state: &mut ChannelState| state.record_answer(&id, &undecided);
                    // The message was handled. If this fails, only a repetition of it is not answered.
                    let _ = update_channel(store, &tenant, &channel, change).await;
                }
            }
            Err(_) => {
                // The sender will retry, and the retry must be handled. The idempotency key prevents a second decision.
                let forgotten = update_channel(store, &tenant, &channel, |state| state.forget(&id));
                // The store is failing already. If this fails as well, the retry is ignored and decides nothing.
                let _ = forgotten.await;
                let _ = unmark_heard(store, &tenant, &channel, &id).await;
            }
        }
        said
    }

    /// Returns the answer that a message got when it was handled, without any further effect. A card that was shown
    /// again then is shown only if it is still pending.
    async fn hear_again(
        &self,
        message: &Message,
        state: &ChannelState,
    ) -> Result<MessageResponse, StoreError> {
        let nothing = MessageResponse {
            is_repeated: true,
            ..MessageResponse::passed_on(false)
        };
        let Some(given) = state.answer_to(&message.id) else {
            return Ok(nothing);
        };
        let store = self.gate.store();
        let Some(approval) = store.approval(&message.tenant, given.approval).await? else {
            return Ok(nothing);
        };
        let sentences = &self.sentences(message.language.as_deref().or(given.language.as_deref()));
        let prompt = Prompt::of(&approval, self.gate.policy(), sentences, PromptOptions::default());
        let read = interpret(prompt.offered(), &message.text, message.language.as_deref());
        let read = ask_if_values_are_named(read, &message.text, &approval);
        if !may_answer(&message.sender, &approval) {
            return Ok(MessageResponse {
                read: Some(read),
                ..nothing
            });
        }
        if is_decided_by(&approval, message) {
            let approval = self.settled(&message.tenant, approval).await?;
            let resolved = Resolved {
                approval: Some(approval),
                refusal: None,
                ran: Vec::new(),
            };
            return Ok(MessageResponse {
                read: Some(read),
                say: Some(outcome(&resolved, self.gate.policy(), sentences)),
                heard: ReplyOutcome::Decided(resolved),
                ..nothing
            });
        }
        let Some(Undecided { effect, say }) = given.undecided.clone() else {
            return Ok(nothing);
        };
        let is_pending = approval.state == State::Pending && approval.expires_at > store.now().await?;
        let show = match effect {
            UndecidedEffect::Kept | UndecidedEffect::ShowAgain if is_pending => {
                Some(self.prompt_in(&approval, sentences).await?)
            }
            UndecidedEffect::Incomplete if is_pending => None,
            UndecidedEffect::Cancelled => None,
            // The card that the answer was about is gone.
            _ => return Ok(nothing),
        };
        let cancelled = || match begins_with_no(prompt.offered(), &message.text, message.language.as_deref())
        {
            true => sentences.cancelled.clone(),
            false => {
                let what = summary(&approval, sentences);
                fill(&sentences.cancelled_by_other, &[("what", &what)])
            }
        };
        Ok(MessageResponse {
            read: Some(read),
            say: Some(say.unwrap_or_else(cancelled)),
            show,
            heard: match effect {
                UndecidedEffect::Cancelled => ReplyOutcome::Cancelled(approval),
                UndecidedEffect::Kept => ReplyOutcome::Kept(approval),
                UndecidedEffect::ShowAgain => ReplyOutcome::ShowAgain(approval),
                UndecidedEffect::Incomplete => ReplyOutcome::Incomplete(approval),
            },
            ..nothing
        })
    }

    /// Waits until no call of an approval is running, so that a repeated decision gets the same answer as the first one.
    /// Waits no longer than such a call may take.
    async fn settled(&self, tenant: &Tenant, approval: SharedApproval) -> Result<SharedApproval, StoreError> {
        let running = approval
            .calls
            .iter()
            .filter(|call| call.state == CallState::Running);
        let Some(limit) = running.map(|call| call.terms.timeout).max() else {
            return Ok(approval);
        };
        match self
            .gate
            .wait(tenant, approval.id, Until::Finished, limit)
            .await?
        {
            Waited::Done(current) | Waited::TimedOut(current) => Ok(current),
            Waited::NotFound => Ok(approval),
        }
    }

    /// Handles a message that was not handled before, while an approval is pending.
    async fn hear_new(
        &self,
        message: Message,
        pending: SharedApproval,
        state: &ChannelState,
    ) -> Result<MessageResponse, StoreError> {
        let store = self.gate.store();
        // If the reply's language is unknown, assume that of the card.
        let shown_in = state.card.as_ref().and_then(|card| card.language.as_deref());
        let sentences = &self.sentences(message.language.as_deref().or(shown_in));
        // Used only to interpret the reply; a prompt that is shown is built separately, with concerns.
        let prompt = Prompt::of(&pending, self.gate.policy(), sentences, PromptOptions::default());
        let read = interpret(prompt.offered(), &message.text, message.language.as_deref());
        let read = ask_if_values_are_named(read, &message.text, &pending);
        if !may_answer(&message.sender, &pending) {
            return self.answer(read, ReplyOutcome::PassOn, sentences).await;
        }
        let again = match &read.why {
            Why::Filler(_) if prompt.can_undo => Some(&sentences.too_little),
            Why::Filler(_) => Some(&sentences.too_little_irreversible),
            // A reply that may have been meant as an answer does not cancel the approval.
            why if why.is_unclear() && self.on_other() == OnOther::Cancel => match why {
                Why::WhichOnes(_) => Some(&sentences.which_ones),
                Why::WhichPlaces(_) => Some(&sentences.which_places),
                _ => Some(&sentences.unclear),
            },
            _ => None,
        };
        if let Some(again) = again {
            let say = fill(again, &[("yes", &prompt.yes), ("no", &prompt.no)]);
            let show = self.prompt_in(&pending, sentences).await?;
            return Ok(MessageResponse {
                read: Some(read),
                heard: ReplyOutcome::ShowAgain(pending),
                say: Some(say),
                show: Some(show),
                forward_to_agent: false,
                is_about_card: true,
                is_repeated: false,
            });
        }
        let (offer, language) = (prompt.offered(), message.language.as_deref());
        let is_about_card = read.reading == Reading::Other
            && is_about_card(offer, &message.text, &read.why, language, &card_words(&pending));
        // "No, show me …" is a no, and not a change of subject.
        let says_no = begins_with_no(offer, &message.text, language);
        let keeps = match read.reading {
            Reading::Other if is_about_card || self.on_other() == OnOther::Keep => true,
            Reading::Other if !says_no => self.keeps_once(&message, &pending, state).await?,
            _ => false,
        };
        if keeps {
            let said = self.answer(read, ReplyOutcome::Kept(pending), sentences).await?;
            return Ok(MessageResponse {
                is_about_card,
                ..said
            });
        }
        let reply = Reply {
            seen: seen(state, &message, &pending),
            tenant: message.tenant,
            channel: message.channel,
            sender: message.sender,
            reading: read.reading,
            message: Some(message.id),
        };
        let (tenant, channel) = (reply.tenant.clone(), reply.channel.clone());
        let heard = self.gate.hear_about(reply, pending).await?;
        let asks_again = matches!(&heard, ReplyOutcome::Decided(resolved) if is_not_as_shown(resolved));
        let mut said = self.answer(read, heard, sentences).await?;
        if says_no && matches!(said.heard, ReplyOutcome::Cancelled(_)) {
            said.say = Some(sentences.cancelled.clone());
        }
        if asks_again && let Some(again) = store.pending_in(&tenant, &channel).await? {
            said.show = Some(self.prompt_in(&again, sentences).await?);
        }
        Ok(said)
    }

    fn on_other(&self) -> OnOther {
        match self.keeps_cards {
            true => OnOther::Keep,
            false => self.gate.policy().channel().on_other,
        }
    }

    /// Returns true if the card is destructive and this is the first message about something else since it was shown;
    /// the card then stays pending, and that is recorded. The next such message cancels the card.
    async fn keeps_once(
        &self,
        message: &Message,
        pending: &Approval,
        state: &ChannelState,
    ) -> Result<bool, StoreError> {
        let is_destructive = |call: &Call| call.terms.effect == Effect::Destructive;
        if state.kept_once == Some(pending.digest) || !pending.calls.iter().any(is_destructive) {
            return Ok(false);
        }
        let change = |state: &mut ChannelState| state.kept_once = Some(pending.digest);
        update_channel(self.gate.store(), &message.tenant, &message.channel, change).await?;
        Ok(true)
    }

    /// Handles a button press. The payload identifies the card of the button, even if something else was shown since.
    /// Returns `None` if no card in this channel has such a button.
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

    /// Like [`Conversations::press`], but approves only the calls at the positions `only` (from 1) and denies the
    /// others.
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
        let mut resolved = self.gate.decide_and_run(decision).await?;
        if let (None, Some(approval)) = (&resolved.refusal, &resolved.approval) {
            resolved.approval = Some(self.settled(tenant, approval.clone()).await?);
        }
        Ok(Some(resolved))
    }

    /// Returns the text for the channel after a decision by button or reply.
    pub fn outcome(&self, resolved: &Resolved, language: Option<&str>) -> String {
        outcome(resolved, self.gate.policy(), &self.sentences(language))
    }

    /// Returns the text for a sender who answered a card, but whom the service does not know. `sender` is escaped.
    pub fn unknown_sender(&self, sender: &str, language: Option<&str>) -> String {
        let sentences = self.sentences(language);
        fill(&sentences.unknown_sender, &[("sender", sender)])
    }

    /// Returns the text for a person who answered a card but is not one of its approvers.
    pub fn not_an_approver(&self, person: &str, language: Option<&str>) -> String {
        let sentences = self.sentences(language);
        fill(&sentences.not_an_approver, &[("person", person)])
    }

    /// Returns the text for the channel about an approval that ended elsewhere: decided on a page or by a program, or
    /// expired. `None` if it is pending or passed. Also `None` if it was withdrawn or superseded, which the code that
    /// does so announces itself.
    pub fn ending(&self, approval: &Approval, language: Option<&str>) -> Option<String> {
        let sentences = self.sentences(language);
        match approval.state {
            State::Approved => Some(part_outcome(approval, self.gate.policy(), &sentences)),
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
        heard: ReplyOutcome,
        sentences: &Sentences,
    ) -> Result<MessageResponse, StoreError> {
        let card = match &heard {
            ReplyOutcome::Kept(approval)
            | ReplyOutcome::ShowAgain(approval)
            | ReplyOutcome::Incomplete(approval) => Some(self.prompt_in(approval, sentences).await?),
            _ => None,
        };
        // A card that cannot be shown in full in this channel is not shown again, because a yes could not approve it
        // anyway.
        let heard = match (heard, &card) {
            (ReplyOutcome::ShowAgain(approval), Some(card)) if card.whole().is_none() => {
                ReplyOutcome::Incomplete(approval)
            }
            (heard, _) => heard,
        };
        let what = |approval: &SharedApproval| summary(approval, sentences);
        let (say, show, forward_to_agent) = match &heard {
            ReplyOutcome::PassOn => (None, None, true),
            ReplyOutcome::Decided(resolved) => {
                let say = outcome(resolved, self.gate.policy(), sentences);
                (Some(say), None, false)
            }
            ReplyOutcome::Cancelled(approval) => {
                let say = fill(&sentences.cancelled_by_other, &[("what", &what(approval))]);
                (Some(say), None, true)
            }
            ReplyOutcome::Kept(_) => {
                let say = match (&card, read.why.is_unclear()) {
                    (Some(card), true) => fill(&sentences.unclear, &[("yes", &card.yes), ("no", &card.no)]),
                    _ => sentences.kept.clone(),
                };
                (Some(say), card, true)
            }
            ReplyOutcome::ShowAgain(_) => (Some(sentences.show_again.clone()), card, false),
            ReplyOutcome::Incomplete(_) => {
                let place = card.as_ref().map(Prompt::place).unwrap_or_default();
                let say = fill(&sentences.incomplete, &[("where", place)]);
                (Some(say), None, false)
            }
            ReplyOutcome::Refused(refusal) => {
                let say = fill(
                    &sentences.refused,
                    &[("why", &sentences.reasons.refusal(refusal))],
                );
                // Text that was not an answer is still passed on to the agent.
                (Some(say), None, read.reading == Reading::Other)
            }
        };
        Ok(MessageResponse {
            read: Some(read),
            heard,
            say,
            show,
            forward_to_agent,
            is_about_card: false,
            is_repeated: false,
        })
    }

    /// Returns the sentences for a language. If the library has none for it, they are in English, but replies are still
    /// interpreted in that language.
    pub fn sentences(&self, language: Option<&str>) -> Sentences {
        match &self.sentences {
            Some(sentences) => sentences.clone(),
            None => Sentences::for_language(language.unwrap_or("en")).read_in(language),
        }
    }
}

/// Returns proof that the sender saw the whole card; `None` unless the card was the last message shown before the
/// sender's message.
fn seen(state: &ChannelState, message: &Message, pending: &Approval) -> Option<WholeCard> {
    let card = state.card.as_ref().filter(|card| card.whole)?;
    let is_seen = message.after.as_ref() == Some(&card.message) && card.digest == pending.digest;
    is_seen.then(|| WholeCard::of(pending.id, card.digest))
}

/// Returns the words of a card, with which a question or a correction may refer to it.
fn card_words(pending: &Approval) -> CardWords {
    let texts = pending.calls.iter().flat_map(|call| {
        let leaves = json::leaves(call.arguments.as_bytes());
        let values: Vec<Cow<'_, str>> = leaves.iter().map(json::Leaf::text).collect();
        let tool = Cow::Owned(call.tool.as_str().replace('_', " "));
        [Cow::Borrowed(call.terms.summary.as_str()), tool]
            .into_iter()
            .chain(values)
    });
    let names = pending.calls.iter().flat_map(|call| {
        let leaves = json::leaves(call.arguments.as_bytes()).into_iter();
        leaves.filter_map(|leaf| leaf.pointer.rsplit('/').next().map(str::to_owned))
    });
    CardWords::of(texts, names)
}

impl MessageResponse {
    fn passed_on(forward_to_agent: bool) -> MessageResponse {
        MessageResponse {
            read: None,
            heard: ReplyOutcome::PassOn,
            say: None,
            show: None,
            forward_to_agent,
            is_about_card: false,
            is_repeated: false,
        }
    }

    /// Returns the answer to record, if the message decided nothing and had an answer.
    fn undecided(&self) -> Option<Undecided> {
        let (effect, say) = match &self.heard {
            // The usual sentence contains the summary of the calls.
            ReplyOutcome::Cancelled(_) => (UndecidedEffect::Cancelled, None),
            ReplyOutcome::Kept(_) => (UndecidedEffect::Kept, self.say.clone()),
            ReplyOutcome::ShowAgain(_) => (UndecidedEffect::ShowAgain, self.say.clone()),
            ReplyOutcome::Incomplete(_) => (UndecidedEffect::Incomplete, self.say.clone()),
            ReplyOutcome::PassOn | ReplyOutcome::Decided(_) | ReplyOutcome::Refused(_) => return None,
        };
        Some(Undecided { effect, say })
    }
}

/// Returns true if this message is the one with which its sender decided or endorsed the approval.
fn is_decided_by(approval: &Approval, message: &Message) -> bool {
    let decided = approval
        .decision
        .iter()
        .map(|decided| (&decided.by, &decided.key));
    let endorsed = approval.in_force().map(|endorsed| (&endorsed.by, &endorsed.key));
    let is_key = |key: &Option<(Key, _)>| key.as_ref().is_some_and(|(key, _)| *key == message.id);
    decided
        .chain(endorsed)
        .any(|(by, key)| *by == message.sender.person && is_key(key))
}

/// Turns a reply into a question if it names a call by a number or an ordinal ("only number 2", "all but the third") that
/// is also in a value of another call, because the person may mean that other call. An ordinal is compared with texts
/// only: the third of several calls is hardly the one with the amount 3. "All but the third action" is clear.
fn ask_if_values_are_named(read: Interpreted, text: &str, pending: &Approval) -> Interpreted {
    let Reading::Part(part) = read.reading else {
        return read;
    };
    let count = pending.calls.len();
    let is_named = |position: usize, leaf: &json::Leaf<'_>| {
        if part.says_action() && !mentions_action(&leaf.text()) {
            return false;
        }
        let numbers = positions_in(&leaf.text(), count);
        let is_text = leaf.kind == json::Kind::String;
        let mut others = numbers.into_iter().filter(|number| *number != position);
        others.any(|number| part.names_by_number(number) || (is_text && part.names(number)))
    };
    let has_named_value = |(index, call): (usize, &Call)| {
        let leaves = json::leaves(call.arguments.as_bytes());
        leaves.iter().any(|leaf| is_named(index + 1, leaf))
    };
    match pending.calls.iter().enumerate().any(has_named_value) {
        true => Interpreted {
            reading: Reading::Other,
            why: Why::WhichPlaces(text.trim().to_owned()),
        },
        false => read,
    }
}

/// Builds one choice per call: approval for the positions in `only`, denial for the others. Fails if `only` is empty or
/// names a position that the card does not have.
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

/// Returns true if a call was not run because its target has changed since it was shown, could not be read again, or
/// was already undone.
fn is_not_as_shown(resolved: &Resolved) -> bool {
    let approval = resolved.approval.as_ref();
    approval.is_some_and(|approval| approval.calls.iter().any(|call| not_as_shown(call).is_some()))
}

fn not_as_shown(call: &Call) -> Option<&RefusalReason> {
    let because = call.because.as_ref();
    because.filter(|because| {
        matches!(
            because,
            RefusalReason::Changed | RefusalReason::Unreadable | RefusalReason::NothingToUndo
        )
    })
}

fn outcome(resolved: &Resolved, policy: &Policy, sentences: &Sentences) -> String {
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
    let has_run = !resolved.ran.is_empty() || approval.calls.iter().any(|call| call.execution.is_some());
    if let (Some(because), false) = (not_as_shown, has_run) {
        return fill(
            &sentences.refused,
            &[("why", &sentences.reasons.because(because))],
        );
    }
    let is_left_out = |call: &Call| call.because == Some(RefusalReason::Denied);
    let is_mixed = approval.calls.len() > 1
        && approval
            .calls
            .iter()
            .any(|call| matches!(call.state, CallState::Failed | CallState::Unknown));
    if is_mixed || approval.calls.iter().any(is_left_out) {
        return part_outcome(approval, policy, sentences);
    }
    // An outcome may not have reached the store yet; a repeated decision has only what is stored.
    let ran = |wanted: fn(&Outcome) -> bool| resolved.ran.iter().any(|ran| wanted(&ran.outcome));
    let is_stored = |wanted: fn(&Call) -> bool| approval.calls.iter().any(wanted);
    let was_not_sent = |call: &Call| call.because == Some(RefusalReason::NotSent);
    let sentence = if ran(|outcome| matches!(outcome, Outcome::Unknown(_)))
        || is_stored(|call| call.state == CallState::Unknown)
    {
        &sentences.unknown
    } else if ran(|outcome| matches!(outcome, Outcome::Failed(_)))
        || is_stored(|call| call.state == CallState::Failed && call.because != Some(RefusalReason::NotSent))
    {
        &sentences.failed
    } else if ran(|outcome| matches!(outcome, Outcome::NotSent(_))) || is_stored(was_not_sent) {
        &sentences.not_run
    } else if approval
        .calls
        .iter()
        .all(|call| call.state == CallState::Succeeded)
    {
        &sentences.done
    } else {
        &sentences.approved
    };
    let said = fill(sentence, &[("what", &what)]);
    match approval.calls.as_slice() {
        [call] => with_tool_words(said, approval, call, policy, sentences),
        _ => said,
    }
}

/// Returns the outcome of each call of an approval that was approved in whole or in part, each on a line of its own. The
/// tool's own words follow if the call failed, or if it is the only one.
fn part_outcome(approval: &Approval, policy: &Policy, sentences: &Sentences) -> String {
    let line = |call: &Call| {
        let sentence = match (call.state, &call.because) {
            (CallState::Succeeded, _) => &sentences.done,
            (CallState::Failed, Some(RefusalReason::NotSent)) => &sentences.not_run,
            (CallState::Failed, _) => &sentences.failed,
            (CallState::Unknown, _) => &sentences.unknown,
            (CallState::Refused, Some(RefusalReason::Denied)) => &sentences.left_out,
            (CallState::Refused, _) => &sentences.not_run,
            _ => &sentences.approved,
        };
        let said = fill(sentence, &[("what", &one_line(&call.terms.summary))]);
        match approval.calls.len() == 1 || call.state == CallState::Failed {
            true => with_tool_words(said, approval, call, policy, sentences),
            false => said,
        }
    };
    let lines: Vec<String> = approval.calls.iter().map(line).collect();
    lines.join("\n")
}

/// Appends the tool's own message about a call that ran, if its result contains one for people. Secrets are masked.
fn with_tool_words(
    said: String,
    approval: &Approval,
    call: &Call,
    policy: &Policy,
    sentences: &Sentences,
) -> String {
    let result = match call.state {
        CallState::Succeeded | CallState::Failed => call.result.as_deref(),
        _ => None,
    };
    let words = result.and_then(|result| tool_words(result, call.state == CallState::Failed));
    let Some(words) = words else {
        return said;
    };
    let words = approval.secrecy(policy).text(&words).into_owned();
    let words = clip(&words, LONGEST_TOOL_WORDS).to_string();
    fill(&sentences.tool_words, &[("outcome", &said), ("words", &words)])
}

/// Returns the part of a result that is meant for people: its `message`, for a failure also its `error`, or a text that
/// is not JSON. `None` for other JSON, which is data.
fn tool_words(result: &[u8], is_failure: bool) -> Option<String> {
    use serde_json::Value;
    let text = std::str::from_utf8(result).ok()?.trim();
    let words = match serde_json::from_str(text) {
        Err(_) => text.to_owned(),
        Ok(Value::String(words)) => words,
        Ok(Value::Object(members)) => {
            let of = |name: &str| match members.get(name)? {
                Value::String(words) => Some(words.clone()),
                Value::Object(inner) => inner.get("message")?.as_str().map(str::to_owned),
                _ => None,
            };
            of("message").or_else(|| of("error").filter(|_| is_failure))?
        }
        Ok(_) => return None,
    };
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: &str, is_failure: bool, expected: Option<&str>) {
        let found = tool_words(result.as_bytes(), is_failure);
        assert_eq!(found.as_deref(), expected, "`{result}`");
    }

    #[test]
    fn a7_the_words_of_a_result_are_those_for_people() {
        check(
            r#"{"success":true,"message":"Page \"About\" was deleted."}"#,
            false,
            Some("Page \"About\" was deleted."),
        );
        check(r#"{"id":7,"name":"Maria"}"#, false, None);
        check(r#"{"error":"it is locked"}"#, true, Some("it is locked"));
        check(
            r#"{"error":{"message":"it is locked"}}"#,
            true,
            Some("it is locked"),
        );
        check(r#"{"error":"none"}"#, false, None);
        check("no such page:\n  about", true, Some("no such page: about"));
        check(r#""done""#, false, Some("done"));
        check("[1]", false, None);
        check("", false, None);
    }
}
