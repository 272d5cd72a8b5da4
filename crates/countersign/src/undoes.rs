//! The calls of another approval that an approval would undo.
//!
//! INVARIANT: calls are undone in reverse order. The first call of an undo reverts the last of those calls, and so on.

use std::str::FromStr;

use crate::approval::MOST_CALLS;
use crate::id::{ApprovalId, BadId, CallId, as_text};

/// Calls of one approval to be undone by another, each by its own call. Text form: `ID.4`, or `ID.4+2+1` for several
/// calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Undoes {
    /// Approval whose calls are undone.
    pub approval: ApprovalId,
    /// Bit set of positions.
    positions: u128,
}

impl Undoes {
    /// Builds the set; `None` if it is empty or contains a position outside 1 to [`MOST_CALLS`].
    pub fn new(approval: ApprovalId, positions: impl IntoIterator<Item = u8>) -> Option<Undoes> {
        let mut bits = 0u128;
        for position in positions {
            if !(1..=MOST_CALLS).contains(&usize::from(position)) {
                return None;
            }
            bits |= 1 << position;
        }
        (bits != 0).then_some(Undoes {
            approval,
            positions: bits,
        })
    }

    /// Returns the positions in the order in which they are undone: last first.
    pub fn positions(self) -> impl Iterator<Item = u8> {
        (1..=MOST_CALLS as u8)
            .rev()
            .filter(move |position| self.positions & (1 << *position) != 0)
    }

    /// Returns the call that the undo's call at this position (from 1) reverts; `None` if there is no such position.
    pub fn by(self, position: u8) -> Option<CallId> {
        let index = usize::from(position).checked_sub(1)?;
        let position = self.positions().nth(index)?;
        Some(CallId {
            approval: self.approval,
            position,
        })
    }
}

impl Undoes {
    /// Returns the same text as `Display`, but with the short form of the approval's id.
    pub fn short(self) -> String {
        format!("{}.{}", self.approval.short(), self.numbers())
    }

    fn numbers(self) -> String {
        let positions: Vec<String> = self.positions().map(|position| position.to_string()).collect();
        positions.join("+")
    }
}

impl From<CallId> for Undoes {
    fn from(call: CallId) -> Undoes {
        Undoes {
            approval: call.approval,
            positions: 1u128.checked_shl(u32::from(call.position)).unwrap_or(0),
        }
    }
}

impl std::fmt::Display for Undoes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.approval, self.numbers())
    }
}

impl FromStr for Undoes {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId(text.to_owned());
        let (approval, positions) = text.rsplit_once('.').ok_or_else(bad)?;
        let approval = approval.parse().map_err(|_| bad())?;
        let positions: Result<Vec<u8>, _> = positions.split('+').map(str::parse).collect();
        let undoes = Undoes::new(approval, positions.map_err(|_| bad())?).ok_or_else(bad)?;
        // Accept only the canonical form, so that the history has one spelling.
        match undoes.to_string() == text {
            true => Ok(undoes),
            false => Err(bad()),
        }
    }
}

as_text!(Undoes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a17_a_batch_is_taken_back_from_its_end() {
        let approval = ApprovalId::from_bytes([7; 16]);
        let undoes = Undoes::new(approval, [2, 5, 1]).unwrap();
        let taken: Vec<Option<u8>> = (0..=4)
            .map(|by| undoes.by(by).map(|call| call.position))
            .collect();
        assert_eq!(taken, [None, Some(5), Some(2), Some(1), None]);
        assert_eq!(undoes.to_string(), format!("{approval}.5+2+1"));
        let one = CallId {
            approval,
            position: 100,
        };
        assert_eq!(Undoes::from(one).to_string(), one.to_string());
        assert_eq!(Undoes::from(one).by(1), Some(one));
    }

    #[test]
    fn it_is_read_in_the_one_way_it_is_written() {
        let approval = ApprovalId::from_bytes([7; 16]);
        let check = |positions: &str, is_good: bool| {
            let text = format!("{approval}.{positions}");
            let read = text.parse::<Undoes>();
            assert_eq!(read.is_ok(), is_good, "{positions}");
            if let Ok(read) = read {
                assert_eq!(read.to_string(), text);
            }
        };
        check("1", true);
        check("100+7+1", true);
        check("1+7", false);
        check("7+7", false);
        check("0", false);
        check("101", false);
        check("", false);
        check("+1", false);
        check("x", false);
    }
}
