//! A call: one tool with its exact argument bytes, and the digest that binds a decision to them.
//!
//! The bytes come from outside, are checked, and stay unchanged. There is no parsed form: code that needs one parses
//! the bytes and discards the result.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::approval::{Approval, Order};
use crate::hash::{Fields, Hash};
use crate::id::{CallId, ToolName};
use crate::json::{self, Limits, Malformed};
use crate::policy::{Definition, Terms};
use crate::provenance::Provenance;
use crate::seal::secret_length;
use crate::snapshot::Snapshot;
use crate::state::CallState;
use crate::time::Time;
use crate::working_folder::WorkingFolder;

/// Arguments of a call: one JSON object, byte for byte as received.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arguments(Arc<[u8]>);

impl Arguments {
    /// Checks strictly that the bytes are one JSON object, and stores them unchanged.
    pub fn parse(bytes: impl Into<Arc<[u8]>>) -> Result<Arguments, Malformed> {
        let bytes = bytes.into();
        json::check(&bytes, Limits::default())?;
        Ok(Arguments(bytes))
    }

    /// Restores arguments from a store without checking them again.
    pub fn stored(bytes: impl Into<Arc<[u8]>>) -> Arguments {
        Arguments(bytes.into())
    }

    /// Returns the exact bytes that were received. The same bytes are hashed, shown and run.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Prints no content, because arguments may contain secrets.
impl std::fmt::Debug for Arguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arguments({} bytes)", self.0.len())
    }
}

/// Reason why a call will never run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// A person denied the call or its whole approval.
    Denied,
    /// The approval expired without a decision.
    Expired,
    /// A newer approval in the same channel replaced the call's approval.
    Superseded,
    /// The approval was withdrawn.
    Withdrawn,
    /// The call was approved, but not started in time.
    Stale,
    /// An earlier call of the same batch did not succeed.
    EarlierFailed,
    /// The store was restored from a backup made before the call was started.
    Voided,
    /// The target of the call no longer matches the snapshot that was shown.
    Changed,
    /// The target of the call could not be read again before the start.
    Unreadable,
    /// The call to be undone is already undone or being undone.
    NothingToUndo,
    /// The call was started, but not sent to its tool. This is the only reason of a failed call; all others belong to
    /// refused calls.
    NotSent,
}

impl RefusalReason {
    /// Returns a short description in English, such as `not started in time`.
    pub fn as_str(&self) -> &'static str {
        match self {
            RefusalReason::Denied => "denied",
            RefusalReason::Expired => "expired",
            RefusalReason::Superseded => "superseded",
            RefusalReason::Withdrawn => "withdrawn",
            RefusalReason::Stale => "not started in time",
            RefusalReason::EarlierFailed => "an earlier call did not succeed",
            RefusalReason::Voided => "the store was restored from a backup",
            RefusalReason::Changed => "what it would change has changed since it was shown",
            RefusalReason::Unreadable => "what it would change could not be read again",
            RefusalReason::NothingToUndo => "it was undone already, or is being undone",
            RefusalReason::NotSent => "not sent, so nothing ran",
        }
    }
}

/// The single start of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Execution {
    /// Time of the start.
    pub started_at: Time,
    /// Time after which a call that has not ended counts as having an unknown outcome.
    pub deadline: Time,
    /// Hash of the permit's token; only the holder of the permit can finish the call.
    pub permit: Hash,
    /// Time at which the call ended; `None` while it is running.
    pub ended_at: Option<Time>,
}

/// A call as it is stored, with its terms, its state and its result.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// The tool's name.
    pub tool: ToolName,
    /// Hash of the tool's definition, and the party that provided it.
    pub definition: Definition,
    /// Arguments that run if the call is approved.
    pub arguments: Arguments,
    /// Arguments as proposed; `None` unless a person edited them.
    pub original: Option<Arguments>,
    /// Revision of the arguments: 1 as proposed, 2 as edited by the person who approved.
    pub revision: u32,
    /// Terms that the policy set when the call was held: how it is shown, who may approve it, and its time limits.
    pub terms: Arc<Terms>,
    /// Digest that binds a decision to this call; see [`Call::digest_in`].
    pub digest: Hash,
    /// State after the last event.
    pub state: CallState,
    /// Reason for refusal; [`RefusalReason::NotSent`] if the call failed without being sent. Otherwise `None`.
    pub because: Option<RefusalReason>,
    /// The start of the call; `None` if it has not been started.
    pub execution: Option<Execution>,
    /// Result or failure message, at most [`crate::executor::LARGEST_RESULT`] bytes; `None` if there is none.
    pub result: Option<Arc<[u8]>>,
    /// Sealed credential for the call; `None` if the call needs none, or once the call is over.
    pub sealed: Option<Arc<[u8]>>,
    /// The call that undid this one or is undoing it, if any.
    pub undone_by: Option<CallId>,
    /// Provenance of the proposed values; `None` if no conversation was given or a person edited the arguments.
    pub provenance: Option<Arc<Provenance>>,
    /// Snapshot of the data that the call would change, read when the approval was created; `None` if the call's tool
    /// declares no `before` read.
    pub before: Option<Arc<Snapshot>>,
    /// The folder that the host runs the call in; `None` if the host did not report one.
    pub working_folder: Option<Arc<WorkingFolder>>,
}

