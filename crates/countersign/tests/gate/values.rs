//! Values on real cards: two calls with different arguments never look the same (X56).

use std::collections::HashMap;

use countersign::card::CardText;
use countersign::sentence::Sentences;
use serde_json::{Value, json};

use crate::world::*;

const POLICY: &str = r#"
[tools.plain]
effect = "write"

[tools.sentence]
effect = "write"
summary = "Rename {{ a }} to {{ b }}{% if x %}, with {{ x }}{% endif %}"

[tools.beside]
effect = "write"
summary = "Say {{ a }} {{ b }}"
"#;

const NAMES: [&str; 14] = [
    "a", "b", "x", "y", "0", "1", "a.b", "a: x", "a  x", "0-1", "", "a, b", "\"0\"", "a/b",
];

/// Returns values that are easily confused with each other, the most confusable first.
fn leaves() -> Vec<Value> {
    let first = [
        json!(1),
        json!("1"),
        json!(false),
        json!("false"),
        json!(""),
        json!("x"),
        json!("y"),
        json!("x to y"),
        json!("x y"),
        json!("x, y"),
        json!([]),
        json!("[]"),
    ];
    let others = [
        json!(1.0),
        json!(0),
        json!(true),
        json!(null),
        json!({}),
        json!(["x", "y"]),
    ];
    let texts = [
        "true",
        "null",
        "1.0",
        "(empty)",
        "{}",
        "1, 2",
        "a: b",
        " x",
        "x ",
        "\"1\"",
        "\"",
        "\"\"",
        "[x, y]",
        "[x]",
        "{x: 1, y: 2}",
        "{x: x, y: y}",
        "x, with y",
        "with",
        "to",
        "\n",
        "x\n",
        "\u{301}",
        "\\u{a}",
        "x 1, y 2",
        "0",
        "(hidden, 1 bytes)",
        "x, y 1",
        "x 1",
        "x, b y",
        "1, b 1",
        "x\ny",
        "x↵y",
        "x \ny",
        "x\n\n\n\n\ny",
        "x\n│ /b: y",
    ];
    let texts = texts.iter().map(|text| json!(text));
    first.into_iter().chain(others).chain(texts).collect()
}

/// Returns small arguments of every shape, so that all pairs that could be confused are compared.
fn every_shape() -> Vec<Value> {
    let leaves = leaves();
    let few = leaves.get(..12).unwrap();
    let mut all = vec![json!({})];
    for leaf in &leaves {
        all.extend(NAMES.map(|name| json!({ name: leaf })));
        all.extend(NAMES.map(|name| json!({ "a": { name: leaf } })));
        all.push(json!({ "a": [leaf] }));
        all.extend(leaves.iter().map(|other| json!({ "a": leaf, "b": other })));
    }
    for first in few {
        for second in few {
            all.push(json!({ "a": [first, second] }));
            all.push(json!({ "a": { "x": first, "y": second } }));
            all.push(json!({ "a": { "0": first, "1": second } }));
            all.push(json!({ "a": { "0-1": [first, second] } }));
            all.push(json!({ "a": { "0-1": first }, "b": second }));
            all.extend(
                few.iter()
                    .map(|third| json!({ "a": first, "b": second, "x": third })),
            );
        }
    }
    all
}

#[tokio::test]
async fn x56_different_arguments_never_make_the_same_card() {
    for tool in ["plain", "sentence", "beside"] {
        let mut cards: HashMap<String, Value> = HashMap::new();
        let world = world_with(POLICY);
        for arguments in every_shape() {
            let approval = world.hold(vec![call(tool, &arguments.to_string())]).await;
            let card = CardText::new(&approval, world.gate.policy(), &[], &Sentences::english()).whole();
            if let Some(other) = cards.insert(card.clone(), arguments.clone()) {
                assert_eq!(other, arguments, "one card for both:\n{card}");
            }
        }
        assert!(cards.len() > 4_000, "{}", cards.len());
    }
}

