//! Programs whose tests take long or need their own network: `make test-clients`.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lab::groups::{ONLY_GROUPS, command, has_old_openssl, negotiated, new_lab, rustls, stunnel, with_groups};
use lab::{FAILED, Lab, OFFLOADED, Server, is_installed, is_root, noise, port, text, wait_for};

/// Returns the folder of the newest PostgreSQL. Debian keeps each version in its own folder, which is not in the path.
fn postgresql() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    folders.filter(|bin| bin.join("initdb").exists()).max()
}

/// A database in the lab's folder.
struct Database<'l> {
    lab: &'l Lab,
    bin: PathBuf,
    /// The prefix that runs a command as a user other than root, as PostgreSQL requires. The package creates that user.
    user: &'static str,
}

impl<'l> Database<'l> {
    /// Initialises a database, unless PostgreSQL is missing.
    fn new(lab: &'l Lab, configuration: &Path) -> Option<Self> {
        let Some(bin) = postgresql() else {
            assert!(!is_installed("initdb"), "PostgreSQL is installed in an unknown place");
            return None;
        };
        let user = if is_root() { "setpriv --reuid=postgres --regid=postgres --clear-groups" } else { "" };
        let initialise = format!(
            "printf secret >password; mkdir data; chmod 700 data\n\
             if [ -n '{user}' ]; then chown postgres data key.pem; fi\n\
             {user} {}/initdb -D data -U tester -A scram-sha-256 --pwfile password --no-locale --no-sync -E UTF8",
            bin.display()
        );
        let output = lab.sh(&initialise, configuration);
        assert!(output.status.success(), "{}", text(&output));
        Some(Self { lab, bin, user })
    }

    fn start(&self, configuration: &Path) -> (Server, u16) {
        let (port, folder) = (port(), self.lab.folder.display());
        let arguments = format!(
            "exec {} {}/postgres -D data -c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= \
             -c fsync=off -c ssl=on -c ssl_cert_file={folder}/cert.pem -c ssl_key_file={folder}/key.pem",
            self.user,
            self.bin.display()
        );
        (self.lab.serve(self.lab.command("sh", configuration).args(["-c", &arguments]), port), port)
    }

    /// Sends the file `query`, and compares the answer with the file `answer`.
    fn ask(&self, configuration: &Path, port: u16, options: &str) -> Output {
        let script = format!(
            "export PGPASSWORD=secret; timeout 60 psql -Atq -f query \"host=localhost hostaddr=127.0.0.1 port={port} \
             dbname=postgres user=tester sslmode=verify-full sslrootcert=cert.pem {options}\" | cmp - answer"
        );
        self.lab.sh(&script, configuration)
    }
}

#[test]
#[ignore = "long: make test-clients"]
fn postgresql_answers_over_tls() {
    let lab = Lab::new("postgresql");
    lab.certificate("rsa:2048");
    let (offloaded, failed, none) =
        (lab.configuration(OFFLOADED), lab.configuration(FAILED), Path::new("/dev/null").to_owned());
    let Some(database) = Database::new(&lab, &offloaded) else { return };
    let value: String = noise(1_000_000).iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    lab.write("query", format!("select '{value}'"));
    lab.write("answer", format!("{value}\n"));
    let ask = |configuration: &Path, port: u16, version: &str| {
        let options = format!("ssl_min_protocol_version={version} ssl_max_protocol_version={version}");
        database.ask(configuration, port, &options)
    };
    {
        let (_server, port) = database.start(&offloaded);
        for version in ["TLSv1.2", "TLSv1.3"] {
            for client in [&offloaded, &none] {
                let output = ask(client, port, version);
                assert!(output.status.success(), "{version}: {}{}", text(&output), lab.log());
            }
        }
    }
    let (server, port) = database.start(&none);
    assert!(!ask(&failed, port, "TLSv1.3").status.success(), "client: not used");
    drop(server);
    let (_server, port) = database.start(&failed);
    assert!(!ask(&none, port, "TLSv1.3").status.success(), "server: not used");
}

