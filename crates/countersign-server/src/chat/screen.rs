//! Prints a conversation.
//!
//! INVARIANT: a gutter (`│ `) precedes every row of the agent's text and of a call's values; only the program's own
//! text has none.

use clap::builder::styling::Style;
use countersign::approval::Approval;
use countersign::gate::Gate;
use countersign::prompt::Prompt;
use countersign::reply::{Reading, interpret};
use countersign::sentence::{Sentences, fill};
use countersign_agent::message::Message;
use countersign_agent::progress::Progress;
use unicode_width::UnicodeWidthStr as _;

use super::sight::{Sight, Unseen};
use crate::output::card::{Length, card, card_in_talk};
use crate::output::foreign::{self, Foreign, foreign, shown};
use crate::output::layout::lay;
use crate::output::style::{self, paint};
use crate::output::{Output, once};
use crate::view;

/// Prefix of messages in Countersign's own name.
const CHANNEL: &str = "countersign:";

/// Prints a conversation, and tracks which rows of the current card are on the screen.
pub struct Screen<'a> {
    pub output: &'a mut Output,
    /// True once a message in Countersign's own name was printed or, with JSON output, sent as an event. Callers reset
    /// it.
    pub has_said: bool,
    /// True if keys act as buttons: on a terminal, not in a pipe.
    pub has_keys: bool,
    /// True while the agent's text is being printed.
    is_speaking: bool,
    /// Line breaks of the agent's text that are printed once more text follows.
    breaks: usize,
    /// Rows of the card that have been on the screen.
    sight: Sight,
}

impl<'a> Screen<'a> {
    pub fn new(output: &'a mut Output) -> Screen<'a> {
        Screen {
            output,
            has_said: false,
            has_keys: false,
            is_speaking: false,
            breaks: 0,
            sight: Sight::default(),
        }
    }

    /// Prints one step of a turn. Ignores cards, which [`Screen::card`] prints, and steps that people need not see.
    pub fn progress(&mut self, progress: Progress) {
        match progress {
            Progress::Text(text) => self.print_agent_text(&text),
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
                self.output.line(&tool_line(style, status, &tool));
            }
            Progress::ChannelMessage(text) => self.say(&text),
            Progress::Notice(text) => {
                self.end_line();
                self.output.notice_foreign("agent", "the agent:", &text);
            }
            Progress::Retrying { reason } => {
                self.end_line();
                self.output
                    .notice_foreign("evaluator", "answering again:", &reason);
            }
            Progress::Routed { .. }
            | Progress::Called { .. }
            | Progress::Proposed { .. }
            | Progress::Answered { .. }
            | Progress::ShowCard { .. }
            | Progress::Decided { .. }
            | Progress::Done { .. } => {}
        }
    }

    /// Prints a message in Countersign's own name. A gutter precedes its text, which may quote values of a call.
    pub fn say(&mut self, text: &str) {
        self.end_line();
        self.has_said = true;
        self.channel(text);
    }

    fn channel(&mut self, text: &str) {
        for line in text.lines() {
            let line = paint(style::STRONG, &shown(line));
            self.output.line(&format!("{CHANNEL} {line}"));
        }
    }

    /// Prints a piece of the agent's text, each row behind a gutter.
    fn print_agent_text(&mut self, text: &str) {
        let words = text.trim_end_matches('\n');
        if !words.is_empty() {
            if !std::mem::replace(&mut self.is_speaking, true) {
                self.output.text(&foreign::begin());
            }
            let breaks = "\n".repeat(std::mem::take(&mut self.breaks));
            self.output.text(&foreign::piece(&format!("{breaks}{words}")));
        }
        if self.is_speaking {
            self.breaks += text.len() - words.len();
        }
    }

    /// Ends the agent's text and its row, if any is being printed.
    pub fn end_line(&mut self) {
        self.breaks = 0;
        if std::mem::take(&mut self.is_speaking) && !self.output.is_json {
            self.output.text(&foreign::end());
            self.output.end_row();
        }
    }

