//! An approved call that the server itself answered with a question: the client may come back with the answer, once,
//! and is not put to a person again.
//!
//! Enters: states that servers gave out in answer to approved calls. Leaves: whether a call that brings one is the rest
//! of such a call. Deliberately absent: the store. After a restart the call is simply made anew.

use std::sync::{Arc, Mutex, PoisonError};

use super::frame::pick;

/// The most that are remembered.
const MOST: usize = 1000;

/// What may be continued.
#[derive(Default)]
pub struct Continuations(Mutex<Vec<Continuation>>);

/// A call that may be continued with a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// What the client brings back.
    pub state: String,
    /// The tool, which must be the same.
    pub tool: String,
    /// The arguments, which must be the same.
    pub arguments: Arc<[u8]>,
}

impl Continuations {
    /// Remembers what a server answered to an approved call, if it is a question.
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

    /// Whether this is the rest of an approved call; once.
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
