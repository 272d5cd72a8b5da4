//! Prints output above the prompt while a person is typing. Only complete lines are printed.

use std::sync::mpsc::Sender;

/// Prints complete lines above the prompt, and buffers the incomplete last line.
pub struct AbovePrompt {
    printer: Sender<String>,
    is_colored: bool,
    begun: String,
}

impl AbovePrompt {
    pub fn new(printer: Sender<String>, is_colored: bool) -> AbovePrompt {
        AbovePrompt {
            printer,
            is_colored,
            begun: String::new(),
        }
    }

    /// Buffers text, which must already be escaped, and prints its complete lines.
    pub fn text(&mut self, text: &str) {
        match self.is_colored {
            true => self.begun.push_str(text),
            false => self
                .begun
                .push_str(&anstream::adapter::strip_str(text).to_string()),
        }
        if let Some(end) = self.begun.rfind('\n') {
            let rest = self.begun.split_off(end + 1);
            let whole = std::mem::replace(&mut self.begun, rest);
            self.print(whole);
        }
    }

    /// Prints the incomplete last line, if there is one.
    pub fn end(mut self) {
        if !self.begun.is_empty() {
            let rest = std::mem::take(&mut self.begun);
            self.print(rest);
        }
    }

    fn print(&self, text: String) {
        // A closed terminal is ignored.
        let _ = self.printer.send(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_printed_above_and_the_rest_at_the_end() {
        let (printer, printed) = std::sync::mpsc::channel();
        let mut above = AbovePrompt::new(printer, false);
        for text in ["\u{1b}[1mDo", "ne!\u{1b}[0m It", " is\nthere\nand", " more"] {
            above.text(text);
        }
        above.end();
        let printed: Vec<String> = printed.iter().collect();
        assert_eq!(printed, ["Done! It is\nthere\n", "and more"]);
    }
}
