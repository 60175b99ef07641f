//! Real programs over the loopback, with everything on another device, and with everything made to fail.

mod lab;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use gantry_runtime::stats::live_pages;
use lab::groups::command;
use lab::{FAILED, Lab, OFFLOADED, Server, is_installed, is_root, noise, port, text, tls, wait_for};

#[test]
fn tls_works_with_every_version_and_class_of_cipher() {
    let lab = Lab::new("tls");
    lab.certificate("ec -pkeyopt ec_paramgen_curve:prime256v1");
    lab.write("answer", noise(50_000));
    let (offloaded, failed, none) = (lab.configuration(OFFLOADED), lab.configuration(FAILED), Path::new("/dev/null"));
    for arguments in [
        "-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256",
        "-tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384",
        "-tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384",
        "-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-AES256-SHA",
        "-tls1_2 -no_etm -cipher ECDHE-ECDSA-AES256-SHA384",
        "-tls1_1 -cipher ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0",
        "-tls1 -cipher ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0",
    ] {
        tls(&lab, &offloaded, none, arguments).unwrap_or_else(|error| panic!("server, {arguments}: {error}"));
        tls(&lab, none, &offloaded, arguments).unwrap_or_else(|error| panic!("client, {arguments}: {error}"));
        assert!(tls(&lab, none, &failed, arguments).is_err(), "{arguments}: not used");
    }
    // For MAC-then-encrypt, OpenSSL uses one algorithm for AES-CBC and HMAC-SHA-1. The default provider serves that algorithm and CCM.
    for arguments in [
        "-tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-CCM",
        "-tls1_2 -no_etm -cipher ECDHE-ECDSA-AES128-SHA",
        "-tls1_1 -no_etm -cipher ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0",
        "-tls1 -no_etm -cipher ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0",
    ] {
        tls(&lab, &offloaded, none, arguments).unwrap_or_else(|error| panic!("server, {arguments}: {error}"));
        tls(&lab, none, &offloaded, arguments).unwrap_or_else(|error| panic!("client, {arguments}: {error}"));
    }
}

#[test]
fn tls_works_with_curve25519_and_with_keys_of_the_default_provider() {
    let lab = Lab::new("curves-tls");
    lab.write("answer", noise(50_000));
    let (offloaded, none) = (lab.configuration(OFFLOADED), Path::new("/dev/null"));
    let fails_only = |key: &str| {
        let nothing = "CIPHERS = NONE\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE\nKDFS = NONE\nFORCE_FAIL = yes";
        lab.configuration(&nothing.replace(&format!("{key} = NONE"), &format!("{key} = ALL")))
    };
    for (certificate, signature, group) in [
        ("ed25519", "ECDSA", "X25519"),
        ("ec -pkeyopt ec_paramgen_curve:prime256v1", "ECDSA", "P-256"),
        ("rsa:3072", "RSA", "X25519"),
    ] {
        lab.certificate(certificate);
        let tls_1_2 = format!("-tls1_2 -cipher ECDHE-{signature}-AES128-GCM-SHA256");
        for version in ["-tls1_3", &tls_1_2] {
            let arguments = format!("{version} -groups {group}");
            for (server, client) in [(&*offloaded, none), (none, &*offloaded), (&*offloaded, &*offloaded)] {
                tls(&lab, server, client, &arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"));
            }
            for (key, algorithm) in [("SIGNATURES", "ed25519"), ("KEY_EXCHANGE", "X25519")] {
                if ![certificate, group].contains(&algorithm) {
                    continue;
                }
                let failed = fails_only(key);
                assert!(tls(&lab, &failed, none, &arguments).is_err(), "{key}, server, {arguments}: not used");
                assert!(tls(&lab, none, &failed, &arguments).is_err(), "{key}, client, {arguments}: not used");
            }
        }
    }
}

/// From 4.0 on, libssl starts signatures with the version of TLS as a parameter.
#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn a_device_signs_and_verifies_in_tls_of_3_5_and_4_0() {
    for series in ["3.5", "4.0"] {
        let mut lab = Lab::new(&format!("tls-{series}"));
        let openssl = command(series);
        let path = format!("{}:{}", openssl.parent().unwrap().display(), std::env::var("PATH").unwrap());
        lab.variables.push(("PATH", path));
        lab.certificate("ed25519");
        lab.write("answer", noise(1000));
        lab.collect_statistics();
        // A section without lists serves these algorithms, too.
        let ours = lab.configuration("POLICY = pin:software");
        tls(&lab, &ours, &ours, "-tls1_3 -groups X25519").unwrap_or_else(|error| panic!("{series}: {error}"));
        let pages = lab.take_statistics().pages;
        let rows: Vec<_> = pages.iter().flat_map(|page| page.read().unwrap().rows).collect();
        for (algorithm, operation) in [("ed25519", "sign"), ("ed25519", "verify"), ("x25519", "derive")] {
            let rows = rows.iter().filter(|row| (&*row.algorithm, &*row.operation) == (algorithm, operation));
            let devices: Vec<_> = rows.filter(|row| row.requests > 0).map(|row| row.device.as_deref()).collect();
            let is_served = !devices.is_empty() && !devices.contains(&Some("host"));
            assert!(is_served, "{series}, {algorithm}: {devices:?}");
        }
    }
}

