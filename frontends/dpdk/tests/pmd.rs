//! The PMD in programs of DPDK: one of our own, with other PMDs as its counterparts, and `dpdk-test-crypto-perf`.
//!
//! They need DPDK, and the PMD with modelled devices, which a build has not:
//! `GANTRY_PMD_FEATURES=model scripts/dpdk --pmd target/dpdk-test && cargo test -p gantry-dpdk-pmd -- --ignored`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A folder for one test, with the PMD in it. EAL loads no library from below a folder that everybody may write to, as `/tmp` is.
struct Lab {
    folder: PathBuf,
    /// Lcores poll: programs beside each other would take turns.
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static ALONE: Mutex<()> = Mutex::new(());
        let home = || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache");
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, Into::into);
        let name = format!("pmd-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = Self { folder: cache.join("gantry").join(name), _alone: alone };
        fs::create_dir_all(&lab.folder).unwrap();
        fs::copy(built(), lab.pmd()).expect("scripts/dpdk has built the PMD");
        lab
    }

    fn pmd(&self) -> PathBuf {
        self.folder.join("librte_crypto_gantry.so")
    }

    /// Without what the user has configured.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GANTRY_")) {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", &self.folder).envs(variables.iter().copied());
        command
    }

    /// Our program, with a part of it.
    fn run(&self, part: &str, variables: &[(&str, &str)]) -> Output {
        self.command(program(), variables).arg(self.pmd()).arg(part).output().unwrap()
    }

    /// The same, which has to go well, and what it says then.
    fn passes(&self, part: &str, variables: &[(&str, &str)]) -> String {
        let output = self.run(part, variables);
        assert!(
            output.status.success(),
            "{variables:?} {:?}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The PMD for the release of DPDK that is installed: its libraries have the number of its ABI.
fn built() -> PathBuf {
    let libraries = Command::new("pkg-config").args(["--variable=libdir", "libdpdk"]).output().expect("pkg-config");
    let libraries = PathBuf::from(String::from_utf8(libraries.stdout).unwrap().trim());
    let library = fs::canonicalize(libraries.join("librte_cryptodev.so")).expect("DPDK is installed");
    let name = library.file_name().unwrap().to_string_lossy().into_owned();
    let number = name.split(".so.").nth(1).and_then(|version| version.split('.').next()).expect("a number");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target: PathBuf = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    target.join(format!("dpdk-test/librte_crypto_gantry.so.{number}"))
}

/// Compiles `tests/program`, once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let flags = Command::new("pkg-config").args(["--cflags", "libdpdk"]).output().expect("pkg-config");
        let flags = String::from_utf8(flags.stdout).unwrap();
        let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pmd-program");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program");
        let sources = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut compile = Command::new("cc");
        compile.args(flags.split_whitespace()).args([
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-deprecated-declarations",
        ]);
        compile.args(sources.filter(|path| path.extension().is_some_and(|extension| extension == "c")));
        compile.arg("-o").arg(&program);
        compile.args(
            ["eal", "cryptodev", "mempool", "mbuf", "ring", "bus_vdev"].map(|library| format!("-lrte_{library}")),
        );
        assert!(compile.status().unwrap().success(), "tests/program");
        program
    })
}

