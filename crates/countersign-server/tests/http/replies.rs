//! Hostile and honest replies to real cards, over HTTP. `replies/phrases.txt` has the wording of 26 languages; the
//! forms are combined here.

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

[tools.kontakt_loeschen]
effect = "write"
title = "Kontakt löschen"
summary = "Kontakt {{ name }} löschen"
yes = "Löschen"
no = "Behalten"

[tools.usun_kontakt]
effect = "write"
title = "Usuń kontakt"
summary = "Usuń kontakt {{ name }}"
yes = "Usuń"
no = "Zostaw"

[tools.delete_contact]
effect = "write"
summary = "Delete contact {{ id }}"

[tools.cancel_order]
effect = "write"
summary = "Cancel order {{ id }}"

[tools.merge_page]
effect = "write"
summary = "Keep new page instead of the old {{ name }}"
yes = "Keep new"
no = "Keep old"

[tools.plain]
effect = "write"
"#;

const TOOLS: [&str; 10] = [
    "merge_page",
    "kontakt_loeschen",
    "usun_kontakt",
    "delete_contact",
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
        Chat::with(POLICY).await
    }

    async fn with(policy: &str) -> Chat {
        Chat::with_tools(policy, &TOOLS).await
    }

    async fn with_tools(policy: &str, tools: &[&'static str]) -> Chat {
        let (service, ran) = Service::recording(policy, tools).await;
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

    /// Proposes a call with arguments that no earlier call had, and shows its card in this language.
    async fn show(&mut self, tool: &str, arguments: &Value, language: Option<&str>) {
        self.show_several(&[tool], arguments, language).await;
    }

    /// Like `show`, with several calls on one card.
    async fn show_several(&mut self, tools: &[&str], arguments: &Value, language: Option<&str>) {
        let calls: Vec<(&str, &Value)> = tools.iter().map(|tool| (*tool, arguments)).collect();
        self.show_calls(&calls, language).await;
    }

    async fn show_each(&mut self, tool: &str, arguments: &[Value]) {
        let calls: Vec<(&str, &Value)> = arguments.iter().map(|arguments| (tool, arguments)).collect();
        self.show_calls(&calls, None).await;
    }

    async fn show_calls(&mut self, proposed: &[(&str, &Value)], language: Option<&str>) {
        let mut calls = Vec::new();
        for (tool, arguments) in proposed {
            self.number += 1;
            let mut arguments = (*arguments).clone();
            // Not a number, which a reply could mean.
            arguments["turn"] = json!(format!("t{}", self.number));
            calls.push(json!({ "tool": tool, "arguments": arguments }));
        }
        let body = json!({ "calls": calls, "channel": "chat" });
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

    /// Replies to the current card, without giving a language.
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

    /// Sends these replies one after the other and returns those that approved. Shows a new card whenever the last one
    /// has ended. At the end a plain yes proves that the card could be approved.
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

/// Returns the lists of each language, by name.
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

/// Returns all hostile replies that can be combined from one language's lists.
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
    // Each reply goes to one of the cards, and each language's replies to all of them.
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

/// Control for the test above: honest replies do run.
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
        // An argument that contains the word makes no difference.
        for to in ["Bob", "cancel it", "no to cancel", "cancelar"] {
            let arguments = json!({ "to": to, "name": to });
            let approved = chat.approvals(&replies, tool, &arguments, language).await;
            assert!(approved.is_empty(), "{}", approved.join("\n"));
        }
    }
    // If cancelling is the offered act, a yes may say so; the word alone may not.
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
    // A destructive call takes a yes, and the person is told so.
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
        // Letters that mean yes in one language and no in another do not count if no language is given.
        ("send_note", None, "jo", "kept"),
        ("send_note", None, "s", "kept"),
        // The act's own name, which is also the label.
        ("delete_page", None, "delete", "approved"),
        ("delete_page", None, "Delete it", "approved"),
        ("delete_page", None, "keep it", "denied"),
        ("send_note", None, "Delete it", "kept"),
        ("borrar_pagina", None, "delete it", "kept"),
        // Without a label of its own, a card takes the act's name only after a yes.
        ("send_note", None, "send it", "kept"),
        ("send_note", None, "yes, send it", "approved"),
        ("send_note", None, "yes, send the note", "approved"),
        // The operator's own words tell the language if none is given.
        ("kontakt_loeschen", None, "ja, löschen", "approved"),
        ("kontakt_loeschen", None, "Löschen", "approved"),
        ("kontakt_loeschen", None, "ja, lösche den Kontakt", "approved"),
        ("kontakt_loeschen", None, "ja", "approved"),
        ("kontakt_loeschen", None, "klar", "approved"),
        ("kontakt_loeschen", None, "nein", "denied"),
        ("kontakt_loeschen", None, "nein, behalten", "denied"),
        ("kontakt_loeschen", None, "nicht löschen", "denied"),
        ("usun_kontakt", None, "tak", "approved"),
        ("usun_kontakt", None, "tak, usuń", "approved"),
        ("usun_kontakt", None, "nie", "denied"),
        // A language given with the card counts, even if it has no sentences.
        ("send_note", Some("de"), "klar", "approved"),
        ("send_note", Some("de"), "gerne", "approved"),
        ("send_note", Some("de-AT"), "nein", "denied"),
        ("send_note", Some("pl"), "tak", "approved"),
        // Nor does a letter to a card in another language than English.
        ("send_note", Some("de"), "y", "kept"),
        ("send_note", Some("de"), "n", "denied"),
        ("send_note", Some("de"), "no", "denied"),
        // Other words for the act, and what people say before it.
        ("delete_contact", None, "remove the contact", "kept"),
        ("delete_contact", None, "yes, remove the contact", "approved"),
        ("delete_contact", None, "yes, you can delete it", "approved"),
        ("delete_page", None, "you can delete it", "approved"),
        ("delete_contact", None, "fine", "approved"),
        ("delete_page", None, "remove the page", "approved"),
        ("delete_page", None, "fine", "show_again"),
        // A number may be another call's; it is not compared with the card.
        ("delete_contact", None, "delete contact 7", "kept"),
    ] {
        chat.show(tool, &arguments, language).await;
        let said = chat.say(text).await;
        assert_eq!(
            said["happened"], happened,
            "{text:?} to {tool} in {language:?}: {said}"
        );
    }
}

