//! What tools and prompts of several servers are called towards the client: `SERVER__TOOL`.
//!
//! The protocol allows letters, digits, `_`, `-` and `.` in a tool's name, and models' interfaces leave out the dot: so
//! the border is `__`. A server's name holds none and does not end in `_`, so the first one is the border, and no two
//! tools of two servers have one name.

/// What the client calls it.
pub fn qualified(server: &str, name: &str) -> String {
    format!("{server}__{name}")
}

/// The server, and what that one calls it.
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
