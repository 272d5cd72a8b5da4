//! X22: what a call would change is read when a person is asked, and again before it runs.

use std::sync::{Arc, Mutex};

use crate::world::*;
use countersign::approval::SharedApproval;
use countersign::call::RefusalReason;
use countersign::decision::{Choice, Decision, Verdict};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{ApprovalOptions, Gate, Resolved, Ruled, SubmitError};
use countersign::id::{Tenant, ToolName};
use countersign::policy::Policy;
use countersign::seal::Sealer;
use countersign::state::{CallState, State};
use countersign::store::memory::MemoryStore;
use countersign::store::suite::failing::FailingStore;
use countersign::store::{Filter, Store};
use countersign::time::{ManualClock, Time};

const CMS: &str = r#"
[tools.get_page]
effect = "read"

[tools.delete_page]
effect = "destructive"
summary = "Delete page \"{{ before.title }}\" and its {{ before.sections | length }} sections"
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }

[tools.rename_page]
effect = "write"
summary = "Rename \"{{ before.title }}\" to \"{{ title }}\""
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }
secret = ["token"]

[tools.tidy]
effect = "write"
on_failure = "continue"
before = { tool = "get_page", arguments = { id = "{{ args.id }}" } }
"#;

const PAGE: &str = r#"{"title":"About us","sections":["a","b","c","d"],"token":"canary"}"#;
const DELETE: &str = r#"{"id":"p1"}"#;

/// A site with one page that others may change, and a record of the calls that ran.
struct Site {
    gate: Gate,
    store: Arc<dyn Store>,
    /// `None` if the page cannot be read.
    page: Arc<Mutex<Option<String>>>,
    done: Arc<Mutex<Vec<String>>>,
    reads: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
}

fn site() -> Site {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    site_over(Arc::new(MemoryStore::with_clock(clock)))
}

