//! Replies to real cards, over HTTP: what hostile words do, and what honest ones do. `replies/phrases.txt` has the
//! wording of 26 languages; the forms are put together here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use countersign_server::access::Scope;
use serde_json::{Value, json};

use crate::support::Service;

const PHRASES: &str = include_str!("replies/phrases.txt");

const POLICY: &str = r#"
[channel]
on_other = "keep"

[agents]
most_pending = "unlimited"
proposals_per_minute = "unlimited"

[tools.send_note]
effect = "write"
summary = "Send note to {{ to }}"

[tools.delete_page]
effect = "destructive"
summary = "Delete page {{ name }}"
yes = "Delete"
no = "Keep"

[tools.seite_entfernen]
effect = "write"
title = "Seite entfernen"
summary = "Seite {{ name }} entfernen"
yes = "Ja, entfernen"
no = "Nein, behalten"

[tools.borrar_pagina]
effect = "write"
summary = "Borrar la página {{ name }}"
yes = "Sí, borrar"
no = "No, dejar"

[tools.cancel_order]
effect = "write"
summary = "Cancel order {{ id }}"

[tools.plain]
effect = "write"
"#;

const TOOLS: [&str; 6] = [
    "send_note",
    "delete_page",
    "seite_entfernen",
    "borrar_pagina",
    "cancel_order",
    "plain",
];

/// A chat channel with a pending card, and a record of the calls that ran.
struct Chat {
    service: Service,
    agent: String,
    adapter: String,
    ran: Arc<Mutex<Vec<String>>>,
    number: u32,
}

impl Chat {
    async fn new() -> Chat {
        let (service, ran) = Service::recording(POLICY, &TOOLS).await;
        let agent = service.agent("crm").await;
        let adapter = service.with_scope("main", Scope::Reply).await;
        Chat {
            service,
            agent,
            adapter,
            ran,
            number: 0,
        }
    }

    /// Proposes a call that is like no other, and posts its card in this language.
    async fn show(&mut self, tool: &str, arguments: &Value, language: Option<&str>) {
        self.number += 1;
        let mut arguments = arguments.clone();
        arguments["turn"] = json!(self.number);
        let body = json!({ "calls": [{ "tool": tool, "arguments": arguments }], "channel": "chat" });
        self.service
            .post(&self.agent, "/v1/calls", &body.to_string())
            .await
            .good();
        let pending = self
            .service
            .get(&self.adapter, "/v1/channels/chat/pending")
            .await
            .good();
        let shown =
            json!({ "messageId": "card", "digest": pending["pending"]["digest"], "language": language });
        self.service
            .post(&self.adapter, "/v1/channels/chat/shown", &shown.to_string())
            .await
            .good();
    }

    /// Says something to the card that stands there; nobody says which language it is in.
    async fn say(&mut self, text: &str) -> Value {
        self.number += 1;
        let body = json!({
            "text": text, "sender": "ana", "messageId": format!("m{}", self.number), "after": "card",
        });
        let path = "/v1/channels/chat/replies";
        self.service
            .post(&self.adapter, path, &body.to_string())
            .await
            .good()
    }

    fn ran(&self) -> usize {
        self.ran.lock().unwrap().len()
    }

    /// Says all of these to one card after the other; gives those that approved it. A control then runs the card.
    async fn approvals(
        &mut self,
        replies: &[String],
        tool: &str,
        arguments: &Value,
        language: Option<&str>,
    ) -> Vec<String> {
        let mut approved = Vec::new();
        let mut is_shown = false;
        for reply in replies {
            if !is_shown {
                self.show(tool, arguments, language).await;
            }
            let before = self.ran();
            let said = self.say(reply).await;
            is_shown = said["happened"] != "denied" && self.ran() == before;
            if said["reading"] == "yes" || self.ran() != before {
                approved.push(format!("{reply:?} to {tool}: {said}"));
            }
        }
        if !is_shown {
            self.show(tool, arguments, language).await;
        }
        let before = self.ran();
        let yes = if language == Some("es") { "sí" } else { "yes" };
        let said = self.say(yes).await;
        assert_eq!(
            self.ran(),
            before + 1,
            "the card was there to be approved: {said}"
        );
        approved
    }
}

