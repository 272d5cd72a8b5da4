//! Follows the paths in a call's arguments, so that a link to a sensitive file is held like the file itself.
//!
//! A call is proposed with its working folder and every path that leads elsewhere. Before it starts, the paths are
//! followed again, and the call is denied if any of them has changed. Used by all surfaces whose calls run on this
//! machine.
//!
//! A path need not exist: its existing part is followed, as for a file that is about to be written. Hard links, mounts,
//! and names that a shell puts together are not detected, and a link can be replaced after it was followed.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use countersign::call::Arguments;
use countersign::display;
use countersign::json::{self, Kind};
use countersign::path_names;
use countersign::working_folder::{BadFolder, HOME, Link, UNREADABLE, WorkingFolder};

use crate::failure::Failure;

/// Maximum number of links that are followed for one path. The kernel follows 40; some programs follow more themselves.
const MOST_HOPS: usize = 256;
/// Maximum number of nested levels of percent encoding that are resolved.
const MOST_DECODED: usize = 3;

/// Difference that is reported if it cannot be determined where the paths of a call lead now.
const UNKNOWN: &str = "its folder, or a link in its arguments, does not lead where the approval says";
/// Maximum number of characters of a path in a reason.
const LONGEST_SHOWN: usize = 400;
/// Reason for denying a call whose arguments a person edited so that a path leads through a link.
const UNSEEN_LINK: &str = "a person changed the arguments, and a path in them leads through a link that the card did \
                           not show. Nothing was run. Propose the call with the changed path";

/// The working folder and links that a card shows.
#[derive(Clone)]
pub struct ShownPlace {
    pub folder: Arc<WorkingFolder>,
    /// The arguments as they were proposed, in which the links were found.
    pub proposed: Arguments,
}

/// The folders that relative paths of a call may begin in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFolders {
    /// The working folder.
    pub working: String,
    /// Folders that the command of a server names, such as those that it may read.
    pub others: Vec<String>,
}

impl StartFolders {
    /// Creates start folders that consist of a working folder only.
    pub fn working(folder: &str) -> StartFolders {
        StartFolders {
            working: folder.to_owned(),
            others: Vec::new(),
        }
    }

    /// Creates the start folders of a server: its working folder, and the existing folders that the words of its
    /// command name.
    pub fn of_command(folder: String, words: &[String]) -> StartFolders {
        let values = words
            .iter()
            .map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value));
        let named = values.filter(|value| Path::new(&folder).join(value).is_dir());
        let mut others: Vec<String> = named
            .filter_map(|value| Path::new(&folder).join(value).to_str().map(str::to_owned))
            .collect();
        others.dedup();
        StartFolders {
            working: folder,
            others,
        }
    }
}

impl ShownPlace {
    /// Follows the folder and the links again, and returns why the call must not start if they differ from those that
    /// were shown; otherwise `None`. `runs` are the arguments that would run; a person may have edited them. `others`
    /// are the other folders that relative paths may begin in.
    pub async fn changed(self, runs: Arguments, others: Vec<String>) -> Option<String> {
        let look = move || {
            let folders = StartFolders {
                working: self.folder.path().to_owned(),
                others,
            };
            let now = |arguments: &Arguments| follow(&folders, arguments).ok();
            let is_shown = |now: WorkingFolder| {
                let mut links = now.links().iter();
                links.all(|link| self.folder.links().contains(link))
            };
            let Some(place) = now(&self.proposed) else {
                return Some(changed_reason(UNKNOWN));
            };
            if place != *self.folder {
                let difference = difference(&self.folder, &place);
                return Some(changed_reason(difference.as_deref().unwrap_or(UNKNOWN)));
            }
            (!now(&runs).is_some_and(is_shown)).then(|| UNSEEN_LINK.to_owned())
        };
        // If following the paths panics, nothing is known about them, so the call must not start.
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|_| Some(changed_reason(UNKNOWN)))
    }
}

/// Returns the reason for denying a call whose folder or links have changed since they were shown.
pub fn changed_reason(difference: &str) -> String {
    format!(
        "the place has changed while the call waited: {difference}. Nothing was run. Propose it as a new call, so that \
         a person sees where it leads now"
    )
}

