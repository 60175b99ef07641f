//! Known answers of every service: with sessions of QEMU's messages, with sessions of the control queue, and without sessions.

#[path = "../common/mod.rs"]
mod common;
mod rsa;

use common::server::Server;
use common::vectors::{self, Vector};
use common::{BADMSG, ERR, OK};
use gantry_abi_virtio_crypto::constants::{aead, cipher, hash, mac, operation, service};
use gantry_vhost_user::Limits;
use gantry_vhost_user_front::connection::EnableMode;
use gantry_vhost_user_front::parameters::{Cipher, Digest, Layout, Parameters};
use gantry_vhost_user_front::request::{Operands, ParameterSource, Reply, Request, RequestFormat};
use gantry_vhost_user_front::{FrontEnd, Guest, Setup};

/// Most bytes of input or output of the vectors used. The suite of `conformance` runs longer ones.
const MAX_VECTOR_BYTES: usize = 64 << 10;

/// Ciphers: number, algorithm, file.
const CIPHERS: [(u32, &str, &str); 12] = [
    (cipher::AES_ECB, "aes-128-ecb", "aes-ecb.txt"),
    (cipher::AES_ECB, "aes-192-ecb", "aes-ecb.txt"),
    (cipher::AES_ECB, "aes-256-ecb", "aes-ecb.txt"),
    (cipher::AES_CBC, "aes-128-cbc", "aes-cbc.txt"),
    (cipher::AES_CBC, "aes-192-cbc", "aes-cbc.txt"),
    (cipher::AES_CBC, "aes-256-cbc", "aes-cbc.txt"),
    (cipher::AES_CTR, "aes-128-ctr", "aes-ctr.txt"),
    (cipher::AES_CTR, "aes-192-ctr", "aes-ctr.txt"),
    (cipher::AES_CTR, "aes-256-ctr", "aes-ctr.txt"),
    (cipher::TDES_CBC, "des-ede3-cbc", "des-ede3-cbc.txt"),
    (cipher::AES_XTS, "aes-128-xts", "aes-xts.txt"),
    (cipher::AES_XTS, "aes-256-xts", "aes-xts.txt"),
];

/// Digests: number, algorithm, file, bytes of the result.
const HASHES: [(u32, &str, &str, u32); 10] = [
    (hash::MD5, "md5", "md5.txt", 16),
    (hash::SHA1, "sha1", "sha1.txt", 20),
    (hash::SHA_224, "sha224", "sha2.txt", 28),
    (hash::SHA_256, "sha256", "sha2.txt", 32),
    (hash::SHA_384, "sha384", "sha2.txt", 48),
    (hash::SHA_512, "sha512", "sha2.txt", 64),
    (hash::SHA3_224, "sha3-224", "sha3.txt", 28),
    (hash::SHA3_256, "sha3-256", "sha3.txt", 32),
    (hash::SHA3_384, "sha3-384", "sha3.txt", 48),
    (hash::SHA3_512, "sha3-512", "sha3.txt", 64),
];

/// MACs: number, algorithm, file.
const MACS: [(u32, &str, &str); 9] = [
    (mac::HMAC_MD5, "hmac-md5", "hmac.txt"),
    (mac::HMAC_SHA1, "hmac-sha1", "hmac.txt"),
    (mac::HMAC_SHA_224, "hmac-sha224", "hmac.txt"),
    (mac::HMAC_SHA_256, "hmac-sha256", "hmac.txt"),
    (mac::HMAC_SHA_384, "hmac-sha384", "hmac.txt"),
    (mac::HMAC_SHA_512, "hmac-sha512", "hmac.txt"),
    (mac::CMAC_AES, "aes-128-cmac", "cmac.txt"),
    (mac::CMAC_AES, "aes-192-cmac", "cmac.txt"),
    (mac::CMAC_AES, "aes-256-cmac", "cmac.txt"),
];

/// AEADs: number, algorithm, file.
const AEADS: [(u32, &str, &str); 7] = [
    (aead::GCM, "aes-128-gcm", "aes-gcm.txt"),
    (aead::GCM, "aes-192-gcm", "aes-gcm.txt"),
    (aead::GCM, "aes-256-gcm", "aes-gcm.txt"),
    (aead::CCM, "aes-128-ccm", "aes-ccm.txt"),
    (aead::CCM, "aes-192-ccm", "aes-ccm.txt"),
    (aead::CCM, "aes-256-ccm", "aes-ccm.txt"),
    (aead::CHACHA20_POLY1305, "chacha20-poly1305", "chacha20-poly1305.txt"),
];

