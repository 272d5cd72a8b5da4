//! Approved calls that the server answered with a question of its own. The client may continue such a call once with
//! the answer, without another approval.
//!
//! A later call continues such a call if it has the `requestState` of the server's question, the same tool and the same
//! arguments. Nothing is stored: after a restart of the gateway the call needs a new approval.

use std::sync::{Arc, Mutex, PoisonError};

use super::frame::pick;

/// Maximum number of calls remembered; the oldest is dropped.
const MOST: usize = 1000;

/// Approved calls that may be continued.
#[derive(Default)]
pub struct Continuations(Mutex<Vec<Continuation>>);

/// A call, and the `requestState` with which a client continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The `requestState` that the client sends back.
    pub state: String,
    /// The tool; a continuation must call the same one.
    pub tool: String,
    /// The arguments; a continuation must repeat the same bytes.
    pub arguments: Arc<[u8]>,
}

impl Continuations {
    /// Remembers an approved call if the server's result is `input_required`.
    pub fn remember(&self, result: &[u8], tool: &str, arguments: &Arc<[u8]>) {
        let Ok([Some(kind), Some(state)]) = pick(result, ["resultType", "requestState"]) else {
            return;
        };
        let Ok(state) = serde_json::from_str(state.get()) else {
            return;
        };
        if kind.get() != "\"input_required\"" {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(Continuation {
            state,
            tool: tool.to_owned(),
            arguments: arguments.clone(),
        });
    }

    /// Returns true if `wanted` continues a remembered call. That call is then forgotten, so that it is continued only
    /// once.
    pub fn take(&self, wanted: &Continuation) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|known| known == wanted);
        place.map(|place| all.remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_continues_its_own_call_once() {
        let continuations = Continuations::default();
        let arguments: Arc<[u8]> = b"{}".as_slice().into();
        let result = br#"{"resultType":"input_required","requestState":"s","inputRequests":{}}"#;
        continuations.remember(result, "t", &arguments);
        continuations.remember(
            br#"{"resultType":"complete","requestState":"x"}"#,
            "t",
            &arguments,
        );
        let wanted = |state: &str, tool: &str, arguments: &[u8]| Continuation {
            state: state.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.into(),
        };
        assert!(!continuations.take(&wanted("x", "t", b"{}")));
        assert!(!continuations.take(&wanted("s", "u", b"{}")));
        assert!(!continuations.take(&wanted("s", "t", b"{ }")));
        assert!(continuations.take(&wanted("s", "t", b"{}")));
        assert!(!continuations.take(&wanted("s", "t", b"{}")));
    }
}
