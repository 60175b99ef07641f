//! Servers and clients with TLS groups, and releases of OpenSSL that have groups of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Lab, Server, port, text, wait_for};

/// The lines of a section that serves nothing but the groups.
pub(crate) const ONLY_GROUPS: &str = "CIPHERS = NONE\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE\nKDFS = NONE";

/// Returns true if the installed release has no post-quantum groups; otherwise the test is skipped with a message.
pub(crate) fn has_old_openssl() -> bool {
    let version = Command::new("openssl").arg("version").output().unwrap();
    let is_before_3_5 =
        ["3.0.", "3.1.", "3.2.", "3.3.", "3.4."].iter().any(|old| text(&version).contains(&format!("OpenSSL {old}")));
    if !is_before_3_5 || !cfg!(feature = "software") {
        gantry_lab::skip("OpenSSL before 3.5");
    }
    is_before_3_5 && cfg!(feature = "software")
}

/// Writes a configuration with a list of groups, as `gantry openssl config --post-quantum` does.
pub(crate) fn with_groups(lab: &Lab, section: &str, groups: &str) -> PathBuf {
    let section = format!(
        "{section}\n[init]\nssl_conf = tls_list\n[tls_list]\nsystem_default = tls\n[tls]\nMinProtocol = TLSv1.2\nGroups = {groups}"
    );
    lab.configuration(&section)
}

/// One end of a connection: a program, its configuration and its arguments.
pub(crate) struct End<'e> {
    pub(crate) openssl: &'e Path,
    pub(crate) configuration: &'e Path,
    pub(crate) arguments: &'e str,
}

impl<'e> End<'e> {
    pub(crate) fn new(openssl: &'e Path, configuration: &'e Path, arguments: &'e str) -> Self {
        Self { openssl, configuration, arguments }
    }

    pub(crate) fn serve(&self, lab: &Lab) -> (Server, u16) {
        let port = port();
        let script = format!(
            "exec {} s_server -accept 127.0.0.1:{port} -cert cert.pem -key key.pem -HTTP {} >server 2>&1",
            self.openssl.display(),
            self.arguments
        );
        let mut serve = lab.command("sh", self.configuration);
        serve.args(["-c", &script]).stdin(Stdio::null());
        let server = Server(serve.spawn().unwrap());
        wait_for(port);
        (server, port)
    }

    /// Fetches the file `answer`, and returns the whole output of the client.
    pub(crate) fn fetch(&self, lab: &Lab, port: u16) -> Result<String, String> {
        self.ask(lab, port, "GET /answer HTTP/1.0", "the answer")
    }

    /// Sends a line and an empty line. Returns the whole output of the client, as an error if it lacks the server's `answer`.
    pub(crate) fn ask(&self, lab: &Lab, port: u16, line: &str, answer: &str) -> Result<String, String> {
        let script = format!(
            "printf '{line}\\r\\n\\r\\n' | timeout 60 {} s_client -connect 127.0.0.1:{port} -CAfile cert.pem \
             -verify_return_error -ign_eof {} >got 2>&1; grep -aq '{answer}' got",
            self.openssl.display(),
            self.arguments
        );
        let output = lab.sh(&script, self.configuration);
        let report = String::from_utf8_lossy(&fs::read(lab.path("got")).unwrap()).into_owned();
        if output.status.success() { Ok(report) } else { Err(report) }
    }
}

/// Starts stunnel with the libraries of OpenSSL 3.5. stunnel ends TLS, in X25519MLKEM768 alone, for a server that speaks `protocol`.
pub(crate) fn stunnel(lab: &Lab, protocol: &str, server: u16) -> (Server, u16) {
    let port = port();
    let conf = lab.write(
        "stunnel.conf",
        format!(
            "foreground = yes\npid =\n[tls]\nprotocol = {protocol}\naccept = 127.0.0.1:{port}\nconnect = 127.0.0.1:{server}\n\
             cert = {0}/cert.pem\nkey = {0}/key.pem\ncurves = X25519MLKEM768\n",
            lab.folder.display()
        ),
    );
    let mut stunnel = lab.command(command("3.5").with_file_name("run").to_str().unwrap(), Path::new("/dev/null"));
    (lab.serve(stunnel.arg("/usr/bin/stunnel").arg(conf), port), port)
}

pub(crate) fn new_lab(name: &str) -> Lab {
    let lab = Lab::new(name);
    lab.certificate("ec -pkeyopt ec_paramgen_curve:prime256v1");
    lab.write("answer", "the answer\n");
    lab
}

/// Returns true if the output of a client, of a release with such groups, names `group`: by name for key encapsulation, otherwise by the
/// temporary key.
pub(crate) fn negotiated(report: &str, group: &str) -> bool {
    [format!("Negotiated TLS1.3 group: {group}"), format!("Temp Key: {group}")].iter().any(|line| report.contains(line))
}

/// Returns the `openssl` command of a release.
pub(crate) fn command(series: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/openssl-command");
    let fetched = Command::new(script).arg(series).output().unwrap();
    assert!(fetched.status.success(), "{}", text(&fetched));
    PathBuf::from(std::str::from_utf8(&fetched.stdout).unwrap().trim())
}

/// Builds a program of gantry-rustls, and returns its command. `package` is a folder below `frontends/rustls`.
pub(crate) fn rustls(lab: &Lab, package: &str, target: [&str; 2]) -> Command {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rustls").join(package).join("Cargo.toml");
    let cargo = |subcommand: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([subcommand, "--quiet", "--locked", "--manifest-path"]).arg(&manifest).args(target);
        cargo
    };
    let built = cargo("build").output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let mut run = cargo("run");
    run.current_dir(&lab.folder).arg("--");
    run
}
