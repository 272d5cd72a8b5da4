//! Sessions as stored in the registry.

use std::sync::Arc;

use countersign::id::Agent;
use countersign::store::memory::MemoryStore;
use countersign_agent::message::Message;
use countersign_agent::session::{Session, SessionError, SessionKey, Step};

use crate::world::{channel, tenant};

fn session_key(agent: &str) -> SessionKey {
    SessionKey {
        tenant: tenant(),
        agent: Agent::new(agent).unwrap(),
        channel: channel(),
    }
}

fn step_of(text: &str) -> Step {
    Step {
        messages: vec![Message::Channel {
            text: text.to_owned(),
        }],
        ..Step::default()
    }
}

/// A session with a step larger than one entry and more entries than one page.
#[tokio::test]
async fn a10_a_long_session_is_read_back_completely() {
    let store = Arc::new(MemoryStore::default());
    let mut session = Session::open(&*store, session_key("crm")).await.unwrap();
    let mut other = Session::open(&*store, session_key("cms")).await.unwrap();
    let long = "wört ".repeat(40_000);
    for number in 0..700 {
        let text = if number == 300 {
            long.clone()
        } else {
            number.to_string()
        };
        session.append(&*store, step_of(&text)).await.unwrap();
        other.append(&*store, step_of("other")).await.unwrap();
    }
    let read = Session::open(&*store, session_key("crm")).await.unwrap();
    assert_eq!(read.messages(), session.messages());
    assert_eq!(read.messages().len(), 700);
    assert_eq!(read.next_run(), session.next_run());
    assert!(matches!(&read.messages()[300], Message::Channel { text } if *text == long));
}

#[tokio::test]
async fn x13_only_one_of_two_concurrent_appends_succeeds() {
    let store = Arc::new(MemoryStore::default());
    let mut first = Session::open(&*store, session_key("crm")).await.unwrap();
    let mut second = first.clone();
    first.append(&*store, step_of("first")).await.unwrap();
    let lost = second.append(&*store, step_of("second")).await;
    assert_eq!(lost, Err(SessionError::Changed));
    let read = Session::open(&*store, session_key("crm")).await.unwrap();
    assert_eq!(read.messages().len(), 1);
}

/// A process ended between a call and its result. Model APIs reject a conversation without that result.
#[tokio::test]
async fn a10_a_call_without_a_result_gets_one() {
    let store = Arc::new(MemoryStore::default());
    let mut session = Session::open(&*store, session_key("crm")).await.unwrap();
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
    let read = Session::open(&*store, session_key("crm")).await.unwrap();
    let [_, Message::Results { results }] = read.messages() else {
        panic!("{:?}", read.messages())
    };
    assert_eq!(
        (results[0].id.as_str(), results[0].status.as_str()),
        ("t1", "unknown")
    );
}
