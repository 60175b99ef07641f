//! TLS records: refusals and their effect on the connection, numbers, and keys.

mod bursts;
#[path = "../common/mod.rs"]
mod common;
mod openssl;
mod wire;

use common::gantry;
use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_protocols::tls::content_type::APPLICATION_DATA;
use gantry_protocols::tls::{Aead, Epoch, Hmac, Inbound, MacOrder, Outbound, ParameterError, Suite};
use gantry_protocols::{Packet, PacketError};

/// A suite with the lengths of its key, IV and MAC key.
type SuiteWithKeyLengths = (Suite, usize, usize, usize);

const GCM13: SuiteWithKeyLengths = (Suite::Tls13(Aead::AesGcm), 16, 12, 0);
const GCM12: SuiteWithKeyLengths = (Suite::Tls12(Aead::AesGcm), 16, 4, 0);
const ENCRYPT_THEN_MAC: SuiteWithKeyLengths = (Suite::Tls12Cbc(Hmac::Sha256, MacOrder::EncryptThenMac), 16, 0, 32);
const MAC_THEN_ENCRYPT: SuiteWithKeyLengths = (Suite::Tls12Cbc(Hmac::Sha1, MacOrder::MacThenEncrypt), 16, 0, 20);
const MAX_CONTENT: usize = 1 << 14;

fn suites() -> Vec<SuiteWithKeyLengths> {
    let mut suites =
        vec![(Suite::Tls13(Aead::ChaCha20Poly1305), 32, 12, 0), (Suite::Tls12(Aead::ChaCha20Poly1305), 32, 12, 0)];
    for key in [16, 32] {
        for aead in [Aead::AesGcm, Aead::AesCcm, Aead::AesCcm8] {
            suites.extend([(Suite::Tls13(aead), key, 12, 0), (Suite::Tls12(aead), key, 4, 0)]);
        }
        for (hmac, mac_key) in [(Hmac::Sha1, 20), (Hmac::Sha256, 32), (Hmac::Sha384, 48)] {
            suites.extend(
                [MacOrder::EncryptThenMac, MacOrder::MacThenEncrypt]
                    .map(|order| (Suite::Tls12Cbc(hmac, order), key, 0, mac_key)),
            );
        }
    }
    suites
}

fn is_13(suite: SuiteWithKeyLengths) -> bool {
    matches!(suite.0, Suite::Tls13(_))
}

fn is_mac_then_encrypt(suite: SuiteWithKeyLengths) -> bool {
    matches!(suite.0, Suite::Tls12Cbc(_, MacOrder::MacThenEncrypt))
}

fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|at| seed.wrapping_mul(31).wrapping_add(at as u8)).collect()
}

fn epoch((suite, key, iv, mac_key): SuiteWithKeyLengths, seed: u8) -> Epoch {
    Epoch::new(suite, &bytes(key, seed), &bytes(iv, seed ^ 0x33)).mac_key(&bytes(mac_key, seed ^ 0x55))
}

fn ends(gantry: &Gantry, make: impl Fn() -> Epoch) -> (Outbound, Inbound) {
    (make().outbound(gantry).unwrap(), make().inbound(gantry).unwrap())
}

/// Returns a buffer with room around the content.
fn with_room(outbound: &Outbound, content: &[u8]) -> Vec<u8> {
    let (head, tail) = outbound.room();
    [&vec![0xEE; head][..], content, &vec![0xEE; tail]].concat()
}

fn within<'b>(outbound: &Outbound, buffer: &'b mut [u8], content_type: u8) -> Packet<'b> {
    let (head, tail) = outbound.room();
    let end = buffer.len() - tail;
    let mut packet = Packet::new(buffer, head..end);
    packet.content_type = content_type;
    packet
}

fn try_seal(outbound: &Outbound, content: &[u8], content_type: u8) -> Result<Vec<u8>, PacketError> {
    let mut buffer = with_room(outbound, content);
    let mut packet = within(outbound, &mut buffer, content_type);
    let result = outbound.seal(&mut packet);
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    result.map(|()| packet.data().to_vec())
}

fn sealed(outbound: &Outbound, content: &[u8], content_type: u8) -> Vec<u8> {
    try_seal(outbound, content, content_type).unwrap()
}

