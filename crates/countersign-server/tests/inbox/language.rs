//! Pages in the person's language, and error pages that say what to do.

use crate::support::{MARIA, World};

const SPANISH: (&str, &str) = ("accept-language", "es-UY,es;q=0.9,en;q=0.5");
const PAGE: (&str, &str) = ("accept", "text/html,application/xhtml+xml");

#[tokio::test]
async fn pages_are_in_the_language_that_the_browser_prefers() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.hold(&[("create_contact", MARIA)]).await;
    world.hold(&[("pay", r#"{"amount":3}"#)]).await;
    let list = world.send(&ana, "/approvals", None, &[SPANISH]).await;
    list.shows("<html lang=\"es\">")
        .shows("2 esperan")
        .shows("riesgo crítico")
        .shows("Rechazar")
        // The policy's own words stay as they are.
        .shows("Do not create")
        .hides("Approve")
        .hides("cannot be undone");
    let list = world.get(&ana, "/approvals").await;
    list.shows("<html lang=\"en\">").shows("2 wait").shows("Deny");
    let sign_in = world.send(&world.nobody(), "/sign-in", None, &[SPANISH]).await;
    sign_in.shows("Contraseña").shows("Entrar");
    let form = [("code", "nonsense")];
    let expired = world
        .send(&world.nobody(), "/sign-in", Some(&form), &[SPANISH])
        .await;
    assert_eq!(expired.status, 401);
    expired.shows("Este enlace ya se usó o ha caducado");
}

#[tokio::test]
async fn an_error_page_says_what_happened_and_what_to_do() {
    let world = World::new().await;
    let ana = world.ana().await;
    for (path, headers, status, words) in [
        (
            "/nowhere",
            vec![PAGE],
            404,
            ["There is nothing here", "Back to the inbox"],
        ),
        (
            "/nowhere",
            vec![PAGE, SPANISH],
            404,
            ["Aquí no hay nada", "Volver a la bandeja"],
        ),
        (
            "/approvals/nonsense",
            vec![PAGE, SPANISH],
            404,
            ["Aquí no hay nada", "There is no such approval."],
        ),
        (
            "/approvals?page=first",
            vec![PAGE],
            400,
            [
                "Not done",
                "The address has a value that this page does not understand.",
            ],
        ),
        // A page of another site.
        (
            "/approvals",
            vec![
                PAGE,
                ("sec-fetch-site", "cross-site"),
                ("origin", "https://evil.example"),
            ],
            403,
            ["You may not do this", "Cross-site requests are refused."],
        ),
        (
            "/approvals/decisions",
            vec![PAGE],
            405,
            ["There is nothing here", "Back to the inbox"],
        ),
    ] {
        let page = world.send(&ana, path, None, &headers).await;
        assert_eq!(page.status, status, "{path}: {}", page.text);
        for words in words {
            page.shows(words);
        }
        let kind = page.headers["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/html"), "{path}: {kind}");
        assert!(page.headers.contains_key("content-security-policy"), "{path}");
    }
    // A program gets JSON, and so does every route of the API.
    for (path, headers) in [("/nowhere", vec![]), ("/v1/nowhere", vec![PAGE])] {
        let answer = world.send(&ana, path, None, &headers).await;
        assert_eq!(answer.status, 404);
        answer.shows("\"code\":\"not_found\"");
    }
    let long = "x".repeat(3 * 1024 * 1024);
    let approval = world.hold(&[("create_contact", MARIA)]).await;
    let path = format!("/approvals/{}/decision", approval.id);
    let large = world.post(&ana, &path, &[("comment", &long)]).await;
    assert_eq!(large.status, 413);
    large.shows("This is too large").shows("href=\"/approvals\"");
    let signed_out = world.post(&world.nobody(), &path, &[("verdict", "deny")]).await;
    assert_eq!(signed_out.status, 401);
    signed_out
        .shows("You are signed out")
        .shows("/sign-in?next=/approvals");
}
