//! TLS between two OpenSSL programs, through a relay that has the keys of both. The relay opens every protected record, changes some, and
//! seals all again, so each program opens records that Gantry sealed. Covers every suite, and key updates.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_driver_lanes::LanesDriver;
use gantry_driver_software::SoftwareDriver;
use gantry_lab::wait_until;
use gantry_protocols::Packet;
use gantry_protocols::tls::content_type::{APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE};
use gantry_protocols::tls::{Aead, Epoch, Header, Hmac, Inbound, MacOrder, Outbound, Suite};

/// A suite by OpenSSL's name, with the hash of its key schedule and the lengths of key, IV and MAC key.
struct Case {
    name: &'static str,
    suite: Suite,
    hash: Algorithm,
    key: usize,
    iv: usize,
    mac_key: usize,
}

const SHA256: Algorithm = Algorithm::HmacSha256;
const SHA384: Algorithm = Algorithm::HmacSha384;

const fn tls13(name: &'static str, aead: Aead, hash: Algorithm, key: usize) -> Case {
    Case { name, suite: Suite::Tls13(aead), hash, key, iv: 12, mac_key: 0 }
}

const fn tls12(name: &'static str, aead: Aead, hash: Algorithm, key: usize, iv: usize) -> Case {
    Case { name, suite: Suite::Tls12(aead), hash, key, iv, mac_key: 0 }
}

const fn cbc(name: &'static str, hmac: Hmac, order: MacOrder, key: usize) -> Case {
    let (hash, mac_key) = match hmac {
        Hmac::Sha1 => (SHA256, 20),
        Hmac::Sha256 => (SHA256, 32),
        _ => (SHA384, 48),
    };
    Case { name, suite: Suite::Tls12Cbc(hmac, order), hash, key, iv: 0, mac_key }
}

const CASES: &[Case] = &[
    tls13("TLS_AES_128_GCM_SHA256", Aead::AesGcm, SHA256, 16),
    tls13("TLS_AES_256_GCM_SHA384", Aead::AesGcm, SHA384, 32),
    tls13("TLS_CHACHA20_POLY1305_SHA256", Aead::ChaCha20Poly1305, SHA256, 32),
    tls13("TLS_AES_128_CCM_SHA256", Aead::AesCcm, SHA256, 16),
    tls13("TLS_AES_128_CCM_8_SHA256", Aead::AesCcm8, SHA256, 16),
    tls12("AES128-GCM-SHA256", Aead::AesGcm, SHA256, 16, 4),
    tls12("AES256-GCM-SHA384", Aead::AesGcm, SHA384, 32, 4),
    tls12("ECDHE-RSA-CHACHA20-POLY1305", Aead::ChaCha20Poly1305, SHA256, 32, 12),
    tls12("AES128-CCM", Aead::AesCcm, SHA256, 16, 4),
    tls12("AES256-CCM8", Aead::AesCcm8, SHA256, 32, 4),
    cbc("AES128-SHA", Hmac::Sha1, MacOrder::EncryptThenMac, 16),
    cbc("AES256-SHA", Hmac::Sha1, MacOrder::MacThenEncrypt, 32),
    cbc("AES128-SHA256", Hmac::Sha256, MacOrder::EncryptThenMac, 16),
    cbc("AES128-SHA256", Hmac::Sha256, MacOrder::MacThenEncrypt, 16),
    cbc("ECDHE-RSA-AES256-SHA384", Hmac::Sha384, MacOrder::EncryptThenMac, 32),
    cbc("ECDHE-RSA-AES256-SHA384", Hmac::Sha384, MacOrder::MacThenEncrypt, 32),
];

impl Case {
    fn is_13(&self) -> bool {
        matches!(self.suite, Suite::Tls13(_))
    }

