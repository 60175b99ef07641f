//! Every suite with OpenSSL as the peer.

use std::fs;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use data_encoding::BASE64_MIME;
use rustls::version::TLS13;
use rustls::{Stream, StreamOwned};

use super::*;

/// Bytes of a transfer in each direction.
const TRANSFER_LEN: usize = 3 << 20;

/// A folder with `cert.pem` and `key.pem`, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, identity: &Identity) -> Self {
        let folder = std::env::temp_dir().join(format!("gantry-rustls-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pem = |label, der| {
            let base64 = BASE64_MIME.encode(der);
            format!("-----BEGIN {label}-----\n{base64}-----END {label}-----\n")
        };
        fs::write(folder.join("cert.pem"), pem("CERTIFICATE", &identity.certificate)).unwrap();
        fs::write(folder.join("key.pem"), pem("PRIVATE KEY", identity.key.secret_pkcs8_der())).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is stopped on drop.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `openssl` with a suite and an end's own arguments.
fn start_openssl(folder: &Path, arguments: &str, suite: &SupportedCipherSuite) -> Program {
    let name = suite.suite().as_str().unwrap();
    let suite_options = if suite.version() == &TLS13 {
        format!("-tls1_3 -ciphersuites {}", name.replace("TLS13", "TLS"))
    } else {
        // As in ECDHE-RSA-AES256-GCM-SHA384.
        let name = name.trim_start_matches("TLS_").replace("_WITH", "").replace("AES_", "AES").replace('_', "-");
        format!("-tls1_2 -cipher {}", name.replace("POLY1305-SHA256", "POLY1305"))
    };
    let arguments = format!("{arguments} {suite_options}");
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    Program(command.stderr(Stdio::null()).spawn().unwrap())
}

fn lacks_openssl() -> bool {
    let is_missing = Command::new("openssl").arg("version").output().is_err();
    if is_missing {
        gantry_lab::skip("openssl");
    }
    is_missing
}

#[test]
fn every_suite_works_with_an_openssl_server() {
    if lacks_openssl() {
        return;
    }
    for suite in gantry().cipher_suites {
        println!("{suite:?}");
        let identity = Identity::for_suite(suite.suite());
        let folder = Folder::new("server", &identity);
        fs::write(folder.0.join("answer"), content(TRANSFER_LEN)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let arguments = format!("s_server -quiet -accept 127.0.0.1:{port} -cert cert.pem -key key.pem -HTTP");
        let _server = start_openssl(&folder.0, &arguments, &suite);
        let mut stream = None;
        gantry_lab::wait_until("OpenSSL listens", || {
            stream = TcpStream::connect(("127.0.0.1", port)).ok();
            stream.is_some()
        });
        let config = identity.client(with_suite(gantry(), suite.suite()), &[suite.version()]);
        let connection = ClientConnection::new(Arc::new(config), server_name()).unwrap();
        let mut stream = StreamOwned::new(connection, stream.unwrap());
        stream.write_all(b"GET /answer HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // OpenSSL may close without an alert.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.ends_with(&content(TRANSFER_LEN)), "{suite:?}: {} bytes", answer.len());
    }
}

#[test]
fn every_suite_works_with_an_openssl_client() {
    if lacks_openssl() {
        return;
    }
    for suite in gantry().cipher_suites {
        println!("{suite:?}");
        let identity = Identity::for_suite(suite.suite());
        let folder = Folder::new("client", &identity);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let arguments = format!("s_client -quiet -connect 127.0.0.1:{port} -CAfile cert.pem -verify_return_error");
        let mut client = start_openssl(&folder.0, &arguments, &suite);
        let config = identity.server(with_suite(gantry(), suite.suite()), &[suite.version()]);
        let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut socket = listener.accept().unwrap().0;
        let mut stream = Stream::new(&mut connection, &mut socket);
        // OpenSSL's client sends its input, and prints the server's.
        let mut input = client.0.stdin.take().unwrap();
        let sender = std::thread::spawn(move || {
            input.write_all(&content(TRANSFER_LEN)).unwrap();
            input
        });
        let mut sent = vec![0; TRANSFER_LEN];
        stream.read_exact(&mut sent).unwrap();
        assert!(sent == content(TRANSFER_LEN), "{suite:?}");
        let mut output = BufReader::new(client.0.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut printed = vec![0; TRANSFER_LEN];
            output.read_exact(&mut printed).map(|()| printed)
        });
        stream.write_all(&content(TRANSFER_LEN)).unwrap();
        stream.flush().unwrap();
        assert!(reader.join().unwrap().unwrap() == content(TRANSFER_LEN), "{suite:?}");
        drop(sender.join().unwrap());
    }
}
