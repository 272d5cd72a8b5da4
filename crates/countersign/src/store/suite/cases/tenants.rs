//! No tenant sees, changes or infers anything about another tenant.

use std::sync::Arc;

use crate::call::Arguments;
use crate::command::{Command, Decide, Finish, NewCall, Propose, Reconcile, Start, Withdraw};
use crate::executor::Outcome;
use crate::hash::Hash;
use crate::id::{Tenant, ToolName};
use crate::state::State;
use crate::store::suite::{Fixture, sample};
use crate::store::{Cursor, Filter};

pub async fn x20_tenants_with_the_same_channel_and_key_do_not_meet(fixture: Fixture) {
    let mut approvals = Vec::new();
    for (n, tenant) in [(1, "a"), (2, "b")] {
        let propose = Propose {
            tenant: sample::tenant_named(tenant),
            key: Some(sample::key("k", "body")),
            calls: vec![NewCall {
                tool: ToolName::new("a/b:c.d-e").unwrap(),
                definition: crate::policy::Definition::Unknown,
                arguments: Arguments::parse(&b"{}"[..]).unwrap(),
                terms: Arc::new(sample::terms()),
                sealed: None,
                provenance: None,
                before: None,
                working_folder: None,
            }],
            ..sample::propose_in(n, "c")
        };
        approvals.push(fixture.propose(propose).await);
    }
    for approval in &approvals {
        assert_eq!(fixture.get(approval).await.state, State::Pending);
        let channel = sample::channel("c");
        let pending = fixture
            .store
            .pending_in(&approval.tenant, &channel)
            .await
            .unwrap();
        assert_eq!(pending.unwrap().id, approval.id);
    }
    let digests: Vec<Hash> = approvals.iter().map(|approval| approval.digest).collect();
    assert_ne!(digests[0], digests[1]);
}

pub async fn x20_other_tenants_see_nothing(fixture: Fixture) {
    let foreign = sample::tenant_named("mallory");
    let propose = Propose {
        run: Some(sample::run("run-1")),
        ..sample::propose_in(1, "c")
    };
    let approval = fixture.propose(propose).await;
    let denied = fixture.propose(sample::propose(2)).await;
    fixture.accept(sample::deny(&denied)).await;
    for approval in [&approval, &denied] {
        assert_eq!(fixture.store.approval(&foreign, approval.id).await, Ok(None));
        assert_eq!(fixture.store.events(&foreign, approval.id).await, Ok(Vec::new()));
    }
    let channel = sample::channel("c");
    assert_eq!(fixture.store.pending_in(&foreign, &channel).await, Ok(None));
    let run = Filter {
        run: approval.run.clone(),
        ..Filter::default()
    };
    let behind = Filter {
        after: Some(denied.id),
        ..Filter::default()
    };
    for filter in [Filter::default(), Filter::pending(), run, behind] {
        assert_eq!(fixture.store.list(&foreign, &filter).await, Ok(Vec::new()));
    }
    let own = fixture.feed(&sample::tenant(), Cursor::default(), 3).await;
    assert_eq!(own.len(), 3);
    for cursor in own.iter().map(|event| event.cursor).chain([Cursor::default()]) {
        assert_eq!(fixture.store.feed(&foreign, cursor, 100).await, Ok(Vec::new()));
    }
}

pub async fn x20_other_tenants_can_do_nothing(fixture: Fixture) {
    let foreign = sample::tenant_named("mallory");
    let pending = fixture.propose(sample::propose_in(1, "c")).await;
    let running = fixture.running(sample::propose(2)).await;
    let released = fixture.approved(sample::propose(3)).await;
    let done = sample::finish(&running, 1, 1, Outcome::succeeded("{}"));
    let commands: Vec<Command> = vec![
        Command::Decide(Box::new(as_tenant(&foreign, sample::approve(&pending)))),
        Command::Withdraw(Withdraw {
            tenant: foreign.clone(),
            ..sample::withdraw(&pending)
        }),
        Command::Start(Start {
            tenant: foreign.clone(),
            ..sample::start(&released, 1, 2)
        }),
        Command::Finish(Finish {
            tenant: foreign.clone(),
            ..done
        }),
        Command::Reconcile(Reconcile {
            tenant: foreign.clone(),
            ..sample::reconcile(&running, 1, true)
        }),
        Command::Propose(Box::new(Propose {
            tenant: foreign.clone(),
            undoes: Some(sample::call_id(&running, 1).into()),
            ..sample::propose(4)
        })),
    ];
    for command in commands {
        // Same answer as for an id that never existed.
        let answer = format!("{:?}", fixture.write(command).await);
        let says_nothing = answer.contains("NotFound") || answer.contains("not there");
        assert!(says_nothing, "{answer}");
    }
    for approval in [&pending, &running, &released] {
        assert_eq!(fixture.get(approval).await, *approval, "untouched");
    }
}

fn as_tenant(tenant: &Tenant, mut decide: Decide) -> Decide {
    decide.decision.tenant = tenant.clone();
    decide
}
