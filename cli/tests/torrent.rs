//! `gantry torrent` with torrents made by libtorrent.

mod gantry;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gantry::{Folder, command, failure, stdout, text};

/// Makes a torrent of a file or folder, and prints the roots of v2: path and root, one line per file.
const LIBTORRENT: &str = "\
import sys, libtorrent as lt
kind, piece, path, torrent = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
files = lt.file_storage()
links = int(lt.create_torrent.symlinks)
lt.add_files(files, path, lambda name: True, links)
flags = {'v1': lt.create_torrent.v1_only, 'v2': lt.create_torrent.v2_only, 'hybrid': 0}[kind] | links
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

/// Makes a torrent with Debian's Python and libtorrent; `None`, counted as skipped, if libtorrent is not installed.
fn create_torrent(kind: &str, piece: usize, path: &Path, torrent: &Path) -> Option<String> {
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

/// Makes a folder of files with sizes around the sizes of blocks and pieces. One file is empty.
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
fn torrents_of_every_version_verify_and_all_changed_pieces_are_reported() {
    let folder = Folder::new("torrent");
    let top = tree(&folder);
    let torrent = folder.path().join("album.torrent");
    let verify = ["torrent", "verify", torrent.to_str().unwrap()];
    for (kind, piece) in [("v1", 16_384), ("v1", 65_536), ("v2", 16_384), ("v2", 65_536), ("hybrid", 32_768)] {
        if create_torrent(kind, piece, &top, &torrent).is_none() {
            return;
        }
        assert_eq!(stdout(&verify), "", "{kind}, {piece}");
        let mut limited = command(&verify);
        let limited = limited.env("GANTRY_CPU", "base").env("GANTRY_THREADS", "3").output().unwrap();
        assert!(limited.status.success(), "{kind}, {piece}");
        // The file of a million bytes.
        let changed = top.join("one/6.flac");
        for at in [990_000, 500_000] {
            flip(&changed, at);
        }
        let (status, message) = failure(&verify);
        assert_eq!(status, 1);
        if kind == "v2" {
            let words = [500_000, 990_000].map(|at| {
                let (number, begin) = (at / piece, at / piece * piece);
                let end = (begin + piece).min(1_000_000) - 1;
                format!("gantry: {}: piece {number} does not match: bytes {begin} to {end}\n", changed.display())
            });
            assert_eq!(message, words.concat(), "{piece}");
        } else {
            // Pieces of v1 span files, and hybrid torrents have the pieces of both versions.
            let begin = format!("gantry: {}: piece ", changed.display());
            let ranges =
                message.lines().filter_map(|line| line.strip_prefix(&begin)?.split_once("bytes ")).map(|(_, range)| {
                    let (from, to) = range.split_once(" to ").unwrap();
                    from.parse().unwrap()..=to.parse().unwrap()
                });
            let ranges: Vec<std::ops::RangeInclusive<usize>> = ranges.collect();
            for at in [500_000, 990_000] {
                let times = if kind == "hybrid" { 2 } else { 1 };
                assert_eq!(
                    ranges.iter().filter(|range| range.contains(&at)).count(),
                    times,
                    "{kind}, {piece}: {message}"
                );
            }
        }
        for at in [990_000, 500_000] {
            flip(&changed, at);
        }
        assert_eq!(stdout(&verify), "", "{kind}, {piece}");
    }
}

#[test]
fn a_missing_file_and_one_of_wrong_length_are_reported() {
    let folder = Folder::new("torrent-missing");
    let top = tree(&folder);
    let torrent = folder.path().join("album.torrent");
    let elsewhere = folder.path().join("elsewhere");
    for kind in ["v1", "v2"] {
        if create_torrent(kind, 16_384, &top, &torrent).is_none() {
            return;
        }
        let torrent = torrent.to_str().unwrap();
        let (status, message) = failure(&["torrent", "verify", torrent, elsewhere.to_str().unwrap()]);
        assert_eq!(status, 1);
        assert!(message.contains("elsewhere/album/") && message.ends_with("No such file or directory\n"), "{message}");
        let file = File::options().write(true).open(top.join("two/three/5.flac")).unwrap();
        file.set_len(70_001).unwrap();
        let (status, message) = failure(&["torrent", "verify", torrent]);
        assert_eq!(status, 1);
        assert!(message.contains("5.flac: it has 70001 bytes; the torrent says 70000"), "{message}");
        file.set_len(70_000).unwrap();
    }
}

#[test]
fn every_missing_file_is_reported_and_the_others_are_verified() {
    let folder = Folder::new("torrent-several");
    let top = tree(&folder);
    let torrent = folder.path().join("album.torrent");
    for kind in ["v1", "v2"] {
        if create_torrent(kind, 16_384, &top, &torrent).is_none() {
            return;
        }
        for name in ["one/4.flac", "two/three/5.flac"] {
            fs::rename(top.join(name), folder.path().join(Path::new(name).file_name().unwrap())).unwrap();
        }
        flip(&top.join("one/6.flac"), 500_000);
        let (status, message) = failure(&["torrent", "verify", torrent.to_str().unwrap()]);
        let named = |name: &str| message.lines().filter(|line| line.contains(name)).count();
        assert_eq!((status, message.lines().count()), (1, 3), "{kind}: {message}");
        assert_eq!(
            [named("4.flac: No such file"), named("5.flac: No such file"), named("6.flac: piece ")],
            [1; 3],
            "{message}"
        );
        for name in ["one/4.flac", "two/three/5.flac"] {
            fs::rename(folder.path().join(Path::new(name).file_name().unwrap()), top.join(name)).unwrap();
        }
        flip(&top.join("one/6.flac"), 500_000);
    }
}

#[test]
fn the_folder_of_a_torrent_and_its_content_are_both_accepted() {
    let folder = Folder::new("torrent-content");
    let top = tree(&folder);
    let single = top.join("one/6.flac");
    let torrent = folder.path().join("x.torrent");
    let torrent = torrent.to_str().unwrap();
    for (content, other) in [(&top, "renamed album"), (&single, "renamed.flac")] {
        for kind in ["v1", "v2", "hybrid"] {
            if create_torrent(kind, 16_384, content, torrent.as_ref()).is_none() {
                return;
            }
            let verify = |at: &Path| stdout(&["torrent", "verify", torrent, at.to_str().unwrap()]);
            assert_eq!(verify(content.parent().unwrap()), "");
            assert_eq!(verify(content), "");
            let renamed = folder.path().join(other);
            fs::rename(content, &renamed).unwrap();
            assert_eq!(verify(&renamed), "", "{kind}");
            fs::rename(&renamed, content).unwrap();
        }
    }
}

/// Bencodes a string.
fn string(text: &[u8]) -> Vec<u8> {
    [text.len().to_string().as_bytes(), b":", text].concat()
}

/// Writes a torrent of v1 in one piece. `files` has the keys of each file, in order, and `pieces` has the bytes of all files.
fn of_v1(path: &Path, files: &[&str], pieces: &[u8]) {
    let sha1 = {
        let data = path.with_extension("data");
        fs::write(&data, pieces).unwrap();
        let line = stdout(&["sum", "-a", "sha1", data.to_str().unwrap()]);
        (0..20).map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap()).collect::<Vec<_>>()
    };
    let files = files.iter().fold(String::new(), |all, file| all + "d" + file + "e");
    let info = [
        format!("d5:filesl{files}e4:name5:wrong10:name.utf-85:album12:piece lengthi65536e6:pieces").as_bytes(),
        &string(&sha1),
        b"e",
    ]
    .concat();
    fs::write(path, [b"d4:info", &info[..], b"e\n"].concat()).unwrap();
}

