//! Provenance: where each value of a call came from (the person's words, a tool's result, or nowhere).
//!
//! [`Provenance`] has a mark for each value, with the words it was found in; it is stored with a call and shown on its
//! card. [`trace_declared`] makes it from a conversation; that needs the feature `provenance`.

#[cfg(not(feature = "provenance"))]
mod absent;
#[cfg(feature = "provenance")]
mod conversation;
mod mark;
#[cfg(feature = "provenance")]
mod trace;
mod verdict;
#[cfg(feature = "provenance")]
mod vouched;

#[cfg(not(feature = "provenance"))]
pub use absent::VouchedConversation;
#[cfg(feature = "provenance")]
pub use conversation::{Conversation, MOST_BYTES, MOST_MESSAGES, Message};
pub use mark::{
    Counts, Coverage, Derivation, Derived, Mark, MatchKind, Part, Provenance, Quote, ToolQuote, Traced,
    Voucher, place,
};
#[cfg(feature = "provenance")]
pub use trace::{Declared, is_parameter, trace, trace_declared, unknown};
pub use verdict::Marks;
#[cfg(feature = "provenance")]
pub use vouched::VouchedConversation;
