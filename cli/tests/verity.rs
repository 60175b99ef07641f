//! `gantry verity` compared with veritysetup and fsverity, and its messages about wrong data and trees.

mod gantry;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, failure, run, stdout, text};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Makes data that differs in every block.
fn data(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Returns the output of a program; `None`, counted as skipped, if it is not installed.
fn reference_tool(program: &str, arguments: &[&str]) -> Option<String> {
    // These programs may be in folders for administrators.
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
fn trees_equal_those_of_veritysetup_and_each_verifies_the_other() {
    let folder = Folder::new("verity");
    let path = |name: &str| folder.path().join(name);
    // One block, a full level and one block more, and three levels.
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
        (200, &["--hash", "md5"]),
        (200, &["--hash", "blake2s-256"]),
        (200, &["--hash", "blake2b-512", "--salt", "-"]),
        (300, &["--hash", "ripemd160"]),
        (300, &["--hash", "rmd160", "--format", "0"]),
        (3, &["--hash", "sm3"]),
        (129, &["--hash", "blake2s-256", "--no-superblock"]),
    ] {
        let block = if options.contains(&"1024") { 1024 } else { 4096 };
        fs::write(path("data"), data(blocks * block)).unwrap();
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
            // The superblock has all parameters except its own offset.
            let offset = tree.iter().position(|option| *option == "--hash-offset");
            match offset {
                _ if !has_superblock => tree.clone(),
                Some(place) => tree[place..place + 2].to_vec(),
                None => Vec::new(),
            }
        };
        let verify = [&["verify"], &options_to_verify()[..], &[data]].concat();
        if let Some(report_of_theirs) =
            reference_tool("veritysetup", &[&["format"], &options[..], &[data, theirs]].concat())
        {
            assert_eq!(report, report_of_theirs.replace("/theirs\n", "/ours\n"), "{options:?}, {blocks} blocks");
            assert!(fs::read(ours).unwrap() == fs::read(theirs).unwrap(), "{options:?}, {blocks} blocks");
            reference_tool("veritysetup", &[&verify[..], &[ours, &root]].concat());
        }
        assert_eq!(stdout(&[&["verity"], &verify[..], &[ours, &root]].concat()), "", "{options:?}, {blocks} blocks");
    }
}

/// veritysetup silently omits an incomplete last block.
#[test]
fn data_that_is_no_multiple_of_the_block_is_named() {
    let folder = Folder::new("verity-rest");
    let (data_file, tree) = (folder.path().join("data"), folder.path().join("tree"));
    fs::write(&data_file, data(1_000_000)).unwrap();
    let (data_file, tree) = (as_str(&data_file), as_str(&tree));
    let words = "its 1000000 bytes are no multiple of 4096; --data-blocks 244 leaves out the last 576";
    let refused = (1, format!("gantry: {data_file}: {words}\n"));
    assert_eq!(failure(&["verity", "format", data_file, tree]), refused);
    assert!(!Path::new(tree).exists());
    let root = root_of(&stdout(&["verity", "format", "--data-blocks", "244", data_file, tree]));
    // The tree is right for its blocks, and a note names the other bytes.
    let output = run(&["verity", "verify", data_file, tree, &root]);
    let note = format!("gantry: {data_file}: note: the tree does not cover bytes 999424 to 999999\n");
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), String::new(), note));
    assert_eq!(failure(&["verity", "verify", "--no-superblock", data_file, tree, &root]), refused);
}

#[test]
fn data_without_a_known_length_is_refused() {
    let folder = Folder::new("verity-length");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for writing, so that reading does not wait.
    let _writer = File::options().read(true).write(true).open(&pipe).unwrap();
    let unknown = "it has data, but the system does not know its length; copy it first";
    for (file, words) in [
        ("/proc/version", unknown),
        ("/dev/zero", unknown),
        (as_str(&pipe), "a pipe or terminal has no length; copy it to a file first"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "it ended before its length of 4096 bytes"),
    ] {
        // Containers may lack a part of /sys.
        if !Path::new(file).exists() {
            continue;
        }
        assert_eq!(failure(&["verity", "digest", file]), (1, format!("gantry: {file}: {words}\n")));
        assert_eq!(failure(&["verity", "format", file, as_str(&folder.path().join("tree"))]).0, 1);
    }
}

