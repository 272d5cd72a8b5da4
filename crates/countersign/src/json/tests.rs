use std::borrow::Cow;

use proptest::prelude::*;

use super::*;

#[track_caller]
fn accepts(text: &str) {
    assert_eq!(check(text.as_bytes(), Limits::default()), Ok(()), "{text}");
}

#[track_caller]
fn refuses(text: impl AsRef<[u8]>, at: usize, reason: Reason) {
    let bytes = text.as_ref();
    let shown: String = String::from_utf8_lossy(bytes).chars().take(100).collect();
    assert_eq!(
        check(bytes, Limits::default()),
        Err(Malformed { at, reason }),
        "{shown}"
    );
}

#[test]
fn accepts_one_object_in_any_spelling() {
    accepts("{}");
    accepts(" \t\r\n{ \"a\" : [ 1 , -0 , 1.5e+3 , true , false , null , { } , [ ] ] } \n");
    accepts(r#"{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00","é":"😀","":{"":{}}}"#);
    accepts(r#"{"a":{"a":1},"b":{"a":2}}"#);
    accepts("{\"a\":\"\u{7f}\u{9b}\u{2028}\"}");
}

#[test]
fn x23_large_numbers_stay_as_they_are() {
    accepts(r#"{"a":9007199254740993,"b":1e400,"c":-0,"d":18446744073709551616,"e":1.0}"#);
    accepts(r#"{"$serde_json::private::Number":"1"}"#);
}

#[test]
fn x23_equal_keys_are_duplicates() {
    refuses(r#"{"to":1,"to":2}"#, 8, Reason::DuplicateKey);
    refuses(r#"{"a":[{"b":1,"c":2,"b":3}]}"#, 19, Reason::DuplicateKey);
}

#[test]
fn x23_escaped_equal_keys_are_duplicates() {
    refuses(r#"{"to":1,"t\u006f":2}"#, 8, Reason::DuplicateKey);
    refuses(r#"{"\u0074o":1,"to":2}"#, 13, Reason::DuplicateKey);
    refuses(r#"{"\ud83d\ude00":1,"😀":2}"#, 18, Reason::DuplicateKey);
}

#[test]
fn x23_duplicates_are_found_among_thousands() {
    let keys: Vec<String> = (0..5_000).map(|n| format!("\"k{n}\":0")).collect();
    accepts(&format!("{{{}}}", keys.join(",")));
    let text = format!("{{{},\"\\u006b17\":1}}", keys.join(","));
    refuses(&text, text.len() - 13, Reason::DuplicateKey);
}

#[test]
fn x23_lone_surrogates_are_refused() {
    refuses(r#"{"a":"\ud83d"}"#, 6, Reason::LoneSurrogate);
    refuses(r#"{"a":"\ude00"}"#, 6, Reason::LoneSurrogate);
    refuses(r#"{"a":"\ud83d\ud83d"}"#, 6, Reason::LoneSurrogate);
    refuses(r#"{"a":"\ud83d\n"}"#, 6, Reason::LoneSurrogate);
    refuses(b"{\"a\":\"\xed\xa0\xbd\"}", 6, Reason::NotUtf8);
}

#[test]
fn x23_byte_order_mark_and_trailing_bytes_are_refused() {
    refuses("\u{feff}{}", 0, Reason::ByteOrderMark);
    refuses(" \u{feff}{}", 1, Reason::NotAnObject);
    refuses("{}{}", 2, Reason::Trailing);
    refuses("{} x", 3, Reason::Trailing);
    refuses("{}\0", 2, Reason::Trailing);
}

#[test]
fn x23_depth_and_size_are_limited() {
    let nested = |depth: usize| {
        let inner = depth - 1;
        format!("{{\"a\":{}{}}}", "[".repeat(inner), "]".repeat(inner))
    };
    accepts(&nested(64));
    refuses(nested(65), 5 + 63, Reason::TooDeep(64));
    refuses(nested(200), 5 + 63, Reason::TooDeep(64));
    refuses("{\"a\":".repeat(10_000), 5 * 64, Reason::TooDeep(64));
    let sized = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
    accepts(&sized(65_536));
    refuses(sized(65_537), 65_536, Reason::TooLarge(65_536));
}

#[test]
fn x08_paths_cannot_outgrow_memory() {
    let text = format!("{{\"{}\":[{}0]}}", "k".repeat(30_000), "0,".repeat(10_000));
    let limit = Limits::default().paths;
    let refusal = check(text.as_bytes(), Limits::default()).unwrap_err();
    assert_eq!(refusal.reason, Reason::TooSprawling(limit));
    accepts(&format!("{{\"k\":[{}0]}}", "0,".repeat(30_000)));
}

#[test]
fn refuses_what_is_not_json() {
    refuses("", 0, Reason::Ended);
    refuses("[]", 0, Reason::NotAnObject);
    refuses("\"a\"", 0, Reason::NotAnObject);
    refuses("{", 1, Reason::Ended);
    refuses("{\"a\"", 4, Reason::Ended);
    refuses("{\"a\":1,}", 7, Reason::Unexpected);
    refuses("{\"a\":[1,]}", 8, Reason::Unexpected);
    refuses("{\"a\":[1}", 7, Reason::Unexpected);
    refuses("{\"a\":1]", 6, Reason::Unexpected);
    refuses("{a:1}", 1, Reason::Unexpected);
    refuses("{\"a\":tru}", 5, Reason::Unexpected);
    refuses("{\"a\":NaN}", 5, Reason::Unexpected);
    refuses("{\"a\":'b'}", 5, Reason::Unexpected);
    refuses("{\"a\":1 /* */}", 7, Reason::Unexpected);
    refuses("{\u{a0}}", 1, Reason::Unexpected);
    refuses("{\"a\":\"\n\"}", 6, Reason::ControlCharacter);
    refuses("{\"a\":\"\0\"}", 6, Reason::ControlCharacter);
    refuses(r#"{"a":"\x41"}"#, 6, Reason::BadEscape);
    refuses(r#"{"a":"\u12"}"#, 6, Reason::BadEscape);
    refuses(r#"{"a":"\u+123"}"#, 6, Reason::BadEscape);
    refuses(b"{\"a\":\"\xff\"}", 6, Reason::NotUtf8);
}

#[test]
fn refuses_numbers_json_does_not_have() {
    for number in [
        "01", "-", "1.", ".5", "+1", "1e", "1e+", "-01", "00", "0x10", "1.e5", "-.5",
    ] {
        let text = format!("{{\"a\":{number}}}");
        assert!(check(text.as_bytes(), Limits::default()).is_err(), "{text}");
    }
}

#[test]
fn says_where_why_and_what_to_do() {
    let refusal = check(br#"{"to":1,"to":2}"#, Limits::default()).unwrap_err();
    let expected = "malformed arguments at byte 8: a key occurs twice in one object\n\
                    hint: keep one of them; escapes do not make keys different";
    assert_eq!(refusal.to_string(), expected);
}

#[track_caller]
fn check_leaves(text: &str, expected: &[(&str, Kind, &str)]) {
    accepts(text);
    let found = leaves(text.as_bytes());
    let shown: Vec<_> = found
        .iter()
        .map(|leaf| (leaf.pointer.as_str(), leaf.kind, leaf.text()))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(p, k, t)| (*p, *k, Cow::Borrowed(*t)))
        .collect();
    assert_eq!(shown, expected, "{text}");
    for leaf in found {
        assert_eq!(text.get(leaf.range.clone()), Some(leaf.raw));
    }
}

#[test]
fn finds_outermost_values_with_their_bytes() {
    let text = r#"{"a":{"k":[1,{"s":2}]},"s":"x","b":[{"s":{"t":[]}},{"s":null}], "ab":{}}"#;
    let found = |wanted: fn(&str) -> bool| -> Vec<(String, &str)> {
        let found = find(text.as_bytes(), wanted);
        found
            .into_iter()
            .map(|(pointer, range)| (pointer, &text[range]))
            .collect()
    };
    let of = |pointer: &str, raw| (pointer.to_owned(), raw);
    assert_eq!(
        found(|pointer| pointer.contains("/s")),
        [
            of("/a/k/1/s", "2"),
            of("/s", "\"x\""),
            of("/b/0/s", r#"{"t":[]}"#),
            of("/b/1/s", "null")
        ]
    );
    assert_eq!(
        found(|pointer| pointer.starts_with("/a")),
        [of("/a", r#"{"k":[1,{"s":2}]}"#), of("/ab", "{}")]
    );
    assert_eq!(found(|_| true), [of("", text)]);
}

#[test]
fn lists_leaves_with_pointers() {
    check_leaves("{}", &[("", Kind::Object, "{}")]);
    check_leaves(
        r#"{"a":{"b":[1,{"c":"x\n"},[]]},"d":null,"e":true,"n":9007199254740993}"#,
        &[
            ("/a/b/0", Kind::Number, "1"),
            ("/a/b/1/c", Kind::String, "x\n"),
            ("/a/b/2", Kind::Array, "[]"),
            ("/d", Kind::Null, "null"),
            ("/e", Kind::Bool, "true"),
            ("/n", Kind::Number, "9007199254740993"),
        ],
    );
    check_leaves(
        r#"{"a/b":{"~":1},"":"\ud83d\ude00","t\u006f":{ }}"#,
        &[
            ("/a~1b/~0", Kind::Number, "1"),
            ("/", Kind::String, "😀"),
            ("/to", Kind::Object, "{ }"),
        ],
    );
}

/// Generates random text from JSON fragments, which is often valid and often nearly so.
fn jsonish() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "\"\\u0061\"",
        "\"\\ud83d\"",
        "1",
        "-0.5e3",
        "01",
        "true",
        "null",
        " ",
        "\"é\"",
        "1e400",
        "\"",
        "\\",
        "{\"a\":1}",
        "{\"c\":[",
        "]}",
    ]);
    let loose = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    let leaf = prop_oneof![
        Just("1e400".to_owned()),
        Just("null".to_owned()),
        "\"[a-c\\\\ué]{0,3}\"",
        "-?[0-9.e]{1,3}"
    ];
    let tree = leaf.prop_recursive(4, 24, 4, |inner| {
        let pair = ("[a-f]", inner.clone()).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(pair, 0..4).prop_map(|pairs| format!("{{{}}}", pairs.join(", "))),
        ]
    });
    prop_oneof![loose, tree.prop_map(|tree| format!("{{\"x\":{tree}}}"))]
}

proptest! {
    #[test]
    fn agrees_with_serde_where_the_rules_coincide(text in jsonish()) {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        match check(text.as_bytes(), Limits::default()) {
            Ok(()) => prop_assert!(theirs.is_ok(), "{text}"),
            Err(Malformed { reason: Reason::DuplicateKey | Reason::LoneSurrogate | Reason::NotAnObject, .. }) => {}
            Err(fault) => prop_assert!(theirs.is_err(), "{text} {fault}"),
        }
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in jsonish()) {
        let _ = (check(&bytes, Limits::default()), leaves(&bytes), leaves(text.as_bytes()), find(&bytes, |at| at.len() > 1));
    }

    #[test]
    fn i7_leaf_text_is_what_serde_reads(value in any::<String>(), key in any::<String>()) {
        let text = serde_json::json!({ key.as_str(): value }).to_string();
        prop_assert_eq!(check(text.as_bytes(), Limits::default()), Ok(()));
        let found = leaves(text.as_bytes());
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(parsed.pointer(&found[0].pointer).and_then(|v| v.as_str()), Some(&*found[0].text()));
    }
}

#[test]
fn a_message_may_hold_half_of_a_pair_in_a_value_and_nothing_else_more() {
    let limits = Limits {
        bytes: 1 << 20,
        depth: 4,
        paths: usize::MAX,
    };
    let check = |text: &str| check_message(text.as_bytes(), limits).map_err(|malformed| malformed.reason);
    assert_eq!(check(r#"{"a":"\ud83d","b":"\ude00","c":"\ud83d\ude00"}"#), Ok(()));
    assert_eq!(check(r#"{"\ud83d":1}"#), Err(Reason::LoneSurrogate));
    assert_eq!(check(r#"{"a":"\ud83"}"#), Err(Reason::BadEscape));
    assert_eq!(check(r#"{"a":{"b":1,"\u0062":2}}"#), Err(Reason::DuplicateKey));
    assert_eq!(check(r#"[{"a":1}]"#), Err(Reason::NotAnObject));
    assert_eq!(check(r#"{"a":[[[[]]]]}"#), Err(Reason::TooDeep(4)));
}

#[test]
fn a_string_is_read_to_its_end_however_long_it_is() {
    for length in 0..200 {
        let plain = "x".repeat(length);
        accepts(&format!(r#"{{"a":"{plain}","b":"{plain}\n{plain}é"}}"#));
        refuses(
            format!("{{\"a\":\"{plain}\u{b}{plain}\"}}"),
            6 + length,
            Reason::ControlCharacter,
        );
    }
}
