//! Tests the playground in a browser: an agent's answer is streamed, and its card is decided here, in another tab, or
//! elsewhere.

use std::time::Duration;

use serde_json::{Value, json};

use crate::service::Service;
use crate::stage::{Script, Stage, play_with};

const MARIA: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";
/// Maximum wait for text to appear.
const PATIENCE: Duration = Duration::from_secs(20);
const ENTER: &str = "\u{e007}";

#[test]
fn d8_c6_an_agent_answers_and_its_card_is_decided_beside_the_talk() {
    play_with(Service::start_bare(), Script::On, |stage| {
        stage.sign_in();
        the_way_there_is_on_every_page(stage);
        words_come_one_by_one_and_a_card_appears(stage);
        the_button_approves_and_the_talk_goes_on(stage);
        a_denial_is_said(stage);
        undo_is_a_card_of_its_own(stage);
        the_undo_button_asks_right_here(stage);
        a_typed_yes_decides(stage);
        what_a_script_does_not_know_is_said(stage);
        nothing_on_the_page_broke(stage);
    });
}

#[test]
fn b2_x32_a_card_is_decided_elsewhere_and_after_a_restart() {
    play_with(Service::start_bare(), Script::On, |stage| {
        stage.sign_in();
        another_tab_decides(stage);
        the_command_line_decides(stage);
        the_service_restarts_between_card_and_yes(stage);
        a_batch_is_decided_in_part(stage);
        thirteen_paddocks_in_spanish(stage);
    });
}

#[test]
fn x16_x25_hostile_text_is_inert_and_everything_fits() {
    play_with(Service::start_bare(), Script::On, |stage| {
        stage.sign_in();
        hostile_text_is_inert(stage);
        everything_fits_a_phone(stage);
    });
}

#[test]
fn the_playground_works_without_script() {
    play_with(Service::start_bare(), Script::Off, |stage| {
        stage.sign_in();
        stage.click("nav a[href='/playground']");
        stage.click(".tabs a[href='/playground/crm']");
        stage.write("#say textarea", MARIA);
        stage.click("#say button");
        stage.until_address("/playground/crm#say");
        until_shown(stage, "#lines", "I'll create a new contact");
        until_shown(stage, "#trace", "confirmation-required");
        stage.click("#card .yes");
        until_shown(stage, "#lines", "Done! Create contact Maria Garcia");
        until_shown(stage, "#card", "Approved by you");
        assert!(stage.browser.address().ends_with("/playground/crm"));
        // The card's undo button proposes the undo without leaving the page.
        stage.click("#card .after button");
        until_shown(stage, "#card", "Delete contact");
        assert!(stage.browser.address().ends_with("/playground/crm"));
        stage.click("#card .no");
        until_shown(stage, "#lines", "Cancelled.");
        // Undo in words, then one of the suggested sentences.
        stage.write("#say textarea", "undo that");
        stage.click("#say button");
        until_shown(stage, "#card", "Delete contact");
        stage.write("#say textarea", "yes");
        stage.click("#say button");
        until_shown(stage, "#lines", "Done! Delete contact");
        stage.click(".openings button:last-child");
        until_shown(stage, "#lines", "Your pipeline");
        // Deny.
        stage.click(".openings button");
        until_shown(stage, "#card", "Create contact Maria Garcia");
        stage.click("#card .no");
        until_shown(stage, "#lines", "Cancelled.");
    });
}

