//! A tool call as the client sent it: which tool, the exact bytes of its arguments, and everything beside them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::continuation::Continuation;
use super::frame::{Frame, Id, Kind, Unreadable, members, pick, quote, span, splice};
use super::one_line::OneLine;
use super::round;

/// Members of `_meta` that say which protocol is spoken begin so.
const PROTOCOL: &str = "io.modelcontextprotocol/";

/// A tool call.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The whole message.
    pub frame: OneLine,
    /// Under which it is to be answered.
    pub id: Id,
    /// The id as it was written.
    pub raw_id: String,
    /// The tool, as the client calls it.
    pub tool: String,
    /// All parameters.
    pub params: Bytes,
    /// The arguments; an empty object when there are none.
    pub arguments: Arc<[u8]>,
    /// Where the client wants to hear how far it is; as JSON.
    pub progress: Option<String>,
    /// What it says about itself.
    pub says: Says,
    /// What it was given to bring back, if it comes back.
    pub state: Option<String>,
    /// What it brings with that; as JSON.
    pub answers: Option<String>,
    /// Whether it asks to become a task, in the protocol's earlier version that has them.
    pub wants_task: bool,
}

/// What a request says about the protocol and the client, if it says so itself.
#[derive(Clone, Debug, Default)]
pub struct Says {
    /// The members of `_meta` that every request of this client carries; nothing in the protocol's earlier versions.
    pub meta: Option<Arc<str>>,
    /// What the client is called.
    pub client: Option<String>,
    /// What the client can do, as JSON.
    pub capabilities: Option<String>,
}

impl Says {
    /// The version it speaks, if it says so.
    pub fn version(&self) -> Option<String> {
        let meta = format!("{{{}}}", self.meta.as_deref()?);
        let version = format!("{PROTOCOL}protocolVersion");
        let [version] = pick(meta.as_bytes(), [version.as_str()]).ok()?;
        serde_json::from_str(version?.get()).ok()
    }

    /// True when the request speaks a version without greetings.
    pub fn is_modern(&self) -> bool {
        self.meta.is_some()
    }

    /// Reads it from the parameters of a request.
    pub fn read(params: &[u8]) -> Says {
        let meta = pick(params, ["_meta"]).ok().and_then(|[meta]| meta);
        meta.map(Says::of).unwrap_or_default()
    }

    fn of(meta: &RawValue) -> Says {
        let all = members(meta.get().as_bytes()).unwrap_or_default();
        let protocol: Vec<_> = all
            .iter()
            .filter(|(name, _)| name.starts_with(PROTOCOL))
            .collect();
        let find = |wanted: &str| {
            let is_it = |(name, _): &&&(String, &RawValue)| name.strip_prefix(PROTOCOL) == Some(wanted);
            protocol.iter().find(is_it).map(|(_, value)| value.get())
        };
        if find("protocolVersion").is_none() {
            return Says::default();
        }
        let info = find("clientInfo").and_then(|info| name_of(info.as_bytes()));
        let capabilities = find("clientCapabilities").map(str::to_owned);
        let written: Vec<String> = protocol
            .iter()
            .map(|(name, value)| format!("{}:{}", quote(name), value.get()))
            .collect();
        Says {
            meta: Some(written.join(",").into()),
            client: info,
            capabilities,
        }
    }
}

/// The `name` of an object.
pub fn name_of(object: &[u8]) -> Option<String> {
    let [name] = pick(object, ["name"]).ok()?;
    serde_json::from_str(name?.get()).ok()
}

impl ToolCall {
    /// Whether it comes back with an answer to a question of ours.
    pub fn brings_ours(&self) -> bool {
        self.state.as_deref().is_some_and(round::is_ours)
    }

    /// What it continues, if it comes back with a server's own state.
    pub fn continues(&self) -> Option<Continuation> {
        let state = self.state.clone().filter(|state| !round::is_ours(state));
        let brings_answers = self.answers.is_some() && !self.brings_ours();
        let state = state.or_else(|| brings_answers.then(String::new))?;
        Some(Continuation {
            state,
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
        })
    }

    /// Reads a call, or says why it cannot be one.
    pub fn read(frame: &Frame) -> Result<ToolCall, Unreadable> {
        let empty = || Bytes::from_static(b"{}");
        let params = frame.shared(&frame.params).unwrap_or_else(empty);
        let names = [
            "name",
            "arguments",
            "_meta",
            "requestState",
            "inputResponses",
            "task",
        ];
        let [name, arguments, meta, state, answers, task] = pick(&params, names)?;
        let tool = name.and_then(|name| serde_json::from_str(name.get()).ok());
        let progress = match meta {
            Some(meta) => pick(meta.get().as_bytes(), ["progressToken"])
                .ok()
                .and_then(|[token]| token)
                .map(|token| token.get().to_owned()),
            None => None,
        };
        let Kind::Request { id, .. } = &frame.kind else {
            return Err(Unreadable::new("it is no request"));
        };
        let raw_id = frame.part(&frame.id).unwrap_or(b"null");
        Ok(ToolCall {
            frame: frame.line.clone(),
            id: id.clone(),
            raw_id: String::from_utf8_lossy(raw_id).into_owned(),
            tool: tool.unwrap_or_default(),
            arguments: match arguments {
                Some(arguments) => arguments.get().as_bytes().into(),
                None => b"{}".as_slice().into(),
            },
            progress,
            says: meta.map(Says::of).unwrap_or_default(),
            state: state.and_then(|state| serde_json::from_str(state.get()).ok()),
            answers: answers.map(|answers| answers.get().to_owned()),
            wants_task: task.is_some_and(|task| task.get().starts_with('{')),
            params,
        })
    }
}