    /// Returns the options of both programs.
    fn options(&self) -> Vec<String> {
        let mut options = if self.is_13() {
            format!("-tls1_3 -ciphersuites {} -cipher ALL:@SECLEVEL=0", self.name)
        } else {
            format!("-tls1_2 -cipher {}:@SECLEVEL=0", self.name)
        };
        if matches!(self.suite, Suite::Tls12Cbc(_, MacOrder::MacThenEncrypt)) {
            options += " -no_etm";
        }
        options.split(' ').map(str::to_owned).collect()
    }
}

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn openssl(arguments: impl IntoIterator<Item = String>, folder: &Path) -> Program {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Program(command.spawn().expect("openssl starts"))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The state that both threads of a relay share.
struct Relay<'t> {
    case: &'t Case,
    gantry: &'t Gantry,
    /// Files to which the programs write their secrets.
    keys: [PathBuf; 2],
    server_random: OnceLock<Vec<u8>>,
    /// The numbers of protected records that the relay has passed on from the client, and from the server.
    passed: [AtomicUsize; 2],
}

impl Relay<'_> {
    fn mac(&self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let session = self.gantry.session(SessionParams::new(self.case.hash, key)).unwrap();
        let mut mac = vec![0; session.params().tag_len()];
        session.mac(&parts.concat(), &mut mac).unwrap();
        mac
    }

    /// Waits until a program has written the secret of this name: in TLS 1.2 the client writes it first, in TLS 1.3 the server. Returns the
    /// client's random and the secret.
    fn secret(&self, label: &str) -> (Vec<u8>, Vec<u8>) {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let mut secret = None;
        wait_until(&format!("{label} of {} is written", self.case.name), || {
            let texts = self.keys.each_ref().map(|keys| fs::read_to_string(keys).unwrap_or_default());
            // Skips a line that is not written completely yet.
            let whole = texts.iter().map(|text| text.rfind('\n').map_or("", |end| &text[..end]));
            for line in whole.flat_map(str::lines) {
                if let [found, random, found_secret] = line.split(' ').collect::<Vec<_>>()[..]
                    && found == label
                {
                    secret = Some((hex(random), hex(found_secret)));
                }
            }
            secret.is_some()
        });
        secret.expect("the secret is written")
    }

    /// Computes `bytes` bytes of HKDF-Expand-Label (RFC 8446, 7.1), at most as many as the hash has.
    fn expand(&self, secret: &[u8], label: &str, bytes: usize) -> Vec<u8> {
        let label = format!("tls13 {label}");
        let info = [&[0, bytes as u8, label.len() as u8], label.as_bytes(), &[0, 1]].concat();
        let mut expanded = self.mac(secret, &[&info]);
        expanded.truncate(bytes);
        expanded
    }

    /// Returns key and IV of a traffic secret (RFC 8446, 7.3).
    fn traffic(&self, secret: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (self.expand(secret, "key", self.case.key), self.expand(secret, "iv", 12))
    }

    /// Returns the keys of a direction in TLS 1.2 (RFC 5246, 6.3).
    fn epoch_12(&self, is_server: bool) -> Epoch {
        let Case { suite, key, iv, mac_key, .. } = *self.case;
        let (client_random, master) = self.secret("CLIENT_RANDOM");
        let seed = [&b"key expansion"[..], self.server_random.get().unwrap(), &client_random].concat();
        let (mut block, mut a) = (Vec::new(), seed.clone());
        while block.len() < 2 * (mac_key + key + iv) {
            a = self.mac(&master, &[&a]);
            block.extend(self.mac(&master, &[&a, &seed]));
        }
        let mut take = |bytes: usize| {
            let both: Vec<u8> = block.drain(..2 * bytes).collect();
            if is_server { both[bytes..].to_vec() } else { both[..bytes].to_vec() }
        };
        let [mac_key, key, iv] = [mac_key, key, iv].map(&mut take);
        Epoch::new(suite, &key, &iv).mac_key(&mac_key)
    }

    /// Returns the handshake keys of a direction in TLS 1.3. Their records are padded with zeros.
    fn epoch_13(&self, side: &str) -> Epoch {
        let (key, iv) = self.traffic(&self.secret(&format!("{side}_HANDSHAKE_TRAFFIC_SECRET")).1);
        Epoch::new(self.case.suite, &key, &iv).pad_to(64)
    }
}

/// Both ends of one direction.
struct Ends {
    inbound: Inbound,
    outbound: Outbound,
    /// The secret from which the next keys are derived, in TLS 1.3.
    secret: Option<Vec<u8>>,
    /// Handshake messages not read yet.
    messages: Vec<u8>,
    updates: usize,
}

