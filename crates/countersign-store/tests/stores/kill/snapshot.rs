//! X22: kill -9 around the last read of a snapshot. Either the content shown is what the call runs on, once, or nothing
//! runs.
//!
//! The page is a file, which is changed while the process is dead or just before it is read again. Each effect records
//! the page it found, to be compared with what was shown.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use countersign::approval::SharedApproval;
use countersign::call::RefusalReason;
use countersign::executor::{Outcome, Permit, Tools};
use countersign::gate::Gate;
use countersign::id::{CallId, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::state::{CallState, State};
use countersign::store::{Filter, Store};
use countersign::time::{Clock as _, ManualClock, SystemClock};
use tempfile::TempDir;

use super::child::{open_halting, say, setting, write_effect};
use super::halt::HaltPoint;
use super::{ChildProcess, HOUR, runtime, spawn};
use crate::client::{approve, submit};
use crate::database::open_sqlite;
use crate::figures::rounds;
use crate::workload::{all_approvals, check_sweep, verified_approval};

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

/// State of a call when its process is killed: as recorded, and whether the call had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallAtKill {
    state: CallState,
    affected: bool,
}

const fn at_kill(state: CallState, affected: bool) -> CallAtKill {
    CallAtKill { state, affected }
}

/// All points from the last read of the page to the end of the call.
const POINTS: [(&str, CallAtKill); 12] = [
    ("before look", at_kill(CallState::Released, false)),
    ("after look", at_kill(CallState::Released, false)),
    ("before start", at_kill(CallState::Released, false)),
    ("locked start", at_kill(CallState::Released, false)),
    ("within start", at_kill(CallState::Released, false)),
    ("after start", at_kill(CallState::Running, false)),
    ("before effect", at_kill(CallState::Running, false)),
    ("after effect", at_kill(CallState::Running, true)),
    ("before finish", at_kill(CallState::Running, true)),
    ("locked finish", at_kill(CallState::Running, true)),
    ("within finish", at_kill(CallState::Running, true)),
    ("after finish", at_kill(CallState::Succeeded, true)),
];

/// When the page is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageChange {
    Never,
    WhileDead,
    BeforeRead,
}

fn page(folder: &Path) -> PathBuf {
    folder.join("page")
}

/// Creates a gate whose tools read and change the page, and stop at the given point.
fn gate(store: Arc<dyn Store>, folder: PathBuf, halt: Arc<HaltPoint>) -> Gate {
    let (reading, read_halt) = (folder.clone(), halt.clone());
    let read = move |_: Permit| {
        read_halt.reached("before look");
        let found = std::fs::read(page(&reading)).unwrap();
        read_halt.reached("after look");
        async { Outcome::succeeded(found) }
    };
    let run = move |permit: Permit| {
        apply_effect(&folder, permit.call().expect("a held call"), &halt);
        async { Outcome::succeeded("done") }
    };
    let tools = Tools::default()
        .with(ToolName::new("read_page").unwrap(), read)
        .with(ToolName::new("run_by_gate").unwrap(), run);
    let policy = Arc::new(Policy::parse(POLICY).unwrap());
    Gate::new(store, policy).with_executor(Arc::new(tools))
}

fn apply_effect(folder: &Path, call: CallId, halt: &HaltPoint) {
    halt.reached("before effect");
    let found = std::fs::read_to_string(page(folder)).unwrap();
    write_effect(folder, &format!("{call} {found}"));
    halt.reached("after effect");
}

/// The killed process: proposes, approves and runs, or continues with released calls.
#[tokio::test]
#[ignore = "child process of the tests in `snapshot`"]
async fn works_over_a_page_until_it_is_killed() {
    let Some(folder) = setting("FOLDER").map(PathBuf::from) else {
        return;
    };
    let (store, _, halt) = open_halting(&folder);
    let gate = gate(store, folder.clone(), halt.clone());
    if let Some(tool) = setting("TOOL") {
        let approval = submit(&gate, None, &tool, 1).await.unwrap();
        if setting("CHANGES").is_some() {
            std::fs::write(page(&folder), NEW).unwrap();
        }
        let resolved = gate.decide_and_run(approve(&approval)).await.unwrap();
        assert_eq!(resolved.refusal, None);
    }
    resume(&gate, &folder, &halt).await;
    say("over");
}

/// Runs released calls, by the gate or as its host.
async fn resume(gate: &Gate, folder: &Path, halt: &HaltPoint) {
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
            apply_effect(folder, call, halt);
            let token = permit.token().expect("a held call");
            let finished = gate.finish(&tenant, call, token, Outcome::succeeded("done"));
            finished.await.unwrap().unwrap();
        }
    }
}

