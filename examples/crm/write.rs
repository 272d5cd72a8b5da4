//! Write tools of the CRM.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Done, Fault, expect_same, read};

const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')";

/// Adds a contact. Fails if another contact has the same e-mail address.
pub fn create_contact(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        name: String,
        email: Option<String>,
        company: Option<String>,
        phone: Option<String>,
    }
    let new: New = read(arguments)?;
    let sql = "SELECT id, name FROM contact WHERE email = ?";
    let taken: Option<(i64, String)> = data
        .query_row(sql, [&new.email], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let (Some((id, name)), Some(email)) = (taken, &new.email) {
        return Err(Fault::said(format!(
            "`{email}` is already the address of {name}, contact {id}"
        )));
    }
    let sql =
        format!("INSERT INTO contact (name, email, company, phone, created_at) VALUES (?, ?, ?, ?, {NOW})");
    data.execute(&sql, params![new.name, new.email, new.company, new.phone])?;
    Ok(json!({
        "id": data.last_insert_rowid(), "name": new.name, "email": new.email, "company": new.company, "phone": new.phone,
    }))
}

/// Adds a deal for a contact.
pub fn create_deal(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        title: String,
        amount: i64,
        #[serde(default = "euro")]
        currency: String,
        contact_id: i64,
        contact_name: String,
    }
    let new: New = read(arguments)?;
    check_contact(data, new.contact_id, &new.contact_name)?;
    let sql = format!(
        "INSERT INTO deal (contact_id, title, amount, currency, stage, created_at) VALUES (?, ?, ?, ?, 'lead', {NOW})"
    );
    data.execute(&sql, params![new.contact_id, new.title, new.amount, new.currency])?;
    Ok(json!({
        "id": data.last_insert_rowid(), "title": new.title, "amount": new.amount, "currency": new.currency,
        "stage": "lead", "contact_id": new.contact_id,
    }))
}

fn euro() -> String {
    "EUR".to_owned()
}

/// Adds a task, for a contact or for none.
pub fn create_task(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        title: String,
        due: Option<String>,
        contact_id: Option<i64>,
        contact_name: Option<String>,
    }
    let new: New = read(arguments)?;
    match (new.contact_id, &new.contact_name) {
        (Some(id), Some(name)) => check_contact(data, id, name)?,
        (None, None) => {}
        _ => return Err(Fault::said("`contact_id` and `contact_name` go together")),
    }
    let sql =
        format!("INSERT INTO task (contact_id, title, due, done, created_at) VALUES (?, ?, ?, 0, {NOW})");
    data.execute(&sql, params![new.contact_id, new.title, new.due])?;
    let id = data.last_insert_rowid();
    Ok(json!({ "id": id, "title": new.title, "due": new.due, "contact_id": new.contact_id }))
}

/// Logs an activity with a contact.
pub fn log_activity(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct New {
        kind: String,
        contact_id: i64,
        contact_name: String,
        note: String,
    }
    let new: New = read(arguments)?;
    check_contact(data, new.contact_id, &new.contact_name)?;
    let sql = format!("INSERT INTO activity (contact_id, kind, note, at) VALUES (?, ?, ?, {NOW})");
    data.execute(&sql, params![new.contact_id, new.kind, new.note])?;
    let id = data.last_insert_rowid();
    Ok(json!({ "id": id, "kind": new.kind, "contact_id": new.contact_id, "note": new.note }))
}

/// Checks that the contact with this id has the name that the person was shown.
fn check_contact(data: &Connection, id: i64, shown: &String) -> Result<(), Fault> {
    let sql = "SELECT name FROM contact WHERE id = ?";
    let found: Option<String> = data.query_row(sql, [id], |row| row.get(0)).optional()?;
    let found = found.ok_or_else(|| Fault::said(format!("there is no contact {id}")))?;
    expect_same(&format!("the name of contact {id}"), Some(shown), &found)
}
