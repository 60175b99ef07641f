//! Loads the vector files of the crate and further vectors.

use std::borrow::Cow;

use gantry_core::Algorithm;

use crate::packed::Vectors;
use crate::rng::Rng;
use crate::text::{Limits, parse};
use crate::vector::Vector;

/// Makes a digest of a message, if a device can.
pub(crate) type DigestFn<'a> = &'a dyn Fn(Algorithm, &[u8]) -> Option<Vec<u8>>;

/// Draws a public key from the vectors, for a request for a secret.
pub(crate) fn draw_public_key(rng: &mut Rng, algorithm: Algorithm) -> Vec<u8> {
    let file = FILES.iter().find(|(name, ..)| name.strip_suffix(".txt") == Some(algorithm.name()));
    let mut vectors = file.map(|file| parse_file(file, &|one| one == algorithm)).unwrap_or_default();
    vectors.swap_remove(rng.below(vectors.len())).input
}

/// Returns every vector of these algorithms. Leaves out a vector if the algorithm signs digests and no device can make the digest.
pub(crate) fn load<'v>(wanted: &[Algorithm], digest: DigestFn<'_>, more: &'v Vectors) -> Vec<Cow<'v, Vector>> {
    let wants = |algorithm: Algorithm| wanted.contains(&algorithm);
    let files = FILES.iter().filter(|(_, names, _)| wanted.iter().any(|algorithm| names.contains(&algorithm.name())));
    let built_in = files.flat_map(|file| parse_file(file, &wants)).map(Cow::Owned);
    let more = more.iter().filter(|vector| wants(vector.algorithm)).map(Cow::Borrowed);
    let hashed = |vector: Cow<'v, Vector>| match vector.digest_function {
        Some(function) => {
            let input = digest(function, &vector.input)?;
            Some(Cow::Owned(Vector { input, ..vector.into_owned() }))
        }
        None => Some(vector),
    };
    built_in.chain(more).filter_map(hashed).collect()
}

/// A file of the crate: its name, the names of its algorithms, and its text, compressed.
type VectorFile = (&'static str, &'static [&'static str], &'static [u8]);

/// Made by the build script.
static FILES: &[VectorFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the vectors of a file. The files are part of the crate, so a mistake in them is a bug.
fn parse_file((name, _, packed): &VectorFile, wanted: &dyn Fn(Algorithm) -> bool) -> Vec<Vector> {
    let text = miniz_oxide::inflate::decompress_to_vec(packed).expect("the build script has packed it");
    let text = String::from_utf8(text).expect("vectors are text");
    parse(&(*name).into(), &text, wanted, &mut Limits::unlimited()).expect("a test reads all of them")
}

#[cfg(test)]
mod tests {
    use gantry_core::Kind;

    use super::*;
    use crate::vector::Expect;

    /// Every program that contains `gantry check` contains the vectors.
    #[test]
    fn vectors_are_small() {
        let packed: usize = FILES.iter().map(|(.., packed)| packed.len()).sum();
        assert!(packed < 1_000_000, "{packed} bytes");
    }

    #[test]
    fn every_file_of_the_crate_is_read() {
        for file in FILES {
            assert!(!parse_file(file, &|_| true).is_empty(), "{}", file.0);
        }
    }

    #[test]
    fn messages_of_digest_sections_are_hashed() {
        let text = "[ed25519 sha256]\nid = 0102\ninput = 07\nunknowable = 02\n";
        let more = miniz_oxide::deflate::compress_to_vec_zlib(format!("= x\n{text}").as_bytes(), 1);
        let more = Vectors::unpack(&more).unwrap();
        let of_x = |digest: DigestFn<'_>| -> Vec<Vector> {
            let all = load(&[Algorithm::Ed25519], digest, &more).into_iter().map(Cow::into_owned);
            all.filter(|vector| &*vector.origin.0 == "x").collect()
        };
        let digest = |function, message: &[u8]| (function == Algorithm::Sha256).then(|| [message, b"!"].concat());
        let [vector] = &of_x(&digest)[..] else { panic!("one block") };
        assert_eq!((vector.algorithm, vector.origin.1, &*vector.input), (Algorithm::Ed25519, 0x102, &b"\x07!"[..]));
        assert_eq!(vector.expect, Expect::Undefined("a compressed public key"));
        assert!(of_x(&|_, _| None).is_empty(), "no device can make the digest");
    }

    #[test]
    fn every_algorithm_has_vectors_of_several_lengths() {
        let more = Vectors::default();
        // The other algorithms take data of one length.
        let several = |algorithm: &&Algorithm| {
            let info = algorithm.info();
            info.kind != Kind::Kem && info.max_data > info.min_data as u64
        };
        for &algorithm in Algorithm::ALL.iter().filter(several) {
            let vectors = load(&[algorithm], &|_, _| None, &more);
            let mut lengths: Vec<usize> = vectors.iter().map(|vector| vector.input.len()).collect();
            lengths.sort_unstable();
            lengths.dedup();
            let long = algorithm.info().nearest_data_length(200);
            assert!(lengths.len() >= 3 && lengths.last() >= Some(&long), "{algorithm}: {lengths:?}");
        }
    }
}
