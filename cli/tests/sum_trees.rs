//! `gantry sum` on folders, with several digests, and as JSON lines.

mod sum_lab;

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sum_lab::{Input, Lab, Random, RunResult, args, run, theirs};

fn run_words(lab: &Lab, words: &str) -> RunResult {
    let mut command = lab.gantry_sum();
    command.args(args(words));
    run(command, &Input::Null)
}

/// Returns both streams and the exit status.
fn run_text(lab: &Lab, words: &str) -> (String, String, Option<i32>) {
    let result = run_words(lab, words);
    (text(&result.stdout.0), text(&result.stderr.0), result.code)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the names in a run's lines.
fn names(lab: &Lab, words: &str) -> Vec<String> {
    let (lines, errors, code) = run_text(lab, words);
    assert_eq!((&*errors, code), ("", Some(0)), "{words}");
    lines.lines().map(|line| line[66..].to_owned()).collect()
}

fn tree(lab: &Lab, files: &[&str]) {
    for file in files {
        fs::create_dir_all(lab.path(file).parent().unwrap()).unwrap();
        lab.write(file, file);
    }
}

fn fifo(lab: &Lab, name: &str) {
    let path = CString::new(lab.path(Path::new(name)).as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn files_of_folders_are_in_byte_order_of_their_names() {
    let lab = Lab::new();
    tree(&lab, &["t/b", "t/a/z", "t/a/B/x", "t/a.txt", "t/Z", "other"]);
    let expected = ["t/Z", "t/a/B/x", "t/a/z", "t/a.txt", "t/b"];
    assert_eq!(names(&lab, "-r t"), expected);
    assert_eq!(names(&lab, "-r t/ other"), [&expected[..], &["other"]].concat());
    let mut inside = lab.gantry_sum();
    inside.arg("-r").current_dir(lab.path("t"));
    let lines = run(inside, &Input::Null).stdout.0;
    assert!(text(&lines).lines().all(|line| line[66..].starts_with("./")) && text(&lines).lines().count() == 5);
    // The lines are equal to those of sha256sum.
    let mut real = lab.command(&theirs("sha256sum"), "sha256sum");
    real.args(expected);
    assert_eq!(run_text(&lab, "-r t").0, text(&run(real, &Input::Null).stdout.0));
}

#[test]
fn globs_select_files_and_skip_folders() {
    let lab = Lab::new();
    tree(&lab, &["t/a.iso", "t/b.txt", "t/.git/x.iso", "t/sub/c.iso", "t/sub/d.txt", "t/sub/sub/e.iso"]);
    for (words, expected) in [
        ("--include *.iso", &["t/.git/x.iso", "t/a.iso", "t/sub/c.iso", "t/sub/sub/e.iso"][..]),
        ("--exclude .git --include *.iso", &["t/a.iso", "t/sub/c.iso", "t/sub/sub/e.iso"]),
        ("--exclude .git --exclude sub", &["t/a.iso", "t/b.txt"]),
        ("--include sub/*", &["t/sub/c.iso", "t/sub/d.txt"]),
        ("--include sub/**/*.iso", &["t/sub/c.iso", "t/sub/sub/e.iso"]),
        ("--include {a,d}.*", &["t/a.iso", "t/sub/d.txt"]),
        ("--include nothing", &[]),
    ] {
        assert_eq!(names(&lab, &format!("-r {words} t")), expected, "{words}");
    }
    // Operands are not filtered.
    assert_eq!(names(&lab, "-r --include *.iso t/b.txt"), ["t/b.txt"]);
    let (_, warnings, code) = run_text(&lab, "-r --include [a t");
    assert!(warnings.starts_with("gantry sum: '[a': ") && code == Some(1), "{warnings}");
    for words in ["--include x t", "--exclude x t", "--follow t", "-r -c t", "--parts 8M -r t", "--json --tag t"] {
        assert_eq!(run_text(&lab, words).2, Some(1), "{words}");
    }
}

#[test]
fn links_are_followed_on_request_and_cycles_end() {
    let lab = Lab::new();
    tree(&lab, &["t/a/x", "elsewhere/y"]);
    symlink("../elsewhere", lab.path("t/link")).unwrap();
    symlink("..", lab.path("t/a/up")).unwrap();
    symlink("t", lab.path("top")).unwrap();
    assert_eq!(names(&lab, "-r t"), ["t/a/x"]);
    assert_eq!(names(&lab, "-r top"), ["top/a/x"], "an operand is followed");
    let (lines, warnings, code) = run_text(&lab, "-rL t");
    assert_eq!(lines.lines().map(|line| &line[66..]).collect::<Vec<_>>(), ["t/a/x", "t/link/y"]);
    assert_eq!((&*warnings, code), ("gantry sum: t/a/up: a link to a folder that contains it, skipped\n", Some(0)));
    symlink("nowhere", lab.path("t/dangling")).unwrap();
    let (lines, warnings, code) = run_text(&lab, "-rL t");
    assert!(lines.lines().count() == 2 && code == Some(1));
    assert!(warnings.contains("gantry sum: t/dangling: No such file or directory\n"), "{warnings}");
}

/// Runs a line of a shell in the folder `t`, with our program as `$0`.
fn run_in_shell(lab: &Lab, line: &str) -> (String, String, Option<i32>) {
    let mut shell = lab.command("/bin/sh".as_ref(), "sh");
    shell.arg("-c").arg(line).arg(sum_lab::ours()).current_dir(lab.path("t"));
    let output = shell.output().unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_list_of_a_folder_does_not_contain_itself() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b/c"]);
    let run = |line| run_in_shell(&lab, line);
    for line in ["\"$0\" sum -r . > SHA256SUMS", "\"$0\" sum -r --json . > b/list", "\"$0\" sum -r . >> SHA256SUMS"] {
        assert_eq!(run(line), (String::new(), String::new(), Some(0)), "{line}");
        std::fs::remove_file(lab.path("t/b/list")).ok();
    }
    let verified = "./a: OK\n./b/c: OK\n".repeat(2);
    assert_eq!(run("\"$0\" sum -c SHA256SUMS"), (verified, String::new(), Some(0)));
    assert_eq!(
        run("\"$0\" sum audit SHA256SUMS . > report.txt; cat report.txt").0,
        "2 as listed, 0 changed, 0 moved, 0 missing, 0 new\n"
    );
}

/// A program cannot know the file behind its output pipe. The list grows while the folder is read. rhash lists its own output, too.
#[test]
fn a_list_that_tee_writes_is_reported_unless_it_is_excluded() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b/c"]);
    let run = |line| {
        let (lines, _, code) = run_in_shell(&lab, line);
        (lines, code)
    };
    // The list exists before the folder is read.
    let (list, code) = run(": >list; \"$0\" sum -r . | tee list");
    assert_eq!((list.matches("  ./list\n").count(), code), (1, Some(0)), "{list}");
    assert_eq!(run("\"$0\" sum -c list"), ("./a: OK\n./b/c: OK\n./list: FAILED\n".to_owned(), Some(1)));
    let (list, code) = run("\"$0\" sum -r --exclude list . | tee list");
    assert_eq!((list.lines().count(), code), (2, Some(0)), "{list}");
    assert_eq!(run("\"$0\" sum -c list"), ("./a: OK\n./b/c: OK\n".to_owned(), Some(0)));
}

#[test]
fn other_file_systems_are_left_out_on_request() {
    let lab = Lab::new();
    tree(&lab, &["t/a"]);
    std::os::unix::fs::symlink("/proc/sys/kernel/random", lab.path("t/other")).unwrap();
    assert!(names(&lab, "-r -L t").contains(&"t/other/boot_id".to_owned()));
    assert_eq!(names(&lab, "-r -L -x t"), ["t/a"]);
}

#[test]
fn special_files_are_skipped_and_failures_are_reported_in_order() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b", "t/c"]);
    fifo(&lab, "t/aa");
    let (lines, warnings, code) = run_text(&lab, "-r gone t");
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(warnings, "gantry sum: gone: No such file or directory\ngantry sum: t/aa: a FIFO, skipped\n");
    assert_eq!(code, Some(1));
    assert_eq!(run_text(&lab, "-r t").2, Some(0), "a skipped file is no failure");
    // Without -r, a folder is an error as in coreutils.
    assert_eq!(run_text(&lab, "t"), (String::new(), "gantry sum: t: Is a directory\n".to_owned(), Some(1)));
    let (lines, _, code) = run_text(&lab, "-r --json gone t");
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (objects[0]["path"].as_str(), objects[0]["error"].as_str()),
        (Some("gone"), Some("No such file or directory"))
    );
    assert!(objects[0].get("digests").is_none() && objects.len() == 5 && code == Some(1));
    assert_eq!(objects[1], serde_json::json!({"path": "t", "type": "folder"}));
}

