//! Tests the list of approvals: content, order and page size.

use std::time::Duration;

use countersign::decision::Verdict;
use countersign::gate::Submission;
use countersign::id::{Agent, Channel, Person, Run, Tenant};
use countersign::store::Filter;

use crate::support::{MARIA, World, conversation};

#[tokio::test]
async fn an_empty_inbox_says_so() {
    let world = World::new().await;
    let ana = world.ana().await;
    let page = world.get(&ana, "/approvals").await;
    page.shows("Nothing waits for you.")
        .shows("Nothing runs until you say so.");
}

#[tokio::test]
async fn a_card_shows_everything_there_is_to_know() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold_as(&[("create_contact", MARIA)], |submission: &mut Submission| {
            submission.on_behalf_of = Some(Person::new("bo").unwrap());
            submission.channel = Some(Channel::new("telegram-42").unwrap());
            submission.run = Some(Run::new("run-7").unwrap());
            submission.claim = Some("Bo told me to.".to_owned());
        })
        .await;
    let page = world.get(&ana, "/approvals").await;
    page.shows("Create contact Maria Garcia, maria@example.com")
        .shows("<dt>email<dd>maria@example.com<")
        .shows("no conversation came with the call, so its values are not traced")
        .shows("medium risk")
        .shows(">write<")
        .shows("<code>create_contact</code>")
        .shows("can be undone")
        .shows("<b>crm</b> asks as crm-token for bo")
        .shows("channel telegram-42")
        .shows("run run-7")
        .shows("5m 0s left")
        .shows("The agent says (not checked)</b><q>Bo told me to.</q>")
        .shows(">Create</button>")
        .shows(">Do not create</button>")
        .shows(&format!("name=digest value={}>", approval.digest));
}

