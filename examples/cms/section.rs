//! Sections of pages.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::page;
use crate::tool::{Done, Fault, expect_same, read};

/// A section, as stored and as returned.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    id: String,
    position: i64,
    heading: String,
    body: String,
}

/// A section as named in arguments: the heading is shown to the person, the id selects the row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    id: String,
    heading: String,
}

/// Deletes one section.
pub fn delete_one(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct One {
        page_slug: String,
        section_id: String,
        heading: String,
        #[serde(rename = "confirmed")]
        _confirmed: Option<bool>,
    }
    let One {
        page_slug,
        section_id,
        heading,
        ..
    } = read(arguments)?;
    let named = Named {
        id: section_id,
        heading,
    };
    delete_all(data, &page_slug, &[named])
}

/// Deletes several sections of one page: all of them, or none.
pub fn delete(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Several {
        page_slug: String,
        sections: Vec<Named>,
        #[serde(rename = "confirmed")]
        _confirmed: Option<bool>,
    }
    let Several {
        page_slug, sections, ..
    } = read(arguments)?;
    delete_all(data, &page_slug, &sections)
}

fn delete_all(data: &Connection, page_slug: &str, sections: &[Named]) -> Done {
    let page = page::by_slug(data, page_slug)?;
    let mut deleted = Vec::new();
    for Named { id, heading } in sections {
        let sql = "DELETE FROM section WHERE id = ? AND page_id = ? RETURNING id, position, heading, body";
        let found = data.query_row(sql, [id, &page.id], Section::read).optional()?;
        let section = found.ok_or_else(|| {
            Fault::said(format!(
                "page \"{}\" has no section \"{heading}\" any more",
                page.name
            ))
        })?;
        expect_same("the heading of the section", Some(heading), &section.heading)?;
        deleted.push(section);
    }
    Ok(json!({
        "success": true, "message": format!("{} deleted from page \"{}\".", counted(deleted.len()), page.name),
        "pageSlug": page_slug, "sections": deleted,
    }))
}

/// Restores sections at their old positions.
pub fn restore(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Restore {
        page_slug: String,
        sections: Vec<Section>,
    }
    let Restore { page_slug, sections } = read(arguments)?;
    let page = page::by_slug(data, &page_slug)?;
    for section in &sections {
        section.insert(data, &page.id)?;
    }
    let restored = counted(sections.len());
    Ok(
        json!({ "success": true, "message": format!("{restored} back on page \"{}\".", page.name), "pageSlug": page_slug }),
    )
}

/// Formats a number of sections.
pub fn counted(sections: usize) -> String {
    match sections {
        1 => "1 section".to_owned(),
        several => format!("{several} sections"),
    }
}

/// Returns the sections of a page, in order.
pub fn of_page(data: &Connection, page_id: &str) -> Result<Vec<Section>, Fault> {
    let sql = "SELECT id, position, heading, body FROM section WHERE page_id = ? ORDER BY position, id";
    let mut statement = data.prepare(sql)?;
    let rows = statement.query_map([page_id], Section::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Section {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Section> {
        Ok(Section {
            id: row.get(0)?,
            position: row.get(1)?,
            heading: row.get(2)?,
            body: row.get(3)?,
        })
    }

    /// Inserts the section into a page, with its own id. Fails if the id is in use.
    pub fn insert(&self, data: &Connection, page_id: &str) -> Result<(), Fault> {
        let sql = "INSERT INTO section (id, page_id, position, heading, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
        let values = params![self.id, page_id, self.position, self.heading, self.body];
        match data.execute(sql, values)? {
            0 => Err(Fault::said(format!(
                "section \"{}\" is there already; nothing was changed",
                self.heading
            ))),
            _ => Ok(()),
        }
    }
}
