//! What else deserves a second look: short warnings with a reason, from bytes and history alone.
//!
//! Enters: a call, and what the same agent asked before. Leaves: concerns, the gravest first, each safe to show.
//! Deliberately absent: models and scores. Each concern is a fact that a person can check.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use crate::approval::Approval;
use crate::call::Call;
use crate::display::clip;
use crate::json::{self, Kind, Leaf};
use crate::state::State;

/// How far back a denial of the same call is worth a word.
const LATELY: Duration = Duration::from_secs(60 * 60);
/// A batch is large when it has more than twice the calls of the largest before, and more than this.
const LARGE_BATCH: usize = 5;
/// A number is far outside when it is more than ten times the largest before.
const FAR: f64 = 10.0;
/// So many numbers make a history.
const SOME: usize = 3;

/// Something about a call that a person should look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// Exactly this call was denied within the last hour.
    DeniedLately,
    /// A value is one letter away from one that was used before.
    LooksLike {
        /// Where the value stands; escaped.
        pointer: String,
        /// The one that was used before; escaped.
        known: String,
    },
    /// The tool is not what it was when it was last approved.
    DefinitionChanged,
    /// A number is far larger than any before.
    FarLarger {
        /// Where it stands; escaped.
        pointer: String,
        /// The largest before; escaped.
        largest: String,
    },
    /// More calls at once than ever before.
    LargeBatch {
        /// How many.
        calls: usize,
        /// The most before.
        most: usize,
    },
    /// This agent never asked for this tool before.
    FirstUse,
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Concern::DeniedLately => f.write_str("the same call was denied within the last hour"),
            Concern::LooksLike { pointer, known } => {
                write!(
                    f,
                    "{pointer} is one letter away from `{known}`, which was used before"
                )
            }
            Concern::DefinitionChanged => f.write_str("the tool has changed since it was last approved"),
            Concern::FarLarger { pointer, largest } => {
                write!(
                    f,
                    "{pointer} is more than ten times the largest before, {largest}"
                )
            }
            Concern::LargeBatch { calls, most } => {
                write!(f, "{calls} calls at once; the most before were {most}")
            }
            Concern::FirstUse => f.write_str("this agent never asked for this tool before"),
        }
    }
}

/// What deserves a look about `call`, a part of `approval`, given what the same agent asked before. Secrets are told
/// by `is_secret`, and nothing is said about them.
pub fn concerns(
    approval: &Approval,
    call: &Call,
    before: &[impl AsRef<Approval>],
    is_secret: &dyn Fn(&str) -> bool,
) -> Vec<Concern> {
    let before: Vec<&Approval> = before
        .iter()
        .map(AsRef::as_ref)
        .filter(|earlier| earlier.id != approval.id && earlier.agent == approval.agent)
        .collect();
    let same_tool: Vec<&Call> = before
        .iter()
        .flat_map(|earlier| &earlier.calls)
        .filter(|earlier| earlier.tool == call.tool)
        .collect();
    let approved: Vec<&Call> = before
        .iter()
        .filter(|earlier| earlier.state == State::Approved)
        .flat_map(|earlier| &earlier.calls)
        .filter(|earlier| earlier.tool == call.tool)
        .collect();
    let mut found = Vec::new();
    if before.iter().any(|earlier| was_denied(earlier, approval, call)) {
        found.push(Concern::DeniedLately);
    }
    let leaves = json::leaves(call.arguments.as_bytes());
    let leaves: Vec<&Leaf<'_>> = leaves.iter().filter(|leaf| !is_secret(&leaf.pointer)).collect();
    found.extend(look_alikes(&leaves, &approved, is_secret));
    let last = approved.iter().find_map(|earlier| earlier.definition);
    if last.is_some() && call.definition.is_some() && last != call.definition {
        found.push(Concern::DefinitionChanged);
    }
    found.extend(leaves.iter().filter_map(|leaf| far_larger(leaf, &approved)));
    let most = before.iter().map(|earlier| earlier.calls.len()).max();
    let calls = approval.calls.len();
    if let Some(most) = most.filter(|most| calls > LARGE_BATCH && calls > most * 2) {
        found.push(Concern::LargeBatch { calls, most });
    }
    if same_tool.is_empty() {
        found.push(Concern::FirstUse);
    }
    found
}

