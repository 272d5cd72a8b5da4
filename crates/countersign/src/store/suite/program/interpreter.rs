//! Runs a program on a store.
//!
//! Programs share a store. Each has its own tenants and ids, and starts at a much later time than the previous one. A
//! program first sweeps what the previous one left behind, because a sweep affects all tenants.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::invariants::Watch;
use super::transcript::{describe, normal};
use super::{
    Approvers, Asking, Digest, Ending, Look, Over, Pause, Program, SampleKey, Saying, Step, Taker, Target,
    Version, Who,
};
use crate::approval::{Approval, Order, SharedApproval};
use crate::command::{
    Answer, Command, Decide, Erase, ExecuteRefusal, Finish, NewCall, Propose, PutEntry, SnapshotCheck, Start,
    Swept, TakeEntry,
};
use crate::decision::{Assurance, Choice, Surface, Verdict};
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::{Actor, ApprovalId, Tenant};
use crate::policy::{Authority, OnFailure, Terms};
use crate::registry::{Entry, Kind};
use crate::snapshot::Snapshot;
use crate::state::{CallState, State};
use crate::store::suite::{Fixture, sample};
use crate::store::{Cursor, Filter};

/// Longer than any deadline in a program.
const HOUR: Duration = Duration::from_secs(3600);

/// Runs a program and returns its transcript, one line per step. The transcript does not depend on the store.
///
/// # Panics
/// When an invariant breaks.
pub async fn run(program: &Program, fixture: &Fixture) -> Vec<String> {
    run_as(fixture.next_program(), program, fixture).await
}

/// Runs a program on all fixtures and compares their transcripts with the first one's.
///
/// # Panics
/// When stores disagree or an invariant breaks.
pub async fn run_on_all(fixtures: &[&Fixture], program: &Program) {
    let serial = fixtures.iter().map(|fixture| fixture.next_program()).max();
    // Concurrently, because durable stores mostly wait for their disk.
    let runs = fixtures
        .iter()
        .map(|fixture| run_as(serial.unwrap_or(0), program, fixture));
    let transcripts = join_all(runs).await;
    let Some((first, others)) = transcripts.split_first() else {
        return;
    };
    for (number, other) in (2..).zip(others) {
        for (step, (expected, found)) in (1..).zip(first.iter().zip(other)) {
            assert_eq!(
                found, expected,
                "store {number} differs from store 1 at step {step}"
            );
        }
        assert_eq!(other.len(), first.len(), "store {number}");
    }
}

async fn run_as(serial: u64, program: &Program, fixture: &Fixture) -> Vec<String> {
    fixture.begin_program(serial);
    let start = sample::BEGINNING.plus(HOUR * 30 * u32::try_from(serial).unwrap());
    sweep_leftovers(fixture, start).await;
    let mut world = World {
        fixture,
        serial,
        step: 0,
        approvals: Vec::new(),
        page: 0,
        watch: Watch::default(),
    };
    let mut transcript = Vec::with_capacity(program.0.len() + 1);
    for (number, step) in (1..).zip(&program.0) {
        world.step = number;
        transcript.push(world.take(step).await);
    }
    transcript.push(world.look_at_all().await);
    transcript
}

async fn sweep_leftovers(fixture: &Fixture, start: crate::time::Time) {
    for round in 0..20 {
        // Advances an hour per round, because a sweep can leave something that is due later.
        fixture.clock.set(start.plus(HOUR * round));
        let answer = fixture
            .store
            .write(Command::Sweep(sample::sweep(sample::SWEEP_ALL)))
            .await;
        if matches!(answer.unwrap(), Answer::Sweep(swept) if swept == Swept::default()) {
            fixture.clock.set(start.plus(HOUR * 21));
            return;
        }
    }
    panic!("there is always something to sweep");
}

struct World<'a> {
    fixture: &'a Fixture,
    serial: u64,
    step: u64,
    approvals: Vec<(Tenant, ApprovalId)>,
    /// Content of the page, 0 to 2.
    page: u8,
    watch: Watch,
}