/// Checks that further lines of a value begin with a gutter, so that none can pass for a line of ours.
#[tokio::test]
async fn x39_a_summary_of_several_lines_has_a_gutter() {
    let world = world_with(POLICY);
    let note = "a\nnote: checked\n[from you] /b: c";
    let calls = [
        json!({ "a": note, "b": "x" }),
        json!({ "a": "1\n2", "b": "\n\n\n\n" }),
        json!({ "a": "\\u{a}", "b": "\r\n" }),
    ];
    let calls: Vec<_> = calls
        .iter()
        .map(|arguments| call("beside", &arguments.to_string()))
        .collect();
    let one = world.hold(vec![calls[0].clone()]).await;
    let text = |approval: &countersign::approval::Approval| {
        let text = CardText::new(approval, world.gate.policy(), &[], &Sentences::english()).whole();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        text(&one)[..3],
        ["Say a", "│ note: checked", "│ [from you] /b: c x"]
    );
    let all = world.hold(calls).await;
    let lines = text(&all);
    for line in [
        "1. Say a",
        "   │ note: checked",
        "   │ [from you] /b: c x",
        "2. Say 1",
        "   │ 2 \\u{a×4}",
        "3. Say \\u{5c}u{a} \\u{d}",
        "   │ ",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
}

/// Checks that a value of several lines has them, each behind a gutter, and that no list swallows it.
#[tokio::test]
async fn x39_a_value_of_several_lines_has_a_gutter() {
    let world = world_with(POLICY);
    let arguments = json!({
        "a": "to\n[from you] /c: d\n    x", "b": "x", "list": ["1", "2\n3"], "long": "x\n".repeat(300), "x": "↵",
    });
    let approval = world.hold(vec![call("sentence", &arguments.to_string())]).await;
    let text = CardText::new(&approval, world.gate.policy(), &[], &Sentences::english()).whole();
    for lines in [
        "/a: to\n│ [from you] /c: d\n│     x\n",
        "/list/0: \"1\"\n/list/1: 2\n│ 3\n",
        &format!("/long: {}", "x↵".repeat(300)),
        "\\u{21b5}",
    ] {
        assert!(text.contains(lines), "{lines}: {text}");
    }
    assert!(!text.contains("\\u{a}"), "{text}");
}

/// Checks how values that differ only in type are shown.
#[tokio::test]
async fn x56_a_card_says_a_values_type_where_it_would_be_unclear() {
    let world = world_with(POLICY);
    let shown = async |tool: &str, arguments: &str| {
        let approval = world.hold(vec![call(tool, arguments)]).await;
        CardText::new(&approval, world.gate.policy(), &[], &Sentences::english()).whole()
    };
    for (tool, arguments, expected) in [
        ("plain", r#"{"a":1,"b":"Ana"}"#, "plain: a 1, b Ana"),
        ("plain", r#"{"a":"1","b":"Ana"}"#, "plain: a \"1\", b Ana"),
        ("plain", r#"{"a":"","b":[]}"#, "plain: a (empty), b []"),
        (
            "plain",
            r#"{"a":false,"b":"false"}"#,
            "plain: a false, b \"false\"",
        ),
        // The sentence stays natural; ambiguous values are listed below it.
        ("sentence", r#"{"a":"Ana","b":"Bo"}"#, "Rename Ana to Bo"),
        ("sentence", r#"{"a":7,"b":true}"#, "Rename 7 to true"),
        (
            "sentence",
            r#"{"a":"7","b":"true"}"#,
            "Rename 7 to true\n/a: \"7\"\n/b: \"true\"",
        ),
        (
            "sentence",
            r#"{"a":"x to y","b":"z"}"#,
            "Rename x to y to z\n/a: x to y",
        ),
        ("sentence", r#"{"a":"x","b":"y to z"}"#, "Rename x to y to z"),
        (
            "sentence",
            r#"{"a":"Ana","b":"Bo","y":["r","s"],"z":{"m":1,"n":"1"}}"#,
            "Rename Ana to Bo\n/y/0-1: [r, s]\n/z: {m: 1, n: \"1\"}",
        ),
    ] {
        assert_eq!(shown(tool, arguments).await, expected, "{arguments}");
    }
}
