//! Faults of a model's API: each gives a clear error, and no call is made from an incomplete answer.

use std::time::{Duration, Instant};

use countersign_agent::model::{
    AnswerPart, Anthropic, ApiKey, Endpoint, Model, ModelError, OpenAi, StopReason,
};

use crate::server::*;
use crate::{anthropic, openai};

/// Returns clients of both APIs for one server.
fn both(server: &Server) -> [Box<dyn Model>; 2] {
    [
        Box::new(Anthropic::new(server.endpoint(), "m")),
        Box::new(OpenAi::new(server.endpoint(), "m")),
    ]
}

async fn check(answer: FakeResponse, expected: impl Fn(&ModelError) -> bool) {
    for number in [0, 1] {
        let server = Server::start(vec![answer.clone()]).await;
        let (parts, error) = collect(&*both(&server)[number], request()).await;
        let error = error.expect("an error");
        assert!(expected(&error), "{number}: {error:?} after {parts:?}");
        assert!(
            !parts.iter().any(|part| matches!(part, AnswerPart::Stop(_))),
            "{parts:?}"
        );
    }
}

#[tokio::test]
async fn a_response_that_is_no_event_stream_is_invalid() {
    let garbage = |error: &ModelError| matches!(error, ModelError::InvalidAnswer(_));
    check(status("200 OK", "", r#"{"ok":true}"#), garbage).await;
    check(stream("data: {\"type\":\n\n"), garbage).await;
    check(stream("data: <html>\n\n"), garbage).await;
    check(stream("data: [1,2]\n\n"), garbage).await;
    let mut not_text = stream("");
    not_text.bytes.extend_from_slice(b"data: \xff\n\n");
    check(not_text, garbage).await;
}

#[tokio::test]
async fn a_stream_that_ends_early_is_cut_off() {
    let cut = |error: &ModelError| matches!(error, ModelError::CutOff(_));
    check(stream(""), cut).await;
    check(stream(": only a comment\n\n"), cut).await;
    for whole in [anthropic::STREAM, openai::STREAM] {
        // Cut at any earlier event, the answer is incomplete and reported as such.
        let ends: Vec<usize> = whole.match_indices("\n\n").map(|(at, _)| at + 2).collect();
        for end in &ends[..ends.len() - 3] {
            let server = Server::start(vec![stream(&whole[..*end])]).await;
            let number = usize::from(whole == openai::STREAM);
            let (parts, error) = collect(&*both(&server)[number], request()).await;
            assert!(error.as_ref().is_some_and(cut), "cut at {end}: {error:?}");
            assert!(!parts.iter().any(|part| matches!(part, AnswerPart::Stop(_))));
        }
    }
    // A body shorter than its `Content-Length`, as when a proxy goes away.
    let mut short = status("200 OK", "", "");
    short.bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n: hi\n\n".to_vec();
    check(short, cut).await;
}

#[tokio::test]
async fn errors_in_the_stream_are_reported() {
    let half = &anthropic::STREAM[..anthropic::STREAM.find("event: message_delta").unwrap()];
    let body = format!(
        "{half}event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}}}\n\n"
    );
    let server = Server::start(vec![stream(&body)]).await;
    let (_, error) = collect(&*both(&server)[0], request()).await;
    assert_eq!(
        error,
        Some(ModelError::Failed("Overloaded (overloaded_error)".to_owned()))
    );
    assert_eq!(
        server.requests().len(),
        1,
        "behind the first byte nothing is tried again"
    );
    let half = &openai::STREAM[..openai::STREAM.find("data: [DONE]").unwrap()];
    let half = &half[..half
        .rfind("data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{}")
        .unwrap()];
    let body = format!("{half}data: {{\"error\":{{\"message\":\"no more\",\"type\":\"server_error\"}}}}\n\n");
    let server = Server::start(vec![stream(&body)]).await;
    let (_, error) = collect(&*both(&server)[1], request()).await;
    assert_eq!(
        error,
        Some(ModelError::Failed("no more (server_error)".to_owned()))
    );
}

#[tokio::test]
async fn transient_errors_are_retried_before_the_first_byte() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (number, whole) in [(0, anthropic::STREAM), (1, openai::STREAM)] {
        let answers = vec![
            status("529 Overloaded", "", overloaded),
            status("429 Too Many Requests", "retry-after: 1\r\n", "{}"),
            stream(whole),
        ];
        let server = Server::start(answers).await;
        let begun = Instant::now();
        let (parts, error) = collect(&*both(&server)[number], request()).await;
        assert_eq!(error, None);
        assert_eq!(parts.last(), Some(&AnswerPart::Stop(StopReason::Done)));
        assert_eq!(server.requests().len(), 3);
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_secs(1),
            "it was asked to wait a second: {took:?}"
        );
    }
}

