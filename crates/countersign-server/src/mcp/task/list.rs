//! `tasks/list`: the server's own tasks, followed by this client's held calls.

use bytes::Bytes;
use countersign::approval::SharedApproval;
use countersign::id::Run;
use countersign::store::{Filter, LONGEST_PAGE};
use serde_json::value::RawValue;

use super::{TaskRequest, described, status_message};
use crate::mcp::answer::{is_our_task, speaks_for_us};
use crate::mcp::frame::{pick, span, splice};
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Relay;
use crate::mcp::wire;
use crate::output;

/// Maximum number of pages that are read from the store for one run.
const MOST_PAGES: usize = 50;

impl Relay {
    /// Answers `tasks/list` with the server's tasks and, on the last page, this client's held calls.
    pub(super) async fn list_tasks(&self, asked: &TaskRequest) -> OneLine {
        let ours = self.open_tasks().await.join(",");
        let params = match asked.params.is_empty() {
            true => "{}".into(),
            false => String::from_utf8_lossy(&asked.params),
        };
        let theirs = self.server.request("tasks/list", &params).await;
        let listed = theirs.as_ref().ok().and_then(|frame| {
            let result = frame
                .part(&frame.result)
                .filter(|result| !speaks_for_us(result))?;
            let [tasks, next] = pick(result, ["tasks", "nextCursor"]).ok()?;
            let has_more = next.is_some_and(|next| next.get() != "null");
            let items: Vec<&RawValue> = serde_json::from_str(tasks?.get()).ok()?;
            if items.iter().any(|item| is_our_task(item.get().as_bytes())) {
                let name = &self.server.name;
                output::print_to_stderr(&format!(
                    "countersign: `{name}` lists tasks in our name; its tasks are left out"
                ));
                return None;
            }
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
            (Some(listed), _) => wire::raw_result(&asked.raw_id, &listed),
            // If the gateway has no tasks either, pass on the server's error.
            (None, Ok(frame)) if ours.is_empty() && frame.error.is_some() => {
                wire::raw_error(&asked.raw_id, frame.part(&frame.error).unwrap_or(b"{}"))
            }
            _ => wire::result(&asked.raw_id, &format!("{{\"tasks\":[{ours}]}}")),
        }
    }

    /// Returns this client's unfinished calls at all servers as task objects, newest first.
    pub(in crate::mcp) async fn open_tasks(&self) -> Vec<String> {
        let gateway = &self.gateway;
        let mut open = Vec::new();
        for run in gateway.all_runs() {
            open.extend(self.open_in(run).await);
        }
        // Ids begin with the time at which the approval was created.
        open.sort_unstable_by_key(|approval| std::cmp::Reverse(approval.id));
        let shown = open
            .iter()
            .map(|open| format!("{{{}}}", described(open, "working", status_message(open), false)));
        shown.collect()
    }

    /// Returns this client's unfinished calls of one run, from the first `MOST_PAGES` pages of the store's list. A page
    /// that cannot be read ends the list.
    async fn open_in(&self, run: &Run) -> Vec<SharedApproval> {
        let gateway = &self.gateway;
        let mut filter = Filter {
            asked: true,
            open: true,
            run: Some(run.clone()),
            limit: Some(LONGEST_PAGE),
            ..Filter::default()
        };
        let mut open = Vec::new();
        for _ in 0..MOST_PAGES {
            let listed = gateway.gate.store().list(&gateway.tenant, &filter).await;
            let listed = listed.unwrap_or_default();
            filter.after = listed.last().map(|approval| approval.id);
            let is_full = filter.is_full(&listed);
            let own = listed
                .into_iter()
                .filter(|approval| !approval.is_finished() && self.is_own(approval));
            open.extend(own);
            if !is_full || filter.after.is_none() {
                break;
            }
        }
        open
    }
}
