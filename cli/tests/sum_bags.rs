//! `gantry sum audit` and `gantry sum bag` on BagIt bags (RFC 8493), compared with bagit.py.

mod sum_lab;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use sum_lab::{Input, Lab, args, run};

/// Returns both streams and the exit status.
fn run_text(lab: &Lab, words: &str) -> (String, String, Option<i32>) {
    let mut command = lab.gantry_sum();
    command.args(args(words));
    let result = run(command, &Input::Null);
    (String::from_utf8(result.stdout.0).unwrap(), String::from_utf8(result.stderr.0).unwrap(), result.code)
}

/// Returns the verdict of bagit.py; `None`, counted as skipped, if bagit.py is not installed.
fn bagit_accepts(lab: &Lab) -> Option<bool> {
    let Ok(output) = Command::new("bagit.py").args(["--validate", "bag"]).current_dir(&lab.dir).output() else {
        gantry_lab::skip("bagit (pip install bagit)");
        return None;
    };
    Some(output.status.success())
}

fn assert_bagit(lab: &Lab, accepts: bool, case: &str) {
    assert!(bagit_accepts(lab).is_none_or(|found| found == accepts), "bagit.py about {case}");
}

/// Writes a bag of this version. `names` has pairs of a name in the manifest and the name of its file in the payload.
fn bag(lab: &Lab, version: &str, names: &[(&str, &str)]) {
    fs::create_dir_all(lab.path("bag/data")).unwrap();
    lab.write("bag/bagit.txt", format!("BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-8\n"));
    let mut manifest = String::new();
    for (listed, name) in names {
        lab.write(format!("bag/data/{name}"), name);
        let digest = run_text_of(lab, name);
        manifest.extend([&digest[..], "  data/", listed, "\n"]);
    }
    lab.write("bag/manifest-sha256.txt", manifest);
}

fn run_text_of(lab: &Lab, content: &str) -> String {
    let command = lab.gantry_sum();
    let result = run(command, &Input::Pipe(content.as_bytes().to_vec()));
    String::from_utf8(result.stdout.0).unwrap()[..64].to_owned()
}

const GOOD: &str = "1 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";

#[test]
fn percent_signs_are_escapes_since_version_1() {
    let lab = Lab::new();
    bag(&lab, "0.97", &[("50%25", "50%25")]);
    assert_eq!(run_text(&lab, "audit bag"), (GOOD.to_owned(), String::new(), Some(0)));
    assert_bagit(&lab, true, "0.97");
    fs::remove_dir_all(lab.path("bag")).unwrap();
    bag(&lab, "1.0", &[("50%25", "50%")]);
    assert_eq!(run_text(&lab, "audit bag"), (GOOD.to_owned(), String::new(), Some(0)));
    let (lines, _, code) = run_text(&lab, "-c bag/manifest-sha256.txt");
    assert_eq!((&*lines, code), ("bag/data/50%: OK\n", Some(0)));
}

#[test]
fn names_in_another_normalization_form_are_the_same_files() {
    let lab = Lab::new();
    bag(&lab, "0.97", &[("\u{e9}", "e\u{301}")]);
    let (lines, warnings, code) = run_text(&lab, "audit bag");
    assert_eq!((&*lines, code), (GOOD, Some(0)));
    assert!(warnings.contains("listed in NFC, found in NFD"), "{warnings}");
    assert_bagit(&lab, true, "normalization");
    lab.write("bag/data/e\u{301}", "changed");
    assert_eq!(run_text(&lab, "audit --quiet bag").0, "changed: data/\u{e9}\n");
    assert_bagit(&lab, false, "a changed file");
}

#[test]
fn a_bag_may_be_empty() {
    let lab = Lab::new();
    bag(&lab, "0.97", &[]);
    let none = GOOD.replace('1', "0");
    for operand in ["bag", "bag/manifest-sha256.txt"] {
        assert_eq!(run_text(&lab, &format!("audit {operand}")), (none.clone(), String::new(), Some(0)), "{operand}");
    }
    assert_bagit(&lab, true, "an empty bag");
}

#[test]
fn a_byte_order_mark_is_skipped_in_manifests_and_a_fault_in_the_declaration() {
    let lab = Lab::new();
    bag(&lab, "0.97", &[("a", "a")]);
    let with_mark = |name: &str| {
        let text = fs::read(lab.path(name)).unwrap();
        lab.write(name, [b"\xef\xbb\xbf", &text[..]].concat());
    };
    with_mark("bag/manifest-sha256.txt");
    assert_eq!(run_text(&lab, "audit bag"), (GOOD.to_owned(), String::new(), Some(0)));
    assert_bagit(&lab, true, "a mark in a manifest");
    with_mark("bag/bagit.txt");
    let (lines, warnings, code) = run_text(&lab, "audit bag");
    assert_eq!((&*lines, code), (GOOD, Some(1)));
    assert!(warnings.contains("bagit.txt: begins with a byte order mark"), "{warnings}");
    assert_bagit(&lab, false, "a mark in bagit.txt");
}

#[test]
fn the_sum_of_the_payload_is_compared() {
    let lab = Lab::new();
    bag(&lab, "0.97", &[("a", "a")]);
    for (oxum, accepted) in [("1.1", true), ("2.1", false), ("1.2", false), ("x", false), ("1.1.1", false)] {
        lab.write("bag/bag-info.txt", format!("Source-Organization: a\n  b\nPayload-Oxum: {oxum}\n"));
        let (lines, warnings, code) = run_text(&lab, "audit bag");
        assert_eq!((&*lines, code), (GOOD, Some(i32::from(!accepted))), "{oxum}");
        assert_eq!(warnings.contains(&format!("Payload-Oxum is {oxum}, but the payload has 1.1")), !accepted);
        assert_bagit(&lab, accepted, oxum);
    }
}

