//! Sessions as the store keeps them.

use std::sync::Arc;

use countersign::id::Agent;
use countersign::store::memory::MemoryStore;
use countersign_agent::message::Message;
use countersign_agent::session::{Owner, Session, SessionError, Step};

use crate::world::{channel, tenant};

fn owner(agent: &str) -> Owner {
    Owner {
        tenant: tenant(),
        agent: Agent::new(agent).unwrap(),
        channel: channel(),
    }
}

fn said(text: &str) -> Step {
    Step {
        messages: vec![Message::Channel {
            text: text.to_owned(),
        }],
        ..Step::default()
    }
}

/// Longer than one entry, and longer than a page of them.
#[tokio::test]
async fn a10_a_long_session_comes_back_whole() {
    let store = Arc::new(MemoryStore::default());
    let mut session = Session::open(&*store, owner("crm")).await.unwrap();
    let mut other = Session::open(&*store, owner("cms")).await.unwrap();
    let long = "wört ".repeat(40_000);
    for number in 0..700 {
        let text = if number == 300 {
            long.clone()
        } else {
            number.to_string()
        };
        session.append(&*store, said(&text)).await.unwrap();
        other.append(&*store, said("other")).await.unwrap();
    }
    let read = Session::open(&*store, owner("crm")).await.unwrap();
    assert_eq!(read.messages(), session.messages());
    assert_eq!(read.messages().len(), 700);
    assert_eq!(read.next_run(), session.next_run());
    assert!(matches!(&read.messages()[300], Message::Channel { text } if *text == long));
}

#[tokio::test]
async fn x13_of_two_who_go_on_from_the_same_place_one_does() {
    let store = Arc::new(MemoryStore::default());
    let mut first = Session::open(&*store, owner("crm")).await.unwrap();
    let mut second = first.clone();
    first.append(&*store, said("first")).await.unwrap();
    let lost = second.append(&*store, said("second")).await;
    assert_eq!(lost, Err(SessionError::Changed));
    let read = Session::open(&*store, owner("crm")).await.unwrap();
    assert_eq!(read.messages().len(), 1);
}

/// A process that ended between the call and its result: no model takes a conversation in which one is missing.
#[tokio::test]
async fn a10_a_call_without_a_result_gets_one() {
    let store = Arc::new(MemoryStore::default());
    let mut session = Session::open(&*store, owner("crm")).await.unwrap();
    let call = countersign_agent::message::ModelCall {
        id: "t1".to_owned(),
        tool: "search_contacts".to_owned(),
        arguments: "{}".to_owned(),
    };
    let step = Step {
        messages: vec![Message::Agent {
            text: String::new(),
            calls: vec![call],
        }],
        ..Step::default()
    };
    session.append(&*store, step).await.unwrap();
    let read = Session::open(&*store, owner("crm")).await.unwrap();
    let [_, Message::Results { results }] = read.messages() else {
        panic!("{:?}", read.messages())
    };
    assert_eq!(
        (results[0].id.as_str(), results[0].status.as_str()),
        ("t1", "unknown")
    );
}
