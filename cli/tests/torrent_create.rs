//! `gantry torrent create` compared with libtorrent.

mod gantry;

use std::fs::Permissions;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, failure, stdout, text};

/// Makes a torrent of a file or folder, and prints its info hashes. Then prints the info hashes of another torrent, and checks that
/// torrent's layers against its roots.
const LIBTORRENT: &str = "\
import os, sys, libtorrent as lt
kind, piece, path, ours = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
files = lt.file_storage()
above = os.path.dirname(path)
if kind == 'v1' and os.path.isdir(path):
    # libtorrent takes the order of the file system for v1.
    found = [os.path.relpath(os.path.join(folder, name), above).split('/') for folder, _, names in os.walk(path) for name in names]
    for names in sorted(found):
        name = '/'.join(names)
        files.add_file(name, os.path.getsize(os.path.join(above, name)))
else:
    lt.add_files(files, path)
flags = {'v1': lt.create_torrent.v1_only, 'v2': lt.create_torrent.v2_only, 'hybrid': 0}[kind]
made = lt.create_torrent(files, piece, flags)
lt.set_piece_hashes(made, above)
for torrent in lt.torrent_info(made.generate()), lt.torrent_info(ours):
    hashes = torrent.info_hashes()
    if hashes.has_v1(): print('v1 ', hashes.v1)
    if hashes.has_v2(): print('v2 ', hashes.v2)
";

/// Compares a torrent with the torrent of Debian's libtorrent. Returns false, counted as skipped, if libtorrent is not installed.
fn equals_libtorrent(kind: &str, piece: usize, path: &Path, ours: &Path, hashes: &str) -> bool {
    let arguments = ["-c", LIBTORRENT, kind, &piece.to_string(), path.to_str().unwrap(), ours.to_str().unwrap()];
    match Command::new("/usr/bin/python3").args(arguments).output() {
        Ok(output) if output.status.success() => {
            assert_eq!(text(&output.stdout), hashes.repeat(2), "{kind}, {piece}, {}", path.display());
            true
        }
        Ok(output) if !text(&output.stderr).contains("No module named 'libtorrent'") => {
            panic!("{kind}: {}", text(&output.stderr))
        }
        _ => {
            gantry_lab::skip("python3-libtorrent");
            false
        }
    }
}

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Makes a folder whose files have sizes around the sizes of blocks and pieces. Names sort by folders, not as whole paths.
fn album(folder: &Folder) -> std::path::PathBuf {
    let top = folder.path().join("album");
    for (number, (name, length)) in [
        ("a/x", 1),
        ("a/y/z", 16_383),
        ("a-b", 16_384),
        ("a.txt", 16_385),
        ("B", 32_768),
        ("\u{e4}", 70_000),
        ("empty", 0),
        ("large", 1_000_000),
        ("same", 70_000),
        ("z/last", 131_073),
    ]
    .into_iter()
    .enumerate()
    {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Equal files have one layer.
        fs::write(path, bytes(length, if length == 70_000 { 5 } else { number as u64 })).unwrap();
    }
    fs::create_dir(top.join("no files")).unwrap();
    top
}

/// Creates a torrent, checks that its content matches, and returns its info hashes.
fn create(arguments: &[&str], path: &Path, torrent: &Path) -> String {
    let _ = fs::remove_file(torrent);
    let [path, above, torrent] = [path, path.parent().unwrap(), torrent].map(|path| path.to_str().unwrap());
    let hashes = stdout(&[&["torrent", "create", "--output", torrent], arguments, &[path]].concat());
    assert_eq!(stdout(&["torrent", "verify", torrent, above]), "", "{arguments:?}");
    hashes
}

#[test]
fn info_hashes_of_folders_equal_those_of_libtorrent() {
    let folder = Folder::new("torrent-create");
    let top = album(&folder);
    let torrent = folder.path().join("x.torrent");
    for kind in ["v1", "v2", "hybrid"] {
        if kind != "v1" {
            // This becomes an attribute of BEP 47.
            fs::set_permissions(top.join("a-b"), Permissions::from_mode(0o755)).unwrap();
        }
        for (size, piece) in [("16K", 16 << 10), ("64K", 64 << 10), ("1M", 1 << 20)] {
            let hashes = create(&["--format", kind, "--piece-size", size], &top, &torrent);
            if !equals_libtorrent(kind, piece, &top, &torrent, &hashes) {
                return;
            }
        }
        let hashes = create(&["--format", kind], &top, &torrent);
        equals_libtorrent(kind, 0, &top, &torrent, &hashes);
    }
    // This folder has one file.
    let single = folder.path().join("one");
    fs::create_dir(&single).unwrap();
    fs::write(single.join("file"), bytes(100_000, 3)).unwrap();
    for kind in ["v1", "v2", "hybrid"] {
        let hashes = create(&["--format", kind], &single, &torrent);
        equals_libtorrent(kind, 0, &single, &torrent, &hashes);
    }
}

