//! What the client is told about a held call.
//!
//! Enters: an approval. Leaves: exactly one answer to the call: what the tool said, byte for byte, or why it did not
//! run, marked as an error. A call that still waits is answered as pending, with the way to hear more.

use countersign::approval::Approval;
use countersign::call::Call;
use countersign::display::escape;
use countersign::policy::Policy;
use countersign::secrecy::Secrecy;
use countersign::state::CallState;
use countersign::transcript;

use super::frame::{pick, quote, span, splice};
use super::one_line::OneLine;
use super::upstreams::ERROR;
use super::wire;

/// Where programs find what our own answers say, in every one of them.
const META: &str = "countersign/call";

/// How an answer has to look.
#[derive(Clone, Debug)]
pub struct Form {
    /// The request's id, as JSON.
    pub id: String,
    /// Whether results say of what kind they are.
    pub is_modern: bool,
    /// Whether the tool's results have to fit a schema, which ours do not.
    pub has_schema: bool,
}

impl Form {
    /// A result of ours: a text.
    pub fn text(&self, text: &str, is_error: bool) -> OneLine {
        self.result(text, is_error, "")
    }

    fn result(&self, text: &str, is_error: bool, more: &str) -> OneLine {
        let kind = match self.is_modern {
            true => "\"resultType\":\"complete\",",
            false => "",
        };
        let text = quote(text);
        let result = format!(
            "{{{kind}\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"isError\":{is_error}{more}}}"
        );
        wire::result(&self.id, &result)
    }

    /// A text for the model and the same as data for programs. A client that checks results against the tool's
    /// schema takes nothing but an error from us.
    fn open(&self, text: &str, data: &str) -> OneLine {
        let meta = format!(",\"_meta\":{{\"{META}\":{data}}}");
        match self.has_schema {
            true => self.result(text, true, &meta),
            false => self.result(text, false, &format!(",\"structuredContent\":{data}{meta}")),
        }
    }

    /// An error that the model can read.
    pub fn failure(&self, text: &str) -> OneLine {
        self.text(text, true)
    }

    /// A person is being asked.
    pub fn pending(&self, approval: &Approval) -> OneLine {
        let summary = approval.calls.first().map(|call| call.terms.summary.as_str());
        let (id, until) = (approval.id, approval.expires_at);
        let data = format!(
            "{{\"status\":\"pending_confirmation\",\"approval\":\"{id}\",\"expiresAt\":\"{until}\",\"summary\":{}}}",
            quote(summary.unwrap_or_default())
        );
        let text = format!(
            "pending_confirmation: this has not run. A person has been asked: {}\n\
             Call countersign_wait with {{\"approval\":\"{id}\"}} to wait for the decision and get the result, or make \
             exactly the same call again later. It can be decided until {until}. Do not try to do the same by other \
             means.",
            summary.unwrap_or_default()
        );
        self.open(&text, &data)
    }

    /// It was approved and has not ended.
    pub fn running(&self, approval: &Approval) -> OneLine {
        let id = approval.id;
        let text = format!(
            "running: a person approved this and it has not ended yet. Call countersign_wait with \
             {{\"approval\":\"{id}\"}} to wait for its result. Do not do it again."
        );
        let data = format!("{{\"status\":\"running\",\"approval\":\"{id}\"}}");
        self.open(&text, &data)
    }

    /// It is over: what the tool said, or why it did not run. `large` is a result the store could not keep.
    pub fn finished(&self, approval: &Approval, large: Option<&[u8]>) -> OneLine {
        let Some(call) = approval.calls.first() else {
            return self.failure("the approval holds no call");
        };
        let kept = large.or(call.result.as_deref()).unwrap_or_default();
        match call.state {
            CallState::Succeeded | CallState::Undone => self.said(approval, call, kept),
            CallState::Failed => match pick(kept, [ERROR, "content"]) {
                Ok([Some(error), _]) => wire::kept_error(&self.id, error.get().as_bytes()),
                Ok([_, Some(_)]) => self.said(approval, call, kept),
                _ => self.told(approval),
            },
            _ => self.told(approval),
        }
    }

    /// What the tool said, and behind it what a person added or changed.
    fn said(&self, approval: &Approval, call: &Call, result: &[u8]) -> OneLine {
        let Ok([content, omitted]) = pick(result, ["content", "omitted"]) else {
            return self.told(approval);
        };
        if content.is_none() && omitted.is_some() {
            return self.told(approval);
        }
        let (Some(note), Some(content)) = (note(approval, call), content) else {
            return wire::kept_result(&self.id, result);
        };
        let block = format!("{{\"type\":\"text\",\"text\":{}}}", quote(&note));
        let place = span(result, content.get());
        let is_empty = content
            .get()
            .trim_matches(['[', ']', ' ', '\n', '\t', '\r'])
            .is_empty();
        let block = match is_empty {
            true => block,
            false => format!(",{block}"),
        };
        let end = place.end.saturating_sub(1);
        wire::kept_result(&self.id, &splice(result, end..end, block.as_bytes()))
    }

    fn told(&self, approval: &Approval) -> OneLine {
        let exchanges = transcript::exchanges(approval, &Policy::empty());
        let told = exchanges.first().map(|exchange| &exchange.result);
        match told {
            Some(told) => self.text(&told.content, told.is_error),
            None => self.failure("the approval holds no call"),
        }
    }
}

/// What the model has to know beside the result: it must not believe that its own arguments ran when they did not.
fn note(approval: &Approval, call: &Call) -> Option<String> {
    let decision = approval.decision.as_ref();
    let comment = decision.and_then(|decision| decision.comment.as_deref());
    // What the client sent and what the tool answered are theirs; what a person typed as a secret is not.
    let secrecy = Secrecy::of(call, &Policy::empty(), &approval.salt);
    let comment = comment.map(|comment| {
        let comment = secrecy.text(comment);
        format!("The person who approved it says: {}", escape(&comment))
    });
    let edited = call.original.as_ref().map(|_| {
        let ran = secrecy.json(call.arguments.as_bytes());
        format!("A person changed the arguments before approving. It ran with: {ran}")
    });
    let notes: Vec<String> = edited.into_iter().chain(comment).collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}
