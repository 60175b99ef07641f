//! A file of vectors is untrusted: raw and packed, it is accepted or refused, with a message that is safe for a terminal.

#![no_main]

use gantry_conformance::Vectors;
use libfuzzer_sys::fuzz_target;
use miniz_oxide::deflate::compress_to_vec_zlib;

fuzz_target!(|data: &[u8]| {
    for read in [Vectors::unpack(data), Vectors::unpack(&compress_to_vec_zlib(data, 0))] {
        if let Err(error) = read {
            assert!(error.to_string().bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{error}");
        }
    }
});
