//! Row format of approvals and calls: searched fields are columns, everything else is one compact binary body.
//!
//! Shared by the SQL stores. Each body begins with its version. Later versions only append to what earlier ones wrote,
//! so all versions remain readable.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::approval::{Approval, Decided, Endorsement, EndorsingAccount, Order};
use crate::call::{Arguments, Call, Execution, RefusalReason};
use crate::event::ContentHash;
use crate::hash::{Fields, Hash};
use crate::id::{Actor, Agent, ApprovalId, CallId, Channel, Key, Person, Run, Session, Tenant, ToolName};
use crate::policy::{Authority, Definition, RiskAndAuthority, Terms};
use crate::provenance::{Provenance, Voucher};
use crate::snapshot::Snapshot;
use crate::state::{CallState, State};
use crate::summary::SecretPath;
use crate::time::Time;
use crate::undoes::Undoes;
use crate::working_folder::WorkingFolder;

/// Version 1 has only the first part of a body, which is also the beginning of all later versions.
const V1: u8 = 1;
/// Version 2 appends the endorsements and the time of erasure to an approval, and the authority to a call.
const V2: u8 = 2;
/// Version 3 appends to an approval the other calls that it undoes, and to a call its provenance.
const V3: u8 = 3;
/// Version 4 appends the number of refused decisions per actor to an approval, and the snapshot to a call.
const V4: u8 = 4;
/// Version 5 appends the accounts behind the endorsements to an approval, and to a call the facts that the gate knows
/// first-hand.
const V5: u8 = 5;
/// Version 6 appends the order of its calls to an approval, and the secret paths to a call.
const V6: u8 = 6;
/// Version 7 appends the working folder to a call.
const V7: u8 = 7;

/// Flag in an approval's version byte: the link, which is the hash of the approval's last event, is at the end of the
/// body. Without the flag, it is between [`ApprovalBody`] and [`ApprovalTail`].
const LINKED: u8 = 0x80;
/// Length of a link in bytes.
const LINK: usize = 32;

/// Error for a row that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRecord {
    /// Written by a newer version of this program.
    #[error("a record has version {0}, which this version does not know")]
    Version(u8),
    /// Damaged or truncated.
    #[error("a record cannot be read: {0}")]
    Damaged(String),
}

/// Encoded bodies of all rows of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bodies {
    /// Body of the approval row.
    pub approval: Vec<u8>,
    /// Bodies of the call rows, in order.
    pub calls: Vec<Vec<u8>>,
}

impl Bodies {
    /// Encodes an approval and its calls.
    pub fn of(approval: &Approval) -> Bodies {
        Bodies {
            approval: encode_approval(approval),
            calls: approval.calls.iter().map(encode_call).collect(),
        }
    }

    /// Returns the content hash of the rows of `approval`, which these bodies belong to. `None` only for bodies in the
    /// format from before content hashes existed.
    pub(crate) fn content(&self, approval: &Approval) -> Option<ContentHash> {
        let row = ApprovalRow {
            tenant: approval.tenant.as_str(),
            id: approval.id.as_bytes(),
            channel: approval.channel.as_ref().map(Channel::as_str),
            agent: approval.agent.as_str(),
            run: approval.run.as_ref().map(|run| run.as_str()),
            state: approval.state.code(),
            version: approval.version,
            body: &self.approval,
        };
        let calls = approval.calls.iter().zip(&self.calls);
        let calls = calls.map(|(call, body)| CallRow {
            state: call.state.code(),
            tool: call.tool.as_str(),
            original: call.original.as_ref().map(|original| original.as_bytes()),
            sealed: call.sealed.as_deref(),
            body,
        });
        row.content(calls)
    }

    /// Replaces the link at the end of the approval's body.
    pub(crate) fn put_link(&mut self, link: Hash) {
        if let Some(place) = self.approval.last_chunk_mut() {
            *place = link.0;
        }
    }
}

