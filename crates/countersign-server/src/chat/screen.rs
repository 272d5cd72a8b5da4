//! The screen of a conversation.
//!
//! INVARIANT: what the agent says stands behind a bar on every line, made safe; only we write without one.

use countersign::approval::Approval;
use countersign::display::escape;
use countersign::gate::Gate;
use countersign::prompt::Prompt;
use countersign::sentence::Sentences;
use countersign_agent::message::Message;
use countersign_agent::progress::Progress;

use crate::output::card::{Length, card, card_in_talk};
use crate::output::style::{self, paint};
use crate::output::{Output, once};
use crate::view;

/// Where it is shown, and what stands there.
pub struct Screen<'a> {
    pub output: &'a mut Output,
    /// Whether the channel has said something since somebody set this back.
    pub has_said: bool,
    /// Whether the agent is in the middle of a line.
    is_speaking: bool,
}

impl<'a> Screen<'a> {
    pub fn new(output: &'a mut Output) -> Screen<'a> {
        Screen {
            output,
            has_said: false,
            is_speaking: false,
        }
    }

    /// Shows what happened, all but a card.
    pub fn progress(&mut self, progress: Progress) {
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
            Progress::Said(text) => self.say(&text),
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
            | Progress::Proposed { .. }
            | Progress::Answered { .. }
            | Progress::Held { .. }
            | Progress::Decided { .. }
            | Progress::Done { .. } => {}
        }
    }

    /// The channel's own words.
    pub fn say(&mut self, text: &str) {
        self.end_line();
        self.has_said = true;
        for line in text.lines() {
            self.output.line(&paint(style::STRONG, &once(line)));
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

    /// The agent has said what it had to say.
    pub fn end_line(&mut self) {
        if std::mem::take(&mut self.is_speaking) && !self.output.is_json {
            self.output.text("\n");
        }
    }

    /// The card: as short as the talk allows, or whole.
    pub async fn card(&mut self, gate: &Gate, approval: &Approval, length: Length) {
        self.end_line();
        let shown = async {
            let now = gate.store().now().await?;
            let concerns = gate.concerns(approval).await?;
            let view = view::approval(approval, gate.policy(), now);
            Ok::<_, countersign::store::StoreError>(view.with_concerns(&concerns))
        };
        match shown.await {
            Ok(view) => {
                let card = match length {
                    Length::Short => card_in_talk(&view),
                    Length::Whole => card(&view, Length::Whole),
                };
                self.output.text(&format!("\n{card}\n"));
            }
            Err(error) => self.output.failure(&error.into()),
        }
    }

    /// What one can answer to it.
    pub fn ask(&mut self, prompt: &Prompt, sentences: &Sentences) {
        let (yes, no) = (once(&prompt.yes), once(&prompt.no));
        let mut line = format!(
            "{}  {}",
            paint(style::STRONG, &format!("[Alt-Y] {yes}")),
            paint(style::STRONG, &format!("[Alt-N] {no}")),
        );
        if prompt.numbered > 1 {
            let some = paint(style::STRONG, "[Tab, Space]");
            line.push_str(&format!("  {some} {}", sentences.some));
        }
        self.output.line(&line);
    }

    /// What was said so far.
    pub fn history(&mut self, messages: &[Message]) {
        for message in messages {
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
}
