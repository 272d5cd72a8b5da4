//! Delete tools of the CRM. They are proposed as undos, and shown and decided like any other call.

use rusqlite::{Connection, OptionalExtension as _};
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Done, Fault, expect_same, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    id: i64,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Titled {
    id: i64,
    title: String,
}

/// Deletes a contact that no deal, task or activity refers to.
pub fn delete_contact(data: &Connection, arguments: &[u8]) -> Done {
    let Named { id, name } = read(arguments)?;
    check(data, "contact", "name", id, &name)?;
    let sql = "SELECT (SELECT count(*) FROM deal WHERE contact_id = ?1), (SELECT count(*) FROM task WHERE contact_id = ?1),
        (SELECT count(*) FROM activity WHERE contact_id = ?1)";
    let counts: (i64, i64, i64) =
        data.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if counts != (0, 0, 0) {
        let (deals, tasks, activities) = counts;
        return Err(Fault::said(format!(
            "{name} is still named by {deals} deals, {tasks} tasks and {activities} activities; nothing was deleted"
        )));
    }
    delete(data, "contact", id)
}

/// Deletes a deal.
pub fn delete_deal(data: &Connection, arguments: &[u8]) -> Done {
    let Titled { id, title } = read(arguments)?;
    check(data, "deal", "title", id, &title)?;
    delete(data, "deal", id)
}

/// Deletes a task.
pub fn delete_task(data: &Connection, arguments: &[u8]) -> Done {
    let Titled { id, title } = read(arguments)?;
    check(data, "task", "title", id, &title)?;
    delete(data, "task", id)
}

/// Deletes an activity.
pub fn delete_activity(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Noted {
        id: i64,
        note: String,
    }
    let Noted { id, note } = read(arguments)?;
    check(data, "activity", "note", id, &note)?;
    delete(data, "activity", id)
}

fn check(data: &Connection, table: &str, column: &str, id: i64, shown: &String) -> Result<(), Fault> {
    let sql = format!("SELECT {column} FROM {table} WHERE id = ?");
    let found: Option<String> = data.query_row(&sql, [id], |row| row.get(0)).optional()?;
    let found = found.ok_or_else(|| Fault::said(format!("there is no {table} {id} any more")))?;
    expect_same(&format!("the {column} of {table} {id}"), Some(shown), &found)
}

fn delete(data: &Connection, table: &str, id: i64) -> Done {
    data.execute(&format!("DELETE FROM {table} WHERE id = ?"), [id])?;
    Ok(json!({ "deleted": id }))
}