/// Waits until an element contains this text, without running JavaScript in the page.
fn until_shown(stage: &Stage, css: &str, text: &str) {
    let begin = std::time::Instant::now();
    loop {
        let wanted = json!({ "using": "css selector", "value": css });
        // The page may be loading another one.
        let found = stage.browser.ask("POST", "/element", &wanted);
        let id = found
            .ok()
            .and_then(|found| found.as_object()?.values().next()?.as_str().map(str::to_owned));
        let read = id.map(|id| {
            stage
                .browser
                .ask("GET", &format!("/element/{id}/text"), &Value::Null)
        });
        if let Some(Ok(Value::String(shown))) = &read
            && shown.contains(text)
        {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "never shown: {text}; {read:?}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

fn talk_to(stage: &Stage, agent: &str) {
    stage.goto(&format!("/playground/{agent}"));
    stage.until("document.activeElement?.name === 'text' && main.dataset.live");
}

/// Starts a new conversation with an agent.
fn talk_anew(stage: &Stage, agent: &str) {
    talk_to(stage, agent);
    stage.click(".bar .button");
    stage.until("location.search.startsWith('?session=') && document.activeElement?.name === 'text' && main.dataset.live");
    assert_eq!(stage.js("document.querySelectorAll('.line').length"), json!(0));
}

fn say(stage: &Stage, text: &str) {
    stage.until("!document.querySelector('#say button').disabled");
    stage.write("#say textarea", &format!("{text}{ENTER}"));
    stage.until("!document.querySelector('#say button').disabled && !document.querySelector('.sending')");
}

fn until_said(stage: &Stage, text: &str) {
    stage.until(&format!(
        "[...document.querySelectorAll('.line:not(.coming)')].at(-1)?.textContent.includes({})",
        json!(text)
    ));
}

fn until_card(stage: &Stage, title: &str) {
    stage.until(&format!(
        "document.querySelector('#card .card:not(.over) h2')?.textContent.includes({})",
        json!(title)
    ));
}

fn the_way_there_is_on_every_page(stage: &Stage) {
    stage.click("nav a[href='/playground']");
    stage.until("location.pathname.startsWith('/playground/')");
    for agent in ["cms", "crm", "ranch"] {
        stage.click(&format!(".tabs a[href='/playground/{agent}']"));
        stage.until_address(&format!("/playground/{agent}"));
    }
}

fn words_come_one_by_one_and_a_card_appears(stage: &Stage) {
    talk_to(stage, "crm");
    let watch = "window.pieces = 0; new MutationObserver((list) => list.forEach((each) => {
        if (each.target.classList?.contains('coming')) window.pieces += 1; }))
        .observe(document.getElementById('lines'), { childList: true, subtree: true });";
    stage.browser.run(watch).unwrap();
    say(stage, "Create a contact for Maria");
    until_card(stage, "Create contact Maria");
    until_said(stage, "I'll create this contact.");
    assert_ne!(
        stage.js("window.pieces > 2"),
        json!(false),
        "{}",
        stage.js("window.pieces")
    );
    // The card's provenance and the trace.
    let values = stage.text("#card .values");
    assert!(values.contains("NOT FROM YOU"), "{values}");
    let traced = stage.text("#trace .warn").replace('\n', " ");
    assert_eq!(traced, "warn confirmation-required create_contact");
    let coming = stage.js("document.querySelectorAll('.coming, .sending, .thinking').length");
    assert_eq!(coming, json!(0));
}

fn the_button_approves_and_the_talk_goes_on(stage: &Stage) {
    stage.click("#card .yes");
    stage.until("document.querySelector('#card .ended')?.textContent.includes('Approved by you')");
    until_said(stage, "Done! Create contact Maria");
    stage.until("document.querySelector('#trace').textContent.includes('succeeded')");
}

fn a_denial_is_said(stage: &Stage) {
    say(stage, MARIA);
    until_card(stage, "Maria Garcia");
    stage.write("#card [name=comment]", "not her");
    stage.click("#card .no");
    stage.until("document.querySelector('#card .ended')?.textContent.includes('Denied by you')");
    until_said(stage, "Cancelled.");
}

fn undo_is_a_card_of_its_own(stage: &Stage) {
    say(stage, "undo that");
    until_card(stage, "Delete contact");
    stage.click("#card .yes");
    until_said(stage, "Done! Delete contact");
}

fn the_undo_button_asks_right_here(stage: &Stage) {
    say(
        stage,
        "Create a contact for Maria Garcia at Acme Corp, maria@acme.org",
    );
    until_card(stage, "maria@acme.org");
    stage.click("#card .yes");
    until_said(stage, "Done! Create contact Maria");
    stage.until("document.querySelector('#card .after button')");
    stage.click("#card .after button");
    until_card(stage, "Delete contact");
    assert_eq!(stage.js("location.pathname"), json!("/playground/crm"));
    stage.click("#card .yes");
    until_said(stage, "Done! Delete contact");
    // Nothing is left to undo, so there is no undo button.
    assert_eq!(stage.js("document.querySelector('#card .after')"), json!(null));
}

