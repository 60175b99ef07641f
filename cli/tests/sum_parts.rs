//! `gantry sum --parts` and `--etag` compared with S3's documented rule, computed by Python's hashlib.

mod gantry;

use std::fs;
use std::process::Command;

use gantry::{Folder, command, failure, run, run_with_input, stdout, text};

const HASHLIB: &str = "\
import base64, hashlib, sys
name, size, data = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], 'rb').read()
parts = [hashlib.new(name, data[at:at + size]).digest() for at in range(0, max(len(data), 1), size)]
both = hashlib.new(name, b''.join(parts))
print((both.hexdigest() if name == 'md5' else base64.b64encode(both.digest()).decode()) + '-%d' % len(parts))
";

/// Returns the expected value; `None`, counted as skipped, without Python.
fn expected(algorithm: &str, size: usize, path: &str) -> Option<String> {
    let Ok(output) = Command::new("python3").args(["-c", HASHLIB, algorithm, &size.to_string(), path]).output() else {
        gantry_lab::skip("python3");
        return None;
    };
    Some(text(&output.stdout).trim().to_owned())
}

fn file(folder: &Folder, length: usize) -> String {
    let path = folder.path().join(format!("{length} bytes"));
    let data: Vec<u8> = (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    fs::write(&path, data).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn values_of_parts_follow_the_rule_and_their_size_is_found() {
    const MIB: usize = 1 << 20;
    let folder = Folder::new("parts");
    for (length, size, option) in [
        (0, 8 * MIB, "8M"),
        (1, 8 * MIB, "8MiB"),
        (8 * MIB, 8 * MIB, "8388608"),
        (8 * MIB + 1, 8 * MIB, "8m"),
        (40 * MIB + 5, 5 * MIB, "5M"),
        (33 * MIB, 15 * MIB, "15M"),
        (20 * MIB, MIB, "1024K"),
        (3_000_001, 1_000_001, "1000001"),
    ] {
        let path = file(&folder, length);
        for algorithm in ["md5", "sha256", "sha1"] {
            let ours = stdout(&["sum", "--parts", option, "-a", algorithm, &path]);
            let (value, name) = ours.trim_end().split_once("  ").unwrap();
            assert_eq!(name, path);
            let Some(expected) = expected(algorithm, size, &path) else { return };
            assert_eq!(value, expected, "{algorithm}, {length} in parts of {size}");
            for (level, threads) in [("base", "1"), ("avx2", "3")] {
                let mut limited = command(&["sum", "--parts", option, "-a", algorithm, &path]);
                let output = limited.env("GANTRY_CPU", level).env("GANTRY_THREADS", threads).output().unwrap();
                assert_eq!(text(&output.stdout), ours, "{level}, {threads} threads");
            }
            let found = stdout(&["sum", "--etag", value, "-a", algorithm, &path]);
            // With one part, every size matches, and the default is reported.
            let size = if length <= size { 8 * MIB } else { size };
            assert_eq!(found, format!("{path}: OK, parts of {size} bytes\n"), "{algorithm}");
        }
        assert!(stdout(&["sum", "--parts", option, &path]).contains('-'), "md5 is the default");
    }
}

/// Returns the output of `gantry sum`, which reads `content` from a pipe and must succeed.
fn of_pipe(arguments: &[&str], content: &[u8]) -> String {
    let output = run_with_input(command(&[&["sum"], arguments, &["-"]].concat()), content);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stdout)
}

const ZLIB: &str = "\
import base64, sys, zlib
size, data = int(sys.argv[1]), open(sys.argv[2], 'rb').read()
crc = lambda data: zlib.crc32(data).to_bytes(4, 'big')
parts = [crc(data[at:at + size]) for at in range(0, max(len(data), 1), size)]
print(base64.b64encode(crc(data)).decode(), base64.b64encode(crc(b''.join(parts))).decode() + '-%d' % len(parts))
";

#[test]
fn crcs_are_those_of_the_object_or_of_its_parts() {
    let folder = Folder::new("parts-crc");
    let small = folder.write("small", "123456789").to_str().unwrap().to_owned();
    // The check values of the CRC catalogue, in Base64.
    for (algorithm, value) in [("crc32", "y/Q5Jg=="), ("CRC32C", "4waSgw=="), ("crc64nvme", "rosUhgp5mIg=")] {
        assert_eq!(stdout(&["sum", "--parts", "whole", "-a", algorithm, &small]), format!("{value}  {small}\n"));
        assert_eq!(of_pipe(&["--parts", "whole", "-a", algorithm], b"123456789"), format!("{value}  -\n"));
        let found = stdout(&["sum", "--etag", value, "-a", algorithm, &small]);
        assert_eq!(found, format!("{small}: OK, in one piece\n"));
        let other = run(&["sum", "--etag", value, "-a", algorithm, file(&folder, 10).as_str()]);
        assert_eq!(other.status.code(), Some(1));
    }
    for length in [0, 1, 8 << 20, (20 << 20) + 7] {
        let path = file(&folder, length);
        let output = Command::new("python3").args(["-c", ZLIB, "8388608", &path]).output().unwrap();
        let output = text(&output.stdout);
        let (whole, parts) = output.trim().split_once(' ').unwrap();
        let content = fs::read(&path).unwrap();
        for (size, value) in [("whole", whole), ("8M", parts)] {
            assert_eq!(stdout(&["sum", "--parts", size, "-a", "crc32", &path]), format!("{value}  {path}\n"));
            assert_eq!(of_pipe(&["--parts", size, "-a", "crc32"], &content), format!("{value}  -\n"));
            assert!(stdout(&["sum", "--etag", value, "-a", "crc32", &path]).contains(": OK, "));
        }
        for algorithm in ["crc32c", "crc64nvme", "sha256", "md5"] {
            let value = stdout(&["sum", "--parts", "whole", "-a", algorithm, &path]);
            let (value, _) = value.split_once(' ').unwrap();
            assert_eq!(of_pipe(&["--parts", "whole", "-a", algorithm], &content), format!("{value}  -\n"));
            assert!(stdout(&["sum", "--etag", value, "-a", algorithm, &path]).ends_with(": OK, in one piece\n"));
        }
    }
}

#[test]
fn crcs_are_those_of_the_library_of_aws() {
    const AWSCRT: &str = "\
import base64, sys
from awscrt import checksums
data = open(sys.argv[1], 'rb').read()
print(base64.b64encode(checksums.crc32c(data).to_bytes(4, 'big')).decode())
print(base64.b64encode(checksums.crc64nvme(data).to_bytes(8, 'big')).decode())
";
    let folder = Folder::new("parts-awscrt");
    for length in [0, 1, 65_537, (24 << 20) + 1] {
        let path = file(&folder, length);
        let output = Command::new("python3").args(["-c", AWSCRT, &path]).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            return gantry_lab::skip("awscrt (pip install awscrt)");
        };
        let values = text(&output.stdout);
        for (algorithm, value) in ["crc32c", "crc64nvme"].into_iter().zip(values.lines()) {
            assert_eq!(stdout(&["sum", "--parts", "whole", "-a", algorithm, &path]), format!("{value}  {path}\n"));
        }
    }
}

