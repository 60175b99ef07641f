//! Known answers: the vector files and Wycheproof's sets, in one shape.

use gantry::{Algorithm, Prehash};

use crate::rng::Rng;

/// One known answer. Fields that an algorithm does not have are empty.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) algorithm: Algorithm,
    /// File or set, and line or number in it.
    pub(crate) origin: (&'static str, usize),
    pub(crate) key: Vec<u8>,
    /// The MAC's key, or the public one.
    pub(crate) second_key: Vec<u8>,
    /// Of key encapsulation, the random bytes of a secret.
    pub(crate) iv: Vec<u8>,
    /// Of key encapsulation, the random bytes of both keys; of signatures, the context.
    pub(crate) aad: Vec<u8>,
    /// Message or plaintext; empty where an AEAD's is `Refused`, as nobody may know it.
    pub(crate) input: Vec<u8>,
    /// Digest, MAC, ciphertext, signature or secret.
    pub(crate) output: Vec<u8>,
    /// Of AEADs; of key encapsulation, the secret.
    pub(crate) tag: Vec<u8>,
    /// Of signatures, what they are of.
    pub(crate) prehash: Prehash,
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

/// Why nothing can be said of some: `build/wycheproof.rs` names them by their place.
const REASONS: [&str; 3] = [
    "Wycheproof accepts either answer",
    "what is wrong is the padding, which is the caller's",
    "a compressed public key",
];

/// Makes a digest of a message, if a device can.
pub(crate) type Digest<'a> = &'a dyn Fn(Algorithm, &[u8]) -> Option<Vec<u8>>;

/// A public key for a request for a secret: one of those of the vectors.
pub(crate) fn public_key(rng: &mut Rng, algorithm: Algorithm) -> Vec<u8> {
    let file = FILES.iter().find(|(name, ..)| name.strip_suffix(".txt") == Some(algorithm.name()));
    let of_file = |(name, _, packed): &File| parse(name, &unpacked(packed), &[algorithm], &|_, _| None);
    let mut vectors = file.map(of_file).unwrap_or_default();
    vectors.swap_remove(rng.below(vectors.len())).input
}

/// Every vector of these algorithms.
pub(crate) fn load(wanted: &[Algorithm], digest: Digest<'_>) -> Vec<Vector> {
    let wants = |name: &&str| wanted.iter().any(|algorithm| algorithm.name() == *name);
    let files = FILES.iter().filter(|(_, algorithms, _)| algorithms.iter().any(wants));
    files.flat_map(|(name, _, packed)| parse(name, &unpacked(packed), wanted, digest)).collect()
}

/// A file or set: its name, the names of its algorithms, and its text, compressed.
type File = (&'static str, &'static [&'static str], &'static [u8]);

/// Made by the build script.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

fn unpacked(packed: &[u8]) -> String {
    let text = miniz_oxide::inflate::decompress_to_vec(packed).expect("the build script has packed it");
    String::from_utf8(text).expect("vectors are text")
}

/// Reads the format that `scripts/vectors.py` writes: `[algorithm]` opens a section; a block of `key = hexadecimal`
/// lines, or `ptn = bytes` for that pattern as input, ends at an empty line; `#` starts a comment. In a section `[algorithm digest]` the
/// inputs are messages, of which the algorithm gets digests; without them it has no vectors. The files are part of the crate, so a mistake in one is a bug.
fn parse(name: &'static str, text: &str, wanted: &[Algorithm], digest: Digest<'_>) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let (mut section, mut function) = (None, None);
    let mut block: Option<Vector> = None;
    for (number, line) in text.lines().chain([""]).enumerate() {
        if line.is_empty() {
            vectors.extend(block.take().and_then(|vector: Vector| match function {
                Some(function) => Some(Vector { input: digest(function, &vector.input)?, ..vector }),
                None => Some(vector),
            }));
        } else if let Some(title) = line.strip_prefix('[') {
            let mut names = title.trim_end_matches(']').split(' ');
            let mut next = || names.next().map(|name| name.parse().expect("a section is named after an algorithm"));
            section = next().filter(|algorithm| wanted.contains(algorithm));
            function = next();
        } else if let (Some(algorithm), false) = (section, line.starts_with('#')) {
            let vector = block.get_or_insert_with(|| Vector::new(algorithm, (name, number + 1)));
            let (key, value) = line.split_once('=').expect("a line is `key = value`");
            match (key.trim(), value.trim()) {
                ("ptn", bytes) => vector.input = ptn(bytes.parse().expect("a number of bytes")),
                (key, digits) => vector.set(key, unhex(digits)),
            }
        }
    }
    vectors
}

impl Vector {
    pub(crate) fn new(algorithm: Algorithm, origin: (&'static str, usize)) -> Self {
        let (key, second_key, iv, aad) = Default::default();
        let (input, output, tag) = Default::default();
        let (prehash, expect) = (Prehash::Pure, Expect::Match);
        Self { algorithm, origin, key, second_key, iv, aad, input, output, tag, prehash, expect }
    }

    fn set(&mut self, key: &str, value: Vec<u8>) {
        let field = match key {
            "key" => &mut self.key,
            "mac_key" | "public" => &mut self.second_key,
            "iv" => &mut self.iv,
            "aad" => &mut self.aad,
            "input" => &mut self.input,
            "output" => &mut self.output,
            "tag" => &mut self.tag,
            "prehash" if value[0] == 0 => return self.prehash = Prehash::Mu,
            "prehash" => return self.prehash = Prehash::of_identifier(value[0]).expect("a function with a number"),
            "id" => return self.origin.1 = value.iter().fold(0, |id, byte| id << 8 | usize::from(*byte)),
            "invalid" => return self.expect = Expect::Refused,
            "unknowable" => return self.expect = Expect::Unknowable(REASONS[usize::from(value[0])]),
            "monte" => return self.expect = Expect::MonteCarlo(usize::from(value[0])),
            other => panic!("unknown key {other}"),
        };
        *field = value;
    }
}

/// The pattern of RFC 9861, section 5.
fn ptn(bytes: usize) -> Vec<u8> {
    (0..=0xfa).cycle().take(bytes).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let value = |digit: u8| (digit as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_bytes().chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use gantry::Kind;

    use super::*;

    /// Every program with `gantry check` in it carries them, but for those of the feature `long`.
    #[test]
    fn vectors_are_small() {
        let short = |name: &&str| !name.starts_with("long/") && !name.starts_with("wycheproof ml");
        let packed: usize = FILES.iter().filter(|(name, ..)| short(name)).map(|(.., packed)| packed.len()).sum();
        assert!(packed < 2_600_000, "{packed} bytes");
    }

    #[test]
    fn a_block_becomes_a_vector() {
        let text = "# Origin: nowhere\n\n[sha1]\n\ninput = 00ff\noutput = ab\n\n# more\n[aes-128-gcm]\n\nkey =\ninvalid = 01\n";
        let [digest, aead] = &parse("x", text, Algorithm::ALL, &|_, _| None)[..] else { panic!("two blocks") };
        assert_eq!((digest.algorithm, digest.origin), (Algorithm::Sha1, ("x", 5)));
        assert_eq!((&digest.input[..], &digest.output[..], digest.expect), (&[0, 255][..], &[0xab][..], Expect::Match));
        assert_eq!((aead.algorithm, aead.expect), (Algorithm::Aes128Gcm, Expect::Refused));
        assert_eq!(parse("x", text, &[Algorithm::Sha1], &|_, _| None).len(), 1);
    }

    #[test]
    fn where_a_digest_is_asked_for_it_takes_the_place_of_the_message() {
        let text = "[ed25519 sha256]\nid = 0102\ninput = 07\nunknowable = 02\n";
        let digest = |function, message: &[u8]| (function == Algorithm::Sha256).then(|| [message, b"!"].concat());
        let [vector] = &parse("x", text, Algorithm::ALL, &digest)[..] else { panic!("one block") };
        assert_eq!(
            (vector.algorithm, vector.origin, &*vector.input),
            (Algorithm::Ed25519, ("x", 0x102), &b"\x07!"[..])
        );
        assert_eq!(vector.expect, Expect::Unknowable("a compressed public key"));
        assert!(parse("x", text, Algorithm::ALL, &|_, _| None).is_empty(), "nobody can make the digest");
    }

    #[test]
    fn every_algorithm_has_vectors_of_several_lengths() {
        for &algorithm in
            Algorithm::ALL.iter().filter(|algorithm| !matches!(algorithm.kind(), Kind::Exchange | Kind::Kem))
        {
            let vectors = load(&[algorithm], &|_, _| None);
            let mut lengths: Vec<usize> = vectors.iter().map(|vector| vector.input.len()).collect();
            lengths.sort_unstable();
            lengths.dedup();
            let long = algorithm.info().data_length(200);
            assert!(lengths.len() >= 3 && lengths.last() >= Some(&long), "{algorithm}: {lengths:?}");
        }
    }
}
