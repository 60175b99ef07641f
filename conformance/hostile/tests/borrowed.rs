//! Programs with more rights than their caller ignore the caller's files and variables, and write nothing to its paths.
//! Each test also runs the program without these rights, and then expects the opposite: no test passes because nothing happens.

mod lab;

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{CALLER, Home, Lab, ProgramOutput, Rights};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, listen, socket};

const COMMAND: &str = env!("CARGO_BIN_EXE_hostile-command");
const RUNTIME: &str = env!("CARGO_BIN_EXE_hostile-runtime");

/// A program and its command line.
struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    /// The file that the program inherits as descriptor 3.
    key: PathBuf,
}

impl Program {
    fn new(lab: &Lab, path: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { path: path.into(), arguments, key: lab.write("key", [7; 16]) }
    }

    /// Runs the program as the caller.
    fn run(&self, lab: &Lab, rights: Rights, variables: &[(&str, String)]) -> ProgramOutput {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let before = format!("exec 3<'{}'", self.key.display());
        lab::run_after(&before, CALLER, &lab.copy_with_rights(&self.path, rights), &arguments, &variables)
    }

    /// Runs the program with each of the rights, in a new home each time. `has_effect` checks the home and the output for an effect of
    /// the variables.
    fn expect_effect_only_without_rights<const N: usize>(
        &self,
        lab: &Lab,
        variables: impl Fn(&Home) -> [(&'static str, String); N],
        has_effect: impl Fn(&Home, &ProgramOutput) -> bool,
    ) {
        for rights in Rights::ALL {
            let home = lab.home();
            let output = self.run(lab, rights, &variables(&home));
            assert_eq!(
                has_effect(&home, &output),
                rights == Rights::Plain,
                "{} {rights:?}: {output}",
                self.path.display()
            );
        }
    }
}

/// Returns a program for each front end. `setting` goes to the provider, and `words` are arguments with which the command opens the
/// framework.
fn programs(lab: &Lab, setting: &str, words: &[&str]) -> [Program; 4] {
    let (provider, configuration) = lab.compile_provider_program(setting);
    [
        Program::new(lab, lab.compile_c_program(), &[]),
        Program::new(lab, provider, &[configuration.to_str().unwrap()]),
        Program::new(lab, RUNTIME, &[]),
        Program::new(lab, COMMAND, words),
    ]
}

#[test]
#[ignore = "needs root"]
fn no_configuration_of_the_caller_loads_code() {
    let Some(lab) = Lab::new("code") else { return };
    for program in programs(&lab, "", &["devices"]) {
        program.expect_effect_only_without_rights(&lab, |home| [("HOME", home.text(""))], |home, _| home.is_loaded());
    }
    let program = Program::new(&lab, RUNTIME, &[]);
    program.expect_effect_only_without_rights(
        &lab,
        |home| [("XDG_CONFIG_HOME", home.text(".config"))],
        |home, _| home.is_loaded(),
    );
    let named = |home: &Home| [("GANTRY_CONFIG", home.text(".config/gantry/gantry.toml"))];
    program.expect_effect_only_without_rights(&lab, named, |home, _| home.is_loaded());
}

#[test]
#[ignore = "needs root"]
fn no_cache_is_written_where_the_caller_says() {
    let Some(lab) = Lab::new("cache") else { return };
    for program in programs(&lab, "", &["tune", "md5"]) {
        // The provider keeps only costs that it was told to measure.
        let cache = |home: &Home| {
            let measured = ("GANTRY_OPENSSL_MEASURED", home.text("tmp/measured"));
            [("XDG_CACHE_HOME", home.text("cache")), measured, ("GANTRY_OPENSSL_MEASURE", "aes-128-gcm".to_owned())]
        };
        program.expect_effect_only_without_rights(&lab, cache, |home, _| !home.paths_below("cache").is_empty());
    }
    let program = Program::new(&lab, RUNTIME, &[]);
    program.expect_effect_only_without_rights(
        &lab,
        |home| [("HOME", home.text("tmp"))],
        |home, _| !home.paths_below("tmp").is_empty(),
    );
}

#[test]
#[ignore = "needs root"]
fn no_statistics_are_written_or_handed_over_where_the_caller_says() {
    let Some(lab) = Lab::new("stats") else { return };
    let iv = "--iv=00000000000000000000000000000000";
    let words = ["crypt", "-e", "aes-128-cbc", "--key-fd=3", iv, "-i", "/proc/version"];
    // Pinned, because the provider counts nothing where OpenSSL is faster.
    for program in programs(&lab, "POLICY = pin:lanes", &words) {
        let stats = |home: &Home| [("GANTRY_STATS", home.text("stats"))];
        program.expect_effect_only_without_rights(&lab, stats, |home, _| !home.paths_below("stats").is_empty());
        for rights in Rights::ALL {
            let home = lab.home();
            let socket = UnixDatagram::bind(home.path("socket")).unwrap();
            home.open_to_all("socket");
            socket.set_nonblocking(true).unwrap();
            let output = program.run(&lab, rights, &[("GANTRY_WATCH", home.text("socket"))]);
            let has_received = socket.recv(&mut [0; 8192]).is_ok();
            assert_eq!(has_received, rights == Rights::Plain, "{} {rights:?}: {output}", program.path.display());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn no_variable_changes_anything() {
    let Some(lab) = Lab::new("variables") else { return };
    let program = Program::new(&lab, RUNTIME, &[]);
    let policy = |value: &'static str| move |_: &Home| [("GANTRY_POLICY", value.to_owned())];
    program.expect_effect_only_without_rights(&lab, policy("pin:software"), |_, output| output.has("GANTRY_POLICY"));
    program.expect_effect_only_without_rights(&lab, policy("nonsense"), |_, output| output.has("error: "));

    let (provider, configuration) = lab.compile_provider_program("");
    let provider = Program::new(&lab, provider, &[configuration.to_str().unwrap()]);
    provider.expect_effect_only_without_rights(
        &lab,
        |_| [("GANTRY_DISABLE", "1".to_owned())],
        |_, output| output.has("default"),
    );
    let measured = |home: &Home| {
        let only = ("GANTRY_OPENSSL_MEASURE", "aes-128-gcm".to_owned());
        [("GANTRY_OPENSSL_MEASURED", home.text("tmp/measured")), only]
    };
    provider.expect_effect_only_without_rights(&lab, measured, |home, _| home.path("tmp/measured").exists());
}

#[test]
#[ignore = "needs root"]
fn no_socket_is_redirected_to_a_server_of_the_caller() {
    let Some(lab) = Lab::new("xfrm") else { return };
    let program = Program::new(&lab, lab.compile_xfrm_program(), &[]);
    for rights in Rights::ALL {
        let home = lab.home();
        let server = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_NONBLOCK, None).unwrap();
        bind(server.as_raw_fd(), &UnixAddr::new(&home.path("server")).unwrap()).unwrap();
        listen(&server, Backlog::new(1).unwrap()).unwrap();
        home.open_to_all("server");
        let output = program.run(&lab, rights, &[("GANTRY_XFRM", home.text("server"))]);
        let has_connected = accept4(server.as_raw_fd(), SockFlag::empty()).is_ok();
        assert_eq!(has_connected, rights == Rights::Plain, "{rights:?}: {output}");
    }
}

#[test]
#[ignore = "needs root"]
fn the_command_runs_no_program() {
    let Some(lab) = Lab::new("command") else { return };
    // `gantry esp exec` expects its library in its own folder.
    fs::copy(lab::built_library("libgantry_xfrm.so"), lab.path("bin/libgantry_xfrm.so")).unwrap();
    for words in [
        &["stat", "--", "openssl"][..],
        &["advise", "--", "openssl"],
        &["openssl", "config"],
        &["esp", "exec", "--", "openssl"],
    ] {
        let program = Program::new(&lab, COMMAND, words);
        for rights in Rights::ALL {
            let home = lab.home();
            home.write("tmp/openssl", &format!("#!/bin/sh\n: >'{}'\n", home.text("tmp/ran")));
            home.open_to_all("tmp/openssl");
            let path = format!("{}:/usr/bin:/bin", home.text("tmp"));
            let output = program.run(&lab, rights, &[("PATH", path)]);
            assert_eq!(home.path("tmp/ran").exists(), rights == Rights::Plain, "{words:?} {rights:?}: {output}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn the_system_configuration_applies_to_every_program() {
    let Some(lab) = Lab::new("machine") else { return };
    // Only the program sees this copy of /etc, which has the file.
    let etc = lab.path("etc");
    lab::run_checked(Command::new("cp").arg("-a").arg("/etc").arg(&etc));
    fs::create_dir_all(etc.join("gantry")).unwrap();
    fs::write(etc.join("gantry/gantry.toml"), "policy = \"pin:software\"\n").unwrap();
    for rights in Rights::ALL {
        let script = "mount --bind \"$1\" /etc; exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$2\"";
        let mut inside = Command::new("unshare");
        inside
            .args(["--mount", "sh", "-ec", script, "sh"])
            .arg(&etc)
            .arg(lab.copy_with_rights(Path::new(RUNTIME), rights));
        let output = ProgramOutput::new(inside.output().unwrap());
        assert!(output.has("pin:software (/etc/gantry/gantry.toml:1)"), "{rights:?}: {output}");
    }
}
