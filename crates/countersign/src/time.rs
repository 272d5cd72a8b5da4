//! Points in time, and the clocks of stores.
//!
//! Only a store's clock decides about expiry. Its time never goes back, and never stands still while the process lives:
//! if the system clock is set back, the monotonic clock carries on. The store's clock does not follow a system clock
//! that jumps far ahead either, unless it stays there: a short error must not expire every token.
//!
//! A process that starts cannot tell from one clock whether the store was unused for days or the clock is wrong. So a
//! store keeps an [`Anchor`]: its time at a moment of the clock that counts since boot, which cannot be set. Until the
//! next boot, every process can compute from the anchor how much time has passed. Without an anchor the system clock is
//! followed, because expired approvals must be refused, but for ten minutes nothing is ended permanently because of it
//! ([`Clock::certain`]).

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::stopwatch::{self, COUNTS_SLEEP};

/// A moment on a store's clock: microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// Returns the moment `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the moment `duration` later; saturates at the latest representable time.
    pub fn plus(self, duration: Duration) -> Time {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(micros))
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Formats as RFC 3339 with milliseconds, as in every JSON response.
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
    /// Formats like `2026-01-31T09:30:00.000Z`; `None` outside the years 1970 to 9999. Written by hand because
    /// responses contain several times, and a library that knows every time zone is slow at this.
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

/// Returns the Gregorian year, month and day of the given day since 1970; `None` from the year 10000 on.
///
/// Years are counted from March, so that the leap day is the last day of a year.
fn date(days: u64) -> Option<(u64, u64, u64)> {
    const FOUR_CENTURIES: u64 = 146_097;
    // Days since the first of March of the year 0.
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

/// Parses RFC 3339, which includes the format of `Display`.
impl std::str::FromStr for Time {
    type Err = BadTime;
    fn from_str(text: &str) -> Result<Time, BadTime> {
        let timestamp: jiff::Timestamp = text.parse().map_err(|_| BadTime(text.to_owned()))?;
        Ok(Time(timestamp.as_microsecond()))
    }
}

/// Error for a text that is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time like 2026-01-31T09:30:00Z")]
pub struct BadTime(pub String);

/// Clock of a store.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time, never earlier than a time returned before.
    fn now(&self) -> Time;

    /// Returns the latest time that has certainly passed; never after [`Clock::now`]. An approval that has expired by
    /// then may be ended permanently. One that has expired only by [`Clock::now`] is refused, but becomes usable again
    /// if the clock turns out to be wrong.
    fn certain(&self) -> Time {
        self.now()
    }

    /// Returns the detected fault of the clock; `None` if there is none.
    fn trouble(&self) -> Option<ClockTrouble> {
        None
    }

    /// Returns the anchor that the store must save for later processes; `None` if the saved one is still good, or if
    /// there is nothing to save.
    fn to_keep(&self) -> Option<Anchor> {
        None
    }

    /// Notifies the clock that the store has saved the anchor.
    fn kept(&self, _: Anchor) {}
}

/// The store's time at one reading of the clock that counts since boot. Until the machine boots again, every process
/// can compute from the anchor how much time has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Identifier of the current boot.
    boot: String,
    /// Time since boot, including sleep.
    passed: Duration,
    /// Store time at that moment.
    time: Time,
    /// Present while the system clock is not confirmed.
    doubt: Option<Doubt>,
}

/// A jump of the system clock that is followed but not confirmed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    /// Time since boot when the doubt began.
    since: Duration,
    /// Latest time that was certain at that moment.
    certain: Time,
}

impl Anchor {
    /// Anchors `time` to the present moment of this machine; `None` if the machine has no clock that counts sleep.
    pub fn now(time: Time) -> Option<Anchor> {
        Some(Anchor {
            boot: stopwatch::boot()?,
            passed: stopwatch::now(),
            time,
            doubt: None,
        })
    }

    /// Returns the current time according to this anchor; `None` if the machine has booted since.
    fn time_at(&self, machine: &Machine) -> Option<Time> {
        let is_same = machine.boot.as_ref() == Some(&self.boot) && self.passed <= machine.passed;
        is_same.then(|| self.time.plus(machine.passed.saturating_sub(self.passed)))
    }
}

