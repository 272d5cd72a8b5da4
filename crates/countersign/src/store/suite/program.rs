//! Random programs: the same steps on several stores must give the same answers, and break no invariant on the way.
//!
//! [`programs`] makes them, [`run`] runs one and gives its transcript, [`run_on_all`] compares stores step by step,
//! and [`explore`] does that with many. Few tenants, channels, agents, people and keys take part, so that they
//! collide. A failure is shrunk and shown as the program that gives it.

mod interpreter;
mod invariants;
mod transcript;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::Fixture;
use crate::hash::Hash;
pub use interpreter::{run, run_on_all};

/// Steps that are taken one after the other.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<Step>);

/// One step. Small numbers name the few things that take part.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the commands")]
pub enum Step {
    Propose {
        tenant: u8,
        agent: u8,
        channel: Option<u8>,
        key: Option<SampleKey>,
        calls: u8,
        going_on: bool,
        approvers: Approvers,
        asking: Asking,
    },
    Undo {
        of: Target,
        call: u8,
    },
    Decide {
        on: Target,
        person: Who,
        verdict: Saying,
        digest: Digest,
        key: Option<SampleKey>,
        start: bool,
        by_text: bool,
    },
    Withdraw {
        on: Target,
        by: Taker,
    },
    Start {
        on: Target,
        call: u8,
    },
    Finish {
        on: Target,
        call: u8,
        own_permit: bool,
        ending: Ending,
        start_next: bool,
    },
    Reconcile {
        on: Target,
        call: u8,
        succeeded: bool,
    },
    Sweep,
    PutEntry {
        tenant: u8,
        key: u8,
        version: Version,
        expires: bool,
    },
    TakeEntry {
        key: u8,
    },
    Erase {
        on: Target,
    },
    Advance(Pause),
}

/// The version of an entry they send along.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Version {
    New,
    Right,
    Wrong,
}

/// An approval: so many before the newest one, possibly asked for by another tenant.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Target {
    pub back: u8,
    pub foreign: bool,
}

/// A key, and which request it comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "said above")]
pub struct SampleKey {
    pub name: u8,
    pub body: u8,
}

/// Who may decide.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Approvers {
    Alice,
    AliceAndBob,
    /// Alice the first call, bob the others.
    Divided,
    Nobody,
}

/// What approving takes beyond that.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Asking {
    Nothing,
    /// The last call asks for two people.
    TwoPeople,
    /// The agent acts for bob, who may not approve the first call.
    FourEyes,
    /// No text reply will do.
    Button,
}

/// Who decides.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are names")]
pub enum Who {
    Alice,
    Bob,
    Mallory,
}

/// What they say. Letters stand for the calls, in turn: one bit each.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Saying {
    Approve,
    Deny,
    Each { granted: u8, edited: u8 },
    TooFew,
}

/// The digest they send along.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "they say it")]
pub enum Digest {
    Right,
    Wrong,
    Absent,
}

/// Who withdraws.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Taker {
    ItsAgent,
    OtherAgent,
    Person,
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Ending {
    Succeeds,
    Fails,
    CannotTell,
}

/// How long nothing happens.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Pause {
    Microsecond,
    Moment,
    Timeout,
    StartWithin,
    Ttl,
}

/// Programs of about twenty steps. Some steps come as a story, so that programs get as far as undoing.
pub fn programs() -> impl Strategy<Value = Program> {
    let part = prop_oneof![
        10 => step().prop_map(|step| vec![step]),
        1 => success(),
        1 => undo(),
        1 => Just(rivals()),
        1 => Just(failure()),
        1 => Just(together()),
        1 => Just(forgotten()),
    ];
    vec(part, 1..=28).prop_map(|parts| Program(parts.concat()))
}

