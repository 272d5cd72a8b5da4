//! Tests accounts and names on the command line, and their immediate effect on a running service (X67, X68, X71).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::served::Served;
use crate::test_folder::{Left, TestFolder, check_bad};

/// Sends one request; returns the response received until it ended or `patience` was over, and how long that took.
fn ask(service: &Served<'_>, head: &str, patience: Duration) -> (String, Duration) {
    let mut stream = TcpStream::connect(service.address().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let (mut text, begun) = (Vec::new(), Instant::now());
    let mut piece = [0; 4096];
    while begun.elapsed() < patience {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(_) => {}
        }
    }
    (String::from_utf8_lossy(&text).into_owned(), begun.elapsed())
}

fn host(service: &Served<'_>) -> String {
    service.url.trim_start_matches("http://").to_owned()
}

fn set_password(place: &TestFolder, name: &str, password: &str) {
    let mut child = place
        .command(&["person", "password", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(password.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn x67_a_new_password_ends_sessions_and_links() {
    let place = TestFolder::new();
    let service = Served::start(&place);
    let host = host(&service);
    place.good(&["person", "add", "zoe"]);
    set_password(&place, "zoe", "correct horse");
    let post = |body: &str| {
        let length = body.len();
        let head = format!(
            "POST /sign-in HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        ask(&service, &head, Duration::from_secs(10)).0
    };
    let entered = post("name=zoe&password=correct+horse");
    let cookie = entered
        .split("set-cookie: ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let link = place.good(&["person", "link", "zoe"]);
    let (_, code) = link.trim().split_once("code=").unwrap();
    let inbox = || {
        let head = format!(
            "GET /approvals HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n"
        );
        ask(&service, &head, Duration::from_secs(10)).0
    };
    assert!(inbox().starts_with("HTTP/1.1 200"), "{}", inbox());
    set_password(&place, "zoe", "battery staple");
    assert!(inbox().starts_with("HTTP/1.1 303"), "{}", inbox());
    let used = post(&format!("code={code}"));
    assert!(!used.contains("set-cookie"), "{used}");
    assert!(post("name=zoe&password=battery+staple").contains("set-cookie"));
}

#[test]
fn x68_another_process_ends_the_streams_of_a_revoked_token() {
    let place = TestFolder::new();
    let service = Served::start(&place);
    let host = host(&service);
    let agent = service.agent();
    let id = service.propose(&agent, &["create_contact", r#"{"name":"Maria"}"#]);
    let reader = service.token(&["--name", "reader", "--scope", "read"]);
    let revoke = || {
        let listed = place.good(&["--json", "token", "list"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let tokens = listed["tokens"].as_array().or(listed.as_array()).unwrap();
        let token = tokens.iter().find(|token| token["name"] == "reader").unwrap();
        place.good(&["token", "revoke", token["id"].as_str().unwrap()]);
    };
    let paths = ["/v1/events".to_owned(), format!("/v1/approvals/{id}?wait=60s")];
    let revoked = std::sync::Mutex::new(None);
    std::thread::scope(|scope| {
        let followers: Vec<_> = paths
            .iter()
            .map(|path| {
                let (service, host, reader) = (&service, &host, &reader);
                scope.spawn(move || {
                    let head = format!(
                        "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: Bearer {reader}\r\n\r\n"
                    );
                    ask(service, &head, Duration::from_secs(30));
                    Instant::now()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(1));
        revoke();
        *revoked.lock().unwrap() = Some(Instant::now());
        for follower in followers {
            let ended = follower.join().unwrap();
            let after = ended.saturating_duration_since(revoked.lock().unwrap().unwrap());
            assert!(after < Duration::from_secs(1), "{after:?}");
        }
    });
}

#[test]
fn x66_the_only_administrator_stays_and_a_removed_one_does_not_come_back() {
    let place = TestFolder::new();
    let people = || place.json(&["person", "list"]).to_string();
    Served::start(&place).kill();
    let first = people();
    let name = first
        .split("\"name\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    check_bad(&place, &["person", "remove", name], 1, "the only administrator");
    place.good(&["person", "add", "zoe", "--admin"]);
    place.good(&["person", "remove", name]);
    check_bad(&place, &["person", "remove", "zoe"], 1, "the only administrator");
    Served::start(&place).kill();
    assert!(!people().contains(&format!("\"{name}\"")), "{}", people());
}

#[test]
fn x71_no_two_names_look_alike() {
    let place = TestFolder::new();
    place.good(&["person", "add", "ana"]);
    place.good(&["token", "create", "--agent", "crm", "--scope", "propose"]);
    let refused = |arguments: &[&str]| {
        let left: Left = place.run(arguments);
        assert_ne!(left.code, 0, "{arguments:?}: {left:?}");
        assert_eq!(left.stdout, "", "{arguments:?}: {left:?}");
        left.stderr
    };
    for twin in [
        "Ana",
        "ANA",
        " ana",
        "ana ",
        "a\u{200b}na",
        "ana\u{2060}",
        "\u{430}n\u{430}",
        "\u{ff41}na",
        "ana\u{a0}",
        "an\u{430}",
    ] {
        refused(&["person", "add", twin]);
    }
    for twin in ["Crm", "CRM", "crm ", "c\u{200d}rm", "\u{441}rm"] {
        refused(&["token", "create", "--agent", twin, "--scope", "propose"]);
        refused(&[
            "token",
            "create",
            "--name",
            &format!("{twin}\u{200b}"),
            "--scope",
            "read",
        ]);
    }
    refused(&[
        "--tenant",
        "m\u{430}in",
        "token",
        "create",
        "--name",
        "x",
        "--scope",
        "read",
    ]);
    let why = refused(&["person", "add", "Ana"]);
    assert!(why.contains("there is already a person `ana`"), "{why}");
    let people = place.good(&["--json", "person", "list"]);
    let people: serde_json::Value = serde_json::from_str(&people).unwrap();
    assert_eq!(people.as_array().unwrap().len(), 1, "{people}");
    // A person is found under any spelling of the name.
    place.good(&["person", "link", "ANA"]);
    place.good(&["person", "add", "Анна"]);
}

#[test]
fn x71_raw_requests_with_two_hosts_are_refused() {
    let place = TestFolder::new();
    let service = Served::start(&place);
    let host = host(&service);
    let status = |head: String| {
        let (text, _) = ask(&service, &head, Duration::from_secs(5));
        text.split(' ').nth(1).unwrap_or("none").to_owned()
    };
    let end = "connection: close\r\n\r\n";
    assert_eq!(
        status(format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n{end}")),
        "200"
    );
    for head in [
        format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nhost: evil.test\r\n{end}"),
        format!("GET /healthz HTTP/1.1\r\nhost: evil.test\r\nhost: {host}\r\n{end}"),
        format!("GET http://evil.test/healthz HTTP/1.1\r\nhost: {host}\r\n{end}"),
        format!("GET http://{host}@evil.test/healthz HTTP/1.1\r\nhost: {host}\r\n{end}"),
        format!("GET http://evil.test/healthz HTTP/1.1\r\nhost: evil.test\r\n{end}"),
    ] {
        let status = status(head.clone());
        assert!(status == "400" || status == "403", "{head}: {status}");
    }
}

/// Covers names that look alike, also where each is written in a single script.
#[test]
fn x71_a_name_that_looks_like_another_is_refused() {
    let place = TestFolder::new();
    for (there, twins) in [
        ("cop", &["\u{441}\u{43e}\u{440}", "C0P"][..]),
        ("ana", &["an\u{251}"]),
        ("bill", &["bi1l", "BiIl", "b\u{131}ll"]),
        ("oleg", &["0leg", "OLEG"]),
        ("tim", &["tirn"]),
    ] {
        place.good(&["person", "add", there]);
        let scopes = ["--scope", "propose"];
        place.good(&[&["token", "create", "--agent", there][..], &scopes].concat());
        for twin in twins {
            for command in [
                vec!["person", "add", twin],
                [&["token", "create", "--agent", twin][..], &scopes].concat(),
            ] {
                let left = place.run(&command);
                assert_eq!(left.code, 1, "{command:?} {left:?}");
                assert!(
                    left.stderr.contains(&format!("`{there}`")),
                    "{command:?} {left:?}"
                );
            }
        }
        // One agent may have several tokens.
        place.good(&[&["token", "create", "--agent", there][..], &scopes].concat());
    }
    for other in ["anna", "bill2", "copper", "\u{418}\u{432}\u{430}\u{43d}"] {
        place.good(&["person", "add", other]);
    }
}

#[test]
fn x71_scripts_are_called_by_their_names() {
    let place = TestFolder::new();
    let left = place.run(&["person", "add", "\u{430}na"]);
    assert!(left.stderr.contains("Cyrillic and Latin"), "{left:?}");
    assert!(!left.stderr.contains("Script("), "{left:?}");
}