/// The part of an approval row that its content hash covers. Excludes columns that are derived from these fields, and
/// the link, which is derived from the hash.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are columns")]
pub struct ApprovalRow<'a> {
    pub tenant: &'a str,
    pub id: &'a [u8],
    pub channel: Option<&'a str>,
    pub agent: &'a str,
    pub run: Option<&'a str>,
    pub state: i16,
    pub version: u32,
    pub body: &'a [u8],
}

/// The part of a call row that the content hash covers. The arguments are covered by the digest in the body, the result
/// by a hash in an event.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are columns")]
pub struct CallRow<'a> {
    pub state: i16,
    pub tool: &'a str,
    pub original: Option<&'a [u8]>,
    pub sealed: Option<&'a [u8]>,
    pub body: &'a [u8],
}

impl ApprovalRow<'_> {
    /// Returns the hash of this row and its call rows, in order; `None` for a row written before content hashes
    /// existed.
    pub fn content<'c>(&self, calls: impl Iterator<Item = CallRow<'c>>) -> Option<ContentHash> {
        let is_linked = self.body.first().is_some_and(|version| version & LINKED != 0);
        let (body, _) = self.body.split_last_chunk::<LINK>().filter(|_| is_linked)?;
        let fields = Fields::new("countersign/rows/1")
            .field(self.tenant.as_bytes())
            .field(self.id)
            .optional(self.channel.map(str::as_bytes))
            .field(self.agent.as_bytes())
            .optional(self.run.map(str::as_bytes))
            .number(self.state as u64)
            .number(self.version.into())
            .field(body);
        let all = calls.fold(fields, |fields, call| {
            fields
                .number(call.state as u64)
                .field(call.tool.as_bytes())
                .optional(call.original)
                .optional(call.sealed)
                .field(call.body)
        });
        let Hash(hash) = all.finish();
        hash.first_chunk().copied().map(ContentHash)
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

/// First fields of an approval's body. In rows without the flag [`LINKED`], the link follows.
#[derive(Deserialize)]
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
}

/// Second part of an approval's body, with the fields about its decision and its relations to other approvals.
#[derive(Deserialize)]
struct ApprovalTail {
    decision: Option<Decided>,
    superseded_by: Option<ApprovalId>,
    replaces: Option<ApprovalId>,
    undoes: Option<(ApprovalId, u8)>,
    key: Option<(Key, Hash)>,
    refusals: u8,
}

/// Fields that version 2 added to an approval's body.
#[derive(Default, Deserialize)]
struct More {
    endorsements: Vec<Endorsement>,
    erased_at: Option<Time>,
}

/// Encodes the body of an approval row.
pub fn encode_approval(approval: &Approval) -> Vec<u8> {
    let mut body = encode_with_link(approval, (), LINKED);
    body.extend_from_slice(&approval.link.0);
    body
}

/// Encodes a body with `link` between its first and second part; `()` puts nothing there. Picks the lowest version that
/// holds all fields.
fn encode_with_link(approval: &Approval, link: impl Serialize, flags: u8) -> Vec<u8> {
    let body = (
        &approval.session,
        &approval.requester,
        &approval.on_behalf_of,
        &approval.claim,
        &approval.nonce,
        &approval.salt,
        approval.created_at,
        approval.expires_at,
        approval.start_within,
        approval.policy,
        approval.digest,
        approval.ended_at,
        approval.changed_at,
    );
    let undoes = approval.undoes;
    let first_undone = undoes.and_then(|undoes| Some((undoes.approval, undoes.by(1)?.position)));
    let tail = (
        &approval.decision,
        approval.superseded_by,
        approval.replaces,
        first_undone,
        &approval.key,
        approval.refusals,
    );
    let more = (&approval.endorsements, approval.erased_at);
    let undone = undoes.into_iter().flat_map(Undoes::positions);
    let others: Vec<u8> = undone.skip(1).collect();
    let rests_on = approval.endorsements.iter();
    let rests_on: Vec<(&EndorsingAccount, bool)> = rests_on
        .map(|endorsed| (&endorsed.account, endorsed.lapsed))
        .collect();
    let tried = &approval.tried;
    if approval.order != Order::Given {
        let order = approval.order;
        return encode(
            V6 | flags,
            &(body, link, tail, more, others, tried, rests_on, order),
        );
    }
    if !rests_on.is_empty() {
        return encode(V5 | flags, &(body, link, tail, more, others, tried, rests_on));
    }
    match (others.is_empty(), tried.is_empty()) {
        (true, true) => encode(V2 | flags, &(body, link, tail, more)),
        (false, true) => encode(V3 | flags, &(body, link, tail, more, others)),
        (_, false) => encode(V4 | flags, &(body, link, tail, more, others, tried)),
    }
}

