//! Names of tools and prompts as the client sees them with several servers: `SERVER__TOOL`.
//!
//! The protocol allows letters, digits, `_`, `-` and `.` in a tool's name, and model APIs do not allow the dot, so the
//! separator is `__`. A server's name contains no `__` and does not end in `_`; the first `__` is therefore the
//! separator, and tools of different servers never have the same name.

/// Returns the name that the client sees, `SERVER__NAME`.
pub fn qualified(server: &str, name: &str) -> String {
    format!("{server}__{name}")
}

/// Splits `SERVER__NAME` into the server's name and the server's own name for the tool or prompt; `None` without `__`.
pub fn split(qualified: &str) -> Option<(&str, &str)> {
    qualified.split_once("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x42_a_name_belongs_to_one_server() {
        for (server, tool) in [
            ("a", "b"),
            ("a", "_b"),
            ("a_b", "c"),
            ("a", "b__c"),
            ("a-b", "__c"),
        ] {
            assert_eq!(split(&qualified(server, tool)), Some((server, tool)));
        }
        assert_eq!(split("plain"), None);
    }
}
