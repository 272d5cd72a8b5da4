//! A call's working folder as JSON.

use countersign::working_folder::{BadFolder, Link, WorkingFolder};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object;

/// Folder in which a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkingFolderView {
    /// Absolute path of the folder.
    #[schema(min_length = 1, max_length = 4096)]
    pub path: String,
    /// Paths in the arguments that are links, and the folder itself if it is one.
    #[serde(
        default,
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(max_items = 64)]
    pub links: Vec<LinkView>,
}

/// A path that is a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkView {
    /// Path as the arguments name it.
    #[schema(min_length = 1, max_length = 4096)]
    pub path: String,
    /// Absolute path of the link's target.
    #[schema(min_length = 1, max_length = 4096)]
    pub target: String,
}

impl From<&WorkingFolder> for WorkingFolderView {
    fn from(folder: &WorkingFolder) -> WorkingFolderView {
        let links = folder.links().iter().map(|link| LinkView {
            path: link.path.clone(),
            target: link.target.clone(),
        });
        WorkingFolderView {
            path: folder.path().to_owned(),
            links: links.collect(),
        }
    }
}

impl WorkingFolderView {
    /// Converts the view to the library's type. Fails if the library does not accept one of the paths.
    pub fn read(self) -> Result<WorkingFolder, BadFolder> {
        let links = self.links.into_iter().map(|link| Link {
            path: link.path,
            target: link.target,
        });
        WorkingFolder::new(self.path, links.collect())
    }
}
