//! Tests editing of arguments before they run.

use countersign::hash::Hash;
use countersign::policy::Definition;
use countersign::state::State;
use countersign_server::tool_schema;

use crate::support::{MARIA, World};

#[tokio::test]
async fn what_was_typed_runs_and_what_was_proposed_stays_on_record() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("create_contact", MARIA)]).await;
    let page = world
        .get(&ana, &format!("/approvals/{}?edit=1", approval.id))
        .await;
    page.shows("name=\"arguments-1\"")
        .shows("Show what would run…")
        .hides("value=approve>");
    let typed = "{\r\n  \"name\": \"Maria G.\",\r\n  \"email\": \"maria@example.com\"\r\n}";
    let (card, answer) = world.edit(&ana, &approval, &[("arguments-1", typed)]).await;
    card.shows("Nothing is decided yet.")
        .shows("changed by you")
        .shows("<del>Maria Garcia</del> → Maria G.")
        .hides("<script");
    assert_eq!(answer.status, 303);
    let done = world.finished(&approval).await;
    let runs = "{\n  \"name\": \"Maria G.\",\n  \"email\": \"maria@example.com\"\n}";
    assert_eq!(world.ran(), [format!("create_contact {runs}")]);
    assert_eq!(
        done.calls[0].original.as_ref().unwrap().as_bytes(),
        MARIA.as_bytes()
    );
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("changed by who approved it")
        .shows("with changed arguments for call 1");
    let path = format!("/approvals/{}/calls/1/arguments?original=1", approval.id);
    assert_eq!(world.get(&ana, &path).await.text, MARIA);
}

#[tokio::test]
async fn an_untouched_field_is_no_edit() {
    let world = World::new().await;
    let ana = world.ana().await;
    let odd = "{\n\t\"name\": \"Maria\u{202e}\",\r\n\"email\":\"a@b\"}";
    let approval = world.hold(&[("create_contact", odd)]).await;
    let page = world
        .get(&ana, &format!("/approvals/{}?edit=1", approval.id))
        .await;
    let field = page.between("autocomplete=\"off\">\n", "</textarea>");
    assert!(field.contains("Maria\\u202e"), "{field}");
    let sent = field
        .replace("&quot;", "\"")
        .replace("\r\n", "\n")
        .replace('\n', "\r\n");
    let (_, answer) = world
        .edit(&ana, &approval, &[("arguments-1", sent.as_str())])
        .await;
    assert_eq!(answer.status, 303);
    let done = world.finished(&approval).await;
    assert!(done.calls[0].original.is_none());
    assert_eq!(world.ran(), [format!("create_contact {odd}")]);
}

#[tokio::test]
async fn what_is_wrong_is_said_and_what_was_typed_is_kept() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("create_contact", MARIA)]).await;
    for (typed, reason) in [
        ("{\"name\":\"x\",", "line 1, column 13"),
        (
            "{\"name\":\"x\",\"name\":\"y\",\"email\":\"a@b\"}",
            "The arguments of call 1 are not acceptable",
        ),
        ("{\"name\":\"x\",\"email\":\"nobody\"}", "do not fit its schema"),
        (
            "{\"name\":\"x\",\"email\":\"a@b\",\"extra\":1}",
            "do not fit its schema",
        ),
    ] {
        let form = [("verdict", "edit"), ("arguments-1", typed), ("comment", "better")];
        let page = world.decide(&ana, &approval, &form).await;
        assert_eq!(page.status, 422, "{typed}");
        page.shows("role=\"alert\"")
            .shows(reason)
            .shows(&typed.replace('"', "&quot;"))
            .shows(">better</textarea>");
        assert_eq!(world.now(&approval).await.state, State::Pending);
    }
    assert!(world.ran().is_empty());
}

