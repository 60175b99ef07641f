//! Files that have no end, or more in them than they should; and a reader that goes away.

mod gantry;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, said, text};
use gantry_lab::memory::many;

/// `gantry`, where programs read this configuration.
fn reading(configuration: &Path, arguments: &[&str]) -> Command {
    let mut command = command(&[]);
    command.env("OPENSSL_CONF", configuration).env_remove("GANTRY_DISABLE").args(arguments);
    command
}

#[test]
fn what_has_no_end_is_no_configuration() {
    let folder = Folder::new("endless");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [Path::new("/dev/full"), &pipe, folder.path()] {
        let command =
            reading(Path::new("/dev/null"), &["openssl", "config", "--file", path.to_str().unwrap()]).output().unwrap();
        assert_eq!(said(&command), (1, format!("gantry: {}: not a regular file\n", path.display())));
    }
    let endless = folder.write("endless.cnf", ".include /dev/zero\n");
    let includes = format!(".include {}\n.include {}\n", pipe.display(), endless.display());
    let output = reading(&folder.write("main.cnf", &includes), &["advise", "--", "true"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains(&format!("main.cnf:1: {}: not a regular file\n", pipe.display())), "{said}");
    assert!(said.contains("endless.cnf:1: /dev/zero: larger than 16 MiB\n"), "{said}");
}

#[test]
fn a_reader_that_goes_away_leaves_nothing_behind() {
    let folder = Folder::new("advise-pipe");
    let tmp = folder.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut advise = reading(Path::new("/dev/null"), &["advise", "--", "true"]);
    assert_eq!(advise.env("TMPDIR", &tmp).stderr(writer).status().unwrap().signal(), Some(libc::SIGPIPE));
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
}

/// What `gantry` says with so many MiB of memory, one thread, and this folder.
fn within(mebibytes: usize, folder: &Folder, arguments: &str) -> (Option<i32>, String) {
    let script = format!("ulimit -d {}; exec \"$0\" {arguments}", mebibytes << 10);
    let gantry = command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(gantry.get_program()).current_dir(folder.path()).env("GANTRY_THREADS", "1");
    let output = shell.output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_manifest_takes_no_more_memory_than_some_times_its_bytes() {
    let folder = Folder::new("manifest");
    let lines = many(100_000, |file| format!("{file:032x}  f{file}\n"));
    folder.write("list", &lines);
    folder.write("dir/other", "");
    let most = 8 * lines.len().div_ceil(1 << 20) + 24;
    assert_eq!(within(most, &folder, "sum audit --quiet list dir >/dev/null"), (Some(1), String::new()));
}

#[test]
fn a_line_without_end_is_no_checksum() {
    let folder = Folder::new("line");
    File::create(folder.path().join("list")).unwrap().set_len(256 << 20).unwrap();
    for (check, status) in [("sum -c list", 1), ("sum audit list .", 2)] {
        let (code, said) = within(24, &folder, check);
        assert!(code == Some(status) && said.contains("no properly formatted checksum lines found"), "{said}");
    }
}

#[test]
fn files_that_are_short_have_an_end() {
    let folder = Folder::new("short");
    folder.write("data", "data");
    let verify = "verity verify --no-superblock --data-blocks 1 --root-hash-file /dev/zero data data";
    let (code, said) = within(64, &folder, verify);
    assert!(code == Some(1) && said.contains("/dev/zero: larger than 16 MiB"), "{said}");
}

#[test]
fn a_data_path_that_says_no_end_fills_no_memory() {
    let folder = Folder::new("endless-status");
    let listener = UnixListener::bind(folder.path().join("status")).unwrap();
    let says = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&vec![b' '; 1 << 16]).is_ok() {}
    });
    let (code, said) = within(512, &folder, "esp status --folder .");
    // A busy machine may not have sent so much in time.
    let is_bounded = ["larger than 64 MiB", "timed out"].iter().any(|end| said == format!("gantry: ./status: {end}\n"));
    assert!(code == Some(1) && is_bounded, "{code:?} {said}");
    says.join().unwrap();
}
