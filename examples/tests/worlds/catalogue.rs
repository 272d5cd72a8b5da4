//! Policies, tool definitions and implementations agree.

use std::collections::{BTreeMap, BTreeSet};

use countersign::effect::{Effect, Risk};
use countersign::id::ToolName;
use countersign::policy::{CallRequest, Policy, Ruling};
use countersign_examples::{Setup, WORLDS, cms, crm, named, ranch};
use serde_json::Value;

fn policy(setup: &Setup) -> Policy {
    Policy::parse(setup.policy).unwrap_or_else(|problems| panic!("{}:\n{problems}", setup.name))
}

fn definitions(setup: &Setup) -> BTreeMap<String, Value> {
    let list: Vec<Value> = serde_json::from_str(setup.definitions).unwrap();
    let named = list.into_iter().map(|definition| {
        let fields: Vec<_> = definition.as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, ["description", "input_schema", "name"]);
        (definition["name"].as_str().unwrap().to_owned(), definition)
    });
    named.collect()
}

#[test]
fn every_policy_passes_its_check_without_a_remark() {
    for setup in WORLDS {
        assert!(
            policy(setup).notices().is_empty(),
            "{}: {:?}",
            setup.name,
            policy(setup).notices()
        );
        assert!(std::ptr::eq(named(setup.name).unwrap(), setup));
    }
}

#[test]
fn what_is_offered_is_listed_and_what_else_is_listed_takes_something_back() {
    for setup in WORLDS {
        let policy = policy(setup);
        let listed: BTreeSet<&str> = policy.tools().into_iter().collect();
        let offered = definitions(setup);
        let offered: BTreeSet<&str> = offered.keys().map(String::as_str).collect();
        let undos: BTreeSet<&str> = policy
            .catalogue()
            .iter()
            .filter_map(|listed| listed.undo)
            .collect();
        assert_eq!(&(&offered - &listed), &BTreeSet::new(), "{}", setup.name);
        assert_eq!(
            &(&(&listed - &offered) - &undos),
            &BTreeSet::new(),
            "{}",
            setup.name
        );
        assert_eq!(setup.tools().collect::<BTreeSet<_>>(), listed, "{}", setup.name);
        for tool in setup.tools() {
            assert!(ToolName::new(tool).is_ok(), "`{tool}`");
        }
    }
}

#[test]
fn the_policy_holds_calls_to_the_schema_the_model_was_given() {
    for setup in WORLDS {
        let document: Value = toml::from_str(setup.policy).unwrap();
        for (tool, definition) in definitions(setup) {
            assert_eq!(
                document["tools"][&tool]["schema"], definition["input_schema"],
                "`{tool}`"
            );
            assert_eq!(
                definition["input_schema"]["additionalProperties"], false,
                "`{tool}`"
            );
        }
        // Undo tools are not offered, but have a schema too.
        for tool in setup.tools() {
            assert!(document["tools"][tool]["schema"].is_object(), "`{tool}`");
        }
    }
}

#[test]
fn a3_the_crm_has_thirteen_tools_and_four_of_them_write() {
    let policy = policy(&crm::SETUP);
    let offered = definitions(&crm::SETUP);
    assert_eq!(offered.len(), 13);
    let catalogue = policy.catalogue();
    let held = catalogue
        .iter()
        .filter(|listed| offered.contains_key(listed.tool) && listed.effect != Effect::Read);
    let held: Vec<&str> = held.map(|listed| listed.tool).collect();
    assert_eq!(
        held,
        ["create_contact", "create_deal", "create_task", "log_activity"]
    );
}

#[test]
fn c3_the_cms_has_the_eight_gated_tools_all_of_high_risk() {
    let policy = policy(&cms::SETUP);
    let offered = definitions(&cms::SETUP);
    let catalogue = policy.catalogue();
    let held: Vec<_> = catalogue
        .iter()
        .filter(|listed| offered.contains_key(listed.tool) && listed.effect != Effect::Read)
        .map(|listed| (listed.tool, listed.risk, listed.undo.is_some()))
        .collect();
    let expected = [
        ("cms_archivePost", Risk::High, true),
        ("cms_deleteImage", Risk::High, true),
        ("cms_deletePage", Risk::High, true),
        ("cms_deletePageSection", Risk::High, true),
        ("cms_deletePageSections", Risk::High, true),
        ("cms_deletePost", Risk::High, true),
        ("cms_publishPost", Risk::High, true),
        // A request that was sent cannot be undone, so there is no undo tool.
        ("http_post", Risk::High, false),
    ];
    assert_eq!(held, expected);
    for (tool, ..) in expected {
        let properties = &offered[tool]["input_schema"]["properties"];
        assert_eq!(
            properties["confirmed"]["type"], "boolean",
            "c1: `{tool}` takes the flag"
        );
    }
}

#[test]
fn b10_the_ranch_deletes_only_with_the_sources_tool() {
    let policy = policy(&ranch::SETUP);
    let offered = definitions(&ranch::SETUP);
    let catalogue = policy.catalogue();
    let held = catalogue
        .iter()
        .filter(|listed| offered.contains_key(listed.tool) && listed.effect != Effect::Read);
    let held: Vec<_> = held
        .map(|listed| (listed.tool, listed.effect, listed.risk))
        .collect();
    assert_eq!(
        held,
        [("carpeta/delete-potreros", Effect::Destructive, Risk::High)]
    );
}

#[test]
fn the_readmes_propose_calls_that_are_possible() {
    let readmes = [
        (&crm::SETUP, include_str!("../../crm/README.md")),
        (&cms::SETUP, include_str!("../../cms/README.md")),
        (&ranch::SETUP, include_str!("../../ranch/README.md")),
    ];
    for (setup, text) in readmes {
        let policy = policy(setup);
        let proposals: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("countersign propose "))
            .collect();
        assert!(proposals.len() >= 2, "{}", setup.name);
        for line in proposals {
            let mut parts = line.split('\'');
            let (tool, arguments) = (parts.next().unwrap().trim(), parts.next().unwrap());
            assert!(policy.tools().contains(&tool), "`{line}`");
            let asked = CallRequest {
                tool,
                arguments: arguments.as_bytes(),
                definition: countersign::policy::Definition::Unknown,
                salt: b"",
                before: None,
                working_folder: None,
            };
            assert!(!matches!(policy.rule(asked), Ruling::Forbid { .. }), "`{line}`");
            assert!(
                line.contains(&format!("--exec countersign-world {0} {0}.db", setup.name)),
                "`{line}`"
            );
        }
    }
}
