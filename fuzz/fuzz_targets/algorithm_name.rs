//! Algorithm names come from command lines, files and sockets: any text is found or not, without a panic.

#![no_main]

use gantry_core::Algorithm;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &str| match Algorithm::matching(name) {
    Ok(found) => {
        assert!(!found.is_empty());
        for algorithm in found {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            // An algorithm that is found by a name is also found by its capitals.
            assert!(Algorithm::matching(&name.to_ascii_uppercase()).unwrap().contains(&algorithm));
        }
    }
    Err(unknown) => {
        assert!(!unknown.to_string().is_empty());
        for suggestion in unknown.suggestions {
            assert!(suggestion.parse::<Algorithm>().is_ok());
        }
    }
});
