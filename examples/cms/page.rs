//! Pages. Deleting a page also deletes its sections and, unless told otherwise, its navigation link.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::section::{self, Section, counted};
use crate::tool::{Done, Fault, read};

/// A page with its sections and navigation link.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    pub id: String,
    pub slug: String,
    pub name: String,
    status: String,
    navigation: Option<Link>,
    sections: Vec<Section>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Link {
    label: String,
    position: i64,
}

/// Lists pages with their number of sections.
pub fn list(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        status: Option<String>,
    }
    let List { status } = read(arguments)?;
    let sql = "SELECT slug, name, status, (SELECT count(*) FROM section WHERE page_id = page.id) FROM page
        WHERE ?1 IS NULL OR status = ?1 ORDER BY id";
    let mut statement = data.prepare(sql)?;
    let rows = statement.query_map([status], |row| {
        let (slug, name, status): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let sections: i64 = row.get(3)?;
        Ok(json!({ "slug": slug, "name": name, "status": status, "sections": sections }))
    })?;
    let pages: Vec<_> = rows.collect::<Result<_, _>>()?;
    Ok(json!({ "pages": pages }))
}

/// Returns one page with its sections, by slug or else by id.
pub fn get(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Get {
        slug: String,
    }
    let Get { slug } = read(arguments)?;
    let found = by_slug(data, &slug);
    let found = found.or_else(|missing| find(data, None, Some(&slug)).map_err(|_| missing));
    Ok(json!(found?))
}

/// Deletes a page, its sections and, unless told otherwise, its navigation link.
pub fn delete(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Delete {
        slug: Option<String>,
        id: Option<String>,
        #[serde(default = "yes")]
        remove_from_navigation: bool,
        #[serde(rename = "confirmed")]
        _confirmed: Option<bool>,
    }
    let asked: Delete = read(arguments)?;
    let page = find(data, asked.slug.as_deref(), asked.id.as_deref())?;
    // The schema cascades the deletion to the sections.
    data.execute("DELETE FROM page WHERE id = ?", [&page.id])?;
    let mut page = page;
    match asked.remove_from_navigation {
        true => drop(data.execute("DELETE FROM navigation WHERE slug = ?", [&page.slug])?),
        // The link stays, so the undo must not restore it.
        false => page.navigation = None,
    }
    let sections = page.sections.len();
    Ok(json!({
        "success": true, "message": format!("Page \"{}\" and its {} have been deleted.", page.name, counted(sections)),
        "sectionsDeleted": sections,
        "page": page,
    }))
}

fn yes() -> bool {
    true
}

/// Restores a page with its sections and link. Fails if its id or slug is in use.
pub fn restore(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Restore {
        page: Page,
    }
    let Restore { page } = read(arguments)?;
    let sql = "SELECT name FROM page WHERE id = ? OR slug = ?";
    let there: Option<String> = data
        .query_row(sql, [&page.id, &page.slug], |row| row.get(0))
        .optional()?;
    if let Some(name) = there {
        return Err(Fault::said(format!(
            "the page \"{name}\" has taken its place; nothing was changed"
        )));
    }
    let sql = "INSERT INTO page (id, slug, name, status) VALUES (?, ?, ?, ?)";
    data.execute(sql, [&page.id, &page.slug, &page.name, &page.status])?;
    for section in &page.sections {
        section.insert(data, &page.id)?;
    }
    if let Some(link) = &page.navigation {
        let sql = "INSERT INTO navigation (slug, label, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
        data.execute(sql, params![page.slug, link.label, link.position])?;
    }
    let sections = page.sections.len();
    Ok(json!({
        "success": true, "message": format!("Page \"{}\" is back, with {}.", page.name, counted(sections)),
        "id": page.id, "name": page.name, "sections": sections,
    }))
}

/// Returns the page with this slug.
pub fn by_slug(data: &Connection, slug: &str) -> Result<Page, Fault> {
    find(data, Some(slug), None)
}

fn find(data: &Connection, slug: Option<&str>, id: Option<&str>) -> Result<Page, Fault> {
    if slug.is_none() && id.is_none() {
        return Err(Fault::said("either `slug` or `id` must be given"));
    }
    let sql = "SELECT page.id, page.slug, name, status, label, position FROM page
        LEFT JOIN navigation ON navigation.slug = page.slug WHERE page.slug = ifnull(?1, page.slug) AND id = ifnull(?2, id)";
    let found = data.query_row(sql, [slug, id], |row| {
        let (label, position): (Option<String>, Option<i64>) = (row.get(4)?, row.get(5)?);
        let link = label.zip(position);
        Ok(Page {
            id: row.get(0)?,
            slug: row.get(1)?,
            name: row.get(2)?,
            status: row.get(3)?,
            navigation: link.map(|(label, position)| Link { label, position }),
            sections: Vec::new(),
        })
    });
    let named = slug.or(id).unwrap_or_default();
    let mut page = found
        .optional()?
        .ok_or_else(|| Fault::said(format!("there is no page `{named}`")))?;
    page.sections = section::of_page(data, &page.id)?;
    Ok(page)
}
