//! The policy: the operator's catalogue of tools, and the rules that hold calls for approval.
//!
//! Given a tool's name and the exact bytes of its arguments, the policy rules: pass, hold or forbid. Its text is passed
//! in, and its hash is written to every event; nothing here reads or reloads files. Hints that tools give about
//! themselves never loosen a ruling.
//!
//! An unlisted tool, unreadable arguments or a failed condition is held. No setting, when left out, lets a call pass.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::call::Call;
use crate::display::{clip, is_unremarkable};
use crate::effect::{Effect, Risk};
use crate::hash::Hash;
use crate::json::{self, TopLevel, Tree};
use crate::provenance::{Provenance, Voucher};
use crate::secrecy::{Concealed, Secrecy, too_many};
use crate::summary::{Row, SecretPath, ShownValues, Summaries, generic, generic_tree, hide, is_cut, table};
use crate::working_folder::WorkingFolder;

#[cfg(feature = "reply")]
mod act;
#[cfg(feature = "cel")]
mod argument_paths;
mod authority;
mod catalogue;
mod condition;
mod definition;
mod feature;
mod parse;
mod problem;
mod read;
mod schema;
mod secret;
mod sensitive_paths;
mod snapshot;
mod template;
mod template_names;
mod terms;
#[cfg(feature = "provenance")]
mod trace;
mod undo;
mod wildcard;

#[cfg(feature = "reply")]
pub use act::Act;
#[cfg(feature = "reply")]
pub(crate) use act::VALUE;
pub use authority::{Authority, LARGEST_QUORUM};
use authority::{AuthorityOverrides, MinimumAssurances};
pub use catalogue::ToolListing;
use condition::{Condition, Origins};
pub use definition::Definition;
pub use problem::{Problem, Problems};
pub use schema::{Choices as SchemaChoices, Schema};
use sensitive_paths::{Places, Sensitive};
use snapshot::Before;
use terms::Draft;
pub use terms::{RiskAndAuthority, Terms};
use undo::Undo;
pub use undo::UndoProblem;

/// A parsed policy: which tools are passed, held or forbidden, and on which terms.
///
/// ```
/// use countersign::policy::{CallRequest, Definition, Policy, Ruling};
///
/// let policy = Policy::parse(r#"
/// [tools.refund]
/// effect = "external"
/// hold = "args.amount >= 100"
/// deny = "args.amount > 10000"
/// "#)?;
/// let rule = |tool, arguments: &'static str| {
///     policy.rule(CallRequest {
///         tool,
///         arguments: arguments.as_bytes(),
///         definition: Definition::Unknown,
///         salt: b"",
///         before: None,
///         working_folder: None,
///     })
/// };
/// assert!(matches!(rule("refund", r#"{"amount":20}"#), Ruling::Pass(_)));
/// assert!(matches!(rule("refund", r#"{"amount":250}"#), Ruling::Hold(_)));
/// assert!(matches!(rule("refund", r#"{"amount":20000}"#), Ruling::Forbid { .. }));
/// // A tool that is not listed is held.
/// assert!(matches!(rule("delete_everything", "{}"), Ruling::Hold(_)));
/// # Ok::<(), countersign::policy::Problems>(())
/// ```
#[derive(Debug)]
pub struct Policy {
    hash: Hash,
    channel: Channel,
    /// Channels in which several agents may propose.
    shared: BTreeSet<String>,
    surfaces: MinimumAssurances,
    agents: Agents,
    /// Patterns of files whose reading is always held.
    sensitive: Sensitive,
    tools: HashMap<String, Tool>,
    summaries: Summaries,
    notices: Vec<Problem>,
}

/// Settings for channels, from `[channel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Channel {
    /// How long an approval stays pending before it expires, unless its tool sets its own `ttl`. Default: 5 minutes.
    pub ttl: Duration,
    /// Handling of a reply that is neither yes nor no. Default: [`OnOther::Cancel`].
    pub on_other: OnOther,
    /// Handling of a filler such as "ok" when the call is destructive. Default: [`OnFiller::AskAgain`].
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

/// Effect on the pending approval of a reply that is neither yes nor no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnOther {
    /// Withdraws the pending approval.
    Cancel,
    /// Leaves the approval pending.
    Keep,
}

/// Effect of a filler such as "ok" on an approval of a destructive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFiller {
    /// Does not count as an answer; the question is asked again.
    AskAgain,
    /// Approves, as for calls that are not destructive.
    Approve,
}

