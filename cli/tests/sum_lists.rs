//! `gantry sum -c` with checksum files of other programs.

mod sum_lab;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use sum_lab::{Input, Lab, args, run};

/// Returns both streams and the exit status.
fn run_text(lab: &Lab, words: &str) -> (String, String, Option<i32>) {
    let mut command = lab.gantry_sum();
    command.args(args(words));
    let result = run(command, &Input::Null);
    (String::from_utf8(result.stdout.0).unwrap(), String::from_utf8(result.stderr.0).unwrap(), result.code)
}

/// Returns the output of a program about the files; `None`, counted as skipped, if the program is not installed.
fn printed(lab: &Lab, program: &str, words: &str) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(args(words)).current_dir(&lab.dir).stdin(Stdio::null());
    let Ok(output) = command.output() else {
        gantry_lab::skip(program);
        return None;
    };
    assert!(output.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

#[test]
fn lists_of_other_programs_need_no_option() {
    let lab = Lab::new();
    lab.write("a", "a");
    lab.write("b c", "b");
    lab.write("d", vec![7; 100_000]);
    for (program, words) in [
        ("md5sum", "a d"),
        ("sha1sum", "--tag a d"),
        ("sha224sum", "a d"),
        ("sha384sum", "-b a d"),
        ("sha512sum", "--tag a d"),
        ("b2sum", "--tag a d"),
        ("b2sum", "--tag -l 256 a d"),
        // Early versions of b3sum have no tags.
        ("b3sum", "a d"),
        ("openssl", "dgst -sha3-256 a d"),
        ("openssl", "dgst -sha512-256 a d"),
        ("openssl", "dgst -blake2b512 a d"),
        ("openssl", "dgst -sha256 a d"),
        ("openssl", "dgst -c -sha256 a d"),
        ("rhash", "--bsd --sha256 a d"),
        ("rhash", "--bsd --md5 --sha1 a"),
        ("hashdeep", "-l -c md5,sha1,sha256,tiger,whirlpool a d"),
        ("hashdeep", "a d"),
        ("openssl", "dgst -sha512-224 a d"),
        ("openssl", "dgst -sm3 a d"),
        ("openssl", "dgst -blake2s256 a d"),
    ] {
        let Some(list) = printed(&lab, program, words) else { continue };
        let name = if program == "b3sum" { "B3SUMS" } else { "list" };
        lab.write(name, &list);
        let (lines, warnings, code) = run_text(&lab, &format!("-c {name}"));
        assert!(lines.contains("a: OK\n") && lines.lines().count() == 2, "{program} {words}: {lines}");
        assert_eq!((&*warnings, code), ("", Some(0)), "{program} {words}");
        // Lines may end as in Windows.
        let windows = String::from_utf8(list).unwrap().replace('\n', "\r\n");
        lab.write(name, windows);
        assert_eq!(run_text(&lab, &format!("-c {name}")).2, Some(0), "{program} {words}");
    }
}

#[test]
fn text_and_bits_of_shasum_are_verified() {
    let lab = Lab::new();
    lab.write("text", "a\r\nb\rc\n");
    lab.write("bits", "0100 0001\n");
    for words in ["-U text", "-a 256 -U text", "-0 bits", "-a 512 -0 bits"] {
        let Some(list) = printed(&lab, "shasum", words) else { return };
        lab.write("list", &list);
        let name = words.split(' ').next_back().unwrap();
        assert_eq!(run_text(&lab, "-c list"), (format!("{name}: OK\n"), String::new(), Some(0)), "{words}");
        let (_, warnings, code) = run_text(&lab, "audit list .");
        assert!(warnings.contains("which only -c verifies") && code == Some(2), "{warnings}");
    }
    let Some(list) = printed(&lab, "shasum", "-U text") else { return };
    lab.write("list", &list);
    lab.write("text", "a\nb\nc\n");
    assert_eq!(run_text(&lab, "-c list").0, "text: OK\n", "only line ends changed");
    lab.write("text", "a\nb\nd\n");
    assert_eq!(run_text(&lab, "-c list").0, "text: FAILED\n");
    // This file's name begins with the mark.
    lab.write("Utext", "a\nb\nc\n");
    assert_eq!(run_text(&lab, "-c list").0, "Utext: OK\n");
}

#[test]
fn pieces_of_hashdeep_are_verified() {
    let lab = Lab::new();
    let content: Vec<u8> = (0..100_000_u32).map(|at| (at / 7) as u8).collect();
    lab.write("d", &content);
    let Some(list) = printed(&lab, "hashdeep", "-l -p 16384 d") else { return };
    lab.write("list", &list);
    let verdicts = |changed: Option<usize>| {
        let ranges = (0..7).map(|piece| (piece, 16384 * piece, (16384 * piece + 16383).min(99_999)));
        let line = |(piece, first, last)| {
            format!("d offset {first}-{last}: {}\n", if changed == Some(piece) { "FAILED" } else { "OK" })
        };
        ranges.map(line).collect::<String>()
    };
    assert_eq!(run_text(&lab, "-c list"), (verdicts(None), String::new(), Some(0)));
    let (_, warnings, code) = run_text(&lab, "audit list .");
    assert!(warnings.contains("which only -c verifies") && code == Some(2), "{warnings}");
    let mut damaged = content.clone();
    damaged[40_000] ^= 1;
    lab.write("d", damaged);
    let (lines, _, code) = run_text(&lab, "-c list");
    assert_eq!((lines, code), (verdicts(Some(2)), Some(1)));
    lab.write("d", &content[..99_999]);
    assert_eq!(run_text(&lab, "-c list").0, verdicts(Some(6)), "a file that is too short");
    // This file's name looks like a piece.
    lab.write("d offset 0-1", "x");
    let mut sum = lab.gantry_sum();
    sum.args(["-a", "md5", "d offset 0-1"]);
    lab.write("list", run(sum, &Input::Null).stdout.0);
    assert_eq!(run_text(&lab, "-c list").0, "d offset 0-1: OK\n");
}

/// Several functions have digests of these lengths.
#[test]
fn short_digests_of_b2sum_and_digests_of_openssl_without_tags_are_found_by_trying() {
    let lab = Lab::new();
    lab.write("a", "a");
    for (program, words, function) in [
        ("b2sum", "-l 128 a", "blake2b-128"),
        ("openssl", "dgst -r -sha512-224 a", "sha512-224"),
        ("openssl", "dgst -r -sm3 a", "sm3"),
        ("openssl", "dgst -r -blake2s256 a", "blake2s-256"),
    ] {
        let Some(list) = printed(&lab, program, words) else { continue };
        lab.write("list", list);
        let (lines, warnings, code) = run_text(&lab, "-c list");
        assert_eq!((&*lines, code), ("a: OK\n", Some(0)), "{program} {words}: {warnings}");
        assert!(warnings.contains(&format!("the digests are of {function}, found by trying")), "{warnings}");
    }
}

#[test]
fn a_changed_file_is_detected_in_every_format() {
    let lab = Lab::new();
    for (program, words) in
        [("md5sum", "a"), ("b2sum", "--tag a"), ("hashdeep", "-l a"), ("openssl", "dgst -sha3-256 a")]
    {
        lab.write("a", "a");
        let Some(list) = printed(&lab, program, words) else { continue };
        lab.write("list", &list);
        lab.write("a", "b");
        let (lines, warnings, code) = run_text(&lab, "-c list");
        assert_eq!((&*lines, code), ("a: FAILED\n", Some(1)), "{program}");
        assert!(warnings.ends_with("WARNING: 1 computed checksum did NOT match\n"), "{warnings}");
    }
    // One wrong digest of two is sufficient.
    lab.write("a", "a");
    let good = run_text(&lab, "--json -a md5 -a sha256 a").0;
    lab.write("list", good.replace("0cc175b9", "0cc175b8"));
    assert_eq!(run_text(&lab, "-c list").0, "a: FAILED\n");
    assert_eq!(run_text(&lab, "-c -a sha256 list").0, "a: OK\n", "only the other digest counts");
}

#[test]
fn a_function_that_nothing_names_is_found_by_trying() {
    let lab = Lab::new();
    lab.write("a", "a");
    lab.write("b", "b");
    for (name, function) in [
        ("list", "sha3-256"),
        ("list", "blake3"),
        ("list", "ripemd160"),
        // These names mislead.
        ("SHA256SUMS", "blake2b-256"),
        ("shake128.txt", "sha256"),
        ("BLAKE2SUMS", "blake2b-512"),
    ] {
        lab.write(name, run_text(&lab, &format!("-a {function} a b")).0.replace("BLAKE2b-256 ", ""));
        let (lines, warnings, code) = run_text(&lab, &format!("-c {name}"));
        assert_eq!((&*lines, code), ("a: OK\nb: OK\n", Some(0)), "{name} of {function}: {warnings}");
        let words =
            format!("gantry sum: {name}: the digests are of {function}, found by trying; -a {function} saves that\n");
        assert_eq!(warnings, words);
        assert_eq!(run_text(&lab, &format!("-c -a {function} {name}")), (lines, String::new(), Some(0)));
    }
    lab.write("SHA3-256SUMS", run_text(&lab, "-a sha3-256 a").0);
    assert_eq!(run_text(&lab, "-c SHA3-256SUMS"), ("a: OK\n".to_owned(), String::new(), Some(0)));
    // A file is damaged if no function of that length gives its digest.
    lab.write("list", run_text(&lab, "-a sha3-256 a b").0);
    lab.write("b", "damaged");
    let (lines, warnings, code) = run_text(&lab, "-c list");
    assert_eq!((&*lines, code), ("a: OK\nb: FAILED\n", Some(1)));
    assert!(warnings.contains("WARNING: 1 computed checksum did NOT match"), "{warnings}");
}

#[test]
fn the_last_function_in_the_name_of_a_list_counts() {
    let lab = Lab::new();
    lab.write("a", "a");
    let (sha256, sha512) = (run_text(&lab, "-a sha256 a").0, run_text(&lab, "-a sha512 a").0);
    for (name, list) in [
        ("BLAKE3-1.5.0.tar.gz.sha256", &sha256),
        ("blake3_sha256sums.txt", &sha256),
        ("sha512-256.sha256", &sha256),
        ("blake2b-1.0.tar.gz.sha512", &sha512),
        ("sha3-512-tool.sha512", &sha512),
    ] {
        lab.write(name, list);
        assert_eq!(run_text(&lab, &format!("-c {name}")), ("a: OK\n".to_owned(), String::new(), Some(0)), "{name}");
    }
}

/// Windows PowerShell writes UTF-16, and editors of Windows write a byte order mark.
#[test]
fn no_encoding_of_a_list_hides_a_damaged_file() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        lab.write(name, name);
    }
    for list in [run_text(&lab, "a b").0, run_text(&lab, "--tag a b").0, run_text(&lab, "--json a b").0] {
        let units: Vec<u16> = std::iter::once(0xfeff).chain(list.replace('\n', "\r\n").encode_utf16()).collect();
        for (encoding, bytes) in [
            ("UTF-8 with a mark", [b"\xef\xbb\xbf", list.as_bytes()].concat()),
            ("UTF-16, little-endian", units.iter().flat_map(|unit| unit.to_le_bytes()).collect()),
            ("UTF-16, big-endian", units.iter().flat_map(|unit| unit.to_be_bytes()).collect()),
            ("NUL behind lines", list.replace('\n', "\0").into_bytes()),
        ] {
            lab.write("list", &bytes);
            lab.write("a", "a");
            assert_eq!(run_text(&lab, "-c list"), ("a: OK\nb: OK\n".to_owned(), String::new(), Some(0)), "{encoding}");
            lab.write("a", "damaged");
            assert_eq!(run_text(&lab, "-c --status list"), (String::new(), String::new(), Some(1)), "{encoding}");
            assert_eq!(run_text(&lab, "-c --quiet list").0, "a: FAILED\n", "{encoding}");
        }
    }
}

