//! Countersign: human approval between an agent's request and its execution.
//!
//! An agent *submits* the tool calls of one turn to a [`Gate`]. Its [`Policy`] lets reads pass and holds the rest as
//! one [`Approval`]. A person who was shown the whole card *decides*; only then is there a [`Permit`], and only with a
//! permit can an [`Executor`] run a call, at most once, with the exact bytes that were shown. A [`Store`] keeps all of
//! it: [`MemoryStore`] here, SQLite and PostgreSQL in the crate `countersign-store`.
//!
//! ```
//! use countersign::{Decider, Decision, Gate, MemoryStore, Policy, Submission, SubmittedCall, Surface};
//! use countersign::{Tenant, Tools, Verdict, WholeCard};
//!
//! #[derive(serde::Deserialize)]
//! struct Contact {
//!     name: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::parse("[tools.create_contact]\neffect = \"write\"\nsummary = \"Create contact {{ name }}\"")?;
//! let tools = Tools::default().typed("create_contact", |contact: Contact| async move {
//!     Ok::<_, std::io::Error>(format!("created {}", contact.name))
//! })?;
//! let gate = Gate::new(MemoryStore::default(), policy).with_executor(tools);
//!
//! // The agent's turn.
//! let call = SubmittedCall::new("create_contact", r#"{"name":"Maria Garcia"}"#);
//! let submitted = gate.submit(Submission::new(Tenant::single(), "crm", "crm-token", vec![call])?).await?;
//! let approval = submitted.approval.ok_or("a write is held")?;
//! assert_eq!(approval.calls[0].terms.summary, "Create contact Maria Garcia");
//!
//! // Later, elsewhere: a person who was shown the whole card.
//! let alice = Decider::new("alice".try_into()?, vec!["approvers".into()], Surface::Page);
//! let decision = Decision::on(Tenant::single(), WholeCard::shown(&approval), alice, Verdict::Approve);
//! let ran = gate.decide_and_run(decision).await?.accepted()?;
//! assert_eq!(ran.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The gate runs in a tokio runtime with timers (`enable_time` or `enable_all`; `#[tokio::main]` has them). A
//! long-running host spawns [`Gate::maintain`] once per tenant, which records expiries and timeouts and runs calls that
//! were approved elsewhere, and follows [`Gate::pending`] to ask people.
//!
//! # Features
//!
//! All of them are on by default, except `suite`; a program that needs fewer sets `default-features = false`. A policy
//! that needs a missing feature is refused, with a message that names the feature; it is never read in part.
//!
//! | feature | what it adds |
//! |---|---|
//! | `cel` | conditions in policies: `hold`, `deny`, `raise_risk` |
//! | `provenance` | marks that say where a call's values came from; `outside` in policies |
//! | `reply` | chats: [`conversation`], [`prompt`], [`reply`]; `on_other` and `on_filler` in policies |
//! | `schema` | schemas of arguments: `schema` in policies |
//! | `seal` | credentials that a held call carries, encrypted until it runs: [`seal::Sealer`] |
//! | `suite` | the conformance suite for stores; not on by default |
//!
//! Without features, the gate with the memory store is 53 crates; `docs/embedding.md` has the numbers.
//!
//! # Modules
//!
//! A call enters, is ruled on, summarised, held, shown, decided, run and recorded. The modules follow that order; only
//! [`gate`] knows it. Nothing here depends on SQL, HTTP or the environment.
//!
//! - To embed the gate: [`gate`], [`policy`], [`executor`], [`decision`], [`card`], [`approval`], [`id`],
//!   [`working_folder`].
//! - For chats and transcripts: [`conversation`], [`reply`], [`prompt`], [`sentence`], [`transcript`], [`provenance`].
//! - To show values and words safely: [`display`], [`summary`], [`secrecy`], [`concern`].
//! - To write a store: [`store`] with its conformance suite (feature `suite`), [`command`], [`event`], [`log`],
//!   [`registry`], [`wake`], [`time`], [`hash`].

pub mod approval;
pub mod cache;
pub mod call;
pub mod card;
pub mod command;
pub mod concern;
#[cfg(feature = "reply")]
pub mod conversation;
pub mod decision;
pub mod display;
pub mod duration;
pub mod effect;
pub mod event;
pub mod executor;
pub mod gate;
pub mod hash;
pub mod id;
pub mod json;
pub mod log;
pub mod name;
pub mod path_names;
pub mod policy;
#[cfg(feature = "reply")]
pub mod prompt;
pub mod provenance;
pub mod registry;
#[cfg(feature = "reply")]
pub mod reply;
pub mod seal;
pub mod secrecy;
pub mod sentence;
pub mod snapshot;
pub mod state;
pub mod stopwatch;
pub mod store;
pub mod summary;
pub mod time;
pub mod transcript;
pub mod undoes;
pub mod wake;
pub mod working_folder;

pub use approval::{Approval, Order, SharedApproval};
pub use card::WholeCard;
pub use decision::{Assurance, Decider, Decision, Refusal, Surface, Verdict};
pub use executor::{Executor, Outcome, Permit, Tools};
pub use gate::{Gate, Ruled, Submission, SubmitError, Submitted, SubmittedCall};
pub use id::Tenant;
pub use policy::Policy;
pub use store::memory::MemoryStore;
pub use store::{Store, StoreError};
