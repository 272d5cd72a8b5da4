use countersign_examples::crm::SETUP;
use serde_json::json;

use crate::stage::{call, decision, each, reason, result, submission};
use countersign::decision::{Choice, Verdict};
use countersign::state::CallState;

const MARIA: &str = r#"{"name":"Maria Garcia","email":"maria@acme.com","company":"Acme Corp"}"#;

#[tokio::test]
async fn a3_the_gate_is_invisible_for_the_nine_reads() {
    each(&SETUP, async |stage| {
        let before = stage.hash();
        let cases = [
            (
                "search_contacts",
                r#"{"query":"john"}"#,
                "/contacts/1/name",
                json!("John Adeyemi"),
            ),
            (
                "get_contact",
                r#"{"id":1}"#,
                "/deals/0/title",
                json!("Northwind renewal"),
            ),
            ("list_contacts", r#"{"limit":2}"#, "/contacts/1/id", json!(5)),
            (
                "search_deals",
                r#"{"query":"kitsune"}"#,
                "/deals/0/contact_name",
                json!("Aiko Tanaka"),
            ),
            ("get_deal", r#"{"id":3}"#, "/amount", json!(42000)),
            ("list_deals", r#"{"stage":"won"}"#, "/deals/0/id", json!(4)),
            ("get_pipeline", "{}", "/stages/0/amount", json!(18000)),
            (
                "list_tasks",
                "{}",
                "/tasks/0/title",
                json!("Send the renewal offer"),
            ),
            (
                "list_activities",
                r#"{"contact_id":5}"#,
                "/activities/0/kind",
                json!("email"),
            ),
        ];
        for (tool, arguments, pointer, expected) in cases {
            let answer = stage.read(tool, arguments).await;
            assert_eq!(answer.pointer(pointer), Some(&expected), "`{tool}`: {answer}");
        }
        // Wildcards of `LIKE` are ordinary characters in a search.
        assert_eq!(
            stage.read("search_contacts", r#"{"query":"%"}"#).await,
            json!({ "contacts": [] })
        );
        assert_eq!(stage.hash(), before);
    })
    .await;
}

#[tokio::test]
async fn a1_a9_a17_the_four_writes_are_held_shown_run_once_and_undone() {
    each(&SETUP, async |stage| {
        stage
            .there_and_back(
                "create_contact",
                MARIA,
                "Create contact Maria Garcia, maria@acme.com, Acme Corp",
                "Delete contact Maria Garcia",
            )
            .await;
        stage
            .there_and_back(
                "create_deal",
                r#"{"title":"Spring order","amount":12500,"contact_id":2,"contact_name":"Aiko Tanaka"}"#,
                "Create deal Spring order over 12500 EUR for Aiko Tanaka",
                "Delete deal Spring order",
            )
            .await;
        stage
            .there_and_back(
                "create_task",
                r#"{"title":"Call back","due":"2026-11-20","contact_id":1,"contact_name":"John Miller"}"#,
                "Create task Call back, due 2026-11-20, for John Miller",
                "Delete task Call back",
            )
            .await;
        stage
            .there_and_back(
                "log_activity",
                r#"{"kind":"email","contact_id":1,"contact_name":"John Miller","note":"Sent the offer"}"#,
                "Log an email with John Miller: Sent the offer",
                "Delete the note: Sent the offer",
            )
            .await;
    })
    .await;
}

#[tokio::test]
async fn a16_five_contacts_are_one_approval_and_may_be_approved_in_part() {
    each(&SETUP, async |stage| {
        let people = ["Ana", "Ben", "Cleo", "Dan", "Eva"];
        let calls = people.map(|name| call("create_contact", &json!({ "name": name }).to_string()));
        let approval = stage
            .gate
            .submit(submission(calls.into()))
            .await
            .unwrap()
            .approval
            .unwrap();
        assert_eq!(approval.calls.len(), 5);
        let choices = (1..=5).map(|position| match position {
            3 => Choice::Deny,
            _ => Choice::Approve,
        });
        let verdict = Verdict::Each(choices.collect());
        let resolved = stage
            .gate
            .decide_and_run(decision(&approval, verdict))
            .await
            .unwrap();
        let states: Vec<CallState> = resolved
            .approval
            .unwrap()
            .calls
            .iter()
            .map(|call| call.state)
            .collect();
        assert_eq!(
            states
                .iter()
                .filter(|state| **state == CallState::Succeeded)
                .count(),
            4
        );
        assert_eq!(states[2], CallState::Refused);
        let contacts = stage.read("list_contacts", r#"{"limit":4}"#).await;
        let names: Vec<_> = contacts["contacts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|contact| &contact["name"])
            .collect();
        assert_eq!(names, ["Eva", "Dan", "Ben", "Ana"]);
    })
    .await;
}

#[tokio::test]
async fn arguments_that_break_the_schema_are_refused_before_anybody_is_asked() {
    each(&SETUP, async |stage| {
        let cases = [
            ("create_contact", "{}"),
            ("create_contact", r#"{"name":""}"#),
            ("create_contact", r#"{"name":"Ann","email":"nobody"}"#),
            ("create_contact", r#"{"name":"Ann","admin":true}"#),
            (
                "create_deal",
                r#"{"title":"x","amount":1.5,"contact_id":1,"contact_name":"John Miller"}"#,
            ),
            (
                "create_deal",
                r#"{"title":"x","amount":-1,"contact_id":1,"contact_name":"John Miller"}"#,
            ),
            ("create_task", r#"{"title":"x","due":"tomorrow"}"#),
            ("create_task", r#"{"title":"x","contact_id":1}"#),
            (
                "log_activity",
                r#"{"kind":"fax","contact_id":1,"contact_name":"John Miller","note":"x"}"#,
            ),
            ("search_contacts", r#"{"query":"a","limit":101}"#),
            ("get_contact", r#"{"id":"1"}"#),
        ];
        for (tool, arguments) in cases {
            stage.forbidden(tool, arguments).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_shown_and_is_not_so_fails_and_changes_nothing() {
    each(&SETUP, async |stage| {
        let before = stage.hash();
        let cases = [
            (
                "create_deal",
                r#"{"title":"x","amount":1,"contact_id":1,"contact_name":"Aiko Tanaka"}"#,
                "the name of contact 1 is `John Miller`, not `Aiko Tanaka` as was shown; nothing was changed",
            ),
            (
                "log_activity",
                r#"{"kind":"call","contact_id":99,"contact_name":"Nobody","note":"x"}"#,
                "there is no contact 99",
            ),
            (
                "create_contact",
                r#"{"name":"Johnny","email":"john@northwind.example"}"#,
                "`john@northwind.example` is already the address of John Miller, contact 1",
            ),
        ];
        for (tool, arguments, expected) in cases {
            assert_eq!(reason(&stage.run(tool, arguments).await), expected);
        }
        assert_eq!(stage.hash(), before);
    })
    .await;
}

#[tokio::test]
async fn a17_an_undo_that_is_no_longer_possible_says_why() {
    each(&SETUP, async |stage| {
        let created = stage.run("create_contact", MARIA).await;
        let id = result(&created)["id"].clone();
        let deal =
            json!({ "title": "First", "amount": 10, "contact_id": id, "contact_name": "Maria Garcia" });
        let deal = stage.run("create_deal", &deal.to_string()).await;
        let undo = stage.undo(&created).await.unwrap();
        let said = reason(&stage.approve(&undo).await);
        assert_eq!(
            said,
            "Maria Garcia is still named by 1 deals, 0 tasks and 0 activities; nothing was deleted"
        );

        let undo = stage.undo(&deal).await.unwrap();
        result(&stage.approve(&undo).await);
        assert!(
            stage.undo(&deal).await.is_err(),
            "what was undone is not undone again"
        );
        // A failed undo changed nothing, so it may be proposed again.
        let undo = stage.undo(&created).await.unwrap();
        let deleted = stage.approve(&undo).await;
        result(&deleted);
        let why = stage.undo(&deleted).await.unwrap_err().to_string();
        assert!(why.contains("declares no `undo` for `delete_contact`"), "{why}");
    })
    .await;
}

#[tokio::test]
async fn ids_are_never_given_twice() {
    each(&SETUP, async |stage| {
        let created = stage.run("create_contact", MARIA).await;
        let undo = stage.undo(&created).await.unwrap();
        stage.approve(&undo).await;
        let other = stage.run("create_contact", MARIA).await;
        assert_ne!(result(&created)["id"], result(&other)["id"]);
    })
    .await;
}
