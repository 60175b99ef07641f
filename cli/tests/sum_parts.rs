//! `gantry sum --parts` and `--etag` beside what hashlib makes of the documented rule of S3.

mod gantry;

use std::fs;
use std::process::Command;

use gantry::{Folder, command, failure, run, stdout, text};

const HASHLIB: &str = "\
import base64, hashlib, sys
name, size, data = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], 'rb').read()
parts = [hashlib.new(name, data[at:at + size]).digest() for at in range(0, max(len(data), 1), size)]
both = hashlib.new(name, b''.join(parts))
print((both.hexdigest() if name == 'md5' else base64.b64encode(both.digest()).decode()) + '-%d' % len(parts))
";

/// `None` without Python, which is counted.
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
fn values_of_parts_are_those_of_the_rule_and_their_size_is_found_again() {
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
            // Of one part the size does not matter.
            let size = if length <= size { 8 * MIB } else { size };
            assert_eq!(found, format!("{path}: OK, parts of {size} bytes\n"), "{algorithm}");
        }
        assert!(stdout(&["sum", "--parts", option, &path]).contains('-'), "md5 is what is meant");
    }
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
fn values_of_another_shape_and_files_that_cannot_be_read_are_errors() {
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
        let (status, said) = failure(&["sum", &format!("--etag={etag}"), &path]);
        assert_eq!((status, said.contains("is no value of S3 for md5")), (1, true), "{said}");
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
        &["--parts=8M", "-"],
        &["--parts=8M", "/nonexistent"],
        &["--parts=8M", "/"],
    ] {
        let (status, said) = failure(&[&["sum"], arguments].concat());
        assert_eq!(status, 1, "{arguments:?}");
        assert!(!said.is_empty());
    }
    // The names of coreutils do not know them.
    let tool = folder.path().join("md5sum");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gantry"), &tool).unwrap();
    let output = Command::new(tool).args(["--parts=8M", &path]).output().unwrap();
    assert!(text(&output.stderr).contains("unrecognized option '--parts=8M'"));
}
