//! Tests `/v1/events`.

use axum::http::Method;
use bytes::Bytes;
use countersign_http_client::events::EventReader;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::support::{Service, id, request};

/// Reads a stream event by event.
struct Reader {
    body: axum::body::BodyDataStream,
    events: EventReader,
}

impl Reader {
    async fn open(service: &Service, token: &str, path: &str, last: Option<&str>) -> Reader {
        let mut request = request(Method::GET, path, Some(token), "");
        if let Some(last) = last {
            request
                .headers_mut()
                .insert("last-event-id", last.parse().unwrap());
        }
        let response = service.open(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Reader {
            body: response.into_body().into_data_stream(),
            events: EventReader::new(1024 * 1024),
        }
    }

    /// Returns the next event's name, id and data, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, String, Value)> {
        loop {
            while let Some(event) = self.events.next_event().unwrap() {
                // Without data it is a keep-alive, or only the cursor at which the stream begins.
                if let Some(data) = event.data {
                    let text =
                        |value: Option<Bytes>| String::from_utf8(value.unwrap_or_default().into()).unwrap();
                    let data = serde_json::from_slice(&data).unwrap();
                    return Some((text(event.name), text(event.id), data));
                }
            }
            let piece = tokio::time::timeout(std::time::Duration::from_secs(5), self.body.next());
            let piece = piece.await.unwrap().map(Result::unwrap)?;
            self.events.push(&piece);
        }
    }

    async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(self.next().await.unwrap().0);
        }
        names
    }
}

#[tokio::test]
async fn b8_what_happens_is_streamed_and_nothing_is_missed_on_coming_back() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let mut live = Reader::open(&service, &ana, "/v1/events", None).await;
    let approval = service.propose(&agent, "echo", "{}").await;
    let (name, place, data) = live.next().await.unwrap();
    assert_eq!(name, "proposed");
    assert_eq!(data["approval"], approval["id"]);
    assert_eq!(data["event"]["what"], "proposed");
    drop(live);
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    let mut back = Reader::open(&service, &ana, "/v1/events", Some(&place)).await;
    assert_eq!(back.names(3).await, ["approved", "started", "succeeded"]);
    let mut all = Reader::open(&service, &ana, "/v1/events?after=0", None).await;
    assert_eq!(
        all.names(4).await,
        ["proposed", "approved", "started", "succeeded"]
    );
    // The stream continues with new events, without a gap or a repeat.
    service.propose(&agent, "echo", r#"{"n":2}"#).await;
    assert_eq!(all.names(1).await, ["proposed"]);
}

