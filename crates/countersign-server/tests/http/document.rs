//! Tests the OpenAPI document.

use std::collections::BTreeSet;

use countersign_server::http::openapi;

/// The document is checked in, so that a change of the contract shows in review.
#[test]
fn b9_the_document_is_the_one_that_is_checked_in() {
    let text = serde_json::to_string_pretty(&openapi()).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("COUNTERSIGN_UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        text == kept,
        "docs/openapi.json is not what the code says; write it with `COUNTERSIGN_UPDATE=1 cargo test -p countersign-server --test http b9`"
    );
}

/// Tools that generate clients need a name for every operation and a description of every response.
#[test]
fn b9_operations_have_names_of_their_own_and_every_response_is_described() {
    let document = serde_json::to_value(openapi()).unwrap();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            assert!(
                names.insert(name.clone()),
                "`{name}` of {method} {path} occurs twice"
            );
            for (status, response) in operation["responses"].as_object().unwrap() {
                let text = response["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn b9_fixed_words_are_enums() {
    let document = serde_json::to_value(openapi()).unwrap();
    let schemas = &document["components"]["schemas"];
    for (schema, field) in [
        ("ApprovalView", "status"),
        ("ApprovalView", "riskLevel"),
        ("ApprovalView", "order"),
        ("CallView", "state"),
        ("CallView", "end"),
        ("CallView", "effect"),
        ("CallView", "risk"),
        ("CallView", "surface"),
        ("RulingView", "ruling"),
        ("RulingView", "status"),
        ("RulingView", "state"),
        ("RulingView", "end"),
        ("SimpleApprovalView", "status"),
        ("SimpleApprovalView", "riskLevel"),
        ("Submit", "order"),
        ("Ask", "riskLevel"),
        ("Finish", "outcome"),
        ("ErrorBody", "code"),
        ("ErrorBody", "state"),
        ("ErrorBody", "end"),
    ] {
        let text = schemas[schema]["properties"][field].to_string();
        let name = text.split("#/components/schemas/").nth(1);
        let name = name
            .and_then(|rest| rest.split('"').next())
            .unwrap_or_else(|| panic!("{schema}.{field}: {text}"));
        let words = schemas[name]["enum"].as_array();
        assert!(
            words.is_some_and(|words| words.len() > 1),
            "{schema}.{field}: {name}"
        );
    }
}
