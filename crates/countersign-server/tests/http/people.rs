//! Tests `/v1/people`: people and their chat senders, managed without a shell (E4).

use axum::http::Method;
use countersign::id::Tenant;
use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::{Answered, Service, id, request};

/// A service with an adapter and a pending call of the tool `echo`, whose card was shown as message `card`.
struct Chat {
    service: Service,
    admin: String,
    adapter: String,
    approval: Value,
}

impl Chat {
    async fn new() -> Chat {
        let service = Service::new().await;
        let admin = service.with_scope("main", Scope::Admin).await;
        let adapter = service.with_scope("main", Scope::Reply).await;
        let agent = service.agent("crm").await;
        let approval = service.propose(&agent, "echo", r#"{"n":1}"#).await;
        let chat = Chat {
            service,
            admin,
            adapter,
            approval,
        };
        chat.show().await;
        chat
    }

    async fn pending(&self) -> Value {
        let pending = self.service.get(&self.adapter, "/v1/channels/echo/pending");
        pending.await.good()["pending"].clone()
    }

    async fn show(&self) {
        let body = json!({ "messageId": "card", "digest": self.pending().await["digest"] }).to_string();
        let shown = self.service.post(&self.adapter, "/v1/channels/echo/shown", &body);
        shown.await.good();
    }

    async fn say(&self, sender: &str, text: &str) -> Value {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let body =
            json!({ "text": text, "sender": sender, "messageId": format!("m{number}"), "after": "card" });
        self.service
            .post(&self.adapter, "/v1/channels/echo/replies", &body.to_string())
            .await
            .good()
    }

    async fn press(&self, sender: &str) -> Answered {
        let payload = self.pending().await["approve"].clone();
        let body = json!({ "payload": payload, "sender": sender }).to_string();
        self.service
            .post(&self.adapter, "/v1/channels/echo/buttons", &body)
            .await
    }

    async fn add(&self, body: Value) -> Answered {
        self.service
            .post(&self.admin, "/v1/people", &body.to_string())
            .await
    }

    async fn link(&self, person: &str, sender: &str) -> Answered {
        let body = json!({ "sender": sender }).to_string();
        let path = format!("/v1/people/{person}/senders");
        self.service.post(&self.admin, &path, &body).await
    }

    async fn delete(&self, path: &str) -> Answered {
        let asked = request(Method::DELETE, path, Some(&self.admin), "");
        self.service.ask(asked).await
    }

    async fn status(&self) -> Value {
        let reader = self.service.with_scope("main", Scope::Read).await;
        let path = format!("/v1/approvals/{}", id(&self.approval));
        self.service.get(&reader, &path).await.good()["status"].clone()
    }

    fn ran(&self) -> usize {
        self.service.ran.lock().unwrap().len()
    }
}

#[tokio::test]
async fn e4_people_are_added_listed_and_removed_over_http() {
    let chat = Chat::new().await;
    let added = chat.add(json!({ "name": "zoe", "groups": ["finance"] })).await;
    assert_eq!(added.status, 201);
    let added = added.json();
    assert_eq!(
        (
            &added["name"],
            &added["groups"],
            &added["admin"],
            &added["senders"]
        ),
        (&json!("zoe"), &json!(["finance"]), &json!(false), &json!([]))
    );
    assert_eq!(
        chat.add(json!({ "name": "bob" })).await.json()["groups"],
        json!(["approvers"])
    );
    for name in ["zoe", "ZOE", "z0e"] {
        let again = chat.add(json!({ "name": name })).await;
        assert_eq!(again.error(), (409, "exists".to_owned()), "{name}");
    }
    for odd in [
        json!({ "name": "" }),
        json!({ "name": "a\u{200b}b" }),
        json!({ "name": "eve", "groups": [""] }),
        json!({ "name": "eve", "groups": vec!["x"; 101] }),
        json!({ "name": "eve", "password": "x" }),
    ] {
        let refused = chat.add(odd.clone()).await;
        assert!(
            [400, 422].contains(&refused.status.as_u16()),
            "{odd}: {}",
            refused.text
        );
    }
    let names = async |query: &str| {
        let page = chat
            .service
            .get(&chat.admin, &format!("/v1/people{query}"))
            .await
            .good();
        let people = page["people"].as_array().unwrap().iter();
        let names: Vec<String> = people
            .map(|person| person["name"].as_str().unwrap().to_owned())
            .collect();
        (names.join(" "), page["next"].clone())
    };
    assert_eq!(names("").await, ("ana bob finn zoe".to_owned(), Value::Null));
    assert_eq!(
        names("?limit=3").await,
        ("ana bob finn".to_owned(), json!("finn"))
    );
    assert_eq!(
        names("?limit=3&cursor=finn").await,
        ("zoe".to_owned(), Value::Null)
    );
    let groups = request(
        Method::PUT,
        "/v1/people/zoe/groups",
        Some(&chat.admin),
        r#"{"groups":["ops"]}"#,
    );
    assert_eq!(chat.service.ask(groups).await.good()["groups"], json!(["ops"]));
    assert_eq!(chat.delete("/v1/people/zoe").await.status, 204);
    assert_eq!(
        chat.delete("/v1/people/zoe").await.error(),
        (404, "not_found".to_owned())
    );
    assert_eq!(names("").await.0, "ana bob finn");
}

#[tokio::test]
async fn e4_an_added_person_signs_in_with_a_link_and_decides() {
    let chat = Chat::new().await;
    chat.add(json!({ "name": "zoe" })).await.good();
    let link = chat
        .service
        .post(&chat.admin, "/v1/people/zoe/sign-in-link", "")
        .await;
    assert_eq!(link.status, 201);
    let url = link.json()["url"].as_str().unwrap().to_owned();
    let (_, code) = url.split_once("/sign-in?code=").unwrap();
    let form = axum::http::Request::post("/sign-in")
        .header("host", "service.test")
        .header("content-type", "application/x-www-form-urlencoded");
    let entered = chat
        .service
        .ask(form.body(axum::body::Body::from(format!("code={code}"))).unwrap())
        .await;
    let cookie = entered.headers["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    let page = crate::accounts::page(&chat.service, cookie, "/approvals").await;
    assert_eq!(page.status(), 200);
    let nobody = chat
        .service
        .post(&chat.admin, "/v1/people/nobody/sign-in-link", "")
        .await;
    assert_eq!(nobody.error(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn e4_a_linked_sender_decides_as_the_person() {
    let chat = Chat::new().await;
    let linked = chat.link("ana", "telegram:7").await;
    assert_eq!(linked.status, 201);
    assert_eq!(linked.json()["senders"], json!(["telegram:7"]));
    let said = chat.say("telegram:7", "yes").await;
    assert_eq!(said["happened"], "approved", "{said}");
    assert_eq!(said["approval"]["decidedBy"], "ana");
    assert_eq!(chat.ran(), 1);
}

#[tokio::test]
async fn e4_the_yes_of_an_unknown_sender_is_answered_with_the_next_step() {
    let chat = Chat::new().await;
    chat.link("ana", "telegram:7").await.good();
    for sender in ["telegram:8", "telegram:07", "Telegram:7", "slack:7", "a stranger"] {
        for text in ["yes", "no"] {
            let said = chat.say(sender, text).await;
            assert_eq!(said["happened"], "nothing", "{sender} {said}");
            let say = said["say"].as_str().unwrap();
            assert!(say.contains(&format!("who \"{sender}\" is")), "{say}");
            assert!(say.contains("link this sender to your account"), "{say}");
        }
    }
    let spanish =
        json!({ "text": "sí", "sender": "telegram:8", "messageId": "es", "language": "es", "after": "card" });
    let said = chat
        .service
        .post(&chat.adapter, "/v1/channels/echo/replies", &spanish.to_string())
        .await
        .good();
    assert!(
        said["say"].as_str().unwrap().contains("vincule este remitente"),
        "{said}"
    );
    // A known person who is no approver is told that, too.
    let said = chat.say("finn", "yes").await;
    assert!(
        said["say"].as_str().unwrap().contains("finn may not decide this"),
        "{said}"
    );
    // Other people's talk is not answered.
    let said = chat.say("telegram:8", "what a day, is lunch ready?").await;
    assert_eq!((&said["say"], &said["goOn"]), (&Value::Null, &json!(true)));
    let pressed = chat.press("telegram:8").await;
    assert_eq!(pressed.error(), (403, "not_allowed".to_owned()));
    let error = pressed.json()["error"].clone();
    assert!(
        error["message"].as_str().unwrap().contains("`telegram:8`"),
        "{error}"
    );
    assert!(error["hint"].as_str().unwrap().contains("/senders"), "{error}");
    assert_eq!(chat.status().await, "pending");
    assert_eq!(chat.ran(), 0);
}

#[tokio::test]
async fn x67_a_sender_is_not_inherited_by_a_later_account_of_the_name() {
    let chat = Chat::new().await;
    chat.link("ana", "telegram:7").await.good();
    assert_eq!(chat.delete("/v1/people/ana").await.status, 204);
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "nothing");
    let again = chat.add(json!({ "name": "ana" })).await.good();
    assert_eq!(again["senders"], json!([]));
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "nothing");
    assert_eq!(
        chat.press("telegram:7").await.error(),
        (403, "not_allowed".to_owned())
    );
    assert_eq!((chat.status().await, chat.ran()), (json!("pending"), 0));
    // Linked again, it is the new account's.
    chat.link("ana", "telegram:7").await.good();
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "approved");
    assert_eq!(chat.ran(), 1);
}

#[tokio::test]
async fn x67_a_stale_link_that_was_left_behind_is_void_and_can_be_replaced() {
    let chat = Chat::new().await;
    chat.link("ana", "telegram:7").await.good();
    // An older program removes the account and leaves the link.
    let store = chat.service.app.store();
    let people = store
        .entries(&Tenant::single(), countersign::registry::Kind::Person, None, 100)
        .await
        .unwrap();
    for person in people {
        store
            .take_entry(countersign::registry::Kind::Person, &person.key)
            .await
            .unwrap();
    }
    chat.add(json!({ "name": "ana" })).await.good();
    chat.add(json!({ "name": "bob" })).await.good();
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "nothing");
    chat.link("bob", "telegram:7").await.good();
    let said = chat.say("telegram:7", "yes").await;
    assert_eq!(said["approval"]["decidedBy"], "bob");
}

#[tokio::test]
async fn e4_a_sender_belongs_to_one_person_and_can_be_unlinked() {
    let chat = Chat::new().await;
    chat.link("ana", "telegram:7").await.good();
    assert_eq!(
        chat.link("finn", "telegram:7").await.error(),
        (409, "exists".to_owned())
    );
    assert_eq!(
        chat.link("nobody", "telegram:9").await.error(),
        (404, "not_found".to_owned())
    );
    for odd in ["ana", "telegram:", ":7", "Tele:7", "telegram:a b"] {
        assert_eq!(chat.link("ana", odd).await.status, 422, "{odd}");
    }
    let other = chat.delete("/v1/people/finn/senders/telegram:7").await;
    assert_eq!(other.error(), (404, "not_found".to_owned()));
    assert_eq!(chat.delete("/v1/people/ana/senders/telegram:7").await.status, 204);
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "nothing");
    assert_eq!((chat.status().await, chat.ran()), (json!("pending"), 0));
}

