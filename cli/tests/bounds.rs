//! Tests commands with endless and oversized files as input, and with a reader that closes the pipe.

mod gantry;

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, status_and_stderr, text};
use gantry_lab::memory::concat_parts;

/// Prepares `gantry` under this OpenSSL configuration.
fn with_configuration(configuration: &Path, arguments: &[&str]) -> Command {
    let mut command = command(&[]);
    command.env("OPENSSL_CONF", configuration).env_remove("GANTRY_DISABLE").args(arguments);
    command
}

#[test]
fn endless_files_are_refused_as_configurations() {
    let folder = Folder::new("endless");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [Path::new("/dev/full"), &pipe, folder.path()] {
        let command =
            with_configuration(Path::new("/dev/null"), &["openssl", "config", "--file", path.to_str().unwrap()])
                .output()
                .unwrap();
        assert_eq!(status_and_stderr(&command), (1, format!("gantry: {}: not a regular file\n", path.display())));
    }
    let endless = folder.write("endless.cnf", ".include /dev/zero\n");
    let includes = format!(".include {}\n.include {}\n", pipe.display(), endless.display());
    let output = with_configuration(&folder.write("main.cnf", &includes), &["advise", "--", "true"]).output().unwrap();
    let message = text(&output.stderr);
    assert!(message.contains(&format!("main.cnf:1: {}: not a regular file\n", pipe.display())), "{message}");
    assert!(message.contains("endless.cnf:1: /dev/zero: larger than 16 MiB\n"), "{message}");
}

#[test]
fn a_reader_that_closes_the_pipe_leaves_no_files_behind() {
    let folder = Folder::new("advise-pipe");
    let tmp = folder.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut advise = with_configuration(Path::new("/dev/null"), &["advise", "--", "true"]);
    assert_eq!(advise.env("TMPDIR", &tmp).stderr(writer).status().unwrap().signal(), Some(libc::SIGPIPE));
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
}

/// Runs `gantry` in this folder with `mebibytes` MiB of memory and one thread.
fn run_with_memory(mebibytes: usize, folder: &Folder, arguments: &str) -> (Option<i32>, String) {
    let script = format!("ulimit -d {}; exec \"$0\" {arguments}", mebibytes << 10);
    let gantry = command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(gantry.get_program()).current_dir(folder.path()).env("GANTRY_THREADS", "1");
    let output = shell.output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn memory_for_a_manifest_is_bounded_by_its_size() {
    let folder = Folder::new("manifest");
    let lines = concat_parts(100_000, |file| format!("{file:032x}  f{file}\n"));
    folder.write("list", &lines);
    folder.write("dir/other", "");
    let most = 8 * lines.len().div_ceil(1 << 20) + 24;
    assert_eq!(run_with_memory(most, &folder, "sum audit --quiet list dir >/dev/null"), (Some(1), String::new()));
}

#[test]
fn an_endless_line_is_no_checksum() {
    let folder = Folder::new("line");
    folder.write("list", &"a".repeat(64 << 20));
    for (check, status) in [("sum -c list", 1), ("sum audit list .", 2)] {
        let (code, message) = run_with_memory(24, &folder, check);
        assert!(code == Some(status) && message.contains("no properly formatted checksum lines found"), "{message}");
    }
}

#[test]
fn an_endless_root_hash_is_refused() {
    let folder = Folder::new("short");
    folder.write("data", "data");
    let verify = "verity verify --no-superblock --data-blocks 1 --root-hash-file /dev/zero data data";
    let (code, message) = run_with_memory(64, &folder, verify);
    assert!(code == Some(1) && message.contains("/dev/zero: larger than 16 MiB"), "{message}");
}

#[test]
fn an_endless_report_of_a_data_path_is_refused() {
    let folder = Folder::new("endless-status");
    let listener = UnixListener::bind(folder.path().join("status")).unwrap();
    let says = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&vec![b' '; 1 << 16]).is_ok() {}
    });
    let (code, message) = run_with_memory(512, &folder, "esp status --folder .");
    // A busy machine may not send enough in time.
    let is_bounded =
        ["larger than 64 MiB", "timed out"].iter().any(|end| message == format!("gantry: ./status: {end}\n"));
    assert!(code == Some(1) && is_bounded, "{code:?} {message}");
    says.join().unwrap();
}
