use proptest::prelude::*;

use super::grammar::Table;
use super::language::{Tables, tables};
use super::lexicon::Lexicon;
use super::*;

const NOTHING: Bare<'_> = Bare {
    text: "",
    yes: None,
    no: None,
    needs_yes: false,
    numbered: 0,
};

fn asking(text: &str) -> Bare<'_> {
    Bare { text, ..NOTHING }
}

/// Reads a reply to a bare prompt.
fn interpret(bare: &Bare<'_>, text: &str, language: Option<&str>) -> Interpreted {
    super::interpret(&Offer::from(*bare), text, language)
}

#[track_caller]
fn check(text: &str, expected: Reading) {
    check_to("Delete the draft page?", text, Some("en"), expected);
}

#[track_caller]
fn check_to(prompt: &str, text: &str, language: Option<&str>, expected: Reading) {
    let read = interpret(&asking(prompt), text, language);
    assert_eq!(read.reading, expected, "`{text}` to `{prompt}`: {}", read.why);
}

#[test]
fn tables_have_no_mistakes() {
    let tables = Tables::build();
    assert!(tables.is_ok(), "{:?}", tables.err());
    // One bit for each language.
    assert!(tables.unwrap().languages.len() <= 64);
    let english = tables_size("en");
    assert!(english.0 < 60_000, "{english:?}");
}

fn tables_size(tag: &str) -> (usize, usize) {
    tables().language(tag).unwrap().automaton.size()
}

#[test]
fn a_table_with_a_mistake_says_where() {
    let problem = |text: &str| {
        let mut table = Table::default();
        table.read(text, &mut Lexicon::default()).unwrap_err().to_string()
    };
    assert_eq!(problem("[nonsense]\nyes"), "line 1: no section `nonsense`");
    assert_eq!(problem("[yes]\n<nobody>"), "line 2: no class `nobody`");
    assert_eq!(problem("[yes]\n(a | b"), "line 2: a group is not closed");
    assert_eq!(problem("[yes]\na | | b"), "line 2: an empty alternative");
}

#[test]
fn c4_every_word_of_the_source_lists_is_understood() {
    for word in [
        "yes", "y", "yeah", "ok", "okay", "sure", "proceed", "go ahead", "confirm", "do it",
    ] {
        check(word, Reading::Yes);
        check(&word.to_uppercase(), Reading::Yes);
        check(&format!("  {word}!  "), Reading::Yes);
    }
    for word in ["no", "n", "nope", "cancel", "stop", "abort", "don't", "nevermind"] {
        check(word, Reading::No);
        check(&format!("{word}."), Reading::No);
    }
}

#[test]
fn reads_plain_answers() {
    check("Yes, that is correct. Thank you!", Reading::Yes);
    check("sounds good to me", Reading::Yes);
    check("Yes please, delete it", Reading::Yes);
    check("delete the page", Reading::Yes);
    check("go ahead and delete it", Reading::Yes);
    check("No thanks, maybe later", Reading::No);
    check("please don't", Reading::No);
    check("cancel that request", Reading::No);
}

#[test]
fn x09_what_only_looks_like_a_yes_is_none() {
    for text in [
        "no, don't approve",
        "disallow",
        "yesterday",
        "not approved",
        "yes?",
        "yes, but change the email",
        "yes, except the first",
        "yes, only the draft",
        "yes if it is a draft",
        "yes, tomorrow",
        "yes, later",
        "yes, the other page instead",
        "yes and no",
        "yes 13",
        "I guess",
        "maybe",
        "what happens then",
        "ok, thanks for nothing",
        "yes or no",
        "is it ok",
        "show me the page",
        "",
        "   ",
        "...",
        "> yes",
        "~~yes~~",
    ] {
        assert_ne!(
            interpret(&asking("Delete the draft page?"), text, Some("en")).reading,
            Reading::Yes,
            "{text}"
        );
        assert_ne!(
            interpret(&asking("Delete the draft page?"), text, None).reading,
            Reading::Yes,
            "{text}"
        );
    }
}

