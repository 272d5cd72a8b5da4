//! The handshake: `initialize` and `server/discover` go to all servers, and the client gets one merged answer.
//!
//! Each server gets the client's `initialize` with the same parameters, and the client gets the capabilities of all
//! servers together. A slow server joins later; one that fails is left out, and the others continue.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::client::ClientRequest;
use super::merge::{merge_other_members, merged};
use super::server::lists_of;
use super::{Multiplexer, Routed};
use crate::mcp::answer::speaks_for_us;
use crate::mcp::frame::{Frame, members, pick, quote};
use crate::mcp::lock;
use crate::mcp::one_line::OneLine;
use crate::mcp::server::Lost;
use crate::mcp::wire;

/// How long the client's `initialize` waits for slow servers. Clients give up after half a minute or more, and a slow
/// server can join later.
pub const GREETS_WITHIN: Duration = Duration::from_secs(10);
/// Key in `_meta` for the server's name and version.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Multiplexer {
    /// Initializes all servers, and answers the client for those that succeed in time. Returns `None`, because there is
    /// nothing left to route.
    pub(super) async fn greet(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let has_begun = std::mem::replace(&mut lock(&self.greeting).has_begun, true);
        if has_begun {
            asked
                .refuse(wire::INVALID_REQUEST, "the servers were greeted before")
                .await;
            return None;
        }
        for number in 0..self.upstreams.len() {
            let (switch, frame, back) = (self.clone(), asked.frame.clone(), asked.back.clone());
            tokio::spawn(async move { switch.greet_leg(number, frame, back).await });
        }
        let upstreams = self.upstreams.all();
        let settled = futures_util::future::join_all(
            upstreams
                .iter()
                .map(|upstream| upstream.wait_until_ready_or_out()),
        );
        let _ = tokio::time::timeout(GREETS_WITHIN, settled).await;
        let answers: Vec<(String, Bytes)> = upstreams
            .iter()
            .filter_map(|upstream| Some((upstream.name().to_owned(), lock(&upstream.greeted).clone()?)))
            .collect();
        if answers.is_empty() {
            asked.refuse(wire::INTERNAL, &self.nobody()).await;
            return None;
        }
        let result = merge_initialize_results(&answers);
        asked.answer(wire::result(&asked.raw_id(), &result)).await;
        None
    }

    async fn greet_leg(self: Arc<Self>, number: usize, frame: Frame, back: crate::mcp::relay::Back) {
        let Some(upstream) = self.upstreams.get(number).filter(|upstream| upstream.is_new()) else {
            return;
        };
        // Let the relay learn who the client is.
        upstream.relay.hear_client(Ok(frame.clone()), &back).await;
        let params = frame.part(&frame.params).unwrap_or(b"{}");
        let answer = upstream
            .relay
            .server
            .request("initialize", &String::from_utf8_lossy(params))
            .await;
        match answer {
            Ok(answer) => match answer.shared(&answer.result) {
                Some(result) if speaks_for_us(&result) => {
                    upstream.out("its greeting claims to be the gateway's own");
                }
                Some(result) => {
                    let capabilities = capabilities(&result);
                    *lock(&upstream.greeted) = Some(result);
                    upstream.ready(Some(capabilities.into()));
                }
                None => _ = upstream.out(&error_text(&answer, "it does not take the client's greeting")),
            },
            Err(lost) => _ = upstream.out(&lost.why()),
        }
        // A slow server joins a client that is already initialized.
        let initialized = lock(&self.greeting).initialized.clone();
        if let Some(initialized) = initialized
            && upstream.is_to_be_welcomed()
        {
            self.welcome(number, initialized).await;
            let changes = self.changes(number, &lists_of(&upstream), false);
            self.say(changes).await;
        }
    }

    /// Handles the client's `notifications/initialized`: forwards it to all servers that are ready.
    pub(super) async fn initialized(self: &Arc<Self>, line: OneLine) {
        lock(&self.greeting).initialized = Some(line.clone());
        for (number, upstream) in self.upstreams.all().into_iter().enumerate() {
            if upstream.is_to_be_welcomed() {
                self.welcome(number, line.clone()).await;
            }
        }
    }

    pub(super) async fn welcome(self: &Arc<Self>, number: usize, initialized: OneLine) {
        let (Some(back), Some(upstream)) = (self.back(), self.upstreams.get(number)) else {
            return;
        };
        self.pass(number, initialized, &back).await;
        // List and check its tools before the first call.
        self.tasks.spawn(async move { upstream.refusal().await });
    }

    /// Answers `server/discover` for all servers. If a server does not support it, the client gets an error and has to
    /// use `initialize`. Returns `None`, because there is nothing left to route.
    pub(super) async fn discover(self: Arc<Self>, asked: ClientRequest) -> Option<Routed> {
        let params = String::from_utf8_lossy(asked.params()).into_owned();
        let mut upstreams = self.upstreams.all();
        upstreams.retain(|upstream| upstream.is_new() || upstream.is_ready());
        let answers = upstreams
            .iter()
            .map(|upstream| upstream.relay.server.request("server/discover", &params));
        let all = futures_util::future::join_all(answers);
        let Ok(answers) = tokio::time::timeout(GREETS_WITHIN, all).await else {
            asked
                .refuse(wire::METHOD_NOT_FOUND, "not all servers say what they can do")
                .await;
            return None;
        };
        let mut results = Vec::new();
        for (upstream, answer) in upstreams.iter().zip(&answers) {
            match answer {
                Ok(answer) => match answer.shared(&answer.result) {
                    Some(result) => results.push((upstream, result)),
                    None => {
                        let error = answer.part(&answer.error).unwrap_or(b"{}");
                        asked.answer(wire::raw_error(&asked.raw_id(), error)).await;
                        return None;
                    }
                },
                // The server cannot be reached, which says nothing about the others.
                Err(Lost::NotSent(why) | Lost::Refused(why)) => _ = upstream.out(why),
                Err(Lost::Unknown(_)) if upstream.is_out() => {}
                Err(Lost::Unknown(why)) => {
                    let problem = format!("`{}` does not say what it can do: {why}", upstream.name());
                    asked.refuse(wire::METHOD_NOT_FOUND, &problem).await;
                    return None;
                }
            }
        }
        if results.is_empty() {
            asked.refuse(wire::INTERNAL, &self.nobody()).await;
            return None;
        }
        for (upstream, result) in &results {
            upstream.relay.heard(&asked.frame);
            upstream.ready(Some(capabilities(result).into()));
        }
        let results: Vec<(String, Bytes)> = results
            .into_iter()
            .map(|(upstream, result)| (upstream.name().to_owned(), result))
            .collect();
        asked
            .answer(wire::result(&asked.raw_id(), &discovered(&results)))
            .await;
        None
    }

    fn nobody(&self) -> String {
        let upstreams = self.upstreams.all();
        let reasons = upstreams.iter().map(|upstream| match upstream.stage() {
            super::upstream::Stage::Out(reason) => format!("`{}`: {reason}", upstream.name()),
            _ => format!("`{}` does not answer", upstream.name()),
        });
        format!(
            "none of the servers can be used: {}",
            reasons.collect::<Vec<_>>().join("; ")
        )
    }
}

