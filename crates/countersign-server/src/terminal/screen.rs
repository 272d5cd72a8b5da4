//! Draws the inbox.

use std::time::Instant;

use countersign::state::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::state::{Inbox, Listed, Mode};
use super::text::{line, wrap};
use crate::duration;
use crate::output::card::{self, Length};
use crate::output::foreign::shown;
use crate::output::layout::GUTTER_WIDTH;
use crate::output::style::{self, paint};
use crate::output::table::fit;
use crate::output::{list, once};
use crate::view::Moment;

/// Minimum width of the screen, in columns, at which the card is to the right of the list instead of below it.
const SIDE_BY_SIDE: u16 = 110;

/// Minimum width of the card, in columns, at which its rows count as seen. The layout needs at least this width.
const NARROWEST: u16 = 4;

/// Settings that stay the same while the inbox runs.
pub struct DisplaySettings {
    /// Server or machine that holds the approvals.
    pub place: String,
    /// Whether to use colours.
    pub has_colors: bool,
}

const HELP: &str = "
  j k ↓ ↑        another approval
  PgDn PgUp      further down the card, and up; also Ctrl-D and Ctrl-U
  J K            by one line
  g G Home End   to its beginning, to its end

  a              approve exactly what is shown, once every row of the card
                 has been on the screen
  y              … yes, when asked once more: what is destructive, of high
                 risk, or has warnings
  d              deny
  c              write a comment that goes with your decision
  e              edit the arguments in your editor, then approve with `a`

  ← →            another call of a batch
  1-9 space      run this call, or do not

  r              look again
  ? q            this help; leave (also Ctrl-C)
";

/// Draws everything, and records in the inbox which rows of the card are visible.
pub fn draw(frame: &mut Frame<'_>, inbox: &mut Inbox, looks: &DisplaySettings, now: Instant) {
    let rows = [Constraint::Length(1), Constraint::Min(3), Constraint::Length(2)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(title(inbox, looks)), top);
    let (list_area, card_area) = divide(middle, inbox.listed.len());
    draw_list(frame, list_area, inbox, looks, now);
    draw_card(frame, card_area, inbox, looks, now);
    frame.render_widget(Paragraph::new(footer(inbox, looks, bottom.width)), bottom);
    if inbox.mode == Mode::Help {
        draw_help(frame);
    }
}

fn divide(area: Rect, count: usize) -> (Rect, Rect) {
    if area.width >= SIDE_BY_SIDE {
        let [list, card] = Layout::horizontal([Constraint::Percentage(38), Constraint::Min(10)]).areas(area);
        return (list, card);
    }
    let most = area.height / 3;
    let wanted = u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1);
    let height = wanted.clamp(2, most.max(2));
    let [list, card] = Layout::vertical([Constraint::Length(height), Constraint::Min(1)]).areas(area);
    (list, card)
}

fn title(inbox: &Inbox, looks: &DisplaySettings) -> Line<'static> {
    let pending = inbox
        .listed
        .iter()
        .filter(|listed| listed.approval.status == State::Pending)
        .count();
    let waiting = match pending {
        0 => "nothing waits".to_owned(),
        1 => "1 waits for a decision".to_owned(),
        count => format!("{count} wait for a decision"),
    };
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let mut spans = vec![
        Span::styled("Countersign inbox", strong),
        Span::raw(format!("  {waiting}  at {}", once(&looks.place))),
    ];
    if let Some(reason) = &inbox.lost {
        let told = format!("  OFFLINE: {}", once(reason));
        spans.push(Span::styled(told, alarm_style(looks)));
    }
    Line::from(spans)
}

