//! X22: kill -9 around the last look. What was shown is what runs, once, or nothing does.
//!
//! A page stands in a file; whoever changes it does so while the process is dead, or just before it looks again. Each
//! effect writes down the page it found, so that it can be compared with what was shown.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::call::Because;
use countersign::executor::{Outcome, Permit, Tools};
use countersign::gate::{Gate, Submission, SubmittedCall};
use countersign::id::{Agent, CallId, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::{CallState, State};
use countersign::store::{Filter, Store};
use countersign::time::{Clock as _, ManualClock, SystemClock, Time};
use tempfile::TempDir;

use super::child::{number, say, setting};
use super::halt::{Halt, Halting, HaltingClock};
use super::{HOUR, Working, runtime, spawn, times};
use crate::database::open_sqlite;
use crate::layer::Layered;
use crate::life::{approve, check_sweep, everything, look};

const POLICY: &str = r#"
[agents]
most_pending = "unlimited"
proposals_per_minute = "unlimited"

[tools.read_page]
effect = "read"

[tools.run_by_gate]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"
before = { tool = "read_page" }

[tools.run_by_host]
effect = "destructive"
approvers = ["alice"]
timeout = "30s"
before = { tool = "read_page" }
"#;

const OLD: &str = r#"{"title":"Old","sections":4}"#;
const NEW: &str = r#"{"title":"Old","sections":5}"#;

/// How far a call had come on record when its process died, and whether the page was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reached {
    state: CallState,
    affected: bool,
}

const fn reached(state: CallState, affected: bool) -> Reached {
    Reached { state, affected }
}

/// Every place from the look to the end.
const POINTS: [(&str, Reached); 12] = [
    ("before look", reached(CallState::Released, false)),
    ("after look", reached(CallState::Released, false)),
    ("before start", reached(CallState::Released, false)),
    ("locked start", reached(CallState::Released, false)),
    ("written start", reached(CallState::Released, false)),
    ("after start", reached(CallState::Running, false)),
    ("before effect", reached(CallState::Running, false)),
    ("after effect", reached(CallState::Running, true)),
    ("before finish", reached(CallState::Running, true)),
    ("locked finish", reached(CallState::Running, true)),
    ("written finish", reached(CallState::Running, true)),
    ("after finish", reached(CallState::Succeeded, true)),
];

/// Who changes the page, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    Never,
    WhileDead,
    BeforeTheLook,
}

fn page(folder: &Path) -> PathBuf {
    folder.join("page")
}

/// A gate over a page: its tools stop where they are told to.
fn gate(store: Arc<dyn Store>, folder: PathBuf, halt: Arc<Halt>) -> Gate {
    let (reading, looking) = (folder.clone(), halt.clone());
    let read = move |_: Permit| {
        looking.reached("before look");
        let found = std::fs::read(page(&reading)).unwrap();
        looking.reached("after look");
        async { Outcome::succeeded(found) }
    };
    let run = move |permit: Permit| {
        affect(&folder, permit.call().expect("a held call"), &halt);
        async { Outcome::succeeded("done") }
    };
    let tools = Tools::default()
        .with(ToolName::new("read_page").unwrap(), read)
        .with(ToolName::new("run_by_gate").unwrap(), run);
    let policy = Arc::new(Policy::parse(POLICY).unwrap());
    Gate::new(store, policy).with_executor(Arc::new(tools))
}

fn affect(folder: &Path, call: CallId, halt: &Halt) {
    halt.reached("before effect");
    let found = std::fs::read_to_string(page(folder)).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).append(true).open(folder.join("effects"));
    file.unwrap()
        .write_all(format!("{call} {found}\n").as_bytes())
        .unwrap();
    halt.reached("after effect");
}

