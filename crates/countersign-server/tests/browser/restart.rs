//! X32: the service restarts while a page is open.

use serde_json::json;

use crate::stage::{Script, play};

#[test]
fn x32_an_open_page_survives_a_restart() {
    play(Script::On, |stage| {
        stage.sign_in();
        let before = stage.service.propose("create_contact", r#"{"name":"Before"}"#);
        stage.until(&format!("document.querySelector('#a{before} .yes')"));
        stage.write(&format!("#a{before} [name=comment]"), "typed before");
        stage.service.kill();
        stage.until("document.querySelector('#link.lost:not([hidden])')");
        // A decision made while the service is down is reported as failed, and can be repeated.
        stage.click(&format!("#a{before} .yes"));
        stage.until(&format!("document.querySelector('#a{before} .problem')?.textContent.includes('did not answer') && !document.querySelector('#a{before} .yes').disabled"));
        // A proposal made while the service is down, directly in the store.
        let meanwhile = stage.service.propose("note", r#"{"text":"meanwhile"}"#);
        stage.service.start_again();
        stage.until("document.querySelector('#link.live') || document.getElementById('link').hidden");
        stage.until(&format!("document.getElementById('a{meanwhile}')"));
        // The old page's button still works, and its comment is kept.
        let typed = stage.js(&format!(
            "document.querySelector('#a{before} [name=comment]').value"
        ));
        assert_eq!(typed, json!("typed before"));
        stage.click(&format!("#a{before} .yes"));
        stage.until(&format!(
            "document.querySelector('#a{before} .ended')?.textContent.includes('Approved by you')"
        ));
        assert_eq!(stage.service.show(&before)["comment"], "typed before");
        // New approvals arrive as before.
        let after = stage.service.propose("note", r#"{"text":"after"}"#);
        stage.until(&format!("document.getElementById('a{after}')"));
    });
}
