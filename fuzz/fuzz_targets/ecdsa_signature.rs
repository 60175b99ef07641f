//! Signatures come from whom a program talks to: of any bytes it is said whether they are two numbers in DER, and there is one way
//! to write two numbers.

#![no_main]

#[path = "../../frontends/openssl/src/der.rs"]
mod der;

/// What `der` has from the rest of its crate.
mod pair {
    pub(crate) const SIZE: usize = 32;
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(numbers) = der::decode(data) {
        let (again, length) = der::encode(&numbers);
        assert_eq!(&again[..length], data);
    }
    if let Some(numbers) = data.first_chunk() {
        let (written, length) = der::encode(numbers);
        assert_eq!(der::decode(&written[..length]).as_ref(), Some(numbers));
    }
});
