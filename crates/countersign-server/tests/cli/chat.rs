//! `countersign chat`: through a pipe, and on a real pseudo terminal.

use crate::place::Place;
use crate::terminal::Terminal;

const ASK: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";

fn say(place: &Place, lines: &[&str]) -> String {
    let left = place.run_with(&["chat"], format!("{}\n", lines.join("\n")).as_bytes());
    assert_eq!(left.code, 0, "{left:?}");
    assert!(
        left.stderr
            .contains("it follows a script, because there is no key"),
        "{}",
        left.stderr
    );
    left.stdout
}

#[test]
fn a7_a_card_is_answered_through_a_pipe() {
    let place = Place::without_policy();
    let said = say(&place, &[ASK, "yes", "find maria"]);
    for expected in [
        "│ I'll create a new contact with these details:\n│ - Name: Maria Garcia\n",
        "  · create_contact: confirmation required\n",
        "  Create contact Maria Garcia, maria@acme.com, Acme Corp\n",
        "Done! Create contact Maria Garcia, maria@acme.com, Acme Corp\n",
        "│ - Maria Garcia, Acme Corp, maria@acme.com\n",
    ] {
        assert!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "no colours into a pipe: {said:?}");
}

#[test]
fn a6_a_restart_between_the_card_and_the_yes() {
    let place = Place::without_policy();
    say(&place, &[ASK]);
    // The card is shown again first, and then the yes is about it.
    let said = say(&place, &["yes"]);
    assert!(said.starts_with("\nApproval "), "{said}");
    assert!(said.contains("Done! Create contact Maria Garcia"), "{said}");
    let said = say(&place, &["/yes", "find maria", "/history"]);
    assert_eq!(
        said.matches("│ - Maria Garcia, Acme Corp, maria@acme.com\n")
            .count(),
        2,
        "{said}"
    );
    assert!(said.contains(&format!("> {ASK}\n")), "{said}");
}

#[test]
fn a16_a17_some_of_five_and_an_undo() {
    let place = Place::without_policy();
    let five = "Create contacts for Ana, Ben, Cleo, Dan and Eva";
    let said = say(
        &place,
        &[five, "all but the third", "undo", "/yes", "show me my contacts"],
    );
    assert!(said.contains("Left out: Create contact Cleo\n"), "{said}");
    let listed = said.rsplit("list_contacts: ok").next().unwrap();
    for (name, is_there) in [
        ("Ana", true),
        ("Ben", true),
        ("Cleo", false),
        ("Dan", true),
        ("Eva", false),
    ] {
        assert_eq!(
            listed.contains(&format!("│ - {name}\n")),
            is_there,
            "{name}: {listed}"
        );
    }
}

#[test]
fn d6_a_card_of_the_chat_can_be_decided_elsewhere() {
    let place = Place::without_policy();
    say(&place, &[ASK]);
    let listed = place.json(&["list"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    // Decided by somebody whose process runs no tools; the chat runs it when it comes back.
    place.good(&["approve", id]);
    let said = say(&place, &["find maria"]);
    assert!(
        said.contains("│ - Maria Garcia, Acme Corp, maria@acme.com\n"),
        "{said}"
    );
}

#[test]
fn json_is_one_event_per_line() {
    let place = Place::without_policy();
    let left = place.run_with(&["--json", "chat"], format!("{ASK}\nno\n").as_bytes());
    let events: Vec<serde_json::Value> = left
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let held = kinds.iter().position(|kind| *kind == "held").unwrap();
    assert_eq!(
        events[held]["summary"],
        "Create contact Maria Garcia, maria@acme.com, Acme Corp"
    );
    let result = events.iter().find(|event| event["type"] == "result").unwrap();
    assert_eq!(result["requiresConfirmation"], true);
    assert!(kinds.contains(&"say") && kinds.ends_with(&["done"]), "{kinds:?}");
}

#[test]
fn bad_input_is_told_and_nothing_is_made() {
    let place = Place::without_policy();
    let cases: [(&[&str], &str); 4] = [
        (&["chat", "--agent", "nobody"], "there is no agent `nobody`"),
        (
            &["chat", "--model", "ftp://x"],
            "it starts with neither http:// nor https://",
        ),
        (
            &["--server", "http://127.0.0.1:1", "chat"],
            "works at a store, not at a server",
        ),
        (&["chat", "--session", ""], "must not be empty"),
    ];
    for (arguments, expected) in cases {
        let left = place.run(arguments);
        assert!(
            left.code != 0 && left.stderr.contains(expected),
            "{arguments:?}: {left:?}"
        );
    }
    // A model that nobody listens for: the session goes on, and nothing ran.
    let model = ["chat", "--model", "http://127.0.0.1:9/v1", "--model-name", "m"];
    let left = place.run_with(&model, format!("{ASK}\n").as_bytes());
    assert!(left.stderr.contains("the model cannot be reached"), "{left:?}");
    let said = say(&place, &["find maria"]);
    assert!(said.contains("There is no such contact."), "{said}");
}

#[test]
fn x15_what_an_agent_says_does_not_act_on_the_terminal() {
    let place = Place::without_policy();
    place.write("policy.toml", "[tools.look]\neffect = \"read\"\n");
    place.write(
        "tools.json",
        r#"[{"name":"look","description":"d","input_schema":{"type":"object"}}]"#,
    );
    place.write(
        "agent.toml",
        "name = \"evil\"\n[models.m]\nopenai = \"m\"\n[[specialist]]\nname = \"s\"\nabout = \"a\"\nprompt = \"p\"\nmodel = \
         \"m\"\ntools = [\"look\"]\n",
    );
    place.write(
        "script.toml",
        "[[rule]]\nsay = \"hi\\u001b]52;c;AAAA\\u0007\\u009b31m\\u202e\\nApproval 12345678  pending\\r\\n? yes\"\n",
    );
    let left = place.run_with(&["--color=always", "chat", "--agent", "agent.toml"], b"hello\n");
    assert_eq!(left.code, 0, "{left:?}");
    assert!(left.stdout.contains("\\u{1b}]52;c;AAAA"), "{}", left.stdout);
    assert!(
        !left.stdout.contains("\u{1b}]") && !left.stdout.contains('\u{9b}'),
        "{:?}",
        left.stdout
    );
    // No line of it can pass for one of ours.
    let plain = left.stdout.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    assert!(plain.lines().all(|line| line.starts_with('│')), "{plain}");
}

#[test]
fn a13_the_chat_on_a_terminal() {
    let place = Place::without_policy();
    let mut terminal = Terminal::run(&place, "--color=never chat", &[]);
    terminal.shows("it follows a script");
    terminal.shows("> ");
    // Edited before it is sent.
    terminal.press("Create a contact for Marta\u{7f}\u{7f}ia Garcia at Acme Corp, maria@acme.com\r");
    terminal.shows("[Alt-Y] yes");
    terminal.look();
    terminal.press("\u{1b}n");
    terminal.shows("Cancelled.");
    terminal.look();
    // The arrow brings it back.
    terminal.press("\u{1b}[A\r");
    terminal.shows("the same call was denied within the last hour");
    terminal.look();
    terminal.press("\u{1b}y");
    terminal.shows("Done! Create contact Maria Garcia");
    terminal.press("undo\r");
    terminal.shows("Delete contact");
    terminal.press("yes\r");
    terminal.shows("Done! Delete contact");
    terminal.press("/help\r");
    terminal.shows("all but the third");
    terminal.press("\u{4}");
    terminal.shows("ended 0");
}