#[test]
fn x09_a_filler_is_too_little_for_what_is_destructive() {
    let offered = Bare {
        needs_yes: true,
        numbered: 0,
        ..asking("Delete 13 paddocks?")
    };
    for filler in [
        "ok",
        "okay",
        "fine",
        "great",
        "perfect, thanks",
        "👍",
        "please",
        "alright",
    ] {
        let read = interpret(&offered, filler, Some("en"));
        assert!(matches!(read.why, Why::Filler(_)), "{filler}: {read:?}");
    }
    for yes in [
        "yes",
        "sure",
        "ok, do it",
        "go ahead",
        "delete them",
        "that's fine",
        "sí",
    ] {
        assert_eq!(interpret(&offered, yes, None).reading, Reading::Yes, "{yes}");
    }
}

#[test]
fn an_echo_says_nothing_new() {
    let transfer = "Transfer $260 from checking to savings?";
    check_to(
        transfer,
        "yes, transfer $260 from checking to savings",
        Some("en"),
        Reading::Yes,
    );
    check_to(
        transfer,
        "yes, from savings to checking",
        Some("en"),
        Reading::Other,
    );
    check_to(transfer, "yes, transfer $26", Some("en"), Reading::Other);
    check_to(transfer, "yes, transfer 2", Some("en"), Reading::Other);
    let list = "Delete About, Contact and Home?";
    check_to(list, "yes, delete them", Some("en"), Reading::Yes);
    check_to(list, "yes, delete About", Some("en"), Reading::Other);
    check_to(list, "yes, Contact", Some("en"), Reading::Other);
    check_to(list, "delete Home", Some("en"), Reading::Other);
    let time = "Book a table at 7:15 pm for 2 people?";
    check_to(time, "yes, make it 7 pm", Some("en"), Reading::Other);
    check_to(time, "yes, book a table", Some("en"), Reading::Yes);
    check_to(time, "yes, book it for 2 people", Some("en"), Reading::Yes);
    check_to(time, "yes, book it for 3 people", Some("en"), Reading::Other);
    check_to(
        "Play it without subtitles?",
        "I want subtitles",
        Some("en"),
        Reading::Other,
    );
    check_to("Which order, #1 or #2?", "order #2", Some("en"), Reading::Other);
}

#[test]
fn a_cancellation_is_not_mixed_up_with_cancelling() {
    let prompt = "Cancel order 7?";
    check_to(prompt, "yes, cancel it", Some("en"), Reading::Yes);
    check_to(prompt, "cancel", Some("en"), Reading::Other);
    check_to(prompt, "cancel it", Some("en"), Reading::Other);
    check_to(prompt, "no, don't cancel it", Some("en"), Reading::No);
    let offered = Bare {
        yes: Some("Cancel"),
        no: Some("Keep"),
        ..asking(prompt)
    };
    assert_eq!(interpret(&offered, "cancel", Some("en")).reading, Reading::Other);
    assert_eq!(interpret(&offered, "keep", Some("en")).reading, Reading::No);
}

#[test]
fn b6_the_label_of_the_button_may_be_typed() {
    let offered = Bare {
        yes: Some("Sí, borrar"),
        no: Some("No, dejar"),
        needs_yes: true,
        numbered: 0,
        ..asking("¿Borro estos 13 potreros?")
    };
    for text in [
        "Sí, borrar",
        "si borrar",
        "SÍ BORRAR!",
        "Sí, borrar, gracias",
        "sí, borra los 13 potreros",
        "bórralos",
    ] {
        for language in [None, Some("es"), Some("es-AR")] {
            assert_eq!(
                interpret(&offered, text, language).reading,
                Reading::Yes,
                "{text} {language:?}"
            );
        }
    }
    assert_eq!(interpret(&offered, "no, dejar", Some("es")).reading, Reading::No);
    assert_eq!(
        interpret(&offered, "sí, pero solo 12", Some("es")).reading,
        Reading::Other
    );
    assert_eq!(
        interpret(&offered, "sí, borra 12", Some("es")).reading,
        Reading::Other
    );
}