#[test]
fn several_digests_need_one_reading_and_have_tags() {
    let lab = Lab::new();
    let mut random = Random::new();
    // Sizes around the length of a piece, so that each round mixes whole messages, streams and ends of streams.
    let sizes = [0, 1, 1000, 65_535, 65_536, 65_537, 131_072, 400_000, 3, 127, 128, 129, 1_000_000, 262_144];
    let files: Vec<String> = sizes.iter().map(|size| format!("f{size}")).collect();
    for (name, size) in files.iter().zip(sizes) {
        lab.write(name, random.bytes(size));
    }
    let functions = "-a md5 -a sha256 -a blake2b-512 -a blake3 -a sha3-256 -a sha512 -a md5";
    for one in [&files[..], &files[12..13], &files[2..3]] {
        let words = format!("{functions} {}", one.join(" "));
        let (lines, warnings, code) = run_text(&lab, &words);
        assert_eq!((&*warnings, code), ("", Some(0)));
        let mut expected = String::new();
        for name in one {
            for (function, tag) in [
                ("md5", "MD5"),
                ("sha256", "SHA256"),
                ("blake2b-512", "BLAKE2b"),
                ("blake3", "BLAKE3"),
                ("sha3-256", "SHA3-256"),
                ("sha512", "SHA512"),
            ] {
                let single = run_text(&lab, &format!("-a {function} {name}")).0;
                writeln!(expected, "{tag} ({name}) = {}", single.split(' ').next().unwrap()).unwrap();
            }
        }
        assert_eq!(lines, expected);
        // Other devices and lanes give the same digests.
        for (variable, value) in [("GANTRY_CPU", "base"), ("GANTRY_CPU", "avx2"), ("GANTRY_POLICY", "round-robin")] {
            let mut command = lab.gantry_sum();
            command.args(args(&words)).env(variable, value);
            assert_eq!(text(&run(command, &Input::Null).stdout.0), expected, "{variable}={value}");
        }
        lab.write("list", &lines);
        let (lines, warnings, code) = run_text(&lab, "-c list");
        assert!(lines.lines().all(|line| line.ends_with(": OK")) && lines.lines().count() == 6 * one.len());
        assert_eq!((&*warnings, code), ("", Some(0)));
    }
    assert_eq!(run_text(&lab, "-a md5 -a sha1 -t f1").2, Some(1), "tags imply binary mode");
}