#[test]
fn lists_that_end_lines_with_nul_may_have_any_name() {
    let lab = Lab::new();
    lab.write("a\nb", "x");
    lab.write("c", "c");
    lab.write("list", run_text(&lab, "-z -r .").0);
    assert_eq!(run_text(&lab, "-c list").0, "\\./a\\nb: OK\n./c: OK\n");
    assert_eq!(run_text(&lab, "-c -z list").0, "./a\nb: OK\0./c: OK\0");
}

#[test]
fn a_line_that_is_not_understood_is_a_failure_unless_it_is_allowed() {
    let lab = Lab::new();
    lab.write("a", "a");
    let good = run_text(&lab, "-a md5 a").0;
    for improper in
        ["nonsense", "0cc175b9c0f1b6a831c399e269772661", "0cc175b9c0f1b6a831c399e26977266  a", "MD5 (a) = 0"]
    {
        lab.write("list", format!("{good}{improper}\n"));
        assert_eq!(run_text(&lab, "-c --status list").2, Some(1), "{improper}");
        let (lines, warnings, code) = run_text(&lab, "-c --ignore-improper list");
        assert_eq!((&*lines, code), ("a: OK\n", Some(0)), "{improper}");
        assert_eq!(warnings, "gantry sum: WARNING: 1 line is improperly formatted\n");
        // Under the name of coreutils, the line is ignored.
        assert!(lab.tool("md5sum").args(args("-c --status list")).status().unwrap().success());
    }
}

