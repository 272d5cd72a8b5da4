//! Without JavaScript, forms and links do everything.

use crate::stage::{Script, play};

#[test]
fn everything_works_without_script() {
    play(Script::Off, |stage| {
        stage.sign_in();
        assert!(stage.text("#cards").contains("Nothing waits for you."));
        let contact = stage.service.propose("create_contact", r#"{"name":"Maria"}"#);
        let note = stage.service.propose("note", r#"{"text":"x"}"#);
        let lines = ["a", "b"].map(|text| format!(r#"{{"tool":"note","arguments":{{"text":"{text}"}}}}"#));
        let batch = stage.service.propose_batch(&lines.join("\n"));
        stage.goto("/approvals");
        // Approve from the list.
        stage.click(&format!(".card:has([href$='{contact}']) .yes"));
        stage.until_address(&format!("?done={contact}"));
        assert!(stage.text(".done").contains("You approved: Create contact Maria"));
        // Deny with a comment, from the approval's own page.
        stage.click(&format!("h2 a[href$='{note}']"));
        stage.until_address(&note);
        stage.write("[name=comment]", "no");
        stage.click(".no");
        stage.until_address(&note);
        assert!(stage.text(".ended").contains("Denied by you"));
        assert!(stage.text(".timeline").contains("denied on the page"));
        // Edit one call and deny another.
        stage.goto(&format!("/approvals/{batch}?edit=1"));
        let field = stage.browser.find("[name='arguments-1']");
        field.clear();
        field.write("oops");
        stage.click("[name='choice-2'][value=deny]");
        stage.click("button[value=edit]");
        assert!(stage.text(".problem").contains("call 1"));
        let field = stage.browser.find("[name='arguments-1']");
        assert_eq!(field.value(), "oops");
        // The same as a form: a field for each value.
        stage.goto(&format!("/approvals/{batch}?edit=form"));
        let field = stage.browser.find("[name='value-1-0']");
        assert_eq!(field.value(), "a");
        field.clear();
        field.write("A");
        stage.click("[name='choice-2'][value=deny]");
        stage.click("button[value=edit]");
        // The card of what would run comes first; nothing is decided yet.
        assert!(stage.text("main").contains("Nothing is decided yet."));
        assert_eq!(stage.service.show(&batch)["status"], "pending");
        stage.click("button[value=confirm]");
        stage.until_address(&batch);
        let shown = stage.service.show(&batch);
        assert_eq!(shown["calls"][0]["edited"], true);
        assert_eq!(shown["calls"][1]["state"], "refused");
        // Filters, history, numbers, signing out.
        stage.service.propose("note", r#"{"text":"filter"}"#);
        stage.goto("/approvals?risk=high");
        assert!(stage.text("#cards").contains("Nothing of this kind waits."));
        stage.click("nav a[href='/approvals/history']");
        assert!(stage.text(".history").contains("Create contact Maria"));
        stage.write("[name=q]", "maria");
        stage.browser.picture("history");
        stage.click(".search button");
        stage.until_address("?q=maria");
        assert!(stage.text(".history").contains("Create contact Maria"));
        stage.click("nav a[href='/numbers']");
        assert!(stage.text(".tiles").contains("Approved"));
        stage.click(".who button");
        stage.until_address("/sign-in");
        stage.goto("/approvals");
        stage.until_address("/sign-in?next=/approvals");
    });
}
