//! Tools that ask for confirmation themselves, with an argument `confirmed` (C1, C2).

use std::time::{Duration, Instant};

use countersign::id::Tenant;
use countersign::store::{Filter, Store as _};
use countersign_server::tool_schema;
use countersign_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use crate::client::{Client, approval, journal, text, until};
use crate::test_folder::TestFolder;

const POLICY: &str = r#"
[tools."peer/remove"]
effect = "destructive"
summary = "Delete page {{ slug }}"
"#;

fn start() -> (TestFolder, Client) {
    let place = TestFolder::without_policy();
    place.write("countersign.toml", POLICY);
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/peer.py");
    let mut client = Client::start(&place, &["--name", "peer"], &["python3", peer, "journal", "flag"]);
    client.greet(json!({}));
    (place, client)
}

fn pages(slug: &str, confirmed: bool) -> Value {
    match confirmed {
        true => json!({ "slug": slug, "confirmed": true }),
        false => json!({ "slug": slug }),
    }
}

#[test]
fn c1_a_tool_with_the_flag_answers_at_once_and_gives_its_result_once() {
    let (place, mut client) = start();
    let began = Instant::now();
    let answer = client.call("remove", pages("about", false));
    // The client asks the person itself, so it is not kept waiting for the usual 45 seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let told = &answer["result"]["structuredContent"];
    assert_eq!(told["requiresConfirmation"], true, "{answer}");
    assert_eq!(told["message"], "Are you sure? Delete page about");
    assert_eq!(told["details"], json!(["Delete page about"]));
    let id = approval(&answer);
    place.good(&["approve", &id]);
    until("it has run", || journal(&place).len() == 1);
    let answer = client.call("remove", pages("about", true));
    assert_eq!(text(&answer), "remove {\"slug\": \"about\"}");
    assert_eq!(
        journal(&place),
        [r#"{"slug":"about"}"#],
        "the bytes that were shown"
    );
    // The next call with the flag is a new one, which a person has to approve. Its client waits, so cancel the wait.
    let again = client.begin("remove", pages("about", true));
    until("a person is asked again", || {
        place.json(&["list"])["approvals"].as_array().unwrap().len() == 1
    });
    assert!(client.is_quiet(Duration::from_millis(200)), "call {again} waits");
    assert_eq!(journal(&place).len(), 1);
}

#[test]
fn c2_over_mcp_the_flag_is_never_believed() {
    let (place, mut client) = start();
    let flagged = client.begin("remove", pages("about", true));
    let id = crate::client::pending(&place);
    assert_eq!(journal(&place), [""; 0]);
    place.good(&["deny", &id]);
    assert_eq!(client.answer(flagged)["result"]["isError"], true);
    // An approval of other arguments confirms nothing.
    let other = approval(&client.call("remove", pages("home", false)));
    place.good(&["approve", &other]);
    until("it has run", || journal(&place).len() == 1);
    let flagged = client.begin("remove", pages("about", true));
    let id = crate::client::pending(&place);
    assert_ne!(id, other);
    assert_eq!(journal(&place), [r#"{"slug":"home"}"#]);
    place.good(&["approve", &id]);
    assert_eq!(
        text(&client.answer(flagged)),
        "remove {\"confirmed\": true, \"slug\": \"about\"}"
    );
}

#[test]
fn c2_while_a_person_is_asked_the_flag_joins_the_same_card() {
    let (place, mut client) = start();
    let id = approval(&client.call("remove", pages("about", false)));
    let flagged = client.begin("remove", pages("about", true));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(crate::client::pending(&place), id, "one card");
    assert_eq!(journal(&place), [""; 0]);
    place.good(&["approve", &id]);
    assert_eq!(text(&client.answer(flagged)), "remove {\"slug\": \"about\"}");
    assert_eq!(journal(&place), [r#"{"slug":"about"}"#]);
}

/// The page that edits a held call is in another process, and finds the values that the server's schema lists.
#[test]
fn x44_the_schema_of_a_held_call_is_there_for_its_edit() {
    let (place, mut client) = start();
    client.call("remove", pages("about", false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let path = place.path().join("countersign.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        let pending = store.list(&Tenant::single(), &Filter::pending()).await.unwrap();
        let choices = tool_schema::choices(&store, &pending[0]).await.unwrap();
        assert_eq!(choices[0].at("/kind"), Some(&[json!("page"), json!("post")][..]));
        assert_eq!(choices[0].at("/slug"), None);
    });
}

/// A call that ran is not said to have not run, because a person denied a later one that differs only in the flag.
#[test]
fn c1_the_result_of_a_call_that_ran_is_not_hidden_by_a_later_denial() {
    let (place, mut client) = start();
    let first = approval(&client.call("remove", pages("about", false)));
    place.good(&["approve", &first]);
    until("it has run", || journal(&place).len() == 1);
    let unset = json!({ "slug": "about", "confirmed": false });
    let second = approval(&client.call("remove", unset));
    assert_ne!(first, second);
    place.good(&["deny", &second]);
    let answer = client.call("remove", pages("about", true));
    assert_eq!(text(&answer), "remove {\"slug\": \"about\"}", "{answer}");
    // The denial is told next.
    let answer = client.call("remove", pages("about", true));
    assert!(text(&answer).contains("did not run"), "{answer}");
    assert_eq!(journal(&place).len(), 1);
}