fn alarm_style(looks: &DisplaySettings) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if looks.has_colors {
        style.fg(Color::Red)
    } else {
        style
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, inbox: &Inbox, looks: &DisplaySettings, now: Instant) {
    let block = Block::new().borders(Borders::BOTTOM | Borders::RIGHT);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if inbox.listed.is_empty() {
        let text = "No approvals are waiting. New ones appear here.";
        frame.render_widget(Paragraph::new(text), inner);
        return;
    }
    let height = usize::from(inner.height).max(1);
    let selected = inbox.index().unwrap_or(0);
    let first = selected.saturating_sub(height.saturating_sub(1));
    let visible = inbox.listed.iter().enumerate().skip(first).take(height);
    let lines = visible.map(|(at, listed)| {
        let line = row(listed, usize::from(inner.width), looks, now);
        match at == selected {
            true => line.style(Style::new().add_modifier(Modifier::REVERSED)),
            false => line,
        }
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
}

fn row(listed: &Listed, width: usize, looks: &DisplaySettings, now: Instant) -> Line<'static> {
    let approval = &listed.approval;
    let left = match (listed.left(now), approval.status) {
        (Some(left), _) => duration::show(left),
        (None, State::Pending) => State::Expired.to_string(),
        (None, state) => state.to_string(),
    };
    let risk = paint(
        style::risk(approval.risk_level),
        &format!("{:<8}", approval.risk_level.as_str()),
    );
    let before = 8 + 2 + 10 + 2 + 8 + 2;
    let room = width.saturating_sub(before + GUTTER_WIDTH).max(10);
    let what = list::what(approval).fit(room).mark();
    let text = format!("{}  {left:<10}  {risk}  {what}", approval.id.short());
    line(&text, looks.has_colors)
}

fn draw_card(frame: &mut Frame<'_>, area: Rect, inbox: &mut Inbox, looks: &DisplaySettings, now: Instant) {
    let Some(lines) = card_lines(inbox, usize::from(area.width), looks, now) else {
        return;
    };
    let height = usize::from(area.height);
    let last = lines.len().saturating_sub(height);
    inbox.scroll = inbox.scroll.min(last);
    let is_at_end = inbox.scroll >= last;
    // The last row shows how many rows follow.
    let is_marked = !is_at_end && height > 1;
    let count = if is_marked { height - 1 } else { height };
    let is_covered = inbox.mode == Mode::Help;
    let rows = match is_covered || area.width < NARROWEST {
        true => 0..0,
        false => inbox.scroll..lines.len().min(inbox.scroll + count),
    };
    inbox.seen.note((area.width, area.height), lines.len(), rows);
    let visible: Vec<Line<'_>> = lines.into_iter().skip(inbox.scroll).take(height).collect();
    frame.render_widget(Paragraph::new(visible), area);
    if is_marked {
        let more = Rect {
            y: area.bottom().saturating_sub(1),
            height: 1,
            ..area
        };
        let text = format!(" ▼ {} lines more: PgDn ", last - inbox.scroll + 1);
        let style = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(Clear, more);
        frame.render_widget(Paragraph::new(Span::styled(text, style)), more);
    }
}

/// Returns the rows of the card, with all values in full. For a batch, the selection of calls comes first. `None` if no
/// approval is selected.
fn card_lines(
    inbox: &Inbox,
    width: usize,
    looks: &DisplaySettings,
    now: Instant,
) -> Option<Vec<Line<'static>>> {
    let mut approval = inbox.selected_as_edited()?;
    let listed = inbox.current()?;
    approval.now = Moment(listed.now(now));
    if listed.left(now).is_none() && approval.status == State::Pending {
        approval.status = State::Expired;
    }
    let mut text = String::new();
    if approval.calls.len() > 1 && approval.status == State::Pending {
        for (position, call) in approval.numbered() {
            let mark = if inbox.draft.focus == position { "▶" } else { " " };
            let choice = match inbox.draft.denied.contains(&position) {
                true => paint(style::BAD, "[no ]"),
                false => paint(style::GOOD, "[yes]"),
            };
            text.push_str(&format!(
                "{mark} {choice} {position:>3}  {}\n",
                shown(&call.summary)
            ));
        }
        text.push('\n');
    }
    text.push_str(&card::card(&approval, Length::Whole));
    Some(wrap(&text, width, looks.has_colors))
}

fn footer(inbox: &Inbox, looks: &DisplaySettings, width: u16) -> Vec<Line<'static>> {
    let room = usize::from(width);
    let keys = match inbox.seen.is_whole() {
        true => "a approve  d deny  c comment  e edit  j/k next  PgDn more  ? help  q leave",
        false => "PgDn more, to approve  d deny  c comment  e edit  j/k next  ? help  q leave",
    };
    let keys = Line::styled(fit(keys, room), Style::new().add_modifier(Modifier::DIM));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = match (&inbox.mode, &inbox.message) {
        (Mode::Confirm(question), _) => {
            let text = format!("{}: press y to approve, any other key goes back", once(question));
            Line::styled(fit(&text, room), alarm_style(looks))
        }
        (Mode::Comment, _) => {
            let shown = once(&inbox.draft.comment);
            // Show the end, where the person types.
            let skipped = shown
                .chars()
                .count()
                .saturating_sub(room.saturating_sub(48).max(10));
            let tail: String = shown.chars().skip(skipped).collect();
            Line::styled(format!("comment: {tail}▏ (Enter keeps it, Esc drops it)"), bold)
        }
        (_, Some(message)) if message.is_bad => one_line(&message.text, room).style(alarm_style(looks)),
        (_, Some(message)) => one_line(&message.text, room).style(bold),
        (_, None) if !inbox.draft.comment.is_empty() => {
            let text = format!("comment: {}", once(&inbox.draft.comment));
            Line::from(fit(&text, room))
        }
        (_, None) => Line::default(),
    };
    vec![first, keys]
}

/// Cuts a message to one row of the screen. An agent's text keeps its gutter.
fn one_line(text: &str, room: usize) -> Line<'static> {
    let rows = wrap(text, room, false);
    let has_more = rows.len() > 1;
    let mut line = rows.into_iter().next().unwrap_or_default();
    if has_more {
        line.push_span("…");
    }
    line
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let height = u16::try_from(HELP.lines().count())
        .unwrap_or(u16::MAX)
        .saturating_add(2);
    let area = Rect {
        x: area.x + area.width.saturating_sub(78) / 2,
        y: area.y + area.height.saturating_sub(height) / 2,
        width: area.width.min(78),
        height: area.height.min(height),
    };
    frame.render_widget(Clear, area);
    let block = Block::new()
        .borders(Borders::ALL)
        .title(" Keys (any key closes this) ");
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}
