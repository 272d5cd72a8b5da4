use super::*;

const SECRET: &str = "s3cr\u{e9}t \"key\"/1";

fn secrecy() -> Secrecy {
    let paths = vec![
        SecretPath::parse("auth.key").unwrap(),
        SecretPath::parse("pins.*").unwrap(),
    ];
    let arguments = serde_json::json!({ "auth": { "key": SECRET }, "pins": [12, 123456], "note": "x" });
    Secrecy::new(paths, b"salt", [arguments.to_string().as_bytes()])
}

#[test]
fn x64_a_secret_is_hidden_in_every_form() {
    let secrecy = secrecy();
    let json = serde_json::to_string(SECRET).unwrap();
    let texts = [
        format!("the key is {SECRET}."),
        format!("{{\"key\":{json}}}"),
        serde_json::to_string(&json).unwrap(),
        "https://x.test/?k=s3cr%C3%A9t%20%22key%22%2F1&y".to_owned(),
        "k=s3cr%c3%a9t+%22key%22%2f1".to_owned(),
        "czNjcsOpdCAia2V5Ii8x".to_owned(),
        "pin 123456".to_owned(),
        "12".to_owned(),
        "a 12, b".to_owned(),
    ];
    for text in texts {
        let shown = secrecy.text(&text);
        assert!(shown.contains("[hidden, "), "{text}: {shown}");
        assert!(
            !shown.contains("s3cr") && !shown.contains("123456") && !shown.contains("czNj"),
            "{shown}"
        );
    }
    // A short secret is hidden only as a separate word.
    for text in ["5127", "v12", "nothing", ""] {
        assert_eq!(secrecy.text(text), text);
    }
}

#[test]
fn x64_a_secret_is_hidden_however_its_letters_are_escaped() {
    let secrecy = secrecy();
    let every = |write: fn(u8) -> String| SECRET.bytes().map(write).collect::<String>();
    let units: String = SECRET
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04X}"))
        .collect();
    let base64 = "czNjcsOpdCAia2V5Ii8x";
    let wrapped = |by: &str| {
        let lines: Vec<&str> = [&base64[..4], &base64[4..11], &base64[11..]].to_vec();
        lines.join(by)
    };
    let texts = [
        every(|byte| format!("%{byte:02x}")),
        every(|byte| format!("%{byte:02X}")),
        every(|byte| format!("%25{byte:02X}")),
        every(|byte| format!("%2525{byte:02X}")),
        "k=s3%63r%C3%A9t%20%22key%22/1&y".to_owned(),
        units.clone(),
        units.replace('\\', "\\\\"),
        "s3c\\u0072\\u00e9t \\\"key\\\"/1".to_owned(),
        "&#115;3cr&#xe9;t &quot;key&quot;/1".to_owned(),
        wrapped("\n"),
        wrapped("\r\n  "),
        wrapped("\\n"),
        wrapped("\\r\\n"),
        wrapped("%0A"),
        wrapped(" "),
        "7333 6372 c3a9 7420 226b 6579 222f 31".to_owned(),
        "pin %31%32%33456".to_owned(),
        "pin \\u0031\\u0032".to_owned(),
    ];
    for text in &texts {
        let text = format!("before, {text}, after");
        let shown = secrecy.text(&text);
        assert!(
            shown.starts_with("before, ") && shown.ends_with(", after") && shown.contains("[hidden, "),
            "{text}: {shown}"
        );
        let rest = shown
            .replace("before, ", "")
            .replace(", after", "")
            .replace("pin ", "");
        assert!(
            rest.starts_with('[') && rest.ends_with(']') || rest.starts_with("k="),
            "{text}: {shown}"
        );
        assert!(secrecy.is_in(&text));
    }
    // Text with escapes but without a secret stays as it is, to the byte.
    for text in ["100%25 of \\u0041", "a\\nb c", "%31%33", "czNj csOp"] {
        assert_eq!(secrecy.text(text), text);
    }
}