/// What `operations` says when it is through.
const OPERATIONS: &str = "43 algorithms, 10320 operations\n";

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn results_are_those_of_other_pmds_at_every_cpu_level() {
    let lab = Lab::new();
    for level in ["auto", "vaes", "avx2", "base"] {
        assert_eq!(lab.passes("operations", &[("GANTRY_CPU", level)]), OPERATIONS, "{level}");
    }
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn results_are_the_same_on_whichever_device() {
    let lab = Lab::new();
    for policy in ["failover:lanes,software", "failover:software", "throughput", "round-robin"] {
        assert_eq!(lab.passes("operations", &[("GANTRY_POLICY", policy)]), OPERATIONS, "{policy}");
    }
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn a_device_that_goes_wrong_loses_no_operation() {
    let lab = Lab::new();
    let stats = lab.folder.join("stats");
    fs::create_dir(&stats).unwrap();
    for faults in ["errors=1/10", "gone=200", "late=1/5,full=1/5", "stalls=1/300"] {
        let variables = [
            ("GANTRY_DEVICES", "model:faulty=on"),
            ("GANTRY_POLICY", "failover:model:faulty,software"),
            ("GANTRY_FAULTS", faults),
            ("GANTRY_STATS", stats.to_str().unwrap()),
        ];
        assert_eq!(lab.passes("operations", &variables), OPERATIONS, "{faults}");
        let published = fs::read_dir(&stats).unwrap().map(|entry| entry.unwrap().path());
        let published: Vec<String> = published.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert!(published.iter().any(|text| text.contains("model:faulty")), "the device was asked: {published:?}");
        for entry in fs::read_dir(&stats).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn a_card_encrypts_and_authenticates_packets_of_esp_in_one_operation() {
    let lab = Lab::new();
    let stats = lab.folder.join("stats");
    fs::create_dir(&stats).unwrap();
    let file = lab.folder.join("gantry.toml");
    let card =
        "[models]\ncard = \"like=faulty,aes-128-cbc-hmac-sha256=2000+4000\"\n[devices]\n\"model:card\" = \"on\"\n";
    fs::write(&file, card).unwrap();
    let variables = [
        ("GANTRY_CONFIG", file.to_str().unwrap()),
        ("GANTRY_POLICY", "failover:model:card,software"),
        ("GANTRY_STATS", stats.to_str().unwrap()),
    ];
    assert_eq!(lab.passes("operations", &variables), OPERATIONS);
    let published: String =
        fs::read_dir(&stats).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(published.contains("aes-128-cbc-hmac-sha256"), "{published}");
    // What the card has not is done in two operations on the CPU.
    assert!(!published.contains("aes-256-cbc-hmac-sha384"), "{published}");
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn what_is_wrong_with_an_operation_is_its_status() {
    assert_eq!(Lab::new().passes("hostile", &[]), "28 kinds of wrong operations\n");
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn lcores_have_queue_pairs_while_sessions_come_and_go() {
    assert_eq!(Lab::new().passes("lcores", &[]), "4 lcores\n");
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn without_gantry_the_program_is_told_why_there_is_no_device() {
    let lab = Lab::new();
    let file = lab.folder.join("gantry.toml");
    fs::write(&file, "policy = 7\n").unwrap();
    for (variable, value, why) in [
        ("GANTRY_POLICY", "pin:nowhere", "there is no device 'nowhere'"),
        ("GANTRY_CONFIG", file.to_str().unwrap(), "gantry.toml:1"),
        ("GANTRY_CONFIG", "/nowhere/gantry.toml", "/nowhere/gantry.toml"),
    ] {
        let output = lab.run("operations", &[(variable, value)]);
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{variable}={value} is no crash: {says}");
        assert!(says.contains("crypto_gantry: Gantry does not start: ") && says.contains(why), "{says}");
    }
}

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn devices_of_dpdk_that_the_configuration_lists_are_left_alone() {
    let lab = Lab::new();
    let file = lab.folder.join("gantry.toml");
    fs::write(&file, "[devices]\ndpdk = [\"crypto_gantry\", \"crypto_null\"]\n[dpdk]\nmemory = 32\n").unwrap();
    assert_eq!(lab.passes("lcores", &[("GANTRY_CONFIG", file.to_str().unwrap())]), "4 lcores\n");
}

/// Keys, texts and results as a file of `dpdk-test-crypto-perf`.
fn vector(rows: &[(&str, &[u8])]) -> String {
    let row = |(name, bytes): &(&str, &[u8])| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
        // The digest belongs to one of several tests, the rest to all.
        let head = if *name == "digest" { "[one]\n" } else { "" };
        format!("{head}{name} =\n{}\n\n", bytes.join(", "))
    };
    rows.iter().map(row).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Test case 4 of the document that specifies GCM (McGrew and Viega).
fn gcm() -> String {
    let key = bytes("feffe9928665731c6d6a8f9467308308");
    let plaintext = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657\
                     ba637b39";
    let ciphertext = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac97\
                      3d58e091";
    vector(&[
        ("plaintext", &bytes(plaintext)),
        ("aead_key", &key),
        ("aead_iv", &bytes("cafebabefacedbaddecaf888")),
        ("aead_aad", &bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")),
        ("ciphertext", &bytes(ciphertext)),
        ("digest", &bytes("5bc94fbc3221a5db94fae95ae7121a47")),
    ])
}

/// Four blocks of SP 800-38A, F.2.1, without a MAC.
fn cbc() -> String {
    vector(&[
        (
            "plaintext",
            &bytes(
                "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
            ),
        ),
        ("cipher_key", &bytes("2b7e151628aed2a6abf7158809cf4f3c")),
        ("cipher_iv", &bytes("000102030405060708090a0b0c0d0e0f")),
        (
            "ciphertext",
            &bytes(
                "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b273bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
            ),
        ),
        ("digest", &[0]),
    ])
}

// What the benchmark is told of algorithms.
const AEAD: &str = "--optype aead --aead-algo aes-gcm --aead-key-sz 16 --aead-iv-sz 12 --digest-sz 16";
const CIPHER: &str = "--cipher-algo aes-cbc --cipher-key-sz 16 --cipher-iv-sz 16";
const MAC: &str = "--auth-algo sha2-256-hmac --auth-key-sz 64 --digest-sz 16";

#[test]
#[ignore = "needs DPDK, and the PMD of scripts/dpdk"]
fn the_benchmark_of_dpdk_measures_and_verifies_without_a_failed_operation() {
    if Command::new("dpdk-test-crypto-perf").arg("--version").output().is_err() {
        return gantry_lab::skip("dpdk-test-crypto-perf");
    }
    let lab = Lab::new();
    fs::write(lab.folder.join("gcm.data"), gcm()).unwrap();
    fs::write(lab.folder.join("cbc.data"), cbc()).unwrap();
    fs::write(lab.folder.join("wrong.data"), gcm().replace("0x5b, 0xc9", "0x5b, 0xc8")).unwrap();
    let perf = |arguments: String| {
        let eal = "-l 0,1 --no-huge --no-pci -m 512 --iova-mode=va --no-telemetry --no-shconf --log-level=error --vdev crypto_gantry0 -d";
        let ours = "-- --devtype crypto_gantry --silent --csv-friendly --total-ops 4000 --burst-sz 32";
        let mut command = lab.command("dpdk-test-crypto-perf", &[]);
        command.args(eal.split(' ')).arg(lab.pmd()).args(ours.split(' ')).args(arguments.split(' '));
        let output = command.current_dir(&lab.folder).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{arguments}: {:?} {text} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    // The rows of figures: lcore, bytes, operations in a burst, and so on.
    let rows = |text: &str| -> Vec<Vec<String>> {
        let row = |line: &str| line.split(',').map(|field| field.trim().to_owned()).collect::<Vec<String>>();
        text.lines().map(row).filter(|row| row.len() > 5 && row[0].parse::<u32>().is_ok()).collect()
    };
    // Opening it measures in 22.11 only; in 24.11 it crashes then, whatever the PMD.
    for operation in [
        format!("{AEAD} --aead-op encrypt --aead-aad-sz 16"),
        format!("--optype cipher-only {CIPHER} --cipher-op encrypt"),
        format!("--optype auth-only {MAC} --auth-op generate"),
        format!("--optype cipher-then-auth {CIPHER} --cipher-op encrypt {MAC} --auth-op generate"),
        format!("--optype auth-then-cipher {CIPHER} --cipher-op encrypt {MAC} --auth-op generate"),
        // Segmented, and from one packet into another.
        format!("{AEAD} --aead-op encrypt --aead-aad-sz 16 --segment-sz 256"),
        format!("{AEAD} --aead-op encrypt --aead-aad-sz 16 --segment-sz 4096 --out-of-place"),
    ] {
        let measured = rows(&perf(format!("--ptest throughput --buffer-sz 64,1504 {operation}")));
        assert_eq!(measured.len(), 2, "{operation}");
        for row in measured {
            // Enqueued and dequeued. Where it could not enqueue it tries again, and that is no failure.
            assert_eq!((row[3].as_str(), row[4].as_str()), ("4000", "4000"), "{operation}: {row:?}");
        }
        let latencies = rows(&perf(format!("--ptest latency --buffer-sz 64 {operation}")));
        assert_eq!(latencies.len(), 4000, "{operation}");
    }
    let gcm =
        format!("--ptest verify --test-name one --buffer-sz 60 {AEAD} --aead-op encrypt --aead-aad-sz 20 --test-file");
    let cbc = format!(
        "--ptest verify --test-name one --buffer-sz 64 --optype cipher-only {CIPHER} --cipher-op encrypt --test-file"
    );
    for (verify, failed) in
        [(format!("{gcm} gcm.data"), "0"), (format!("{cbc} cbc.data"), "0"), (format!("{gcm} wrong.data"), "4000")]
    {
        let rows = rows(&perf(verify.clone()));
        assert_eq!(rows.len(), 1, "{verify}");
        assert_eq!(
            (rows[0][3].as_str(), rows[0][4].as_str(), rows[0][7].as_str()),
            ("4000", "4000", failed),
            "{verify}"
        );
    }
}
