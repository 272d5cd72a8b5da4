use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const EXAMPLE: &str = include_str!("../../../../examples/policy.toml");

/// Parsed once. Being a static also proves that a policy can be shared between threads.
static EXAMPLE_POLICY: LazyLock<Policy> =
    LazyLock::new(|| Policy::parse(EXAMPLE).unwrap_or_else(|problems| panic!("{problems}")));

fn example() -> &'static Policy {
    &EXAMPLE_POLICY
}

fn request<'a>(tool: &'a str, arguments: &'a str) -> CallRequest<'a> {
    CallRequest {
        tool,
        arguments: arguments.as_bytes(),
        definition: Definition::Unknown,
        salt: b"salt",
        before: None,
        working_folder: None,
    }
}

/// Formats a ruling as one line: `pass read`, `hold write medium | summary | note`, `forbid …`.
fn shown(ruling: Ruling) -> String {
    match ruling {
        Ruling::Pass(pass) => format!("pass {}", pass.effect),
        Ruling::Forbid { reason } => format!("forbid {}", reason.lines().next().unwrap_or_default()),
        Ruling::Hold(terms) => {
            let notes: String = terms.notes.iter().map(|note| format!(" | {note}")).collect();
            format!(
                "hold {} {} | {}{notes}",
                terms.effect,
                terms.risk(),
                terms.summary
            )
        }
    }
}

#[track_caller]
fn check(policy: &str, tool: &str, arguments: &str, expected: &str) {
    let policy = Policy::parse(policy).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        shown(policy.rule(request(tool, arguments))),
        expected,
        "{tool} {arguments}"
    );
}

#[test]
fn the_example_has_no_problems() {
    let policy = example();
    assert_eq!(policy.notices(), []);
    assert_eq!(policy.tools().len(), 15);
    assert_eq!(policy.title("create_deal"), Some("Create a deal"));
    assert_eq!(policy.hash(), Hash::of(EXAMPLE.as_bytes()));
}

