//! `gantry verity` beside veritysetup and fsverity, and what it says about data and trees that are wrong.

mod gantry;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, failure, run, stdout, text};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Bytes that are others in each block.
fn data(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// What a program prints; `None` if it is not installed, which is counted.
fn other(program: &str, arguments: &[&str]) -> Option<String> {
    // Administrators have them in their PATH.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let Ok(output) = Command::new(program).args(arguments).env("PATH", path).output() else {
        gantry_lab::skip(program);
        return None;
    };
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    Some(text(&output.stdout))
}

fn root_of(report: &str) -> String {
    let line = report.lines().find(|line| line.starts_with("Root hash:")).expect("a root hash");
    line.split_whitespace().last().unwrap().to_owned()
}

fn as_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn trees_are_those_of_veritysetup_byte_for_byte_and_each_verifies_those_of_the_other() {
    let folder = Folder::new("verity");
    let path = |name: &str| folder.path().join(name);
    // One block, a level's end and one more, and three levels.
    for (blocks, options) in [
        (1, &[][..]),
        (2, &["--hash", "sha512"]),
        (128, &[]),
        (129, &["--salt", "00ff"]),
        (300, &["--hash", "sha1", "--salt", "-"]),
        (300, &["--hash", "sha1", "--format", "0", "--salt", "0123456789"]),
        (4100, &["--hash", "sha512"]),
        (700, &["--hash", "sha256", "--hash-block-size", "512", "--data-block-size", "1024"]),
        (200, &["--no-superblock"]),
        (1, &["--no-superblock"]),
        (200, &["--hash-offset", "8192", "--data-blocks", "150"]),
        (33, &["--hash", "sha384", "--format", "0"]),
    ] {
        let block = if options.contains(&"1024") { 1024 } else { 4096 };
        // A piece of a block behind them does not count.
        fs::write(path("data"), data(blocks * block + 100)).unwrap();
        let has_superblock = !options.contains(&"--no-superblock");
        let mut options = options.to_vec();
        if !options.contains(&"--salt") {
            options.extend(["--salt", "5ca1ab1e00000000000000000000000000000000000000000000000000000007"]);
        }
        let tree: Vec<&str> = options.clone();
        if has_superblock {
            options.extend(["--uuid", UUID]);
        }
        let (ours, theirs, data) = (path("ours"), path("theirs"), path("data"));
        let (ours, theirs, data) = (as_str(&ours), as_str(&theirs), as_str(&data));
        let _ = (fs::remove_file(ours), fs::remove_file(theirs));
        let report = stdout(&[&["verity", "format"], &options[..], &[data, ours]].concat());
        let root = root_of(&report);
        let options_to_verify = || {
            // The superblock says everything but where it is.
            let offset = tree.iter().position(|option| *option == "--hash-offset");
            match offset {
                _ if !has_superblock => tree.clone(),
                Some(place) => tree[place..place + 2].to_vec(),
                None => Vec::new(),
            }
        };
        let verify = [&["verify"], &options_to_verify()[..], &[data]].concat();
        if let Some(report_of_theirs) = other("veritysetup", &[&["format"], &options[..], &[data, theirs]].concat()) {
            assert_eq!(report, report_of_theirs.replace("/theirs\n", "/ours\n"), "{options:?}, {blocks} blocks");
            assert!(fs::read(ours).unwrap() == fs::read(theirs).unwrap(), "{options:?}, {blocks} blocks");
            other("veritysetup", &[&verify[..], &[ours, &root]].concat());
        }
        assert_eq!(stdout(&[&["verity"], &verify[..], &[ours, &root]].concat()), "", "{options:?}, {blocks} blocks");
    }
}

