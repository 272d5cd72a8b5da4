//! A credential that comes with a call, and the folder that it runs in, stand on every page as notes.

use std::sync::Arc;

use countersign::seal::Secret;
use countersign::working_folder::{Link, WorkingFolder};

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

#[tokio::test]
async fn every_page_names_the_working_folder_and_its_links() {
    let world = World::new().await;
    let ana = world.ana().await;
    let link = Link {
        path: "a.txt".to_owned(),
        target: "/home/ana/.ssh/id_rsa".to_owned(),
    };
    let folder = WorkingFolder::new("/home/ana/<b>\u{202e}p", vec![link]).unwrap();
    let approval = world
        .hold_as(&[("note", r#"{"text":"hello"}"#)], |submission| {
            submission.calls[0].working_folder = Some(Arc::new(folder));
        })
        .await;
    for path in ["/approvals".to_owned(), format!("/approvals/{}", approval.id)] {
        let page = world.get(&ana, &path).await;
        page.shows(
            "<p class=note>runs in the folder &quot;&#x2f;home&#x2f;ana&#x2f;&lt;b&gt;\\u{202e}p&quot;",
        )
        .shows(
            "<p class=note>&quot;a.txt&quot; leads to &quot;&#x2f;home&#x2f;ana&#x2f;.ssh&#x2f;id_rsa&quot;",
        )
        .hides("<b>\u{202e}p");
    }
}
