//! Algorithms by any of their names.

use gantry_core::Algorithm;

use crate::output::Failure;

/// Finds algorithms by name. Each of `names` may be a list separated by commas. A kernel name that several key sizes share stands for
/// all of them, and a family (`aes`, `p256`, `sha*`) for all its algorithms.
pub(crate) fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, Failure> {
    let mut found = Vec::new();
    for name in names.iter().flat_map(|name| name.split(',')) {
        let family = |error| {
            let family = family(name);
            if family.is_empty() { Err(error) } else { Ok(family) }
        };
        for algorithm in Algorithm::matching(name).or_else(family)? {
            if !found.contains(&algorithm) {
                found.push(algorithm);
            }
        }
    }
    Ok(found)
}

/// Returns the algorithms whose names begin with `name`, up to a hyphen or a number. If there are none, returns those with `name`
/// after a hyphen. A trailing asterisk matches any rest.
fn family(name: &str) -> Vec<Algorithm> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let of = |matches: &dyn Fn(&str) -> bool| {
        Algorithm::ALL.iter().copied().filter(|algorithm| matches(algorithm.name())).collect::<Vec<_>>()
    };
    if let Some(start) = name.strip_suffix('*') {
        return of(&|other| other.starts_with(start));
    }
    let Some(last) = name.chars().next_back() else { return Vec::new() };
    let ends = |rest: &str| match rest.chars().next() {
        None | Some('-') => true,
        Some(next) => next.is_ascii_digit() && !last.is_ascii_digit(),
    };
    let begins = |other: &str| other.strip_prefix(&*name).is_some_and(ends);
    let first = of(&begins);
    if !first.is_empty() {
        return first;
    }
    // ESP's packet algorithms are found as `esp` only, not by the ciphers in their names.
    let is_no_packet = |other: &str| !other.starts_with("esp-");
    of(&|other| is_no_packet(other) && other.match_indices('-').any(|(place, _)| begins(&other[place + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        algorithms(&[text.to_owned()]).unwrap().into_iter().map(Algorithm::name).collect()
    }

    #[test]
    fn a_family_selects_all_its_algorithms() {
        assert_eq!(names("p256"), ["ecdsa-p256", "ecdh-p256"]);
        assert_eq!(names("ecdsa"), ["ecdsa-p256"]);
        assert_eq!(names("RSA_2048"), ["rsa-2048-pkcs1", "rsa-2048-pss", "rsa-2048-raw"]);
        assert_eq!(names("gcm"), ["aes-128-gcm", "aes-192-gcm", "aes-256-gcm"]);
        assert!(names("esp").len() == 8 && names("hmac-sha1").len() == 1);
        assert!(
            names("rsa").len() == 9
                && names("rsaes").len() == 3
                && names("blake2b").iter().all(|name| name.starts_with("blake2b-"))
        );
        let sha = names("sha");
        assert!(sha.contains(&"sha1") && sha.contains(&"sha3-512") && !sha.contains(&"hmac-sha256"), "{sha:?}");
        assert!(names("sha*").contains(&"shake128") && names("sha3-*").iter().all(|name| name.starts_with("sha3-")));
        assert!(names("aes").iter().all(|name| name.starts_with("aes-")));
    }

    #[test]
    fn exact_names_precede_families_and_each_algorithm_is_listed_once() {
        assert_eq!(names("sha256"), ["sha256"]);
        assert_eq!(names("cbc(aes)").len(), 3);
        assert_eq!(names("sha256,md5,sha256"), ["sha256", "md5"]);
        assert_eq!(names("md5,p256,ecdsa-p256"), ["md5", "ecdsa-p256", "ecdh-p256"]);
    }

    #[test]
    fn unknown_names_get_suggestions() {
        for (text, part) in [
            ("sha25", "did you mean"),
            ("sha257", "did you mean sha256"),
            ("frob", "gantry algorithms"),
            ("", "unknown algorithm ''"),
            ("zz*", "unknown"),
        ] {
            let error = algorithms(&[text.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
