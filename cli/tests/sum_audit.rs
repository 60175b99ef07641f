//! `gantry sum audit`: folders beside manifests, bags beside bagit.py, and the cache.

mod sum_lab;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use sum_lab::{Input, Lab, args, run};

/// Both streams and the exit status.
fn said(lab: &Lab, words: &str) -> (String, String, Option<i32>) {
    let mut command = lab.gantry_sum();
    command.args(args(words));
    let did = run(command, &Input::Null);
    (String::from_utf8(did.stdout.0).unwrap(), String::from_utf8(did.stderr.0).unwrap(), did.code)
}

fn tree(lab: &Lab, files: &[&str]) {
    for file in files {
        fs::create_dir_all(lab.path(file).parent().unwrap()).unwrap();
        lab.write(file, file);
    }
}

#[test]
fn new_moved_changed_and_missing_files_are_told_apart() {
    let lab = Lab::new();
    tree(&lab, &["t/kept", "t/changed", "t/moved", "t/missing", "t/sub/kept"]);
    lab.write("sums", said(&lab, "-r t").0);
    let same = "5 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";
    assert_eq!(said(&lab, "audit sums t"), (same.to_owned(), String::new(), Some(0)));
    lab.write("t/changed", "other");
    fs::rename(lab.path("t/moved"), lab.path("t/sub/here")).unwrap();
    fs::remove_file(lab.path("t/missing")).unwrap();
    lab.write("t/new", "new");
    let differences = "changed: changed\nmoved: moved -> sub/here\nmissing: missing\nnew: new\n";
    let (lines, told, code) = said(&lab, "audit sums t");
    assert_eq!(lines, format!("{differences}2 as listed, 1 changed, 1 moved, 1 missing, 1 new\n"));
    assert_eq!((&*told, code), ("", Some(1)));
    assert_eq!(said(&lab, "audit --quiet sums t").0, differences);
    let (lines, _, code) = said(&lab, "audit --json sums t");
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdicts: Vec<_> = objects.iter().map(|object| object["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["changed", "ok", "ok", "moved", "missing", "new"]);
    assert_eq!((&objects[3]["from"], &objects[3]["path"], code), (&"moved".into(), &"sub/here".into(), Some(1)));
    assert_eq!(said(&lab, "audit --json --quiet sums t").0.lines().count(), 4);
}

#[test]
fn names_are_relative_to_the_folder_or_to_where_the_manifest_was_written() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/sub/b"]);
    let good = "2 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";
    let mut inside = lab.gantry_sum();
    inside.args(args("-r .")).current_dir(lab.path("t"));
    let list = run(inside, &Input::Null).stdout.0;
    lab.write("from-inside", &list);
    // A list in its own folder is no new file there.
    lab.write("t/SHA256SUMS", &list);
    assert_eq!(said(&lab, "audit t/SHA256SUMS t").0, good);
    fs::remove_file(lab.path("t/SHA256SUMS")).unwrap();
    let absolute = format!("-r {}", lab.path("t").to_str().unwrap());
    lab.write("absolute", said(&lab, &absolute).0);
    lab.write("from-here", said(&lab, "-r ./t").0);
    for list in ["from-inside", "absolute", "from-here"] {
        for folder in ["t", "./t/"] {
            assert_eq!(said(&lab, &format!("audit {list} {folder}")).0, good, "{list} {folder}");
        }
    }
    lab.write(
        "outside",
        format!("{}{}", said(&lab, "-r t/sub").0, said(&lab, &format!("{}/t/a", lab.dir.display())).0),
    );
    let (_, told, code) = said(&lab, "audit outside t/sub");
    assert!(told.contains("t/a: listed, and not below the folder") && code == Some(2), "{told}");
}

#[test]
fn what_cannot_be_compared_has_a_status_of_its_own() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b"]);
    lab.write("sums", said(&lab, "-r t").0);
    for (words, part) in [
        ("audit", "what is audited is MANIFEST and DIR"),
        ("audit sums t t", "what is audited is MANIFEST and DIR"),
        ("audit gone t", "gone: No such file or directory"),
        ("audit sums gone", "gone: not a folder"),
        ("audit t/a t", "no properly formatted checksum lines found"),
        ("audit t", "a folder, and no bag"),
        ("audit -c sums t", "invalid option -- 'c'"),
    ] {
        let (lines, told, code) = said(&lab, words);
        assert!(told.contains(part), "{words}: {told}");
        assert_eq!((&*lines, code), ("", Some(2)), "{words}");
    }
    let list = fs::read_to_string(lab.path("sums")).unwrap();
    lab.write("damaged", format!("{list}what?\n"));
    let (lines, told, code) = said(&lab, "audit damaged t");
    assert!(lines.starts_with("2 as listed") && told.contains("damaged: 3: improperly formatted"), "{told}");
    assert_eq!(code, Some(2));
    lab.write("twice", format!("{list}{}", list.replace("t/a", "t/b").lines().next().unwrap()));
    assert_eq!(said(&lab, "audit twice t").2, Some(2), "a file with two digests");
    // A device that reads as a file would, and fails.
    symlink("/proc/self/mem", lab.path("t/mem")).unwrap();
    lab.write("list", format!("{list}{}", list.lines().next().unwrap().replace("t/a", "t/mem")));
    let (_, told, code) = said(&lab, "audit list t");
    assert!(told.contains("t/mem: ") && code == Some(2), "{told}");
}

