//! Tests the OpenAPI document.

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
