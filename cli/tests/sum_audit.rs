//! `gantry sum audit` on folders with manifests, and on bags, about which bagit.py must agree. Also `--unlisted` and `--cache`.

mod sum_lab;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use sum_lab::{Input, Lab, args, run};

/// Runs `gantry sum` with arguments separated by spaces. Returns both output streams and the exit status.
fn run_text(lab: &Lab, words: &str) -> (String, String, Option<i32>) {
    let mut command = lab.gantry_sum();
    command.args(args(words));
    let result = run(command, &Input::Null);
    (String::from_utf8(result.stdout.0).unwrap(), String::from_utf8(result.stderr.0).unwrap(), result.code)
}

/// Makes files with their folders. The content of each file is its own path.
fn tree(lab: &Lab, files: &[&str]) {
    for file in files {
        fs::create_dir_all(lab.path(file).parent().unwrap()).unwrap();
        lab.write(file, file);
    }
}

#[test]
fn new_moved_changed_and_missing_files_are_distinguished() {
    let lab = Lab::new();
    tree(&lab, &["t/kept", "t/changed", "t/moved", "t/missing", "t/sub/kept"]);
    lab.write("sums", run_text(&lab, "-r t").0);
    let same = "5 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";
    assert_eq!(run_text(&lab, "audit sums t"), (same.to_owned(), String::new(), Some(0)));
    lab.write("t/changed", "other");
    fs::rename(lab.path("t/moved"), lab.path("t/sub/here")).unwrap();
    fs::remove_file(lab.path("t/missing")).unwrap();
    lab.write("t/new", "new");
    let differences = "changed: changed\nmoved: moved -> sub/here\nmissing: missing\nnew: new\n";
    let (lines, warnings, code) = run_text(&lab, "audit sums t");
    assert_eq!(lines, format!("{differences}2 as listed, 1 changed, 1 moved, 1 missing, 1 new\n"));
    assert_eq!((&*warnings, code), ("", Some(1)));
    assert_eq!(run_text(&lab, "audit --quiet sums t").0, differences);
    let (lines, _, code) = run_text(&lab, "audit --json sums t");
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdicts: Vec<_> = objects.iter().map(|object| object["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["changed", "ok", "ok", "moved", "missing", "new"]);
    assert_eq!((&objects[3]["from"], &objects[3]["path"], code), (&"moved".into(), &"sub/here".into(), Some(1)));
    assert_eq!(run_text(&lab, "audit --json --quiet sums t").0.lines().count(), 4);
}

/// Changes the content of a file and keeps its time of modification.
fn rot(lab: &Lab, file: &str, content: &str) {
    let before = fs::metadata(lab.path(file)).unwrap().modified().unwrap();
    lab.write(file, content);
    File::options().write(true).open(lab.path(file)).unwrap().set_modified(before).unwrap();
}

#[test]
fn a_change_under_the_same_size_and_time_is_damage() {
    let lab = Lab::new();
    tree(&lab, &["t/edited", "t/longer", "t/rotten", "t/whole"]);
    lab.write("sums", run_text(&lab, "-r --json t").0);
    lab.write("plain", run_text(&lab, "-r t").0);
    rot(&lab, "t/rotten", "t/rOtten");
    rot(&lab, "t/longer", "t/longer than before");
    let other = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    lab.write("t/edited", "t/eDited");
    File::options().write(true).open(lab.path("t/edited")).unwrap().set_modified(other).unwrap();
    let (lines, warnings, code) = run_text(&lab, "audit sums t");
    let found = "changed: edited\nchanged: longer\ndamaged: rotten\n\
                 2 as listed, 2 changed, 1 damaged, 0 moved, 0 missing, 0 new\n";
    assert_eq!((&*lines, &*warnings, code), (found, "", Some(1)));
    let (lines, _, _) = run_text(&lab, "audit --json --quiet sums t");
    assert!(lines.contains(r#""path":"rotten","verdict":"damaged""#), "{lines}");
    // A list without times cannot tell damage from a change.
    assert!(run_text(&lab, "audit plain t").0.contains("changed: rotten"));
    // A copy may keep only whole seconds.
    let whole = fs::metadata(lab.path("t/rotten")).unwrap().modified().unwrap();
    let whole = whole.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let whole = SystemTime::UNIX_EPOCH + Duration::from_secs(whole);
    File::options().write(true).open(lab.path("t/rotten")).unwrap().set_modified(whole).unwrap();
    assert!(run_text(&lab, "audit sums t").0.contains("damaged: rotten"));
}

#[test]
fn times_of_any_nanosecond_are_compared_exactly() {
    let lab = Lab::new();
    let files: Vec<_> = (0..200_u64).map(|number| (format!("t/{number}"), number)).collect();
    fs::create_dir(lab.path("t")).unwrap();
    for (file, number) in &files {
        lab.write(file, "before");
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_790_000_000 + number, (number * 4_999_999) as u32);
        File::options().write(true).open(lab.path(file)).unwrap().set_modified(time).unwrap();
    }
    lab.write("sums", run_text(&lab, "-r --json t").0);
    for (file, _) in &files {
        rot(&lab, file, "beFore");
    }
    let (lines, _, _) = run_text(&lab, "audit --json --quiet sums t");
    assert_eq!(lines.matches(r#""verdict":"damaged""#).count(), files.len(), "{lines}");
}

#[test]
fn links_and_folders_are_compared_if_the_list_has_them() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b", "t/sub/c", "t/empty/x"]);
    fs::remove_file(lab.path("t/empty/x")).unwrap();
    for (target, link) in [("a", "t/kept"), ("a", "t/other"), ("gone", "t/dangling"), ("a", "t/file"), ("a", "t/no")] {
        symlink(target, lab.path(link)).unwrap();
    }
    lab.write("sums", run_text(&lab, "-r --json t").0);
    // The folder itself, two folders, five links, three files.
    assert_eq!(run_text(&lab, "audit sums t").0, "11 as listed, 0 changed, 0 moved, 0 missing, 0 new\n");
    let (lines, warnings, code) = run_text(&lab, "-c sums");
    assert!(lines.contains("t/dangling: OK\n") && lines.contains("t/empty: OK\n"), "{lines}");
    assert_eq!((&*warnings, code), ("", Some(0)));
    for link in ["t/other", "t/file", "t/no"] {
        fs::remove_file(lab.path(link)).unwrap();
    }
    symlink("b", lab.path("t/other")).unwrap();
    lab.write("t/file", "a");
    fs::remove_dir(lab.path("t/empty")).unwrap();
    symlink("b", lab.path("t/more")).unwrap();
    fs::create_dir(lab.path("t/new")).unwrap();
    fs::rename(lab.path("t/b"), lab.path("elsewhere")).unwrap();
    symlink("../elsewhere", lab.path("t/b")).unwrap();
    fs::remove_file(lab.path("t/a")).unwrap();
    fs::create_dir(lab.path("t/a")).unwrap();
    let (lines, warnings, code) = run_text(&lab, "audit sums t");
    let found = "changed: a\nchanged: b\nmissing: empty\nchanged: file\nmissing: no\nchanged: other\nnew: more\nnew: new\n\
                 5 as listed, 4 changed, 0 moved, 2 missing, 2 new\n";
    assert_eq!((&*lines, &*warnings, code), (found, "", Some(1)));
    let (lines, _, _) = run_text(&lab, "audit --json --quiet sums t");
    let other = r#"{"path":"other","verdict":"changed","type":"link","target":"b","expected_type":"link","expected_target":"a"}"#;
    assert!(lines.lines().any(|line| line == other), "{lines}");
    let (lines, _, code) = run_text(&lab, "-c sums");
    assert!(lines.contains("t/other: FAILED\n") && lines.contains("t/no: FAILED open or read\n"), "{lines}");
    assert_eq!(code, Some(1));
}

#[test]
fn new_files_are_added_to_a_list() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/sub/b"]);
    for (list, more) in [("SHA256SUMS", ""), ("t/sums.json", "--json")] {
        lab.write(list, run_text(&lab, &format!("-r {more} t")).0);
        tree(&lab, &["t/new", "t/sub/new"]);
        let mut shell = lab.command("/bin/sh".as_ref(), "sh");
        let script = format!("\"$0\" sum -r {more} --unlisted {list} ./t >> {list}");
        let output = shell.args(["-c", &script]).arg(sum_lab::ours()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(lab.path(list)).unwrap();
        assert_eq!(text.matches("/new").count(), 2, "{text}");
        let (lines, warnings, code) = run_text(&lab, &format!("audit {list} t"));
        assert!(lines.ends_with(" 0 changed, 0 moved, 0 missing, 0 new\n"), "{lines}");
        assert_eq!((&*warnings, code), ("", Some(0)));
        fs::remove_file(lab.path("t/new")).unwrap();
        fs::remove_file(lab.path("t/sub/new")).unwrap();
    }
    lab.write("bad", "what?\n");
    for (words, part) in [
        ("-r --unlisted bad t", "bad: 1: improperly formatted checksum line"),
        ("-r --unlisted gone t", "gone: No such file or directory"),
        ("--unlisted bad t/a", "meaningful only with -r"),
    ] {
        let (lines, warnings, code) = run_text(&lab, words);
        assert!(warnings.contains(part), "{words}: {warnings}");
        assert_eq!((&*lines, code), ("", Some(1)), "{words}");
    }
}

#[test]
fn names_are_relative_to_the_folder_or_to_the_origin_of_the_manifest() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/sub/b"]);
    let good = "2 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";
    let mut inside = lab.gantry_sum();
    inside.args(args("-r .")).current_dir(lab.path("t"));
    let list = run(inside, &Input::Null).stdout.0;
    lab.write("from-inside", &list);
    // A list in the folder that it describes is not a new file of the folder.
    lab.write("t/SHA256SUMS", &list);
    assert_eq!(run_text(&lab, "audit t/SHA256SUMS t").0, good);
    fs::remove_file(lab.path("t/SHA256SUMS")).unwrap();
    let absolute = format!("-r {}", lab.path("t").to_str().unwrap());
    lab.write("absolute", run_text(&lab, &absolute).0);
    lab.write("from-here", run_text(&lab, "-r ./t").0);
    for list in ["from-inside", "absolute", "from-here"] {
        for folder in ["t", "./t/"] {
            assert_eq!(run_text(&lab, &format!("audit {list} {folder}")).0, good, "{list} {folder}");
        }
    }
    lab.write(
        "outside",
        format!("{}{}", run_text(&lab, "-r t/sub").0, run_text(&lab, &format!("{}/t/a", lab.dir.display())).0),
    );
    let (_, warnings, code) = run_text(&lab, "audit outside t/sub");
    assert!(warnings.contains("t/a: listed, but not below the folder") && code == Some(2), "{warnings}");
}

#[test]
fn failures_have_their_own_exit_status() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b"]);
    lab.write("sums", run_text(&lab, "-r t").0);
    for (words, part) in [
        ("audit", "audit takes MANIFEST and, optionally, DIR"),
        ("audit sums t t", "audit takes MANIFEST and, optionally, DIR"),
        ("audit gone t", "gone: No such file or directory"),
        ("audit sums gone", "gone: not a folder"),
        ("audit t/a t", "no properly formatted checksum lines found"),
        ("audit t", "a folder, but not a bag"),
        ("audit -c sums t", "invalid option -- 'c'"),
    ] {
        let (lines, warnings, code) = run_text(&lab, words);
        assert!(warnings.contains(part), "{words}: {warnings}");
        assert_eq!((&*lines, code), ("", Some(2)), "{words}");
    }
    let list = fs::read_to_string(lab.path("sums")).unwrap();
    lab.write("damaged", format!("{list}what?\n"));
    let (lines, warnings, code) = run_text(&lab, "audit damaged t");
    assert!(lines.starts_with("2 as listed") && warnings.contains("damaged: 3: improperly formatted"), "{warnings}");
    assert_eq!(code, Some(2));
    lab.write("twice", format!("{list}{}", list.replace("t/a", "t/b").lines().next().unwrap()));
    assert_eq!(run_text(&lab, "audit twice t").2, Some(2), "a file with two digests");
    // A file that cannot be read.
    symlink("/proc/self/mem", lab.path("t/mem")).unwrap();
    lab.write("list", format!("{list}{}", list.lines().next().unwrap().replace("t/a", "t/mem")));
    let (_, warnings, code) = run_text(&lab, "audit list t");
    assert!(warnings.contains("t/mem: ") && code == Some(2), "{warnings}");
}

#[test]
fn excluded_names_are_not_compared_and_listed_links_are() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/cache/b", "t/c", "elsewhere"]);
    symlink("../elsewhere", lab.path("t/link")).unwrap();
    lab.write("sums", run_text(&lab, "-r t t/link").0);
    assert!(run_text(&lab, "audit sums t").0.starts_with("4 as listed, 0 changed, 0 moved, 0 missing, 0 new"));
    fs::remove_dir_all(lab.path("t/cache")).unwrap();
    tree(&lab, &["t/cache/other"]);
    assert_eq!(run_text(&lab, "audit sums t").2, Some(1));
    let (lines, _, code) = run_text(&lab, "audit --exclude cache sums t");
    assert_eq!((&*lines, code), ("3 as listed, 0 changed, 0 moved, 0 missing, 0 new\n", Some(0)));
    fs::remove_file(lab.path("elsewhere")).unwrap();
    assert!(run_text(&lab, "audit --exclude cache sums t").0.starts_with("missing: link\n"));
}

/// Makes a bag with bagit.py. Without bagit.py, counts the test as skipped and returns `None`.
fn bag(lab: &Lab) -> Option<()> {
    tree(lab, &["bag/one", "bag/sub/two", "bag/sub/50% \n name"]);
    let made = Command::new("bagit.py").args(["--sha256", "--sha512", "--md5", "bag"]).current_dir(&lab.dir).output();
    let Ok(made) = made else {
        gantry_lab::skip("bagit (pip install bagit)");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(())
}

fn bagit_agrees(lab: &Lab) -> bool {
    Command::new("bagit.py").args(["--validate", "bag"]).current_dir(&lab.dir).output().unwrap().status.success()
}

#[test]
fn verifies_bags_like_bagit() {
    let lab = Lab::new();
    let Some(()) = bag(&lab) else { return };
    // Three files, and the files that bagit.py adds except the tag manifests.
    let good = "8 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";
    assert_eq!(run_text(&lab, "audit bag"), (good.to_owned(), String::new(), Some(0)));
    assert_eq!(run_text(&lab, "audit bag/manifest-md5.txt").0, "3 as listed, 0 changed, 0 moved, 0 missing, 0 new\n");
    assert!(bagit_agrees(&lab));
    for manifest in ["manifest-md5.txt", "tagmanifest-sha512.txt"] {
        let (lines, warnings, code) = run_text(&lab, &format!("-c bag/{manifest}"));
        assert!(lines.contains(": OK") && !lines.contains("FAILED"), "{lines}");
        assert_eq!((&*warnings, code), ("", Some(0)));
    }
    let one = lab.path("bag/data/one");
    for (what, differences) in [
        ("changed", "changed: data/one\n"),
        ("gone", "missing: data/one\n"),
        ("more", "new: data/more\n"),
        ("moved", "moved: data/one -> data/uno\n"),
        ("tag", "changed: bag-info.txt\n"),
    ] {
        let info = fs::read(lab.path("bag/bag-info.txt")).unwrap();
        match what {
            "changed" => lab.write("bag/data/one", "uno"),
            "gone" => fs::remove_file(&one).unwrap(),
            "more" => lab.write("bag/data/more", ""),
            "moved" => fs::rename(&one, lab.path("bag/data/uno")).unwrap(),
            _ => lab.write("bag/bag-info.txt", [&info[..], b"X: y\n"].concat()),
        }
        let (lines, _, code) = run_text(&lab, "audit --quiet bag");
        assert_eq!((&*lines, code), (differences, Some(1)), "{what}");
        assert!(!bagit_agrees(&lab), "{what}");
        let _ = fs::remove_file(lab.path("bag/data/more"));
        let _ = fs::remove_file(lab.path("bag/data/uno"));
        lab.write("bag/data/one", "bag/one");
        lab.write("bag/bag-info.txt", info);
    }
    assert_eq!(run_text(&lab, "audit bag").2, Some(0));
    // A name that leads out of the bag is not followed.
    lab.write("secret", "");
    let manifest = fs::read_to_string(lab.path("bag/manifest-md5.txt")).unwrap();
    lab.write("bag/manifest-md5.txt", manifest + "d41d8cd98f00b204e9800998ecf8427e  ../secret\n");
    let (lines, _, _) = run_text(&lab, "-c bag/manifest-md5.txt");
    assert!(!lines.contains("secret"), "{lines}");
}

/// Runs `gantry sum` under strace. Returns how often it opened files of `t`; `None` without strace.
fn count_opened(lab: &Lab, words: &str) -> Option<usize> {
    let mut command = lab.command("strace".as_ref(), "strace");
    command.args(["-f", "-e", "trace=open,openat", "-o", "trace"]).arg(sum_lab::ours()).arg("sum").args(args(words));
    if command.output().is_err() {
        gantry_lab::skip("strace");
        return None;
    }
    let trace = fs::read_to_string(lab.path("trace")).unwrap();
    Some(trace.lines().filter(|line| line.contains("\"t/") && !line.contains("O_DIRECTORY")).count())
}

#[test]
fn a_cache_saves_reading_unchanged_files() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b", "t/c"]);
    // Digests of a file that changed in the last two seconds are not cached.
    std::thread::sleep(Duration::from_millis(2300));
    lab.write("sums", run_text(&lab, "-r t").0);
    assert_eq!(run_text(&lab, "-r --cache cache t"), run_text(&lab, "-r t"));
    let Some(count) = count_opened(&lab, "-r --cache cache t") else { return };
    assert_eq!(count, 0);
    assert_eq!(
        count_opened(&lab, "-r --cache cache -a sha256 -a md5 t"),
        Some(3),
        "the cache has no digests of one function"
    );
    assert_eq!(count_opened(&lab, "-c --cache cache sums"), Some(0));
    assert_eq!(count_opened(&lab, "audit --cache cache sums t"), Some(0));
    let (_, warnings, code) = run_text(&lab, "-c --cache cache sums");
    assert_eq!((&*warnings, code), ("gantry sum: sums: 3 files were not read; digests are from the cache\n", Some(0)));
    // Replace a file with another one of the same size and modification time.
    let before = fs::metadata(lab.path("t/a")).unwrap().modified().unwrap();
    lab.write("other", "t/A");
    File::options().write(true).open(lab.path("other")).unwrap().set_modified(before).unwrap();
    fs::rename(lab.path("other"), lab.path("t/a")).unwrap();
    let (lines, _, code) = run_text(&lab, "-c --cache cache sums");
    assert_eq!((lines.lines().next(), code), (Some("t/a: FAILED"), Some(1)));
}

#[test]
fn files_that_changed_recently_are_not_cached() {
    let lab = Lab::new();
    // With a time of modification in the future, the file counts as recently changed on a slow machine, too.
    let now = SystemTime::now() + Duration::from_hours(1);
    let write = |content: &str| {
        lab.write("t/a", content);
        File::options().write(true).open(lab.path("t/a")).unwrap().set_modified(now).unwrap();
    };
    tree(&lab, &["t/a"]);
    write("t/a");
    // After this pause, only the time of modification keeps the file out of the cache.
    std::thread::sleep(Duration::from_millis(2300));
    let old = run_text(&lab, "-r --cache cache t").0;
    write("T/A");
    assert_ne!(run_text(&lab, "-r --cache cache t").0, old);
    let Some(count) = count_opened(&lab, "-r --cache cache t") else { return };
    assert_eq!(count, 1);
    assert!(!fs::read_to_string(lab.path("cache")).is_ok_and(|cache| cache.contains("t/a")));
}

#[test]
fn a_damaged_cache_is_ignored_and_another_file_is_not_overwritten() {
    let lab = Lab::new();
    tree(&lab, &["t/a"]);
    std::thread::sleep(Duration::from_millis(2300));
    let good = run_text(&lab, "-r --cache cache t");
    let whole = fs::read(lab.path("cache")).unwrap();
    let forged = String::from_utf8(whole.clone()).unwrap().replacen("\"sha256\":\"", "\"sha256\":\"00", 1);
    for damaged in [&whole[..whole.len() - 2], &whole[..30], forged.as_bytes(), &[&whole[..], b"\0"].concat()] {
        lab.write("cache", damaged);
        let (lines, warnings, code) = run_text(&lab, "-r --cache cache t");
        assert_eq!((&lines, code), (&good.0, Some(0)));
        assert_eq!(warnings, "gantry sum: warning: cache is damaged, so every file is read\n");
        assert_eq!(fs::read(lab.path("cache")).unwrap(), whole, "the cache is not whole again");
    }
    for (name, content) in [("precious", "my thesis"), ("json", "{\"a\":1}\n")] {
        lab.write(name, content);
        let (lines, warnings, code) = run_text(&lab, &format!("-r --cache {name} t"));
        assert_eq!((&*lines, code), ("", Some(1)));
        assert!(warnings.contains("is not a cache of gantry sum"), "{warnings}");
        assert_eq!(fs::read_to_string(lab.path(name)).unwrap(), content);
    }
    assert_eq!(run_text(&lab, "-r --cache t t").2, Some(1));
}

#[test]
fn a_full_disk_leaves_the_old_cache_and_the_results() {
    let lab = Lab::new();
    let script = "mount -t tmpfs -o size=128k tmpfs full && cp cache full/cache && head -c 1M /dev/zero > full/filler; \
                  \"$0\" sum -r --cache full/cache t; echo status $?; cmp cache full/cache && ls full";
    fs::create_dir(lab.path("full")).unwrap();
    // The old cache lists one file. The new cache lists 400 long names, and does not fit on the full disk.
    let files: Vec<String> = (0..400).map(|number| format!("t/{number:0>100}")).collect();
    tree(&lab, &files.iter().map(String::as_str).collect::<Vec<_>>()[..1]);
    std::thread::sleep(Duration::from_millis(2300));
    assert_eq!(run_text(&lab, "-r --cache cache t").2, Some(0));
    tree(&lab, &files.iter().map(String::as_str).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_millis(2300));
    let mut command = lab.command("unshare".as_ref(), "unshare");
    command.args(["-rm", "sh", "-c", script]).arg(sum_lab::ours());
    let output = command.output();
    let able = output.as_ref().is_ok_and(|output| !String::from_utf8_lossy(&output.stderr).contains("mount:"));
    if !able || output.as_ref().is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains("unshare:")) {
        return gantry_lab::skip("file systems of one's own");
    }
    let output = output.unwrap();
    let (lines, warnings) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(
        lines.contains("status 0\n") && lines.lines().filter(|line| line.contains("  t/")).count() == 400,
        "{warnings}"
    );
    assert!(warnings.contains("warning: full/cache: No space left on device; the cache was not changed"), "{warnings}");
    assert!(lines.ends_with("cache\nfiller\n"), "{lines}");
}