#[test]
fn one_blank_before_a_name_is_understood_beside_two() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        lab.write(name, name);
    }
    let list = run_text(&lab, "-a md5 a b").0.replace("  b", " b");
    lab.write("list", &list);
    assert_eq!(run_text(&lab, "-c list"), ("a: OK\nb: OK\n".to_owned(), String::new(), Some(0)));
    lab.write("b", "damaged");
    assert_eq!(run_text(&lab, "-c list").0, "a: OK\nb: FAILED\n");
}

#[test]
fn digests_alone_are_those_of_the_file_beside_them() {
    let lab = Lab::new();
    fs::create_dir(lab.path("t")).unwrap();
    lab.write("t/a.iso", "a");
    for (function, extension) in [("sha256", "sha256"), ("sha512", "SHA512"), ("blake3", "b3"), ("md5", "md5sum")] {
        let list = run_text(&lab, &format!("-a {function} t/a.iso")).0;
        let digest = list.split([' ', '\n']).find(|word| word.len() >= 32).unwrap();
        for text in [digest.to_owned(), format!("{digest}\r\n"), digest.to_uppercase()] {
            let name = format!("t/a.iso.{extension}");
            lab.write(&name, text);
            assert_eq!(run_text(&lab, &format!("-c {name}")), ("t/a.iso: OK\n".to_owned(), String::new(), Some(0)));
        }
    }
    lab.write("sums", "0cc175b9c0f1b6a831c399e269772661\n");
    assert_eq!(run_text(&lab, "-c sums").2, Some(1), "nothing names the file");
}

