//! Images. Their bytes are not sent to the model, so a deleted image is moved to a bin instead of being put in the
//! result.

use rusqlite::{Connection, OptionalExtension as _};
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Done, Fault, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    filename: String,
    #[serde(rename = "confirmed")]
    _confirmed: Option<bool>,
}

/// Lists all images by file name.
pub fn list(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let Nothing {} = read(arguments)?;
    let mut statement = data.prepare("SELECT filename, alt, length(bytes) FROM image ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        let (filename, alt, bytes): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(json!({ "filename": filename, "alt": alt, "bytes": bytes }))
    })?;
    let images: Vec<_> = rows.collect::<Result<_, _>>()?;
    Ok(json!({ "images": images }))
}

/// Moves an image from the site to the bin.
pub fn delete(data: &Connection, arguments: &[u8]) -> Done {
    let Named { filename, .. } = read(arguments)?;
    // Replaces an older image of that name in the bin: only the last one can be restored.
    data.execute("DELETE FROM image_bin WHERE filename = ?", [&filename])?;
    let missing = format!("there is no image `{filename}`");
    move_image(data, "image", "image_bin", &filename, &missing)?;
    Ok(
        json!({ "success": true, "message": format!("Image \"{filename}\" has been deleted."), "filename": filename }),
    )
}

/// Restores an image from the bin.
pub fn restore(data: &Connection, arguments: &[u8]) -> Done {
    let Named { filename, .. } = read(arguments)?;
    let sql = "SELECT 1 FROM image WHERE filename = ?";
    if data.query_row(sql, [&filename], |_| Ok(())).optional()?.is_some() {
        return Err(Fault::said(format!(
            "there is an image `{filename}` already; nothing was changed"
        )));
    }
    let missing = format!("image `{filename}` is not in the bin any more");
    move_image(data, "image_bin", "image", &filename, &missing)?;
    Ok(json!({ "success": true, "message": format!("Image \"{filename}\" is back."), "filename": filename }))
}

fn move_image(data: &Connection, from: &str, to: &str, filename: &str, missing: &str) -> Result<(), Fault> {
    let columns = "id, filename, alt, path, bytes";
    let sql = format!("INSERT INTO {to} ({columns}) SELECT {columns} FROM {from} WHERE filename = ?");
    if data.execute(&sql, [filename])? == 0 {
        return Err(Fault::said(missing));
    }
    data.execute(&format!("DELETE FROM {from} WHERE filename = ?"), [filename])?;
    Ok(())
}
