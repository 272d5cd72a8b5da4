//! Sample proposals, decisions and runs. All of them derive from small numbers, so tests are repeatable.

use std::sync::Arc;
use std::time::Duration;

use crate::approval::{Approval, Order};
use crate::call::Arguments;
use crate::command::{Decide, Finish, NewCall, Propose, Reconcile, Revision, Start, Sweep, Withdraw};
use crate::decision::{Choice, Decider, Decision, Surface, Verdict};
use crate::effect::{Effect, Risk};
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::{Actor, Agent, ApprovalId, CallId, Channel, Key, Person, Run, Session, Tenant, ToolName};
use crate::policy::{Authority, Definition, OnFailure, RiskAndAuthority, Terms, Undoable};
use crate::provenance::{
    Coverage, Derivation, Derived, Mark, MatchKind, Part, Provenance, Quote, ToolQuote, Traced,
};
use crate::registry::{Entry, Kind};
use crate::snapshot::Snapshot;
use crate::time::Time;

/// Initial time of test clocks: 1 January 2026.
pub const BEGINNING: Time = Time::from_micros(1_767_225_600_000_000);

/// Time within which a sample approval must be decided.
pub const TTL: Duration = Duration::from_secs(300);

/// Time within which a sample call must be started, after the decision or the end of the previous call.
pub const START_WITHIN: Duration = Duration::from_secs(120);

/// Time limit for the run of a sample call.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Sweep limit that no test reaches.
pub const SWEEP_ALL: usize = 100_000;

/// Returns the tenant of all samples.
pub fn tenant() -> Tenant {
    tenant_named("acme")
}

/// Creates a tenant with this name.
pub fn tenant_named(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// Creates a channel; panics if the name is invalid.
pub fn channel(name: &str) -> Channel {
    Channel::new(name).unwrap()
}

/// Creates an agent with this name; samples are proposed by `crm`.
pub fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap()
}

/// Creates a person with this name; samples can be decided by `alice`, and by the group `ops`.
pub fn person(name: &str) -> Person {
    Person::new(name).unwrap()
}

/// Creates a run with this name.
pub fn run(name: &str) -> Run {
    Run::new(name).unwrap()
}

/// Creates a session with this name.
pub fn session(name: &str) -> Session {
    Session::new(name).unwrap()
}

/// Creates an idempotency key with the hash of its request body.
pub fn key(name: &str, body: &str) -> (Key, Hash) {
    (Key::new(name).unwrap(), Hash::of(body.as_bytes()))
}

/// Returns the hash of the policy that all samples use.
pub fn policy() -> Hash {
    Hash::of(b"the sample policy")
}

/// Returns the hash of permit token number `n`.
pub fn permit(n: u64) -> Hash {
    Hash::of(format!("permit {n}").as_bytes())
}

/// Returns approval id number `n`. Higher numbers are newer.
pub fn id(n: u64) -> ApprovalId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    let millis = u64::try_from(BEGINNING.as_micros() / 1000).unwrap();
    ApprovalId::from_parts(millis + n, &random)
}

/// Creates terms under which `alice` and the group `ops` may decide, and a failure stops the batch.
pub fn terms() -> Terms {
    Terms {
        effect: Effect::Write,
        stakes: RiskAndAuthority::stored(Risk::Medium, Authority::default()),
        summary: "Create contact Maria Garcia".to_owned(),
        yes: Some("Sí, crear".to_owned()),
        no: None,
        ttl: TTL,
        start_within: Some(START_WITHIN),
        timeout: TIMEOUT,
        approvers: vec!["alice".to_owned(), "ops".to_owned()],
        on_failure: OnFailure::Stop,
        undo: Undoable::Yes,
        notes: Vec::new(),
        secret: None,
    }
}

/// Creates terms that demand this authority of approvers.
pub fn terms_asking(authority: Authority) -> Terms {
    Terms {
        stakes: RiskAndAuthority::stored(Risk::Medium, authority),
        ..terms()
    }
}

