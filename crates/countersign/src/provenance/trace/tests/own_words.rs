//! Tests that the agent's own words stay its own, in whatever form a tool returns them.

use super::*;

const EVE: &str = r#""eve@evil.example""#;

/// A conversation in which the agent makes a call with these arguments and gets this result.
fn after(arguments: &str, result: &str) -> Vec<Message> {
    vec![person("find Eve"), agent(arguments), tool("search", result)]
}

#[test]
fn x96_a_tool_that_repeats_the_agents_query_is_no_source() {
    let query = r#"{"query":"eve@evil.example"}"#;
    for result in [
        "nothing found for eve@evil.example",
        "error: no such user: 'EVE@EVIL.EXAMPLE'",
        r#"{"query":"eve@evil.example","results":[]}"#,
        r#"{"error":"{\"query\":\"eve@evil.example\"}"}"#,
        "Eve <eve@evil.example>, 1 result",
    ] {
        check(after(query, result), EVE, "none");
        let mark = marked(after(query, result), EVE);
        assert_eq!(mark, Mark::Invented { agent_said_it: true }, "{result}");
    }
    // A value that the tool adds is the tool's.
    check(
        after(query, "see bo@acme.example"),
        r#""bo@acme.example""#,
        "tool:search",
    );
}

#[test]
fn x96_another_form_of_the_agents_words_is_the_agents() {
    for arguments in [
        r#"{"query":"eve%40evil.example"}"#,
        r#"{"query":"mail+eve%2540evil.example"}"#,
        r#"{"query":"ZXZlQGV2aWwuZXhhbXBsZQ=="}"#,
        r#"{"query":"657665406576696c2e6578616d706c65"}"#,
        r#"{"query":"eve\u0040evil.example"}"#,
        r#"{"query":"{\"to\":\"eve@evil.example\"}"}"#,
        r#"{"query":"e v e @ evil . example"}"#,
        r#"{"query":"eve&#64;evil.example"}"#,
        r#"{"url":"https://x.example/?to=eve%40evil.example"}"#,
        r#"{"user":"eve","host":"evil.example"}"#,
        r#"{"to":{"eve@evil.example":1}}"#,
        r#"search {"query":"eve@evil.example"}"#,
    ] {
        check(after(arguments, "no mail to eve@evil.example"), EVE, "none");
    }
    // The reverse: the agent wrote the value plainly, the tool encodes it, and the traced value is the encoded one.
    let query = r#"{"query":"eve@evil.example"}"#;
    check(
        after(query, "q=eve%40evil.example"),
        r#""eve%40evil.example""#,
        "none",
    );
    check(
        after(query, "ZXZlQGV2aWwuZXhhbXBsZQ=="),
        r#""ZXZlQGV2aWwuZXhhbXBsZQ==""#,
        "none",
    );
    // The agent wrote the value in pieces, over several calls.
    let messages = vec![
        person("take a note"),
        agent(r#"{"id":7,"append":"eve@"}"#),
        tool("note", "ok"),
        agent(r#"{"id":7,"append":"evil.example"}"#),
        tool("note", "note 7: eve@evil.example"),
    ];
    check(messages, EVE, "none");
    // The value is part of what the agent wrote.
    let query = r#"{"query":"mail to eve@evil.example today"}"#;
    check(after(query, "eve@evil.example is unknown"), EVE, "none");
    check(after(r#"{"code":"X-77-abc"}"#, "code abc"), r#""abc""#, "none");
}

#[test]
fn x96_whoever_said_it_first_counts() {
    let query = || agent(r#"{"query":"eve@evil.example"}"#);
    let echo = || tool("search", "nothing for eve@evil.example");
    // The person stated the value.
    check(
        vec![person("find eve@evil.example"), query(), echo()],
        EVE,
        "user",
    );
    // The person confirms the value later.
    let confirmed = vec![
        person("find Eve"),
        query(),
        echo(),
        person("yes, eve@evil.example"),
    ];
    check(confirmed, EVE, "user");
    // A tool stated the value before the agent used it.
    let found = || tool("contacts", "Eve: eve@evil.example");
    check(
        vec![person("find Eve"), found(), query(), echo()],
        EVE,
        "tool:contacts",
    );
    // A result that repeats an earlier echo of the agent's words is still an echo.
    let chain = vec![
        person("find Eve"),
        query(),
        echo(),
        agent(r#"{"id":"eve@evil.example"}"#),
        found(),
    ];
    check(chain, EVE, "none");
    // The person stated the value in other words, and the tool repeats the agent's words.
    let dated = vec![
        person("a flight on May 20th"),
        agent(r#"{"date":"2024-05-20"}"#),
        tool("flights", r#"{"date":"2024-05-20"}"#),
    ];
    check(dated, r#""2024-05-20""#, "user");
    // The tool created a new value from what the person gave.
    let made = vec![
        person("a mailbox for maria at acme.example"),
        agent(r#"{"name":"maria","domain":"acme.example"}"#),
        tool("create", r#"{"address":"maria@acme.example"}"#),
    ];
    check(made, r#""maria@acme.example""#, "tool:create");
}

#[test]
fn x96_prose_is_not_made_of_the_agents_words() {
    let messages = |query: &str| {
        vec![
            person("what do we know about Ana"),
            agent(query),
            tool("search", "no result for: wire savings abroad"),
        ]
    };
    let value = r#""Ana: wire savings abroad""#;
    check(messages(r#"{"query":"wire savings abroad"}"#), value, "none");
    check(messages(r#"{"query":"Ana"}"#), value, "derived");
}

#[test]
fn x96_what_is_made_with_outside_text_is_outside() {
    let messages = vec![person("Title 'Dinner at' the best one"), outside("Chez Eve: 4.9")];
    let mark = marked(messages, r#""Dinner at Chez Eve""#);
    assert_eq!(
        (mark.word().as_str(), mark.tag(Voucher::Gate)),
        ("derived", "FROM OUTSIDE")
    );
    assert!(mark.is_outside());
}

#[test]
fn x96_where_nobody_heard_the_person_an_echo_is_unknown() {
    let messages = vec![
        Message::Unheard,
        agent(r#"{"query":"ZXZlQGV2aWwuZXhhbXBsZQ=="}"#),
        outside("nothing for eve@evil.example"),
    ];
    check(messages, EVE, "unknown");
}
