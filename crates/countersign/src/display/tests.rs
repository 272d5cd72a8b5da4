use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(escape(text), expected, "{text:?}");
    assert_eq!(Escaped(text).to_string(), expected);
    assert_eq!(unescape(expected), text);
}

/// Reverses the escaping, to show that nothing was lost.
fn unescape(shown: &str) -> String {
    let mut text = String::new();
    let mut rest = shown;
    while let Some((plain, after)) = rest.split_once("\\u{") {
        let (inside, after) = after.split_once('}').unwrap();
        let (code, count) = inside.split_once('×').unwrap_or((inside, "1"));
        let character = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
        text.push_str(plain);
        text.extend(std::iter::repeat_n(character, count.parse().unwrap()));
        rest = after;
    }
    text + rest
}

#[test]
fn plain_text_is_left_alone() {
    check("", "");
    check(
        "Create contact Ana, ana@example.com",
        "Create contact Ana, ana@example.com",
    );
    check(r"C:\users\new <b>&amp;", r"C:\users\new <b>&amp;");
    check(
        "Jürgen Łukasz 東京　駅 مرحبا e\u{301} 😀",
        "Jürgen Łukasz 東京　駅 مرحبا e\u{301} 😀",
    );
    check("a   b", "a   b");
    assert!(matches!(escape("plain ascii"), Cow::Borrowed(_)));
}

#[test]
fn x15_control_characters_are_shown() {
    check("\u{1b}[2J\u{7}", r"\u{1b}[2J\u{7}");
    check("\u{1b}]8;;http://x\u{1b}\\", r"\u{1b}]8;;http://x\u{1b}\");
    check("\u{9b}31m\u{85}", r"\u{9b}31m\u{85}");
    check("ok\r\u{8}\u{7f}\n", r"ok\u{d}\u{8}\u{7f}\u{a}");
}

#[test]
fn x16_characters_that_hide_or_move_text_are_shown() {
    check("a\u{202e}b\u{2066}", r"a\u{202e}b\u{2066}");
    check("pay\u{200b}pal\u{feff}\u{ad}", r"pay\u{200b}pal\u{feff}\u{ad}");
    check("\u{e0041}\u{e007f}", r"\u{e0041}\u{e007f}");
    check(
        "\u{2028}\u{2029}\u{a0}\u{2003}",
        r"\u{2028}\u{2029}\u{a0}\u{2003}",
    );
    check(
        "\u{e000}\u{f8ff}\u{378}\u{ffff}",
        r"\u{e000}\u{f8ff}\u{378}\u{ffff}",
    );
    check(
        "\u{3164}\u{115f}\u{2800}\u{34f}\u{fe0f}",
        r"\u{3164}\u{115f}\u{2800}\u{34f}\u{fe0f}",
    );
}

#[test]
fn x103_of_all_code_points_no_invisible_one_is_shown_raw() {
    use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, WhiteSpace};
    use icu_properties::{CodePointMapData, CodePointSetData};
    let category = CodePointMapData::<GeneralCategory>::new();
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let space = CodePointSetData::new::<WhiteSpace>();
    // Characters that look blank although no Unicode property says so.
    let blank = [
        '\u{115f}',
        '\u{1160}',
        '\u{3164}',
        '\u{ffa0}',
        '\u{2800}',
        '\u{2d7f}',
        '\u{303f}',
        '\u{fffc}',
        '\u{1107f}',
        '\u{13441}',
        '\u{13442}',
        '\u{16fe4}',
        '\u{1d159}',
        '\u{1d173}',
        '\u{fff9}',
        '\u{fe00}',
        '\u{e0100}',
        '\u{1bca0}',
    ];
    let mut count = 0;
    for character in '\0'..=char::MAX {
        let is_hidden = matches!(
            category.get(character),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
                | GeneralCategory::PrivateUse
                | GeneralCategory::Surrogate
                | GeneralCategory::Unassigned
        );
        // An ordinary or ideographic space is recognisable as a space.
        let is_space = space.contains(character) && !matches!(character, ' ' | '\u{3000}');
        if !is_hidden && !is_space && !ignorable.contains(character) && !blank.contains(&character) {
            continue;
        }
        count += 1;
        // The character follows a base character, on which a mark would be drawn.
        let shown = escape(&format!("a{character}b")).into_owned();
        assert_eq!(shown, format!("a\\u{{{:x}}}b", u32::from(character)));
    }
    assert!(
        count > 900_000,
        "most code points are unassigned or private: {count}"
    );
}