/// Replies found by outside testing, each of which once ran the call. For example, "no" is a preposition in Portuguese,
/// "Rob" is a Polish verb, and a reply that repeated the act with filler words counted as a yes.
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
        let (tool, language) = match tool.split_once('@') {
            Some((tool, language)) => (tool, Some(language)),
            None => (*tool, (*tool == "borrar_pagina").then_some("es")),
        };
        approved.extend(chat.approvals(replies, tool, &arguments, language).await);
    }
    assert!(
        approved.is_empty(),
        "{} approved:\n{}",
        approved.len(),
        approved.join("\n")
    );
}

/// Plain words for yes, each in reply to a card in its own language.
#[tokio::test]
async fn c4_plain_yes_words_run_in_the_language_of_the_card() {
    let mut chat = Chat::new().await;
    let mut unheard = Vec::new();
    for (language, replies) in [
        ("en", &["lgtm", "LGTM", "yes!", "hi yes please", "hello, yes"][..]),
        ("de", &["passt", "ja", "jawohl", "ja, passt"]),
        ("es", &["dale", "vale", "sí", "va"]),
        ("fr", &["d'accord", "oui", "D’accord"]),
        ("it", &["va bene", "sì"]),
        ("ja", &["はい", "はい。", "お願いします", "承認します"]),
        ("zh", &["好的", "好", "是的", "可以"]),
        ("ko", &["네", "예", "네, 진행해 주세요"]),
        (
            "th",
            &[
                "ได้",
                "ได้ครับ",
                "ได้ค่ะ",
                "ใช่",
                "ใช่ครับ",
                "ใช่ค่ะ",
                "ตกลง",
                "ตกลงครับ",
                "ยืนยัน",
                "ครับ",
                "ค่ะ",
            ],
        ),
        ("bg", &["да", "добре", "потвърждавам", "съгласен съм"]),
        ("fa", &["بله", "تایید می‌کنم", "موافقم"]),
    ] {
        for reply in replies {
            chat.show("send_note", &json!({ "to": "Bob" }), Some(language))
                .await;
            let before = chat.ran();
            let said = chat.say(reply).await;
            if chat.ran() != before + 1 {
                unheard.push(format!(
                    "{language} {reply:?}: {} {}",
                    said["reading"], said["why"]
                ));
            }
        }
    }
    assert!(unheard.is_empty(), "{}", unheard.join("\n"));
}