#[test]
fn python_speaks_tls() {
    if !is_installed("python3") {
        return;
    }
    let lab = Lab::new("python");
    lab.certificate("rsa:2048");
    let script = "import socket, ssl, threading\n\
        data = bytes(range(256)) * 4000\n\
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)\n\
        server.load_cert_chain('cert.pem', 'key.pem')\n\
        client = ssl.create_default_context(cafile='cert.pem')\n\
        def both(version):\n\
        \x20   client.maximum_version = version\n\
        \x20   one, other = socket.socketpair()\n\
        \x20   def serve():\n\
        \x20       with server.wrap_socket(one, server_side=True) as tls: tls.sendall(data)\n\
        \x20   thread = threading.Thread(target=serve); thread.start()\n\
        \x20   with client.wrap_socket(other, server_hostname='localhost') as tls:\n\
        \x20       got = b''\n\
        \x20       while len(got) < len(data): got += tls.recv(65536)\n\
        \x20   thread.join()\n\
        \x20   assert got == data\n\
        both(ssl.TLSVersion.TLSv1_2); both(ssl.TLSVersion.TLSv1_3)\n";
    let run = |section: Option<&str>| {
        let configuration = section.map_or(Path::new("/dev/null").to_owned(), |section| lab.configuration(section));
        lab.command("python3", &configuration).args(["-c", script]).output().unwrap()
    };
    let (plain, offloaded) = (run(None), run(Some(OFFLOADED)));
    assert!(plain.status.success() && offloaded.status.success(), "{}", text(&offloaded));
    assert_eq!(text(&plain), text(&offloaded));
    assert!(!run(Some(FAILED)).status.success(), "not used");
}

#[test]
fn nginx_serves_and_curl_fetches() {
    if !is_installed("nginx") || !is_installed("curl") {
        return;
    }
    let lab = Lab::new("nginx");
    lab.certificate("ed25519");
    let file = noise(1_000_000);
    fs::create_dir(lab.path("files")).unwrap();
    lab.write("files/file", &file);
    let (offloaded, failed, none) =
        (lab.configuration(OFFLOADED), lab.configuration(FAILED), Path::new("/dev/null").to_owned());
    let port = port();
    // As root, workers would switch to a user that cannot read the folder.
    let user = if is_root() { "user root;" } else { "" };
    let folder = lab.folder.display();
    let conf = lab.write(
        "nginx.conf",
        format!(
            "{user} daemon off; worker_processes 4; pid {folder}/pid; error_log {folder}/errors;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
             uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.2 TLSv1.3;\n\
             root {folder}/files; }} }}\n"
        ),
    );
    let start = |configuration: &Path| {
        let mut nginx = lab.command("nginx", configuration);
        nginx.arg("-e").arg(lab.path("errors")).arg("-c").arg(&conf).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Server(nginx.spawn().unwrap());
        wait_for(port);
        server
    };
    let fetch = |configuration: &Path, version: &str| {
        let script = format!(
            "curl -sS --cacert cert.pem --tlsv{version} --tls-max {version} https://localhost:{port}/file \
             --resolve localhost:{port}:127.0.0.1 | cmp - files/file"
        );
        lab.sh(&script, configuration)
    };
    {
        let _server = start(&offloaded);
        for (client, version) in [(&offloaded, "1.2"), (&offloaded, "1.3"), (&none, "1.2"), (&none, "1.3")] {
            let output = fetch(client, version);
            assert!(output.status.success(), "{version}: {}", text(&output));
        }
        // New handshakes on all workers, while nginx replaces the workers.
        let many = format!(
            "kill -HUP $(cat pid); seq 100 | xargs -P 8 -I{{}} curl -sS --cacert cert.pem -o /dev/null \
             --resolve localhost:{port}:127.0.0.1 https://localhost:{port}/file"
        );
        let output = lab.sh(&many, &none);
        assert!(output.status.success(), "{}", text(&output));
    }
    {
        let _server = start(&none);
        assert!(fetch(&none, "1.3").status.success());
        assert!(!fetch(&failed, "1.3").status.success(), "curl: not used");
    }
    let _server = start(&failed);
    assert!(!fetch(&none, "1.3").status.success(), "nginx: not used");
}