#[test]
fn a_tree_in_the_file_of_its_data_equals_that_of_veritysetup() {
    let folder = Folder::new("verity-same");
    let images = ["ours", "theirs"].map(|name| folder.path().join(name));
    for image in &images {
        fs::write(image, data(200 * 4096)).unwrap();
    }
    let [ours, theirs] = images.each_ref().map(|image| as_str(image));
    let offset = (200 * 4096).to_string();
    let options = ["--salt", "ab", "--uuid", UUID, "--hash-offset", &offset, "--data-blocks", "200"];
    let root = root_of(&stdout(&[&["verity", "format"], &options[..], &[ours, ours]].concat()));
    if reference_tool("veritysetup", &[&["format"], &options[..], &[theirs, theirs]].concat()).is_some() {
        assert!(fs::read(ours).unwrap() == fs::read(theirs).unwrap());
    }
    stdout(&["verity", "verify", "--hash-offset", &offset, ours, ours, &root]);
    // Overwriting data is refused.
    let before = fs::read(ours).unwrap();
    let (status, message) = failure(&["verity", "format", "--data-blocks", "200", ours, ours]);
    assert_eq!(status, 2);
    assert!(message.contains("overwrite the data; use --hash-offset 819200"), "{message}");
    assert!(before == fs::read(ours).unwrap());
}

#[test]
fn verify_reports_the_first_changed_block_of_data_or_tree() {
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
        let words = format!("block {number}, bytes {begin} to {end}, does not match its digest\n");
        (1, format!("gantry: {}: {words}", path.display()))
    };
    // The first of several changed blocks is reported.
    for block in [19_999, 12_345, 77] {
        flip(&data_file, block * 4096 + 4095);
        assert_eq!(verify(), bad(&data_file, block, block * 4096));
    }
    // The file has the superblock, the top, 2 blocks and 157 blocks. A changed block of the lowest level is found before the data.
    let lowest = 4096 * 4;
    flip(&tree, lowest + 4096 * 100);
    assert_eq!(verify(), bad(&tree, 100, lowest + 4096 * 100));
    flip(&tree, 4096 * 3 + 5);
    assert_eq!(verify(), bad(&tree, 1, 4096 * 3));
    flip(&tree, 4096);
    assert_eq!(verify(), (1, format!("gantry: {}: does not match the root hash\n", tree.display())));
}

