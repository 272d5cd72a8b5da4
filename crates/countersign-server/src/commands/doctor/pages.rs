//! Checks the pages of a SQLite database file for damage.

use std::path::{Path, PathBuf};

use countersign_store::sqlite::{Depth, OpenError, check_integrity};

use super::Finding;
use crate::store::is_postgres;
use crate::trust::StorePlace;

/// Size in bytes above which indexes are checked only with `--full`, because checking them would take too long.
const LARGE: u64 = 256 * 1024 * 1024;

/// Checks the file at `place`; returns `None` if the store is not a file, does not exist or cannot be opened.
pub async fn check(place: &str, is_full: bool) -> Option<Finding> {
    let path = PathBuf::from(place);
    if is_postgres(place) || !path.is_file() {
        return None;
    }
    // The store check reports a file that must not be opened.
    let path = StorePlace::find(&path).ok()?.path;
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    let depth = match is_full || size <= LARGE {
        true => Depth::Full,
        false => Depth::Quick,
    };
    let checked = path.clone();
    let found = tokio::task::spawn_blocking(move || check_integrity(&checked, depth)).await;
    let found = match found {
        Ok(Ok(found)) => found,
        Ok(Err(OpenError::Busy(error))) => {
            return Some(Finding::warning(
                "pages",
                format!("the pages were not checked, because another program has locked the file: {error}"),
                "try again when that program has ended",
            ));
        }
        // The store check also reports a file that cannot be opened.
        Ok(Err(_)) => return None,
        Err(error) => vec![error.to_string()],
    };
    Some(match (found.split_first(), depth) {
        (None, Depth::Full) => Finding::good("pages", "SQLite's integrity check passed"),
        (None, Depth::Quick) => Finding::good(
            "pages",
            "SQLite's quick check passed; `--full` also checks the indexes",
        ),
        (Some((first, others)), _) => damaged(&path, first, others.len()),
    })
}

fn damaged(path: &Path, first: &str, others: usize) -> Finding {
    let more = match others {
        0 => String::new(),
        others => format!(", and {others} more"),
    };
    let shown = path.display();
    Finding::problem(
        "pages",
        format!("the file is damaged: {}{more}", first.replace('\n', " ")),
        format!(
            "stop the service and keep a copy of the files; then `countersign restore BACKUP --store NEW`, or save what can be \
             read with `sqlite3 {shown} .recover`"
        ),
    )
}
