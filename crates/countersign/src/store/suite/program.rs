//! Random programs: the same steps must give the same answers on all stores and break no invariant.
//!
//! [`programs`] generates programs, [`run`] runs one and returns its transcript, [`run_on_all`] compares several stores
//! step by step, and [`explore`] does that with many programs. Programs use few tenants, channels, agents, people and
//! keys, so that these collide, and one page that calls would change. A failing program is shrunk and printed.

mod interpreter;
mod invariants;
mod make;
mod transcript;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::Fixture;
use crate::hash::Hash;
pub use interpreter::{run, run_on_all};
pub use make::programs;

/// A random test program: a sequence of steps to run on a store.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<Step>);

/// One step. Small numbers select tenants, agents, channels, calls and keys.
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
        over: Over,
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
        look: Look,
    },
    /// Changes the content of the one page that all snapshots show.
    ChangePage,
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

/// Version that a step sends with an entry.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Version {
    New,
    Right,
    Wrong,
}

/// Selects the approval `back` places before the newest one. If `foreign` is true, another tenant asks for it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Target {
    pub back: u8,
    pub foreign: bool,
}

/// An idempotency key and the request body sent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "said above")]
pub struct SampleKey {
    pub name: u8,
    pub body: u8,
}

/// People who may decide a proposal.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Approvers {
    Alice,
    AliceAndBob,
    /// Alice may decide the first call, Bob the others.
    Divided,
    Nobody,
}

/// Authority that a proposal demands beyond its list of approvers.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Asking {
    Nothing,
    /// The last call needs two people.
    TwoPeople,
    /// The agent acts for Bob, who may therefore not approve the first call.
    FourEyes,
    /// A text reply is too weak a surface.
    Button,
    /// The policy passes one call without asking anybody.
    Nobody,
}

/// Selects which calls carry a snapshot of the page.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "they say it")]
pub enum Over {
    None,
    Last,
    All,
}

/// Result of reading the page again before a start.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Look {
    NotAtAll,
    Now,
    /// The page cannot be read.
    InVain,
}

/// The person who decides.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are names")]
pub enum Who {
    Alice,
    Bob,
    Mallory,
}

/// The verdict. `granted` and `edited` have one bit per call.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Saying {
    Approve,
    Deny,
    Each { granted: u8, edited: u8 },
    TooFew,
}

/// The digest sent with a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "they say it")]
pub enum Digest {
    Right,
    Wrong,
    Absent,
}

/// The actor that withdraws.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Taker {
    ItsAgent,
    OtherAgent,
    Person,
}

/// Outcome that the executor reports.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Ending {
    Succeeds,
    Fails,
    CannotTell,
}

/// Amount by which the clock advances.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Pause {
    Microsecond,
    Moment,
    Timeout,
    StartWithin,
    Ttl,
}

/// Runs the `count` programs of a seed on all fixtures and compares each with the first.
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
