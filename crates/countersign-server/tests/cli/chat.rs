//! Tests `countersign chat` through a pipe and on a pseudo terminal.

use crate::terminal::Terminal;
use crate::test_folder::TestFolder;

const ASK: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";

/// Sends Ctrl-D once the prompt is shown. Before that, the terminal would handle it itself.
fn leave(mut terminal: Terminal) {
    terminal.look();
    terminal.press("\u{4}");
    terminal.shows("ended 0");
}

fn say(place: &TestFolder, lines: &[&str]) -> String {
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
    let place = TestFolder::without_policy();
    let said = say(&place, &[ASK, "yes", "find maria"]);
    for expected in [
        "│ I'll create a new contact with these details:\n│ - Name: Maria Garcia\n",
        "  · confirmation required: │ create_contact\n",
        "  │ Create contact Maria Garcia, maria@acme.com, Acme Corp\n",
        "countersign: │ Done! Create contact Maria Garcia, maria@acme.com, Acme Corp\n",
        "│ - Maria Garcia, Acme Corp, maria@acme.com\n",
    ] {
        assert!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "no colours into a pipe: {said:?}");
}

#[test]
fn e1_c9_questions_and_corrections_through_a_pipe() {
    let place = TestFolder::without_policy();
    let said = say(
        &place,
        &[
            ASK,
            "why?",
            "yes, but her email is zoe@x.com",
            "yes",
            "find maria",
        ],
    );
    for expected in [
        "-- reply \"yes\" to confirm or \"no\" to cancel.  or type y, n\n",
        "│ You asked for it. Nothing has happened yet.\n",
        "countersign: │ Still waiting for your answer.\n",
        "changed since the last card: /email: `maria@acme.com` → `zoe@x.com`",
        "│ - Maria Garcia, Acme Corp, zoe@x.com\n",
    ] {
        assert!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    assert!(!said.contains("Alt-Y"), "there are no keys in a pipe: {said}");
    assert!(!said.contains("Cancelled"), "{said}");
    // In the CMS nobody loses a card by talking, and `y` is a yes.
    let said = place.run_with(
        &["chat", "--agent", "cms"],
        b"Delete the about page\nwait, what will be deleted?\nshow me the posts\nshow me the pages\ny\n",
    );
    let said = said.stdout;
    assert_eq!(
        said.matches("Still waiting for your answer.").count(),
        3,
        "{said}"
    );
    assert!(
        said.contains("│ - Delete page “About Us” and its 3 sections.\n"),
        "{said}"
    );
    assert!(
        said.contains("Done! Delete page “About Us” and its 3 sections\n"),
        "{said}"
    );
}

#[test]
fn e1_c9_questions_and_corrections_on_a_terminal() {
    let place = TestFolder::without_policy();
    let mut terminal = Terminal::run(&place, "--color=never chat", &[]);
    terminal.shows("> ");
    terminal.press(&format!("{ASK}\r"));
    terminal.shows("[Alt-Y] yes  [Alt-N] no  or type y, n");
    terminal.look();
    terminal.press("why?\r");
    terminal.shows("Still waiting for your answer.");
    terminal.look();
    terminal.press("yes, but her email is zoe@x.com\r");
    terminal.shows("`maria@acme.com` → `zoe@x.com`");
    terminal.shows("? ");
    terminal.look();
    terminal.press("y\r");
    terminal.shows("Done! Create contact Maria Garcia, zoe@x.com, Acme Corp");
    leave(terminal);
}

#[test]
fn a6_a_restart_between_the_card_and_the_yes() {
    let place = TestFolder::without_policy();
    say(&place, &[ASK]);
    // The card is shown again first, and the yes refers to it.
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
    assert!(said.contains(&format!("> │ {ASK}\n")), "{said}");
}

#[test]
fn a16_a17_some_of_five_and_an_undo() {
    let place = TestFolder::without_policy();
    let five = "Create contacts for Ana, Ben, Cleo, Dan and Eva";
    let said = say(
        &place,
        &[five, "all but the third", "undo", "/yes", "show me my contacts"],
    );
    assert!(said.contains("Left out: Create contact Cleo\n"), "{said}");
    // One card undoes all four, the last one first.
    assert!(said.contains("  1  │ Delete contact Eva\n"), "{said}");
    assert!(!said.contains("Delete contact Cleo"), "{said}");
    let listed = said.rsplit("ok: │ list_contacts").next().unwrap();
    for name in ["Ana", "Ben", "Cleo", "Dan", "Eva"] {
        assert!(!listed.contains(&format!("│ - {name}\n")), "{name}: {listed}");
    }
}

#[test]
fn a16_some_of_five_by_commands() {
    let place = TestFolder::without_policy();
    let five = "Create contacts for Ana, Ben, Cleo, Dan and Eva";
    let said = say(&place, &["/3", five, "/3 5", "/9", "/yes"]);
    assert!(said.contains("[ 1 2 · 4 · ]\n"), "{said}");
    for left_out in ["Cleo", "Eva"] {
        assert!(
            said.contains(&format!("Left out: Create contact {left_out}\n")),
            "{said}"
        );
    }
    for done in ["Ana", "Ben", "Dan"] {
        assert!(said.contains(&format!("Done! Create contact {done}\n")), "{said}");
    }
    // A yes with no call selected is not an answer: the card stays.
    let said = say(&place, &[five, "/1 2 3 4 5", "/yes", "/1", "/yes"]);
    assert!(
        said.contains("[ · · · · · ]\n") && said.contains("[ 1 · · · · ]\n"),
        "{said}"
    );
    assert_eq!(said.matches("Left out: ").count(), 4, "{said}");
}

#[test]
fn d6_a_card_of_the_chat_can_be_decided_elsewhere() {
    let place = TestFolder::without_policy();
    say(&place, &[ASK]);
    let listed = place.json(&["list"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    // Approved by a process that runs no tools; the chat runs the call when it starts again.
    place.good(&["approve", id]);
    let said = say(&place, &["find maria"]);
    assert!(
        said.contains("│ - Maria Garcia, Acme Corp, maria@acme.com\n"),
        "{said}"
    );
}

#[test]
fn json_is_one_event_per_line() {
    let place = TestFolder::without_policy();
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
    let place = TestFolder::without_policy();
    let cases: [(&[&str], &str); 4] = [
        (&["chat", "--agent", "nobody"], "there is no agent `nobody`"),
        (
            &["chat", "--model", "ftp://x"],
            "it starts with neither http:// nor https://",
        ),
        (
            &["--server", "http://127.0.0.1:1", "chat"],
            "needs direct access to a store",
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
    // The model is unreachable: the session continues, and nothing ran.
    let model = ["chat", "--model", "http://127.0.0.1:9/v1", "--model-name", "m"];
    let left = place.run_with(&model, format!("{ASK}\n").as_bytes());
    assert!(left.stderr.contains("the model cannot be reached"), "{left:?}");
    assert_eq!(left.code, 1, "a script has to learn that the turn failed");
    let said = say(&place, &["find maria"]);
    assert!(said.contains("There is no such contact."), "{said}");
}

#[test]
fn x15_what_an_agent_says_does_not_act_on_the_terminal() {
    let place = TestFolder::without_policy();
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
    // No line can be mistaken for one of ours.
    let plain = left.stdout.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    assert!(plain.lines().all(|line| line.starts_with('│')), "{plain}");
}

#[test]
fn a13_the_chat_on_a_terminal() {
    let place = TestFolder::without_policy();
    let mut terminal = Terminal::run(&place, "--color=never chat", &[]);
    terminal.shows("it follows a script");
    terminal.shows("> ");
    // The line is edited before it is sent.
    terminal.press("Create a contact for Marta\u{7f}\u{7f}ia Garcia at Acme Corp, maria@acme.com\r");
    terminal.shows("[Alt-Y] yes");
    terminal.look();
    terminal.press("\u{1b}n");
    terminal.shows("Cancelled.");
    terminal.look();
    // The up arrow recalls the line.
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
    leave(terminal);
}

#[test]
fn a16_some_of_five_by_keys() {
    let place = TestFolder::without_policy();
    let mut terminal = Terminal::run(&place, "--color=never chat", &[]);
    terminal.shows("> ");
    terminal.press("Create contacts for Ana, Ben, Cleo, Dan and Eva\r");
    terminal.shows("[ 1 2 3 4 5 ] ? ");
    // The card is longer than the screen.
    terminal.shows("rows more: press Enter");
    terminal.press("\r");
    terminal.shows("[Alt-Y] yes");
    terminal.press("\t\t\t");
    terminal.shows("[ 1 2>3 4 5 ] ? ");
    terminal.press(" ");
    terminal.shows("[ 1 2>· 4 5 ] ? ");
    // Select it again, move to the last one, and deselect that.
    terminal.press(" \t\t");
    terminal.shows("[ 1 2 3 4>5 ] ? ");
    terminal.press(" ");
    terminal.shows("[ 1 2 3 4>· ] ? ");
    // After typed words, Alt-Y does not approve.
    terminal.press("x \u{1b}y");
    terminal.shows("[ 1 2 3 4>· ] ? x ");
    terminal.look();
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 1);
    terminal.press("\u{7f}\u{7f}");
    terminal.press("\u{1b}y");
    terminal.shows("Left out: Create contact Eva");
    terminal.shows("Done! Create contact Cleo");
    leave(terminal);
}

/// Returns the id of the pending approval.
fn waiting(place: &TestFolder) -> String {
    let listed = place.json(&["list"]);
    listed["approvals"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn d6_a_decision_elsewhere_is_told_at_once_above_what_is_being_typed() {
    let place = TestFolder::without_policy();
    let mut terminal = Terminal::run(&place, "--color=never chat", &[]);
    terminal.shows("> ");
    terminal.press(&format!("{ASK}\r"));
    terminal.shows("[Alt-Y] yes");
    terminal.shows("? ");
    terminal.press("find ma");
    terminal.shows("? find ma");
    // Approved by a process that runs no tools; the chat runs the call.
    place.good(&["approve", &waiting(&place)]);
    terminal.shows("Done! Create contact Maria Garcia");
    let screen = terminal.shows("> find ma");
    let told = screen.find("Done! Create").unwrap();
    assert!(
        screen.find("> find ma").unwrap() > told,
        "the line stands below what is told:\n{screen}"
    );
    terminal.press("ria\r");
    terminal.shows("│ - Maria Garcia, Acme Corp, maria@acme.com");
    terminal.press("Create a contact for Ana Diaz at Acme Corp, ana@acme.com\r");
    terminal.shows("Create contact Ana Diaz");
    terminal.shows("? ");
    place.good(&["deny", &waiting(&place)]);
    terminal.shows("Cancelled.");
    leave(terminal);
}

#[test]
fn x01_a_yes_that_was_begun_before_a_card_came_does_not_answer_it() {
    let place = TestFolder::without_policy();
    place.write("policy.toml", "[tools.note]\neffect = \"write\"\n");
    place.write(
        "tools.json",
        r#"[{"name":"note","description":"d","input_schema":{"type":"object"}}]"#,
    );
    place.write(
        "agent.toml",
        "name = \"noter\"\n[models.m]\nopenai = \"m\"\n[[specialist]]\nname = \"s\"\nabout = \"a\"\nprompt = \"p\"\nmodel = \
         \"m\"\ntools = [\"note\"]\n",
    );
    place.write(
        "script.toml",
        "[[rule]]\nperson = \"go\"\n[[rule.call]]\ntool = \"note\"\narguments = '{\"n\":1}'\n\n\
         [[rule]]\nafter = \"note\"\nstatus = \"succeeded\"\nif = \"result.n == 1\"\n[[rule.call]]\ntool = \"note\"\narguments = '{\"n\":2}'\n\n\
         [[rule]]\nsay = \"fine\"\n",
    );
    let mut terminal = Terminal::run(&place, "--color=never chat --agent agent.toml --exec cat", &[]);
    terminal.shows("> ");
    terminal.press("go\r");
    terminal.shows("[Alt-Y] yes");
    terminal.shows("? ");
    terminal.press("ye");
    terminal.shows("? ye");
    let first = waiting(&place);
    place.good(&["approve", &first]);
    // The talk continues with a second card; the typed line is still below it.
    terminal.shows("Done! note");
    terminal.shows("note: n 2");
    terminal.shows("? ye");
    let second = waiting(&place);
    assert_ne!(first, second);
    terminal.press("s\r");
    terminal.shows("That was not about this. Please look again:");
    assert_eq!(waiting(&place), second, "nothing was decided");
    terminal.look();
    terminal.press("yes\r");
    terminal.shows("Done! note: n 2");
    leave(terminal);
}