#[tokio::test]
async fn streams_are_filtered_and_an_agent_sees_its_own() {
    let service = Service::new().await;
    let (crm, other) = (service.agent("crm").await, service.agent("other").await);
    let ana = service.decider("ana").await;
    service.propose(&crm, "create_contact", r#"{"n":1}"#).await;
    let second = service.propose(&other, "echo", r#"{"n":2}"#).await;
    let path = format!("/v1/approvals/{}", id(&second));
    service.post(&ana, &path, r#"{"approved":false}"#).await.good();
    let of = |path: String, token: String| {
        let service = &service;
        async move {
            let mut reader = Reader::open(service, &token, &path, None).await;
            reader.next().await.unwrap().2["approval"].clone()
        }
    };
    assert_eq!(of("/v1/events?after=0".into(), other.clone()).await, second["id"]);
    assert_eq!(
        of("/v1/events?after=0&agentName=crm".into(), other.clone()).await,
        second["id"]
    );
    assert_eq!(
        of("/v1/events?after=0&what=denied".into(), ana.clone()).await,
        second["id"]
    );
    assert_eq!(
        of("/v1/events?after=0&channel=echo".into(), ana.clone()).await,
        second["id"]
    );
    assert_eq!(
        of(
            format!("/v1/events?after=0&approval={}", id(&second)),
            ana.clone()
        )
        .await,
        second["id"]
    );
    for bad in ["after=x", "approval=x", "agentName="] {
        let answered = service.get(&ana, &format!("/v1/events?{bad}")).await;
        assert_eq!(answered.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn f17_a_reader_that_is_too_slow_is_told_and_let_go() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let mut slow = Reader::open(&service, &ana, "/v1/events", None).await;
    let mut quick = Reader::open(&service, &ana, "/v1/events", None).await;
    for n in 0..150 {
        // Each proposal supersedes the one before: two events each.
        service
            .propose(&agent, "create_contact", &format!(r#"{{"n":{n}}}"#))
            .await;
        quick.names(if n == 0 { 1 } else { 2 }).await;
    }
    let mut last = (String::new(), String::new(), Value::Null);
    let mut place = String::new();
    while let Some(event) = slow.next().await {
        if !event.1.is_empty() {
            place.clone_from(&event.1);
        }
        last = event;
    }
    assert_eq!(last.0, "lagged");
    // A reconnecting reader gets the rest.
    let mut back = Reader::open(
        &service,
        &ana,
        "/v1/events",
        Some(&place)
            .filter(|place| !place.is_empty())
            .map(String::as_str)
            .or(Some("0")),
    )
    .await;
    back.names(10).await;
}

/// F17: many streams, of which every tenth is not read. Who reads misses nothing; who does not is let go.
#[tokio::test]
async fn f17_many_streams_of_which_some_are_stalled() {
    const OF_EACH: usize = 10;
    const PROPOSALS: usize = 150;
    let streams: usize = std::env::var("COUNTERSIGN_TEST_F17").map_or(100, |text| text.parse().unwrap());
    let service = Service::new().await;
    let agent = service.agent("crm").await;
    let (mut quick, mut stalled) = (Vec::new(), Vec::new());
    for number in 0..streams.div_ceil(OF_EACH) {
        let name = format!("person-{number}");
        service.person("main", &name, &["approvers"]).await;
        let token = service.decider(&name).await;
        for of_each in 0..OF_EACH {
            let reader = Reader::open(&service, &token, "/v1/events", None).await;
            match of_each {
                0 => stalled.push(reader),
                _ => quick.push(reader),
            }
        }
    }
    for n in 0..PROPOSALS {
        let arguments = format!(r#"{{"n":{n}}}"#);
        service.propose(&agent, "create_contact", &arguments).await;
        let expected = if n == 0 { 1 } else { 2 };
        let mut told: Option<Vec<String>> = None;
        for reader in &mut quick {
            let mut ids = Vec::new();
            for _ in 0..expected {
                ids.push(reader.next().await.unwrap().1);
            }
            assert_eq!(
                told.get_or_insert_with(|| ids.clone()),
                &ids,
                "all are told the same"
            );
        }
    }
    let mut lagged = 0;
    for mut reader in stalled {
        let (mut last, mut kept) = (String::new(), 0);
        while let Some(event) = reader.next().await {
            (last, kept) = (event.0, kept + 1);
        }
        assert_eq!(last, "lagged");
        assert!(kept <= 257, "{kept} were kept for one that does not read");
        lagged += 1;
    }
    println!("F17 memory rounds={streams} violations=0 lagged={lagged}");
}

#[tokio::test]
async fn x48_streams_are_counted() {
    let service = Service::new().await;
    let ana = service.decider("ana").await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(Reader::open(&service, &ana, "/v1/events", None).await);
    }
    let eleventh = service.get(&ana, "/v1/events").await;
    assert_eq!(eleventh.error(), (429, "too_many".to_owned()));
    open.pop();
    open.push(Reader::open(&service, &ana, "/v1/events", None).await);
}

#[tokio::test]
async fn e8_events_name_the_run_and_the_call() {
    let service = Service::new().await;
    let (agent, ana) = (service.agent("crm").await, service.decider("ana").await);
    let mut reader = Reader::open(&service, &agent, "/v1/events", None).await;
    let body = r#"{"calls":[{"tool":"echo","arguments":{}}],"runId":"run-7"}"#;
    let approval = service.post(&agent, "/v1/calls", body).await.good()["approval"].clone();
    let path = format!("/v1/approvals/{}?waitFor=finished", id(&approval));
    service.post(&ana, &path, r#"{"approved":true}"#).await.good();
    let call = &approval["calls"][0]["id"];
    for (name, about) in [
        ("proposed", &Value::Null),
        ("approved", &Value::Null),
        ("started", call),
        ("succeeded", call),
    ] {
        let (found, _, data) = reader.next().await.unwrap();
        assert_eq!(found, name);
        assert_eq!(
            (&data["runId"], &data["call"]),
            (&Value::from("run-7"), about),
            "{name}"
        );
        assert_eq!(data["approval"], approval["id"]);
    }
    service.propose(&agent, "create_contact", "{}").await;
    assert_eq!(reader.next().await.unwrap().2["runId"], Value::Null);
}
