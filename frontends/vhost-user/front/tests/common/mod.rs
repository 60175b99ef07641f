//! Common parts of tests with a back end.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod hostile;
pub(crate) mod server;
pub(crate) mod vectors;

use std::path::Path;
use std::time::Duration;

use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_vhost_user_front::parameters::{Cipher, Parameters};
use gantry_vhost_user_front::request::{Operands, ParameterSource, Reply, Request};
use gantry_vhost_user_front::{Guest, Session, Setup};

/// The status values of virtio-crypto.
pub(crate) const OK: u8 = 0;
pub(crate) const ERR: u8 = 1;
pub(crate) const BADMSG: u8 = 2;
pub(crate) const NOTSUPP: u8 = 3;
pub(crate) const INVSESS: u8 = 4;
pub(crate) const NOSPC: u8 = 5;
pub(crate) const KEY_REJECTED: u8 = 6;

/// The time limit of an answer, regardless of other guests, on a machine that may stall for seconds. A guest that waits for
/// another one waits forever.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// AES-128-CBC of NIST SP 800-38A, F.2.1, all four blocks; the IV is the bytes 0 to 15.
pub(crate) const KEY: [u8; 16] = 0x2b7e1516_28aed2a6_abf71588_09cf4f3c_u128.to_be_bytes();
const PLAINTEXT_BLOCKS: [u128; 4] = [
    0x6bc1bee2_2e409f96_e93d7e11_7393172a,
    0xae2d8a57_1e03ac9c_9eb76fac_45af8e51,
    0x30c81c46_a35ce411_e5fbc119_1a0a52ef,
    0xf69f2445_df4f9b17_ad2b417b_e66c3710,
];
const CIPHERTEXT_BLOCKS: [u128; 4] = [
    0x7649abac_8119b246_cee98e9b_12e9197d,
    0x5086cb9b_507219ee_95db113a_917678b2,
    0x73bed6b8_e3c1743b_7116e69e_22229516,
    0x3ff1caa1_681fac09_120eca30_7586e1a7,
];

/// Returns the known answer's IV, plaintext and ciphertext.
pub(crate) fn known_answer() -> ([u8; 16], Vec<u8>, Vec<u8>) {
    let bytes = |blocks: [u128; 4]| blocks.map(u128::to_be_bytes).concat();
    (std::array::from_fn(|at| at as u8), bytes(PLAINTEXT_BLOCKS), bytes(CIPHERTEXT_BLOCKS))
}

/// Opens a session of AES-128-CBC with [`KEY`].
pub(crate) fn open_cbc(guest: &mut Guest) -> Session {
    guest.open(&Parameters::Cipher(Cipher { algorithm: cipher::AES_CBC, key: &KEY, encrypt: true })).unwrap()
}

/// Builds the request of the known answer.
pub(crate) fn known_answer_request(guest: &Guest, session: Session) -> Request {
    let (iv, data, _) = known_answer();
    let operands = Operands::Cipher { iv: &iv, data: &data };
    guest.format().build_request(operation::CIPHER_ENCRYPT, ParameterSource::Session(session.id), &operands)
}

/// Returns whether a reply is the known answer.
pub(crate) fn is_known_answer(reply: &Reply) -> bool {
    reply.status() == OK && reply.output == known_answer().2 && reply.written == 65
}

/// Asserts that the guest can open a session and gets its known answer at once.
pub(crate) fn assert_served(guest: &mut Guest) {
    let session = open_cbc(guest);
    assert_session_serves(guest, session);
    guest.close(session).unwrap();
}

/// Like [`assert_served`], with an open session.
pub(crate) fn assert_session_serves(guest: &mut Guest, session: Session) {
    let request = known_answer_request(guest, session);
    let replies = guest.queues[0].run(&[request], ANSWER_TIMEOUT).expect("an answer at once");
    assert!(is_known_answer(&replies[0]), "{:?}", replies[0]);
}

/// Asserts that a guest that connects now is served at once.
pub(crate) fn assert_serves_another(socket: &Path) {
    assert_served(&mut Guest::connect(socket, &Setup::qemu()).unwrap());
    assert_served(&mut Guest::connect(socket, &Setup::generic()).unwrap());
}
