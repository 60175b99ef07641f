//! Test vectors that are too large to be part of every program with Gantry's conformance suite. They are [Wycheproof's], and most
//! of NIST's for ML-KEM, ML-DSA and SLH-DSA, which have long keys and signatures.
//!
//! The program `gantry-vectors` writes the file that `gantry check` looks for; `gantry_conformance::Vectors::unpack` reads it.
//!
//! [Wycheproof's]: https://github.com/C2SP/wycheproof

#![forbid(unsafe_code)]

/// All vectors, as one zlib stream. The build is reproducible: equal sources give equal bytes.
///
/// A line `= NAME` starts a set, and `[algorithm]` starts a section of a set. A block of lines `key = hexadecimal` is a vector.
pub static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packed"));
