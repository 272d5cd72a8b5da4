//! Parses and formats durations for people.

use std::time::Duration;

use countersign::time::Time;

/// Maximum duration; larger ones may overflow clocks.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Parses `30s`, `5m`, `2h`, `1d`, `500ms`, or several of them: `1h30m`. A bare number is seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a duration; write `30s`, `5m` or `1h30m`");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds).min(LONGEST));
    }
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits).ok_or_else(bad)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters).ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(bad()),
        };
        let part = number.checked_mul(millis).ok_or_else(bad)?;
        total = total.saturating_add(Duration::from_millis(part));
        rest = after.trim_start();
    }
    Ok(total.min(LONGEST))
}

/// Returns the maximum duration.
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
        for (text, millis) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("500ms", 500),
            ("2d", 172_800_000),
            ("7", 7_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "`{text}`");
        }
        for bad in ["", "s", "5x", "-1s", "1.5s", "99999999999999999999s", "5m3"] {
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
