//! Tests the page with JavaScript: cards arrive, change and are decided while a person looks at them.

use serde_json::json;

use crate::stage::{Script, Stage, play};

#[test]
fn cards_arrive_change_and_are_decided_in_place() {
    play(Script::On, |stage| {
        stage.sign_in();
        the_cookie_is_bound_to_this_host(stage);
        a_card_arrives(stage);
        approving_and_denying_stay_on_the_page(stage);
        what_is_typed_survives_what_happens(stage);
        nothing_moves_when_a_card_arrives(stage);
        others_decide_and_the_card_says_so(stage);
        time_runs_out_while_the_page_is_open(stage);
    });
}

#[test]
fn arguments_are_changed_and_batches_decided_in_part() {
    play(Script::On, |stage| {
        stage.sign_in();
        arguments_are_edited(stage);
        a_batch_is_approved_in_part(stage);
        a_long_card_is_shown_whole_before_it_is_approved(stage);
        two_tabs_stay_in_step(stage);
        no_script_of_ours_breaks_the_policy(stage);
    });
}

/// The cookie is `Secure` even without TLS, since browsers treat a loopback address as secure.
fn the_cookie_is_bound_to_this_host(stage: &Stage) {
    let cookie = stage.browser.cookie("__Host-countersign");
    assert_eq!(cookie["secure"], json!(true));
    assert_eq!(stage.js("document.cookie"), json!(""), "scripts cannot read it");
}