#[test]
fn links_of_libtorrent_are_verified_in_every_version() {
    let folder = Folder::new("torrent-links");
    let top = tree(&folder);
    let (torrent, link) = (folder.path().join("links.torrent"), top.join("two/link"));
    std::os::unix::fs::symlink("../one/6.flac", &link).unwrap();
    let verify = ["torrent", "verify", torrent.to_str().unwrap()];
    for kind in ["v1", "v2", "hybrid"] {
        if create_torrent(kind, 16_384, &top, &torrent).is_none() {
            return;
        }
        assert!(fs::read(&torrent).unwrap().windows(12).any(|key| key == b"symlink path"), "{kind}");
        assert_eq!(stdout(&verify), "", "{kind}");
        // The link may lead to another file of the torrent, or to none.
        for (target, words) in [("../one/0.flac", "link: it is no link to "), ("nowhere", "link: No such file")] {
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(target, &link).unwrap();
            let (status, message) = failure(&verify);
            assert!(status == 1 && message.contains(words), "{kind}: {message}");
        }
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../one/6.flac", &link).unwrap();
    }
}

/// The torrent has keys of BEP 47, of BitComet and of old clients, and a newline at its end.
#[test]
fn links_padding_and_names_in_utf8_are_understood() {
    let folder = Folder::new("torrent-keys");
    let top = folder.path().join("album");
    fs::create_dir_all(top.join("b")).unwrap();
    fs::write(top.join("a"), "first").unwrap();
    fs::write(top.join("b/\u{e4}"), "second").unwrap();
    std::os::unix::fs::symlink("b/\u{e4}", top.join("link")).unwrap();
    let torrent = folder.path().join("keys.torrent");
    let utf8 = "6:lengthi6e4:pathl1:b1:?e10:path.utf-8l1:b2:\u{e4}e";
    let link = "4:attr1:l6:lengthi1e4:pathl4:linke12:symlink pathl1:b2:\u{e4}e";
    let bytes = [&b"first"[..], &[0; 11], &[0; 7], b"second"].concat();
    of_v1(
        &torrent,
        &[
            "6:lengthi5e4:pathl1:ae",
            "4:attr1:p6:lengthi11e4:pathl4:.pad2:11e",
            "6:lengthi7e4:pathl22:_____padding_file_0_xxe",
            utf8,
            link,
        ],
        &bytes,
    );
    let verify = ["torrent", "verify", torrent.to_str().unwrap()];
    assert_eq!(stdout(&verify), "");
    fs::remove_file(top.join("link")).unwrap();
    std::os::unix::fs::symlink("a", top.join("link")).unwrap();
    let (status, message) = failure(&verify);
    assert_eq!(status, 1);
    assert!(message.contains("album/link: it is no link to "), "{message}");
}