/// The other half: proposes, approves and runs, or goes on with what is released.
#[tokio::test]
#[ignore = "the other half of the tests in `look`"]
async fn works_over_a_page_until_it_is_killed() {
    let Some(folder) = setting("FOLDER").map(PathBuf::from) else {
        return;
    };
    let halt = Arc::new(Halt::new(setting("POINT").unwrap(), number("PASSES")));
    let begin = Time::from_micros(i64::try_from(number("CLOCK")).unwrap());
    let clock = Arc::new(HaltingClock::starting_at(begin));
    let store = open_sqlite(&folder.join("store.db"), clock.clone());
    let store = Arc::new(Layered(Halting {
        store,
        clock,
        halt: halt.clone(),
    }));
    let gate = gate(store, folder.clone(), halt.clone());
    if let Some(tool) = setting("TOOL") {
        let approval = propose(&gate, &tool).await;
        if setting("CHANGES").is_some() {
            std::fs::write(page(&folder), NEW).unwrap();
        }
        let resolved = gate.decide_and_run(approve(&approval)).await.unwrap();
        assert_eq!(resolved.refusal, None);
    }
    go_on(&gate, &folder, &halt).await;
    say("over");
}

async fn propose(gate: &Gate, tool: &str) -> SharedApproval {
    let submission = Submission {
        tenant: Tenant::single(),
        agent: Agent::new("cms").unwrap(),
        requester: Person::new("cms-token").unwrap(),
        on_behalf_of: None,
        channel: None,
        run: None,
        session: None,
        claim: None,
        key: None,
        conversation: None,
        calls: vec![SubmittedCall::new(tool, b"{}".to_vec())],
    };
    gate.submit(submission)
        .await
        .unwrap()
        .approval
        .expect("it is held")
}

/// Runs what is released, here or as its host.
async fn go_on(gate: &Gate, folder: &Path, halt: &Halt) {
    let tenant = Tenant::single();
    let approved = Filter {
        state: Some(State::Approved),
        ..Filter::default()
    };
    for approval in gate.store().list(&tenant, &approved).await.unwrap() {
        let (approval, _) = gate.run_released(&tenant, approval).await.unwrap();
        let Some(position) = approval.next_released() else {
            continue;
        };
        let call = CallId {
            approval: approval.id,
            position,
        };
        if let Ok(permit) = gate.start(&tenant, call).await.unwrap() {
            affect(folder, call, halt);
            let token = permit.token().expect("a held call");
            let finished = gate.finish(&tenant, call, token, Outcome::succeeded("done"));
            finished.await.unwrap().unwrap();
        }
    }
}

/// A folder with a page and a store.
struct Site {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

impl Site {
    fn new() -> Site {
        let site = Site {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(SystemClock::default().now())),
        };
        site.becomes(OLD);
        site
    }

    fn becomes(&self, text: &str) {
        std::fs::write(page(self.folder.path()), text).unwrap();
    }

    fn child(&self, point: &str, passes: u64, more: impl FnOnce(&mut Command)) -> Working {
        let test = "kill::look::works_over_a_page_until_it_is_killed";
        let clock = self.clock.now().as_micros().to_string();
        spawn(test, self.folder.path(), |command| {
            command
                .env("COUNTERSIGN_TEST_KILL_CLOCK", clock)
                .env("COUNTERSIGN_TEST_KILL_POINT", point)
                .env("COUNTERSIGN_TEST_KILL_PASSES", passes.to_string());
            more(command);
        })
    }

    fn store(&self) -> Arc<dyn Store> {
        open_sqlite(&self.folder.path().join("store.db"), self.clock.clone())
    }

    /// Each effect, with the page it found.
    fn effects(&self) -> Vec<(CallId, String)> {
        let text = std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default();
        let effect = |line: &str| {
            let (call, page) = line.split_once(' ').unwrap();
            (call.parse().unwrap(), page.to_owned())
        };
        text.lines().map(effect).collect()
    }

    /// The call that was proposed first, and what was asked instead of it.
    fn approvals(&self) -> (SharedApproval, Vec<SharedApproval>) {
        let mut all = runtime().block_on(async {
            let store = self.store();
            let all = everything(&*store).await;
            for approval in &all {
                look(&*store, approval.id).await;
            }
            all
        });
        (all.pop().expect("it was proposed"), all)
    }
}

