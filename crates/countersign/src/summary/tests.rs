use proptest::prelude::*;

use super::*;
use crate::display::{Warning, is_forbidden};

const SALT: &[u8] = b"salt";

fn secrets(paths: &[&str]) -> Vec<SecretPath> {
    paths
        .iter()
        .map(|path| SecretPath::parse(path).unwrap())
        .collect()
}

fn render(template: &str, arguments: &str, paths: &[&str]) -> Result<String, String> {
    let mut summaries = Summaries::new();
    summaries.add("tool", template).unwrap();
    let tree = Tree::read(arguments.as_bytes(), TopLevel::Object).unwrap();
    summaries.render("tool", &hide(tree, &secrets(paths), SALT), None)
}

#[track_caller]
fn check(template: &str, arguments: &str, expected: Result<&str, &str>) {
    let expected = expected.map(str::to_owned).map_err(str::to_owned);
    assert_eq!(
        render(template, arguments, &[]),
        expected,
        "{template} over {arguments}"
    );
}

#[test]
fn renders_a_sentence() {
    let template = "Create contact {{ name }}, {{ email }}{% if company %}, {{ company }}{% endif %}";
    check(
        template,
        r#"{"name":"Ana","email":"a@b.c"}"#,
        Ok("Create contact Ana, a@b.c"),
    );
    check(
        template,
        r#"{"name":"Ana","email":"a@b.c","company":"ACME"}"#,
        Ok("Create contact Ana, a@b.c, ACME"),
    );
    check(template, r#"{"name":"Ana"}"#, Err("a value it names is missing"));
    check(
        "{{ args.name }} {{ args['a b'] }}",
        r#"{"name":"Ana","a b":1}"#,
        Ok("Ana 1"),
    );
    check(
        "{{ tags }}; {{ to }}",
        r#"{"tags":["a","b"],"to":{"x":1}}"#,
        Ok("a, b; x 1"),
    );
    check(
        "{{ name|upper }} {{ gone|default('?') }}",
        r#"{"name":"ana"}"#,
        Ok("ANA ?"),
    );
    check("{{ a }} {{ b }}", r#"{"a":null,"b":false}"#, Ok("null false"));
    check("{{ a.b }}", r#"{"a":{}}"#, Err("a value it names is missing"));
    check("{% if no %}x{% endif %}", "{}", Err("it comes out empty"));
}

#[test]
fn m3_numbers_are_shown_exactly() {
    check("{{ a }}", r#"{"a":9007199254740993}"#, Ok("9007199254740993"));
    check(
        "{{ a }}",
        r#"{"a":18446744073709551616}"#,
        Ok("18446744073709551616"),
    );
    check("{{ a }}", r#"{"a":12.5}"#, Ok("12.5"));
    let lost = Err("a number has more digits than a template can keep");
    check("{{ a }}", r#"{"a":1e400}"#, lost);
    check("{{ a }}", r#"{"a":9007199254740993.0}"#, lost);
}

#[test]
fn x15_values_cannot_act() {
    check(
        "Hi {{ a }}",
        r#"{"a":"\u001b[2J\u202e<b>"}"#,
        Ok(r"Hi \u{1b}[2J\u{202e}<b>"),
    );
    check("Hi {{ a|safe }}", r#"{"a":"\u001b"}"#, Ok(r"Hi \u{1b}"));
    check("Hi {{ a ~ b }}", r#"{"a":"\r","b":"\n"}"#, Ok(r"Hi \u{d}\u{a}"));
    check(
        "{{ a }}",
        r#"{"a":["\u200b",{"\u200b":1}]}"#,
        Ok(r"\u{200b}, \u{200b} 1"),
    );
    check("{{ a }}", r#"{"a":"{{ 1 + 1 }}"}"#, Ok("{{ 1 + 1 }}"));
}

#[test]
fn x08_a_long_value_hides_no_other() {
    let arguments = format!(r#"{{"a":"{}","b":"tail"}}"#, "x".repeat(16_000));
    let text = render("{{ a }} then {{ b }}", &arguments, &[]).unwrap();
    assert!(text.ends_with("x then tail"), "{text}");
    assert!(text.contains("[15,700 of 16,000 bytes not shown]"), "{text}");
    let long = render(
        "{% for i in range(500) %}{{ a }}{% endfor %}!",
        r#"{"a":"0123456789"}"#,
        &[],
    )
    .unwrap();
    assert!(
        long.chars().count() < 2_100 && long.contains("not shown") && long.ends_with("789!"),
        "{long}"
    );
}

#[test]
fn runaway_templates_are_stopped() {
    let template = "{% for i in range(9999) %}{% for j in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
    check(template, r#"{"a":1}"#, Err("it takes too long"));
}

#[test]
fn x31_secrets_are_hidden_before_rendering() {
    let arguments = r#"{"api_key":"hunter2","auth":{"token":"t0p","u":"ann"},"list":[{"p":"pw1"}]}"#;
    let paths = ["api_key", "/auth/token", "list.*.p"];
    let template =
        "{{ api_key }}|{{ auth.token }}|{{ auth.u }}|{{ list[0].p }}|{{ args }}|{{ api_key|length }}";
    let text = render(template, arguments, &paths).unwrap();
    assert!(text.starts_with("hidden, 7 bytes, hash "), "{text}");
    assert!(text.contains("|ann|"), "{text}");
    let generic = generic("tool", arguments.as_bytes(), &secrets(&paths), SALT);
    let rows = table(arguments.as_bytes(), &secrets(&paths), SALT);
    for secret in ["hunter2", "t0p", "pw1"] {
        assert!(!text.contains(secret) && !generic.contains(secret), "{secret}");
        assert!(!format!("{rows:?}").contains(secret), "{secret}");
    }
    assert_eq!(
        rows.iter().map(|row| row.hidden).collect::<Vec<_>>(),
        [true, true, false, true]
    );
    let other = table(arguments.as_bytes(), &secrets(&paths), b"other salt");
    assert_ne!(rows[0].value, other[0].value);
}

#[test]
fn x31_a_secret_object_is_one_row() {
    let rows = table(
        br#"{"auth":{"user":"ann","pass":"x"},"n":1}"#,
        &secrets(&["auth"]),
        SALT,
    );
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.pointer.as_str(), row.bytes, row.hidden))
        .collect();
    assert_eq!(shown, [("/auth", 25, true), ("/n", 1, false)]);
}

#[test]
fn secret_paths_must_be_paths() {
    for wrong in ["", ".", "a..b", "/", "/a//b", "a."] {
        assert!(SecretPath::parse(wrong).is_err(), "{wrong}");
    }
}

#[track_caller]
fn check_generic(arguments: &str, expected: &str) {
    assert_eq!(
        generic("create_contact", arguments.as_bytes(), &[], SALT),
        expected
    );
}

#[test]
fn x05_the_generic_summary_shows_every_value() {
    check_generic("{}", "create_contact without arguments");
    check_generic(r#"{"name":"Ana","n":1e400}"#, "create_contact: name Ana, n 1e400");
    check_generic(
        r#"{"a":{"b":[1,{"c":""}]},"d":[],"e":null}"#,
        "create_contact: a.b.0 1, a.b.1.c (empty), d [], e null",
    );
    check_generic(r#"{"":1}"#, "create_contact: \"\" 1");
    check_generic(r#"{"a\u202e":"b\n"}"#, r"create_contact: a\u{202e} b\u{a}");
    let many = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(99));
    assert!(generic("t", many.as_bytes(), &[], SALT).ends_with("a.19 1, … and 80 more values"));
    assert_eq!(
        generic("t\u{1b}", b"[", &[], SALT),
        r"t\u{1b}: arguments that cannot be read"
    );
}

#[test]
fn x08_rows_say_what_they_hide() {
    let arguments = format!(r#"{{"a":"{}","p\u0430y":"x","empty":{{}}}}"#, "x".repeat(5_000));
    let rows = table(arguments.as_bytes(), &[], SALT);
    assert_eq!((rows[0].bytes, rows[0].clipped), (5_000, true));
    assert!(rows[0].value.contains("[4,000 of 5,000 bytes not shown]"));
    assert_eq!(rows[1].warnings, [Warning::MixedScript("p\u{430}y".to_owned())]);
    assert_eq!(
        (rows[2].value.as_str(), rows[2].pointer.as_str()),
        ("{}", "/empty")
    );
    assert!(table(b"{}", &[], SALT).is_empty());
}

proptest! {
    #[test]
    fn i18_nothing_shown_can_act(key in any::<String>(), value in any::<String>()) {
        let arguments = serde_json::json!({ key.as_str(): [value.as_str()], "other": value }).to_string();
        let mut shown = generic(&key, arguments.as_bytes(), &[], SALT);
        shown.push_str(&render("{{ args }} {{ other }} {{ other|upper }}", &arguments, &[]).unwrap());
        for row in table(arguments.as_bytes(), &[], SALT) {
            shown.push_str(&row.pointer);
            shown.push_str(&row.value);
            row.warnings.iter().for_each(|warning| shown.push_str(&warning.to_string()));
        }
        prop_assert!(!shown.chars().any(is_forbidden), "{shown:?}");
    }
}