/// The parameters with these arguments, to be sent for the client or in its place.
///
/// INVARIANT: the arguments are the bytes given here, whatever the parameters hold.
pub fn params(original: &[u8], tool: &str, arguments: &[u8], keeps_progress: bool) -> Option<Bytes> {
    let [name, old, meta] = pick(original, ["name", "arguments", "_meta"]).ok()?;
    let place = |raw: &RawValue| span(original, raw.get());
    let named = quote(tool);
    let mut edits: Vec<(Range<usize>, Vec<u8>)> = vec![(place(name?), named.clone().into_bytes())];
    match old {
        Some(old) => edits.push((place(old), arguments.to_vec())),
        None if arguments == b"{}" => {}
        None => {
            let mut with = named.into_bytes();
            with.extend_from_slice(b",\"arguments\":");
            with.extend_from_slice(arguments);
            edits = vec![(place(name?), with)];
        }
    }
    if let Some(meta) = meta.filter(|_| !keeps_progress) {
        edits.push((place(meta), without(meta, &["progressToken"])?.into_bytes()));
    }
    // From the end, so that earlier places stay where they are.
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut bytes = Bytes::copy_from_slice(original);
    for (place, with) in edits {
        bytes = splice(&bytes, place, &with);
    }
    Some(bytes)
}

/// The parameters without what belongs to a round of ours, if it does.
pub fn without_round(params: &Bytes, is_ours: bool) -> Bytes {
    let object = serde_json::from_slice::<&RawValue>(params)
        .ok()
        .filter(|_| is_ours);
    let rest = object.and_then(|object| without(object, &["requestState", "inputResponses"]));
    rest.map_or_else(|| params.clone(), Bytes::from)
}

/// An object without some of its members.
pub(super) fn without(object: &RawValue, names: &[&str]) -> Option<String> {
    let all = members(object.get().as_bytes())?;
    let is_named = |member: &String| names.contains(&member.as_str());
    if !all.iter().any(|(member, _)| is_named(member)) {
        return Some(object.get().to_owned());
    }
    let kept = all.iter().filter(|(member, _)| !is_named(member));
    let kept: Vec<String> = kept
        .map(|(member, value)| format!("{}:{}", quote(member), value.get()))
        .collect();
    Some(format!("{{{}}}", kept.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &str) -> ToolCall {
        let text = format!(r#"{{"id":1,"method":"tools/call","params":{params}}}"#);
        ToolCall::read(&Frame::read(text.into()).unwrap()).unwrap()
    }

    #[test]
    fn a_call_is_read_and_its_arguments_are_bytes() {
        let call = read(r#"{"arguments":{"b": 1e2,"a":1.0},"name":"x","_meta":{"progressToken":"p"}}"#);
        assert_eq!((call.tool.as_str(), call.raw_id.as_str()), ("x", "1"));
        assert_eq!(&*call.arguments, br#"{"b": 1e2,"a":1.0}"#);
        assert_eq!(call.progress.as_deref(), Some("\"p\""));
        assert!(!call.says.is_modern());
        assert_eq!(&*read(r#"{"name":"x"}"#).arguments, b"{}");
    }

    #[test]
    fn a_modern_call_says_who_and_what_it_is() {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,
            "io.modelcontextprotocol/clientInfo":{"name":"inspector"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
        let call = read(&format!(r#"{{"name":"x","_meta":{meta}}}"#));
        assert_eq!(call.says.client.as_deref(), Some("inspector"));
        assert_eq!(call.says.capabilities.as_deref(), Some(r#"{"elicitation":{}}"#));
        let meta = call.says.meta.unwrap();
        assert!(
            meta.contains("protocolVersion") && !meta.contains("progressToken"),
            "{meta}"
        );
    }

    #[test]
    fn b3_what_is_sent_later_is_what_came_but_for_what_must_differ() {
        let original =
            r#"{"_meta":{"progressToken":1,"z":2},"new":[1],"arguments":{"a": 1},"name":"files__x"}"#;
        let check = |arguments: &str, keeps: bool, expected: &str| {
            let made = params(original.as_bytes(), "x", arguments.as_bytes(), keeps).unwrap();
            assert_eq!(made, expected);
        };
        check(
            r#"{"a": 1}"#,
            true,
            r#"{"_meta":{"progressToken":1,"z":2},"new":[1],"arguments":{"a": 1},"name":"x"}"#,
        );
        check(
            r#"{"a":2}"#,
            false,
            r#"{"_meta":{"z":2},"new":[1],"arguments":{"a":2},"name":"x"}"#,
        );
        let made = params(br#"{"name":"x"}"#, "x", br#"{"a":2}"#, true).unwrap();
        assert_eq!(made, r#"{"name":"x","arguments":{"a":2}}"#);
        assert_eq!(
            params(br#"{"name":"x"}"#, "x", b"{}", true).unwrap(),
            r#"{"name":"x"}"#
        );
    }
}
