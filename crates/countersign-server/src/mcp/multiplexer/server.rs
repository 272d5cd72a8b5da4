//! Messages from servers: translates their ids and forwards them to the client.

use std::ops::Range;

use super::Multiplexer;
use super::route::foreign;
use super::upstream::UpstreamRelay;
use crate::environment::HINT;
use crate::mcp::frame::{Frame, Kind, pick, pick_meta, span};
use crate::mcp::http::Heard;
use crate::mcp::lines::Read;
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::relay::Back;
use crate::mcp::server::is_own;
use crate::mcp::wire;
use crate::output;

/// Cause of a server's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server process ended by itself.
    Its,
    /// The gateway ended the server.
    Ours,
}

impl Multiplexer {
    /// Handles a message from a server, or the loss of an answer. Returns the messages for the client.
    pub(super) fn hear_server(&self, number: usize, heard: Heard) -> Vec<OneLine> {
        let Some(upstream) = self.upstreams.get(number) else {
            return Vec::new();
        };
        match heard {
            Heard::Message(read) => self.message(number, &upstream, read),
            Heard::Lost(id, why) if is_own(&id) => {
                upstream.relay.server.lost(&id, why);
                Vec::new()
            }
            Heard::Lost(id, lost) => {
                let why = lost.why();
                let is_its = lock(&self.routes).answered(&id, number);
                let answer = || {
                    wire::error(
                        Some(id.as_json()),
                        wire::INTERNAL,
                        &format!("`{}`: {why}", upstream.name()),
                    )
                };
                is_its.then(answer).into_iter().collect()
            }
        }
    }

    fn message(&self, number: usize, upstream: &UpstreamRelay, read: Read) -> Vec<OneLine> {
        let heard = upstream.relay.hear_server(read);
        let Some(frame) = heard.and_then(|line| Frame::again(line).ok()) else {
            return Vec::new();
        };
        self.note_change(upstream, &frame);
        self.on_subscription(number, &frame)
            .unwrap_or_else(|| self.translated(number, upstream, frame).into_iter().collect())
    }

    /// Drops cached lists of a server when it announces a change.
    fn note_change(&self, upstream: &UpstreamRelay, frame: &Frame) {
        if let Kind::Notification { method } = &frame.kind {
            match method.as_str() {
                "notifications/tools/list_changed" => upstream.changed(),
                "notifications/resources/list_changed" => lock(&upstream.offered).changed(),
                _ => {}
            }
        }
    }

    /// Returns a message with the ids that the client knows; `None` if the message must not be forwarded, such as a
    /// response to a request that the server did not get.
    fn translated(&self, number: usize, upstream: &UpstreamRelay, frame: Frame) -> Option<OneLine> {
        let params = frame.part(&frame.params).unwrap_or_default();
        match &frame.kind {
            Kind::Request { .. } => Some(with_server_in_ids(upstream.name(), &frame)),
            Kind::Response { id } => {
                // An error about an unreadable message names no request.
                let is_about_none = id.as_json() == "null";
                if !is_about_none && !lock(&self.routes).answered(id, number) {
                    let name = upstream.name();
                    output::print_to_stderr(&format!(
                        "countersign: `{name}` answered what it was not asked; not passed on"
                    ));
                    return None;
                }
                self.learn_from(number, upstream, &frame);
                Some(frame.line)
            }
            Kind::Notification { method } => match method.as_str() {
                "notifications/cancelled" => Some(with_foreign(upstream.name(), &frame, params, "requestId")),
                "notifications/progress" => {
                    let token = pick(params, ["progressToken"]).ok().and_then(|[token]| token);
                    let is_its =
                        token.is_none_or(|token| !lock(&self.routes).is_of_another(token.get(), number));
                    is_its.then_some(frame.line)
                }
                _ => Some(frame.line),
            },
        }
    }

