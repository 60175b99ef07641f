//! Tasks without a kernel: the NULL cipher, and TLS records.

use gantry_abi_cryptodev::{COP_DECRYPT, COP_ENCRYPT, COP_FLAG_AEAD_TLS_TYPE, CryptAuthOp, Ioctl, Width};

use super::*;
use crate::plan::{Action, Call, Plan, Sessions, plan};
use crate::session::SessionFactory;

const CBC: u32 = 11;
const NULL: u32 = 16;
const HMAC_SHA1: u32 = 7;

fn crypto_session(cipher: u32, key: &[u8], mac: u32, mac_key: &[u8]) -> Arc<CryptoSession> {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    Arc::new(SessionFactory::new(gantry).create_session(cipher, key, mac, mac_key).unwrap())
}

#[test]
fn the_null_cipher_leaves_data_unchanged() {
    let crypto = crypto_session(NULL, &[], HMAC_SHA1, b"a key");
    let mac = crypto.hash.as_ref().unwrap().session.clone();
    let mut expected = [0; 20];
    mac.mac(b"in the clear", &mut expected).unwrap();
    for encrypt in [true, false] {
        let data = 0..12;
        let job =
            Job { session: 1, encrypt, flags: 0, iv: 0..0, data, kind: JobKind::Plain, answer: b"answer".to_vec() };
        let mut task = Task::new(crypto.clone(), SessionState::new(), job, b"in the clear".to_vec().into());
        task.run();
        assert_eq!(task.result(), Ok(vec![&b"in the clear"[..], &expected, b"answer"]));
    }
}

/// Has only this session.
impl Sessions for Arc<CryptoSession> {
    fn crypto_session(&self, _: u32) -> Option<&CryptoSession> {
        Some(self)
    }
}

/// Addresses of the caller's data, IV and associated data.
const DATA: u64 = 0x1000;
const IV: u64 = 0x2000;
const HEADER: u64 = 0x3000;

/// The result of processing a TLS record.
struct RecordResult {
    answer: Result<Vec<u8>, Errno>,
    /// The steps that needed a device.
    steps: Vec<String>,
}

/// Encrypts or decrypts a TLS record.
fn process_record(crypto: &Arc<CryptoSession>, op: u16, tag_len: u32, data: &[u8]) -> RecordResult {
    let op = CryptAuthOp {
        op,
        flags: COP_FLAG_AEAD_TLS_TYPE,
        len: data.len() as u32,
        src: DATA,
        dst: DATA,
        auth_src: HEADER,
        auth_len: 13,
        iv: IV,
        iv_len: 16,
        tag_len,
        ..CryptAuthOp::default()
    };
    let op = op.to_bytes(Width::W64);
    let call = Call { ioctl: Ioctl::AuthCrypt, width: Width::W64, address: 0 };
    let mut input_bytes = Vec::new();
    let job = loop {
        match plan(call, crypto, &input_bytes) {
            Plan::Fail(errno) => return RecordResult { answer: Err(errno), steps: Vec::new() },
            Plan::Ready { action: Action::Crypt(job), .. } => break job,
            Plan::Ready { action, .. } => panic!("{action:?}"),
            Plan::Read(requested) => {
                input_bytes.clear();
                for requested in requested {
                    let from = match requested.range.address {
                        DATA => data,
                        IV => &[3; 16],
                        HEADER => &[4; 13],
                        _ => &op,
                    };
                    input_bytes.extend(&from[..requested.range.bytes]);
                }
            }
        }
    };
    let mut task = Task::new(crypto.clone(), SessionState::new(), job, input_bytes.into());
    let mut steps = Vec::new();
    while task.advance(1) {
        steps.push(format!("{:?}", task.current_step));
        run_step(&mut [&mut task]);
    }
    let answer = task.result().map(|parts| {
        let length = CryptAuthOp::from_bytes(parts[parts.len() - 1], Width::W64).unwrap().len;
        parts[0][..length as usize].to_vec()
    });
    RecordResult { answer, steps }
}

/// Creates a session of AES-128-CBC with HMAC-SHA1.
fn open_cbc_with_mac() -> Arc<CryptoSession> {
    crypto_session(CBC, &[1; 16], HMAC_SHA1, &[2; 20])
}

