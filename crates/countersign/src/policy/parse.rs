//! Parses TOML text into a policy, collecting every mistake instead of stopping at the first.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[cfg(feature = "reply")]
use super::act::Act;
use super::authority::{AuthorityOverrides, MinimumAssurances};
use super::condition::Condition;
use super::feature;
use super::problem::{Problem, Problems, nearest};
use super::read::{Reader, Text};
use super::schema::{Schema, table_to_json};
use super::sensitive_paths::{Places, Sensitive};
use super::snapshot::Before;
use super::template_names::unknown_names;
use super::undo::Undo;
use super::{Agents, Channel, OnFailure, OnFiller, OnOther, Policy, Tool};
use crate::command::MOST_LOOKED_AT;
use crate::decision::Assurance;
use crate::effect::{Effect, Risk};
use crate::hash::Hash;
use crate::summary::{SecretPath, Summaries};

const MAX_BYTES: usize = 1024 * 1024;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Group that may approve when a tool lists no approvers.
pub(super) const DEFAULT_APPROVERS: &str = "approvers";

const EFFECTS: [(&str, Effect); 4] = [
    ("read", Effect::Read),
    ("write", Effect::Write),
    ("destructive", Effect::Destructive),
    ("external", Effect::External),
];
const RISKS: [(&str, Risk); 4] = [
    ("low", Risk::Low),
    ("medium", Risk::Medium),
    ("high", Risk::High),
    ("critical", Risk::Critical),
];
const TOOL_KEYS: [&str; 25] = [
    "effect",
    "risk",
    "title",
    "summary",
    "yes",
    "no",
    "hold",
    "places",
    "deny",
    "deny_reason",
    "raise_risk",
    "ttl",
    "start_within",
    "timeout",
    "approvers",
    "four_eyes",
    "quorum",
    "surface",
    "secret",
    "undo",
    "before",
    "on_failure",
    "schema",
    "outside",
    "definition",
];

pub(super) fn parse(text: &str) -> Result<Policy, Problems> {
    let mut reader = Reader::new(text);
    if text.len() > MAX_BYTES {
        reader.problem(
            0,
            format!("policy is larger than {MAX_BYTES} bytes"),
            "list fewer tools",
        );
        return Err(Problems(reader.problems));
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.problem(error.span().map_or(0, |span| span.start), error.message(), "");
    }
    if !errors.is_empty() {
        return Err(sorted(reader.problems));
    }
    let root = document.get_ref();
    reader.only(
        root,
        "the policy",
        &["agents", "channel", "places", "surfaces", "tools"],
    );
    let mut policy = Policy {
        hash: Hash::of(text.as_bytes()),
        channel: channel(&mut reader, root),
        shared: shared(&mut reader, root),
        surfaces: MinimumAssurances::read(&mut reader, root),
        agents: agents(&mut reader, root),
        sensitive: sensitive(&mut reader, root),
        tools: HashMap::new(),
        summaries: Summaries::new(),
        notices: Vec::new(),
    };
    let tools = reader.table(root, "tools");
    for (name, value) in tools
        .and_then(|tools| tools.get_ref().as_table())
        .into_iter()
        .flat_map(|tools| tools.iter())
    {
        let at = name.span().start;
        let name = name.get_ref().as_ref();
        check_name(&mut reader, name, at);
        match value.get_ref().as_table() {
            Some(table) => {
                let entry = Entry { name, at, table };
                let tool = entry.read(&mut reader, &mut policy);
                policy.tools.extend(tool.map(|tool| (name.to_owned(), tool)));
            }
            None => reader.wrong_kind(name, value, "a table"),
        }
    }
    check_templates(
        &mut reader,
        &policy,
        tools.and_then(|tools| tools.get_ref().as_table()),
    );
    if policy.tools.is_empty() {
        let message = "no tools are listed: every call is held";
        policy
            .notices
            .push(reader.notice(0, message, "add `[tools.NAME]` with an `effect`"));
    }
    match reader.problems.is_empty() {
        true => Ok(policy),
        false => Err(sorted(reader.problems)),
    }
}

