use std::fs::OpenOptions;
use std::io::Write as _;

/// Programs, modules and libraries that tests may lack: `scripts/setup` installs them.
const PROGRAMS: &[&str] = &[
    "/usr/sbin/sshd",
    "apparmor_parser",
    "b3sum",
    "c++",
    "cc",
    "charon",
    "curl",
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
    "prometheus-node-exporter",
    "promtool",
    "psql",
    "python3",
    "python3-libtorrent",
    "scp",
    "setcap",
    "setpriv",
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
    "wget",
    "zstd",
];

/// What else tests may lack.
const OTHERS: &[&str] = &[
    // Those of Debian 12: others answer differently.
    "coreutils 9.1",
    // Not in Debian.
    "bagit (pip install bagit)",
    "moto (pip install 'moto[server]' awscli)",
    // A feature of the crate under test: --features model, or --all-features.
    "modelled devices",
    // Where there is one, it would be served, or asked.
    "machine without /dev/crypto",
    "machine without /dev/cuse",
    // `unshare -r`.
    "file systems of one's own",
    "networks of one's own with tunnels",
    // Mounted without nosuid and noexec.
    "file system that gives programs rights",
    // `unshare -rp`.
    "PID namespaces",
    "fresh Debian",
    "haproxy with ssl-mode-async",
    "kernel that shapes traffic (sch_tbf)",
    "root",
    // `scripts/debian-source`: the archive has it no more, or there is no network.
    "source of mktorrent",
    // `scripts/git-source`: there is no network.
    "source of cryptodev-linux",
];

/// Says that a test ends here, because something is not there that it needs, and counts that: a line on stderr, which `cargo test` shows
/// of tests that pass, too, and one in the file that `GANTRY_SKIPPED` names, which `scripts/test` adds up.
///
/// # Panics
/// When nobody has declared that this may be missing.
pub fn skip(missing: &str) {
    let is_program = PROGRAMS.contains(&missing);
    assert!(is_program || OTHERS.contains(&missing), "no test may be skipped for want of {missing}");
    let remedy = if is_program { " (scripts/setup installs it)" } else { "" };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED {test}: no {missing}{remedy}\n");
    // `eprint!` would be kept to itself by a test that passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os("GANTRY_SKIPPED") {
        // In one piece: several programs write here.
        let file = OpenOptions::new().append(true).create(true).open(list);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "no test may be skipped for want of time")]
    fn what_may_be_missing_is_declared() {
        skip("time");
    }
}
