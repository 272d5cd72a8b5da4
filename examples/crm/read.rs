//! Read tools of the CRM.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{Done, Fault, containing, read};

/// Default number of rows in a list.
const USUAL_LIMIT: u32 = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    #[serde(default = "usual_limit")]
    limit: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default = "usual_limit")]
    limit: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    id: i64,
}

fn usual_limit() -> u32 {
    USUAL_LIMIT
}

/// Finds contacts by part of their name, e-mail address or company.
pub fn search_contacts(data: &Connection, arguments: &[u8]) -> Done {
    let Search { query, limit } = read(arguments)?;
    let sql = r"SELECT id, name, email, company, phone FROM contact
        WHERE name LIKE ?1 ESCAPE '\' OR email LIKE ?1 ESCAPE '\' OR company LIKE ?1 ESCAPE '\' ORDER BY id LIMIT ?2";
    let contacts = rows(data, sql, params![containing(&query), limit], contact)?;
    Ok(json!({ "contacts": contacts }))
}

/// Returns one contact with their deals.
pub fn get_contact(data: &Connection, arguments: &[u8]) -> Done {
    let One { id } = read(arguments)?;
    let sql = "SELECT id, name, email, company, phone FROM contact WHERE id = ?";
    let found = data.query_row(sql, [id], contact).optional()?;
    let found = found.ok_or_else(|| Fault::said(format!("there is no contact {id}")))?;
    let deals = rows(data, &deals_where("contact_id = ?1 ORDER BY deal.id"), [id], deal)?;
    Ok(json!({ "contact": found, "deals": deals }))
}

/// Lists the newest contacts.
pub fn list_contacts(data: &Connection, arguments: &[u8]) -> Done {
    let Page { limit } = read(arguments)?;
    let sql = "SELECT id, name, email, company, phone FROM contact ORDER BY id DESC LIMIT ?";
    Ok(json!({ "contacts": rows(data, sql, [limit], contact)? }))
}

/// Finds deals by part of their title or of the contact's name or company.
pub fn search_deals(data: &Connection, arguments: &[u8]) -> Done {
    let Search { query, limit } = read(arguments)?;
    let part = r"title LIKE ?1 ESCAPE '\' OR name LIKE ?1 ESCAPE '\' OR company LIKE ?1 ESCAPE '\'";
    let sql = deals_where(&format!("{part} ORDER BY deal.id LIMIT ?2"));
    let deals = rows(data, &sql, params![containing(&query), limit], deal)?;
    Ok(json!({ "deals": deals }))
}

/// Returns one deal.
pub fn get_deal(data: &Connection, arguments: &[u8]) -> Done {
    let One { id } = read(arguments)?;
    let found = data
        .query_row(&deals_where("deal.id = ?"), [id], deal)
        .optional()?;
    found.ok_or_else(|| Fault::said(format!("there is no deal {id}")))
}

/// Lists deals, optionally of one stage.
pub fn list_deals(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Deals {
        stage: Option<String>,
        #[serde(default = "usual_limit")]
        limit: u32,
    }
    let Deals { stage, limit } = read(arguments)?;
    let sql = deals_where("(?1 IS NULL OR stage = ?1) ORDER BY deal.id DESC LIMIT ?2");
    Ok(json!({ "deals": rows(data, &sql, params![stage, limit], deal)? }))
}

/// Counts and sums deals by stage and currency.
pub fn get_pipeline(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let Nothing {} = read(arguments)?;
    let sql =
        "SELECT stage, currency, count(*), sum(amount) FROM deal GROUP BY stage, currency ORDER BY min(id)";
    let stages = rows(data, sql, [], |row| {
        let (stage, currency): (String, String) = (row.get(0)?, row.get(1)?);
        let (deals, amount): (i64, i64) = (row.get(2)?, row.get(3)?);
        Ok(json!({ "stage": stage, "deals": deals, "amount": amount, "currency": currency }))
    })?;
    Ok(json!({ "stages": stages }))
}

/// Lists tasks, the next due first.
pub fn list_tasks(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Tasks {
        #[serde(default)]
        include_done: bool,
        #[serde(default = "usual_limit")]
        limit: u32,
    }
    let Tasks { include_done, limit } = read(arguments)?;
    let sql = "SELECT task.id, title, due, done, contact_id, name FROM task LEFT JOIN contact ON contact.id = contact_id
        WHERE ?1 OR NOT done ORDER BY due IS NULL, due, task.id LIMIT ?2";
    let tasks = rows(data, sql, params![include_done, limit], |row| {
        let (id, title, due): (i64, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (done, contact): (bool, Option<i64>) = (row.get(3)?, row.get(4)?);
        let name: Option<String> = row.get(5)?;
        Ok(
            json!({ "id": id, "title": title, "due": due, "done": done, "contact_id": contact, "contact_name": name }),
        )
    })?;
    Ok(json!({ "tasks": tasks }))
}

/// Lists the latest activities, of all contacts or of one.
pub fn list_activities(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Activities {
        contact_id: Option<i64>,
        #[serde(default = "usual_limit")]
        limit: u32,
    }
    let Activities { contact_id, limit } = read(arguments)?;
    let sql = "SELECT activity.id, kind, note, at, contact_id, name FROM activity JOIN contact ON contact.id = contact_id
        WHERE ?1 IS NULL OR contact_id = ?1 ORDER BY activity.id DESC LIMIT ?2";
    let activities = rows(data, sql, params![contact_id, limit], |row| {
        let (id, kind, note): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (at, contact, name): (String, i64, String) = (row.get(3)?, row.get(4)?, row.get(5)?);
        Ok(
            json!({ "id": id, "kind": kind, "note": note, "at": at, "contact_id": contact, "contact_name": name }),
        )
    })?;
    Ok(json!({ "activities": activities }))
}

fn deals_where(condition: &str) -> String {
    let columns = "deal.id, title, amount, currency, stage, contact_id, name";
    format!("SELECT {columns} FROM deal JOIN contact ON contact.id = contact_id WHERE {condition}")
}

fn contact(row: &Row<'_>) -> rusqlite::Result<Value> {
    let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
    let (email, company): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
    let phone: Option<String> = row.get(4)?;
    Ok(json!({ "id": id, "name": name, "email": email, "company": company, "phone": phone }))
}

fn deal(row: &Row<'_>) -> rusqlite::Result<Value> {
    let (id, title, amount): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (currency, stage): (String, String) = (row.get(3)?, row.get(4)?);
    let (contact, name): (i64, String) = (row.get(5)?, row.get(6)?);
    Ok(json!({
        "id": id, "title": title, "amount": amount, "currency": currency, "stage": stage,
        "contact_id": contact, "contact_name": name,
    }))
}

fn rows(
    data: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<Value>,
) -> Result<Vec<Value>, Fault> {
    let mut statement = data.prepare(sql)?;
    let rows = statement.query_map(parameters, row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