#[tokio::test]
async fn grave_ones_come_first_then_those_with_little_time() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.hold(&[("note", r#"{"text":"low"}"#)]).await;
    world
        .hold(&[("create_contact", r#"{"name":"older","email":"a@b"}"#)])
        .await;
    world.clock.advance(Duration::from_secs(60));
    world
        .hold(&[("create_contact", r#"{"name":"newer","email":"a@b"}"#)])
        .await;
    world.hold(&[("pay", r#"{"amount":5}"#)]).await;
    world.hold(&[("delete_contact", r#"{"id":"1"}"#)]).await;
    let page = world.get(&ana, "/approvals").await;
    let places: Vec<usize> = [
        "Pay 5",
        "Delete contact 1",
        "Create contact older",
        "Create contact newer",
        "Note low",
    ]
    .iter()
    .map(|title| page.text.find(&format!(">{title}")).unwrap())
    .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[tokio::test]
async fn filters_narrow_the_list_and_keep_their_choice() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.hold(&[("note", r#"{"text":"one"}"#)]).await;
    world
        .hold_as(&[("pay", r#"{"amount":2}"#)], |submission| {
            submission.agent = Agent::new("shop & co").unwrap();
        })
        .await;
    for (query, shown, hidden) in [
        ("agent=crm", "Note one", "Pay 2"),
        ("agent=shop+%26+co", "Pay 2", "Note one"),
        ("tool=note", "Note one", "Pay 2"),
        ("risk=critical", "Pay 2", "Note one"),
        ("agent=&tool=&risk=low", "Note one", "Pay 2"),
    ] {
        let page = world.get(&ana, &format!("/approvals?{query}")).await;
        page.shows(shown).hides(&format!(">{hidden}")).shows(" selected>");
    }
    let none = world.get(&ana, "/approvals?agent=nobody").await;
    none.shows("Nothing of this kind waits.").shows("Show all");
}

#[tokio::test]
async fn what_has_expired_is_not_offered() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"late"}"#)]).await;
    world.clock.advance(Duration::from_secs(301));
    world.get(&ana, "/approvals").await.hides("Note late");
    let card = world.get(&ana, &format!("/approvals/{}/card", approval.id)).await;
    card.shows("Expired").hides("<form class=decide");
}

#[tokio::test]
async fn the_script_is_told_when_nothing_changed() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.hold(&[("note", r#"{"text":"one"}"#)]).await;
    let page = world.get(&ana, "/approvals").await;
    let stamp = page.between("data-stamp=\"", "\"").to_owned();
    let same = world.get(&ana, &format!("/approvals/cards?stamp={stamp}")).await;
    assert_eq!(same.status, 204);
    world.hold(&[("note", r#"{"text":"two"}"#)]).await;
    let other = world.get(&ana, &format!("/approvals/cards?stamp={stamp}")).await;
    assert_eq!(other.status, 200);
    other.shows("Note two").hides("<html");
}

/// Proposes a card with typical arguments, some of them from a conversation.
async fn hold_contact(world: &World, number: usize) {
    let arguments = format!(
        r#"{{"name":"Maria Garcia {number}","email":"maria.{number}@example.com","company":"Acme GmbH","city":"Madrid"}}"#
    );
    let said = format!("Please add Maria Garcia {number} of Acme GmbH");
    world
        .hold_as(&[("upsert_contact", &arguments)], |submission| {
            submission.run = Some(Run::new(format!("run-{number}")).unwrap());
            submission.claim = Some("The customer asked me in chat to add her.".to_owned());
            submission.conversation = Some(conversation(&[("user", &said), ("find_city", "Madrid")]));
        })
        .await;
}

#[tokio::test]
async fn a_page_of_100_cards_weighs_at_most_150_kb() {
    let world = World::new().await;
    let ana = world.ana().await;
    for number in 0..120 {
        hold_contact(&world, number).await;
    }
    let page = world.get(&ana, "/approvals").await;
    assert_eq!(page.text.matches("<article").count(), 100);
    assert_eq!(
        page.text.matches("value=approve>").count(),
        100,
        "all of them can be decided here"
    );
    assert_eq!(page.text.matches("NOT FROM YOU").count(), 100);
    let kilobytes = page.text.len() / 1024;
    assert!(kilobytes <= 150, "{kilobytes} KB");
    page.shows("page 1 of 2");
    let second = world.get(&ana, "/approvals?page=2").await;
    assert_eq!(second.text.matches("<article").count(), 20);
}

/// Prints how long the service takes; nothing is asserted, because the machine may be busy.
#[tokio::test]
#[ignore = "a measurement: cargo test --release --test inbox -- --ignored --nocapture measure"]
async fn measure_a_page_of_100_cards() {
    let world = World::new().await;
    let ana = world.ana().await;
    // As much history as the service reads.
    for number in 0..200 {
        hold_contact(&world, number).await;
    }
    for approval in world
        .app
        .store()
        .list(&Tenant::single(), &Filter::pending())
        .await
        .unwrap()
    {
        world.decide_elsewhere(&approval, Verdict::Approve).await;
    }
    for number in 200..300 {
        hold_contact(&world, number).await;
    }
    let mut times = Vec::new();
    for _ in 0..200 {
        let begin = std::time::Instant::now();
        let page = world.get(&ana, "/approvals").await;
        times.push((begin.elapsed(), page.text.len()));
    }
    times.sort();
    eprintln!(
        "median {:?}, p99 {:?}, {} bytes",
        times[100].0, times[198].0, times[0].1
    );
}

/// Checks that the inbox shows what the person can decide, and on request what only others can, with who they are.
#[tokio::test]
async fn the_inbox_is_for_the_person_and_says_who_decides_the_rest() {
    let world = World::new().await;
    let (ana, finn) = (world.ana().await, world.sign_in("finn", &["finance"]).await);
    let note = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let refund = world.hold(&[("refund", r#"{"amount":5}"#)]).await;
    let page = world.get(&ana, "/approvals").await;
    page.shows("1 waits</p>")
        .shows("1 more waits for other people.")
        .shows("Note x")
        .hides("Refund 5");
    let all = world.get(&ana, "/approvals?view=all").await;
    all.shows("2 wait</p>")
        .shows("1 of them waits for you")
        .shows("Refund 5")
        .shows("Only finance may approve this.");
    world
        .get(&finn, "/approvals")
        .await
        .shows("Refund 5")
        .hides("Note x");
    // The script asks for a card that arrives, with the filter of the page.
    let arrives = |id: String, query: &str| format!("/approvals/{id}/card?{query}");
    let card = world.get(&ana, &arrives(refund.id.to_string(), "")).await;
    assert_eq!(card.status, 204);
    let card = world.get(&ana, &arrives(refund.id.to_string(), "view=all")).await;
    assert_eq!(card.status, 200);
    let card = world.get(&ana, &arrives(note.id.to_string(), "")).await;
    assert_eq!(card.status, 200);
}
