//! `gantry torrent` with torrents that libtorrent makes.

mod gantry;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gantry::{Folder, command, failure, stdout, text};

/// Makes a torrent of what is at a path, and prints the roots of v2: path and root, a line for each file.
const LIBTORRENT: &str = "\
import sys, libtorrent as lt
kind, piece, path, torrent = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
files = lt.file_storage()
lt.add_files(files, path)
flags = {'v1': lt.create_torrent.v1_only, 'v2': lt.create_torrent.v2_only, 'hybrid': 0}[kind]
made = lt.create_torrent(files, piece, flags)
lt.set_piece_hashes(made, path.rsplit('/', 1)[0])
made = made.generate()
open(torrent, 'wb').write(lt.bencode(made))
def walk(tree, path):
    for name, value in sorted(tree.items()):
        if b'' in value:
            print('/'.join(path + [name.decode()]), value[b''].get(b'pieces root', b'').hex())
        else:
            walk(value, path + [name.decode()])
walk(made[b'info'].get(b'file tree', {}), [])
";

/// Debian's Python has Debian's libtorrent. `None` if it has not, which is counted.
fn made(kind: &str, piece: usize, path: &Path, torrent: &Path) -> Option<String> {
    let arguments = ["-c", LIBTORRENT, kind, &piece.to_string(), path.to_str()?, torrent.to_str()?];
    let output = Command::new("/usr/bin/python3").args(arguments).output();
    match output {
        Ok(output) if output.status.success() => Some(text(&output.stdout)),
        Ok(output) if !text(&output.stderr).contains("No module named 'libtorrent'") => {
            panic!("{kind}: {}", text(&output.stderr))
        }
        _ => {
            gantry_lab::skip("python3-libtorrent");
            None
        }
    }
}

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A folder of files around the ends of blocks and pieces, one of them empty.
fn tree(folder: &Folder) -> PathBuf {
    let top = folder.path().join("album");
    let lengths = [1, 16_383, 16_384, 16_385, 32_768, 70_000, 1_000_000, 0, 131_072];
    for (number, length) in lengths.into_iter().enumerate() {
        let path = top.join(if number % 2 == 0 { "one" } else { "two/three" }).join(format!("{number}.flac"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes(length, number as u64)).unwrap();
    }
    top
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn torrents_of_every_version_verify_and_the_first_piece_that_was_changed_is_named() {
    let folder = Folder::new("torrent");
    let top = tree(&folder);
    let torrent = folder.path().join("album.torrent");
    let verify = ["torrent", "verify", torrent.to_str().unwrap()];
    for (kind, piece) in [("v1", 16_384), ("v1", 65_536), ("v2", 16_384), ("v2", 65_536), ("hybrid", 32_768)] {
        if made(kind, piece, &top, &torrent).is_none() {
            return;
        }
        assert_eq!(stdout(&verify), "", "{kind}, {piece}");
        let mut limited = command(&verify);
        let limited = limited.env("GANTRY_CPU", "base").env("GANTRY_THREADS", "3").output().unwrap();
        assert!(limited.status.success(), "{kind}, {piece}");
        // The one of a million bytes.
        let changed = top.join("one/6.flac");
        for at in [990_000, 500_000] {
            flip(&changed, at);
        }
        let (status, said) = failure(&verify);
        assert_eq!(status, 1);
        if kind == "v2" {
            let number = 500_000 / piece;
            let words = format!("piece {number}, from byte {} on, is not that of the torrent\n", number * piece);
            assert_eq!(said, format!("gantry: {}: {words}", changed.display()), "{piece}");
        } else {
            // Pieces of v1 go on from file to file.
            assert!(said.starts_with(&format!("gantry: {}: piece ", changed.display())), "{kind}, {piece}: {said}");
            let at: usize = said.split("from byte ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert!((500_001 - piece..=500_000).contains(&at), "{said}");
        }
        for at in [990_000, 500_000] {
            flip(&changed, at);
        }
        assert_eq!(stdout(&verify), "", "{kind}, {piece}");
    }
}

#[test]
fn a_file_that_is_missing_or_has_another_length_is_named() {
    let folder = Folder::new("torrent-missing");
    let top = tree(&folder);
    let torrent = folder.path().join("album.torrent");
    let elsewhere = folder.path().join("elsewhere");
    for kind in ["v1", "v2"] {
        if made(kind, 16_384, &top, &torrent).is_none() {
            return;
        }
        let torrent = torrent.to_str().unwrap();
        let (status, said) = failure(&["torrent", "verify", torrent, elsewhere.to_str().unwrap()]);
        assert_eq!(status, 1);
        assert!(said.contains("elsewhere/album/") && said.ends_with("No such file or directory\n"), "{said}");
        let file = File::options().write(true).open(top.join("two/three/5.flac")).unwrap();
        file.set_len(70_001).unwrap();
        let (status, said) = failure(&["torrent", "verify", torrent]);
        assert_eq!(status, 1);
        assert!(said.contains("5.flac: it has 70001 bytes; the torrent says 70000"), "{said}");
        file.set_len(70_000).unwrap();
    }
}

#[test]
fn files_of_v1_stay_open_between_their_parts() {
    let folder = Folder::new("torrent-open");
    if Command::new("strace").arg("-V").output().is_err() {
        return gantry_lab::skip("strace");
    }
    let top = tree(&folder);
    let torrent = folder.path().join("album.torrent");
    if made("v1", 16_384, &top, &torrent).is_none() {
        return;
    }
    let log = folder.path().join("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=open,openat", "-o"]).arg(&log).arg(env!("CARGO_BIN_EXE_gantry"));
    let output = strace.args(["torrent", "verify"]).arg(&torrent).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = fs::read_to_string(&log).unwrap();
    // The one of a million bytes: for its length, and to be read.
    assert_eq!(log.lines().filter(|line| line.contains("one/6.flac")).count(), 2, "{log}");
}

#[test]
fn a_single_file_and_its_root_are_those_of_libtorrent() {
    let folder = Folder::new("torrent-root");
    let torrent = folder.path().join("file.torrent");
    for length in [1, 16_384, 16_385, 49_152, 65_536, 65_537, 3_000_000] {
        let file = folder.path().join(format!("{length}.iso"));
        fs::write(&file, bytes(length, 9)).unwrap();
        let path = file.to_str().unwrap();
        let ours = stdout(&["torrent", "root", path]);
        for kind in ["v2", "hybrid", "v1"] {
            let Some(roots) = made(kind, 32_768, &file, &torrent) else { return };
            if kind != "v1" {
                assert_eq!(format!("{}  {path}\n", roots.trim().split(' ').nth(1).unwrap()), ours, "{kind}");
            }
            assert_eq!(stdout(&["torrent", "verify", torrent.to_str().unwrap()]), "", "{kind}, {length} bytes");
        }
    }
}

#[test]
fn files_without_a_root_and_files_that_are_no_torrent_are_refused() {
    let folder = Folder::new("torrent-wrong");
    let empty = folder.write("empty", "");
    let (status, said) = failure(&["torrent", "root", empty.to_str().unwrap()]);
    assert_eq!((status, said), (1, format!("gantry: {}: a file without bytes has no root\n", empty.display())));
    for (content, words) in [
        ("", "byte 0 is not bencoded"),
        ("de", "it has no info"),
        (
            "d4:infod6:lengthi1e4:name2:..12:piece lengthi1e6:pieces20:01234567890123456789ee",
            "'..' is no name of a file",
        ),
    ] {
        let path = folder.write("wrong.torrent", content);
        let (status, said) = failure(&["torrent", "verify", path.to_str().unwrap()]);
        assert_eq!(status, 1);
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(failure(&["torrent", "verify", "/nonexistent"]).0, 1);
    assert_eq!(failure(&["torrent"]).0, 2);
}
