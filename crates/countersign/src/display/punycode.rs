//! Punycode host names such as `xn--80ak6aa92e.com` (RFC 3492).
//!
//! Input: a host name. Output: the name decoded to Unicode or encoded in ASCII; `None` if that is impossible. Case
//! folding and registry rules are not applied, because the results are only shown, never looked up.

const BASE: u32 = 36;
const SMALLEST: u32 = 1;
const LARGEST: u32 = 26;
/// First code point beyond ASCII.
const FIRST: u32 = 0x80;

/// Returns true if a label of a host name is encoded in Punycode (`xn--…`).
pub(super) fn is_disguised(label: &str) -> bool {
    meant(label).is_some_and(|rest| !rest.is_empty())
}

/// Decodes a host to Unicode; `None` if a label is malformed.
pub(super) fn read_host(host: &str) -> Option<String> {
    let label = |label| match meant(label) {
        Some(rest) => read(rest),
        None => Some(String::from(label)),
    };
    let labels: Option<Vec<String>> = host.split('.').map(label).collect();
    labels.map(|labels| labels.join("."))
}

/// Encodes a host in ASCII; `None` if a label cannot be encoded, such as one that is too long.
pub(super) fn write_host(host: &str) -> Option<String> {
    let label = |label: &str| match label.is_ascii() {
        true => Some(label.to_owned()),
        false => write(&label.to_lowercase()).map(|written| format!("xn--{written}")),
    };
    let labels: Option<Vec<String>> = host.split('.').map(label).collect();
    labels.map(|labels| labels.join("."))
}

/// Maximum length of a label that is encoded, in characters; DNS allows 63 bytes.
const LONGEST_LABEL: usize = 63;

fn write(label: &str) -> Option<String> {
    let characters: Vec<u32> = label.chars().map(u32::from).collect();
    if characters.len() > LONGEST_LABEL {
        return None;
    }
    let mut written: String = label.chars().filter(char::is_ascii).collect();
    let plain = u32::try_from(written.len()).ok()?;
    if plain > 0 {
        written.push('-');
    }
    let (mut code, mut distance, mut bias, mut done) = (FIRST, 0u32, 72, plain);
    while usize::try_from(done).ok()? < characters.len() {
        let next = characters.iter().copied().filter(|c| *c >= code).min()?;
        distance = distance.checked_add((next - code).checked_mul(done + 1)?)?;
        code = next;
        for character in &characters {
            if *character < code {
                distance = distance.checked_add(1)?;
            }
            if *character != code {
                continue;
            }
            let mut rest = distance;
            for step in (BASE..).step_by(36) {
                let threshold = step.saturating_sub(bias).clamp(SMALLEST, LARGEST);
                if rest < threshold {
                    break;
                }
                written.push(digit(threshold + (rest - threshold) % (BASE - threshold))?);
                rest = (rest - threshold) / (BASE - threshold);
            }
            written.push(digit(rest)?);
            bias = adapt(distance, done + 1, done == plain);
            distance = 0;
            done += 1;
        }
        distance = distance.checked_add(1)?;
        code = code.checked_add(1)?;
    }
    Some(written)
}

/// Returns the Punycode digit for a value: 0 to 25 are letters, 26 to 35 are the digits 0 to 9. `None` for a larger
/// value.
fn digit(value: u32) -> Option<char> {
    char::from_digit((value + 10) % BASE, BASE)
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
            // In Punycode, letters come before the digits 0 to 9.
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

    #[test]
    fn writes_what_it_reads() {
        for host in [
            "xn--80ak6aa92e.com",
            "mail.xn--p1ai",
            "xn--mnchen-3ya.de",
            "xn--bcher-kva.example",
            "xn--fiqs8s",
            "xn--r8jz45g.xn--zckzah",
        ] {
            let meant = read_host(host).unwrap();
            assert_eq!(write_host(&meant).as_deref(), Some(host), "{meant}");
        }
        assert_eq!(write_host(&"\u{fc}".repeat(64)), None);
    }

    proptest::proptest! {
        #[test]
        fn x16_what_is_written_reads_as_the_same(label in "[a-z\u{e4}\u{430}-\u{44f}\u{4e00}-\u{4eff}]{0,20}[\u{430}-\u{44f}]") {
            let written = write_host(&label).unwrap();
            proptest::prop_assert_eq!(read_host(&written), Some(label));
        }

        #[test]
        fn reads_anything_without_harm(host in "(xn--)?[a-z0-9.ü-]{0,80}") {
            let _ = read_host(&host);
        }
    }
}
