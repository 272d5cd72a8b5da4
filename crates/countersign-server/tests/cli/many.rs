//! Bulk actions on a store through the library, which would take minutes by command line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign::card::WholeCard;
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::gate::{Gate, Submission, SubmittedCall};
use countersign::id::{Agent, Person, Tenant};
use countersign::policy::Policy;
use countersign::store::{Filter, Store};
use countersign::time::{Clock as _, ManualClock, SystemClock};
use countersign_store::sqlite::{SqliteOptions, SqliteStore};

/// Key of the session that [`leave_behind`] creates.
pub const SESSION: &str = "0123456789abcdef";
const POLICY: &str = "[agents]\nmost_pending = \"unlimited\"\nproposals_per_minute = \"unlimited\"\n";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn gate(path: &Path, options: SqliteOptions) -> Gate {
    let store = SqliteStore::open(path, options).unwrap();
    Gate::new(Arc::new(store), Arc::new(Policy::parse(POLICY).unwrap()))
}

async fn propose(gate: &Gate, tool: &str) -> countersign::approval::SharedApproval {
    let call = SubmittedCall::new(tool, &b"{}"[..]);
    let (agent, requester) = (Agent::new("crm").unwrap(), Person::new("crm-token").unwrap());
    let submission = Submission::new(Tenant::single(), agent, requester, vec![call]).unwrap();
    gate.submit(submission).await.unwrap().approval.unwrap()
}

/// Proposes and approves `count` calls of a tool. The calls stay released, because this process runs no tools.
pub fn approve_many(path: &Path, tool: &str, count: usize) {
    runtime().block_on(async {
        let gate = gate(path, SqliteOptions::default());
        let each = (0..count).map(|_| async {
            let approval = propose(&gate, tool).await;
            let groups = vec!["approvers".to_owned()];
            let decider = Decider::new(Person::new("ana").unwrap(), groups, Surface::CommandLine);
            let card = WholeCard::shown(&approval);
            let decision = Decision::on(Tenant::single(), card, decider, Verdict::Approve);
            let resolved = gate.decide(decision).await.unwrap();
            assert!(resolved.refusal.is_none(), "{:?}", resolved.refusal);
        });
        futures_util::future::join_all(each).await;
    });
}

/// Returns the states of all calls in the store.
pub fn call_states(path: &Path) -> Vec<String> {
    runtime().block_on(async {
        let options = SqliteOptions {
            other_processes: false,
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(path, options).unwrap();
        let mut states = Vec::new();
        let mut filter = Filter {
            limit: Some(500),
            ..Filter::default()
        };
        loop {
            let page = store.list(&Tenant::single(), &filter).await.unwrap();
            let calls = page.iter().flat_map(|approval| &approval.calls);
            states.extend(calls.map(|call| call.state.to_string()));
            filter.after = page.last().map(|approval| approval.id);
            if !filter.is_full(&page) {
                return states;
            }
        }
    })
}

/// Proposes a call with a clock that is ahead by this much, and returns the approval's id.
pub fn propose_ahead(path: &Path, by: Duration) -> String {
    runtime().block_on(async {
        let clock = ManualClock::at(SystemClock::default().now().plus(by));
        let options = SqliteOptions {
            clock: Some(Arc::new(clock)),
            other_processes: false,
        };
        propose(&gate(path, options), "pay").await.id.to_string()
    })
}

/// Returns all approvals in the store.
pub fn all(path: &Path) -> Vec<countersign::approval::SharedApproval> {
    runtime().block_on(async {
        let options = SqliteOptions {
            other_processes: false,
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(path, options).unwrap();
        let mut filter = Filter {
            limit: Some(500),
            ..Filter::default()
        };
        let mut all = Vec::new();
        loop {
            let page = store.list(&Tenant::single(), &filter).await.unwrap();
            filter.after = page.last().map(|approval| approval.id);
            let is_last = !filter.is_full(&page);
            all.extend(page);
            if is_last {
                store.close().await;
                return all;
            }
        }
    })
}

/// Creates a store that was last used `ago`, with a pending approval, whose id is returned, and a session that has
/// expired since. `is_same_boot` says whether the machine has not been rebooted since.
pub fn leave_behind(path: &Path, ago: Duration, is_same_boot: bool) -> String {
    use countersign::registry::{Entry, Kind};
    use countersign::time::{Anchor, Time};
    runtime().block_on(async {
        let now = SystemClock::default().now();
        let then = Time::from_micros(now.as_micros() - i64::try_from(ago.as_micros()).unwrap());
        let clock = ManualClock::at(then);
        let options = SqliteOptions {
            clock: Some(Arc::new(clock)),
            other_processes: false,
        };
        let gate = gate(path, options);
        let id = propose(&gate, "create_contact").await.id.to_string();
        let mut anchor = Anchor::now(then).unwrap().to_string();
        if !is_same_boot {
            let boot = anchor.split(' ').nth(1).unwrap().to_owned();
            anchor = anchor.replace(&boot, "another");
        }
        let entry = |kind, key: &str, body: String, expires_at| Entry {
            kind,
            key: key.to_owned(),
            tenant: Tenant::single(),
            body: body.into_bytes().into(),
            version: 0,
            expires_at,
        };
        let store = gate.store();
        let anchor = entry(
            Kind::Setting,
            countersign_store::sqlite::CLOCK_ANCHOR,
            anchor,
            None,
        );
        store.put_entry(anchor).await.unwrap();
        let session = entry(Kind::Session, SESSION, String::new(), Some(then.plus(ago / 2)));
        store.put_entry(session).await.unwrap();
        id
    })
}
