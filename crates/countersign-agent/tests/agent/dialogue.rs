//! The sources' dialogues, from the person's words to what really ran.

use crate::world::*;

pub const MARIA: &str = r#"
[[rule]]
person = "create a contact for {name} at {company}, {email}"
[[rule.call]]
tool = "create_contact"
arguments = '{"name":{{ name|json }}, "email":{{ email|json }},"company":{{ company|json }}}'

[[rule]]
person = "create a contact for {name} at {company}, {email}"
after = "create_contact"
status = "pending_confirmation"
say = """
I'll create a new contact with these details:
- Name: {{ name }}
- Email: {{ email }}
- Company: {{ company }}
"""

[[rule]]
after = "create_contact"
status = "succeeded"
say = "The contact is {{ result.id }}."

[[rule]]
after = "create_contact"
status = "denied"
say = "Okay, I won't."

[[rule]]
person = "actually, show me *"
[[rule.call]]
tool = "search_contacts"
arguments = '{"query":""}'

[[rule]]
after = "search_contacts"
say = "There is {{ result.contacts[0].name }}."
"#;

const ASK: &str = "Create a contact for Maria Garcia at Acme Corp, maria@acme.com";
const CARD: &str = "{Create contact Maria Garcia, maria@acme.com, Acme Corp\n-- reply \"yes\" to confirm or \"no\" to cancel.}";

#[tokio::test]
async fn a7_yes_runs_once_and_the_model_is_told() {
    let world = world(MARIA);
    let shown = world.says(ASK).await;
    assert_eq!(
        shown,
        format!(
            "<create_contact: pending_confirmation>\nI'll create a new contact with these details:\n- Name: Maria \
             Garcia\n- Email: maria@acme.com\n- Company: Acme Corp\n{CARD}"
        )
    );
    assert!(world.ran().is_empty());
    let shown = world.says("yes").await;
    assert_eq!(
        shown,
        "[Done! Create contact Maria Garcia, maria@acme.com, Acme Corp]The contact is c-1."
    );
    // To the byte as the model wrote it, the blank included.
    let arguments =
        r#"create_contact {"name":"Maria Garcia", "email":"maria@acme.com","company":"Acme Corp"}"#;
    assert_eq!(world.ran(), [arguments]);
}
