//! `gantry compress` beside gzip and zstd, and what it does when things go wrong.

mod gantry;

use std::fs::{self, File};
use std::process::{Command, Output};

use gantry::{Folder, command, fed, said, text};

fn compress(arguments: &[&str], input: &[u8]) -> Output {
    fed(command(&[&["compress"], arguments].concat()), input)
}

fn good(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = compress(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output.stdout
}

fn other(name: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(name);
    command.args(arguments);
    let output = fed(command, input);
    assert!(output.status.success(), "{name} {arguments:?}: {}", text(&output.stderr));
    output.stdout
}

/// Some megabytes that differ from block to block.
fn data() -> Vec<u8> {
    (0..300_000_u32)
        .flat_map(|number| format!("{number} {:x}\n", number.wrapping_mul(2_654_435_761)).into_bytes())
        .collect()
}

#[test]
fn gzip_and_zstd_read_it_however_it_was_cut_and_shared() {
    let data = data();
    for format in ["gzip", "zstd"] {
        if Command::new(format).arg("--version").output().is_err() {
            // gzip is part of every system.
            gantry_lab::skip(format);
            continue;
        }
        for options in
            [&[][..], &["--threads", "1"], &["--threads", "7", "--block", "64K"], &["--level", "1", "--block", "16M"]]
        {
            let compressed = good(&[&[format], options].concat(), &data);
            assert!(compressed.len() < data.len() * 3 / 4, "{format} {options:?}: {} bytes", compressed.len());
            assert_eq!(other(format, &["-dc"], &compressed), data, "{format} {options:?}");
            assert_eq!(good(&["-d", format], &compressed), data, "{format} {options:?}");
        }
        assert_eq!(good(&["-d", format], &other(format, &["-c"], &data)), data, "{format}");
        assert_eq!(other(format, &["-dc"], &good(&[format], b"")), b"", "nothing is a file, too");
    }
}

#[test]
fn a_file_appears_when_it_is_complete() {
    let folder = Folder::new("compress");
    let (from, to, back) = (folder.path().join("data"), folder.path().join("data.gz"), folder.path().join("back"));
    fs::write(&from, data()).unwrap();
    let names = [&from, &to, &back].map(|path| path.to_str().unwrap());
    assert!(command(&["compress", "-i", names[0], "-o", names[1]]).status().unwrap().success());
    assert!(command(&["compress", "-d", "-i", names[1], "-o", names[2]]).status().unwrap().success());
    assert_eq!(fs::read(&back).unwrap(), data());

    // Damaged in the middle, and cut off: what was there stays.
    let mut damaged = fs::read(&to).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    for bytes in [&damaged[..], &fs::read(&to).unwrap()[..middle], b"not compressed"] {
        fs::write(&to, bytes).unwrap();
        let output = command(&["compress", "-d", "-i", names[1], "-o", names[2]]).output().unwrap();
        let (status, message) = said(&output);
        assert!(status == 1 && message.contains("data.gz: "), "{message}");
        assert_eq!(fs::read(&back).unwrap(), data());
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn what_a_stranger_sent_fills_no_memory() {
    let bomb = good(&["zstd", "--level", "19"], &vec![0; 40 << 20]);
    assert!(bomb.len() < 20_000, "{}", bomb.len());
    let (status, message) = said(&compress(&["-d", "zstd", "--most", "1M"], &bomb));
    assert!(status == 1 && message.contains("more than 1048576 bytes") && message.contains("--most"), "{message}");
    assert_eq!(good(&["-d", "zstd", "--most", "40M"], &bomb).len(), 40 << 20);

    let mut endless = command(&["compress", "-d", "--most", "1M"]);
    let output = endless.stdin(File::open("/dev/zero").unwrap()).output().unwrap();
    let (status, message) = said(&output);
    assert!(status == 1 && message.contains("more than 1048576 bytes"), "{message}");
}

#[test]
fn mistakes_are_named() {
    for (arguments, words) in [
        (&["gzip", "--level", "10"][..], "gzip: level 10; it has 1 to 9"),
        (&["zstd", "--level", "0"], "zstd: level 0; it has 1 to 19"),
        (&["lzma"], "possible values: gzip, zstd"),
        (&["--block", "1K"], "a block has 4K to 256M bytes"),
        (&["-d", "--level", "3"], "cannot be used with"),
        (&["--most", "1M"], "--decompress"),
    ] {
        let (status, message) = said(&compress(arguments, b""));
        assert!(status == 2 && message.contains(words), "{arguments:?}: {message}");
    }
    let (status, message) = said(&compress(&["-i", "/nonexistent"], b""));
    assert!(status == 1 && message.contains("/nonexistent"), "{message}");
    let (status, message) = said(&compress(&["-d", "zstd"], &good(&["gzip"], b"x")));
    assert!(status == 1 && message.contains("not compressed by zstd"), "{message}");
    assert_eq!(compress(&["-o", "/dev/full"], &data()).status.code(), Some(1));
}
