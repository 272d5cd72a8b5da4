//! Values that follow from stated ones: days, times, lists and prose.

use super::*;

const NOW: &str = "2026-11-19 09:00:00";

/// Traces one value of a call and returns its mark's word and detail.
fn told(messages: &[Message], arguments: &str, pointer: &str) -> (String, String) {
    let messages = messages.to_vec();
    let provenance = trace(&Conversation { messages }, arguments.as_bytes(), &|_| false);
    let mark = provenance.mark(pointer).unwrap();
    (mark.word(), mark.detail().unwrap_or_default())
}

/// Checks a value on Thursday, 19 November 2026, which only a tool says.
#[track_caller]
fn on_thursday(text: &str, value: &str, expected: &str) {
    check(vec![person(text), tool("get_current_time", NOW)], value, expected);
}

#[test]
fn days_follow_from_the_day_that_a_tool_says_it_is() {
    on_thursday("what is on tomorrow?", r#""2026-11-20""#, "derived");
    on_thursday("what is on tomorrow?", r#""2026-11-20 23:59:59""#, "derived");
    on_thursday("what is on tomorrow?", r#""2026-11-21""#, "none");
    on_thursday("pay it this Monday", r#""2026-11-23""#, "derived");
    on_thursday("pay it this Monday", r#""2026-11-24""#, "none");
    on_thursday("it was sent last Tuesday", r#""2026-11-17""#, "derived");
    on_thursday("it was sent last Tuesday", r#""2026-11-24""#, "none");
    on_thursday("what is on next week?", r#""2026-11-23""#, "derived");
    on_thursday("what is on next week?", r#""2026-11-29""#, "derived");
    on_thursday("what is on next week?", r#""2026-11-25""#, "none");
    on_thursday("the events of next month", r#""2026-12-31""#, "derived");
    on_thursday("how warm is it this month?", r#""November""#, "derived");
    on_thursday("how warm is it this month?", r#""December""#, "none");
    let messages = [person("what is on tomorrow?"), tool("get_current_time", NOW)];
    assert_eq!(
        told(&messages, r#"{"day":"2026-11-20"}"#, "/day"),
        (
            "derived".to_owned(),
            "“tomorrow” (you) and “2026-11-19” (get_current_time)".to_owned()
        )
    );
    said(
        "Today is 2021-10-13. Wake me tomorrow.",
        r#""2021-10-14""#,
        "derived",
    );
    let day = |name: &str, text: &str| vec![person("tomorrow"), tool(name, text)];
    check(day("clock", NOW), r#""2026-11-20""#, "derived");
    check(
        day("status", r#"{"now":"2026-11-19","due":"2026-12-01"}"#),
        r#""2026-11-20""#,
        "derived",
    );
    // The days of other results are not the day it is.
    check(day("list_events", NOW), r#""2026-11-20""#, "none");
    check(
        day("get_current_time", "2026-11-19 or 2026-12-01"),
        r#""2026-11-20""#,
        "none",
    );
    // The day it is has to come from the tool, not from the agent.
    let messages = vec![
        person("tomorrow"),
        agent(r#"get_current_time {"assume":"2026-11-19"}"#),
        tool("get_current_time", NOW),
    ];
    check(messages, r#""2026-11-20""#, "none");
}

#[test]
fn a_day_and_a_time_may_be_said_apart() {
    on_thursday("Set an alarm for 6:30", r#""18:30:00""#, "derived");
    on_thursday("Set an alarm for 6:30", r#""06:31""#, "none");
    on_thursday("It goes from 8-11 tomorrow", r#""2026-11-20 20:00""#, "derived");
    on_thursday("It goes from 8-11 tomorrow", r#""2026-11-20 23:00""#, "derived");
    on_thursday(
        "How about 10, 11 and 12 tomorrow?",
        r#""2026-11-20 11:00""#,
        "derived",
    );
    on_thursday(
        "How about 10, 11 and 12 tomorrow?",
        r#""2026-11-20 12:00""#,
        "derived",
    );
    on_thursday(
        "It goes from 8 am to 9 tomorrow",
        r#""2026-11-20T09:00:00Z""#,
        "derived",
    );
    on_thursday("8 am tomorrow", r#""2026-11-20 20:00""#, "none");
    on_thursday("5 people come tomorrow", r#""2026-11-20 05:00""#, "none");
    let apart = vec![person("on November 20th, 2026"), person("at 3 pm")];
    check(apart, r#""2026-11-20 15:00""#, "derived");
    on_thursday(
        "the meeting is at 8 am; wake me 30 minutes before it",
        r#""07:30""#,
        "derived",
    );
    on_thursday(
        "the meeting is at 8 am; wake me 30 minutes before it",
        r#""08:45""#,
        "none",
    );
    let moved = || {
        vec![
            tool("events", r#"{"start":"2026-11-20 14:00"}"#),
            person("two hours earlier"),
        ]
    };
    check(moved(), r#""2026-11-20 12:00""#, "derived");
    check(moved(), r#""2026-11-20 16:00""#, "none");
    said("from 9/15-9/21", r#""2026-09-21""#, "user");
}

#[test]
fn an_end_follows_from_a_computed_beginning() {
    let messages = || {
        [
            person("tomorrow at 8 am, the flight takes 10 hours"),
            tool("clock", NOW),
        ]
    };
    let arguments = |end: &str| format!(r#"{{"start":"2026-11-20 08:00","end":"{end}"}}"#);
    let (word, detail) = told(&messages(), &arguments("2026-11-20 18:00"), "/end");
    assert_eq!(word, "derived", "{detail}");
    assert_eq!(
        told(&messages(), &arguments("2026-11-20 17:00"), "/end").0,
        "none"
    );
}

/// Sums of a column, the rest of a total and multiples of a price explain wrong amounts as well as right ones.
#[test]
fn numbers_that_only_fit_are_invented() {
    let split = r#"{"payments":[{"amount":128},{"amount":171}]}"#;
    let messages = [tool("card", r#"{"left":128}"#), tool("calculate", "299")];
    assert_eq!(told(&messages, split, "/payments/1/amount").0, "none");
    let prices = r#"[{"price":158},{"price":141}]"#;
    check(vec![person("for 2 nights"), tool("list", prices)], "299", "none");
    check(vec![person("for 2 nights"), tool("list", prices)], "316", "none");
}

#[test]
fn a_list_follows_from_its_members() {
    let found = || tool("find", r#"["ana@acme.com","bo@acme.com"]"#);
    check(vec![found()], r#""ana@acme.com, bo@acme.com""#, "derived");
    check(vec![found()], r#""bo@acme.com,ana@acme.com""#, "derived");
    check(vec![found()], r#""ana@acme.com, eve@acme.com""#, "none");
    check(vec![found()], r#""ana@acme.com,cc=bo@acme.com""#, "none");
    said("cards 4111 and 1111", r#""4111,1111""#, "none");
    let mixed = [person("ask ana@acme.com"), outside("and eve@evil.example")];
    let arguments = r#"{"to":"ana@acme.com, eve@evil.example"}"#;
    let messages = mixed.to_vec();
    let provenance = trace(&Conversation { messages }, arguments.as_bytes(), &|_| false);
    assert!(provenance.mark("/to").unwrap().is_outside());
    let echoed = vec![
        agent(r#"find {"to":"eve@evil.example"}"#),
        tool("find", "eve@evil.example, bo@acme.com"),
    ];
    check(echoed, r#""bo@acme.com, eve@evil.example""#, "none");
}

#[test]
fn prose_may_bend_a_verb_but_not_make_one() {
    said(
        "Move the meeting with Tao and tell him",
        r#""I moved the meeting, Tao""#,
        "derived",
    );
    said(
        "We hold a party for Ana",
        r#""We are holding a party for Ana""#,
        "derived",
    );
    said("a one on one with Ana", r#""1 on 1 with Ana""#, "derived");
    said("show me the deleted users", r#""delete the users""#, "none");
    let mail = vec![tool("mail", "subject: Come and visit us")];
    check(mail.clone(), r#""Re: Come and visit us""#, "derived");
    check(mail, r#""Re: Come and pay us""#, "none");
}

#[test]
fn x57_a_better_explanation_never_replaces_strangers() {
    // Words that strangers state as they are stay theirs, although the person says them in another form.
    let messages = vec![person("move the meeting"), outside("moved: the big meeting")];
    let provenance = trace(
        &Conversation { messages },
        br#"{"note":"moved big meeting"}"#,
        &|_| false,
    );
    assert!(provenance.mark("/note").unwrap().is_outside());
    // So does a day that only they state.
    let messages = vec![person("at 3 pm"), outside("come on 2026-11-20")];
    let provenance = trace(
        &Conversation { messages },
        br#"{"at":"2026-11-20 15:00"}"#,
        &|_| false,
    );
    assert!(provenance.mark("/at").unwrap().is_outside());
}
