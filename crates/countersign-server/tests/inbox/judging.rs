//! Tests what a card offers to judge by: provenance, concerns, and earlier endorsements.

use std::time::Duration;

use countersign::decision::Verdict;
use countersign::provenance::VouchedConversation;

use crate::support::{MARIA, World, conversation};

#[tokio::test]
async fn a18_each_value_has_its_mark_and_what_nobody_stated_comes_first() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments = r#"{"name":"Maria Garcia","id":"c-7","site":"evil.example","email":"maria@company.com"}"#;
    let approval = world
        .hold_as(&[("unlisted", arguments)], |submission| {
            submission.conversation = Some(conversation(&[
                ("user", "Please invite Maria Garcia"),
                ("find_contact", r#"{"found":[{"id":"c-7"}]}"#),
                ("web", "see evil.example"),
            ]));
        })
        .await;
    let list = world.get(&ana, "/approvals").await;
    list.shows(
        "<p class=m5>3 of 4 values were not given by you: 1 invented, 1 from outside text, 1 from tools",
    )
    .shows("<dt>email<dd class=m5>NOT FROM YOU<dd>maria@company.com<")
    .shows(">FROM OUTSIDE<dd>evil.example<")
    .shows("<dd class=m1 title=\"find_contact, at &#x2f;found&#x2f;0&#x2f;id\">from a tool<dd>c-7<")
    .shows("<dt>name<dd class=m0>from you<dd>Maria Garcia<");
    let places: Vec<usize> = ["<dt>email", "<dt>site", "<dt>id", "<dt>name"]
        .iter()
        .map(|name| list.text.find(name).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    // The approval's own page shows the explanation as text, without a mouse or script.
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<dt class=two>id<dd class=m1>from a tool<dd>c-7<dd class=why>find_contact, at &#x2f;found&#x2f;0&#x2f;id");
}

#[tokio::test]
async fn x57_the_page_says_that_the_agent_supplied_the_conversation() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold_as(&[("create_contact", MARIA)], |submission| {
            let heard = conversation(&[("user", "Maria Garcia, maria@example.com")]);
            submission.conversation = Some(VouchedConversation::supplied(heard.conversation().clone()));
        })
        .await;
    for path in ["/approvals".to_owned(), format!("/approvals/{}", approval.id)] {
        world
            .get(&ana, &path)
            .await
            .shows("<p class=m3>as the agent tells it, all 2 values were given by you")
            .shows("you, per agent<")
            .hides("from you<");
    }
}

#[tokio::test]
async fn a18_a_call_without_a_conversation_is_never_called_fine() {
    let world = World::new().await;
    let ana = world.ana().await;
    world.hold(&[("create_contact", MARIA)]).await;
    let page = world.get(&ana, "/approvals").await;
    page.shows("<p class=m1>no conversation came with the call, so its values are not traced")
        .hides("where the values came from is unknown")
        .hides("from you<");
    // A warning belongs on the card of an agent that otherwise sends the conversation.
    tokio::time::sleep(Duration::from_millis(2)).await;
    world
        .hold_as(&[("create_contact", MARIA)], |submission| {
            submission.conversation = Some(conversation(&[("user", "Maria Garcia, maria@example.com")]));
        })
        .await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let arguments = r#"{"name":"Bo","email":"bo@example.com"}"#;
    let without = world.hold(&[("create_contact", arguments)]).await;
    let unknown =
        "<b>Look twice:</b> where the values came from is unknown: earlier calls of this agent came with";
    for path in ["/approvals".to_owned(), format!("/approvals/{}", without.id)] {
        world.get(&ana, &path).await.shows(unknown);
    }
}

#[tokio::test]
async fn a18_a_quote_stays_inside_its_frame() {
    let world = World::new().await;
    let ana = world.ana().await;
    let hostile = r#""><script>alert(1)</script>"#;
    let approval = world
        .hold_as(&[("note", r#"{"text":"c-7"}"#)], |submission| {
            submission.conversation = Some(conversation(&[(hostile, "c-7")]));
        })
        .await;
    for path in ["/approvals".to_owned(), format!("/approvals/{}", approval.id)] {
        world
            .get(&ana, &path)
            .await
            .hides("<script>alert")
            .shows("from a tool");
    }
}

#[tokio::test]
async fn a_secret_has_a_mark_and_no_words() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments = r#"{"name":"Maria","email":"m@example.com","api_key":"canary-secret"}"#;
    let approval = world
        .hold_as(&[("create_contact", arguments)], |submission| {
            submission.conversation = Some(conversation(&[(
                "user",
                "Maria m@example.com, key canary-secret",
            )]));
        })
        .await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<dt>api_key<dd class=m0>from you<dd><i>hidden")
        .hides("canary");
}

