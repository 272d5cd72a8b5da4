//! Converts progress events of a conversation with a served agent to server-sent events, for programs. Texts are sent
//! unescaped; a client has to escape them before it displays them.
//!
//! In the simple view, calls and their results have the shape that clients of other agent services read.

use axum::response::sse::Event as Sent;
use countersign::transcript::exchanges;
use countersign_agent::progress::Progress;
use serde::Serialize;
use serde_json::json;

use super::wire::{DecidedView, HeldView, ResultView, ToolCallView, ToolResultView, Trace};
use crate::http::channels::prompt_with_buttons;
use crate::service::agents::{News, card_key};
use crate::view::{self, View};
use crate::web::App;

/// Returns the server-sent events for one item of news, or an empty list for news that only the pages use. When a card
/// has ended, its event is followed by a `result` event for each of its calls.
pub async fn frames(app: &App, news: &News, shape: View) -> Vec<Sent> {
    let mut sent: Vec<Sent> = frame(app, news, shape).await.into_iter().collect();
    if let News::Progress(progress) = news
        && let Progress::Decided { approval } = &**progress
    {
        let results = exchanges(approval, app.gate.policy())
            .into_iter()
            .map(|exchange| ResultView {
                id: exchange.id,
                tool: exchange.tool,
                status: exchange.result.status.to_owned(),
                requires_confirmation: false,
                is_error: exchange.result.is_error,
                content: exchange.result.content,
            });
        sent.extend(results.filter_map(|result| result_frame(result, shape)));
    }
    sent
}

/// Returns the event for the result of a call, or `None` if it cannot be serialized.
fn result_frame(result: ResultView, shape: View) -> Option<Sent> {
    match shape {
        View::Full => named("result", &result),
        View::Simple => named("tool-result", &ToolResultView::from(result)),
    }
}

async fn frame(app: &App, news: &News, shape: View) -> Option<Sent> {
    let progress = match news {
        News::Heard => return None,
        News::Failed { message, hint } => {
            return named("error", &json!({ "message": message, "hint": hint }));
        }
        News::Progress(progress) => &**progress,
    };
    match progress {
        Progress::Routed { specialist } => named("routed", &json!({ "specialist": specialist })),
        Progress::Text(text) => named("text", &json!({ "text": text })),
        Progress::Called { id, tool } => match shape {
            View::Full => named("tool", &json!({ "id": id, "tool": tool })),
            View::Simple => named("tool-call", &ToolCallView::new(id, tool)),
        },
        Progress::Result {
            id,
            tool,
            status,
            is_error,
            content,
            requires_confirmation,
        } => {
            let result = ResultView {
                id: id.clone(),
                tool: tool.clone(),
                status: status.clone(),
                requires_confirmation: *requires_confirmation,
                is_error: *is_error,
                content: content.clone(),
            };
            result_frame(result, shape)
        }
        // A person's answer has consequences that are sent as events of their own, and a proposed card is sent when it
        // is shown.
        Progress::Proposed { .. } | Progress::Answered { .. } => None,
        Progress::ChannelMessage(text) => named("say", &json!({ "text": text })),
        Progress::ShowCard { approval, prompt } => {
            let now = app.store().now().await.ok()?;
            let held = HeldView {
                trace: Trace::CONFIRMATION_REQUIRED,
                card: card_key(approval.id).map(|key| key.to_string()),
                prompt: prompt_with_buttons(prompt),
                approval: view::approval(approval, app.gate.policy(), now),
            };
            named("held", &held)
        }
        Progress::Decided { approval } => {
            let now = app.store().now().await.ok()?;
            let approval = view::approval(approval, app.gate.policy(), now);
            named("decided", &DecidedView { approval })
        }
        Progress::Retrying { reason } => named("again", &json!({ "reason": reason })),
        Progress::Notice(text) => named("notice", &json!({ "text": text })),
        Progress::Done { usage } => named(
            "done",
            &json!({ "inputTokens": usage.input, "outputTokens": usage.output }),
        ),
    }
}

/// Creates a server-sent event of this name with JSON data. `None` if the data cannot be serialized.
pub fn named(name: &str, data: &impl Serialize) -> Option<Sent> {
    // INVARIANT: serialized directly to text. Going through a `Value` would reformat the raw arguments inside.
    let data = serde_json::to_string(data).ok()?;
    Some(Sent::default().event(name).data(data))
}
