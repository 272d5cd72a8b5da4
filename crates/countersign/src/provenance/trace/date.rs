//! Parses days and times of day as people write them.
//!
//! Input: folded text (see `text`: without differences of case and spacing). Output: every day that the text names, no
//! more precisely than the text does. Nothing is guessed: "Friday" is resolved only with the date of the message, and
//! no year is added to a day without one.

use std::ops::Range;

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime, Time, Weekday};

use super::number::word_value;
use super::text::words;

/// A day named in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    pub(super) at: Range<usize>,
    pub(super) day: Day,
}

/// A day, no more precise than the text that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Day {
    /// Full date: `2026-11-20`, `20 November 2026`.
    Full(Date),
    /// Day of a month, without a year: `20 November`, `11/20`.
    OfMonth { month: i8, day: i8 },
    /// Weekday with the day of the month: `Friday 20th`.
    OfWeek { weekday: Weekday, day: i8 },
    /// Weekday alone: `Friday`, `next Friday`.
    Weekday(Weekday),
    /// Number of days after the message: 0 for `today`, 1 for `tomorrow`.
    FromNow(i64),
}

/// A value that is a day, with an optional time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) date: Date,
    pub(super) time: Option<Time>,
}

/// Parses a value that consists of a day: `2026-11-20`, `2026-11-20T09:30:00Z`, `11/20/2026`. `None` for any other
/// value.
pub(super) fn moment(value: &str) -> Option<Moment> {
    let value = value.trim();
    if value.len() > 40 || !value.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (day, clock) = match value.split_once(['T', 't', ' ']) {
        Some((day, clock)) => (day, Some(clock)),
        None => (value, None),
    };
    let date = numeric_days(day).into_iter().find_map(|day| match day {
        Day::Full(date) => Some(date),
        _ => None,
    })?;
    let time = match clock {
        Some(clock) => Some(clock_time(clock)?),
        None => None,
    };
    Some(Moment { date, time })
}

/// Parses a value that consists of a time of day: `08:00`, `8:30 pm`. `None` for any other value.
pub(super) fn clock_time(value: &str) -> Option<Time> {
    let value = value.trim().to_ascii_lowercase();
    let value = value.trim_end_matches('z').trim_end_matches("+00:00");
    let is_short = value.len() <= 15 && value.starts_with(|c: char| c.is_ascii_digit());
    let times = is_short.then(|| times(value))?;
    times
        .into_iter()
        .next()
        .filter(|(at, _)| *at == (0..value.len()))
        .map(|(_, time)| time)
}

/// Finds every day named in a folded text.
pub(super) fn stated(text: &str) -> Vec<Stated> {
    let tokens: Vec<(usize, &str)> = tokens(text).collect();
    let mut found = Vec::new();
    for (index, (from, word)) in tokens.iter().enumerate() {
        let next = |by: usize| tokens.get(index + by).map_or("", |(_, word)| *word);
        let end = |by: usize| {
            tokens
                .get(index + by)
                .map_or(text.len(), |(at, word)| at + word.len())
        };
        let mut push = |day: Day, by: usize| {
            found.push(Stated {
                at: *from..end(by),
                day,
            })
        };
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            numeric_days(word).into_iter().for_each(|day| push(day, 0));
            let of = usize::from(matches!(next(1), "of" | "de" | "di"));
            if let (Some(day), Some(month)) = (ordinal(word), month(next(1 + of))) {
                match year(next(2 + of)) {
                    Some(year) => full(year, month, day)
                        .into_iter()
                        .for_each(|day| push(day, 2 + of)),
                    None => push(Day::OfMonth { month, day }, 1 + of),
                }
            }
        } else if let Some(month) = month(word) {
            let the = usize::from(next(1) == "the");
            if let Some(day) = ordinal(next(1 + the)) {
                match year(next(2 + the)) {
                    Some(year) => full(year, month, day)
                        .into_iter()
                        .for_each(|day| push(day, 2 + the)),
                    None => push(Day::OfMonth { month, day }, 1 + the),
                }
            }
        } else if let Some(weekday) = weekday(word) {
            let the = usize::from(next(1) == "the");
            match ordinal(next(1 + the)).filter(|_| next(1 + the).len() > 2) {
                Some(day) => push(Day::OfWeek { weekday, day }, 1 + the),
                None => push(Day::Weekday(weekday), 0),
            }
        } else {
            match *word {
                "today" | "tonight" => push(Day::FromNow(0), 0),
                "tomorrow" => push(Day::FromNow(1), 0),
                "yesterday" => push(Day::FromNow(-1), 0),
                _ => {}
            }
        }
    }
    found
}

