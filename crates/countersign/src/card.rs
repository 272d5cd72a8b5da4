//! A card, and the statement that all of it was shown to a person.
//!
//! Input: an approval and what is known about it. Output: the card's text, whole or as much as fits, and a
//! [`WholeCard`] only if nothing is missing. Not here: the question below the card and its buttons; see `prompt`.

mod text;

#[cfg(feature = "reply")]
pub(crate) use text::length;
pub use text::{CardText, Missing};

use crate::approval::Approval;
use crate::hash::Hash;
use crate::id::ApprovalId;

/// States that one surface showed a whole card to the person who decides: every call, every value (a secret as its
/// mark) and every note of the approval with this digest.
///
/// Approving requires one; see [`Decision::on`](crate::decision::Decision::on). A surface that cuts something off, or
/// whose card hides a place that the policy does not call secret, must not make one. Whatever a surface states, no such
/// card can be approved; see [`Approval::concealed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeCard {
    approval: ApprovalId,
    digest: Hash,
}

impl WholeCard {
    /// States that all of this approval was shown. The surface that calls this vouches for it.
    pub fn shown(approval: &Approval) -> WholeCard {
        WholeCard::of(approval.id, approval.digest)
    }

    /// Like [`WholeCard::shown`], for a surface that draws an approval from its JSON.
    pub fn of(approval: ApprovalId, digest: Hash) -> WholeCard {
        WholeCard { approval, digest }
    }

    /// Returns the id of the approval that was shown.
    pub fn approval(&self) -> ApprovalId {
        self.approval
    }

    /// Returns the digest of the card that was shown.
    pub fn digest(&self) -> Hash {
        self.digest
    }
}