/// Prints neither results nor credentials.
impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("tool", &self.tool)
            .field("arguments", &self.arguments)
            .field("revision", &self.revision)
            .field("digest", &self.digest)
            .field("state", &self.state)
            .field("because", &self.because)
            .field(
                "result",
                &self
                    .result
                    .as_ref()
                    .map(|result| format!("{} bytes", result.len())),
            )
            .finish_non_exhaustive()
    }
}

impl Call {
    /// Returns true if the call failed without being sent to its tool, so that nothing ran.
    pub fn was_not_sent(&self) -> bool {
        self.state == CallState::Failed && self.because == Some(RefusalReason::NotSent)
    }

    /// Returns the notes that every card shows: the working folder, the notes of the policy, and that the call comes
    /// with a credential. The texts are not escaped.
    pub fn notes(&self) -> Vec<String> {
        let folder = self.working_folder.as_deref();
        let mut notes: Vec<String> = folder.into_iter().flat_map(WorkingFolder::notes).collect();
        notes.extend(self.terms.notes.iter().cloned());
        notes.extend(self.sealed.as_deref().map(|sealed| {
            let count = secret_length(sealed);
            let unit = if count == 1 { "byte" } else { "bytes" };
            format!("carries a credential of {count} {unit}, which is passed to the tool and never shown")
        }));
        notes
    }