/// Decodes an approval row.
pub fn decode_approval(
    columns: ApprovalColumns,
    body: &[u8],
    calls: Vec<Call>,
) -> Result<Approval, BadRecord> {
    let Some((&version, rest)) = body.split_first() else {
        return Err(damaged("it is empty"));
    };
    let is_linked = version & LINKED != 0;
    let number = version & !LINKED;
    if !(V1..=V6).contains(&number) {
        return Err(BadRecord::Version(number));
    }
    let (mut rest, link) = match (is_linked, rest.split_last_chunk::<LINK>()) {
        (false, _) => (rest, None),
        (true, Some((rest, link))) => (rest, Some(Hash(*link))),
        (true, None) => return Err(damaged("it has no link")),
    };
    let body: ApprovalBody = take(&mut rest)?;
    let link = link.map_or_else(|| take(&mut rest), Ok)?;
    let tail: ApprovalTail = take(&mut rest)?;
    let mut more: More = take_from(V2, number, &mut rest)?;
    let others: Vec<u8> = take_from(V3, number, &mut rest)?;
    let tried: Vec<(Actor, u8)> = take_from(V4, number, &mut rest)?;
    let rests_on: Vec<(EndorsingAccount, bool)> = take_from(V5, number, &mut rest)?;
    let order: Order = take_from(V6, number, &mut rest)?;
    if !rest.is_empty() {
        return Err(damaged("something follows it"));
    }
    for (endorsed, (account, lapsed)) in more.endorsements.iter_mut().zip(rests_on) {
        (endorsed.account, endorsed.lapsed) = (account, lapsed);
    }
    let undoes = tail.undoes.map(|(approval, position)| {
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
        link,
        decision: tail.decision,
        endorsements: more.endorsements,
        erased_at: more.erased_at,
        superseded_by: tail.superseded_by,
        replaces: tail.replaces,
        undoes: undoes.transpose()?,
        key: tail.key,
        refusals: tail.refusals,
        tried,
        order,
        calls,
    })
}

/// Decodes the next part of a body and advances `rest`.
fn take<'b, T: Deserialize<'b>>(rest: &mut &'b [u8]) -> Result<T, BadRecord> {
    let (part, behind) = postcard::take_from_bytes(rest).map_err(|error| damaged(&error.to_string()))?;
    *rest = behind;
    Ok(part)
}

/// Decodes a part that exists from version `since` on; returns the default for older versions.
fn take_from<'b, T: Deserialize<'b> + Default>(
    since: u8,
    version: u8,
    rest: &mut &'b [u8],
) -> Result<T, BadRecord> {
    match version >= since {
        true => take(rest),
        false => Ok(T::default()),
    }
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
    because: Option<RefusalReason>,
    execution: Option<Execution>,
    undone_by: Option<(ApprovalId, u8)>,
}

/// Encodes the body of a call row, in the lowest version that holds all fields.
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
    let before = call.before.as_deref().map(encode_snapshot);
    match (&call.provenance, before) {
        (provenance, before) if call.working_folder.is_some() => {
            let secret = call.terms.secret.as_deref();
            let folder = call.working_folder.as_deref();
            encode(V7, &(body, authority, provenance, before, facts, secret, folder))
        }
        (provenance, before) if call.terms.secret.is_some() => {
            let secret = call.terms.secret.as_deref().unwrap_or_default();
            encode(V6, &(body, authority, provenance, before, facts, secret))
        }
        // A row from before version 6: it stays unknown which parts are secret.
        (provenance, before) if facts != Facts::default() => {
            encode(V5, &(body, authority, provenance, before, facts))
        }
        (None, None) => encode(V2, &(body, authority)),
        (Some(provenance), None) => encode(V3, &(body, authority, provenance)),
        (provenance, Some(before)) => encode(V4, &(body, authority, provenance, before)),
    }
}

