//! Conversion of JSON numbers to native types, with a flag for lost precision.

/// A JSON number, in the first of these types that can hold it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// Fits into a signed 64-bit integer. This type is tried first, because mixing signed and unsigned numbers breaks
    /// arithmetic in conditions.
    Int(i64),
    /// Fits into an unsigned 64-bit integer.
    UInt(u64),
    /// Any other number. `is_faithful` is true if the float prints as the same decimal number as written.
    Float { value: f64, is_faithful: bool },
}

impl Number {
    /// Converts a number that the scanner accepted.
    pub(crate) fn read(raw: &str) -> Number {
        if let Ok(number) = raw.parse() {
            return Number::Int(number);
        }
        if let Ok(number) = raw.parse() {
            return Number::UInt(number);
        }
        let value: f64 = raw.parse().unwrap_or(f64::NAN);
        let is_faithful = value.is_finite() && decimal(raw) == decimal(&format!("{value:e}"));
        Number::Float { value, is_faithful }
    }
}

/// Splits a number into its sign (true if negative), significant digits, and the decimal exponent of the last digit.
pub(super) fn decimal(text: &str) -> (bool, String, i64) {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let dropped = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    // An exponent that is out of range is replaced with the extreme of its sign, so that it differs from its opposite.
    let exponent: i64 = exponent.parse().unwrap_or(match exponent.starts_with('-') {
        true => i64::MIN,
        false => i64::MAX,
    });
    let shift = dropped as i64 - fraction.len() as i64;
    (
        is_negative,
        significant.to_owned(),
        exponent.saturating_add(shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: Number) {
        assert_eq!(Number::read(raw), expected, "{raw}");
    }

    #[test]
    fn exponents_beyond_any_number_differ_from_their_opposite() {
        let (large, small) = (
            decimal("1e99999999999999999999"),
            decimal("1e-99999999999999999999"),
        );
        assert_ne!(large, small);
        assert_eq!(large, decimal("1E+99999999999999999999"));
    }

    #[test]
    fn m3_numbers_are_exact_or_said_not_to_be() {
        let float = |value, is_faithful| Number::Float { value, is_faithful };
        check("9007199254740993", Number::Int(9_007_199_254_740_993));
        check("-9223372036854775808", Number::Int(i64::MIN));
        check("18446744073709551615", Number::UInt(u64::MAX));
        check("18446744073709551616", float(18_446_744_073_709_551_616.0, false));
        check("0.1", float(0.1, true));
        check("-12.50", float(-12.5, true));
        check("1e2", float(100.0, true));
        check("0.00", float(0.0, true));
        check("9007199254740993.0", float(9_007_199_254_740_992.0, false));
        check("1e400", float(f64::INFINITY, false));
        check("1e-99999999999999999999", float(0.0, false));
    }
}
