//! What is held: the operator's catalogue of tools.
//!
//! Enters: a tool's name and the exact bytes of its arguments. Leaves: a ruling (pass, hold, forbid).
//! Deliberately absent: files and reloading (the text comes in as a value, and its hash goes into every event), and
//! hints from the tools themselves, which may not loosen anything.
//!
//! Whatever is unknown, unreadable or fails is held. There is no setting whose absence lets a call pass.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::call::Call;
use crate::display::{clip, is_unremarkable};
use crate::effect::{Effect, Risk};
use crate::hash::Hash;
use crate::json::{self, Top, Tree};
use crate::provenance::{Provenance, Teller};
use crate::secrecy::Secrecy;
use crate::summary::{Row, Said, SecretPath, Summaries, generic, generic_tree, hide, is_cut, table};

mod act;
mod authority;
mod before;
mod catalogue;
mod condition;
mod definition;
mod names;
mod parse;
mod places;
mod plan;
mod problem;
mod read;
mod schema;
mod terms;
mod trace;
mod undo;

pub use act::Act;
pub(crate) use act::VALUE;
use authority::{Asks, Surfaces};
pub use authority::{Authority, LARGEST_QUORUM};
use before::Before;
pub use catalogue::Listed;
use condition::{Condition, Origins};
pub use definition::Definition;
use places::{Places, Sensitive};
pub use problem::{Problem, Problems};
pub use schema::Schema;
use terms::Draft;
pub use terms::{Stakes, Terms};
use undo::Undo;
pub use undo::UndoProblem;

/// The catalogue: which tool is passed, held or forbidden, and on which terms.
#[derive(Debug)]
pub struct Policy {
    hash: Hash,
    channel: Channel,
    /// Channels that several agents propose in.
    shared: BTreeSet<String>,
    surfaces: Surfaces,
    agents: Agents,
    /// Files that nobody reads without a person.
    sensitive: Sensitive,
    tools: HashMap<String, Tool>,
    summaries: Summaries,
    notices: Vec<Problem>,
}

/// Settings for conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// How long an approval waits, unless its tool says otherwise.
    pub ttl: Duration,
    /// What a reply that is neither yes nor no does to the pending approval.
    pub on_other: OnOther,
    /// What a filler such as "ok" does to something destructive.
    pub on_filler: OnFiller,
}

impl Default for Channel {
    fn default() -> Channel {
        Channel {
            ttl: Duration::from_secs(5 * 60),
            on_other: OnOther::Cancel,
            on_filler: OnFiller::AskAgain,
        }
    }
}

/// What a reply that is neither yes nor no does to the pending approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnOther {
    /// Ends it.
    Cancel,
    /// Leaves it pending.
    Keep,
}

/// What a filler such as "ok" does to something destructive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFiller {
    /// Nothing: the question is put again.
    AskAgain,
    /// Approves it, as anything else.
    Approve,
}

/// Limits on how much an agent may ask of people. They hold unless the policy sets others, or none, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agents {
    /// The most approvals one agent may have pending for one requester; `None` when the policy says `"unlimited"`.
    pub most_pending: Option<usize>,
    /// Whether the same calls again join the pending approval; true when the policy sets `most_pending`.
    pub joins: bool,
    /// New approvals per agent, requester and minute, half of them at once; `None` when the policy says
    /// `"unlimited"`. Enforced by the [`Pace`](crate::gate::Pace) of a gate.
    pub proposals_per_minute: Option<u32>,
    /// How long an agent may not ask again for what was denied, however it writes the same values.
    pub cool_down: Option<Duration>,
}

impl Default for Agents {
    fn default() -> Agents {
        Agents {
            most_pending: Some(20),
            joins: false,
            proposals_per_minute: Some(120),
            cool_down: None,
        }
    }
}

/// What happens to the rest of a batch when a call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The rest is not run.
    #[default]
    Stop,
    /// The rest is run.
    Continue,
}

/// Whether the policy declares how a call is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undoable {
    /// There is an undo, see [`Policy::undo`].
    Yes,
    /// There is none.
    No,
}

/// A call to be ruled on.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments, accepted by [`json::check`](crate::json::check).
    pub arguments: &'a [u8],
    /// What is known of the tool's definition as it is now.
    pub definition: Definition,
    /// Keeps the hashes of hidden values from confirming guesses.
    pub salt: &'a [u8],
    /// What it would change, as the read that comes before answered; summaries may name it.
    pub before: Option<&'a [u8]>,
}