/// Builds an encrypted record of a message, its MAC as changed by `forge`, and this padding.
fn encrypted_record(crypto: &Arc<CryptoSession>, message: &[u8], forge: impl Fn(&mut [u8]), padding: &[u8]) -> Vec<u8> {
    let mut mac = [0; 20];
    let hash = &crypto.hash.as_ref().unwrap().session;
    hash.mac(&[&[4; 13], message].concat(), &mut mac).unwrap();
    forge(&mut mac);
    let mut encrypted_record = [message, &mac[..], padding].concat();
    let cipher = crypto.cipher.as_ref().unwrap().session.clone().unwrap();
    cipher.encrypt(&[3; 16], &mut encrypted_record).unwrap();
    encrypted_record
}

/// Returns valid padding of `bytes` bytes.
fn padding(bytes: usize) -> Vec<u8> {
    vec![(bytes - 1) as u8; bytes]
}

#[test]
fn records_open_with_every_padding() {
    let crypto = open_cbc_with_mac();
    for bytes in 1..=256 {
        // Fills the last block.
        let message = vec![5; 300 + (16 - (20 + 300 + bytes) % 16) % 16];
        let opened =
            process_record(&crypto, COP_DECRYPT, 0, &encrypted_record(&crypto, &message, |_| (), &padding(bytes)));
        assert_eq!(opened.answer, Ok(message), "{bytes}");
    }
    let closed = process_record(&crypto, COP_ENCRYPT, 0, &[]).answer.unwrap();
    assert_eq!(closed, encrypted_record(&crypto, &[], |_| (), &padding(12)));
    assert_eq!(process_record(&crypto, COP_DECRYPT, 0, &closed).answer, Ok(Vec::new()));
    let crypto = self::crypto_session(NULL, &[], HMAC_SHA1, &[2; 20]);
    let closed = process_record(&crypto, COP_ENCRYPT, 0, b"no padding").answer.unwrap();
    assert_eq!(
        (closed.len(), process_record(&crypto, COP_DECRYPT, 0, &closed).answer),
        (30, Ok(b"no padding".to_vec()))
    );
}

/// Lucky Thirteen: neither the answer nor the work may distinguish wrong padding from a wrong MAC, or one padding from
/// another.
#[test]
fn records_of_equal_length_take_the_same_steps_for_every_error() {
    let crypto = open_cbc_with_mac();
    for length in [32, 48, 256, 288, 1024] {
        let message = |padding: usize| vec![6; length - 20 - padding];
        let bad_mac = |mac: &mut [u8]| mac[19] ^= 1;
        let good = encrypted_record(&crypto, &message(1), |_| (), &padding(1));
        let good = process_record(&crypto, COP_DECRYPT, 0, &good);
        assert_eq!(good.answer, Ok(message(1)));
        let mut others = vec![
            (encrypted_record(&crypto, &message(12), |_| (), &padding(12)), Ok(message(12))),
            (encrypted_record(&crypto, &message(1), bad_mac, &padding(1)), Err(Errno::EBADMSG)),
            (encrypted_record(&crypto, &message(12), bad_mac, &padding(12)), Err(Errno::EBADMSG)),
            (encrypted_record(&crypto, &message(12), |_| (), &[&[0], &padding(12)[1..]].concat()), Err(Errno::EBADMSG)),
            (encrypted_record(&crypto, &message(12), |_| (), &[8; 12]), Err(Errno::EBADMSG)),
            (encrypted_record(&crypto, &message(12), |_| (), &[200; 12]), Err(Errno::EBADMSG)),
        ];
        if length >= 288 {
            others.push((encrypted_record(&crypto, &message(256), |_| (), &padding(256)), Ok(message(256))));
        }
        for (number, (encrypted_record, answer)) in others.into_iter().enumerate() {
            let opened = process_record(&crypto, COP_DECRYPT, 0, &encrypted_record);
            assert_eq!(opened.answer, answer, "{length}: {number}");
            assert_eq!(opened.steps, good.steps, "{length}: {number}");
        }
    }
}

#[test]
fn a_record_with_a_longer_mac_than_the_digest_is_refused() {
    let crypto = open_cbc_with_mac();
    for tag_length in [21, 64, 65, 100] {
        assert_eq!(
            process_record(&crypto, COP_DECRYPT, tag_length, &[0; 128]).answer,
            Err(Errno::EINVAL),
            "{tag_length}"
        );
    }
    assert_eq!(process_record(&crypto, COP_DECRYPT, 0, &[0; 16]).answer, Err(Errno::EINVAL), "shorter than the MAC");
}