/// Returns `otherwise`, followed by the response's error message if it has one.
fn error_text(answer: &Frame, otherwise: &str) -> String {
    let error = answer.part(&answer.error).unwrap_or_default();
    let message = pick(error, ["message"]).ok().and_then(|[message]| message);
    let message = message.and_then(|message| serde_json::from_str::<String>(message.get()).ok());
    message.map_or_else(
        || otherwise.to_owned(),
        |message| format!("{otherwise}: {message}"),
    )
}

pub fn capabilities(result: &[u8]) -> String {
    let found = pick(result, ["capabilities"]).ok().and_then(|[found]| found);
    found.map_or_else(|| "{}".to_owned(), |found| found.get().to_owned())
}

/// Merges the results of `initialize`. The protocol version is the oldest one among the servers.
fn merge_initialize_results(answers: &[(String, Bytes)]) -> String {
    let versions = answers
        .iter()
        .filter_map(|(_, result)| text(result, "protocolVersion"));
    let version = versions.min().unwrap_or_default();
    let rest = rest(
        answers,
        &["protocolVersion", "capabilities", "serverInfo", "instructions"],
    );
    let version = format!("\"protocolVersion\":{}", quote(&version));
    answer(version, answers, &rest)
}

/// Merges everything but the versions: capabilities, instructions and other members.
fn answer(versions: String, answers: &[(String, Bytes)], rest: &[Vec<(String, Box<RawValue>)>]) -> String {
    let mut written = vec![
        versions,
        format!("\"capabilities\":{}", together(answers)),
        format!("\"serverInfo\":{}", info()),
    ];
    written.extend(instructions(answers));
    let beside = merge_other_members(rest);
    let beside = beside
        .iter()
        .map(|(name, text)| format!("{}:{text}", quote(name)));
    written.extend(beside);
    format!("{{{}}}", written.join(","))
}

