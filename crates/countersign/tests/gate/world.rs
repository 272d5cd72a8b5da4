//! A small world: contacts that can be created and deleted, and a journal of every call that ran.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::decision::{Decider, Decision, Surface, Verdict};
use countersign::executor::{Outcome, Tools};
use countersign::gate::{Gate, Submission, Submitted, SubmittedCall};
use countersign::id::{Agent, Channel, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::seal::{Sealer, Secret};
use countersign::store::Store;
use countersign::store::memory::MemoryStore;
use countersign::time::{ManualClock, Time};

pub const POLICY: &str = r#"
[tools.search_contacts]
effect = "read"

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}, {{ email }}{% if company %}, {{ company }}{% endif %}"
yes = "Create"
undo = { tool = "delete_contact", arguments = { id = "{{ result.id }}" } }

[tools.delete_contact]
effect = "destructive"
summary = "Delete contact {{ id }}"

[tools.refund]
effect = "external"
hold = "args.amount >= 100.0"
deny = "args.amount > 10000.0"
approvers = ["finance"]
summary = "Refund {{ amount }}"

[tools.log_in]
effect = "external"
secret = ["password"]
summary = "Log in as {{ name }} with {{ password }}"

[tools.keep_going]
effect = "write"
on_failure = "continue"

[tools.sleep]
effect = "external"
timeout = "1s"

[tools.panic]
effect = "external"

[tools.fail]
effect = "external"
"#;

/// Calls that ran, in order: tool name and exact argument bytes.
pub type Journal = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

pub struct World {
    pub gate: Gate,
    pub journal: Journal,
    pub clock: Arc<ManualClock>,
    pub secrets: Arc<Mutex<Vec<Vec<u8>>>>,
}

pub fn world() -> World {
    world_with(POLICY)
}

pub fn world_with(policy: &str) -> World {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_000_000_000_000)));
    let store = Arc::new(MemoryStore::with_clock(clock.clone()));
    world_over(store, clock, policy)
}

pub fn world_over(store: Arc<dyn Store>, clock: Arc<ManualClock>, policy: &str) -> World {
    let journal = Journal::default();
    let secrets = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let policy = Arc::new(Policy::parse(policy).unwrap());
    let gate = Gate::new(store, policy)
        .with_executor(Arc::new(tools(&journal, &secrets)))
        .with_sealer(Sealer::from_hex(&"5e".repeat(32)).unwrap());
    World {
        gate,
        journal,
        clock,
        secrets,
    }
}

fn tools(journal: &Journal, secrets: &Arc<Mutex<Vec<Vec<u8>>>>) -> Tools {
    let mut tools = Tools::default();
    let names = [
        "search_contacts",
        "create_contact",
        "delete_contact",
        "refund",
        "log_in",
        "keep_going",
    ];
    for name in names.into_iter().chain(["sleep", "panic", "fail"]) {
        let (journal, secrets) = (journal.clone(), secrets.clone());
        tools = tools.with(ToolName::new(name).unwrap(), move |permit| {
            let (journal, secrets) = (journal.clone(), secrets.clone());
            async move {
                let bytes = permit.arguments().as_bytes().to_vec();
                journal.lock().unwrap().push((name.to_owned(), bytes.clone()));
                secrets
                    .lock()
                    .unwrap()
                    .extend(permit.secret().map(|secret| secret.reveal().to_vec()));
                match name {
                    "sleep" => tokio::time::sleep(Duration::from_secs(3)).await,
                    "panic" => panic!("the tool blew up"),
                    _ => {}
                }
                match name == "fail" || bytes.windows(4).any(|window| window == b"fail") {
                    true => Outcome::failed("no such thing"),
                    false => Outcome::succeeded(r#"{"id":"c-1"}"#),
                }
            }
        });
    }
    tools
}

pub fn call(tool: &str, arguments: &str) -> SubmittedCall {
    SubmittedCall::new(tool, arguments.as_bytes())
}

pub fn with_secret(mut call: SubmittedCall, secret: &str) -> SubmittedCall {
    call.secret = Some(Secret::new(secret));
    call
}

pub fn submission(calls: Vec<SubmittedCall>) -> Submission {
    Submission {
        tenant: Tenant::single(),
        agent: Agent::new("crm").unwrap(),
        requester: Person::new("crm-token").unwrap(),
        on_behalf_of: None,
        channel: Some(Channel::new("chat-1").unwrap()),
        run: None,
        session: None,
        claim: None,
        key: None,
        conversation: None,
        options: Default::default(),
        calls,
    }
}

pub fn alice() -> Decider {
    Decider::new(
        Person::new("alice").unwrap(),
        vec!["approvers".to_owned(), "finance".to_owned()],
        Surface::Page,
    )
}

pub fn mallory() -> Decider {
    Decider::new(
        Person::new("mallory").unwrap(),
        vec!["visitors".to_owned()],
        Surface::Page,
    )
}

pub fn decision(approval: &SharedApproval, decider: Decider, verdict: Verdict) -> Decision {
    Decision::on(
        approval.tenant.clone(),
        countersign::card::WholeCard::shown(approval),
        decider,
        verdict,
    )
}

pub const MARIA: &str = r#"{ "name":"Maria Garcia", "email":"maria@acme.com","company":"Acme Corp" }"#;

impl World {
    pub async fn submit(&self, calls: Vec<SubmittedCall>) -> Submitted {
        self.gate.submit(submission(calls)).await.unwrap()
    }

    pub async fn hold(&self, calls: Vec<SubmittedCall>) -> SharedApproval {
        self.submit(calls).await.approval.expect("something is held")
    }

    pub fn ran(&self) -> Vec<String> {
        let journal = self.journal.lock().unwrap();
        journal
            .iter()
            .map(|(tool, bytes)| format!("{tool} {}", String::from_utf8_lossy(bytes)))
            .collect()
    }

    pub async fn now(&self, approval: &SharedApproval) -> SharedApproval {
        self.gate
            .store()
            .approval(&approval.tenant, approval.id)
            .await
            .unwrap()
            .unwrap()
    }

    pub async fn history(&self, approval: &SharedApproval) -> Vec<&'static str> {
        let events = self
            .gate
            .store()
            .events(&approval.tenant, approval.id)
            .await
            .unwrap();
        events.iter().map(|event| event.what.as_str()).collect()
    }
}
