//! `gantry openssl config`: the real module in real programs, and in the file that activates it.

mod gantry;
mod installed;

use std::fs;
use std::path::Path;

use gantry::{run, text};
use installed::{Installed, row, there};

/// What the chapter of the book says to do first.
#[test]
fn a_configuration_is_installed_curl_uses_it_and_it_is_taken_out_again() {
    let installed = Installed::new("first");
    let none = Path::new("/dev/null");
    if !there("curl") {
        return;
    }
    let theirs = fs::read_to_string("/etc/ssl/openssl.cnf").unwrap_or_default();
    let conf = installed.write("openssl.cnf", &theirs);
    installed.says(none, &["openssl", "config", "--file", conf.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(installed.0.join("openssl.cnf.before-gantry")).unwrap(), theirs);
    // What gains on this machine is named in it.
    let new = fs::read_to_string(&conf).unwrap();
    let names = |key: &str| new.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    assert!(new.contains("# Measured with openssl ") && names("SIGNATURES") == Some("ED25519"), "{new}");
    assert!(names("CIPHERS").is_some() && names("KEY_EXCHANGE").is_some(), "{new}");

    let server = installed.serve();
    let port = server.port;
    let (resolve, address) = (format!("localhost:{port}:127.0.0.1"), format!("https://localhost:{port}/"));
    let curl = ["curl", "-sS", "--cacert", "cert.pem", "--ciphers", "ECDHE+AESGCM", "--tls-max", "1.2"];
    let said = installed.advice(&conf, &[&curl[..], &["--resolve", &resolve, &address]].concat());
    assert!(said.contains("What curl asked of OpenSSL:\n"), "{said}");
    // Whoever serves them.
    for operation in ["seal", "open"] {
        row(&said, &["AES-256-GCM", operation]);
    }

    installed.says(none, &["openssl", "config", "--undo", "--file", conf.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(conf).unwrap(), theirs);
}

/// Debian's own is a link: what it leads to is changed, and it stays one.
#[test]
fn a_configuration_that_is_a_link_stays_one() {
    let installed = Installed::new("link");
    let file = installed.write("file.cnf", "# theirs\n");
    let link = installed.0.join("link.cnf");
    std::os::unix::fs::symlink("file.cnf", &link).unwrap();
    let config = ["openssl", "config", "--file", link.to_str().unwrap()];
    let said = installed.says(Path::new("/dev/null"), &config);
    let file = file.canonicalize().unwrap();
    assert!(said.starts_with(&format!("{}: gantry is activated\n", file.display())), "{said}");
    assert!(fs::read_to_string(&file).unwrap().contains("gantry.serves=yes"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    installed.says(Path::new("/dev/null"), &[&config[..], &["--undo"]].concat());
    assert_eq!(fs::read_to_string(&file).unwrap(), "# theirs\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn links_that_somebody_has_planted_are_not_followed() {
    let installed = Installed::new("planted");
    let conf = installed.write("openssl.cnf", "# theirs\n");
    let secret = installed.write("secret", "not theirs");
    let nowhere = installed.0.join("nowhere");
    for (link, to) in [("openssl.cnf.gantry-new", &secret), ("openssl.cnf.before-gantry", &nowhere)] {
        std::os::unix::fs::symlink(to, installed.0.join(link)).unwrap();
    }
    installed.says(Path::new("/dev/null"), &["openssl", "config", "--file", conf.to_str().unwrap()]);
    assert!(fs::read_to_string(&conf).unwrap().contains("gantry.serves=yes"));
    assert!(fs::read_to_string(&secret).unwrap() == "not theirs" && !nowhere.exists());
}

/// Nothing is done that was not asked for, and nothing that was asked for is left out in silence.
#[test]
fn what_is_taken_out_is_named() {
    for arguments in [&["--undo"][..], &["--system", "--file", "x"], &["x"]] {
        let output = run(&[&["openssl", "config"], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments:?}");
    }
}
