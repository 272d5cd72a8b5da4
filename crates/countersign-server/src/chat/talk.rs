//! One conversation: each line to the agent, and what comes of it to the screen.
//!
//! INVARIANT: what the agent says stands behind a bar on every line, made safe; only we write without one.

use countersign::conversation::{Message as Heard, Origin};
use countersign::decision::{Decider, Surface};
use countersign::display::escape;
use countersign::id::Key;
use countersign::prompt::Prompt;
use countersign_agent::agent::{Agent, Place, TurnError};
use countersign_agent::message::Message;
use countersign_agent::progress::{Listener, Progress};

use super::event::event;
use super::line::Button;
use crate::failure::Failure;
use crate::output::card::{Length, card};
use crate::output::style::{self, paint};
use crate::output::{Output, once};
use crate::view;

const HELP: &str = "\
  yes, no            answer a card, in your own words; or Alt-Y and Alt-N, `/yes` and `/no`
  all but the third  of several things, some
  undo               take back what was done last
  /card              the whole card that waits
  /history           what was said so far
  /quit              end it; the conversation is kept
";

/// What to do after a line.
pub enum Next {
    Line,
    End,
}

/// A conversation.
pub struct Talk<'a> {
    agent: Agent,
    place: Place,
    person: Decider,
    language: Option<String>,
    output: &'a mut Output,
    /// The card that stands last, and the message it is.
    card: Option<(Key, Prompt)>,
    /// Whether the agent is in the middle of a line.
    is_speaking: bool,
}

