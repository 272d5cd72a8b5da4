//! Full-screen inbox on the terminal: pending approvals, the same card as everywhere, and keys to decide.
//!
//! Input: a backend, key presses, and events. Output: decisions, each bound to the digest that was on the screen. The
//! terminal is always restored, also after an error or a panic.
//! INVARIANT: foreign text reaches the screen escaped and as text, never as control bytes for the terminal (X15).

mod act;
mod editor;
mod keys;
mod screen;
mod seen;
mod state;
mod text;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use countersign::store::{Filter, LONGEST_PAGE};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event, KeyEventKind};
use ratatui::crossterm::execute;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Sender, channel};

use self::act::Act;
use self::keys::Keys;
use self::screen::DisplaySettings;
use self::state::Inbox;
use crate::backend::{Backend, EventFilter, StreamItem};
use crate::cli::{Color, Global};
use crate::failure::{Exit, Failure};
use crate::output::foreign::shown;
use crate::output::{Output, once};
use crate::store::{Missing, Watch};

/// Interval of redraws, because remaining times change.
const TICK: Duration = Duration::from_secs(1);
/// Interval of reloads, for changes that are not reported, for example because the server's events cannot be followed.
const LOOKS_AGAIN: Duration = Duration::from_secs(20);

/// Runs the inbox until the person quits it.
pub async fn run(global: &Global, output: &Output) -> Result<Exit, Failure> {
    if global.json || !output.is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("the inbox needs a terminal")
            .hint("use `countersign list`, `show` and `watch` in scripts"));
    }
    let backend = Backend::open_with(global, Missing::Create, Watch::Others, None).await?;
    let mut inbox = Inbox::new(Instant::now());
    // Report errors of the backend before the screen is taken over.
    refresh(&backend, &mut inbox).await?;
    let looks = DisplaySettings {
        place: global.server.clone().unwrap_or_else(|| "this machine".to_owned()),
        has_colors: global.color != Color::Never && std::env::var_os("NO_COLOR").is_none(),
    };
    let mut screen = Screen::take()?;
    let ended = look(&backend, &mut inbox, &looks, &mut screen).await;
    drop(screen);
    ended
}

async fn look(
    backend: &Backend,
    inbox: &mut Inbox,
    looks: &DisplaySettings,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let (sender, mut news) = channel(256);
    let following = follow(backend, sender);
    tokio::pin!(following);
    let mut is_following = true;
    let mut ticks = tokio::time::interval(TICK);
    let mut looked_at = Instant::now();
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| broken(&error))?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(|error| broken(&error))?;
    loop {
        complete(backend, inbox).await;
        screen.draw(inbox, looks)?;
        tokio::select! {
            event = screen.keys.next() => match event {
                None => return Ok(Exit::Done),
                Some(event) => {
                    let Some(act) = read(inbox, event) else { continue };
                    if act == Act::Leave {
                        return Ok(Exit::Done);
                    }
                    perform(backend, inbox, looks, screen, act).await?;
                }
            },
            Some(followed) = news.recv() => {
                let mut is_changed = note(inbox, followed);
                while let Ok(followed) = news.try_recv() {
                    is_changed |= note(inbox, followed);
                }
                if is_changed {
                    refresh_or_say(backend, inbox).await;
                    looked_at = Instant::now();
                }
            }
            ended = &mut following, if is_following => {
                is_following = false;
                inbox.complain(format!("nothing new is heard: {}", once(&ended.message)));
            }
            _ = ticks.tick() => {
                if keys::is_gone() {
                    // There is no screen to restore, and trying would only cause errors.
                    std::process::exit(i32::from(Exit::Done.code()));
                }
                if looked_at.elapsed() > LOOKS_AGAIN {
                    refresh_or_say(backend, inbox).await;
                    looked_at = Instant::now();
                }
            }
            _ = terminated.recv() => return Ok(Exit::Done),
            _ = hung_up.recv() => return Ok(Exit::Done),
        }
    }
}

/// Forwards the backend's events to `news`. Returns only on failure.
async fn follow(backend: &Backend, news: Sender<StreamItem>) -> Failure {
    let mut following = match backend.follow(EventFilter::default()).await {
        Ok(following) => following,
        Err(failure) => return failure,
    };
    loop {
        match following.next().await {
            Ok(followed) => _ = news.send(followed).await,
            Err(failure) => return failure,
        }
    }
}

/// Records whether the server is reachable. Returns true if the list has to be reloaded.
fn note(inbox: &mut Inbox, followed: StreamItem) -> bool {
    match followed {
        StreamItem::Happened(_) => true,
        StreamItem::Lost(reason) => {
            inbox.lost = Some(reason);
            false
        }
        StreamItem::Back => {
            inbox.lost = None;
            true
        }
    }
}