#[test]
fn excluded_names_are_no_part_of_the_comparison_and_listed_links_are() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/cache/b", "t/c", "elsewhere"]);
    symlink("../elsewhere", lab.path("t/link")).unwrap();
    lab.write("sums", said(&lab, "-r t t/link").0);
    assert!(said(&lab, "audit sums t").0.starts_with("4 as listed, 0 changed, 0 moved, 0 missing, 0 new"));
    fs::remove_dir_all(lab.path("t/cache")).unwrap();
    tree(&lab, &["t/cache/other"]);
    assert_eq!(said(&lab, "audit sums t").2, Some(1));
    let (lines, _, code) = said(&lab, "audit --exclude cache sums t");
    assert_eq!((&*lines, code), ("3 as listed, 0 changed, 0 moved, 0 missing, 0 new\n", Some(0)));
    fs::remove_file(lab.path("elsewhere")).unwrap();
    assert!(said(&lab, "audit --exclude cache sums t").0.starts_with("missing: link\n"));
}

/// A bag that bagit.py made; `None`, and counted, without it.
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
fn bags_are_judged_as_bagit_judges_them() {
    let lab = Lab::new();
    let Some(()) = bag(&lab) else { return };
    // Three files, and what bagit.py adds but the manifests of tags.
    let good = "8 as listed, 0 changed, 0 moved, 0 missing, 0 new\n";
    assert_eq!(said(&lab, "audit bag"), (good.to_owned(), String::new(), Some(0)));
    assert_eq!(said(&lab, "audit bag/manifest-md5.txt").0, "3 as listed, 0 changed, 0 moved, 0 missing, 0 new\n");
    assert!(bagit_agrees(&lab));
    for manifest in ["manifest-md5.txt", "tagmanifest-sha512.txt"] {
        let (lines, told, code) = said(&lab, &format!("-c bag/{manifest}"));
        assert!(lines.contains(": OK") && !lines.contains("FAILED"), "{lines}");
        assert_eq!((&*told, code), ("", Some(0)));
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
        let (lines, _, code) = said(&lab, "audit --quiet bag");
        assert_eq!((&*lines, code), (differences, Some(1)), "{what}");
        assert!(!bagit_agrees(&lab), "{what}");
        let _ = fs::remove_file(lab.path("bag/data/more"));
        let _ = fs::remove_file(lab.path("bag/data/uno"));
        lab.write("bag/data/one", "bag/one");
        lab.write("bag/bag-info.txt", info);
    }
    assert_eq!(said(&lab, "audit bag").2, Some(0));
    // A name that leads out of the bag is not followed.
    lab.write("secret", "");
    let manifest = fs::read_to_string(lab.path("bag/manifest-md5.txt")).unwrap();
    lab.write("bag/manifest-md5.txt", manifest + "d41d8cd98f00b204e9800998ecf8427e  ../secret\n");
    let (lines, _, _) = said(&lab, "-c bag/manifest-md5.txt");
    assert!(!lines.contains("secret"), "{lines}");
}