#[test]
fn digests_in_base64_and_paths_of_windows_are_understood() {
    let lab = Lab::new();
    fs::create_dir(lab.path("t")).unwrap();
    lab.write("t/a", "a");
    lab.write("t\\b", "a");
    let base64 = "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs=";
    for list in [
        format!("{base64}  t/a"),
        format!("{base64} *t/a"),
        format!("sha256-{base64} t/a"),
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  t\\a".to_owned(),
    ] {
        lab.write("list", format!("{list}\n"));
        assert_eq!(run_text(&lab, "-c list"), ("t/a: OK\n".to_owned(), String::new(), Some(0)), "{list}");
    }
    lab.write("list", "0cc175b9c0f1b6a831c399e269772661  t\\b\n");
    assert_eq!(run_text(&lab, "-c list").0, "t\\b: OK\n", "a file of that very name");
}

#[test]
fn signatures_and_sizes_around_digests_are_skipped() {
    let lab = Lab::new();
    lab.write("a", "a");
    let line = "MD5 (a) = 0cc175b9c0f1b6a831c399e269772661\n";
    let openpgp = |inside: &str| {
        format!(
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{line}-----BEGIN PGP SIGNATURE-----\nVersion: 1\n\n\
             iQIzBAEBCgAdFiEE\n{inside}=AbCd\n-----END PGP SIGNATURE-----\n"
        )
    };
    for list in [
        openpgp(""),
        format!("untrusted comment: verify with key.pub\nRWQ+/base64==\n{line}"),
        format!("TIMESTAMP = 1718000000\n{line}SIZE (a) = 1\n"),
        format!("; made by a tool\n# a comment\n{line}"),
    ] {
        lab.write("list", &list);
        assert_eq!(run_text(&lab, "-c list"), ("a: OK\n".to_owned(), String::new(), Some(0)), "{list}");
    }
    // No file hides in a signature.
    lab.write("list", openpgp("MD5 (gone) = 0cc175b9c0f1b6a831c399e269772661\n"));
    let (lines, _, code) = run_text(&lab, "-c list");
    assert_eq!((&*lines, code), ("a: OK\ngone: FAILED open or read\n", Some(1)));
}

