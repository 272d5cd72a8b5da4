use super::*;
use crate::json::TopLevel;

#[track_caller]
fn check(source: &str, arguments: &str, expected: Result<bool, &str>) {
    let tree = Tree::read(arguments.as_bytes(), TopLevel::Object).unwrap();
    let answer = Condition::compile(source)
        .unwrap()
        .holds_for(&tree, &Origins::Unknown, None);
    assert_eq!(
        answer,
        expected.map_err(str::to_owned),
        "{source} for {arguments}"
    );
}

#[test]
fn answers_about_arguments() {
    check("args.amount >= 100.0", r#"{"amount":100}"#, Ok(true));
    check("args.amount >= 100.0", r#"{"amount":99.99}"#, Ok(false));
    check("args.amount * 2 == 10", r#"{"amount":5}"#, Ok(true));
    check(
        "args.id == 9007199254740993",
        r#"{"id":9007199254740992}"#,
        Ok(false),
    );
    check(
        "args.id == 18446744073709551615u",
        r#"{"id":18446744073709551615}"#,
        Ok(true),
    );
    check(
        "has(args.cc) && args.cc.exists(x, !x.endsWith('@us.example'))",
        r#"{"cc":["a@b"]}"#,
        Ok(true),
    );
    check("has(args.cc)", "{}", Ok(false));
    check(
        "args.to.matches('^[a-z]+@us[.]example$')",
        r#"{"to":"ann@us.example"}"#,
        Ok(true),
    );
    check("type(args.a) == string", r#"{"a":"x"}"#, Ok(true));
    check(
        "args.a in ['x', 'y'] && args.b == null",
        r#"{"a":"y","b":null}"#,
        Ok(true),
    );
}

#[test]
fn x21_what_cannot_be_told_is_an_error() {
    check("args.amount > 1", "{}", Err("there is no `amount`"));
    check(
        "args.amount > 1",
        r#"{"amount":"secret"}"#,
        Err("an argument has an unexpected type"),
    );
    check(
        "args.amount",
        r#"{"amount":1}"#,
        Err("its result is neither true nor false"),
    );
    check(
        "args.amount > 1",
        r#"{"amount":1e400}"#,
        Err("a number is too large"),
    );
    check(
        "args.a / args.b > 1",
        r#"{"a":1,"b":0}"#,
        Err("it cannot be evaluated"),
    );
    let many = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(2_000));
    let source = "args.a.exists(x, args.a.exists(y, x + y == 1))";
    check(source, &many, Err("the arguments are too large for its loops"));
    let search = "args.a.all(x, x in args.a)";
    check(search, &many, Err("the arguments are too large for its loops"));
    check(search, r#"{"a":[1,2]}"#, Ok(true));
    check("args.a.all(x, x in [0, 1])", &many, Ok(true));
    check("args.a.exists(x, x == 0)", &many, Ok(true));
}

#[track_caller]
fn refuses(source: &str, offset: usize, message: &str) {
    let fault = Condition::compile(source).unwrap_err();
    assert_eq!(
        (fault.offset, fault.message.as_str()),
        (offset, message),
        "{source}"
    );
}

#[test]
fn mistakes_are_found_at_load() {
    refuses("amount > 1", 0, "unknown name `amount` in condition");
    refuses("args.a > 1 || arg.b", 14, "unknown name `arg` in condition");
    refuses("args.a.exists(x, y > 1)", 17, "unknown name `y` in condition");
    refuses(
        "args.a.exists(x, x > 1) && x > 1",
        27,
        "unknown name `x` in condition",
    );
    assert!(
        Condition::compile("sise(args.a) > 1")
            .unwrap_err()
            .hint
            .contains("`size`")
    );
    assert!(
        Condition::compile("args.a.matches('(')")
            .unwrap_err()
            .message
            .contains("regular expression")
    );
    refuses("args.a.matches(args.p)", 19, "`matches` needs a literal pattern");
    assert!(Condition::compile("args.a >").is_err());
    assert!(Condition::compile("").is_err());
    assert!(Condition::compile(&format!("args.a == '{}'", "x".repeat(5_000))).is_err());
    let three = "args.a.all(x, args.b.all(y, args.c.all(z, x + y + z > 0)))";
    assert!(Condition::compile(three).unwrap_err().message.contains("nest"));
    assert_eq!(
        Condition::compile("args.a.all(x, args.b.all(y, x > y))")
            .unwrap()
            .loops,
        2
    );
    assert_eq!(
        Condition::compile("args.a.all(x, x > 0) && args.b.all(y, y > 0)")
            .unwrap()
            .loops,
        1
    );
}

#[test]
fn x81_what_the_host_says_of_paths_only_tightens() {
    let folder = WorkingFolder::new("/h/.claude", Vec::new()).unwrap();
    let check = |source: &str, expected: [Result<bool, &str>; 2]| {
        let tree = Tree::read(br#"{"file":"a"}"#, TopLevel::Object).unwrap();
        let condition = Condition::compile(source).unwrap();
        for (folder, expected) in [None, Some(&folder)].into_iter().zip(expected) {
            let answer = condition.holds_for(&tree, &Origins::Unknown, folder);
            assert_eq!(answer, expected.map_err(str::to_owned), "{source} in {folder:?}");
        }
    };
    let there = "paths.file.exists(path, path.contains('.claude/'))";
    check(there, [Ok(false), Ok(true)]);
    check(&format!("!{there}"), [Ok(true), Ok(true)]);
    let missing = Err("there is no `other`");
    check("paths.other.exists(path, path == 'a')", [missing, missing]);
    check(&format!("args.other == 1 || {there}"), [missing, Ok(true)]);
}