#[test]
fn x64_json_stays_json() {
    let secrecy = secrecy();
    let document = format!(
        r#"{{"auth":{{"key":{}}},"pins":[12,123456],"n":1.50,"echo":"is {}"}}"#,
        serde_json::to_string(SECRET).unwrap(),
        "s3cr\u{e9}t \\\"key\\\"/1"
    );
    let shown = secrecy.json(document.as_bytes());
    let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert!(!shown.contains("s3cr") && !shown.contains("123456"), "{shown}");
    assert!(shown.contains("\"n\":1.50"), "{shown}");
    assert!(
        read["echo"].as_str().unwrap().starts_with("is [hidden, "),
        "{shown}"
    );
    assert_eq!(secrecy.json(br#"{ "a" : 1 }"#), r#"{ "a" : 1 }"#);
    assert_eq!(secrecy.json(b"no json"), "\"hidden\"");
}

#[test]
fn x64_rows_that_repeat_a_secret_are_hidden() {
    let paths = vec![SecretPath::parse("key").unwrap()];
    let arguments = br#"{"key":"swordfish-9","note":"use swordfish-9 now","swordfish-9":1,"plain":"x"}"#;
    let secrecy = Secrecy::new(paths, b"salt", [&arguments[..]]).over(arguments);
    let rows = secrecy.table(arguments);
    assert!(!format!("{rows:?}").contains("swordfish"), "{rows:?}");
    let hidden: Vec<bool> = rows.iter().map(|row| row.hidden).collect();
    assert_eq!(hidden, [true, true, true, false]);
    assert!(secrecy.is_secret("/key") && secrecy.is_secret("/note") && !secrecy.is_secret("/plain"));
}

#[test]
fn x98_where_nobody_knows_what_is_secret_everything_is() {
    let arguments = br#"{"a":{"b":"one"},"c":2}"#;
    let secrecy = Secrecy::new(vec![SecretPath::everything()], b"salt", [&arguments[..]]).over(arguments);
    assert!(secrecy.is_secret("/a/b") && secrecy.is_secret("/c"));
    let rows = secrecy.table(arguments);
    assert!(
        rows.iter().all(|row| row.hidden) && !format!("{rows:?}").contains("one"),
        "{rows:?}"
    );
    assert_eq!(secrecy.text("whatever"), "hidden");
    assert!(!secrecy.json(arguments).contains("one"));
}

#[test]
fn x98_a_secret_is_hidden_in_every_letter_case() {
    let secrecy = secrecy();
    for text in [
        "the key is S3CR\u{c9}T \"KEY\"/1.",
        "S3cr\u{e9}T \"kEy\"/1",
        "{\"key\":\"S3CR\\u00C9T \\\"KEY\\\"/1\"}",
        "k=S3CR%C3%89T+%22KEY%22%2F1",
        "UzNDUsOJVCAiS0VZIi8x",
    ] {
        let shown = secrecy.text(text);
        assert!(shown.contains("[hidden, "), "{text}: {shown}");
        assert!(
            !shown.to_lowercase().contains("s3cr") && !shown.contains("UzND"),
            "{shown}"
        );
    }
    // In base64, a different letter case encodes a different text.
    let other = "CZnJCSoPDcaIA2v5iI8X";
    assert_eq!(secrecy.text(other), other);
}

/// Returns the processor time of this thread, which other work on the machine does not change.
fn processor_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
}

#[test]
fn x98_looking_in_every_case_stays_fast() {
    let arguments =
        serde_json::json!({ "auth": { "key": "s\u{df}".repeat(2000) }, "pins": ["ssss", "Key-1", "abc"] });
    let paths = vec![
        SecretPath::parse("auth.key").unwrap(),
        SecretPath::parse("pins.*").unwrap(),
    ];
    let secrecy = Secrecy::new(paths, b"salt", [arguments.to_string().as_bytes()]);
    for text in [
        "\u{df}",
        "s",
        "S\u{17f}",
        "a",
        "KEY-",
        "\u{130}",
        "%",
        "%2",
        "%25",
        "%73",
        "\\",
        "\\u00",
        "\\u0073",
        "&#",
        "&#115;",
        " ",
        "s\n",
        "%25%32%35",
    ] {
        let text = text.repeat(1_000_000 / text.len());
        let begin = processor_seconds();
        let _ = secrecy.text(&text);
        // Takes a tenth of this even without optimisation; the limit only rules out quadratic growth.
        let taken = processor_seconds() - begin;
        assert!(taken < 10, "{taken} s for {:?}", text.get(..8));
    }
}

proptest::proptest! {
    /// A secret repeated in another case is replaced by its mark; the text around it stays as it is.
    #[test]
    fn x98_nothing_but_whole_repeated_values_is_hidden(
        secret in "[a-zA-Z\u{e4}\u{e9}\u{3c3}\u{416}]{4,12}[0-9]{2}",
        cases in proptest::collection::vec(proptest::bool::ANY, 14),
        before in "[ .,:;\u{4e2d}]{0,20}",
        after in "[ .,:;\u{4e2d}]{0,20}",
    ) {
        let document = serde_json::json!({ "key": secret }).to_string();
        let secrecy = Secrecy::new(vec![SecretPath::parse("key").unwrap()], b"salt", [document.as_bytes()]);
        let repeated: String = secret
            .chars()
            .zip(&cases)
            .flat_map(|(letter, upper)| match upper {
                true => letter.to_uppercase().collect::<Vec<_>>(),
                false => letter.to_lowercase().collect(),
            })
            .collect();
        let mark = secrecy.text(&secret).into_owned();
        proptest::prop_assert!(mark.starts_with("[hidden, ") && mark.ends_with(']'));
        let text = format!("{before}{repeated}{after}");
        proptest::prop_assert_eq!(secrecy.text(&text), format!("{before}{mark}{after}"));
        // Without its last character, the repeated text is not the secret.
        let most: String = repeated.chars().take(repeated.chars().count() - 1).collect();
        let text = format!("{before}{most}{after}");
        proptest::prop_assert_eq!(secrecy.text(&text), text.as_str());
    }
}