/// Creates terms under which only these people and groups may decide.
pub fn terms_for(approvers: &[&str]) -> Terms {
    Terms {
        approvers: approvers.iter().map(|&name| name.to_owned()).collect(),
        ..terms()
    }
}

/// Parses arguments from JSON text. Panics if the text is not valid.
pub fn arguments(text: &str) -> Arguments {
    Arguments::parse(text.as_bytes()).unwrap()
}

/// Creates a provenance with one mark of every kind.
pub fn provenance() -> Arc<Provenance> {
    let quote = |words: &str| Quote {
        message: 1,
        span: Some((2, 7)),
        words: words.to_owned(),
        how: MatchKind::Number,
    };
    let marks = [
        Mark::Unknown,
        Mark::Person(quote("1,200")),
        Mark::Tool(ToolQuote {
            name: "find_contact".to_owned(),
            is_outside: true,
            pointer: Some("/0/email".to_owned()),
            quote: quote("maria@acme.com"),
        }),
        Mark::Default,
        Mark::Derived(Derived {
            how: Derivation::Sum,
            parts: vec![Part {
                tool: Some("orders".to_owned()),
                is_outside: false,
                words: "1 + 2".to_owned(),
            }],
            unstated: vec!["enjoy".to_owned()],
        }),
        Mark::Invented { agent_said_it: true },
    ];
    let leaves = marks.into_iter().enumerate().map(|(at, mark)| Traced {
        pointer: format!("/{at}"),
        mark,
    });
    Arc::new(Provenance::new(leaves.collect(), Coverage::Recent))
}

