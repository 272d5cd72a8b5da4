//! Parses and formats durations for people.

use std::time::Duration;

use countersign::time::Time;

/// Longest accepted duration. Longer ones are reduced to this value, because they could overflow a clock.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Parses a duration of at most [`LONGEST`]. A bare number is seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let duration = seconds.or_else(|| countersign::duration::parse(text));
    match duration {
        Some(duration) => Ok(duration.min(LONGEST)),
        None => Err(format!(
            "`{text}` is not a duration; write `30s`, `5m` or `1h30m`"
        )),
    }
}

/// Returns the longest duration that [`parse`] returns, 366 days.
pub fn longest() -> Duration {
    LONGEST
}

/// Formats a duration with its two largest units: `4m 12s`, `2h 5m`, `3d 4h`, `9s`.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// Formats the distance to a moment in the past or future: `3m ago`, `in 4m 12s`.
pub fn show_relative(moment: Time, now: Time) -> String {
    match moment > now {
        true => format!("in {}", show(moment.since(now))),
        false => format!("{} ago", show(now.since(moment))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("7"), Ok(Duration::from_secs(7)));
        assert_eq!(parse("1000d"), Ok(LONGEST));
        assert_eq!(parse("18446744073709551615"), Ok(LONGEST));
        for bad in ["", "s", "-1s", "-1", "1.5", "99999999999999999999"] {
            assert!(parse(bad).is_err(), "`{bad}`");
        }
    }

    #[test]
    fn shows_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (252, "4m 12s"),
            (7_500, "2h 5m"),
            (273_600, "3d 4h"),
        ] {
            assert_eq!(show(Duration::from_secs(seconds)), text);
        }
    }
}
