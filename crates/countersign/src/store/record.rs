//! How approvals and calls are written into rows: what is searched for in columns, the rest in one compact body.
//!
//! SQL stores share this, so that a change of the format is one change. Each body begins with its version. What a later
//! version adds stands behind what the first one wrote, so that every version is still read.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::approval::{Approval, Decided, EndorsedWith, Endorsement};
use crate::call::{Arguments, Because, Call, Execution};
use crate::hash::Hash;
use crate::id::{Actor, Agent, ApprovalId, CallId, Channel, Key, Person, Run, Session, Tenant, ToolName};
use crate::policy::{Authority, Definition, Stakes, Terms};
use crate::provenance::{Provenance, Teller};
use crate::snapshot::Snapshot;
use crate::state::{CallState, State};
use crate::summary::SecretPath;
use crate::time::Time;
use crate::undoes::Undoes;

/// What every version writes is the first part of a body.
const FIRST: u8 = 1;
/// The second part follows it.
const SECOND: u8 = 2;
/// A call's provenance follows both; of an approval what else it undoes.
const THIRD: u8 = 3;
/// What a call would change follows its provenance, if it has one; of an approval whose decisions were refused.
const FOURTH: u8 = 4;
/// Which facts about a call the gate knows itself follow its snapshot, if it has one; of an approval what its endorsements
/// rest on.
const FIFTH: u8 = 5;
/// What of a call is secret follows those facts.
const SIXTH: u8 = 6;

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Written by a newer version.
    #[error("a record has version {0}, which this version does not know")]
    Version(u8),
    /// Damaged.
    #[error("a record cannot be read: {0}")]
    Damaged(String),
}

/// The bodies of all rows of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bodies {
    /// Of its own row.
    pub approval: Vec<u8>,
    /// Of its calls' rows, in order.
    pub calls: Vec<Vec<u8>>,
}

impl Bodies {
    /// Writes them all.
    pub fn of(approval: &Approval) -> Bodies {
        Bodies {
            approval: encode_approval(approval),
            calls: approval.calls.iter().map(encode_call).collect(),
        }
    }
}

/// The columns of an approval's row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Approval`")]
pub struct ApprovalColumns {
    pub tenant: Tenant,
    pub id: ApprovalId,
    pub channel: Option<Channel>,
    pub agent: Agent,
    pub run: Option<Run>,
    pub state: i16,
    pub version: u32,
}

/// What the columns leave over.
#[derive(Serialize, Deserialize)]
struct ApprovalBody {
    session: Option<Session>,
    requester: Person,
    on_behalf_of: Option<Person>,
    claim: Option<String>,
    nonce: [u8; 16],
    salt: [u8; 16],
    created_at: Time,
    expires_at: Time,
    start_within: Duration,
    policy: Hash,
    digest: Hash,
    ended_at: Option<Time>,
    changed_at: Time,
    link: Hash,
    decision: Option<Decided>,
    superseded_by: Option<ApprovalId>,
    replaces: Option<ApprovalId>,
    undoes: Option<(ApprovalId, u8)>,
    key: Option<(Key, Hash)>,
    refusals: u8,
}

/// What the first version did not know.
#[derive(Default, Serialize, Deserialize)]
struct More {
    endorsements: Vec<Endorsement>,
    erased_at: Option<Time>,
}

/// The body of an approval's row.
pub fn encode_approval(approval: &Approval) -> Vec<u8> {
    let body = ApprovalBody {
        session: approval.session.clone(),
        requester: approval.requester.clone(),
        on_behalf_of: approval.on_behalf_of.clone(),
        claim: approval.claim.clone(),
        nonce: approval.nonce,
        salt: approval.salt,
        created_at: approval.created_at,
        expires_at: approval.expires_at,
        start_within: approval.start_within,
        policy: approval.policy,
        digest: approval.digest,
        ended_at: approval.ended_at,
        changed_at: approval.changed_at,
        link: approval.link,
        decision: approval.decision.clone(),
        superseded_by: approval.superseded_by,
        replaces: approval.replaces,
        undoes: approval
            .undoes
            .and_then(|undoes| Some((undoes.approval, undoes.by(1)?.position))),
        key: approval.key.clone(),
        refusals: approval.refusals,
    };
    let more = More {
        endorsements: approval.endorsements.clone(),
        erased_at: approval.erased_at,
    };
    let undone = approval.undoes.into_iter().flat_map(Undoes::positions);
    let others: Vec<u8> = undone.skip(1).collect();
    let rests_on = approval.endorsements.iter();
    let rests_on: Vec<(&EndorsedWith, bool)> = rests_on
        .map(|endorsed| (&endorsed.account, endorsed.lapsed))
        .collect();
    if !rests_on.is_empty() {
        return encode(FIFTH, &(body, more, others, &approval.tried, rests_on));
    }
    match (others.is_empty(), approval.tried.is_empty()) {
        (true, true) => encode(SECOND, &(body, more)),
        (false, true) => encode(THIRD, &(body, more, others)),
        (_, false) => encode(FOURTH, &(body, more, others, &approval.tried)),
    }
}