/// Facts about a call that the gate knows first-hand. In rows without them, everything counts as the proposer's claim.
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
            has_heard_conversation: provenance.is_some_and(|found| found.vouched_by() == Voucher::Gate),
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
            true => Arc::new(Arc::unwrap_or_clone(provenance).by(Voucher::Gate)),
            false => provenance,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SnapshotBody {
    tool: String,
    arguments: Vec<u8>,
    result: Vec<u8>,
    hash: Hash,
}

fn encode_snapshot(before: &Snapshot) -> SnapshotBody {
    SnapshotBody {
        tool: before.tool.as_str().to_owned(),
        arguments: before.arguments.as_bytes().to_vec(),
        result: before.result.to_vec(),
        hash: before.hash,
    }
}

fn decode_snapshot(body: SnapshotBody) -> Result<Snapshot, BadRecord> {
    Ok(Snapshot {
        tool: ToolName::new(body.tool).map_err(|error| damaged(&error.to_string()))?,
        arguments: Arguments::stored(body.arguments),
        result: body.result.into(),
        hash: body.hash,
    })
}

/// Decodes a call row.
pub fn decode_call(columns: CallColumns, body: &[u8]) -> Result<Call, BadRecord> {
    // Parts that an older version lacks get defaults: no special authority is required, and everything else is unknown.
    type Read = (
        CallBody,
        Authority,
        Option<Arc<Provenance>>,
        Option<SnapshotBody>,
        Facts,
        Option<Vec<SecretPath>>,
        Option<WorkingFolder>,
    );
    let (mut body, authority, provenance, before, facts, secret, folder): Read = match body.split_first() {
        Some((&V7, body)) => whole(body)?,
        Some((&V6, body)) => {
            let (body, authority, provenance, before, facts, secret) = whole(body)?;
            (body, authority, provenance, before, facts, Some(secret), None)
        }
        Some((&V5, body)) => {
            let (body, authority, provenance, before, facts) = whole(body)?;
            (body, authority, provenance, before, facts, None, None)
        }
        Some((&V4, body)) => {
            let (body, authority, provenance, before) = whole(body)?;
            (
                body,
                authority,
                provenance,
                Some(before),
                Facts::default(),
                None,
                None,
            )
        }
        Some((&V3, body)) => {
            let (body, authority, provenance) = whole(body)?;
            (
                body,
                authority,
                Some(provenance),
                None,
                Facts::default(),
                None,
                None,
            )
        }
        _ => {
            let (body, authority) = decode(body)?;
            (body, authority, None, None, Facts::default(), None, None)
        }
    };
    if secret != body.terms.secret {
        Arc::make_mut(&mut body.terms).secret = secret;
    }
    if authority != body.terms.authority() {
        let risk = body.terms.risk();
        Arc::make_mut(&mut body.terms).stakes = RiskAndAuthority::stored(risk, authority);
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
        before: before.map(decode_snapshot).transpose()?.map(Arc::new),
        working_folder: folder.map(Arc::new),
    })
}

fn encode<T: Serialize>(version: u8, body: &T) -> Vec<u8> {
    // Serializing into memory cannot fail; if it did, `decode` would reject the empty body.
    let mut bytes = Vec::with_capacity(400);
    bytes.push(version);
    postcard::to_extend(body, bytes).unwrap_or_default()
}

/// Decodes a body of version 1 or 2.
fn decode<B, M>(bytes: &[u8]) -> Result<(B, M), BadRecord>
where
    B: for<'de> Deserialize<'de>,
    M: for<'de> Deserialize<'de> + Default,
{
    match bytes.split_first() {
        None => Err(damaged("it is empty")),
        Some((&V1, body)) => Ok((whole(body)?, M::default())),
        Some((&V2, body)) => whole(body),
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
