use countersign_agent::model::{AnswerPart, Anthropic, StopReason, Usage};

use crate::server::*;

/// A stream in the documented format, with two calls, the second without arguments.
pub const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Sí, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"create_contact","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 90071992"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"54740993, \"a\":1.0}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"carpeta_delete-potreros","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn expected() -> Vec<AnswerPart> {
    vec![
        AnswerPart::Text("Sí, hello".to_owned()),
        // Exactly as written: one space, an integer too large for a float, and a `1.0` that stays `1.0`.
        AnswerPart::Call(call(
            "toolu_1",
            "create_contact",
            r#"{"n": 9007199254740993, "a":1.0}"#,
        )),
        AnswerPart::Call(call("toolu_2", "carpeta/delete-potreros", "{}")),
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
    let model = Anthropic::new(server.endpoint(), "claude");
    assert_eq!(collect(&model, request()).await, (expected(), None));
    let asked = server.requests().remove(0);
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nx-api-key: sk-secret\r\n"), "{head}");
    assert!(head.contains("anthropic-version: 2023-06-01"), "{head}");
    assert_eq!(
        body,
        concat!(
            r#"{"model":"claude","max_tokens":77,"stream":true,"system":"You keep \"contacts\".","messages":["#,
            r#"{"role":"user","content":[{"type":"text","text":"Hello"}]},"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"Looking."},"#,
            r#"{"type":"tool_use","id":"t1","name":"create_contact","input":{"n":9007199254740993 }},"#,
            r#"{"type":"tool_use","id":"t2","name":"carpeta_delete-potreros","input":{}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":false,"content":"{\"ok\":1}"},"#,
            r#"{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":"no"},{"type":"text","text":"yes"}]}],"#,
            r#""tools":[{"name":"create_contact","description":"Creates","input_schema":{"type":"object" , "x":1e2}},"#,
            r#"{"name":"carpeta_delete-potreros","description":"Borra","input_schema":{"type":"object"}}]}"#,
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
    let model = Anthropic::new(server.endpoint(), "claude");
    for cut in 0..whole.bytes.len() {
        assert_eq!(
            collect(&model, request()).await,
            (expected(), None),
            "cut at {cut}"
        );
    }
}

#[tokio::test]
async fn an_explanation_is_requested_without_calls() {
    let server = Server::start(vec![stream(STREAM)]).await;
    let model = Anthropic::new(server.endpoint(), "claude");
    let mut request = request();
    request.may_call = false;
    collect(&model, request).await;
    assert!(server.requests()[0].ends_with(r#""tool_choice":{"type":"none"}}"#));
}
