//! Errors of `gantry serve`, and its unit. Serving is tested in `serve_guests.rs` and in `frontends/vhost-user`.

mod gantry;

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gantry::{Folder, command, failure, stdout, text};
use serde_json::Value;

#[test]
fn without_options_the_error_names_them() {
    let (code, message) = failure(&["serve"]);
    assert!(code == 2 && message.contains("--vhost-user") && message.contains("--devcrypto"), "{message}");
}

#[test]
fn a_wrong_setting_of_a_guest_is_reported() {
    for (guest, named) in [("vm.sock,weight=0", "weight=0"), ("vm.sock,colour=red", "colour"), ("/", "path")] {
        let (code, message) = failure(&["serve", "--vhost-user", guest]);
        assert!(code == 2 && message.contains(named), "{guest}: {code} {message}");
    }
}

#[test]
fn a_socket_of_another_running_server_is_not_replaced() {
    let path = std::env::temp_dir().join(format!("gantry-serve-{}.sock", std::process::id()));
    let _other = UnixListener::bind(&path).unwrap();
    let (code, message) = failure(&["serve", "--vhost-user", path.to_str().unwrap()]);
    assert!(code == 1 && message.contains(path.to_str().unwrap()), "{code} {message}");
    assert!(path.exists());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn systemd_accepts_the_unit_and_rates_it_as_confined() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return gantry_lab::skip("systemd-analyze");
    }
    let folder = Folder::new("serve-unit");
    let unit = include_str!("../../contrib/vhost-user/gantry-serve.service");
    let unit = unit.replace("@PREFIX@/bin/gantry", env!("CARGO_BIN_EXE_gantry"));
    let path = folder.write("gantry-serve.service", &unit);
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&path).output().unwrap();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (understood, printed, errors) = analyze(&["verify", "--man=no"]);
    // Unknown settings are only warnings, so look for them. Ignore warnings about other units.
    assert!(understood && !errors.lines().any(|line| line.contains("gantry-serve")), "{printed}{errors}");
    // Exposure of at most 2.0 of 10.
    let (confined, printed, errors) = analyze(&["security", "--offline=yes", "--threshold=20"]);
    assert!(confined, "{printed}{errors}");
    // ExecStart is a valid command line, which fails only because of the missing folder.
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("the unit has an ExecStart");
    let start = start.replace("/run/gantry-serve", "/nonexistent");
    let (code, message) = failure(&start.split(' ').skip(1).collect::<Vec<_>>());
    assert!(code == 1 && message.contains("/nonexistent/vm1.sock"), "{code} {message}");
}

#[test]
fn statistics_of_guests_have_the_names_of_their_sockets() {
    let folder = Folder::new("serve-stat");
    let [one, two] = ["vm1", "vm2"].map(|name| folder.path().join(format!("{name}.sock")));
    let mut server = command(&["serve", "--vhost-user", one.to_str().unwrap(), "--vhost-user", two.to_str().unwrap()]);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let pid = server.id().to_string();
    // One line per socket, once both are ready.
    let printed: Vec<_> = BufReader::new(server.stderr.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    assert!(printed.iter().all(|line| line.contains("serving vm")), "{printed:?}");
    let connected = || -> Vec<(String, u64)> {
        let report: Value = serde_json::from_str(&stdout(&["stat", &pid, "--json"])).unwrap();
        let guests = report["guests"].as_array().unwrap().iter();
        guests
            .map(|guest| {
                let connections = guest["numbers"]["connections"].as_u64().unwrap();
                (guest["name"].as_str().unwrap().to_owned(), connections)
            })
            .collect()
    };
    let counts = |first, second| vec![("vm1".to_owned(), first), ("vm2".to_owned(), second)];
    assert_eq!(connected(), counts(0, 0));
    let _front_end = UnixStream::connect(&two).unwrap();
    let start = Instant::now();
    while connected() != counts(0, 1) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", connected());
    }
    let table = stdout(&["stat", &pid]);
    let line = table.lines().find(|line| line.starts_with("vm2")).expect("a row of the guest");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["vm2", "1", "0", "0", "0", "B", "-", "0", "0"]);
    server.kill().unwrap();
    server.wait().unwrap();
}