/// Creates a snapshot of page `p1` with this content.
pub fn snapshot(result: &str) -> Snapshot {
    let tool = ToolName::new("get_page").unwrap();
    Snapshot::new(tool, arguments(r#"{"id":"p1"}"#), result.as_bytes().into())
}

/// Creates a call bound to a snapshot with this content.
pub fn call_over(text: &str, result: &str) -> NewCall {
    NewCall {
        before: Some(Arc::new(snapshot(result))),
        ..call(text)
    }
}

/// Creates a call with these arguments and terms and a sealed credential.
pub fn call_under(text: &str, terms: Terms) -> NewCall {
    NewCall {
        tool: ToolName::new("create_contact").unwrap(),
        definition: Definition::Claimed(Hash::of(b"definition")),
        arguments: arguments(text),
        terms: Arc::new(terms),
        sealed: Some(Arc::from(&b"sealed bytes"[..])),
        provenance: None,
        before: None,
        working_folder: None,
    }
}

/// Creates a call with these arguments and the default terms.
pub fn call(text: &str) -> NewCall {
    call_under(text, terms())
}

/// Creates proposal number `n`: one call, no channel, no key.
pub fn propose(n: u64) -> Propose {
    Propose {
        tenant: tenant(),
        id: id(n),
        channel: None,
        agent: agent("crm"),
        run: None,
        session: None,
        requester: person("token-7"),
        on_behalf_of: None,
        claim: None,
        nonce: [3; 16],
        salt: [7; 16],
        ttl: TTL,
        start_within: START_WITHIN,
        policy: policy(),
        undoes: None,
        key: None,
        restraint: None,
        is_shared: false,
        passes: None,
        order: Order::Given,
        calls: vec![call(&format!("{{\"n\":{n}}}"))],
    }
}

/// Like [`propose`], in a channel.
pub fn propose_in(n: u64, name: &str) -> Propose {
    Propose {
        channel: Some(channel(name)),
        ..propose(n)
    }
}

/// Like [`propose`], with `calls` calls under these terms.
pub fn batch_under(n: u64, calls: usize, terms: &Terms) -> Propose {
    let call = |position| call_under(&format!("{{\"n\":{n},\"position\":{position}}}"), terms.clone());
    Propose {
        calls: (1..=calls).map(call).collect(),
        ..propose(n)
    }
}

/// Like [`propose`], with `calls` calls.
pub fn batch(n: u64, calls: usize) -> Propose {
    batch_under(n, calls, &terms())
}

/// Creates a decision by a person without groups on the inbox page, about the approval exactly as shown.
pub fn decide_as(name: &str, approval: &Approval, verdict: Verdict) -> Decide {
    let edits = match &verdict {
        Verdict::Each(choices) => choices.as_slice(),
        _ => &[],
    };
    let revision = |(choice, call): (&Choice, &crate::call::Call)| match choice {
        Choice::Edit(arguments) => Some(Revision {
            arguments: arguments.clone(),
            terms: call.terms.clone(),
        }),
        _ => None,
    };
    Decide {
        revisions: edits.iter().zip(&approval.calls).filter_map(revision).collect(),
        decision: Decision::on(
            approval.tenant.clone(),
            crate::card::WholeCard::shown(approval),
            Decider::new(person(name), Vec::new(), Surface::Page),
            verdict,
        ),
        policy: policy(),
        body: Hash::of(b"the body of a decision"),
        start: None,
        cool_down: None,
        shown_under: None,
        runs: None,
    }
}

/// Creates a decision by `alice`.
pub fn decide(approval: &Approval, verdict: Verdict) -> Decide {
    decide_as("alice", approval, verdict)
}

/// Creates a decision by `alice` that approves all calls.
pub fn approve(approval: &Approval) -> Decide {
    decide(approval, Verdict::Approve)
}

/// Creates a decision by `alice` that denies all calls.
pub fn deny(approval: &Approval) -> Decide {
    decide(approval, Verdict::Deny)
}

/// Adds an idempotency key to a decision, with the hash of `body` as that of its request.
pub fn keyed(mut decide: Decide, name: &str, body: &str) -> Decide {
    let (key, body) = key(name, body);
    decide.decision.key = Some(key);
    decide.body = body;
    decide
}

/// Creates the command by which the proposing agent withdraws the approval.
pub fn withdraw(approval: &Approval) -> Withdraw {
    Withdraw {
        tenant: approval.tenant.clone(),
        approval: approval.id,
        by: Actor::Agent(approval.agent.clone()),
        reason: None,
        policy: policy(),
    }
}

/// Returns the id of the call at this position.
pub fn call_id(approval: &Approval, position: u8) -> CallId {
    CallId {
        approval: approval.id,
        position,
    }
}

/// Creates the command that starts a call with permit number `n`.
pub fn start(approval: &Approval, position: u8, n: u64) -> Start {
    Start {
        tenant: approval.tenant.clone(),
        call: call_id(approval, position),
        permit: permit(n),
        policy: policy(),
        snapshot: None,
        replacement: None,
        is_repeatable: false,
    }
}

/// Creates the command that finishes a call with permit number `n`.
pub fn finish(approval: &Approval, position: u8, n: u64, outcome: Outcome) -> Finish {
    Finish {
        tenant: approval.tenant.clone(),
        call: call_id(approval, position),
        permit: permit(n),
        outcome,
        policy: policy(),
        start_next: None,
        late: false,
    }
}

/// Creates the command by which `alice` reconciles a call.
pub fn reconcile(approval: &Approval, position: u8, succeeded: bool) -> Reconcile {
    Reconcile {
        tenant: approval.tenant.clone(),
        call: call_id(approval, position),
        by: person("alice"),
        succeeded,
        note: Some(Arc::from(&b"looked it up"[..])),
        policy: policy(),
    }
}

/// Creates the command for a sweep of up to `limit` approvals.
pub fn sweep(limit: usize) -> Sweep {
    Sweep {
        limit,
        policy: policy(),
    }
}

/// Creates a new registry entry without expiry.
pub fn entry(kind: Kind, key: &str) -> Entry {
    Entry {
        kind,
        key: key.to_owned(),
        tenant: tenant(),
        body: Arc::from(&b"what it says"[..]),
        version: 0,
        expires_at: None,
    }
}