/// The way in which requests get their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Through a session that a message in this layout opened.
    Message(Layout),
    /// Through a session that the control queue opened, without VIRTIO_CRYPTO_F_REVISION_1.
    Control,
    /// Through a session that the control queue opened, with VIRTIO_CRYPTO_F_REVISION_1.
    ControlRevision1,
    /// Within the requests.
    Stateless,
}

/// A guest that sends requests in one of the modes.
struct Client {
    guest: Guest,
    mode: Mode,
    answers: usize,
}

impl Client {
    fn new(server: &Server, mode: Mode) -> Self {
        let (front_end, features) = match mode {
            Mode::Message(layout) => (FrontEnd::Messages(layout, EnableMode::Never), 0),
            Mode::Control => (FrontEnd::Generic, 0),
            Mode::ControlRevision1 => (FrontEnd::Generic, 1),
            Mode::Stateless => (FrontEnd::Generic, 0x3f),
        };
        let setup = Setup { front_end, features, ..Setup::qemu() }.with_request_room(2 * MAX_VECTOR_BYTES, 2);
        let guest = Guest::connect(&server.socket(0), &setup).unwrap();
        assert_eq!(guest.format().has_revision_1(), features & 1 == 1);
        assert_eq!(guest.format().is_stateless(service::AEAD), mode == Mode::Stateless);
        Self { guest, mode, answers: 0 }
    }

    fn run(&mut self, operation: u32, parameters: &Parameters<'_>, operands: &Operands<'_>) -> Reply {
        self.answers += 1;
        if self.mode == Mode::Stateless {
            return self.guest.run_operation(operation, ParameterSource::Inline(parameters), operands).unwrap();
        }
        let session = self.guest.open(parameters).unwrap();
        let reply = self.guest.run_operation(operation, ParameterSource::Session(session.id), operands).unwrap();
        self.guest.close(session).unwrap();
        reply
    }

    /// Asserts that the reply is exactly this output.
    fn expect(&mut self, operation: u32, parameters: &Parameters<'_>, operands: &Operands<'_>, output: &[u8]) {
        let reply = self.run(operation, parameters, operands);
        assert_eq!(reply.status(), OK, "{operation:#x} {operands:?}");
        assert_eq!(reply.output, output, "{operation:#x} {operands:?}");
        assert_eq!(reply.written as usize, output.len() + 1, "{operation:#x}");
    }
}

/// Runs a test in each of these modes, with a server of its own.
fn for_each_mode(modes: &[Mode], test: impl Fn(&mut Client)) {
    for mode in modes {
        let server = Server::new(&[Limits::default()]);
        let mut client = Client::new(&server, *mode);
        test(&mut client);
        assert!(client.answers > 0);
        println!("{mode:?}: {} answers", client.answers);
    }
}

/// Returns the vectors that are not too long.
fn vectors_of(file: &str, algorithm: &str) -> impl Iterator<Item = Vector> {
    let vectors = vectors::load(file, algorithm);
    vectors
        .into_iter()
        .filter(|vector| vector.field("input").len().max(vector.field("output").len()) <= MAX_VECTOR_BYTES)
}

const QUEUE_MODES: [Mode; 3] = [Mode::Control, Mode::ControlRevision1, Mode::Stateless];
const MESSAGE_MODES: [Mode; 3] =
    [Mode::Message(Layout::Qemu7), Mode::Message(Layout::Qemu10), Mode::Message(Layout::Dpdk22)];

fn check_ciphers(client: &mut Client) {
    for (number, algorithm, file) in CIPHERS {
        for vector in vectors_of(file, algorithm) {
            let (iv, plain, sealed) = (vector.field("iv"), vector.field("input"), vector.field("output"));
            let parameters =
                |encrypt| Parameters::Cipher(Cipher { algorithm: number, key: vector.field("key"), encrypt });
            let operands = |data| Operands::Cipher { iv, data };
            client.expect(operation::CIPHER_ENCRYPT, &parameters(true), &operands(plain), sealed);
            client.expect(operation::CIPHER_DECRYPT, &parameters(false), &operands(sealed), plain);
        }
    }
}

