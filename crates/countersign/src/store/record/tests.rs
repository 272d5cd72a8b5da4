use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::approval::SharedApproval;
use crate::decision::Verdict;
use crate::executor::Outcome;
use crate::store::memory::MemoryStore;
use crate::store::suite::program::{programs, run};
use crate::store::suite::{Fixture, sample};
use crate::store::{Cursor, Filter};

async fn fixture() -> Fixture {
    let clock = Fixture::clock();
    Fixture::new(Arc::new(MemoryStore::with_clock(clock.clone())), clock)
}

fn approval_columns(approval: &Approval) -> ApprovalColumns {
    ApprovalColumns {
        tenant: approval.tenant.clone(),
        id: approval.id,
        channel: approval.channel.clone(),
        agent: approval.agent.clone(),
        run: approval.run.clone(),
        state: approval.state.code(),
        version: approval.version,
    }
}

fn call_columns(call: &Call) -> CallColumns {
    CallColumns {
        state: call.state.code(),
        tool: call.tool.as_str().to_owned(),
        arguments: call.arguments.as_bytes().to_vec(),
        original: call
            .original
            .as_ref()
            .map(|original| original.as_bytes().to_vec()),
        result: call.result.as_deref().map(<[u8]>::to_vec),
        sealed: call.sealed.as_deref().map(<[u8]>::to_vec),
    }
}

/// Encodes an approval and decodes it again.
fn again(approval: &Approval) -> Approval {
    let calls = approval.calls.iter();
    let calls = calls.map(|call| decode_call(call_columns(call), &encode_call(call)).unwrap());
    decode_approval(
        approval_columns(approval),
        &encode_approval(approval),
        calls.collect(),
    )
    .unwrap()
}

/// Creates an approval with nearly every field set.
async fn full() -> SharedApproval {
    let fixture = fixture().await;
    let target = fixture.running(sample::propose(1)).await;
    let done = || Outcome::succeeded("{}");
    fixture
        .finish(sample::finish(&target, 1, 1, done()))
        .await
        .unwrap();
    fixture.propose(sample::propose_in(2, "c")).await;
    let propose = crate::command::Propose {
        run: Some(sample::run("run")),
        session: Some(sample::session("session")),
        on_behalf_of: Some(sample::person("maria")),
        claim: Some("claim".to_owned()),
        key: Some(sample::key("key", "body")),
        undoes: Some(sample::call_id(&target, 1).into()),
        ..sample::propose_in(3, "c")
    };
    let approval = fixture.propose(propose).await;
    let edit = crate::decision::Choice::Edit(sample::arguments("{}"));
    let decide = sample::decide(&approval, Verdict::Each(vec![edit]));
    let mut decide = sample::keyed(decide, "key", "body");
    decide.decision.comment = Some("comment".to_owned());
    decide.decision.claimed_by = Some("somebody".to_owned());
    fixture.accept(decide).await;
    fixture.start(sample::start(&approval, 1, 1)).await.unwrap();
    fixture.get(&approval).await
}

#[tokio::test]
async fn what_is_written_is_read_back() {
    let approval = full().await;
    assert_eq!(again(&approval), *approval);
}

#[tokio::test]
async fn i3_version_7_of_a_call_has_its_working_folder() {
    let mut approval = Approval::clone(&*full().await);
    let link = crate::working_folder::Link {
        path: "a".to_owned(),
        target: "/b".to_owned(),
    };
    let folder = WorkingFolder::new("/p", vec![link]).unwrap();
    approval.calls[0].working_folder = Some(Arc::new(folder));
    for secret in [None, Some(Vec::new())] {
        Arc::make_mut(&mut approval.calls[0].terms).secret = secret;
        let body = encode_call(&approval.calls[0]);
        assert_eq!(body[0], V7);
        assert_eq!(again(&approval), approval);
        let read = |body: &[u8]| decode_call(call_columns(&approval.calls[0]), body);
        assert!(read(&body[..body.len() - 1]).is_err());
    }
}

