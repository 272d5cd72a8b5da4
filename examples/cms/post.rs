//! Posts: draft → published → archived, and deletion.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::{Done, Fault, expect_same, read};

/// A post, as stored and as returned.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Post {
    id: String,
    slug: String,
    title: String,
    body: String,
    status: String,
    published_at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Named {
    post_slug: String,
    /// Title shown on the card; the call fails if it differs from the post's title.
    title: Option<String>,
    #[serde(rename = "confirmed")]
    _confirmed: Option<bool>,
}

/// Lists posts, optionally of one status.
pub fn list(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        status: Option<String>,
    }
    let List { status } = read(arguments)?;
    let sql = "SELECT slug, title, status FROM post WHERE ?1 IS NULL OR status = ?1 ORDER BY id";
    let mut statement = data.prepare(sql)?;
    let rows = statement.query_map([status], |row| {
        let (slug, title, status): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(json!({ "slug": slug, "title": title, "status": status }))
    })?;
    let posts: Vec<_> = rows.collect::<Result<_, _>>()?;
    Ok(json!({ "posts": posts }))
}

/// Returns one post.
pub fn get(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Get {
        slug: String,
    }
    let Get { slug } = read(arguments)?;
    Ok(json!(find(data, &slug)?))
}

/// Publishes a draft.
pub fn publish(data: &Connection, arguments: &[u8]) -> Done {
    let sql = "UPDATE post SET status = 'published', published_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now') WHERE id = ?";
    change(data, arguments, "draft", sql, "Published")
}

/// Turns a published post back into a draft, without a publication date.
pub fn unpublish(data: &Connection, arguments: &[u8]) -> Done {
    let sql = "UPDATE post SET status = 'draft', published_at = NULL WHERE id = ?";
    change(data, arguments, "published", sql, "Unpublished")
}

/// Archives a published post, which hides it.
pub fn archive(data: &Connection, arguments: &[u8]) -> Done {
    change(
        data,
        arguments,
        "published",
        "UPDATE post SET status = 'archived' WHERE id = ?",
        "Archived",
    )
}

/// Publishes an archived post again, with its old publication date.
pub fn unarchive(data: &Connection, arguments: &[u8]) -> Done {
    change(
        data,
        arguments,
        "archived",
        "UPDATE post SET status = 'published' WHERE id = ?",
        "Shown again:",
    )
}

fn change(data: &Connection, arguments: &[u8], from: &str, sql: &str, done: &str) -> Done {
    let asked: Named = read(arguments)?;
    let post = find(data, &asked.post_slug)?;
    expect_same("the title of the post", asked.title.as_ref(), &post.title)?;
    if post.status != from {
        let Post { title, status, .. } = post;
        return Err(Fault::said(format!(
            "\"{title}\" is {status}, not {from}; nothing was changed"
        )));
    }
    data.execute(sql, [&post.id])?;
    let post = find(data, &asked.post_slug)?;
    Ok(json!({
        "success": true, "message": format!("{done} \"{}\".", post.title),
        "post": { "slug": post.slug, "title": post.title, "status": post.status },
    }))
}

/// Deletes a post of any status.
pub fn delete(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Delete {
        post_slug: String,
        #[serde(rename = "confirmed")]
        _confirmed: Option<bool>,
    }
    let asked: Delete = read(arguments)?;
    let post = find(data, &asked.post_slug)?;
    data.execute("DELETE FROM post WHERE id = ?", [&post.id])?;
    Ok(
        json!({ "success": true, "message": format!("Post \"{}\" has been deleted.", post.title), "post": post }),
    )
}

/// Restores a deleted post. Fails if its id or slug is in use.
pub fn restore(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Restore {
        post: Post,
    }
    let Restore { post } = read(arguments)?;
    let sql = "INSERT INTO post (id, slug, title, body, status, published_at) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT DO NOTHING";
    let values = params![
        post.id,
        post.slug,
        post.title,
        post.body,
        post.status,
        post.published_at
    ];
    match data.execute(sql, values)? {
        0 => Err(Fault::said(format!(
            "there is a post `{}` already; nothing was changed",
            post.slug
        ))),
        _ => Ok(
            json!({ "success": true, "message": format!("Post \"{}\" is back.", post.title), "slug": post.slug, "title": post.title }),
        ),
    }
}

fn find(data: &Connection, slug: &str) -> Result<Post, Fault> {
    let sql = "SELECT id, slug, title, body, status, published_at FROM post WHERE slug = ?";
    let found = data.query_row(sql, [slug], row).optional()?;
    found.ok_or_else(|| Fault::said(format!("there is no post `{slug}`")))
}

fn row(row: &Row<'_>) -> rusqlite::Result<Post> {
    Ok(Post {
        id: row.get(0)?,
        slug: row.get(1)?,
        title: row.get(2)?,
        body: row.get(3)?,
        status: row.get(4)?,
        published_at: row.get(5)?,
    })
}
