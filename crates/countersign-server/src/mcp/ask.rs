//! Asks the person at the client through MCP elicitation.
//!
//! The person's answer is recorded as a decision on the pending approval. It proves only who uses the client, so it
//! counts as text in a conversation and by default decides only `write` calls of low or medium risk (X60). An answer
//! that comes faster than a person can read is ignored, and the approval stays open for other surfaces.

use std::time::{Duration, Instant};

use countersign::approval::Approval;
use countersign::card::{CardText, WholeCard};
use countersign::decision::{Decision, Verdict};
use countersign::sentence::Sentences;
use countersign::state::State;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::frame::{Frame, pick};
use super::relay::{InFlightCall, Relay};
use super::wire;

/// Minimum time between a question and its answer. A faster answer cannot come from a person, so it is ignored.
pub const FASTEST: Duration = Duration::from_secs(1);
/// Maximum length of a question in bytes, because a client may truncate a longer one.
const LONGEST_QUESTION: usize = 4 * 1024;

/// An elicitation that shows the whole card.
pub struct Question {
    /// Message that the client shows.
    pub text: String,
    /// Proof that the whole card was shown, which an approving decision needs.
    pub card: WholeCard,
}

/// The answer of the person at the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElicitationAnswer {
    /// The person allows the call.
    Allow,
    /// The person denies the call, perhaps with a reason.
    Deny(Option<String>),
    /// No decision: the question was cancelled, or its answer was unreadable or came too fast.
    Nothing,
}

impl Relay {
    /// Returns the question to show in the client. `None` if the settings do not let the person at the client decide
    /// this approval, or if the client cannot show the whole question as a form.
    pub(super) async fn question(&self, in_flight: &InFlightCall, approval: &Approval) -> Option<Question> {
        let may = self.may_ask_about(approval);
        let capabilities = match &in_flight.call.says.capabilities {
            Some(capabilities) => Some(capabilities.clone()),
            None => self.capabilities(),
        };
        let can = capabilities.is_some_and(|capabilities| takes_forms(capabilities.as_bytes()));
        if !may || !can || self.who.decider.is_none() || approval.state != State::Pending {
            return None;
        }
        self.written(approval).await
    }

    /// Returns true if the settings let the person at the client decide this approval.
    fn may_ask_about(&self, approval: &Approval) -> bool {
        let [call] = approval.calls.as_slice() else {
            return false;
        };
        let ask_client = self.gateway.settings.ask_client;
        ask_client.covers(call.terms.effect, call.terms.risk())
    }

    /// Builds the question. Returns `None` if the text is longer than a client is sure to show, or if the card's
    /// concerns cannot be read from the store.
    async fn written(&self, approval: &Approval) -> Option<Question> {
        let call = approval.calls.first()?;
        let gate = &self.gateway.gate;
        let concerns = gate.concerns(approval).await.ok()?;
        let card = CardText::new(approval, gate.policy(), &concerns, &Sentences::english());
        let terms = &call.terms;
        let (effect, risk) = (terms.effect.as_str(), terms.risk().as_str());
        let (tool, agent) = (&call.tool, &approval.agent);
        let text = format!(
            "{}\n\nTool {tool}, {effect}, {risk} risk, for {agent}",
            card.whole()
        );
        (text.len() <= LONGEST_QUESTION).then(|| Question {
            text,
            card: WholeCard::shown(approval),
        })
    }

    /// Asks the client and records the decision. Returns when the client has answered or cannot answer.
    pub(super) async fn ask(&self, in_flight: &InFlightCall, approval: &Approval, question: &Question) {
        let (sender, answer) = oneshot::channel();
        let Some(id) = self.own_id() else {
            return;
        };
        let asked = OpenElicitation {
            relay: self,
            back: in_flight.back.clone(),
            id: id.clone(),
            is_open: true,
        };
        self.expects(id.clone(), sender);
        let params = form(approval, &question.text);
        if in_flight
            .back
            .send(wire::request(&id, "elicitation/create", &params))
            .await
            .is_err()
        {
            return;
        }
        let began = Instant::now();
        let answer = answer.await;
        asked.answered();
        let said = match answer {
            Ok(frame) if began.elapsed() >= FASTEST => answer_in(&frame),
            _ => ElicitationAnswer::Nothing,
        };
        self.decide(approval, question.card.clone(), said).await;
    }

    /// Records the decision that an answer contains, if any and if the settings allow it. `card` is the card that the
    /// question showed. A refusal or failure is only logged.
    pub(super) async fn decide(&self, approval: &Approval, card: WholeCard, said: ElicitationAnswer) {
        let (verdict, comment) = match said {
            ElicitationAnswer::Allow => (Verdict::Approve, None),
            ElicitationAnswer::Deny(reason) => (Verdict::Deny, reason),
            ElicitationAnswer::Nothing => return,
        };
        // The question may have been sent before the gateway restarted with stricter settings.
        if !self.may_ask_about(approval) {
            tracing::info!(id = %approval.id, "`--ask-client` does not let the client decide this");
            return;
        }
        let Some(decider) = self.who.decider.clone() else {
            return;
        };
        let mut decision = Decision::on(self.gateway.tenant.clone(), card, decider, verdict);
        decision.comment = comment;
        match self.gateway.gate.decide(decision).await {
            Ok(answer) => {
                if let Some(refusal) = answer.refusal {
                    tracing::info!(id = %approval.id, "the client's answer does not decide this: {refusal}");
                }
            }
            Err(error) => tracing::warn!(id = %approval.id, "the client's answer is not on record: {error}"),
        }
    }
}