/// What the policy says about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// It runs at once.
    Pass(Pass),
    /// A person is asked, on these terms.
    Hold(Terms),
    /// It does not run and nobody is asked; the agent is told why.
    Forbid {
        /// Why, for the agent.
        reason: String,
    },
}

/// How a passed call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The kind of change.
    pub effect: Effect,
    /// How long the executor may take.
    pub timeout: Duration,
}

/// A tool as the operator sees it.
#[derive(Debug)]
struct Tool {
    effect: Effect,
    risk: Risk,
    title: Option<String>,
    act: Act,
    has_summary: bool,
    yes: Option<String>,
    no: Option<String>,
    hold: Option<Condition>,
    /// Which arguments name files, if any do.
    places: Option<Places>,
    deny: Option<Condition>,
    raise_risk: Option<Condition>,
    ttl: Option<Duration>,
    start_within: Option<Duration>,
    timeout: Duration,
    approvers: Vec<String>,
    asks: Asks,
    secrets: Vec<SecretPath>,
    undo: Option<Undo>,
    before: Option<Before>,
    on_failure: OnFailure,
    schema: Option<Schema>,
    /// Whether its results are what strangers wrote.
    is_outside: bool,
    definition: Option<Hash>,
}

impl Tool {
    /// Whether it passes without a look at the arguments.
    fn is_plain_read(&self) -> bool {
        let is_unconditional =
            self.hold.is_none() && self.places.is_none() && self.deny.is_none() && self.schema.is_none();
        self.effect == Effect::Read && is_unconditional && self.definition.is_none()
    }

    fn pass(&self) -> Drafted {
        Drafted::Pass(Pass {
            effect: self.effect,
            timeout: self.timeout,
        })
    }
}

/// A ruling whose risk is not final yet.
enum Drafted {
    Pass(Pass),
    Hold(Draft),
    Forbid(String),
}

impl Policy {
    /// Reads a policy, or lists every mistake in it.
    pub fn parse(text: &str) -> Result<Policy, Problems> {
        parse::parse(text)
    }

    /// The policy without tools: every call is held.
    pub fn empty() -> Policy {
        Policy {
            hash: Hash::of(b""),
            channel: Channel::default(),
            shared: BTreeSet::new(),
            surfaces: Surfaces::default(),
            agents: Agents::default(),
            sensitive: Sensitive::with([]),
            tools: HashMap::new(),
            summaries: Summaries::new(),
            notices: Vec::new(),
        }
    }

    /// The hash of the text, for events.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Settings for conversations.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// True when several agents may propose in this channel: the policy names it under `shared`.
    pub fn shares(&self, channel: &crate::id::Channel) -> bool {
        self.shared.contains(channel.as_str())
    }

    /// What keeps agents from asking too much.
    pub fn agents(&self) -> Agents {
        self.agents
    }

    /// Remarks that are not mistakes.
    pub fn notices(&self) -> &[Problem] {
        &self.notices
    }

    /// The names of all listed tools, sorted.
    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// What the operator calls a tool.
    pub fn title(&self, tool: &str) -> Option<&str> {
        self.tools.get(tool)?.title.as_deref()
    }

    /// The act's own words, as the policy has them; nothing for a tool that is not listed.
    pub fn act(&self, tool: &str) -> Option<&Act> {
        self.tools.get(tool).map(|tool| &tool.act)
    }

    /// Whether ruling on a call may take longer than a thread that others wait for should be held.
    pub fn is_slow(&self, tool: &str, argument_bytes: usize) -> bool {
        const SLOW_FROM: usize = 2048;
        let conditional = |tool: &Tool| {
            let conditions = [&tool.hold, &tool.deny, &tool.raise_risk];
            conditions.iter().any(|condition| condition.is_some())
                || tool.schema.is_some()
                || tool.places.is_some()
        };
        argument_bytes >= SLOW_FROM && self.tools.get(tool).is_some_and(conditional)
    }

    /// Rules on a call of which nobody knows where its values came from.
    pub fn rule(&self, asked: Asked<'_>) -> Ruling {
        self.rule_traced(asked, None)
    }

