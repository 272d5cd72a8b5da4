//! Parses numbers as people and programs write them.
//!
//! Input: folded text (see `text`: without differences of case and spacing). Output: each number with every plausible
//! reading: `1,200` may be 1200 or 1.2, depending on the locale. Numbers are compared as decimal digits, never as
//! floating point.

use std::ops::Range;

use super::text::is_inside_word;

/// A decimal number without leading or trailing zeros: `-1200.5`.
pub(super) type Decimal = String;

/// A number in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberMatch {
    pub(super) at: Range<usize>,
    /// Possible values; the English reading, as in `1,200.50`, comes first.
    pub(super) readings: Vec<Decimal>,
    /// Whether a percent sign follows.
    pub(super) is_percent: bool,
}

/// Finds every number in a folded text.
pub(super) fn number_matches(text: &str) -> Vec<NumberMatch> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(u8::is_ascii_digit))
    {
        let from = at + offset;
        let to = end_of_number(bytes, from);
        at = to;
        if !is_own_word(text, from, to) {
            at = skip_word(text, to);
            continue;
        }
        let written = text.get(from..to).unwrap_or_default();
        let is_negative = is_minus(text, from);
        let mut readings = readings(written);
        if is_negative {
            readings.iter_mut().for_each(|reading| reading.insert(0, '-'));
        }
        if let Some(factor) = multiplier(text, to) {
            let times = readings.first().and_then(|reading| shift(reading, factor));
            readings.extend(times);
        }
        let is_percent = text
            .get(to..)
            .is_some_and(|rest| rest.trim_start().starts_with('%'));
        found.push(NumberMatch {
            at: from..to,
            readings,
            is_percent,
        });
        // `1 200`: digits followed by groups of three are also read as one number.
        let last = found.len() - 1;
        if let Some(grouped) = grouped(bytes, from, to)
            && let Some(number_match) = found.get_mut(last)
        {
            number_match.readings.push(grouped);
        }
    }
    found
}

/// Parses a value that consists of a number, in the notation of JSON or of tools: `1200.50`, `$1,200`, `1e3`. `None` if
/// it is not a number.
pub(super) fn value(text: &str) -> Option<Decimal> {
    let bare = text.trim();
    let bare = bare.trim_matches(|c: char| "$€£¥₹ ".contains(c));
    let (sign, digits) = match bare.strip_prefix('-') {
        Some(digits) => ("-", digits.trim_start_matches(['$', '€', '£'])),
        None => ("", bare),
    };
    if digits.contains(['e', 'E']) && digits.starts_with(|c: char| c.is_ascii_digit()) {
        let number: f64 = digits.parse().ok()?;
        return canonical(&format!("{sign}{number}"));
    }
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    // `02134` is a code: its leading zero is significant.
    let is_code = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if !is_number || is_code {
        return None;
    }
    let reading = readings(digits).into_iter().next()?;
    canonical(&format!("{sign}{reading}"))
}

/// Returns the value of an English number word such as "twelve"; `None` for any other word.
pub(super) fn word_value(word: &str) -> Option<u32> {
    const ONES: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 8] = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    let ones = |word: &str| ONES.iter().position(|one| *one == word);
    let tens = |word: &str| TENS.iter().position(|ten| *ten == word).map(|at| (at + 2) * 10);
    let value = match word.split_once('-') {
        Some((first, second)) => tens(first)? + ones(second).filter(|one| (1..10).contains(one))?,
        None => ones(word).or_else(|| tens(word)).or(match word {
            "dozen" => Some(12),
            "hundred" => Some(100),
            "thousand" => Some(1_000),
            _ => None,
        })?,
    };
    u32::try_from(value).ok()
}

/// Adds two decimals exactly; `None` if either has more than 12 integer or 6 fractional digits.
pub(super) fn add(left: &str, right: &str) -> Option<Decimal> {
    let sum = scaled(left)?.checked_add(scaled(right)?)?;
    canonical(&format!(
        "{}{}.{:06}",
        if sum < 0 { "-" } else { "" },
        sum.unsigned_abs() / SCALE,
        sum.unsigned_abs() % SCALE
    ))
}

const SCALE: u64 = 1_000_000;

fn scaled(decimal: &str) -> Option<i64> {
    let (sign, digits) = match decimal.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, decimal),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > 12 || fraction.len() > 6 {
        return None;
    }
    let scaled: i64 = format!("{whole}{fraction:0<6}").parse().ok()?;
    Some(sign * scaled)
}

