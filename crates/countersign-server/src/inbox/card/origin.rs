//! Where values came from, as a card shows it: a mark beside each value, and one line over all.
//!
//! Enters: what the gate traced. Leaves: words and the names of their colours. A mark stands in a column of its own,
//! where no value can imitate it.

use countersign::provenance::{Mark, Provenance, Teller};
use serde::Serialize;

/// The mark of one value.
#[derive(Debug, Serialize)]
pub struct Marked {
    /// Picks its colour; as loud as the mark.
    pub class: &'static str,
    pub tag: &'static str,
    /// Who stated it, and in which words, where that says more than the tag: for a mouse that rests on it, and on
    /// the whole card for every eye.
    pub hint: Option<String>,
}

/// How far a call's values are the person's.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub class: &'static str,
    pub text: String,
}

impl Marked {
    /// The mark of a value, from a conversation that this teller vouches for.
    pub fn new(mark: &Mark, teller: Teller) -> Marked {
        let is_plain = matches!(mark, Mark::Invented { agent_said_it: false });
        Marked {
            class: class(mark.loudness()),
            tag: mark.tag(teller),
            hint: mark.detail().filter(|_| !is_plain),
        }
    }

    /// Says that the mark is that of a name on the way to the value.
    pub fn about(mut self, name: Option<&str>) -> Marked {
        if let Some(name) = name {
            let why = self.hint.as_deref().unwrap_or("nobody stated it");
            self.hint = Some(format!("the name “{name}”: {why}"));
        }
        self
    }
}

impl Verdict {
    /// The gate's verdict; that nobody could look, where no conversation was given.
    pub fn new(provenance: Option<&Provenance>) -> Verdict {
        match provenance {
            Some(provenance) => {
                let marks = provenance.leaves.iter().map(|leaf| leaf.mark.loudness());
                // The agent's own account is never as quiet as what the gate heard.
                let least = match provenance.told_by() {
                    Teller::Agent => Mark::Unknown.loudness(),
                    Teller::Gate => 0,
                };
                Verdict {
                    class: class(marks.max().unwrap_or(0).max(least)),
                    text: provenance.verdict(),
                }
            }
            None => Verdict {
                class: class(Mark::Unknown.loudness()),
                text: "where the values came from is unknown".to_owned(),
            },
        }
    }
}

/// Short, because a list has hundreds of them.
fn class(loudness: u8) -> &'static str {
    match loudness {
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
    use countersign::provenance::{Conversation, Marks, Message, Told};

    #[test]
    fn a18_what_nobody_stated_comes_first_and_a_secret_is_as_loud_as_its_worst_part() {
        let policy = Policy::parse("[tools.t]\neffect = \"write\"\nsecret = [\"auth\"]").unwrap();
        let arguments = br#"{"name":"Maria","auth":{"user":"Maria","key":"invented"},"email":"m@acme.com"}"#;
        let text = "Add Maria".to_owned();
        let messages = vec![Message::Person { text, at: None }];
        let provenance = policy.trace("t", arguments, &Told::supplied(Conversation { messages }));
        let marks = Marks::new(&provenance);
        let mut rows = policy.table("t", arguments, b"salt");
        marks.loudest_first(&mut rows);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.pointer.as_str(),
                    Marked::new(marks.of(row), Teller::Gate).class,
                )
            })
            .collect();
        assert_eq!(shown, [("/auth", "m5"), ("/email", "m5"), ("/name", "m0")]);
        assert_eq!(Verdict::new(Some(&provenance)).class, "m5");
        assert_eq!(Verdict::new(None).class, "m3");
    }
}
