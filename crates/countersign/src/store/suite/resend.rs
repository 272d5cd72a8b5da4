//! F13: delivers every request three times, out of order, and up to a minute late.
//!
//! Many concurrent clients propose, decide, start and finish. Each sends its next step as soon as the first copy of the
//! previous one is answered; the other copies arrive later, some after everything is over. Delays derive from the seed
//! and the clock is manual, so a run can be repeated from its seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::failing::random;
use super::{Fixture, sample};
use crate::approval::SharedApproval;
use crate::command::{Answer, Command, Propose};
use crate::event::{Event, EventKind, verify};
use crate::executor::Outcome;
use crate::id::ApprovalId;
use crate::state::{CallState, State};
use crate::time::Time;

const COPIES: u64 = 3;
/// Maximum delay, in seconds.
const LATEST: u64 = 60;
/// Number of concurrent clients.
const AT_ONCE: u64 = 32;

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resent {
    /// Number of requests that the store answered.
    pub requests: u64,
    /// Number of calls that took effect at the tool.
    pub effects: u64,
    /// Number of calls that were denied.
    pub denied: u64,
    /// Number of calls that the sweep had given up on before their result arrived.
    pub given_up: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Propose,
    Decide,
    Start,
    Finish,
}

/// A request in flight: arrival time, serial number, client, step and copy.
type Sent = Reverse<(Time, u64, u64, Step, u64)>;

struct Client {
    approval: Option<SharedApproval>,
    /// Number of the permit that was granted.
    permit: Option<u64>,
    /// First answer to each step.
    answered: BTreeMap<Step, String>,
    effects: u64,
}

struct Network<'a> {
    fixture: &'a Fixture,
    random: u64,
    under_way: BinaryHeap<Sent>,
    sent: u64,
    clients: BTreeMap<u64, Client>,
    first: u64,
    resent: Resent,
}

/// Runs clients until the store has answered at least `requests` requests.
pub async fn resend(fixture: &Fixture, requests: u64, seed: u64) -> Resent {
    let mut network = Network {
        fixture,
        random: seed,
        under_way: BinaryHeap::new(),
        sent: 0,
        clients: BTreeMap::new(),
        first: fixture.next_program() * 10_000_000,
        resent: Resent::default(),
    };
    fixture.begin_program(fixture.next_program());
    let mut next = 0;
    while network.resent.requests < requests || !network.under_way.is_empty() {
        while network.resent.requests < requests && network.clients.len() < AT_ONCE as usize {
            next += 1;
            network.join(next).await;
        }
        network.deliver().await;
    }
    network.resent
}