/// Limits on how many approvals an agent may ask people for. The defaults apply unless the policy overrides them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agents {
    /// Maximum number of pending approvals per agent and requester; `None` when the policy says `"unlimited"`. Default:
    /// 20.
    pub most_pending: Option<usize>,
    /// Whether proposing the same calls again returns the pending approval; true when the policy sets `most_pending` to
    /// a number. Default: false.
    pub joins: bool,
    /// New approvals allowed per agent, requester and minute, with a burst of half that number; `None` when the policy
    /// says `"unlimited"`. Default: 120. Enforced by the gate's [`Pace`](crate::gate::Pace).
    pub proposals_per_minute: Option<u32>,
    /// How long an agent may not propose a denied call again, even if the same values are spelled differently. Default:
    /// no such limit.
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

/// Handling of the remaining calls of a batch when one fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The remaining calls are refused.
    #[default]
    Stop,
    /// The remaining calls run all the same.
    Continue,
}

/// Whether the policy declares an undo for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undoable {
    /// An undo is declared; see [`Policy::undo`].
    Yes,
    /// No undo is declared.
    No,
}

/// A call to be ruled on.
#[derive(Clone, Copy, Debug)]
pub struct CallRequest<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments, accepted by [`json::check`].
    pub arguments: &'a [u8],
    /// Hash of the tool's current definition, and whether the gate verified it.
    pub definition: Definition,
    /// Salt for the hashes of hidden values, so that a guessed value cannot be confirmed.
    pub salt: &'a [u8],
    /// Result of the tool's `before` read (what the call would change), if there was one; summary templates may use it.
    pub before: Option<&'a [u8]>,
    /// The folder that the host will run the call in, if known; relative paths begin there.
    pub working_folder: Option<&'a WorkingFolder>,
}

/// The policy's verdict on a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// The call runs without asking anyone.
    Pass(Pass),
    /// The call waits for a person's decision, on these terms.
    Hold(Terms),
    /// The call never runs and cannot be approved; the agent gets the reason.
    Forbid {
        /// Reason for the agent, so that it can correct the call.
        reason: String,
    },
}

/// Execution parameters of a call that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass {
    /// Kind of change that the tool makes.
    pub effect: Effect,
    /// Maximum run time of the executor.
    pub timeout: Duration,
}

/// One `[tools.NAME]` entry of the policy.
#[derive(Debug)]
struct Tool {
    effect: Effect,
    risk: Risk,
    title: Option<String>,
    #[cfg(feature = "reply")]
    act: Act,
    has_summary: bool,
    yes: Option<String>,
    no: Option<String>,
    hold: Option<Condition>,
    /// Arguments that name files; `None` if the tool's calls are not checked for sensitive places.
    places: Option<Places>,
    deny: Option<Condition>,
    /// The operator's explanation of what `deny` forbids, which the agent gets; `None` for a generated one.
    deny_reason: Option<String>,
    raise_risk: Option<Condition>,
    ttl: Option<Duration>,
    start_within: Option<Duration>,
    timeout: Duration,
    approvers: Vec<String>,
    overrides: AuthorityOverrides,
    secrets: Vec<SecretPath>,
    undo: Option<Undo>,
    before: Option<Before>,
    on_failure: OnFailure,
    schema: Option<Schema>,
    /// Whether the tool's results may contain text written by strangers.
    #[cfg(feature = "provenance")]
    is_outside: bool,
    definition: Option<Hash>,
}

impl Tool {
    /// Returns true if every call of this tool passes, whatever its arguments are.
    fn is_plain_read(&self) -> bool {
        let is_unconditional =
            self.hold.is_none() && self.places.is_none() && self.deny.is_none() && self.schema.is_none();
        self.effect == Effect::Read && is_unconditional && self.definition.is_none()
    }

    fn pass(&self) -> DraftRuling {
        DraftRuling::Pass(Pass {
            effect: self.effect,
            timeout: self.timeout,
        })
    }
}

/// A ruling whose risk may still be raised.
enum DraftRuling {
    Pass(Pass),
    Hold(Draft),
    Forbid(String),
}

impl Policy {
    /// Parses a policy; on failure returns every mistake found.
    pub fn parse(text: &str) -> Result<Policy, Problems> {
        parse::parse(text)
    }