/// Returns a description of the first path of a call that leads elsewhere than what was shown. `None` if all paths lead
/// to the same files.
pub fn difference(shown: &WorkingFolder, now: &WorkingFolder) -> Option<String> {
    let name = |path: &str| format!("`{}`", display::clip(path, LONGEST_SHOWN));
    if shown.path() != now.path() {
        let (now, shown) = (name(now.path()), name(shown.path()));
        return Some(format!("the working folder is {now} now, and was {shown}"));
    }
    let targets = |folder: &WorkingFolder, path: &str| {
        let links = folder.links().iter().filter(|link| link.path == path);
        let targets: Vec<String> = links.map(|link| name(&link.target)).collect();
        targets.join(" or ")
    };
    let mut paths = shown.links().iter().chain(now.links()).map(|link| &link.path);
    paths.find_map(|path| {
        let (led, leads) = (targets(shown, path), targets(now, path));
        let path = name(path);
        match (led.as_str(), leads.as_str()) {
            (led, leads) if led == leads => None,
            ("", leads) => Some(format!(
                "{path} leads to {leads} now, and was no link when it was shown"
            )),
            (led, "") => Some(format!(
                "{path} is no link now, and led to {led} when it was shown"
            )),
            (led, leads) => Some(format!(
                "{path} leads to {leads} now, and led to {led} when it was shown"
            )),
        }
    })
}

/// Returns the current folder of this process as text. Fails if there is none or its name is not UTF-8.
pub fn current_folder() -> Result<String, Failure> {
    let folder = std::env::current_dir();
    let folder = folder
        .map_err(|error| Failure::error("no_folder", format!("cannot read the current folder: {error}")))?;
    let no_text = |_| Failure::error("no_folder", "the name of the current folder is not UTF-8");
    let named = folder.into_os_string().into_string().map_err(no_text);
    named.map_err(|failure| failure.hint("start it in another folder"))
}

/// Returns the working folder with the links that the arguments name. Fails if the folder is not valid, or if there are
/// too many links for a card.
pub fn follow(folders: &StartFolders, arguments: &Arguments) -> Result<WorkingFolder, BadFolder> {
    let folder = folders.working.as_str();
    let leaves = json::leaves(arguments.as_bytes());
    let texts = leaves.iter().filter(|leaf| leaf.kind == Kind::String);
    let texts: Vec<(&str, String)> = texts
        .map(|leaf| (leaf.pointer.as_str(), leaf.text().into_owned()))
        .collect();
    let start = Base::new(PathBuf::from(folder));
    let mut links = Vec::new();
    if start.real != start.plain {
        links.push(link(folder, &start.real));
    }
    // The items of a list have the list's name.
    let is_base = |pointer: &str| {
        let mut names = pointer.rsplit('/');
        let name = names.find(|name| name.parse::<usize>().is_err());
        name.is_some_and(path_names::is_base)
    };
    let named = texts.iter().filter(|(pointer, _)| is_base(pointer));
    let named = named.take(path_names::MOST_BASES);
    let named = named.map(|(_, text)| Base::new(start.join(text)));
    let others = folders.others.iter().map(|other| Base::new(PathBuf::from(other)));
    let named = named.chain(others);
    let named: Vec<Base> = named
        .filter(|base| base.plain != start.plain || base.real != start.real)
        .collect();
    let bases: Vec<&Base> = std::iter::once(&start).chain(&named).collect();
    let mut seen = HashSet::new();
    // The policy holds a call with a text that is too long.
    let keys = json::keys(arguments.as_bytes());
    let keys = keys.iter().filter(|key| names_a_place(key));
    let values = texts.iter().map(|(_, text)| text.as_str());
    let texts = values.chain(keys.map(|key| key.text.as_str()));
    let names = texts.filter_map(path_names::names_in);
    let names: Vec<String> = names.flatten().filter(|name| seen.insert(name.clone())).collect();
    let home = unusual_home().filter(|home| {
        let is_named = |name: &String| bases.iter().any(|base| base.leads_to(name, home));
        is_at(&start.real, home) || names.iter().any(is_named)
    });
    links.extend(home.map(|home| link(HOME, &home)));
    for name in &names {
        let readings = readings(name);
        let targets = readings
            .iter()
            .flat_map(|reading| bases.iter().flat_map(|base| base.targets(reading)));
        for link in targets.map(|target| link(name, &target)) {
            if !links.contains(&link) {
                links.push(link);
            }
        }
    }
    WorkingFolder::new(folder, links)
}

/// Returns true if the name of a JSON member may be a path. The names of top-level arguments usually come from the tool
/// and do not count.
fn names_a_place(key: &json::Key) -> bool {
    let is_nested = key.pointer.matches('/').count() > 1;
    is_nested || !path_names::is_argument_name(&key.text)
}

/// Returns the paths that a program may read from a name: as written, as the path of a file URL, and with percent
/// encoding resolved.
fn readings(name: &str) -> Vec<String> {
    let mut readings = vec![name.to_owned()];
    let lower = name.to_ascii_lowercase();
    if let Some(rest) = lower.find("file:").and_then(|at| name.get(at + "file:".len()..)) {
        let path = match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default(),
            None => rest,
        };
        let path = path.split(['?', '#']).next().unwrap_or_default();
        readings.push(path.to_owned());
    }
    for index in 0..readings.len() {
        let mut text = readings.get(index).cloned().unwrap_or_default();
        for _ in 0..MOST_DECODED {
            let Some(decoded) = path_names::percent_decoded(&text) else {
                break;
            };
            text = String::from_utf8_lossy(&decoded).into_owned();
            readings.push(text.clone());
        }
    }
    readings.retain(|reading| !reading.is_empty());
    readings
}

