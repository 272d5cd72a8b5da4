//! Host names that stand for others: `xn--80ak6aa92e.com`, and what is shown instead of it elsewhere (RFC 3492).
//!
//! Enters: a host name. Leaves: its labels as they are meant, or nothing where one of them means nothing.
//! Deliberately absent: writing such names.

const BASE: u32 = 36;
const SMALLEST: u32 = 1;
const LARGEST: u32 = 26;
/// The first code point that is not ASCII.
const FIRST: u32 = 0x80;

/// Whether a label of a host stands for another one.
pub(super) fn is_disguised(label: &str) -> bool {
    meant(label).is_some_and(|rest| !rest.is_empty())
}

/// The host as it is meant; nothing when a label of it cannot be read.
pub(super) fn read_host(host: &str) -> Option<String> {
    let label = |label| match meant(label) {
        Some(rest) => read(rest),
        None => Some(String::from(label)),
    };
    let labels: Option<Vec<String>> = host.split('.').map(label).collect();
    labels.map(|labels| labels.join("."))
}

fn meant(label: &str) -> Option<&str> {
    let (prefix, rest) = label.split_at_checked(4)?;
    prefix.eq_ignore_ascii_case("xn--").then_some(rest)
}

fn read(label: &str) -> Option<String> {
    let (plain, coded) = label.rsplit_once('-').unwrap_or(("", label));
    let mut read: Vec<char> = plain.chars().collect();
    let mut digits = coded.chars();
    let (mut code, mut at, mut bias) = (FIRST, 0u32, 72);
    while !digits.as_str().is_empty() {
        let before = at;
        let mut weight = 1u32;
        for step in (BASE..).step_by(36) {
            let digit = digits.next()?.to_digit(36)?;
            // Letters come first here, and then figures.
            let digit = (digit + 26) % 36;
            at = at.checked_add(digit.checked_mul(weight)?)?;
            let threshold = step.saturating_sub(bias).clamp(SMALLEST, LARGEST);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
        }
        let length = u32::try_from(read.len()).ok()?.checked_add(1)?;
        bias = adapt(at - before, length, before == 0);
        code = code.checked_add(at / length)?;
        at %= length;
        read.insert(usize::try_from(at).ok()?, char::from_u32(code)?);
        at += 1;
    }
    Some(read.into_iter().collect())
}

fn adapt(distance: u32, length: u32, is_first: bool) -> u32 {
    let mut distance = if is_first { distance / 700 } else { distance / 2 };
    distance += distance / length;
    let mut bias = 0;
    while distance > (BASE - SMALLEST) * LARGEST / 2 {
        distance /= BASE - SMALLEST;
        bias += BASE;
    }
    bias + (BASE - SMALLEST + 1) * distance / (distance + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, meant: Option<&str>) {
        assert_eq!(read_host(host).as_deref(), meant, "`{host}`");
    }

    #[test]
    fn reads_what_a_host_means() {
        check("xn--80ak6aa92e.com", Some("аррӏе.com"));
        check("xn--cme-5cd.com", Some("аcme.com"));
        check("mail.XN--P1AI", Some("mail.рф"));
        check("xn--mnchen-3ya.de", Some("münchen.de"));
        check("xn--bcher-kva.example", Some("bücher.example"));
        check("xn--fiqs8s", Some("中国"));
        check("xn--r8jz45g.xn--zckzah", Some("例え.テスト"));
        check("acme.com", Some("acme.com"));
        check("xn--a", Some("\u{80}"));
        for broken in ["xn--99999999", "xn--ü", "xn--0"] {
            check(broken, None);
        }
    }

    proptest::proptest! {
        #[test]
        fn reads_anything_without_harm(host in "(xn--)?[a-z0-9.ü-]{0,80}") {
            let _ = read_host(&host);
        }
    }
}
