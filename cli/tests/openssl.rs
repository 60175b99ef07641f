//! `gantry openssl info` and `gantry openssl doctor`: the real module in the real `openssl`, and in programs that do not load it.

mod gantry;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gantry::{said, text};

/// A folder with what `make install` installs, and what the tests write; gone when the test ends.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        // Where links to what cargo has built can be made.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("openssl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::create_dir_all(folder.join("lib/ossl-modules")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_gantry"), folder.join("bin/gantry")).unwrap();
        // Cargo builds the module beside the tests.
        let module = std::env::current_exe().unwrap().with_file_name("libgantry_openssl.so");
        fs::hard_link(module, folder.join("lib/ossl-modules/gantry.so")).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn module(&self) -> PathBuf {
        self.0.join("lib/ossl-modules/gantry.so")
    }

    /// A configuration that activates `module`, with these lines in its section.
    fn configuration(&self, module: &Path, section: &str) -> PathBuf {
        let text = format!(
            "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n[providers]\ndefault = host\n\
             gantry = gantry\n[host]\nactivate = 1\n[gantry]\nmodule = {}\nactivate = 1\n{section}\n[algorithms]\n\
             default_properties = ?provider=gantry,?gantry.serves=yes\n",
            module.display()
        );
        self.write("openssl.cnf", &text)
    }

    /// `gantry openssl`, where programs read this configuration.
    fn command(&self, configuration: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("bin/gantry"));
        for variable in ["GANTRY_CONFIG", "GANTRY_DEVICES", "GANTRY_POLICY", "GANTRY_DISABLE"] {
            command.env_remove(variable);
        }
        command.current_dir(&self.0).env("XDG_CONFIG_HOME", "/nonexistent").env("OPENSSL_CONF", configuration);
        command.arg("openssl").args(arguments);
        command
    }

    /// What a command prints that succeeds, or ends as the program that it was to run.
    fn says(&self, configuration: &Path, arguments: &[&str]) -> String {
        let output = self.command(configuration, arguments).output().unwrap();
        let (code, said) = (output.status.code().unwrap(), text(&output.stdout));
        let ended = arguments[0] == "doctor" && said.contains(&format!(" ended with exit status: {code}.\n"));
        assert!(ended || code == 0, "{arguments:?}: {code} {said}{}", text(&output.stderr));
        said
    }

    /// A program of C's, with what it is to be linked with.
    fn compile(&self, source: &str, with: &[&str]) -> String {
        let (source, program) = (self.write("program.c", source), self.0.join("program"));
        let status = Command::new("cc").arg("-o").arg(&program).arg(source).args(with).status().unwrap();
        assert!(status.success(), "{with:?}");
        program.to_str().unwrap().to_owned()
    }
}

/// `openssl s_server`, which answers on the loopback under `cert.pem`; ended when it is dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Installed {
    fn serve(&self) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
                    -addext subjectAltName=DNS:localhost";
        let made = Command::new("sh").args(["-c", make]).current_dir(&self.0).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let mut serve = Command::new("openssl");
        serve.args(["s_server", "-quiet", "-www", "-cert", "cert.pem", "-key", "key.pem", "-accept"]);
        serve.arg(format!("127.0.0.1:{port}")).current_dir(&self.0).env("OPENSSL_CONF", "/dev/null");
        let process = serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { process, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() && begun.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a program is there; tests that need one that is not say so, and are otherwise all right.
fn there(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !runs {
        gantry_lab::skip(program);
    }
    runs
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The row of a table that begins with these words, without them.
fn row<'t>(table: &'t str, begins: &[&str]) -> Vec<&'t str> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = rows.find(|words| words.starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins:?} in\n{table}")).split_off(begins.len())
}

const CBC: [&str; 9] = ["openssl", "enc", "-aes-256-cbc", "-K", "00", "-iv", "00", "-in", "plain"];