fn was_denied(earlier: &Approval, approval: &Approval, call: &Call) -> bool {
    let denied = earlier.decision.as_ref().filter(|decided| !decided.approved);
    let is_late = denied.is_some_and(|decided| approval.created_at.since(decided.at) < LATELY);
    let is_same = |other: &Call| other.tool == call.tool && other.arguments == call.arguments;
    is_late && earlier.calls.iter().any(is_same)
}

/// Addresses and names of six letters or more that are one edit away from an approved value at the same place.
fn look_alikes(leaves: &[&Leaf<'_>], approved: &[&Call], is_secret: &dyn Fn(&str) -> bool) -> Vec<Concern> {
    const SHORTEST: usize = 6;
    const MOST_KNOWN: usize = 500;
    const LONGEST: usize = 200;
    let mut known: HashSet<(String, String)> = HashSet::new();
    for call in approved {
        for leaf in json::leaves(call.arguments.as_bytes()) {
            if leaf.kind == Kind::String && !is_secret(&leaf.pointer) && known.len() < MOST_KNOWN {
                known.insert((leaf.pointer.clone(), leaf.text().into_owned()));
            }
        }
    }
    let texts = leaves.iter().filter(|leaf| leaf.kind == Kind::String);
    let alike = texts.filter_map(|leaf| {
        let text = leaf.text();
        let here = || known.iter().filter(|(pointer, _)| *pointer == leaf.pointer);
        if !(SHORTEST..=LONGEST).contains(&text.chars().count()) || here().any(|(_, value)| *value == text) {
            return None;
        }
        let (_, like) = here().find(|(_, value)| is_one_edit(value, &text))?;
        Some(Concern::LooksLike {
            pointer: clip(&leaf.pointer, 100).to_string(),
            known: clip(like, 100).to_string(),
        })
    });
    alike.collect()
}

/// Whether one letter was changed, added, left out, or two neighbours swapped. Digits that differ are other ids.
fn is_one_edit(known: &str, text: &str) -> bool {
    let (left, right): (Vec<char>, Vec<char>) = (known.chars().collect(), text.chars().collect());
    if left.len().abs_diff(right.len()) > 1 {
        return false;
    }
    let head = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let most_tail = left.len().min(right.len()) - head;
    let tail = left
        .iter()
        .rev()
        .zip(right.iter().rev())
        .take(most_tail)
        .take_while(|(a, b)| a == b)
        .count();
    let changed = |letters: &[char]| -> Vec<char> {
        letters
            .get(head..letters.len() - tail)
            .unwrap_or_default()
            .to_vec()
    };
    let (was, is) = (changed(&left), changed(&right));
    let are_letters = was.iter().chain(&is).all(|c| !c.is_ascii_digit())
        || was.len() + is.len() == 2 && was.iter().chain(&is).any(|c| c.is_alphabetic());
    let is_swapped = was.len() == 2 && is.len() == 2 && was.iter().eq(is.iter().rev());
    are_letters && (was.len().max(is.len()) == 1 || is_swapped)
}

fn far_larger(leaf: &Leaf<'_>, approved: &[&Call]) -> Option<Concern> {
    let number = |leaf: &Leaf<'_>| leaf.raw.parse::<f64>().ok().filter(|_| leaf.kind == Kind::Number);
    let here = number(leaf)?;
    let earlier = approved.iter().filter_map(|call| {
        let leaves = json::leaves(call.arguments.as_bytes());
        leaves
            .iter()
            .find(|other| other.pointer == leaf.pointer)
            .and_then(number)
    });
    let numbers: Vec<f64> = earlier.map(f64::abs).collect();
    let largest = numbers.iter().copied().fold(0.0, f64::max);
    let is_far = numbers.len() >= SOME && largest > 0.0 && here.abs() > largest * FAR;
    is_far.then(|| Concern::FarLarger {
        pointer: clip(&leaf.pointer, 100).to_string(),
        largest: largest.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::SharedApproval;
    use crate::command::Propose;
    use crate::decision::Verdict;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::{Fixture, sample};
    use std::sync::Arc;

    fn fixture() -> Fixture {
        let clock = Fixture::clock();
        Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
    }

    fn asks(n: u64, arguments: &str) -> Propose {
        let mut propose = sample::propose(n);
        propose.calls = vec![sample::call(arguments)];
        propose
    }

    async fn history(fixture: &Fixture, arguments: &[&str], verdict: Verdict) -> Vec<SharedApproval> {
        let mut before = Vec::new();
        for (n, arguments) in (1..).zip(arguments) {
            let approval = fixture.propose(asks(n, arguments)).await;
            before.push(fixture.accept(sample::decide(&approval, verdict.clone())).await);
        }
        before
    }

    fn told(approval: &SharedApproval, before: &[SharedApproval]) -> Vec<String> {
        let found = concerns(approval, &approval.calls[0], before, &|pointer| {
            pointer == "/secret"
        });
        found.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_first_use_is_told_once() {
        let fixture = fixture();
        let first = fixture.propose(asks(1, "{}")).await;
        assert_eq!(told(&first, &[]), ["this agent never asked for this tool before"]);
        assert_eq!(told(&fixture.propose(asks(2, "{}")).await, &[first]), [""; 0]);
    }

    #[tokio::test]
    async fn x11_a_denial_is_remembered_for_an_hour() {
        let fixture = fixture();
        let before = history(&fixture, &[r#"{"a":1}"#], Verdict::Deny).await;
        let same = fixture.propose(asks(2, r#"{"a":1}"#)).await;
        assert_eq!(
            told(&same, &before),
            ["the same call was denied within the last hour"]
        );
        assert_eq!(
            told(&fixture.propose(asks(3, r#"{"a":2}"#)).await, &before),
            [""; 0]
        );
        fixture.advance(LATELY);
        assert_eq!(
            told(&fixture.propose(asks(4, r#"{"a":1}"#)).await, &before),
            [""; 0]
        );
    }

    #[tokio::test]
    async fn x16_a_value_that_looks_like_a_known_one_is_told() {
        let fixture = fixture();
        let known = r#"{"to":"maria@acme.com","secret":"abcdefgh","id":"order-1001"}"#;
        let before = history(&fixture, &[known], Verdict::Approve).await;
        let mut n = 1;
        let mut check = async |arguments: &str, expected: &[&str]| {
            n += 1;
            assert_eq!(
                told(&fixture.propose(asks(n, arguments)).await, &before),
                expected,
                "{arguments}"
            );
        };
        let like = "/to is one letter away from `maria@acme.com`, which was used before";
        check(r#"{"to":"marla@acme.com"}"#, &[like]).await;
        check(r#"{"to":"maria@acme.co"}"#, &[like]).await;
        check(r#"{"to":"maria@amce.com"}"#, &[like]).await;
        check(r#"{"to":"maria@acme.com"}"#, &[]).await;
        check(r#"{"to":"pedro@acme.com"}"#, &[]).await;
        check(r#"{"secret":"abcdefgx"}"#, &[]).await;
        // The next order is another order.
        check(r#"{"id":"order-1002"}"#, &[]).await;
    }

    #[tokio::test]
    async fn an_amount_far_outside_is_told() {
        let fixture = fixture();
        let before = history(
            &fixture,
            &[r#"{"n":10}"#, r#"{"n":12.5}"#, r#"{"n":8}"#],
            Verdict::Approve,
        )
        .await;
        let far = fixture.propose(asks(4, r#"{"n":126}"#)).await;
        assert_eq!(
            told(&far, &before),
            ["/n is more than ten times the largest before, 12.5"]
        );
        assert_eq!(
            told(&fixture.propose(asks(5, r#"{"n":125}"#)).await, &before),
            [""; 0]
        );
        assert_eq!(told(&far, &before[..2]), [""; 0], "two numbers are no history");
    }

    #[tokio::test]
    async fn x29_a_changed_definition_and_a_large_batch_are_told() {
        let fixture = fixture();
        let before = history(&fixture, &["{}"], Verdict::Approve).await;
        let mut changed = asks(2, "{}");
        changed.calls[0].definition = Some(crate::hash::Hash::of(b"another"));
        let changed = fixture.propose(changed).await;
        assert_eq!(
            told(&changed, &before),
            ["the tool has changed since it was last approved"]
        );
        let batch = fixture.propose(sample::batch(3, 6)).await;
        assert_eq!(told(&batch, &before), ["6 calls at once; the most before were 1"]);
    }
}
