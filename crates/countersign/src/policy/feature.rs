//! Cargo features that keys of a policy need.
//!
//! INVARIANT: a key that this build does not understand is a mistake in the policy. It is never ignored, because the
//! policy would then hold or forbid less than it says.

use toml::de::DeTable;

use super::read::Reader;

/// A Cargo feature of this crate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feature {
    name: &'static str,
    is_enabled: bool,
}

#[cfg(not(feature = "cel"))]
pub(super) const CEL: Feature = Feature {
    name: "cel",
    is_enabled: false,
};
pub(super) const PROVENANCE: Feature = Feature {
    name: "provenance",
    is_enabled: cfg!(feature = "provenance"),
};
pub(super) const REPLY: Feature = Feature {
    name: "reply",
    is_enabled: cfg!(feature = "reply"),
};
pub(super) const SCHEMA: Feature = Feature {
    name: "schema",
    is_enabled: cfg!(feature = "schema"),
};

impl Feature {
    /// Returns an error message about `what`, and a hint, if this program was built without the feature; `None`
    /// otherwise.
    pub(super) fn missing_for(self, what: &str) -> Option<(String, String)> {
        let Feature { name, is_enabled } = self;
        (!is_enabled).then(|| {
            let message = format!("{what} needs the feature `{name}`, which this program was built without");
            let hint = format!("add `{name}` to the features of the crate `countersign`, or leave it out");
            (message, hint)
        })
    }

    /// Returns false, and reports a mistake, if the table has the key but this program was built without the feature.
    pub(super) fn can_read(self, reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str) -> bool {
        match (table.get_key_value(key), self.missing_for(&format!("`{key}`"))) {
            (Some((found, _)), Some((message, hint))) => {
                reader.problem(found.span().start, message, hint);
                false
            }
            _ => true,
        }
    }
}