#[test]
fn only_named_functions_count() {
    let lab = Lab::new();
    lab.write("a", "a");
    lab.write("list", run_text(&lab, "-a md5 -a sha256 a").0);
    assert_eq!(run_text(&lab, "-cw -a sha256 list"), ("a: OK\n".to_owned(), String::new(), Some(0)));
    lab.write("list", run_text(&lab, "-a md5 a").0);
    let (_, warnings, code) = run_text(&lab, "-c -a sha256 list");
    assert_eq!((&*warnings, code), ("gantry sum: list: no properly formatted checksum lines found\n", Some(1)));
}

#[test]
fn one_list_may_have_lines_of_several_layouts() {
    let lab = Lab::new();
    lab.write("a\nb", "x");
    lab.write("c", "");
    let mut list = run_text(&lab, "--json -r .").0;
    lab.write("sums", "");
    list += "d41d8cd98f00b204e9800998ecf8427e *c\r\n\n# a comment\nnonsense\n{\"path\":1}\n";
    list += "MD5 (gone) = d41d8cd98f00b204e9800998ecf8427e\n";
    list += "\\MD5 (a\\nb) = 9dd4e461268c8034f5c8564e155c67a6\n";
    lab.write("sums", &list);
    let (lines, warnings, code) = run_text(&lab, "-c sums");
    assert_eq!(lines, ".: OK\n\\./a\\nb: OK\n./c: OK\nc: OK\ngone: FAILED open or read\n\\a\\nb: OK\n");
    assert!(warnings.contains("WARNING: 2 lines are improperly formatted") && code == Some(1), "{warnings}");
    assert_eq!(run_text(&lab, "-c --strict --ignore-missing sums").2, Some(1));
    let quiet = "-c --ignore-missing --ignore-improper --quiet --status sums";
    assert_eq!(run_text(&lab, quiet), (String::new(), String::new(), Some(0)));
}

#[test]
fn verdicts_in_json_have_list_line_and_digests() {
    let lab = Lab::new();
    lab.write("a", "abc");
    lab.write("b", "abc");
    lab.write("list", "# x\n900150983cd24fb0d6963f7d28e17f72  a\nd41d8cd98f00b204e9800998ecf8427e  b\nd41d8cd98f00b204e9800998ecf8427e  c\n");
    let (lines, _, code) = run_text(&lab, "-c --json list");
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let facts: Vec<_> =
        objects.iter().map(|object| (object["line"].as_u64().unwrap(), object["verdict"].as_str().unwrap())).collect();
    assert_eq!(facts, [(2, "ok"), (3, "failed"), (4, "unreadable")]);
    assert_eq!(objects[1]["digests"]["md5"], "900150983cd24fb0d6963f7d28e17f72");
    assert_eq!(objects[1]["expected"]["md5"], "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!((&objects[2]["error"], &objects[2]["list"]), (&"No such file or directory".into(), &"list".into()));
    assert_eq!(code, Some(1));
    // Verdicts are not a manifest.
    lab.write("verdicts", lines);
    assert!(run_text(&lab, "-c verdicts").1.contains("no properly formatted checksum lines found"));
}

#[test]
fn endless_lines_are_skipped_and_wrong_names_are_reported() {
    let lab = Lab::new();
    lab.write("a", "");
    let mut list = b"{\"path\":\"".to_vec();
    list.extend(vec![b'x'; 3 << 20]);
    list.extend(b"\nd41d8cd98f00b204e9800998ecf8427e  a\n");
    lab.write("list", list);
    assert_eq!(run_text(&lab, "-c list").0, "a: OK\n");
    fs::create_dir(lab.path("folder")).unwrap();
    lab.write("list", "d41d8cd98f00b204e9800998ecf8427e  folder\nd41d8cd98f00b204e9800998ecf8427e  a/b\n");
    let (lines, warnings, code) = run_text(&lab, "-c list");
    assert_eq!((&*lines, code), ("folder: FAILED open or read\na/b: FAILED open or read\n", Some(1)));
    assert!(warnings.contains("folder: Is a directory") && warnings.contains("a/b: Not a directory"), "{warnings}");
}

#[test]
fn a_function_without_a_device_fails_its_files() {
    let lab = Lab::new();
    lab.write("a", "");
    lab.write("list", run_text(&lab, "-a md5 -a sha512-256 a").0);
    let mut command = lab.gantry_sum();
    command.args(args("-c list")).env("GANTRY_DEVICES", "software=off,lanes=off");
    let result = run(command, &Input::Null);
    assert_eq!(result.code, Some(1));
    assert!(!String::from_utf8(result.stdout.0).unwrap().contains("OK"));
}