impl Network<'_> {
    fn random(&mut self, limit: u64) -> u64 {
        random(&mut self.random) % limit
    }

    async fn join(&mut self, number: u64) {
        let client = Client {
            approval: None,
            permit: None,
            answered: BTreeMap::new(),
            effects: 0,
        };
        self.clients.insert(number, client);
        self.send(number, Step::Propose).await;
    }

    async fn send(&mut self, client: u64, step: Step) {
        let now = self.fixture.store.now().await.unwrap();
        for copy in 0..COPIES {
            self.sent += 1;
            // Half of the copies are not delayed, so that clients make progress.
            let delay = self.random(2) * self.random(LATEST * 1000);
            let arrives = now.plus(Duration::from_millis(delay));
            self.under_way
                .push(Reverse((arrives, self.sent, client, step, copy)));
        }
    }

    /// Delivers the next request to the store.
    async fn deliver(&mut self) {
        let Some(Reverse((arrives, _, number, step, copy))) = self.under_way.pop() else {
            return;
        };
        let now = self.fixture.store.now().await.unwrap();
        self.fixture.advance(arrives.since(now));
        if self.random(8) == 0 {
            let sweep = Command::Sweep(sample::sweep(sample::SWEEP_ALL));
            self.fixture.store.write(sweep).await.expect("the store answers");
        }
        let command = self.command(number, step, copy);
        let answer = self
            .fixture
            .store
            .write(command)
            .await
            .expect("the store answers");
        self.resent.requests += 1;
        self.hear(number, step, copy, answer).await;
        let is_over = !self
            .under_way
            .iter()
            .any(|Reverse((_, _, client, _, _))| *client == number);
        if is_over && let Some(client) = self.clients.remove(&number) {
            self.end(&client).await;
        }
    }

    fn command(&self, number: u64, step: Step, copy: u64) -> Command {
        let client = &self.clients[&number];
        let approval = || client.approval.as_ref().expect("it was proposed");
        let key = format!("key {} {number}", self.first);
        match step {
            // As from the gate, each copy has its own approval id; the idempotency key marks them as one request.
            Step::Propose => Command::Propose(Box::new(Propose {
                key: Some(sample::key(&key, "body")),
                ..sample::propose(self.first + number * COPIES + copy)
            })),
            Step::Decide => {
                let decide = match number % 4 {
                    0 => sample::deny(approval()),
                    _ => sample::approve(approval()),
                };
                Command::Decide(Box::new(sample::keyed(decide, &key, "decision")))
            }
            // Each copy of a start has its own permit.
            Step::Start => Command::Start(sample::start(approval(), 1, copy)),
            Step::Finish => {
                let permit = client.permit.expect("it was started");
                let done = Outcome::succeeded("done");
                Command::Finish(sample::finish(approval(), 1, permit, done))
            }
        }
    }

    /// I15: checks that all copies of a request get the same answer. The first answer triggers the next step.
    async fn hear(&mut self, number: u64, step: Step, copy: u64, answer: Answer) {
        let client = self.clients.get_mut(&number).expect("it is at work");
        let (told, next) = match answer {
            Answer::Propose(Ok(proposed)) => {
                let told = proposed.approval.id.to_string();
                client.approval.get_or_insert(proposed.approval);
                (told, Some(Step::Decide))
            }
            Answer::Decide(answer) => {
                let told = match &answer.refusal {
                    None => "accepted".to_owned(),
                    Some(refusal) => refusal.code().to_owned(),
                };
                let approved = answer
                    .approval
                    .is_some_and(|approval| approval.state == State::Approved);
                let next = (answer.refusal.is_none() && approved).then_some(Step::Start);
                (told, next)
            }
            // Each copy asks for its own permit, and at most one copy gets it.
            Answer::Start(Ok(_)) => {
                client.effects += 1;
                client.permit = Some(copy);
                (String::new(), Some(Step::Finish))
            }
            Answer::Start(Err(_)) => (String::new(), None),
            Answer::Finish(Ok(finished)) => (finished.approval.calls[0].state.to_string(), None),
            other => panic!("client {number}: {other:?}"),
        };
        let is_first = match client.answered.get(&step) {
            Some(earlier) => {
                assert_eq!(*earlier, told, "I15: client {number}, {step:?}");
                false
            }
            None => true,
        };
        client.answered.insert(step, told);
        // A start is followed by a finish only if this copy of the start got the permit.
        let is_new = match step {
            Step::Start => client.permit == Some(copy),
            _ => is_first,
        };
        if let Some(next) = next.filter(|_| is_new) {
            self.send(number, next).await;
        }
    }

    /// Checks a client's approval, once none of its requests is in flight.
    async fn end(&mut self, client: &Client) {
        let id: ApprovalId = client.approval.as_ref().expect("it was proposed").id;
        let tenant = sample::tenant();
        let stored = self.fixture.store.approval(&tenant, id).await.unwrap();
        let approval = stored.expect("it is there");
        let events = self.fixture.store.events(&tenant, id).await.unwrap();
        assert_eq!(verify(&approval, &events), Ok(()), "approval {id}");
        let starts = events
            .iter()
            .filter(|event| matches!(event.what, EventKind::Started { .. }));
        let starts = starts.count() as u64;
        assert!(
            client.effects <= 1 && starts == client.effects,
            "I2: approval {id}"
        );
        match (approval.state, approval.calls[0].state) {
            // Includes calls that the sweep gave up on: a late result is recorded, but starts nothing.
            (State::Approved, CallState::Succeeded) => assert_eq!(client.effects, 1),
            (State::Denied, CallState::Refused) => self.resent.denied += 1,
            other => panic!("approval {id}: {other:?}"),
        }
        let is_lost = |event: &Event| matches!(event.what, EventKind::Lost { .. });
        self.resent.given_up += u64::from(events.iter().any(is_lost));
        self.resent.effects += client.effects;
    }
}