#[test]
fn ciphers_give_known_answers_through_messages() {
    for_each_mode(&MESSAGE_MODES, check_ciphers);
}

#[test]
fn ciphers_give_known_answers_through_queues() {
    for_each_mode(&QUEUE_MODES, check_ciphers);
}

#[test]
fn digests_give_known_answers() {
    for_each_mode(&QUEUE_MODES, |client| {
        for (number, algorithm, file, result_length) in HASHES {
            for vector in vectors_of(file, algorithm) {
                let parameters = Parameters::Hash(Digest { algorithm: number, key: None, result_length });
                let operands = Operands::Digest { data: vector.field("input"), result_length };
                client.expect(operation::HASH, &parameters, &operands, vector.field("output"));
            }
        }
    });
}

#[test]
fn macs_give_known_answers() {
    for_each_mode(&QUEUE_MODES, |client| {
        for (number, algorithm, file) in MACS {
            for vector in vectors_of(file, algorithm).filter(|vector| !vector.is_invalid()) {
                let output = vector.field("output");
                let result_length = output.len() as u32;
                let digest = Digest { algorithm: number, key: Some(vector.field("key")), result_length };
                let operands = Operands::Digest { data: vector.field("input"), result_length };
                client.expect(operation::MAC, &Parameters::Mac(digest), &operands, output);
            }
        }
    });
}

#[test]
fn aeads_give_known_answers_and_refuse_forgeries() {
    for_each_mode(&QUEUE_MODES, |client| {
        let mut forged = 0;
        for (number, algorithm, file) in AEADS {
            for vector in vectors_of(file, algorithm) {
                let [key, iv, aad] = ["key", "iv", "aad"].map(|name| vector.field(name));
                let [plain, sealed, tag] = ["input", "output", "tag"].map(|name| vector.field(name));
                let bytes = tag.len() as u32;
                let parameters = |encrypt| Parameters::Aead {
                    cipher: Cipher { algorithm: number, key, encrypt },
                    tag_length: bytes,
                    aad_length: aad.len() as u32,
                };
                let with_tag = [sealed, tag].concat();
                let open =
                    Operands::Aead { iv, aad, data: &with_tag, tag_length: bytes, result_length: sealed.len() as u32 };
                if vector.is_invalid() {
                    let reply = client.run(operation::AEAD_DECRYPT, &parameters(false), &open);
                    assert_eq!(reply.status(), BADMSG, "{algorithm}");
                    assert!(reply.output.iter().all(|byte| *byte == 0xff), "{algorithm}: plaintext of a forgery");
                    forged += 1;
                    continue;
                }
                let seal =
                    Operands::Aead { iv, aad, data: plain, tag_length: bytes, result_length: with_tag.len() as u32 };
                client.expect(operation::AEAD_ENCRYPT, &parameters(true), &seal, &with_tag);
                client.expect(operation::AEAD_DECRYPT, &parameters(false), &open, plain);
            }
        }
        assert!(forged > 300, "{forged} forgeries");
    });
}