/// A folder with a page file and a store.
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
        site.write_page(OLD);
        site
    }

    fn write_page(&self, text: &str) {
        std::fs::write(page(self.folder.path()), text).unwrap();
    }

    fn child(&self, point: &str, passes: u64, configure: impl FnOnce(&mut Command)) -> ChildProcess {
        let test = "kill::snapshot::works_over_a_page_until_it_is_killed";
        let clock = self.clock.now().as_micros().to_string();
        spawn(test, self.folder.path(), |command| {
            command
                .env("COUNTERSIGN_TEST_KILL_CLOCK", clock)
                .env("COUNTERSIGN_TEST_KILL_POINT", point)
                .env("COUNTERSIGN_TEST_KILL_PASSES", passes.to_string());
            configure(command);
        })
    }

    fn store(&self) -> Arc<dyn Store> {
        open_sqlite(&self.folder.path().join("store.db"), self.clock.clone())
    }

    /// Returns the effects, each with the page it found.
    fn effects(&self) -> Vec<(CallId, String)> {
        let text = std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default();
        let effect = |line: &str| {
            let (call, page) = line.split_once(' ').unwrap();
            (call.parse().unwrap(), page.to_owned())
        };
        text.lines().map(effect).collect()
    }

    /// Returns the first approval and those proposed instead of it, after verifying all.
    fn approvals(&self) -> (SharedApproval, Vec<SharedApproval>) {
        let mut all = runtime().block_on(async {
            let store = self.store();
            let all = all_approvals(&*store).await;
            for approval in &all {
                verified_approval(&*store, approval.id).await;
            }
            all
        });
        (all.pop().expect("it was proposed"), all)
    }
}

/// Kills a process at one point of a call, runs successors, and checks the result.
fn check_kill(tool: &str, point: &str, at_kill: CallAtKill, change: PageChange) {
    let site = Site::new();
    let case = format!("{tool}, {point}, changed {change:?}");
    // Proposing reads the page once, and a host's first start is refused until the page is read: the point is passed
    // once before.
    let earlier = match (point.ends_with("look"), point.ends_with("start")) {
        (true, _) => 1,
        (_, true) if tool == "run_by_host" => 1,
        _ => 0,
    };
    let mut child = site.child(point, earlier, |command| {
        command.env("COUNTERSIGN_TEST_KILL_TOOL", tool);
        if change == PageChange::BeforeRead {
            command.env("COUNTERSIGN_TEST_KILL_CHANGES", "");
        }
    });
    child.until(&format!("at {point}"));
    child.kill();
    let (dead, replacements) = site.approvals();
    let refused = change == PageChange::BeforeRead && point == "after start";
    let on_record = match refused {
        true => CallState::Refused,
        false => at_kill.state,
    };
    assert_eq!(dead.calls[0].state, on_record, "{case}");
    assert_eq!(site.effects().len(), usize::from(at_kill.affected), "{case}");
    assert_eq!(replacements.len(), usize::from(refused), "{case}: in one commit");

    if change == PageChange::WhileDead {
        site.write_page(NEW);
    }
    // Twice: the second process finds nothing left to do.
    for _ in 0..2 {
        site.child("", 0, |_| {}).end();
    }
    let (after, replacements) = site.approvals();
    let call = &after.calls[0];
    let (state, because) = match (at_kill.state, change) {
        (CallState::Released, PageChange::Never) => (CallState::Succeeded, None),
        (CallState::Released, _) | (_, PageChange::BeforeRead) => {
            (CallState::Refused, Some(RefusalReason::Changed))
        }
        (state, _) => (state, None),
    };
    assert_eq!((call.state, &call.because), (state, &because), "{case}");
    let effects = site.effects();
    let ran = at_kill.affected || state == CallState::Succeeded;
    assert_eq!(effects.len(), usize::from(ran), "{case}: at most once");
    for (id, found) in &effects {
        assert_eq!(id.approval, after.id, "{case}: only what was approved");
        let shown = call.before.as_ref().unwrap();
        assert_eq!(found.as_bytes(), &*shown.result, "{case}: over what was shown");
    }
    match (state, replacements.as_slice()) {
        (CallState::Refused, [replacement]) => {
            assert_eq!(
                (replacement.state, replacement.replaces),
                (State::Pending, Some(after.id))
            );
            let shown = replacement.calls[0].before.as_ref().unwrap();
            assert_eq!(&*shown.result, NEW.as_bytes(), "{case}: what is there now");
        }
        (CallState::Refused, _) => panic!("{case}: asked again {} times", replacements.len()),
        _ => assert_eq!(replacements, [], "{case}: nobody is asked again"),
    }
    verify_after_kill(&site, &effects);
}

/// Checks that an hour later nothing is open and nothing more runs.
fn verify_after_kill(site: &Site, effects: &[(CallId, String)]) {
    let (first, mut all) = site.approvals();
    all.push(first);
    site.clock.advance(HOUR);
    let halt = Arc::new(HaltPoint::new(String::new(), 0));
    runtime().block_on(async {
        let gate = gate(site.store(), site.folder.path().to_owned(), halt);
        check_sweep(&gate, &all).await;
    });
    assert_eq!(site.effects(), effects, "nothing ran again");
}

#[test]
fn x22_kill_around_the_last_look_on_sqlite() {
    for _ in 0..rounds("X22", 1) {
        for tool in ["run_by_gate", "run_by_host"] {
            for (point, at_kill) in POINTS {
                check_kill(tool, point, at_kill, PageChange::Never);
                check_kill(tool, point, at_kill, PageChange::WhileDead);
            }
        }
    }
}

/// The refusal and the new proposal are one commit: the question is neither lost nor asked twice.
#[test]
fn x22_kill_while_a_changed_call_is_refused_on_sqlite() {
    let to_refusal = POINTS
        .into_iter()
        .take_while(|(point, _)| *point != "before effect");
    for (point, at_kill) in to_refusal {
        for tool in ["run_by_gate", "run_by_host"] {
            check_kill(tool, point, at_kill, PageChange::BeforeRead);
        }
    }
}