    /// Returns a policy that lists no tools, so that every call is held.
    pub fn empty() -> Policy {
        Policy {
            hash: Hash::of(b""),
            channel: Channel::default(),
            shared: BTreeSet::new(),
            surfaces: MinimumAssurances::default(),
            agents: Agents::default(),
            sensitive: Sensitive::with([]),
            tools: HashMap::new(),
            summaries: Summaries::new(),
            notices: Vec::new(),
        }
    }

    /// Adds a file of the host itself, such as its store, to the sensitive files. `path` must be absolute.
    pub fn protect(&mut self, path: &str) {
        self.sensitive.add(path);
    }

    /// Returns the hash of the policy text, as written to events.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Returns true if this policy may hide other values than the one with this hash. A policy without tools hides
    /// nothing by itself.
    pub fn may_hide_more(&self, than: Hash) -> bool {
        self.hash != than && !self.tools.is_empty()
    }

    /// Returns the settings for channels.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Returns true if several agents may propose in this channel (the policy lists it under `shared`).
    pub fn shares(&self, channel: &crate::id::Channel) -> bool {
        self.shared.contains(channel.as_str())
    }

    /// Returns the limits on how much agents may ask for.
    pub fn agents(&self) -> Agents {
        self.agents
    }

    /// Returns warnings about a policy that is valid.
    pub fn notices(&self) -> &[Problem] {
        &self.notices
    }

    /// Returns the names of all listed tools, sorted.
    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Returns true if the policy has an entry for this tool.
    pub fn lists(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// Returns the hash that the tool's definition must have; `None` if the policy pins none.
    pub fn pin(&self, tool: &str) -> Option<Hash> {
        self.tools.get(tool)?.definition
    }

    /// Returns true if the definition of any tool `SERVER/...` is pinned.
    pub fn pins_tools_of(&self, server: &str) -> bool {
        let is_its = |name: &str| name.split_once('/').is_some_and(|(owner, _)| owner == server);
        let mut all = self.tools.iter();
        all.any(|(name, tool)| tool.definition.is_some() && is_its(name))
    }

    /// Returns the source of the condition under which calls of a tool are forbidden; `None` if there is none. For
    /// operators, not for agents.
    pub fn deny_condition(&self, tool: &str) -> Option<&str> {
        self.tools.get(tool)?.deny.as_ref().map(Condition::source)
    }

    /// Returns the title that the policy gives a tool; `None` if it gives none.
    pub fn title(&self, tool: &str) -> Option<&str> {
        self.tools.get(tool)?.title.as_deref()
    }

    /// Returns the words of a tool's title and summary that a reply may use to name the act; `None` for an unlisted
    /// tool.
    #[cfg(feature = "reply")]
    pub fn act(&self, tool: &str) -> Option<&Act> {
        self.tools.get(tool).map(|tool| &tool.act)
    }

    /// Returns true if the ruling on a call of this tool may depend on its working folder and on where links lead.
    pub fn compares_places(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|tool| {
            let mut conditions = [&tool.hold, &tool.deny, &tool.raise_risk].into_iter().flatten();
            tool.places.is_some() || conditions.any(Condition::asks_paths)
        })
    }

    /// Returns true if ruling on a call may take so long that it should not run on an async worker thread.
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

    /// Rules on a call without provenance.
    pub fn rule(&self, request: CallRequest<'_>) -> Ruling {
        self.rule_traced(request, None)
    }

    /// Rules on a call, with the provenance of its values if a conversation was given.
    ///
    /// A condition on origins fails when there is no conversation or the person's messages are missing from it; a call
    /// whose condition fails is held. A conversation supplied by the proposer never makes a ruling milder.
    pub fn rule_traced(&self, request: CallRequest<'_>, provenance: Option<&Provenance>) -> Ruling {
        match self.draft(request, provenance) {
            DraftRuling::Pass(pass) => Ruling::Pass(pass),
            DraftRuling::Hold(draft) => Ruling::Hold(self.finish(draft, request)),
            DraftRuling::Forbid(reason) => Ruling::Forbid { reason },
        }
    }

    /// Returns the terms for holding a call even if it would pass; used for edited arguments and undos. Fails with the
    /// reason if the call is forbidden.
    pub fn hold(&self, request: CallRequest<'_>) -> Result<Terms, String> {
        self.hold_traced(request, None, None)
    }

