//! Random programs: the same steps on several stores must give the same answers, and break no invariant on the way.
//!
//! [`programs`] makes them, [`run`] runs one and gives its transcript, [`run_on_all`] compares stores step by step,
//! and [`explore`] does that with many. Few tenants, channels, agents, people and keys take part, so that they
//! collide, and one page that calls would change. A failure is shrunk and shown as the program that gives it.

mod interpreter;
mod invariants;
mod make;
mod transcript;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::Fixture;
use crate::hash::Hash;
pub use interpreter::{run, run_on_all};
pub use make::programs;

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
    /// Somebody changes the page.
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
    /// One call passes, and nobody is asked.
    Nobody,
}

/// Which calls would change the page, and are shown with it as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "they say it")]
pub enum Over {
    None,
    Last,
    All,
}

/// How the page is looked at again before a start.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they say it")]
pub enum Look {
    NotAtAll,
    Now,
    /// It cannot be read.
    InVain,
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
