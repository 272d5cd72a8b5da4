//! Provenance of a call's values, using the defaults, secrets and schemas that only the policy knows.

use crate::json::{Kind, Leaf};
use crate::provenance::{self, Declared, Provenance, VouchedConversation, is_parameter};
use crate::secrecy::Secrecy;

use super::{Policy, Tool};

impl Policy {
    /// Returns true if the tool's values are traced; false if all its calls pass anyway.
    pub(crate) fn is_traced(&self, tool: &str) -> bool {
        !self.tools.get(tool).is_some_and(Tool::is_plain_read)
    }

    /// Traces a call's values. Secret values keep their marks, but not the words they were found in.
    pub fn trace(&self, tool: &str, arguments: &[u8], told: &VouchedConversation) -> Provenance {
        let tool = self.tools.get(tool);
        let definition = Definition { policy: self, tool };
        let traced = provenance::trace_declared(told.conversation(), arguments, &definition);
        let mut provenance = traced.by(told.voucher());
        let secrets = tool.map(|tool| tool.secrets.clone()).unwrap_or_default();
        let secrecy = Secrecy::new(secrets, &[], [arguments]).over(arguments);
        for leaf in &mut provenance.leaves {
            if secrecy.is_secret(leaf.place().0) {
                leaf.mark.hide();
            }
        }
        provenance
    }
}

/// A tool's entry in the policy, as the source of the tracer's facts about the tool.
struct Definition<'p> {
    policy: &'p Policy,
    tool: Option<&'p Tool>,
}

impl Declared for Definition<'_> {
    fn is_default(&self, leaf: &Leaf<'_>) -> bool {
        self.tool.is_some_and(|tool| is_default(tool, leaf))
    }

    fn is_name(&self, pointer: &str) -> bool {
        let schema = self.tool.and_then(|tool| tool.schema.as_ref());
        let declared = schema.and_then(|schema| schema.declared.is_name(pointer));
        declared.unwrap_or_else(|| is_parameter(pointer))
    }

    fn is_outside(&self, tool: &str) -> bool {
        self.policy.tools.get(tool).is_some_and(|tool| tool.is_outside)
    }
}

fn is_default(tool: &Tool, leaf: &Leaf<'_>) -> bool {
    let declared = tool
        .schema
        .as_ref()
        .and_then(|schema| schema.declared.default(&leaf.pointer));
    match (declared, leaf.kind) {
        (None, _) => false,
        (Some(declared), Kind::String) => declared.as_str() == Some(&*leaf.text()),
        (Some(declared), _) => {
            serde_json::from_str(leaf.raw).is_ok_and(|value: serde_json::Value| value == *declared)
        }
    }
}
