//! Test vectors that are too many to be in every program with Gantry's conformance suite: [Wycheproof's], and most of NIST's for
//! ML-KEM, ML-DSA and SLH-DSA, whose keys and signatures are long.
//!
//! The program `gantry-vectors` writes them into the file that `gantry check` looks for; `gantry_conformance::Vectors::unpack` reads them.
//!
//! [Wycheproof's]: https://github.com/C2SP/wycheproof

#![forbid(unsafe_code)]

/// All of them, as one zlib stream. The same sources give the same bytes.
///
/// Its text is sets: a line `= NAME` opens each. `[algorithm]` opens a section of a set, and a block of lines `key = hexadecimal` is a vector.
pub static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packed"));