/// A folder that relative paths begin in.
struct Base {
    path: PathBuf,
    /// The path without `.` and `..`.
    plain: PathBuf,
    /// The path with all links followed.
    real: PathBuf,
}

impl Base {
    fn new(path: PathBuf) -> Base {
        Base {
            plain: without_dots(&path),
            real: resolved(&path),
            path,
        }
    }

    fn join(&self, name: &str) -> PathBuf {
        match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => self.path.join(name),
        }
    }

    /// Returns true if a name leads to `folder`, or by wildcards to everything in it.
    fn leads_to(&self, name: &str, folder: &Path) -> bool {
        let unescaped = name.replace('\\', "");
        let paths = [self.join(name), self.join(&unescaped)];
        let mut places = paths.iter().flat_map(|path| [path.clone(), without_dots(path)]);
        places.any(|path| is_at(&resolved(&path), folder))
    }

    /// Returns the paths that a name leads to, if they differ from the path it spells. In a pattern, a backslash
    /// escapes the next character.
    fn targets(&self, name: &str) -> Vec<PathBuf> {
        let mut targets = self.targets_of(&self.join(name));
        if name.contains('\\') {
            targets.extend(self.targets_of(&self.join(&name.replace('\\', ""))));
        }
        targets
    }

    /// Returns where a path leads: as the system follows it, and as programs do that first remove `..` from its text. A
    /// pattern is followed up to its first wildcard, since no file has that name.
    fn targets_of(&self, path: &Path) -> Vec<PathBuf> {
        let plain = without_dots(path);
        // The folder may be a link itself; that is recorded once, not for each path below it.
        let expected = match plain.strip_prefix(&self.plain) {
            Ok(rest) => self.real.join(rest),
            Err(_) => plain.clone(),
        };
        let (followed, shortened) = (resolved(path), resolved(&plain));
        // After `..` behind a link, programs disagree about the file, so a person has to see both.
        if followed != shortened {
            return vec![followed, shortened];
        }
        let is_elsewhere = followed != expected && followed != plain;
        is_elsewhere.then_some(followed).into_iter().collect()
    }
}

/// Returns the home folder of this process if it is in an unusual place, where its path does not show that it is a home
/// folder. `None` for `/home/ana`, `/Users/ana` and `/root`.
fn unusual_home() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let home = home.is_absolute().then(|| resolved(&home))?;
    let is_below = |folder: &str| home.parent() == Some(Path::new(folder));
    let is_usual = is_below("/home") || is_below("/Users") || home == Path::new("/root");
    (!is_usual && home.parent().is_some()).then_some(home)
}

/// Returns true if `path` is `folder`, or `folder` followed by wildcards.
fn is_at(path: &Path, folder: &Path) -> bool {
    let is_wild = |name: &std::ffi::OsStr| name.to_string_lossy().chars().all(|c| "*?.".contains(c));
    let rest = path.strip_prefix(folder);
    rest.is_ok_and(|rest| rest.iter().all(is_wild))
}

/// Follows the links of an absolute path, one component after the other, as the kernel does. Components
/// that do not exist are kept as written, so that a new file resolves within its folder and a dangling link to its
/// target.
fn resolved(path: &Path) -> PathBuf {
    let mut left: VecDeque<OsString> = names_of(path);
    let mut found = PathBuf::new();
    let mut hops = 0;
    let mut is_missing = false;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            found.pop();
            is_missing = false;
            continue;
        }
        found.push(&name);
        // Nothing is below a name that does not exist.
        if is_missing || hops == MOST_HOPS {
            continue;
        }
        match found.read_link() {
            Ok(target) => {
                hops += 1;
                found.pop();
                // The target begins in the folder of the link; an absolute one replaces that folder.
                for name in names_of(&target).into_iter().rev() {
                    left.push_front(name);
                }
            }
            Err(error) => is_missing = error.kind() == std::io::ErrorKind::NotFound,
        }
    }
    found
}

/// Returns the components of a path, without `.`.
fn names_of(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter(|name| *name != Component::CurDir);
    names.map(|name| name.as_os_str().to_owned()).collect()
}

/// Removes `.` and `..` from the text of a path.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Creates a link. A byte of the target that is not UTF-8 becomes a replacement character and the byte in hex: the
/// policy holds a call with such a target, and two different targets stay different.
fn link(name: &str, target: &Path) -> Link {
    let mut text = String::new();
    for chunk in target.as_os_str().as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        let odd = chunk.invalid().iter();
        text.extend(odd.map(|byte| format!("{UNREADABLE}{byte:02x}")));
    }
    Link {
        path: name.to_owned(),
        target: text,
    }
}
