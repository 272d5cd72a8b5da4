//! Which of several places a mark names, and numbers that count instead of naming.

use super::*;

/// Traces one argument and returns its mark's word and detail.
fn told(messages: &[Message], name: &str, value: &str) -> (String, String) {
    let messages = messages.to_vec();
    let arguments = format!("{{\"{name}\":{value}}}");
    let provenance = trace(&Conversation { messages }, arguments.as_bytes(), &|_| false);
    let mark = provenance.mark(&format!("/{name}")).unwrap();
    (mark.word(), mark.detail().unwrap_or_default())
}

#[track_caller]
fn check(messages: &[Message], name: &str, value: &str, expected: (&str, &str)) {
    let (word, detail) = told(messages, name, value);
    assert_eq!((word.as_str(), detail.as_str()), expected, "{name}: {value}");
}

const PIPELINE: &str = r#"[{"stage":"lead","deals":1},{"stage":"won","deals":1}]"#;
const CONTACTS: &str = r#"{"contacts":[{"id":1,"name":"John Miller"},{"id":2,"name":"John Adeyemi"}]}"#;

#[test]
fn a_count_states_no_id() {
    let pipeline = tool("get_pipeline", PIPELINE);
    let contacts = tool("search_contacts", CONTACTS);
    let both = [person("call John Miller"), pipeline.clone(), contacts.clone()];
    let found = ("tool:search_contacts", "search_contacts, at /contacts/0/id");
    check(&both, "contact_id", "1", found);
    check(&both, "contactId", r#""1""#, found);
    check(&[contacts, pipeline.clone()], "contact_id", "1", found);
    let counted = [person("call John Miller"), pipeline];
    check(&counted, "contact_id", "1", ("none", "nobody stated it"));
    // A number that is no id may be a count.
    check(
        &counted,
        "deals",
        "1",
        ("tool:get_pipeline", "get_pipeline, at /0/deals"),
    );
    for text in ["deals: 1", "{'deals': 1}", "there is 1 deal", "one deal is left"] {
        check(
            &[tool("crm", text)],
            "contact_id",
            "1",
            ("none", "nobody stated it"),
        );
        check(&[person(text)], "contact_id", "1", ("none", "nobody stated it"));
    }
    for text in ["contact 1", "id: 1", "call 1 and 2", "the first is #1"] {
        check(&[person(text)], "contact_id", "1", ("user", ""));
    }
    check(
        &[person("contact one, please")],
        "contact_id",
        "1",
        ("user", "you said “one”"),
    );
}

#[test]
fn the_latest_place_with_the_same_name_is_cited() {
    let list = tool(
        "list_contacts",
        r#"[{"id":7,"owner":"ana"},{"id":8,"owner":"ana"}]"#,
    );
    let one = tool("get_contact", r#"{"id":8,"owner":"ana","age":7}"#);
    let messages = [list, agent(r#"get_contact {"id":8}"#), one];
    check(
        &messages,
        "contact_id",
        "8",
        ("tool:get_contact", "get_contact, at /id"),
    );
    check(
        &messages,
        "contact_id",
        "7",
        ("tool:list_contacts", "list_contacts, at /0/id"),
    );
    check(
        &messages,
        "owner",
        r#""ana""#,
        ("tool:get_contact", "get_contact, at /owner"),
    );
}

#[test]
fn a_tie_without_a_name_is_one_of_several() {
    let several = "list_contacts, at /0/owner, one of several places that state it";
    let list = tool(
        "list_contacts",
        r#"[{"owner":"ana"},{"owner":"ana"},{"owner":"bo"}]"#,
    );
    let messages = [
        list,
        agent(r#"greet {"who":"bo"}"#),
        tool("greet", r#"{"greeted":"bo"}"#),
    ];
    check(&messages, "person", r#""ana""#, ("tool:list_contacts", several));
    // What a tool repeats after the agent used it is no second place.
    check(
        &messages,
        "person",
        r#""bo""#,
        ("tool:list_contacts", "list_contacts, at /2/owner"),
    );
}

#[test]
fn x57_the_choice_of_a_place_never_hides_strangers() {
    let mail = outside(r#"{"contact_id":9,"to":"eve@evil.example"}"#);
    let stored = tool("get_contact", r#"{"contact_id":9,"to":"eve@evil.example"}"#);
    let strangers = "text that strangers may have written, by get_webpage, at ";
    let place = |place: &str| format!("{strangers}{place}");
    for messages in [[mail.clone(), stored.clone()], [mail.clone(), mail.clone()]] {
        let expected = place("/contact_id");
        check(&messages, "contact_id", "9", ("tool:get_webpage", &expected));
        let expected = place("/to");
        check(
            &messages,
            "to",
            r#""eve@evil.example""#,
            ("tool:get_webpage", &expected),
        );
    }
    // A count in their text stays theirs, even if another tool has the id later.
    let counted = outside(r#"{"deals":9}"#);
    let (word, detail) = told(&[counted, stored.clone()], "contact_id", "9");
    assert!(
        word == "tool:get_webpage" && detail.starts_with(strangers),
        "{word} {detail}"
    );
    // What a tool stated first is not called theirs because they repeat it.
    check(
        &[stored, mail],
        "contact_id",
        "9",
        ("tool:get_contact", "get_contact, at /contact_id"),
    );
}