#[test]
fn x103_of_all_code_points_every_mark_is_one() {
    use icu_properties::CodePointMapData;
    use icu_properties::props::{GeneralCategory, GeneralCategoryGroup as Group};
    let category = CodePointMapData::<GeneralCategory>::new();
    for character in '\0'..=char::MAX {
        let is_expected = Group::Mark.contains(category.get(character));
        assert_eq!(is_mark(character), is_expected, "{character:?}");
    }
}

#[test]
fn x16_nobody_can_write_a_false_escape() {
    check(r"\u{41}", r"\u{5c}u{41}");
    check(r"\\u{41}", r"\\u{5c}u{41}");
    check("\\\u{200b}", r"\\u{200b}");
    check(r"\u{20×9}", r"\u{5c}u{20×9}");
}

#[test]
fn x08_long_runs_are_counted() {
    check(&format!("a{}b", " ".repeat(4000)), r"a\u{20×4000}b");
    check("a    5", r"a\u{20×4}5");
    check(&"\n".repeat(4000), r"\u{a×4000}");
    check(" \u{3000}  x", r"\u{20}\u{3000}\u{20}\u{20}x");
    check(&"\u{3000}".repeat(9), r"\u{3000×9}");
    check("\n\n\n", r"\u{a}\u{a}\u{a}");
}

#[test]
fn x16_marks_cannot_pile_up() {
    check(
        &format!("a{}", "\u{301}".repeat(40)),
        &format!("a{}\\u{{301×36}}", "\u{301}".repeat(4)),
    );
    check("\u{338}a", r"\u{338}a");
    check("\n\u{338}a", r"\u{a}\u{338}a");
}

#[track_caller]
fn check_clip(text: &str, max_chars: usize, expected: &str) {
    assert_eq!(clip(text, max_chars).to_string(), expected);
}

#[test]
fn x08_long_values_show_size_head_and_tail() {
    check_clip("short", 5, "short");
    check_clip("0123456789", 6, "0123… [4 of 10 bytes not shown] …89");
    let text = format!("Lorem ips{}tail", "x".repeat(16_371));
    check_clip(&text, 13, "Lorem ips… [16,371 of 16,384 bytes not shown] …tail");
    check_clip("éééééééééé", 6, "éééé… [8 of 20 bytes not shown] …éé");
    check_clip("0123456789\n\n", 9, "012345… [6 of 12 bytes not shown] …");
    let spaces = format!("list files{}rm -rf", " ".repeat(4000));
    check_clip(&spaces, 40, r"list files\u{20×4000}rm -rf");
    assert_eq!(clip(&"é".repeat(100), 30).hidden_chars, 70);
    check_clip("", 0, "");
    check_clip("a", 0, "… [1 of 1 bytes not shown] …");
}

#[track_caller]
fn check_warnings(text: &str, expected: &[Warning]) {
    assert_eq!(warnings(text), expected, "{text:?}");
}

#[test]
fn x16_odd_words_get_a_warning() {
    let mixed = |word: &str| Warning::MixedScript(word.to_owned());
    check_warnings("paypal.com, plain", &[]);
    let alike = Warning::LookAlike("p\u{430}ypal.com".to_owned());
    check_warnings("p\u{430}ypal.com", &[mixed("p\u{430}ypal"), alike]);
    check_warnings("\u{3b1}dmin Москва Ελλάδα", &[mixed("\u{3b1}dmin")]);
    check_warnings(
        "p\u{200b}\u{430}y",
        &[Warning::HiddenCharacters, mixed("p\\u{200b}\u{430}y")],
    );
    check_warnings(
        "東京タワーのTシャツ 한국어KBS 漢字ㄅ ใช้iPhone naïve Привет world",
        &[],
    );
    check_warnings("a\u{202e}b", &[Warning::BidiCharacters]);
    check_warnings("line\nbreak\tand tab", &[]);
    check_warnings("\u{1b}[0m", &[Warning::HiddenCharacters]);
    check_warnings(
        "see https://xn--80ak6aa92e.com/a",
        &[Warning::Punycode("xn--80ak6aa92e.com".to_owned())],
    );
    check_warnings(
        "ann@mail.XN--P1AI",
        &[Warning::Punycode("mail.XN--P1AI".to_owned())],
    );
    check_warnings("xn-- maxn--a", &[]);
}