    /// Handles a server's end. Returns errors for its open requests and notifications that its lists changed.
    pub(super) fn gone(&self, number: usize, end: End) -> Vec<OneLine> {
        let Some(upstream) = self.upstreams.get(number) else {
            return Vec::new();
        };
        let lists = lists_of(&upstream);
        upstream.relay.server.gone();
        let lost = lock(&self.routes).lost(number);
        let problem = format!("the server `{}` ended before it answered", upstream.name());
        let answers = lost
            .iter()
            .map(|id| wire::error(Some(id.as_json()), wire::INTERNAL, &problem));
        if end == End::Ours {
            return answers.collect();
        }
        self.gateway.server_ended(&upstream.relay.server);
        match upstream.is_new() {
            true => upstream.out(&format!("it ended before it was ready; {HINT}")),
            false => upstream.out("it has ended"),
        };
        let is_over = !self.may_come_back(number);
        answers.chain(self.changes(number, &lists, is_over)).collect()
    }

    /// Ends each subscription at a server that will not be restarted. Returns the messages for the client.
    pub(super) fn gone_for_good(&self, number: usize) -> Vec<OneLine> {
        self.tell_listeners(number, &[], true)
    }

    /// Returns the notifications that these lists have changed, because a server came or went. There are none if the
    /// client is neither initialized nor subscribed.
    pub(super) fn changes(&self, number: usize, lists: &[&str], is_gone: bool) -> Vec<OneLine> {
        let is_told = lock(&self.greeting).initialized.is_some();
        let told = lists.iter().filter(|_| is_told);
        let told = told.map(|list| wire::notification(&format!("notifications/{list}/list_changed"), "{}"));
        told.chain(self.tell_listeners(number, lists, is_gone)).collect()
    }

    /// Sends messages to the client, if it is still connected.
    pub(super) async fn say(&self, messages: Vec<OneLine>) {
        if let Some(back) = self.back() {
            for message in messages {
                let _ = back.send(message).await;
            }
        }
    }

    /// Returns the channel to the client; `None` if the client has disconnected.
    pub(super) fn back(&self) -> Option<Back> {
        self.to_client.get()?.upgrade()
    }
}

/// Returns the lists that change when this server comes or goes.
pub fn lists_of(upstream: &UpstreamRelay) -> Vec<&'static str> {
    let lists = ["tools", "prompts", "resources"].into_iter();
    lists.filter(|list| upstream.can(list)).collect()
}

/// Rewrites the id and the progress token of a server's request to `SERVER:ID`.
fn with_server_in_ids(server: &str, frame: &Frame) -> OneLine {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    if let (Some(place), Some(raw)) = (frame.id.clone(), frame.part(&frame.id)) {
        edits.push((place, foreign(server, &String::from_utf8_lossy(raw))));
    }
    let params = frame.part(&frame.params).unwrap_or_default();
    if let Some(token) = pick_meta(params, "progressToken") {
        edits.push((span(&frame.line, token.get()), foreign(server, token.get())));
    }
    // Edit from the end, so that earlier ranges stay valid.
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let edit = |line: OneLine, (place, text): (Range<usize>, String)| line.splice(place, text.as_bytes());
    edits.into_iter().fold(frame.line.clone(), edit)
}

fn with_foreign(server: &str, frame: &Frame, params: &[u8], member: &str) -> OneLine {
    match pick(params, [member]) {
        Ok([Some(own)]) => frame.line.splice(
            span(&frame.line, own.get()),
            foreign(server, own.get()).as_bytes(),
        ),
        _ => frame.line.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_ids_and_tokens_is_changed() {
        let text = r#"{"params":{"x":1e2,"_meta":{"progressToken" : "p","y":12345678901234567890123}}, "id" : 7 ,"method":"sampling/createMessage"}"#;
        let frame = Frame::read(text.into()).unwrap();
        let expected = text
            .replace("\"p\"", r#""mail:\"p\"""#)
            .replace(": 7 ", r#": "mail:7" "#);
        assert_eq!(with_server_in_ids("mail", &frame), OneLine::new(expected));
        let text = r#"{"method":"notifications/cancelled","params":{"requestId":7,"reason":"r"}}"#;
        let frame = Frame::read(text.into()).unwrap();
        let params = frame.part(&frame.params).unwrap();
        assert_eq!(
            with_foreign("mail", &frame, params, "requestId"),
            OneLine::new(text.replace('7', "\"mail:7\""))
        );
    }
}
