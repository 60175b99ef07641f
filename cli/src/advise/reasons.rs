//! Reasons why a program does not use gantry.

use std::fs;
use std::path::Path;

use gantry_runtime::rights::variable;

use crate::openssl::conf::{self, Conf};
use crate::openssl::setup;
use crate::program::program;
use crate::temporary::Folder;

/// Returns the number of directions (sending or receiving) of TLS connections that programs have handed to the kernel so far. Linux counts
/// them per network namespace.
pub(super) fn kernel_tls_count() -> u64 {
    sum_kernel_tls_counters(&fs::read_to_string("/proc/net/tls_stat").unwrap_or_default())
}

/// Sums the counters of opened sessions in the text of `/proc/net/tls_stat` (Documentation/networking/tls.rst of Linux). `Sw` stands for
/// cryptography on the host, `Device` for cryptography on the network card.
fn sum_kernel_tls_counters(counters: &str) -> u64 {
    let lines = counters.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let openings =
        lines.filter(|words| matches!(words[..], ["TlsTxSw" | "TlsRxSw" | "TlsTxDevice" | "TlsRxDevice", _]));
    openings.filter_map(|words| words[1].parse::<u64>().ok()).sum()
}

/// Returns mistakes in the configuration that programs read. If `loaded` is false, also returns the reasons why no program loaded
/// `gantry.so`.
pub(super) fn configuration_reasons(loaded: bool) -> Vec<String> {
    if variable("GANTRY_DISABLE").is_some_and(|value| value == "1") {
        return vec!["GANTRY_DISABLE is set.".to_owned()];
    }
    let path = match conf::file_in_use() {
        Ok(path) => path,
        Err(none) => return vec![none],
    };
    match Conf::read(&path) {
        Err(error) if !loaded => vec![error],
        Err(_) => Vec::new(),
        Ok(conf) => {
            let mut found = conf.problems();
            let refused = setup::refusal();
            if !loaded && conf.lists_gantry() {
                found.extend(openssl_error(&path));
            } else if !loaded && refused.is_none() {
                found.push(format!(
                    "{} does not activate gantry; to change that, run gantry openssl config --system.",
                    path.display()
                ));
            }
            add_unless_present(&mut found, refused);
            found
        }
    }
}

/// Adds `sentence`, unless it begins with a sentence that is already present.
pub(super) fn add_unless_present(sentences: &mut Vec<String>, sentence: Option<String>) {
    let new = sentence.filter(|sentence| !sentences.iter().any(|present| sentence.starts_with(&**present)));
    sentences.extend(new);
}

/// Returns the first error that OpenSSL finds in a configuration. OpenSSL prints it only with `config_diagnostics`.
fn openssl_error(path: &Path) -> Vec<String> {
    let output = Folder::new().ok().and_then(|folder| {
        let mut command = program("openssl").ok()?;
        let diagnosing = folder.path().join("aloud.cnf");
        fs::write(&diagnosing, format!("config_diagnostics = 1\n.include {}\n", path.display())).ok()?;
        command.args(["list", "-providers"]).env("OPENSSL_CONF", diagnosing).output().ok()
    });
    let text = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    // Fields of ERR_print_errors(3): thread, "error", number, library, function, reason, file, line, data.
    let errors = text.lines().map(|line| line.splitn(9, ':').collect::<Vec<_>>());
    let first = errors.into_iter().find(|fields| fields.get(1) == Some(&"error"));
    first
        .filter(|fields| fields.len() == 9)
        .map(|fields| format!("{}: OpenSSL says '{}', {}", path.display(), fields[5], fields[8]))
        .into_iter()
        .collect()
}

/// TLS libraries: the beginning of their file names, and an explanation.
const LIBRARIES: [(&str, &str); 7] = [
    ("libcrypto.so.3", "OpenSSL 3: does it read openssl.cnf? Some programs read another section, or none."),
    ("libcrypto.so.4", "OpenSSL 4: does it read openssl.cnf? Some programs read another section, or none."),
    ("libcrypto.so.1", "OpenSSL 1, which knows no providers."),
    ("libgnutls.so", "GnuTLS, which knows no providers."),
    ("libnss3.so", "NSS, which knows no providers."),
    ("libmbedcrypto.so", "Mbed TLS, which knows no providers."),
    ("libwolfssl.so", "wolfSSL, which knows no providers."),
];

/// Explains, from the TLS library that a program links, why the program did not load `gantry.so`.
pub(super) fn program_reasons(name: &str) -> Vec<String> {
    let output_of = |name: &str, arguments: &[&str]| {
        let output = program(name).ok().and_then(|mut command| command.args(arguments).output().ok());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let path = output_of("sh", &["-c", "command -v -- \"$0\"", name]);
    let linked = output_of("ldd", &[&path]);
    let links = |library: &str| linked.split_whitespace().any(|name| name.starts_with(library));
    let found: Vec<String> = LIBRARIES
        .iter()
        .filter(|(library, _)| links(library))
        .map(|(_, says)| format!("{path}: it links {says}"))
        .collect();
    if found.is_empty() {
        return vec![format!("{path}: it links no known TLS library: it may be static, a script, or load one later.")];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_connections_that_were_given_to_the_kernel() {
        let counters = "TlsCurrTxSw                     \t2\nTlsCurrRxSw                     \t0\nTlsTxSw                         \t5\n\
                        TlsRxSw                         \t3\nTlsTxDevice                     \t1\nTlsRxDevice                     \t0\n\
                        TlsDecryptError                 \t7\n";
        assert_eq!(sum_kernel_tls_counters(counters), 9);
        assert_eq!(sum_kernel_tls_counters(""), 0);
    }
}