/// Each language's lists, by name.
fn phrases() -> BTreeMap<&'static str, BTreeMap<&'static str, Vec<&'static str>>> {
    let mut languages: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    let mut tag = "";
    for line in PHRASES.lines().filter(|line| !line.starts_with('#')) {
        if let Some(next) = line.strip_prefix("@ ") {
            tag = next;
        } else if let Some((name, list)) = line.split_once('=') {
            let list = list.split('|').map(str::trim).collect();
            languages.entry(tag).or_default().insert(name.trim(), list);
        }
    }
    languages
}

/// Everything hostile that can be put together from one language's lists.
fn hostile(lists: &BTreeMap<&str, Vec<&str>>) -> BTreeSet<String> {
    let mut replies = BTreeSet::new();
    let list = |name: &str| lists.get(name).into_iter().flatten().copied();
    for yes in list("yes") {
        for refusal in list("refuse") {
            replies.insert(format!("{yes}, {refusal}"));
            replies.insert(format!("{yes} {refusal}"));
            replies.insert(format!("{refusal}, {yes}"));
        }
        for end in list("unless")
            .chain(list("later"))
            .chain(list("other"))
            .chain(list("negated"))
        {
            replies.insert(format!("{yes}, {end}"));
        }
        for (before, after) in [
            ("", "?"),
            ("{\"approved\":\"", "\"}"),
            ("approved: ", ""),
            ("[", "]"),
            ("--", ""),
            ("/", ""),
            ("> ", ""),
            ("`", "`"),
            ("\"", "\" (Bob)"),
            ("Ana: \"", "\""),
            ("qz", ""),
            ("", "qz"),
            ("", "\u{200b}"),
            ("\u{202e}", ""),
            ("\u{feff}", ""),
            ("", " :("),
            ("", " / no"),
            ("", "=1"),
            ("<b>", "</b>"),
        ] {
            replies.insert(format!("{before}{yes}{after}"));
        }
    }
    for question in list("ask") {
        replies.insert(format!("{question}?"));
        for yes in list("yes") {
            replies.insert(format!("{yes}. {question}?"));
        }
    }
    for alone in list("negated")
        .chain(list("shrug"))
        .chain(list("later"))
        .chain(list("other"))
    {
        replies.insert(alone.to_owned());
    }
    replies
}

#[tokio::test]
async fn x54_x72_no_hostile_reply_in_any_language_runs_anything() {
    let languages = phrases();
    assert!(languages.len() >= 14, "{}", languages.len());
    let all: BTreeSet<String> = languages.values().flat_map(hostile).collect();
    assert!(all.len() >= 1000, "{}", all.len());
    let mut chat = Chat::new().await;
    let mut approved = Vec::new();
    let name = json!({ "to": "Bob", "name": "Home" });
    let cards = [
        ("send_note", None),
        ("delete_page", None),
        ("seite_entfernen", None),
        ("borrar_pagina", Some("es")),
    ];
    // Each reply goes to one of the cards, each language's to all of them.
    for (at, (tool, language)) in cards.into_iter().enumerate() {
        let some: Vec<String> = all.iter().skip(at).step_by(cards.len()).cloned().collect();
        approved.extend(chat.approvals(&some, tool, &name, language).await);
    }
    assert!(
        approved.is_empty(),
        "{} approved:\n{}",
        approved.len(),
        approved.join("\n")
    );
    assert_eq!(chat.ran(), 4, "the four controls alone");
}

/// The control of the test above: what is honest does run.
#[tokio::test]
async fn c4_honest_approvals_in_every_language_run() {
    let mut chat = Chat::new().await;
    let mut unheard = Vec::new();
    let mut count = 0;
    for (tag, lists) in phrases() {
        for reply in lists["honest"].iter() {
            count += 1;
            chat.show("send_note", &json!({ "to": "Bob" }), None).await;
            let before = chat.ran();
            let said = chat.say(reply).await;
            if chat.ran() != before + 1 {
                unheard.push(format!("{tag} {reply:?}: {}", said["reading"]));
            }
        }
    }
    assert!(count >= 100, "{count}");
    assert!(unheard.is_empty(), "{}", unheard.join("\n"));
}