#[test]
fn a_tree_in_the_file_of_its_data_is_that_of_veritysetup() {
    let folder = Folder::new("verity-same");
    let images = ["ours", "theirs"].map(|name| folder.path().join(name));
    for image in &images {
        fs::write(image, data(200 * 4096)).unwrap();
    }
    let [ours, theirs] = images.each_ref().map(|image| as_str(image));
    let offset = (200 * 4096).to_string();
    let options = ["--salt", "ab", "--uuid", UUID, "--hash-offset", &offset, "--data-blocks", "200"];
    let root = root_of(&stdout(&[&["verity", "format"], &options[..], &[ours, ours]].concat()));
    if other("veritysetup", &[&["format"], &options[..], &[theirs, theirs]].concat()).is_some() {
        assert!(fs::read(ours).unwrap() == fs::read(theirs).unwrap());
    }
    stdout(&["verity", "verify", "--hash-offset", &offset, ours, ours, &root]);
    // What would be lost is refused.
    let before = fs::read(ours).unwrap();
    let (status, said) = failure(&["verity", "format", "--data-blocks", "200", ours, ours]);
    assert_eq!(status, 2);
    assert!(said.contains("written over the data; --hash-offset 819200"), "{said}");
    assert!(before == fs::read(ours).unwrap());
}

#[test]
fn verify_names_the_first_block_that_was_changed_in_the_data_or_the_tree() {
    let folder = Folder::new("verity-bad");
    let (data_file, tree) = (folder.path().join("data"), folder.path().join("tree"));
    fs::write(&data_file, data(20_000 * 4096)).unwrap();
    let root = root_of(&stdout(&["verity", "format", as_str(&data_file), as_str(&tree)]));
    let verify = || failure(&["verity", "verify", as_str(&data_file), as_str(&tree), &root]);
    let flip = |path: &Path, at: u64| {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    };
    let bad = |path: &Path, number: u64, begin: u64| {
        let end = begin + 4095;
        let words = format!("block {number}, bytes {begin} to {end}, is not the one that was hashed\n");
        (1, format!("gantry: {}: {words}", path.display()))
    };
    // Of several the first.
    for block in [19_999, 12_345, 77] {
        flip(&data_file, block * 4096 + 4095);
        assert_eq!(verify(), bad(&data_file, block, block * 4096));
    }
    // The superblock, the top, 2 blocks, 157: a block of the lowest level is found before the data.
    let lowest = 4096 * 4;
    flip(&tree, lowest + 4096 * 100);
    assert_eq!(verify(), bad(&tree, 100, lowest + 4096 * 100));
    flip(&tree, 4096 * 3 + 5);
    assert_eq!(verify(), bad(&tree, 1, 4096 * 3));
    flip(&tree, 4096);
    assert_eq!(verify(), (1, format!("gantry: {}: not the tree of this root hash\n", tree.display())));
}

#[test]
fn superblocks_and_files_that_are_wrong_are_refused() {
    let folder = Folder::new("verity-wrong");
    let (data_file, tree) = (folder.path().join("data"), folder.path().join("tree"));
    fs::write(&data_file, data(300 * 4096)).unwrap();
    let root = root_of(&stdout(&["verity", "format", as_str(&data_file), as_str(&tree)]));
    let good = fs::read(&tree).unwrap();
    let verify = || failure(&["verity", "verify", as_str(&data_file), as_str(&tree), &root]);
    for (at, bytes, words) in [
        (0, &b"x"[..], "there is no superblock of dm-verity"),
        (8, &[9], "a superblock of version 9; 1 is known"),
        (32, b"md6\0", "unknown hash function"),
        (64, &[0, 0, 0, 0xff], "blocks of the data have 4278190080 bytes"),
        (72, &[0xff; 8], "too short for a tree over 18446744073709551615 blocks"),
        (72, &[0, 0, 0, 0, 0, 0, 1, 0], "too short for a tree"),
        (72, &[0; 8], "and not 0 blocks of 4096"),
        (80, &[0xff, 0xff], "the salt has 65535 bytes"),
    ] {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(&tree, changed).unwrap();
        let (status, said) = verify();
        assert_eq!(status, 1);
        assert!(said.contains(words), "{said}");
    }
    for length in [0, 100, 4096, good.len() - 1] {
        fs::write(&tree, &good[..length]).unwrap();
        assert_eq!(verify().0, 1, "{length} bytes");
    }
    fs::write(&tree, &good).unwrap();
    File::options().write(true).open(&data_file).unwrap().set_len(299 * 4096).unwrap();
    assert!(verify().1.contains("it has 1224704 bytes, and not 300 blocks of 4096"));
    let (status, said) = failure(&["verity", "format", "/dev/null", as_str(&tree)]);
    assert_eq!((status, said.contains("fewer than 1 blocks")), (1, true), "{said}");
    assert!(fs::read(&tree).unwrap() == good, "it was not touched");
    assert_eq!(failure(&["verity", "verify", as_str(&data_file), as_str(&tree), "00"]).0, 2);
    assert_eq!(failure(&["verity", "format", "/", as_str(&tree)]).0, 1);
    let (status, said) = failure(&["verity", "format", "--hash-offset", "100", as_str(&data_file), as_str(&tree)]);
    assert_eq!((status, &said[..]), (2, "gantry: --hash-offset 100: not a multiple of 512\n"));
}