/// Format in which stores save anchors.
impl std::fmt::Display for Anchor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (boot, passed, time) = (&self.boot, self.passed.as_micros(), self.time.0);
        write!(f, "1 {boot} {passed} {time}")?;
        match &self.doubt {
            None => Ok(()),
            Some(doubt) => write!(f, " {} {}", doubt.since.as_micros(), doubt.certain.0),
        }
    }
}

impl std::str::FromStr for Anchor {
    type Err = BadTime;
    fn from_str(text: &str) -> Result<Anchor, BadTime> {
        let bad = || BadTime(text.to_owned());
        let words: Vec<&str> = text.split(' ').collect();
        let passed = |word: &str| word.parse().map(Duration::from_micros).map_err(|_| bad());
        let time = |word: &str| word.parse().map(Time).map_err(|_| bad());
        let (boot, anchored, at, doubt) = match words.as_slice() {
            ["1", boot, anchored, at] => (boot, anchored, at, None),
            ["1", boot, anchored, at, since, certain] => (boot, anchored, at, Some((since, certain))),
            _ => return Err(bad()),
        };
        let doubt = match doubt {
            None => None,
            Some((since, certain)) => Some(Doubt {
                since: passed(since)?,
                certain: time(certain)?,
            }),
        };
        Ok(Anchor {
            boot: (*boot).to_owned(),
            passed: passed(anchored)?,
            time: time(at)?,
            doubt,
        })
    }
}

/// Fault of a clock: the system clock and the store's time are far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockTrouble {
    /// The system clock jumped ahead by this much. The store follows only after it has stayed there for ten minutes.
    JumpedAhead(Duration),
    /// The store's time is ahead of the system clock by this much, and continues from there.
    StoreIsAhead(Duration),
    /// The system clock is this far ahead of the last certain time, and may be wrong. The store follows it, but ends
    /// nothing permanently because of it until it has stayed there for ten minutes.
    Unconfirmed(Duration),
}

impl ClockTrouble {
    /// Returns advice for the operator.
    pub fn hint(self) -> &'static str {
        match self {
            ClockTrouble::JumpedAhead(_) => {
                "correct this machine's clock; if it is right, it is followed after ten minutes, or at once with `countersign clock --accept`"
            }
            ClockTrouble::StoreIsAhead(_) => {
                "set this machine's clock; if it is right, stop every service and run `countersign clock --reset`"
            }
            ClockTrouble::Unconfirmed(_) => {
                "if the clock is right, do nothing: it is followed after ten minutes, or at once with `countersign clock --accept`"
            }
        }
    }

    /// Returns the difference between the two clocks.
    pub fn apart(self) -> Duration {
        match self {
            ClockTrouble::JumpedAhead(apart)
            | ClockTrouble::StoreIsAhead(apart)
            | ClockTrouble::Unconfirmed(apart) => apart,
        }
    }
}

impl std::fmt::Display for ClockTrouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.apart().as_secs();
        match self {
            ClockTrouble::JumpedAhead(_) => write!(
                f,
                "this machine's clock jumped ahead by {seconds} s; the store's time does not follow yet"
            ),
            ClockTrouble::StoreIsAhead(_) => write!(
                f,
                "the store's time is {seconds} s ahead of this machine's clock; nothing is ended for good until they agree"
            ),
            ClockTrouble::Unconfirmed(_) => write!(
                f,
                "this machine's clock is {seconds} s ahead of what the store knew last, after a pause or because it is wrong; \
                 nothing is ended for good by it yet"
            ),
        }
    }
}

/// Largest jump ahead that is followed at once. A larger one could wrongly expire approvals, sessions and tokens.
pub const LARGEST_JUMP: Duration = Duration::from_secs(60 * 60);
/// Time after which a larger jump is followed: the clock was wrong before, or the machine was suspended.
const BELIEVED_AFTER: Duration = Duration::from_secs(10 * 60);

/// The system clock, prevented from going back and from jumping far ahead.
#[derive(Debug)]
pub struct SystemClock {
    last: Mutex<Last>,
    machine: fn() -> Machine,
}

