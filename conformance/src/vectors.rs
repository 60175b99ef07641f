//! Known answers: the vector files of the crate and further ones, in one shape.

use std::borrow::Cow;
use std::sync::Arc;

use gantry_core::{Algorithm, Prehash};

use crate::more::Vectors;
use crate::rng::Rng;
use crate::text::{Room, parse};

/// One known answer. Fields that an algorithm does not have are empty.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) algorithm: Algorithm,
    /// File or set, and line or number in it.
    pub(crate) origin: (Arc<str>, usize),
    pub(crate) key: Vec<u8>,
    /// The MAC's key, or the public one.
    pub(crate) second_key: Vec<u8>,
    /// Of key encapsulation, the random bytes of a secret; of packets, the number.
    pub(crate) iv: Vec<u8>,
    /// Of key encapsulation, the random bytes of both keys; of signatures, the context; of packets, SPI, next header, and whether numbers
    /// are extended.
    pub(crate) aad: Vec<u8>,
    /// Message or plaintext; empty where an AEAD's is `Refused`, as nobody may know it.
    pub(crate) input: Vec<u8>,
    /// Digest, MAC, ciphertext, signature or secret.
    pub(crate) output: Vec<u8>,
    /// Of AEADs, and of packets that have a short one; of key encapsulation, the secret.
    pub(crate) tag: Vec<u8>,
    /// Of signatures, what they are of.
    pub(crate) prehash: Prehash,
    /// Of signatures of digests: the input is a message, and this makes the digest.
    pub(crate) function: Option<Algorithm>,
    pub(crate) expect: Expect,
}

/// What must come of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Input and output belong together.
    Match,
    /// Something is wrong with it: opening fails, a computed MAC differs, or core refuses a length.
    Refused,
    /// A thousand digests in a row, each of the last so many, all of them `input` at first (SHAVS, SHA3VS).
    MonteCarlo(usize),
    /// Nothing can be said, and why. Only Wycheproof has such ones.
    Unknowable(&'static str),
}

/// Makes a digest of a message, if a device can.
pub(crate) type Digest<'a> = &'a dyn Fn(Algorithm, &[u8]) -> Option<Vec<u8>>;

/// A public key for a request for a secret: one of those of the vectors.
pub(crate) fn public_key(rng: &mut Rng, algorithm: Algorithm) -> Vec<u8> {
    let file = FILES.iter().find(|(name, ..)| name.strip_suffix(".txt") == Some(algorithm.name()));
    let mut vectors = file.map(|file| own(file, &|one| one == algorithm)).unwrap_or_default();
    vectors.swap_remove(rng.below(vectors.len())).input
}

/// Every vector of these algorithms. What needs a digest that nobody can make is left out.
pub(crate) fn load<'v>(wanted: &[Algorithm], digest: Digest<'_>, more: &'v Vectors) -> Vec<Cow<'v, Vector>> {
    let wants = |algorithm: Algorithm| wanted.contains(&algorithm);
    let files = FILES.iter().filter(|(_, names, _)| wanted.iter().any(|algorithm| names.contains(&algorithm.name())));
    let own = files.flat_map(|file| own(file, &wants)).map(Cow::Owned);
    let more = more.iter().filter(|vector| wants(vector.algorithm)).map(Cow::Borrowed);
    let hashed = |vector: Cow<'v, Vector>| match vector.function {
        Some(function) => {
            let input = digest(function, &vector.input)?;
            Some(Cow::Owned(Vector { input, ..vector.into_owned() }))
        }
        None => Some(vector),
    };
    own.chain(more).filter_map(hashed).collect()
}

/// A file of the crate: its name, the names of its algorithms, and its text, compressed.
type File = (&'static str, &'static [&'static str], &'static [u8]);

/// Made by the build script.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The vectors in one of them. They are part of the crate, so a mistake there is a bug.
fn own((name, _, packed): &File, wanted: &dyn Fn(Algorithm) -> bool) -> Vec<Vector> {
    let text = miniz_oxide::inflate::decompress_to_vec(packed).expect("the build script has packed it");
    let text = String::from_utf8(text).expect("vectors are text");
    parse(&(*name).into(), &text, wanted, &mut Room::endless()).expect("a test reads all of them")
}

impl Vector {
    pub(crate) fn new(algorithm: Algorithm, origin: (Arc<str>, usize)) -> Self {
        let (key, second_key, iv, aad) = Default::default();
        let (input, output, tag) = Default::default();
        let (prehash, function, expect) = (Prehash::Pure, None, Expect::Match);
        Self { algorithm, origin, key, second_key, iv, aad, input, output, tag, prehash, function, expect }
    }
}

#[cfg(test)]
mod tests {
    use gantry_core::Kind;

    use super::*;

    /// Every program with `gantry check` in it carries them.
    #[test]
    fn vectors_are_small() {
        let packed: usize = FILES.iter().map(|(.., packed)| packed.len()).sum();
        assert!(packed < 1_000_000, "{packed} bytes");
    }

    #[test]
    fn every_file_of_the_crate_is_read() {
        for file in FILES {
            assert!(!own(file, &|_| true).is_empty(), "{}", file.0);
        }
    }

    #[test]
    fn where_a_digest_is_asked_for_it_takes_the_place_of_the_message() {
        let text = "[ed25519 sha256]\nid = 0102\ninput = 07\nunknowable = 02\n";
        let more = miniz_oxide::deflate::compress_to_vec_zlib(format!("= x\n{text}").as_bytes(), 1);
        let more = Vectors::unpack(&more).unwrap();
        let of_x = |digest: Digest<'_>| -> Vec<Vector> {
            let all = load(&[Algorithm::Ed25519], digest, &more).into_iter().map(Cow::into_owned);
            all.filter(|vector| &*vector.origin.0 == "x").collect()
        };
        let digest = |function, message: &[u8]| (function == Algorithm::Sha256).then(|| [message, b"!"].concat());
        let [vector] = &of_x(&digest)[..] else { panic!("one block") };
        assert_eq!((vector.algorithm, vector.origin.1, &*vector.input), (Algorithm::Ed25519, 0x102, &b"\x07!"[..]));
        assert_eq!(vector.expect, Expect::Unknowable("a compressed public key"));
        assert!(of_x(&|_, _| None).is_empty(), "nobody can make the digest");
    }

    #[test]
    fn every_algorithm_has_vectors_of_several_lengths() {
        let more = Vectors::default();
        // Others take data of one length.
        let several = |algorithm: &&Algorithm| {
            let info = algorithm.info();
            info.kind != Kind::Kem && info.max_data > info.min_data as u64
        };
        for &algorithm in Algorithm::ALL.iter().filter(several) {
            let vectors = load(&[algorithm], &|_, _| None, &more);
            let mut lengths: Vec<usize> = vectors.iter().map(|vector| vector.input.len()).collect();
            lengths.sort_unstable();
            lengths.dedup();
            let long = algorithm.info().data_length(200);
            assert!(lengths.len() >= 3 && lengths.last() >= Some(&long), "{algorithm}: {lengths:?}");
        }
    }
}