/// The requests of a server's workers, which run as another user than the master, are counted in the master's page: with all devices, and
/// if the default provider serves everything.
#[test]
fn requests_of_worker_processes_are_counted() {
    if !is_installed("nginx") || !is_installed("curl") {
        return;
    }
    if !is_root() {
        return gantry_lab::skip("root");
    }
    let lab = Lab::new("workers");
    lab.certificate("ed25519");
    let default_provider_only = "CIPHERS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL\nUSE_SOFTDRIVERS = 0";
    for (section, device) in [(OFFLOADED, "software"), (default_provider_only, "host")] {
        let (port, folder) = (port(), lab.folder.display());
        let answer = "x".repeat(3000);
        let conf = lab.write(
            "nginx.conf",
            format!(
                "user nobody nogroup; daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/errors;\n\
                 events {{ }}\nhttp {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;\n\
                 fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
                 server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;\n\
                 ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384; location / {{ return 200 {answer}; }} }} }}\n"
            ),
        );
        let mut nginx = lab.command("nginx", &lab.configuration(section));
        nginx.arg("-e").arg(lab.path("errors")).arg("-c").arg(&conf).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Server(nginx.spawn().unwrap());
        wait_for(port);
        let fetches = format!("for i in $(seq 30); do curl -sSk -o /dev/null https://localhost:{port}/; done");
        assert!(lab.sh(&fetches, Path::new("/dev/null")).status.success());
        let page = live_pages()
            .unwrap()
            .into_iter()
            .find(|page| page.pids.contains(&server.0.id()))
            .expect("nginx has a page");
        assert_eq!((page.pids.len(), page.uid, &*page.program), (3, 0, "nginx"));
        let rows = page.read().unwrap().rows;
        let requests_and_bytes = |algorithm: &str, operation: &str| {
            let row = rows.iter().find(|row| {
                (row.device.as_deref(), &*row.algorithm, &*row.operation) == (Some(device), algorithm, operation)
            });
            row.map_or((0, 0), |row| (row.requests, row.bytes))
        };
        assert!(requests_and_bytes("aes-256-gcm", "seal").1 >= 30 * 3000, "{section}: {rows:?}");
        assert!(
            requests_and_bytes("ed25519", "sign").0 >= 30 && requests_and_bytes("x25519", "derive").0 >= 30,
            "{section}: {rows:?}"
        );
    }
}

#[test]
fn openssh_copies_through_its_sandbox() {
    if !is_installed("/usr/sbin/sshd") || !is_installed("scp") {
        return;
    }
    let lab = Lab::new("ssh");
    lab.write("file", noise(2_000_000));
    let keys = "ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user; cp user.pub authorized; \
                chmod 700 .; mkdir -p /run/sshd";
    let output = lab.sh(keys, Path::new("/dev/null"));
    assert!(output.status.success(), "{}", text(&output));
    let folder = lab.folder.display();
    let (offloaded, none) = (lab.configuration(OFFLOADED), Path::new("/dev/null").to_owned());
    let failed = lab.configuration("CIPHERS = AES-128-CTR,AES-256-GCM,ChaCha20\nFORCE_FAIL = yes");
    let port = port();
    let conf = lab.write(
        "sshd.conf",
        format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
        ),
    );
    let start = |configuration: &Path| {
        let mut command = lab.command("/usr/sbin/sshd", configuration);
        command.args(["-D", "-e", "-f"]).arg(&conf).stdout(Stdio::null());
        command.stderr(fs::File::create(lab.path("log")).unwrap());
        let server = Server(command.spawn().unwrap());
        wait_for(port);
        server
    };
    let copy = |configuration: &Path, options: &str| {
        let script = format!(
            "rm -f copy; scp -q -P {port} -i user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o BatchMode=yes {options} 127.0.0.1:$PWD/file copy; cmp file copy"
        );
        lab.sh(&script, configuration)
    };
    {
        let _server = start(&offloaded);
        for options in [
            "-c aes128-ctr -o MACs=hmac-sha2-256",
            "-c aes256-ctr -o MACs=hmac-sha1",
            "-c aes128-gcm@openssh.com",
            "-c aes256-gcm@openssh.com",
            "-c chacha20-poly1305@openssh.com",
        ] {
            for client in [&offloaded, &none] {
                let output = copy(client, options);
                let log = fs::read_to_string(lab.path("log")).unwrap_or_default();
                assert!(output.status.success(), "{options}: {}\n{log}", text(&output));
            }
        }
    }
    for (server, client, who) in [(&none, &failed, "scp"), (&failed, &none, "sshd")] {
        let _server = start(server);
        for options in ["-c aes128-ctr", "-c aes256-gcm@openssh.com", "-c chacha20-poly1305@openssh.com"] {
            assert!(!copy(client, options).status.success(), "{options}: not used by {who}");
        }
        // Only the named ciphers fail.
        assert!(copy(client, "-c aes192-ctr").status.success(), "{who}");
    }
}
