use countersign::call::RefusalReason;
use countersign::decision::Verdict;
use countersign::executor::Executor as _;
use countersign::gate::{Flagged, Gate};
use countersign::policy::Policy;
use countersign::store::Filter;
use countersign_examples::cms::SETUP;
use serde_json::json;
use std::sync::Arc;

use crate::stage::{call, decision, each, first, reason, result, submission, summary};

#[tokio::test]
async fn c3_reads_pass_and_tell_no_internals() {
    each(&SETUP, async |stage| {
        let before = stage.hash();
        let cases = [
            (
                "cms_listPages",
                r#"{"status":"draft"}"#,
                "/pages/1",
                json!({
                    "slug": "draft-2", "name": "Draft 2", "status": "draft", "sections": 2,
                }),
            ),
            (
                "cms_getPage",
                r#"{"slug":"about"}"#,
                "/sections/2/heading",
                json!("Where our flour comes from"),
            ),
            ("cms_listPosts", "{}", "/posts/0/slug", json!("plum-cake")),
            (
                "cms_getPost",
                r#"{"slug":"summer-2025"}"#,
                "/status",
                json!("archived"),
            ),
            (
                "cms_listImages",
                "{}",
                "/images/0",
                json!({ "filename": "oven.jpg", "alt": "The wood oven", "bytes": 11 }),
            ),
        ];
        for (tool, arguments, pointer, expected) in cases {
            let answer = stage.read(tool, arguments).await;
            assert_eq!(answer.pointer(pointer), Some(&expected), "`{tool}`: {answer}");
            assert!(
                !answer.to_string().contains("media/"),
                "c5: `{tool}` tells where files lie"
            );
        }
        assert_eq!(stage.hash(), before);
    })
    .await;
}

#[tokio::test]
async fn c3_c5_a17_the_gated_tools_are_held_shown_run_once_and_undone() {
    let cases = [
        (
            "cms_deletePage",
            r#"{"slug":"about"}"#,
            "Delete page “About Us” and its 3 sections",
            "Restore page “About Us” with 3 sections",
        ),
        (
            "cms_deletePage",
            r#"{"slug":"test"}"#,
            "Delete page “Test Page” and its 1 section",
            "Restore page “Test Page” with 1 section",
        ),
        (
            "cms_deletePage",
            r#"{"id":"page-202","removeFromNavigation":false}"#,
            "Delete page “Old Landing” and its 2 sections; its link stays in the navigation",
            "Restore page “Old Landing” with 2 sections",
        ),
        (
            "cms_deletePage",
            r#"{"slug":"draft-3"}"#,
            "Delete page “Draft 3”, which has no sections",
            "Restore page “Draft 3” with 0 sections",
        ),
        (
            "cms_deletePageSection",
            r#"{"pageSlug":"about","sectionId":"s-1232","heading":"The team"}"#,
            "Delete section “The team” of page about",
            "Restore 1 section of page about: The team",
        ),
        (
            "cms_deletePageSections",
            r#"{"pageSlug":"home","sections":[{"id":"s-1003","heading":"This week"},{"id":"s-1001","heading":"Welcome"}]}"#,
            "Delete 2 sections of page home: This week, Welcome",
            "Restore 2 sections of page home: This week, Welcome",
        ),
        (
            "cms_publishPost",
            r#"{"postSlug":"winter-hours","title":"Winter hours"}"#,
            "Publish “Winter hours”: it becomes publicly visible",
            "Make “Winter hours” a draft again: nobody sees it any more",
        ),
        (
            "cms_archivePost",
            r#"{"postSlug":"plum-cake"}"#,
            "Archive post plum-cake: nobody sees it any more",
            "Show “The plum cake is back” again: it becomes publicly visible",
        ),
        (
            "cms_deletePost",
            r#"{"postSlug":"summer-2025"}"#,
            "Delete “Closed in August”, which is archived",
            "Restore “Closed in August” as archived",
        ),
        (
            "cms_deleteImage",
            r#"{"filename":"old-banner.png"}"#,
            "Delete image “old-banner.png”",
            "Restore image “old-banner.png”",
        ),
    ];
    each(&SETUP, async |stage| {
        for (tool, arguments, said, undo_said) in cases {
            stage.there_and_back(tool, arguments, said, undo_said).await;
        }
    })
    .await;
}