fn whole(wire: &mut [u8]) -> Packet<'_> {
    let length = wire.len();
    Packet::new(wire, 0..length)
}

fn opened(inbound: &Inbound, wire: &[u8]) -> Result<(Vec<u8>, u8), PacketError> {
    let mut buffer = wire.to_vec();
    let mut packet = whole(&mut buffer);
    let result = inbound.open(&mut packet);
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    result.map(|()| (packet.data().to_vec(), packet.content_type))
}

fn malformed<T>(result: &Result<T, PacketError>) -> bool {
    matches!(result, Err(PacketError::Malformed(_)))
}

/// Authentic TLS 1.3 records with malformed inner plaintexts.
#[test]
fn refuses_malformed_records_of_an_authentic_peer() {
    let gantry = gantry();
    let session = gantry.session(SessionParams::new(Algorithm::Aes128Gcm, &[7; 16])).unwrap();
    let open = |inner: &[u8]| {
        let header = [&[23, 3, 3][..], &(inner.len() as u16 + 16).to_be_bytes()].concat();
        let (mut data, mut tag) = (inner.to_vec(), [0; 16]);
        session.seal(&[9; 12], &header, &mut data, &mut tag).unwrap();
        let inbound = Epoch::new(GCM13.0, &[7; 16], &[9; 12]).inbound(&gantry).unwrap();
        let wire = [&header[..], &data, &tag].concat();
        let result = opened(&inbound, &wire);
        assert_eq!(result.is_err(), opened(&inbound, &wire) == Err(PacketError::Broken), "a refusal is fatal");
        result
    };
    assert_eq!(open(&[5, 23]), Ok((vec![5], 23)));
    assert_eq!(open(&[23, 0, 0]), Ok((vec![], 23)));
    assert_eq!(open(&[0, 0, 22, 0]), Ok((vec![0, 0], 22)));
    assert!(malformed(&open(&[0; 30])), "no type");
    assert!(malformed(&open(&[1, 20])), "a change of cipher");
    assert!(malformed(&open(&[22, 0, 0])) && malformed(&open(&[21])), "empty records of types that must not be empty");
    for content_type in (1..20).chain(25..=255) {
        assert!(malformed(&open(&[1, content_type])), "{content_type}");
    }
    let filled = |content: usize, zeros: usize| [&vec![1; content][..], &[23], &vec![0; zeros]].concat();
    assert_eq!(open(&filled(MAX_CONTENT, 0)).unwrap().0.len(), MAX_CONTENT);
    assert_eq!(open(&filled(1, MAX_CONTENT - 1)).unwrap().0.len(), 1);
    assert!(malformed(&open(&filled(MAX_CONTENT + 1, 0))) && malformed(&open(&filled(MAX_CONTENT, 1))));
    assert!(malformed(&open(&filled(1, MAX_CONTENT + 239))), "256 more bytes than content");
    assert!(malformed(&open(&filled(1, MAX_CONTENT + 300))), "more than that");
    // TLS 1.2 allows more expansion, but the same content.
    let (cbc, over) = (
        |content: usize| {
            let padding = vec![0xFF; 256];
            let (inbound, wire) =
                wire::cbc_record(&gantry, MacOrder::MacThenEncrypt, &vec![1; content], |_| (), &padding);
            opened(&inbound, &wire)
        },
        MAX_CONTENT + 12,
    );
    assert!(cbc(MAX_CONTENT - 4).is_ok() && malformed(&cbc(over)));
}

