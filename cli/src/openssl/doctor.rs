//! `gantry openssl doctor`: a program run, and what of its cryptography went through gantry.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use gantry_runtime::bounded;

use super::conf::{self, Conf};
use super::{files, said, sentences};
use crate::output::{Failure, Output};
use crate::table::Table;
use crate::temporary::{Folder, as_its_own};

/// Runs a program and says what of its cryptography went through gantry, and what did not. Ends as the program has ended.
pub(super) fn run(words: &[OsString], output: &mut Output) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::Usage("which program?".to_owned()))?;
    let before = kernel_tls();
    let status = folder.run(Command::new(program).args(arguments), "GANTRY_OPENSSL_STATS")?;
    let mut text = format!("\n{} ended with {status}.\n", program.to_string_lossy());
    let mut reports = 0;
    for file in files(&folder, "")? {
        if file.extension().is_some_and(|tail| tail == "routes" || tail == "why") {
            continue;
        }
        let Some(report) = Report::read(&file) else { continue };
        reports += 1;
        text += &report.text();
    }
    let mut notes = sentences(&folder)?;
    let refused = !notes.is_empty();
    notes.extend(of_the_configuration(reports > 0));
    if reports == 0 {
        text += "It did not load gantry.\n";
    }
    if reports == 0 && !refused {
        notes.extend(of_the_program(&program.to_string_lossy()));
    }
    text += &said(&notes);
    let given = kernel_tls().saturating_sub(before);
    if given > 0 {
        let _ = writeln!(
            text,
            "\nMeanwhile programs of this machine gave the kernel {given} directions of TLS connections (kTLS): it makes their records."
        );
    }
    output.write(&text)?;
    as_its_own(status)
}

/// The directions of TLS connections that programs have given to the kernel since it was started.
fn kernel_tls() -> u64 {
    given_to_the_kernel(&fs::read_to_string("/proc/net/tls_stat").unwrap_or_default())
}

/// In the words of Linux (Documentation/networking/tls.rst): those that its own code or a network card began with.
fn given_to_the_kernel(counters: &str) -> u64 {
    let lines = counters.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let given = lines.filter(|words| matches!(words[..], ["TlsTxSw" | "TlsRxSw" | "TlsTxDevice" | "TlsRxDevice", _]));
    given.filter_map(|words| words[1].parse::<u64>().ok()).sum()
}

/// What the column says.
const HOST: &str = "HOST is the program's own libcrypto: it has what is too short to gain, what is no faster elsewhere, and all that is\n\
                    left to it in the configuration. To be counted, every algorithm came by here that is not left out there.";

/// What a process counted.
struct Report {
    program: String,
    /// Algorithm, forward and back, host and devices: requests and bytes.
    rows: Vec<(String, [[[u64; 2]; 2]; 2])>,
}

impl Report {
    fn read(path: &Path) -> Option<Self> {
        const ROW: usize = 64;
        let bytes = bounded::read(path).ok()?;
        // The numbers come first, and there are as many rows of them as lines of text but one.
        let count = (0..=bytes.len() / ROW).find(|count| {
            let text = std::str::from_utf8(&bytes[count * ROW..]);
            text.is_ok_and(|text| text.lines().count() == count + 1 && !text.contains('\0'))
        })?;
        let text = std::str::from_utf8(&bytes[count * ROW..]).ok()?;
        let mut lines = text.lines();
        let program = lines.next()?.to_owned();
        let number = |row: usize, at: usize| {
            let from = row * ROW + 8 * at;
            u64::from_ne_bytes(bytes[from..from + 8].try_into().unwrap_or_default())
        };
        let rows = lines.enumerate().map(|(row, name)| {
            let side = |at| [number(row, at), number(row, at + 1)];
            (name.to_owned(), [[side(0), side(2)], [side(4), side(6)]])
        });
        Some(Self { program, rows: rows.collect() })
    }

    fn text(&self) -> String {
        let mut table = Table::new(&["ALGORITHM", "", "HOST", "BYTES", "DEVICES", "BYTES"], &[2, 3, 4, 5]);
        let mut any = false;
        for (name, directions) in &self.rows {
            for (direction, [host, device]) in ["forward", "back"].iter().zip(directions) {
                if host[0] + device[0] > 0 {
                    any = true;
                    let cells = [host[0], host[1], device[0], device[1]].map(|number| number.to_string());
                    table.row([name.clone(), (*direction).to_owned()].into_iter().chain(cells));
                }
            }
        }
        if any {
            format!("\n{}: through gantry went\n{}{HOST}\n", self.program, table.render())
        } else {
            format!("\n{}: loaded gantry, and asked nothing of it\n", self.program)
        }
    }
}

/// What is wrong with the configuration that programs read, and what keeps them from the module if it was not loaded.
fn of_the_configuration(loaded: bool) -> Vec<String> {
    if std::env::var_os("GANTRY_DISABLE").is_some_and(|value| value == "1") {
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
            if !loaded && conf.names_gantry() {
                found.extend(openssl_says_of(&path));
            } else if !loaded {
                found.push(format!("{} does not activate it: gantry openssl config --system does.", path.display()));
            }
            found
        }
    }
}

/// What OpenSSL itself stumbles over in a configuration, which it tells only if that asks for it.
fn openssl_says_of(path: &Path) -> Vec<String> {
    let mut aloud = Command::new("openssl");
    let said = Folder::new().ok().and_then(|folder| {
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
fn of_the_program(program: &str) -> Vec<String> {
    let found = Command::new("sh").args(["-c", "command -v -- \"$0\"", program]).output();
    let path = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let linked = Command::new("ldd").arg(&path).output();
    let linked = linked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
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