#[test]
fn a_missing_empty_file_hides_no_damage_in_its_piece() {
    let folder = Folder::new("torrent-empty");
    let torrent = folder.path().join("empty.torrent");
    let files = ["6:lengthi5e4:pathl1:ae", "6:lengthi0e4:pathl5:emptye", "6:lengthi6e4:pathl1:be"];
    of_v1(&torrent, &files, b"firstsecond");
    folder.write("album/a", "first");
    folder.write("album/b", "damage");
    let (status, message) = failure(&["torrent", "verify", torrent.to_str().unwrap()]);
    let lines: Vec<&str> = message.lines().collect();
    assert!(status == 1 && lines.len() == 3 && lines[0].ends_with("empty: No such file or directory"), "{message}");
    // The piece is in both of the other files.
    assert!(lines[1].ends_with("a: piece 0 does not match: bytes 0 to 4"), "{message}");
    assert!(lines[2].ends_with("b: piece 0 does not match: bytes 0 to 5"), "{message}");
}

#[test]
fn files_of_v2_without_layers_and_empty_files_with_a_root_are_verified() {
    let folder = Folder::new("torrent-layers");
    let top = folder.path().join("album");
    fs::create_dir_all(&top).unwrap();
    fs::write(top.join("a"), bytes(100_000, 1)).unwrap();
    fs::write(top.join("empty"), "").unwrap();
    let root = stdout(&["torrent", "root", top.join("a").to_str().unwrap()]);
    let root: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&root[2 * at..2 * at + 2], 16).unwrap()).collect();
    let file = |length: usize, root: &[u8]| {
        [format!("d0:d6:lengthi{length}e11:pieces root").as_bytes(), &string(root), b"ee"].concat()
    };
    let info = [
        &b"d9:file treed1:a"[..],
        &file(100_000, &root),
        b"5:empty",
        &file(0, &[0; 32]),
        b"e12:meta versioni2e4:name5:album12:piece lengthi16384ee",
    ]
    .concat();
    let torrent = folder.path().join("x.torrent");
    fs::write(&torrent, [b"d4:info", &info[..], b"e"].concat()).unwrap();
    let verify = ["torrent", "verify", torrent.to_str().unwrap()];
    assert_eq!(stdout(&verify), "");
    flip(&top.join("a"), 70_000);
    let (status, message) = failure(&verify);
    assert_eq!((status, message), (1, format!("gantry: {}: does not match\n", top.join("a").display())));
}

