use countersign_agent::model::{AnswerPart, ModelError, OpenAi, StopReason, Usage};

use crate::server::*;

/// A stream in the documented format, with two interleaved calls.
pub const STREAM: &str = r#"data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Sí, "},"finish_reason":null}],"usage":null}

data: {"id":"c1","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"create_contact","arguments":""}}]}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\": 90071992"}}]}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"carpeta_delete-potreros","arguments":"{}"}}]}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"54740993, \"a\":1.0}"}}]}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c1","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":89,"total_tokens":119}}

data: [DONE]

"#;

fn expected() -> Vec<AnswerPart> {
    vec![
        AnswerPart::Text("Sí, hello".to_owned()),
        AnswerPart::Call(call(
            "call_1",
            "create_contact",
            r#"{"n": 9007199254740993, "a":1.0}"#,
        )),
        AnswerPart::Call(call("call_2", "carpeta/delete-potreros", "{}")),
        AnswerPart::Usage(Usage {
            input: 30,
            output: 89,
        }),
        AnswerPart::Stop(StopReason::Done),
    ]
}

#[tokio::test]
async fn b1_arguments_are_the_text_the_model_wrote() {
    let server = Server::start(vec![stream(STREAM)]).await;
    let model = OpenAi::new(server.endpoint(), "gpt");
    assert_eq!(collect(&model, request()).await, (expected(), None));
    let asked = server.requests().remove(0);
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("authorization: Bearer sk-secret\r\n"), "{head}");
    assert_eq!(
        body,
        concat!(
            r#"{"model":"gpt","max_tokens":77,"stream":true,"stream_options":{"include_usage":true},"messages":["#,
            r#"{"role":"system","content":"You keep \"contacts\"."},{"role":"user","content":"Hello"},"#,
            r#"{"role":"assistant","content":"Looking.","tool_calls":["#,
            r#"{"id":"t1","type":"function","function":{"name":"create_contact","arguments":"{\"n\":9007199254740993 }"}},"#,
            r#"{"id":"t2","type":"function","function":{"name":"carpeta_delete-potreros","arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"t1","content":"{\"ok\":1}"},"#,
            r#"{"role":"tool","tool_call_id":"t2","content":"no"},{"role":"user","content":"yes"}],"#,
            r#""tools":[{"type":"function","function":{"name":"create_contact","description":"Creates","parameters":{"type":"object" , "x":1e2}}},"#,
            r#"{"type":"function","function":{"name":"carpeta_delete-potreros","description":"Borra","parameters":{"type":"object"}}}]}"#,
        )
    );
}

#[tokio::test]
async fn b1_a_stream_split_anywhere_decodes_the_same() {
    let whole = stream(STREAM);
    let answers: Vec<FakeResponse> = (0..whole.bytes.len())
        .map(|cut| FakeResponse { cut, ..whole.clone() })
        .collect();
    let server = Server::start(answers).await;
    let model = OpenAi::new(server.endpoint(), "gpt");
    for cut in 0..whole.bytes.len() {
        assert_eq!(
            collect(&model, request()).await,
            (expected(), None),
            "cut at {cut}"
        );
    }
}

#[track_caller]
fn chunk(calls: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{calls}]}}}}]}}\n\n")
}

/// Services that send no index, or always 0, or arguments as JSON, or no `[DONE]`.
#[tokio::test]
async fn calls_are_distinguished_with_or_without_an_index() {
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let two = [
        (
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"y","arguments":"{\"n\":2}"}}"#,
        ),
        (
            r#"{"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}"#,
            r#"{"id":"b","function":{"name":"y","arguments":"{\"n\":2}"}}"#,
        ),
        (
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":{"n":1}}}"#,
            r#"{"index":1,"id":"b","function":{"name":"y","arguments":{"n":2}}}"#,
        ),
    ];
    for (first, second) in two {
        let body = format!("{}{}{end}", chunk(first), chunk(second));
        let server = Server::start(vec![stream(&body)]).await;
        let model = OpenAi::new(server.endpoint(), "m");
        let (parts, error) = collect(&model, request()).await;
        assert_eq!(error, None, "{body}");
        assert_eq!(
            parts[..2],
            [
                AnswerPart::Call(call("a", "x", r#"{"n":1}"#)),
                AnswerPart::Call(call("b", "y", r#"{"n":2}"#))
            ],
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_call_without_a_name_is_invalid() {
    let body = format!(
        "{}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n",
        chunk(r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#)
    );
    let server = Server::start(vec![stream(&body)]).await;
    let model = OpenAi::new(server.endpoint(), "m");
    let (parts, error) = collect(&model, request()).await;
    assert!(parts.is_empty());
    assert!(matches!(error, Some(ModelError::InvalidAnswer(_))), "{error:?}");
}
