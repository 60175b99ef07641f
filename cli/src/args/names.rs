//! Algorithms by the names that people give.

use gantry_core::Algorithm;

use crate::output::Failure;

/// Algorithms by any of their names, separated by commas too; all key sizes for a name that the Linux kernel gives to all; and all of a family
/// (`aes`, `p256`, `sha*`).
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

/// The algorithms whose names begin with this one, before a hyphen or a number; if there is none, those that have it behind a hyphen. With an asterisk at its end, all that
/// begin with it.
fn family(name: &str) -> Vec<Algorithm> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let of = |matches: &dyn Fn(&str) -> bool| {
        Algorithm::ALL.iter().copied().filter(|algorithm| matches(algorithm.name())).collect::<Vec<_>>()
    };
    if let Some(start) = name.strip_suffix('*') {
        return of(&|known| known.starts_with(start));
    }
    let Some(last) = name.chars().next_back() else { return Vec::new() };
    let ends = |rest: &str| match rest.chars().next() {
        None | Some('-') => true,
        Some(next) => next.is_ascii_digit() && !last.is_ascii_digit(),
    };
    let begins = |known: &str| known.strip_prefix(&*name).is_some_and(ends);
    let first = of(&begins);
    if !first.is_empty() {
        return first;
    }
    // What is in packets is a family of its own: `esp`.
    let alone = |known: &str| !known.starts_with("esp-");
    of(&|known| alone(known) && known.match_indices('-').any(|(place, _)| begins(&known[place + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        algorithms(&[text.to_owned()]).unwrap().into_iter().map(Algorithm::name).collect()
    }

    #[test]
    fn a_family_is_all_of_it() {
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
    fn names_come_first_and_each_algorithm_once() {
        assert_eq!(names("sha256"), ["sha256"]);
        assert_eq!(names("cbc(aes)").len(), 3);
        assert_eq!(names("sha256,md5,sha256"), ["sha256", "md5"]);
        assert_eq!(names("md5,p256,ecdsa-p256"), ["md5", "ecdsa-p256", "ecdh-p256"]);
    }

    #[test]
    fn what_is_no_family_is_told_what_is_near() {
        for (text, part) in [
            ("sha25", "did you mean"),
            ("sha257", "did you mean sha256"),
            ("frob", "gantry algorithms"),
            ("", "unknown algorithm ''"),
            ("zz*", "unknown"),
        ] {
            let said = algorithms(&[text.to_owned()]).unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
