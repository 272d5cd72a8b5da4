//! Propose: round trips, replacement and retries.

use crate::approval::MOST_CALLS;
use crate::command::{Command, Propose, ProposeRefusal};
use crate::decision::Verdict;
use crate::executor::{LARGEST_RESULT, Outcome};
use crate::json::Limits;
use crate::state::{CallState, State};
use crate::store::suite::{Fixture, sample};

pub async fn b1_an_approval_comes_back_as_it_was_proposed(fixture: Fixture) {
    let propose = Propose {
        run: Some(sample::run("run-1")),
        session: Some(sample::session("session-1")),
        on_behalf_of: Some(sample::person("maria")),
        claim: Some("I will only add a contact.".to_owned()),
        key: Some(sample::key("k", "body")),
        ..sample::propose_in(1, "telegram:42")
    };
    let approval = fixture.propose(propose.clone()).await;
    assert_eq!(approval.id, propose.id);
    assert_eq!(approval.channel, propose.channel);
    assert_eq!(approval.agent, propose.agent);
    assert_eq!(approval.run, propose.run);
    assert_eq!(approval.session, propose.session);
    assert_eq!(approval.requester, propose.requester);
    assert_eq!(approval.on_behalf_of, propose.on_behalf_of);
    assert_eq!(approval.claim, propose.claim);
    assert_eq!((approval.nonce, approval.salt), (propose.nonce, propose.salt));
    assert_eq!(approval.key, propose.key);
    assert_eq!(approval.created_at, sample::BEGINNING);
    assert_eq!(approval.expires_at, sample::BEGINNING.plus(sample::TTL));
    assert_eq!(approval.state, State::Pending);
    let (call, asked) = (&approval.calls[0], &propose.calls[0]);
    assert_eq!((&call.tool, call.definition), (&asked.tool, asked.definition));
    assert_eq!(call.arguments, asked.arguments);
    assert_eq!(call.terms, asked.terms);
    assert_eq!(call.sealed, asked.sealed);
    assert_eq!((call.state, call.revision), (CallState::Held, 1));
    assert_eq!(fixture.words(&approval).await, ["proposed"]);
}

pub async fn a18_where_values_came_from_comes_back(fixture: Fixture) {
    let mut propose = sample::propose(1);
    propose.calls[0].provenance = Some(sample::provenance());
    let approval = fixture.propose(propose).await;
    assert_eq!(approval.calls[0].provenance, Some(sample::provenance()));
    let decided = fixture.accept(sample::decide(&approval, Verdict::Approve)).await;
    assert_eq!(decided.calls[0].provenance, Some(sample::provenance()));
    assert_eq!(fixture.get(&approval).await, decided);
}

pub async fn a4_new_proposal_replaces_the_pending_one_atomically(fixture: Fixture) {
    let channel = sample::channel("c");
    let first = fixture.propose(sample::propose_in(1, "c")).await;
    let elsewhere = fixture.propose(sample::propose_in(2, "d")).await;
    let nowhere = fixture.propose(sample::propose(3)).await;
    let second = fixture.propose(sample::propose_in(4, "c")).await;

    assert_eq!(second.replaces, Some(first.id));
    assert_eq!(fixture.pending_in(&channel).await, Some(second.id));
    let first = fixture.get(&first).await;
    assert_eq!(first.state, State::Superseded);
    assert_eq!(first.superseded_by, Some(second.id));
    assert_eq!(first.calls[0].state, CallState::Refused);
    for other in [elsewhere, nowhere] {
        assert_eq!(fixture.get(&other).await.state, State::Pending);
    }
}

pub async fn a4_an_expired_one_is_not_replaced_but_expires(fixture: Fixture) {
    let first = fixture.propose(sample::propose_in(1, "c")).await;
    fixture.advance(sample::TTL);
    let second = fixture.propose(sample::propose_in(2, "c")).await;
    assert_eq!(second.replaces, None);
    let first = fixture.get(&first).await;
    assert_eq!((first.state, first.superseded_by), (State::Expired, None));
    assert_eq!(fixture.pending_in(&sample::channel("c")).await, Some(second.id));
}

