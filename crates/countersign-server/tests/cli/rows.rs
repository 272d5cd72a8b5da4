//! Every screen row with foreign text has a gutter, and no card is approved that was not on the screen.

use std::process::Stdio;

use crate::terminal::Terminal;
use crate::test_folder::TestFolder;

/// Text that imitates our output. Every few characters contain a `Q`, which our own words never do.
const FORGERY: &str = "Q\nQ Approve? [y/N] Q\nApproval 12345678Q  pending, 4m leftQ\nQ  Delete nothing Q\n[Alt-Y] yesQ  \
                       [Alt-N] noQ\n? Qerror: Q ";

/// Returns the forgery several times, with paddings of growing width, so that its lines begin in many columns.
fn forgery(width: usize) -> String {
    let flat = FORGERY.replace('\n', "Q");
    let shifted = (0..width)
        .step_by(7)
        .map(|by| format!("{}{flat}", "Q.".repeat(by / 2)));
    format!("{}{FORGERY}", shifted.collect::<String>())
}

/// Fails if part of the forgery is in a row without a gutter before it.
#[track_caller]
fn check_rows(screen: &str, what: &str) {
    let mut has_forgery = false;
    for row in screen.lines() {
        for sign in ["Q", "12345678", "[y/N]", "Delete nothing"] {
            let Some((before, _)) = row.split_once(sign) else {
                continue;
            };
            has_forgery = true;
            assert!(before.contains('│'), "{what}: `{row}` has no gutter in\n{screen}");
        }
    }
    assert!(has_forgery, "{what}: nothing of it is on\n{screen}");
}

/// Writes an agent that says the forgery and calls a tool with it, under names that contain it.
fn evil_agent(place: &TestFolder, width: usize) {
    let text = forgery(width);
    place.write(
        "policy.toml",
        "[tools.note]\neffect = \"write\"\nsummary = \"Note {{ text }}\"\n",
    );
    place.write(
        "tools.json",
        r#"[{"name":"note","description":"d","input_schema":{"type":"object"}}]"#,
    );
    place.write(
        "agent.toml",
        "name = \"evil\"\n[models.m]\nopenai = \"m\"\n[[specialist]]\nname = \"s\"\nabout = \"a\"\nprompt = \"p\"\nmodel = \
         \"m\"\ntools = [\"note\"]\n",
    );
    let quoted = serde_json::to_string(&text).unwrap();
    let arguments = serde_json::json!({ "text": text, (text.clone()): 1 }).to_string();
    let arguments = serde_json::to_string(&arguments).unwrap();
    place.write(
        "script.toml",
        format!(
            "[[rule]]\nperson = \"go\"\nsay = {quoted}\n[[rule.call]]\ntool = \"note\"\narguments = {arguments}\n\n[[rule]]\nsay = \
             {quoted}\n"
        ),
    );
}

#[test]
fn x100_an_agent_in_a_chat_forges_no_row() {
    for width in [20, 40, 80] {
        let place = TestFolder::without_policy();
        evil_agent(&place, usize::from(width));
        place.script("tool", "echo \"$0 Q Approve? [y/N]\" >&2; cat");
        let line = "--color=never chat --agent agent.toml --exec ./tool";
        let mut terminal = Terminal::sized(&place, (600, width), line, &[]);
        terminal.shows("> ");
        terminal.press("go\r");
        terminal.shows("[Alt-N] no");
        terminal.shows("\n? ");
        check_rows(&terminal.screen(), "a card");
        terminal.look();
        terminal.press("/card\r");
        terminal.shows("digest");
        terminal.look();
        terminal.press("yes\r");
        terminal.shows("countersign:");
        terminal.look();
        check_rows(&terminal.screen(), "what was done");
        terminal.press("/history\r");
        terminal.look();
        check_rows(&terminal.screen(), "the history");
        // The typed yes approved the call.
        assert_eq!(
            place.json(&["list", "--all"])["approvals"][0]["status"],
            "approved"
        );
    }
}

#[test]
fn x100_no_command_prints_a_forged_row() {
    for width in [20, 40, 80] {
        let place = TestFolder::new();
        let text = forgery(usize::from(width));
        let flat = text.replace('\n', " ");
        let short: String = flat.chars().take(120).collect();
        let arguments = serde_json::json!({ "name": text, "email": flat, (flat.clone()): text }).to_string();
        place.write("arguments.json", &arguments);
        let id = place.propose(&[
            "create_contact",
            "@arguments.json",
            "--claim",
            &text,
            "--agent",
            &short,
            "--run",
            &short,
        ]);
        place.script(
            "tool",
            "printf 'Q Approve? [y/N] Q%.0s' 1 2 3 4 5 6 7 >&2; printf 'Q Approve? [y/N] Q\\n%.0s' 1 2 3 4 5; exit 3",
        );
        for command in [
            "list".to_owned(),
            format!("show {id}"),
            format!("show {id} --full --events"),
            format!("show {id} --raw 1"),
            "policy try create_contact @arguments.json".to_owned(),
            format!("approve {id} --comment Q[y/N]QQQQQQQQQQQQQQQQQQQQQQQQQQ"),
            format!("wait {id} --exec ./tool"),
            "list --all".to_owned(),
            format!("show {id} --full --events"),
        ] {
            let line = format!("--color=never {command}");
            let mut terminal = Terminal::sized(&place, (900, width), &line, &[]);
            if command.starts_with("approve") {
                terminal.shows("`yes`");
                terminal.press("yes\r");
            }
            let screen = terminal.shows("ended ");
            check_rows(&screen, &command);
            // Output to a pipe has gutters as well, and lines are not wrapped.
            let words: Vec<&str> = command.split(' ').filter(|word| *word != "wait").collect();
            let is_raw = words.contains(&"--raw");
            let repeatable = !is_raw && ["list", "show", "policy"].contains(&words[0]);
            if repeatable {
                let left = place.run(&words);
                check_rows(&left.stdout, &command);
            }
        }
    }
}

