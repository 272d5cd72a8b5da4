//! X25, X16, X39: text from an agent is displayed and has no other effect.

use serde_json::json;

use crate::stage::{Script, play};

#[test]
fn x25_x16_x39_hostile_text_is_inert_in_a_browser() {
    play(Script::On, |stage| {
        stage.sign_in();
        let script = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
        let arguments = json!({
            "html": script,
            "link": "javascript:document.title='owned'",
            "close": "</dd></div></dl></section></article><button class=yes name=verdict value=approve>Approve</button>",
            "bidi": "invoice\u{202e}gpj.exe",
            "hidden": "a\u{200b}b\u{e0041}c",
            script: "key",
        });
        let id = stage.service.propose("unlisted", &arguments.to_string());
        let card = format!("#a{id}");
        stage.until(&format!("document.querySelector('{card}')"));
        for path in [
            "/approvals".to_owned(),
            format!("/approvals/{id}"),
            format!("/approvals/{id}?edit=1"),
        ] {
            stage.goto(&path);
            stage.until(&format!("document.querySelector('{card} .decide')"));
            assert_ne!(stage.js("document.title"), json!("owned"), "{path}");
            let made = stage.js(&format!(
                "document.querySelectorAll('{card} script, {card} img, {card} a[href^=javascript]').length"
            ));
            assert_eq!(made, json!(0), "{path}");
            // No value escaped from its element, and all `.yes` buttons are the card's own.
            let inside = stage.js(&format!("document.querySelectorAll('.yes').length === document.querySelectorAll('{card} .decide .yes').length"));
            assert_eq!(inside, json!(true), "{path}");
            let acting = stage.js("/[\\u202e\\u200b]|\\udb40/.test(document.body.textContent)");
            assert_eq!(acting, json!(false), "{path}");
        }
        stage.goto(&format!("/approvals/{id}"));
        let text = stage.text(&format!("{card} .values"));
        for shown in [
            script,
            "invoice\\u{202e}gpj.exe",
            "a\\u{200b}b\\u{e0041}c",
            "javascript:document.title='owned'",
        ] {
            assert!(text.contains(shown), "no {shown} in {text}");
        }
        assert!(text.contains("change the direction of text"), "{text}");
        assert!(text.contains("contains hidden characters"), "{text}");
    });
}
