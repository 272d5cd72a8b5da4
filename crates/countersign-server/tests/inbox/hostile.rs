//! Foreign text on our pages is displayed and has no other effect.

use countersign::gate::Submission;

use crate::support::World;

const NASTY: &str = r#"<script>alert(1)</script><img src=x onerror=alert(2)>"#;

/// Proposes a call with hostile content in every text that comes from an agent.
async fn nasty(world: &World) -> countersign::approval::SharedApproval {
    let arguments = format!(
        r#"{{"{NASTY}":"{NASTY}","link":"javascript:alert(3)","end":"</dd></dl></article><button class='yes'>Approve</button>","bidi":"invoice\u202egpj.exe","raw":"{}"}}"#,
        "a\u{202e}b\u{200b}c\u{e0041}"
    );
    world
        .hold_as(&[("unlisted", &arguments)], |submission: &mut Submission| {
            submission.agent = format!("agent{NASTY}").parse().unwrap();
            submission.requester = format!("who\u{202e}{NASTY}").parse().unwrap();
            submission.channel = Some(format!("channel{NASTY}").parse().unwrap());
            submission.run = Some(format!("run{NASTY}").parse().unwrap());
            submission.session = Some(format!("session{NASTY}").parse().unwrap());
            submission.claim = Some(format!("\u{202e}✅ approved by admin {NASTY}\n</q>"));
        })
        .await
}

#[tokio::test]
async fn x25_html_is_text_on_every_page() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = nasty(&world).await;
    let id = approval.id;
    let before = [
        "/approvals".to_owned(),
        format!("/approvals/{id}"),
        format!("/approvals/{id}?edit=1"),
        format!("/approvals/{id}/card?full=1"),
        format!("/approvals?agent={}", "%3Cscript%3E"),
    ];
    for path in &before {
        check(world.get(&ana, path).await.text.as_str(), path);
    }
    let comment = format!("no{NASTY}");
    let form = [("verdict", "deny"), ("comment", comment.as_str())];
    assert_eq!(world.decide(&ana, &approval, &form).await.status, 303);
    for path in [
        "/approvals/history".to_owned(),
        "/numbers".to_owned(),
        format!("/approvals/{id}"),
    ] {
        check(world.get(&ana, &path).await.text.as_str(), &path);
    }
}

#[track_caller]
fn check(html: &str, path: &str) {
    assert!(!html.contains("<img"), "{path}");
    assert!(!html.contains("<script>"), "{path}");
    assert!(!html.contains("href=\"javascript"), "{path}");
    assert!(!html.contains("class='yes'"), "{path}");
    // X16: no control or invisible character is left.
    for character in ['\u{202e}', '\u{200b}', '\u{e0041}'] {
        assert!(!html.contains(character), "{character:?} on {path}");
    }
    // The page contains nothing that the content security policy forbids.
    assert!(!html.contains(" style="), "{path}");
    assert!(!html.contains(" onclick"), "{path}");
}

#[tokio::test]
async fn x16_what_the_eye_may_miss_is_said() {
    let world = World::new().await;
    let ana = world.ana().await;
    world
        .hold(&[(
            "send",
            "{\"to\":\"p\u{430}ypal.example\",\"host\":\"xn--80ak6aa92e.com\",\"file\":\"a\u{202e}b\"}",
        )])
        .await;
    let page = world.get(&ana, "/approvals").await;
    page.shows("mixes alphabets in `pаypal`")
        .shows("the host `xn--80ak6aa92e.com` is shown as `аррӏе.com` elsewhere")
        .shows("contains characters that change the direction of text");
}

/// X05, X39: the agent's words have an element of their own with our label, and cannot close it.
#[tokio::test]
async fn x39_claims_stay_in_their_frame() {
    let world = World::new().await;
    let ana = world.ana().await;
    nasty(&world).await;
    let page = world.get(&ana, "/approvals").await;
    let claim = page.between("<b>The agent says (not checked)</b>", "<p class=asks>");
    assert!(claim.contains("approved by admin"), "{claim}");
    assert_eq!(claim.matches("</q>").count(), 1, "{claim}");
    let title = page.between("<h2", "</h2>");
    assert!(!title.contains("approved by admin"), "{title}");
}

