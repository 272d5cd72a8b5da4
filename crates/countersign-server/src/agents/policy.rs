//! Joins the service's policy with the policies of the example agents that it serves.
//!
//! Input: policies as TOML text. Output: one TOML text. The settings `channel`, `surfaces` and `agents` are taken from
//! the first policy, which is the service's own. The others only add tools.
//! INVARIANT: no tool is listed twice, so that the ruling never depends on the order of policies.

use toml::{Table, Value};

/// Joins policies that were each validated before. `others` are the other policies, each with a name for error
/// messages. Fails if a tool is listed twice.
pub fn join(own: &str, others: &[(&str, &str)]) -> Result<String, String> {
    let mut joined = table("the policy", own)?;
    let mut from: std::collections::HashMap<String, String> = std::collections::HashMap::new();
    let listed = joined
        .entry("tools")
        .or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(listed) = listed else {
        return Err("the policy: `tools` is not a table".to_owned());
    };
    for (name, text) in others {
        let mut other = table(name, text)?;
        let Some(Value::Table(tools)) = other.remove("tools") else {
            continue;
        };
        for (tool, entry) in tools {
            if listed.insert(tool.clone(), entry).is_some() {
                let earlier = from.get(&tool).map_or("the policy", String::as_str);
                return Err(format!("tool `{tool}` is listed by {earlier} and by {name}"));
            }
            from.insert(tool, (*name).to_owned());
        }
    }
    Ok(joined.to_string())
}

/// Returns the policy as text, without the tools in `left_out`.
pub fn without(own: &str, left_out: &[&str]) -> Result<String, String> {
    let mut table = table("the policy", own)?;
    if let Some(Value::Table(tools)) = table.get_mut("tools") {
        tools.retain(|tool, _| !left_out.contains(&tool));
    }
    Ok(table.to_string())
}

fn table(name: &str, text: &str) -> Result<Table, String> {
    text.parse()
        .map_err(|error: toml::de::Error| format!("{name}: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use countersign::policy::Policy;

    use super::*;

    const OWN: &str =
        "[channel]\nttl = \"1m\"\n[tools.note]\neffect = \"write\"\nsummary = \"Note {{ text }}\"\n";
    const OTHER: &str = "[channel]\nttl = \"9m\"\n[tools.look]\neffect = \"read\"\n[tools.note2]\neffect = \"write\"\n[tools.note2.schema]\ntype = \"object\"\n";

    #[test]
    fn the_first_one_speaks_for_the_service_and_the_others_bring_tools() {
        let joined = join(OWN, &[("world `a`", OTHER)]).unwrap();
        let policy = Policy::parse(&joined).unwrap();
        let names: Vec<_> = policy
            .catalogue()
            .iter()
            .map(|listed| listed.tool.to_owned())
            .collect();
        assert_eq!(names, ["look", "note", "note2"]);
        assert_eq!(policy.channel().ttl.as_secs(), 60);
        assert_eq!(
            joined,
            join(OWN, &[("world `a`", OTHER)]).unwrap(),
            "always the same text"
        );
    }

    #[test]
    fn a2_a_tool_that_two_list_is_refused() {
        let check = |others: &[(&str, &str)], expected: &str| {
            assert_eq!(join(OWN, others).unwrap_err(), expected);
        };
        check(
            &[("world `a`", OWN)],
            "tool `note` is listed by the policy and by world `a`",
        );
        check(
            &[("world `a`", OTHER), ("world `b`", OTHER)],
            "tool `look` is listed by world `a` and by world `b`",
        );
        assert!(join(&without(OWN, &["note"]).unwrap(), &[("world `a`", OWN)]).is_ok());
    }

    #[test]
    fn every_world_fits_with_the_example() {
        let example = crate::worlds::POLICY;
        let worlds = crate::worlds::WORLDS;
        let tools: Vec<&str> = worlds.iter().flat_map(|setup| setup.tools()).collect();
        let others: Vec<_> = worlds.iter().map(|setup| (setup.name, setup.policy)).collect();
        let joined = join(&without(example, &tools).unwrap(), &others).unwrap();
        let policy = Policy::parse(&joined).unwrap_or_else(|problems| panic!("{problems}"));
        for setup in worlds {
            let alone = Policy::parse(setup.policy).unwrap();
            for listed in alone.catalogue() {
                let joined = policy.catalogue();
                let same = joined.iter().find(|one| one.tool == listed.tool);
                assert_eq!(same, Some(&listed), "{}", listed.tool);
            }
        }
    }
}
