//! A tool call as the client sent it: the tool, the exact bytes of its arguments, and the rest of the parameters.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::continuation::Continuation;
use super::frame::{Frame, Id, Kind, Unreadable, members, pick, quote};
use super::one_line::OneLine;
use super::round;

/// Prefix of the `_meta` members that describe the protocol and the client.
const PROTOCOL: &str = "io.modelcontextprotocol/";
/// Members with the prefix [`PROTOCOL`] that a request may have in `_meta`, by the schema of 2026-07-28. Other members
/// with this prefix are not sent with an approved call, because no card shows them and a server could take them for a
/// part of the call.
const PROTOCOL_MEMBERS: [&str; 4] = ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel"];

/// A tool call, read from a client's request.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The whole message.
    pub frame: OneLine,
    /// The request id in normal form.
    pub id: Id,
    /// The request id as the client wrote it.
    pub raw_id: String,
    /// The tool's name, as the client wrote it.
    pub tool: String,
    /// The whole `params` object.
    pub params: Bytes,
    /// The arguments; an empty object when there are none.
    pub arguments: Arc<[u8]>,
    /// The progress token, as JSON; `None` if the client wants no progress notifications.
    pub progress: Option<String>,
    /// Protocol version, client name and capabilities from `_meta`.
    pub says: Says,
    /// `requestState`: the opaque state of an earlier `input_required` result, if the client continues that call.
    pub state: Option<String>,
    /// `inputResponses`: the client's answers to the questions of an `input_required` result, as JSON, if it sent any.
    pub answers: Option<String>,
    /// Whether the client asks for a task with the `task` parameter, which protocol versions before 2026-07-28 have.
    pub wants_task: bool,
}

/// Protocol version, client name and capabilities in a request's `_meta`. Empty if `_meta` names no protocol version.
#[derive(Clone, Debug, Default)]
pub struct Says {
    /// The protocol members of `_meta`, as JSON members without braces; `None` in protocol versions before 2026-07-28.
    pub meta: Option<Arc<str>>,
    /// Name of the client, if it states one.
    pub client: Option<String>,
    /// Capabilities of the client, as JSON, if it states any.
    pub capabilities: Option<String>,
}

impl Says {
    /// Returns the protocol version that the request names; `None` before 2026-07-28, when requests named none.
    pub fn version(&self) -> Option<String> {
        let meta = format!("{{{}}}", self.meta.as_deref()?);
        let version = format!("{PROTOCOL}protocolVersion");
        let [version] = pick(meta.as_bytes(), [version.as_str()]).ok()?;
        serde_json::from_str(version?.get()).ok()
    }

    /// Returns true if the request uses a protocol version without an `initialize` handshake.
    pub fn is_modern(&self) -> bool {
        self.meta.is_some()
    }

    /// Reads `_meta` from the parameters of a request.
    pub fn read(params: &[u8]) -> Says {
        let meta = pick(params, ["_meta"]).ok().and_then(|[meta]| meta);
        meta.map(Says::of).unwrap_or_default()
    }

