use std::fs;
use std::path::Path;

use gantry_runtime::rights::variable;

use crate::openssl::conf::{self, Conf};
use crate::openssl::setup;
use crate::program::program;
use crate::temporary::Folder;

/// The directions of TLS connections that programs have given to the kernel since it was started.
pub(super) fn kernel_tls() -> u64 {
    given_to_the_kernel(&fs::read_to_string("/proc/net/tls_stat").unwrap_or_default())
}

/// In the words of Linux (Documentation/networking/tls.rst): those that its own code or a network card began with.
fn given_to_the_kernel(counters: &str) -> u64 {
    let lines = counters.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let given = lines.filter(|words| matches!(words[..], ["TlsTxSw" | "TlsRxSw" | "TlsTxDevice" | "TlsRxDevice", _]));
    given.filter_map(|words| words[1].parse::<u64>().ok()).sum()
}

/// What is wrong with the configuration that programs read, and what keeps them from the module if it was not loaded.
pub(super) fn of_the_configuration(loaded: bool) -> Vec<String> {
    if variable("GANTRY_DISABLE").is_some_and(|value| value == "1") {
        return vec!["GANTRY_DISABLE is set.".to_owned()];
    }
    let path = match conf::in_use() {
        Ok(path) => path,
        Err(none) => return vec![none],
    };
    match Conf::read(&path) {
        Err(error) if !loaded => vec![error],
        Err(_) => Vec::new(),
        Ok(conf) => {
            let mut found = conf.complaints();
            let refused = setup::refusal();
            if !loaded && conf.names_gantry() {
                found.extend(openssl_says_of(&path));
            } else if !loaded && refused.is_none() {
                found.push(format!("{} does not activate it: gantry openssl config --system does.", path.display()));
            }
            add(&mut found, refused);
            found
        }
    }
}

/// Adds a sentence, unless one of the others is its beginning.
pub(super) fn add(found: &mut Vec<String>, refused: Option<String>) {
    let new = refused.filter(|refused| !found.iter().any(|said| refused.starts_with(&**said)));
    found.extend(new);
}

/// What OpenSSL itself stumbles over in a configuration, which it tells only if that asks for it.
fn openssl_says_of(path: &Path) -> Vec<String> {
    let said = Folder::new().ok().and_then(|folder| {
        let mut aloud = program("openssl").ok()?;
        let asking = folder.path().join("aloud.cnf");
        fs::write(&asking, format!("config_diagnostics = 1\n.include {}\n", path.display())).ok()?;
        aloud.args(["list", "-providers"]).env("OPENSSL_CONF", asking).output().ok()
    });
    let said = said.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    // Thread, "error", number, library, function, reason, file, line, and what it is about (ERR_print_errors(3)).
    let errors = said.lines().map(|line| line.splitn(9, ':').collect::<Vec<_>>());
    let first = errors.into_iter().find(|fields| fields.get(1) == Some(&"error"));
    first
        .filter(|fields| fields.len() == 9)
        .map(|fields| format!("{}: OpenSSL says '{}', {}", path.display(), fields[5], fields[8]))
        .into_iter()
        .collect()
}

/// Libraries of TLS, by what their files begin with, and what they mean for a program.
const LIBRARIES: [(&str, &str); 7] = [
    ("libcrypto.so.3", "OpenSSL 3: does it read openssl.cnf? Some programs read another section, or none."),
    ("libcrypto.so.4", "OpenSSL 4: does it read openssl.cnf? Some programs read another section, or none."),
    ("libcrypto.so.1", "OpenSSL 1, which knows no providers."),
    ("libgnutls.so", "GnuTLS, which knows no providers."),
    ("libnss3.so", "NSS, which knows no providers."),
    ("libmbedcrypto.so", "Mbed TLS, which knows no providers."),
    ("libwolfssl.so", "wolfSSL, which knows no providers."),
];

/// What a program that did not load the module works with instead.
pub(super) fn of_the_program(name: &str) -> Vec<String> {
    let says = |name: &str, arguments: &[&str]| {
        let output = program(name).ok().and_then(|mut command| command.args(arguments).output().ok());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let path = says("sh", &["-c", "command -v -- \"$0\"", name]);
    let linked = says("ldd", &[&path]);
    let links = |library: &str| linked.split_whitespace().any(|name| name.starts_with(library));
    let found: Vec<String> = LIBRARIES
        .iter()
        .filter(|(library, _)| links(library))
        .map(|(_, says)| format!("{path}: it links {says}"))
        .collect();
    if found.is_empty() {
        return vec![format!(
            "{path}: it links no TLS library that is known here: it may be static, a script, or load one later."
        )];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_the_kernel_was_given_are_counted() {
        let counters = "TlsCurrTxSw                     \t2\nTlsCurrRxSw                     \t0\nTlsTxSw                         \t5\n\
                        TlsRxSw                         \t3\nTlsTxDevice                     \t1\nTlsRxDevice                     \t0\n\
                        TlsDecryptError                 \t7\n";
        assert_eq!(given_to_the_kernel(counters), 9);
        assert_eq!(given_to_the_kernel(""), 0);
    }
}
