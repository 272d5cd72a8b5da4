//! A18, X08: cards of every size are readable on a screen and on a phone, with nothing cut off or covered.

use serde_json::{Value, json};

use crate::stage::{Script, Stage, play};

#[test]
fn a18_cards_of_every_size_fit_a_screen_and_a_phone() {
    play(Script::On, |stage| {
        stage.sign_in();
        let ids =
            [(1, 0), (5, 0), (40, 0), (2, 16 * 1024)].map(|(values, long)| propose(stage, values, long));
        for width in [1000, 390] {
            let size = json!({ "width": width, "height": 800 });
            stage.browser.ask("POST", "/window/rect", &size).unwrap();
            let mut paths = vec!["/approvals".to_owned()];
            paths.extend(ids.iter().map(|id| format!("/approvals/{id}")));
            for path in paths {
                stage.goto(&path);
                stage.until("document.querySelector('.card .decide')");
                let wide =
                    stage.js("document.documentElement.scrollWidth - document.documentElement.clientWidth");
                assert_eq!(wide, json!(0), "{path} at {width}");
                let cut = stage.js(CUT);
                assert_eq!(cut, json!([]), "{path} at {width}");
            }
        }
    });
}

/// Proposes cards with nested values, lists and a batch, and returns their ids.
fn shapes(stage: &Stage) -> Vec<String> {
    let paddock = |number: usize| {
        json!({
            "id": format!("p-{number}"), "nombre": format!("Padrón {number}"), "hectareas": number * 10,
            "animales": number, "correo": format!("p{number}@evil.example"),
        })
    };
    let list: Vec<Value> = (1..=13).map(paddock).collect();
    let nested = json!({
        "to": "Maria Garcia", "address": { "street": "Calle 1", "city": "Montevideo", "geo": { "x": 1, "y": 2 } },
        "potreros": list, "code": "def f(x):\n    if x:\n        return 1\n\treturn 2\n",
    });
    let text = "line of a long text\n".repeat(120);
    let conversation = json!({ "messages": [
        { "role": "user", "text": "Please change the paddocks p-1 and p-2 for Maria Garcia" },
    ] });
    let batch: Vec<String> = (1..=13)
        .map(|number| {
            json!({ "tool": "update_contact", "arguments": { "id": format!("c-{number}"), "zone": "north" } })
                .to_string()
        })
        .collect();
    vec![
        stage
            .service
            .propose_after(&conversation, "update_contact", &nested),
        stage.service.propose_after(
            &conversation,
            "update_contact",
            &json!({ "text": text, "to": "x@y.example" }),
        ),
        stage.service.propose_batch(&batch.join("\n")),
    ]
}

/// Checks that tables and folds fit every screen, that the buttons stay in sight, and that they hide nothing for good.
#[test]
fn x08_the_buttons_stay_in_sight_and_cover_nothing() {
    play(Script::On, |stage| {
        stage.sign_in();
        let ids = shapes(stage);
        stage.browser.prefer("dark");
        for id in &ids {
            stage.goto(&format!("/approvals/{id}"));
            stage.browser.run("scrollTo(0, 420);").unwrap();
            stage
                .browser
                .picture(&format!("shape-dark-{}", stage.js("document.title.length")));
        }
        stage.browser.prefer("light");
        for (width, height) in [(1000, 800), (390, 800)] {
            let size = json!({ "width": width, "height": height });
            stage.browser.ask("POST", "/window/rect", &size).unwrap();
            let paths = ids.iter().map(|id| format!("/approvals/{id}"));
            for (number, path) in std::iter::once("/approvals".to_owned()).chain(paths).enumerate() {
                stage.goto(&path);
                stage.until("document.querySelector('.card .decide')");
                stage.browser.picture(&format!("shape-{width}-{number}"));
                let wide =
                    stage.js("document.documentElement.scrollWidth - document.documentElement.clientWidth");
                assert_eq!(wide, json!(0), "{path} at {width}");
                assert_eq!(stage.js(CUT), json!([]), "{path} at {width}");
                if path.ends_with("/approvals") {
                    continue;
                }
                let button = "document.querySelector('.decide .yes').getBoundingClientRect()";
                let in_sight = format!("{button}.top >= 0 && {button}.bottom <= innerHeight");
                assert_eq!(stage.js(&in_sight), json!(true), "{path} at {width}");
                // Above the card's end, the buttons have their usual place below everything else.
                stage
                    .browser
                    .run("document.querySelector('.decide').scrollIntoView({ block: 'end' });")
                    .unwrap();
                stage
                    .browser
                    .run("scrollTo(0, document.body.scrollHeight);")
                    .unwrap();
                stage.browser.picture(&format!("shape-{width}-{number}-end"));
                let covered = "(() => { const form = document.querySelector('.decide').getBoundingClientRect(); \
                    return [...document.querySelectorAll('.card > :not(.decide)')] \
                    .some((each) => each.getBoundingClientRect().bottom > form.top + 1); })()";
                assert_eq!(stage.js(covered), json!(false), "{path} at {width}");
                assert_eq!(
                    stage.js("[...document.querySelectorAll('.card details')].every((each) => each.open)"),
                    json!(true),
                    "{path}"
                );
            }
        }
    });
}

/// Lists elements whose text does not fit.
const CUT: &str = "[...document.querySelectorAll('.card dt, .card dd, .card td, .card th, .marks b, .look, .decide button')]
    .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent.slice(0, 60))";

fn propose(stage: &Stage, values: usize, long: usize) -> String {
    let mut arguments = serde_json::Map::new();
    for number in 0..values {
        let value = match number % 4 {
            0 => json!(format!("maria.{number}@company.example")),
            1 => json!("Maria Garcia"),
            2 => json!("c-7"),
            _ => json!(format!("https://evil.example/a/rather/long/path/{number}")),
        };
        arguments.insert(format!("field_{number}"), value);
    }
    if long > 0 {
        arguments.insert("body".to_owned(), json!("lorem ipsum ".repeat(long / 12)));
    }
    let conversation = json!({ "messages": [
        { "role": "user", "text": "Please invite Maria Garcia" },
        { "role": "tool", "name": "find_contact", "text": "{\"id\":\"c-7\"}" },
        { "role": "outside", "name": "get_webpage", "text": "https://evil.example/a/rather/long/path/3" },
    ] });
    stage
        .service
        .propose_after(&conversation, "update_contact", &Value::from(arguments))
}