#[test]
fn the_doctor_says_what_went_to_devices_and_what_to_the_host() {
    let installed = Installed::new("doctor");
    installed.write("plain", &"some text ".repeat(10_000));
    let enc = [&["doctor", "--"][..], &CBC, &["-out", "sealed"]].concat();
    for (policy, led) in [("pin:software", true), ("pin:host", false)] {
        let section = format!("CIPHERS = AES-256-CBC\nDIGESTS = SHA2-256\nPOLICY = {policy}");
        let configuration = installed.configuration(&installed.module(), &section);
        let said = installed.says(&configuration, &enc);
        assert!(said.contains("openssl ended with exit status: 0.\n"), "{said}");
        assert!(said.contains("/openssl: through gantry went\n"), "{said}");
        let numbers = row(&said, &["AES-256-CBC", "forward"]);
        let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        let [host, hosts_bytes, devices, devices_bytes] = numbers[..] else { panic!("{said}") };
        assert!(
            if led { devices > 0 && devices_bytes >= 100_000 } else { host > 0 && hosts_bytes >= 100_000 },
            "{said}"
        );
        assert!(led || devices == 0, "{said}");
        assert!(!said.contains("SHA2-256") && !said.contains("back"), "{said}");
    }
    // Each process of a script is told of, and how the script ended.
    let both = "openssl enc -d -aes-256-cbc -K 00 -iv 00 -in sealed -out opened; openssl dgst -sha256 opened; exit 3";
    let configuration = installed.configuration(&installed.module(), "CIPHERS = ALL\nDIGESTS = ALL");
    let said = installed.says(&configuration, &["doctor", "--", "sh", "-c", both]);
    assert!(said.contains("sh ended with exit status: 3.\n"), "{said}");
    assert_eq!(said.matches("/openssl: through gantry went\n").count(), 2, "{said}");
    row(&said, &["AES-256-CBC", "back"]);
    row(&said, &["SHA2-256", "forward"]);
    // A program that has nothing to ask.
    let said = installed.says(&configuration, &["doctor", "--", "openssl", "list", "-providers"]);
    assert!(said.contains("/openssl: loaded gantry, and asked nothing of it\n"), "{said}");
    assert_eq!(fs::read(installed.0.join("opened")).unwrap(), fs::read(installed.0.join("plain")).unwrap());
}

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
    installed.says(none, &["config", "--file", conf.to_str().unwrap()]);
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
    let fetch = [&["doctor", "--"][..], &curl, &["--resolve", &resolve, &address]].concat();
    let said = installed.command(&conf, &fetch).output().unwrap();
    let said = format!("{}{}", text(&said.stdout), text(&said.stderr));
    assert!(
        said.contains("curl ended with exit status: 0.\n") && said.contains("/curl: through gantry went\n"),
        "{said}"
    );
    // Unless something else that this machine did made it seem to gain nothing.
    if names("CIPHERS").is_some_and(|named| named.contains("AES-256-GCM")) {
        for direction in ["forward", "back"] {
            row(&said, &["AES-256-GCM", direction]);
        }
    }

    installed.says(none, &["config", "--undo", "--file", conf.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(conf).unwrap(), theirs);
}