/// PostgreSQL's server before 18 sets a classical curve itself, so stunnel with OpenSSL 3.5 ends TLS in front of the server, and offers
/// one group alone.
#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn psql_and_tokio_postgres_agree_in_a_post_quantum_group() {
    if !has_old_openssl() || !is_installed("stunnel") || !is_installed("psql") {
        return;
    }
    let lab = new_lab("groups-postgresql");
    let (ours, none) = (with_groups(&lab, ONLY_GROUPS, "X25519MLKEM768:X25519:P-256"), Path::new("/dev/null"));
    let Some(database) = Database::new(&lab, none) else { return };
    lab.write("query", "select 'the answer'");
    let (_server, inside) = database.start(&ours);
    let output = lab.sh(
        &format!(
            "{} s_client -starttls postgres -connect 127.0.0.1:{inside} </dev/null 2>&1",
            command("3.5").display()
        ),
        none,
    );
    assert!(negotiated(&text(&output), "ECDH, prime256v1"), "{}", text(&output));
    let (_stunnel, outside) = stunnel(&lab, "pgsql", inside);
    let output = database.ask(&ours, outside, "");
    assert!(output.status.success(), "{}{}", text(&output), lab.log());
    assert!(!database.ask(none, outside, "").status.success(), "not used");
    // tokio-postgres over rustls, too.
    let parameters =
        format!("host=localhost port={outside} user=tester password=secret dbname=postgres sslmode=require");
    let mut ask = rustls(&lab, "examples/libraries", ["--bin", "postgres"]);
    assert_eq!(text(&ask.args(["cert.pem", &parameters, "select 'the answer'"]).output().unwrap()), "the answer\n");
}

#[test]
#[ignore = "long: make test-clients"]
fn nginx_completes_ten_thousand_handshakes() {
    if !is_installed("nginx") || !is_installed("python3") {
        return;
    }
    let lab = Lab::new("handshakes");
    lab.certificate("ed25519");
    // As root, workers would switch to a user that cannot read the folder.
    let user = if is_root() { "user root;" } else { "" };
    let (port, folder) = (port(), lab.folder.display());
    // With `reuseport` the kernel distributes the connections to the workers.
    let conf = lab.write(
        "nginx.conf",
        format!(
            "{user} daemon off; worker_processes 4; pid {folder}/pid; error_log {folder}/errors;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
             uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; ssl_session_tickets off; ssl_session_cache none;\n\
             server {{ listen 127.0.0.1:{port} ssl reuseport; ssl_certificate {folder}/cert.pem;\n\
             ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.2 TLSv1.3; return 200 $pid; }} }}\n"
        ),
    );
    // Four threads; the versions alternate; each answer names its worker.
    let script = format!(
        "import collections, socket, ssl, threading\n\
         workers, wrong = collections.Counter(), []\n\
         def many(count):\n\
         \x20   contexts = []\n\
         \x20   for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:\n\
         \x20       contexts.append(ssl.create_default_context(cafile='cert.pem'))\n\
         \x20       contexts[-1].minimum_version = contexts[-1].maximum_version = version\n\
         \x20   for number in range(count):\n\
         \x20       try:\n\
         \x20           plain = socket.create_connection(('127.0.0.1', {port}), 60)\n\
         \x20           with contexts[number % 2].wrap_socket(plain, server_hostname='localhost') as tls:\n\
         \x20               assert not tls.session_reused\n\
         \x20               tls.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n\
         \x20               answer = b''.join(iter(lambda: tls.recv(4096), b''))\n\
         \x20           workers[int(answer.split(b'\\r\\n\\r\\n')[1])] += 1\n\
         \x20       except Exception as error: wrong.append(error)\n\
         threads = [threading.Thread(target=many, args=[2500]) for _ in range(4)]\n\
         for thread in threads: thread.start()\n\
         for thread in threads: thread.join()\n\
         print(sum(workers.values()), len(workers), wrong[:3])\n"
    );
    let shake = |configuration: &Path| {
        let mut nginx = lab.command("nginx", configuration);
        nginx.arg("-e").arg(lab.path("errors")).arg("-c").arg(&conf).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = Server(nginx.spawn().unwrap());
        wait_for(port);
        let output = lab.command("python3", Path::new("/dev/null")).args(["-c", &script]).output().unwrap();
        (text(&output), fs::read_to_string(lab.path("errors")).unwrap_or_default())
    };
    let (printed, errors) = shake(&lab.configuration(OFFLOADED));
    assert_eq!(printed, "10000 4 []\n", "{errors}");
    let (printed, _) = shake(&lab.configuration(FAILED));
    assert!(printed.starts_with("0 0 "), "not used: {printed}");
}

