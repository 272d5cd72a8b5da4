//! Several cards of one tool are decided together, each by itself.

use countersign::approval::SharedApproval;
use countersign::decision::Verdict;
use countersign::state::State;

use crate::support::{Browser, Page, World};

const PATH: &str = "/approvals/decisions";

/// Returns the field of a selected card.
fn field(approval: &SharedApproval) -> (String, String) {
    (format!("card-{}", approval.id), approval.digest.to_string())
}

async fn decide(
    world: &World,
    browser: &Browser,
    (verdict, tool): (&str, &str),
    cards: &[&SharedApproval],
) -> Page {
    let fields: Vec<(String, String)> = cards.iter().map(|card| field(card)).collect();
    let mut form = vec![("verdict", verdict), ("tool", tool), ("comment", "one reason")];
    form.extend(
        fields
            .iter()
            .map(|(name, digest)| (name.as_str(), digest.as_str())),
    );
    world.post(browser, PATH, &form).await
}

async fn note(world: &World, text: &str) -> SharedApproval {
    world.hold(&[("note", &format!(r#"{{"text":"{text}"}}"#))]).await
}

#[tokio::test]
async fn cards_of_one_tool_are_selected_and_decided_together() {
    let world = World::new().await;
    let ana = world.ana().await;
    let notes = [
        note(&world, "first").await,
        note(&world, "second").await,
        note(&world, "third").await,
    ];
    let list = world.get(&ana, "/approvals").await;
    list.shows("3 of note can be decided together.")
        .hides("class=pick");
    let list = world.get(&ana, "/approvals?tool=note&select=1").await;
    assert_eq!(list.text.matches("class=pick").count(), 3, "{}", list.text);
    list.shows("Approve selected");
    for note in &notes {
        let (name, digest) = field(note);
        list.shows(&format!("name=\"{name}\" value=\"{digest}\""));
    }
    let [first, second, third] = &notes;
    let page = decide(&world, &ana, ("approve", "note"), &[first, second]).await;
    assert_eq!(page.status, 200, "{}", page.text);
    page.shows("2 decided").hides("not decided");
    for note in [first, second] {
        let now = world.finished(note).await;
        assert_eq!(now.state, State::Approved);
        let decided = now.decision.as_ref().unwrap();
        assert_eq!(
            (decided.by.as_str(), decided.comment.as_deref()),
            ("ana", Some("one reason"))
        );
    }
    assert_eq!(world.now(third).await.state, State::Pending);
    assert_eq!(world.ran().len(), 2);
    // Sending the form again decides nothing twice.
    decide(&world, &ana, ("approve", "note"), &[first, second])
        .await
        .shows("2 decided");
    assert_eq!(world.ran().len(), 2);
    decide(&world, &ana, ("deny", "note"), &[third])
        .await
        .shows("1 decided");
    assert_eq!(world.now(third).await.state, State::Denied);
}

#[tokio::test]
async fn each_selected_card_is_refused_by_itself() {
    let world = World::new().await;
    let ana = world.ana().await;
    let good = note(&world, "good").await;
    let decided = note(&world, "decided").await;
    world.decide_elsewhere(&decided, Verdict::Deny).await;
    let changed = note(&world, "changed").await;
    let other = note(&world, "other").await;
    let (name, _) = field(&changed);
    let (good_name, good_digest) = field(&good);
    let (decided_name, decided_digest) = field(&decided);
    // One card is selected with the digest of another.
    let digest_of_other = other.digest.to_string();
    let form = [
        ("verdict", "approve"),
        ("tool", "note"),
        (good_name.as_str(), good_digest.as_str()),
        (decided_name.as_str(), decided_digest.as_str()),
        (name.as_str(), digest_of_other.as_str()),
        ("card-00000000-0000-0000-0000-000000000000", "00"),
    ];
    let page = world.post(&ana, PATH, &form).await;
    assert_eq!(page.status, 200);
    page.shows("1 decided, 3 not decided")
        .shows("There is no such approval.");
    assert_eq!(world.finished(&good).await.state, State::Approved);
    assert_eq!(world.now(&decided).await.state, State::Denied);
    assert_eq!(world.now(&changed).await.state, State::Pending);
    assert_eq!(world.ran(), [r#"note {"text":"good"}"#]);
}

#[tokio::test]
async fn what_needs_more_than_a_click_cannot_be_selected() {
    let world = World::new().await;
    let ana = world.ana().await;
    for (tool, arguments) in [
        // High risk, several people, a snapshot that the list does not show in full, another group.
        ("delete_contact", r#"{"id":1}"#),
        ("wire", r#"{"amount":1}"#),
        ("refund", r#"{"amount":1}"#),
        (
            "note",
            &*format!(r#"{{"text":"{}"}}"#, "a long text ".repeat(2000)),
        ),
    ] {
        let card = world.hold(&[(tool, arguments)]).await;
        let list = world
            .get(&ana, &format!("/approvals?tool={tool}&select=1&view=all"))
            .await;
        assert_eq!(list.status, 200);
        list.hides("class=pick");
        for verdict in ["approve", "deny"] {
            let page = decide(&world, &ana, (verdict, tool), &[&card]).await;
            page.shows("0 decided, 1 not decided");
            assert_eq!(world.now(&card).await.state, State::Pending, "{tool} {verdict}");
        }
    }
    // A card of another tool than the one that was selected.
    let card = note(&world, "x").await;
    decide(&world, &ana, ("approve", "create_contact"), &[&card])
        .await
        .shows("This is a card of another tool.");
    assert_eq!(world.ran(), [""; 0]);
    let nothing = world
        .post(&ana, PATH, &[("verdict", "approve"), ("tool", "note")])
        .await;
    assert_eq!(nothing.status, 422);
    nothing.shows("No card is selected.");
    let unclear = decide(&world, &ana, ("", "note"), &[&card]).await;
    assert_eq!(unclear.status, 422);
    let signed_out = decide(&world, &world.nobody(), ("approve", "note"), &[&card]).await;
    assert_eq!(signed_out.status, 401);
    assert_eq!(world.now(&card).await.state, State::Pending);
}

#[tokio::test]
async fn a_batch_of_like_calls_stays_a_table_after_the_decision() {
    let world = World::new().await;
    let ana = world.ana().await;
    let batch = world
        .hold(&[
            ("note", r#"{"text":"one"}"#),
            ("note", r#"{"text":"two"}"#),
            ("note", r#"{"text":"three"}"#),
        ])
        .await;
    let path = format!("/approvals/{}", batch.id);
    world
        .get(&ana, &path)
        .await
        .shows("class=\"rows calls\"")
        .shows("<th>Decision");
    let form = [
        ("verdict", "chosen"),
        ("choice-1", "approve"),
        ("choice-2", "deny"),
        ("choice-3", "approve"),
    ];
    world.decide(&ana, &batch, &form).await;
    world.finished(&batch).await;
    let page = world.get(&ana, &path).await;
    page.shows("class=\"rows calls\"")
        .shows("<th>Outcome")
        .hides("type=\"radio\"");
    assert_eq!(page.text.matches("<td class=outcome").count(), 3);
    assert_eq!(page.text.matches("class=\"mark state succeeded\"").count(), 2);
    assert_eq!(page.text.matches("class=\"mark state refused\"").count(), 1);
}