fn site_over(store: Arc<dyn Store>) -> Site {
    let page = Arc::new(Mutex::new(Some(PAGE.to_owned())));
    let (done, reads) = (
        Arc::<Mutex<Vec<String>>>::default(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let (shared, noted) = (page.clone(), reads.clone());
    let mut tools = Tools::default().with(ToolName::new("get_page").unwrap(), move |permit| {
        noted
            .lock()
            .unwrap()
            .push(permit.secret().map(|secret| secret.reveal().to_vec()));
        let page = shared.lock().unwrap().clone();
        async move { page.map_or_else(|| Outcome::failed("no such page"), Outcome::succeeded) }
    });
    for name in ["delete_page", "rename_page", "tidy"] {
        let done = done.clone();
        tools = tools.with(ToolName::new(name).unwrap(), move |permit| {
            let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
            let secret = permit
                .secret()
                .map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned());
            let secret = secret.map(|secret| format!(" with {secret}")).unwrap_or_default();
            done.lock().unwrap().push(format!("{name} {arguments}{secret}"));
            async { Outcome::succeeded("{}") }
        });
    }
    let gate = Gate::new(store.clone(), Arc::new(Policy::parse(CMS).unwrap()))
        .with_executor(Arc::new(tools))
        .with_sealer(Sealer::from_hex(&"5e".repeat(32)).unwrap());
    Site {
        gate,
        store,
        page,
        done,
        reads,
    }
}

impl Site {
    async fn hold(&self, tool: &str, arguments: &str) -> SharedApproval {
        let submitted = self.gate.submit(submission(vec![call(tool, arguments)])).await;
        submitted.unwrap().approval.unwrap()
    }

    fn becomes(&self, page: Option<&str>) {
        *self.page.lock().unwrap() = page.map(str::to_owned);
    }

    async fn approve(&self, approval: &SharedApproval) -> Resolved {
        let decision = decision(approval, alice(), Verdict::Approve);
        self.gate.decide_and_run(decision).await.unwrap()
    }

    fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    async fn pending(&self) -> Vec<SharedApproval> {
        let tenant = countersign::id::Tenant::single();
        self.store.list(&tenant, &Filter::pending()).await.unwrap()
    }
}

#[tokio::test]
async fn c5_a_card_says_what_would_be_changed() {
    let site = site();
    let approval = site.hold("delete_page", DELETE).await;
    let call = &approval.calls[0];
    assert_eq!(call.terms.summary, "Delete page \"About us\" and its 4 sections");
    let before = call.before.as_ref().unwrap();
    assert_eq!(
        (before.tool.as_str(), before.arguments.as_bytes()),
        ("get_page", DELETE.as_bytes())
    );
    assert_eq!(&*before.result, PAGE.as_bytes());
}

#[tokio::test]
async fn x22_what_is_as_it_was_runs_once() {
    let site = site();
    let approval = site.hold("delete_page", DELETE).await;
    let resolved = site.approve(&approval).await;
    assert_eq!(resolved.ran.len(), 1);
    assert_eq!(resolved.approval.unwrap().calls[0].state, CallState::Succeeded);
    assert_eq!(site.done(), [format!("delete_page {DELETE}")]);
    assert_eq!(
        site.reads.lock().unwrap().len(),
        2,
        "when it was asked, and before it ran"
    );
    assert!(site.pending().await.is_empty());
}

#[tokio::test]
async fn x22_what_was_changed_in_between_does_not_run_and_is_asked_again() {
    let site = site();
    let approval = site.hold("delete_page", DELETE).await;
    let five = PAGE.replace(r#""d""#, r#""d","e""#);
    site.becomes(Some(&five));
    let resolved = site.approve(&approval).await;
    let call = &resolved.approval.as_ref().unwrap().calls[0];
    assert_eq!(
        (call.state, &call.because),
        (CallState::Refused, &Some(RefusalReason::Changed))
    );
    assert!(resolved.ran.is_empty() && site.done().is_empty());
    let pending = site.pending().await;
    let [again] = pending.as_slice() else {
        panic!("{pending:?}")
    };
    assert_eq!(
        again.calls[0].terms.summary,
        "Delete page \"About us\" and its 5 sections"
    );
    assert_eq!(again.replaces, Some(approval.id));
    assert_eq!(
        (&again.agent, &again.channel),
        (&approval.agent, &approval.channel)
    );
    // The earlier approval does not carry over: the call runs only after another one.
    assert_eq!(again.decision, None);
    site.approve(again).await.accepted().unwrap();
    assert_eq!(site.done(), [format!("delete_page {DELETE}")]);
}

#[tokio::test]
async fn x22_what_cannot_be_read_is_neither_asked_about_nor_run() {
    let site = site();
    site.becomes(None);
    let mut submitted = site
        .gate
        .submit(submission(vec![call("delete_page", DELETE)]))
        .await
        .unwrap();
    let Some(Ruled::Forbidden { reason }) = submitted.calls.pop() else {
        panic!("{submitted:?}")
    };
    assert!(
        reason.contains("what `delete_page` would change cannot be read: `get_page` failed: no such page"),
        "{reason}"
    );
    let asked = site
        .gate
        .ask(
            submission(vec![call("delete_page", DELETE)]),
            ApprovalOptions::default(),
        )
        .await;
    assert!(matches!(asked, Err(SubmitError::NotAskable(1, _))), "{asked:?}");
    site.becomes(Some(&"x".repeat(65 * 1024)));
    let submitted = site
        .gate
        .submit(submission(vec![call("delete_page", DELETE)]))
        .await
        .unwrap();
    assert!(submitted.approval.is_none(), "too large to be shown");

    site.becomes(Some(PAGE));
    let approval = site.hold("delete_page", DELETE).await;
    site.becomes(None);
    let resolved = site.approve(&approval).await;
    assert_eq!(
        resolved.approval.unwrap().calls[0].because,
        Some(RefusalReason::Unreadable)
    );
    assert!(site.done().is_empty() && site.pending().await.is_empty());
}

#[tokio::test]
async fn x22_a_host_that_starts_the_call_is_stopped_too() {
    let site = site();
    let approval = site.hold("delete_page", DELETE).await;
    site.gate
        .decide(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let id = countersign::id::CallId {
        approval: approval.id,
        position: 1,
    };
    site.becomes(Some("{}"));
    let refused = site.gate.start(&approval.tenant, id).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "not_as_shown");
    // The summary of the new card needs a title that is missing: a note says so, and the card shows what is there.
    let pending = site.pending().await;
    assert!(pending[0].calls[0].terms.notes[0].contains("the summary template failed"));
    site.gate
        .decide(decision(&pending[0], alice(), Verdict::Approve))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let id = countersign::id::CallId {
        approval: pending[0].id,
        position: 1,
    };
    assert!(site.gate.start(&approval.tenant, id).await.unwrap().is_ok());
}

#[tokio::test]
async fn x22_an_edit_keeps_to_what_was_shown() {
    let site = site();
    let edit = |approval: &SharedApproval, arguments: &str| -> Decision {
        let arguments = countersign::call::Arguments::parse(arguments.as_bytes()).unwrap();
        decision(approval, alice(), Verdict::Each(vec![Choice::Edit(arguments)]))
    };
    let approval = site.hold("rename_page", r#"{"id":"p1","title":"Team"}"#).await;
    let refused = site
        .gate
        .decide_and_run(edit(&approval, r#"{"id":"p2","title":"Team"}"#))
        .await
        .unwrap();
    assert_eq!(refused.refusal.unwrap().code(), "bad_edit");
    let resolved = site
        .gate
        .decide_and_run(edit(&approval, r#"{"id":"p1","title":"People"}"#))
        .await
        .unwrap();
    let call = resolved.approval.unwrap().calls[0].clone();
    assert_eq!(call.terms.summary, "Rename \"About us\" to \"People\"");
    assert_eq!(site.done(), [r#"rename_page {"id":"p1","title":"People"}"#]);
}

#[tokio::test]
async fn a15_a_credential_goes_with_the_call_and_never_to_the_read() {
    let site = site();
    let call = with_secret(call("delete_page", DELETE), "hunter2");
    let submitted = site.gate.submit(submission(vec![call])).await.unwrap();
    site.becomes(Some(r#"{"title":"Other","sections":[]}"#));
    let first = submitted.approval.unwrap();
    site.approve(&first).await.accepted().unwrap();
    let after = site
        .store
        .approval(&first.tenant, first.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.calls[0].sealed, None);
    let pending = site.pending().await;
    site.approve(&pending[0]).await.accepted().unwrap();
    assert_eq!(site.done(), [format!("delete_page {DELETE} with hunter2")]);
    assert!(site.reads.lock().unwrap().iter().all(Option::is_none));
}

#[tokio::test]
async fn x22_each_call_of_a_batch_is_looked_at_just_before_it_runs() {
    let site = site();
    let calls = vec![call("tidy", DELETE), call("tidy", DELETE), call("tidy", DELETE)];
    let approval = site
        .gate
        .submit(submission(calls))
        .await
        .unwrap()
        .approval
        .unwrap();
    let resolved = site.approve(&approval).await;
    assert_eq!(resolved.ran.len(), 3);
    assert_eq!(site.reads.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a7_in_a_conversation_the_new_question_is_shown_at_once() {
    use countersign::conversation::{Conversations, Message, Origin};
    use countersign::id::Key;
    let site = site();
    let approval = site.hold("delete_page", DELETE).await;
    let conversations = Conversations::new(site.gate.clone());
    let (tenant, channel) = (approval.tenant.clone(), approval.channel.clone().unwrap());
    let card = Key::new("card-1").unwrap();
    let prompt = conversations.prompt(&approval, None).await.unwrap();
    conversations
        .shown(&tenant, &channel, &prompt, card.clone())
        .await
        .unwrap();
    site.becomes(Some(r#"{"title":"About them","sections":[]}"#));
    let message = Message {
        tenant,
        channel,
        sender: alice(),
        text: "yes".to_owned(),
        language: None,
        id: Key::new("m-1").unwrap(),
        origin: Origin::Written,
        after: Some(card),
    };
    let said = conversations.hear(message).await.unwrap();
    assert_eq!(
        said.say.as_deref(),
        Some("Nothing was done: what it would change has changed since it was shown.")
    );
    assert_eq!(
        said.show.unwrap().summary,
        "Delete page \"About them\" and its 0 sections"
    );
}

/// Fails each store call in turn: a call runs only if its start is on record and its snapshot is what was shown.
#[tokio::test(start_paused = true)]
async fn i11_x22_no_failing_store_call_lets_it_run_over_something_else() {
    for changes in [false, true] {
        for fault in (1..=10).flat_map(FailingStore::<MemoryStore>::faults_of) {
            let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
            let store = Arc::new(FailingStore::new(
                MemoryStore::with_clock(clock),
                vec![fault.clone()],
            ));
            let site = site_over(store.clone());
            let submitted = site
                .gate
                .submit(submission(vec![call("delete_page", DELETE)]))
                .await;
            let Some(approval) = submitted.ok().and_then(|submitted| submitted.approval) else {
                continue;
            };
            if changes {
                site.becomes(Some("{}"));
            }
            let _ = site
                .gate
                .decide_and_run(decision(&approval, alice(), Verdict::Approve))
                .await;
            let ran = site.done().len();
            let events = store.inner().events(&approval.tenant, approval.id).await.unwrap();
            let starts = events
                .iter()
                .filter(|event| event.what.as_str() == "started")
                .count();
            assert!(
                ran <= starts && starts <= usize::from(!changes),
                "{fault:?}: {ran} of {starts}"
            );
            let found = store
                .inner()
                .approval(&approval.tenant, approval.id)
                .await
                .unwrap()
                .unwrap();
            // A new card exists exactly if the old call was refused because of the change.
            let pending = store
                .inner()
                .list(&approval.tenant, &Filter::pending())
                .await
                .unwrap();
            let again = pending.iter().filter(|other| other.id != approval.id).count();
            let is_refused = found.calls[0].because == Some(RefusalReason::Changed);
            assert_eq!(again, usize::from(is_refused), "{fault:?}");
            assert!(found.state != State::Denied);
        }
    }
}

/// A call with a snapshot is started after the decision, so another process may start it first. The decision's answer
/// still has the outcome.
#[tokio::test]
async fn a7_a_decision_waits_for_a_call_that_another_process_started() {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock));
    let policy = Arc::new(Policy::parse(CMS).unwrap());
    let runs = Arc::<Mutex<Vec<&str>>>::default();
    let page = || async { Outcome::succeeded(PAGE) };
    let noted = runs.clone();
    let others = Tools::default()
        .with(ToolName::new("get_page").unwrap(), move |_| page())
        .with(ToolName::new("delete_page").unwrap(), move |_| {
            noted.lock().unwrap().push("other");
            async {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                Outcome::succeeded("{}")
            }
        });
    let other = Gate::new(store.clone(), policy.clone()).with_executor(Arc::new(others));
    let reads = Arc::<std::sync::atomic::AtomicUsize>::default();
    let (noted, counted, looking) = (runs.clone(), reads.clone(), store.clone());
    let tools = Tools::default()
        .with(ToolName::new("get_page").unwrap(), move |_| {
            let is_first = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            let (other, store) = (other.clone(), looking.clone());
            async move {
                if !is_first {
                    let approved = Filter {
                        state: Some(State::Approved),
                        ..Filter::default()
                    };
                    let released = store.list(&Tenant::single(), &approved).await.unwrap()[0].clone();
                    tokio::spawn(async move { other.run_released(&Tenant::single(), released).await });
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                Outcome::succeeded(PAGE)
            }
        })
        .with(ToolName::new("delete_page").unwrap(), move |_| {
            noted.lock().unwrap().push("own");
            async { Outcome::succeeded("{}") }
        });
    let gate = Gate::new(store, policy).with_executor(Arc::new(tools));
    let submitted = gate.submit(submission(vec![call("delete_page", DELETE)])).await;
    let approval = submitted.unwrap().approval.unwrap();
    let resolved = gate
        .decide_and_run(decision(&approval, alice(), Verdict::Approve))
        .await
        .unwrap();
    assert_eq!(*runs.lock().unwrap(), ["other"]);
    assert_eq!(resolved.approval.unwrap().calls[0].state, CallState::Succeeded);
}
