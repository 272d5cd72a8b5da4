//! A small CRM: a few contacts in memory, and a journal of everything that really ran.

use std::sync::{Arc, Mutex};

use countersign::conversation::{Conversations, Message as Heard, Origin};
use countersign::decision::{Decider, Surface};
use countersign::executor::{Outcome, Tools};
use countersign::gate::Gate;
use countersign::id::{Channel, Key, Person, Tenant, ToolName};
use countersign::policy::Policy;
use countersign::prompt::Prompt;
use countersign::store::Store;
use countersign::store::memory::MemoryStore;
use countersign_agent::agent::{Agent, Place, Plan, TurnError};
use countersign_agent::file::{AgentFile, Provider};
use countersign_agent::model::Model;
use countersign_agent::progress::{Listener, Progress};

pub const POLICY: &str = r#"
[tools.search_contacts]
effect = "read"

[tools.create_contact]
effect = "write"
summary = "Create contact {{ name }}, {{ email }}{% if company %}, {{ company }}{% endif %}"
undo = { tool = "delete_contact", arguments = { id = "{{ result.id }}" } }

[tools.delete_contact]
effect = "destructive"
summary = "Delete contact {{ id }}"
"#;

pub const TOOLS: &str = r#"[
  {"name": "search_contacts", "description": "Finds contacts",
   "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}}},
  {"name": "create_contact", "description": "Creates a contact",
   "input_schema": {"type": "object", "required": ["name", "email"], "additionalProperties": false, "properties":
     {"name": {"type": "string"}, "email": {"type": "string"}, "company": {"type": "string"},
      "confirmed": {"type": "boolean"}}}},
  {"name": "delete_contact", "description": "Deletes a contact",
   "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}}}
]"#;

pub const AGENT: &str = r#"
name = "crm"
[models.any]
anthropic = "a"
openai = "o"
[[specialist]]
name = "contacts"
about = "Contacts"
prompt = "You keep contacts."
model = "any"
tools = ["search_contacts", "create_contact", "delete_contact"]
"#;

pub type Journal = Arc<Mutex<Vec<String>>>;

pub struct World {
    pub agent: Agent,
    pub store: Arc<dyn Store>,
    pub journal: Journal,
    messages: Mutex<u32>,
    card: Mutex<Option<(Key, Prompt)>>,
}

fn tools(journal: &Journal) -> Tools {
    let mut tools = Tools::default();
    for name in ["search_contacts", "create_contact", "delete_contact"] {
        let journal = journal.clone();
        tools = tools.with(ToolName::new(name).unwrap(), move |permit| {
            let journal = journal.clone();
            async move {
                let arguments = String::from_utf8_lossy(permit.arguments().as_bytes()).into_owned();
                let mut journal = journal.lock().unwrap();
                journal.push(format!("{name} {arguments}"));
                match name {
                    "search_contacts" => {
                        Outcome::succeeded(r#"{"contacts":[{"id":"c-7","name":"John Smith"}]}"#)
                    }
                    _ => Outcome::succeeded(format!(r#"{{"id":"c-{}"}}"#, journal.len())),
                }
            }
        });
    }
    tools
}

pub fn plan(agent: &str, script: &str) -> Plan {
    let file = AgentFile::parse(agent, TOOLS, Some(script)).unwrap();
    file.plan(&Provider::Script).unwrap()
}

/// The same, with another mind.
pub fn plan_of(model: Arc<dyn Model>) -> Plan {
    let mut plan = plan(AGENT, "");
    for specialist in &mut plan.specialists {
        specialist.role.model = model.clone();
    }
    plan
}

pub fn world(script: &str) -> World {
    World::over(
        Arc::new(MemoryStore::default()),
        Journal::default(),
        POLICY,
        plan(AGENT, script),
    )
}

pub fn tenant() -> Tenant {
    Tenant::single()
}

pub fn channel() -> Channel {
    Channel::new("chat-1").unwrap()
}

pub fn alice() -> Decider {
    Decider::new(
        Person::new("alice").unwrap(),
        vec!["approvers".to_owned()],
        Surface::Text,
    )
}

impl World {
    pub fn over(store: Arc<dyn Store>, journal: Journal, policy: &str, plan: Plan) -> World {
        let policy = Arc::new(Policy::parse(policy).unwrap());
        let gate = Gate::new(store.clone(), policy).with_executor(Arc::new(tools(&journal)));
        World {
            agent: Agent::new(Conversations::new(gate), plan),
            store,
            journal,
            messages: Mutex::new(0),
            card: Mutex::new(None),
        }
    }

    /// The same after a restart: what was in memory is gone.
    pub fn restarted(&self, plan: Plan) -> World {
        World::over(self.store.clone(), self.journal.clone(), POLICY, plan)
    }

    pub fn place(&self) -> Place {
        Place {
            tenant: tenant(),
            channel: channel(),
            person: alice().person,
        }
    }

    fn next(&self) -> Key {
        let mut messages = self.messages.lock().unwrap();
        *messages += 1;
        Key::new(format!("message-{}-{:p}", *messages, self)).unwrap()
    }

    /// Says something, and gives what the person then sees.
    pub async fn says(&self, text: &str) -> String {
        let (shown, result) = self.try_says(text).await;
        result.unwrap_or_else(|error| panic!("`{text}`: {error}; {shown}"));
        shown
    }

    pub async fn try_says(&self, text: &str) -> (String, Result<(), TurnError>) {
        let message = Heard {
            tenant: tenant(),
            channel: channel(),
            sender: alice(),
            text: text.to_owned(),
            language: None,
            id: self.next(),
            origin: Origin::Written,
            after: self.card.lock().unwrap().as_ref().map(|(key, _)| key.clone()),
        };
        self.watch(|agent, listener| async move { agent.hear(message, &listener).await })
            .await
    }

    /// The first call of the card that was settled last.
    pub async fn latest_done(&self) -> countersign::id::CallId {
        let session = self.agent.session(&tenant(), &channel()).await.unwrap();
        countersign::id::CallId {
            approval: *session.settled_approvals().last().unwrap(),
            position: 1,
        }
    }

    /// Approves some calls of the card, by its button.
    pub async fn presses_only(&self, only: &[u8]) -> String {
        let payload = self
            .card
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .1
            .approve
            .clone()
            .unwrap();
        let (place, by, only) = (self.place(), alice(), only.to_vec());
        let pressed = |agent: Agent, listener| async move {
            agent.press(place, &payload, Some(&only), by, &listener).await
        };
        let (shown, result) = self.watch(pressed).await;
        result.unwrap();
        shown
    }

    pub async fn presses(&self, yes: bool) -> String {
        let prompt = self.card.lock().unwrap().as_ref().unwrap().1.clone();
        let payload = if yes { prompt.approve.unwrap() } else { prompt.deny };
        let place = self.place();
        let mut by = alice();
        by.surface = Surface::Button;
        let pressed =
            |agent: Agent, listener| async move { agent.press(place, &payload, None, by, &listener).await };
        let (shown, result) = self.watch(pressed).await;
        result.unwrap();
        shown
    }

    pub async fn greets(&self) -> String {
        let place = self.place();
        let greeted = |agent: Agent, listener| async move { agent.greet(place, &listener).await };
        let (shown, result) = self.watch(greeted).await;
        result.unwrap();
        shown
    }

    pub async fn resumes(&self) -> String {
        let place = self.place();
        let resumed = |agent: Agent, listener| async move { agent.resume(place, &listener).await };
        let (shown, result) = self.watch(resumed).await;
        result.unwrap();
        shown
    }

    /// What a person sees of a turn: the agent's words, the channel's, and the card as the last thing.
    pub async fn watch<F>(&self, turn: impl FnOnce(Agent, Listener) -> F) -> (String, Result<(), TurnError>)
    where
        F: Future<Output = Result<(), TurnError>>,
    {
        let (listener, mut heard) = Listener::new();
        let turn = turn(self.agent.clone(), listener);
        let seen = async {
            let mut seen = String::new();
            while let Some(progress) = heard.recv().await {
                match progress {
                    Progress::Text(text) => seen.push_str(&text),
                    Progress::Said(text) => seen.push_str(&format!("\n[{text}]")),
                    Progress::Again { reason } => seen.push_str(&format!("\n(again: {reason})\n")),
                    Progress::Notice(text) => seen.push_str(&format!("\n(notice: {text})")),
                    Progress::Routed { specialist } => seen.push_str(&format!("(to {specialist})\n")),
                    Progress::Result { tool, status, .. } => {
                        seen.push_str(&format!("\n<{tool}: {status}>\n"))
                    }
                    Progress::Held { prompt, .. } => {
                        // Each world is new, so this is so of every tool's first card.
                        let first = "look twice: this agent never asked for this tool before";
                        let is_more = |line: &&str| !line.ends_with(first);
                        let text: Vec<&str> = prompt.text.lines().filter(is_more).collect();
                        seen.push_str(&format!("\n{{{}}}", text.join("\n")));
                        let key = self.next();
                        let conversations = self.agent.conversations();
                        // Where this fails, a yes shows the card again.
                        let _ = conversations
                            .shown(&tenant(), &channel(), &prompt, key.clone())
                            .await;
                        *self.card.lock().unwrap() = Some((key, *prompt));
                    }
                    Progress::Called { .. }
                    | Progress::Proposed { .. }
                    | Progress::Answered { .. }
                    | Progress::Decided { .. }
                    | Progress::Done { .. } => {}
                }
            }
            seen
        };
        let (result, seen) = tokio::join!(turn, seen);
        (seen.trim().to_owned(), result)
    }

    pub fn ran(&self) -> Vec<String> {
        self.journal.lock().unwrap().clone()
    }
}
