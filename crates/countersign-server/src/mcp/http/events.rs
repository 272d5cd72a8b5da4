//! Messages in server-sent events: reads the message of an event that the HTTP client parsed, and writes an event for a
//! message.
//!
//! Besides messages, only event ids and retry times are forwarded, and only in printable ASCII.

use bytes::Bytes;
use countersign_http_client::events::Event;

use crate::mcp::one_line::OneLine;

/// Returns the message of an event; `None` if the event has another type or no data.
pub fn message_of(event: &Event) -> Option<Bytes> {
    let data = event.data.clone().filter(|data| !data.is_empty());
    data.filter(|_| !is_other(event))
}

/// Returns true if an event has a type other than `message`.
fn is_other(event: &Event) -> bool {
    !matches!(event.name.as_deref(), None | Some(b"" | b"message"))
}

/// Returns the text of an event with its own message replaced with `message`. If `message` is empty, only the event id
/// and the retry time are left.
pub fn event_with(event: &Event, message: &OneLine) -> Bytes {
    let mut made = Vec::with_capacity(message.len() + 64);
    if let Some(id) = event.id.as_deref().and_then(plain) {
        made.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    let retry = event.retry.as_deref().and_then(plain);
    if let Some(retry) = retry.filter(|retry| retry.parse::<u32>().is_ok()) {
        made.extend_from_slice(format!("retry: {retry}\n").as_bytes());
    }
    match message.is_empty() {
        // An event that only sets the event id or the retry time.
        true if !made.is_empty() => made.extend_from_slice(b"data: \n\n"),
        _ => write_event(&mut made, message),
    }
    made.into()
}

/// Returns the text to forward for an event without a message: its id and retry time, or a keepalive if it has neither.
/// `None` if the event has a message or a type other than `message`.
pub fn event_without_message(event: &Event) -> Option<Bytes> {
    let is_passed = message_of(event).is_none() && !is_other(event);
    is_passed.then(|| event_with(event, &OneLine::sign_of_life()))
}

/// Returns a value if it is printable ASCII, which every parser reads alike; otherwise `None`.
fn plain(value: &[u8]) -> Option<&str> {
    let is_plain = value.iter().all(|byte| (b' '..=b'~').contains(byte));
    std::str::from_utf8(value).ok().filter(|_| is_plain)
}

/// Returns the text of an event with this message; for an empty message, a keepalive.
pub fn event_of(message: &OneLine) -> Vec<u8> {
    let mut made = Vec::with_capacity(message.len() + 16);
    write_event(&mut made, message);
    made
}

fn write_event(made: &mut Vec<u8>, message: &OneLine) {
    if message.is_empty() {
        made.extend_from_slice(b": waiting\n\n");
        return;
    }
    made.extend_from_slice(b"data: ");
    made.extend_from_slice(message);
    made.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use countersign_http_client::events::EventReader;

    use super::*;

    fn all(stream: &str) -> Vec<Event> {
        let mut reader = EventReader::new(1024);
        reader.push(stream.as_bytes());
        std::iter::from_fn(|| reader.next_event().unwrap()).collect()
    }

    #[test]
    fn x73_only_events_of_the_usual_type_have_messages() {
        let events = all(
            ": hello\n\nid: 1\nevent: message\ndata: {\"a\":1}\n\nevent: other\ndata: {}\n\ndata\n\nevent:\ndata: {}\n\n",
        );
        let messages: Vec<Option<Bytes>> = events.iter().map(message_of).collect();
        assert_eq!(
            messages,
            [None, Some("{\"a\":1}".into()), None, None, Some("{}".into())]
        );
    }

    #[test]
    fn of_what_stands_beside_a_message_only_plain_text_is_kept() {
        let message = OneLine::new("new");
        let written = |stream: &str| -> Vec<Bytes> {
            let events = all(stream);
            events.iter().map(|event| event_with(event, &message)).collect()
        };
        assert_eq!(
            written("id: 1\nevent: message\nretry: 5\nx: y\ndata: old\n\n"),
            ["id: 1\nretry: 5\ndata: new\n\n"]
        );
        assert_eq!(
            written("id: 1\u{2028}data: x\nretry: x\ndata: old\n\n"),
            ["data: new\n\n"]
        );
        let places = all("id: 1\ndata:\n\n: hi\n\nevent: other\ndata: x\n\n");
        let kept: Vec<Option<Bytes>> = places.iter().map(event_without_message).collect();
        assert_eq!(
            kept,
            [
                Some("id: 1\ndata: \n\n".into()),
                Some(": waiting\n\n".into()),
                None
            ]
        );
    }
}