#[test]
fn a_file_that_one_manifest_leaves_out_is_named() {
    let lab = Lab::new();
    for (version, status) in [("0.97", 0), ("1.0", 1)] {
        bag(&lab, version, &[("a", "a"), ("b", "b")]);
        lab.write("bag/manifest-md5.txt", "0cc175b9c0f1b6a831c399e269772661  data/a\n");
        let (lines, warnings, code) = run_text(&lab, "audit bag");
        assert_eq!((&*lines, code), (&*GOOD.replacen('1', "2", 1), Some(status)), "{version}");
        assert_eq!(warnings, "gantry sum audit: data/b: not in manifest-md5.txt\n");
    }
}

#[test]
fn files_to_fetch_are_reported() {
    let lab = Lab::new();
    bag(&lab, "0.97", &[("a", "a"), ("b c", "b c")]);
    fs::remove_file(lab.path("bag/data/b c")).unwrap();
    lab.write("bag/fetch.txt", "http://example.org/b 3 data/b c\n");
    let (lines, warnings, code) = run_text(&lab, "audit bag");
    assert_eq!((lines.lines().next(), code), (Some("missing: data/b c"), Some(1)));
    assert_eq!(warnings, "gantry sum audit: bag/fetch.txt: 1 missing file is still to be fetched\n");
    assert_bagit(&lab, false, "a file to fetch");
    let (lines, _, _) = run_text(&lab, "audit --json bag");
    let object: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&object["verdict"], &object["url"]), (&"missing".into(), &"http://example.org/b".into()));
    lab.write("bag/data/b c", "b c");
    assert_eq!(run_text(&lab, "audit bag").2, Some(0));
    assert_bagit(&lab, true, "a fetched file");
    lab.write("bag/fetch.txt", "http://example.org/b - data/other\n");
    let (_, warnings, code) = run_text(&lab, "audit bag");
    assert_eq!((&*warnings, code), ("gantry sum audit: fetch.txt: data/other: not in a manifest\n", Some(1)));
    for line in ["http://example.org/b 3 ../secret", "http://example.org/b x data/a", "http://example.org/b", "a b"] {
        lab.write("bag/fetch.txt", line);
        let (_, warnings, code) = run_text(&lab, "audit bag");
        assert_eq!((warnings.contains("fetch.txt: 1: improperly formatted line"), code), (true, Some(2)), "{line}");
    }
}

#[test]
fn makes_a_bag_that_is_valid() {
    let lab = Lab::new();
    for (files, algorithms) in
        [(&["a", "data/a", "sub/50% x", "two\nlines", "\u{e9}"][..], "-a md5 -a sha256"), (&[], "")]
    {
        fs::create_dir_all(lab.path("bag")).unwrap();
        for file in files {
            let path = lab.path("bag").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        assert_eq!(run_text(&lab, &format!("bag {algorithms} bag")), (String::new(), String::new(), Some(0)));
        for file in files {
            assert_eq!(fs::read_to_string(lab.path("bag/data").join(file)).unwrap(), *file);
        }
        let (lines, warnings, code) = run_text(&lab, "audit bag");
        assert!(lines.contains(" 0 changed, 0 moved, 0 missing, 0 new\n"), "{lines}");
        assert_eq!((&*warnings, code), ("", Some(0)));
        assert_bagit(&lab, true, "our bag");
        let info = fs::read_to_string(lab.path("bag/bag-info.txt")).unwrap();
        let bytes: usize = files.iter().map(|file| file.len()).sum();
        assert!(info.contains(&format!("Payload-Oxum: {bytes}.{}\n", files.len())), "{info}");
        assert!(run_text(&lab, "bag bag").1.contains("bag: a bag already"));
        fs::remove_dir_all(lab.path("bag")).unwrap();
    }
}

#[test]
fn a_folder_that_cannot_become_a_bag_is_unchanged() {
    let lab = Lab::new();
    fs::create_dir(lab.path("bag")).unwrap();
    lab.write("bag/a", "a");
    let refused = |words: &str, part: &str| {
        let (lines, warnings, code) = run_text(&lab, words);
        assert!(warnings.contains(part), "{words}: {warnings}");
        assert_eq!((&*lines, code), ("", Some(1)), "{words}");
        assert_eq!(fs::read_to_string(lab.path("bag/a")).unwrap(), "a");
    };
    refused("bag -a blake3 bag", "blake3: bags have md5, sha1");
    refused("bag gone", "gone: not a folder");
    refused("bag", "bag takes one DIR");
    refused("bag bag bag", "bag takes one DIR");
    symlink("a", lab.path("bag/link")).unwrap();
    refused("bag bag", "bag/link: a bag has no symbolic links; the folder is unchanged");
    fs::remove_file(lab.path("bag/link")).unwrap();
    lab.write("bag/x%0ay", "");
    refused("bag bag", "would decode the %0A or %0D");
    fs::remove_file(lab.path("bag/x%0ay")).unwrap();
    // A run that ended before its last step.
    fs::create_dir(lab.path("bag/.data-7")).unwrap();
    lab.write("bag/bagit.txt", "");
    refused("bag bag", "bag/.data-7: holds files that an interrupted run moved");
    fs::remove_dir(lab.path("bag/.data-7")).unwrap();
    refused("bag bag", "bag: a bag already");
    assert_eq!(fs::read_dir(lab.path("bag")).unwrap().count(), 2);
}