#[tokio::test]
async fn x54_a_word_of_refusal_beside_a_yes_never_approves() {
    let mut chat = Chat::new().await;
    let replies = [
        "yes, cancel it",
        "go ahead and cancel",
        "sure, cancel",
        "sí, cancela",
        "sí, cancélalo",
        "please do cancel",
        "confirm the cancellation",
        "✅ cancel",
        "yes please cancel",
        "ok cancel that",
        "yes, stop",
        "go ahead, abort",
        "proceed to cancel",
        "yes to cancel",
        "i confirm, cancel it",
    ]
    .map(str::to_owned);
    for (tool, language) in [
        ("send_note", None),
        ("delete_page", None),
        ("send_note", Some("es")),
        ("plain", None),
    ] {
        // An argument that has the word makes no difference.
        for to in ["Bob", "cancel it", "no to cancel", "cancelar"] {
            let arguments = json!({ "to": to, "name": to });
            let approved = chat.approvals(&replies, tool, &arguments, language).await;
            assert!(approved.is_empty(), "{}", approved.join("\n"));
        }
    }
    // Where cancelling is what was offered, a yes may say so; the word alone may not.
    let order = json!({ "id": 55 });
    let approved = chat
        .approvals(
            &["cancel".to_owned(), "cancel it".to_owned()],
            "cancel_order",
            &order,
            None,
        )
        .await;
    assert!(approved.is_empty(), "{}", approved.join("\n"));
    chat.show("cancel_order", &order, None).await;
    let before = chat.ran();
    let said = chat.say("yes, cancel it").await;
    assert_eq!((chat.ran(), &said["reading"]), (before + 1, &json!("yes")));
}

#[tokio::test]
async fn x55_no_argument_teaches_a_reply_to_be_a_yes() {
    let mut chat = Chat::new().await;
    let values = [
        "x/y.txt",
        "hm/no",
        "🤔/👎",
        "1/2",
        "hi/bye",
        "us/them",
        "لا/نعم",
        "不/是",
        "ei/joo",
        "reply lovely to confirm",
        "lovely",
        "zebra",
        "delete everything (lovely/no)",
        "Sunday",
        "say hm to confirm",
    ];
    let replies = [
        "X",
        "x",
        "hm",
        "🤔",
        "1",
        "hi",
        "us",
        "لا",
        "不",
        "ei",
        "lovely",
        "yes, Sunday",
        "yes, everything",
        "Sunday",
        "yes zebra",
        "2",
        "the second",
        "y.txt",
    ]
    .map(str::to_owned);
    for tool in ["send_note", "plain", "delete_page"] {
        for value in values {
            let arguments = json!({ "to": value, "name": value });
            let approved = chat.approvals(&replies, tool, &arguments, None).await;
            assert!(approved.is_empty(), "{}", approved.join("\n"));
        }
    }
}

#[tokio::test]
async fn x72_sarcasm_code_courtesy_and_farewells_approve_nothing() {
    let mut chat = Chat::new().await;
    let replies = [
        "yeah right",
        "{\"approved\":true}",
        "approved: true",
        "approve()",
        "--yes",
        "-y",
        "/approve",
        "да ну",
        "jaja",
        "please",
        "great, just great",
        "great",
        "i'd like you to confirm that please",
        "can you confirm",
        "yeah thats all for the day",
        "yes, that's all for today, thanks",
        "зүгээр",
        "haha yes",
        "yes 😂",
        "yes-man",
    ]
    .map(str::to_owned);
    for (tool, language) in [
        ("send_note", None),
        ("delete_page", None),
        ("send_note", Some("es")),
    ] {
        let approved = chat
            .approvals(&replies, tool, &json!({ "to": "Bob", "name": "Home" }), language)
            .await;
        assert!(approved.is_empty(), "{}", approved.join("\n"));
    }
}

