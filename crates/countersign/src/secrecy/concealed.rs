//! Finds values and names that a card would hide although the policy does not call them secret.
//!
//! An agent chooses the values of secret arguments, so it could hide any other value by repeating it there. Calls in
//! which that happens are neither shown to a person nor approved, and neither are calls with more secrets than a card
//! may have. Checked are the values and member names in the arguments and in the snapshot, outside the secret paths,
//! and the working folder. Results, comments and the agent's own words are not checked: a secret that is hidden there
//! hides nothing of what would run.

use std::collections::BTreeSet;

use super::{MOST_SECRETS, Secrecy, SecretValue};
use crate::approval::Approval;
use crate::call::Call;
use crate::display::{clip, escape};
use crate::json::{self, Node, TopLevel, Tree, push_segment};
use crate::policy::Policy;
use crate::summary::{SecretPath, Secrets, rows, secret_values};
use crate::working_folder::WorkingFolder;

/// Maximum length of a JSON pointer in a message, in characters.
const PLACE_CHARS: usize = 100;

/// Hint for a repeated secret.
const OTHER_VALUE: &str = "leave the secret out of the other place, or give one of them another value; if that place \
                           is secret too, the tool's `secret` list in the policy has to name it";
/// Hint for too many secrets.
const FEWER_SECRETS: &str =
    "propose fewer at a time, or let the tool accept one value that contains them all";
/// Hint for a snapshot that is not a JSON object.
const OTHER_READ: &str = "have that read answer a JSON object, or take `before` out of the policy";

/// Refusal of calls whose card would hide something that is not secret, or that have too many secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
#[non_exhaustive]
pub struct Concealed {
    /// Position of the call with the hidden value or name, from 1.
    pub call: u8,
    /// Message that names the hidden place and the secret's path. Safe to show: contains no secret.
    sentence: String,
    hint: &'static str,
}

impl Concealed {
    fn too_many(call: u8) -> Concealed {
        Concealed {
            call,
            sentence: format!("there are more than {MOST_SECRETS} secret values"),
            hint: FEWER_SECRETS,
        }
    }

    /// Returns the message with a hint on what to do.
    pub fn with_hint(&self) -> String {
        format!("{self}\nhint: {}", self.hint)
    }
}

/// A call as it is shown to a person, and the secrets in it.
struct ShownCall<'c> {
    secrecy: Secrecy,
    /// Secrets in the arguments and in the snapshot, without those that an edit has replaced.
    secrets: BTreeSet<String>,
    arguments: &'c [u8],
    before: Option<&'c [u8]>,
    folder: Option<&'c WorkingFolder>,
}

/// Returns the first value or name in these calls that is not secret but repeats a secret of any of them, so that it
/// would be hidden at least in part. Also refuses calls with too many secrets. `None` if there is nothing to refuse.
pub(crate) fn concealed<'c>(calls: impl IntoIterator<Item = (&'c Call, Secrecy)>) -> Option<Concealed> {
    concealed_with(calls, None)
}