fn end_of_number(bytes: &[u8], from: usize) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut to = from;
    loop {
        match bytes.get(to) {
            Some(b'0'..=b'9') => to += 1,
            Some(b'.' | b',' | b'\'') if is_digit(to + 1) => to += 1,
            _ => return to,
        }
    }
}

/// Returns true if the digits are a number, not part of a name. A unit of up to four letters may follow: `20th`, `8am`,
/// `30kg`.
fn is_own_word(text: &str, from: usize, to: usize) -> bool {
    let before = text.get(..from).and_then(|before| before.chars().next_back());
    if before.is_some_and(|c| is_inside_word(c) || c == '_') {
        return false;
    }
    let rest = text.get(to..).unwrap_or_default();
    let letters = rest
        .chars()
        .take_while(|c| is_inside_word(*c) || *c == '_')
        .take(5);
    letters.clone().count() <= 4 && letters.into_iter().all(char::is_alphabetic)
}

fn skip_word(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let length: usize = rest
        .chars()
        .take_while(|c| is_inside_word(*c) || *c == '_')
        .map(char::len_utf8)
        .sum();
    at + length
}

/// Returns true if a minus sign precedes the number. In `2024-05` the hyphen follows a digit and is not one.
fn is_minus(text: &str, from: usize) -> bool {
    let Some(head) = text.get(..from) else {
        return false;
    };
    let head = head.trim_end_matches(['$', '€', '£']);
    let Some(before) = head.strip_suffix('-') else {
        return false;
    };
    before.chars().next_back().is_none_or(|c| !is_inside_word(c))
}

fn readings(written: &str) -> Vec<Decimal> {
    let plain = |group: &str, point: &str| {
        let text = written
            .replace(['\'', ' '], "")
            .replace(group, "")
            .replace(point, ".");
        canonical(&text)
    };
    // English `1,200.50` first, then European `1.200,50`. A single separator before three digits is read both ways.
    let english = well_grouped(written, ',', '.').then(|| plain(",", "."));
    let european = well_grouped(written, '.', ',').then(|| plain(".", ","));
    let mut readings: Vec<Decimal> = [english, european].into_iter().flatten().flatten().collect();
    readings.dedup();
    if readings.is_empty() {
        // A list without blanks: `1,2,3`.
        readings.extend(written.split([',', '.', '\'']).filter_map(canonical));
    }
    readings
}

fn well_grouped(written: &str, group: char, point: char) -> bool {
    let (whole, fraction) = match written.rsplit_once(point) {
        Some((whole, fraction)) => (whole, fraction),
        None => (written, ""),
    };
    if whole.contains(point) || fraction.contains([group, '\'']) {
        return false;
    }
    let mut groups = whole.split([group, '\'']);
    let first = groups.next().unwrap_or_default();
    let is_grouped = whole.contains([group, '\'']);
    (!is_grouped || (1..=3).contains(&first.len())) && groups.all(|group| group.len() == 3)
}

fn grouped(bytes: &[u8], from: usize, to: usize) -> Option<Decimal> {
    if to - from > 3 {
        return None;
    }
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = to;
    let mut digits = bytes.get(from..to)?.to_vec();
    while bytes.get(end) == Some(&b' ') && (1..=3).all(|by| is_digit(end + by)) && !is_digit(end + 4) {
        digits.extend(bytes.get(end + 1..end + 4)?);
        end += 4;
    }
    let text = String::from_utf8(digits).ok()?;
    (end > to).then(|| canonical(&text)).flatten()
}

fn multiplier(text: &str, to: usize) -> Option<usize> {
    let rest = text.get(to..)?;
    let unit: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphabetic())
        .take(9)
        .collect();
    match unit.as_str() {
        "k" | "thousand" => Some(3),
        "million" | "mio" => Some(6),
        _ => None,
    }
}

/// Moves the decimal point to the right; `None` if the number has more than `places` fractional digits.
fn shift(decimal: &str, places: usize) -> Option<Decimal> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if fraction.len() > places {
        return None;
    }
    canonical(&format!("{whole}{fraction:0<places$}"))
}

/// Converts a percentage to a fraction: `50` becomes `0.5`. `None` if `decimal` is not a number.
pub(super) fn share(decimal: &str) -> Option<Decimal> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let whole = format!("{whole:0>3}");
    let (head, tail) = whole.split_at_checked(whole.len().checked_sub(2)?)?;
    canonical(&format!("{head}.{tail}{fraction}"))
}

fn canonical(text: &str) -> Option<Decimal> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.') && digits.matches('.').count() <= 1;
    if !is_plain || digits.is_empty() {
        return None;
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if whole == "0" && fraction.is_empty() {
        ""
    } else {
        sign
    };
    Some(match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    })
}