#[test]
fn letters_that_flip_between_locales_need_a_locale_or_an_offer() {
    let flips = [
        "a", "b", "c", "d", "da", "e", "ee", "ehe", "eé", "h", "ii", "j", "jo", "k", "l", "n", "o", "s", "t",
        "y", "ŋ", "ن",
    ];
    for token in flips {
        for text in [token.to_owned(), token.to_uppercase(), format!("{token}!")] {
            let read = interpret(&asking("Delete the page?"), &text, None);
            assert_eq!(read.reading, Reading::Other, "{text}: {}", read.why);
        }
    }
    for letter in ('a'..='z').chain("àçéñøабвгдежאبनあ".chars()) {
        let read = interpret(&asking("Delete the page?"), &letter.to_string(), None);
        assert_ne!(read.reading, Reading::Yes, "{letter}");
    }
    check_to("Delete it? (y/n)", "y", None, Reading::Yes);
    check_to("Delete it? (y/n)", "n", None, Reading::No);
    check_to("Löschen? (j/n)", "j", None, Reading::Yes);
    check_to("Reply y to confirm", "y", None, Reading::Yes);
    check_to("Futa?", "n", Some("sw"), Reading::Yes);
    check_to("Silinsin?", "y", Some("az"), Reading::No);
    check_to("Fshij?", "jo", Some("sq"), Reading::No);
}

#[test]
fn every_locale_knows_its_own_words() {
    let mut checked = 0;
    for (tag, (yes, no)) in tables().every_locale() {
        for (phrases, other, reading) in [(yes, no, Reading::Yes), (no, yes, Reading::No)] {
            for phrase in phrases.iter().filter(|phrase| !other.contains(phrase)) {
                let read = interpret(&NOTHING, phrase, Some(tag));
                assert_eq!(read.reading, reading, "`{phrase}` in {tag}: {}", read.why);
                checked += 1;
            }
        }
    }
    assert!(checked > 900, "{checked}");
}

#[test]
fn many_languages_say_yes_and_no() {
    for (tag, yes, no) in [
        ("es", "Sí, claro, adelante", "no, gracias"),
        ("de", "Ja, bitte, das ist richtig", "Nein, lass es"),
        ("fr", "Oui, c’est ça, merci", "non, laisse tomber"),
        ("pt-BR", "sim, pode fazer", "não, deixa pra lá"),
        ("it", "sì, va bene, procedi", "no, lascia stare"),
        ("nl", "ja hoor, doe maar", "nee, laat maar"),
        ("pl", "tak, zgadza się", "nie, dziękuję"),
        ("tr", "EVET, ONAYLIYORUM", "HAYIR, İPTAL ET"),
        ("ar", "نعم، تفضل", "لا، شكرا"),
        ("hi", "हाँ, ठीक है", "नहीं, रहने दो"),
        ("ja", "はい、お願いします", "いいえ、やめてください"),
        ("ko", "네, 진행해 주세요", "아니요, 취소해 주세요"),
        ("zh", "是的，请继续", "不用了，谢谢"),
        ("sv", "ja, kör på!", "nej tack"),
        ("ru", "да, конечно", "нет, спасибо"),
    ] {
        for language in [Some(tag), None] {
            check_to("Delete it?", yes, language, Reading::Yes);
            check_to("Delete it?", no, language, Reading::No);
        }
    }
}

#[test]
fn one_word_of_english_is_not_taken_for_a_word_of_another_language() {
    // "Fine" is the end, in Italian.
    check_to("", "fine", Some("it"), Reading::Other);
    check_to("", "yes", Some("it"), Reading::Yes);
    check_to("", "yes, that is correct", Some("it"), Reading::Yes);
}

#[test]
fn what_everybody_knows_means_the_same_everywhere() {
    for language in &tables().languages {
        for (text, wrong) in [
            ("no", Reading::Yes),
            ("stop", Reading::Yes),
            ("cancel", Reading::Yes),
            ("yes", Reading::No),
        ] {
            let read = interpret(&NOTHING, text, Some(language.tag));
            assert_ne!(read.reading, wrong, "`{text}` in {}: {}", language.tag, read.why);
        }
    }
    for (text, reading) in [
        ("no", Reading::No),
        ("yes", Reading::Yes),
        ("ok", Reading::Yes),
        ("cancel", Reading::No),
        ("ha", Reading::Other),
        ("he", Reading::Other),
    ] {
        check_to("Delete it?", text, None, reading);
    }
}