/// An id that is also the name of an account could mean either, so it decides nothing.
#[tokio::test]
async fn e4_a_sender_that_is_also_a_name_is_nobody() {
    let chat = Chat::new().await;
    chat.add(json!({ "name": "telegram:9" })).await.good();
    assert_eq!(
        chat.link("ana", "telegram:9").await.error(),
        (409, "exists".to_owned())
    );
    chat.link("ana", "telegram:7").await.good();
    chat.add(json!({ "name": "telegram:7" })).await.good();
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "nothing");
    assert_eq!((chat.status().await, chat.ran()), (json!("pending"), 0));
}

/// Links and people of one tenant mean nothing in another.
#[tokio::test]
async fn h01_an_admin_manages_the_people_of_one_tenant_alone() {
    let chat = Chat::new().await;
    let foreign = chat.service.with_scope("other", Scope::Admin).await;
    let people = chat.service.get(&foreign, "/v1/people").await.good();
    assert_eq!(people["people"], json!([]));
    let gone = request(Method::DELETE, "/v1/people/ana", Some(&foreign), "");
    assert_eq!(chat.service.ask(gone).await.status, 404);
    let made = chat
        .service
        .post(&foreign, "/v1/people", r#"{"name":"eve"}"#)
        .await;
    made.good();
    let body = r#"{"sender":"telegram:7"}"#;
    chat.service
        .post(&foreign, "/v1/people/eve/senders", body)
        .await
        .good();
    assert_eq!(chat.say("telegram:7", "yes").await["happened"], "nothing");
    assert_eq!((chat.status().await, chat.ran()), (json!("pending"), 0));
}
