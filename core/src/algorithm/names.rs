//! Algorithms by the names that programs use.

use std::fmt;
use std::str::FromStr;

use super::ids::Algorithm;
use super::kind::Kind;
use super::row::AlgorithmInfo;

impl Algorithm {
    /// Returns all algorithms with this name. A name or an alias belongs to one algorithm. The Linux kernel's name of a cipher belongs to
    /// one algorithm for each key size. Spellings are compared as in [`same_name`], but `aes-256` does not match the alias `aes256` of
    /// AES-256-CBC.
    pub fn matching(name: &str) -> Result<Vec<Algorithm>, UnknownAlgorithm> {
        let found = algorithms_named(name);
        if found.is_empty() { Err(UnknownAlgorithm::new(name, None)) } else { Ok(found) }
    }

    /// Returns the algorithm with this name, which must be of kind `kind`. The error suggests algorithms of this kind.
    pub fn of_kind(name: &str, kind: Kind) -> Result<Algorithm, UnknownAlgorithm> {
        match algorithms_named(name)[..] {
            [algorithm] if algorithm.kind() == kind => Ok(algorithm),
            _ => Err(UnknownAlgorithm::new(name, Some(kind))),
        }
    }
}

/// Returns true if two spellings are the same name: case, `-`, `_`, `/` and spaces make no difference (`SHA3_256`, `sha3-256`;
/// `SHA-512/256`, `sha512-256`).
pub fn same_name(first: &str, second: &str) -> bool {
    letters(first).eq(letters(second))
}

fn algorithms_named(name: &str) -> Vec<Algorithm> {
    // `aes256` means CBC, as in OpenSSL, but `aes-256` may be any mode. So punctuation counts in a cipher's alias that has no `-`.
    let has_no_mode = |row: &AlgorithmInfo, row_name: &str| {
        row.kind == Kind::Cipher && row_name != row.name && !row_name.contains('-')
    };
    let is_named = |row: &AlgorithmInfo, row_name: &str| {
        if has_no_mode(row, row_name) { row_name.eq_ignore_ascii_case(name) } else { same_name(row_name, name) }
    };
    match Algorithm::rows().find(|row| row.names().any(|row_name| is_named(row, row_name))) {
        Some(row) => vec![row.algorithm],
        None => Algorithm::rows()
            .filter(|row| !row.kernel.is_empty() && same_name(row.kernel, name))
            .map(|row| row.algorithm)
            .collect(),
    }
}

/// Returns the significant characters of a name. Allocates nothing, because OpenSSL's programs look up a digest for each key derivation.
fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|letter| !matches!(letter, '-' | '_' | '/' | ' ')).map(|letter| letter.to_ascii_lowercase())
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match Algorithm::matching(name)?.as_slice() {
            [algorithm] => Ok(*algorithm),
            several => Err(UnknownAlgorithm {
                name: name.to_owned(),
                kind: None,
                suggestions: several.iter().map(|algorithm| algorithm.name()).collect(),
            }),
        }
    }
}

/// A name that stands for no algorithm, for several, or for one of another kind than the required one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", subject(.name, *.kind), suggest(.suggestions, *.kind))]
pub struct UnknownAlgorithm {
    /// The name as it was given.
    pub name: String,
    /// The required kind, if there is one.
    pub kind: Option<Kind>,
    /// Similar names of that kind, nearest first. If the name stands for several algorithms, their names.
    pub suggestions: Vec<&'static str>,
}

/// The longest name that is compared with others, in characters: names come from files and sockets, and a comparison takes time in
/// proportion to both lengths.
const MAX_COMPARED_LENGTH: usize = 64;