/// Readings of the machine's clocks.
#[derive(Clone, Debug)]
struct Machine {
    wall: Time,
    /// Monotonic time since boot, including sleep.
    passed: Duration,
    /// Identifier of the current boot, if the system has one.
    boot: Option<String>,
}

#[derive(Debug)]
struct Last {
    told: Time,
    passed: Duration,
    /// Monotonic time at which the wall clock was first found too far ahead; `None` while it is not.
    ahead_since: Option<Duration>,
    doubt: Option<Doubt>,
    kept: Option<Anchor>,
}

impl SystemClock {
    /// Creates a clock that starts at the wall clock, or at `floor` if that is later.
    pub fn starting_at(floor: Time) -> SystemClock {
        SystemClock::over(machine, floor)
    }

    /// Creates a clock that continues a store's time: never before the store's last event, and according to its anchor,
    /// if there is one.
    pub fn resuming(last_event: Time, anchor: Option<Anchor>) -> SystemClock {
        SystemClock::resumed(machine, last_event, anchor)
    }

    fn over(machine: fn() -> Machine, floor: Time) -> SystemClock {
        let Machine { wall, passed, .. } = machine();
        let last = Last {
            told: floor.max(wall),
            passed,
            ahead_since: None,
            doubt: None,
            kept: None,
        };
        SystemClock {
            last: Mutex::new(last),
            machine,
        }
    }

    fn resumed(machine: fn() -> Machine, last_event: Time, anchor: Option<Anchor>) -> SystemClock {
        let clock = SystemClock::over(machine, last_event);
        let machine = machine();
        if machine.boot.is_some() {
            let mut last = clock.last();
            last.judge(&machine, last_event, anchor.as_ref());
            last.kept = anchor;
        }
        clock
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    /// Decides at the start of a process whether the wall clock is trusted.
    fn judge(&mut self, machine: &Machine, last_event: Time, anchor: Option<&Anchor>) {
        let (wall, passed) = (machine.wall, machine.passed);
        let by_anchor = anchor.and_then(|anchor| Some((anchor.time_at(machine)?, anchor.doubt)));
        if let Some((expected, doubt)) = by_anchor {
            let expected = expected.max(last_event);
            if wall > expected.plus(LARGEST_JUMP) {
                self.told = expected;
                self.ahead_since = Some(passed);
                self.doubt = doubt;
                return;
            }
            match doubt {
                None => return,
                // The wall clock stayed ahead, whether or not a process was running.
                Some(doubt) if wall.plus(LARGEST_JUMP) >= expected => {
                    let is_believed = passed.saturating_sub(doubt.since) >= BELIEVED_AFTER;
                    self.doubt = (!is_believed).then_some(doubt);
                    return;
                }
                // The wall clock was set back before it was confirmed: ignore the anchor's time.
                Some(_) => {}
            }
        }
        let known = anchor.map(|anchor| anchor.doubt.map_or(anchor.time, |doubt| doubt.certain));
        let known = known.unwrap_or(Time(0)).max(last_event);
        if known > Time(0) && wall > known.plus(LARGEST_JUMP) {
            self.doubt = Some(Doubt {
                since: passed,
                certain: known,
            });
        }
    }

    fn tell(&mut self, machine: &Machine) -> Time {
        let (wall, passed) = (machine.wall, machine.passed);
        let carried_on = self.told.plus(passed.saturating_sub(self.passed));
        let is_far_ahead = COUNTS_SLEEP && wall > carried_on.plus(LARGEST_JUMP);
        self.ahead_since = is_far_ahead.then(|| self.ahead_since.unwrap_or(passed));
        let has_stayed = |since: Duration| passed.saturating_sub(since) >= BELIEVED_AFTER;
        let is_believed = self.ahead_since.is_none_or(has_stayed);
        if is_believed {
            self.ahead_since = None;
        }
        let now = match is_believed {
            true => carried_on.max(wall),
            false => carried_on,
        };
        let agrees = wall.plus(LARGEST_JUMP) >= now && self.ahead_since.is_none();
        self.doubt = self.doubt.filter(|doubt| !agrees || !has_stayed(doubt.since));
        (self.told, self.passed) = (now, passed);
        now
    }

    fn certain(&mut self, machine: &Machine) -> Time {
        let now = self.tell(machine);
        let by_wall = match COUNTS_SLEEP {
            true => machine.wall.plus(LARGEST_JUMP),
            false => now,
        };
        let undoubted = self.doubt.map_or(now, |doubt| {
            doubt.certain.plus(machine.passed.saturating_sub(doubt.since))
        });
        now.min(by_wall).min(undoubted)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::starting_at(Time(0))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let mut last = self.last();
        last.tell(&(self.machine)())
    }

    fn certain(&self) -> Time {
        let mut last = self.last();
        last.certain(&(self.machine)())
    }

    fn trouble(&self) -> Option<ClockTrouble> {
        let mut last = self.last();
        let machine = (self.machine)();
        let (certain, told) = (last.certain(&machine), last.told);
        if last.ahead_since.is_some() {
            return Some(ClockTrouble::JumpedAhead(machine.wall.since(told)));
        }
        let behind = told.since(machine.wall);
        if behind > LARGEST_JUMP {
            return Some(ClockTrouble::StoreIsAhead(behind));
        }
        last.doubt.map(|_| ClockTrouble::Unconfirmed(told.since(certain)))
    }

    fn to_keep(&self) -> Option<Anchor> {
        let mut last = self.last();
        let machine = (self.machine)();
        let told = last.tell(&machine);
        let is_disputed = last.ahead_since.is_some() || told > machine.wall.plus(LARGEST_JUMP);
        let boot = machine.boot.clone().filter(|_| !is_disputed)?;
        let is_kept = last.kept.as_ref().is_some_and(|kept| {
            let time = kept.time_at(&machine);
            let apart = time.map(|time| time.since(told).max(told.since(time)));
            apart.is_some_and(|apart| apart < LARGEST_JUMP / 2) && kept.doubt == last.doubt
        });
        (!is_kept).then(|| Anchor {
            boot,
            passed: machine.passed,
            time: told,
            doubt: last.doubt,
        })
    }

    fn kept(&self, anchor: Anchor) {
        self.last().kept = Some(anchor);
    }
}

fn machine() -> Machine {
    Machine {
        wall: wall(),
        passed: stopwatch::now(),
        boot: stopwatch::boot(),
    }
}

fn wall() -> Time {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Time(0).plus(since),
        Err(_) => Time(0),
    }
}