#[tokio::test]
async fn lasting_errors_are_reported_after_the_last_attempt() {
    let server = Server::start(vec![status("503 Service Unavailable", "", "sorry")]).await;
    let (_, error) = collect(&*both(&server)[0], request()).await;
    let message = "sorry".to_owned();
    assert_eq!(error, Some(ModelError::Status { status: 503, message }));
    assert_eq!(server.requests().len(), 3);
    let body = r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let server = Server::start(vec![status("401 Unauthorized", "", body)]).await;
    let (_, error) = collect(&*both(&server)[1], request()).await;
    let error = error.unwrap();
    assert_eq!(
        error.to_string(),
        "the model's service answered 401: invalid x-api-key (authentication_error)"
    );
    assert_eq!(error.hint(), "check the key");
    assert_eq!(server.requests().len(), 1, "a key does not get better");
}

#[tokio::test]
async fn silence_times_out() {
    let timed_out = |error: &ModelError| matches!(error, ModelError::TimedOut(_));
    let mut silent = stream("");
    silent.hangs = true;
    check(silent, timed_out).await;
    let mut mute = stream("");
    (mute.bytes, mute.hangs) = (Vec::new(), true);
    check(mute, timed_out).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let endpoint = Endpoint::new(&url, None, retry_policy()).unwrap();
    let (_, error) = collect(&OpenAi::new(endpoint, "m"), request()).await;
    assert!(matches!(error, Some(ModelError::Unreachable(_))), "{error:?}");
}

#[tokio::test]
async fn x48_an_endless_answer_is_refused() {
    let line = "data: ".to_owned() + &"a".repeat(3 * 1024 * 1024);
    check(stream(&line), |error| *error == ModelError::TooLarge).await;
}

#[test]
fn x31_a_key_is_neither_sent_in_plain_text_nor_printed() {
    let key = || Some(ApiKey::new("sk-secret"));
    let refused = Endpoint::new("http://models.example.com/v1", key(), retry_policy()).unwrap_err();
    assert!(refused.contains("use https"), "{refused}");
    let endpoint = Endpoint::new("https://models.example.com/v1", key(), retry_policy()).unwrap();
    assert!(!format!("{endpoint:?}").contains("sk-secret"));
}