    /// Like [`hold`](Self::hold), with the provenance of the values and a minimum risk.
    pub fn hold_traced(
        &self,
        request: CallRequest<'_>,
        provenance: Option<&Provenance>,
        least: Option<Risk>,
    ) -> Result<Terms, String> {
        let draft = match (self.draft(request, provenance), self.tools.get(request.tool)) {
            (DraftRuling::Hold(draft), _) => draft,
            (DraftRuling::Forbid(reason), _) => return Err(reason),
            (DraftRuling::Pass(_), Some(tool)) => {
                let arguments = Tree::read(request.arguments, TopLevel::Object).ok();
                let draft = self.terms(tool, request, arguments, Vec::new());
                raise(tool, draft, request, &origins(provenance))
            }
            (DraftRuling::Pass(_), None) => self.unknown(request),
        };
        Ok(self.finish(draft.at_least(least), request))
    }

    /// Completes the terms of a held call. Adds a note for the card if some symbolic links in the arguments could not
    /// be followed.
    fn finish(&self, mut draft: Draft, request: CallRequest<'_>) -> Terms {
        let unfollowed = sensitive_paths::unfollowed(request.arguments, request.working_folder);
        if let Some(note) = unfollowed.filter(|note| !draft.notes.contains(note)) {
            draft.notes.push(note);
        }
        draft.finish(self.surfaces)
    }

    fn draft(&self, request: CallRequest<'_>, provenance: Option<&Provenance>) -> DraftRuling {
        let origins = origins(provenance);
        let drafted = self.draft_counted(request, &origins);
        match (drafted, self.tools.get(request.tool)) {
            (DraftRuling::Hold(draft), Some(tool)) => {
                DraftRuling::Hold(raise(tool, draft, request, &origins))
            }
            (drafted, _) => drafted,
        }
    }

    fn draft_counted(&self, request: CallRequest<'_>, origins: &Origins) -> DraftRuling {
        let Some(tool) = self.tools.get(request.tool) else {
            return DraftRuling::Hold(self.unknown(request));
        };
        if tool.is_plain_read() {
            return tool.pass();
        }
        let Ok(arguments) = Tree::read(request.arguments, TopLevel::Object) else {
            let note = "the arguments cannot be read";
            return DraftRuling::Hold(self.terms(tool, request, None, vec![note.to_owned()]));
        };
        let mut notes = Vec::new();
        if let Some(reason) = self.forbidden(tool, request, (&arguments, origins), &mut notes) {
            return DraftRuling::Forbid(reason);
        }
        if let Some(why) = tool
            .definition
            .and_then(|pinned| request.definition.check_pin(pinned))
        {
            notes.push(why.to_owned());
            return DraftRuling::Hold(self.changed(tool, request, arguments, notes));
        }
        let folder = request.working_folder;
        let is_held = match &tool.hold {
            None => tool.effect != Effect::Read,
            Some(condition) => condition
                .holds_for(&arguments, origins, folder)
                .unwrap_or_else(|reason| {
                    notes.push(format!("the `hold` condition failed: {reason}"));
                    true
                }),
        };
        let places = tool.places.as_ref();
        notes.extend(places.and_then(|places| places.why(&arguments, folder, &self.sensitive)));
        let is_conditional = tool.hold.is_some() || tool.deny.is_some() || tool.places.is_some();
        if !is_held
            && is_conditional
            && let Some((one, other)) = json::confusable_keys(request.arguments)
        {
            notes.push(format!(
                "`{one}` and `{other}` are nearly the same name: the tool may read one where a condition read the other"
            ));
        }
        let conditions = [tool.hold.as_ref(), tool.deny.as_ref()];
        let mut conditions = conditions.into_iter().flatten();
        if !is_held && let Some(note) = conditions.find_map(|condition| misread(condition, request.arguments))
        {
            notes.push(note);
        }
        match is_held || !notes.is_empty() {
            true => DraftRuling::Hold(self.terms(tool, request, Some(arguments), notes)),
            false => tool.pass(),
        }
    }

    /// Checks arguments that a person edited against the tool's schema, as [`rule`](Self::rule) does.
    pub fn validate(&self, tool: &str, arguments: &[u8]) -> Result<(), String> {
        let Some(schema) = self.tools.get(tool).and_then(|tool| tool.schema.as_ref()) else {
            return Ok(());
        };
        match Tree::read(arguments, TopLevel::Object) {
            Ok(tree) => schema.check(&tree),
            Err(fault) => Err(fault.to_string()),
        }
    }