fn read(inbox: &mut Inbox, event: Event) -> Option<Act> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => act::key(inbox, key, Instant::now()),
        Event::Paste(text) => {
            act::paste(inbox, &text);
            None
        }
        // On a resize, the next draw uses the new size.
        _ => None,
    }
}

async fn perform(
    backend: &Backend,
    inbox: &mut Inbox,
    looks: &DisplaySettings,
    screen: &mut Screen,
    act: Act,
) -> Result<(), Failure> {
    match act {
        Act::Leave => {}
        Act::Refresh => refresh_or_say(backend, inbox).await,
        Act::Decide(deciding) => {
            inbox.say("deciding…");
            screen.draw(inbox, looks)?;
            let id = deciding.id().short();
            match backend.decide(*deciding).await {
                Ok(approval) => {
                    inbox.say(format!(
                        "{} {id}: {}",
                        approval.status,
                        shown(&approval.description)
                    ));
                    inbox.remove_selected();
                }
                Err(failure) => {
                    let hint = failure.hint.map(|hint| format!(" ({})", once(&hint)));
                    inbox.complain(format!("{}{}", once(&failure.message), hint.unwrap_or_default()));
                }
            }
            refresh_or_say(backend, inbox).await;
            // Keys pressed in the meantime were not meant for the card that is shown now.
            screen.keys.forget();
        }
        Act::Edit { position, original } => {
            let draft = inbox.draft.unfinished.get(&position).cloned();
            let edited = screen.lend(|| editor::edit(&original, draft.as_deref()))?;
            act::edited(inbox, position, edited);
        }
    }
    Ok(())
}

/// Reloads the pending approvals. If the selected approval is no longer pending, also reloads that one.
async fn refresh(backend: &Backend, inbox: &mut Inbox) -> Result<(), Failure> {
    let filter = Filter {
        limit: Some(LONGEST_PAGE),
        ..Filter::pending()
    };
    let page = backend.list(&filter).await?;
    let looked_at = match inbox.current().map(|listed| listed.approval.id) {
        Some(id) if page.approvals.iter().all(|approval| approval.id != id) => backend.approval(id).await?,
        _ => None,
    };
    inbox.refresh(page.approvals, looked_at, Instant::now());
    Ok(())
}

/// Loads the full details of the selected approval.
async fn complete(backend: &Backend, inbox: &mut Inbox) {
    let Some(listed) = inbox.current().filter(|listed| !listed.is_whole) else {
        return;
    };
    match backend.approval(listed.approval.id).await {
        Ok(Some(approval)) => inbox.complete(approval, Instant::now()),
        Ok(None) => {}
        Err(failure) => inbox.lost = Some(failure.message),
    }
}

async fn refresh_or_say(backend: &Backend, inbox: &mut Inbox) {
    match refresh(backend, inbox).await {
        Ok(()) => inbox.lost = None,
        Err(failure) => inbox.lost = Some(failure.message),
    }
}

/// The terminal while the inbox uses it. Restored on drop, also after a panic.
struct Screen {
    terminal: DefaultTerminal,
    keys: Keys,
}

impl Screen {
    fn take() -> Result<Screen, Failure> {
        // Also installs a panic hook that restores the terminal before the message is printed.
        let terminal = ratatui::try_init().map_err(|error| broken(&error))?;
        let _ = execute!(std::io::stdout(), EnableBracketedPaste);
        Ok(Screen {
            terminal,
            keys: Keys::start(),
        })
    }

    fn draw(&mut self, inbox: &mut Inbox, looks: &DisplaySettings) -> Result<(), Failure> {
        let now = Instant::now();
        let drawn = self.terminal.draw(|frame| screen::draw(frame, inbox, looks, now));
        drawn.map(drop).map_err(|error| broken(&error))
    }

    /// Restores the terminal, calls `run`, which may start another program, and then takes the terminal over again.
    fn lend<T>(&mut self, run: impl FnOnce() -> T) -> Result<T, Failure> {
        self.keys.stop();
        let _ = execute!(std::io::stdout(), DisableBracketedPaste);
        ratatui::restore();
        let given = run();
        self.terminal = ratatui::try_init().map_err(|error| broken(&error))?;
        let _ = execute!(std::io::stdout(), EnableBracketedPaste);
        self.keys = Keys::start();
        Ok(given)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.keys.stop();
        let _ = execute!(std::io::stdout(), DisableBracketedPaste);
        ratatui::restore();
    }
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::error("terminal", format!("the terminal cannot be used: {error}"))
        .hint("try `countersign list` and `show`")
}
