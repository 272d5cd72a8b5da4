//! A small in-memory CRM with a journal of all calls that ran.

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
use countersign_agent::agent::{Agent, AgentConfig, TurnContext, TurnError};
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
                let secret = permit.secret().map(|secret| {
                    let secret = String::from_utf8_lossy(secret.reveal()).into_owned();
                    format!(" with {secret}")
                });
                let mut journal = journal.lock().unwrap();
                journal.push(format!("{name} {arguments}{}", secret.unwrap_or_default()));
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

pub fn config(agent: &str, script: &str) -> AgentConfig {
    let file = AgentFile::parse(agent, TOOLS, Some(script)).unwrap();
    file.config(&Provider::Script).unwrap()
}

/// Returns the usual configuration of the agent, with another model.
pub fn config_with(model: Arc<dyn Model>) -> AgentConfig {
    let mut config = config(AGENT, "");
    for specialist in &mut config.specialists {
        specialist.role.model = model.clone();
    }
    config
}

pub fn world(script: &str) -> World {
    World::over(
        Arc::new(MemoryStore::default()),
        Journal::default(),
        POLICY,
        config(AGENT, script),
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
    pub fn over(store: Arc<dyn Store>, journal: Journal, policy: &str, config: AgentConfig) -> World {
        let policy = Arc::new(Policy::parse(policy).unwrap());
        let gate = Gate::new(store.clone(), policy)
            .with_executor(Arc::new(tools(&journal)))
            .with_sealer(countersign::seal::Sealer::from_hex(&"5e".repeat(32)).unwrap());
        World {
            agent: Agent::new(Conversations::new(gate), config),
            store,
            journal,
            messages: Mutex::new(0),
            card: Mutex::new(None),
        }
    }

    /// Simulates a restart: everything in memory is lost.
    pub fn restarted(&self, config: AgentConfig) -> World {
        World::over(self.store.clone(), self.journal.clone(), POLICY, config)
    }

    pub fn context(&self) -> TurnContext {
        TurnContext {
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

    /// Sends a message and returns what the person then sees.
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
        self.watch(|agent, listener| async move { agent.handle_message(message, &listener).await })
            .await
    }

    /// Returns the id of the first call on the card that was settled last.
    pub async fn latest_done(&self) -> countersign::id::CallId {
        let session = self.agent.session(&tenant(), &channel()).await.unwrap();
        countersign::id::CallId {
            approval: *session.settled_approvals().last().unwrap(),
            position: 1,
        }
    }

    /// Presses the card's approve button for only some of its calls, by position.
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
        let (context, by, only) = (self.context(), alice(), only.to_vec());
        let pressed = |agent: Agent, listener| async move {
            agent
                .handle_button(context, &payload, Some(&only), by, &listener)
                .await
        };
        let (shown, result) = self.watch(pressed).await;
        result.unwrap();
        shown
    }

    pub async fn presses(&self, yes: bool) -> String {
        let prompt = self.card.lock().unwrap().as_ref().unwrap().1.clone();
        let payload = if yes { prompt.approve.unwrap() } else { prompt.deny };
        let context = self.context();
        let mut by = alice();
        by.surface = Surface::Button;
        let pressed = |agent: Agent, listener| async move {
            agent.handle_button(context, &payload, None, by, &listener).await
        };
        let (shown, result) = self.watch(pressed).await;
        result.unwrap();
        shown
    }

    pub async fn shows_pending_card(&self) -> String {
        let context = self.context();
        let greeted =
            |agent: Agent, listener| async move { agent.show_pending_card(context, &listener).await };
        let (shown, result) = self.watch(greeted).await;
        result.unwrap();
        shown
    }

    pub async fn resumes(&self) -> String {
        let context = self.context();
        let resumed = |agent: Agent, listener| async move { agent.resume(context, &listener).await };
        let (shown, result) = self.watch(resumed).await;
        result.unwrap();
        shown
    }

    /// Runs a turn and returns what a person sees: the agent's text, the channel's messages, and the card last.
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
                    Progress::ChannelMessage(text) => seen.push_str(&format!("\n[{text}]")),
                    Progress::Retrying { reason } => seen.push_str(&format!("\n(again: {reason})\n")),
                    Progress::Notice(text) => seen.push_str(&format!("\n(notice: {text})")),
                    Progress::Routed { specialist } => seen.push_str(&format!("(to {specialist})\n")),
                    Progress::Result { tool, status, .. } => {
                        seen.push_str(&format!("\n<{tool}: {status}>\n"))
                    }
                    Progress::ShowCard { prompt, .. } => {
                        // In a new world this note appears on the first card of every tool.
                        let first = "look twice: this agent never asked for this tool before";
                        let is_more = |line: &&str| !line.ends_with(first);
                        let text: Vec<&str> = prompt.text.lines().filter(is_more).collect();
                        seen.push_str(&format!("\n{{{}}}", text.join("\n")));
                        let key = self.next();
                        let conversations = self.agent.conversations();
                        // If this fails, a "yes" shows the card again.
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