impl UnknownAlgorithm {
    fn new(name: &str, kind: Option<Kind>) -> Self {
        let is_kind = |row: &&AlgorithmInfo| kind.is_none_or(|kind| row.kind == kind);
        let given: String = letters(name).take(MAX_COMPARED_LENGTH + 1).collect();
        let distance = |row_name: &str| strsim::damerau_levenshtein(&given, &letters(row_name).collect::<String>());
        let is_short = given.chars().count() <= MAX_COMPARED_LENGTH;
        let rows = || Algorithm::rows().filter(|_| is_short).filter(is_kind);
        let mut near: Vec<(usize, &'static str)> = rows()
            .filter_map(|row| Some((row.names().map(distance).min()?, row.name)))
            .filter(|(distance, _)| *distance <= 1 + given.len() / 4)
            .collect();
        if near.is_empty() && given.len() > 2 {
            // The name may lack its key size or its mode: "aes-gcm", or "aes256" for an AEAD. A row is similar if its name has the given
            // letters in this order, perhaps with others between them. Encrypt-then-authenticate names are left out: they contain the
            // names of two algorithms, and would match either.
            let contains = |row_name: &str| {
                let mut row_name = letters(row_name);
                given.chars().all(|letter| row_name.any(|next| next == letter))
            };
            let whole = rows().filter(|row| row.cipher.is_none() && contains(row.name));
            near.extend(whole.map(|row| (distance(row.name), row.name)));
        }
        near.sort_by_key(|(distance, _)| *distance);
        let suggestions = near.into_iter().take(3).map(|(_, name)| name).collect();
        Self { name: name.to_owned(), kind, suggestions }
    }
}

fn subject(name: &str, kind: Option<Kind>) -> String {
    match kind {
        None => format!("unknown algorithm '{name}'"),
        Some(kind) => format!("there is no {} '{name}'", kind.title()),
    }
}

fn suggest(suggestions: &[&str], kind: Option<Kind>) -> String {
    match (suggestions, kind) {
        ([], None) => "; `gantry algorithms` lists them all".to_owned(),
        ([], Some(kind)) => {
            // Encrypt-then-authenticate names would make the list unreadable.
            let rows = Algorithm::rows().filter(|row| row.kind == kind && row.cipher.is_none());
            format!("; there are {}", rows.map(|row| row.name).collect::<Vec<_>>().join(", "))
        }
        ([name], _) => format!("; did you mean {name}?"),
        ([most @ .., last], _) => format!("; did you mean {} or {last}?", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_name_or_an_alias_means_one_algorithm() {
        let mut seen: HashMap<String, Algorithm> = HashMap::new();
        for row in super::super::table::TABLE {
            for name in row.names() {
                let other = seen.insert(letters(name).collect(), row.algorithm).filter(|other| *other != row.algorithm);
                assert_eq!(other, None, "{name} names {} as well", row.name);
            }
        }
    }

    #[test]
    fn accepts_names_of_other_libraries() {
        for (name, algorithm) in [
            ("SHA2-256", Algorithm::Sha256),
            ("hmac(sha256)", Algorithm::HmacSha256),
            ("AEAD_AES_128_GCM", Algorithm::Aes128Gcm),
            ("id-aes256-GCM", Algorithm::Aes256Gcm),
            ("hmac-sha2-512", Algorithm::HmacSha512),
            ("RMD160", Algorithm::Ripemd160),
            ("ChaCha20-Poly1305", Algorithm::ChaCha20Poly1305),
            ("SHA-256", Algorithm::Sha256),
            ("SHA 256", Algorithm::Sha256),
            ("SHA3_256", Algorithm::Sha3_256),
            ("SHA3256", Algorithm::Sha3_256),
            ("SHA-512/256", Algorithm::Sha512_256),
            ("SHA512_256", Algorithm::Sha512_256),
            ("HmacSHA256", Algorithm::HmacSha256),
            ("HMAC-SHA-384", Algorithm::HmacSha384),
            ("AES_256_GCM", Algorithm::Aes256Gcm),
            ("AES256GCM", Algorithm::Aes256Gcm),
            ("A128GCM", Algorithm::Aes128Gcm),
            ("aes-gcm-256", Algorithm::Aes256Gcm),
            ("AES256", Algorithm::Aes256Cbc),
            ("AES_128_CFB128", Algorithm::Aes128Cfb),
            ("RIPEMD-160", Algorithm::Ripemd160),
            ("BLAKE2b_256", Algorithm::Blake2b256),
            ("ML_DSA_65", Algorithm::MlDsa65),
            ("SLH-DSA-SHAKE-128s", Algorithm::SlhDsaShake128s),
        ] {
            assert_eq!(name.parse(), Ok(algorithm), "{name}");
        }
        assert!("aes-256".parse::<Algorithm>().is_err(), "the mode is missing");
    }

    #[test]
    fn the_kernels_name_stands_for_every_key_size() {
        use Algorithm::*;
        assert_eq!(Algorithm::matching("cbc(aes)"), Ok(vec![Aes128Cbc, Aes192Cbc, Aes256Cbc]));
        let error = "cbc(aes)".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown algorithm 'cbc(aes)'; did you mean aes-128-cbc, aes-192-cbc or aes-256-cbc?"
        );
    }

    #[test]
    fn a_name_of_another_kind_gets_names_of_the_required_one() {
        let wrong = |name| Algorithm::of_kind(name, Kind::Aead).unwrap_err().to_string();
        assert_eq!(Algorithm::of_kind("AES-256-GCM", Kind::Aead), Ok(Algorithm::Aes256Gcm));
        assert_eq!(wrong("aes-256-gmc"), "there is no AEAD 'aes-256-gmc'; did you mean aes-256-gcm or aes-256-ccm?");
        assert_eq!(
            wrong("aes-gcm"),
            "there is no AEAD 'aes-gcm'; did you mean aes-128-gcm, aes-192-gcm or aes-256-gcm?"
        );
        assert!(wrong("sha256").contains("; there are aes-128-gcm, aes-192-gcm, "), "{}", wrong("sha256"));
        assert!(Algorithm::of_kind("gcm(aes)", Kind::Aead).is_err());
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion() {
        let error = "sha265".parse::<Algorithm>().unwrap_err();
        assert!(error.to_string().contains("sha256"), "{error}");
        let error = "aes-gcm".parse::<Algorithm>().unwrap_err();
        assert_eq!(error.suggestions, ["aes-128-gcm", "aes-192-gcm", "aes-256-gcm"]);
        assert_eq!("md6".parse::<Algorithm>().unwrap_err().suggestions, ["md5"]);
        let error = "".parse::<Algorithm>().unwrap_err();
        assert!(error.suggestions.is_empty());
        assert!("x".repeat(1 << 20).parse::<Algorithm>().is_err());
    }
}
