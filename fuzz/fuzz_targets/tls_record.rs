//! TLS records from strangers, and from a peer with the keys that sends any plaintext. Records that were not sealed are not opened,
//! no record yields another content, and sealed records come back unchanged.
#![no_main]

use std::sync::LazyLock;

use gantry_core::{Algorithm, Gantry, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::tls::content_type::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HEARTBEAT};
use gantry_protocols::tls::{Aead, Epoch, Header, Hmac, MacOrder, Suite};
use gantry_protocols::{Packet, PacketError};
use libfuzzer_sys::fuzz_target;

const KEY: [u8; 32] = [7; 32];
const MAC_KEY: [u8; 20] = [9; 20];
const IV: [u8; 16] = [5; 16];
const MAX_CONTENT: usize = 1 << 14;

static GANTRY: LazyLock<Gantry> = LazyLock::new(|| Gantry::builder().driver(&SoftwareDriver).build());

fn session(algorithm: Algorithm, key: &[u8], mac_key: &[u8]) -> Session {
    GANTRY.session(SessionParams::new(algorithm, key).with_mac_key(mac_key)).unwrap()
}

/// Sessions for GCM, for encrypt-then-MAC, and for the two steps of MAC-then-encrypt: CBC and HMAC.
static SESSIONS: LazyLock<[Session; 4]> = LazyLock::new(|| {
    [
        session(Algorithm::Aes256Gcm, &KEY, &[]),
        session(Algorithm::Aes256CbcHmacSha1, &KEY, &MAC_KEY),
        session(Algorithm::Aes256Cbc, &KEY, &[]),
        session(Algorithm::HmacSha1, &MAC_KEY, &[]),
    ]
});

const SUITES: [(Suite, usize, usize); 4] = [
    (Suite::Tls13(Aead::AesGcm), 12, 0),
    (Suite::Tls12(Aead::AesGcm), 4, 0),
    (Suite::Tls12Cbc(Hmac::Sha1, MacOrder::EncryptThenMac), 0, 20),
    (Suite::Tls12Cbc(Hmac::Sha1, MacOrder::MacThenEncrypt), 0, 20),
];

fn epoch(which: usize) -> Epoch {
    let (suite, iv, mac_key) = SUITES[which];
    Epoch::new(suite, &KEY, &IV[..iv]).mac_key(&MAC_KEY[..mac_key])
}

/// Opens a record as the first of an epoch, and returns its content and type.
fn open(which: usize, wire: &mut [u8]) -> Result<(Vec<u8>, u8), PacketError> {
    let length = wire.len();
    let mut packet = Packet::new(wire, 0..length);
    epoch(which).inbound(&GANTRY).unwrap().open(&mut packet)?;
    Ok((packet.data().to_vec(), packet.content_type))
}

fn is_allowed(content_type: u8, length: usize, is_13: bool) -> bool {
    let lowest = if is_13 { ALERT } else { CHANGE_CIPHER_SPEC };
    (lowest..=HEARTBEAT).contains(&content_type)
        && length <= MAX_CONTENT
        && (length > 0 || content_type == APPLICATION_DATA)
}

/// Returns the content of a plaintext with padding, by the letter of the RFCs.
fn unpadded_content(which: usize, data: &[u8], content_type: u8) -> Option<(Vec<u8>, u8)> {
    let (length, content_type) = match which {
        0 => {
            let place = data.iter().rposition(|byte| *byte != 0).filter(|_| data.len() <= MAX_CONTENT + 1)?;
            (place, data[place])
        }
        1 => (data.len(), content_type),
        _ => {
            let padding = usize::from(*data.last()?) + 1;
            let length = data.len().checked_sub(padding)?;
            (data[length..].iter().all(|byte| usize::from(*byte) + 1 == padding).then_some(length)?, content_type)
        }
    };
    is_allowed(content_type, length, which == 0).then(|| (data[..length].to_vec(), content_type))
}

/// Makes a record as a peer with the keys: `data` is the plaintext; with MAC-then-encrypt, the first `message` bytes get a valid MAC.
fn authentic_record(which: usize, data: &[u8], content_type: u8, message: usize) -> Vec<u8> {
    let [gcm, then_mac, cbc, mac] = &*SESSIONS;
    let outer = if which == 0 { APPLICATION_DATA } else { content_type };
    let header = |length: usize| [&[outer, 3, 3][..], &(length as u16).to_be_bytes()].concat();
    let pseudo = |length: usize| [&[0; 8], &header(length)[..]].concat();
    let (mut data, mut tag) = (data.to_vec(), [0; 20]);
    let (explicit_iv, length) = (&IV[..[0, 8, 16, 16][which]], data.len());
    match which {
        0 => gcm.seal(&IV[..12], &header(length + 16), &mut data, &mut tag[..16]).unwrap(),
        1 => gcm.seal(&[&IV[..4], explicit_iv].concat(), &pseudo(length), &mut data, &mut tag[..16]).unwrap(),
        2 => then_mac.seal(explicit_iv, &pseudo(16 + length), &mut data, &mut tag).unwrap(),
        _ => {
            mac.mac(&[&pseudo(message), &data[..message]].concat(), &mut tag).unwrap();
            data.splice(message..message, tag);
            cbc.encrypt(explicit_iv, &mut data).unwrap();
        }
    }
    let tag = &tag[..[16, 16, 20, 0][which]];
    [&header(explicit_iv.len() + data.len() + tag.len())[..], explicit_iv, &data, tag].concat()
}

fuzz_target!(|input: &[u8]| {
    let &[which, content_type, message, ref data @ ..] = input else { return };
    let which = usize::from(which) % SUITES.len();

    if let Ok(Some(header)) = Header::read(data) {
        assert!((5..=5 + MAX_CONTENT + 2048).contains(&header.length));
    }
    let mut wire = data.to_vec();
    assert!(open(which, &mut wire).is_err(), "an unauthentic record opened");

    let outbound = epoch(which).outbound(&GANTRY).unwrap();
    let (head, tail) = outbound.room();
    let mut buffer = [&vec![0; head][..], data, &vec![0; tail]].concat();
    let mut packet = Packet::new(&mut buffer, head..head + data.len());
    packet.content_type = content_type;
    let result = outbound.seal(&mut packet);
    assert_eq!(result.is_ok(), is_allowed(content_type, data.len(), which == 0));
    let mut wire = packet.data().to_vec();
    match result {
        Ok(()) => assert_eq!(open(which, &mut wire), Ok((data.to_vec(), content_type))),
        Err(_) => assert_eq!(wire, data),
    }

    // Whole blocks, including the MAC of MAC-then-encrypt.
    let mac_len = if which == 3 { 20 } else { 0 };
    let blocks = (data.len() + mac_len) / 16 * 16;
    let data = if which < 2 { data } else { &data[..blocks.saturating_sub(mac_len)] };
    if data.len() > MAX_CONTENT + 200 || (which >= 2 && data.is_empty()) {
        return;
    }
    let message = usize::from(message).min(data.len());
    let expected =
        unpadded_content(which, data, content_type).filter(|(content, _)| which != 3 || content.len() == message);
    let mut wire = authentic_record(which, data, content_type, message);
    assert_eq!(open(which, &mut wire).ok(), expected);
});