#[test]
fn pipes_are_read_once_for_all_part_sizes() {
    const MIB: usize = 1 << 20;
    let folder = Folder::new("parts-pipe");
    for (length, size) in
        [(0, 8 * MIB), (1, 8 * MIB), (16 * MIB, 8 * MIB), (33 * MIB + 1, 5 * MIB), (33 * MIB, 8_000_000)]
    {
        let path = file(&folder, length);
        let content = fs::read(&path).unwrap();
        for algorithm in ["md5", "sha256", "crc32c"] {
            let option = size.to_string();
            let value = stdout(&["sum", "--parts", &option, "-a", algorithm, &path]);
            let (value, _) = value.split_once(' ').unwrap();
            assert_eq!(of_pipe(&["--parts", &option, "-a", algorithm], &content), format!("{value}  -\n"));
            let found = of_pipe(&["--etag", value, "-a", algorithm], &content);
            // With one part, every size matches.
            assert!(found == format!("-: OK, parts of {size} bytes\n") || value.ends_with("-1"), "{found}");
        }
    }
    let path = file(&folder, 20_000_003);
    let value = stdout(&["sum", "--parts", "10000002", &path]);
    let (value, _) = value.split_once(' ').unwrap();
    let output = run_with_input(command(&["sum", "--etag", value, "-"]), &fs::read(&path).unwrap());
    let words = "-: no part size that was tried fits; possible are 10000002 to 20000002 bytes\n";
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), words.to_owned()));
    let output = run_with_input(command(&["sum", "--etag", value, "-"]), b"");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), "-: FAILED\n".to_owned()));
}