    /// Rules on a call whose values were traced, if there was a conversation. A condition that asks about origins
    /// fails without one, also without the person's part of it, and what fails is held. One that the proposer supplied
    /// makes no ruling milder than it is without it.
    pub fn rule_traced(&self, asked: Asked<'_>, provenance: Option<&Provenance>) -> Ruling {
        match self.draft(asked, provenance) {
            Drafted::Pass(pass) => Ruling::Pass(pass),
            Drafted::Hold(draft) => Ruling::Hold(draft.finish(self.surfaces)),
            Drafted::Forbid(reason) => Ruling::Forbid { reason },
        }
    }

    /// The terms on which a call is put to a person even where it would pass: for edited arguments and for undos.
    /// Fails, with the reason, for a call that is forbidden.
    pub fn hold(&self, asked: Asked<'_>) -> Result<Terms, String> {
        self.hold_traced(asked, None, None)
    }

    /// The same, for a call whose values were traced, if there was a conversation, and with at least this risk.
    pub fn hold_traced(
        &self,
        asked: Asked<'_>,
        provenance: Option<&Provenance>,
        least: Option<Risk>,
    ) -> Result<Terms, String> {
        let draft = match (self.draft(asked, provenance), self.tools.get(asked.tool)) {
            (Drafted::Hold(draft), _) => draft,
            (Drafted::Forbid(reason), _) => return Err(reason),
            (Drafted::Pass(_), Some(tool)) => {
                let arguments = Tree::read(asked.arguments, Top::Object).ok();
                let draft = self.terms(tool, asked, arguments, Vec::new());
                raise(tool, draft, asked, &origins(provenance))
            }
            (Drafted::Pass(_), None) => self.unknown(asked),
        };
        Ok(draft.at_least(least).finish(self.surfaces))
    }

    fn draft(&self, asked: Asked<'_>, provenance: Option<&Provenance>) -> Drafted {
        let origins = origins(provenance);
        let drafted = self.draft_counted(asked, &origins);
        match (drafted, self.tools.get(asked.tool)) {
            (Drafted::Hold(draft), Some(tool)) => Drafted::Hold(raise(tool, draft, asked, &origins)),
            (drafted, _) => drafted,
        }
    }

    fn draft_counted(&self, asked: Asked<'_>, origins: &Origins) -> Drafted {
        let Some(tool) = self.tools.get(asked.tool) else {
            return Drafted::Hold(self.unknown(asked));
        };
        if tool.is_plain_read() {
            return tool.pass();
        }
        let Ok(arguments) = Tree::read(asked.arguments, Top::Object) else {
            let note = "the arguments cannot be read";
            return Drafted::Hold(self.terms(tool, asked, None, vec![note.to_owned()]));
        };
        let mut notes = Vec::new();
        if let Some(reason) = self.forbidden(tool, asked.tool, (&arguments, origins), &mut notes) {
            return Drafted::Forbid(reason);
        }
        if let Some(why) = tool
            .definition
            .and_then(|pinned| asked.definition.why_not(pinned))
        {
            notes.push(why.to_owned());
            return Drafted::Hold(self.changed(tool, asked, arguments, notes));
        }
        let is_held = match &tool.hold {
            None => tool.effect != Effect::Read,
            Some(condition) => condition.holds_for(&arguments, origins).unwrap_or_else(|reason| {
                notes.push(format!("the `hold` condition failed: {reason}"));
                true
            }),
        };
        let places = tool.places.as_ref();
        notes.extend(places.and_then(|places| places.why(&arguments, &self.sensitive)));
        let is_conditional = tool.hold.is_some() || tool.deny.is_some();
        if !is_held
            && is_conditional
            && let Some((one, other)) = json::twins(asked.arguments)
        {
            notes.push(format!(
                "`{one}` and `{other}` differ in little: the tool may read one where a condition read the other"
            ));
        }
        match is_held || !notes.is_empty() {
            true => Drafted::Hold(self.terms(tool, asked, Some(arguments), notes)),
            false => tool.pass(),
        }
    }

    /// Checks arguments against the tool's schema, as [`rule`](Self::rule) does; for a person's edits.
    pub fn validate(&self, tool: &str, arguments: &[u8]) -> Result<(), String> {
        let Some(schema) = self.tools.get(tool).and_then(|tool| tool.schema.as_ref()) else {
            return Ok(());
        };
        match Tree::read(arguments, Top::Object) {
            Ok(tree) => schema.check(&tree),
            Err(fault) => Err(fault.to_string()),
        }
    }