/// A card with several calls is approved as a whole by "all" and by its act with "them"; "it" may mean only one of
/// them.
#[tokio::test]
async fn a16_all_of_several_calls_are_granted_by_all() {
    let mut chat = Chat::new().await;
    let arguments = json!({ "to": "Bob", "name": "Home", "id": 7 });
    let mut wrong = Vec::new();
    for (tool, language, reply, runs) in [
        ("delete_page", None, "delete them", 3),
        ("delete_page", None, "Delete them all.", 3),
        ("delete_page", None, "yes, delete all of them", 3),
        ("delete_page", None, "remove them", 3),
        ("delete_page", None, "yes all", 3),
        ("delete_page", None, "yes, all of them please", 3),
        ("delete_page", None, "approve all", 3),
        ("delete_page", None, "yes to all", 3),
        ("delete_page", None, "yes", 3),
        // A destructive card takes more than "all".
        ("delete_page", None, "all", 0),
        ("send_note", None, "all", 3),
        ("send_note", None, "all of them", 3),
        ("send_note", None, "send them", 0),
        ("send_note", None, "yes, send them", 3),
        ("send_note", Some("de"), "ja, alle", 3),
        ("send_note", Some("es"), "sí, todas", 3),
        ("send_note", None, "all but the second", 2),
        ("send_note", None, "all but number 2", 2),
        ("send_note", None, "all but 2", 0),
        ("send_note", None, "all except 2", 0),
        ("send_note", None, "only 2", 0),
        ("send_note", None, "all...", 0),
        ("send_note", None, "all?", 0),
        ("send_note", None, "not all", 0),
        ("send_note", None, "thats all", 0),
        ("send_note", None, "all good", 0),
        ("send_note", None, "all thanks", 0),
        ("send_note", None, "all or nothing", 0),
        ("send_note", None, "cancel all", 0),
        ("send_note", None, "delete them", 0),
        ("delete_page", None, "delete it", 0),
        ("delete_page", None, "keep them", 0),
        ("delete_page", None, "delete them later", 0),
        ("delete_page", None, "delete them or keep", 0),
        ("delete_page", None, "\"all\"", 0),
    ] {
        chat.show_several(&[tool; 3], &arguments, language).await;
        let before = chat.ran();
        let said = chat.say(reply).await;
        if chat.ran() != before + runs {
            wrong.push(format!(
                "{reply:?} to {tool}: {} instead of {runs}, {said}",
                chat.ran() - before
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // With only one call, "all" is not an answer.
    let said: Vec<String> = ["all", "yes all", "approve all", "delete them"]
        .map(str::to_owned)
        .to_vec();
    for tool in ["send_note", "delete_page"] {
        let approved = chat.approvals(&said, tool, &arguments, None).await;
        assert!(approved.is_empty(), "{}", approved.join("\n"));
    }
}

/// "Only number 2" means the second call, or the call with the number 2; "all but the third" the third call, or the page
/// called "third". With such a value elsewhere on the card, the person is asked again.
#[tokio::test]
async fn a16_a_number_that_is_also_a_value_is_asked_again() {
    let mut chat = Chat::new().await;
    let ids = |ids: [Value; 3]| ids.map(|id| json!({ "to": "Bob", "name": "Home", "id": id }));
    let shifted = ids([json!(2), json!(3), json!(4)]);
    let own = ids([json!(1), json!(2), json!(3)]);
    let words = ids([json!("ticket 2"), json!("x"), json!("#1")]);
    let unrelated = ids([json!("2026-11-02"), json!(20), json!("v20")]);
    let named = ids([json!("second"), json!("Third page"), json!("first")]);
    let rooms = ids([json!("room-2"), json!("Q3"), json!("drei")]);
    let last = ids([json!("the last one"), json!("x"), json!("y")]);
    let mut wrong = Vec::new();
    for (arguments, reply, runs) in [
        (&shifted, "only number 2", 0),
        (&shifted, "all but number 2", 0),
        (&shifted, "only 1 and 3", 0),
        (&shifted, "only the second", 1),
        (&shifted, "all but the second", 2),
        (&shifted, "yes", 3),
        (&own, "only number 2", 1),
        (&own, "only 1 and 3", 2),
        (&words, "only number 1", 0),
        (&words, "all but number 2", 0),
        (&words, "all but number 3", 2),
        (&unrelated, "only number 2", 1),
        (&unrelated, "all but the third", 2),
        (&named, "all but the third", 0),
        (&named, "only the first", 0),
        (&named, "only 1 and 3", 0),
        (&named, "yes", 3),
        (&rooms, "only 1 and 3", 0),
        (&rooms, "all but the third", 0),
        (&rooms, "only the first", 1),
        (&last, "all but the last", 0),
        (&named, "all but the third action", 2),
        (&rooms, "only actions 1 and 3", 2),
        (&shifted, "all but action 2", 2),
        (&shifted, "todas menos la acción 2", 2),
    ] {
        chat.show_each("send_note", arguments).await;
        let before = chat.ran();
        let said = chat.say(reply).await;
        if chat.ran() != before + runs {
            wrong.push(format!("{arguments:?} {reply:?}: {}", said["why"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    chat.show_each("send_note", &shifted).await;
    let said = chat.say("only number 2").await;
    assert_eq!(said["reading"], "other", "{said}");
}

/// A possible answer cancels nothing, even under a policy that takes any other message for a change of plan.
#[tokio::test]
async fn x54_an_unclear_answer_is_asked_again_and_cancels_nothing() {
    let policy = POLICY.replace("on_other = \"keep\"", "on_other = \"cancel\"");
    let policy = policy.replace(
        "[tools.plain]",
        "[tools.send_note2]\neffect = \"write\"\n\n[tools.plain]\nyes = \"Stop\"\nno = \"Leave it\"",
    );
    let mut chat = Chat::with(&policy).await;
    let arguments = json!({ "to": "Bob", "name": "Home" });
    for (tools, reply, told) in [
        (&["plain"][..], "stop", "more than one thing"),
        (&["plain"], "Stop!", "more than one thing"),
        (&["send_note"], "yes...", "more than one thing"),
        (&["send_note"], "\"yes\"", "more than one thing"),
        (&["merge_page"], "keep new old", "more than one thing"),
        (&["send_note"; 3], "all but 2", "all but number 2"),
        (&["send_note"; 3], "only 2", "all but number 2"),
    ] {
        chat.show_several(tools, &arguments, None).await;
        let before = chat.ran();
        let said = chat.say(reply).await;
        assert_eq!(said["happened"], "show_again", "{reply}: {said}");
        assert_eq!(chat.ran(), before, "{reply}");
        assert!(said["say"].as_str().unwrap().contains(told), "{reply}: {said}");
        // The card is still pending, and a plain answer counts.
        let said = chat.say("yes").await;
        assert_eq!(said["happened"], "approved", "{reply}: {said}");
    }
    // With a yes beside it, the label is plain; and another subject still cancels.
    chat.show("plain", &arguments, None).await;
    assert_eq!(chat.say("yes, stop").await["happened"], "approved");
    chat.show("send_note", &arguments, None).await;
    assert_eq!(
        chat.say("what is the weather like").await["happened"],
        "cancelled"
    );
}

/// The cards and replies of the library's own test, one card per line with its labels and language. The replies in
/// `replies` once approved the card by mistake; those in `approves` are honest answers.
const MISTAKEN: &str = include_str!("../../../countersign/tests/gate/replies/mistaken.jsonl");

#[tokio::test]
async fn x54_what_means_the_other_label_or_another_word_runs_nothing() {
    let rows: Vec<Value> = MISTAKEN
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut policy = POLICY.split("[tools.").next().unwrap().to_owned();
    let mut tools: Vec<&'static str> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        tools.push(format!("tool_{number}").leak());
        policy.push_str(&format!("[tools.tool_{number}]\n"));
        for key in ["effect", "title", "summary", "yes", "no"] {
            if row[key].is_string() {
                policy.push_str(&format!("{key} = {}\n", row[key]));
            }
        }
    }
    let mut chat = Chat::with_tools(&policy, &tools).await;
    let arguments = json!({ "name": "Home", "to": "Bob", "id": 7 });
    let (mut count, mut wrong) = (0, Vec::new());
    for (row, tool) in rows.iter().zip(&tools) {
        let calls = usize::try_from(row["calls"].as_u64().unwrap_or(1)).unwrap();
        let mut is_shown = false;
        for (key, runs) in [("replies", 0), ("approves", calls)] {
            for reply in row[key].as_array().into_iter().flatten() {
                count += 1;
                if !is_shown {
                    chat.show_several(&vec![*tool; calls], &arguments, row["language"].as_str())
                        .await;
                }
                let before = chat.ran();
                let said = chat.say(reply.as_str().unwrap()).await;
                is_shown = said["happened"] != "denied" && chat.ran() == before;
                if chat.ran() != before + runs {
                    wrong.push(format!("{reply} to {} / {}: {said}", row["yes"], row["no"]));
                }
            }
        }
        // The next card must not be taken for this one.
        if is_shown {
            chat.say("no").await;
        }
    }
    assert!(count >= 800, "{count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