/// Reads an approval's row, with its calls.
pub fn decode_approval(
    columns: ApprovalColumns,
    body: &[u8],
    calls: Vec<Call>,
) -> Result<Approval, BadRecord> {
    type Read = (ApprovalBody, More, Vec<u8>, Vec<(Actor, u8)>);
    type WithAccounts = (
        ApprovalBody,
        More,
        Vec<u8>,
        Vec<(Actor, u8)>,
        Vec<(EndorsedWith, bool)>,
    );
    let (body, more, others, tried): Read = match body.split_first() {
        Some((&FIFTH, body)) => {
            let (body, mut more, others, tried, rests_on): WithAccounts = whole(body)?;
            for (endorsed, (account, lapsed)) in more.endorsements.iter_mut().zip(rests_on) {
                (endorsed.account, endorsed.lapsed) = (account, lapsed);
            }
            (body, more, others, tried)
        }
        Some((&FOURTH, body)) => whole(body)?,
        Some((&THIRD, body)) => {
            let (body, more, others) = whole(body)?;
            (body, more, others, Vec::new())
        }
        _ => {
            let (body, more) = decode(body)?;
            (body, more, Vec::new(), Vec::new())
        }
    };
    let undoes = body.undoes.map(|(approval, position)| {
        let undoes = Undoes::new(approval, others.into_iter().chain([position]));
        undoes.ok_or_else(|| damaged("it undoes nothing that can be"))
    });
    let state = State::from_code(columns.state).ok_or_else(|| damaged("an unknown state"))?;
    Ok(Approval {
        id: columns.id,
        tenant: columns.tenant,
        channel: columns.channel,
        agent: columns.agent,
        run: columns.run,
        session: body.session,
        requester: body.requester,
        on_behalf_of: body.on_behalf_of,
        claim: body.claim,
        nonce: body.nonce,
        salt: body.salt,
        created_at: body.created_at,
        expires_at: body.expires_at,
        start_within: body.start_within,
        policy: body.policy,
        digest: body.digest,
        state,
        ended_at: body.ended_at,
        changed_at: body.changed_at,
        version: columns.version,
        link: body.link,
        decision: body.decision,
        endorsements: more.endorsements,
        erased_at: more.erased_at,
        superseded_by: body.superseded_by,
        replaces: body.replaces,
        undoes: undoes.transpose()?,
        key: body.key,
        refusals: body.refusals,
        tried,
        calls,
    })
}

/// The columns of a call's row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Call`")]
pub struct CallColumns {
    pub state: i16,
    pub tool: String,
    pub arguments: Vec<u8>,
    pub original: Option<Vec<u8>>,
    pub result: Option<Vec<u8>>,
    pub sealed: Option<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
struct CallBody {
    definition: Option<Hash>,
    revision: u32,
    terms: Arc<Terms>,
    digest: Hash,
    because: Option<Because>,
    execution: Option<Execution>,
    undone_by: Option<(ApprovalId, u8)>,
}

/// The body of a call's row.
pub fn encode_call(call: &Call) -> Vec<u8> {
    let body = CallBody {
        definition: call.definition.hash(),
        revision: call.revision,
        terms: call.terms.clone(),
        digest: call.digest,
        because: call.because.clone(),
        execution: call.execution.clone(),
        undone_by: call.undone_by.map(|call| (call.approval, call.position)),
    };
    let authority = call.terms.authority();
    let facts = Facts::of(call);
    let before = call.before.as_deref().map(seen);
    match (&call.provenance, before) {
        (provenance, before) if call.terms.secret.is_some() => {
            let secret = call.terms.secret.as_deref().unwrap_or_default();
            encode(SIXTH, &(body, authority, provenance, before, facts, secret))
        }
        // As it was read: what of it is secret is still not known.
        (provenance, before) if facts != Facts::default() => {
            encode(FIFTH, &(body, authority, provenance, before, facts))
        }
        (None, None) => encode(SECOND, &(body, authority)),
        (Some(provenance), None) => encode(THIRD, &(body, authority, provenance)),
        (provenance, Some(before)) => encode(FOURTH, &(body, authority, provenance, before)),
    }
}

/// Which facts about a call the gate knows itself. What was written before this was known is the proposer's word.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Facts {
    has_read_definition: bool,
    has_heard_conversation: bool,
}

impl Facts {
    fn of(call: &Call) -> Facts {
        let provenance = call.provenance.as_deref();
        Facts {
            has_read_definition: matches!(call.definition, Definition::Read(_)),
            has_heard_conversation: provenance.is_some_and(|found| found.told_by() == Teller::Gate),
        }
    }