pub async fn x40_propose_retry_gives_one_card(fixture: Fixture) {
    let propose = Propose {
        key: Some(sample::key("k", "body")),
        ..sample::propose_in(1, "c")
    };
    let first = fixture.propose(propose.clone()).await;
    // The retry has its own id, because the gate makes a new one each time.
    let retry = Propose {
        id: sample::id(2),
        ..propose
    };
    let repeated = fixture.try_propose(retry.clone()).await.unwrap();
    assert!(repeated.repeated);
    assert_eq!(repeated.approval.id, first.id);
    assert_eq!(fixture.find(&first.tenant, sample::id(2)).await, None);
    // A retry after the end returns the ended approval.
    fixture.accept(sample::deny(&first)).await;
    let repeated = fixture.try_propose(retry).await.unwrap();
    assert!(repeated.repeated);
    assert_eq!(repeated.approval.state, State::Denied);
    assert_eq!(fixture.words(&first).await, ["proposed", "denied"]);
}

pub async fn x40_a_proposal_without_calls_only_looks_for_the_earlier_one(fixture: Fixture) {
    let look = |body: &str| Propose {
        key: Some(sample::key("key", body)),
        calls: Vec::new(),
        ..sample::propose(2)
    };
    let none = fixture.try_propose(look("body")).await.unwrap_err();
    assert_eq!(none, ProposeRefusal::NothingEarlier);
    let keyed = Propose {
        key: Some(sample::key("key", "body")),
        ..sample::propose(1)
    };
    let first = fixture.propose(keyed).await;
    let found = fixture.try_propose(look("body")).await.unwrap();
    assert_eq!((found.approval.id, found.repeated), (first.id, true));
    let other = fixture.try_propose(look("another body")).await.unwrap_err();
    assert!(matches!(other, ProposeRefusal::KeyReused(_)));
    fixture.check_all().await;
}

pub async fn x40_same_key_for_another_proposal_is_refused(fixture: Fixture) {
    let propose = Propose {
        key: Some(sample::key("k", "body")),
        ..sample::propose_in(1, "c")
    };
    let first = fixture.propose(propose).await;
    let (key, body) = sample::key("k", "another body");
    let other = Propose {
        key: Some((key.clone(), body)),
        ..sample::propose_in(2, "c")
    };
    let answer = fixture.try_propose(other).await;
    assert_eq!(answer.err(), Some(ProposeRefusal::KeyReused(key)));
    // The refused proposal replaced nothing.
    assert_eq!(fixture.get(&first).await.state, State::Pending);
    assert_eq!(fixture.find(&first.tenant, sample::id(2)).await, None);
}

pub async fn x40_keys_belong_to_one_agent(fixture: Fixture) {
    let key = Some(sample::key("k", "body"));
    let one = Propose {
        key: key.clone(),
        ..sample::propose(1)
    };
    let other = Propose {
        key,
        agent: sample::agent("billing"),
        ..sample::propose(2)
    };
    fixture.propose(one).await;
    fixture.propose(other).await;
}