/// One call that is killed at a point, and whoever comes after.
fn die(tool: &str, point: &str, reached: Reached, changed: Changed) {
    let site = Site::new();
    let told = format!("{tool}, {point}, changed {changed:?}");
    // What is asked for over a page is read once when it is proposed; a host's first try is told to look first.
    let earlier = match (point.ends_with("look"), point.ends_with("start")) {
        (true, _) => 1,
        (_, true) if tool == "run_by_host" => 1,
        _ => 0,
    };
    let mut child = site.child(point, earlier, |command| {
        command.env("COUNTERSIGN_TEST_KILL_TOOL", tool);
        if changed == Changed::BeforeTheLook {
            command.env("COUNTERSIGN_TEST_KILL_CHANGES", "");
        }
    });
    child.until(&format!("at {point}"));
    child.kill();
    let (dead, instead) = site.approvals();
    let refused = changed == Changed::BeforeTheLook && point == "after start";
    let on_record = match refused {
        true => CallState::Refused,
        false => reached.state,
    };
    assert_eq!(dead.calls[0].state, on_record, "{told}");
    assert_eq!(site.effects().len(), usize::from(reached.affected), "{told}");
    assert_eq!(instead.len(), usize::from(refused), "{told}: in one commit");

    if changed == Changed::WhileDead {
        site.becomes(NEW);
    }
    // Twice: whoever comes later finds nothing left to do.
    for _ in 0..2 {
        site.child("", 0, |_| {}).end();
    }
    let (after, instead) = site.approvals();
    let call = &after.calls[0];
    let (state, because) = match (reached.state, changed) {
        (CallState::Released, Changed::Never) => (CallState::Succeeded, None),
        (CallState::Released, _) | (_, Changed::BeforeTheLook) => {
            (CallState::Refused, Some(Because::Changed))
        }
        (state, _) => (state, None),
    };
    assert_eq!((call.state, &call.because), (state, &because), "{told}");
    let effects = site.effects();
    let ran = reached.affected || state == CallState::Succeeded;
    assert_eq!(effects.len(), usize::from(ran), "{told}: at most once");
    for (id, found) in &effects {
        assert_eq!(id.approval, after.id, "{told}: only what was approved");
        let shown = call.before.as_ref().unwrap();
        assert_eq!(found.as_bytes(), &*shown.result, "{told}: over what was shown");
    }
    match (state, instead.as_slice()) {
        (CallState::Refused, [asked]) => {
            assert_eq!((asked.state, asked.replaces), (State::Pending, Some(after.id)));
            let shown = asked.calls[0].before.as_ref().unwrap();
            assert_eq!(&*shown.result, NEW.as_bytes(), "{told}: what is there now");
        }
        (CallState::Refused, _) => panic!("{told}: asked again {} times", instead.len()),
        _ => assert_eq!(instead, [], "{told}: nobody is asked again"),
    }
    bury(&site, &effects);
}

/// An hour later nothing is open, and nothing runs.
fn bury(site: &Site, effects: &[(CallId, String)]) {
    let (first, mut all) = site.approvals();
    all.push(first);
    site.clock.advance(HOUR);
    let halt = Arc::new(Halt::new(String::new(), 0));
    runtime().block_on(async {
        let gate = gate(site.store(), site.folder.path().to_owned(), halt);
        check_sweep(&gate, &all).await;
    });
    assert_eq!(site.effects(), effects, "nothing ran again");
}

#[test]
fn x22_kill_around_the_last_look_on_sqlite() {
    for _ in 0..times(1) {
        for tool in ["run_by_gate", "run_by_host"] {
            for (point, reached) in POINTS {
                die(tool, point, reached, Changed::Never);
                die(tool, point, reached, Changed::WhileDead);
            }
        }
    }
}

/// Refusing and asking again are one commit: nobody is left without a question, and nobody is asked twice.
#[test]
fn x22_kill_while_a_changed_call_is_refused_on_sqlite() {
    let to_refusal = POINTS
        .into_iter()
        .take_while(|(point, _)| *point != "before effect");
    for (point, reached) in to_refusal {
        for tool in ["run_by_gate", "run_by_host"] {
            die(tool, point, reached, Changed::BeforeTheLook);
        }
    }
}