impl<'a> Talk<'a> {
    pub fn new(
        agent: Agent,
        place: Place,
        person: Decider,
        language: Option<String>,
        output: &'a mut Output,
    ) -> Talk<'a> {
        Talk {
            agent,
            place,
            person,
            language,
            output,
            card: None,
            is_speaking: false,
        }
    }

    /// Whether a card waits for an answer.
    pub fn has_card(&self) -> bool {
        self.card.is_some()
    }

    /// Shows the card that waited, as after a restart.
    pub async fn greet(&mut self) {
        let place = self.place.clone();
        self.turn(|agent, listener| async move { agent.greet(place, &listener).await })
            .await;
    }

    /// Takes a line.
    pub async fn line(&mut self, line: &str) -> Next {
        match line.trim() {
            "/quit" | "/exit" => return Next::End,
            "/help" | "/?" => self.output.text(HELP),
            "/yes" => self.press(Button::Yes).await,
            "/no" => self.press(Button::No).await,
            "/undo" => self.says("undo that").await,
            "/card" => self.whole_card().await,
            "/history" => self.history().await,
            other if other.starts_with('/') => {
                let message = format!("`{other}` is no command; `/help` lists them");
                self.output.notice("command", &message);
            }
            _ => self.says(line).await,
        }
        Next::Line
    }

    /// Takes a button: bound to the card it belongs to.
    pub async fn press(&mut self, button: Button) {
        let Some((_, prompt)) = &self.card else {
            return self.output.notice("card", "no card waits for an answer");
        };
        let payload = match button {
            Button::Yes => prompt.approve.clone(),
            Button::No => prompt.deny.clone(),
        };
        let by = Decider {
            surface: Surface::Button,
            ..self.person.clone()
        };
        let place = self.place.clone();
        self.turn(|agent, listener| async move { agent.press(place, &payload, by, &listener).await })
            .await;
    }

    async fn says(&mut self, text: &str) {
        let Ok(id) = self.new_key().await else { return };
        let message = Heard {
            tenant: self.place.tenant.clone(),
            channel: self.place.channel.clone(),
            sender: Decider {
                surface: Surface::Text,
                ..self.person.clone()
            },
            text: text.to_owned(),
            language: self.language.clone(),
            id,
            origin: Origin::Written,
            after: self.card.as_ref().map(|(key, _)| key.clone()),
        };
        self.turn(|agent, listener| async move { agent.hear(message, &listener).await })
            .await;
    }

    /// Runs a turn and shows it as it happens. Ctrl-C ends it; what it had on record stays.
    async fn turn<F>(&mut self, turn: impl FnOnce(Agent, Listener) -> F)
    where
        F: Future<Output = Result<(), TurnError>>,
    {
        let (listener, mut heard) = Listener::new();
        let agent = self.agent.clone();
        let had_card = self.card.take().is_some();
        let turn = turn(agent, listener);
        tokio::pin!(turn);
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                progress = heard.recv() => match progress {
                    Some(progress) => self.show(progress).await,
                    None => break,
                },
                result = &mut turn, if ended.is_none() => ended = Some(result),
                _ = tokio::signal::ctrl_c() => {
                    ended = None;
                    self.end_line();
                    self.output.notice("interrupted", "stopped listening; what was on record stays");
                    break;
                }
            }
            if ended.is_some() && heard.is_closed() && heard.is_empty() {
                break;
            }
        }
        self.end_line();
        if let Some(Err(error)) = ended {
            self.output.failure(&failed(error));
        }
        if had_card && self.card.is_none() {
            // Something else stands last now. Where that cannot be noted, a yes shows the card again.
            let (tenant, channel) = (&self.place.tenant, &self.place.channel);
            let _ = self.agent.conversations().said(tenant, channel).await;
        }
    }

    async fn show(&mut self, progress: Progress) {
        if self.output.is_json {
            self.show_json(&progress).await;
            return;
        }
        match progress {
            Progress::Text(text) => self.speak(&text),
            Progress::Result {
                tool,
                status,
                requires_confirmation,
                is_error,
                ..
            } => {
                self.end_line();
                let style = match (requires_confirmation, is_error) {
                    (true, _) => style::NOTICE,
                    (false, true) => style::WARNING,
                    (false, false) => style::FAINT,
                };
                let status = match requires_confirmation {
                    true => "confirmation required",
                    false => &status,
                };
                let line = paint(style, &format!("  · {}: {}", escape(&tool), escape(status)));
                self.output.line(&line);
            }
            Progress::Said(text) => {
                self.end_line();
                for line in text.lines() {
                    self.output.line(&paint(style::STRONG, &once(line)));
                }
            }
            Progress::Held { approval, prompt } => {
                self.end_line();
                self.show_card(&approval, Length::Short).await;
                self.ask(&prompt);
                self.stands(prompt).await;
            }
            Progress::Notice(text) => {
                self.end_line();
                self.output.notice("agent", &text);
            }
            Progress::Again { reason } => {
                self.end_line();
                self.output
                    .notice("evaluator", &format!("answering again: {reason}"));
            }
            Progress::Routed { .. }
            | Progress::Called { .. }
            | Progress::Decided { .. }
            | Progress::Done { .. } => {}
        }
    }

    async fn show_json(&mut self, progress: &Progress) {
        if let Ok(line) = self.output.json_line(&event(progress)) {
            self.output.line(&line);
        }
        if let Progress::Held { prompt, .. } = progress {
            self.stands(prompt.clone()).await;
        }
    }

    /// The agent's words as they come, each line behind a bar.
    fn speak(&mut self, text: &str) {
        let bar = paint(style::FAINT, "│");
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                if !self.is_speaking {
                    self.output.text(&bar);
                }
                self.output.text("\n");
                self.is_speaking = false;
            }
            if !line.is_empty() {
                let begin = if self.is_speaking {
                    String::new()
                } else {
                    format!("{bar} ")
                };
                self.output.text(&format!("{begin}{}", escape(line)));
                self.is_speaking = true;
            }
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_speaking) && !self.output.is_json {
            self.output.text("\n");
        }
    }

    async fn show_card(&mut self, approval: &countersign::approval::Approval, length: Length) {
        let gate = self.agent.gate();
        let shown = async {
            let now = gate.store().now().await?;
            let concerns = gate.concerns(approval).await?;
            let view = view::approval(approval, gate.policy(), now);
            Ok::<_, countersign::store::StoreError>(view.with_concerns(&concerns))
        };
        match shown.await {
            Ok(view) => self.output.text(&format!("\n{}\n", card(&view, length))),
            Err(error) => self.output.failure(&error.into()),
        }
    }

    fn ask(&mut self, prompt: &Prompt) {
        let (yes, no) = (once(&prompt.yes), once(&prompt.no));
        let mut line = format!(
            "{}  or  {}",
            paint(style::STRONG, &format!("[Alt-Y] {yes}")),
            paint(style::STRONG, &format!("[Alt-N] {no}")),
        );
        if prompt.numbered > 1 {
            line.push_str("  or some, as in \"all but the first\"");
        }
        self.output.line(&line);
    }

    /// Notes that this card stands last now.
    async fn stands(&mut self, prompt: Prompt) {
        let noted = async {
            let key = self.new_key().await?;
            let (tenant, channel) = (&self.place.tenant, &self.place.channel);
            let conversations = self.agent.conversations();
            conversations.shown(tenant, channel, &prompt, key.clone()).await?;
            Ok::<_, Failure>(key)
        };
        match noted.await {
            Ok(key) => self.card = Some((key, prompt)),
            Err(failure) => self.output.failure(&failure),
        }
    }

    async fn whole_card(&mut self) {
        let Some((_, prompt)) = &self.card else {
            return self.output.notice("card", "no card waits for an answer");
        };
        let found = self
            .agent
            .gate()
            .store()
            .approval(&self.place.tenant, prompt.approval)
            .await;
        let prompt = prompt.clone();
        match found {
            Ok(Some(approval)) => {
                self.show_card(&approval, Length::Whole).await;
                self.ask(&prompt);
            }
            Ok(None) => {}
            Err(error) => self.output.failure(&error.into()),
        }
    }

    async fn history(&mut self) {
        let session = self.agent.session(&self.place.tenant, &self.place.channel).await;
        let session = match session {
            Ok(session) => session,
            Err(error) => return self.output.failure(&failed(error)),
        };
        for message in session.messages() {
            match message {
                Message::Person { text, .. } | Message::Reply { text } => {
                    let text: Vec<_> = text.lines().map(escape).collect();
                    self.output.line(&format!("> {}", text.join("\n  ")));
                }
                Message::Agent { text, .. } if !text.is_empty() => {
                    self.speak(text);
                    self.end_line();
                }
                Message::Channel { text } => {
                    for line in text.lines() {
                        self.output.line(&paint(style::STRONG, &once(line)));
                    }
                }
                Message::Results { results } => {
                    for result in results {
                        let line = format!("  · {}: {}", escape(&result.tool), escape(&result.status));
                        self.output.line(&paint(style::FAINT, &line));
                    }
                }
                Message::Agent { .. } => {}
            }
        }
    }

    /// A name for a message, the same for no other.
    async fn new_key(&mut self) -> Result<Key, Failure> {
        let mut random = [0; 16];
        let drawn = getrandom::fill(&mut random);
        drawn.map_err(|error| Failure::error("no_randomness", error.to_string()))?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Key::new(format!("chat-{hex}")).map_err(|problem| Failure::error("bad_name", problem.to_string()))
    }
}

/// A turn that ended early, as a failure.
pub fn failed(error: TurnError) -> Failure {
    let hint = error.hint();
    Failure::error("turn", error.to_string()).hint(hint)
}
