//! X64: no response contains what the policy calls secret, even where a tool or an agent repeats it.

use std::sync::Arc;

use countersign::executor::{Outcome, Tools};
use countersign::id::ToolName;
use countersign_server::access::Scope;
use serde_json::json;

use crate::support::{Service, id};

const POLICY: &str = r#"
[tools.echo]
effect = "write"
secret = ["api_key"]
undo = { tool = "echo", arguments = { api_key = "{{ result.api_key }}", note = "{{ result.note }}" } }

[tools.lookup]
effect = "read"
secret = ["api_key"]
"#;

/// A secret that needs escaping in JSON and in URLs, and does not occur by chance.
const CANARY: &str = "k\u{e4}nary/\"7+9\" &x=1";

#[tokio::test]
async fn x64_a_secret_stands_in_no_answer() {
    let service = Service::with_policy(POLICY).await;
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    let reply = service.with_scope("main", Scope::Reply).await;
    let arguments = json!({ "api_key": CANARY, "note": "the usual" });
    let said = json!([{ "role": "user", "text": format!("please send: the key is {CANARY}") }]);
    let calls = json!([{ "tool": "echo", "arguments": arguments }]);
    let claim = format!("I use {CANARY}");
    let body = json!({ "channel": "c", "claim": claim, "conversation": said, "calls": calls }).to_string();
    let mut told = Vec::new();
    let proposed = service.post(&agent, "/v1/calls", &body).await;
    let card = proposed.json()["approval"].clone();
    told.push(("proposed", proposed.text));
    let path = format!("/v1/approvals/{}", id(&card));
    let yes = json!({ "approved": true, "comment": format!("fine, {CANARY}") }).to_string();
    let decided = service
        .post(&ana, &format!("{path}?waitFor=finished"), &yes)
        .await;
    assert_eq!(
        decided.json()["calls"][0]["state"],
        "succeeded",
        "{}",
        decided.text
    );
    told.push(("decided", decided.text));
    let undo = format!("/v1/calls/{}.1/undo", id(&card));
    told.push((
        "undo",
        service.post(&agent, &undo, "{\"channel\":\"c\"}").await.text,
    ));
    for token in [&agent, &ana, &reply] {
        for route in [
            "/v1/channels/c/transcript".to_owned(),
            "/v1/channels/c/transcript?format=openai".to_owned(),
            "/v1/channels/c/pending".to_owned(),
            "/v1/approvals?status=all&concerns=true".to_owned(),
            format!("{path}?events=true&concerns=true"),
        ] {
            told.push(("route", service.get(token, &route).await.text));
        }
    }
    let json_escaped = serde_json::to_string(CANARY).unwrap();
    let inner = json_escaped.trim_matches('"');
    let twice = serde_json::to_string(inner).unwrap();
    for (what, text) in &told {
        for form in [CANARY, inner, twice.trim_matches('"')] {
            assert!(!text.contains(form), "{what}: {text}");
        }
    }
}

/// X98: a secret is hidden in another letter case, too.
#[tokio::test]
async fn x98_a_secret_in_another_letter_case_stands_in_no_answer() {
    let policy = "[tools.echo]\neffect = \"write\"\nsecret = [\"api_key\"]\nsummary = \"Note {{ note }}\"\n";
    let service = Service::with_policy(policy).await;
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    for (key, repeated) in [
        ("canary-80", "CANARY-80"),
        ("CANARY-81", "canary-81"),
        ("Stra\u{df}e-82", "STRA\u{df}E-82"),
        ("k\u{e4}n-83", "K\u{c4}N-83"),
        ("abz", "ABZ"),
    ] {
        let calls = json!([{ "tool": "echo", "arguments": { "api_key": key, "note": "the usual" } }]);
        let body = json!({ "claim": format!("I use {repeated}"), "calls": calls }).to_string();
        let mut told = Vec::new();
        let proposed = service.post(&agent, "/v1/calls", &body).await;
        let path = format!("/v1/approvals/{}", id(&proposed.json()["approval"]));
        told.push(proposed.text);
        let yes = json!({ "approved": true, "comment": format!("fine, {repeated}") }).to_string();
        told.push(
            service
                .post(&ana, &format!("{path}?waitFor=finished"), &yes)
                .await
                .text,
        );
        let shown = format!("{path}?events=true&concerns=true");
        told.push(service.get(&ana, &shown).await.text);
        for text in told {
            assert!(
                !text.contains(repeated) && !text.contains(key),
                "{repeated}: {text}"
            );
        }
        let ran = service.ran.lock().unwrap().last().cloned().unwrap();
        assert!(ran.contains(key), "the tool gets it: {ran}");
    }
}

