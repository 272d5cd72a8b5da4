//! Moments, and the clocks that tell them.
//!
//! Only a store's clock decides about expiry. It never goes back, and it never stands still while the process
//! lives: a wall clock that was set back is carried on by the monotonic one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment on a store's clock: microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// A moment so many microseconds after 1970 began.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Microseconds since 1970 began.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment `duration` later; the far end of time when that is beyond it.
    pub fn plus(self, duration: Duration) -> Time {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(micros))
    }

    /// How long ago `earlier` was; nothing when it is not in the past.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 with milliseconds, as in every JSON answer.
impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.written() {
            Some(text) => f.write_str(std::str::from_utf8(&text).unwrap_or_default()),
            None => match jiff::Timestamp::from_microsecond(self.0) {
                Ok(timestamp) => write!(f, "{timestamp:.3}"),
                Err(_) => write!(f, "{}µs", self.0),
            },
        }
    }
}

impl Time {
    /// `2026-01-31T09:30:00.000Z`, for the years from 1970 to 9999. An answer has half a dozen moments, and a calendar
    /// that knows every time zone is slow at them.
    fn written(self) -> Option<[u8; 24]> {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        let millis = u64::try_from(self.0).ok()? / 1000;
        let (year, month, day) = date(millis / DAY)?;
        let left = millis % DAY;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let fields = [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, left / 3_600_000),
            (14..16, left / 60_000 % 60),
            (17..19, left / 1000 % 60),
            (20..23, left % 1000),
        ];
        for (place, mut number) in fields {
            for digit in text.get_mut(place)?.iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).ok()?;
                number /= 10;
            }
        }
        Some(text)
    }
}

/// Year, month and day so many days after 1970 began, by the Gregorian calendar; nothing from the year 10000 on.
///
/// Years are counted from March, so that the day that is not always there is the last one.
fn date(days: u64) -> Option<(u64, u64, u64)> {
    const FOUR_CENTURIES: u64 = 146_097;
    // From the first of March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    (year < 10_000).then_some((year, month, day))
}

/// Reads what is displayed, and any other RFC 3339 text.
impl std::str::FromStr for Time {
    type Err = BadTime;
    fn from_str(text: &str) -> Result<Time, BadTime> {
        let timestamp: jiff::Timestamp = text.parse().map_err(|_| BadTime(text.to_owned()))?;
        Ok(Time(timestamp.as_microsecond()))
    }
}

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time like 2026-01-31T09:30:00Z")]
pub struct BadTime(pub String);

/// Tells the time to a store.
pub trait Clock: Send + Sync + 'static {
    /// The present moment; never earlier than any moment told before.
    fn now(&self) -> Time;
}

/// The machine's clock, kept from going back.
#[derive(Debug)]
pub struct SystemClock(Mutex<(Instant, Time)>);

impl SystemClock {
    /// Starts at the present, or at `floor` when the wall clock is behind it.
    pub fn starting_at(floor: Time) -> SystemClock {
        SystemClock(Mutex::new((Instant::now(), floor.max(wall()))))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::starting_at(Time(0))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let instant = Instant::now();
        let carried_on = last.1.plus(instant.duration_since(last.0));
        let now = carried_on.max(wall());
        *last = (instant, now);
        now
    }
}

fn wall() -> Time {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Time(0).plus(since),
        Err(_) => Time(0),
    }
}

/// A clock moved by hand, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `time`.
    pub fn at(time: Time) -> ManualClock {
        ManualClock(AtomicI64::new(time.0))
    }

    /// Jumps, also back: what another machine's clock may do.
    pub fn set(&self, time: Time) {
        self.0.store(time.0, Ordering::SeqCst);
    }

    /// Moves on.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x47_the_clock_never_goes_back_and_never_stands_still() {
        let future = wall().plus(Duration::from_secs(3600));
        let clock = SystemClock::starting_at(future);
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        let second = clock.now();
        assert!(first >= future);
        assert!(second > first, "a floor in the future does not freeze time");
    }

    #[test]
    fn shows_rfc_3339() {
        assert_eq!(
            Time::from_micros(1_794_776_400_123_456).to_string(),
            "2026-11-15T21:00:00.123Z"
        );
    }

    /// Days from 1970 to beyond the year 9999, somewhere within and at their last moment.
    #[test]
    fn shows_what_the_calendar_shows() {
        const DAY: i64 = 24 * 3600 * 1_000_000;
        for day in (0..8032 * 366).step_by(101) {
            let micros = day * DAY + (day % 97) * DAY / 97 + 999;
            for micros in [micros, (day + 1) * DAY - 1] {
                if let Ok(timestamp) = jiff::Timestamp::from_microsecond(micros) {
                    assert_eq!(Time(micros).to_string(), format!("{timestamp:.3}"));
                }
            }
        }
        assert_eq!(Time(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_what_it_shows() {
        let shown = Time::from_micros(1_794_776_400_123_000);
        assert_eq!(shown.to_string().parse(), Ok(shown));
        assert_eq!(
            "2026-11-15T22:00:00+01:00".parse(),
            Ok(Time::from_micros(1_794_776_400_000_000))
        );
        for bad in ["", "now", "2026-11-15", "2026-11-15T21:00:00"] {
            assert_eq!(bad.parse::<Time>(), Err(BadTime(bad.to_owned())));
        }
    }
}