/// Runs the `count` programs of a seed on all fixtures; the first one is what the others are compared with.
///
/// # Panics
/// When stores disagree or an invariant breaks, with the seed and the smallest program that shows it.
pub fn explore(runtime: &tokio::runtime::Runtime, fixtures: &[&Fixture], count: u32, seed: u64) {
    let config = Config {
        cases: count,
        failure_persistence: None,
        ..Config::default()
    };
    let Hash(bytes) = Hash::of(&seed.to_be_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let failed = TestRunner::new_with_rng(config, random).run(&programs(), |program| {
        runtime.block_on(run_on_all(fixtures, &program));
        Ok(())
    });
    match failed {
        Ok(()) => {}
        Err(TestError::Fail(reason, Program(steps))) => {
            panic!("seed {seed}: {reason}\nwith these steps: {steps:#?}")
        }
        Err(error) => panic!("{error}"),
    }
}

/// A call that is approved, started and succeeds.
fn success() -> impl Strategy<Value = Vec<Step>> {
    (propose(), any::<bool>()).prop_map(|(propose, start_next)| {
        let finish = Step::Finish {
            on: NEWEST,
            call: 1,
            own_permit: true,
            ending: Ending::Succeeds,
            start_next,
        };
        vec![propose, approve(NEWEST, true), finish]
    })
}

/// An undo that is approved and started.
fn undo() -> impl Strategy<Value = Vec<Step>> {
    let back = prop_oneof![Just(0u8), Just(1), Just(2)];
    back.prop_map(|back| {
        let of = Target { back, ..NEWEST };
        vec![Step::Undo { of, call: 1 }, approve(NEWEST, true)]
    })
}

/// Two undos of the newest call, both approved, both started.
fn rivals() -> Vec<Step> {
    let older = Target { back: 1, ..NEWEST };
    let undo = |of| Step::Undo { of, call: 1 };
    let start = |on| Step::Start { on, call: 1 };
    vec![
        undo(NEWEST),
        undo(older),
        approve(NEWEST, false),
        approve(older, false),
        start(older),
        start(NEWEST),
    ]
}

/// A batch whose first call fails, so that the second may not start.
fn failure() -> Vec<Step> {
    let propose = plain(2, Approvers::Alice);
    let finish = Step::Finish {
        on: NEWEST,
        call: 1,
        own_permit: true,
        ending: Ending::Fails,
        start_next: true,
    };
    let start = Step::Start { on: NEWEST, call: 2 };
    vec![propose, approve(NEWEST, true), finish, start]
}

/// What is released and not started in time.
fn forgotten() -> Vec<Step> {
    let start = Step::Start { on: NEWEST, call: 1 };
    vec![
        plain(1, Approvers::Alice),
        approve(NEWEST, false),
        Step::Advance(Pause::StartWithin),
        start,
    ]
}

/// A proposal that nothing stands in the way of.
fn plain(calls: u8, approvers: Approvers) -> Step {
    Step::Propose {
        tenant: 0,
        agent: 0,
        channel: None,
        key: None,
        calls,
        going_on: false,
        approvers,
        asking: Asking::Nothing,
    }
}

/// Two people approve what takes both.
fn together() -> Vec<Step> {
    let propose = Step::Propose {
        tenant: 0,
        agent: 0,
        channel: None,
        key: None,
        calls: 2,
        going_on: false,
        approvers: Approvers::AliceAndBob,
        asking: Asking::TwoPeople,
    };
    let second = Step::Decide {
        on: NEWEST,
        person: Who::Bob,
        verdict: Saying::Each {
            granted: 2,
            edited: 0,
        },
        digest: Digest::Right,
        key: None,
        start: true,
        by_text: false,
    };
    vec![propose, approve(NEWEST, true), second]
}

const NEWEST: Target = Target {
    back: 0,
    foreign: false,
};

fn approve(on: Target, start: bool) -> Step {
    Step::Decide {
        on,
        person: Who::Alice,
        verdict: Saying::Approve,
        digest: Digest::Right,
        key: None,
        start,
        by_text: false,
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => propose(),
        2 => (target(), 1..=2u8).prop_map(|(of, call)| Step::Undo { of, call }),
        8 => decide(),
        1 => (target(), taker()).prop_map(|(on, by)| Step::Withdraw { on, by }),
        4 => (target(), call()).prop_map(|(on, call)| Step::Start { on, call }),
        5 => finish(),
        1 => (target(), call(), any::<bool>())
            .prop_map(|(on, call, succeeded)| Step::Reconcile { on, call, succeeded }),
        1 => Just(Step::Sweep),
        1 => target().prop_map(|on| Step::Erase { on }),
        2 => put_entry(),
        1 => (0..2u8).prop_map(|key| Step::TakeEntry { key }),
        2 => pause().prop_map(Step::Advance),
    ]
}

fn propose() -> impl Strategy<Value = Step> {
    let approvers = prop_oneof![
        5 => Just(Approvers::Alice),
        2 => Just(Approvers::AliceAndBob),
        1 => Just(Approvers::Divided),
        1 => Just(Approvers::Nobody),
    ];
    let whose = (
        mostly_first(),
        mostly_first(),
        weighted(0.6, 0..2u8),
        sample_key(),
    );
    let asking = prop_oneof![
        6 => Just(Asking::Nothing),
        2 => Just(Asking::TwoPeople),
        1 => Just(Asking::FourEyes),
        2 => Just(Asking::Button),
    ];
    (whose, 1..=4u8, any::<bool>(), approvers, asking).prop_map(
        |((tenant, agent, channel, key), calls, going_on, approvers, asking)| Step::Propose {
            tenant,
            agent,
            channel,
            key,
            calls,
            going_on,
            approvers,
            asking,
        },
    )
}

fn decide() -> impl Strategy<Value = Step> {
    let person = prop_oneof![6 => Just(Who::Alice), 2 => Just(Who::Bob), 1 => Just(Who::Mallory)];
    let verdict = prop_oneof![
        5 => Just(Saying::Approve),
        1 => Just(Saying::Deny),
        3 => (0..16u8, 0..16u8).prop_map(|(granted, edited)| Saying::Each { granted, edited }),
        1 => Just(Saying::TooFew),
    ];
    let digest = prop_oneof![6 => Just(Digest::Right), 1 => Just(Digest::Wrong), 2 => Just(Digest::Absent)];
    let by_text = prop::bool::weighted(0.4);
    let what = (person, verdict, digest, by_text);
    (target(), what, sample_key(), any::<bool>()).prop_map(
        |(on, (person, verdict, digest, by_text), key, start)| Step::Decide {
            on,
            person,
            verdict,
            digest,
            key,
            start,
            by_text,
        },
    )
}

fn finish() -> impl Strategy<Value = Step> {
    let ending =
        prop_oneof![4 => Just(Ending::Succeeds), 1 => Just(Ending::Fails), 1 => Just(Ending::CannotTell)];
    let own_permit = prop::bool::weighted(0.9);
    (target(), call(), own_permit, ending, any::<bool>()).prop_map(
        |(on, call, own_permit, ending, start_next)| Step::Finish {
            on,
            call,
            own_permit,
            ending,
            start_next,
        },
    )
}

fn put_entry() -> impl Strategy<Value = Step> {
    let version = prop_oneof![3 => Just(Version::New), 4 => Just(Version::Right), 1 => Just(Version::Wrong)];
    (mostly_first(), 0..2u8, version, any::<bool>()).prop_map(|(tenant, key, version, expires)| {
        Step::PutEntry {
            tenant,
            key,
            version,
            expires,
        }
    })
}

fn target() -> impl Strategy<Value = Target> {
    let back = prop_oneof![5 => Just(0u8), 2 => Just(1), 1 => 2..6u8];
    (back, prop::bool::weighted(0.03)).prop_map(|(back, foreign)| Target { back, foreign })
}

fn sample_key() -> impl Strategy<Value = Option<SampleKey>> {
    weighted(
        0.3,
        (0..2u8, mostly_first()).prop_map(|(name, body)| SampleKey { name, body }),
    )
}

fn mostly_first() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0u8), 1 => Just(1)]
}

fn call() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(1u8), 3 => Just(2), 1 => 0..6u8]
}

fn taker() -> impl Strategy<Value = Taker> {
    prop_oneof![
        Just(Taker::ItsAgent),
        Just(Taker::OtherAgent),
        Just(Taker::Person)
    ]
}

fn pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        Just(Pause::Microsecond),
        Just(Pause::Moment),
        Just(Pause::Timeout),
        Just(Pause::StartWithin),
        Just(Pause::Ttl),
    ]
}
