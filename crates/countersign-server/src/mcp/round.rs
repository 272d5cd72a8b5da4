//! Asks the person at a client that cannot receive requests: the call is answered with `input_required`, and the client
//! repeats the call with the answer.
//!
//! The first answer contains the question and a state that names the approval; the repeated call carries that state and
//! the person's answer, which is recorded as a decision. The state is a random token, stored as a hash: it works once,
//! for this approval, the same caller and the same bytes, and also after a restart.

use std::time::Duration;

use countersign::approval::{Approval, SharedApproval};
use countersign::card::WholeCard;
use countersign::hash::Hash;
use countersign::registry::{Entry, Kind};
use countersign::state::State;
use countersign::store::StoreError;
use countersign::time::Time;
use serde_json::value::RawValue;

use super::answer::Form;
use super::ask::{self, ElicitationAnswer, FASTEST};
use super::call::ToolCall;
use super::frame::{pick, quote};
use super::gateway::{ToolCallRequest, is_same};
use super::one_line::OneLine;
use super::relay::{InFlightCall, Relay};
use super::wire;

/// Prefix of `requestState` values that the gateway issues, which distinguishes them from those of servers.
const PREFIX: &str = "countersign:";
/// Key of the gateway's question in `inputRequests`.
const QUESTION: &str = "countersign";

/// Next step for a held call.
pub enum Round {
    /// Wait for the decision: there is nothing to ask, or the answer was recorded.
    Wait,
    /// Answer the call with this message.
    Answer(OneLine),
}

/// Returns true if a `requestState` has the prefix of the values that the gateway issues.
pub fn is_ours(state: &str) -> bool {
    state.starts_with(PREFIX)
}

impl Relay {
    /// Asks the question, or records the answer that the call carries. If the store fails, the call is answered with an
    /// error.
    pub(super) async fn round(&self, in_flight: &InFlightCall, approval: &SharedApproval) -> Round {
        let form = &in_flight.form;
        let given = in_flight.call.state.as_deref().filter(|state| is_ours(state));
        let played = match given {
            None => self.put_question(in_flight, approval).await,
            Some(state) => self.take_answer(in_flight, approval, state).await,
        };
        match played {
            Ok(round) => round,
            Err(error) => Round::Answer(form.failure(&format!("nothing was run: {error}"))),
        }
    }

    async fn put_question(&self, in_flight: &InFlightCall, approval: &Approval) -> Result<Round, StoreError> {
        if approval.state != State::Pending {
            return Ok(Round::Wait);
        }
        let Some(question) = self.question(in_flight, approval).await else {
            return Ok(Round::Wait);
        };
        let state = self.new_state(&question.card, approval.expires_at).await?;
        let params = ask::form(approval, &question.text);
        Ok(Round::Answer(in_flight.form.input_required(&state, &params)))
    }

    async fn take_answer(
        &self,
        in_flight: &InFlightCall,
        approval: &SharedApproval,
        state: &str,
    ) -> Result<Round, StoreError> {
        let store = self.gateway.gate.store();
        let taken = store.take_entry(Kind::Setting, &key(state)).await?;
        // INVARIANT: the question was about this call, because the approval was found by the call's caller and bytes.
        let kept = taken.as_ref().and_then(card_in_entry);
        let Some((card, began)) = kept.filter(|(card, _)| *card == WholeCard::shown(approval)) else {
            let problem = "this `requestState` was used before";
            let id = Some(in_flight.form.id.as_str());
            return Ok(Round::Answer(wire::error(id, wire::INVALID_PARAMS, problem)));
        };
        let answers = in_flight.call.answers.as_deref().unwrap_or("{}");
        let answer = pick(answers.as_bytes(), [QUESTION])
            .ok()
            .and_then(|[answer]| answer);
        let Some(answer) = answer else {
            return self.put_question(in_flight, approval).await;
        };
        let took = store.now().await?.as_micros().saturating_sub(began);
        let is_fast = u64::try_from(took).map_or(true, |took| Duration::from_micros(took) < FASTEST);
        let said = match is_fast {
            true => ElicitationAnswer::Nothing,
            false => ask::read(RawValue::get(answer).as_bytes()),
        };
        self.decide(approval, card, said).await;
        Ok(Round::Wait)
    }

    /// Returns true if the state that a call carries was issued for the same call of the same caller.
    pub(super) async fn is_round_of(&self, call: &ToolCall, request: &ToolCallRequest) -> bool {
        let store = self.gateway.gate.store();
        let state = call.state.as_deref().unwrap_or_default();
        let Ok(Some(entry)) = store.entry(Kind::Setting, &key(state)).await else {
            return false;
        };
        let Some((card, _)) = card_in_entry(&entry) else {
            return false;
        };
        let approval = self.own_approval(card.approval()).await;
        approval.is_some_and(|approval| is_same(request, &approval))
    }

    /// Creates a one-time `requestState` that identifies the card shown in the question, and stores it until
    /// `expires_at`.
    async fn new_state(&self, card: &WholeCard, expires_at: Time) -> Result<String, StoreError> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| {
            StoreError::Unavailable(format!("the operating system returned no random bytes: {error}"))
        })?;
        let state = format!("{PREFIX}{}", Hash(random));
        let store = self.gateway.gate.store();
        let now = store.now().await?;
        let entry = Entry {
            kind: Kind::Setting,
            key: key(&state),
            tenant: self.gateway.tenant.clone(),
            body: format!("{} {} {}", card.approval(), now.as_micros(), card.digest())
                .into_bytes()
                .into(),
            version: 0,
            expires_at: Some(expires_at),
        };
        store.put_entry(entry).await?;
        Ok(state)
    }
}

fn key(state: &str) -> String {
    format!("mcp/state/{}", Hash::of(state.as_bytes()))
}

/// Returns the card that an entry names, and the time at which the card was shown, in microseconds. `None` for an entry
/// of version 0.1.0, which has no digest because questions could leave something out then; the person is asked again.
fn card_in_entry(entry: &Entry) -> Option<(WholeCard, i64)> {
    let text = std::str::from_utf8(&entry.body).ok()?;
    let mut parts = text.split(' ');
    let (id, at, digest) = (parts.next()?, parts.next()?, parts.next()?);
    let card = WholeCard::of(id.parse().ok()?, Hash::from_hex(digest)?);
    Some((card, at.parse().ok()?))
}

impl Form {
    /// Returns the `input_required` result; `question` is the elicitation's parameters.
    fn input_required(&self, state: &str, question: &str) -> OneLine {
        let state = quote(state);
        let result = format!(
            "{{\"resultType\":\"input_required\",\"requestState\":{state},\"inputRequests\":{{\"{QUESTION}\":\
             {{\"method\":\"elicitation/create\",\"params\":{question}}}}}}}"
        );
        wire::result(&self.id, &result)
    }
}