/// Merges the results of `server/discover`. Only versions that all servers support are offered.
fn discovered(answers: &[(String, Bytes)]) -> String {
    let versions = |result: &Bytes| -> Vec<String> {
        let found = pick(result, ["supportedVersions"]).ok().and_then(|[found]| found);
        found
            .and_then(|found| serde_json::from_str(found.get()).ok())
            .unwrap_or_default()
    };
    let mut common = answers
        .first()
        .map(|(_, result)| versions(result))
        .unwrap_or_default();
    for (_, result) in answers {
        let theirs = versions(result);
        common.retain(|version| theirs.contains(version));
    }
    let common: Vec<String> = common.iter().map(|version| quote(version)).collect();
    let known = ["supportedVersions", "capabilities", "serverInfo", "instructions"];
    let mut rest = rest(answers, &known);
    rest.insert(0, own_meta());
    let versions = format!("\"supportedVersions\":[{}]", common.join(","));
    answer(versions, answers, &rest)
}

/// Returns `_meta` that names the gateway as the server.
pub fn own_meta() -> Vec<(String, Box<RawValue>)> {
    let meta = format!("{{{}:{}}}", quote(SERVER_INFO), info());
    RawValue::from_string(meta)
        .map(|meta| vec![("_meta".to_owned(), meta)])
        .unwrap_or_default()
}

fn info() -> String {
    format!(
        "{{\"name\":\"countersign\",\"version\":{}}}",
        quote(env!("CARGO_PKG_VERSION"))
    )
}

fn rest(answers: &[(String, Bytes)], known: &[&str]) -> Vec<Vec<(String, Box<RawValue>)>> {
    let rest = answers.iter().map(|(_, result)| {
        let all = members(result).unwrap_or_default();
        let rest = all
            .into_iter()
            .filter(|(name, _)| !known.contains(&name.as_str()));
        rest.map(|(name, value)| (name, value.to_owned())).collect()
    });
    rest.collect()
}

/// Merges capabilities. Lists always have `listChanged`, because they change when a server comes or goes; and there are
/// always tools, because of the built-in ones.
fn together(answers: &[(String, Bytes)]) -> String {
    let mut all: Vec<String> = answers.iter().map(|(_, result)| capabilities(result)).collect();
    let has = |name: &str| {
        let mut found = all.iter().filter_map(|all| pick(all.as_bytes(), [name]).ok());
        found.any(|[found]| found.is_some())
    };
    let lists = ["prompts", "resources"].into_iter().filter(|name| has(name));
    let lists: Vec<String> = std::iter::once("tools")
        .chain(lists)
        .map(|name| format!("\"{name}\":{{\"listChanged\":true}}"))
        .collect();
    all.push(format!("{{{}}}", lists.join(",")));
    let all: Vec<&RawValue> = all
        .iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect();
    merged(&all)
}

/// Joins the instructions of all servers, each under the server's name, as a JSON member; `None` if no server has any.
fn instructions(answers: &[(String, Bytes)]) -> Option<String> {
    let all: Vec<String> = answers
        .iter()
        .filter_map(|(name, result)| Some(format!("# {name}\n\n{}", text(result, "instructions")?)))
        .collect();
    (!all.is_empty()).then(|| format!("\"instructions\":{}", quote(&all.join("\n\n"))))
}

fn text(result: &[u8], member: &str) -> Option<String> {
    let [found] = pick(result, [member]).ok()?;
    serde_json::from_str(found?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(texts: &[(&str, &'static str)]) -> Vec<(String, Bytes)> {
        let answer =
            |(name, text): &(&str, &'static str)| ((*name).to_owned(), Bytes::from_static(text.as_bytes()));
        texts.iter().map(answer).collect()
    }

    #[test]
    fn several_greetings_are_one() {
        let made = merge_initialize_results(&answers(&[
            (
                "a",
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{},"instructions":"Be kind."}"#,
            ),
            (
                "b",
                r#"{"protocolVersion":"2025-06-18","capabilities":{"prompts":{},"x":{"n":1e2}},"serverInfo":{},"_meta":{"k":1}}"#,
            ),
        ]));
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            made,
            format!(
                "{{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{{\"tools\":{{\"listChanged\":true}},\
                 \"prompts\":{{\"listChanged\":true}},\"x\":{{\"n\":1e2}}}},\"serverInfo\":{{\"name\":\"countersign\",\
                 \"version\":\"{version}\"}},\"instructions\":\"# a\\n\\nBe kind.\",\"_meta\":{{\"k\":1}}}}"
            )
        );
    }

    #[test]
    fn what_all_speak_is_offered() {
        let made = discovered(&answers(&[
            (
                "a",
                r#"{"resultType":"complete","supportedVersions":["2026-07-28","2027-01-01"],"capabilities":{},"ttlMs":5}"#,
            ),
            (
                "b",
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"logging":{}},"ttlMs":3}"#,
            ),
        ]));
        assert!(
            made.starts_with(
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{"logging":{},"tools":{"listChanged":true}}"#
            ),
            "{made}"
        );
        assert!(
            made.contains(r#""ttlMs":3"#) && made.contains(r#""resultType":"complete""#),
            "{made}"
        );
    }
}
