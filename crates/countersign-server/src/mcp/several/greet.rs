//! Greeting all servers at once, and being greeted as if we were one.
//!
//! Enters: the client's greeting, which each server gets with the same parameters. Leaves: what all of them can do, as
//! one. A server that is slow joins later; one that does not greet back is left out, and the others go on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::client::Asked;
use super::leg::Leg;
use super::merge::{beside, merged};
use super::server::lists_of;
use super::{Routed, Switch, open};
use crate::mcp::frame::{Frame, members, pick, quote};
use crate::mcp::one_line::OneLine;
use crate::mcp::server::Lost;
use crate::mcp::wire;

/// How long the client's greeting waits for slow servers: clients give up after half a minute or more, and who is
/// late can join.
const GREETS_WITHIN: Duration = Duration::from_secs(10);
/// The protocol's word for who answers.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Switch {
    /// Greets all servers, and answers for those that greet back.
    pub(super) async fn greet(self: Arc<Self>, asked: Asked) -> Option<Routed> {
        let has_begun = std::mem::replace(&mut open(&self.greeting).has_begun, true);
        if has_begun {
            asked
                .refuse(wire::INVALID_REQUEST, "the servers were greeted before")
                .await;
            return None;
        }
        for number in 0..self.legs.len() {
            let (switch, frame, back) = (self.clone(), asked.frame.clone(), asked.back.clone());
            tokio::spawn(async move { switch.greet_leg(number, frame, back).await });
        }
        let settled = futures_util::future::join_all(self.legs.iter().map(|leg| leg.settled()));
        let _ = tokio::time::timeout(GREETS_WITHIN, settled).await;
        let answers: Vec<(String, Bytes)> = self
            .legs
            .iter()
            .filter_map(|leg| Some((leg.name().to_owned(), open(&leg.greeted).clone()?)))
            .collect();
        if answers.is_empty() {
            asked.refuse(wire::INTERNAL, &self.nobody()).await;
            return None;
        }
        let result = greeted(&answers);
        asked.answer(wire::result(&asked.raw_id(), &result)).await;
        None
    }

    async fn greet_leg(self: Arc<Self>, number: usize, frame: Frame, back: crate::mcp::relay::Back) {
        let Some(leg) = self.legs.get(number).filter(|leg| leg.is_new()) else {
            return;
        };
        // The relay learns who the client is.
        leg.relay.hear_client(Ok(frame.clone()), &back).await;
        let params = frame.part(&frame.params).unwrap_or(b"{}");
        let answer = leg
            .relay
            .server
            .request("initialize", &String::from_utf8_lossy(params))
            .await;
        match answer {
            Ok(answer) => match answer.shared(&answer.result) {
                Some(result) => {
                    let capabilities = capabilities(&result);
                    *open(&leg.greeted) = Some(result);
                    leg.ready(Some(capabilities.into()));
                }
                None => _ = leg.out(&said(&answer, "it does not take the client's greeting")),
            },
            Err(Lost::NotSent(why) | Lost::Unknown(why)) => _ = leg.out(&why),
        }
        // A slow one joins a client that is ready.
        let initialized = open(&self.greeting).initialized.clone();
        if let Some(initialized) = initialized
            && leg.is_to_be_welcomed()
        {
            self.welcome(number, initialized).await;
            let changes = self.changes(number, &lists_of(leg), false);
            self.say(changes).await;
        }
    }

    /// The client is ready: so are all servers that greeted back.
    pub(super) async fn initialized(self: &Arc<Self>, line: OneLine) {
        open(&self.greeting).initialized = Some(line.clone());
        for (number, leg) in self.legs.iter().enumerate() {
            if leg.is_to_be_welcomed() {
                self.welcome(number, line.clone()).await;
            }
        }
    }

    async fn welcome(self: &Arc<Self>, number: usize, initialized: OneLine) {
        let (Some(back), Some(leg)) = (self.back(), self.legs.get(number).cloned()) else {
            return;
        };
        self.pass(number, initialized, &back).await;
        // What it offers is looked at before anybody calls it.
        self.tasks.spawn(async move { leg.refusal().await });
    }

    /// Asks all servers what they can do, for clients that greet nobody. Unless all can speak with such a client, it has
    /// to greet them.
    pub(super) async fn discover(self: Arc<Self>, asked: Asked) -> Option<Routed> {
        let params = String::from_utf8_lossy(asked.params()).into_owned();
        let legs: Vec<&Arc<Leg>> = self
            .legs
            .iter()
            .filter(|leg| leg.is_new() || leg.is_ready())
            .collect();
        let answers = legs
            .iter()
            .map(|leg| leg.relay.server.request("server/discover", &params));
        let all = futures_util::future::join_all(answers);
        let Ok(answers) = tokio::time::timeout(GREETS_WITHIN, all).await else {
            asked
                .refuse(wire::METHOD_NOT_FOUND, "not all servers say what they can do")
                .await;
            return None;
        };
        let mut results = Vec::new();
        for (leg, answer) in legs.into_iter().zip(&answers) {
            match answer {
                Ok(answer) => match answer.shared(&answer.result) {
                    Some(result) => results.push((leg, result)),
                    None => {
                        let error = answer.part(&answer.error).unwrap_or(b"{}");
                        asked.answer(wire::kept_error(&asked.raw_id(), error)).await;
                        return None;
                    }
                },
                // It cannot be reached, so it says nothing about the others.
                Err(Lost::NotSent(why)) => _ = leg.out(why),
                Err(Lost::Unknown(_)) if leg.is_out() => {}
                Err(Lost::Unknown(why)) => {
                    let problem = format!("`{}` does not say what it can do: {why}", leg.name());
                    asked.refuse(wire::METHOD_NOT_FOUND, &problem).await;
                    return None;
                }
            }
        }
        if results.is_empty() {
            asked.refuse(wire::INTERNAL, &self.nobody()).await;
            return None;
        }
        for (leg, result) in &results {
            leg.relay.heard(&asked.frame);
            leg.ready(Some(capabilities(result).into()));
        }
        let results: Vec<(String, Bytes)> = results
            .into_iter()
            .map(|(leg, result)| (leg.name().to_owned(), result))
            .collect();
        asked
            .answer(wire::result(&asked.raw_id(), &discovered(&results)))
            .await;
        None
    }

    fn nobody(&self) -> String {
        let reasons = self.legs.iter().map(|leg| match leg.stage() {
            super::leg::Stage::Out(reason) => format!("`{}`: {reason}", leg.name()),
            _ => format!("`{}` does not answer", leg.name()),
        });
        format!(
            "none of the servers can be used: {}",
            reasons.collect::<Vec<_>>().join("; ")
        )
    }
}