impl Ends {
    fn new(relay: &Relay<'_>, is_server: bool) -> Self {
        let side = if is_server { "SERVER" } else { "CLIENT" };
        let make = || if relay.case.is_13() { relay.epoch_13(side) } else { relay.epoch_12(is_server) };
        let (inbound, outbound) = (make().inbound(relay.gantry).unwrap(), make().outbound(relay.gantry).unwrap());
        Self { inbound, outbound, secret: None, messages: Vec::new(), updates: 0 }
    }

    /// Opens a record and seals its content again, changed if it is application data.
    fn pass(&mut self, relay: &Relay<'_>, is_server: bool, record: &mut [u8]) -> Vec<u8> {
        // A program may write the secret of a record only after it has read the record before.
        self.follow(relay, is_server);
        let length = record.len();
        let mut packet = Packet::new(record, 0..length);
        self.inbound.open(&mut packet).unwrap_or_else(|error| panic!("{}: {error}", relay.case.name));
        relay.passed[usize::from(is_server)].fetch_add(1, Ordering::Relaxed);
        let (content_type, content) = (packet.content_type, packet.data().to_vec());
        let changed = match content_type {
            APPLICATION_DATA if is_server => [b"by way of us: ", &content[..]].concat(),
            APPLICATION_DATA => content.to_ascii_uppercase(),
            _ => content.clone(),
        };
        let (head, tail) = self.outbound.room();
        let mut buffer = [&vec![0; head][..], &changed, &vec![0; tail]].concat();
        let mut packet = Packet::new(&mut buffer, head..head + changed.len());
        packet.content_type = content_type;
        self.outbound.seal(&mut packet).unwrap();
        let sealed = packet.data().to_vec();
        if relay.case.is_13() && content_type == HANDSHAKE {
            self.messages.extend(content);
        }
        sealed
    }

    /// Changes keys after Finished and after key updates.
    fn follow(&mut self, relay: &Relay<'_>, is_server: bool) {
        const FINISHED: u8 = 20;
        const KEY_UPDATE: u8 = 24;
        while let [kind, high, middle, low, ..] = self.messages[..] {
            let end = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
            if self.messages.len() < end {
                return;
            }
            self.messages.drain(..end);
            let next = match (kind, self.secret.take()) {
                (FINISHED, None) => {
                    let side = if is_server { "SERVER" } else { "CLIENT" };
                    relay.secret(&format!("{side}_TRAFFIC_SECRET_0")).1
                }
                (KEY_UPDATE, Some(secret)) => {
                    self.updates += 1;
                    relay.expand(&secret, "traffic upd", secret.len())
                }
                (_, secret) => {
                    self.secret = secret;
                    continue;
                }
            };
            let (key, iv) = relay.traffic(&next);
            self.inbound.rekey(&key, &iv).unwrap();
            self.outbound.rekey(&key, &iv).unwrap();
            self.secret = Some(next);
        }
    }
}

/// A connection that is shut down when its thread ends, also by a panic.
struct ShutdownOnDrop(TcpStream);

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Relays one direction of a connection until its end. Returns the count of key updates.
fn relay_records(relay: &Relay<'_>, is_server: bool, from: TcpStream, to: TcpStream) -> usize {
    let (mut from, mut to) = (ShutdownOnDrop(from), ShutdownOnDrop(to));
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let mut ends: Option<Ends> = None;
    // In TLS 1.2, records after ChangeCipherSpec are protected.
    let mut changed = false;
    while let Ok(count @ 1..) = from.0.read(&mut piece) {
        bytes.extend(&piece[..count]);
        while let Some(header) = Header::read(&bytes).unwrap().filter(|header| header.length <= bytes.len()) {
            let mut record: Vec<u8> = bytes.drain(..header.length).collect();
            let is_protected = if relay.case.is_13() { header.content_type == APPLICATION_DATA } else { changed };
            if is_protected {
                let ends = ends.get_or_insert_with(|| Ends::new(relay, is_server));
                record = ends.pass(relay, is_server, &mut record);
            } else if is_server && relay.server_random.get().is_none() {
                // The server's first message: type, length, version, random.
                let _ = relay.server_random.set(record[11..43].to_vec());
            }
            changed |= header.content_type == CHANGE_CIPHER_SPEC;
            if to.0.write_all(&record).is_err() {
                break;
            }
        }
    }
    ends.map_or(0, |ends| ends.updates)
}