#[tokio::test]
async fn a17_version_3_of_an_approval_says_what_else_it_undoes() {
    let mut approval = Approval::clone(&*full().await);
    let target = approval.undoes.unwrap().approval;
    assert_eq!(encode_approval(&approval)[0], V2 | LINKED);
    approval.undoes = Undoes::new(target, [1, 4, 7]);
    let body = encode_approval(&approval);
    assert_eq!(body[0], V3 | LINKED);
    assert_eq!(again(&approval), approval);
    let read = |body: &[u8]| decode_approval(approval_columns(&approval), body, Vec::new());
    assert!(read(&body[..body.len() - 1]).is_err());
    assert!(read(&[body.as_slice(), &[0]].concat()).is_err());
}

#[tokio::test]
async fn e8_version_6_of_an_approval_has_the_order_of_its_calls() {
    let mut approval = Approval::clone(&*full().await);
    approval.order = Order::Any;
    let body = encode_approval(&approval);
    assert_eq!(body[0], V6 | LINKED);
    assert_eq!(again(&approval), approval);
    let read = |body: &[u8]| decode_approval(approval_columns(&approval), body, Vec::new());
    assert!(read(&body[..body.len() - 1]).is_err());
}

#[test]
fn i7_whatever_happens_is_written_and_read_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fixture = runtime.block_on(fixture());
    let mut runner = TestRunner::deterministic();
    let mut count = 0;
    for serial in 1..=200 {
        let program = programs().new_tree(&mut runner).unwrap().current();
        runtime.block_on(run(&program, &fixture));
        let tenant = sample::tenant_named(&format!("program {serial} tenant 0"));
        let listed = runtime
            .block_on(fixture.store.list(&tenant, &Filter::default()))
            .unwrap();
        for approval in listed {
            count += 1;
            assert_eq!(again(&approval), *approval);
        }
        let feed = runtime.block_on(fixture.store.feed(&tenant, Cursor::default(), 1000));
        for crate::store::FeedEvent { event, .. } in feed.unwrap() {
            let (text, by) = (event.text().to_owned(), event.by.to_string().parse().unwrap());
            let read = crate::event::Event::stored(
                event.number,
                event.at,
                event.policy,
                by,
                text,
                event.link,
                event.content,
            );
            assert_eq!(read.ok(), Some(event));
        }
    }
    assert!(count > 500, "{count}");
}