impl World<'_> {
    async fn take(&mut self, step: &Step) -> String {
        // Each step has its own timestamp, so that stores need not agree on the order of events with the same time.
        self.fixture.advance(Duration::from_micros(1));
        let Some(command) = self.command(step).await else {
            return format!("{step:?}");
        };
        self.watch.before(&command, self.page_now().hash);
        // Only the kind of an error is compared: its wording differs between stores.
        let answer = match self.fixture.store.write(command.clone()).await {
            Ok(answer) => answer,
            Err(error) => return format!("{step:?}: {}", error.hint()),
        };
        if let Answer::Propose(Ok(proposed)) = &answer
            && !proposed.repeated
        {
            let approval = &proposed.approval;
            self.approvals.push((approval.tenant.clone(), approval.id));
        }
        self.watch.answered(step, &command, &answer);
        self.check_touched(&answer).await;
        self.check_refused(&command, &answer).await;
        format!("{step:?}: {}", normal(&answer))
    }

    /// Verifies the changed approvals against their events; after a sweep or an erasure, all of them.
    async fn check_touched(&mut self, answer: &Answer) {
        let touched: Vec<(Tenant, ApprovalId)> = match crate::store::suite::fixture::answered(answer) {
            Some(approval) => {
                let stored = self.fixture.get(approval).await;
                assert_eq!(stored, *approval, "what is stored is what was answered");
                let others = [approval.replaces, approval.undoes.map(|call| call.approval)];
                let ids = others.into_iter().flatten().chain([approval.id]);
                ids.map(|id| (approval.tenant.clone(), id)).collect()
            }
            None if matches!(answer, Answer::Sweep(_) | Answer::Erase(_)) => self.approvals.clone(),
            None => Vec::new(),
        };
        for (tenant, id) in touched {
            self.look(&tenant, id).await;
        }
    }

    /// X22: checks that a call whose snapshot has changed was refused, and proposed again unless another approval is
    /// pending in its channel.
    async fn check_refused(&mut self, command: &Command, answer: &Answer) {
        let (
            Command::Start(start),
            Answer::Start(Err(ExecuteRefusal::NotAsShown {
                call,
                because,
                successor,
            })),
        ) = (command, answer)
        else {
            return;
        };
        let refused = self.look(&start.tenant, call.approval).await;
        let state = refused
            .call(call.position)
            .map(|call| (call.state, call.because.clone()));
        assert_eq!(state, Some((CallState::Refused, Some(because.clone()))), "X22");
        let Some(successor) = successor else {
            let is_free = match &refused.channel {
                Some(channel) => {
                    let pending = self.fixture.store.pending_in(&start.tenant, channel).await;
                    pending.unwrap().is_none()
                }
                None => true,
            };
            assert!(
                !is_free || start.replacement.is_none(),
                "X22: nobody is asked instead of {call}"
            );
            return;
        };
        self.approvals.push((start.tenant.clone(), *successor));
        let asked = self.look(&start.tenant, *successor).await;
        assert_eq!(
            (asked.state, asked.replaces),
            (State::Pending, Some(refused.id)),
            "X22"
        );
        let shown = asked.call(1).and_then(|call| call.before.as_ref());
        assert_eq!(shown.map(|before| before.hash), Some(self.page_now().hash), "X22");
    }

    async fn look(&mut self, tenant: &Tenant, id: ApprovalId) -> SharedApproval {
        let approval = self.fixture.find(tenant, id).await.expect("it is there");
        let events = self.fixture.store.events(tenant, id).await.unwrap();
        self.watch.saw(&approval, &events);
        if let Some(channel) = &approval.channel {
            let filter = Filter {
                channel: Some(channel.clone()),
                limit: Some(usize::MAX),
                ..Filter::default()
            };
            let listed = self.fixture.store.list(tenant, &filter).await.unwrap();
            let pending = self.fixture.store.pending_in(tenant, channel).await.unwrap();
            let now = self.fixture.store.now().await.unwrap();
            Watch::saw_channel(&listed, pending.as_deref(), now);
        }
        approval
    }

    async fn look_at_all(&mut self) -> String {
        let mut lines = Vec::new();
        let mut counts: HashMap<Tenant, usize> = HashMap::new();
        for (tenant, id) in self.approvals.clone() {
            let approval = self.look(&tenant, id).await;
            lines.push(describe(&approval));
            *counts.entry(tenant).or_default() += usize::try_from(approval.version).unwrap();
        }
        for n in 0..2 {
            let tenant = self.tenant(n);
            let filter = Filter {
                limit: Some(usize::MAX),
                ..Filter::pending()
            };
            let pending = self.fixture.store.list(&tenant, &filter).await.unwrap();
            let pending: Vec<ApprovalId> = pending.iter().map(|approval| approval.id).collect();
            let count = counts.get(&tenant).copied().unwrap_or(0);
            let feed = self.fixture.feed(&tenant, Cursor::default(), count).await;
            let mut feed: Vec<_> = feed
                .iter()
                .map(|place| (place.approval, place.event.number, place.event.link))
                .collect();
            // The order within a transaction differs between stores.
            feed.sort_unstable();
            lines.push(format!("pending {pending:?}, feed {feed:?}"));
        }
        lines.join("\n")
    }

    fn tenant(&self, n: u8) -> Tenant {
        sample::tenant_named(&format!("program {} tenant {n}", self.serial))
    }

    fn fresh_id(&self) -> ApprovalId {
        sample::id(self.serial * 1000 + self.step)
    }

    /// Returns the current approval that a step refers to; `None` if there is none. For a foreign target, its tenant is
    /// replaced with another one.
    async fn target(&self, target: Target) -> Option<SharedApproval> {
        let count = self.approvals.len();
        let back = usize::from(target.back) % count.max(1);
        let (tenant, id) = self.approvals.get(count.checked_sub(1 + back)?)?;
        let approval = self.fixture.find(tenant, *id).await?;
        if !target.foreign {
            return Some(approval);
        }
        let mut foreign = Approval::clone(&approval);
        foreign.tenant = match *tenant == self.tenant(0) {
            true => self.tenant(1),
            false => self.tenant(0),
        };
        Some(Arc::new(foreign))
    }

    async fn command(&mut self, step: &Step) -> Option<Command> {
        let permit = self.serial * 1000 + self.step;
        Some(match step {
            Step::Propose { .. } => Command::Propose(Box::new(self.propose(step)?)),
            Step::Undo { of, call } => {
                let target = self.target(*of).await?;
                Command::Propose(Box::new(Propose {
                    tenant: target.tenant.clone(),
                    undoes: Some(sample::call_id(&target, *call).into()),
                    id: self.fresh_id(),
                    ..sample::propose(self.step)
                }))
            }
            Step::Decide { on, .. } => {
                let approval = self.target(*on).await?;
                Command::Decide(Box::new(decide(step, &approval, permit)?))
            }
            Step::Withdraw { on, by } => {
                let approval = self.target(*on).await?;
                let mut withdraw = sample::withdraw(&approval);
                match by {
                    Taker::ItsAgent => {}
                    Taker::OtherAgent => withdraw.by = Actor::Agent(sample::agent("nobody's")),
                    Taker::Person => withdraw.by = Actor::Person(sample::person("maria")),
                }
                Command::Withdraw(withdraw)
            }
            Step::Start { on, call, look } => {
                let approval = self.target(*on).await?;
                Command::Start(self.start(&approval, *call, *look, permit))
            }
            Step::ChangePage => {
                self.page = (self.page + 1) % 3;
                return None;
            }
            Step::Finish { on, .. } => Command::Finish(finish(step, &*self.target(*on).await?, permit)?),
            Step::Reconcile { on, call, succeeded } => {
                let approval = self.target(*on).await?;
                Command::Reconcile(sample::reconcile(&approval, *call, *succeeded))
            }
            Step::Sweep => Command::Sweep(sample::sweep(sample::SWEEP_ALL)),
            Step::PutEntry { .. } => Command::PutEntry(PutEntry(self.entry(step).await?)),
            Step::Erase { on } => {
                let approval = self.target(*on).await?;
                Command::Erase(Erase {
                    tenant: approval.tenant.clone(),
                    approval: approval.id,
                    before: self.fixture.store.now().await.unwrap(),
                    by: Actor::Gate,
                    policy: sample::policy(),
                })
            }
            Step::TakeEntry { key } => Command::TakeEntry(TakeEntry {
                kind: Kind::Link,
                key: self.entry_key(*key),
            }),
            Step::Advance(pause) => {
                self.fixture.advance(match pause {
                    Pause::Microsecond => Duration::from_micros(1),
                    Pause::Moment => Duration::from_secs(1),
                    Pause::Timeout => sample::TIMEOUT,
                    Pause::StartWithin => sample::START_WITHIN,
                    Pause::Ttl => sample::TTL,
                });
                return None;
            }
        })
    }

    fn page_now(&self) -> Snapshot {
        sample::snapshot(&format!("{{\"page\":{}}}", self.page))
    }

    /// Builds a start as the gate does: with the snapshot found, and a replacement proposal in case the snapshot has
    /// changed.
    fn start(&self, approval: &Approval, position: u8, look: Look, permit: u64) -> Start {
        let start = sample::start(approval, position, permit);
        let shown = approval.call(position).filter(|call| call.before.is_some());
        let (Some(call), false) = (shown, matches!(look, Look::NotAtAll)) else {
            return start;
        };
        if matches!(look, Look::InVain) {
            let snapshot = Some(SnapshotCheck::Unreadable);
            return Start { snapshot, ..start };
        }
        let found = self.page_now();
        let snapshot = Some(SnapshotCheck::Read(found.hash));
        let replacement = Propose {
            tenant: approval.tenant.clone(),
            id: self.fresh_id(),
            agent: approval.agent.clone(),
            channel: approval.channel.clone(),
            on_behalf_of: approval.on_behalf_of.clone(),
            calls: vec![NewCall {
                tool: call.tool.clone(),
                definition: call.definition,
                arguments: call.arguments.clone(),
                terms: call.terms.clone(),
                sealed: call.sealed.clone(),
                provenance: call.provenance.clone(),
                before: Some(Arc::new(found)),
                working_folder: None,
            }],
            ..sample::propose(self.step)
        };
        let replacement = Some(Box::new(replacement));
        Start {
            snapshot,
            replacement,
            ..start
        }
    }

    fn entry_key(&self, n: u8) -> String {
        format!("program {} key {n}", self.serial)
    }

    async fn entry(&self, step: &Step) -> Option<Entry> {
        let Step::PutEntry {
            tenant,
            key,
            version,
            expires,
        } = step
        else {
            return None;
        };
        let key = self.entry_key(*key);
        let stored = self.fixture.store.entry(Kind::Link, &key).await.unwrap();
        let stored = stored.map_or(0, |entry| entry.version);
        let now = self.fixture.store.now().await.unwrap();
        Some(Entry {
            tenant: self.tenant(*tenant),
            body: self.step.to_be_bytes().into(),
            version: match version {
                Version::New => 0,
                Version::Right => stored,
                Version::Wrong => stored + 7,
            },
            expires_at: expires.then(|| now.plus(sample::TIMEOUT)),
            ..sample::entry(Kind::Link, &key)
        })
    }

    fn propose(&self, step: &Step) -> Option<Propose> {
        let Step::Propose {
            tenant,
            agent,
            channel,
            key,
            calls,
            going_on,
            approvers,
            asking,
            over,
        } = step
        else {
            return None;
        };
        let passes = matches!(asking, Asking::Nobody);
        let calls = if passes { 1 } else { *calls };
        let new_call = |position: u8| -> NewCall {
            let approvers: &[&str] = match approvers {
                Approvers::Alice => &["alice"],
                Approvers::AliceAndBob => &["bob", "alice"],
                Approvers::Divided if position == 1 => &["alice"],
                Approvers::Divided => &["bob"],
                Approvers::Nobody => &[],
            };
            let terms = Terms {
                on_failure: match going_on {
                    true => OnFailure::Continue,
                    false => OnFailure::Stop,
                },
                stakes: sample::terms_asking(Authority {
                    four_eyes: matches!(asking, Asking::FourEyes) && position == 1,
                    quorum: match asking {
                        Asking::TwoPeople if position == calls => 2,
                        _ => 1,
                    },
                    assurance: match asking {
                        Asking::Button => Assurance::Button,
                        _ => Assurance::Text,
                    },
                })
                .stakes,
                ..sample::terms_for(approvers)
            };
            let is_over_page = !passes
                && match over {
                    Over::None => false,
                    Over::Last => position == calls,
                    Over::All => true,
                };
            NewCall {
                before: is_over_page.then(|| Arc::new(self.page_now())),
                ..sample::call_under(&format!("{{ \"call\":{position}.0 }}"), terms)
            }
        };
        Some(Propose {
            tenant: self.tenant(*tenant),
            id: self.fresh_id(),
            agent: sample::agent(&format!("agent {agent}")),
            channel: channel.map(|n| sample::channel(&format!("channel {n}"))),
            key: key.map(sample_key),
            on_behalf_of: matches!(asking, Asking::FourEyes).then(|| sample::person("bob")),
            calls: (1..=calls).map(new_call).collect(),
            passes: passes.then(|| sample::permit(self.step)),
            order: match self.step % 4 {
                0 => Order::Any,
                _ => Order::Given,
            },
            ..sample::propose(self.step)
        })
    }
}