/// Sends a line. The server returns it reversed, and the relay changes it in both directions.
fn exchange(input: &mut ChildStdin, output: &mut impl BufRead, line: &str) {
    writeln!(input, "{line}").unwrap();
    let expected = format!("by way of us: {}", line.to_uppercase().chars().rev().collect::<String>());
    let mut read = String::new();
    while read.trim_end() != expected {
        read.clear();
        assert!(output.read_line(&mut read).unwrap() > 0, "the client has ended without {expected}");
    }
}

fn run_between_client_and_server(case: &Case, gantry: &Gantry, folder: &Path, place: usize) {
    let keys = ["client", "server"].map(|side| folder.join(format!("{side}{place}")));
    let server = "s_server -accept 127.0.0.1:0 -cert cert.pem -key key.pem -rev -naccept 1";
    let server = words(&format!("{server} -keylogfile server{place}"));
    let mut server = openssl(server.into_iter().chain(case.options()), folder);
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.unwrap().strip_prefix("ACCEPT ")?.to_owned())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = format!("s_client -keylogfile client{place} -connect {}", listener.local_addr().unwrap());
    let mut client = openssl(words(&client).into_iter().chain(case.options()), folder);
    let to_client = listener.accept().unwrap().0;
    let to_server = TcpStream::connect(address).unwrap();
    for stream in [&to_client, &to_server] {
        stream.set_nodelay(true).unwrap();
    }
    let relay = Relay { case, gantry, keys, server_random: OnceLock::new(), passed: Default::default() };
    thread::scope(|scope| {
        let (from, to) = (to_client.try_clone().unwrap(), to_server.try_clone().unwrap());
        let client_to_server = scope.spawn(|| relay_records(&relay, false, from, to));
        let server_to_client = scope.spawn(|| relay_records(&relay, true, to_server, to_client));
        let mut input = client.0.stdin.take().unwrap();
        let mut output = BufReader::new(client.0.stdout.take().unwrap());
        // Every padding length of a block, and a long record.
        for length in (1..=33).chain([8000]) {
            exchange(&mut input, &mut output, &"abcdefghij".repeat(800)[..length]);
            if case.is_13() && length % 16 == 1 {
                // The client updates its keys, and requests an update of the server. `s_client` knows the command only if it reads this
                // line alone.
                let before = relay.passed[0].load(Ordering::Relaxed);
                writeln!(input, "K").unwrap();
                wait_until(&format!("the client of {} updates its keys", case.name), || {
                    assert!(!client_to_server.is_finished(), "{}", case.name);
                    relay.passed[0].load(Ordering::Relaxed) != before
                });
            }
        }
        drop((input, client, server));
        let updates = if case.is_13() { 3 } else { 0 };
        assert_eq!([client_to_server.join().unwrap(), server_to_client.join().unwrap()], [updates; 2], "{}", case.name);
        // Each side has sent 34 lines, and Finished before them.
        let passed = relay.passed.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert!(passed.iter().all(|count| *count >= 35), "{}: {passed:?}", case.name);
    });
}

#[test]
fn openssl_interoperates() {
    if Command::new("openssl").arg("version").output().is_err() {
        gantry_lab::skip("openssl");
        return;
    }
    let folder = std::env::temp_dir().join(format!("gantry-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let certificate = words("req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=test -days 2");
    assert!(openssl(certificate, &folder).0.wait().unwrap().success());
    let lanes = LanesDriver::default();
    let gantry = Gantry::builder().driver(&lanes).driver(&SoftwareDriver).build();
    // In parallel, because the programs mostly wait for each other.
    thread::scope(|scope| {
        for (place, case) in CASES.iter().enumerate() {
            let (gantry, folder) = (&gantry, &folder);
            scope.spawn(move || run_between_client_and_server(case, gantry, folder, place));
        }
    });
    fs::remove_dir_all(&folder).unwrap();
}