#[test]
fn x16_what_looks_like_another_address_gets_a_warning() {
    let host = "\u{430}\u{440}\u{440}\u{4cf}\u{435}.com";
    check_warnings(
        &format!("ann@{host} https://{host}/a"),
        &[Warning::LookAlike(host.to_owned())],
    );
    assert_eq!(
        Warning::LookAlike(host.to_owned()).to_string(),
        format!("the host `{host}` looks like `apple.com` and is another one, `xn--80ak6aa92e.com`")
    );
    // Hosts that look like no other, and words that are not hosts.
    check_warnings(
        "m\u{fc}nchen.de \u{43f}\u{440}\u{438}\u{43c}\u{435}\u{440}.\u{440}\u{444} \u{441}\u{43e}\u{440}",
        &[],
    );
    for word in [
        "acme.com\u{2215}evil.net",
        "acme.com\u{2044}a",
        "https://acme\u{ff0f}b",
        "acme\u{ff0e}com",
        "acme\u{3002}com",
        "ann@acme\u{ff61}com",
        "a.b\u{ff3c}c",
    ] {
        check_warnings(
            &format!("see {word} now"),
            &[Warning::LookAlikeSign(word.to_owned())],
        );
    }
    check_warnings(
        "1\u{2044}2 \u{4f60}\u{597d}\u{3002}\u{518d}\u{89c1} \u{597d}\u{3002}ok",
        &[],
    );
}

#[test]
fn x16_text_that_is_seen_otherwise_than_it_stands_gets_a_warning() {
    // These spellings look the same but have different bytes.
    check_warnings("caf\u{e9}", &[]);
    check_warnings("cafe\u{301} x", &[Warning::NotComposed("cafe\u{301}".to_owned())]);
    for text in [
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} 12-34",
        "\u{633}\u{644}\u{627}\u{645}/a",
        "\u{5d0}\u{5d1} pay 100",
        "(\u{5d0})",
    ] {
        check_warnings(text, &[Warning::MixedDirections]);
    }
    check_warnings("\u{5e9}\u{5dc}\u{5d5}\u{5dd}, \u{5e2}\u{5d5}\u{5dc}\u{5dd}.", &[]);
}

/// Generates text in which the awkward characters are common.
fn awkward() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        ' ',
        ' ',
        '\\',
        'u',
        '{',
        '}',
        '×',
        '\n',
        '\u{3000}',
        '\u{301}',
        '\u{20d2}',
        '\u{202e}',
        '\u{9b}',
        '\u{e0041}',
        '2',
        'a',
    ]);
    let character = prop_oneof![3 => special, 1 => any::<char>()];
    prop::collection::vec(character, 0..40).prop_map(|characters| characters.into_iter().collect())
}

proptest! {
    #[test]
    fn i18_no_acting_character_is_ever_shown(text in awkward(), max_chars in 0usize..60) {
        let shown = escape(&text);
        prop_assert!(!shown.chars().any(is_forbidden), "{shown:?}");
        prop_assert!(!shown.contains("    "), "{shown:?}");
        prop_assert_eq!(unescape(&shown), text.clone());
        let clipped = clip(&text, max_chars);
        prop_assert!(!clipped.to_string().chars().any(is_forbidden));
        let widths: usize = Units::new(&text).map(Unit::width).sum();
        prop_assert_eq!(widths, shown.chars().count());
        prop_assert!(clipped.head.chars().count() + clipped.tail.chars().count() <= max_chars);
        let kept = unescape(&clipped.head).len() + unescape(&clipped.tail).len();
        prop_assert_eq!(kept + clipped.hidden_bytes, text.len());
        if !clipped.is_clipped() {
            prop_assert_eq!(&clipped.head, &*shown);
        }
    }

    #[test]
    fn i18_warnings_are_safe_to_show(text in awkward()) {
        for warning in warnings(&text) {
            prop_assert!(!warning.to_string().chars().any(is_forbidden));
        }
    }
}