#[test]
fn refuses_changed_records_and_hides_their_plaintext() {
    let gantry = gantry();
    let content = b"nobody changes this";
    for suite in [GCM13, GCM12, ENCRYPT_THEN_MAC, MAC_THEN_ENCRYPT, (Suite::Tls13(Aead::ChaCha20Poly1305), 32, 12, 0)] {
        let outbound = epoch(suite, 3).outbound(&gantry).unwrap();
        let wire = sealed(&outbound, content, APPLICATION_DATA);
        let changed: Vec<Vec<u8>> = (0..wire.len() * 8)
            .map(|bit| {
                let mut wrong = wire.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                wrong
            })
            .collect();
        // Truncated records, with the old length and with a matching one; and longer records.
        let cut = (0..wire.len()).map(|length| wire[..length].to_vec());
        let short =
            (5..wire.len()).map(|length| [&wire[..3], &(length as u16 - 5).to_be_bytes(), &wire[5..length]].concat());
        let long = [16, 1].map(|more| {
            let length = (wire.len() - 5 + more) as u16;
            [&wire[..3], &length.to_be_bytes(), &wire[5..], &vec![0; more]].concat()
        });
        let too_long = [&wire[..], &[0]].concat();
        for mut wrong in changed.into_iter().chain(cut).chain(short).chain(long).chain([too_long]) {
            let before = wrong.clone();
            let mut inbound = epoch(suite, 3).inbound(&gantry).unwrap();
            let mut packet = whole(&mut wrong);
            let error = inbound.open(&mut packet).unwrap_err();
            assert!(matches!(error, PacketError::Malformed(_) | PacketError::Forged), "{suite:?}: {error}");
            if error == PacketError::Forged {
                assert!(packet.data().is_empty());
                assert!(!wrong.windows(8).any(|part| content.windows(8).any(|clear| part == clear)), "no plaintext");
            } else {
                assert!(packet.data() == before, "unchanged");
            }
            assert_eq!(opened(&inbound, &wire), Err(PacketError::Broken), "{suite:?}: the connection is over");
            assert!(matches!(inbound.rekey(&bytes(suite.1, 4), &bytes(suite.2, 4)), Err(ParameterError::Broken)));
        }
        let inbound = epoch(suite, 3).inbound(&gantry).unwrap();
        assert_eq!(opened(&inbound, &wire).unwrap().0, content);
    }
}

#[test]
fn opens_records_only_in_order() {
    let gantry = gantry();
    for suite in suites() {
        let outbound = epoch(suite, 4).outbound(&gantry).unwrap();
        let wires: Vec<_> = (0..4).map(|at| sealed(&outbound, &[at], APPLICATION_DATA)).collect();
        for (order, ends) in [([0, 1, 2, 3], 4), ([0, 2, 1, 3], 1), ([1, 0, 2, 3], 0), ([0, 1, 1, 2], 2)] {
            let inbound = epoch(suite, 4).inbound(&gantry).unwrap();
            for (place, at) in order.into_iter().enumerate() {
                let expected = match place {
                    _ if place < ends => Ok((vec![at as u8], APPLICATION_DATA)),
                    _ if place == ends => Err(PacketError::Forged),
                    _ => Err(PacketError::Broken),
                };
                assert_eq!(opened(&inbound, &wires[at]), expected, "{suite:?} {order:?}");
            }
        }
        // The keys belong to one direction.
        let other = epoch(suite, 5).inbound(&gantry).unwrap();
        assert_eq!(opened(&other, &wires[0]), Err(PacketError::Forged));
    }
}

#[test]
fn refuses_to_seal_after_the_last_number() {
    let gantry = gantry();
    let chacha = (Suite::Tls13(Aead::ChaCha20Poly1305), 32, 12, 0);
    let ccm = (Suite::Tls13(Aead::AesCcm), 16, 12, 0);
    for (suite, end) in
        [(GCM13, 23_726_566), (ccm, 1 << 23), (chacha, u64::MAX), (GCM12, u64::MAX), (MAC_THEN_ENCRYPT, u64::MAX)]
    {
        let (mut outbound, mut inbound) = ends(&gantry, || epoch(suite, 6).number(end - 2));
        assert_eq!((outbound.remaining(), outbound.number()), (2, end - 2));
        for _ in 0..2 {
            let wire = sealed(&outbound, b"one of the last", APPLICATION_DATA);
            assert!(opened(&inbound, &wire).is_ok());
        }
        let mut buffer = with_room(&outbound, b"one too many");
        let before = buffer.clone();
        assert_eq!(outbound.seal(&mut within(&outbound, &mut buffer, APPLICATION_DATA)), Err(PacketError::Exhausted));
        assert_eq!((outbound.remaining(), outbound.number(), &buffer), (0, end, &before));
        if end == u64::MAX {
            assert_eq!(opened(&inbound, &before), Err(PacketError::Exhausted));
        }
        if is_13(suite) {
            // New keys begin at number 0.
            let (key, iv) = (bytes(suite.1, 66), bytes(suite.2, 66));
            assert_eq!((outbound.rekey(&key, &iv), inbound.rekey(&key, &iv)), (Ok(()), Ok(())));
            assert_eq!((outbound.number(), inbound.number()), (0, 0));
            let wire = sealed(&outbound, b"again", APPLICATION_DATA);
            assert_eq!(opened(&Epoch::new(suite.0, &key, &iv).inbound(&gantry).unwrap(), &wire).unwrap().0, b"again");
            assert_eq!(opened(&inbound, &wire).unwrap().0, b"again");
            assert!(matches!(outbound.rekey(&key[1..], &iv), Err(ParameterError::Keys(_))));
        }
    }
    let mut outbound = epoch(MAC_THEN_ENCRYPT, 6).outbound(&gantry).unwrap();
    assert!(matches!(outbound.rekey(&[1; 16], &[]), Err(ParameterError::Keys("a MAC key as long as the digest"))));
}