/// Prints libtorrent's error for a torrent, or the versions that the torrent has.
const LIBTORRENT_VERSIONS: &str = "\
import sys, libtorrent as lt
try:
    hashes = lt.torrent_info(sys.argv[1]).info_hashes()
    print(hashes.has_v1(), hashes.has_v2())
except RuntimeError as error:
    print(error)
";

#[test]
fn a_version_below_2_means_v1_and_a_later_one_is_refused() {
    let folder = Folder::new("torrent-version");
    folder.write("f", "hello");
    let sha1 = b"\xaa\xf4\xc6\x1d\xdc\xc5\xe8\xa2\xda\xbe\xde\x0f\x3b\x48\x2c\xd9\xae\xa9\x43\x4d";
    let torrent = folder.path().join("f.torrent");
    for (version, error) in [
        ("", None),
        ("i1e", None),
        ("i0e", None),
        ("i-1e", None),
        ("1:2", None),
        ("i2e", Some("it has no file tree")),
        ("i3e", Some("its version is later than 2")),
    ] {
        let version = if version.is_empty() { String::new() } else { format!("12:meta version{version}") };
        let begin = format!("d4:infod6:lengthi5e{version}4:name1:f12:piece lengthi16384e6:pieces20:");
        fs::write(&torrent, [begin.as_bytes(), sha1, b"ee"].concat()).unwrap();
        let output = gantry::run(&["torrent", "verify", torrent.to_str().unwrap()]);
        let message = text(&output.stderr);
        assert_eq!(output.status.success(), error.is_none(), "{version}: {message}");
        assert!(message.contains(error.unwrap_or_default()), "{version}: {message}");
        let theirs = Command::new("/usr/bin/python3").args(["-c", LIBTORRENT_VERSIONS]).arg(&torrent).output();
        match theirs {
            Ok(theirs) if theirs.status.success() => {
                assert_eq!(text(&theirs.stdout) == "True False\n", error.is_none(), "{version}");
            }
            _ => gantry_lab::skip("python3-libtorrent"),
        }
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
    if create_torrent("v1", 16_384, &top, &torrent).is_none() {
        return;
    }
    let log = folder.path().join("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=open,openat", "-o"]).arg(&log).arg(env!("CARGO_BIN_EXE_gantry"));
    let output = strace.args(["torrent", "verify"]).arg(&torrent).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = fs::read_to_string(&log).unwrap();
    // The file of a million bytes is opened twice: for its length, and for reading.
    assert_eq!(log.lines().filter(|line| line.contains("one/6.flac")).count(), 2, "{log}");
}

#[test]
fn a_single_file_and_its_root_match_libtorrent() {
    let folder = Folder::new("torrent-root");
    let torrent = folder.path().join("file.torrent");
    for length in [1, 16_384, 16_385, 49_152, 65_536, 65_537, 3_000_000] {
        let file = folder.path().join(format!("{length}.iso"));
        fs::write(&file, bytes(length, 9)).unwrap();
        let path = file.to_str().unwrap();
        let ours = stdout(&["torrent", "root", path]);
        for kind in ["v2", "hybrid", "v1"] {
            let Some(roots) = create_torrent(kind, 32_768, &file, &torrent) else { return };
            if kind != "v1" {
                assert_eq!(format!("{}  {path}\n", roots.trim().split(' ').nth(1).unwrap()), ours, "{kind}");
            }
            assert_eq!(stdout(&["torrent", "verify", torrent.to_str().unwrap()]), "", "{kind}, {length} bytes");
        }
    }
}

#[test]
fn empty_files_and_invalid_torrents_are_refused() {
    let folder = Folder::new("torrent-wrong");
    let empty = folder.write("empty", "");
    let (status, message) = failure(&["torrent", "root", empty.to_str().unwrap()]);
    assert_eq!((status, message), (1, format!("gantry: {}: an empty file has no root\n", empty.display())));
    for (content, words) in [
        ("", "byte 0 is not bencoded"),
        ("de", "it has no info"),
        (
            "d4:infod6:lengthi1e4:name2:..12:piece lengthi1e6:pieces20:01234567890123456789ee",
            "'..' is not a valid file name",
        ),
    ] {
        let path = folder.write("wrong.torrent", content);
        let (status, message) = failure(&["torrent", "verify", path.to_str().unwrap()]);
        assert_eq!(status, 1);
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(failure(&["torrent", "verify", "/nonexistent"]).0, 1);
    assert_eq!(failure(&["torrent"]).0, 2);
}
