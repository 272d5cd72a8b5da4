//! Derives days and times of day from stated ones.
//!
//! Input: a value that is a day, a time or both. Output: the parts it is computed from, such as "tomorrow" and the
//! current day according to a tool, a day from one message and a time from another, or "30 minutes before"; `None` if
//! it does not follow from stated ones. Days that someone states directly are handled in `form`. A tool that repeats a
//! day or time of the agent is not a source.

use jiff::civil::{Date, Time};

use super::super::mark::{Derivation, Derived, Part};
use super::agent_words::AgentMessage;
use super::count::key_before;
use super::date::{self, Day, Stated};
use super::form::{Value, is_whole_day, name_words};
use super::text::words;
use super::{By, Source};

/// Returns the parts that a day, a time or a moment is computed from; `None` if it does not follow from stated ones.
pub(super) fn computed(
    value: &Value,
    sources: &[Source<'_>],
    agent_messages: &[AgentMessage<'_>],
) -> Option<Derived> {
    let schedule = Schedule {
        sources,
        agent_messages,
    };
    let parts = match (value.moment, value.time) {
        (Some(moment), _) => {
            let mut parts = schedule.day(moment.date)?;
            let time = moment.time.filter(|time| !is_whole_day(*time));
            parts.extend(time.map_or(Some(Vec::new()), |time| schedule.time(time))?);
            parts
        }
        (None, Some(time)) => schedule.time(time)?,
        (None, None) => schedule.month(value)?,
    };
    Some(Derived {
        how: Derivation::Shifted,
        parts,
        unstated: Vec::new(),
    })
}

struct Schedule<'s, 'c, 'a> {
    sources: &'s [Source<'c>],
    agent_messages: &'s [AgentMessage<'a>],
}

