//! Tests that addresses match only as a whole, that decisive words must be stated, and that member names count as
//! values.

use super::*;

#[test]
fn x96_a_part_of_an_address_is_not_the_address() {
    // Links.
    said(
        "see https://good.example/a/b?c=1",
        r#""https://good.example/a/b?c=1""#,
        "user",
    );
    said(
        "see https://good.example/a/b?c=1.",
        r#""https://good.example/a/b?c=1""#,
        "user",
    );
    said(
        "(see <https://good.example/a>)",
        r#""https://good.example/a""#,
        "user",
    );
    said(
        "[it](https://good.example/a), please",
        r#""https://good.example/a""#,
        "user",
    );
    said(
        "see https://good.example/a/",
        r#""https://good.example/a""#,
        "user",
    );
    said("see good.example", r#""https://www.good.example/""#, "user");
    for part in [
        "https://good.example/a/b",
        "https://good.example/a/b?c",
        "https://good.example/a",
        "https://good.example",
        "https://good.example/a/b?c=1&d=2",
        "https://good.example/a/b?c=12",
        "https://good.example/a/x?c=1",
        "https://good.example.evil.example/a/b?c=1",
        "good.example",
        "www.good.example",
        "good.example/a/b",
        "example",
        "https",
    ] {
        said("see https://good.example/a/b?c=1", &format!("{part:?}"), "none");
    }
    for longer in [
        "https://good.example.evil.example",
        "https://good.example@evil.example",
        "https://good.example:pw@evil.example",
        "https://good.example:8443",
        "https://good.example-evil.example",
        "https://evil.example/https://good.example",
        "https://evil.example/?u=https://good.example",
        "https://good.example,evil",
        "https://good.example(evil)",
    ] {
        said(&format!("see {longer}"), r#""https://good.example""#, "none");
        said("see https://good.example", &format!("{longer:?}"), "none");
    }
    said(
        "see https://good.example@evil.example/",
        r#""evil.example""#,
        "none",
    );
    said(
        "see https://good.example@evil.example/",
        r#""good.example@evil.example""#,
        "none",
    );
    // On most servers these paths differ.
    said(
        "see https://good.example/AbC",
        r#""https://good.example/abc""#,
        "none",
    );
    said(
        "see https://GOOD.example/AbC",
        r#""https://good.example/AbC""#,
        "user",
    );
    said("see https://good.example/a", r#""http://good.example/a""#, "none");
    // Mail addresses.
    said("write ana@acme.example.", r#""ana@acme.example""#, "user");
    said(
        "write to <ana@acme.example>, now",
        r#""Ana@Acme.example""#,
        "user",
    );
    said(
        "write ana@acme.example.evil.example",
        r#""ana@acme.example""#,
        "none",
    );
    said(
        "write ana@acme.example",
        r#""ana@acme.example.evil.example""#,
        "none",
    );
    said("write ana@acme.example", r#""acme.example""#, "none");
    said("write ana@acme.example", r#""ana""#, "none");
    said(
        "write ana@acme.example@evil.example",
        r#""ana@acme.example""#,
        "none",
    );
    // Paths.
    said("read /home/ana/notes.txt", r#""/home/ana/notes.txt""#, "user");
    said("read /home/ana/notes.txt", r#""/home/ana""#, "none");
    said("read /home/ana/notes.txt", r#""/home""#, "none");
    said("read /home/ana/notes.txt", r#""notes.txt""#, "none");
    said("read docs/plan.docx", r#""plan.docx""#, "none");
    said("clear /home/ana/tmp", r#""/home/ana""#, "none");
    said(r"read C:\Users\ana\a.txt", r#""C:\\Users\\ana\\a.txt""#, "user");
    said(r"read C:\Users\ana\a.txt", r#""C:\\Users""#, "none");
    // An id that is a whole component of an address counts as stated.
    said(
        "see https://good.example/orders/W2378156",
        r#""W2378156""#,
        "user",
    );
    said("I am mia_li_3668@acme.example", r#""mia_li_3668""#, "user");
    // Words joined by a slash are not a path.
    said("the black/white one", r#""black""#, "user");
}

#[test]
fn x96_prose_does_not_take_a_part_of_an_address() {
    let text = "Tell Ana to read https://good.example/a?x=1 and write to ana@acme.example, on page 2";
    said(text, r#""read https://good.example/a?x=1""#, "user");
    said(text, r#""Ana read https://good.example/a?x=1""#, "derived");
    said(text, r#""read https://good.example/a""#, "none");
    said(text, r#""Ana read https://good.example/a""#, "none");
    said(text, r#""Ana read https://good.example/a?x=2""#, "none");
    said(text, r#""Ana write to acme.example""#, "none");
    said(text, r#""to read https://good.example""#, "none");
}

#[test]
fn x96_words_that_change_the_meaning_are_stated() {
    let shown = "show me the users whose status is active";
    said(shown, r#""users whose status is active""#, "user");
    said(shown, r#""show users where status is active""#, "derived");
    said(shown, r#""delete from users where status is active""#, "none");
    said(shown, r#""DELETE FROM users WHERE status = 'active'""#, "none");
    said(shown, r#""show users where status != active""#, "none");
    said(shown, r#""show users where status is not active""#, "none");
    said(shown, r#""show users whose status is never active""#, "none");
    said(shown, r#""show users without status active""#, "none");
    said(shown, r#""show users except status active""#, "none");
    said(shown, r#""show me no users whose status is active""#, "none");
    said(shown, r#""show all users whose status is active""#, "none");
    said(
        "muéstrame los usuarios activos de Lima",
        r#""borrar los usuarios activos de Lima""#,
        "none",
    );
    said(
        "muéstrame los usuarios activos de Lima",
        r#""usuarios no activos de Lima""#,
        "none",
    );
    said(
        "zeig mir die aktiven Nutzer in Köln",
        r#""lösche die aktiven Nutzer in Köln""#,
        "none",
    );
    said(
        "zeig mir die aktiven Nutzer in Köln",
        r#""die nicht aktiven Nutzer in Köln""#,
        "none",
    );
    said(
        "montre les clients actifs de Lyon",
        r#""clients pas actifs de Lyon""#,
        "none",
    );
    // Without its negation, a negated statement is not the person's.
    said(
        "show me the users whose status is not active",
        r#""users whose status is active""#,
        "none",
    );
    said("do not show the users of Lima", r#""show users of Lima""#, "none");
    said(
        "show me the users whose status is not active",
        r#""show users status is not active""#,
        "derived",
    );
}

#[test]
fn x96_names_are_values() {
    let check = |text: &str, arguments: &str, place: &str, expected: &str| {
        let messages = vec![person(text)];
        let provenance = trace(&Conversation { messages }, arguments.as_bytes(), &|_| false);
        let word = provenance.mark(place).map(Mark::word);
        assert_eq!(word.unwrap_or_default(), expected, "{arguments}");
    };
    let split = "Split 100 between ana@acme.example and bo@acme.example: 60 and 40";
    let honest = r#"{"shares":{"ana@acme.example":60,"bo@acme.example":40}}"#;
    check(split, honest, "key:/shares/ana@acme.example", "user");
    check(split, honest, "key:/shares/bo@acme.example", "user");
    // Parameter names are declared by the tool.
    check(split, honest, "key:/shares", "");
    let evil = r#"{"shares":{"ana@acme.example":60,"eve@evil.example":40}}"#;
    check(split, evil, "/shares/eve@evil.example", "user");
    check(split, evil, "key:/shares/eve@evil.example", "none");
    check(split, r#"{"set":[{"a~b/c":60}]}"#, "key:/set/0/a~0b~1c", "none");
    // A member name that nobody stated counts as an invented value in the verdict.
    let messages = vec![person(split)];
    let provenance = trace(&Conversation { messages }, evil.as_bytes(), &|_| false).by(Voucher::Gate);
    assert_eq!(provenance.counts().invented, 1);
    assert!(!provenance.is_all_given());
    assert_eq!(
        provenance.verdict(),
        "1 of 4 values was not given by you: 1 invented"
    );
}