impl Day {
    /// Returns true if this is a full date and equals `date`.
    pub(super) fn is(self, date: Date) -> bool {
        self == Day::Full(date)
    }

    /// Returns true if this may mean `date`. `said` is the date of the message, if known.
    pub(super) fn may_be(self, date: Date, said: Option<Date>) -> bool {
        let days_later = |said: Date| said.until(date).ok().map(|span| i64::from(span.get_days()));
        let later = said.and_then(days_later);
        match self {
            Day::Full(full) => full == date,
            Day::OfMonth { month, day } => (date.month(), date.day()) == (month, day),
            Day::OfWeek { weekday, day } => date.day() == day && date.weekday() == weekday,
            // "Friday" is the coming one; "next Friday" may be the one after that.
            Day::Weekday(weekday) => {
                date.weekday() == weekday && later.is_some_and(|days| (0..14).contains(&days))
            }
            Day::FromNow(days) => later == Some(days),
        }
    }
}

/// Finds every time of day in a folded text.
pub(super) fn times(text: &str) -> Vec<(Range<usize>, Time)> {
    let tokens: Vec<(usize, &str)> = words_with_colons(text).collect();
    let mut found = Vec::new();
    for (index, (from, word)) in tokens.iter().enumerate() {
        let (next_at, next) = tokens.get(index + 1).copied().unwrap_or((0, ""));
        let digits = word.trim_end_matches(|c: char| c.is_alphabetic() || c == '.');
        let suffix = word.get(digits.len()..).unwrap_or_default();
        let half = |word: &str| match word.replace('.', "").as_str() {
            "am" => Some(false),
            "pm" => Some(true),
            _ => None,
        };
        let (is_afternoon, to) = match half(suffix) {
            Some(is_afternoon) => (Some(is_afternoon), from + word.len()),
            None if suffix.is_empty() => match half(next) {
                Some(is_afternoon) => (Some(is_afternoon), next_at + next.len()),
                None => (None, from + word.len()),
            },
            None => continue,
        };
        if *word == "noon" {
            found.extend(Time::new(12, 0, 0, 0).ok().map(|time| (*from..from + 4, time)));
            continue;
        }
        let mut parts = digits.split(':').map(|part| part.parse::<i8>().ok());
        let Some(Some(hour)) = parts.next() else { continue };
        let minute = parts.next();
        if minute.is_none() && is_afternoon.is_none() {
            continue;
        }
        let minute = minute.flatten().unwrap_or(0);
        let second = parts.next().flatten().unwrap_or(0);
        let hour = match is_afternoon {
            Some(true) if hour < 12 => hour + 12,
            Some(false) if hour == 12 => 0,
            _ => hour,
        };
        found.extend(
            Time::new(hour, minute, second, 0)
                .ok()
                .map(|time| (*from..to, time)),
        );
    }
    found
}

/// Finds times of day that may be before or after noon: `6:30`, "at 7", "from 8-11", as an hour from 0 to 11 and a
/// minute.
pub(super) fn half_day_times(text: &str) -> Vec<(Range<usize>, i8, i8)> {
    let tokens: Vec<(usize, &str)> = words_with_colons(text).collect();
    let mut found = Vec::new();
    let mut is_list = false;
    for (index, (from, word)) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| tokens.get(index));
        let next = tokens.get(index + 1).map_or("", |(_, word)| *word);
        let is_led = before.is_some_and(|(at, before)| {
            let gap = text.get(at + before.len()..*from);
            let is_range = gap == Some("-") && before.parse::<i8>().is_ok();
            is_range || is_list && gap == Some(", ") || is_list && *before == "and" || leads_to_time(before)
        });
        let is_half = matches!(next.replace('.', "").as_str(), "am" | "pm");
        let (hour, minute) = match word.split_once(':') {
            Some((hour, minute)) => (hour.parse::<i8>().ok(), minute.parse::<i8>().ok()),
            None => (word.parse::<i8>().ok().filter(|_| is_led), Some(0)),
        };
        let is_joint = *word == "and" && is_list;
        is_list = is_joint;
        if let (Some(hour @ 1..=12), Some(minute @ 0..60)) = (hour, minute)
            && !is_half
        {
            found.push((*from..from + word.len(), hour % 12, minute));
            is_list = true;
        }
    }
    found
}

fn leads_to_time(word: &str) -> bool {
    matches!(
        word,
        "at" | "from" | "to" | "till" | "until" | "by" | "around" | "about" | "before" | "after" | "between"
    )
}

