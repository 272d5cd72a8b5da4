//! Loads the agents that a service or a chat serves: built-in examples, or an agent's own files.
//!
//! Input: the configuration. Output: agents that are ready to be served, the data of example agents ("worlds") and the
//! policy of their tools. Conversations with the agents are in `service::agents`.

mod credentials;
mod files;
mod load;
mod policy;
mod provider;

pub use credentials::credentials;
pub use files::{built_in, open_world, read, text};
pub use load::{AgentSource, Ready, load};
pub use policy::{join, without};
pub use provider::{Choice, provider};