#[test]
fn folds_what_people_type() {
    check("ＹＥＳ", Reading::Yes);
    check("ｙｅｓ！", Reading::Yes);
    check("yesssss", Reading::Yes);
    check("nooooo", Reading::No);
    check("That’s right", Reading::Yes);
    check("thats right", Reading::Yes);
    check("👍🏽👍🏽", Reading::Yes);
    check("👎", Reading::No);
    check("🙆‍♂️", Reading::Yes);
    check_to("", "İPTAL", Some("tr"), Reading::No);
    check_to("", "großartig, ja", Some("de"), Reading::Yes);
    check_to("", "GROSSARTIG, JA", Some("de"), Reading::Yes);
    check_to("", "ﾊｲ", Some("ja"), Reading::Yes);
    check_to("", "não", Some("pt"), Reading::No);
    check_to("", "nao", Some("pt"), Reading::No);
}

#[test]
fn x17_what_cannot_be_seen_is_not_read() {
    for hidden in [
        '\u{200b}',
        '\u{202e}',
        '\u{2066}',
        '\u{feff}',
        '\u{ad}',
        '\u{e0041}',
        '\u{1b}',
        '\u{200d}',
        '\u{0}',
    ] {
        for text in [
            format!("yes{hidden}"),
            format!("{hidden}yes"),
            format!("y{hidden}es"),
            format!("no {hidden} yes"),
        ] {
            let read = interpret(&asking("Delete it?"), &text, Some("en"));
            assert_eq!(read.reading, Reading::Other, "{text:?}");
        }
    }
    // Letters of other alphabets that look like Latin ones are different letters.
    check("уes", Reading::Other);
    check("yеs", Reading::Other);
}

#[test]
fn says_which_words_decided() {
    let why = |text: &str| interpret(&asking("Delete it?"), text, Some("en")).why.to_string();
    assert_eq!(why("Well, yes please, go ahead"), "`yes`, `please`, `go ahead`");
    assert_eq!(why("yes but not now"), "`but` is not part of a plain answer");
    assert_eq!(why("yes?"), "it asks something");
    assert_eq!(why("thanks"), "`thanks` says neither yes nor no");
    assert_eq!(why("ye\u{200b}s"), "it hides the character U+200B");
}

#[test]
fn too_long_is_not_plain() {
    check(&"yes ".repeat(65), Reading::Other);
    check(&"yes ".repeat(60), Reading::Yes);
    check(&"y".repeat(2000), Reading::Other);
}

#[test]
fn x54_the_way_out_of_a_prompt_is_not_its_act() {
    for prompt in [
        "Delete the page?\n-- reply \"yes\" to confirm or \"no\" to cancel.",
        "¿Borro la página?\n-- responde \"sí\" para confirmar o \"no\" para cancelar.",
        "Delete the page? Say yes, or no to stop.",
        "Seite löschen? \"ja\" zum Bestätigen, \"nein\" zum Abbrechen.",
    ] {
        for text in [
            "yes, cancel it",
            "go ahead and cancel",
            "sure, cancel",
            "sí, cancela",
            "sí, cancélalo",
            "please do cancel",
            "confirm the cancellation",
            "✅ cancel",
            "yes, stop",
            "ja, abbrechen",
            "oui, annule",
            "sim, cancele",
            "да, отмени",
        ] {
            for language in [None, Some("en"), Some("es"), Some("de")] {
                let read = interpret(&asking(prompt), text, language);
                assert_ne!(
                    read.reading,
                    Reading::Yes,
                    "`{text}` in {language:?}: {}",
                    read.why
                );
            }
        }
    }
    check_to("Cancel order 55?", "yes, cancel it", Some("en"), Reading::Yes);
    check_to(
        "Shall I cancel your order?",
        "go ahead and cancel it",
        Some("en"),
        Reading::Yes,
    );
}

#[test]
fn x55_only_known_pairs_are_pairs() {
    for text in ["x", "hm", "1", "us", "X"] {
        check_to(
            "Save it as x/y.txt, hm/no, 1/2 and us/them?",
            text,
            None,
            Reading::Other,
        );
    }
    for (prompt, yes, no) in [
        ("Go? (y/n)", "y", "n"),
        ("Go? [yes/no]", "yes", "no"),
        ("¿Sigo? (s/n)", "s", "n"),
        ("Weiter? (j/n)", "j", "n"),
    ] {
        check_to(prompt, yes, None, Reading::Yes);
        check_to(prompt, no, None, Reading::No);
    }
}

