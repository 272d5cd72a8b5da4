//! Provenance of values on a card: a mark beside each value, and one summary line.
//!
//! Input: the provenance traced by the gate. Output: words and CSS classes. Marks have their own column, where no value
//! can imitate them.

use countersign::display::one_line;
use countersign::provenance::{Coverage, Mark, Provenance, Voucher};
use countersign::sentence::Origins;
use serde::Serialize;

use crate::inbox::language::{Language, say};
use crate::view::origin::untraced;

/// Provenance mark of one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Marked {
    /// CSS class, according to the mark's prominence.
    pub class: &'static str,
    pub tag: &'static str,
    /// Source of the value, with the words that state it, if that says more than the tag. Shown as a tooltip on the
    /// list and as text on the full card.
    pub hint: Option<String>,
}

/// Summary of which values the person stated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub class: &'static str,
    pub text: String,
}

impl Marked {
    /// Creates the display form of a mark. `voucher` says whether the gate or the agent supplied the conversation in
    /// which the value was traced.
    pub fn new(mark: &Mark, voucher: Voucher) -> Marked {
        let is_plain = matches!(mark, Mark::Invented { agent_said_it: false });
        Marked {
            class: class(mark.prominence()),
            tag: say(mark.tag(voucher)),
            hint: mark
                .detail()
                .filter(|_| !is_plain)
                .map(|detail| one_line(&detail).into_owned()),
        }
    }

    /// Adds to the hint that the mark concerns the object key `name` on the path to the value. Does nothing if `name`
    /// is `None`.
    pub fn about(mut self, name: Option<&str>) -> Marked {
        if let Some(name) = name {
            let why = self.hint.as_deref().unwrap_or("nobody stated it");
            self.hint = Some(format!("the name “{}”: {why}", one_line(name)));
        }
        self
    }
}

impl Verdict {
    /// Creates the summary from the call's provenance or, without provenance, from the reason why the values were not
    /// traced. A missing conversation is not a warning here; if one was expected, a concern reports that.
    pub fn new(provenance: Option<&Provenance>, is_undo: bool) -> Verdict {
        match provenance {
            Some(provenance) => {
                // If the gate records only tool results and no messages of the person, unknown values are to be
                // expected.
                let is_expected = |mark: &Mark| provenance.heard == Coverage::Tools && *mark == Mark::Unknown;
                let marks = provenance.leaves.iter().map(|leaf| &leaf.mark);
                let marks = marks.filter(|mark| !is_expected(mark)).map(Mark::prominence);
                // A conversation supplied by the agent is marked at least as prominently as an unknown origin.
                let least = match (provenance.vouched_by(), provenance.heard) {
                    (Voucher::Agent, _) => Mark::Unknown.prominence(),
                    (Voucher::Gate, Coverage::Tools) => NEUTRAL,
                    (Voucher::Gate, _) => 0,
                };
                Verdict {
                    class: class(marks.max().unwrap_or(0).max(least)),
                    text: match Language::current() {
                        Language::English => provenance.verdict(),
                        Language::Spanish => provenance.verdict_in(&Origins::spanish()),
                    },
                }
            }
            None => Verdict {
                class: class(NEUTRAL),
                text: say(untraced(is_undo)).to_owned(),
            },
        }
    }
}

/// Prominence of a line that is neither good nor bad news.
const NEUTRAL: u8 = 1;

/// Maps prominence to a CSS class. The names are short because a list has hundreds of them.
fn class(prominence: u8) -> &'static str {
    match prominence {
        0 => "m0",
        1 | 2 => "m1",
        3 => "m3",
        _ => "m5",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign::policy::Policy;
    use countersign::provenance::{Conversation, Marks, Message, VouchedConversation};

    #[test]
    fn a18_what_nobody_stated_comes_first_and_a_secret_is_as_loud_as_its_worst_part() {
        let policy = Policy::parse("[tools.t]\neffect = \"write\"\nsecret = [\"auth\"]").unwrap();
        let arguments = br#"{"name":"Maria","auth":{"user":"Maria","key":"invented"},"email":"m@acme.com"}"#;
        let text = "Add Maria".to_owned();
        let messages = vec![Message::Person { text, at: None }];
        let provenance = policy.trace(
            "t",
            arguments,
            &VouchedConversation::supplied(Conversation { messages }),
        );
        let marks = Marks::new(&provenance);
        let mut rows = policy.table("t", arguments, b"salt");
        marks.loudest_first(&mut rows);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.pointer.as_str(),
                    Marked::new(marks.of(row), Voucher::Gate).class,
                )
            })
            .collect();
        assert_eq!(shown, [("/auth", "m5"), ("/email", "m5"), ("/name", "m0")]);
        assert_eq!(Verdict::new(Some(&provenance), false).class, "m5");
        assert_eq!(
            Verdict::new(None, false).class,
            "m1",
            "neither fine nor a warning"
        );
    }
}