    /// What is secret about a stored call. Its own terms say; this policy can only add to them. Where neither knows the
    /// tool, everything is.
    pub fn secrets_of(&self, call: &Call) -> Vec<SecretPath> {
        let listed = self.tools.get(call.tool.as_str()).map(|tool| &tool.secrets);
        match (&call.terms.secret, listed) {
            (None, None) => vec![SecretPath::everything()],
            (own, listed) => {
                let mut paths = own.clone().unwrap_or_default();
                for path in listed.into_iter().flatten() {
                    if !paths.contains(path) {
                        paths.push(path.clone());
                    }
                }
                paths
            }
        }
    }

    /// What is secret about a call that passed, with what it answered.
    pub fn secrecy_of_passed(&self, tool: &str, arguments: &[u8], result: &[u8]) -> Secrecy {
        let paths = self.tools.get(tool).map(|tool| tool.secrets.clone());
        Secrecy::new(paths.unwrap_or_default(), &[], [arguments, result])
    }

    /// The arguments as rows for a card, secrets hidden.
    pub fn table(&self, tool: &str, arguments: &[u8], salt: &[u8]) -> Vec<Row> {
        let secrets = self.tools.get(tool).map(|tool| tool.secrets.as_slice());
        table(arguments, secrets.unwrap_or_default(), salt)
    }

    /// Returns the values that the sentence of a held call says whole. Where that cannot be told, because the sentence
    /// was cut or made under another policy, it says none.
    pub(crate) fn said(&self, approval: &Approval, call: &Call) -> Said {
        let (name, bytes) = (call.tool.as_str(), call.arguments.as_bytes());
        let summary = &call.terms.summary;
        let Ok(arguments) = Tree::read(bytes, Top::Object) else {
            return Said::nothing();
        };
        if is_cut(summary) {
            return Said::nothing();
        }
        let secrecy = Secrecy::of(call, self, &approval.salt);
        let shown = secrecy.tree(arguments).tree;
        if *summary == generic_tree(name, &shown) {
            // In a list of values, one that holds a comma could pass for two.
            let is_plain = |row: &Row| !row.value.contains(", ") && row.bytes > 0;
            let rows = secrecy.whole_table(bytes);
            return match rows.iter().all(|row| row.hidden || is_plain(row)) {
                true => Said::All,
                false => Said::nothing(),
            };
        }
        let has_template = self.tools.get(name).is_some_and(|tool| tool.has_summary);
        match approval.policy == self.hash && has_template {
            true => self.summaries.said(name, &shown),
            false => Said::nothing(),
        }
    }

    /// Makes the call that takes another one back: tool and argument bytes.
    pub fn undo(
        &self,
        tool: &str,
        arguments: &[u8],
        result: &[u8],
    ) -> Result<(String, Vec<u8>), UndoProblem> {
        let undo = self.tools.get(tool).and_then(|tool| tool.undo.as_ref());
        let undo = undo.ok_or_else(|| UndoProblem::NotDeclared(clip(tool, 128).to_string()))?;
        Ok((undo.0.tool.clone(), undo.make(arguments, result)?))
    }