fn a_typed_yes_decides(stage: &Stage) {
    say(
        stage,
        "Create a contact for Maria Garcia at Acme Corp, maria@acme.net",
    );
    until_card(stage, "maria@acme.net");
    say(stage, "yes");
    until_said(stage, "Done! Create contact Maria Garcia");
    stage.until("document.querySelector('#card .ended')?.textContent.includes('a text reply')");
}

fn what_a_script_does_not_know_is_said(stage: &Stage) {
    let before = stage.js("document.querySelectorAll('.line.you').length");
    say(stage, "xyzzy plugh");
    stage.until(&format!(
        "document.querySelectorAll('.line.you').length > {before}"
    ));
    stage.until(
        "document.querySelector('.problem:not([hidden])') || document.querySelectorAll('.line.agent').length",
    );
    say(stage, "show me my pipeline");
    until_said(stage, "Your pipeline");
}

fn nothing_on_the_page_broke(stage: &Stage) {
    let complaints = stage.browser.complaints();
    let ours: Vec<&String> = complaints
        .iter()
        .filter(|line| !line.contains("favicon"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
}

fn another_tab_decides(stage: &Stage) {
    talk_anew(stage, "crm");
    say(stage, MARIA);
    until_card(stage, "Maria Garcia");
    let talk = stage.browser.tab();
    stage.browser.open_tab();
    stage.goto("/approvals");
    stage.until("document.querySelector('.card .yes')");
    stage.click(".card .yes");
    stage.until("document.querySelector('.card .ended')?.textContent.includes('Approved by you')");
    stage.browser.close_tab();
    stage.browser.switch_to(&talk);
    until_said(stage, "Done! Create contact Maria Garcia");
    stage.until("document.querySelector('#card .ended')?.textContent.includes('Approved by you')");
}

fn the_command_line_decides(stage: &Stage) {
    say(stage, "Create a contact for Maria");
    until_card(stage, "Create contact Maria,");
    let id = stage.js("document.querySelector('#card .card').id.slice(1)");
    stage.service.approve(id.as_str().unwrap());
    // Arrives by push; nothing was done on this page.
    until_said(stage, "Done! Create contact Maria,");
    stage.until("document.querySelector('#card .ended')?.textContent.includes('bo')");
}

fn the_service_restarts_between_card_and_yes(stage: &mut Stage) {
    say(
        stage,
        "Create a contact for Maria Garcia at Acme Corp, maria@acme.org",
    );
    until_card(stage, "maria@acme.org");
    stage.service.kill();
    stage.until("document.querySelector('#link.lost:not([hidden])')");
    stage.service.start_again();
    stage.until("document.querySelector('#link').hidden");
    stage.click("#card .yes");
    until_said(stage, "Done! Create contact Maria Garcia, maria@acme.org");
    // A decision made while the service was down.
    say(
        stage,
        "Create a contact for Maria Garcia at Acme Corp, maria@acme.it",
    );
    until_card(stage, "maria@acme.it");
    let id = stage.js("document.querySelector('#card .card').id.slice(1)");
    stage.service.kill();
    stage.service.approve(id.as_str().unwrap());
    stage.service.start_again();
    until_said(stage, "Done! Create contact Maria Garcia, maria@acme.it");
}

fn a_batch_is_decided_in_part(stage: &Stage) {
    talk_anew(stage, "crm");
    say(stage, "Create contacts for Ana, Ben, Cleo, Dan and Eva");
    until_card(stage, "5 calls");
    // The card's buttons stay visible and cover what is below, so scroll there.
    let third = "document.querySelector('[name=choice-3][value=deny]').scrollIntoView({ block: 'center' })";
    stage.browser.run(third).unwrap();
    stage.click("[name='choice-3'][value=deny]");
    stage.click("#card .yes");
    stage.until("document.querySelector('#lines').textContent.includes('Left out: Create contact Cleo')");
    assert!(stage.text("#lines").contains("Done! Create contact Eva"));
    // One card undoes all four.
    say(stage, "undo that");
    until_card(stage, "4 calls");
    stage.click("#card .yes");
    stage.until("document.querySelector('#lines').textContent.includes('Delete contact Ana')");
}

fn thirteen_paddocks_in_spanish(stage: &Stage) {
    talk_to(stage, "ranch");
    say(stage, "Borrá todos los potreros que empiezan con Padrón");
    until_card(stage, "Borrar 13 potreros");
    assert_eq!(stage.text("#card .yes"), "Sí, borrar");
    // The page around the talk speaks the agent's language, whatever the browser prefers.
    assert_eq!(stage.js("document.documentElement.lang"), json!("es"));
    assert_eq!(stage.text(".say button"), "Enviar");
    assert_eq!(stage.text("#card .marks .destructive"), "destructiva");
    stage.browser.picture("playground-es");
    // An "ok" does not suffice. It is not part of the session, but the messages stay in order.
    say(stage, "ok");
    stage.until("document.querySelector('#lines').textContent.includes('Con eso no basta')");
    say(stage, "Sí, borrar");
    stage.until("document.querySelector('#lines').textContent.includes('¡Listo! Borrar 13 potreros')");
    until_said(stage, "Si fue un error");
    let order = "const text = document.querySelector('#lines').textContent; \
        return ['ok', 'Con eso no basta', 'Sí, borrar', '¡Listo!', 'Si fue un error'] \
            .map((part) => text.lastIndexOf(part)).every((at, index, all) => at > (all[index - 1] ?? -1))";
    assert_eq!(
        stage.browser.run(order).unwrap(),
        json!(true),
        "{}",
        stage.text("#lines")
    );
}

fn hostile_text_is_inert(stage: &Stage) {
    talk_to(stage, "crm");
    say(
        stage,
        "Create a contact for <img src=x onerror=\"document.title='owned'\"><b>Maria</b>\u{202e}",
    );
    stage.until("document.querySelector('.line.you')");
    say(stage, "show me my pipeline");
    until_said(stage, "Your pipeline");
    let markup = stage.js("document.querySelectorAll('#lines img, #lines b, #card img').length");
    assert_eq!(markup, json!(0));
    assert_ne!(stage.js("document.title"), json!("owned"));
    let said = stage.js("document.querySelector('.line.you').textContent");
    assert!(said.as_str().unwrap().contains("<b>Maria</b>\\u{202e}"), "{said}");
    let path = "/playground/crm?session=%22%3E%3Cimg%20src=x%3E";
    stage.goto(path);
    assert!(
        stage.text("main").contains("There is no such"),
        "{}",
        stage.text("main")
    );
}

fn everything_fits_a_phone(stage: &Stage) {
    talk_anew(stage, "crm");
    say(stage, "Create contacts for Ana, Ben, Cleo, Dan and Eva");
    until_card(stage, "5 calls");
    for width in [1200, 1000, 390] {
        let size = json!({ "width": width, "height": 800 });
        stage.browser.ask("POST", "/window/rect", &size).unwrap();
        let wide = stage.js("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, json!(0), "at {width}");
        let cut = "[...document.querySelectorAll('.line, .values dd, .decide button, .trace li, .say button')]
            .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent.slice(0, 60))";
        assert_eq!(stage.js(cut), json!([]), "at {width}");
    }
    // Everything can be reached by keyboard, from the message to the card's buttons.
    let hops = stage.js(
        "[...document.querySelectorAll('a[href], button, textarea, input:not([type=hidden]), [tabindex=\"0\"]')]
            .filter((each) => each.tabIndex >= 0 && each.offsetParent).map((each) => each.className || each.name || each.id)",
    );
    let hops = hops.to_string();
    assert!(
        hops.contains("yes") && hops.contains("no") && hops.contains("text"),
        "{hops}"
    );
}
