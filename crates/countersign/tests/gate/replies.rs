//! Replies to real cards: no value that an agent sends changes what a reply means.

use countersign::prompt::Prompt;
use countersign::reply::{Interpreted, Reading, interpret};
use countersign::sentence::Sentences;
use proptest::prelude::*;

use crate::world::*;

/// Values that an agent might send: paths, pairs with a slash, words of agreement, other scripts, whole sentences.
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

/// Builds a reply from the value, from its first word, or from `word`; `form` selects which.
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
            countersign::prompt::PromptOptions::default(),
        );
        readings.extend(languages.map(|language| interpret(prompt.offered(), reply, language)));
    }
    readings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Stronger than never gaining an approval: every reply is read as if there were no arguments at all.
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
        // Without a label for the act, its verb needs a yes.
        ("delete_contact", "delete it", Reading::Other),
        ("delete_contact", "yes, delete it", Reading::Yes),
        // Another verb for the same act, and one that could mean something else.
        ("delete_contact", "remove the contact", Reading::Other),
        ("delete_contact", "yes, remove the contact", Reading::Yes),
        ("delete_contact", "yes, clear the contact", Reading::Other),
        ("delete_contact", "does it delete the contact", Reading::Other),
        ("delete_contact", "delete my contact", Reading::Other),
        ("delete_contact", "I will delete it", Reading::Other),
        ("delete_contact", "delete no contact", Reading::Other),
        ("delete_contact", "delete the contact", Reading::Other),
        ("delete_contact", "yes, delete the contact", Reading::Yes),
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

/// Labels that resemble the opposite answer, acts that contain a no, and "it" where there are several calls.
#[test]
fn x54_a_yes_that_may_mean_the_other_label_decides_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = world_with(
        r#"
[tools.block_payment]
effect = "destructive"
title = "Block a payment"
yes = "Block"
no = "Approve"

[tools.stop_reminders]
effect = "write"
title = "Stop sending reminders"
yes = "Stop sending"

[tools.delete_contact]
effect = "destructive"
title = "Delete a contact"
yes = "Delete"
no = "Keep"
"#,
    );
    let mut wrong = Vec::new();
    for (tool, count, replies) in [
        (
            "block_payment",
            1,
            "approved|i approve|yes approve|yes, approve it|sure|yes|accept|confirm|ok|批准|承認します",
        ),
        ("stop_reminders", 1, "yes sending reminders|yes reminders|sending"),
        (
            "delete_contact",
            3,
            "delete it|delete the contact|delete this contact|delete a contact|remove it",
        ),
    ] {
        let calls = (0..count).map(|number| call(tool, &format!(r#"{{"id":{number}}}"#)));
        let approval = runtime.block_on(world.hold(calls.collect()));
        let prompt = Prompt::of(
            &approval,
            world.gate.policy(),
            &Sentences::english(),
            countersign::prompt::PromptOptions::default(),
        );
        for reply in replies.split('|') {
            if interpret(prompt.offered(), reply, None).reading == Reading::Yes {
                wrong.push(format!("{reply} to {tool}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Cards and replies of outside testing, one card per line with its labels, words and language. `replies` once approved
/// the card and must not; `approves` and `denies` are honest answers; `asks` are honest, too, but name the act without a
/// yes, and are asked again.
const MISTAKEN: &str = include_str!("replies/mistaken.jsonl");

/// Reads every reply to its card. Returns the number of replies, and those that are read wrongly.
fn misread(rows: &str) -> (usize, Vec<String>) {
    let rows: Vec<serde_json::Value> = rows
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut policy = String::new();
    for (number, row) in rows.iter().enumerate() {
        policy.push_str(&format!("[tools.tool_{number}]\n"));
        for key in ["effect", "title", "summary", "yes", "no"] {
            if row[key].is_string() {
                policy.push_str(&format!("{key} = {}\n", row[key]));
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = world_with(&policy);
    let conversations = countersign::conversation::Conversations::new(world.gate.clone());
    let (mut count, mut wrong) = (0, Vec::new());
    for (number, row) in rows.iter().enumerate() {
        let calls = (0..row["calls"].as_u64().unwrap_or(1)).map(|at| {
            call(
                &format!("tool_{number}"),
                &format!(r#"{{"name":"Home","to":"Bob","id":{at}}}"#),
            )
        });
        let approval = runtime.block_on(world.hold(calls.collect()));
        let prompt = Prompt::of(
            &approval,
            world.gate.policy(),
            &conversations.sentences(row["language"].as_str()),
            countersign::prompt::PromptOptions::default(),
        );
        for key in ["replies", "approves", "asks", "denies"] {
            for reply in row[key].as_array().into_iter().flatten() {
                count += 1;
                let read = interpret(prompt.offered(), reply.as_str().unwrap(), None);
                let is_read = match key {
                    "replies" => !matches!(read.reading, Reading::Yes | Reading::Part(_)),
                    "approves" => read.reading == Reading::Yes,
                    "asks" => read.reading == Reading::Other && read.why.is_unclear(),
                    _ => read.reading == Reading::No,
                };
                if !is_read {
                    let mut card = row.clone();
                    card.as_object_mut()
                        .unwrap()
                        .retain(|key, _| !["replies", "approves", "asks", "denies"].contains(&key.as_str()));
                    wrong.push(format!("{reply} is {:?} ({}) to {card}", read.reading, read.why));
                }
            }
        }
    }
    (count, wrong)
}

#[test]
fn x54_what_means_the_other_label_or_another_word_approves_nothing() {
    let (count, wrong) = misread(MISTAKEN);
    assert!(count >= 800, "{count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Cards whose own words hold words of another act, with replies that once approved them.
const ACTS: &str = include_str!("replies/acts.jsonl");

#[test]
fn x54_a_word_inside_the_act_does_not_name_it() {
    let (count, wrong) = misread(ACTS);
    assert!(count >= 300, "{count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Acts that object to something, end it or put it off, in words that the lists do not have; and words that negate.
const AGAINST: &str = include_str!("replies/against.jsonl");

#[test]
fn x54_approval_of_what_an_act_objects_to_does_not_approve_the_act() {
    let (count, wrong) = misread(AGAINST);
    assert!(count >= 250, "{count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Honest answers in 35 languages to cards that delete a contact or send a mail, in the same form.
const HONEST: &str = include_str!("replies/honest.jsonl");

#[test]
fn x54_honest_answers_with_the_acts_verb_decide_in_every_language() {
    let (count, wrong) = misread(HONEST);
    assert!(count >= 500, "{count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
