//! The library in programs of others: as a device of wolfSSL, and in mktorrent.

mod lab;

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::{Lab, crate_path, output, text};

/// Expected output of `examples/wolfssl.c`: digests of "abc" (FIPS 180), HMACs of RFC 4231 and RFC 2202, test case 2, and AES-GCM, test
/// case 2 of its proposal. Other lines are compared with wolfSSL alone.
const EXPECTED_LINES: [&str; 9] = [
    "sha1 a9993e364706816aba3e25717850c26c9cd0d89d",
    "sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "half-way ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "hmac-sha1 effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
    "hmac-sha256 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "aes-128-gcm 0388dace60b6a392f328c2b971b2fe78",
    "tag ab6e47d42cec13bdf53a67b21257bddf",
    "forged refused",
    // Two CTR calls end or begin within a block.
    "calls: 32 by gantry, 2 left to wolfSSL",
];

#[test]
fn wolfssl_uses_the_library_and_computes_the_rest_itself() {
    let Some(lab) = Lab::new("wolfssl") else { return };
    if !Path::new("/usr/include/wolfssl/options.h").exists() {
        return gantry_lab::skip("libwolfssl-dev");
    }
    let program = lab.path("wolfssl.c");
    fs::copy(crate_path("examples/wolfssl.c"), &program).unwrap();
    lab.compile("cc", "c17", &program, &["-lwolfssl"]);
    let without_gantry = lab.run(&program, &["alone"]);
    let (expected, calls) = without_gantry.split_at(without_gantry.find("calls:").unwrap());
    assert_eq!(calls, "calls: 0 by gantry, 0 left to wolfSSL\n");
    for policy in ["latency", "pin:software", "pin:lanes"] {
        let printed = output(lab.command(program.with_extension("")).env("GANTRY_POLICY", policy));
        assert!(printed.starts_with(expected), "{policy}: {printed}\n{expected}");
        for expected_line in EXPECTED_LINES {
            assert!(printed.lines().any(|line| line == expected_line), "{policy}: {printed}: {expected_line}");
        }
    }
}

#[test]
fn wolfssl_leaks_no_memory_of_finished_messages() {
    let Some(lab) = Lab::new("wolfssl-memory") else { return };
    if !Path::new("/usr/include/wolfssl/options.h").exists() {
        return gantry_lab::skip("libwolfssl-dev");
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return gantry_lab::skip("valgrind");
    }
    let program = lab.path("wolfssl.c");
    fs::copy(crate_path("examples/wolfssl.c"), &program).unwrap();
    lab.compile("cc", "c17", &program, &["-lwolfssl"]);
    let mut command = lab.command("valgrind");
    command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    output(command.arg(program.with_extension("")));
}

#[test]
fn mktorrent_with_the_library_creates_the_same_torrents() {
    let Some(lab) = Lab::new("mktorrent") else { return };
    if let Some(missing) =
        ["make", "patch"].into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err())
    {
        return gantry_lab::skip(missing);
    }
    let fetched =
        Command::new(crate_path("../../scripts/debian-source")).args(["--upstream", "mktorrent", "1.1"]).output();
    let Some(source) = fetched.ok().filter(|fetched| fetched.status.success()) else {
        return gantry_lab::skip("source of mktorrent");
    };
    let source = text(&source.stdout);
    let [theirs, ours] = ["theirs", "ours"].map(|name| lab.path(name));
    for folder in [&theirs, &ours] {
        output(Command::new("cp").arg("-r").arg(source.trim_end()).arg(folder));
    }
    output(
        Command::new("patch")
            .args(["-s", "-p1", "-i"])
            .arg(crate_path("examples/mktorrent.patch"))
            .arg("-d")
            .arg(&ours),
    );
    let make = |folder: &Path, option: &str| {
        let mut make = lab.command("make");
        make.arg("-C").arg(folder).args([option, "USE_LARGE_FILES=1", "CFLAGS=-O2 -w"]);
        output(make.env("PKG_CONFIG_PATH", lab.path("prefix/lib/pkgconfig")));
    };
    make(&theirs, "USE_PTHREADS=1");
    make(&ours, "USE_GANTRY=1");
    let symbols = output(Command::new("nm").arg(ours.join("mktorrent")));
    assert!(symbols.contains("U gantry_digest_many") && !symbols.contains("SHA1_"), "{symbols}");

    // Pieces of 32 KiB that span files, whole batches of them, and a shorter last one.
    let folder = lab.path("files");
    fs::create_dir(&folder).unwrap();
    for (name, length) in [("a", 700_000), ("b", 0), ("c", 1), ("d", 1_234_567), ("e", 32_768)] {
        fs::write(folder.join(name), (0..length).map(|i: u64| ((i * i) >> 7) as u8).collect::<Vec<u8>>()).unwrap();
    }
    for (name, data) in [("folder", folder.clone()), ("empty", folder.join("b")), ("one", folder.join("e"))] {
        let [theirs, ours] = [&theirs, &ours].map(|program| {
            let torrent = program.join(name);
            let mut command = lab.command(program.join("mktorrent"));
            command.args(["-d", "-l", "15", "-a", "http://localhost/", "-o"]).arg(&torrent).arg(&data);
            output(&mut command);
            fs::read(&torrent).unwrap()
        });
        assert!(theirs.starts_with(b"d8:announce") && ours == theirs, "{name}");
    }
}
