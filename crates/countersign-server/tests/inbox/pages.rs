//! Tests access to pages, and what all pages have in common.

use std::time::Duration;

use axum::http::StatusCode;

use crate::support::World;

const PAGES: [&str; 6] = [
    "/approvals",
    "/approvals/history",
    "/numbers",
    "/approvals/00000000-0000-0000-0000-000000000000",
    "/approvals/cards",
    "/approvals/live",
];

#[tokio::test]
async fn nobody_looks_without_signing_in() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.post(&ana, "/sign-out", &[]).await;
    for path in PAGES {
        let page = world.get(&ana, path).await;
        match path {
            "/approvals/cards" | "/approvals/live" => assert_eq!(page.status, 401, "{path}"),
            _ => assert_eq!(page.location(), format!("/sign-in?next={path}"), "{path}"),
        }
    }
    let page = world.post(&ana, "/approvals/1/decision", &[]).await;
    assert_eq!(page.status, 401);
    page.shows("You are signed out.");
}

/// A service that is configured without the playground has neither its pages nor an agent.
#[tokio::test]
async fn the_playground_is_off_unless_it_is_wanted() {
    let world = World::new().await;
    let ana = world.ana().await;
    for path in ["/playground", "/playground/crm", "/playground/crm/live"] {
        assert_eq!(world.get(&ana, path).await.status, 404, "{path}");
        let nobody = world.get(&world.nobody(), path).await;
        match path.ends_with("/live") {
            true => assert_eq!(nobody.status, 401),
            false => assert_eq!(nobody.location(), format!("/sign-in?next={path}")),
        }
    }
    let said = [("text", "hello")];
    assert_eq!(
        world.post(&ana, "/playground/crm/messages", &said).await.status,
        404
    );
    let nobody = world
        .post(&world.nobody(), "/playground/crm/messages", &said)
        .await;
    assert_eq!(nobody.status, 401);
    assert!(!world.get(&ana, "/approvals").await.text.contains("/playground"));
}

/// A page that is left open and refreshes itself does not extend the session (H04).
#[tokio::test]
async fn h04_a_page_left_open_is_not_use() {
    let world = World::new().await;
    let ana = world.ana().await;
    for _ in 0..31 {
        world.clock.advance(Duration::from_secs(59));
        world.get(&ana, "/approvals/cards").await;
        world
            .send(&ana, "/approvals", None, &[("countersign-fragment", "1")])
            .await;
    }
    let page = world.get(&ana, "/approvals/cards").await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_belongs_to_nobody_here_is_not_there() {
    let world = World::new().await;
    let ana = world.ana().await;
    for path in [
        "/approvals/00000000-0000-0000-0000-000000000000",
        "/approvals/nonsense",
        "/approvals/nonsense/card",
        "/approvals/nonsense/calls/1/arguments",
        "/approvals/history?after=nonsense",
    ] {
        let page = world.get(&ana, path).await;
        assert_eq!(page.status, 404, "{path}");
        page.shows("There is nothing here").shows("Back to the inbox");
    }
    let path = "/approvals/00000000-0000-0000-0000-000000000000/decision";
    let form = [("digest", "0"), ("verdict", "approve")];
    assert_eq!(world.post(&ana, path, &form).await.status, 404);
}

/// Another tenant's approval looks like one that does not exist.
#[tokio::test]
async fn tenants_do_not_meet() {
    let world = World::new().await;
    let ana = world.ana().await;
    let other = world
        .hold_as(&[("note", r#"{"text":"theirs"}"#)], |submission| {
            submission.tenant = "other".parse().unwrap();
        })
        .await;
    world.get(&ana, "/approvals").await.hides("theirs");
    world.get(&ana, "/approvals/history").await.hides("theirs");
    for path in ["", "/card", "/calls/1/arguments", "/calls/1/result"] {
        let page = world.get(&ana, &format!("/approvals/{}{path}", other.id)).await;
        assert_eq!(page.status, 404, "{path}");
    }
    assert_eq!(
        world.decide(&ana, &other, &[("verdict", "approve")]).await.status,
        404
    );
    for path in ["/calls/1/undo", "/calls/1/reconciliation"] {
        let path = format!("/approvals/{}{path}", other.id);
        let page = world.post(&ana, &path, &[("outcome", "failed")]).await;
        assert_eq!(page.status, 404, "{path}");
    }
}

#[tokio::test]
async fn pages_are_not_kept_and_load_nothing_foreign() {
    let world = World::new().await;
    let ana = world.ana().await;
    let page = world.get(&ana, "/approvals").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers["cache-control"], "no-store");
    page.hides("http:").hides("https:");
}

#[tokio::test]
async fn assets_are_asked_for_once() {
    let world = World::new().await;
    let ana = world.ana().await;
    for name in [
        "inbox.css",
        "inbox.js",
        "cards.js",
        "live.js",
        "keys.js",
        "icon.svg",
    ] {
        let path = format!("/assets/{name}");
        let file = world.get(&ana, &path).await;
        assert_eq!(file.status, 200, "{name}");
        let tag = file.headers["etag"].to_str().unwrap().to_owned();
        let again = world.send(&ana, &path, None, &[("if-none-match", &tag)]).await;
        assert_eq!(
            (again.status, again.text.len()),
            (StatusCode::NOT_MODIFIED, 0),
            "{name}"
        );
    }
    assert_eq!(world.get(&ana, "/assets/../Cargo.toml").await.status, 404);
}

/// A link in a chat leads to the page, although the browser withholds the cookie at first.
#[tokio::test]
async fn a_link_from_elsewhere_arrives() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let path = format!("/approvals/{}", approval.id);
    let nobody = world.nobody();
    let from_chat = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let page = world.send(&nobody, &path, None, &from_chat).await;
    assert_eq!(page.status, 200);
    page.shows(&format!("content=\"0; url={}\"", path.replace('/', "&#x2f;")))
        .hides("Note x");
    let own = [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate")];
    world.send(&ana, &path, None, &own).await.shows("Note x");
    let page = world.send(&nobody, &path, None, &own).await;
    assert_eq!(page.location(), format!("/sign-in?next={path}"));
}

/// The live stream ends after two minutes, and the number of streams is limited; the browser reconnects.
#[tokio::test(start_paused = true)]
async fn the_live_stream_ends_in_time_and_is_limited() {
    let world = World::new().await;
    let ana = world.ana().await;
    let begin = tokio::time::Instant::now();
    let stream = world.get(&ana, "/approvals/live").await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(begin.elapsed().as_secs(), 120);
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(world.open(&ana, "/approvals/live").await);
    }
    assert!(open.iter().all(|stream| stream.status() == 200));
    assert_eq!(world.open(&ana, "/approvals/live").await.status(), 429);
    open.clear();
    assert_eq!(world.open(&ana, "/approvals/live").await.status(), 200);
}

#[tokio::test]
async fn times_have_a_zone_without_a_script() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"x"}"#)]).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("datetime=\"2026-01-01T00:00:00.000Z\">2026-01-01 00:00:00 UTC</time></dd>")
        .shows(">2026-01-01 00:05:00 UTC</time>");
}