fn a_card_arrives(stage: &Stage) {
    stage.until("document.querySelector('.empty')");
    let id = stage.service.propose("create_contact", r#"{"name":"Maria"}"#);
    stage.until(&format!("document.getElementById('a{id}')"));
    stage.until("!document.querySelector('.empty')");
    stage.until("document.title.startsWith('(1)')");
    stage.until("document.getElementById('say').textContent.includes('Create contact Maria')");
    let left = stage.text(".left");
    stage.until(&format!(
        "document.querySelector('.left').textContent !== '{left}'"
    ));
}

fn approving_and_denying_stay_on_the_page(stage: &Stage) {
    stage.click(".card .yes");
    stage.until("document.querySelector('.card .ended')?.textContent.includes('Approved by you')");
    let id = stage.service.propose("note", r#"{"text":"no thanks"}"#);
    let card = format!("#a{id}");
    stage.until(&format!("document.querySelector('{card}')"));
    stage.write(&format!("{card} [name=comment]"), "not today");
    stage.click(&format!("{card} .no"));
    stage.until(&format!(
        "document.querySelector('{card} .ended')?.textContent.includes('Denied by you')"
    ));
    let denied = stage.service.show(&id);
    assert_eq!(denied["comment"], "not today");
    assert_eq!(denied["decidedOn"], "page");
    stage.until("document.title.startsWith('Inbox')");
}

fn what_is_typed_survives_what_happens(stage: &Stage) {
    let id = stage.service.propose("note", r#"{"text":"keep"}"#);
    let card = format!("#a{id}");
    stage.until(&format!("document.querySelector('{card}')"));
    stage.write(&format!("{card} [name=comment]"), "half a sen");
    // Another card arrives, and a decision with a wrong digest changes this one's version.
    let other = stage.service.propose("note", r#"{"text":"other"}"#);
    stage
        .service
        .run(&["approve", &id, "--digest", &"0".repeat(64)], "");
    let version = format!("document.querySelector('{card}').dataset.v === '2'");
    stage.until(&version);
    stage.until(&format!(
        "document.getElementById('a{other}') || !document.getElementById('fresh').hidden"
    ));
    stage.press("tence");
    let value = stage.js(&format!("document.querySelector('{card} [name=comment]').value"));
    assert_eq!(value, json!("half a sentence"));
    stage.goto("/approvals");
}

fn nothing_moves_when_a_card_arrives(stage: &Stage) {
    for number in 0..6 {
        stage
            .service
            .propose("note", &format!(r#"{{"text":"{number}"}}"#));
    }
    stage.goto("/approvals");
    stage.until("document.querySelectorAll('.card').length >= 6");
    stage.watch_shifts();
    // A high risk puts the card at the top, where a person is reading.
    let id = stage.service.propose("delete_contact", r#"{"id":"c-1"}"#);
    stage.until("!document.getElementById('fresh').hidden");
    assert_eq!(stage.text("#fresh"), "1 new, 1 of high risk");
    assert_eq!(
        stage.js(&format!("document.getElementById('a{id}')")),
        json!(null)
    );
    assert_eq!(stage.js("window.shift"), json!(0), "nothing moved");
    stage.click("#fresh");
    stage.until(&format!("document.querySelector('.card').id === 'a{id}'"));
    assert_eq!(stage.js("document.getElementById('fresh').hidden"), json!(true));
}

fn others_decide_and_the_card_says_so(stage: &Stage) {
    let id = stage.service.propose("note", r#"{"text":"theirs"}"#);
    stage.goto("/approvals");
    let card = format!("#a{id}");
    stage.until(&format!("document.querySelector('{card} .yes')"));
    stage.write(&format!("{card} [name=comment]"), "too late");
    stage.watch_shifts();
    stage.service.run(&["deny", &id, "--comment", "mine"], "");
    stage.until(&format!(
        "document.querySelector('{card} .ended')?.textContent.includes('Denied by bo')"
    ));
    assert_eq!(
        stage.js(&format!("document.querySelector('{card} .decide')")),
        json!(null)
    );
    assert_eq!(stage.js("window.shift"), json!(0), "the card kept its room");
    let text = stage.text(&card);
    assert!(text.contains("Your comment was not sent: too late"), "{text}");
}

fn time_runs_out_while_the_page_is_open(stage: &Stage) {
    let id = stage.service.propose("brief", r#"{"text":"quick"}"#);
    let card = format!("#a{id}");
    stage.goto("/approvals");
    stage.until(&format!("document.querySelector('{card} .left.urgent')"));
    stage.until(&format!(
        "document.querySelector('{card} .ended')?.textContent.includes('Expired')"
    ));
    assert_eq!(
        stage.js(&format!("document.querySelector('{card} .decide')")),
        json!(null)
    );
    assert_eq!(stage.service.show(&id)["status"], "expired");
    // A card that belongs in view waits behind the button, and is gone from there once it expires.
    stage.js("scrollTo(0, document.body.scrollHeight)");
    stage.service.propose("brief", r#"{"text":"unseen"}"#);
    stage.until("!document.getElementById('fresh').hidden");
    stage.until("document.getElementById('fresh').hidden");
}

fn arguments_are_edited(stage: &Stage) {
    let id = stage.service.propose("create_contact", r#"{"name":"Maria"}"#);
    stage.until(&format!("document.querySelector('#a{id} .edit')"));
    stage.click(&format!("#a{id} .edit"));
    stage.until_address("?edit=form");
    let field = stage.browser.find("[name='value-1-0']");
    assert_eq!(field.value(), "Maria");
    field.clear();
    stage.click("button[value=edit]");
    stage.until("document.querySelector('.problem')?.textContent.includes('schema')");
    let field = stage.browser.find("[name='value-1-0']");
    assert_eq!(field.value(), "", "what was typed is kept");
    field.write("Mária");
    stage.browser.picture("edit-form");
    stage.click("button[value=edit]");
    stage.until("document.querySelector('[value=confirm]')");
    assert!(stage.text(".values").contains("Maria → Mária"));
    stage.click("button[value=confirm]");
    stage.until("document.querySelector('.ended')?.textContent.includes('Approved by you')");
    // The script shows times in the zone of the browser.
    stage.until(
        "[...document.querySelectorAll('time.stamp')].every((each) => !/^\\d{4}-/.test(each.textContent))",
    );
    let shown = stage.service.show(&id);
    assert_eq!(shown["calls"][0]["edited"], true);
    assert_eq!(shown["toolArguments"], json!({ "name": "Mária" }));
}

fn a_batch_is_approved_in_part(stage: &Stage) {
    let lines = ["a", "b", "c"].map(|text| format!(r#"{{"tool":"note","arguments":{{"text":"{text}"}}}}"#));
    let id = stage.service.propose_batch(&lines.join("\n"));
    stage.goto(&format!("/approvals/{id}"));
    stage.click("[name='choice-2'][value=deny]");
    stage.click("button[value=chosen]");
    stage.until("document.querySelector('.ended')?.textContent.includes('2 of 3 approved by you')");
    stage.until("document.getElementById('timeline').textContent.includes('only calls 1, 3')");
    let shown = stage.service.show(&id);
    let states: Vec<_> = (0..3).map(|call| shown["calls"][call]["state"].clone()).collect();
    assert_eq!(states, ["released", "refused", "released"]);
}

fn a_long_card_is_shown_whole_before_it_is_approved(stage: &Stage) {
    let arguments = format!(r#"{{"id":"{}END"}}"#, "x".repeat(16_000));
    let id = stage.service.propose("delete_contact", &arguments);
    stage.goto("/approvals");
    let card = format!("#a{id}");
    stage.until(&format!("document.querySelector('{card} a.all')"));
    assert_eq!(
        stage.js(&format!("document.querySelector('{card} .yes')")),
        json!(null)
    );
    stage.write(&format!("{card} [name=comment]"), "kept");
    stage.click(&format!("{card} a.all"));
    stage.until(&format!("document.querySelector('{card}.full .yes')"));
    stage.until_address("/approvals");
    let comment = stage.js(&format!("document.querySelector('{card} [name=comment]').value"));
    assert_eq!(comment, json!("kept"));
    stage.click(&format!("{card} summary"));
    let whole = stage.js(&format!(
        "document.querySelector('{card} details pre').textContent.length"
    ));
    assert_eq!(whole, json!(16_003));
    stage.click(&format!("{card} .yes"));
    stage.until(&format!(
        "document.querySelector('{card} .ended')?.textContent.includes('Approved by you')"
    ));
}

fn two_tabs_stay_in_step(stage: &Stage) {
    let id = stage.service.propose("note", r#"{"text":"tabs"}"#);
    let first = stage.browser.tab();
    stage.goto("/approvals");
    stage.until(&format!("document.querySelector('#a{id} .yes')"));
    stage.browser.open_tab();
    stage.goto("/approvals");
    stage.until(&format!("document.querySelector('#a{id} .yes')"));
    stage.click(&format!("#a{id} .yes"));
    stage.until(&format!("document.querySelector('#a{id} .ended')"));
    stage.browser.close_tab();
    stage.browser.switch_to(&first);
    stage.until(&format!(
        "document.querySelector('#a{id} .ended')?.textContent.includes('Approved by you')"
    ));
    // The closed tab may have been the one connected to the service; the other takes over.
    let next = stage.service.propose("note", r#"{"text":"after"}"#);
    stage.until(&format!(
        "document.getElementById('a{next}') || !document.getElementById('fresh').hidden"
    ));
}

/// The browser logs every violation of the content security policy.
fn no_script_of_ours_breaks_the_policy(stage: &Stage) {
    for path in ["/approvals", "/approvals/history", "/numbers"] {
        stage.goto(path);
    }
    let complaints = stage.browser.complaints();
    let complaints: Vec<_> = complaints
        .iter()
        .filter(|line| line.contains("Content Security Policy") || line.contains("Error"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