    /// Computes the digest of this call as the call at `position` (from 1) of `approval`.
    pub fn digest_in(&self, approval: &Approval, position: u8) -> Hash {
        // The snapshot and the working folder are part of what is approved. They enter the digest only if the call has
        // them, so that the digests of older calls stay the same.
        let before = self.before.as_ref().map(|before| before.hash);
        let folder = self.working_folder.as_ref().map(|folder| folder.hash());
        // So does the order in which the calls may start, unless it is the given one.
        let tag = match (approval.order, before, folder) {
            (Order::Given, None, None) => "countersign/call/1",
            (Order::Given, Some(_), None) => "countersign/call/2",
            (Order::Given, _, Some(_)) => "countersign/call/3",
            (Order::Any, ..) => "countersign/call/4",
        };
        let fields = Fields::new(tag)
            .field(approval.tenant.as_str().as_bytes())
            .field(approval.id.as_bytes())
            .number(position.into())
            .number(self.revision.into())
            .field(self.tool.as_str().as_bytes())
            .optional(self.definition.hash().as_ref().map(|hash| hash.0.as_slice()))
            .field(self.arguments.as_bytes())
            .field(self.terms.effect.as_str().as_bytes())
            .field(approval.requester.as_str().as_bytes())
            .number(approval.expires_at.as_micros() as u64)
            .field(&approval.salt);
        match (approval.order, before, folder) {
            (Order::Given, None, None) => fields.finish(),
            (Order::Given, Some(before), None) => fields.field(&before.0).finish(),
            (Order::Given, before, Some(folder)) => {
                let before = before.as_ref().map(|before| before.0.as_slice());
                fields.optional(before).field(&folder.0).finish()
            }
            (order @ Order::Any, before, folder) => fields
                .optional(before.as_ref().map(|before| before.0.as_slice()))
                .optional(folder.as_ref().map(|folder| folder.0.as_slice()))
                .field(order.as_str().as_bytes())
                .finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::SharedApproval;
    use crate::effect::{Effect, Risk};
    use crate::id::{ApprovalId, Person, Tenant};
    use crate::store::memory::MemoryStore;
    use crate::store::suite::{Fixture, sample};

    async fn batch() -> SharedApproval {
        let clock = Fixture::clock();
        let store = MemoryStore::with_clock(clock.clone());
        let fixture = Fixture::new(Arc::new(store), clock);
        fixture.propose(sample::batch(1, 2)).await
    }

    /// Reference digests, computed independently from the definition in docs, for other implementations to check
    /// against.
    #[tokio::test]
    async fn i8_digests_are_what_they_always_were() {
        let approval = batch().await;
        assert_eq!(approval.id.to_string(), "019b76da-a801-7000-8000-000000000001");
        let digests: Vec<String> = approval
            .calls
            .iter()
            .map(|call| call.digest.to_string())
            .collect();
        assert_eq!(
            digests,
            [
                "9512961390474c6282b50abbfa9e8ea55a6a5dcef73833bfb2354122daea5b74",
                "6a49d8ace9c541d263093a4e87498dbd16db9d8f124dedd1e1e2af9a20c7476a",
            ]
        );
        assert_eq!(
            approval.digest.to_string(),
            "35de6385f7a089e269d087549a05044043e589c004fb553fb688aa3b70450453"
        );
    }

    #[tokio::test]
    async fn i8_every_field_a_decision_is_bound_to_changes_the_digest() {
        type Change = fn(&mut Approval, &mut Call);
        fn folder(path: &str) -> Option<Arc<WorkingFolder>> {
            Some(Arc::new(WorkingFolder::new(path, Vec::new()).unwrap()))
        }
        let changes: [(&str, Change); 20] = [
            ("tenant", |approval, _| {
                approval.tenant = Tenant::new("b").unwrap()
            }),
            ("id", |approval, _| {
                approval.id = ApprovalId::from_parts(2, &[0; 10])
            }),
            ("requester", |approval, _| {
                approval.requester = Person::new("x").unwrap()
            }),
            ("expiry", |approval, _| {
                approval.expires_at = Time::from_micros(approval.expires_at.as_micros() + 1);
            }),
            ("salt", |approval, _| approval.salt[15] ^= 1),
            ("revision", |_, call| call.revision = 2),
            ("tool", |_, call| {
                call.tool = ToolName::new("create_contac").unwrap()
            }),
            ("no definition", |_, call| call.definition = Definition::Unknown),
            ("definition", |_, call| {
                call.definition = Definition::Claimed(Hash([0; 32]))
            }),
            ("arguments", |_, call| {
                // The same value to every JSON library, but written in different bytes.
                call.arguments = Arguments::parse(&br#"{"n":1,"position": 1}"#[..]).unwrap();
            }),
            ("arguments grow", |_, call| {
                call.arguments = Arguments::parse(&br#"{"n":1,"position":1} "#[..]).unwrap();
            }),
            ("what it would change", |_, call| {
                call.before = Some(Arc::new(sample::snapshot("{}")));
            }),
            ("what it would change, later", |_, call| {
                call.before = Some(Arc::new(sample::snapshot(r#"{"title":"New"}"#)));
            }),
            ("working folder", |_, call| call.working_folder = folder("/p")),
            ("another working folder", |_, call| {
                call.working_folder = folder("/q");
            }),
            ("working folder of a change", |_, call| {
                call.before = Some(Arc::new(sample::snapshot("{}")));
                call.working_folder = folder("/p");
            }),
            ("order", |approval, _| approval.order = Order::Any),
            ("order of a change", |approval, call| {
                approval.order = Order::Any;
                call.before = Some(Arc::new(sample::snapshot("{}")));
            }),
            ("order in a working folder", |approval, call| {
                approval.order = Order::Any;
                call.working_folder = folder("/p");
            }),
            ("effect", |_, call| {
                let mut terms = Terms::clone(&call.terms);
                terms.effect = Effect::Destructive;
                call.terms = Arc::new(terms);
            }),
        ];
        let original = batch().await;
        let mut seen = vec![
            original.calls[0].digest,
            original.calls[0].digest_in(&original, 2),
        ];
        for (what, change) in changes {
            let mut approval = Approval::clone(&original);
            let mut call = approval.calls[0].clone();
            change(&mut approval, &mut call);
            let digest = call.digest_in(&approval, 1);
            assert!(!seen.contains(&digest), "{what}");
            seen.push(digest);
        }
        // Fields used only for display do not change the digest.
        let mut call = original.calls[0].clone();
        let mut terms = Terms::clone(&call.terms);
        (terms.stakes, terms.summary) = (
            crate::policy::RiskAndAuthority::stored(Risk::Critical, Default::default()),
            String::new(),
        );
        call.terms = Arc::new(terms);
        assert_eq!(call.digest_in(&original, 1), original.calls[0].digest);
    }

    #[tokio::test]
    async fn x45_the_digest_of_a_batch_knows_its_calls_and_their_order() {
        let original = batch().await;
        let mut swapped = Approval::clone(&original);
        swapped.calls.reverse();
        let mut shorter = Approval::clone(&original);
        shorter.calls.pop();
        for other in [swapped, shorter] {
            assert_ne!(other.digest_of_calls(), original.digest);
        }
    }

    #[test]
    fn i17_arguments_do_not_print_themselves() {
        let arguments = Arguments::parse(&br#"{"key":"canary"}"#[..]).unwrap();
        assert_eq!(format!("{arguments:?}"), "Arguments(16 bytes)");
    }
}