#[tokio::test]
async fn c3_deleting_a_page_takes_its_sections_and_its_link_along() {
    each(&SETUP, async |stage| {
        let done = stage.run("cms_deletePage", r#"{"slug":"about"}"#).await;
        let told = result(&done);
        assert_eq!(
            told["message"],
            "Page \"About Us\" and its 3 sections have been deleted."
        );
        assert_eq!(
            (&told["sectionsDeleted"], &told["page"]["navigation"]["label"]),
            (&json!(3), &json!("About"))
        );
        let pages = stage.read("cms_listPages", "{}").await;
        assert_eq!(pages["pages"].as_array().unwrap().len(), 7);
        // The sections are deleted too.
        let section = r#"{"pageSlug":"about","sectionId":"s-1232","heading":"The team"}"#;
        assert_eq!(
            reason(&stage.run("cms_deletePageSection", section).await),
            "there is no page `about`"
        );
    })
    .await;
}

#[tokio::test]
async fn an_undo_can_itself_be_undone() {
    each(&SETUP, async |stage| {
        let deleted = stage.run("cms_deletePage", r#"{"slug":"about"}"#).await;
        let after = stage.hash();
        let undo = stage.undo(&deleted).await.unwrap();
        let restored = stage.approve(&undo).await;
        let redo = stage.undo(&restored).await.unwrap();
        assert_eq!(summary(&redo), "Delete page “About Us” and its 3 sections");
        result(&stage.approve(&redo).await);
        assert_eq!(stage.hash(), after);
    })
    .await;
}

#[tokio::test]
async fn c5_what_was_shown_and_is_not_so_fails_and_changes_nothing() {
    each(&SETUP, async |stage| {
        // The card says three sections; one is deleted before the person approves.
        let held = stage.hold("cms_deletePage", r#"{"slug":"about"}"#).await;
        let elsewhere = crate::stage::over(&SETUP, Arc::new(countersign::store::memory::MemoryStore::default()), stage.world.clone());
        let section = r#"{"pageSlug":"about","sectionId":"s-1232","heading":"The team"}"#;
        result(&elsewhere.run("cms_deletePageSection", section).await);
        let before = stage.hash();
        let approved = stage.approve(&held).await;
        assert_eq!(approved.calls[0].because, Some(RefusalReason::Changed));
        assert_eq!(stage.hash(), before);
        let asked = stage.gate.store().list(&held.tenant, &Filter::pending()).await.unwrap();
        let said: Vec<&str> = asked.iter().map(summary).collect();
        assert_eq!(said, ["Delete page “About Us” and its 2 sections"], "x22: asked again, about what is there now");
        let cases = [
            ("cms_deletePage", r#"{"slug":"test","id":"page-100"}"#, "there is no page `test`"),
            ("cms_publishPost", r#"{"postSlug":"plum-cake"}"#, "\"The plum cake is back\" is published, not draft"),
            ("cms_archivePost", r#"{"postSlug":"winter-hours"}"#, "\"Winter hours\" is draft, not published"),
            ("cms_deleteImage", r#"{"filename":"../etc/passwd"}"#, "there is no image `../etc/passwd`"),
            (
                "cms_deletePageSections",
                r#"{"pageSlug":"home","sections":[{"id":"s-1001","heading":"Welcome"},{"id":"s-1233","heading":"Not here"}]}"#,
                "page \"Homepage\" has no section \"Not here\" any more",
            ),
        ];
        // Without the rows to show, nobody is asked.
        for (tool, arguments, expected) in [
            ("cms_deletePage", r#"{"slug":"nothing"}"#, "there is no page `nothing`"),
            ("cms_deletePost", r#"{"postSlug":"nothing"}"#, "there is no post `nothing`"),
        ] {
            let said = stage.forbidden(tool, arguments).await;
            assert!(said.contains(expected), "`{tool}`: {said}");
        }
        for (tool, arguments, expected) in cases {
            let said = reason(&stage.run(tool, arguments).await);
            assert!(said.starts_with(expected), "`{tool}`: {said}");
            assert_eq!(stage.hash(), before, "`{tool}` did half of it");
        }
    })
    .await;
}

#[tokio::test]
async fn a17_an_undo_whose_place_was_taken_says_why() {
    each(&SETUP, async |stage| {
        let deleted = stage.run("cms_deletePost", r#"{"postSlug":"plum-cake"}"#).await;
        let undo = stage.undo(&deleted).await.unwrap();
        result(&stage.approve(&undo).await);
        let arguments = json!({ "post": result(&deleted)["post"] }).to_string();
        let said = reason(&stage.run("cms_restorePost", &arguments).await);
        assert_eq!(said, "there is a post `plum-cake` already; nothing was changed");
    })
    .await;
}

#[tokio::test]
async fn arguments_that_break_the_schema_are_refused_before_anybody_is_asked() {
    each(&SETUP, async |stage| {
        let cases = [
            ("cms_deletePage", "{}"),
            ("cms_deletePage", r#"{"confirmed":true}"#),
            ("cms_deletePage", r#"{"slug":["about"]}"#),
            ("cms_deletePageSections", r#"{"pageSlug":"home","sections":[]}"#),
            (
                "cms_publishPost",
                r#"{"postSlug":"winter-hours","confirmed":"yes"}"#,
            ),
            ("cms_deleteImage", r#"{"path":"media/7f/3c/1"}"#),
            ("http_post", r#"{"url":"https://127.0.0.1/","body":{}}"#),
            ("http_post", r#"{"url":"http://127.0.0.1/"}"#),
            ("cms_listPages", r#"{"status":"secret"}"#),
        ];
        for (tool, arguments) in cases {
            stage.forbidden(tool, arguments).await;
        }
    })
    .await;
}

#[tokio::test]
async fn c1_c2_the_flag_is_answered_and_never_believed() {
    each(&SETUP, async |stage| {
        // The agent's own loop runs the tools; the gate only reads what they would change.
        let store = Arc::new(countersign::store::memory::MemoryStore::default());
        let gate = Gate::new(store, Arc::new(Policy::parse(SETUP.policy).unwrap()))
            .with_executor(Arc::new(stage.world.clone()));
        let before = stage.hash();
        let flagged =
            |arguments: &str| gate.submit_flagged(submission(vec![call("cms_deletePage", arguments)]));

        let Flagged::Submitted(first_time) = flagged(r#"{"slug":"about","confirmed":true}"#).await.unwrap()
        else {
            panic!("a flag was believed");
        };
        let answer: serde_json::Value =
            serde_json::from_str(&first_time.requires_confirmation().unwrap()).unwrap();
        assert_eq!(answer["requiresConfirmation"], true);
        assert_eq!(
            answer["message"],
            "Are you sure? Delete page “About Us” and its 3 sections"
        );

        let Flagged::Submitted(asked) = flagged(r#"{"slug":"about"}"#).await.unwrap() else {
            panic!("nothing was approved");
        };
        let approval = asked.approval.unwrap();
        gate.decide(decision(&approval, Verdict::Approve))
            .await
            .unwrap()
            .accepted()
            .unwrap();
        let other = flagged(r#"{"slug":"home","confirmed":true}"#).await.unwrap();
        assert!(
            matches!(other, Flagged::Submitted(_)),
            "a yes to one page deletes no other"
        );
        assert_eq!(stage.hash(), before);

        let Flagged::Confirmed(permit) = flagged(r#"{"slug":"about","confirmed":true}"#).await.unwrap()
        else {
            panic!("a person approved exactly this");
        };
        let (id, token) = (first(&approval), permit.token().unwrap().clone());
        assert_eq!(permit.arguments().as_bytes(), br#"{"slug":"about"}"#);
        let outcome = stage.world.run(permit).await;
        let done = gate
            .finish(&approval.tenant, id, &token, outcome)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(result(&done)["sectionsDeleted"], 3);
        let again = flagged(r#"{"slug":"about","confirmed":true}"#).await.unwrap();
        assert!(
            matches!(again, Flagged::Submitted(_)),
            "c4: an earlier yes confirms nothing later"
        );
    })
    .await;
}
