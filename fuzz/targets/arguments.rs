//! Fuzzes arguments with any bytes: accepted arguments are unchanged, and any other parser reads them as one JSON
//! object.

#![no_main]

use countersign::call::Arguments;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(arguments) = Arguments::parse(bytes) {
        assert_eq!(arguments.as_bytes(), bytes);
        let object = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes);
        // Numbers out of the 64-bit range are kept as written, and other parsers reject them.
        if let Err(error) = object {
            assert!(error.to_string().contains("number out of range"), "{error}");
        }
    }
});
