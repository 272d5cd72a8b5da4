//! Fuzzes replies with any text and any offer: reading never panics, is deterministic, and approves nothing outside the
//! grammar.

#![no_main]

use countersign::reply::{Bare, Offer, Reading, interpret};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (String, String, u8)| {
    let (offer, text, setting) = input;
    let offered = Offer::from(Bare {
        text: &offer,
        needs_yes: setting & 1 != 0,
        numbered: usize::from(setting >> 4),
        ..Bare::default()
    });
    let language = [None, Some("en"), Some("es"), Some("tr"), Some("ja")][usize::from(setting >> 1) % 5];
    let read = interpret(&offered, &text, language);
    assert_eq!(read, interpret(&offered, &text, language), "the same words are read the same way");
    if read.reading == Reading::Yes && !offer.contains("qzxqzx") {
        // No language has this word, and it is not in the offer.
        let longer = format!("{text} qzxqzx");
        assert_eq!(interpret(&offered, &longer, language).reading, Reading::Other, "{text:?}");
    }
});
