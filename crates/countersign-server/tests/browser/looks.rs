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

/// Lists elements whose text does not fit.
const CUT: &str = "[...document.querySelectorAll('.card dt, .card dd, .marks b, .look, .decide button')]
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