/// An elicitation without an answer yet. Dropping it cancels the request at the client.
struct OpenElicitation<'r> {
    relay: &'r Relay,
    back: super::relay::Back,
    id: super::frame::Id,
    is_open: bool,
}

impl OpenElicitation<'_> {
    fn answered(mut self) {
        self.is_open = false;
    }
}

impl Drop for OpenElicitation<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.relay.expects_no_more(&self.id);
            let params = format!(
                "{{\"requestId\":{},\"reason\":\"decided elsewhere\"}}",
                self.id.as_json()
            );
            // If the client's queue is full, the notification is dropped and the question stays on the screen.
            let _ = self
                .back
                .try_send(wire::notification("notifications/cancelled", &params));
        }
    }
}

/// Returns true if the client's capabilities include form elicitation.
fn takes_forms(capabilities: &[u8]) -> bool {
    let Ok([Some(elicitation)]) = pick(capabilities, ["elicitation"]) else {
        return false;
    };
    match pick(elicitation.get().as_bytes(), ["form", "url"]) {
        // An empty `elicitation` capability means forms.
        Ok([form, url]) => form.is_some() || url.is_none(),
        Err(_) => false,
    }
}

/// Returns the parameters of `elicitation/create`, as JSON. The default choice is to deny.
pub fn form(approval: &Approval, question: &str) -> String {
    let terms = approval.calls.first().map(|call| &call.terms);
    let label = |label: Option<&String>, other: &str| label.cloned().unwrap_or_else(|| other.to_owned());
    let yes = label(terms.and_then(|terms| terms.yes.as_ref()), "Yes, run it");
    let no = label(terms.and_then(|terms| terms.no.as_ref()), "No");
    json!({
        "mode": "form",
        "message": question,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "enum": ["deny", "allow"],
                    "enumNames": [no, yes],
                    "default": "deny",
                },
                "reason": {"type": "string", "title": "Reason, if you say no"},
            },
            "required": ["decision"],
        },
    })
    .to_string()
}

fn answer_in(frame: &Frame) -> ElicitationAnswer {
    frame.part(&frame.result).map_or(ElicitationAnswer::Nothing, read)
}

/// Parses an elicitation's result. Anything other than a clear choice gives [`ElicitationAnswer::Nothing`].
pub fn read(result: &[u8]) -> ElicitationAnswer {
    let string = |raw: Option<&RawValue>| serde_json::from_str::<String>(raw?.get()).ok();
    let Ok([action, content]) = pick(result, ["action", "content"]) else {
        return ElicitationAnswer::Nothing;
    };
    match string(action).as_deref() {
        Some("decline") => ElicitationAnswer::Deny(None),
        Some("accept") => {
            let content = content.map_or("{}", RawValue::get);
            let Ok([decision, reason]) = pick(content.as_bytes(), ["decision", "reason"]) else {
                return ElicitationAnswer::Nothing;
            };
            match string(decision).as_deref() {
                Some("allow") => ElicitationAnswer::Allow,
                Some("deny") => ElicitationAnswer::Deny(string(reason).filter(|reason| !reason.is_empty())),
                _ => ElicitationAnswer::Nothing,
            }
        }
        // Closed without a choice: the approval can still be decided elsewhere.
        _ => ElicitationAnswer::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_choice_decides() {
        let check = |result: &str, expected: ElicitationAnswer| {
            assert_eq!(read(result.as_bytes()), expected, "{result}")
        };
        check(
            r#"{"action":"accept","content":{"decision":"allow"}}"#,
            ElicitationAnswer::Allow,
        );
        check(
            r#"{"action":"accept","content":{"decision":"deny"}}"#,
            ElicitationAnswer::Deny(None),
        );
        let why = ElicitationAnswer::Deny(Some("why".to_owned()));
        check(
            r#"{"action":"accept","content":{"decision":"deny","reason":"why"}}"#,
            why,
        );
        check(r#"{"action":"decline"}"#, ElicitationAnswer::Deny(None));
        for nothing in [
            r#"{"action":"cancel"}"#,
            r#"{"action":"accept"}"#,
            r#"{"action":"accept","content":{}}"#,
            r#"{"action":"accept","content":{"decision":"yes"}}"#,
            r#"{"action":"accept","content":{"decision":true}}"#,
            r#"{"action":"accept","content":{"decision":"deny","decision":"allow"}}"#,
            r#"{"action":"ACCEPT","content":{"decision":"allow"}}"#,
            "[]",
        ] {
            check(nothing, ElicitationAnswer::Nothing);
        }
    }

    #[test]
    fn who_shows_forms_says_so() {
        let check = |capabilities: &str, expected| {
            assert_eq!(takes_forms(capabilities.as_bytes()), expected, "{capabilities}");
        };
        check(r#"{"elicitation":{}}"#, true);
        check(r#"{"elicitation":{"form":{},"url":{}}}"#, true);
        check(r#"{"elicitation":{"url":{}}}"#, false);
        check(r#"{"elicitation":null}"#, false);
        check(r#"{"sampling":{}}"#, false);
        check("{}", false);
    }
}