#[tokio::test]
async fn in_a_batch_one_call_is_changed_and_another_left_out() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold(&[
            ("note", r#"{"text":"a"}"#),
            ("note", r#"{"text":"b"}"#),
            ("note", r#"{"text":"c"}"#),
        ])
        .await;
    let form = [
        ("choice-1", "approve"),
        ("arguments-1", r#"{"text":"a"}"#),
        ("choice-2", "approve"),
        ("arguments-2", r#"{"text":"B"}"#),
        ("choice-3", "deny"),
        ("arguments-3", "not even json"),
    ];
    let (card, answer) = world.edit(&ana, &approval, &form).await;
    card.shows("This call is denied: it will not run.")
        .shows("This call will run.");
    assert_eq!(answer.status, 303);
    world.finished(&approval).await;
    assert_eq!(world.ran(), [r#"note {"text":"a"}"#, r#"note {"text":"B"}"#]);
}

/// X31: no field contains a secret. The secret stays exactly as proposed unless the person types another value.
#[tokio::test]
async fn x31_a_call_with_a_secret_is_edited_without_showing_it() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments = r#"{"name":"M","email":"a@b","api_key":"canary\u002d7"}"#;
    for (typed, runs) in [
        (
            r#"{"name":"Maria","email":"a@b","api_key":"(secret, kept as it is)"}"#,
            r#"{"name":"Maria","email":"a@b","api_key":"canary\u002d7"}"#,
        ),
        (
            r#"{"name":"M","email":"a@b","api_key":"fresh-9"}"#,
            r#"{"name":"M","email":"a@b","api_key":"fresh-9"}"#,
        ),
        (
            r#"{"name":"M","email":"a@b","api_key":"(secret, kept as it is)"}"#,
            arguments,
        ),
    ] {
        world.ran.lock().unwrap().clear();
        let approval = world.hold(&[("create_contact", arguments)]).await;
        let path = format!("/approvals/{}", approval.id);
        let page = world.get(&ana, &format!("{path}?edit=1")).await;
        page.hides("canary")
            .shows("name=\"arguments-1\"")
            .shows("A secret is not shown.")
            .shows("&quot;api_key&quot;:&quot;(secret, kept as it is)&quot;");
        // Neither an error nor moving the placeholder to a visible field reveals the secret.
        for mistake in [
            r#"{"name":"","email":"a@b","api_key":"(secret, kept as it is)"}"#,
            r#"{"name":"(secret, kept as it is)","email":"a@b"}"#,
        ] {
            let form = [("verdict", "edit"), ("arguments-1", mistake)];
            let again = world.decide(&ana, &approval, &form).await;
            assert_eq!(again.status, 422, "{}", again.text);
            again.hides("canary").shows("role=\"alert\"");
        }
        let (card, answer) = world.edit(&ana, &approval, &[("arguments-1", typed)]).await;
        card.hides("canary");
        assert_eq!(answer.status, 303);
        world.finished(&approval).await;
        assert_eq!(world.ran(), [format!("create_contact {runs}")]);
        for tail in ["", "/calls/1/arguments", "/calls/1/arguments?original=1"] {
            let page = world.get(&ana, &format!("{path}{tail}")).await;
            page.hides("canary").hides("fresh-9");
        }
    }
}

/// An edit is approved on the card of what would run, with all of its values and warnings, and on no other.
#[tokio::test]
async fn x56_an_edit_is_approved_on_the_card_of_what_would_run() {
    let world = World::new().await;
    let ana = world.ana().await;
    let gap = "\n".repeat(300);
    let proposed = format!("{{\"text\":\"hello\"{gap},\"bcc\":\"eve\u{202e}@evil.example\"}}");
    let approval = world.hold(&[("note", &proposed)]).await;
    let typed = proposed.replace("hello", "Hello").replace('\n', "\r\n");
    let form = [
        ("verdict", "edit"),
        ("from", "detail"),
        ("arguments-1", typed.as_str()),
    ];
    let digest = approval.digest.to_string();
    let path = format!("/approvals/{}/decision", approval.id);
    let fields = |more: &[(&'static str, &str)]| {
        let digest = ("digest", digest.clone());
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        std::iter::once(digest).chain(more).collect::<Vec<_>>()
    };
    let send = async |more: &[(&'static str, &str)]| {
        let owned = fields(more);
        let fields: Vec<_> = owned
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        world.post(&ana, &path, &fields).await
    };
    let card = send(&form).await;
    assert_eq!(card.status, 200);
    let visible = card.text.split("<form").nth(2).unwrap_or_default().len();
    assert!(visible > 0);
    let table = card.between("<dl class=", "</dl>");
    assert!(
        table.contains("<dt>bcc") && table.contains("eve\\u{202e}@evil.example"),
        "{table}"
    );
    assert!(table.contains("class=\"warning\""), "{table}");
    assert_eq!(world.now(&approval).await.state, State::Pending);
    let preview = card.between("name=preview value=", ">").to_owned();
    // Without the digest of that card, or with other bytes than it showed, nothing is approved.
    let other = typed.replace("Hello", "HELLO");
    for (arguments, preview) in [
        (typed.as_str(), ""),
        (typed.as_str(), digest.as_str()),
        (other.as_str(), preview.as_str()),
    ] {
        let more = [
            ("verdict", "confirm"),
            ("from", "detail"),
            ("preview", preview),
            ("arguments-1", arguments),
        ];
        let refused = send(&more).await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        refused.shows("are not those of the card that was shown");
    }
    assert!(world.ran().is_empty());
    // Editing again keeps what was typed.
    let again = send(&[
        ("verdict", "again"),
        ("from", "detail"),
        ("arguments-1", other.as_str()),
    ])
    .await;
    again.shows("HELLO").shows("name=\"arguments-1\"");
    let more = [
        ("verdict", "confirm"),
        ("from", "detail"),
        ("preview", preview.as_str()),
        ("arguments-1", typed.as_str()),
    ];
    assert_eq!(send(&more).await.status, 303);
    world.finished(&approval).await;
    assert_eq!(
        world.ran(),
        [format!("note {}", proposed.replace("hello", "Hello"))]
    );
}

/// Checks that each value has a field of its type, and that only what was changed changes, to the byte.
#[tokio::test]
async fn x44_a_form_changes_single_values_and_keeps_all_other_bytes() {
    let policy = r#"
[tools.note]
effect = "write"
secret = ["key"]

[tools.note.schema.properties]
size = { enum = ["s", "m", "l"] }
"#;
    let world = World::with_policy(policy).await;
    let ana = world.ana().await;
    let proposed = "{ \"z\":9007199254740993,\"n\": 1.0, \"size\":\"m\", \"ok\":true, \"key\":\"canary\",\n\"text\":\"a\\u0041\\nb\", \"a\":[\"x\"] }";
    let approval = world.hold(&[("note", proposed)]).await;
    let page = world
        .get(&ana, &format!("/approvals/{}?edit=form", approval.id))
        .await;
    page.shows("value=\"9007199254740993\"")
        .shows("inputmode=decimal autocomplete=off value=\"1.0\"")
        .shows("<option selected>&quot;m&quot;</option><option>&quot;l&quot;</option>")
        .shows("<option selected>true</option><option>false</option>")
        .shows("autocomplete=off>\naA\nb</textarea>")
        .shows("(secret, kept as it is)</textarea>")
        .shows("?edit=1\">edit the JSON</a>")
        .hides("canary")
        .hides("name=\"arguments-1\"");
    // A wrong value is named, and what was typed stays.
    let wrong = [
        ("verdict", "edit"),
        ("value-1-0", "12a"),
        ("value-1-5", "kept text"),
    ];
    let page = world.decide(&ana, &approval, &wrong).await;
    assert_eq!(page.status, 422);
    page.shows("`z` has to be a number")
        .shows("value=\"12a\"")
        .shows("kept text</textarea>");
    // As a browser sends it: every field, with its own line breaks.
    let sent = [
        ("value-1-0", "9007199254740993"),
        ("value-1-1", "1.0"),
        ("value-1-2", "\"l\""),
        ("value-1-3", "true"),
        ("value-1-4", "(secret, kept as it is)"),
        ("value-1-5", "aA\r\nb"),
        ("value-1-6", "y"),
    ];
    let (card, answer) = world.edit(&ana, &approval, &sent).await;
    card.shows("<del>m</del> → l")
        .shows("<del>x</del> → y")
        .hides("canary");
    assert_eq!(answer.status, 303);
    world.finished(&approval).await;
    let expected = proposed.replace("\"m\"", "\"l\"").replace("\"x\"", "\"y\"");
    assert_eq!(world.ran(), [format!("note {expected}")]);
}

/// Checks that a form cannot describe the arguments twice, and that an unchanged form is no edit.
#[tokio::test]
async fn x44_a_form_is_either_values_or_json() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("create_contact", MARIA)]).await;
    let both = [("verdict", "edit"), ("value-1-0", "Eve"), ("arguments-1", MARIA)];
    let page = world.decide(&ana, &approval, &both).await;
    assert_eq!(page.status, 422);
    page.shows("the arguments twice");
    let same = [("value-1-0", "Maria Garcia"), ("value-1-1", "maria@example.com")];
    let (_, answer) = world.edit(&ana, &approval, &same).await;
    assert_eq!(answer.status, 303);
    let done = world.finished(&approval).await;
    assert!(done.calls[0].original.is_none());
    assert_eq!(world.ran(), [format!("create_contact {MARIA}")]);
}

#[tokio::test]
async fn x44_a_tool_without_a_schema_in_the_policy_offers_the_values_of_its_own() {
    let world = World::new().await;
    let ana = world.ana().await;
    let read = Hash::of(b"definition of the tool");
    let schema = r#"{"type":"object","properties":{"size":{"enum":["s","m","<b>l</b>"]}}}"#;
    let tenant = countersign::id::Tenant::single();
    tool_schema::keep(world.app.store(), &tenant, read, schema)
        .await
        .unwrap();
    let calls = [("host_runs", r#"{"size":"m","n":1}"#)];
    for (definition, has_choices) in [
        (Definition::Read(read), true),
        // Only the gate's own reading of the definition counts.
        (Definition::Claimed(read), false),
        (Definition::Unknown, false),
    ] {
        let held = world
            .hold_as(&calls, |submission| {
                for call in &mut submission.calls {
                    call.definition = definition;
                }
            })
            .await;
        let path = format!("/approvals/{}?edit=form", held.id);
        let page = world.get(&ana, &path).await;
        match has_choices {
            true => page.shows("<select name=\"value-1-0\"").shows("&lt;b&gt;l"),
            false => page.hides("<select name=\"value-1-0\""),
        };
        if has_choices {
            let fields = [("value-1-0", "\"s\""), ("value-1-1", "1")];
            let (card, _) = world.edit(&ana, &held, &fields).await;
            card.shows("<del>m</del> → s");
            assert_eq!(
                world.now(&held).await.calls[0].arguments.as_bytes(),
                br#"{"size":"s","n":1}"#
            );
        }
    }
    let held = world
        .hold_as(&calls, |submission| {
            for call in &mut submission.calls {
                call.definition = Definition::Read(read);
            }
        })
        .await;
    let form = [("verdict", "edit"), ("value-1-0", "\"xl\""), ("value-1-1", "1")];
    let page = world.decide(&ana, &held, &form).await;
    assert_eq!(page.status, 422);
    page.shows("is none of the choices");
}

/// X64: a preview is the same whether what was typed hits a secret or not, in a shown place and in the secret place, and
/// a hit is refused only by the decision.
#[tokio::test]
async fn x64_a_preview_does_not_tell_whether_an_edit_hits_a_secret() {
    let policy = "[tools.note]\neffect = \"write\"\nsecret = [\"key\"]\nsummary = \"Note {{ text }}\"\n";
    let world = World::with_policy(policy).await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"a","key":"482913"}"#)]).await;
    let preview = async |text: &str, key: &str| {
        let form = [("verdict", "edit"), ("value-1-0", text), ("value-1-1", key)];
        world.decide(&ana, &approval, &form).await
    };
    // What is left of a page without what was typed, and without what is different on every page.
    let rest = |page: &crate::support::Page, typed: &str| {
        let hash = page.between("name=preview value=", ">").to_owned();
        page.text.replace(&hash, "").replace(typed, "")
    };
    let kept = "(secret, kept as it is)";
    let (hit, miss) = (preview("482913", kept).await, preview("482914", kept).await);
    assert_eq!(
        (hit.status.as_u16(), miss.status.as_u16()),
        (200, 200),
        "{}",
        hit.text
    );
    hit.shows("<del>a</del> → &quot;482913&quot;")
        .shows("Note 482913");
    assert_eq!(rest(&hit, "482913"), rest(&miss, "482914"));
    let (hit, miss) = (preview("b", "482913").await, preview("b", "482914").await);
    assert_eq!(rest(&hit, "482913"), rest(&miss, "482914"));
    // A typed secret that was changed after the preview is not what was previewed.
    let hash = miss.between("name=preview value=", ">").to_owned();
    let form = [
        ("verdict", "confirm"),
        ("preview", hash.as_str()),
        ("value-1-0", "b"),
        ("value-1-1", "482915"),
    ];
    assert_eq!(world.decide(&ana, &approval, &form).await.status, 409);
    let (_, refused) = world
        .edit(&ana, &approval, &[("value-1-0", "482913"), ("value-1-1", kept)])
        .await;
    assert_eq!(refused.status, 422);
    refused.shows("repeats a secret");
    assert!(world.ran().is_empty());
}