/// Finds phrases that shift a day (`next day`, `by two days`, `a week later`). Each is returned twice, as that many
/// days forwards and backwards.
pub(super) fn shifts(text: &str) -> Vec<(Range<usize>, i64)> {
    let tokens: Vec<(usize, &str)> = words(text).collect();
    let mut found = Vec::new();
    for (index, (from, word)) in tokens.iter().enumerate() {
        let unit = match word.trim_end_matches('s') {
            "day" => 1,
            "week" => 7,
            _ => continue,
        };
        let before = |by: usize| {
            index
                .checked_sub(by)
                .and_then(|at| tokens.get(at))
                .copied()
                .unwrap_or((0, ""))
        };
        let after = tokens.get(index + 1).map_or("", |(_, word)| *word);
        let (start, said) = before(1);
        let count = match said {
            "next" | "following" | "a" | "another" => Some(1),
            "previous" | "prior" => Some(-1),
            said => said
                .parse::<i64>()
                .ok()
                .or_else(|| word_value(said).map(i64::from)),
        };
        let count = count
            .or((after == "after").then_some(1))
            .or((after == "before").then_some(-1));
        if let Some(count) = count.filter(|count| (-366..=366).contains(count)) {
            let range = if said.is_empty() { *from } else { start }..from + word.len();
            found.push((range.clone(), count * unit));
            found.push((range, -count * unit));
        }
    }
    found
}

/// Finds durations, in minutes: `5 hours`, `30 min`, `an hour`.
pub(super) fn lengths(text: &str) -> Vec<(Range<usize>, i64)> {
    let tokens: Vec<(usize, &str)> = words(text).collect();
    let pairs = tokens.windows(2).filter_map(|pair| {
        let [(from, count), (at, unit)] = pair else {
            return None;
        };
        let minutes = match unit.trim_end_matches('s') {
            "hour" | "hr" | "h" => 60,
            "minute" | "min" => 1,
            _ => return None,
        };
        let count = match *count {
            "a" | "an" => 1,
            count => count
                .parse::<i64>()
                .ok()
                .or_else(|| word_value(count).map(i64::from))?,
        };
        let length = count.checked_mul(minutes)?;
        Some((*from..at + unit.len(), length))
    });
    pairs.collect()
}

/// Finds every date with a time of day in machine notation: `2024-05-18 08:00`.
pub(super) fn moments(text: &str) -> Vec<(Range<usize>, DateTime)> {
    let days = stated(text).into_iter().filter_map(|stated| match stated.day {
        Day::Full(date) => Some((stated.at, date)),
        _ => None,
    });
    let moments = days.filter_map(|(at, date)| {
        let rest = text.get(at.end..)?.strip_prefix([' ', 't'])?;
        let clock: String = rest
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == ':')
            .collect();
        let time = clock_time(&clock)?;
        Some((at.start..at.end + 1 + clock.len(), date.to_datetime(time)))
    });
    moments.collect()
}

pub(super) fn plus_days(date: Date, days: i64) -> Option<Date> {
    date.checked_add(days.days()).ok()
}

/// Splits a text into tokens; a date stays one token.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    words(text)
        .flat_map(|(from, word)| days_of_range(from, word))
        .flat_map(|(from, word)| {
            // Keep only the date of `2024-05-18t08:00`.
            let day = word
                .split_once('t')
                .filter(|(day, _)| day.len() == 10 && day.starts_with(|c: char| c.is_ascii_digit()));
            std::iter::once((from, day.map_or(word, |(day, _)| day)))
        })
}

/// Splits a range of days, `9/15-9/21`; returns any other word as it is.
fn days_of_range(from: usize, word: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_range = |first: &str, second: &str| first.contains('/') && second.contains('/');
    let (first, second) = match word.split_once('-') {
        Some((first, second)) if is_range(first, second) => (first, Some((from + first.len() + 1, second))),
        _ => (word, None),
    };
    std::iter::once((from, first)).chain(second)
}

fn words_with_colons(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let runs = text
        .split(|c: char| !(c.is_alphanumeric() || c == ':' || c == '.'))
        .scan(0, |at, run| {
            let from = *at;
            let next = text.get(from + run.len()..).and_then(|rest| rest.chars().next());
            *at = from + run.len() + next.map_or(0, char::len_utf8);
            Some((from, run))
        });
    runs.flat_map(|(from, run)| {
        let clock = run.split_once('t').filter(|(day, _)| day.parse::<u8>().is_ok());
        let (from, run) = clock.map_or((from, run), |(day, clock)| (from + day.len() + 1, clock));
        let word = run.trim_start_matches([':', '.']);
        let from = from + run.len() - word.len();
        let word = word.trim_end_matches([':', '.']);
        (!word.is_empty()).then_some((from, word))
    })
}

