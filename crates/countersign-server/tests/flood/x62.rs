//! X62: floods from an agent with its own token.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::service::{Answer, POLICY, STRANGER, Service, UNLIMITED};

/// Returns a submission with one call of about 64 KB.
pub fn large(n: usize, channel: Option<&str>) -> String {
    let text = "a word and another ".repeat(3300);
    let channel = channel
        .map(|name| format!(r#","channel":"{name}""#))
        .unwrap_or_default();
    format!(r#"{{"calls":[{{"tool":"send_mail","arguments":{{"n":{n},"text":"{text}"}}}}]{channel}}}"#)
}

/// Sends `count` proposals of 64 KB, 24 at a time.
pub async fn propose(service: &Arc<Service>, count: usize, channel: Option<&'static str>) -> Vec<Answer> {
    let mut tasks = Vec::new();
    for first in 0..24 {
        let service = service.clone();
        tasks.push(tokio::spawn(async move {
            let mut answers = Vec::new();
            for n in (first..count).step_by(24) {
                let turn = large(n, channel);
                answers.push(service.post(STRANGER, &service.agent, "/v1/calls", &turn).await);
            }
            answers
        }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.extend(task.await.unwrap());
    }
    answers
}

/// Requests 20 lists of up to 200 approvals at the same time.
pub async fn list(service: &Arc<Service>, token: &str) -> Vec<Answer> {
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (service, token) = (service.clone(), token.to_owned());
        tasks.push(tokio::spawn(async move {
            service.get(STRANGER, &token, "/v1/approvals?limit=200").await
        }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn x62_an_agent_has_twenty_pending_and_no_more() {
    let service = Arc::new(Service::start(POLICY, ""));
    let answers = propose(&service, 240, None).await;
    let held = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.is_turned_away()).count();
    assert_eq!((held, refused), (20, 220));
    let is_told = |answer: &Answer| {
        answer.json()["error"]["hint"]
            .as_str()
            .is_some_and(|hint| !hint.is_empty())
    };
    assert!(answers.iter().filter(|answer| answer.status == 429).all(is_told));
    // Another agent is not affected.
    service.whole_approval().await;
    assert!(service.peak() < 256, "{} MiB", service.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn x62_an_agent_that_replaces_its_own_question_is_slowed_down() {
    let service = Arc::new(Service::start(POLICY, ""));
    let answers = propose(&service, 240, Some("one")).await;
    let made = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.is_turned_away()).count();
    assert_eq!(made + refused, 240);
    assert!((60..=90).contains(&made), "{made}");
    let slow = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(slow.json()["error"]["code"], "too_fast");
    // A moment later the agent may propose again.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = service
        .post(STRANGER, &service.agent, "/v1/calls", &large(999, Some("one")))
        .await;
    assert_eq!(again.status, 200, "{}", again.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn x62_lists_are_bounded_in_bytes_and_nothing_is_lost() {
    let service = Arc::new(Service::start(UNLIMITED, ""));
    let proposed = propose(&service, 200, None).await;
    assert!(proposed.iter().all(|answer| answer.status == 200));
    let answers = list(&service, &service.agent).await;
    let read = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.is_turned_away()).count();
    assert_eq!(read + refused, 20);
    assert!(read >= 8, "{read}");
    for answer in &answers {
        assert!(answer.body.len() < 3 * 1024 * 1024, "{}", answer.body.len());
    }
    assert!(service.peak() < 256, "{} MiB", service.peak());
    // Paging returns all approvals, complete.
    let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/v1/approvals?limit=200{cursor}");
        let page = service.get(STRANGER, &service.ana, &path).await.good();
        for approval in page["approvals"].as_array().unwrap() {
            assert!(approval["toolArguments"]["text"].as_str().unwrap().len() > 60_000);
            assert!(seen.insert(approval["id"].as_str().unwrap().to_owned()));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn x62_waiting_and_following_are_bounded_for_each_token() {
    let config = "[limits]\nwaits_per_caller = 3\nstreams_per_caller = 2\n";
    let service = Arc::new(Service::start(POLICY, config));
    let body = r#"{"calls":[{"tool":"send_mail","arguments":{}}]}"#;
    let proposed = service
        .post(STRANGER, &service.agent, "/v1/calls", body)
        .await
        .good();
    let id = proposed["approval"]["id"].as_str().unwrap().to_owned();
    for (path, most) in [
        (format!("/v1/approvals/{id}?wait=20s"), 3),
        ("/v1/events".to_owned(), 2),
    ] {
        let mut open = Vec::new();
        for _ in 0..most {
            let (service, path) = (service.clone(), path.clone());
            open.push(tokio::spawn(async move {
                service.get(STRANGER, &service.agent, &path).await;
            }));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let refused = service.get(STRANGER, &service.agent, &path).await;
        assert!(refused.is_turned_away(), "{path}: {refused:?}");
        open.iter().for_each(tokio::task::JoinHandle::abort);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    service.whole_approval().await;
}
