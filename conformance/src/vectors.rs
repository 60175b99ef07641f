//! Known answers: the vector files and Wycheproof's sets, in one shape.

use gantry::Algorithm;

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
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    /// Message or plaintext; empty where an AEAD's is `Refused`, as nobody may know it.
    pub(crate) input: Vec<u8>,
    /// Digest, MAC, ciphertext, signature or secret.
    pub(crate) output: Vec<u8>,
    pub(crate) tag: Vec<u8>,
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
    #[cfg_attr(not(feature = "wycheproof"), allow(dead_code))]
    Unknowable(&'static str),
}

/// Makes a digest of a message, if a device can.
pub(crate) type Digest<'a> = &'a dyn Fn(Algorithm, &[u8]) -> Option<Vec<u8>>;

/// A public key for a request for a secret: one of those of the vectors.
pub(crate) fn public_key(rng: &mut Rng, algorithm: Algorithm) -> Vec<u8> {
    let file = FILES.iter().find(|(name, _)| name.strip_suffix(".txt") == Some(algorithm.name()));
    let mut vectors = file.map(|(name, text)| parse(name, text, &[algorithm])).unwrap_or_default();
    vectors.swap_remove(rng.below(vectors.len())).input
}

/// Every vector of these algorithms.
pub(crate) fn load(wanted: &[Algorithm], digest: Digest<'_>) -> Vec<Vector> {
    let mut all = Vec::new();
    for &(name, text) in FILES {
        all.extend(parse(name, text, wanted));
    }
    #[cfg(not(feature = "wycheproof"))]
    let _ = digest;
    #[cfg(feature = "wycheproof")]
    all.extend(crate::wycheproof::load(wanted, digest));
    all
}

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../vectors/", $name)))),+];
    };
}

files![
    "aes-cbc.txt",
    "aes-ccm.txt",
    "aes-cfb.txt",
    "aes-ctr.txt",
    "aes-ecb.txt",
    "aes-gcm.txt",
    "aes-gmac.txt",
    "aes-ofb.txt",
    "aes-xts.txt",
    "chacha20-poly1305.txt",
    "chacha20.txt",
    "cmac.txt",
    "computed.txt",
    "des-ede3-cbc.txt",
    "ecdh-p256.txt",
    "ecdsa-p256.txt",
    "ed25519.txt",
    "hmac.txt",
    "md5.txt",
    "poly1305.txt",
    "ripemd160.txt",
    "rsa-pkcs1.txt",
    "sha1.txt",
    "sha2.txt",
    "sha3.txt",
    "x25519.txt",
];

/// Reads the format that `scripts/vectors.py` writes: `[algorithm]` opens a section; a block of `key = hexadecimal`
/// lines ends at an empty line; `#` starts a comment. The files are part of the crate, so a mistake in one is a bug.
fn parse(name: &'static str, text: &str, wanted: &[Algorithm]) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let mut section = None;
    let mut block: Option<Vector> = None;
    for (number, line) in text.lines().chain([""]).enumerate() {
        if line.is_empty() {
            vectors.extend(block.take());
        } else if let Some(title) = line.strip_prefix('[') {
            let algorithm: Algorithm =
                title.trim_end_matches(']').parse().expect("a section is named after an algorithm");
            section = wanted.contains(&algorithm).then_some(algorithm);
        } else if let (Some(algorithm), false) = (section, line.starts_with('#')) {
            let vector = block.get_or_insert_with(|| Vector::new(algorithm, (name, number + 1)));
            let (key, value) = line.split_once('=').expect("a line is `key = value`");
            vector.set(key.trim(), unhex(value.trim()));
        }
    }
    vectors
}

impl Vector {
    pub(crate) fn new(algorithm: Algorithm, origin: (&'static str, usize)) -> Self {
        let (key, second_key, iv, aad) = Default::default();
        let (input, output, tag) = Default::default();
        Self { algorithm, origin, key, second_key, iv, aad, input, output, tag, expect: Expect::Match }
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
            "invalid" => return self.expect = Expect::Refused,
            "monte" => return self.expect = Expect::MonteCarlo(usize::from(value[0])),
            other => panic!("unknown key {other}"),
        };
        *field = value;
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let value = |digit: u8| (digit as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_bytes().chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use gantry::Kind;

    use super::*;

    #[test]
    fn a_block_becomes_a_vector() {
        let text = "# Origin: nowhere\n\n[sha1]\n\ninput = 00ff\noutput = ab\n\n# more\n[aes-128-gcm]\n\nkey =\ninvalid = 01\n";
        let [digest, aead] = &parse("x", text, Algorithm::ALL)[..] else { panic!("two blocks") };
        assert_eq!((digest.algorithm, digest.origin), (Algorithm::Sha1, ("x", 5)));
        assert_eq!((&digest.input[..], &digest.output[..], digest.expect), (&[0, 255][..], &[0xab][..], Expect::Match));
        assert_eq!((aead.algorithm, aead.expect), (Algorithm::Aes128Gcm, Expect::Refused));
        assert_eq!(parse("x", text, &[Algorithm::Sha1]).len(), 1);
    }

    #[test]
    fn every_algorithm_has_vectors_of_several_lengths() {
        for &algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.kind() != Kind::Exchange) {
            let vectors = load(&[algorithm], &|_, _| None);
            let mut lengths: Vec<usize> = vectors.iter().map(|vector| vector.input.len()).collect();
            lengths.sort_unstable();
            lengths.dedup();
            let long = algorithm.info().data_length(200);
            assert!(lengths.len() >= 3 && lengths.last() >= Some(&long), "{algorithm}: {lengths:?}");
        }
    }

    #[test]
    fn every_file_is_read() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors");
        let mut there: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
