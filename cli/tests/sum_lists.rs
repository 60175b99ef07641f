//! `gantry sum -c` with the checksum files of other programs.

mod sum_lab;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use sum_lab::{Input, Lab, args, run};

/// Both streams and the exit status.
fn said(lab: &Lab, words: &str) -> (String, String, Option<i32>) {
    let mut command = lab.gantry_sum();
    command.args(args(words));
    let did = run(command, &Input::Null);
    (String::from_utf8(did.stdout.0).unwrap(), String::from_utf8(did.stderr.0).unwrap(), did.code)
}

/// What a program prints about the files; `None`, and counted, without it.
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
        // Its first versions have no tags.
        ("b3sum", "a d"),
        ("openssl", "dgst -sha3-256 a d"),
        ("openssl", "dgst -sha512-256 a d"),
        ("openssl", "dgst -blake2b512 a d"),
        ("openssl", "dgst -sha256 a d"),
        ("hashdeep", "-l -c md5,sha1,sha256,tiger,whirlpool a d"),
        ("hashdeep", "a d"),
    ] {
        let Some(list) = printed(&lab, program, words) else { continue };
        let name = if program == "b3sum" { "B3SUMS" } else { "list" };
        lab.write(name, &list);
        let (lines, told, code) = said(&lab, &format!("-c {name}"));
        assert!(lines.contains("a: OK\n") && lines.lines().count() == 2, "{program} {words}: {lines}");
        assert_eq!((&*told, code), ("", Some(0)), "{program} {words}");
        // The same with the ends of lines that Windows has.
        let windows = String::from_utf8(list).unwrap().replace('\n', "\r\n");
        lab.write(name, windows);
        assert_eq!(said(&lab, &format!("-c {name}")).2, Some(0), "{program} {words}");
    }
}

#[test]
fn a_changed_file_is_found_whatever_list_names_it() {
    let lab = Lab::new();
    for (program, words) in
        [("md5sum", "a"), ("b2sum", "--tag a"), ("hashdeep", "-l a"), ("openssl", "dgst -sha3-256 a")]
    {
        lab.write("a", "a");
        let Some(list) = printed(&lab, program, words) else { continue };
        lab.write("list", &list);
        lab.write("a", "b");
        let (lines, told, code) = said(&lab, "-c list");
        assert_eq!((&*lines, code), ("a: FAILED\n", Some(1)), "{program}");
        assert!(told.ends_with("WARNING: 1 computed checksum did NOT match\n"), "{told}");
    }
    // Of two digests one suffices.
    lab.write("a", "a");
    let good = said(&lab, "--json -a md5 -a sha256 a").0;
    lab.write("list", good.replace("0cc175b9", "0cc175b8"));
    assert_eq!(said(&lab, "-c list").0, "a: FAILED\n");
    assert_eq!(said(&lab, "-c -a sha256 list").0, "a: OK\n", "the other is asked for");
}

#[test]
fn a_length_of_several_functions_is_said_when_it_matters_and_settled_by_a_name() {
    let lab = Lab::new();
    lab.write("a", "a");
    let list = said(&lab, "-a sha3-256 a").0;
    lab.write("list", &list);
    let (lines, told, code) = said(&lab, "-c list");
    assert_eq!((&*lines, code), ("a: FAILED\n", Some(1)));
    assert!(
        told.contains("list: nothing but their length says that digests are of sha256; they may be of sha512-256, sha3-256, blake2b-256, blake3"),
        "{told}"
    );
    assert_eq!(said(&lab, "-c -a sha3-256 list"), ("a: OK\n".to_owned(), String::new(), Some(0)));
    lab.write("SHA3-256SUMS", &list);
    assert_eq!(said(&lab, "-c SHA3-256SUMS"), ("a: OK\n".to_owned(), String::new(), Some(0)));
    // Nothing is said of lengths that turned out to be right.
    lab.write("list", said(&lab, "a").0);
    assert_eq!(said(&lab, "-c list"), ("a: OK\n".to_owned(), String::new(), Some(0)));
}

