//! A card (an approval as a person sees it), and the statement that all of it was shown to that person.
//!
//! [`CardText`] is the card as plain text, whole or as much as fits. A surface that showed all of it creates a
//! [`WholeCard`]. The question below the card and its buttons are in `prompt`.

mod text;

#[cfg(feature = "reply")]
pub(crate) use text::length;
pub use text::{CardText, Missing};

use crate::approval::Approval;
use crate::hash::Hash;
use crate::id::ApprovalId;

/// Statement by a surface that it showed a whole card to the person who decides: every call, every value (a secret as
/// its placeholder) and every note of the approval with this digest.
///
/// A surface needs this statement to approve; see [`Decision::on`](crate::decision::Decision::on). A surface must not
/// create it if the surface cut something off, or if the card hides a value that the policy does not call secret. A
/// card that hides such a value cannot be approved, whatever the surface states; see [`Approval::concealed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeCard {
    approval: ApprovalId,
    digest: Hash,
}

impl WholeCard {
    /// Creates the statement that all of this approval was shown. The caller vouches for its truth.
    pub fn shown(approval: &Approval) -> WholeCard {
        WholeCard::of(approval.id, approval.digest)
    }

    /// Like [`WholeCard::shown`], but for a surface that has only the id and the digest, from the approval's JSON.
    pub fn of(approval: ApprovalId, digest: Hash) -> WholeCard {
        WholeCard { approval, digest }
    }

    /// Returns the id of the approval that was shown.
    pub fn approval(&self) -> ApprovalId {
        self.approval
    }

    /// Returns the digest of the approval that was shown.
    pub fn digest(&self) -> Hash {
        self.digest
    }
}