    fn definition(self, hash: Option<Hash>) -> Definition {
        match self.has_read_definition {
            true => Definition::read(hash),
            false => Definition::claimed(hash),
        }
    }

    fn provenance(self, provenance: Arc<Provenance>) -> Arc<Provenance> {
        match self.has_heard_conversation {
            true => Arc::new(Arc::unwrap_or_clone(provenance).by(Teller::Gate)),
            false => provenance,
        }
    }
}

/// A snapshot as it is written.
#[derive(Serialize, Deserialize)]
struct SnapshotBody {
    tool: String,
    arguments: Vec<u8>,
    result: Vec<u8>,
    hash: Hash,
}

fn seen(before: &Snapshot) -> SnapshotBody {
    SnapshotBody {
        tool: before.tool.as_str().to_owned(),
        arguments: before.arguments.as_bytes().to_vec(),
        result: before.result.to_vec(),
        hash: before.hash,
    }
}

fn unseen(body: SnapshotBody) -> Result<Snapshot, BadRecord> {
    Ok(Snapshot {
        tool: ToolName::new(body.tool).map_err(|error| damaged(&error.to_string()))?,
        arguments: Arguments::stored(body.arguments),
        result: body.result.into(),
        hash: body.hash,
    })
}

/// Reads a call's row.
pub fn decode_call(columns: CallColumns, body: &[u8]) -> Result<Call, BadRecord> {
    // What nobody had thought of yet was not asked for, and is not known.
    type Read = (
        CallBody,
        Authority,
        Option<Arc<Provenance>>,
        Option<SnapshotBody>,
        Facts,
        Option<Vec<SecretPath>>,
    );
    let (mut body, authority, provenance, before, facts, secret): Read = match body.split_first() {
        Some((&SIXTH, body)) => {
            let (body, authority, provenance, before, facts, secret) = whole(body)?;
            (body, authority, provenance, before, facts, Some(secret))
        }
        Some((&FIFTH, body)) => {
            let (body, authority, provenance, before, facts) = whole(body)?;
            (body, authority, provenance, before, facts, None)
        }
        Some((&FOURTH, body)) => {
            let (body, authority, provenance, before) = whole(body)?;
            (body, authority, provenance, Some(before), Facts::default(), None)
        }
        Some((&THIRD, body)) => {
            let (body, authority, provenance) = whole(body)?;
            (body, authority, Some(provenance), None, Facts::default(), None)
        }
        _ => {
            let (body, authority) = decode(body)?;
            (body, authority, None, None, Facts::default(), None)
        }
    };
    if secret != body.terms.secret {
        Arc::make_mut(&mut body.terms).secret = secret;
    }
    if authority != body.terms.authority() {
        let risk = body.terms.risk();
        Arc::make_mut(&mut body.terms).stakes = Stakes::stored(risk, authority);
    }
    Ok(Call {
        tool: ToolName::new(columns.tool).map_err(|error| damaged(&error.to_string()))?,
        definition: facts.definition(body.definition),
        arguments: Arguments::stored(columns.arguments),
        original: columns.original.map(Arguments::stored),
        revision: body.revision,
        terms: body.terms,
        digest: body.digest,
        state: CallState::from_code(columns.state).ok_or_else(|| damaged("an unknown state"))?,
        because: body.because,
        execution: body.execution,
        result: columns.result.map(Arc::from),
        sealed: columns.sealed.map(Arc::from),
        undone_by: body
            .undone_by
            .map(|(approval, position)| CallId { approval, position }),
        provenance: provenance.map(|provenance| facts.provenance(provenance)),
        before: before.map(unseen).transpose()?.map(Arc::new),
    })
}

fn encode<T: Serialize>(version: u8, body: &T) -> Vec<u8> {
    // Writing into memory does not fail; an empty body would be refused by `decode`.
    let mut bytes = Vec::with_capacity(400);
    bytes.push(version);
    postcard::to_extend(body, bytes).unwrap_or_default()
}

/// Reads a body of either version.
fn decode<B, M>(bytes: &[u8]) -> Result<(B, M), BadRecord>
where
    B: for<'de> Deserialize<'de>,
    M: for<'de> Deserialize<'de> + Default,
{
    match bytes.split_first() {
        None => Err(damaged("it is empty")),
        Some((&FIRST, body)) => Ok((whole(body)?, M::default())),
        Some((&SECOND, body)) => whole(body),
        Some((version, _)) => Err(BadRecord::Version(*version)),
    }
}

fn whole<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, BadRecord> {
    match postcard::take_from_bytes(bytes) {
        Ok((body, [])) => Ok(body),
        Ok(_) => Err(damaged("something follows it")),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

fn damaged(what: &str) -> BadRecord {
    BadRecord::Damaged(what.to_owned())
}

#[cfg(test)]
mod tests;
