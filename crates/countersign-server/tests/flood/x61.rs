//! X61: floods from clients without credentials.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;

use crate::service::{Answer, INNOCENT, PASSWORD, POLICY, Request, STRANGER, Service, read};

/// Sends 300 sign-ins under different names, all at once.
pub async fn strangers_sign_in(service: &Arc<Service>) -> Vec<Answer> {
    let mut tries = Vec::new();
    for n in 0..300 {
        let service = service.clone();
        let form = format!("name=stranger-{n}&password=a+long+guess+{n}");
        tries.push(tokio::spawn(
            async move { service.sign_in(STRANGER, &form).await },
        ));
    }
    let mut answers = Vec::new();
    for one in tries {
        answers.push(one.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_sign_ins_of_strangers_cost_little_and_lock_nobody_out() {
    let service = Arc::new(Service::start(POLICY, ""));
    let flood = tokio::spawn({
        let service = service.clone();
        async move { strangers_sign_in(&service).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let form = format!("name=ana&password={}", PASSWORD.replace(' ', "+"));
    let signed_in = service.sign_in(INNOCENT, &form).await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.body);
    assert!(signed_in.took < Duration::from_secs(5), "{:?}", signed_in.took);
    let answers = flood.await.unwrap();
    let refused = answers.iter().filter(|answer| answer.is_turned_away()).count();
    let wrong = answers.iter().filter(|answer| answer.status == 401).count();
    assert_eq!(refused + wrong, 300);
    assert!(wrong <= 20, "{wrong} passwords were hashed");
    assert!(service.peak() < 256, "{} MiB", service.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_a_stranger_with_wrong_links_locks_nobody_out() {
    let service = Service::start(POLICY, "");
    let mut refused = 0;
    for n in 0..60 {
        let answer = service.sign_in(STRANGER, &format!("code=csl_{n:064}")).await;
        refused += usize::from(answer.is_turned_away());
    }
    assert!(refused > 0, "there is a limit");
    let code = service.link();
    let signed_in = service.sign_in(INNOCENT, &format!("code={code}")).await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_a_stranger_who_guesses_a_name_does_not_lock_that_person_out() {
    let service = Service::start(POLICY, "");
    let mut refused = 0;
    for n in 0..10 {
        let answer = service
            .sign_in(STRANGER, &format!("name=ana&password=wrong+guess+{n}"))
            .await;
        refused += usize::from(answer.is_turned_away());
    }
    assert!(refused >= 5, "{refused}");
    let form = format!("name=ana&password={}", PASSWORD.replace(' ', "+"));
    assert_eq!(service.sign_in(INNOCENT, &form).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_an_untrusted_caller_is_not_somebody_else_by_a_header() {
    let service = Service::start(POLICY, "");
    let mut refused = 0;
    for n in 0..40 {
        let mut stream = service.connect(STRANGER).await;
        let body = format!("code=csl_{n:064}");
        let request = format!(
            "POST /sign-in HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Forwarded-For: 198.51.100.{n}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            service.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = Answer::new(&read(&mut stream).await, Duration::ZERO);
        refused += usize::from(answer.is_turned_away());
    }
    assert!(refused > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_stalled_bodies_are_closed() {
    let service = Arc::new(Service::start(POLICY, ""));
    let mut stalled = Vec::new();
    let began = Instant::now();
    for n in 0..200 {
        let service = service.clone();
        stalled.push(tokio::spawn(async move {
            let mut stream = service.connect(STRANGER).await;
            let (path, kind) = match n % 2 {
                0 => ("/v1/calls", "application/json"),
                _ => ("/sign-in", "application/x-www-form-urlencoded"),
            };
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\n\
                 Content-Length: 1000\r\n\r\n{{\"calls\"",
                service.address, service.agent
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let answer = Answer::new(&read(&mut stream).await, Duration::ZERO);
            (answer.status, answer.body)
        }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    service.whole_approval().await;
    for one in stalled {
        let (status, body) = one.await.unwrap();
        assert_eq!(status, 408, "{body}");
        assert!(
            body.contains("\"too_slow\"") && body.contains("\"hint\""),
            "{body}"
        );
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(service.peak() < 256, "{} MiB", service.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_one_address_has_only_so_many_connections() {
    let service = Service::start(POLICY, "[limits]\nconnections_per_address = 5\n");
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(service.connect(STRANGER).await);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Send nothing, so that the response is not lost when the connection is reset.
    let mut sixth = service.connect(STRANGER).await;
    let answer = Answer::new(&read(&mut sixth).await, Duration::ZERO);
    assert!(answer.is_turned_away(), "{answer:?}");
    assert!(answer.json()["error"]["hint"].is_string());
    let health = |from| service.get(from, "", "/healthz");
    assert_eq!(health(INNOCENT).await.status, 200);
    idle.clear();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(health(STRANGER).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn x61_half_a_head_is_not_waited_for() {
    let service = Service::start(POLICY, "");
    let mut stream = service.connect(STRANGER).await;
    let request = Request {
        method: "GET",
        path: "/healthz",
        token: "",
        kind: "",
        body: "",
    };
    let text = request.text(service.address);
    stream.write_all(&text.as_bytes()[..20]).await.unwrap();
    let began = Instant::now();
    read(&mut stream).await;
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}
