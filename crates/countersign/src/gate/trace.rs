//! Traces the origins of a submission's values.

use super::{Gate, Submission};
use crate::policy::CallRequest;
use crate::provenance::Provenance;

#[cfg(feature = "provenance")]
impl Gate {
    /// Traces where a call's values came from; `None` if the submission has no conversation.
    pub(super) fn trace(&self, submission: &Submission, request: CallRequest<'_>) -> Option<Provenance> {
        let told = submission.conversation.as_ref()?;
        Some(self.policy.trace(request.tool, request.arguments, told))
    }

    /// Traces a call as [`Self::trace`] does. Also returns `None` if the policy lets all calls of the tool pass anyway.
    pub(super) fn trace_unless_passed(
        &self,
        submission: &Submission,
        request: CallRequest<'_>,
    ) -> Option<Provenance> {
        let is_traced = self.policy.is_traced(request.tool);
        is_traced.then(|| self.trace(submission, request)).flatten()
    }
}

/// Returns true if the submission's conversation is so long that tracing may block a shared thread for too long.
#[cfg(feature = "provenance")]
pub(super) fn is_long(submission: &Submission) -> bool {
    const LONG_FROM: usize = 64 * 1024;
    let told = submission.conversation.iter();
    let messages = told.flat_map(|told| &told.conversation().messages);
    messages.map(|message| message.text().len()).sum::<usize>() >= LONG_FROM
}

/// Without the feature `provenance`, a submission has no conversation, and nothing is traced.
#[cfg(not(feature = "provenance"))]
impl Gate {
    pub(super) fn trace(&self, _: &Submission, _: CallRequest<'_>) -> Option<Provenance> {
        None
    }

    pub(super) fn trace_unless_passed(&self, _: &Submission, _: CallRequest<'_>) -> Option<Provenance> {
        None
    }
}

#[cfg(not(feature = "provenance"))]
pub(super) fn is_long(_: &Submission) -> bool {
    false
}
