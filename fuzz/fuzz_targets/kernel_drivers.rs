//! Parses arbitrary text as /proc/crypto and /proc/modules. No query of the catalogue panics, and its answers agree with each other.

#![no_main]

use gantry_driver_afalg::catalogue::{Catalogue, Engine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: &str| {
    let (crypto, modules) = texts.split_once('\0').unwrap_or((texts, ""));
    let catalogue = Catalogue::parse(crypto, modules);
    for entry in &catalogue.entries {
        assert!(!entry.driver.is_empty());
        if entry.internal {
            assert_eq!(catalogue.engine(entry), Engine::None);
        }
        let Some(kind) = entry.socket_type() else { continue };
        let candidates = catalogue.candidates(kind, &entry.name);
        assert_eq!(candidates.contains(&entry), !entry.internal);
        assert!(candidates.is_sorted_by_key(|candidate| std::cmp::Reverse(candidate.priority)));
    }
});