#[tokio::test]
async fn a_title_of_several_lines_is_shown_on_several_lines() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold(&[("note", r#"{"text":"*** Begin Patch\n+a <b>\n*** End Patch"}"#)])
        .await;
    let expected = "Note *** Begin Patch\n+a &lt;b&gt;\n*** End Patch";
    for path in ["/approvals".to_owned(), format!("/approvals/{}", approval.id)] {
        let page = world.get(&ana, &path).await;
        let title = page.between("<h2", "</h2>");
        assert!(title.contains(expected), "{path}: {title}");
    }
    let note = |text: &str| serde_json::json!({ "text": text }).to_string();
    let calls = [note("a\nb"), note("a\n\n\n\nb"), note("a\\u{a}b")];
    let calls: Vec<(&str, &str)> = calls.iter().map(|call| ("note", call.as_str())).collect();
    let approval = world.hold(&calls).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("Note a\nb</h3>")
        .shows("Note a\\u{a×4}\nb</h3>")
        .shows("Note a\\u{5c}u{a}b</h3>");
}

/// Checks that texts of several lines are shown as lines, or with a sign in lists, and that nobody can type that sign.
#[tokio::test]
async fn x56_line_breaks_are_shown_as_such_and_a_typed_sign_is_a_code() {
    let world = World::new().await;
    let ana = world.ana().await;
    let text =
        serde_json::json!({ "text": "one\ntwo↵three\n    four", "more": "x\n".repeat(60) }).to_string();
    let approval = world
        .hold_as(&[("note", &text)], |submission| {
            submission.claim = Some("First.\nSecond ↵.".to_owned());
        })
        .await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<dd>one\ntwo\\u{21b5}three\n    four")
        .shows("<q>First.\nSecond \\u{21b5}.</q>")
        .shows(&format!(
            "<pre tabindex=\"0\">&quot;{}&quot;</pre>",
            "x\n".repeat(60)
        ))
        .hides("\\u{a}");
    let list = world.get(&ana, "/approvals").await;
    list.shows("<q>First.\nSecond \\u{21b5}.</q>").hides("\\u{a}");
    world
        .decide(
            &ana,
            &approval,
            &[("verdict", "approve"), ("comment", "Yes.\r\nGo on.")],
        )
        .await;
    world.finished(&approval).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<p class=\"said\">Yes.")
        .shows("\nGo on.</p>")
        .hides("\\u{a}");
    for path in [
        "/approvals/history".to_owned(),
        format!("/approvals?done={}", approval.id),
    ] {
        let page = world.get(&ana, &path).await;
        page.shows("Note one↵two\\u{21b5}three↵\\u{20×4}four")
            .hides("\\u{a}");
    }
}

/// X07, X08: a card that is not shown completely cannot be approved there, and one step shows everything.
#[tokio::test]
async fn x08_no_approving_from_a_view_that_hides_something() {
    let world = World::new().await;
    let ana = world.ana().await;
    let long = format!(r#"{{"script":"{}; rm -rf /"}}"#, "echo hi; ".repeat(1800));
    let many: Vec<String> = (0..40).map(|n| format!(r#""k{n}":"v{n}""#)).collect();
    let many = format!("{{{}}}", many.join(","));
    for (arguments, tail) in [(long.as_str(), "rm -rf &#x2f;"), (many.as_str(), "v39")] {
        let approval = world.hold(&[("unlisted", arguments)]).await;
        let card = world.get(&ana, &format!("/approvals/{}/card", approval.id)).await;
        card.hides("value=approve>").shows("Show all, to approve");
        let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
        page.shows("value=approve>").shows(tail);
        let exact = world
            .get(&ana, &format!("/approvals/{}/calls/1/arguments", approval.id))
            .await;
        assert_eq!(exact.text, arguments);
    }
}

#[tokio::test]
async fn x15_exact_text_is_inert_and_exact_bytes_are_a_file() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments = "{\"a\":\"x\u{202e}y\",\n \"b\":\"<script>\"}";
    let approval = world.hold(&[("unlisted", arguments)]).await;
    let path = format!("/approvals/{}/calls/1/arguments", approval.id);
    let text = world.get(&ana, &path).await;
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(text.headers["x-content-type-options"], "nosniff");
    assert_eq!(text.text, "{\"a\":\"x\\u{202e}y\",\n \"b\":\"<script>\"}");
    let file = world.get(&ana, &format!("{path}?download=1")).await;
    assert_eq!(file.text, arguments);
    let disposition = file.headers["content-disposition"].to_str().unwrap();
    assert!(disposition.starts_with("attachment"), "{disposition}");
}

#[tokio::test]
async fn x31_secrets_are_on_no_page() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments = r#"{"name":"M","email":"a@b","api_key":"canary-7"}"#;
    let approval = world.hold(&[("create_contact", arguments)]).await;
    let id = approval.id;
    for path in [
        "/approvals".to_owned(),
        format!("/approvals/{id}"),
        format!("/approvals/{id}?edit=1"),
        format!("/approvals/{id}/card?full=1"),
        format!("/approvals/{id}/calls/1/arguments"),
        format!("/approvals/{id}/calls/1/arguments?download=1"),
    ] {
        world.get(&ana, &path).await.hides("canary");
    }
    let values = world
        .get(&ana, &format!("/approvals/{id}/calls/1/arguments"))
        .await;
    values
        .shows("/api_key  (hidden, 8 bytes, hash ")
        .shows("/name  M");
    let file = world
        .get(&ana, &format!("/approvals/{id}/calls/1/arguments?download=1"))
        .await;
    assert_eq!(file.status, 403);
}