#[test]
fn x72_what_only_sounds_like_a_yes_is_none() {
    for text in [
        "yeah right",
        "Yeah, right.",
        "{\"approved\":true}",
        "[yes]",
        "approved: true",
        "yes_please",
        "--yes",
        "-y",
        "/yes",
        "yes :(",
        "yes-man",
        "approve()",
        "he said \"yes\"",
        "да ну",
        "jaja",
        "please",
        "great, just great",
        "great",
        "i'd like you to confirm that please",
        "could you confirm that please",
        "please confirm to me",
        "yeah thats all for the day",
        "yes, that's all, bye",
        "зүгээр",
        "haha yes",
        "yes 😂",
        "if you say so",
        "i will do it",
        "ok then, bye",
        "yeah sure buddy",
    ] {
        for language in [None, Some("en")] {
            check_to("Delete the draft page?", text, language, Reading::Other);
        }
    }
    for text in [
        "\"yes\"",
        "**yes**",
        "yes :)",
        "uh-huh",
        "That is perfect",
        "(yes)",
    ] {
        check(text, Reading::Yes);
    }
}

const YESES: [&str; 12] = [
    "yes",
    "Yes, that is correct",
    "ok",
    "sure, go ahead",
    "that works for me",
    "sounds good",
    "yes please",
    "do it",
    "I confirm",
    "absolutely",
    "perfect",
    "yes, delete it",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Random text approves only if known words explain it.
    #[test]
    fn x09_noise_never_approves(text in "\\PC{0,40}", prompt in "\\PC{0,40}") {
        let read = interpret(&asking(&prompt), &text, None);
        if read.reading == Reading::Yes {
            // Every yes has to name the words that decided.
            let is_explained = matches!(&read.why, Why::Words(words) if !words.is_empty()) || matches!(read.why, Why::Offered(_));
            prop_assert!(is_explained, "{text:?}");
        }
        prop_assert_eq!(interpret(&asking(&prompt), &text, None), read);
    }

    /// One unknown word turns an approving reply into `Other`, wherever it stands.
    #[test]
    fn x09_an_unknown_word_makes_it_other(yes in 0usize..YESES.len(), word in "[b-z]{5,9}q[b-z]{2}", place in 0usize..8) {
        prop_assume!(tables().lexicon.find(&word).is_none());
        let mut words: Vec<&str> = YESES[yes].split(' ').collect();
        words.insert(place.min(words.len()), &word);
        let read = interpret(&asking("Delete the page?"), &words.join(" "), Some("en"));
        prop_assert_eq!(read.reading, Reading::Other);
        let read = interpret(&asking("Delete the page?"), &words.join(" "), None);
        prop_assert_eq!(read.reading, Reading::Other);
    }

    /// A word that reverses or narrows the meaning prevents a yes.
    #[test]
    fn x09_a_turning_word_never_approves(
        yes in 0usize..YESES.len(),
        turn in prop::sample::select(vec!["but", "except", "instead", "only", "if", "later", "tomorrow", "not", "never", "unless", "without", "14"]),
        place in 0usize..8,
    ) {
        let mut words: Vec<&str> = YESES[yes].split(' ').collect();
        words.insert(place.min(words.len()), turn);
        let read = interpret(&asking("Delete the page?"), &words.join(" "), Some("en"));
        prop_assert_ne!(read.reading, Reading::Yes, "{}", words.join(" "));
    }
}

#[test]
fn x54_little_words_around_the_act_of_a_bare_prompt_are_no_yes() {
    let prompt = "Delete contact Bob?";
    for text in [
        "delete it",
        "delete the contact",
        "yes, delete it",
        "delete it please",
        "delete contact Bob",
    ] {
        check_to(prompt, text, None, Reading::Yes);
    }
    for text in [
        "delete to me",
        "delete my the",
        "delete the",
        "delete on you",
        "you delete it",
        "delete it by me",
    ] {
        check_to(prompt, text, None, Reading::Other);
    }
}

#[test]
fn x54_a_way_out_without_a_no_beside_it_is_no_act() {
    for prompt in [
        "Type yes to continue, cancel to abort",
        "Press yes to proceed. Cancel to abort.",
    ] {
        check_to(prompt, "yes", None, Reading::Yes);
        check_to(prompt, "yes, cancel it", None, Reading::Other);
        check_to(prompt, "yes cancel", None, Reading::Other);
    }
    check_to("Cancel order 55? (yes/no)", "yes, cancel it", None, Reading::Yes);
}
