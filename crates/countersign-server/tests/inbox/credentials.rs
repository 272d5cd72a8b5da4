//! A credential that comes with a call stands on every page as a note.

use countersign::seal::Secret;

use crate::support::World;

#[tokio::test]
async fn every_page_says_that_a_call_comes_with_a_credential() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold_as(&[("note", r#"{"text":"hello"}"#)], |submission| {
            submission.calls[0].secret = Some(Secret::new("ROOT-CRED"));
        })
        .await;
    for path in ["/approvals".to_owned(), format!("/approvals/{}", approval.id)] {
        let page = world.get(&ana, &path).await;
        page.shows("<p class=note>carries a credential of 9 bytes")
            .hides("ROOT-CRED");
    }
}