fn sample_key(key: SampleKey) -> (crate::id::Key, Hash) {
    sample::key(&format!("key {}", key.name), &format!("body {}", key.body))
}

fn decide(step: &Step, approval: &Approval, permit: u64) -> Option<Decide> {
    let Step::Decide {
        person,
        verdict,
        digest,
        key,
        start,
        by_text,
        ..
    } = step
    else {
        return None;
    };
    let name = match person {
        Who::Alice => "alice",
        Who::Bob => "bob",
        Who::Mallory => "mallory",
    };
    let choice = |bit: usize, granted: u8, edited: u8| match (granted >> bit & 1, edited >> bit & 1) {
        (0, _) => Choice::Deny,
        (_, 0) => Choice::Approve,
        _ => Choice::Edit(sample::arguments("{\"edited\" :1e2}")),
    };
    let verdict = match *verdict {
        Saying::Approve => Verdict::Approve,
        Saying::Deny => Verdict::Deny,
        Saying::Each { granted, edited } => {
            let bits = 0..approval.calls.len();
            Verdict::Each(bits.map(|bit| choice(bit, granted, edited)).collect())
        }
        Saying::TooFew => Verdict::Each(vec![Choice::Approve; approval.calls.len() - 1]),
    };
    let mut decide = sample::decide_as(name, approval, verdict);
    match digest {
        Digest::Right => {}
        Digest::Wrong => decide.decision.digest = Some(Hash::of(b"another card")),
        Digest::Absent => decide.decision.digest = None,
    }
    if let Some(key) = key {
        let (key, body) = sample_key(*key);
        decide.decision.key = Some(key);
        decide.body = body;
    }
    if *by_text {
        decide.decision.decider.surface = Surface::Text;
    }
    decide.start = start.then(|| sample::permit(permit));
    Some(decide)
}

fn finish(step: &Step, approval: &Approval, permit: u64) -> Option<Finish> {
    let Step::Finish {
        call,
        own_permit,
        ending,
        start_next,
        ..
    } = step
    else {
        return None;
    };
    let outcome = match ending {
        Ending::Succeeds => Outcome::succeeded([0, 159, 146, 150]),
        Ending::Fails => Outcome::failed("it did not"),
        Ending::CannotTell => Outcome::Unknown("who knows".to_owned()),
    };
    let mut finish = sample::finish(approval, *call, permit, outcome);
    let execution = approval.call(*call).and_then(|call| call.execution.as_ref());
    if let Some(execution) = execution.filter(|_| *own_permit) {
        finish.permit = execution.permit;
    }
    finish.start_next = start_next.then(|| sample::permit(permit));
    Some(finish)
}
