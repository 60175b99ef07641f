//! `gantry openssl config`: the real module in real programs, and the file that activates it.

mod gantry;
mod installed;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use gantry::{run, status_and_stderr, text};
use installed::{Installed, earlier_lines, is_installed, row};
use nix::unistd::Uid;
use rustix::fs::{XattrFlags, getxattr, setxattr};

/// Follows the first steps of the book's chapter.
#[test]
fn a_configuration_is_added_used_by_curl_and_removed() {
    let installed = Installed::new("first");
    let none = Path::new("/dev/null");
    if !is_installed("curl") {
        return;
    }
    let theirs = fs::read_to_string("/etc/ssl/openssl.cnf").unwrap_or_default();
    let conf = installed.write("openssl.cnf", &theirs);
    installed.says(none, &["openssl", "config", "--file", conf.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(installed.0.join("openssl.cnf.before-gantry")).unwrap(), theirs);
    // The new lines name algorithms that gain on this machine.
    let new = fs::read_to_string(&conf).unwrap();
    let names = |key: &str| new.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    assert!(new.contains("# Measured with openssl ") && names("SIGNATURES") == Some("ED25519"), "{new}");
    assert!(names("CIPHERS").is_some() && names("KEY_EXCHANGE").is_some(), "{new}");

    let server = installed.serve();
    let port = server.port;
    let (resolve, address) = (format!("localhost:{port}:127.0.0.1"), format!("https://localhost:{port}/"));
    let curl = ["curl", "-sS", "--cacert", "cert.pem", "--ciphers", "ECDHE+AESGCM", "--tls-max", "1.2"];
    let message = installed.advice(&conf, &[&curl[..], &["--resolve", &resolve, &address]].concat());
    assert!(message.contains("OpenSSL requests of curl:\n"), "{message}");
    // A device or the host serves the requests.
    for operation in ["seal", "open"] {
        row(&message, &["AES-256-GCM", operation]);
    }

    installed.says(none, &["openssl", "config", "--undo", "--file", conf.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(conf).unwrap(), theirs);
}

/// Without lists of algorithms, the provider would serve little.
#[test]
fn a_configuration_that_could_not_be_measured_says_so() {
    let installed = Installed::new("unmeasured");
    fs::remove_file(installed.module()).unwrap();
    fs::write(installed.module(), "no module").unwrap();
    let file = installed.write("openssl.cnf", "");
    let message = installed.says(Path::new("/dev/null"), &["openssl", "config", "--file", file.to_str().unwrap()]);
    assert!(message.contains("no algorithm was measured: openssl did not load gantry; without lists, "), "{message}");
    assert!(fs::read_to_string(&file).unwrap().contains("\n# Not measured: openssl did not load gantry\n"));
}

/// Debian's configuration is a link: its target is changed, and the link stays.
#[test]
fn a_configuration_that_is_a_link_stays_one() {
    let installed = Installed::new("link");
    let file = installed.write("file.cnf", &format!("# theirs\n{}", earlier_lines()));
    let link = installed.0.join("link.cnf");
    std::os::unix::fs::symlink("file.cnf", &link).unwrap();
    let config = ["openssl", "config", "--file", link.to_str().unwrap()];
    let message = installed.says(Path::new("/dev/null"), &config);
    let file = file.canonicalize().unwrap();
    assert!(message.starts_with(&format!("{}: gantry is activated\n", file.display())), "{message}");
    assert!(fs::read_to_string(&file).unwrap().contains("gantry.serves=yes"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    installed.says(Path::new("/dev/null"), &[&config[..], &["--undo"]].concat());
    assert_eq!(fs::read_to_string(&file).unwrap(), "# theirs\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

/// The file and its copy keep owner, mode, access list and attributes.
#[test]
fn a_configuration_keeps_its_owner_and_attributes() {
    if !Uid::effective().is_root() {
        return gantry_lab::skip("root");
    }
    // posix_acl_xattr.h: the owner may read and write, user 4321 and the group may read, others may not.
    let entry =
        |tag: u16, rights: u16, id: u32| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat();
    let any = u32::MAX;
    let list = [entry(1, 6, any), entry(2, 4, 4321), entry(4, 4, any), entry(16, 4, any), entry(32, 0, any)].concat();
    let attributes = [
        ("user.note", b"theirs".to_vec()),
        ("trusted.note", b"theirs".to_vec()),
        ("system.posix_acl_access", [&2_u32.to_le_bytes()[..], &list].concat()),
    ];
    let installed = Installed::new("owner");
    let file = installed.write("openssl.cnf", &earlier_lines());
    chown(&file, Some(1234), Some(5678)).unwrap();
    let supported: Vec<_> =
        attributes.iter().filter(|(name, value)| setxattr(&file, *name, value, XattrFlags::empty()).is_ok()).collect();
    if supported.len() < attributes.len() {
        gantry_lab::skip("file system with all kinds of attributes");
    }
    let seen = |name: &str| {
        let file = installed.0.join(name);
        let metadata = file.metadata().unwrap();
        let attribute = |name: &str| {
            let mut value = [0; 100];
            getxattr(&file, name, &mut value[..]).map(|length| value[..length].to_vec()).ok()
        };
        (metadata.uid(), metadata.gid(), metadata.mode(), attributes.each_ref().map(|(name, _)| attribute(name)))
    };
    let before = seen("openssl.cnf");
    assert!((before.0, before.1) == (1234, 5678) && before.3.iter().flatten().count() == supported.len(), "{before:?}");
    installed.says(Path::new("/dev/null"), &["openssl", "config", "--file", file.to_str().unwrap()]);
    assert_eq!([seen("openssl.cnf"), seen("openssl.cnf.before-gantry")], [before.clone(), before]);
    assert_eq!(fs::read_dir(&installed.0).unwrap().count(), 4, "bin, lib, and the two");
}

/// The owner of a folder could place links there to make root write to other files.
#[test]
fn links_beside_a_configuration_are_not_followed() {
    let installed = Installed::new("links");
    let file = installed.write("openssl.cnf", &earlier_lines());
    let old = installed.write("theirs", "theirs\n");
    let links = ["openssl.cnf.gantry-new", "openssl.cnf.before-gantry"].map(|name| installed.0.join(name));
    let config = ["openssl", "config", "--file", file.to_str().unwrap()];
    symlink(&old, &links[0]).unwrap();
    for to in [&old, &installed.0.join("new")] {
        symlink(to, &links[1]).unwrap();
        let refused = installed.command(Path::new("/dev/null"), &config).output().unwrap();
        let error = format!("gantry: {}: File exists\n", links[1].display());
        assert_eq!(status_and_stderr(&refused), (1, error));
        assert_eq!(fs::read_to_string(&file).unwrap(), earlier_lines());
        fs::remove_file(&links[1]).unwrap();
    }
    installed.says(Path::new("/dev/null"), &config);
    assert_eq!(fs::read_to_string(&old).unwrap(), "theirs\n");
    assert!(!installed.0.join("new").exists());
}

/// The owner of the module could change code that runs as root.
#[test]
fn a_configuration_of_root_leads_to_a_module_of_root() {
    if !Uid::effective().is_root() {
        return gantry_lab::skip("root");
    }
    let installed = Installed::new("module");
    let file = installed.write("openssl.cnf", &earlier_lines());
    let (module, built) = (installed.module(), installed.0.join("built"));
    fs::rename(&module, &built).unwrap();
    fs::copy(&built, &module).unwrap();
    chown(&module, Some(1234), None).unwrap();
    let config = ["openssl", "config", "--file", file.to_str().unwrap()];
    let (code, error) = status_and_stderr(&installed.command(Path::new("/dev/null"), &config).output().unwrap());
    assert!(code == 1 && error.contains("gantry.so does not belong to root, "), "{code} {error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), earlier_lines());
    chown(&file, Some(1234), None).unwrap();
    installed.says(Path::new("/dev/null"), &config);
}

/// Write access to the folder alone is not sufficient.
#[test]
fn a_read_only_configuration_is_not_replaced() {
    if !Uid::effective().is_root() {
        return gantry_lab::skip("root");
    }
    if !is_installed("setpriv") {
        return;
    }
    let installed = Installed::new("read-only");
    let file = installed.write("openssl.cnf", &earlier_lines());
    chown(&installed.0, Some(65534), Some(65534)).unwrap();
    let mut config = Command::new("setpriv");
    config.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(installed.0.join("bin/gantry"));
    config.args(["openssl", "config", "--file"]).arg(&file).current_dir("/");
    let error = format!("gantry: {}: Permission denied\n", file.display());
    assert_eq!(status_and_stderr(&config.output().unwrap()), (1, error));
    assert_eq!(fs::read_to_string(&file).unwrap(), earlier_lines());
    assert!(!installed.0.join("openssl.cnf.before-gantry").exists());
}

/// Refuses incomplete and contradictory options.
#[test]
fn wrong_options_are_refused() {
    for arguments in [&["--undo"][..], &["--system", "--file", "x"], &["x"]] {
        let output = run(&[&["openssl", "config"], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{arguments:?}");
    }
}
