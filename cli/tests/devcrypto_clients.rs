//! External programs over `gantry devcrypto serve`, in a guest: wolfSSL's test, OpenSSL's devcrypto engine, and the tests of
//! cryptodev-linux, the kernel module that provides /dev/crypto elsewhere.

mod gantry;

use std::path::{Path, PathBuf};
use std::process::Command;

use gantry::{Folder, text};

/// Starts the server `$1`, waits for its device, runs `$2`, and prints the server's statistics.
const WITH_SERVER: &str = r#"
"$1" devcrypto serve &
server=$!
until [ -e /dev/crypto ]; do sleep 0.1; done
sh -c "$2"
echo "status $?"
"$1" stat $server
"#;

/// Source of the tests of cryptodev-linux: September 2025, which is 1.14 with fixes to its tests.
const CRYPTODEV_LINUX: [&str; 2] =
    ["https://github.com/cryptodev-linux/cryptodev-linux", "08644db02d43478f802755903212f5ee506af73b"];

/// Programs of cryptodev-linux, and their libraries.
const CRYPTODEV_TESTS: &[(&str, &[&str])] = &[
    ("tests/cipher", &[]),
    ("tests/cipher-aead", &[]),
    ("tests/cipher-aead-srtp", &[]),
    ("tests/cipher-gcm", &[]),
    ("tests/hmac", &[]),
    ("tests/cipher_comp", &["tests/openssl_wrapper.c", "-lcrypto"]),
    ("tests/hash_comp", &["tests/openssl_wrapper.c", "-lcrypto"]),
    ("examples/aes", &[]),
    ("examples/sha", &[]),
    ("examples/sha-copy", &[]),
];

#[test]
#[ignore = "builds wolfSSL, and runs its test in a guest: make test-clients"]
fn wolfssl_passes_its_own_test() {
    let folder = text(&prints(&mut script("wolfssl"), &[]));
    // Each digest has a descriptor, and the test does not close all of them.
    let run = format!("ulimit -n 65536; cd '{}' && ./testwolfcrypt", folder.trim_end());
    let output = in_guest(&["sh", "-c", &run]);
    assert!(!output.contains("Test complete"), "the test passes without the device: {output}");

    let output = with_server(&run);
    let has = |line: &str| output.lines().any(|other| other == line);
    assert!(has("status 0") && has("Test complete"), "{output}");
    for test in ["SHA-256 ", "Hash    ", "HMAC-SHA256", "AES     ", "AES192  ", "AES256  ", "AES-GCM "] {
        assert!(has(&format!("{test} test passed!")), "{test}: {output}");
    }
    let served = [
        ("sha256", "digest"),
        ("aes-128-cbc", "encrypt"),
        ("aes-128-cbc", "decrypt"),
        ("aes-256-ctr", "encrypt"),
        ("aes-256-ecb", "decrypt"),
        ("aes-128-gcm", "seal"),
        ("aes-128-gcm", "open"),
    ];
    are_served(&output, &served);
}

