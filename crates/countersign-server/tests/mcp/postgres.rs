//! The gateway with PostgreSQL as its store.

use serde_json::json;

use crate::client::{Client, approval, journal, pending, text, until};
use crate::hold::place;
use crate::test_folder::database;

#[test]
fn d2_two_gateways_on_one_postgresql_run_what_another_process_approves_once() {
    let mut place = place();
    place.keep_in(&database("gateway"));
    let mut one = Client::peer(&place, &["--resume"]);
    for round in 1..=5 {
        let line = json!({"line": format!("x{round}")});
        let call = one.begin("write", line.clone());
        let id = pending(&place);
        // A second gateway with the same command and folder joins the pending approval, so both wait for the decision.
        let mut other = Client::peer(&place, &["--hold", "100ms", "--resume"]);
        assert_eq!(approval(&other.call("write", line.clone())), id);
        assert_eq!(journal(&place).len(), round - 1);
        place.good(&["approve", &id]);
        let told = format!("write {}", line.to_string().replace(':', ": "));
        assert_eq!(text(&one.answer(call)), told);
        assert_eq!(place.json(&["show", &id])["calls"][0]["state"], "succeeded");
        assert_eq!(other.close().0, 7, "the server's own exit code");
        assert_eq!(journal(&place).len(), round, "by one of them, and once");
    }
    let call = one.begin("write", json!({"line": "no"}));
    place.good(&["deny", &pending(&place)]);
    assert_eq!(one.answer(call)["result"]["isError"], true);
    assert!(
        !place.path().join("countersign.db").exists(),
        "nothing is kept here"
    );
    until("nothing is left", || {
        place.json(&["list"])["approvals"] == json!([])
    });
    assert_eq!(journal(&place).len(), 5);
}