#[test]
fn a_root_hash_goes_by_way_of_a_file() {
    let folder = Folder::new("verity-file");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("data"), data(5 * 4096)).unwrap();
    let option = format!("--root-hash-file={}", path("root"));
    let report = stdout(&["verity", "format", &option, &path("data"), &path("tree")]);
    assert_eq!(fs::read_to_string(path("root")).unwrap(), root_of(&report));
    stdout(&["verity", "verify", &option, &path("data"), &path("tree")]);
    fs::write(path("root"), "not a hash").unwrap();
    assert_eq!(failure(&["verity", "verify", &option, &path("data"), &path("tree")]).0, 1);
}

#[test]
fn digests_are_those_of_fsverity() {
    let folder = Folder::new("fsverity");
    // Around the ends of blocks and of levels, and nothing at all.
    let lengths = [0, 1, 1023, 1024, 4095, 4096, 4097, 128 * 4096, 128 * 4096 + 1, 129 * 4096, 3_000_000, 70_000_000];
    let files: Vec<String> = lengths.iter().map(|length| format!("{length} bytes")).collect();
    for (name, length) in files.iter().zip(lengths) {
        fs::write(folder.path().join(name), data(length)).unwrap();
    }
    let paths: Vec<String> = files.iter().map(|name| folder.path().join(name).to_str().unwrap().to_owned()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    for options in [
        &[][..],
        &["--hash-alg=sha512", "--compact"],
        &["--salt=00ff", "--block-size=1024"],
        &["--salt=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "--hash-alg=sha512"],
    ] {
        let ours = stdout(&[&["verity", "digest"], options, &paths].concat());
        if let Some(theirs) = other("fsverity", &[&["digest"], options, &paths].concat()) {
            assert_eq!(ours, theirs, "{options:?}");
        }
        for level in ["base", "avx2"] {
            for threads in ["1", "3"] {
                let mut limited = command(&[&["verity", "digest"], options, &paths].concat());
                let output = limited.env("GANTRY_CPU", level).env("GANTRY_THREADS", threads).output().unwrap();
                assert_eq!(text(&output.stdout), ours, "{level}, {threads} threads");
            }
        }
    }
    // The digest of an empty file that fsverity-utils prints, for where it is not installed.
    let empty = stdout(&["verity", "digest", "--compact", paths[0]]);
    assert_eq!(empty, "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95\n");
}

#[test]
fn a_file_that_cannot_be_read_is_said_and_the_others_are_hashed() {
    let folder = Folder::new("fsverity-missing");
    let there = folder.write("there", "x");
    let output = run(&["verity", "digest", "--compact", "/nonexistent", "/", as_str(&there)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    let words = "gantry: /nonexistent: No such file or directory\ngantry: /: is a directory\n";
    assert_eq!(text(&output.stderr), words);
}

#[test]
fn mistakes_on_the_command_line_are_told() {
    for arguments in [
        &["digest", "--hash-alg", "md5", "x"][..],
        &["digest", "--block-size", "3000", "x"],
        &["digest", "--salt", "0", "x"],
        &["digest", "--salt", "zz", "x"],
        &["digest"],
        &["format", "--data-block-size", "1000", "a", "b"],
        &["format", "--uuid", "1234", "a", "b"],
        &["format", "--format", "2", "a", "b"],
        &["verify", "a", "b"],
        &["verify", "--salt", "00", "a", "b", "00"],
    ] {
        assert_eq!(failure(&[&["verity"], arguments].concat()).0, 2, "{arguments:?}");
    }
}