/// Both epochs would count from 0 under the same key.
#[test]
fn refuses_to_rekey_with_the_last_key() {
    let gantry = gantry();
    for suite in suites().into_iter().filter(|suite| is_13(*suite)) {
        let (mut outbound, mut inbound) = ends(&gantry, || epoch(suite, 13));
        for (key, iv) in [0x3E, 14].map(|iv| (bytes(suite.1, 13), bytes(suite.2, iv))) {
            assert!(
                matches!(outbound.rekey(&key, &iv), Err(ParameterError::Keys("a key other than the last one"))),
                "{suite:?}"
            );
            assert!(
                matches!(inbound.rekey(&key, &iv), Err(ParameterError::Keys("a key other than the last one"))),
                "{suite:?}"
            );
        }
        // The old keys stay in use.
        let wire = sealed(&outbound, b"under the old key", APPLICATION_DATA);
        assert_eq!(opened(&inbound, &wire).unwrap().0, b"under the old key");
    }
}

#[test]
fn reports_unsuitable_keys() {
    let gantry = gantry();
    let wrong = |epoch: Epoch| epoch.outbound(&gantry).unwrap_err().to_string();
    assert_eq!(wrong(Epoch::new(GCM13.0, &[1; 24], &[1; 12])), "the suite takes a key of 16 or 32 bytes");
    assert_eq!(wrong(Epoch::new(GCM13.0, &[1; 16], &[1; 13])), "the suite takes an IV of 12 bytes");
    assert_eq!(wrong(Epoch::new(GCM12.0, &[1; 16], &[1; 12])), "the suite takes an IV of 4 bytes");
    assert_eq!(wrong(Epoch::new(GCM12.0, &[1; 16], &[1; 4]).mac_key(&[1])), "the suite takes no MAC key");
    let chacha = Suite::Tls12(Aead::ChaCha20Poly1305);
    assert_eq!(wrong(Epoch::new(chacha, &[1; 16], &[1; 12])), "the suite takes a key of 32 bytes");
    assert_eq!(
        wrong(Epoch::new(MAC_THEN_ENCRYPT.0, &[1; 16], &[1; 16])),
        "the suite takes no IV, because each record has its own"
    );
    assert_eq!(wrong(Epoch::new(MAC_THEN_ENCRYPT.0, &[1; 16], &[])), "the suite takes a MAC key as long as the digest");
    assert_eq!(
        wrong(epoch(GCM12, 1).pad_to(16)),
        "padding to a multiple of 16 bytes; TLS 1.3 allows 1 to 16384, and TLS 1.2 only 1"
    );
    let shown = format!("{:?}", epoch(GCM13, 9));
    assert_eq!(shown, "TLS Tls13(AesGcm), from 0, padded to 1");
    let (outbound, inbound) = ends(&gantry, || epoch(GCM13, 9));
    assert_eq!(format!("{outbound:?} {inbound:?}"), "TLS Tls13(AesGcm) out, at 0 TLS Tls13(AesGcm) in, at 0");
}