/// Error bodies as the services send them.
#[tokio::test]
async fn a_context_that_is_too_small_is_known_for_every_service() {
    let bodies = [
        // OpenAI
        (
            "400 Bad Request",
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, your messages resulted in 6988 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        // Anthropic
        (
            "400 Bad Request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 207791 tokens > 200000 maximum"}}"#,
        ),
        (
            "400 Bad Request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        ),
        (
            "413 Payload Too Large",
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        // llama.cpp; older versions with status 500
        (
            "400 Bad Request",
            r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#,
        ),
        (
            "500 Internal Server Error",
            r#"{"error":{"code":500,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}"#,
        ),
        // vLLM, with and without an outer `error`
        (
            "400 Bad Request",
            r#"{"object":"error","message":"This model's maximum context length is 6048 tokens. However, you requested 6616 tokens (568 in the messages, 6048 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            "400 Bad Request",
            r#"{"error":{"message":"This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 'max_tokens'.","type":"BadRequestError","param":"input_tokens","code":400}}"#,
        ),
        (
            "400 Bad Request",
            r#"{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400}"#,
        ),
    ];
    for (line, body) in bodies {
        let server = Server::start(vec![status(line, "", body)]).await;
        let (_, error) = collect(&*both(&server)[1], request()).await;
        assert!(
            matches!(&error, Some(ModelError::TooLong(message)) if !message.starts_with('{')),
            "{body}: {error:?}"
        );
        assert_eq!(
            server.requests().len(),
            1,
            "the same request does not get shorter: {body}"
        );
    }
    // llama.cpp may say it within the stream.
    let body = r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#;
    let server = Server::start(vec![stream(&format!("data: {body}\n\n"))]).await;
    let (_, error) = collect(&*both(&server)[1], request()).await;
    assert!(matches!(error, Some(ModelError::TooLong(_))), "{error:?}");
    // Other errors with similar words are none.
    let body = r#"{"error":{"message":"Your name is too long","type":"invalid_request_error"}}"#;
    let server = Server::start(vec![status("400 Bad Request", "", body)]).await;
    let (_, error) = collect(&*both(&server)[1], request()).await;
    assert!(matches!(error, Some(ModelError::Status { .. })), "{error:?}");
}

const WHOLE_OPENAI: &str = r#"{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Sí","tool_calls":[{"type":"function","function":{"name":"create_contact","arguments":"{\"n\": 9007199254740993, \"a\":1.0}"}},{"type":"function","function":{"name":"carpeta_delete-potreros","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
const WHOLE_ANTHROPIC: &str = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Sí"},{"type":"tool_use","id":"","name":"create_contact","input":{"n": 9007199254740993, "a":1.0}},{"type":"tool_use","id":"","name":"carpeta_delete-potreros","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}"#;

#[tokio::test]
async fn b1_an_answer_that_is_not_streamed_is_read_with_the_same_bytes() {
    let expected = vec![
        AnswerPart::Text("Sí".to_owned()),
        AnswerPart::Call(call("", "create_contact", r#"{"n": 9007199254740993, "a":1.0}"#)),
        AnswerPart::Call(call("", "carpeta/delete-potreros", "{}")),
        AnswerPart::Usage(countersign_agent::model::Usage { input: 3, output: 4 }),
        AnswerPart::Stop(StopReason::Done),
    ];
    // OpenAI's own words about a model that it does not stream.
    let refused = r#"{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}"#;
    for (number, whole) in [(0, WHOLE_ANTHROPIC), (1, WHOLE_OPENAI)] {
        // The service ignores the wish for a stream.
        let server = Server::start(vec![status("200 OK", "", whole)]).await;
        let answered = collect(&*both(&server)[number], request()).await;
        assert_eq!(answered, (expected.clone(), None));
        // The service refuses it, and is asked again without.
        let answers = vec![
            status("400 Bad Request", "", refused),
            status("200 OK", "", whole),
        ];
        let server = Server::start(answers).await;
        let answered = collect(&*both(&server)[number], request()).await;
        assert_eq!(answered, (expected.clone(), None));
        let asked = server.requests();
        assert!(asked[0].contains(r#""stream":true"#) && !asked[0].contains(r#""stream":false"#));
        assert!(asked[1].contains(r#""stream":false"#) && !asked[1].contains("stream_options"));
    }
    // Half an answer is none.
    let garbage = |error: &ModelError| matches!(error, ModelError::InvalidAnswer(_) | ModelError::CutOff(_));
    for whole in [WHOLE_ANTHROPIC, WHOLE_OPENAI] {
        let half = whole.replace(r#""finish_reason":"tool_calls""#, r#""x":1"#);
        let half = half.replace(r#""stop_reason":"tool_use","#, "");
        check(status("200 OK", "", &half), garbage).await;
    }
}
