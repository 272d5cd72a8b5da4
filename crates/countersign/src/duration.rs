//! Parses durations as people write them in policies, settings and options.

use std::time::Duration;

/// Parses `30s`, `5m`, `2h`, `1d` or `500ms`, or several of them: `1h30m` or `1h 30m`. Each number is an integer
/// followed by its unit. Returns `None` for anything else, and for a duration of 2⁶⁴ milliseconds or more.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(millis)?;
        total = total.checked_add(part)?;
        rest = after.trim_start();
    }
    Some(Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, millis: Option<u64>) {
        assert_eq!(parse(text), millis.map(Duration::from_millis), "`{text}`");
    }

    #[test]
    fn reads_durations() {
        check("0s", Some(0));
        check("500ms", Some(500));
        check("90s", Some(90_000));
        check("5m", Some(300_000));
        check("2d", Some(172_800_000));
        check("1h30m", Some(5_400_000));
        check(" 1h 30m ", Some(5_400_000));
        check("2d1h", Some(176_400_000));
        check("30m1h", Some(5_400_000));
        check("5m5m", Some(600_000));
        for wrong in [
            "",
            " ",
            "5",
            "m",
            "s",
            "5 m",
            "5x",
            "-5m",
            "-1s",
            "+5m",
            "1.5h",
            "5M",
            "5m3",
            "5 minutes",
        ] {
            check(wrong, None);
        }
        check("18446744073709551615ms", Some(u64::MAX));
        check("18446744073709551615ms1ms", None);
        check("99999999999999999999s", None);
        check("999999999999999999d", None);
    }
}
