//! Algorithms by the names that programs use.

use std::fmt;
use std::str::FromStr;

use super::ids::Algorithm;

impl Algorithm {
    /// All algorithms that `name` stands for: one for a name or an alias, one for each key size for the kernel's name
    /// of a cipher. Upper and lower case, `_` and `-` are the same.
    pub fn matching(name: &str) -> Result<Vec<Algorithm>, UnknownAlgorithm> {
        let name = normal(name);
        let exact = Algorithm::rows().find(|row| row.names().any(|known| is_normal(known, &name)));
        let found: Vec<Algorithm> = match exact {
            Some(row) => vec![row.algorithm],
            None => Algorithm::rows()
                .filter(|row| is_normal(row.kernel, &name) && !name.is_empty())
                .map(|row| row.algorithm)
                .collect(),
        };
        if found.is_empty() { Err(UnknownAlgorithm::new(&name)) } else { Ok(found) }
    }
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
            [one] => Ok(*one),
            several => Err(UnknownAlgorithm {
                name: name.to_owned(),
                suggestions: several.iter().map(|algorithm| algorithm.name()).collect(),
            }),
        }
    }
}

/// A name that no row carries, with the nearest ones that a row does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown algorithm '{name}'{}", suggest(.suggestions))]
pub struct UnknownAlgorithm {
    /// The name as it was given.
    pub name: String,
    /// Names that are close to it, nearest first.
    pub suggestions: Vec<&'static str>,
}

impl UnknownAlgorithm {
    fn new(name: &str) -> Self {
        // Names can be of any length (they come from files and sockets); a distance costs their product.
        let mut near: Vec<(usize, &'static str)> = Algorithm::rows()
            .filter(|_| name.len() <= 64)
            .map(|row| {
                (
                    row.names().map(|known| strsim::damerau_levenshtein(name, known)).min().unwrap_or(usize::MAX),
                    row.name,
                )
            })
            .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
            .collect();
        near.sort_by_key(|(distance, _)| *distance);
        Self { name: name.to_owned(), suggestions: near.into_iter().take(3).map(|(_, name)| name).collect() }
    }
}

fn suggest(suggestions: &[&str]) -> String {
    match suggestions {
        [] => "; `gantry algorithms` lists them all".to_owned(),
        [one] => format!("; did you mean {one}?"),
        [most @ .., last] => format!("; did you mean {} or {last}?", most.join(", ")),
    }
}

fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Whether a name is this one, which is [`normal`]. Programs ask with each MAC that they begin: no name is copied.
fn is_normal(name: &str, normal: &str) -> bool {
    let same = |(byte, normal): (u8, u8)| byte.to_ascii_lowercase() == normal || (byte == b'_' && normal == b'-');
    name.len() == normal.len() && name.bytes().zip(normal.bytes()).all(same)
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
                if let Some(other) = seen.insert(normal(name), row.algorithm) {
                    panic!("{name} names both {other} and {}", row.name);
                }
            }
        }
    }

    #[test]
    fn names_of_others_are_understood() {
        for (name, algorithm) in [
            ("SHA2-256", Algorithm::Sha256),
            ("hmac(sha256)", Algorithm::HmacSha256),
            ("AEAD_AES_128_GCM", Algorithm::Aes128Gcm),
            ("id-aes256-GCM", Algorithm::Aes256Gcm),
            ("hmac-sha2-512", Algorithm::HmacSha512),
            ("RMD160", Algorithm::Ripemd160),
            ("ChaCha20-Poly1305", Algorithm::ChaCha20Poly1305),
        ] {
            assert_eq!(name.parse(), Ok(algorithm), "{name}");
        }
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
    fn a_misspelt_name_gets_a_suggestion() {
        let error = "sha265".parse::<Algorithm>().unwrap_err();
        assert!(error.to_string().contains("sha256"), "{error}");
        let error = "".parse::<Algorithm>().unwrap_err();
        assert!(error.suggestions.is_empty());
        assert!("x".repeat(1 << 20).parse::<Algorithm>().is_err());
    }
}