#[test]
fn info_hashes_of_single_files_equal_those_of_libtorrent() {
    let folder = Folder::new("torrent-create-one");
    let torrent = folder.path().join("x.torrent");
    for length in [1, 16_384, 16_385, 65_537, 2_684_355, 2_684_356] {
        let file = folder.path().join("file.iso");
        fs::write(&file, bytes(length, 9)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(if length == 1 { 0o755 } else { 0o644 })).unwrap();
        for kind in ["v1", "v2", "hybrid"] {
            let hashes = create(&["--format", kind], &file, &torrent);
            if !equals_libtorrent(kind, 0, &file, &torrent, &hashes) {
                return;
            }
        }
    }
}

#[test]
fn the_torrent_is_named_after_its_content_and_replaces_nothing() {
    let folder = Folder::new("torrent-create-name");
    fs::create_dir(folder.path().join("music")).unwrap();
    fs::write(folder.path().join("music/song"), "la").unwrap();
    let run_in_folder = |arguments: &[&str]| command(arguments).current_dir(folder.path()).output().unwrap();
    let trackers = ["--announce", "http://a.example/announce", "--announce", "udp://b.example:1"];
    let create = [&["torrent", "create", "music/", "--private", "--format", "v1"][..], &trackers].concat();
    assert!(run_in_folder(&create).status.success());
    let torrent = folder.path().join("music.torrent");
    let content = fs::read(&torrent).unwrap();
    let begin = b"d8:announce25:http://a.example/announce13:announce-listll25:http://a.example/announceel17:udp://b.example:1ee4:infod5:files";
    assert!(content.starts_with(begin), "{}", String::from_utf8_lossy(&content));
    assert!(content.ends_with(b"7:privatei1eee"));
    assert!(run_in_folder(&["torrent", "verify", "music.torrent"]).status.success());

    let output = run_in_folder(&create);
    assert_eq!(text(&output.stderr), "gantry: music.torrent: it exists already\n");
    assert_eq!((output.status.code(), fs::read(&torrent).unwrap()), (Some(1), content));
}

#[test]
fn links_are_followed_and_wrong_files_are_named() {
    let folder = Folder::new("torrent-create-wrong");
    let (top, torrent) = (folder.path().join("album"), folder.path().join("x.torrent"));
    fs::create_dir_all(top.join("b")).unwrap();
    fs::write(top.join("b/file"), "data").unwrap();
    symlink("b", top.join("link")).unwrap();
    let hashes = create(&[], &top, &torrent);
    equals_libtorrent("hybrid", 0, &top, &torrent, &hashes);

    let refused = |path: &Path, options: &[&str], words: &str| {
        let _ = fs::remove_file(&torrent);
        let to = ["torrent", "create", "--output", torrent.to_str().unwrap(), path.to_str().unwrap()];
        let (status, message) = failure(&[&to, options].concat());
        assert!(status == 1 && message.ends_with(&format!("{words}\n")), "{message}");
        assert!(!torrent.exists());
    };
    symlink("..", top.join("b/loop")).unwrap();
    refused(&top, &[], "loop: a link to a folder above it");
    fs::remove_file(top.join("b/loop")).unwrap();
    symlink("nowhere", top.join("b/broken")).unwrap();
    refused(&top, &[], "broken: No such file or directory");
    fs::remove_file(top.join("b/broken")).unwrap();
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    File::create(top.join(name)).unwrap();
    refused(&top, &[], "its name is not UTF-8, as a torrent needs");
    refused(Path::new("/dev/null"), &[], "/dev/null: neither a file nor a folder");
    refused(&folder.path().join("missing"), &[], "missing: No such file or directory");

    let same = folder.path().join("same");
    fs::create_dir(&same).unwrap();
    fs::write(same.join("same"), "").unwrap();
    refused(&same, &["--format", "v1"], "same: it has no data");
    fs::write(same.join("same"), "x").unwrap();
    refused(&same, &["--format", "v2"], "v2 cannot tell a folder from its only file of the same name; use --format v1");
    create(&["--format", "v1"], &same, &torrent);
    for wrong in ["8K", "100000", "256M"] {
        assert_eq!(failure(&["torrent", "create", "--piece-size", wrong, "x"]).0, 2, "{wrong}");
    }
    assert_eq!(failure(&["torrent", "create", "/"]).0, 2);
}