/// Proposes calls of `echo`, and says yes to whatever is held, over the API and in the conversation.
async fn propose_and_approve(service: &Service, arguments: &[serde_json::Value]) -> (String, usize) {
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    let call = |arguments: &serde_json::Value| json!({ "tool": "echo", "arguments": arguments });
    let calls: Vec<_> = arguments.iter().map(call).collect();
    let proposed = service
        .post(
            &agent,
            "/v1/calls",
            &json!({ "channel": "c", "calls": calls }).to_string(),
        )
        .await;
    let answer = proposed.json();
    let before = service.ran.lock().unwrap().len();
    if !answer["approval"].is_null() {
        let path = format!("/v1/approvals/{}?waitFor=finished", id(&answer["approval"]));
        service.post(&ana, &path, r#"{"approved":true}"#).await;
    }
    let ran = service.ran.lock().unwrap().len() - before;
    (proposed.text, ran)
}

/// X64: an agent cannot hide a value from the approver by repeating it in a secret argument.
#[tokio::test]
async fn x64_a_secret_hides_no_other_argument() {
    let service = Service::with_policy(POLICY).await;
    for (place, arguments) in [
        ("/name", json!({ "api_key": "eve@evil", "name": "eve@evil" })),
        ("/name", json!({ "api_key": "eve@evil", "name": "EVE@Evil" })),
        (
            "/name",
            json!({ "api_key": "evil", "name": "ask eve@evil.example" }),
        ),
        ("/name", json!({ "api_key": "eve@evil", "name": "eve%40evil" })),
        (
            "/name",
            json!({ "api_key": "eve@evil", "name": "\\u0065ve@evil" }),
        ),
        ("/name", json!({ "api_key": "eve@evil", "name": "ZXZlQGV2aWw=" })),
        (
            "/name",
            json!({ "api_key": "eve@evil", "name": "6576 6540 6576 696c" }),
        ),
        (
            "/to/1/mail",
            json!({ "api_key": "eve@evil", "to": [{ "mail": "a@b" }, { "mail": "eve@evil" }] }),
        ),
        ("/name", json!({ "api_key": ["eve", "x"], "name": "for eve" })),
        ("/amount", json!({ "api_key": 9000, "amount": 9000 })),
        ("/amount", json!({ "api_key": "7", "amount": 7 })),
        ("/force", json!({ "api_key": "true", "force": true })),
        (
            "/delete_all",
            json!({ "api_key": "delete_all", "delete_all": true }),
        ),
        ("/user", json!({ "user": "admin", "api_key": "admin" })),
    ] {
        let (answer, ran) = propose_and_approve(&service, std::slice::from_ref(&arguments)).await;
        assert_eq!(ran, 0, "{arguments}: {answer}");
        assert!(
            answer.contains("\"forbidden\"") && answer.contains("hint: "),
            "{arguments}: {answer}"
        );
        // The sentence names both places, and no value; a name that is the secret is a mark there.
        let shown = place.replace("delete_all", "[hidden");
        assert!(
            answer.contains("/api_key") && answer.contains(&shown),
            "{arguments}: {answer}"
        );
        assert!(!answer.contains("evil") && !answer.contains("9000"), "{answer}");
    }
    // A secret that is nowhere else, an empty one, `true` and `null` hide nothing, and a list's numbers are no values.
    for arguments in [
        json!({ "api_key": "k-1", "name": "eve@evil" }),
        json!({ "api_key": "", "name": "" }),
        json!({ "api_key": "  ", "name": "  " }),
        json!({ "api_key": true, "name": true }),
        json!({ "api_key": null, "name": null }),
        json!({ "api_key": "1", "names": ["a", "b"] }),
        json!({ "api_key": "eve", "name": "evelyn" }),
    ] {
        let (answer, ran) = propose_and_approve(&service, std::slice::from_ref(&arguments)).await;
        assert_eq!(ran, 1, "{arguments}: {answer}");
    }
}

/// X64: neither does a secret of another call on the same card.
#[tokio::test]
async fn x64_a_secret_hides_nothing_of_another_call() {
    let service = Service::with_policy(POLICY).await;
    let holder = json!({ "api_key": "eve@evil", "name": "Maria" });
    let repeats = json!({ "api_key": "k-1", "name": "eve@evil" });
    for (calls, sentence) in [
        ([&holder, &repeats], "`/name` of call 2 would be hidden"),
        ([&repeats, &holder], "`/name` of call 1 would be hidden"),
    ] {
        let calls = calls.map(Clone::clone);
        let (answer, ran) = propose_and_approve(&service, &calls).await;
        assert!(answer.contains(sentence), "{answer}");
        // The refused call does not run; the other call has its own card.
        assert_eq!(ran, 1, "{answer}");
        let last = service.ran.lock().unwrap().last().cloned().unwrap();
        assert_eq!(last, calls[0].to_string());
    }
}

/// X64: nor what the gate read before it asked.
#[tokio::test]
async fn x64_a_secret_hides_nothing_of_what_would_change() {
    let service = Service::new().await;
    *service.page.lock().unwrap() = r#"{"title":"Board of directors","sections":[1,2]}"#.to_owned();
    let agent = service.agent("cms").await;
    let body = |token: &str| {
        let arguments = json!({ "id": "p1", "title": "New", "token": token });
        json!({ "calls": [{ "tool": "rename_page", "arguments": arguments }] }).to_string()
    };
    let answer = service
        .post(&agent, "/v1/calls", &body("board of directors"))
        .await;
    assert!(answer.json()["approval"].is_null(), "{}", answer.text);
    assert!(
        answer
            .text
            .contains("the value of `/title` in what the call would change"),
        "{}",
        answer.text
    );
    let answer = service.post(&agent, "/v1/calls", &body("t-1")).await;
    assert_eq!(answer.json()["approval"]["status"], "pending", "{}", answer.text);
    // In a snapshot that is not a JSON object, secrets cannot be located, so it could not be shown.
    *service.page.lock().unwrap() = "Board of directors".to_owned();
    let answer = service.post(&agent, "/v1/calls", &body("t-1")).await;
    assert!(answer.json()["approval"].is_null(), "{}", answer.text);
    assert!(answer.text.contains("no JSON object"), "{}", answer.text);
}

/// X64: an edit of which a secret would hide a part is refused too.
#[tokio::test]
async fn x64_an_edit_that_a_secret_would_hide_is_refused() {
    let service = Service::with_policy(POLICY).await;
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    let approval = service
        .propose(&agent, "echo", r#"{"api_key":"hunter22","note":"x"}"#)
        .await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    for edit in [
        json!({ "api_key": "hunter22", "note": "use HUNTER22" }),
        json!({ "api_key": "k-2", "note": "was hunter22" }),
        json!({ "api_key": "note", "note": "x" }),
    ] {
        let choice = json!({ "approved": true, "calls": [{ "approved": true, "arguments": edit }] });
        let refused = service.post(&ana, &path, &choice.to_string()).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(refused.text.contains("would be hidden"), "{}", refused.text);
    }
    assert!(service.ran.lock().unwrap().is_empty());
    // After three refusals it cannot be edited any more, but another one can.
    let approval = service
        .propose(&agent, "echo", r#"{"api_key":"hunter22","note":"z"}"#)
        .await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let edit = json!({ "api_key": "hunter22", "note": "y" });
    let choice = json!({ "approved": true, "calls": [{ "approved": true, "arguments": edit }] });
    service.post(&ana, &path, &choice.to_string()).await.good();
    assert_eq!(*service.ran.lock().unwrap(), [edit.to_string()]);
}

/// X64: nor what an undo would do. A place that the undo takes from a secret one is secret there too.
#[tokio::test]
async fn x64_an_undo_hides_only_what_it_takes_from_a_secret() {
    let policy = r#"
[tools.echo]
effect = "write"
secret = ["api_key"]
undo = { tool = "lookup", arguments = { token = "{{ args.api_key }}", target = "{{ args.target }}", kind = "k-7 {{ args.kind }}" } }

[tools.lookup]
effect = "write"
summary = "Take back {{ target }} with {{ token }}"
"#;
    let service = Service::with_policy(policy).await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let mut undone = Vec::new();
    for key in ["hunter22", "k-7", "Take back"] {
        let arguments = json!({ "api_key": key, "target": "Maria", "kind": "x" });
        let approval = service.propose(&agent, "echo", &arguments.to_string()).await;
        let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
        service.post(&ana, &path, r#"{"approved":true}"#).await.good();
        let undo = format!("/v1/calls/{}.1/undo", id(&approval));
        undone.push(service.post(&agent, &undo, "{}").await);
    }
    assert_eq!(undone[0].status, 201, "{}", undone[0].text);
    assert!(
        undone[0].text.contains("Maria") && !undone[0].text.contains("hunter22"),
        "{}",
        undone[0].text
    );
    assert_ne!(undone[1].status, 201, "{}", undone[1].text);
    assert!(undone[1].text.contains("would be hidden"), "{}", undone[1].text);
    // The policy's own words stay readable: the sentence is made without them.
    assert_eq!(undone[2].status, 201, "{}", undone[2].text);
    let said = undone[2].json()["calls"][0]["summary"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        said.starts_with("lookup: ") && said.contains("target Maria"),
        "{said}"
    );
}

/// Policy with a place that holds any number of secrets.
const MANY: &str = r#"
[tools.echo]
effect = "write"
secret = ["keys"]
undo = { tool = "echo", arguments = { keys = "{{ args.keys }}" } }

[tools.lookup]
effect = "read"
secret = ["keys"]
"#;

fn keys(from: usize, count: usize) -> Vec<String> {
    (from..from + count)
        .map(|number| format!("key-{number:04}-swordfish"))
        .collect()
}

/// Proposes and reads a call with `count` secrets and almost 64 KiB of other values; returns how long that takes.
async fn time_of(service: &Service, agent: &str, count: usize) -> std::time::Duration {
    let other: Vec<String> = (0..100)
        .map(|number| format!("{number} {}", "plain words, ".repeat(45)))
        .collect();
    let arguments = json!({ "keys": keys(0, count), "other": other }).to_string();
    assert!(arguments.len() > 55 * 1024, "{}", arguments.len());
    let begin = std::time::Instant::now();
    let approval = service.propose(agent, "echo", &arguments).await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let read = service.get(agent, &path).await;
    let taken = begin.elapsed();
    assert_eq!(read.status, 200, "{}", read.text);
    assert!(read.text.contains("plain words") && !read.text.contains("swordfish"));
    taken
}

/// X64: the time that a card takes hardly grows with the number of its secrets.
#[tokio::test]
async fn x64_many_secrets_are_hidden_as_fast_as_few() {
    let service = Service::with_policy(MANY).await;
    let agent = service.agent("crm").await;
    let (mut few, mut many) = (std::time::Duration::MAX, std::time::Duration::MAX);
    for _ in 0..3 {
        few = few.min(time_of(&service, &agent, 8).await);
        many = many.min(time_of(&service, &agent, 64).await);
    }
    assert!(many < few * 3, "8 secrets take {few:?}, 64 take {many:?}");
    let most = time_of(&service, &agent, 256).await;
    assert!(most < few * 10, "8 secrets take {few:?}, 256 take {most:?}");
}

/// X64: more secrets than a card may have are refused, whichever way they come.
#[tokio::test]
async fn x64_more_than_256_secrets_are_refused() {
    let service = Service::with_policy(MANY).await;
    let agent = service.agent("crm").await;
    let ana = service.decider("ana").await;
    for calls in [
        vec![json!({ "keys": keys(0, 257) })],
        vec![json!({ "keys": keys(0, 2000) })],
        vec![json!({ "keys": { "deep": [keys(0, 130), { "er": keys(130, 127) }] } })],
    ] {
        let (answer, ran) = propose_and_approve(&service, &calls).await;
        assert_eq!(ran, 0, "{answer}");
        assert!(
            answer.contains("\"forbidden\"") && answer.contains("more than 256 secret values"),
            "{answer}"
        );
        assert!(!answer.contains("swordfish"), "{answer}");
    }
    // Together, the calls of a card may have no more than one call alone; the same secret again is not counted again.
    let calls = [
        json!({ "keys": keys(0, 129) }),
        json!({ "keys": keys(129, 128) }),
        json!({ "keys": keys(0, 129) }),
    ];
    let (answer, ran) = propose_and_approve(&service, &calls).await;
    assert!(answer.contains("more than 256 secret values"), "{answer}");
    assert_eq!(ran, 2, "{answer}");
    // Reads pass without a card, and are held to the same.
    let lookup = json!({ "tool": "lookup", "arguments": { "keys": keys(0, 257) } });
    let asked = json!({ "calls": [lookup] }).to_string();
    let answer = service.post(&agent, "/v1/calls", &asked).await;
    assert!(
        answer.text.contains("more than 256 secret values"),
        "{}",
        answer.text
    );
    // An approval that is asked for.
    let asked = json!({ "toolName": "echo", "toolArguments": { "keys": keys(0, 257) } }).to_string();
    let answer = service.post(&agent, "/v1/approvals", &asked).await;
    assert!(answer.status.is_client_error(), "{}", answer.text);
    assert!(
        answer.text.contains("more than 256 secret values"),
        "{}",
        answer.text
    );
    // The value that an edit replaces stays secret, but does not count.
    let most = json!({ "keys": keys(0, 256) });
    let approval = service.propose(&agent, "echo", &most.to_string()).await;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    let edit = |keys: Vec<String>| {
        let edit = json!({ "approved": true, "arguments": { "keys": keys } });
        json!({ "approved": true, "calls": [edit] }).to_string()
    };
    let before = service.ran.lock().unwrap().len();
    let refused = service.post(&ana, &path, &edit(keys(1000, 257))).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(
        refused.text.contains("more than 256 secret values"),
        "{}",
        refused.text
    );
    assert_eq!(service.ran.lock().unwrap().len(), before);
    service.post(&ana, &path, &edit(keys(1000, 256))).await.good();
    assert_eq!(service.ran.lock().unwrap().len(), before + 1);
    let read = service
        .get(&ana, &format!("/v1/approvals/{}", id(&approval)))
        .await;
    assert!(
        read.status == 200 && !read.text.contains("swordfish"),
        "{}",
        read.text
    );
}

/// X64: an undo hides a secret of the original call even if its template adds words to the secret or changes it.
#[tokio::test]
async fn x64_an_undo_shows_no_secret_within_a_longer_text() {
    let policy = |arguments: &str, secret: &str| {
        format!(
            r#"
            [tools.echo]
            effect = "write"
            secret = ["password", "auth"]
            undo = {{ tool = "lookup", arguments = {{ target = "{{{{ args.target }}}}", {arguments} }} }}

            [tools.lookup]
            effect = "write"
            summary = "Take back {{{{ note }}}} {{{{ target }}}}"
            secret = [{secret}]
            "#
        )
    };
    let done = json!({ "password": "hunter22", "auth": { "key": "swordfish" }, "target": "Maria" });
    for (arguments, secret, is_made) in [
        (r#"note = "pw={{ args.password }}""#, "", true),
        (r#"note = "pw={{ result.password }}!""#, "", true),
        (r#"note = "{{ args.password | upper }}""#, "", true),
        (r#"note = "{{ args.password | reverse }}""#, "", true),
        (r#"note = "{{ args['password'] }}""#, "", true),
        (r#"note = "{{ args.auth }}""#, "", true),
        (r#"note = "key {{ args.auth.key }}""#, "", true),
        (r#"note = { a = ["pw={{ args.password }}"] }"#, "", true),
        (
            r#"note = "{% if args.password %}pw={{ args.password }}{% endif %}""#,
            "",
            true,
        ),
        (r#"note = "{{ args }}""#, "", true),
        // Beside something else, it would hide that, too; the policy may say so.
        (r#"note = "{{ args.target }}:{{ args.password }}""#, "", false),
        (r#"note = "{{ args.target ~ args.password }}""#, "", false),
        (
            r#"note = "{{ args.target }}:{{ args.password }}""#,
            r#""note""#,
            true,
        ),
    ] {
        let service = Service::with_policy(&policy(arguments, secret)).await;
        let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
        let approval = service.propose(&agent, "echo", &done.to_string()).await;
        let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
        service.post(&ana, &path, r#"{"approved":true}"#).await.good();
        let undo = format!("/v1/calls/{}.1/undo", id(&approval));
        let undo = service.post(&agent, &undo, r#"{"channel":"c"}"#).await;
        let mut told = vec![undo.text.clone()];
        assert_eq!(undo.status == 201, is_made, "{arguments}: {}", undo.text);
        if is_made {
            assert!(undo.text.contains("Maria"), "{arguments}: {}", undo.text);
            let path = format!("/v1/approvals/{}", id(&undo.json()));
            let shown = format!("{path}?events=true&concerns=true");
            told.push(service.get(&ana, &shown).await.text);
            told.push(service.get(&agent, "/v1/channels/c/transcript").await.text);
            let decided = service
                .post(&ana, &format!("{path}?waitFor=finished"), r#"{"approved":true}"#)
                .await;
            assert_eq!(
                decided.json()["calls"][0]["state"],
                "succeeded",
                "{}",
                decided.text
            );
            told.push(decided.text);
            told.push(service.get(&agent, "/v1/channels/c/transcript").await.text);
        } else {
            assert!(undo.text.contains("beside other values"), "{}", undo.text);
        }
        for text in told {
            let lower = text.to_lowercase();
            for form in ["hunter22", "22retnuh", "swordfish"] {
                assert!(!lower.contains(form), "{arguments}: {text}");
            }
        }
    }
}

/// X64: a secret inside a longer value of an undo is also hidden where the tool returns only the secret.
#[tokio::test]
async fn x64_an_undo_hides_the_secret_within_a_text_on_its_own() {
    let policy = r#"
[tools.echo]
effect = "write"
secret = ["password"]
undo = { tool = "lookup", arguments = { note = "pw={{ args.password }}" } }

[tools.lookup]
effect = "write"
"#;
    let answer = |answer: &'static str| {
        move |_: countersign::executor::Permit| async move { Outcome::succeeded(answer) }
    };
    let tools = Tools::default()
        .with(ToolName::new("echo").unwrap(), answer("{}"))
        .with(
            ToolName::new("lookup").unwrap(),
            answer(r#"{"said":"unknown word hunter22"}"#),
        );
    let service = Service::with_tools(policy, tools, Arc::default()).await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let approval = service
        .propose(&agent, "echo", r#"{"password":"hunter22"}"#)
        .await;
    let yes = r#"{"approved":true}"#;
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    service.post(&ana, &path, yes).await.good();
    let undo = format!("/v1/calls/{}.1/undo", id(&approval));
    let undo = service.post(&agent, &undo, "{}").await.good();
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&undo));
    let decided = service.post(&ana, &path, yes).await;
    assert!(
        decided.text.contains("unknown word [hidden, 8 bytes"),
        "{}",
        decided.text
    );
    assert!(!decided.text.contains("hunter22"), "{}", decided.text);
}

/// Edits cannot be used to guess a secret: everything else is checked first, a hit is on record and does not say where,
/// and after three of them the person cannot edit the approval any more.
#[tokio::test]
async fn x64_edits_do_not_find_a_secret_out() {
    let service = Service::with_policy(POLICY).await;
    let agent = service.agent("crm").await;
    let (ana, finn) = (service.decider("ana").await, service.decider("finn").await);
    let approval = service
        .propose(&agent, "echo", r#"{"api_key":"482913","note":"x"}"#)
        .await;
    let path = format!("/v1/approvals/{}", id(&approval));
    let guess = |note: &str, digest: &serde_json::Value| {
        let arguments = json!({ "api_key": "other-1", "note": note });
        let calls = json!([{ "approved": true, "arguments": arguments }]);
        json!({ "approved": true, "digest": digest, "calls": calls }).to_string()
    };
    // Nobody learns anything from a decision that is refused for another reason.
    let wrong = json!("0".repeat(64));
    for (token, expected) in [(&ana, (409, "stale")), (&finn, (403, "not_allowed"))] {
        for note in ["482913", "482914"] {
            let refused = service.post(token, &path, &guess(note, &wrong)).await;
            let (status, code) = refused.error();
            assert_eq!((status, code.as_str()), expected, "{}", refused.text);
        }
    }
    let approval = service
        .propose(&agent, "echo", r#"{"api_key":"482913","note":"y"}"#)
        .await;
    let path = format!("/v1/approvals/{}", id(&approval));
    for note in ["482913", "a 482913 b", "NDgyOTEz"] {
        let refused = service.post(&ana, &path, &guess(note, &approval["digest"])).await;
        assert_eq!(refused.error(), (422, "bad_edit".to_owned()), "{}", refused.text);
        let names_a_place = refused.text.contains("note`") || refused.text.contains("api_key`");
        assert!(!names_a_place, "{}", refused.text);
    }
    // After that, an edit is refused whether it hits or not.
    let mut told = Vec::new();
    for note in ["482913", "harmless"] {
        let refused = service.post(&ana, &path, &guess(note, &approval["digest"])).await;
        assert_eq!(refused.error(), (422, "bad_edit".to_owned()), "{}", refused.text);
        told.push(refused.json()["error"]["message"].clone());
    }
    assert_eq!(told[0], told[1]);
    assert!(service.ran.lock().unwrap().is_empty());
    let shown = service.get(&ana, &format!("{path}?events=true")).await.good();
    assert_eq!(shown["status"], "pending");
    assert_eq!(shown["events"].to_string().matches("decision_refused").count(), 5);
    // It can still be approved as proposed.
    let yes = json!({ "approved": true, "digest": approval["digest"] }).to_string();
    let done = service
        .post(&ana, &format!("{path}?waitFor=finished"), &yes)
        .await;
    assert_eq!(done.good()["calls"][0]["state"], "succeeded");
}
