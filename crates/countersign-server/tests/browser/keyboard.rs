//! Tests the inbox with the keyboard alone.

use serde_json::json;

use crate::stage::{Script, Stage, play};

#[test]
fn everything_can_be_done_by_keyboard() {
    play(Script::On, |stage| {
        stage.sign_in();
        let delete = stage.service.propose("delete_contact", r#"{"id":"c-1"}"#);
        let contact = stage.service.propose("create_contact", r#"{"name":"Maria"}"#);
        let note = stage.service.propose("note", r#"{"text":"x"}"#);
        stage.goto("/approvals");
        stage.until("document.querySelectorAll('.card').length === 3");
        stage.press("?");
        stage.until("document.getElementById('keys').open");
        stage.press("\u{e00c}");
        stage.until("!document.getElementById('keys').open");
        the_gravest_takes_two_presses(stage, &delete);
        // Move back and forth, then approve.
        stage.press("j");
        stage.press("j");
        stage.press("k");
        stage.until(&format!(
            "document.activeElement.closest('.card')?.id === 'a{contact}'"
        ));
        stage.press("a");
        stage.until(&format!(
            "document.querySelector('#a{contact} .ended')?.textContent.includes('Approved by you')"
        ));
        // Letters in a comment decide nothing.
        stage.press("j");
        stage.press("c");
        stage.until("document.activeElement.name === 'comment'");
        stage.press("a bad idea");
        stage.press("\u{e00c}");
        assert_eq!(stage.service.show(&note)["status"], "pending");
        stage.press("d");
        stage.until(&format!(
            "document.querySelector('#a{note} .ended')?.textContent.includes('Denied by you')"
        ));
        assert_eq!(stage.service.show(&note)["comment"], "a bad idea");
        the_keys_lead_to_the_other_pages(stage);
        tab_reaches_every_control_in_order(stage);
    });
}

fn the_gravest_takes_two_presses(stage: &Stage, id: &str) {
    stage.press("j");
    stage.until(&format!(
        "document.activeElement.closest('.card')?.id === 'a{id}'"
    ));
    stage.press("a");
    stage.until(&format!("document.querySelector('#a{id} .yes.armed')"));
    assert_eq!(stage.service.show(id)["status"], "pending");
    // Moving away cancels the first press.
    stage.press("j");
    stage.until("!document.querySelector('.armed')");
    stage.press("k");
    stage.press("a");
    stage.until(&format!("document.querySelector('#a{id} .yes.armed')"));
    stage.press("a");
    stage.until(&format!(
        "document.querySelector('#a{id} .ended')?.textContent.includes('Approved by you')"
    ));
}

fn the_keys_lead_to_the_other_pages(stage: &Stage) {
    let id = stage.service.propose("create_contact", r#"{"name":"Bo"}"#);
    stage.goto("/approvals");
    stage.until(&format!("document.getElementById('a{id}')"));
    stage.press("j");
    stage.press("e");
    stage.until_address("?edit=form");
    stage.goto("/approvals");
    stage.until(&format!("document.getElementById('a{id}')"));
    stage.press("j");
    stage.press("o");
    stage.until_address(&id);
    stage.press("a");
    stage.until("document.querySelector('.ended')?.textContent.includes('Approved by you')");
}

fn tab_reaches_every_control_in_order(stage: &Stage) {
    let id = stage.service.propose("create_contact", r#"{"name":"Cleo"}"#);
    stage.goto("/approvals");
    stage.until(&format!("document.getElementById('a{id}')"));
    stage.press("j");
    let mut seen = Vec::new();
    for _ in 0..4 {
        stage.press("\u{e004}");
        seen.push(stage.js("document.activeElement.name + document.activeElement.className + (document.activeElement.value || '')"));
    }
    assert_eq!(
        seen,
        [
            json!("comment"),
            json!("verdictyesapprove"),
            json!("verdictnodeny"),
            json!("edit")
        ]
    );
    // Every control has an accessible name.
    let nameless = stage
        .js("[...document.querySelectorAll('button, select, textarea, a, input:not([type=hidden])')].filter((each) => \
             !each.hidden && !(each.textContent.trim() || each.ariaLabel || each.labels?.length)).map((each) => each.outerHTML)");
    assert_eq!(nameless, json!([]));
}
