//! One person and one scripted agent in one channel of a new world.

use std::sync::Arc;

use countersign::approval::Approval;
use countersign::conversation::{Conversations, Message, Origin};
use countersign::decision::{Decider, Surface};
use countersign::gate::Gate;
use countersign::id::{Channel, Key, Person, Tenant};
use countersign::policy::Policy;
use countersign::prompt::Prompt;
use countersign::provenance::{Mark, Traced};
use countersign::store::memory::MemoryStore;
use countersign_agent::agent::{Agent, TurnContext, TurnError};
use countersign_agent::file::{AgentFile, Provider};
use countersign_agent::progress::{Listener, Progress};
use countersign_examples::{Setup, World};

pub struct Talk {
    agent: Agent,
    messages: u32,
    card: Option<(Key, Prompt)>,
}

fn channel() -> Channel {
    Channel::new("chat").unwrap()
}

fn person(surface: Surface) -> Decider {
    Decider::new(
        Person::new("alice").unwrap(),
        vec!["approvers".to_owned()],
        surface,
    )
}

impl Talk {
    pub fn new(setup: &'static Setup) -> Talk {
        let policy = Arc::new(Policy::parse(setup.policy).unwrap());
        let world = World::in_memory(setup).unwrap();
        let gate = Gate::new(Arc::new(MemoryStore::default()), policy).with_executor(Arc::new(world));
        let file = AgentFile::parse(setup.agent, setup.definitions, Some(setup.script)).unwrap();
        let plan = file.config(&Provider::Script).unwrap();
        Talk {
            agent: Agent::new(Conversations::new(gate), plan),
            messages: 0,
            card: None,
        }
    }

    /// Sends a message and returns what the person then sees.
    pub async fn says(&mut self, text: &str) -> String {
        let message = Message {
            tenant: Tenant::single(),
            channel: channel(),
            sender: person(Surface::Text),
            text: text.to_owned(),
            language: None,
            id: self.next(),
            origin: Origin::Written,
            after: self.card.as_ref().map(|(key, _)| key.clone()),
        };
        self.watch(async |agent, listener| agent.handle_message(message, &listener).await)
            .await
    }

    /// Presses the button with this label on the last card.
    pub async fn presses(&mut self, label: &str) -> String {
        let Some((_, prompt)) = self.card.clone() else {
            panic!("there is no card with a button `{label}`");
        };
        let payload = match label {
            label if label == prompt.yes => prompt.approve.unwrap(),
            label if label == prompt.no => prompt.deny,
            _ => panic!(
                "no button says `{label}`, but `{}` and `{}`",
                prompt.yes, prompt.no
            ),
        };
        let by = person(Surface::Button);
        let place = TurnContext {
            tenant: Tenant::single(),
            channel: channel(),
            person: by.person.clone(),
        };
        self.watch(async |agent, listener| agent.handle_button(place, &payload, None, by, &listener).await)
            .await
    }

    fn next(&mut self) -> Key {
        self.messages += 1;
        Key::new(format!("message-{}", self.messages)).unwrap()
    }

    async fn watch(&mut self, turn: impl AsyncFnOnce(Agent, Listener) -> Result<(), TurnError>) -> String {
        let (listener, mut heard) = Listener::new();
        let agent = self.agent.clone();
        let turn = turn(agent.clone(), listener);
        let seen = async {
            let mut seen = Vec::new();
            let mut text = String::new();
            while let Some(progress) = heard.recv().await {
                if !matches!(progress, Progress::Text(_)) && !text.trim().is_empty() {
                    seen.push(std::mem::take(&mut text).trim().to_owned());
                }
                match progress {
                    Progress::Text(more) => text.push_str(&more),
                    Progress::ChannelMessage(said) => seen.push(format!("* {said}")),
                    Progress::Retrying { reason } => seen.push(format!("! again: {reason}")),
                    Progress::Notice(notice) => seen.push(format!("! {notice}")),
                    Progress::Routed { specialist } => seen.push(format!("(to {specialist})")),
                    Progress::Result { tool, status, .. } => seen.push(format!("({tool}: {status})")),
                    Progress::ShowCard { approval, prompt } => {
                        let lines: Vec<String> =
                            prompt.text.lines().map(|line| format!("| {line}")).collect();
                        seen.push(lines.join("\n"));
                        seen.extend(unstated(&approval));
                        self.messages += 1;
                        let key = Key::new(format!("message-{}", self.messages)).unwrap();
                        let conversations = agent.conversations();
                        let (tenant, channel) = (Tenant::single(), channel());
                        conversations
                            .shown(&tenant, &channel, &prompt, key.clone())
                            .await
                            .unwrap();
                        self.card = Some((key, *prompt));
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
        let (result, mut seen) = tokio::join!(turn, seen);
        if let Err(error) = result {
            seen.push(format!("! {error}"));
        }
        seen.join("\n")
    }
}

/// Lists the values on a card that neither the person nor a tool stated.
fn unstated(approval: &Approval) -> Vec<String> {
    let traced = approval
        .calls
        .iter()
        .filter_map(|call| call.provenance.as_deref());
    let leaves = traced.flat_map(|provenance| &provenance.leaves);
    let unstated = leaves.filter(|leaf| !matches!(leaf.mark, Mark::Person(_) | Mark::Tool(_)));
    let line = |leaf: &Traced| match leaf.mark {
        Mark::Invented { .. } => format!("| {}: said by nobody", leaf.pointer),
        _ => format!("| {}: {}", leaf.pointer, leaf.mark.word()),
    };
    unstated.map(line).collect()
}