#[test]
#[ignore = "compiles OpenSSL's engine from Debian's source, and runs it in a guest: make test-clients"]
fn the_devcrypto_engine_of_openssl_computes_the_same_as_openssl() {
    let folder = Folder::new("devcrypto-engine");
    let source = text(&prints(&mut script("debian-source"), &["openssl"]));
    let header = here("../frontends/cuse/tests/include");
    // Debian builds OpenSSL without this engine. Only internal headers come from the source; the others are the system's.
    let mut compiler = Command::new("cc");
    compiler.current_dir(source.trim_end()).args(["-shared", "-fPIC", "-w", "-idirafter", "include", "-I"]).arg(header);
    prints(compiler.arg("-o").arg(folder.path().join("devcrypto.so")), &["engines/e_devcrypto.c", "-lcrypto"]);
    let configuration = folder.write(
        "openssl.cnf",
        "openssl_conf = all\n[all]\nengines = engines\n[engines]\ndevcrypto = devcrypto\n[devcrypto]\nUSE_SOFTDRIVERS = 1\n\
         DIGESTS = ALL\ndefault_algorithms = ALL\ninit = 1\n",
    );
    let data = folder.write("data", &"so many bytes that no block of 4 KiB ends where they do\n".repeat(2_000));
    let data = data.display();

    // Run the same commands for both, and compare the output.
    let iv = "000102030405060708090a0b0c0d0e0f";
    let key = format!("{iv}1011121314151617");
    let digests = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];
    let ciphers =
        [("aes-128-cbc", 32), ("aes-192-cbc", 48), ("aes-256-ctr", 48), ("aes-128-ecb", 32), ("des-ede3-cbc", 48)];
    let hashed = digests.iter().map(|digest| format!("openssl dgst -r -{digest} '{data}'; "));
    let crypted = ciphers.iter().flat_map(|(cipher, digits)| {
        let parameters = format!("-{cipher} -K {} -iv {iv} -in '{data}'", &key[..*digits]);
        ["-e", "-d -nopad"].map(|way| format!("openssl enc {way} {parameters} 2>/dev/null | sha256sum; "))
    });
    let commands: String = hashed.chain(crypted).collect();
    let without_engine =
        text(&prints(Command::new("sh").arg("-c").arg(&commands).env("OPENSSL_CONF", "/dev/null"), &[]));
    assert_eq!(without_engine.lines().count(), digests.len() + 2 * ciphers.len(), "{without_engine}");
    let engine = format!(
        "export OPENSSL_ENGINES='{}' OPENSSL_CONF='{}'; {commands}",
        folder.path().display(),
        configuration.display()
    );
    let output = with_server(&engine);
    assert!(output.starts_with(&without_engine), "{output}\n{without_engine}");
    let served = digests.map(|digest| (digest, "digest")).into_iter();
    are_served(&output, &served.chain(ciphers.map(|(cipher, _)| (cipher, "encrypt"))).collect::<Vec<_>>());
}

/// Runs the tests that compare results with known answers or with OpenSSL, and the examples. Other tests only measure, or need asynchronous
/// calls, which the module does not have by default either. `hmac_comp` compares uninitialized bytes after the MAC, and fails with the
/// module, too.
#[test]
#[ignore = "compiles the tests of cryptodev-linux, and runs them in a guest: make test-clients"]
fn the_tests_of_cryptodev_linux_pass() {
    let source = script("git-source").args(CRYPTODEV_LINUX).output().unwrap();
    if !source.status.success() {
        return gantry_lab::skip("source of cryptodev-linux");
    }
    let source = PathBuf::from(text(&source.stdout).trim_end());
    let folder = Folder::new("cryptodev-linux");
    for (name, more) in CRYPTODEV_TESTS {
        let mut compiler = Command::new("cc");
        compiler.current_dir(&source).args(["-w", "-I.", "-o"]).arg(folder.path().join(name.replace('/', "-")));
        prints(compiler.arg(format!("{name}.c")).args(*more), &[]);
    }
    let run = CRYPTODEV_TESTS.iter().map(|(name, _)| {
        format!("'{}/{}' debug; echo \"{name} ends $?\"; ", folder.path().display(), name.replace('/', "-"))
    });
    let output = with_server(&run.collect::<String>());
    for (name, _) in CRYPTODEV_TESTS {
        assert!(output.contains(&format!("{name} ends 0\n")), "{name}: {output}");
    }
    are_served(&output, &[("aes-128-cbc", "encrypt"), ("aes-128-gcm", "seal"), ("sha1", "digest")]);
}

/// Checks that `gantry stat` has these rows.
fn are_served(output: &str, rows: &[(&str, &str)]) {
    for (algorithm, operation) in rows {
        let row = output.lines().any(|line| line.split_whitespace().skip(1).take(2).eq([*algorithm, *operation]));
        assert!(row, "no {algorithm}, {operation}: {output}");
    }
}

/// Returns the output of a shell command, and then of `gantry stat`, in a guest with the device.
fn with_server(run: &str) -> String {
    in_guest(&["sh", "-c", WITH_SERVER, "sh", env!("CARGO_BIN_EXE_gantry"), run])
}

fn in_guest(command: &[&str]) -> String {
    let guest = Command::new(here("../lab/guest"))
        .args(["run", "--modules", "cuse", "--timeout", "1800", "--"])
        .args(command)
        .output()
        .unwrap();
    // The guest hung, or stopped by itself.
    assert!(!matches!(guest.status.code(), Some(124 | 125) | None), "{}", text(&guest.stderr));
    text(&guest.stdout)
}

fn prints(command: &mut Command, arguments: &[&str]) -> Vec<u8> {
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    output.stdout
}

fn script(name: &str) -> Command {
    Command::new(here("../scripts").join(name))
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
