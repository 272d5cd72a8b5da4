//! A server's tools as it lists them: the parts of each definition that the gate needs, and a hash of the whole.
//!
//! Lists are read whether the gateway or the client requested them, and the newest definition of a tool counts.
//! Annotations are not read, because they are the server's unchecked claims.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign::gate::declares_flag;
use countersign::hash::Hash;
use serde_json::value::RawValue;

use super::frame::pick;
use super::params::{self, InHeader};
use crate::tool_schema;

/// Delay before a server that could not list its tools is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Maximum number of a server's tools that [`Tools::is_news`] reports.
const MOST_REPORTED: usize = 100;

/// A tool as the server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Hash of the whole definition, byte for byte; `None` if two tools have this name.
    pub definition: Option<Hash>,
    /// Whether the tool declares an output schema.
    pub has_schema: bool,
    /// Arguments that are also sent in headers.
    pub in_headers: Arc<[InHeader]>,
    /// Whether the tool declares an argument `confirmed`, so that its callers expect to be asked for confirmation.
    pub declares_flag: bool,
    /// Input schema, if it lists values for some argument and is not too large to be stored.
    pub input_schema: Option<Arc<str>>,
    /// Whether the tool must be called as a task, with the `task` parameter of protocol versions before 2026-07-28.
    pub needs_task: bool,
}

/// All known tools of a server.
#[derive(Default)]
pub struct Tools(Mutex<State>);

#[derive(Default)]
struct State {
    listed: HashMap<String, Listed>,
    /// Whether `listed` is the server's whole list, so that any other tool does not exist.
    is_complete: bool,
    /// Number of times the list became outdated: the server announced a change, or its list was missing or refused.
    changes: u64,
    failed_at: Option<Instant>,
    /// Tools for which [`Tools::is_news`] has returned true.
    reported: HashSet<String>,
}

impl Tools {
    /// Returns the cached state of a tool: `Some(Some(_))` if it is listed, `Some(None)` if it is not, and `None` if
    /// the server has to be asked first.
    pub fn known(&self, tool: &str) -> Option<Option<Listed>> {
        let state = self.open();
        let just_failed = state.failed_at.is_some_and(|at| at.elapsed() < ASK_AGAIN);
        match state.listed.get(tool) {
            Some(listed) => Some(Some(listed.clone())),
            None if state.is_complete || just_failed => Some(None),
            None => None,
        }
    }

    /// Returns a tool from the cached list; `None` if it is not in the list.
    pub fn get(&self, tool: &str) -> Option<Listed> {
        self.open().listed.get(tool).cloned()
    }

    /// Forgets all tools, because the server announced a change.
    pub fn changed(&self) {
        let mut state = self.open();
        state.listed.clear();
        state.is_complete = false;
        state.failed_at = None;
        state.changes += 1;
    }

    /// Adds a page of tools that was forwarded to the client.
    pub fn saw(&self, page: Vec<(String, Listed)>) {
        let mut state = self.open();
        let page = unique(page);
        state.listed.extend(page);
    }

    /// Returns the number of changes so far. Call this when a listing begins and pass the result to [`Tools::replace`].
    pub fn began(&self) -> u64 {
        self.open().changes
    }

    /// Replaces all tools. If the server announced a change since `began`, the list counts as incomplete.
    pub fn replace(&self, all: Vec<(String, Listed)>, began: u64) {
        let mut state = self.open();
        state.listed = unique(all);
        state.is_complete = state.changes == began;
        state.failed_at = None;
    }

    /// Returns true on the first call for each tool, for up to `MOST_REPORTED` tools.
    pub fn is_news(&self, tool: &str) -> bool {
        let mut state = self.open();
        state.reported.len() < MOST_REPORTED && state.reported.insert(tool.to_owned())
    }

    /// Forgets all tools, because the server did not list them, or its list was refused. Until it sends a good list,
    /// its tools are unknown: a refused list may have withdrawn or changed any of them (X30, X79).
    pub fn not_listed(&self) {
        let mut state = self.open();
        state.listed.clear();
        state.is_complete = false;
        state.failed_at = Some(Instant::now());
        state.changes += 1;
    }

    fn open(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collects tools by name. A name that occurs twice gets no definition, because no person can have classified it (X42).
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

/// Reads one tool of a list; `None` if it cannot be read.
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
        declares_flag: input.is_some_and(|input| declares_flag(input.get().as_bytes())),
        input_schema: input
            .map(RawValue::get)
            .filter(|input| input.len() <= tool_schema::LARGEST && input.contains("\"enum\""))
            .map(Arc::from),
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
        let tools: Vec<&RawValue> = serde_json::from_str(text).unwrap();
        tools.into_iter().map(|tool| definition(tool).unwrap()).collect()
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
        tools.replace(page(r#"[{"name":"b"}]"#), tools.began());
        tools.not_listed();
        assert_eq!((tools.known("b"), tools.get("b")), (Some(None), None));
    }
}
