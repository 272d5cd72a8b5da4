//! Several cards are decided together; pages around them fit every screen, in light and dark, in both languages.

use serde_json::{Value, json};

use crate::stage::{Script, Stage, play};

fn propose_notes(stage: &Stage, texts: &[&str]) -> Vec<String> {
    let propose = |text: &&str| {
        stage
            .service
            .propose("note", &json!({ "text": text }).to_string())
    };
    texts.iter().map(propose).collect()
}

fn status(stage: &Stage, id: &str) -> Value {
    stage.service.show(id)["status"].clone()
}

/// Takes pictures of a page in all looks, and checks that nothing is wider than the window.
fn look(stage: &Stage, path: &str, name: &str) {
    for (scheme, width) in [("light", 1000), ("dark", 1000), ("light", 390), ("dark", 390)] {
        stage.browser.prefer(scheme);
        let size = json!({ "width": width, "height": 900 });
        stage.browser.ask("POST", "/window/rect", &size).unwrap();
        stage.goto(path);
        stage.until("document.querySelector('main')");
        stage.browser.picture(&format!("{name}-{scheme}-{width}"));
        let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(stage.js(fits), json!(true), "{path} at {width}");
        let cut = stage.js(CUT);
        assert_eq!(cut, json!([]), "{path} at {width}");
    }
    stage.browser.prefer("light");
    let size = json!({ "width": 1000, "height": 800 });
    stage.browser.ask("POST", "/window/rect", &size).unwrap();
}

/// Lists elements whose text does not fit, and texts of plots that lie outside of them or on each other.
const CUT: &str = "(() => {
    const cut = [...document.querySelectorAll('button, .button, .rows td, .problem p, h1, h2')]
        .filter((each) => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline')
        .map((each) => each.textContent.slice(0, 60));
    for (const plot of document.querySelectorAll('svg.chart')) {
        const frame = plot.getBoundingClientRect();
        const texts = [...plot.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
        for (const [words, box] of texts) {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) cut.push('outside: ' + words);
            if (box.height < 9) cut.push('too small: ' + words + ' ' + box.height);
            for (const [other, there] of texts) {
                if (other !== words && box.left < there.right && there.left < box.right && box.top < there.bottom - 1 && there.top < box.bottom - 1)
                    cut.push('on each other: ' + words + ' ' + other);
            }
        }
    }
    return cut;
})()";

#[test]
fn several_cards_of_one_tool_are_decided_together() {
    play(Script::On, |stage| {
        stage.sign_in();
        let ids = propose_notes(stage, &["one", "two", "three", "four"]);
        stage.goto("/approvals");
        stage.click(".together a");
        stage.until_address("select=1");
        stage.until("document.querySelectorAll('.pick').length === 4");
        look(stage, "/approvals?tool=note&select=1", "select");
        stage.until("!document.getElementById('select-all').hidden");
        stage.until("document.querySelector('.several .yes').disabled");
        stage.click("#select-all");
        assert_eq!(stage.text("#selected"), "4 selected");
        stage.browser.picture("select-all");
        // One card is left out.
        let left_out = stage.js("document.querySelectorAll('.pick')[3].name");
        stage
            .browser
            .run("document.querySelectorAll('.pick')[3].click()")
            .unwrap();
        let left_out = left_out.as_str().unwrap().trim_start_matches("card-").to_owned();
        stage.write(".several textarea", "checked all of them");
        stage.click(".several .yes");
        stage.until("document.getElementById('selected').textContent.startsWith('3 decided')");
        for id in &ids {
            let approval = stage.service.show(id);
            match *id == left_out {
                true => assert_eq!(approval["status"], "pending"),
                false => assert_eq!(
                    (&approval["status"], &approval["comment"]),
                    (&json!("approved"), &json!("checked all of them"))
                ),
            }
        }
        stage.browser.picture("select-done");
    });
}

#[test]
fn several_cards_are_decided_without_script() {
    play(Script::Off, |stage| {
        stage.sign_in();
        let ids = propose_notes(stage, &["one", "two", "three"]);
        stage.goto("/approvals?tool=note&select=1");
        for id in &ids[..2] {
            stage.click(&format!("[name='card-{id}']"));
        }
        stage.click(".several .no");
        stage.until_address("/approvals/decisions");
        assert!(stage.text("main").contains("2 decided"), "{}", stage.text("main"));
        stage.browser.picture("select-no-script");
        assert_eq!(status(stage, &ids[0]), "denied");
        assert_eq!(status(stage, &ids[1]), "denied");
        assert_eq!(status(stage, &ids[2]), "pending");
    });
}

#[test]
fn errors_people_and_plots_fit_every_screen() {
    play(Script::On, |stage| {
        stage.sign_in();
        for (number, id) in propose_notes(stage, &["a", "b", "c", "d", "e"])
            .iter()
            .enumerate()
        {
            match number % 3 {
                0 => stage.service.run(&["deny", id], ""),
                _ => {
                    stage.service.approve(id);
                    String::new()
                }
            };
        }
        look(stage, "/nowhere", "error-404");
        look(stage, "/numbers", "numbers");
        look(stage, "/people", "people");
        stage.browser.speak("es-UY");
        propose_notes(stage, &["hola"]);
        look(stage, "/nowhere", "error-404-es");
        look(stage, "/approvals", "inbox-es");
        assert_eq!(stage.js("document.documentElement.lang"), json!("es"));
        assert_eq!(stage.text(".decide .no"), "Rechazar");
        stage.until("document.querySelector('.left').textContent.startsWith('quedan')");
        stage.goto("/sign-in?code=nonsense");
        stage.click("button.yes");
        stage.until("document.body.textContent.includes('Este enlace ya se usó')");
        stage.browser.picture("sign-in-expired-es");
    });
}