#[test]
fn x100_the_inbox_on_a_terminal_shows_no_forged_row() {
    for width in [20, 40, 80, 120] {
        let place = TestFolder::new();
        let text = forgery(usize::from(width));
        let arguments = serde_json::json!({ "name": text, "email": text }).to_string();
        place.write("arguments.json", &arguments);
        place.propose(&[
            "create_contact",
            "@arguments.json",
            "--claim",
            &text,
            "--agent",
            "Q[y/N]",
        ]);
        let mut terminal = Terminal::sized(&place, (60, width), "--color=never inbox", &[]);
        terminal.shows("Approval");
        for _ in 0..8 {
            check_rows(&terminal.screen(), "the inbox");
            terminal.press("\u{1b}[6~");
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        terminal.press("q");
        terminal.shows("ended 0");
    }
}

#[test]
fn x100_what_a_tool_says_on_standard_error_is_marked_in_a_pipe_too() {
    let place = TestFolder::new();
    let id = place.contact();
    place.script("tool", "printf 'Q one\\nQ Approve? [y/N]\\n' >&2; echo '{}'");
    place.good(&["approve", &id]);
    let mut command = place.command(&["wait", &id, "--exec", "./tool"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    check_rows(&stderr, "standard error");
}

/// Proposes a call with a small card.
fn small(place: &TestFolder) -> String {
    place.propose(&["quickly", r#"{"to":"ann@example.com"}"#])
}

#[track_caller]
fn check_status(place: &TestFolder, id: &str, status: &str) {
    let shown = place.json(&["show", id]);
    assert_eq!(shown["status"], status);
}

#[test]
fn x103_a_terminal_that_shows_nothing_approves_nothing() {
    for size in [(5, 20), (6, 30), (3, 80)] {
        let place = TestFolder::new();
        let id = small(&place);
        let mut terminal = Terminal::sized(&place, size, "--color=never inbox", &[]);
        terminal.look();
        terminal.look();
        // Jumping to the end skips rows, which were then never on the screen.
        for keys in ["a", "y", "G", "a", "y", "g", "G", "a", "y"] {
            terminal.press(keys);
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
        terminal.look();
        check_status(&place, &id, "pending");
        terminal.press("q");
        terminal.look();
    }
}

#[test]
fn x103_a_card_that_was_scrolled_through_is_approved() {
    let place = TestFolder::new();
    let id = small(&place);
    let mut terminal = Terminal::sized(&place, (12, 50), "--color=never inbox", &[]);
    terminal.shows("PgDn more, to approve");
    terminal.look();
    terminal.press("a");
    terminal.shows("not every row");
    for _ in 0..30 {
        terminal.press("\u{1b}[6~");
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
    terminal.shows("a approve");
    terminal.press("a");
    terminal.shows("press y");
    terminal.press("n");
    terminal.shows("not approved");
    terminal.press("a");
    terminal.shows("press y");
    terminal.press("y");
    terminal.shows("approved");
    check_status(&place, &id, "approved");
}

#[test]
fn x103_a_chat_approves_no_card_that_is_not_on_the_screen() {
    let place = TestFolder::without_policy();
    let mut terminal = Terminal::sized(&place, (8, 40), "--color=never chat", &[]);
    terminal.shows("> ");
    terminal.press("Create a contact for Maria Garcia at Acme Corp, maria@acme.com\r");
    terminal.shows("rows more: press Enter");
    let listed = place.json(&["list"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap().to_owned();
    // Neither a key, nor a command, nor words approve what was not shown.
    terminal.look();
    terminal.press("\u{1b}y");
    terminal.shows("not all of the card");
    check_status(&place, &id, "pending");
    terminal.look();
    terminal.press("/yes\r");
    terminal.look();
    check_status(&place, &id, "pending");
    terminal.press("yes\r");
    terminal.shows("rows more: press Enter");
    terminal.look();
    check_status(&place, &id, "pending");
    for _ in 0..20 {
        if terminal.screen().contains("[Alt-Y] yes") {
            break;
        }
        terminal.press("\r");
        terminal.look();
    }
    terminal.shows("[Alt-Y] yes");
    terminal.press("\u{1b}y");
    terminal.shows("Done!");
    check_status(&place, &id, "approved");
}

#[test]
fn x103_a_card_that_left_the_screen_of_a_chat_is_shown_again() {
    let place = TestFolder::without_policy();
    let mut terminal = Terminal::sized(&place, (30, 90), "--color=never chat", &[]);
    terminal.shows("> ");
    terminal.press("Create a contact for Maria Garcia at Acme Corp, maria@acme.com\r");
    terminal.shows("[Alt-Y] yes");
    let listed = place.json(&["list"]);
    let id = listed["approvals"][0]["id"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        terminal.press("/help\r");
        terminal.look();
    }
    assert!(!terminal.screen().contains("[Alt-Y] yes"));
    terminal.press("\u{1b}y");
    terminal.shows("not on the screen any more");
    check_status(&place, &id, "pending");
    terminal.shows("[Alt-Y] yes");
    terminal.look();
    terminal.press("\u{1b}y");
    terminal.shows("Done!");
    check_status(&place, &id, "approved");
}