pub async fn a_repeated_id_never_overwrites(fixture: Fixture) {
    let first = fixture.approved(sample::propose(1)).await;
    let again = Propose {
        calls: vec![sample::call(r#"{"other":true}"#)],
        ..sample::propose_in(1, "c")
    };
    let pending = fixture.propose(sample::propose_in(2, "c")).await;
    let answer = fixture.try_write(Command::Propose(Box::new(again))).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(fixture.get(&first).await, first);
    assert_eq!(fixture.words(&first).await, ["proposed", "approved"]);
    // The failed transaction left the approval it would have replaced pending.
    assert_eq!(fixture.get(&pending).await.state, State::Pending);
    // The store keeps working.
    fixture.propose(sample::propose(3)).await;
}

pub async fn a16_an_approval_holds_one_to_a_hundred_calls(fixture: Fixture) {
    for wrong in [0, MOST_CALLS + 1, 255, 256, 1000] {
        let propose = sample::batch(1, wrong);
        let answer = fixture.try_write(Command::Propose(Box::new(propose))).await;
        assert!(answer.is_err(), "{wrong} calls");
    }
    let approval = fixture.approved(sample::batch(2, MOST_CALLS)).await;
    assert_eq!(approval.calls.len(), MOST_CALLS);
    for (position, n) in (1..=100).zip(1..) {
        fixture
            .start(sample::start(&approval, position, n))
            .await
            .unwrap();
        let done = sample::finish(&approval, position, n, Outcome::succeeded("{}"));
        fixture.finish(done).await.unwrap();
    }
    let approval = fixture.get(&approval).await;
    assert!(approval.is_finished());
    assert_eq!(approval.version, 2 + 2 * 100);
}

pub async fn i7_bytes_come_back_identical(fixture: Fixture) {
    let odd = [
        r#"{}"#,
        "  {\t\"a\" :\r\n[ 1 ,2 ] }  \n",
        r#"{"z":1,"a":2,"m":{"b":1,"a":2}}"#,
        r#"{"n":9007199254740993,"m":18446744073709551616,"e":1e400,"f":1.0,"g":-0,"h":1E+2}"#,
        r#"{"escaped":"\u0000\u00e9\/\ud83d\ude00","plain":"é😀","t\u006f":1}"#,
        "{\"bidi\":\"\u{202e}abc\",\"zero\":\"a\u{200b}b\",\"c1\":\"\u{9b}31m\",\"line\":\"\u{2028}\"}",
        r#"{"quote":"'; DROP TABLE approvals; --","percent":"%s %","backslash":"\\\\"}"#,
    ];
    for (n, text) in (1..).zip(odd) {
        let propose = Propose {
            calls: vec![sample::call(text)],
            ..sample::propose(n)
        };
        let approval = fixture.propose(propose).await;
        let stored = fixture.get(&approval).await;
        assert_eq!(stored.calls[0].arguments.as_bytes(), text.as_bytes(), "`{text}`");
        fixture.accept(sample::approve(&approval)).await;
        let started = fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
        assert_eq!(
            started.approval.calls[0].arguments.as_bytes(),
            text.as_bytes(),
            "`{text}`"
        );
    }
}

pub async fn i7_the_largest_arguments_and_results_come_back(fixture: Fixture) {
    let most = Limits::ARGUMENTS.bytes;
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(most - 8));
    assert_eq!(text.len(), most);
    let calls = vec![sample::call(&text), sample::call(&text)];
    let approval = fixture
        .running(Propose {
            calls,
            ..sample::propose(1)
        })
        .await;
    // Every byte value, so not UTF-8: results are arbitrary bytes.
    let result: Vec<u8> = (0..=255).cycle().take(LARGEST_RESULT).collect();
    let finish = sample::finish(&approval, 1, 1, Outcome::succeeded(&result));
    fixture.finish(finish).await.unwrap();
    let stored = fixture.get(&approval).await;
    assert_eq!(stored.calls[0].result.as_deref(), Some(result.as_slice()));
    assert_eq!(stored.calls[1].arguments.as_bytes(), text.as_bytes());
}

pub async fn names_may_be_in_any_language(fixture: Fixture) {
    let tenant = sample::tenant_named("Größe 株式会社 🦀");
    let channel = sample::channel("канал-1 'or 1=1 -- \"x\" %_");
    let agent = sample::agent("агент\u{200b}");
    // Two different names that look the same: NFC and NFD.
    let (composed, decomposed) = (sample::run("é"), sample::run("e\u{301}"));
    let longest = sample::person(&"ü".repeat(128));
    for (n, run) in [(1, &composed), (2, &decomposed)] {
        let propose = Propose {
            tenant: tenant.clone(),
            agent: agent.clone(),
            run: Some(run.clone()),
            requester: longest.clone(),
            channel: Some(channel.clone()),
            key: Some(sample::key(&format!("ключ {n}"), "body")),
            ..sample::propose(n)
        };
        fixture.propose(propose).await;
    }
    let filter = crate::store::Filter {
        agent: Some(agent),
        channel: Some(channel.clone()),
        run: Some(composed),
        ..Default::default()
    };
    let listed = fixture.store.list(&tenant, &filter).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, sample::id(1));
    assert_eq!(listed[0].requester, longest);
    let pending = fixture
        .store
        .pending_in(&tenant, &channel)
        .await
        .unwrap()
        .unwrap();
    let decided = fixture.accept(sample::decide(&pending, Verdict::Approve)).await;
    assert_eq!(decided.tenant, tenant);
}
