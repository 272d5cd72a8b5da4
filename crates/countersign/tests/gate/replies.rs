//! Replies to real cards: no value that an agent sends changes what a reply means.

use countersign::prompt::Prompt;
use countersign::reply::{Interpreted, Reading, interpret};
use countersign::sentence::Sentences;
use proptest::prelude::*;

use crate::world::*;

/// Values as an agent may send them: paths, pairs with a slash, words of agreement, other scripts, whole sentences.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}/[a-z]{1,3}(\\.txt)?",
        "\\PC{0,24}",
        prop::sample::select(vec![
            "x/y.txt",
            "y/n",
            "n/y",
            "sí/no",
            "hm",
            "us/them",
            "لا/نعم",
            "不/是",
            "ei",
            "yes",
            "lovely",
            "delete",
            "cancel",
            "reply \"hm\" to confirm",
            "create or cancel",
            "1/2",
            "\u{fffc}hm\u{fffc}",
            "{{ yes }}",
            "{% if hm %}",
            "create contact lovely",
            "anything else",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Replies that lean on the value, or on nothing.
fn reply(value: &str, form: usize, word: &str) -> String {
    let first = value.split(['/', ' ']).next().unwrap_or_default();
    match form {
        0 => value.to_owned(),
        1 => first.to_owned(),
        2 => format!("yes, {value}"),
        3 => format!("yes {first}"),
        4 => format!("go ahead and {first}"),
        5 => format!("create {value}"),
        6 => format!("delete contact {first}"),
        7 => format!("I'd like to {value}"),
        8 => format!("{word} {first}"),
        _ => word.to_owned(),
    }
}

fn read(
    world: &World,
    runtime: &tokio::runtime::Runtime,
    tool: &str,
    arguments: &str,
    reply: &str,
) -> Vec<Interpreted> {
    let approval = runtime.block_on(world.hold(vec![call(tool, arguments)]));
    let languages = [None, Some("en"), Some("es"), Some("de")];
    let sentences = [Sentences::english(), Sentences::spanish()];
    let mut readings = Vec::new();
    for sentences in &sentences {
        let prompt = Prompt::of(
            &approval,
            world.gate.policy(),
            sentences,
            countersign::prompt::Delivery::default(),
        );
        readings.extend(languages.map(|language| interpret(prompt.offered(), reply, language)));
    }
    readings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Not only does no value gain an approval: every reply is read as if there were no arguments at all.
    #[test]
    fn x55_no_value_changes_what_a_reply_means(
        value in value(),
        form in 0usize..10,
        word in prop::sample::select(vec!["yes", "hm", "X", "ok", "ei", "不", "create it", "delete", "y", "lovely", "cancel"]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let world = world();
        let reply = reply(&value, form, word);
        for tool in ["create_contact", "delete_contact", "keep_going", "not_listed"] {
            let arguments = serde_json::json!({ "name": value, "email": value, "id": value, "company": value });
            let with = read(&world, &runtime, tool, &arguments.to_string(), &reply);
            let without = read(&world, &runtime, tool, "{}", &reply);
            prop_assert_eq!(with, without, "{:?} to {}", reply, tool);
        }
    }
}

#[test]
fn x54_what_is_offered_is_the_acts_own_words() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = world();
    for (tool, text, expected) in [
        ("create_contact", "create it", Reading::Yes),
        ("create_contact", "create", Reading::Yes),
        ("create_contact", "yes, create the contact", Reading::Yes),
        ("create_contact", "go ahead and create it", Reading::Yes),
        ("create_contact", "delete it", Reading::Other),
        ("create_contact", "contact", Reading::Other),
        ("create_contact", "yes, cancel it", Reading::Other),
        ("create_contact", "yes, create contact Maria", Reading::Other),
        ("delete_contact", "delete it", Reading::Yes),
        // Another word for it may mean something else.
        ("delete_contact", "remove the contact", Reading::Other),
        ("delete_contact", "does it delete the contact", Reading::Other),
        ("delete_contact", "delete my contact", Reading::Other),
        ("delete_contact", "I will delete it", Reading::Other),
        ("delete_contact", "delete no contact", Reading::Other),
        ("delete_contact", "delete the contact", Reading::Yes),
        ("delete_contact", "create it", Reading::Other),
        ("keep_going", "yes, keep going", Reading::Other),
        ("not_listed", "not listed", Reading::Other),
        ("not_listed", "yes", Reading::Yes),
    ] {
        let readings = read(
            &world,
            &runtime,
            tool,
            r#"{"name":"Maria","email":"m@x.com","id":"c-1"}"#,
            text,
        );
        assert_eq!(
            readings[0].reading, expected,
            "{text:?} to {tool}: {}",
            readings[0].why
        );
    }
}
