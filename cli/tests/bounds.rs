//! `gantry openssl` and `gantry advise` where files have no end, and where whoever reads its output goes away.

mod gantry;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, said, text};

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
