//! Explains to an agent why its call waits for a person.
//!
//! The text contains the policy's notes, and where links lead if that is the reason. Notes name arguments, patterns and
//! paths, never the content of a file.

use countersign::display::clip;
use countersign::working_folder::WorkingFolder;

use crate::output::once;

/// Maximum number of reasons, and of links.
const MOST: usize = 3;
/// Maximum number of characters of one reason.
const LONGEST: usize = 600;
/// Text by which a policy's note about a link is recognised.
const LINKED: &str = " a link to a ";

/// Returns why a call is held; `None` if there is no particular reason, because every call of its tool is held. `notes`
/// are all of the call's notes.
pub fn why_held(notes: &[String], folder: Option<&WorkingFolder>) -> Option<String> {
    let places: Vec<String> = folder.into_iter().flat_map(WorkingFolder::notes).collect();
    let shown = |text: &String| match text.chars().count() > LONGEST {
        true => clip(text, LONGEST).to_string(),
        false => once(text),
    };
    let reasons = notes.iter().filter(|note| !places.contains(note)).take(MOST);
    let reasons: Vec<String> = reasons.map(shown).collect();
    let is_linked = reasons.iter().any(|reason| reason.contains(LINKED));
    // The first note is about the folder itself.
    let links = places.iter().skip(1).filter(|_| is_linked).take(MOST);
    let links: Vec<String> = links.map(shown).collect();
    let links = match links.as_slice() {
        [] => String::new(),
        links => format!(" ({})", links.join("; ")),
    };
    (!reasons.is_empty()).then(|| format!("{}{links}", reasons.join("; ")))
}