    /// Prints a card and its buttons, or the failure if the store cannot be read. With [`Length::Short`], facts that
    /// the chat already shows, such as the agent and the times, are left out.
    pub async fn card(
        &mut self,
        gate: &Gate,
        approval: &Approval,
        length: Length,
        prompt: &Prompt,
        sentences: &Sentences,
    ) {
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
                let ask = match self.has_keys {
                    true => ask(prompt, sentences),
                    false => ask_in_words(prompt, sentences),
                };
                self.print_card(&format!("\n{card}\n{ask}\n"));
            }
            Err(error) => self.output.failure(&error.into()),
        }
    }

    /// Prints a card; on a terminal only its first page.
    fn print_card(&mut self, text: &str) {
        let Some(size) = self.output.size().filter(|_| !self.output.is_json) else {
            return self.output.text(text);
        };
        let laid = lay(text, Some(size.columns));
        self.sight = Sight::of(&laid, size);
        self.show_next_page();
    }

    /// Prints the next page of the card. Returns false if there is none.
    pub fn show_next_page(&mut self) -> bool {
        let Some(page) = self.sight.next(self.output.rows()) else {
            return false;
        };
        self.output.text(&page);
        match self.sight.left() {
            0 => {}
            left => {
                let text = format!("-- {left} rows more: press Enter --");
                self.output.line(&paint(style::NOTICE, &text));
            }
        }
        true
    }

    /// Returns why the card cannot be approved now: part of it is not shown yet, or has scrolled off the screen. `None`
    /// if it can be approved.
    pub fn unseen(&self) -> Option<Unseen> {
        let size = self.output.size().filter(|_| !self.output.is_json)?;
        self.sight.unseen(size, self.output.rows())
    }

    /// Adds the rows that a typed line takes on the screen to the number of printed rows.
    pub fn typed(&mut self, line: &str) {
        if let Some(size) = self.output.size() {
            self.output.add_rows(typed_rows(line, size.columns));
        }
    }

    /// Prints the conversation so far.
    pub fn history(&mut self, messages: &[Message]) {
        for message in messages {
            match message {
                Message::Person { text, .. } | Message::Reply { text } => {
                    self.output
                        .line(&format!("> {}", Foreign::lines(text.trim_end()).mark()));
                }
                Message::Agent { text, .. } if !text.is_empty() => {
                    self.print_agent_text(text);
                    self.end_line();
                }
                Message::Channel { text } => self.channel(text),
                Message::Results { results } => {
                    for result in results {
                        let line = tool_line(style::FAINT, &result.status, &result.tool);
                        self.output.line(&line);
                    }
                }
                Message::Agent { .. } => {}
            }
        }
    }
}

/// Returns the line with the buttons of a card, labelled by the policy.
fn ask(prompt: &Prompt, sentences: &Sentences) -> String {
    let (yes, no) = (once(&prompt.yes), once(&prompt.no));
    let mut line = format!(
        "{}  {}",
        paint(style::STRONG, &format!("[Alt-Y] {yes}")),
        paint(style::STRONG, &format!("[Alt-N] {no}")),
    );
    line.push_str(&letters(prompt, sentences));
    if prompt.numbered > 1 {
        let some = paint(style::STRONG, "[Tab, Space]");
        line.push_str(&format!("  {some} {}", sentences.partial_hint));
    }
    line
}

/// Returns the line that says what to reply to a card in a pipe, where there are no keys.
fn ask_in_words(prompt: &Prompt, sentences: &Sentences) -> String {
    let values = [
        ("what", ""),
        ("yes", &*once(&prompt.yes)),
        ("no", &*once(&prompt.no)),
    ];
    let line = fill(&sentences.ask, &values);
    format!(
        "{}{}",
        paint(style::STRONG, line.trim()),
        letters(prompt, sentences)
    )
}

/// Returns a sentence that offers `y` and `n` as answers; empty if this card does not read them as yes and no.
fn letters(prompt: &Prompt, sentences: &Sentences) -> String {
    let reads = |letter: &str, reading: Reading| {
        let language = Some(sentences.language.as_str());
        interpret(prompt.offered(), letter, language).reading == reading
    };
    match reads("y", Reading::Yes) && reads("n", Reading::No) {
        true => format!("  {}", paint(style::FAINT, "or type y, n")),
        false => String::new(),
    }
}

/// Returns the line about a call's result. The tool's name comes from the agent, so it is last and behind a gutter.
fn tool_line(style: Style, status: &str, tool: &str) -> String {
    paint(style, &format!("  · {}: {}", once(status), foreign(tool)))
}

/// Returns the number of rows that a typed line takes, or more: wide characters take two columns, and a tab up to
/// eight. A row too many only makes a card count as scrolled off earlier.
fn typed_rows(line: &str, columns: usize) -> usize {
    let tabs = line.matches('\t').count();
    1 + (line.width() + 8 * tabs) / columns.saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x103_typed_rows_are_never_counted_too_few() {
        for (line, columns, least) in [
            ("yes", 20, 1),
            ("aaaaaaaaaaaaaaaaaaaa", 20, 2),
            ("削除してください削除してください", 20, 2),
            ("🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂", 20, 2),
            ("a\tb\tc\td", 20, 2),
        ] {
            assert!(typed_rows(line, columns) >= least, "{line}");
        }
        assert_eq!(typed_rows("yes", 20), 1);
    }
}