impl<'s, 'c, 'a> Schedule<'s, 'c, 'a> {
    /// The person's messages, the latest first.
    fn people(&self) -> impl Iterator<Item = &'s Source<'c>> + use<'s, 'c, 'a> {
        self.sources.iter().filter(|source| source.is_person()).rev()
    }

    fn tools(&self) -> impl Iterator<Item = &'s Source<'c>> + use<'s, 'c, 'a> {
        self.sources.iter().filter(|source| !source.is_person())
    }

    fn was_written(&self, source: &Source<'_>, is_there: impl Fn(&AgentMessage<'_>) -> bool) -> bool {
        let mut earlier = self
            .agent_messages
            .iter()
            .filter(|message| message.message < source.message);
        earlier.any(is_there)
    }

    /// Returns the parts that state a day, or from which it is computed; `None` if there are none.
    fn day(&self, date: Date) -> Option<Vec<Part>> {
        let said = self.people().find_map(|source| {
            let mut days = source.text.dates().iter();
            let day = days.find(|stated| stated.day.may_be(date, source.said))?;
            Some(vec![source.part(source.text.folded().get(day.at.clone())?)])
        });
        said.or_else(|| self.day_from_today(date)).or_else(|| {
            let mut tools = self.tools();
            let of = tools.find(|source| {
                let states = source.text.dates().iter().any(|stated| stated.day.is(date));
                states && !self.was_written(source, |message| message.has_day(date))
            })?;
            Some(vec![of.part(&date.to_string())])
        })
    }

    /// Computes a day from the person's words ("tomorrow", "next week") and the current day. `None` if the result is
    /// not `date`.
    fn day_from_today(&self, date: Date) -> Option<Vec<Part>> {
        self.people().find_map(|source| {
            let (today, of) = self.today(source)?;
            let folded = source.text.folded();
            let days = source.text.dates().iter();
            let mut near = days.filter(|stated| is_near(folded, stated, date, today));
            let at = near.next().map(|stated| stated.at.clone()).or_else(|| {
                let mut periods = periods(folded).into_iter();
                let found = periods.find(|(_, period)| period.bounds(today).contains(&date));
                found.map(|(at, _)| at)
            })?;
            let parts = [Some(source.part(folded.get(at)?)), of];
            Some(parts.into_iter().flatten().collect())
        })
    }

    /// Returns the day on which a person's message was sent. Also returns the part that states that day, if the message
    /// itself has no time.
    fn today(&self, source: &Source<'_>) -> Option<(Date, Option<Part>)> {
        if let Some(said) = source.said {
            return Some((said, None));
        }
        let told = self
            .people()
            .find_map(|source| Some((source, told_today(source)?)));
        let (of, today) = told.or_else(|| {
            self.tools().find_map(|source| {
                let today = tool_today(source)?;
                let is_own = self.was_written(source, |message| message.has_day(today));
                (!is_own).then_some((source, today))
            })
        })?;
        Some((today, Some(of.part(&today.to_string()))))
    }

    /// Returns the parts that state a time of day, or from which it is computed; `None` if there are none.
    fn time(&self, time: Time) -> Option<Vec<Part>> {
        let said = self.people().find_map(|source| {
            let folded = source.text.folded();
            let exact = date::times(folded).into_iter().find(|(_, said)| *said == time);
            let at = exact.map(|(at, _)| at).or_else(|| {
                let mut hours = date::half_day_times(folded).into_iter();
                let wanted = (time.hour() % 12, time.minute());
                hours
                    .find(|(_, hour, minute)| (*hour, *minute) == wanted)
                    .map(|(at, ..)| at)
            });
            Some(vec![source.part(folded.get(at?)?)])
        });
        said.or_else(|| self.stated_by_tool(time).map(|part| vec![part]))
            .or_else(|| self.moved_time(time))
    }

    fn stated_by_tool(&self, time: Time) -> Option<Part> {
        let mut tools = self.tools();
        let of = tools.find(|source| {
            let states = date::times(source.text.folded())
                .iter()
                .any(|(_, stated)| *stated == time);
            states && !self.was_written(source, |message| message.has_time(time))
        })?;
        Some(of.part(&time.to_string()))
    }

    /// Computes a time from a duration in the person's last message and the time it is counted from: "30 minutes
    /// before", "two hours later". `None` if the result is not `time`.
    fn moved_time(&self, time: Time) -> Option<Vec<Part>> {
        let last = self.people().next()?;
        let folded = last.text.folded();
        date::lengths(folded).into_iter().find_map(|(at, minutes)| {
            let minutes = direction(folded, at.end)? * minutes;
            let minute_of_day = i64::from(time.hour()) * 60 + i64::from(time.minute()) - minutes;
            let hour = i8::try_from(minute_of_day.checked_div(60)?).ok()?;
            let minute = i8::try_from(minute_of_day % 60).ok()?;
            let base = Time::new(hour, minute, time.second(), 0).ok()?;
            let mut people = self.people();
            let said = people.find_map(|source| {
                let mut times = date::times(source.text.folded()).into_iter();
                let (at, _) = times.find(|(_, said)| *said == base)?;
                Some(source.part(source.text.folded().get(at)?))
            });
            let of = said.or_else(|| self.stated_by_tool(base))?;
            Some(vec![last.part(folded.get(at)?), of])
        })
    }

    /// Derives the name of a month from words such as "this month". `None` if the value is not that month.
    fn month(&self, value: &Value) -> Option<Vec<Part>> {
        let month = date::month(&value.folded)?;
        self.people().find_map(|source| {
            let (today, of) = self.today(source)?;
            let folded = source.text.folded();
            let months = periods(folded).into_iter();
            let mut months = months.filter(|(_, period)| period.unit == Unit::Month);
            let (at, _) = months.find(|(_, period)| {
                let first = period.bounds(today).into_iter().next();
                first.is_some_and(|first| first.month() == month)
            })?;
            let parts = [Some(source.part(folded.get(at)?)), of];
            Some(parts.into_iter().flatten().collect())
        })
    }
}

/// Returns true if words such as "tomorrow", "Friday" and "last Friday" mean `date` when they are said on the day
/// `today`.
fn is_near(folded: &str, stated: &Stated, date: Date, today: Date) -> bool {
    let head = folded.get(..stated.at.start).unwrap_or_default().trim_end();
    let is_past = ["last", "past", "previous"]
        .iter()
        .any(|word| head.ends_with(word));
    match stated.day {
        Day::Weekday(weekday) if is_past => {
            let days = date.until(today).map_or(0, |span| span.get_days());
            date.weekday() == weekday && (1..14).contains(&days)
        }
        Day::Weekday(_) | Day::FromNow(_) => stated.day.may_be(date, Some(today)),
        _ => false,
    }
}

/// Returns the day that a person calls today: "today is 2021-10-13". `None` if the person names none.
fn told_today(source: &Source<'_>) -> Option<Date> {
    /// Maximum distance in bytes between the word and the date.
    const NEAR: usize = 16;
    let days = source.text.dates();
    days.windows(2).find_map(|pair| match pair {
        [first, second] if first.day == Day::FromNow(0) && second.at.start - first.at.end <= NEAR => {
            match second.day {
                Day::Full(date) => Some(date),
                _ => None,
            }
        }
        _ => None,
    })
}

