//! Tasks in a list: the server's own, and behind them calls that are held.

use bytes::Bytes;
use countersign::store::Filter;

use super::{Asked, described, stands};
use crate::mcp::frame::{pick, span, splice};
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Relay;
use crate::mcp::wire;

/// The most tasks of ours that are listed.
const MOST: usize = 200;

impl Relay {
    /// The server's tasks, and behind the last of them this client's held calls.
    pub(super) async fn list_tasks(&self, asked: &Asked) -> OneLine {
        let ours = self.open_tasks().await;
        let params = match asked.params.is_empty() {
            true => "{}".into(),
            false => String::from_utf8_lossy(&asked.params),
        };
        let theirs = self.server.request("tasks/list", &params).await;
        let listed = theirs.as_ref().ok().and_then(|frame| {
            let result = frame.part(&frame.result)?;
            let [tasks, next] = pick(result, ["tasks", "nextCursor"]).ok()?;
            let has_more = next.is_some_and(|next| next.get() != "null");
            let place = span(result, tasks?.get());
            let inside = result.get(place.start + 1..place.end - 1)?;
            let is_empty = inside.iter().all(u8::is_ascii_whitespace);
            let comma = if is_empty || ours.is_empty() { "" } else { "," };
            let added = if has_more {
                String::new()
            } else {
                format!("{comma}{ours}")
            };
            let end = place.end - 1;
            Some(splice(
                &Bytes::copy_from_slice(result),
                end..end,
                added.as_bytes(),
            ))
        });
        match (listed, theirs) {
            (Some(listed), _) => wire::kept_result(&asked.raw_id, &listed),
            // A server that knows none may well stand before us.
            (None, Ok(frame)) if ours.is_empty() && frame.error.is_some() => {
                wire::kept_error(&asked.raw_id, frame.part(&frame.error).unwrap_or(b"{}"))
            }
            _ => wire::result(&asked.raw_id, &format!("{{\"tasks\":[{ours}]}}")),
        }
    }

    /// This client's calls that are not over, as tasks.
    async fn open_tasks(&self) -> String {
        let gateway = &self.gateway;
        let filter = Filter {
            asked: true,
            run: Some(gateway.run.clone()),
            limit: Some(MOST),
            ..Filter::default()
        };
        let listed = gateway.gate.store().list(&gateway.tenant, &filter).await;
        let listed = listed.unwrap_or_default();
        let open = listed
            .iter()
            .filter(|approval| !approval.is_finished() && self.is_own(approval));
        let shown = open.map(|open| format!("{{{}}}", described(open, "working", stands(open), false)));
        shown.collect::<Vec<_>>().join(",")
    }
}
