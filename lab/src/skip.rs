//! Skipped tests: the things that tests may lack, and the report of a skip.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Programs, modules and libraries that tests may lack. `scripts/setup` installs them.
const PROGRAMS: &[&str] = &[
    "/usr/sbin/sshd",
    "apparmor_parser",
    "b3sum",
    "c++",
    "cc",
    "charon",
    "chromium",
    "curl",
    "fsverity",
    "haproxy",
    "hashdeep",
    "initdb",
    "ip",
    "libsrtp2-dev",
    "libwolfssl-dev",
    "make",
    "nft",
    "nginx",
    "nm",
    "openssl",
    "openvpn",
    "patch",
    "ping",
    "pkcs11.so",
    "pkg-config",
    "posttls-finger",
    "pppd",
    "prometheus-node-exporter",
    "promtool",
    "psql",
    "python3",
    "python3-libtorrent",
    "rhash",
    "scp",
    "setcap",
    "setpriv",
    "shasum",
    "softhsm2-util",
    "strace",
    "stunnel",
    "swanctl",
    "swtpm",
    "systemd-analyze",
    "tcpdump",
    "tpm2.so",
    "tstclnt",
    "unshare",
    "valgrind",
    "veritysetup",
    "wget",
    "xl2tpd",
    "zstd",
];

/// Other things that tests may lack.
const OTHER_REQUIREMENTS: &[&str] = &[
    // The version of Debian 12: other versions answer differently.
    "coreutils 9.1",
    // Not in Debian.
    "awscrt (pip install awscrt)",
    "bagit (pip install bagit)",
    "moto (pip install 'moto[server]' awscli)",
    // A feature of the crate under test: --features model, or --all-features.
    "modelled devices",
    // An existing device would be served or used instead.
    "machine without /dev/crypto",
    "machine without /dev/cuse",
    // `unshare -r`.
    "file systems of one's own",
    "networks of one's own with tunnels",
    // Mounted without nosuid and noexec.
    "file system that gives programs rights",
    // Also POSIX ACLs and the attributes of root.
    "file system with all kinds of attributes",
    // `unshare -rp`.
    "PID namespaces",
    "fresh Debian",
    // The version of Debian 12 is older, and has no post-quantum groups.
    "Go 1.25",
    "haproxy with ssl-mode-async",
    "kernel that shapes traffic (sch_tbf)",
    // Later versions have post-quantum groups of their own.
    "OpenSSL before 3.5",
    "root",
    // `scripts/debian-source`: the archive no longer has it, or there is no network.
    "source of mktorrent",
    // `scripts/git-source`: there is no network.
    "source of cryptodev-linux",
];

/// Reports that a test ends here, because something is missing. Writes a line to stderr, which `cargo test` also shows for passing tests,
/// and the same line to the file that `GANTRY_SKIPPED` names, for the total of `scripts/test`.
///
/// # Panics
/// If `missing` is not declared in this file.
pub fn skip(missing: &str) {
    let is_program = PROGRAMS.contains(&missing);
    assert!(
        is_program || OTHER_REQUIREMENTS.contains(&missing),
        "{missing} is not declared as a reason to skip a test"
    );
    let remedy = if is_program { " (scripts/setup installs it)" } else { "" };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED {test}: no {missing}{remedy}\n");
    // `eprint!` would be captured in a test that passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os("GANTRY_SKIPPED") {
        // Written in one call: several programs append here.
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "time is not declared as a reason to skip a test")]
    fn an_undeclared_reason_to_skip_panics() {
        skip("time");
    }
}
