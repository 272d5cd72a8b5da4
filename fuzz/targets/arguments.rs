//! Any bytes as arguments: what is accepted is one JSON object that every other reader takes too, unchanged.

#![no_main]

use countersign::call::Arguments;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(arguments) = Arguments::parse(bytes) {
        assert_eq!(arguments.as_bytes(), bytes);
        let object = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes);
        // What is left out of a 64-bit number's range is kept as written, and no other reader can hold it.
        if let Err(error) = object {
            assert!(error.to_string().contains("number out of range"), "{error}");
        }
    }
});
