//! Programs that terminate TLS for other programs: with everything on another device at either side, and with everything made to fail.

mod lab;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use lab::{FAILED, Lab, OFFLOADED, is_installed, noise, port, text};

/// A kind of certificate whose signatures gantry does not serve.
const P256: &str = "ec -pkeyopt ec_paramgen_curve:prime256v1";

/// Only signatures fail.
const UNSIGNED: &str = "CIPHERS = NONE\nSIGNATURES = ED25519\nKEY_EXCHANGE = NONE\nKDFS = NONE\nFORCE_FAIL = yes";

/// Answers each connection with `answer` in its own thread, and returns the port.
fn backend(answer: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // Ignores the error of a peer that hangs up early.
            thread::spawn(move || answer(stream));
        }
    });
    port
}

/// Sends `data` to an echo server, and returns the answer.
fn echo_through(port: u16, data: &[u8]) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = (&stream).write_all(data).and_then(|()| stream.shutdown(Shutdown::Write));
        });
        (&stream).take(data.len() as u64).read_to_end(&mut back)
    })?;
    Ok(back)
}

#[test]
fn stunnel_carries_a_connection() {
    if !is_installed("stunnel") {
        return;
    }
    let lab = Lab::new("stunnel");
    let data = noise(1_000_000);
    let echo = backend(|stream| io::copy(&mut &stream, &mut &stream).map(drop));
    let (offloaded, failed, none) = (lab.configuration(OFFLOADED), lab.configuration(FAILED), Path::new("/dev/null"));
    let start = |configuration: &Path, side: &str, listen: u16, connect: u16| {
        let conf = lab.write(
            "stunnel.conf",
            format!(
                "foreground = yes\npid =\n[tls]\naccept = 127.0.0.1:{listen}\nconnect = 127.0.0.1:{connect}\n{side}"
            ),
        );
        lab.serve(lab.command("stunnel", configuration).arg(conf), listen)
    };
    let carries_data = |server: &Path, client: &Path, version: &str| {
        let (server_port, client_port) = (port(), port());
        let side = format!("cert = cert.pem\nkey = key.pem\nsslVersion = {version}\n");
        let _server = start(server, &side, server_port, echo);
        let side = format!("client = yes\nCAfile = cert.pem\nverifyChain = yes\nsslVersion = {version}\n");
        let _client = start(client, &side, client_port, server_port);
        echo_through(client_port, &data).is_ok_and(|back| back == data)
    };
    for certificate in [P256, "ed25519", "rsa:3072"] {
        lab.certificate(certificate);
        for version in ["TLSv1.2", "TLSv1.3"] {
            assert!(carries_data(&offloaded, none, version), "server, {version}: {}", lab.log());
            assert!(carries_data(none, &offloaded, version), "client, {version}: {}", lab.log());
            assert!(!carries_data(&failed, none, version), "server, {version}: not used");
            assert!(!carries_data(none, &failed, version), "client, {version}: not used");
        }
    }
}

#[test]
fn haproxy_ends_tls_for_a_server() {
    if !is_installed("haproxy") || !is_installed("curl") {
        return;
    }
    let lab = Lab::new("haproxy");
    let none = Path::new("/dev/null");
    let certificate = |kind: &str| {
        lab.certificate(kind);
        assert!(lab.sh("cat cert.pem key.pem >both.pem", none).status.success());
    };
    certificate(P256);
    let data = noise(1_000_000);
    lab.write("file", &data);
    let web = backend(move |mut stream| {
        for line in BufReader::new(&stream).lines() {
            if line?.is_empty() {
                break;
            }
        }
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", data.len())?;
        stream.write_all(&data)
    });
    let configure = |global: &str| {
        let port = port();
        let conf = lab.write(
            "haproxy.conf",
            format!(
                "global\n nbthread 4\n {global}\ndefaults\n mode http\n timeout connect 60s\n timeout client 60s\n \
                 timeout server 60s\nfrontend tls\n bind 127.0.0.1:{port} ssl crt {}\n default_backend web\n\
                 backend web\n server one 127.0.0.1:{web}\n",
                lab.path("both.pem").display()
            ),
        );
        (port, conf)
    };
    let fetch_with = |configuration: &Path, (port, conf): &(u16, _), version: &str, options: &str| {
        let _haproxy = lab.serve(lab.command("haproxy", configuration).arg("-db").arg("-f").arg(conf), *port);
        let script = format!(
            "curl -sS --max-time 60 --cacert cert.pem --tlsv{version} --tls-max {version} {options} https://localhost:{port}/ \
             --resolve localhost:{port}:127.0.0.1 | cmp - file"
        );
        lab.sh(&script, none)
    };
    let fetch = |configuration: &Path, conf: &(u16, _), version: &str| fetch_with(configuration, conf, version, "");
    let (offloaded, failed) = (lab.configuration(OFFLOADED), lab.configuration(FAILED));
    let lanes = lab.configuration("CIPHERS = ALL\nPOLICY = pin:lanes");
    for global in ["", "ssl-mode-async"] {
        let conf = configure(global);
        // Not every build supports this; haproxy checks its configuration itself.
        if !lab.command("haproxy", none).args(["-q", "-c", "-f"]).arg(&conf.1).status().unwrap().success() {
            assert_ne!(global, "", "haproxy refuses its configuration");
            gantry_lab::skip("haproxy with ssl-mode-async");
            continue;
        }
        for version in ["1.2", "1.3"] {
            let output = fetch(&offloaded, &conf, version);
            assert!(output.status.success(), "{global} {version}: {}{}", text(&output), lab.log());
            assert!(!fetch(&failed, &conf, version).status.success(), "{global} {version}: not used");
        }
        // Data encrypted at the end of the handshake waits for more.
        let output = fetch_with(&lanes, &conf, "1.2", "--ciphers ECDHE-ECDSA-AES128-SHA");
        assert!(output.status.success(), "{global} with AES-CBC: {}{}", text(&output), lab.log());
    }
    certificate("ed25519");
    let (conf, unsigned) = (configure(""), lab.configuration(UNSIGNED));
    for version in ["1.2", "1.3"] {
        let output = fetch(&offloaded, &conf, version);
        assert!(output.status.success(), "ed25519, {version}: {}{}", text(&output), lab.log());
        assert!(!fetch(&unsigned, &conf, version).status.success(), "ed25519, {version}: not used");
    }
}