/// Like [`concealed`]. If `new` is given, all other calls were checked before, and only conflicts with the call at that
/// position are searched for, in both directions.
pub(crate) fn concealed_with<'c>(
    calls: impl IntoIterator<Item = (&'c Call, Secrecy)>,
    new: Option<u8>,
) -> Option<Concealed> {
    let shown = calls.into_iter().map(|(call, secrecy)| ShownCall {
        secrets: secrecy.values_in(
            [
                Some(call.arguments.as_bytes()),
                call.before.as_deref().map(|before| &*before.result),
            ]
            .into_iter()
            .flatten(),
        ),
        secrecy,
        arguments: call.arguments.as_bytes(),
        before: call.before.as_deref().map(|before| &*before.result),
        folder: call.working_folder.as_deref(),
    });
    let shown: Vec<ShownCall<'_>> = shown.collect();
    if !shown.iter().any(|call| call.secrecy.knows_any()) {
        return None;
    }
    let in_all = shown.len();
    let numbered = || (1u8..).zip(&shown);
    let whole = |call: &ShownCall<'_>| call.secrecy.has_any() && !call.before.is_none_or(has_places);
    if let Some((call, _)) = numbered().find(|(_, call)| whole(call)) {
        return Some(Concealed {
            call,
            sentence: "all of what the call would change would be hidden: the tool has secrets, and what was read is no \
                       JSON object, so nobody can say what in it is secret"
                .to_owned(),
            hint: OTHER_READ,
        });
    }
    let last = u8::try_from(in_all).unwrap_or(u8::MAX);
    if let Some(call) = first_with_too_many(numbered()) {
        return Some(Concealed::too_many(new.unwrap_or(call).min(last)));
    }
    let all = shown
        .iter()
        .fold(Secrecy::default(), |all, call| all.with_values_of(&call.secrecy));
    for (position, call) in numbered() {
        // In a call that was checked before, search only for secrets of the new one.
        let secrets = match new.filter(|new| *new != position) {
            None => &all,
            Some(new) => shown
                .get(usize::from(new).saturating_sub(1))
                .map_or(&all, |call| &call.secrecy),
        };
        if let Some((secret, place)) = call.hidden_by(secrets) {
            let of = |position: u8| match in_all {
                1 => String::new(),
                _ => format!(" of call {position}"),
            };
            let holds = |(_, call): &(u8, &ShownCall<'_>)| call.secrecy.values.contains(secret);
            let from = new.filter(|new| *new != position);
            let from = from.or_else(|| numbered().find(holds).map(|(from, _)| from));
            let secret = clip(&secret.place, PLACE_CHARS).to_string();
            let (place, secret) = (
                place + &of(position),
                format!("`{secret}`{}", of(from.unwrap_or(position))),
            );
            let sentence =
                format!("{place} would be hidden, because it repeats the value of {secret}, which is secret");
            return Some(Concealed {
                call: position,
                sentence,
                hint: OTHER_VALUE,
            });
        }
    }
    None
}

/// Counts distinct secrets over the calls in order. Returns the position of the call at which the count exceeds
/// `MOST_SECRETS`; `None` if it never does.
fn first_with_too_many<'c>(calls: impl Iterator<Item = (u8, &'c ShownCall<'c>)>) -> Option<u8> {
    let mut seen = BTreeSet::new();
    for (position, call) in calls {
        seen.extend(call.secrets.iter().map(String::as_str));
        if seen.len() > MOST_SECRETS {
            return Some(position);
        }
    }
    None
}

impl ShownCall<'_> {
    /// Returns a secret that would hide part of this call, with a description of that part; `None` if nothing would be
    /// hidden.
    fn hidden_by<'s>(&self, secrets: &'s Secrecy) -> Option<(&'s SecretValue, String)> {
        if secrets.values.is_empty() || self.secrecy.is_everything() {
            return None;
        }
        let paths = Secrets::new(&self.secrecy.paths);
        let hit = |found: Hit<'s>, within: &str| {
            // The place's own name may contain the secret.
            let name = |text: &str| clip(&secrets.text(text), PLACE_CHARS).to_string();
            let what = match found.is_name {
                true => "the name of",
                false => "the value of",
            };
            let place = format!("{what} `{}`{within}", name(&found.pointer));
            (found.value, place)
        };
        let looked = Looked { secrets };
        let found = looked.document(self.arguments, &self.secrecy, &paths);
        if let Some(found) = found {
            return Some(hit(found, ""));
        }
        if let Some(before) = self.before
            && let Some(found) = looked.document(before, &self.secrecy, &paths)
        {
            return Some(hit(found, " in what the call would change"));
        }
        // No card hides part of a working folder, so it must not repeat a secret.
        let value = self.folder?.texts().find_map(|text| looked.by(text))?;
        Some((value, "the working folder, or a link in it,".to_owned()))
    }
}

/// A value or member's name that repeats a secret.
struct Hit<'s> {
    value: &'s SecretValue,
    pointer: String,
    is_name: bool,
}

struct Looked<'s> {
    secrets: &'s Secrecy,
}

impl<'s> Looked<'s> {
    /// Returns a value or member's name, outside the secret paths, that repeats a secret; `None` if there is none.
    ///
    /// INVARIANT: finds everything that [`Secrecy::table`] and [`Secrecy::tree`] would hide outside the secret paths.
    /// Both hide with the same [`Secrecy::text`], over the same names and values.
    fn document(&self, document: &[u8], of: &Secrecy, paths: &Secrets<'_>) -> Option<Hit<'s>> {
        let tree = Tree::read(document, TopLevel::Any).ok()?;
        if let Some(found) = self.tree(&tree, &mut String::new(), paths) {
            return Some(found);
        }
        // Names and values as rows show them: escaped, in quotes, and with full paths.
        let rows = rows(document, &of.paths, &[], usize::MAX);
        rows.into_iter().filter(|row| !row.hidden).find_map(|row| {
            let named = self.by(&super::without_indexes(&row.pointer));
            let named = named.or_else(|| self.by(&super::without_indexes(&row.name)));
            let (value, is_name) = match named {
                Some(value) => (value, true),
                None => (self.by(&row.value)?, false),
            };
            Some(Hit {
                value,
                pointer: row.pointer,
                is_name,
            })
        })
    }

    fn tree(&self, tree: &Tree<'_>, pointer: &mut String, paths: &Secrets<'_>) -> Option<Hit<'s>> {
        if paths.is_here() {
            return None;
        }
        let length = pointer.len();
        let hit = |value, pointer: &str, is_name| Hit {
            value,
            pointer: escape(pointer).into_owned(),
            is_name,
        };
        match &tree.node {
            Node::Object(fields) => fields.iter().find_map(|(key, value)| {
                push_segment(pointer, key);
                let found = self.by(key).map(|value| hit(value, pointer, true));
                let found = found.or_else(|| self.tree(value, pointer, &paths.below(key)));
                pointer.truncate(length);
                found
            }),
            Node::Array(items) => items.iter().enumerate().find_map(|(at, item)| {
                let at = at.to_string();
                push_segment(pointer, &at);
                let found = self.tree(item, pointer, &paths.below(&at));
                pointer.truncate(length);
                found
            }),
            _ => self.by(tree.text()).map(|value| hit(value, pointer, false)),
        }
    }