#[tokio::test]
async fn x11_x16_second_looks_stand_on_the_card() {
    let world = World::new().await;
    let ana = world.ana().await;
    let known = world
        .hold(&[("create_contact", r#"{"name":"Maria","email":"maria@acme.com"}"#)])
        .await;
    let first_use = "<p class=look><b>Look twice:</b> this agent never asked for this tool before";
    // The first call of all is not compared with anything.
    world.get(&ana, "/approvals").await.hides("Look twice");
    world.decide_elsewhere(&known, Verdict::Approve).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let denied = world.hold(&[("note", r#"{"text":"again"}"#)]).await;
    world.get(&ana, "/approvals").await.shows(first_use);
    world.decide_elsewhere(&denied, Verdict::Deny).await;
    // Ids contain the machine's time in milliseconds.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let alike = world
        .hold(&[("create_contact", r#"{"name":"Maria","email":"marla@acme.com"}"#)])
        .await;
    world.hold(&[("note", r#"{"text":"again"}"#)]).await;
    let like = "&#x2f;email is one letter away from `maria@acme.com`, which was used before";
    let page = world.get(&ana, "/approvals").await;
    page.shows(like)
        .shows("the same call was denied within the last hour");
    for path in [
        format!("/approvals/{}", alike.id),
        format!("/approvals/{}/card", alike.id),
    ] {
        world.get(&ana, &path).await.shows(like);
    }
    // A decided approval has no concerns.
    world.decide(&ana, &alike, &[("verdict", "deny")]).await;
    world
        .get(&ana, &format!("/approvals/{}", alike.id))
        .await
        .hides("Look twice");
}

#[tokio::test]
async fn a_quorum_says_who_approved_so_far() {
    let world = World::new().await;
    let (ana, cy) = (world.ana().await, world.sign_in("cy", &["approvers"]).await);
    let approval = world.hold(&[("wire", r#"{"amount":5}"#)]).await;
    world
        .get(&ana, "/approvals")
        .await
        .shows("2 different people have to approve this; nobody has yet.");
    let fields = [("verdict", "approve"), ("comment", "fine <b>by</b> me")];
    world.decide(&ana, &approval, &fields).await;
    let for_ana = world.get(&ana, "/approvals?view=all").await;
    for_ana.shows("<b>You</b> approved on the page, just now: <q>fine &lt;b&gt;by&lt;&#x2f;b&gt; me</q>");
    for_ana
        .shows("You have approved this; another person has to approve it, too.")
        .hides("value=approve>")
        .shows("value=deny>");
    let for_cy = world.get(&cy, "/approvals").await;
    for_cy
        .shows("<b>ana</b> approved on the page")
        .shows("value=approve>");
    assert_eq!(world.ran(), [""; 0]);
    world.decide(&cy, &approval, &[("verdict", "approve")]).await;
    assert_eq!(world.now(&approval).await.state.as_str(), "approved");
}

#[tokio::test]
async fn x22_a_card_shows_what_would_become_what() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world
        .hold(&[("rename_page", r#"{"id":"p1","title":"Team"}"#)])
        .await;
    let list = world.get(&ana, "/approvals").await;
    list.shows("Rename About &lt;us&gt; to Team")
        .shows("<dt>title<dd><del>About &lt;us&gt;</del> → Team<")
        .shows("<dt>id<dd>p1<")
        .shows("What is there now, as get_page read it (53 bytes)");
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("What is there now, as get_page read it (53 bytes)")
        .shows("&quot;sections&quot;:[&quot;a&quot;,&quot;b&quot;]");
    // A field that is secret in the arguments is secret in the snapshot, too.
    *world.page.lock().unwrap() = r#"{"title":"x","token":"canary"}"#.to_owned();
    let secret = world
        .hold(&[("rename_page", r#"{"id":"p1","title":"Team","token":"other"}"#)])
        .await;
    let page = world.get(&ana, &format!("/approvals/{}", secret.id)).await;
    page.shows("hidden, 6 bytes").hides("canary").hides("other");
}

#[tokio::test]
async fn x22_what_changed_in_between_does_not_run_and_there_is_a_new_card() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("delete_page", r#"{"id":"p1"}"#)]).await;
    world
        .get(&ana, "/approvals")
        .await
        .shows("Delete About &lt;us&gt; and its 2 sections");
    *world.page.lock().unwrap() = r#"{"title":"About","sections":["a","b","c"]}"#.to_owned();
    world.decide(&ana, &approval, &[("verdict", "approve")]).await;
    world.finished(&approval).await;
    assert_eq!(world.ran(), [""; 0]);
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("refused: what it would change has changed since it was shown")
        .shows(
            "call 1 will not run: what it would change has changed since it was shown; asked again: <a href=",
        );
    let list = world.get(&ana, "/approvals").await;
    list.shows("Delete About and its 3 sections").shows("1 waits");
}

#[tokio::test]
async fn x44_an_edit_shows_old_and_new() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("note", r#"{"text":"Helo","tag":"x"}"#)]).await;
    let fields = [("arguments-1", r#"{"text":"Hello","mood":"good"}"#)];
    world.edit(&ana, &approval, &fields).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<dt>text<dd><del>Helo</del> → Hello<")
        .shows("<dt>mood<dd>good<")
        .shows("<dt>tag<dd><del>x</del> → <i>gone</i>")
        .shows("changed by who approved it");
}

/// Returns arguments with a list of 13 paddocks of six values each.
fn paddocks() -> String {
    let paddock = |number: usize| {
        serde_json::json!({
            "id": format!("p-{number}"), "nombre": format!("Padrón {number}"), "hectareas": number * 10,
            "animales": number, "activo": true, "zona": "norte",
        })
    };
    let all: Vec<_> = (1..=13).map(paddock).collect();
    serde_json::json!({ "potreros": all, "motivo": "fin de temporada" }).to_string()
}

#[tokio::test]
async fn x07_a_list_of_like_objects_is_a_table_that_can_be_approved_where_it_is() {
    let world = World::new().await;
    let ana = world.ana().await;
    let approval = world.hold(&[("unlisted", &paddocks())]).await;
    for path in ["/approvals".to_owned(), format!("/approvals/{}", approval.id)] {
        let page = world.get(&ana, &path).await;
        page.shows("potreros <span>list of 13</span>")
            .shows("<details class=group open>")
            .shows("<th>activo<th>animales<th>hectareas<th>id<th>nombre<th>zona")
            .shows("<tr><th>13<td data-name=\"activo\"><span>true</span>")
            .shows("<td data-name=\"nombre\"><span>Padrón 13</span>")
            .shows("<dt>motivo<dd>fin de temporada<")
            .shows("unlisted: 79 values, listed below</")
            .shows("value=approve>")
            .hides("potreros&#x2f;0")
            .hides("potreros.0");
    }
    // Longer lists are shown as a table on the page of the card only.
    let many: Vec<_> = (0..30)
        .map(|number| serde_json::json!({ "id": number }))
        .collect();
    let many = serde_json::json!({ "all": many }).to_string();
    let approval = world.hold(&[("unlisted", &many)]).await;
    let card = world.get(&ana, &format!("/approvals/{}/card", approval.id)).await;
    card.shows("22 more values").hides("value=approve>");
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("all <span>list of 30</span>").shows("value=approve>");
}

#[tokio::test]
async fn a18_marks_stand_in_the_cells_or_in_the_head_of_a_column() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments =
        r#"{"to":[{"name":"Ana","mail":"ana@acme.com"},{"name":"Bo","mail":"bo@evil.example"}],"note":"hi"}"#;
    let approval = world
        .hold_as(&[("unlisted", arguments)], |submission| {
            let said = [(
                "user",
                "Invite, to: name Ana, mail ana@acme.com; name Bo; note hi",
            )];
            submission.conversation = Some(conversation(&said));
        })
        .await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<th class=m0>name<b class=tag>from you</b>")
        .shows("<td data-name=\"mail\" class=m0><b class=\"tag\">from you</b><span>ana@acme.com</span>")
        .shows(
            "<td data-name=\"mail\" class=m5><b class=\"tag\">NOT FROM YOU</b><span>bo@evil.example</span>",
        );
    // The table with the invented value comes before the stated one.
    let places = ["bo@evil.example</span>", "<dt>note"].map(|text| page.text.find(text).unwrap());
    assert!(places.is_sorted(), "{}", page.text);
}

#[tokio::test]
async fn b10_a_batch_of_like_calls_is_one_table_and_decided_row_by_row() {
    let world = World::new().await;
    let ana = world.ana().await;
    let arguments: Vec<String> = (1..=13)
        .map(|number| format!(r#"{{"id":"p-{number}"}}"#))
        .collect();
    let calls: Vec<(&str, &str)> = arguments
        .iter()
        .map(|each| ("delete_contact", each.as_str()))
        .collect();
    let approval = world.hold(&calls).await;
    let list = world.get(&ana, "/approvals").await;
    list.shows("<tr><th>13<td class=what>Delete contact p-13<td data-name=\"id\"><span>p-13</span>");
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.shows("<tr><th>13<td class=what>Delete contact p-13")
        .hides("<h3>");
    assert_eq!(page.text.matches("value=\"deny\"").count(), 13);
    assert_eq!(page.text.matches("high risk</b>").count(), 1);
    let names: Vec<String> = (1..=13).map(|position| format!("choice-{position}")).collect();
    let choice = |name: &str| match name {
        "choice-7" => "deny",
        _ => "approve",
    };
    let mut form = vec![("verdict", "chosen")];
    form.extend(names.iter().map(|name| (name.as_str(), choice(name))));
    let answer = world.decide(&ana, &approval, &form).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    world.finished(&approval).await;
    assert_eq!(world.ran().len(), 12);
    assert!(
        !world.ran().iter().any(|ran| ran.contains("p-7")),
        "{:?}",
        world.ran()
    );
    // Calls of which one has something of its own are shown one below the other.
    let odd = [
        arguments[0].as_str(),
        &arguments[1],
        r#"{"id":"p-3","force":true}"#,
    ];
    let calls: Vec<(&str, &str)> = odd.iter().map(|each| ("delete_contact", *each)).collect();
    let approval = world.hold(&calls).await;
    let page = world.get(&ana, &format!("/approvals/{}", approval.id)).await;
    page.hides("<td class=what>").shows("<dt>force<dd>true<");
}