/// Returns the current day according to a tool: the only day in the result of a tool whose name says that it returns
/// the date, or the day under a key that says so. `None` if there is none.
fn tool_today(source: &Source<'_>) -> Option<Date> {
    let By::Tool { name, .. } = source.by else {
        return None;
    };
    let is_now = |word: &String| matches!(word.as_str(), "now" | "today" | "current" | "clock");
    let is_plain = |word: &String| {
        matches!(
            word.as_str(),
            "get" | "read" | "the" | "date" | "time" | "day" | "datetime"
        )
    };
    let name = name_words(name);
    let is_named = name.iter().any(is_now) || name.iter().all(is_plain);
    let full = source.text.dates().iter().filter_map(|stated| match stated.day {
        Day::Full(date) => Some((stated.at.start, date)),
        _ => None,
    });
    let full: Vec<(usize, Date)> = full.collect();
    let folded = source.text.folded();
    let under_key = full.iter().find(|(at, _)| {
        let key = key_before(folded, *at).map(name_words).unwrap_or_default();
        key.iter()
            .any(|word| matches!(word.as_str(), "now" | "today" | "current"))
    });
    if let Some((_, date)) = under_key {
        return Some(*date);
    }
    let (_, first) = full.first()?;
    (is_named && full.iter().all(|(_, date)| date == first)).then_some(*first)
}

/// Returns 1 if the words after a duration mean "later" and -1 if they mean "earlier"; `None` if they mean neither.
fn direction(folded: &str, at: usize) -> Option<i64> {
    let rest = folded.get(at..)?;
    let mut next = words(rest).take(2).map(|(_, word)| word);
    next.find_map(|word| match word {
        "before" | "earlier" | "prior" | "ahead" => Some(-1),
        "after" | "later" => Some(1),
        _ => None,
    })
}

/// A week or month relative to the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    unit: Unit,
    /// 0 for this one, 1 for the next, -1 for the last.
    later: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Week,
    Weekend,
    Month,
}

impl Period {
    /// Returns the first and the last day of the period. For a week, also returns the last working day, and the bounds
    /// of a week that starts on Sunday.
    fn bounds(self, today: Date) -> Vec<Date> {
        let shift = |date: Date, days: i64| date::plus_days(date, days);
        let to_monday = -i64::from(today.weekday().to_monday_zero_offset());
        let weeks = 7 * i64::from(self.later);
        let in_week = |days: &[i64]| {
            let days = days
                .iter()
                .filter_map(|days| shift(today, to_monday + weeks + days));
            days.collect()
        };
        match self.unit {
            Unit::Week => in_week(&[0, 6, 4, -1, 5]),
            Unit::Weekend => in_week(&[5, 6]),
            Unit::Month => {
                let first = today.first_of_month();
                let first = first.checked_add(jiff::Span::new().months(self.later)).ok();
                let last = first.map(|first| first.last_of_month());
                [first, last].into_iter().flatten().collect()
            }
        }
    }
}

/// Finds words such as "next week" and "this month".
fn periods(folded: &str) -> Vec<(std::ops::Range<usize>, Period)> {
    let all: Vec<(usize, &str)> = words(folded).collect();
    let pairs = all.windows(2).filter_map(|pair| {
        let [(from, first), (at, second)] = pair else {
            return None;
        };
        let unit = match *second {
            "week" => Unit::Week,
            "weekend" => Unit::Weekend,
            "month" => Unit::Month,
            _ => return None,
        };
        let later = match *first {
            "this" | "the" => 0,
            "next" | "following" | "coming" => 1,
            "last" | "previous" | "past" => -1,
            _ => return None,
        };
        Some((*from..at + second.len(), Period { unit, later }))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use jiff::civil::Weekday;

    use super::*;

    #[test]
    fn periods_have_bounds() {
        // A Thursday.
        let today: Date = "2026-11-19".parse().unwrap();
        let check = |text: &str, expected: &[&str]| {
            let found = periods(text)
                .into_iter()
                .flat_map(|(_, period)| period.bounds(today));
            let found: Vec<String> = found.take(2).map(|date| date.to_string()).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("this week", &["2026-11-16", "2026-11-22"]);
        check("the events of next week", &["2026-11-23", "2026-11-29"]);
        check("last month", &["2026-10-01", "2026-10-31"]);
        check("this weekend", &["2026-11-21", "2026-11-22"]);
        check("a week", &[]);
        assert_eq!(today.weekday(), Weekday::Thursday);
    }
}