    /// Returns the values that a tool's schema lists for one of its arguments, by JSON pointer; `None` if it lists none.
    pub fn choices(&self, tool: &str, pointer: &str) -> Option<&[serde_json::Value]> {
        self.tools.get(tool)?.schema.as_ref()?.choices(pointer)
    }

    /// Returns the paths of secret values in a stored call: those in its own terms plus those of this policy. If
    /// neither knows the tool, everything is secret.
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

    /// Returns a refusal if a call has more secret values than one card may have; `None` otherwise.
    pub(crate) fn too_many_secrets(&self, tool: &str, arguments: &[u8]) -> Option<Concealed> {
        too_many(&self.tools.get(tool)?.secrets, arguments)
    }

    /// Builds the secrecy of a passed call from its arguments and its result.
    pub fn secrecy_of_passed(&self, tool: &str, arguments: &[u8], result: &[u8]) -> Secrecy {
        let paths = self.tools.get(tool).map(|tool| tool.secrets.clone());
        Secrecy::new(paths.unwrap_or_default(), &[], [arguments, result])
    }

    /// Returns the arguments as rows for a card, with secrets hidden.
    pub fn table(&self, tool: &str, arguments: &[u8], salt: &[u8]) -> Vec<Row> {
        let secrets = self.tools.get(tool).map(|tool| tool.secrets.as_slice());
        table(arguments, secrets.unwrap_or_default(), salt)
    }

    /// Returns which values the summary of a held call shows in full. The result is empty if that cannot be determined
    /// because the summary was truncated or rendered under another policy.
    pub(crate) fn shown_values(&self, approval: &Approval, call: &Call) -> ShownValues {
        let (name, bytes) = (call.tool.as_str(), call.arguments.as_bytes());
        let summary = &call.terms.summary;
        let Ok(arguments) = Tree::read(bytes, TopLevel::Object) else {
            return ShownValues::nothing();
        };
        if is_cut(summary) {
            return ShownValues::nothing();
        }
        let secrecy = Secrecy::of(call, self, &approval.salt);
        let shown = secrecy.tree(arguments).tree;
        if *summary == generic_tree(name, &shown) {
            // In the generic list of values, a value with a comma could look like two, and a name with a dot like a
            // nested name.
            let is_plain =
                |row: &Row| !row.value.contains(", ") && row.name == row.pointer && !row.name.contains('.');
            let rows = secrecy.whole_table(bytes);
            return match rows.iter().all(|row| row.hidden || is_plain(row)) {
                true => ShownValues::All,
                false => ShownValues::nothing(),
            };
        }
        let has_template = self.tools.get(name).is_some_and(|tool| tool.has_summary);
        match approval.policy == self.hash && has_template {
            true => self.summaries.shown_values(name, &shown),
            false => ShownValues::nothing(),
        }
    }

    /// Builds the call that undoes another one: its tool and argument bytes.
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