/// Returns the command that runs programs in a network namespace in which they can make further ones; `None` if that is not possible.
fn unshare(lab: &Lab) -> Option<&'static str> {
    const UNSHARE: &str = "timeout 120 unshare -rnmpf --mount-proc --kill-child";
    let probe = lab.sh(&format!("{UNSHARE} ip tuntap add dev probe mode tun"), Path::new("/dev/null"));
    if !probe.status.success() {
        eprintln!("{}", text(&probe));
        gantry_lab::skip("networks of one's own with tunnels");
        return None;
    }
    Some(UNSHARE)
}

/// Runs a script of the tests between two networks. Returns true if it succeeded, and the output of both sides.
fn run_between_networks(
    lab: &Lab,
    unshare: &str,
    script: &str,
    arguments: &str,
    near: &Path,
    far: &Path,
) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let [script, near, far] = [&*script, near, far].map(Path::display);
    let run = format!("rm -f *.log *.vici got; {unshare} sh {script} {arguments} {near} {far}");
    let output = lab.sh(&run, Path::new("/dev/null"));
    let logs = ["near.log", "far.log"].map(|log| fs::read_to_string(lab.path(log)).unwrap_or_default());
    (output.status.success(), format!("{}{}", text(&output), logs.concat()))
}

#[test]
#[ignore = "long: make test-clients"]
fn openvpn_joins_two_networks() {
    if ["openvpn", "ip", "unshare", "curl", "python3"].iter().any(|program| !is_installed(program)) {
        return;
    }
    let lab = Lab::new("openvpn");
    let Some(unshare) = unshare(&lab) else { return };
    lab.certificate("ec -pkeyopt ec_paramgen_curve:prime256v1");
    lab.write("file", noise(1_000_000));
    let (offloaded, none) = (lab.configuration(OFFLOADED), Path::new("/dev/null"));
    for cipher in ["AES-256-GCM", "AES-256-CBC"] {
        let join = |near: &Path, far: &Path| run_between_networks(&lab, unshare, "vpn.sh", cipher, near, far);
        for (near, far) in [(&*offloaded, none), (none, &*offloaded)] {
            let (joined, printed) = join(near, far);
            assert!(joined, "{cipher}: {printed}");
        }
        let failed = lab.configuration(&FAILED.replace("CIPHERS = ALL", &format!("CIPHERS = {cipher}")));
        let (joined, printed) = join(none, &failed);
        assert!(!joined && printed.contains(&format!("made to fail by FORCE_FAIL:{cipher}")), "not used: {printed}");
    }
}

