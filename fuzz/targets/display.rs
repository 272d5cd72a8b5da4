//! Fuzzes display with any text: escaped and clipped output contains no control, zero-width or bidirectional character.

#![no_main]

use countersign::display::{clip, escape, warnings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (String, u8)| {
    let (text, width) = input;
    let clipped = clip(&text, usize::from(width)).to_string();
    for shown in [escape(&text).into_owned(), clipped] {
        let acts = |c: char| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(!shown.contains(acts), "{shown:?}");
    }
    warnings(&text);
});