    /// Why a call may not even be asked for. A `deny` that fails forbids nothing, but leaves a note, and a call with
    /// a note is held.
    fn forbidden(
        &self,
        tool: &Tool,
        name: &str,
        (arguments, origins): (&Tree<'_>, &Origins),
        notes: &mut Vec<String>,
    ) -> Option<String> {
        if let Some(Err(reason)) = tool.schema.as_ref().map(|schema| schema.check(arguments)) {
            return Some(format!(
                "the arguments of `{name}` do not fit its schema: {reason}\nhint: mend them and propose again"
            ));
        }
        let deny = tool.deny.as_ref()?;
        match deny.holds_for(arguments, origins) {
            Ok(true) => Some(format!(
                "the policy forbids this call of `{name}`: `{}`\nhint: no one can approve it; propose something else",
                deny.source()
            )),
            Ok(false) => None,
            Err(reason) => {
                notes.push(format!("the `deny` condition failed: {reason}"));
                None
            }
        }
    }

    /// The terms for a listed tool.
    fn terms(
        &self,
        tool: &Tool,
        asked: Asked<'_>,
        arguments: Option<Tree<'_>>,
        mut notes: Vec<String>,
    ) -> Draft {
        let summary = match arguments {
            None => generic(asked.tool, asked.arguments, &tool.secrets, asked.salt),
            Some(arguments) => {
                // What is secret in the arguments is secret in what they would change.
                let documents = [Some(asked.arguments), asked.before];
                let documents = documents.into_iter().flatten();
                let secrecy = Secrecy::new(tool.secrets.clone(), asked.salt, documents);
                let hide = |tree| match secrecy.has_any() {
                    true => secrecy.tree(tree).tree,
                    false => tree,
                };
                let shown = hide(arguments);
                let seen = asked.before.and_then(|bytes| Tree::read(bytes, Top::Any).ok());
                let seen = seen.map(hide);
                let rendered = tool
                    .has_summary
                    .then(|| self.summaries.render(asked.tool, &shown, seen.as_ref()));
                match rendered {
                    Some(Ok(summary)) => summary,
                    Some(Err(reason)) => {
                        notes.push(format!("the summary template failed: {reason}"));
                        generic_tree(asked.tool, &shown)
                    }
                    None => generic_tree(asked.tool, &shown),
                }
            }
        };
        Draft {
            effect: tool.effect,
            risk: tool.risk,
            asks: tool.asks,
            summary,
            yes: tool.yes.clone(),
            no: tool.no.clone(),
            ttl: tool.ttl.unwrap_or(self.channel.ttl),
            start_within: tool.start_within,
            timeout: tool.timeout,
            approvers: tool.approvers.clone(),
            on_failure: tool.on_failure,
            undo: if tool.undo.is_some() {
                Undoable::Yes
            } else {
                Undoable::No
            },
            notes,
            secret: tool.secrets.clone(),
        }
    }

    /// The terms for a listed tool that has become another one: its effect, its template and its labels were chosen
    /// for what it was.
    fn changed(&self, tool: &Tool, asked: Asked<'_>, arguments: Tree<'_>, notes: Vec<String>) -> Draft {
        let shown = hide(arguments, &tool.secrets, asked.salt);
        let effect = match tool.effect {
            Effect::External => Effect::External,
            Effect::Read | Effect::Write | Effect::Destructive => Effect::Destructive,
        };
        Draft {
            effect,
            risk: tool.risk.max(Risk::High),
            summary: generic_tree(asked.tool, &shown),
            yes: None,
            no: None,
            undo: Undoable::No,
            ..self.terms(tool, asked, None, notes)
        }
    }

    /// The terms for a tool that is not listed: the worst is assumed.
    fn unknown(&self, asked: Asked<'_>) -> Draft {
        Draft {
            effect: Effect::Destructive,
            risk: Risk::High,
            asks: Asks::default(),
            summary: generic(asked.tool, asked.arguments, &[], asked.salt),
            yes: None,
            no: None,
            ttl: self.channel.ttl,
            start_within: None,
            timeout: parse::DEFAULT_TIMEOUT,
            approvers: vec![parse::DEFAULT_APPROVERS.to_owned()],
            on_failure: OnFailure::Stop,
            undo: Undoable::No,
            notes: vec!["not in the policy: treated as destructive".to_owned()],
            secret: Vec::new(),
        }
    }
}

/// Whether a table of arguments without secrets would warn of nothing, told from the bytes at a glance. False only means
/// that the table has to be made.
pub fn shows_plainly(arguments: &[u8]) -> bool {
    // Behind a backslash any character may stand.
    is_unremarkable(arguments) && !arguments.contains(&b'\\')
}

/// One degree more risk where the tool's `raise_risk` holds, or cannot be told.
fn raise(tool: &Tool, draft: Draft, asked: Asked<'_>, origins: &Origins) -> Draft {
    let Some(condition) = &tool.raise_risk else {
        return draft;
    };
    let holds = match Tree::read(asked.arguments, Top::Object) {
        Ok(arguments) => condition.holds_for(&arguments, origins),
        Err(_) => Err("the arguments cannot be read".to_owned()),
    };
    match holds {
        Ok(false) => draft,
        Ok(true) => draft.raise(format!("more risk than usual: `{}`", condition.source())),
        Err(reason) => draft.raise(format!("the `raise_risk` condition failed: {reason}")),
    }
}

/// What conditions may know of where values came from: nothing where nobody heard the person.
fn origins(provenance: Option<&Provenance>) -> Origins {
    match provenance.and_then(|provenance| Some((provenance.known_counts()?, provenance.told_by()))) {
        None => Origins::Unknown,
        Some((counts, Teller::Agent)) => Origins::Supplied(counts),
        Some((counts, Teller::Gate)) => Origins::Heard(counts),
    }
}

#[cfg(test)]
mod tests;