#[test]
fn a_pipe_has_several_digests_too() {
    let lab = Lab::new();
    let data = Random::new().bytes(700_000);
    lab.write("file", &data);
    let expected = run_text(&lab, "-a sha1 -a blake3 -a blake2b-512 file").0.replace("(file)", "(-)");
    let mut command = lab.gantry_sum();
    command.args(args("-a sha1 -a blake3 -a blake2b-512"));
    assert_eq!(text(&run(command, &Input::Pipe(data)).stdout.0), expected);
}

#[test]
fn blake2b_and_blake3_match_b2sum_and_b3sum() {
    let lab = Lab::new();
    let mut random = Random::new();
    let sizes = [0, 1, 127, 128, 129, 1023, 1024, 1025, 65_535, 65_536, 65_537, 200_000, 2_000_000];
    let names: Vec<String> = sizes.iter().map(|size| format!("f{size}")).collect();
    for (name, size) in names.iter().zip(sizes) {
        lab.write(name, random.bytes(size));
    }
    let theirs = |program: &str| Command::new(program).args(&names).current_dir(&lab.dir).output();
    let all = names.join(" ");
    assert_eq!(run_text(&lab, &format!("-a blake2b-512 {all}")).0, text(&theirs("/usr/bin/b2sum").unwrap().stdout));
    match theirs("b3sum") {
        Ok(output) => assert_eq!(run_text(&lab, &format!("-a blake3 {all}")).0, text(&output.stdout)),
        Err(_) => gantry_lab::skip("b3sum"),
    }
}

#[test]
fn objects_have_path_size_time_and_digests() {
    let lab = Lab::new();
    lab.write("a b\n", "abc");
    lab.write(std::ffi::OsStr::from_bytes(b"\xff"), "");
    let mut touch = Command::new("touch");
    touch.args(["-d", "1969-12-31 23:59:58.25 UTC", "a b\n"]).current_dir(&lab.dir);
    assert!(touch.status().unwrap().success());
    let (lines, warnings, code) = run_text(&lab, "-r --json -a sha1 -a md5 .");
    assert_eq!((&*warnings, code), ("", Some(0)));
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some(r#"{"path":".","type":"folder"}"#));
    assert_eq!(
        lines.next(),
        Some(
            r#"{"path":"./a b\n","size":3,"mtime":-1.750000000,"digests":{"sha1":"a9993e364706816aba3e25717850c26c9cd0d89d","md5":"900150983cd24fb0d6963f7d28e17f72"}}"#
        )
    );
    let object: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((object["path_hex"].as_str(), object["size"].as_u64()), (Some("2e2fff"), Some(0)));
    assert!(object["mtime"].as_f64().unwrap() > 1.0e9);
    assert_eq!(lines.next(), None);
}

#[test]
fn folders_are_measured_before_the_bar_is_drawn() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("t/sub")).unwrap();
    for name in ["t/a", "t/sub/b"] {
        fs::File::create(lab.path(name)).unwrap().set_len(1 << 29).unwrap();
    }
    let ours = sum_lab::ours();
    let mut terminal = lab.command("/usr/bin/script".as_ref(), "script");
    let sum = format!("{} sum --progress -r -a md5 t", ours.to_str().unwrap());
    terminal.env("TERM", "xterm").args(["-qec", &sum, "/dev/null"]);
    let shown = text(&run(terminal, &Input::Null).stdout.0);
    assert!(shown.contains("of 1.00 GiB") && shown.contains("t/sub/b"), "{shown:?}");
}