#[test]
#[ignore = "long: make test-clients"]
fn strongswan_joins_two_networks() {
    let charon = Path::new("/usr/lib/ipsec/charon");
    if !charon.exists() {
        return gantry_lab::skip("charon");
    }
    if ["swanctl", "ip", "unshare", "curl", "python3"].iter().any(|program| !is_installed(program)) {
        return;
    }
    let lab = Lab::new("strongswan");
    let Some(unshare) = unshare(&lab) else { return };
    lab.write("file", noise(1_000_000));
    let (offloaded, none) = (lab.configuration(OFFLOADED), Path::new("/dev/null"));
    let nothing = "CIPHERS = NONE\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE\nKDFS = NONE\nFORCE_FAIL = yes";
    for (proposals, cipher) in [
        ("aes256gcm16-prfsha256-x25519 aes256gcm16", "AES-256-GCM"),
        ("aes256-sha256-x25519 aes256-sha256", "AES-256-CBC"),
    ] {
        let join = |near: &Path, far: &Path| run_between_networks(&lab, unshare, "ike.sh", proposals, near, far);
        for (near, far) in [(&*offloaded, none), (none, &*offloaded)] {
            let (joined, printed) = join(near, far);
            assert!(joined, "{proposals}: {printed}");
        }
        for (key, name) in [("CIPHERS", cipher), ("KEY_EXCHANGE", "X25519")] {
            let failed = lab.configuration(&nothing.replace(&format!("{key} = NONE"), &format!("{key} = {name}")));
            let (joined, printed) = join(&failed, none);
            assert!(!joined && printed.contains("failed"), "{proposals}, {name}: not used: {printed}");
        }
    }
}

/// Follows the section "Set it up" of the book on a bare Debian 12. The module is installed as a release is, and curl fetches a
/// file from an nginx whose certificate the system trusts.
#[test]
#[ignore = "long: make test-clients"]
fn the_steps_of_the_documentation_work() {
    // Only root can set up a Debian in a folder.
    if !is_root() {
        return gantry_lab::skip("root");
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new(repository.join("scripts/fresh-debian")).output().unwrap();
    if made.status.code() == Some(3) {
        eprintln!("{}", text(&made));
        return gantry_lab::skip("fresh Debian");
    }
    assert!(made.status.success(), "{}", text(&made));
    let fresh = String::from_utf8(made.stdout).unwrap();
    let page = fs::read_to_string(repository.join("docs/src/openssl.md")).unwrap();
    let (_, page) = page.split_once("## Set it up\n\n").unwrap();
    let mut commands = page.lines().map_while(|line| line.strip_prefix("    "));
    assert_eq!(commands.next(), Some("make && sudo make install"));

    let lab = Lab::new("fresh");
    let root = lab.path("root");
    // The commands of the page start with `sudo`, which root does not need.
    let commands: Vec<_> = commands.map(|line| line.trim_start_matches("sudo ").to_owned() + "\n").collect();
    assert!(commands.iter().any(|line| line == "gantry advise -- curl https://localhost/\n"), "{commands:?}");
    lab.write("page.sh", commands.concat());
    // Stored costs are loaded after a millisecond of work, about 1 MB.
    let file: String = noise(16_000_000).iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    lab.write("index.html", &file);
    let copy = format!("cp -a --reflink=auto {} root; cp page.sh index.html root", fresh.trim());
    assert!(lab.sh(&copy, Path::new("/dev/null")).status.success());
    for install in ["build", "install"] {
        let mut make = Command::new("make");
        make.current_dir(&repository).arg(install).arg(format!("DESTDIR={}", root.display()));
        let output = make.output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fresh.sh");
    let run = format!("timeout 120 unshare -nmpf --kill-child sh {} root", script.display());
    let output = lab.sh(&run, Path::new("/dev/null"));
    let printed = text(&output);
    let report = printed.replace(&file, "FILE");
    assert!(output.status.success(), "{report}");
    assert_ne!(report, printed, "curl fetched the file");
    let row = |algorithm: &str, operation: &str| {
        let row = report.lines().find(|line| line.starts_with(algorithm) && line.contains(&format!(" {operation} ")));
        let row = row.unwrap_or_else(|| panic!("no row of {algorithm}: {report}"));
        row.split_whitespace().skip(2).map_while(|number| number.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    // TLS 1.3: incoming data and the server's signature. The last two numbers count the requests and bytes of devices.
    let (data, signatures) = (row("AES-256-GCM", "open"), row("ED25519", "verify"));
    assert!(data[3] > 14_000_000 && signatures[0] + signatures[2] == 1, "{report}");
    assert!(report.lines().any(|line| line.starts_with("TLS records ") && line.contains(" AES-GCM ")), "{report}");
}