/// Returns the days that digits separated by `-`, `/` or `.` may name.
fn numeric_days(word: &str) -> Vec<Day> {
    let Some(sign) = word.chars().find(|c| matches!(c, '-' | '/' | '.')) else {
        return Vec::new();
    };
    let parts: Vec<&str> = word.split(sign).collect();
    if !parts
        .iter()
        .all(|part| !part.is_empty() && part.len() <= 4 && part.chars().all(|c| c.is_ascii_digit()))
    {
        return Vec::new();
    }
    let number = |at: usize| {
        parts
            .get(at)
            .and_then(|part| part.parse::<i16>().ok())
            .unwrap_or(0)
    };
    let small = |at: usize| i8::try_from(number(at)).unwrap_or(0);
    match parts.iter().map(|part| part.len()).collect::<Vec<_>>().as_slice() {
        [4, 1..=2, 1..=2] => full(number(0), small(1), small(2)).into_iter().collect(),
        [1..=2, 1..=2, length @ (2 | 4)] => {
            let year = if *length == 2 { 2000 + number(2) } else { number(2) };
            // Day and month in either order, since the order depends on the locale.
            let both = [full(year, small(0), small(1)), full(year, small(1), small(0))];
            both.into_iter().flatten().collect()
        }
        [1..=2, 1..=2] if sign != '.' => {
            let both = [(small(0), small(1)), (small(1), small(0))];
            let real = both
                .into_iter()
                .filter(|(month, day)| (1..=12).contains(month) && (1..=31).contains(day));
            real.map(|(month, day)| Day::OfMonth { month, day }).collect()
        }
        _ => Vec::new(),
    }
}

fn full(year: i16, month: i8, day: i8) -> Option<Day> {
    Date::new(year, month, day).ok().map(Day::Full)
}

fn ordinal(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_alphabetic());
    let suffix = word.get(digits.len()..)?;
    let is_ordinal = matches!(suffix, "" | "st" | "nd" | "rd" | "th" | "er");
    digits
        .parse()
        .ok()
        .filter(|day| is_ordinal && (1..=31).contains(day))
}

fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| (1900..2200).contains(year))
}

pub(super) fn month(word: &str) -> Option<i8> {
    const MONTHS: [&[&str]; 12] = [
        &[
            "january", "jan", "enero", "januar", "janvier", "gennaio", "janeiro",
        ],
        &[
            "february",
            "feb",
            "febrero",
            "februar",
            "février",
            "febbraio",
            "fevereiro",
        ],
        &["march", "mar", "marzo", "märz", "mars", "março"],
        &["april", "apr", "abril", "avril", "aprile"],
        &["may", "mayo", "mai", "maggio", "maio"],
        &["june", "jun", "junio", "juni", "juin", "giugno", "junho"],
        &["july", "jul", "julio", "juli", "juillet", "luglio", "julho"],
        &["august", "aug", "agosto", "août"],
        &[
            "september",
            "sep",
            "sept",
            "septiembre",
            "septembre",
            "settembre",
            "setembro",
        ],
        &[
            "october", "oct", "octubre", "oktober", "octobre", "ottobre", "outubro",
        ],
        &["november", "nov", "noviembre", "novembre", "novembro"],
        &[
            "december",
            "dec",
            "diciembre",
            "dezember",
            "décembre",
            "dicembre",
            "dezembro",
        ],
    ];
    let word = word.trim_end_matches('.');
    let at = MONTHS.iter().position(|names| names.contains(&word))?;
    i8::try_from(at + 1).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "mon" | "lunes" | "montag" | "lundi" => Weekday::Monday,
        "tuesday" | "tue" | "tues" | "martes" | "dienstag" | "mardi" => Weekday::Tuesday,
        "wednesday" | "wed" | "miércoles" | "mittwoch" | "mercredi" => Weekday::Wednesday,
        "thursday" | "thu" | "thurs" | "jueves" | "donnerstag" | "jeudi" => Weekday::Thursday,
        "friday" | "fri" | "viernes" | "freitag" | "vendredi" => Weekday::Friday,
        "saturday" | "sat" | "sábado" | "samstag" | "samedi" => Weekday::Saturday,
        "sunday" | "sun" | "domingo" | "sonntag" | "dimanche" => Weekday::Sunday,
        _ => return None,
    })
}