#[tokio::test]
async fn c4_the_words_of_the_sources_decide_without_a_language() {
    let mut chat = Chat::new().await;
    let arguments = json!({ "to": "Bob", "name": "Home" });
    for word in [
        "yes", "y", "Y", "yeah", "ok", "okay", "k", "sure", "proceed", "go ahead", "confirm", "do it",
    ] {
        chat.show("send_note", &arguments, None).await;
        let before = chat.ran();
        let said = chat.say(word).await;
        assert_eq!(chat.ran(), before + 1, "{word}: {said}");
    }
    for word in [
        "no",
        "n",
        "N",
        "nope",
        "cancel",
        "stop",
        "abort",
        "don't",
        "nevermind",
    ] {
        chat.show("send_note", &arguments, None).await;
        let said = chat.say(word).await;
        assert_eq!(said["happened"], "denied", "{word}: {said}");
    }
    // What is destructive takes a yes, and the person is told so.
    for word in ["ok", "okay", "k"] {
        chat.show("delete_page", &arguments, None).await;
        let before = chat.ran();
        let said = chat.say(word).await;
        assert_eq!(chat.ran(), before, "X09 {word}: {said}");
        assert!(said["say"].as_str().unwrap().contains("\"Delete\""), "{said}");
        assert_eq!(chat.say("y").await["happened"], "approved");
    }
}

#[tokio::test]
async fn the_language_of_the_card_decides_how_its_answer_is_read() {
    let mut chat = Chat::new().await;
    let arguments = json!({ "to": "Bob", "name": "Home" });
    for (tool, language, text, happened) in [
        ("send_note", Some("es"), "sí", "approved"),
        ("send_note", Some("es"), "s", "approved"),
        ("send_note", Some("es"), "no", "denied"),
        ("send_note", Some("es"), "yes", "approved"),
        ("borrar_pagina", Some("es"), "bórrala", "approved"),
        ("borrar_pagina", None, "sí, borrar", "approved"),
        ("seite_entfernen", None, "ja", "approved"),
        ("seite_entfernen", None, "nein", "denied"),
        ("seite_entfernen", None, "Ja, entfernen", "approved"),
        // Letters that mean yes here and no there are not taken from a language nobody named.
        ("send_note", None, "jo", "kept"),
        ("send_note", None, "s", "kept"),
        // The act's own name, where it is the label.
        ("delete_page", None, "delete", "approved"),
        ("delete_page", None, "Delete it", "approved"),
        ("delete_page", None, "keep it", "denied"),
        ("send_note", None, "Delete it", "kept"),
        ("borrar_pagina", None, "delete it", "kept"),
        ("send_note", None, "send it", "approved"),
        ("send_note", None, "yes, send the note", "approved"),
    ] {
        chat.show(tool, &arguments, language).await;
        let said = chat.say(text).await;
        assert_eq!(
            said["happened"], happened,
            "{text:?} to {tool} in {language:?}: {said}"
        );
    }
}

/// Found by an outsider: each of these ran the call once. "no" is a little word of Portuguese, "Rob" a word of Polish, and
/// whatever repeated the act with little words around it was taken for an echo of the offer.
const FOUND: &str = include_str!("replies/found.txt");

#[tokio::test]
async fn x54_what_only_sounds_like_a_yes_runs_nothing() {
    let mut chat = Chat::new().await;
    let mut approved = Vec::new();
    let lists: Vec<(&str, Vec<String>)> = FOUND
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(tool, list)| {
            let replies = list.split('|').map(|reply| reply.trim().to_owned());
            (tool.trim(), replies.collect())
        })
        .collect();
    let count: usize = lists.iter().map(|(_, replies)| replies.len()).sum();
    assert!(count >= 110, "{count}");
    let arguments = json!({ "to": "x@y.z", "name": "Home", "id": 7 });
    for (tool, replies) in &lists {
        let language = (*tool == "borrar_pagina").then_some("es");
        approved.extend(chat.approvals(replies, tool, &arguments, language).await);
    }
    assert!(
        approved.is_empty(),
        "{} approved:\n{}",
        approved.len(),
        approved.join("\n")
    );
}
