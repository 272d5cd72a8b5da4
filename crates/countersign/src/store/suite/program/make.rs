//! Generates random programs from single steps and from scripted sequences, which reach states that random steps rarely
//! do.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use super::{
    Approvers, Asking, Digest, Ending, Look, Over, Pause, Program, SampleKey, Saying, Step, Taker, Target,
    Version, Who,
};

/// Generates programs of about twenty steps.
pub fn programs() -> impl Strategy<Value = Program> {
    let part = prop_oneof![
        10 => step().prop_map(|step| vec![step]),
        1 => success(),
        1 => undo(),
        1 => Just(rivals()),
        1 => Just(failure()),
        1 => Just(together()),
        1 => Just(forgotten()),
        2 => looked_at(),
        1 => Just(moved_on()),
    ];
    vec(part, 1..=28).prop_map(|parts| Program(parts.concat()))
}

/// Generates the steps of a call that is approved, started and succeeds.
fn success() -> impl Strategy<Value = Vec<Step>> {
    (propose(), any::<bool>()).prop_map(|(mut propose, start_next)| {
        // A call with a snapshot could not start along with the decision.
        if let Step::Propose { over, .. } = &mut propose {
            *over = Over::None;
        }
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

/// Generates the steps of an undo that is approved and started.
fn undo() -> impl Strategy<Value = Vec<Step>> {
    let back = prop_oneof![Just(0u8), Just(1), Just(2)];
    back.prop_map(|back| {
        let of = Target { back, ..NEWEST };
        vec![Step::Undo { of, call: 1 }, approve(NEWEST, true)]
    })
}

/// Returns the steps of two undos of the newest call, both approved, both started.
fn rivals() -> Vec<Step> {
    let older = Target { back: 1, ..NEWEST };
    let undo = |of| Step::Undo { of, call: 1 };
    let start = |on| start(on, 1);
    vec![
        undo(NEWEST),
        undo(older),
        approve(NEWEST, false),
        approve(older, false),
        start(older),
        start(NEWEST),
    ]
}

/// Returns the steps of a batch whose first call fails, so that the second may not start.
fn failure() -> Vec<Step> {
    let propose = plain(2, Approvers::Alice);
    let finish = Step::Finish {
        on: NEWEST,
        call: 1,
        own_permit: true,
        ending: Ending::Fails,
        start_next: true,
    };
    vec![propose, approve(NEWEST, true), finish, start(NEWEST, 2)]
}

/// Returns the steps of a call that is released and not started in time.
fn forgotten() -> Vec<Step> {
    vec![
        plain(1, Approvers::Alice),
        approve(NEWEST, false),
        Step::Advance(Pause::StartWithin),
        start(NEWEST, 1),
    ]
}

/// Generates steps in which a call with a snapshot is approved, the page may change, and the start reads the page
/// again. If the start makes a new proposal, that one is approved and started too.
fn looked_at() -> impl Strategy<Value = Vec<Step>> {
    (propose(), any::<bool>(), any::<bool>(), look()).prop_map(|(mut propose, changes, start_too, look)| {
        if let Step::Propose { over, .. } = &mut propose {
            *over = Over::All;
        }
        let mut steps = vec![propose, approve(NEWEST, start_too)];
        steps.extend(changes.then_some(Step::ChangePage));
        let first = Step::Start {
            on: NEWEST,
            call: 1,
            look,
        };
        steps.extend([first, approve(NEWEST, false), start(NEWEST, 1)]);
        steps
    })
}

/// Returns steps in which a call with a snapshot is approved and the page changes, but by then another approval is
/// pending in the channel.
fn moved_on() -> Vec<Step> {
    let asked = |over| Step::Propose {
        tenant: 0,
        agent: 0,
        channel: Some(0),
        key: None,
        calls: 1,
        going_on: false,
        approvers: Approvers::Alice,
        asking: Asking::Nothing,
        over,
    };
    let older = Target { back: 1, ..NEWEST };
    vec![
        asked(Over::All),
        approve(NEWEST, false),
        Step::ChangePage,
        asked(Over::None),
        start(older, 1),
    ]
}

/// Returns a step that starts a call after reading the current page for comparison with the call's snapshot. Without a
/// snapshot there is nothing to compare.
fn start(on: Target, call: u8) -> Step {
    let look = Look::Now;
    Step::Start { on, call, look }
}

/// Returns a proposal without channel, key, snapshot or special authority.
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
        over: Over::None,
    }
}

/// Returns steps in which two people approve a call that needs both.
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
        over: Over::None,
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
        4 => (target(), call(), look()).prop_map(|(on, call, look)| Step::Start { on, call, look }),
        1 => Just(Step::ChangePage),
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
        1 => Just(Asking::Nobody),
    ];
    let over = prop_oneof![4 => Just(Over::None), 1 => Just(Over::Last), 2 => Just(Over::All)];
    (whose, 1..=4u8, any::<bool>(), approvers, asking, over).prop_map(
        |((tenant, agent, channel, key), calls, going_on, approvers, asking, over)| Step::Propose {
            tenant,
            agent,
            channel,
            key,
            calls,
            going_on,
            approvers,
            asking,
            over,
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

fn look() -> impl Strategy<Value = Look> {
    prop_oneof![5 => Just(Look::Now), 2 => Just(Look::NotAtAll), 1 => Just(Look::InVain)]
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
