//! The page for people: what an admin can do there, and nobody else.

use countersign::id::{Person, Tenant};
use countersign_server::access::{Account, SenderLink, Session};

use crate::support::{Browser, World};

async fn admin(world: &World) -> Browser {
    let store = world.app.store();
    let now = store.now().await.unwrap();
    let mut account = Account::new(
        Person::new("root-ana").unwrap(),
        vec!["approvers".to_owned()],
        now,
    );
    account.admin = true;
    let account = account.add(store, &Tenant::single()).await.unwrap();
    Browser::with(&Session::begin(store, &Tenant::single(), &account).await.unwrap())
}

async fn account(world: &World, name: &str) -> Option<Account> {
    let person = Person::new(name).unwrap();
    Account::find(world.app.store(), &Tenant::single(), &person)
        .await
        .unwrap()
}

#[tokio::test]
async fn e4_an_admin_manages_people_on_a_page() {
    let world = World::new().await;
    let root = admin(&world).await;
    world
        .get(&root, "/approvals")
        .await
        .shows("<a href=\"/people\">People</a>");
    let added = world
        .post(
            &root,
            "/people",
            &[("name", "Zoë Núñez"), ("groups", "finance, night shift")],
        )
        .await;
    assert_eq!(
        (added.status.as_u16(), added.location()),
        (303, "/people"),
        "{}",
        added.text
    );
    let zoe = account(&world, "Zoë Núñez").await.unwrap();
    assert_eq!(
        (zoe.groups.as_slice(), zoe.admin),
        (&["finance".to_owned(), "night shift".to_owned()][..], false)
    );
    let page = world.get(&root, "/people").await;
    page.shows("Zoë Núñez")
        .shows("finance, night shift")
        .shows("no password");
    let path = page.between("action=\"/people/Zo", "/groups\"").to_owned();
    let path = format!("/people/Zo{path}");

    world
        .post(&root, &format!("{path}/groups"), &[("groups", "approvers")])
        .await;
    assert_eq!(account(&world, "Zoë Núñez").await.unwrap().groups, ["approvers"]);

    let sender = [("sender", "telegram:42")];
    world.post(&root, &format!("{path}/senders"), &sender).await;
    let person = Person::new("telegram:42").unwrap();
    let tenant = Tenant::single();
    let found = || SenderLink::resolve(world.app.store(), &tenant, &person);
    assert_eq!(found().await.unwrap().unwrap().0.name.as_str(), "Zoë Núñez");
    world.get(&root, "/people").await.shows("telegram:42");
    world
        .post(&root, &format!("{path}/senders/unlink"), &sender)
        .await;
    assert!(found().await.unwrap().is_none());

    let made = world.post(&root, &format!("{path}/sign-in-link"), &[]).await;
    assert_eq!(made.status, 200);
    let code = made.between("sign-in?code=", "\"").to_owned();
    let entered = world.post(&world.nobody(), "/sign-in", &[("code", &code)]).await;
    assert_eq!(entered.status, 303, "the link signs in");

    let kept = world
        .post(&root, &format!("{path}/remove"), &[("confirm", "zoe")])
        .await;
    assert_eq!(kept.status, 422);
    kept.shows("nobody was removed");
    assert!(account(&world, "Zoë Núñez").await.is_some());
    world
        .post(&root, &format!("{path}/remove"), &[("confirm", "Zoë Núñez")])
        .await;
    assert!(account(&world, "Zoë Núñez").await.is_none());
}

#[tokio::test]
async fn e4_faults_are_said_on_the_page() {
    let world = World::new().await;
    let root = admin(&world).await;
    for (form, status, words) in [
        (vec![("name", "root-ana")], 409, "There is already"),
        (vec![("name", "")], 400, ""),
        (
            vec![("name", "bob"), ("groups", "a,\u{202e}b")],
            422,
            "for the group",
        ),
    ] {
        let page = world.post(&root, "/people", &form).await;
        assert_eq!(page.status, status, "{form:?}: {}", page.text);
        page.shows("role=\"alert\"").shows(words).shows("Add a person");
    }
    let page = world
        .post(&root, "/people/root-ana/senders", &[("sender", "no colon")])
        .await;
    assert_eq!(page.status, 422);
    let page = world
        .post(&root, "/people/nobody/groups", &[("groups", "x")])
        .await;
    assert_eq!(page.status, 404);
}

#[tokio::test]
async fn h01_nobody_but_an_admin_manages_people() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.get(&ana, "/approvals").await.hides("/people");
    let posts = [
        ("/people", [("name", "mallory")]),
        ("/people/ana/groups", [("groups", "finance")]),
        ("/people/ana/senders", [("sender", "telegram:1")]),
        ("/people/ana/senders/unlink", [("sender", "telegram:1")]),
        ("/people/ana/sign-in-link", [("x", "1")]),
        ("/people/ana/remove", [("confirm", "ana")]),
    ];
    for (path, form) in posts {
        let page = world.post(&ana, path, &form).await;
        assert_eq!(page.status, 403, "{path}");
        page.shows("Only an admin may manage people.").hides("code=");
        assert_eq!(
            world.post(&world.nobody(), path, &form).await.status,
            401,
            "{path}"
        );
        // A form of another site, in an admin's browser.
        let root = Browser::with("nonsense");
        let headers = [("sec-fetch-site", "cross-site")];
        let page = world.send(&root, path, Some(&form), &headers).await;
        assert_eq!(page.status, 403, "{path}");
    }
    assert_eq!(world.get(&ana, "/people").await.status, 403);
    assert!(account(&world, "mallory").await.is_none());
    assert_eq!(account(&world, "ana").await.unwrap().groups, ["approvers"]);
}