/// What a server answered instead.
fn said(answer: &Frame, otherwise: &str) -> String {
    let error = answer.part(&answer.error).unwrap_or_default();
    let message = pick(error, ["message"]).ok().and_then(|[message]| message);
    let message = message.and_then(|message| serde_json::from_str::<String>(message.get()).ok());
    message.map_or_else(
        || otherwise.to_owned(),
        |message| format!("{otherwise}: {message}"),
    )
}

fn capabilities(result: &[u8]) -> String {
    let found = pick(result, ["capabilities"]).ok().and_then(|[found]| found);
    found.map_or_else(|| "{}".to_owned(), |found| found.get().to_owned())
}

/// One answer to a greeting, of all. The version is the oldest that one of them speaks.
fn greeted(answers: &[(String, Bytes)]) -> String {
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

/// What all of them say about themselves, behind the versions they speak.
fn answer(versions: String, answers: &[(String, Bytes)], rest: &[Vec<(String, Box<RawValue>)>]) -> String {
    let mut written = vec![
        versions,
        format!("\"capabilities\":{}", together(answers)),
        format!("\"serverInfo\":{}", info()),
    ];
    written.extend(instructions(answers));
    let beside = beside(rest);
    let beside = beside
        .iter()
        .map(|(name, text)| format!("{}:{text}", quote(name)));
    written.extend(beside);
    format!("{{{}}}", written.join(","))
}

/// One answer to a client that asks what we can do: in versions that all of them speak.
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

/// Who answers where several do: we.
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

/// What all of them can do. Lists change when a server comes or goes, whether or not one says so of itself; and there are
/// always tools, for there are ours.
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

/// What each of them tells the model, under its name.
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
        let made = greeted(&answers(&[
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