/// How many files of `t` a run opened.
fn opened(lab: &Lab, words: &str) -> Option<usize> {
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
fn a_cache_spares_the_reading_of_files_that_look_the_same() {
    let lab = Lab::new();
    tree(&lab, &["t/a", "t/b", "t/c"]);
    std::thread::sleep(Duration::from_millis(2300));
    lab.write("sums", said(&lab, "-r t").0);
    assert_eq!(said(&lab, "-r --cache cache t"), said(&lab, "-r t"));
    let Some(count) = opened(&lab, "-r --cache cache t") else { return };
    assert_eq!(count, 0);
    assert_eq!(opened(&lab, "-r --cache cache -a sha256 -a md5 t"), Some(3), "of one function the cache knows nothing");
    assert_eq!(opened(&lab, "-c --cache cache sums"), Some(0));
    assert_eq!(opened(&lab, "audit --cache cache sums t"), Some(0));
    let (_, told, code) = said(&lab, "-c --cache cache sums");
    assert_eq!(
        (&*told, code),
        ("gantry sum: sums: 3 files were not read: their digests are from the cache\n", Some(0))
    );
    // One that was replaced by another of the same size and time of change.
    let before = fs::metadata(lab.path("t/a")).unwrap().modified().unwrap();
    lab.write("other", "t/A");
    File::options().write(true).open(lab.path("other")).unwrap().set_modified(before).unwrap();
    fs::rename(lab.path("other"), lab.path("t/a")).unwrap();
    let (lines, _, code) = said(&lab, "-c --cache cache sums");
    assert_eq!((lines.lines().next(), code), (Some("t/a: FAILED"), Some(1)));
}

#[test]
fn files_that_changed_just_now_are_never_believed() {
    let lab = Lab::new();
    // As of a clock that is ahead, so that a slow machine makes no difference.
    let now = SystemTime::now() + Duration::from_hours(1);
    let write = |content: &str| {
        lab.write("t/a", content);
        File::options().write(true).open(lab.path("t/a")).unwrap().set_modified(now).unwrap();
    };
    tree(&lab, &["t/a"]);
    write("t/a");
    std::thread::sleep(Duration::from_millis(2300));
    let old = said(&lab, "-r --cache cache t").0;
    write("T/A");
    assert_ne!(said(&lab, "-r --cache cache t").0, old);
    let Some(count) = opened(&lab, "-r --cache cache t") else { return };
    assert_eq!(count, 1);
    assert!(!fs::read_to_string(lab.path("cache")).is_ok_and(|cache| cache.contains("t/a")));
}

#[test]
fn a_damaged_cache_is_none_and_another_file_is_left_alone() {
    let lab = Lab::new();
    tree(&lab, &["t/a"]);
    std::thread::sleep(Duration::from_millis(2300));
    let good = said(&lab, "-r --cache cache t");
    let whole = fs::read(lab.path("cache")).unwrap();
    let forged = String::from_utf8(whole.clone()).unwrap().replacen("\"sha256\":\"", "\"sha256\":\"00", 1);
    for damaged in [&whole[..whole.len() - 2], &whole[..30], forged.as_bytes(), &[&whole[..], b"\0"].concat()] {
        lab.write("cache", damaged);
        let (lines, told, code) = said(&lab, "-r --cache cache t");
        assert_eq!((&lines, code), (&good.0, Some(0)));
        assert_eq!(told, "gantry sum: warning: cache is damaged: every file is read\n");
        assert_eq!(fs::read(lab.path("cache")).unwrap(), whole, "it is whole again");
    }
    for (name, content) in [("precious", "my thesis"), ("json", "{\"a\":1}\n")] {
        lab.write(name, content);
        let (lines, told, code) = said(&lab, &format!("-r --cache {name} t"));
        assert_eq!((&*lines, code), ("", Some(1)));
        assert!(told.contains("is no cache of gantry sum"), "{told}");
        assert_eq!(fs::read_to_string(lab.path(name)).unwrap(), content);
    }
    assert_eq!(said(&lab, "-r --cache t t").2, Some(1));
}

#[test]
fn a_full_disk_under_the_cache_leaves_the_old_one_and_the_results() {
    let lab = Lab::new();
    let script = "mount -t tmpfs -o size=128k tmpfs full && cp cache full/cache && head -c 1M /dev/zero > full/filler; \
                  \"$0\" sum -r --cache full/cache t; echo status $?; cmp cache full/cache && ls full";
    fs::create_dir(lab.path("full")).unwrap();
    let files: Vec<String> = (0..400).map(|number| format!("t/{number:0>100}")).collect();
    tree(&lab, &files.iter().map(String::as_str).collect::<Vec<_>>()[..1]);
    std::thread::sleep(Duration::from_millis(2300));
    assert_eq!(said(&lab, "-r --cache cache t").2, Some(0));
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
    let (lines, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(
        lines.contains("status 0\n") && lines.lines().filter(|line| line.contains("  t/")).count() == 400,
        "{told}"
    );
    assert!(told.contains("warning: full/cache: No space left on device; it is as it was"), "{told}");
    assert!(lines.ends_with("cache\nfiller\n"), "{lines}");
}