/// Debian's own is a link: what it leads to is changed, and it stays one.
#[test]
fn a_configuration_that_is_a_link_stays_one() {
    let installed = Installed::new("link");
    let file = installed.write("file.cnf", "# theirs\n");
    let link = installed.0.join("link.cnf");
    std::os::unix::fs::symlink("file.cnf", &link).unwrap();
    let config = ["config", "--file", link.to_str().unwrap()];
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
fn what_a_program_does_can_be_seen_while_it_runs() {
    let installed = Installed::new("live");
    let configuration = installed.configuration(&installed.module(), "CIPHERS = AES-256-CBC\nPOLICY = pin:software");
    let stats = installed.0.join("stats");
    fs::create_dir(&stats).unwrap();
    let with = |command: &mut Command| {
        command.env("OPENSSL_CONF", &configuration).env("GANTRY_STATS", &stats).env("XDG_CONFIG_HOME", "/nonexistent");
    };
    let mut encrypts = Command::new(CBC[0]);
    with(encrypts.args(&CBC[1..7]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()));
    let mut program = encrypts.spawn().unwrap();
    // It waits for more than this.
    let mut input = program.stdin.take().unwrap();
    input.write_all(&vec![7; 100_000]).unwrap();
    let begun = Instant::now();
    let said = loop {
        let mut stat = Command::new(installed.0.join("bin/gantry"));
        with(stat.arg("stat").arg(program.id().to_string()));
        let said = text(&stat.output().unwrap().stdout);
        if said.contains("aes-256-cbc") || begun.elapsed() > Duration::from_secs(20) {
            break said;
        }
        sleep(Duration::from_millis(50));
    };
    drop(input);
    assert!(program.wait().unwrap().success());
    assert_eq!(row(&said, &["software", "aes-256-cbc"])[0], "encrypt", "{said}");
}

#[test]
fn the_doctor_knows_a_program_that_has_libcrypto_in_it() {
    let installed = Installed::new("static");
    let source = "#include <openssl/evp.h>\nint main(void) { unsigned char md[64]; static char data[4096];\n\
                  return !EVP_Digest(data, sizeof data, md, NULL, EVP_sha256(), NULL); }\n";
    let program = installed.compile(source, &["-l:libcrypto.a", "-ldl", "-pthread"]);
    let configuration = installed.configuration(&installed.module(), "DIGESTS = ALL\nPOLICY = pin:software");
    let said = installed.says(&configuration, &["doctor", "--", &program]);
    assert_eq!(row(&said, &["SHA2-256", "forward"]), ["0", "0", "1", "4096"]);
}

#[test]
fn the_doctor_knows_a_program_of_another_tls_library() {
    if !there("wget") {
        return;
    }
    let installed = Installed::new("other");
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let server = installed.serve();
    let address = format!("https://localhost:{}/", server.port);
    let fetch = ["doctor", "--", "wget", "--no-config", "-q", "-O", "page", "--ca-certificate", "cert.pem", &address];
    let said = installed.says(&right, &fetch);
    assert!(said.contains("wget ended with exit status: 0.\n") && said.contains("It did not load gantry.\n"), "{said}");
    assert!(said.contains("/wget: it links GnuTLS, which knows no providers.\n"), "{said}");
    // Nothing that is wrong with the configuration, and nothing about OpenSSL.
    assert!(!said.contains("activate") && !said.contains("OpenSSL") && !said.contains("may be static"), "{said}");
    assert!(fs::read_to_string(installed.0.join("page")).unwrap().contains("Cipher"), "{said}");
}

/// Programs that link libraries of these names, whatever is in them.
#[test]
fn the_doctor_knows_the_libraries_of_tls() {
    let installed = Installed::new("libraries");
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    for (file, name) in [
        ("libcrypto.so.1.1", "OpenSSL 1, which knows no providers."),
        ("libcrypto.so.3", "OpenSSL 3: does it read openssl.cnf?"),
        ("libcrypto.so.4", "OpenSSL 4: does it read openssl.cnf?"),
        ("libgnutls.so.30", "GnuTLS, which knows no providers."),
        ("libnss3.so", "NSS, which knows no providers."),
        ("libmbedcrypto.so.7", "Mbed TLS, which knows no providers."),
        ("libwolfssl.so.35", "wolfSSL, which knows no providers."),
    ] {
        let (file, folder) = (installed.0.join(file), installed.0.display().to_string());
        installed.write("library.c", "int nothing;\n");
        let mut library = Command::new("cc");
        library.args(["-shared", "-o"]).arg(&file).arg(installed.0.join("library.c"));
        library.arg(format!("-Wl,-soname,{}", file.file_name().unwrap().display()));
        assert!(library.status().unwrap().success());
        let with = ["-Wl,--no-as-needed", &format!("-Wl,-rpath,{folder}"), file.to_str().unwrap()];
        let program = installed.compile("int main(void) { return 0; }\n", &with);
        let said = installed.says(&right, &["doctor", "--", &program]);
        assert_eq!(said.matches("it links ").count(), 1, "{said}");
        assert!(said.contains(&format!("- {program}: it links {name}")), "{said}");
    }
}

#[test]
fn the_doctor_knows_a_program_of_nss() {
    let Some(tstclnt) = ["/usr/bin/tstclnt", "/usr/lib/nss/unsupported-tools/tstclnt"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        return gantry_lab::skip("tstclnt");
    };
    let installed = Installed::new("nss");
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let server = installed.serve();
    let port = server.port.to_string();
    // Whoever signed the certificate, and no more than a handshake.
    let fetch = ["doctor", "--", tstclnt, "-4", "-h", "localhost", "-p", &port, "-o", "-D", "-Q"];
    let said = installed.says(&right, &fetch);
    assert!(said.contains("tstclnt ended with exit status: 0.\nIt did not load gantry.\n"), "{said}");
    assert!(said.contains(&format!("- {tstclnt}: it links NSS, which knows no providers.\n")), "{said}");
}

gantry_lab::in_guest! {
    ["--modules", "tls"]
    /// OpenSSL gives the kernel a connection if its configuration says so.
    fn the_doctor_tells_of_connections_that_the_kernel_has() {
        let installed = Installed::new("kernel");
        let server = installed.serve();
        let client = format!("openssl s_client -connect 127.0.0.1:{} -tls1_2 -quiet -ign_eof", server.port);
        let fetch = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {client} 2>/dev/null");
        let conf = installed.configuration(&installed.module(), "CIPHERS = ALL");
        let given = "Meanwhile programs of this machine gave the kernel 2 directions of TLS connections (kTLS)";
        for (options, tells) in [("-KTLS", false), ("KTLS", true)] {
            let text = fs::read_to_string(&conf).unwrap();
            let text = text.replace("[init]\n", "[init]\nssl_conf = ssl\n");
            let kernel = installed.write("ktls.cnf", &format!("{text}[ssl]\nsystem_default = all\n[all]\nOptions = {options}\n"));
            let said = installed.says(&kernel, &["doctor", "--", "sh", "-c", &fetch]);
            assert!(said.contains("200 ok") && said.contains("/openssl: through gantry went\n"), "{said}");
            assert_eq!(said.contains(given), tells, "{said}");
        }
    }
}

#[test]
fn the_doctor_says_why_a_program_did_not_load_the_module() {
    let installed = Installed::new("why");
    installed.write("plain", "some text");
    let enc = [&["doctor", "--"][..], &CBC, &["-out", "sealed"]].concat();
    let links = "/openssl: it links OpenSSL 3: does it read openssl.cnf?";
    let empty = installed.write("empty.cnf", "");
    let commented = installed.write("commented.cnf", "# default_properties = ?gantry.serves=yes\n");
    for (configuration, why) in [
        (empty.clone(), "empty.cnf does not activate it: gantry openssl config --system does.\n".to_owned()),
        (commented, "commented.cnf does not activate it: ".to_owned()),
        ("/nowhere/openssl.cnf".into(), "- /nowhere/openssl.cnf: No such file or directory".to_owned()),
        (
            installed.configuration(Path::new("/nowhere/gantry.so"), ""),
            "openssl.cnf:11: there is no /nowhere/gantry.so\n".to_owned(),
        ),
    ] {
        let said = installed.says(&configuration, &enc);
        assert!(
            said.contains("It did not load gantry.\n") && said.contains(&why),
            "{}: {said}",
            configuration.display()
        );
        assert!(said.contains(links) && !said.contains("through gantry") && !said.contains("GANTRY_DISABLE"), "{said}");
    }
    // What OpenSSL itself stumbles over before it comes to gantry.
    let right = fs::read_to_string(installed.configuration(&installed.module(), "")).unwrap();
    let empty = installed
        .write("ssl.cnf", &right.replace("[init]", "[ssl]\nsystem_default = none\n[none]\n[init]\nssl_conf = ssl"));
    let said = installed.says(&empty, &enc);
    assert!(
        said.contains("ssl.cnf: OpenSSL says 'ssl command section empty', name=system_default, value=none\n"),
        "{said}"
    );
    // Turned off, in a configuration that is right.
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let output = installed.command(&right, &enc).env("GANTRY_DISABLE", "1").output().unwrap();
    let off = text(&output.stdout);
    assert!(off.contains("It did not load gantry.\n- GANTRY_DISABLE is set.\n"), "{off}");
    assert!(!off.contains("does not activate it") && !off.contains("there is no"), "{off}");
    // Nothing that could be helped.
    let program = installed.compile("int main(void) { return 0; }\n", &["-static"]);
    let said = installed.says(&right, &["doctor", "--", &program]);
    assert!(
        said.contains(&format!("- {program}: it links no TLS library that is known here: it may be static")),
        "{said}"
    );
    // Nothing at all.
    let (code, message) = said_by(installed.command(&right, &["doctor", "--", "/nowhere/program"]));
    assert!(code == 127 && message.contains("/nowhere/program: No such file or directory"), "{code} {message}");
}

fn said_by(mut command: Command) -> (i32, String) {
    said(&command.output().unwrap())
}

#[test]
fn info_shows_who_would_serve_and_why() {
    let installed = Installed::new("info");
    let conf = installed.configuration(&installed.module(), "CIPHERS = aes-128-cbc,AES-128-CCM\nPOLICY = pin:software");
    let conf = conf.to_str().unwrap();
    let said = installed.says(Path::new("/dev/null"), &["info", "--conf", conf]);
    assert!(said.starts_with("openssl ") && said.contains("it has to prove faster than the host"), "{said}");
    let pinned = ["software", "software", "software", "software", "pinned", "-"];
    assert_eq!(row(&said, &["AES-128-CBC", "419", "yes"]), pinned);
    assert_eq!(row(&said, &["AES-128-CCM", "896", "yes"]), pinned);
    assert_eq!(row(&said, &["hmac-sha256", "855", "no"]), pinned);
    assert!(!said.contains("AES-256-CBC"), "{said}");
    // By the configuration of the environment, by its own when that has nothing of gantry.
    assert_eq!(installed.says(Path::new(conf), &["info"]), said);
    // A trial says by what a device gains, and who gets the requests of programs.
    let said = installed.says(Path::new("/dev/null"), &["info"]);
    let [.., device, _, why, gain] = row(&said, &["ED25519", "1087"])[..] else { panic!("{said}") };
    let gain: f64 = gain.strip_suffix('x').unwrap().parse().unwrap();
    assert!(why == "trial" && (device == "host") == (gain < 1.04), "{said}");
    assert!(
        said.ends_with(
            "- No configuration activates it: this is what would be after gantry openssl config --system.\n"
        )
    );
    for (name, number) in [("AES-256-GCM", "901"), ("AES-256-XTS", "914"), ("AES-256-CBC", "427"), ("SHA2-256", "672")]
    {
        row(&said, &[name, number]);
    }
    // The host's own code is a device, and what no other device has is its.
    let conf = installed.configuration(&installed.module(), "CIPHERS = ALL\nPOLICY = pin:host");
    let said = installed.says(&conf, &["info"]);
    assert_eq!(row(&said, &["AES-128-CTR", "904", "yes"])[..3], ["host"; 3]);
}

/// OpenSSL tells a provider of no key that it does not ask for, so it is for these commands to read the file.
#[test]
fn a_key_that_is_misspelt_is_named() {
    let installed = Installed::new("misspelt");
    installed.write("part.cnf", "CIPHER = ALL\n");
    let conf = installed.configuration(&installed.module(), "DIGESTS = SHA256\n.include part.cnf");
    let note = "- part.cnf:1: there is no key CIPHER; did you mean CIPHERS?\n";
    let said = installed.says(&conf, &["doctor", "--", "openssl", "dgst", "-sha256", "openssl.cnf"]);
    assert!(said.contains("/openssl: through gantry went\n") && said.contains(note), "{said}");
    let said = installed.says(&conf, &["info"]);
    assert!(said.contains("SHA2-256") && said.ends_with(note), "{said}");
    // Nor does it say anything about keys that are right.
    let conf = installed.configuration(&installed.module(), "DIGESTS = SHA256");
    let said = installed.says(&conf, &["doctor", "--", "openssl", "dgst", "-sha256", "openssl.cnf"]);
    assert!(!said.contains("- "), "{said}");
}

/// OpenSSL 3.0 keeps to itself what is wrong with a provider that the configuration activates.
#[test]
fn what_the_module_refuses_is_said_in_its_own_words() {
    let installed = Installed::new("refused");
    installed.write("plain", "some text");
    let dgst = ["doctor", "--", "openssl", "dgst", "-sha256", "plain"];
    let conf = installed.configuration(&installed.module(), "CIPHERS = aes-128-cbd");
    let why = "/openssl: CIPHERS = aes-128-cbd: there is no 'aes-128-cbd' here; it takes ALL, NONE or names with commas between\n";
    let said = installed.says(&conf, &dgst);
    assert!(said.contains("It did not load gantry.\n") && said.contains(why), "{said}");
    assert!(!said.contains("does it read openssl.cnf"), "{said}");
    let (code, message) = said_by(installed.command(&conf, &["info"]));
    assert!(code == 1 && message.contains("openssl did not load gantry\n") && message.contains(why), "{message}");
    // A device that is not there: everything is the host's, and that is said.
    let conf = installed.configuration(&installed.module(), "DIGESTS = SHA256\nPOLICY = pin:afalg");
    let said = installed.says(&conf, &dgst);
    assert!(said.contains("/openssl: everything is the host's: ") && said.contains("afalg"), "{said}");
}

/// Whoever watches a server ends it at the terminal, and wants to read on.
#[test]
fn the_doctor_reports_what_was_interrupted() {
    let installed = Installed::new("interrupted");
    let conf = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let script = "trap 'exit 4' INT; openssl version; while :; do sleep 0.1; done";
    let mut doctor = installed.command(&conf, &["doctor", "--", "sh", "-c", script]);
    // A shell starts what it runs in the background with SIGINT ignored, and sh cannot catch what is ignored.
    // SAFETY: one call of the system, which may be made between fork and exec.
    unsafe {
        doctor.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut doctor = doctor.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(doctor.stdout.take().unwrap());
    let mut text = String::new();
    said.read_line(&mut text).unwrap();
    assert!(text.starts_with("OpenSSL "), "{text}");
    let interrupt = Command::new("kill").args(["-INT", "--", &format!("-{}", doctor.id())]).status().unwrap();
    assert!(interrupt.success());
    said.read_to_string(&mut text).unwrap();
    assert_eq!(doctor.wait().unwrap().code(), Some(4));
    assert!(text.contains("sh ended with exit status: 4.\n"), "{text}");
}

#[test]
fn info_says_what_is_missing() {
    let installed = Installed::new("missing");
    let conf = installed.configuration(Path::new("/nowhere/gantry.so"), "");
    let (code, message) = said_by(installed.command(&conf, &["info"]));
    let why = format!("gantry: openssl did not load gantry\n{}:11: there is no /nowhere/gantry.so\n", conf.display());
    assert_eq!((code, message), (1, why));
    let without = said_by({
        let mut command = installed.command(&conf, &["info"]);
        command.env("PATH", "/nowhere");
        command
    });
    assert!(without.0 == 1 && without.1.starts_with("gantry: openssl: "), "{without:?}");
    fs::remove_file(installed.module()).unwrap();
    let (code, message) = said_by(installed.command(Path::new("/dev/null"), &["info"]));
    assert!(code == 1 && message.starts_with("gantry: there is no gantry.so in "), "{code} {message}");
}
