//! Secret values of calls, as declared by the policy.

use crate::call::Call;
use crate::secrecy::Secrecy;
use crate::summary::is_secret;

use super::Policy;

impl Policy {
    /// Returns true if the value at a pointer, or a value that contains it, is secret.
    pub fn is_secret(&self, tool: &str, pointer: &str) -> bool {
        let tool = self.tools.get(tool);
        tool.is_some_and(|tool| is_secret(&tool.secrets, pointer))
    }

    /// Returns true if the value at a pointer of a stored call is secret, by the call's own terms or by this policy.
    pub fn is_secret_of(&self, call: &Call, pointer: &str) -> bool {
        let has_secrets = match &call.terms.secret {
            Some(secret) if secret.is_empty() => self
                .tools
                .get(call.tool.as_str())
                .is_some_and(|tool| !tool.secrets.is_empty()),
            _ => true,
        };
        has_secrets && Secrecy::of(call, self, &[]).is_secret(pointer)
    }
}