#[test]
fn a_named_function_is_the_only_one_that_counts() {
    let lab = Lab::new();
    lab.write("a", "a");
    lab.write("list", said(&lab, "-a md5 -a sha256 a").0);
    let (lines, told, code) = said(&lab, "-cw -a sha256 list");
    assert_eq!((&*lines, code), ("a: OK\n", Some(0)));
    assert!(told.starts_with("gantry sum: list: 1: improperly formatted checksum line\n"), "{told}");
    lab.write("list", said(&lab, "-a md5 a").0);
    let (_, told, code) = said(&lab, "-c -a sha256 list");
    assert_eq!((&*told, code), ("gantry sum: list: no properly formatted checksum lines found\n", Some(1)));
}

#[test]
fn lines_of_several_layouts_stand_in_one_list() {
    let lab = Lab::new();
    lab.write("a\nb", "x");
    lab.write("c", "");
    let mut list = said(&lab, "--json -r .").0;
    lab.write("sums", "");
    list += "d41d8cd98f00b204e9800998ecf8427e *c\r\n\n# a comment\nnonsense\n{\"path\":1}\n";
    list += "MD5 (gone) = d41d8cd98f00b204e9800998ecf8427e\n";
    list += "\\MD5 (a\\nb) = 9dd4e461268c8034f5c8564e155c67a6\n";
    lab.write("sums", &list);
    let (lines, told, code) = said(&lab, "-c sums");
    assert_eq!(lines, "\\./a\\nb: OK\n./c: OK\nc: OK\ngone: FAILED open or read\n\\a\\nb: OK\n");
    assert!(told.contains("WARNING: 2 lines are improperly formatted") && code == Some(1), "{told}");
    assert_eq!(said(&lab, "-c --strict --ignore-missing sums").2, Some(1));
    assert_eq!(said(&lab, "-c --ignore-missing --quiet --status sums"), (String::new(), String::new(), Some(0)));
}

#[test]
fn verdicts_as_objects_name_list_line_and_digests() {
    let lab = Lab::new();
    lab.write("a", "abc");
    lab.write("b", "abc");
    lab.write("list", "# x\n900150983cd24fb0d6963f7d28e17f72  a\nd41d8cd98f00b204e9800998ecf8427e  b\nd41d8cd98f00b204e9800998ecf8427e  c\n");
    let (lines, _, code) = said(&lab, "-c --json list");
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let facts: Vec<_> =
        objects.iter().map(|object| (object["line"].as_u64().unwrap(), object["verdict"].as_str().unwrap())).collect();
    assert_eq!(facts, [(2, "ok"), (3, "failed"), (4, "unreadable")]);
    assert_eq!(objects[1]["digests"]["md5"], "900150983cd24fb0d6963f7d28e17f72");
    assert_eq!(objects[1]["expected"]["md5"], "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!((&objects[2]["error"], &objects[2]["list"]), (&"No such file or directory".into(), &"list".into()));
    assert_eq!(code, Some(1));
    // A verdict is no manifest.
    lab.write("verdicts", lines);
    assert!(said(&lab, "-c verdicts").1.contains("no properly formatted checksum lines found"));
}

#[test]
fn lines_without_an_end_fill_no_memory_and_names_that_lead_nowhere_are_told() {
    let lab = Lab::new();
    lab.write("a", "");
    let mut list = b"{\"path\":\"".to_vec();
    list.extend(vec![b'x'; 3 << 20]);
    list.extend(b"\nd41d8cd98f00b204e9800998ecf8427e  a\n");
    lab.write("list", list);
    assert_eq!(said(&lab, "-c list").0, "a: OK\n");
    fs::create_dir(lab.path("folder")).unwrap();
    lab.write("list", "d41d8cd98f00b204e9800998ecf8427e  folder\nd41d8cd98f00b204e9800998ecf8427e  a/b\n");
    let (lines, told, code) = said(&lab, "-c list");
    assert_eq!((&*lines, code), ("folder: FAILED open or read\na/b: FAILED open or read\n", Some(1)));
    assert!(told.contains("folder: Is a directory") && told.contains("a/b: Not a directory"), "{told}");
}

#[test]
fn a_pinned_device_that_lacks_a_function_is_said_for_its_files() {
    let lab = Lab::new();
    lab.write("a", "");
    lab.write("list", said(&lab, "-a md5 -a sha512-256 a").0);
    let mut command = lab.gantry_sum();
    command.args(args("-c list")).env("GANTRY_DEVICES", "software=off,lanes=off");
    let did = run(command, &Input::Null);
    assert_eq!(did.code, Some(1));
    assert!(!String::from_utf8(did.stdout.0).unwrap().contains("OK"));
}