/// Pins the bytes of version 1. People's databases contain such rows: a change of the format needs a new version, and
/// version 1 must remain readable.
#[tokio::test]
async fn version_1_is_what_it_always_was() {
    let approval = full().await;
    let link = "67258ae79d2c3009cf0808851592213b7910d9f9a56e3571664627643b0876cb";
    let body = encode_with_link(&approval, Hash::from_hex(link).unwrap(), 0);
    let (as_before, endorsements) = body.split_at(body.len() - 2);
    assert_eq!(endorsements, [0, 0], "no endorsements, not erased");
    insta::assert_snapshot!(hex(as_before), @r"
    02010773657373696f6e07746f6b656e2d3701056d617269610105636c61696d
    0303030303030303030303030303030307070707070707070707070707070707
    808082e288d2a306808c8f808bd2a30678008e90706fc017cc27ed565237d796
    9676f2af5e96a33c94e35af260a94c1f237ef5f33c2982225839ec7661ec218e
    9bb81b29a6f97777304e8267b9904ffb951b01808082e288d2a306808082e288
    d2a30667258ae79d2c3009cf0808851592213b7910d9f9a56e3571664627643b
    0876cb010105616c696365808082e288d2a30604706167650107636f6d6d656e
    740108736f6d65626f647901036b6579230d8358dc8e8890b4c58deeb62912ee
    2f20357ae92a5cc861b98e68fe31acb5000110019b76daa80270008000000000
    0000020110019b76daa801700080000000000000010101036b6579230d8358dc
    8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb500
    ");
    let call = encode_call(&approval.calls[0]);
    let (as_before, authority) = call.split_at(call.len() - 3);
    assert_eq!(authority, [0, 1, 0], "no four eyes, one approver, any surface");
    insta::assert_snapshot!(hex(as_before), @r"
    02014c4ed1afbfdaa1e4c3bf7bbb82d730cecb7e384da91eea4f3cc093fd5455
    24d60201011b43726561746520636f6e74616374204d61726961204761726369
    61010a53c3ad2c20637265617200ac02000178001e000205616c696365036f70
    73000000d0c8d1fb50869df54dad221abe5c5c6267836272acde0d14dd367aff
    a1b238470001808082e288d2a306808ed0fe88d2a3065e8364517f72bfb69bdb
    381779f29dfaf82c7666c0706f895b45ecf7b3e61e3b0000
    ");
}

/// Decodes rows of version 1, with default terms.
#[tokio::test]
async fn version_1_is_still_read() {
    let approval = full().await;
    let mut old = encode_with_link(&approval, approval.link, 0);
    old.truncate(old.len() - 2);
    old[0] = V1;
    let read = decode_approval(approval_columns(&approval), &old, approval.calls.clone());
    assert_eq!(read.unwrap(), *approval);
    let call = &approval.calls[0];
    let mut old = encode_call(call);
    old.truncate(old.len() - 3);
    old[0] = V1;
    assert_eq!(decode_call(call_columns(call), &old).unwrap(), *call);
    let strict = Authority {
        four_eyes: true,
        quorum: 3,
        assurance: crate::decision::Assurance::Page,
    };
    let mut call = call.clone();
    call.terms = Arc::new(sample::terms_asking(strict));
    let read = decode_call(call_columns(&call), &encode_call(&call)).unwrap();
    assert_eq!(read.terms.authority(), strict);
}

/// An assurance is stored by its position.
#[test]
fn assurances_keep_their_stored_positions() {
    use crate::decision::Assurance;
    for (position, level) in (0..).zip(Assurance::ALL) {
        let bytes = postcard::to_allocvec(&level).unwrap();
        assert_eq!(bytes, [position], "{level:?}");
    }
    assert!(Assurance::ALL.is_sorted());
}

/// Version 3 is version 2 with the provenance appended. Calls without provenance are still written as version 2.
#[tokio::test]
async fn version_3_of_a_call_carries_its_provenance() {
    let mut call = full().await.calls[0].clone();
    let second = encode_call(&call);
    assert_eq!(second.first(), Some(&2));
    call.provenance = Some(sample::provenance());
    let third = encode_call(&call);
    assert_eq!(third.first(), Some(&3));
    assert!(third.get(1..).unwrap().starts_with(second.get(1..).unwrap()));
    assert_eq!(decode_call(call_columns(&call), &third).unwrap(), call);
    insta::assert_snapshot!(hex(third.get(second.len()..).unwrap()), @r"
    06022f3000022f31010101020705312c32303001022f32020c66696e645f636f
    6e746163740101082f302f656d61696c010102070e6d617269614061636d652e
    636f6d01022f3303022f3404010101066f7264657273000531202b2032010565
    6e6a6f79022f35050101
    ");
}

/// `Coverage` replaced a bool and must keep the bool's encoding.
#[test]
fn what_was_heard_is_written_as_the_bool_it_was() {
    use crate::provenance::Coverage;
    for (heard, before) in [(Coverage::Whole, false), (Coverage::Recent, true)] {
        let bytes = postcard::to_allocvec(&before).unwrap();
        assert_eq!(postcard::to_allocvec(&heard).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<Coverage>(&bytes).unwrap(), heard);
    }
}

/// Version 4 appends the snapshot, with or without a provenance before it. Calls without a snapshot keep the earlier
/// versions.
#[tokio::test]
async fn version_4_of_a_call_carries_what_it_would_change() {
    let mut call = full().await.calls[0].clone();
    call.before = Some(Arc::new(sample::snapshot("{}")));
    for provenance in [None, Some(sample::provenance())] {
        call.provenance = provenance;
        let fourth = encode_call(&call);
        assert_eq!(fourth.first(), Some(&4));
        assert_eq!(decode_call(call_columns(&call), &fourth).unwrap(), call);
    }
    call.provenance = None;
    let fourth = encode_call(&call);
    call.before = None;
    let second = encode_call(&call);
    assert!(fourth.get(1..).unwrap().starts_with(second.get(1..).unwrap()));
    insta::assert_snapshot!(hex(fourth.get(second.len()..).unwrap()), @r"
    00086765745f706167650b7b226964223a227031227d027b7db46399cc280062
    30f99393972c0d893fcceb26d64d2297fb66e89dc843e61264
    ");
}

/// Version 6 appends the secret paths. In a row without them it is unknown what is secret.
#[tokio::test]
async fn x98_version_6_of_a_call_says_what_is_secret() {
    let mut call = full().await.calls[0].clone();
    assert_eq!(call.terms.secret, None);
    for (provenance, before) in [
        (None, None),
        (Some(sample::provenance()), Some(Arc::new(sample::snapshot("{}")))),
    ] {
        (call.provenance, call.before) = (provenance, before);
        for secret in [Vec::new(), vec![SecretPath::parse("auth.*.key").unwrap()]] {
            Arc::make_mut(&mut call.terms).secret = Some(secret);
            let sixth = encode_call(&call);
            assert_eq!(sixth.first(), Some(&6));
            assert_eq!(decode_call(call_columns(&call), &sixth).unwrap(), call);
        }
    }
}

/// Version 5 appends the facts that the gate knows first-hand. In a row without them everything counts as the
/// proposer's claim.
#[tokio::test]
async fn x57_x69_version_5_of_a_call_says_what_the_gate_knows_itself() {
    use crate::provenance::Voucher;
    let mut call = full().await.calls[0].clone();
    let hash = call.definition.hash().unwrap();
    for before in [None, Some(Arc::new(sample::snapshot("{}")))] {
        call.before = before;
        for voucher in [Voucher::Agent, Voucher::Gate] {
            call.provenance = Some(Arc::new(Provenance::clone(&sample::provenance()).by(voucher)));
            for definition in [Definition::Read(hash), Definition::Claimed(hash)] {
                call.definition = definition;
                let bytes = encode_call(&call);
                let is_known = voucher == Voucher::Gate || definition == Definition::Read(hash);
                assert_eq!(bytes.first() == Some(&5), is_known);
                assert_eq!(decode_call(call_columns(&call), &bytes).unwrap(), call);
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| -> String { line.iter().map(|byte| format!("{byte:02x}")).collect() });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn damage_is_told_from_a_newer_version() {
    let approval = full().await;
    let body = encode_approval(&approval);
    let read = |body: &[u8]| decode_approval(approval_columns(&approval), body, Vec::new()).err();
    assert_eq!(read(&body), None);
    let mut newer = body.clone();
    newer[0] = LINKED | 7;
    assert_eq!(read(&newer), Some(BadRecord::Version(7)));
    assert_eq!(read(&[]), Some(damaged("it is empty")));
    for length in 1..body.len() {
        assert!(
            matches!(read(&body[..length]), Some(BadRecord::Damaged(_))),
            "{length} bytes"
        );
    }
    let longer = [body.as_slice(), &[0]].concat();
    assert!(matches!(read(&longer), Some(BadRecord::Damaged(_)) | None));
    let old = encode_with_link(&approval, approval.link, 0);
    assert_eq!(read(&old), None);
    let longer = [old.as_slice(), &[0]].concat();
    assert_eq!(read(&longer), Some(damaged("something follows it")));
    let state = ApprovalColumns {
        state: 7,
        ..approval_columns(&approval)
    };
    assert!(decode_approval(state, &body, Vec::new()).is_err());
    let call = &approval.calls[0];
    let tool = CallColumns {
        tool: "no tool".to_owned(),
        ..call_columns(call)
    };
    assert!(decode_call(tool, &encode_call(call)).is_err());
}
