//! A file of vectors may come from anybody: as it is, and packed, it is read or refused, with words that a terminal can show.

#![no_main]

use gantry_conformance::Vectors;
use libfuzzer_sys::fuzz_target;
use miniz_oxide::deflate::compress_to_vec_zlib;

fuzz_target!(|data: &[u8]| {
    for read in [Vectors::unpack(data), Vectors::unpack(&compress_to_vec_zlib(data, 0))] {
        if let Err(why) = read {
            assert!(why.to_string().bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{why}");
        }
    }
});