#[test]
fn an_object_in_one_piece_has_the_digest_of_its_file() {
    let folder = Folder::new("parts-whole");
    let path = folder.write("abc", "abc").to_str().unwrap().to_owned();
    for etag in ["900150983cd24fb0d6963f7d28e17f72", "\"900150983CD24FB0D6963F7D28E17F72\""] {
        assert_eq!(stdout(&["sum", "--etag", etag, &path]), format!("{path}: OK, in one piece\n"));
    }
    let output = run(&["sum", "--etag", "900150983cd24fb0d6963f7d28e17f73", &path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), format!("{path}: FAILED\n")));
    let output = run(&["sum", "--etag", "900150983cd24fb0d6963f7d28e17f72-1", &path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), format!("{path}: FAILED\n")));
}

#[test]
fn a_file_is_damaged_only_if_no_size_can_fit() {
    let folder = Folder::new("parts-sizes");
    let path = file(&folder, 20_000_003);
    let value = |size: &str| stdout(&["sum", "--parts", size, &path]).split(' ').next().unwrap().to_owned();
    for size in ["8000000", "16000000", "17179870", "10000002"] {
        let found = stdout(&["sum", "--etag", &value(size), &path]);
        assert_eq!(found, format!("{path}: OK, parts of {size} bytes\n"));
    }
    let etag = |size: &str| {
        let output = run(&["sum", "--etag", &value(size), &path]);
        (output.status.code(), text(&output.stdout))
    };
    // No program uses such a size, so it is not tried.
    let words = format!("{path}: no part size that was tried fits; possible are 6666668 to 10000001 bytes\n");
    assert_eq!(etag("7654321"), (Some(1), words));
    // Every size that gives 1,000 parts is tried.
    let other = "900150983cd24fb0d6963f7d28e17f72-1000";
    let output = run(&["sum", "--etag", other, &path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), format!("{path}: FAILED\n")));
}

#[test]
fn malformed_values_and_unreadable_files_are_errors() {
    let folder = Folder::new("parts-wrong");
    let path = folder.write("file", "abc").to_str().unwrap().to_owned();
    for etag in [
        "",
        "abc",
        "900150983cd24fb0d6963f7d28e17f7g",
        "900150983cd24fb0d6963f7d28e17f72-",
        "900150983cd24fb0d6963f7d28e17f72-0",
        "900150983cd24fb0d6963f7d28e17f72-10001",
        "-1",
    ] {
        let (status, message) = failure(&["sum", &format!("--etag={etag}"), &path]);
        assert_eq!((status, message.contains("is not an S3 checksum of md5")), (1, true), "{message}");
    }
    for arguments in [
        &["--parts=0"][..],
        &["--parts=6G"],
        &["--parts=8MB"],
        &["--parts=x"],
        &["--parts=8M", "--etag=x"],
        &["--parts=8M", "-c"],
        &["--parts=8M", "--tag"],
        &["--parts=8M", "-a", "sha512"],
        &["--parts=8M", "-a", "crc64nvme"],
        &["--parts=8M", "/nonexistent"],
        &["--parts=8M", "/"],
    ] {
        let (status, message) = failure(&[&["sum"], arguments].concat());
        assert_eq!(status, 1, "{arguments:?}");
        assert!(!message.is_empty());
    }
    // The tools of coreutils do not have these options.
    let tool = folder.path().join("md5sum");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gantry"), &tool).unwrap();
    let output = Command::new(tool).args(["--parts=8M", &path]).output().unwrap();
    assert!(text(&output.stderr).contains("unrecognized option '--parts=8M'"));
}