/// A clock that is set and advanced explicitly, for tests.
pub struct ManualClock {
    now: AtomicI64,
    /// Upper limit of [`Clock::certain`].
    certain: AtomicI64,
    on_read: Mutex<Option<OnRead>>,
}

type OnRead = Box<dyn FnOnce() + Send>;

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({})", self.now.load(Ordering::SeqCst))
    }
}

impl ManualClock {
    /// Creates a clock set to `time`.
    pub fn at(time: Time) -> ManualClock {
        ManualClock {
            now: AtomicI64::new(time.0),
            certain: AtomicI64::new(i64::MAX),
            on_read: Mutex::default(),
        }
    }

    /// Calls `action` when the time is read next, in the thread that reads it.
    pub fn on_next_read(&self, action: impl FnOnce() + Send + 'static) {
        let mut on_read = self.on_read.lock().unwrap_or_else(PoisonError::into_inner);
        *on_read = Some(Box::new(action));
    }

    /// Jumps to `time`, which may be earlier, as another machine's clock may do.
    pub fn set(&self, time: Time) {
        self.now.store(time.0, Ordering::SeqCst);
    }

    /// Limits [`Clock::certain`] to `time`.
    pub fn doubt_after(&self, time: Time) {
        self.certain.store(time.0, Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.now.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        // Released before the action runs, which may read the time itself.
        let action = self.on_read.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(action) = action {
            action();
        }
        Time(self.now.load(Ordering::SeqCst))
    }

    fn certain(&self) -> Time {
        Time(self.now.load(Ordering::SeqCst)).min(Time(self.certain.load(Ordering::SeqCst)))
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

    /// A machine whose clocks are set by tests; each test has a thread of its own.
    mod moved {
        use std::cell::Cell;

        use super::*;

        thread_local! {
            static CLOCKS: Cell<(i64, u64)> = const { Cell::new((0, 0)) };
            static BOOT: Cell<u32> = const { Cell::new(1) };
        }

        pub fn machine() -> Machine {
            let (wall, passed) = CLOCKS.get();
            Machine {
                wall: Time(wall * 1_000_000),
                passed: Duration::from_secs(passed),
                boot: Some(BOOT.get().to_string()),
            }
        }

        /// Reboots the machine.
        pub fn boot() {
            BOOT.set(BOOT.get() + 1);
            CLOCKS.set((CLOCKS.get().0, 0));
        }

        /// Lets `seconds` pass, and also moves the wall clock by `step` seconds.
        pub fn pass(seconds: u64, step: i64) {
            let (wall, passed) = CLOCKS.get();
            CLOCKS.set((wall + i64::try_from(seconds).unwrap() + step, passed + seconds));
        }
    }

    const DAYS: i64 = 24 * 60 * 60;

    #[cfg(target_os = "linux")]
    #[test]
    fn x92_a_blip_is_not_followed_and_is_told() {
        moved::pass(0, 100 * DAYS);
        let clock = SystemClock::over(moved::machine, Time(0));
        let begin = clock.now();
        moved::pass(10, 32 * DAYS);
        assert_eq!(clock.now(), begin.plus(Duration::from_secs(10)));
        let ahead = Duration::from_secs(32 * 24 * 60 * 60);
        assert_eq!(clock.trouble(), Some(ClockTrouble::JumpedAhead(ahead)));
        moved::pass(500, -32 * DAYS);
        assert_eq!(clock.now(), begin.plus(Duration::from_secs(510)));
        assert_eq!(clock.trouble(), None);
        // A second jump is timed separately.
        moved::pass(10, 32 * DAYS);
        clock.now();
        moved::pass(300, 0);
        assert_eq!(clock.now(), begin.plus(Duration::from_secs(820)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn x92_a_jump_that_stays_is_followed_after_a_while() {
        moved::pass(0, 100 * DAYS);
        let clock = SystemClock::over(moved::machine, Time(0));
        let begin = clock.now();
        moved::pass(0, 32 * DAYS);
        clock.now();
        moved::pass(599, 0);
        assert_eq!(clock.now(), begin.plus(Duration::from_secs(599)));
        moved::pass(1, 0);
        let followed = begin.plus(Duration::from_secs(32 * 24 * 60 * 60 + 600));
        assert_eq!(clock.now(), followed);
        assert_eq!(clock.trouble(), None);
        // If the clock is set back later, that is reported, and the store's time continues.
        moved::pass(5, -32 * DAYS);
        assert_eq!(clock.now(), followed.plus(Duration::from_secs(5)));
        let ahead = Duration::from_secs(32 * 24 * 60 * 60);
        assert_eq!(clock.trouble(), Some(ClockTrouble::StoreIsAhead(ahead)));
    }

    /// Acts as a process that opens a store and writes: reads the anchor and saves a new one.
    fn open(last_event: Time, anchor: &mut Option<Anchor>) -> SystemClock {
        let clock = SystemClock::resumed(moved::machine, last_event, anchor.clone());
        if let Some(new) = clock.to_keep() {
            clock.kept(new.clone());
            assert_eq!(new.to_string().parse(), Ok(new.clone()));
            *anchor = Some(new);
        }
        clock
    }

    const ONE_DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn x92_a_process_that_starts_with_a_wrong_clock_does_not_follow_it() {
        moved::pass(0, 100 * DAYS);
        let mut anchor = None;
        let event = open(Time(0), &mut anchor).now();
        // The store is unused for three days, and the clock is right.
        moved::pass(3 * 86_400, 0);
        let clock = open(event, &mut anchor);
        assert_eq!(clock.now(), event.plus(ONE_DAY * 3));
        assert_eq!((clock.certain(), clock.trouble()), (clock.now(), None));
        // The clock is 32 days ahead for several short processes.
        moved::pass(60, 32 * DAYS);
        let before = anchor.clone();
        for _ in 0..3 {
            let clock = open(event, &mut anchor);
            assert!(clock.now().since(event) < ONE_DAY * 3 + Duration::from_secs(1_000));
            assert_eq!(clock.trouble(), Some(ClockTrouble::JumpedAhead(ONE_DAY * 32)));
            moved::pass(300, 0);
        }
        assert_eq!(anchor, before, "nothing is kept of it");
        // A process that stays follows after ten minutes, and its anchor makes others follow too.
        let service = open(event, &mut anchor);
        moved::pass(600, 0);
        service.now();
        assert_eq!(service.trouble(), None);
        anchor = service.to_keep();
        assert!(anchor.is_some());
        assert_eq!(open(event, &mut anchor).trouble(), None);
    }

    #[test]
    fn x92_after_the_machine_started_anew_nothing_is_ended_for_ten_minutes() {
        moved::pass(0, 100 * DAYS);
        let mut anchor = None;
        let event = open(Time(0), &mut anchor).now();
        moved::pass(60, 3 * DAYS);
        moved::boot();
        let clock = open(event, &mut anchor);
        // Expired approvals are refused.
        assert_eq!(clock.now().since(event), ONE_DAY * 3 + Duration::from_secs(60));
        assert_eq!(clock.certain(), event);
        assert!(matches!(clock.trouble(), Some(ClockTrouble::Unconfirmed(_))));
        // Other processes count from the start of the first one.
        moved::pass(599, 0);
        assert!(open(event, &mut anchor).trouble().is_some());
        moved::pass(1, 0);
        let clock = open(event, &mut anchor);
        assert_eq!((clock.certain(), clock.trouble()), (clock.now(), None));
        assert_eq!(open(event, &mut anchor).trouble(), None);
    }

    #[test]
    fn x92_a_clock_that_was_wrong_after_the_start_leaves_nothing_behind() {
        moved::pass(0, 100 * DAYS);
        let mut anchor = None;
        let event = open(Time(0), &mut anchor).now();
        moved::pass(60, 32 * DAYS);
        moved::boot();
        assert_eq!(open(event, &mut anchor).certain(), event);
        // The clock is corrected before ten minutes are over.
        moved::pass(60, -32 * DAYS);
        let clock = open(event, &mut anchor);
        assert_eq!(clock.now(), event.plus(Duration::from_secs(120)));
        assert_eq!((clock.certain(), clock.trouble()), (clock.now(), None));
        // A process that wrote at the wrong time left an event: the store is ahead, and still nothing is ended.
        let wrong = event.plus(ONE_DAY * 32);
        let clock = open(wrong, &mut anchor);
        assert!(matches!(clock.trouble(), Some(ClockTrouble::StoreIsAhead(_))));
        assert!(clock.certain() < event.plus(ONE_DAY));
    }

    /// F19: whatever the wall clock does, the store's time never goes back and never passes more slowly than real time.
    #[test]
    fn f19_steps_of_the_wall_clock_never_stretch_time() {
        const STEPS: [i64; 8] = [1, 60, 3_599, 3_601, DAYS, 32 * DAYS, 365 * DAYS, 0];
        let rounds: u32 = std::env::var("COUNTERSIGN_TEST_F19").map_or(10_000, |text| text.parse().unwrap());
        moved::pass(0, 10_000 * DAYS);
        let clock = SystemClock::over(moved::machine, Time(0));
        let (mut last, mut violations) = (clock.now(), 0);
        let mut random: u64 = 19;
        for _ in 0..rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let step = STEPS[usize::try_from(random >> 40).unwrap() % STEPS.len()];
            let passed = (random >> 33) % 1_000;
            moved::pass(passed, if random >> 63 == 0 { step } else { -step });
            let now = clock.now();
            violations += usize::from(now < last.plus(Duration::from_secs(passed)));
            last = now;
        }
        assert_eq!(violations, 0);
        println!("F19 clock rounds={rounds} violations={violations}");
    }

    #[test]
    fn shows_rfc_3339() {
        assert_eq!(
            Time::from_micros(1_794_776_400_123_456).to_string(),
            "2026-11-15T21:00:00.123Z"
        );
    }

    /// Checks a moment within the day and the last one, for days from 1970 to beyond the year 9999.
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
