//! A server's tools as it lists them: what of a definition matters to the gate, and the hash of the whole.
//!
//! Enters: lists of tools, ours or the client's, as they pass. Leaves: the newest definition of a tool.
//! Deliberately absent: annotations. They are a server's word about itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign::hash::Hash;
use serde_json::value::RawValue;

use super::frame::pick;
use super::params::{self, InHeader};

/// How soon a server that could not list its tools is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A tool as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The hash of its whole definition, byte for byte; nothing when two tools have this name.
    pub definition: Option<Hash>,
    /// Whether its results have to fit a schema.
    pub has_schema: bool,
    /// The arguments that calls show in headers as well.
    pub in_headers: Arc<[InHeader]>,
    /// Whether it is called as a task only, in the protocol's earlier version that has them.
    pub needs_task: bool,
}

/// All tools of a server.
#[derive(Default)]
pub struct Tools(Mutex<State>);

#[derive(Default)]
struct State {
    listed: HashMap<String, Listed>,
    /// Whether what is not here is not there.
    is_complete: bool,
    /// How often the server said that its tools changed.
    changes: u64,
    failed_at: Option<Instant>,
}

impl Tools {
    /// What is known of a tool without asking; nothing when the server should be asked.
    pub fn known(&self, tool: &str) -> Option<Option<Listed>> {
        let state = self.open();
        let just_failed = state.failed_at.is_some_and(|at| at.elapsed() < ASK_AGAIN);
        match state.listed.get(tool) {
            Some(listed) => Some(Some(listed.clone())),
            None if state.is_complete || just_failed => Some(None),
            None => None,
        }
    }

    /// A tool, if it is known.
    pub fn get(&self, tool: &str) -> Option<Listed> {
        self.open().listed.get(tool).cloned()
    }

    /// The server says that its tools are others now.
    pub fn changed(&self) {
        let mut state = self.open();
        state.listed.clear();
        state.is_complete = false;
        state.failed_at = None;
        state.changes += 1;
    }

    /// A page of tools that the client was given.
    pub fn saw(&self, page: Vec<(String, Listed)>) {
        let mut state = self.open();
        let page = unique(page);
        state.listed.extend(page);
    }

    /// A listing begins; give this number with what came of it.
    pub fn began(&self) -> u64 {
        self.open().changes
    }

    /// All there is. A list that was overtaken by a change is not kept.
    pub fn replace(&self, all: Vec<(String, Listed)>, began: u64) {
        let mut state = self.open();
        state.listed = unique(all);
        state.is_complete = state.changes == began;
        state.failed_at = None;
    }

    /// The server would not say.
    pub fn not_listed(&self) {
        self.open().failed_at = Some(Instant::now());
    }

    fn open(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two tools of one name are none that anybody could have classified (X42).
fn unique(page: Vec<(String, Listed)>) -> HashMap<String, Listed> {
    let mut unique: HashMap<String, Listed> = HashMap::new();
    for (name, listed) in page {
        unique
            .entry(name)
            .and_modify(|twice| twice.definition = None)
            .or_insert(listed);
    }
    unique
}

/// The tools of one list; nothing when it is no list of tools.
pub fn definitions(tools: &RawValue) -> Option<Vec<(String, Listed)>> {
    let tools: Vec<&RawValue> = serde_json::from_str(tools.get()).ok()?;
    tools.into_iter().map(definition).collect()
}

/// One tool; nothing when it is none.
pub fn definition(tool: &RawValue) -> Option<(String, Listed)> {
    let text = tool.get();
    let names = ["name", "outputSchema", "execution", "inputSchema"];
    let [name, schema, execution, input] = pick(text.as_bytes(), names).ok()?;
    let support = execution.and_then(|execution| pick(execution.get().as_bytes(), ["taskSupport"]).ok());
    let listed = Listed {
        definition: Some(Hash::of(text.as_bytes())),
        in_headers: input
            .map(|input| params::in_headers(input.get()))
            .unwrap_or_default(),
        has_schema: schema.is_some_and(|schema| schema.get() != "null"),
        needs_task: support
            .is_some_and(|[support]| support.is_some_and(|support| support.get() == "\"required\"")),
    };
    Some((serde_json::from_str(name?.get()).ok()?, listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Vec<(String, Listed)> {
        definitions(serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn x30_every_byte_of_a_definition_is_in_its_hash() {
        let texts = [
            r#"[{"name":"a","description":"reads"}]"#,
            r#"[{"name":"a","description":"reads "}]"#,
            r#"[{"description":"reads","name":"a"}]"#,
            r#"[{"name":"a","description":"reads","_meta":{"x":1}}]"#,
        ];
        let hashes: std::collections::HashSet<_> =
            texts.iter().map(|text| page(text)[0].1.definition).collect();
        assert_eq!(hashes.len(), texts.len());
    }

    #[test]
    fn x42_two_tools_of_one_name_have_no_definition() {
        let tools = Tools::default();
        assert_eq!(tools.known("a"), None, "the server should be asked");
        tools.saw(page(
            r#"[{"name":"a"},{"name":"b","outputSchema":{}},{"name":"a","x":1}]"#,
        ));
        assert_eq!(tools.get("a").unwrap().definition, None);
        assert!(tools.get("b").unwrap().has_schema);
        assert_eq!(tools.known("c"), None, "there may be more pages");
        tools.replace(page(r#"[{"name":"b"}]"#), tools.began());
        assert_eq!((tools.known("a"), tools.known("c")), (Some(None), Some(None)));
        tools.changed();
        assert_eq!(tools.known("b"), None, "what changed is asked for again");
    }
}
