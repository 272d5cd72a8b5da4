//! Ids for requests of clients that share one server: each request is sent under a new id, and its responses get the
//! client's id back, so that equal ids and progress tokens do not collide.

use axum::http::StatusCode;
use bytes::Bytes;

use crate::mcp::frame::{Frame, Id, Kind, pick, pick_meta, span};
use crate::mcp::one_line::OneLine;

/// Key in `_meta` that names the request a notification belongs to.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Maps a request's new id to the id and progress token that its client used.
#[derive(Debug)]
pub struct Alias {
    /// The new id, also used as progress token.
    pub id: Id,
    /// The client's id, as it was written.
    raw_id: Bytes,
    /// The client's progress token, as it was written.
    token: Option<Bytes>,
}

impl Alias {
    /// Returns a request under a new id made from `number`, and the alias that restores the original id. `None` if the
    /// message is not a request.
    pub fn of(frame: &Frame, number: u64) -> Option<(Alias, OneLine)> {
        let place = frame.id.clone()?;
        if !matches!(frame.kind, Kind::Request { .. }) {
            return None;
        }
        let id = Id::own(&format!("http:{number}"));
        let new = id.as_json().as_bytes();
        let token = token(&frame.line, frame.part(&frame.params).unwrap_or_default());
        let alias = Alias {
            raw_id: Bytes::copy_from_slice(frame.part(&frame.id)?),
            token: token
                .as_ref()
                .and_then(|token| frame.shared(&Some(token.clone()))),
            id: id.clone(),
        };
        // Edit from the end, so that the earlier range stays valid.
        let mut places: Vec<_> = token.into_iter().chain([place]).collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.start));
        let bytes = places
            .into_iter()
            .fold(frame.line.clone(), |line, place| line.splice(place, new));
        Some((alias, bytes))
    }

    /// Returns a message in which the new id or progress token is replaced with the client's own. Other messages are
    /// returned unchanged.
    pub fn restore(&self, message: OneLine) -> OneLine {
        let Ok(frame) = Frame::again(message.clone()) else {
            return message;
        };
        let params = frame.part(&frame.params).unwrap_or_default();
        let is_ours = |place: &std::ops::Range<usize>| {
            frame.line.get(place.clone()) == Some(self.id.as_json().as_bytes())
        };
        let (place, with) = match &frame.kind {
            Kind::Response { id } if *id == self.id => (frame.id.clone(), Some(&self.raw_id)),
            Kind::Notification { method } if method == "notifications/progress" => {
                let token = pick(params, ["progressToken"]).ok().and_then(|[token]| token);
                (
                    token.map(|token| span(&frame.line, token.get())),
                    self.token.as_ref(),
                )
            }
            Kind::Notification { .. } => {
                let id = pick_meta(params, SUBSCRIPTION).map(|id| span(&frame.line, id.get()));
                (id, Some(&self.raw_id))
            }
            _ => return message,
        };
        match (place.filter(is_ours), with) {
            (Some(place), Some(with)) => frame.line.splice(place, with),
            _ => message,
        }
    }
}

fn token(bytes: &[u8], params: &[u8]) -> Option<std::ops::Range<usize>> {
    pick_meta(params, "progressToken").map(|token| span(bytes, token.get()))
}

/// Returns the HTTP status that protocol versions from 2026-07-28 on require for a response, by its error code.
pub fn status(message: &OneLine) -> StatusCode {
    let frame = Frame::again(message.clone()).ok();
    let error = frame.as_ref().and_then(|frame| frame.part(&frame.error));
    let code = error
        .and_then(|error| pick(error, ["code"]).ok())
        .and_then(|[code]| code);
    match code.map(serde_json::value::RawValue::get) {
        Some("-32601") => StatusCode::NOT_FOUND,
        Some("-32020" | "-32021" | "-32022") => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_out_under_another_id_and_comes_back_under_its_own() {
        let text = r#"{"params":{"_meta":{"progressToken":"p"},"x":1e2},"id": 7,"method":"m"}"#;
        let frame = Frame::read(Bytes::from_static(text.as_bytes())).unwrap();
        let (alias, sent) = Alias::of(&frame, 3).unwrap();
        assert_eq!(
            sent,
            OneLine::new(text.replace("\"p\"", "\"http:3\"").replace(" 7", " \"http:3\""))
        );
        let check = |message: &str, expected: &str| {
            assert_eq!(
                alias.restore(OneLine::new(message.to_owned())),
                OneLine::new(expected.to_owned())
            );
        };
        check(
            r#"{"id":"http:3","result":{"id":"http:3"}}"#,
            r#"{"id":7,"result":{"id":"http:3"}}"#,
        );
        check(
            r#"{"method":"notifications/progress","params":{"progressToken":"http:3","progress":1}}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#,
        );
        let listened =
            r#"{"method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"http:3"}}}"#;
        check(listened, &listened.replace("\"http:3\"", "7"));
        for other in [
            r#"{"id":"http:4","result":{}}"#,
            r#"{"id":"http:3","method":"ask"}"#,
            "nonsense",
        ] {
            check(other, other);
        }
    }
}