fn sorted(mut problems: Vec<Problem>) -> Problems {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    Problems(problems)
}

fn channel(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Channel {
    let mut channel = Channel::default();
    if let Some(table) = reader
        .table(root, "channel")
        .and_then(|value| value.get_ref().as_table())
    {
        reader.only(table, "`[channel]`", &["ttl", "on_other", "on_filler", "shared"]);
        channel.ttl = reader
            .duration(table, "ttl", SECOND..=MONTH)
            .unwrap_or(channel.ttl);
        for key in ["on_other", "on_filler"] {
            feature::REPLY.can_read(reader, table, key);
        }
        let choices = [("cancel", OnOther::Cancel), ("keep", OnOther::Keep)];
        channel.on_other = reader
            .choice(table, "on_other", &choices)
            .unwrap_or(channel.on_other);
        let choices = [("ask_again", OnFiller::AskAgain), ("approve", OnFiller::Approve)];
        channel.on_filler = reader
            .choice(table, "on_filler", &choices)
            .unwrap_or(channel.on_filler);
    }
    channel
}

/// Reads `[channel] shared`: exact names of channels in which several agents may propose.
fn shared(reader: &mut Reader<'_>, root: &DeTable<'_>) -> BTreeSet<String> {
    let table = root.get("channel").and_then(|value| value.get_ref().as_table());
    let names = table.and_then(|table| reader.strings(table, "shared"));
    let mut shared = BTreeSet::new();
    for name in names.into_iter().flatten() {
        match crate::id::Channel::new(name.value.as_str()) {
            Ok(channel) => {
                shared.insert(channel.to_string());
            }
            Err(problem) => reader.problem(
                name.at(0),
                problem.to_string(),
                "write the channel's exact name, as in `shared = [\"ops\"]`",
            ),
        }
    }
    shared
}

fn agents(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Agents {
    let table = reader.table(root, "agents");
    let Some(table) = table.and_then(|value| value.get_ref().as_table()) else {
        return Agents::default();
    };
    let known = ["most_pending", "proposals_per_minute", "cool_down"];
    reader.only(table, "`[agents]`", &known);
    let default = Agents::default();
    let most_pending = reader.limit(table, "most_pending", 1..=MOST_LOOKED_AT);
    Agents {
        most_pending: most_pending.unwrap_or(default.most_pending),
        joins: most_pending.is_some_and(|most| most.is_some()),
        proposals_per_minute: reader
            .limit(table, "proposals_per_minute", 1..=1_000_000)
            .unwrap_or(default.proposals_per_minute),
        cool_down: reader.duration(table, "cool_down", SECOND..=MONTH),
    }
}

/// Builds the list of sensitive files and folders, including those added by `[places]`.
fn sensitive(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Sensitive {
    let table = reader.table(root, "places");
    let Some(table) = table.and_then(|value| value.get_ref().as_table()) else {
        return Sensitive::with([]);
    };
    reader.only(table, "`[places]`", &["sensitive"]);
    let added = reader.strings(table, "sensitive").unwrap_or_default();
    for entry in added.iter().filter(|entry| !Sensitive::is_good(&entry.value)) {
        reader.problem(
            entry.start,
            format!("`{}` names no file", entry.value),
            "write `*.secret`, `.vault/token` or `/srv/keys`",
        );
    }
    Sensitive::with(added.iter().map(|entry| entry.value.as_str()))
}

/// Requires ASCII names, so that no two tools look alike on a card.
fn check_name(reader: &mut Reader<'_>, name: &str, at: usize) {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "_./:-".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_good) {
        let message = format!("`{}` cannot be a tool's name", crate::display::clip(name, 128));
        reader.problem(at, message, "use 1 to 128 of A-Z a-z 0-9 _ . / : -");
    }
}

/// Checks the tools named by `undo` and `before`. An `undo` must name a listed tool, because an unlisted one would be
/// held as destructive; a `before` must name a tool whose effect is `read`.
fn check_templates(reader: &mut Reader<'_>, policy: &Policy, listed: Option<&DeTable<'_>>) {
    let is_listed = |tool: &str| listed.is_some_and(|listed| listed.contains_key(tool));
    let undos = policy.tools.values().filter_map(|tool| tool.undo.as_ref());
    let undos = undos.map(|undo| ("undo", &undo.0));
    let befores = policy.tools.values().filter_map(|tool| tool.before.as_ref());
    let befores: Vec<_> = befores.map(|before| ("before", &before.0)).collect();
    for (key, template) in undos.chain(befores.iter().copied()) {
        if is_listed(&template.tool) {
            continue;
        }
        let hint = match nearest(&template.tool, policy.tools.keys().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("add `[tools.{}]`", template.tool),
        };
        let message = format!("{key} names `{}`, which is not listed", template.tool);
        reader.problem(template.at, message, hint);
    }
    for (_, template) in befores {
        let read = policy.tools.get(&template.tool);
        if read.is_some_and(|tool| tool.effect != Effect::Read) {
            let message = format!("before names `{}`, which does not only read", template.tool);
            reader.problem(template.at, message, "name a tool with `effect = \"read\"`");
        }
    }
}

/// One `[tools.NAME]` table.
struct Entry<'e, 'd> {
    name: &'e str,
    at: usize,
    table: &'e DeTable<'d>,
}

impl Entry<'_, '_> {
    fn read(&self, reader: &mut Reader<'_>, policy: &mut Policy) -> Option<Tool> {
        let (name, table) = (self.name, self.table);
        self.check_keys(reader);
        let effect = reader.choice(table, "effect", &EFFECTS);
        if !table.contains_key("effect") {
            let message = format!("tool `{name}` has no `effect`");
            reader.problem(self.at, message, "one of read, write, destructive, external");
        }
        let risk = reader.choice(table, "risk", &RISKS);
        let tool = Tool {
            effect: effect.unwrap_or(Effect::Destructive),
            risk: risk.unwrap_or(match effect {
                Some(Effect::Read) => Risk::Low,
                Some(Effect::Write) => Risk::Medium,
                Some(Effect::Destructive | Effect::External) | None => Risk::High,
            }),
            title: self.label(reader, "title", 120),
            #[cfg(feature = "reply")]
            act: self.act(),
            has_summary: self.summary(reader, &mut policy.summaries),
            yes: self.label(reader, "yes", 40),
            no: self.label(reader, "no", 40),
            hold: self.condition(reader, "hold"),
            places: self.places(reader),
            deny: self.condition(reader, "deny"),
            deny_reason: self.deny_reason(reader),
            raise_risk: self.condition(reader, "raise_risk"),
            ttl: reader.duration(table, "ttl", SECOND..=MONTH),
            start_within: reader.duration(table, "start_within", SECOND..=MONTH),
            timeout: reader
                .duration(table, "timeout", SECOND..=HOUR)
                .unwrap_or(DEFAULT_TIMEOUT),
            approvers: self.approvers(reader),
            overrides: AuthorityOverrides::read(reader, table),
            secrets: self.secrets(reader),
            undo: self.undo(reader),
            before: self.before(reader),
            on_failure: self.on_failure(reader),
            schema: self.schema(reader),
            #[cfg(feature = "provenance")]
            is_outside: reader.boolean(table, "outside").unwrap_or(false),
            definition: self.definition(reader),
        };
        self.notice(reader, policy, &tool);
        effect.map(|_| tool)
    }

    fn check_keys(&self, reader: &mut Reader<'_>) {
        let known = TOOL_KEYS;
        for (key, value) in self.table.iter() {
            let key_name = key.get_ref().as_ref();
            if !known.contains(&key_name) && value.get_ref().is_table() {
                let message = format!("unknown table `{key_name}` in tool `{}`", self.name);
                let hint = format!(
                    "a name with dots needs quotes: `[tools.\"{}.{key_name}\"]`",
                    self.name
                );
                reader.problem(key.span().start, message, hint);
            }
        }
        let plain = self.table.iter().filter(|(_, value)| !value.get_ref().is_table());
        let plain: DeTable<'_> = plain.map(|(key, value)| (key.clone(), value.clone())).collect();
        reader.only(&plain, &format!("tool `{}`", self.name), &known);
        feature::PROVENANCE.can_read(reader, self.table, "outside");
    }

    fn label(&self, reader: &mut Reader<'_>, key: &str, max_chars: usize) -> Option<String> {
        let text = reader.string(self.table, key)?;
        let length = text.value.trim().chars().count();
        if length == 0 || length > max_chars {
            reader.problem(
                text.start,
                format!("`{key}` should have 1 to {max_chars} characters"),
                "",
            );
        }
        Some(text.value)
    }

    fn deny_reason(&self, reader: &mut Reader<'_>) -> Option<String> {
        let reason = self.label(reader, "deny_reason", 240)?;
        if !self.table.contains_key("deny") {
            let message = format!("tool `{}` has a `deny_reason` and no `deny`", self.name);
            reader.problem(self.at, message, "add a `deny` condition, or remove the reason");
        }
        Some(reason.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    #[cfg(feature = "reply")]
    fn act(&self) -> Act {
        let text = |key| self.table.get(key).and_then(|value| value.get_ref().as_str());
        Act::of(self.name, text("title"), text("summary"))
    }

    fn summary(&self, reader: &mut Reader<'_>, summaries: &mut Summaries) -> bool {
        let Some(text) = reader.string(self.table, "summary") else {
            return false;
        };
        match summaries.add(self.name, &text.value) {
            Ok(()) => self.check_names(reader, "summary", &text),
            Err(error) => reader.bad_template(&text, &error, "Create {{ name }}"),
        }
        true
    }

    fn condition(&self, reader: &mut Reader<'_>, key: &str) -> Option<Condition> {
        let text = reader.string(self.table, key)?;
        match Condition::compile(&text.value) {
            Ok(condition) => Some(condition),
            Err(fault) => {
                reader.problem(text.at(fault.offset), fault.message, fault.hint);
                None
            }
        }
    }

    fn places(&self, reader: &mut Reader<'_>) -> Option<Places> {
        let entries = reader.strings(self.table, "places")?;
        let is_good = |entry: &str| {
            let name = entry.trim_start_matches('!').trim_end_matches('?');
            entry == "*" || !name.is_empty() && !name.contains('*')
        };
        for entry in entries.iter().filter(|entry| !is_good(&entry.value)) {
            reader.problem(
                entry.start,
                format!("`{}` is not an argument that names files", entry.value),
                "write `path`, `path?` if it may be missing, `*` for all arguments, or `!pattern` for one that is none",
            );
        }
        Some(Places::read(entries.iter().map(|entry| entry.value.as_str())))
    }

    fn approvers(&self, reader: &mut Reader<'_>) -> Vec<String> {
        let Some(names) = reader.strings(self.table, "approvers") else {
            return vec![DEFAULT_APPROVERS.to_owned()];
        };
        for name in names.iter().filter(|name| name.value.trim().is_empty()) {
            reader.problem(
                name.start,
                "an approver without a name",
                "name a group or a person",
            );
        }
        names.into_iter().map(|name| name.value).collect()
    }

    fn secrets(&self, reader: &mut Reader<'_>) -> Vec<SecretPath> {
        let mut paths = Vec::new();
        for text in reader.strings(self.table, "secret").unwrap_or_default() {
            match SecretPath::parse(&text.value) {
                Ok(path) => paths.push(path),
                Err(_) => {
                    let message = format!("`{}` is not the path of an argument", text.value);
                    reader.problem(
                        text.start,
                        message,
                        "write `api_key`, `auth.token` or `/auth/token`",
                    );
                }
            }
        }
        paths
    }

    fn undo(&self, reader: &mut Reader<'_>) -> Option<Undo> {
        let value = reader.table(self.table, "undo")?;
        self.check_names_within(reader, "undo", value);
        Undo::read(reader, value)
    }

    fn before(&self, reader: &mut Reader<'_>) -> Option<Before> {
        let value = reader.table(self.table, "before")?;
        self.check_names_within(reader, "before", value);
        Before::read(reader, value)
    }

    /// Reports filters and tests that templates do not know, in all texts of a value.
    fn check_names_within(&self, reader: &mut Reader<'_>, key: &str, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::String(text) => {
                let text = reader.text_at(value, text);
                self.check_names(reader, key, &text);
            }
            DeValue::Array(items) => {
                for item in items.iter() {
                    self.check_names_within(reader, key, item);
                }
            }
            DeValue::Table(table) => {
                for (_, value) in table.iter() {
                    self.check_names_within(reader, key, value);
                }
            }
            _ => {}
        }
    }

    fn check_names(&self, reader: &mut Reader<'_>, key: &str, text: &Text) {
        for unknown in unknown_names(&text.value) {
            let message = format!(
                "unknown {} `{}` in `{key}` of tool `{}`",
                unknown.kind, unknown.name, self.name
            );
            let hint = format!(
                "leave it out, or use one of the built-in {}s of minijinja",
                unknown.kind
            );
            reader.problem(text.at(unknown.at), message, hint);
        }
    }

    fn on_failure(&self, reader: &mut Reader<'_>) -> OnFailure {
        let choices = [("stop", OnFailure::Stop), ("continue", OnFailure::Continue)];
        reader
            .choice(self.table, "on_failure", &choices)
            .unwrap_or_default()
    }

    fn schema(&self, reader: &mut Reader<'_>) -> Option<Schema> {
        if !feature::SCHEMA.can_read(reader, self.table, "schema") {
            return None;
        }
        let value = reader.table(self.table, "schema")?;
        let json = table_to_json(value.get_ref().as_table()?);
        let compiled = json.ok_or("it holds a number that JSON cannot".to_owned());
        match compiled.and_then(|json| Schema::compile(&json)) {
            Ok(schema) => Some(schema),
            Err(reason) => {
                let hint = "write it as JSON Schema 2020-12, without references to other documents";
                reader.problem(value.span().start, format!("bad schema: {reason}"), hint);
                None
            }
        }
    }

    fn definition(&self, reader: &mut Reader<'_>) -> Option<Hash> {
        let text = reader.string(self.table, "definition")?;
        let hash = Hash::from_hex(&text.value);
        if hash.is_none() {
            reader.problem(
                text.start,
                "`definition` should be 64 hex digits",
                "run `countersign policy init`",
            );
        }
        hash
    }

    /// Adds warnings about settings that commonly surprise people.
    fn notice(&self, reader: &Reader<'_>, policy: &mut Policy, tool: &Tool) {
        let place = |key: &str| {
            let found = self.table.get_key_value(key);
            found.map_or(self.at, |(key, _)| key.span().start)
        };
        let name = self.name;
        if tool.approvers.is_empty() {
            let message = format!("nobody can approve `{name}`: its list of approvers is empty");
            let hint = "name a group or a person, or leave `approvers` out";
            policy
                .notices
                .push(reader.notice(place("approvers"), message, hint));
        }
        let is_unconditional = tool.hold.is_none() && tool.places.is_none() && tool.definition.is_none();
        let is_always_passed = tool.effect == Effect::Read && is_unconditional;
        // No surface accepts passkey signatures yet.
        let least = tool.overrides.authority(tool.risk, policy.surfaces).assurance;
        if !is_always_passed && least == Assurance::Passkey {
            let message = format!("nobody can approve `{name}`: no surface offers passkeys yet");
            policy
                .notices
                .push(reader.notice(place("surface"), message, "ask for `page` instead"));
        }
        if is_always_passed && tool.has_summary {
            let message = format!("`{name}` is a read and never held, so its summary is never shown");
            policy
                .notices
                .push(reader.notice(place("summary"), message, "add `hold`, or drop `summary`"));
        }
        if tool.effect == Effect::External && !self.table.contains_key("risk") {
            let message = format!("`{name}` has effect `external` and no `risk`, so its risk is high");
            policy.notices.push(reader.notice(self.at, message, "add `risk`"));
        }
    }
}