    fn of(meta: &RawValue) -> Says {
        let all = members(meta.get().as_bytes()).unwrap_or_default();
        let protocol: Vec<_> = all.iter().filter(|(name, _)| is_of_protocol(name)).collect();
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

/// Returns true if the protocol defines this member of `_meta` for requests.
fn is_of_protocol(name: &str) -> bool {
    let name = name.strip_prefix(PROTOCOL);
    name.is_some_and(|name| PROTOCOL_MEMBERS.contains(&name))
}

/// Returns the `name` member of an object; `None` if it is missing or not a string.
pub fn name_of(object: &[u8]) -> Option<String> {
    let [name] = pick(object, ["name"]).ok()?;
    serde_json::from_str(name?.get()).ok()
}

impl ToolCall {
    /// Returns true if the call carries the answer to a question that the gateway itself asked.
    pub fn brings_ours(&self) -> bool {
        self.state.as_deref().is_some_and(round::is_ours)
    }

    /// Returns the call that this one continues; `None` if this one carries neither the state of nor the answers to a
    /// server's own question.
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

    /// Reads a call from a request. Returns an error that says why the request is not a valid call.
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
        // Parsers need not agree about a name that is not a string, and a person could not tell which tool is meant.
        let tool: Option<String> = name.and_then(|name| serde_json::from_str(name.get()).ok());
        let tool = tool.ok_or_else(|| Unreadable::new("`name` is not a string"))?;
        if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
            return Err(Unreadable::new("`arguments` is not an object"));
        }
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
            tool,
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

/// Members of `params` that belong to the protocol. Other members that a client adds are on no card, so they are not
/// sent with a call that a person approved.
const KNOWN: [&str; 6] = [
    "name",
    "arguments",
    "_meta",
    "requestState",
    "inputResponses",
    "task",
];

/// Returns the parameters to send to the server, with this tool name and these arguments. The client's progress token
/// is left out unless `keeps_progress`. `None` if `original` is not a JSON object or `arguments` is not UTF-8.
///
/// INVARIANT: the arguments sent are exactly `arguments`, whatever `original` contains. No other member is sent that a
/// server could take for a part of what was approved.
pub fn params(original: &[u8], tool: &str, arguments: &[u8], keeps_progress: bool) -> Option<Bytes> {
    let all = members(original)?;
    let has_arguments = all.iter().any(|(name, _)| name == "arguments");
    let arguments = std::str::from_utf8(arguments).ok()?;
    let mut made: Vec<String> = Vec::with_capacity(all.len());
    for (name, value) in all.iter().filter(|(name, _)| KNOWN.contains(&name.as_str())) {
        made.push(match name.as_str() {
            "name" if has_arguments || arguments == "{}" => format!("\"name\":{}", quote(tool)),
            "name" => format!("\"name\":{},\"arguments\":{arguments}", quote(tool)),
            "arguments" => format!("\"arguments\":{arguments}"),
            "_meta" => format!("\"_meta\":{}", protocol_meta(value, keeps_progress)?),
            name => format!("{}:{}", quote(name), value.get()),
        });
    }
    Some(Bytes::from(format!("{{{}}}", made.join(","))))
}

/// Returns `_meta` with only the members that the protocol defines, and the progress token if `keeps_progress`.
fn protocol_meta(meta: &RawValue, keeps_progress: bool) -> Option<String> {
    let all = members(meta.get().as_bytes())?;
    let is_kept = |name: &str| is_of_protocol(name) || (keeps_progress && name == "progressToken");
    let kept = all.iter().filter(|(name, _)| is_kept(name));
    let kept: Vec<String> = kept
        .map(|(name, value)| format!("{}:{}", quote(name), value.get()))
        .collect();
    Some(format!("{{{}}}", kept.join(",")))
}

/// Returns the parameters without `requestState` and `inputResponses` if `is_ours`, which means that these belong to a
/// question of the gateway. Otherwise returns them unchanged.
pub fn without_round(params: &Bytes, is_ours: bool) -> Bytes {
    let object = serde_json::from_slice::<&RawValue>(params)
        .ok()
        .filter(|_| is_ours);
    let rest = object.and_then(|object| without(object, &["requestState", "inputResponses"]));
    rest.map_or_else(|| params.clone(), Bytes::from)
}

/// Returns an object without the named members, as JSON; `None` if `object` is not an object.
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
    fn b3_what_is_sent_later_is_the_protocols_members_with_the_approved_arguments() {
        let original = r#"{"_meta":{"progressToken":1,"z":2,"io.modelcontextprotocol/x":3,"io.modelcontextprotocol/logLevel":"info"},"new":[1],"arguments":{"a": 1},"name":"files__x","task":{}}"#;
        let check = |arguments: &str, keeps: bool, expected: &str| {
            let made = params(original.as_bytes(), "x", arguments.as_bytes(), keeps).unwrap();
            assert_eq!(made, expected);
        };
        check(
            r#"{"a": 1}"#,
            true,
            r#"{"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"info"},"arguments":{"a": 1},"name":"x","task":{}}"#,
        );
        check(
            r#"{"a":2}"#,
            false,
            r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info"},"arguments":{"a":2},"name":"x","task":{}}"#,
        );
        let made = params(br#"{"name":"x"}"#, "x", br#"{"a":2}"#, true).unwrap();
        assert_eq!(made, r#"{"name":"x","arguments":{"a":2}}"#);
        assert_eq!(
            params(br#"{"name":"x"}"#, "x", b"{}", true).unwrap(),
            r#"{"name":"x"}"#
        );
    }
}