    /// Returns a secret that the text contains; `None` if it contains none.
    fn by(&self, text: &str) -> Option<&'s SecretValue> {
        let values = &self.secrets.values;
        match self.secrets.places(text) {
            Some(places) => values.get(places.first()?.secret),
            // There are too many secrets to search for, so any of them may be in the text.
            None => values.first(),
        }
    }
}

impl Secrecy {
    /// Returns true if there is any secret path or secret value.
    fn knows_any(&self) -> bool {
        self.has_any() || !self.values.is_empty()
    }

    /// Returns the texts of the secrets in these documents.
    fn values_in<'d>(&self, documents: impl IntoIterator<Item = &'d [u8]>) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        for document in documents.into_iter().filter(|_| self.has_any()) {
            if let Ok(tree) = Tree::read(document, TopLevel::Any) {
                texts.extend(
                    secret_values(&tree, &self.paths)
                        .into_iter()
                        .map(|(_, text)| text),
                );
            }
        }
        texts
    }

    /// Returns true if a text contains a secret outside of the marks that stand for secrets.
    pub(crate) fn is_in_words(&self, text: &str) -> bool {
        let mut words = text.to_owned();
        for value in &self.values {
            let mark = value.mark.trim_matches(['[', ']']);
            words = words.replace(mark, "\u{fffc}");
        }
        self.is_in(&words)
    }
}

impl Approval {
    /// Returns a value or name in the approval's calls that is not secret but that a card would show as a mark; `None`
    /// if there is none. A card with such a place is not whole and cannot be approved.
    pub fn concealed(&self, policy: &Policy) -> Option<Concealed> {
        let has_secrets = |call: &Call| {
            let own = call.terms.secret.as_ref();
            own.is_none_or(|own| !own.is_empty()) || !policy.secrets_of(call).is_empty()
        };
        if !self.calls.iter().any(has_secrets) {
            return None;
        }
        let calls = self.calls.iter();
        concealed(calls.map(|call| (call, Secrecy::of(call, policy, &self.salt))))
    }
}

/// Returns a refusal if the arguments have more secrets at these paths than one card may have; `None` otherwise.
/// Checked before the secrets are searched for.
pub(crate) fn too_many(paths: &[SecretPath], arguments: &[u8]) -> Option<Concealed> {
    if paths.is_empty() {
        return None;
    }
    let tree = Tree::read(arguments, TopLevel::Any).ok()?;
    let values = secret_values(&tree, paths);
    let different: BTreeSet<&str> = values.iter().map(|(_, text)| text.as_str()).collect();
    (different.len() > MOST_SECRETS).then(|| Concealed::too_many(1))
}

/// Like [`too_many`], but for an edit: equal values count one by one, because otherwise the answer would tell whether a
/// typed value equals a secret that was kept.
pub(crate) fn too_many_in_edit(paths: &[SecretPath], arguments: &[u8]) -> Option<Concealed> {
    if paths.is_empty() {
        return None;
    }
    let tree = Tree::read(arguments, TopLevel::Any).ok()?;
    (secret_values(&tree, paths).len() > MOST_SECRETS).then(|| Concealed::too_many(1))
}

/// Returns true if a snapshot is a JSON object, whose secret values can be hidden one by one. In any other text it is
/// unknown what is secret, so all of it is hidden.
fn has_places(document: &[u8]) -> bool {
    json::check(
        document,
        json::Limits {
            bytes: usize::MAX,
            ..json::Limits::default()
        },
    )
    .is_ok()
}
