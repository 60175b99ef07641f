//! Compares the numbers in `abi.rs` with OpenSSL's headers, and the headers' declarations with those that `abi.rs` follows for ciphers
//! and key derivations.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Returns the header folders of releases, each with a name for messages.
fn headers() -> Vec<(&'static str, PathBuf)> {
    let installed = Path::new("/usr/include/openssl").to_owned();
    let mut all = vec![
        ("3.6", openssl_3_6::source_dir().join("include/openssl")),
        ("4.0", openssl_4_0::source_dir().join("include/openssl")),
    ];
    if installed.join("core_dispatch.h").exists() {
        all.push(("the installed one", installed));
    }
    all
}

fn text(folder: &Path) -> String {
    // The source of a release has a template of err.h.
    let err = if folder.join("err.h").exists() { "err.h" } else { "err.h.in" };
    ["core.h", "core_dispatch.h", "proverr.h", err].map(|name| fs::read_to_string(folder.join(name)).unwrap()).concat()
}

#[test]
fn every_constant_equals_that_of_each_release() {
    for (release, folder) in headers() {
        let text = text(&folder);
        let mut found = 0;
        for (name, value) in NUMBERS {
            let define = text.lines().find_map(|line| {
                let mut words = line.strip_prefix('#')?.split_whitespace();
                (words.next()? == "define" && words.next()? == *name).then(|| words.next())?
            });
            if let Some(define) = define {
                assert_eq!(define.parse(), Ok(*value), "{name} in OpenSSL {release}");
                found += 1;
            }
        }
        // The installed release may be 3.0, which lacks nine of the numbers. The limit allows four more to be missing.
        assert!(found + 13 >= NUMBERS.len(), "{found} of {} in OpenSSL {release}", NUMBERS.len());
        assert!(release == "3.6" || release != "4.0" || found == NUMBERS.len(), "OpenSSL {release} has them all");
    }
}

/// Returns the normalised declaration of a function in `core_dispatch.h`.
fn declaration(text: &str, name: &str) -> Option<String> {
    let at = text.match_indices("OSSL_CORE_MAKE_FUNC(").find_map(|(at, _)| {
        let rest = &text[at + "OSSL_CORE_MAKE_FUNC(".len()..];
        let end = rest.find("))")?;
        let all = rest[..=end].split_whitespace().collect::<Vec<_>>().join(" ");
        let (result, rest) = all.split_once(", ")?;
        let (found, arguments) = rest.split_once(',')?;
        (found.trim() == name).then(|| format!("{} {}", result.trim(), arguments.trim()))
    });
    at.map(|text| types_only(&text))
}

/// Removes the names of arguments, which change between releases.
fn types_only(text: &str) -> String {
    let (result, arguments) = text.split_once('(').unwrap();
    let arguments = arguments.trim_end_matches(')').split(',').map(|argument| {
        let stars = argument.matches('*').count() + argument.matches("[]").count();
        let word = |word: &&str| ["const", "void", "unsigned", "char", "size_t", "int", "OSSL_PARAM"].contains(word);
        let argument = argument.replace('*', " ").replace("[]", " ");
        let kept: Vec<&str> = argument.split_whitespace().filter(word).collect();
        format!("{}{}", kept.join(" "), "*".repeat(stars))
    });
    format!("{}({})", result.split_whitespace().collect::<String>(), arguments.collect::<Vec<_>>().join(", "))
}

#[test]
fn every_function_is_declared_as_it_is_called_here() {
    let update = "int(void*, unsigned char*, size_t*, size_t, const unsigned char*, size_t)";
    let init = "int(void*, const unsigned char*, size_t, const unsigned char*, size_t, const OSSL_PARAM*)";
    let declared = [
        ("cipher_newctx", "void*(void*)"),
        ("cipher_dupctx", "void*(void*)"),
        ("cipher_freectx", "void(void*)"),
        ("cipher_encrypt_init", init),
        ("cipher_decrypt_init", init),
        ("cipher_update", update),
        ("cipher_cipher", update),
        ("cipher_final", "int(void*, unsigned char*, size_t*, size_t)"),
        ("cipher_get_params", "int(OSSL_PARAM*)"),
        ("cipher_get_ctx_params", "int(void*, OSSL_PARAM*)"),
        ("cipher_set_ctx_params", "int(void*, const OSSL_PARAM*)"),
        ("cipher_gettable_params", "constOSSL_PARAM*(void*)"),
        ("cipher_gettable_ctx_params", "constOSSL_PARAM*(void*, void*)"),
        ("kdf_newctx", "void*(void*)"),
        ("kdf_dupctx", "void*(void*)"),
        ("kdf_freectx", "void(void*)"),
        ("kdf_reset", "void(void*)"),
        ("kdf_derive", "int(void*, unsigned char*, size_t, const OSSL_PARAM*)"),
        ("kdf_get_ctx_params", "int(void*, OSSL_PARAM*)"),
        ("kdf_set_ctx_params", "int(void*, const OSSL_PARAM*)"),
    ];
    for (release, folder) in headers() {
        let text = text(&folder);
        for (name, must) in declared {
            assert_eq!(declaration(&text, name).as_deref(), Some(must), "{name} in OpenSSL {release}");
        }
    }
    // Functions newer than 3.0.
    let newest = text(&headers()[1].1);
    for (name, must) in [
        (
            "cipher_pipeline_encrypt_init",
            "int(void*, const unsigned char*, size_t, size_t, const unsigned char**, size_t, const OSSL_PARAM*)",
        ),
        (
            "cipher_pipeline_update",
            "int(void*, size_t, unsigned char**, size_t*, const size_t*, const unsigned char**, const size_t*)",
        ),
        ("cipher_pipeline_final", "int(void*, size_t, unsigned char**, size_t*, const size_t*)"),
    ] {
        assert_eq!(declaration(&newest, name).as_deref(), Some(must), "{name}");
    }
}