/// Checks chains, whose digest covers the data after the cipher operation, or before it.
fn check_chains(client: &mut Client) {
    let sealed_by = &vectors::load("aes-cbc.txt", "aes-128-cbc");
    let longest = sealed_by.iter().max_by_key(|vector| vector.field("input").len()).unwrap();
    let [key, iv, plain, sealed] = ["key", "iv", "input", "output"].map(|name| longest.field(name));
    let key_of_mac = [0x0b; 20];
    let all = 0..plain.len() as u32;
    for (hash_first, covered) in [(false, sealed), (true, plain)] {
        // The MAC service is tested above by known answers; the chain's MAC must equal its result for the covered bytes.
        let digest = Digest { algorithm: mac::HMAC_SHA_256, key: Some(&key_of_mac), result_length: 32 };
        let expected = if matches!(client.mode, Mode::Message(_)) {
            hmac(&key_of_mac, covered)
        } else {
            let operands = Operands::Digest { data: covered, result_length: 32 };
            client.run(operation::MAC, &Parameters::Mac(digest), &operands).output
        };
        let parameters =
            Parameters::Chain { cipher: Cipher { algorithm: cipher::AES_CBC, key, encrypt: true }, digest, hash_first };
        let operands =
            Operands::Chain { iv, data: plain, cipher_range: all.clone(), hash_range: all.clone(), result_length: 32 };
        let output = [sealed, &expected].concat();
        client.expect(operation::CIPHER_ENCRYPT, &parameters, &operands, &output);
    }
    // Only a part of the data is encrypted, and another part is covered.
    let digest = Digest { algorithm: mac::HMAC_SHA_256, key: Some(&key_of_mac), result_length: 12 };
    let cipher = Cipher { algorithm: cipher::AES_CBC, key, encrypt: true };
    let data = [&[7; 8], plain, &[9; 8]].concat();
    let end = plain.len() as u32 + 8;
    let operands = Operands::Chain { iv, data: &data, cipher_range: 8..end, hash_range: 0..end, result_length: 12 };
    let parameters = Parameters::Chain { cipher, digest, hash_first: false };
    let covered = [&[7; 8], sealed].concat();
    let output = [&covered, &[9; 8][..], &hmac(&key_of_mac, &covered)[..12]].concat();
    client.expect(operation::CIPHER_ENCRYPT, &parameters, &operands, &output);
    // A part that lies outside the data.
    let outside =
        Operands::Chain { iv, data: &data, cipher_range: 16..end + 24, hash_range: 0..end, result_length: 12 };
    assert_eq!(client.run(operation::CIPHER_ENCRYPT, &parameters, &outside).status(), ERR);
}

#[test]
fn macs_of_chains_follow_the_order() {
    for_each_mode(&[&QUEUE_MODES[..], &MESSAGE_MODES].concat(), check_chains);
}

/// Computes HMAC-SHA-256 by the framework itself.
fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let session = gantry.session(gantry_core::SessionParams::new(gantry_core::Algorithm::HmacSha256, key)).unwrap();
    let mut tag = vec![0; 32];
    session.mac(data, &mut tag).unwrap();
    tag
}

/// The configuration space lists the services that the vectors have tested, and the limit of requests.
#[test]
fn the_configuration_lists_every_service_that_answers() {
    let server = Server::new(&[Limits::default()]);
    let guest = Guest::connect(&server.socket(0), &Setup::generic()).unwrap();
    let config = guest.config().unwrap();
    assert_eq!(config.status, 1);
    assert_eq!(config.services, 0b11111);
    for (masks, numbers) in [
        (config.ciphers, CIPHERS.map(|row| row.0).to_vec()),
        (config.hashes.into(), HASHES.map(|row| row.0).to_vec()),
        (config.macs, MACS.map(|row| row.0).to_vec()),
        (config.aeads.into(), AEADS.map(|row| row.0).to_vec()),
        (config.akciphers.into(), vec![1]),
    ] {
        assert!(numbers.iter().all(|number| masks >> number & 1 == 1), "{masks:#b}");
    }
    assert!(config.max_size >= 128 << 10);
    assert!(config.max_dataqueues >= 1);
}

/// Requests of other services than the session's.
#[test]
fn a_session_serves_no_other_service() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup { features: 0, ..Setup::generic() }).unwrap();
    let hash =
        guest.open(&Parameters::Hash(Digest { algorithm: hash::SHA_256, key: None, result_length: 32 })).unwrap();
    let cipher = common::open_cbc(&mut guest);
    let request = |operation, session, operands: &Operands<'_>| -> Request {
        RequestFormat::default().build_request(operation, ParameterSource::Session(session), operands)
    };
    let digest = Operands::Digest { data: &[0; 16], result_length: 32 };
    let crypt = Operands::Cipher { iv: &[0; 16], data: &[0; 16] };
    for request in [
        request(operation::HASH, cipher.id, &digest),
        request(operation::MAC, hash.id, &digest),
        request(operation::CIPHER_ENCRYPT, hash.id, &crypt),
        // The session encrypts.
        request(operation::CIPHER_DECRYPT, cipher.id, &crypt),
    ] {
        let reply = guest.run(0, &request).unwrap();
        assert_ne!(reply.status(), OK);
        assert!(reply.output.iter().all(|byte| *byte == 0xff));
    }
    assert_eq!(guest.run(0, &request(operation::HASH, hash.id, &digest)).unwrap().status(), OK);
    common::assert_session_serves(&mut guest, cipher);
}
