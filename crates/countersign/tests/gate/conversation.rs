use crate::world::*;
use countersign::card::WholeCard;
use countersign::gate::{Reply, ReplyOutcome};
use countersign::id::{Channel, Key, Tenant};
use countersign::reply::Reading;
use countersign::state::State;

fn reply(reading: Reading, seen: Option<WholeCard>) -> Reply {
    Reply {
        tenant: Tenant::single(),
        channel: Channel::new("chat-1").unwrap(),
        sender: alice(),
        reading,
        seen,
        message: None,
    }
}

#[tokio::test]
async fn a7_yes_runs_and_no_cancels() {
    let world = world();
    let first = world.hold(vec![call("create_contact", MARIA)]).await;
    let heard = world
        .gate
        .hear(reply(Reading::Yes, Some(WholeCard::shown(&first))))
        .await
        .unwrap();
    assert!(matches!(heard, ReplyOutcome::Decided(resolved) if resolved.ran.len() == 1));
    let second = world.hold(vec![call("create_contact", MARIA)]).await;
    world
        .gate
        .hear(reply(Reading::No, Some(WholeCard::shown(&second))))
        .await
        .unwrap();
    assert_eq!(world.now(&second).await.state, State::Denied);
    assert_eq!(world.ran().len(), 1);
}

#[tokio::test]
async fn a7_other_message_cancels_and_goes_on() {
    let world = world();
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    let heard = world
        .gate
        .hear(reply(Reading::Other, Some(WholeCard::shown(&approval))))
        .await
        .unwrap();
    assert!(matches!(heard, ReplyOutcome::Cancelled(_)));
    assert_eq!(world.now(&approval).await.state, State::Withdrawn);
    let heard = world
        .gate
        .hear(reply(Reading::Yes, Some(WholeCard::shown(&approval))))
        .await
        .unwrap();
    assert!(
        matches!(heard, ReplyOutcome::PassOn),
        "nobody is trapped: {heard:?}"
    );
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn c9_a_channel_may_keep_the_approval_across_other_messages() {
    let world = world_with(&format!("[channel]\non_other = \"keep\"\n{POLICY}"));
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    assert!(matches!(
        world.gate.hear(reply(Reading::Other, None)).await.unwrap(),
        ReplyOutcome::Kept(_)
    ));
    assert_eq!(world.now(&approval).await.state, State::Pending);
}

#[tokio::test]
async fn x03_a_yes_to_the_replaced_card_shows_the_current_one_again() {
    let world = world();
    let old = world.hold(vec![call("create_contact", MARIA)]).await;
    let new = world.hold(vec![call("delete_contact", r#"{"id":"c-1"}"#)]).await;
    for seen in [Some(WholeCard::shown(&old)), None] {
        let heard = world.gate.hear(reply(Reading::Yes, seen)).await.unwrap();
        assert!(matches!(heard, ReplyOutcome::ShowAgain(shown) if shown.id == new.id));
    }
    assert!(world.ran().is_empty());
    assert_eq!(world.now(&new).await.state, State::Pending);
}

#[tokio::test]
async fn x04_other_peoples_replies_never_count() {
    let world = world();
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    for reading in [Reading::Yes, Reading::No, Reading::Other] {
        let mut reply = reply(reading, Some(WholeCard::shown(&approval)));
        reply.sender = mallory();
        assert!(matches!(
            world.gate.hear(reply).await.unwrap(),
            ReplyOutcome::PassOn
        ));
    }
    assert_eq!(world.now(&approval).await.state, State::Pending);
}

#[tokio::test]
async fn x13_the_same_message_twice_counts_once() {
    let world = world();
    let approval = world.hold(vec![call("create_contact", MARIA)]).await;
    let mut yes = reply(Reading::Yes, Some(WholeCard::shown(&approval)));
    yes.message = Some(Key::new("message-7").unwrap());
    world.gate.hear(yes.clone()).await.unwrap();
    assert!(matches!(
        world.gate.hear(yes).await.unwrap(),
        ReplyOutcome::PassOn
    ));
    assert_eq!(world.ran().len(), 1);
}