    /// Returns why a call is forbidden; `None` if it is not. A `deny` condition that fails does not forbid the call but
    /// adds a note, and a call with notes is held.
    fn forbidden(
        &self,
        tool: &Tool,
        request: CallRequest<'_>,
        (arguments, origins): (&Tree<'_>, &Origins),
        notes: &mut Vec<String>,
    ) -> Option<String> {
        let name = request.tool;
        if let Some(Err(reason)) = tool.schema.as_ref().map(|schema| schema.check(arguments)) {
            return Some(format!(
                "the arguments of `{name}` do not fit its schema: {reason}\nhint: mend them and propose again"
            ));
        }
        let deny = tool.deny.as_ref()?;
        match deny.holds_for(arguments, origins, request.working_folder) {
            // The condition's source is left out, because it would show the agent how to get around the condition.
            Ok(true) => Some(format!(
                "the policy forbids this call of `{name}`: {}\nhint: no one can approve it; propose something else",
                tool.deny_reason
                    .clone()
                    .unwrap_or_else(|| condition::deny_words(deny.source()))
            )),
            Ok(false) => None,
            Err(reason) => {
                notes.push(format!("the `deny` condition failed: {reason}"));
                None
            }
        }
    }

    /// Drafts the terms for a listed tool.
    fn terms(
        &self,
        tool: &Tool,
        request: CallRequest<'_>,
        arguments: Option<Tree<'_>>,
        mut notes: Vec<String>,
    ) -> Draft {
        let summary = match arguments {
            None => generic(request.tool, request.arguments, &tool.secrets, request.salt),
            Some(arguments) => {
                // A secret in the arguments is also hidden where it appears in the `before` result.
                let documents = [Some(request.arguments), request.before];
                let documents = documents.into_iter().flatten();
                let secrecy = Secrecy::new(tool.secrets.clone(), request.salt, documents);
                let hide = |tree| match secrecy.has_any() {
                    true => secrecy.tree(tree).tree,
                    false => tree,
                };
                let shown = hide(arguments);
                let seen = request
                    .before
                    .and_then(|bytes| Tree::read(bytes, TopLevel::Any).ok());
                let seen = seen.map(hide);
                let rendered = tool
                    .has_summary
                    .then(|| self.summaries.render(request.tool, &shown, seen.as_ref()));
                match rendered {
                    Some(Ok(summary)) => summary,
                    Some(Err(reason)) => {
                        notes.push(format!("the summary template failed: {reason}"));
                        generic_tree(request.tool, &shown)
                    }
                    None => generic_tree(request.tool, &shown),
                }
            }
        };
        Draft {
            effect: tool.effect,
            risk: tool.risk,
            overrides: tool.overrides,
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

    /// Drafts the terms for a tool whose definition does not match its pin: effect, template and labels were written
    /// for the old definition, so they are not used.
    fn changed(
        &self,
        tool: &Tool,
        request: CallRequest<'_>,
        arguments: Tree<'_>,
        notes: Vec<String>,
    ) -> Draft {
        let shown = hide(arguments, &tool.secrets, request.salt);
        let effect = match tool.effect {
            Effect::External => Effect::External,
            Effect::Read | Effect::Write | Effect::Destructive => Effect::Destructive,
        };
        Draft {
            effect,
            risk: tool.risk.max(Risk::High),
            summary: generic_tree(request.tool, &shown),
            yes: None,
            no: None,
            undo: Undoable::No,
            ..self.terms(tool, request, None, notes)
        }
    }

    /// Drafts the terms for an unlisted tool, assuming the worst.
    fn unknown(&self, request: CallRequest<'_>) -> Draft {
        Draft {
            effect: Effect::Destructive,
            risk: Risk::High,
            overrides: AuthorityOverrides::default(),
            summary: generic(request.tool, request.arguments, &[], request.salt),
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

/// Returns true if a table of these arguments (without secrets) would show no warnings, judging by the bytes alone.
/// False means only that the table has to be built to find out.
pub fn shows_plainly(arguments: &[u8]) -> bool {
    // A backslash may begin an escape of any character.
    is_unremarkable(arguments) && !arguments.contains(&b'\\')
}

/// Returns a note if an argument has nearly the name of one that the condition reads, so that the tool may read it where
/// the condition did not; `None` if none has.
fn misread(condition: &Condition, arguments: &[u8]) -> Option<String> {
    let (read, given) = json::similar_key(arguments, &condition::words_in(condition.source()))?;
    Some(format!(
        "`{given}` is nearly the name `{read}`, which a condition reads: the tool may take one for the other"
    ))
}

/// Raises the risk by one degree if the tool's `raise_risk` condition is true or fails, or if an argument has nearly the
/// name of one that the condition reads.
fn raise(tool: &Tool, draft: Draft, request: CallRequest<'_>, origins: &Origins) -> Draft {
    let Some(condition) = &tool.raise_risk else {
        return draft;
    };
    let holds = match Tree::read(request.arguments, TopLevel::Object) {
        Ok(arguments) => condition.holds_for(&arguments, origins, request.working_folder),
        Err(_) => Err("the arguments cannot be read".to_owned()),
    };
    match holds {
        Ok(false) => match misread(condition, request.arguments) {
            Some(note) => draft.raise(note),
            None => draft,
        },
        // The condition's source is left out, because approvers do not need it.
        Ok(true) => draft.raise("more risk than usual: the policy's condition for that was met".to_owned()),
        Err(reason) => draft.raise(format!("the `raise_risk` condition failed: {reason}")),
    }
}

/// Returns the counts that conditions may use; `Unknown` if the person's messages are missing from the conversation.
fn origins(provenance: Option<&Provenance>) -> Origins {
    match provenance.and_then(|provenance| Some((provenance.known_counts()?, provenance.vouched_by()))) {
        None => Origins::Unknown,
        Some((counts, Voucher::Agent)) => Origins::Supplied(counts),
        Some((counts, Voucher::Gate)) => Origins::Heard(counts),
    }
}

#[cfg(test)]
mod tests;