#[test]
fn invalid_superblocks_and_files_are_refused() {
    let folder = Folder::new("verity-wrong");
    let (data_file, tree) = (folder.path().join("data"), folder.path().join("tree"));
    fs::write(&data_file, data(300 * 4096)).unwrap();
    let root = root_of(&stdout(&["verity", "format", as_str(&data_file), as_str(&tree)]));
    let good = fs::read(&tree).unwrap();
    let verify = || failure(&["verity", "verify", as_str(&data_file), as_str(&tree), &root]);
    for (at, bytes, words) in [
        (0, &b"x"[..], "it has no dm-verity superblock"),
        (8, &[9], "unknown version 9 of the superblock"),
        (32, b"md6\0", "unknown hash function"),
        (64, &[0, 0, 0, 0xff], "invalid size of data blocks in its superblock: 4278190080 bytes"),
        (72, &[0xff; 8], "too short for a tree over 18446744073709551615 blocks"),
        (72, &[0, 0, 0, 0, 0, 0, 1, 0], "too short for a tree"),
        (72, &[0; 8], "not 0 blocks of 4096"),
        (80, &[0xff, 0xff], "invalid size of the salt in its superblock: 65535 bytes"),
    ] {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(&tree, changed).unwrap();
        let (status, message) = verify();
        assert_eq!(status, 1);
        assert!(message.contains(words), "{message}");
    }
    for length in [0, 100, 4096, good.len() - 1] {
        fs::write(&tree, &good[..length]).unwrap();
        assert_eq!(verify().0, 1, "{length} bytes");
    }
    fs::write(&tree, &good).unwrap();
    File::options().write(true).open(&data_file).unwrap().set_len(299 * 4096).unwrap();
    assert!(verify().1.contains("it has 1224704 bytes, not 300 blocks of 4096"));
    let (status, message) = failure(&["verity", "format", "/dev/null", as_str(&tree)]);
    assert_eq!((status, message.contains("fewer than 1 blocks")), (1, true), "{message}");
    assert!(fs::read(&tree).unwrap() == good, "the tree was changed");
    assert_eq!(failure(&["verity", "verify", as_str(&data_file), as_str(&tree), "00"]).0, 2);
    assert_eq!(failure(&["verity", "format", "/", as_str(&tree)]).0, 1);
    let (status, message) = failure(&["verity", "format", "--hash-offset", "100", as_str(&data_file), as_str(&tree)]);
    assert_eq!((status, &message[..]), (2, "gantry: --hash-offset 100: not a multiple of 512\n"));
}

#[test]
fn a_root_hash_may_be_in_a_file() {
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
fn digests_equal_those_of_fsverity() {
    let folder = Folder::new("fsverity");
    // Sizes around blocks and levels, and an empty file.
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
        &["--for-builtin-sig"],
        &["--for-builtin-sig", "--compact", "--hash-alg=sha512"],
        &["--salt=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "--hash-alg=sha512"],
    ] {
        let ours = stdout(&[&["verity", "digest"], options, &paths].concat());
        if let Some(theirs) = reference_tool("fsverity", &[&["digest"], options, &paths].concat()) {
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
    // The digest of an empty file according to fsverity-utils, for machines without it.
    let empty = stdout(&["verity", "digest", "--compact", paths[0]]);
    assert_eq!(empty, "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95\n");
}

#[test]
fn merkle_trees_equal_those_of_fsverity() {
    let folder = Folder::new("fsverity-tree");
    let [file, ours, theirs] = ["file", "ours", "theirs"].map(|name| folder.path().join(name));
    for length in [0, 1, 4096, 4097, 128 * 4096, 128 * 4096 + 1, 3_000_000] {
        fs::write(&file, data(length)).unwrap();
        for options in [&[][..], &["--hash-alg=sha512", "--salt=00ff"], &["--block-size=1024"]] {
            let to = |tree: &Path| format!("--out-merkle-tree={}", tree.display());
            stdout(&[&["verity", "digest", &to(&ours)], options, &[as_str(&file)]].concat());
            if reference_tool("fsverity", &[&["digest", &to(&theirs)], options, &[as_str(&file)]].concat()).is_some() {
                assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap(), "{length} bytes, {options:?}");
            }
        }
    }
    let (status, message) = failure(&["verity", "digest", "--out-merkle-tree", as_str(&ours), "a", "b"]);
    assert_eq!((status, &message[..]), (2, "gantry: --out-merkle-tree takes the tree of one file\n"));
}

#[test]
fn an_unreadable_file_is_reported_and_the_others_are_hashed() {
    let folder = Folder::new("fsverity-missing");
    let readable = folder.write("there", "x");
    let output = run(&["verity", "digest", "--compact", "/nonexistent", "/", as_str(&readable)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    let words = "gantry: /nonexistent: No such file or directory\ngantry: /: is a directory\n";
    assert_eq!(text(&output.stderr), words);
}

#[test]
fn mistakes_on_the_command_line_are_refused() {
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