#[test]
fn a1_the_example_rules_as_it_reads() {
    let example = |tool, arguments, expected| check(EXAMPLE, tool, arguments, expected);
    example("search_contacts", r#"{"q":"ana"}"#, "pass read");
    example(
        "create_contact",
        r#"{"name":"Ana","email":"ana@example.com","company":"ACME"}"#,
        "hold write medium | Create contact Ana, ana@example.com, ACME",
    );
    example(
        "create_contact",
        r#"{"name":"Ana"}"#,
        "forbid the arguments of `create_contact` do not fit its schema: \"email\" is a required property",
    );
    example(
        "refund",
        r#"{"amount":99,"currency":"EUR","order_id":"7"}"#,
        "pass external",
    );
    example(
        "refund",
        r#"{"amount":100,"currency":"EUR","order_id":"7"}"#,
        "hold external high | Refund 100 EUR for order 7",
    );
    example(
        "refund",
        r#"{"amount":10001,"currency":"EUR"}"#,
        "forbid the policy forbids this call of `refund`: its `amount` meets a `deny` condition",
    );
    example("export_report", r#"{"report":"deals","limit":10}"#, "pass read");
    example(
        "export_report",
        r#"{"report":"deals"}"#,
        "hold read medium | Export deals, all rows",
    );
}

#[test]
fn a2_unlisted_tool_is_held_as_destructive() {
    let note = "not in the policy: treated as destructive";
    check(
        EXAMPLE,
        "drop_table",
        r#"{"name":"users"}"#,
        &format!("hold destructive high | drop_table: name users | {note}"),
    );
    let Ruling::Hold(terms) = Policy::empty().rule(request("search_contacts", "{}")) else {
        panic!("the empty policy holds everything");
    };
    assert_eq!(
        (terms.effect, terms.approvers),
        (Effect::Destructive, vec!["approvers".to_owned()])
    );
}

#[test]
fn a2_names_are_compared_exactly() {
    for name in [
        "Search_contacts",
        "search_contacts ",
        "search_cont\u{430}cts",
        "search_contacts\0",
        "",
    ] {
        assert!(
            matches!(example().rule(request(name, "{}")), Ruling::Hold(_)),
            "{name:?}"
        );
    }
}

#[test]
fn x21_every_failure_holds() {
    let tool = |rest: &str| format!("[tools.t]\neffect = \"read\"\n{rest}");
    let amount = tool("hold = 'args.amount > 5'");
    check(&amount, "t", r#"{"amount":1}"#, "pass read");
    check(&amount, "t", r#"{"amount":6}"#, "hold read low | t: amount 6");
    let failed = "hold read low | t without arguments | the `hold` condition failed: there is no `amount`";
    check(&amount, "t", "{}", failed);
    let not_bool =
        "hold read low | t: amount 1 | the `hold` condition failed: its result is neither true nor false";
    check(&tool("hold = 'args.amount'"), "t", r#"{"amount":1}"#, not_bool);
    let deny = tool("deny = 'args.amount > 5'");
    check(&deny, "t", r#"{"amount":1}"#, "pass read");
    let failed = "hold read low | t without arguments | the `deny` condition failed: there is no `amount`";
    check(&deny, "t", "{}", failed);
    let both = tool("deny = 'args.gone'\nhold = 'false'");
    check(
        &both,
        "t",
        "{}",
        "hold read low | t without arguments | the `deny` condition failed: there is no `gone`",
    );
    let unreadable = "hold read low | t: arguments that cannot be read | the arguments cannot be read";
    check(&amount, "t", "[", unreadable);
    let template = tool("hold = 'true'\nsummary = 'Hi {{ name }}'");
    let failed = "hold read low | t: n 1 | the summary template failed: a value it names is missing";
    check(&template, "t", r#"{"n":1}"#, failed);
    check(
        "[tools.t]\neffect = 'write'",
        "t",
        "{}",
        "hold write medium | t without arguments",
    );
}

#[test]
fn x28_a_changed_definition_is_held_even_for_reads() {
    let pinned = Hash::of(b"definition");
    let text = format!("[tools.t]\neffect = 'read'\ndefinition = '{pinned}'\nhold = 'false'");
    let policy = Policy::parse(&text).unwrap();
    let rule = |definition| {
        shown(policy.rule(CallRequest {
            definition,
            ..request("t", r#"{"a":1}"#)
        }))
    };
    assert_eq!(rule(Definition::Read(pinned)), "pass read");
    let changed = "hold destructive high | t: a 1 | \
                   definition changed: the tool is no longer the one that the policy was written for";
    assert_eq!(rule(Definition::Read(Hash::of(b"other"))), changed);
    // A hash claimed by the proposer never satisfies a pin.
    assert_eq!(rule(Definition::Claimed(Hash::of(b"other"))), changed);
    let held = "hold destructive high | t: a 1 | definition ";
    assert!(rule(Definition::Claimed(pinned)).starts_with(&format!("{held}not verified")));
    assert!(rule(Definition::Unknown).starts_with(&format!("{held}unknown")));
}

#[test]
fn x31_secrets_are_in_no_ruling() {
    let text = "[tools.t]\neffect = 'write'\nsecret = ['key']\nsummary = 'Use {{ key }} {{ args }}'\nhold = 'args.key > 1'\n\
                schema = { properties = { key = { maxLength = 20 } } }\ndeny = 'args.key.n == 1'";
    let policy = Policy::parse(text).unwrap();
    for arguments in [
        r#"{"key":"hunter2"}"#,
        r#"{"key":"hunter2hunter2hunter2hunter2"}"#,
    ] {
        let ruling = policy.rule(request("t", arguments));
        assert!(!format!("{ruling:?}").contains("hunter2"), "{ruling:?}");
        assert!(!format!("{:?}", policy.table("t", arguments.as_bytes(), b"salt")).contains("hunter2"));
    }
}

#[test]
fn terms_come_from_the_policy() {
    let Ruling::Hold(terms) = example().rule(request(
        "refund",
        r#"{"amount":500,"currency":"EUR","order_id":1}"#,
    )) else {
        panic!("held");
    };
    assert_eq!(terms.approvers, ["finance"]);
    assert_eq!(terms.ttl, Duration::from_secs(3600));
    assert_eq!(
        (terms.yes.as_deref(), terms.no.as_deref()),
        (Some("Refund"), Some("Do not refund"))
    );
    assert_eq!((terms.undo, terms.on_failure), (Undoable::No, OnFailure::Stop));
    assert_eq!(terms.timeout, Duration::from_secs(60));
    let json = serde_json::to_string(&terms).unwrap();
    assert_eq!(terms.secret, Some(Vec::new()));
    let read = serde_json::from_str::<Terms>(&json).unwrap();
    assert_eq!(
        Terms {
            secret: Some(Vec::new()),
            ..read
        },
        terms
    );
    assert_eq!(
        example().channel(),
        Channel {
            ttl: Duration::from_secs(300),
            on_other: OnOther::Cancel,
            on_filler: OnFiller::AskAgain,
        }
    );
}

#[track_caller]
fn check_problems(text: &str, expected: &[&str]) {
    let problems = Policy::parse(text).map(|_| ()).unwrap_err();
    let lines: Vec<String> = problems
        .0
        .iter()
        .map(|p| format!("{}:{} {}", p.line, p.column, p.message))
        .collect();
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn problems_are_exact_and_complete() {
    check_problems("[tools.t", &["1:9 unclosed table, expected `]`"]);
    check_problems(
        "[tool.t]\neffect = 'read'",
        &["1:2 unknown key `tool` in the policy"],
    );
    for wrong in ["5", "5ms", "1s500ms"] {
        check_problems(
            &format!("[channel]\nttl = '{wrong}'"),
            &[&format!("2:7 `{wrong}` is not a duration")],
        );
    }
    check_problems("[tools.t]\ntitle = 'x'", &["1:8 tool `t` has no `effect`"]);
    check_problems(
        "[channel]\nttl = '5 minutes'\non_other = 'maybe'\n\n[tools.a]\nefect = 'read'\nrisk = 'huge'\nttl = '0s'\n\
         timeout = '2h'\n[tools.b]\neffect = 7\nyes = ''",
        &[
            "2:7 `5 minutes` is not a duration",
            "3:12 unknown on_other `maybe`",
            "5:8 tool `a` has no `effect`",
            "6:1 unknown key `efect` in tool `a`",
            "7:8 unknown risk `huge`",
            "8:7 ttl `0s` is out of range",
            "9:11 timeout `2h` is out of range",
            "11:10 `effect` should be a string, not integer",
            "12:7 `yes` should have 1 to 40 characters",
        ],
    );
    check_problems(
        "[surfaces]\nhuge = 'page'\nlow = 'phone'\n[tools.a]\neffect = 'write'\nfour_eyes = 'yes'\nquorum = 0\n\
         surface = 3\n[tools.b]\neffect = 'write'\nquorum = 6\n[tools.c]\neffect = 'write'\nquorum = '2'",
        &[
            "2:1 unknown key `huge` in `[surfaces]`",
            "3:7 unknown low `phone`",
            "6:13 `four_eyes` should be true or false, not string",
            "7:10 quorum is out of range",
            "8:11 `surface` should be a string, not integer",
            "11:10 quorum is out of range",
            "14:10 `quorum` should be a whole number, not string",
        ],
    );
    let hinted = Policy::parse("[tools.a]\nefect = 'read'").unwrap_err();
    assert_eq!(hinted.0[1].hint.as_deref(), Some("did you mean `effect`?"));
    let shown = "line 2, column 1: unknown key `efect` in tool `a`\nhint: did you mean `effect`?";
    assert_eq!(hinted.0[1].to_string(), shown);
}

#[test]
fn problems_inside_strings_are_exact() {
    let tool = |rest: &str| format!("[tools.t]\neffect = 'write'\n{rest}");
    check_problems(
        &tool("hold = 'args.a > 1 || b'"),
        &["3:23 unknown name `b` in condition"],
    );
    check_problems(
        &tool("deny = '''\nargs.a > 1 ||\n amount'''"),
        &["5:2 unknown name `amount` in condition"],
    );
    check_problems(
        &tool("hold = \"amount > '\\u0041'\""),
        &["3:8 unknown name `amount` in condition"],
    );
    let template = Policy::parse(&tool("summary = 'Create {{ name'")).unwrap_err();
    assert_eq!(template.0[0].line, 3);
    check_problems(
        &tool("definition = 'abc'"),
        &["3:14 `definition` should be 64 hex digits"],
    );
    check_problems(
        &tool("secret = ['a', 'b..c']"),
        &["3:16 `b..c` is not the path of an argument"],
    );
    check_problems(
        &tool("approvers = 'me'"),
        &["3:13 `approvers` should be a list of strings, not string"],
    );
    check_problems(
        &tool("undo = { tool = 'gone' }"),
        &["3:17 undo names `gone`, which is not listed"],
    );
    check_problems(
        &tool("undo = { tool = 't', arguments = { id = '{{ id }}' } }"),
        &["3:41 unknown name `id` in undo"],
    );
    let schema = Policy::parse(&tool("schema = { type = 'strnig' }")).unwrap_err();
    assert!(schema.0[0].message.starts_with("bad schema: "), "{schema}");
    assert_eq!((schema.0[0].line, schema.0[0].column), (3, 10));
}

#[test]
fn x16_tool_names_are_ascii() {
    check_problems(
        "[tools.\"p\u{430}y\"]\neffect = 'read'",
        &["1:8 `p\u{430}y` cannot be a tool's name"],
    );
    check_problems(
        "[tools.\"a b\"]\neffect = 'read'",
        &["1:8 `a b` cannot be a tool's name"],
    );
    let dotted = Policy::parse("[tools.crm.create]\neffect = 'write'").unwrap_err();
    assert!(dotted.to_string().contains("[tools.\"crm.create\"]"), "{dotted}");
    assert!(Policy::parse("[tools.\"crm.create/v2:x-y_Z\"]\neffect = 'write'").is_ok());
}

#[track_caller]
fn check_notices(text: &str, expected: &[&str]) {
    let policy = Policy::parse(text).unwrap();
    let shown: Vec<&str> = policy
        .notices()
        .iter()
        .map(|notice| notice.message.as_str())
        .collect();
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn x04_surprises_are_noticed() {
    check_notices("", &["no tools are listed: every call is held"]);
    check_notices(
        "[tools.t]\neffect = 'write'\napprovers = []",
        &["nobody can approve `t`: its list of approvers is empty"],
    );
    check_notices(
        "[tools.t]\neffect = 'write'\nsurface = 'passkey'",
        &["nobody can approve `t`: no surface offers passkeys yet"],
    );
    check_notices(
        "[tools.t]\neffect = 'external'",
        &["`t` has effect `external` and no `risk`, so its risk is high"],
    );
    check_notices(
        "[tools.t]\neffect = 'read'\nsummary = 'x'",
        &["`t` is a read and never held, so its summary is never shown"],
    );
}

#[track_caller]
fn check_undo(plan: &str, arguments: &str, result: &str, expected: Result<&str, &str>) {
    let text = format!("[tools.t]\neffect = 'write'\nundo = {{ tool = 't', arguments = {plan} }}");
    let policy = Policy::parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let made = policy.undo("t", arguments.as_bytes(), result.as_bytes());
    let made = made.map(|(_, bytes)| String::from_utf8(bytes).unwrap());
    let made = made.map_err(|problem| problem.to_string().lines().next().unwrap().to_owned());
    assert_eq!(made, expected.map(str::to_owned).map_err(str::to_owned), "{plan}");
}

#[test]
fn undo_keeps_types_and_bytes() {
    let result = r#"{"id":9007199254740993,"s":"x\u001b\"","list":[1,{"a":null}],"n":null}"#;
    check_undo(
        "{ id = '{{ result.id }}' }",
        "{}",
        result,
        Ok(r#"{"id":9007199254740993}"#),
    );
    check_undo(
        "{ id = 'c/{{ result.id }}' }",
        "{}",
        result,
        Ok(r#"{"id":"c/9007199254740993"}"#),
    );
    check_undo(
        "{ s = '{{ result.s }}' }",
        "{}",
        result,
        Ok(r#"{"s":"x\u001b\""}"#),
    );
    check_undo(
        "{ l = '{{ result.list }}' }",
        "{}",
        result,
        Ok(r#"{"l":[1,{"a":null}]}"#),
    );
    check_undo("{ n = '{{ result.n }}' }", "{}", result, Ok(r#"{"n":null}"#));
    check_undo(
        "{ a = '{{ args.a }}', b = [1, true, 'x'] }",
        r#"{"a":1.5}"#,
        "{}",
        Ok(r#"{"a":1.5,"b":[1,true,"x"]}"#),
    );
    check_undo("{ id = '{{ result }}' }", "{}", "\"7\"", Ok(r#"{"id":"7"}"#));
    for number in [
        "1E3",
        "1.50",
        "-0",
        "1e400",
        "1234567890123456789012345678901234567890123",
    ] {
        let document = format!(r#"{{"n":[{{"a-b":{number}}}]}}"#);
        let copied = format!(r#"{{"id":{number}}}"#);
        check_undo(
            "{ id = '{{ args.n[0][\"a-b\"] }}' }",
            &document,
            "{}",
            Ok(&copied),
        );
        let embedded = format!(r#"{{"id":"c/{number}/{number}"}}"#);
        let template = r#"{ id = "c/{{ result.n[0]['a-b'] }}/{{result.n[0]['a-b']}}" }"#;
        check_undo(template, "{}", &document, Ok(&embedded));
    }
    // A computed number is formatted again, not copied.
    check_undo(
        "{ id = '{{ args.a * 2 }}' }",
        r#"{"a":1.50}"#,
        "{}",
        Ok(r#"{"id":3.0}"#),
    );
}

#[test]
fn undo_does_not_guess() {
    let missing = Err("cannot make `id` for the undo: a value it names is missing");
    check_undo("{ id = '{{ result.id }}' }", "{}", "{}", missing);
    check_undo("{ id = '{{ result.a.id }}' }", "{}", "{}", missing);
    check_undo("{ id = 'c/{{ result.id }}' }", "{}", "{}", missing);
    check_undo("{ id = 'c/{{ result.id }}' }", "{}", r#"{"id":null}"#, missing);
    let inexact = Err("cannot make `id` for the undo: invalid operation");
    check_undo("{ id = '{{ result.id + 1 }}' }", "{}", r#"{"id":1e400}"#, inexact);
    let unreadable = "cannot read what the call did: malformed arguments at byte 0: an unexpected character";
    check_undo("{ id = '{{ result.id }}' }", "{}", "oops", Err(unreadable));
    let problem = example().undo("refund", b"{}", b"{}").unwrap_err();
    assert_eq!(problem, UndoProblem::NotDeclared("refund".to_owned()));
    let undo = example()
        .undo("create_contact", b"{}", br#"{"id":"c7"}"#)
        .unwrap();
    assert_eq!(undo, ("delete_contact".to_owned(), br#"{"id":"c7"}"#.to_vec()));
}

#[test]
fn edits_are_validated_again() {
    assert_eq!(
        example().validate("create_contact", br#"{"name":"Ana","email":"a@b"}"#),
        Ok(())
    );
    assert!(
        example()
            .validate("create_contact", br#"{"name":"Ana","email":"nobody"}"#)
            .is_err()
    );
    assert_eq!(example().validate("unknown", b"{}"), Ok(()));
}

proptest! {
    #[test]
    fn x21_no_text_is_too_strange(
        policy in "([a-z\\[\\]{}'\"=. \n]|effect|tools|read|hold|args){0,40}",
        key in any::<String>(),
        value in any::<String>(),
    ) {
        let _ = Policy::parse(&policy);
        let arguments = serde_json::json!({ key.as_str(): value, "amount": value, "name": [value] }).to_string();
        let example = example();
        for tool in ["refund", "create_task", "create_deal", "export_report", key.as_str()] {
            let ruling = example.rule(request(tool, &arguments));
            prop_assert!(!matches!(ruling, Ruling::Pass(_)), "{ruling:?}");
            if let Ruling::Hold(terms) = ruling {
                let texts = terms.notes.iter().chain([&terms.summary]);
                prop_assert!(!texts.flat_map(|text| text.chars()).any(crate::display::is_forbidden));
            }
        }
    }
}
