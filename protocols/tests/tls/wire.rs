//! The layout of records: RFC 8448, other documents, and round trips of every suite, length and padding.

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_protocols::PacketError;
use gantry_protocols::tls::content_type::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEARTBEAT};
use gantry_protocols::tls::{Aead, Epoch, Header, Hmac, Inbound, MacOrder, ParameterError, Suite};

use super::common::{devices, gantry, hex};
use super::{
    GCM12, GCM13, MAC_THEN_ENCRYPT, MAX_CONTENT, bytes, ends, epoch, is_13, is_mac_then_encrypt, malformed, opened,
    sealed, suites, try_seal,
};

/// A record on the wire, the type of its content, and the content if the test knows it.
type Record<'r> = (&'r str, u8, Option<&'r [u8]>);

/// RFC 8448, 3: the records of a handshake under known keys, in both directions, each reproduced byte for byte.
#[test]
fn opens_and_reproduces_the_records_of_rfc_8448() {
    let data = (0..50).collect::<Vec<u8>>();
    let finished = hex("14000020a8ec436d677634ae525ac1fcebe11a039ec17694fac6e98527b642f2edd5ce61");
    let server_keys = ("9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984");
    let client_keys = ("17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9");
    let client_handshake = ("dbfaa693d1762c5b666af5d950258d01", "5bd3c71b836e0b76bb73265f");
    // The server's first record under these keys is a ticket of 201 bytes with a header of 4, which begins as checked below.
    let ticket = "17030300de3a6b8f90414a97d6959c3487680de5134a2b240e6cffac116e95d41d6af8f6b580dcf3d11d63c758db289a0159\
        40252f55713e061dc13e078891a38efbcf5753ad8ef170ad3c7353d16d9da773b9ca7f2b9fa1b6c0d4a3d03f75e09c30ba1e62972ac4\
        6f75f7b981be63439b2999ce13064615139891d5e4c5b406f16e3fc181a77ca475840025db2f0a77f81b5ab05b94c01346755f69232c\
        86519d86cbeeac87aac347d143f9605d64f650db4d023e70e952ca49fe5137121c74bc2697687e248746d6df353005f3bce18696129c\
        8153556b3b6c6779b37bf15985684f";
    let records: [((&str, &str), Vec<Record<'_>>); 3] = [
        (
            client_handshake,
            vec![(
                "170303003575ec4dc238cce60b298044a71e219c56cc77b0517fe9b93c7a4bfc44d87f38f80338ac98fc46deb384bd1caeac\
                 ab6867d726c40546",
                HANDSHAKE,
                Some(&finished),
            )],
        ),
        (
            client_keys,
            vec![
                (
                    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b\
                     62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4",
                    APPLICATION_DATA,
                    Some(&data),
                ),
                ("1703030013c9872760655666b74d7ff1153efd6db6d0b0e3", ALERT, Some(&[1, 0])),
            ],
        ),
        (
            server_keys,
            vec![
                (ticket, HANDSHAKE, None),
                (
                    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8\
                     fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d",
                    APPLICATION_DATA,
                    Some(&data),
                ),
                ("1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9", ALERT, Some(&[1, 0])),
            ],
        ),
    ];
    for gantry in devices() {
        for ((key, iv), records) in &records {
            let (outbound, inbound) = ends(&gantry, || Epoch::new(GCM13.0, &hex(key), &hex(iv)));
            for (wire, content_type, content) in records {
                let wire = hex(wire);
                let received = opened(&inbound, &wire).unwrap();
                assert_eq!(received.1, *content_type);
                match content {
                    Some(content) => assert_eq!(received.0, *content),
                    None => assert!(received.0.len() == 205 && received.0.starts_with(&[4, 0, 0, 0xC9])),
                }
                assert_eq!(sealed(&outbound, &received.0, *content_type), wire);
            }
        }
    }
}

#[test]
fn every_suite_round_trips_on_every_device() {
    let peer = gantry();
    for gantry in devices() {
        for (place, suite) in suites().into_iter().enumerate() {
            // One device seals, another opens.
            let outbound = epoch(suite, place as u8).outbound(&gantry).unwrap();
            let inbound = epoch(suite, place as u8).inbound(&gantry).unwrap();
            let other = epoch(suite, place as u8).inbound(&peer).unwrap();
            let (head, tail) = outbound.room();
            let lengths =
                if is_mac_then_encrypt(suite) { vec![0, 1, 15, 16, 300] } else { (0..70).chain([1400]).collect() };
            for length in lengths.into_iter().chain([MAX_CONTENT]) {
                let content = bytes(length, length as u8);
                for content_type in [APPLICATION_DATA, HANDSHAKE, ALERT, HEARTBEAT, CHANGE_CIPHER_SPEC] {
                    let fits = (length > 0 || content_type == APPLICATION_DATA)
                        && !(is_13(suite) && content_type == CHANGE_CIPHER_SPEC);
                    if !fits {
                        let before = outbound.number();
                        assert!(
                            malformed(&try_seal(&outbound, &content, content_type)),
                            "{suite:?} {length} {content_type}"
                        );
                        assert_eq!(outbound.number(), before);
                        continue;
                    }
                    let wire = sealed(&outbound, &content, content_type);
                    let least = length + head + if is_13(suite) { 1 + tail - 1 } else { 0 };
                    assert!((least..=length + head + tail).contains(&wire.len()), "{suite:?} {length}");
                    let header = Header::read(&wire).unwrap().unwrap();
                    assert_eq!(header.length, wire.len());
                    assert_eq!(header.content_type, if is_13(suite) { APPLICATION_DATA } else { content_type });
                    assert!(length < 16 || !wire.windows(16).any(|part| part == &content[..16]), "{suite:?} {length}");
                    for inbound in [&inbound, &other] {
                        let received =
                            opened(inbound, &wire).unwrap_or_else(|error| panic!("{suite:?} {length}: {error}"));
                        assert!(received == (content.clone(), content_type), "{suite:?} {length}");
                    }
                }
            }
            assert_eq!((outbound.number(), other.number()), (inbound.number(), inbound.number()));
            assert!(malformed(&try_seal(&outbound, &vec![0; MAX_CONTENT + 1], APPLICATION_DATA)));
        }
    }
}

/// Builds each record a second time, with one session per algorithm.
#[test]
fn records_have_the_layout_of_the_rfcs() {
    let gantry = gantry();
    let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
    let content = b"content of 27 bytes, a line";
    let number = 0x0102_0304_0506_0708_u64;
    let before =
        |length: usize| [&number.to_be_bytes()[..], &[HANDSHAKE, 3, 3], &(length as u16).to_be_bytes()].concat();
    for suite in suites() {
        if suite.1 != 32 || is_13(suite) && suite.0 != Suite::Tls13(Aead::ChaCha20Poly1305) {
            continue;
        }
        let (key, iv, mac_key) = (bytes(suite.1, 1), bytes(suite.2, 1 ^ 0x33), bytes(suite.3, 1 ^ 0x55));
        let wire = sealed(&epoch(suite, 1).number(number).outbound(&gantry).unwrap(), content, HANDSHAKE);
        let (header, rest) = wire.split_at(5);
        assert_eq!(header[1..], [&[3, 3][..], &(rest.len() as u16).to_be_bytes()].concat());
        let mut data = content.to_vec();
        match suite.0 {
            Suite::Tls13(_) | Suite::Tls12(Aead::ChaCha20Poly1305) => {
                let mut nonce = iv;
                nonce.iter_mut().skip(4).zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
                let aad = if is_13(suite) { header.to_vec() } else { before(content.len()) };
                data.extend(is_13(suite).then_some(HANDSHAKE));
                let mut tag = [0; 16];
                session(Algorithm::ChaCha20Poly1305, &key).seal(&nonce, &aad, &mut data, &mut tag).unwrap();
                assert_eq!(rest, [&data[..], &tag].concat());
            }
            Suite::Tls12(aead) => {
                let mut tag = vec![0; if aead == Aead::AesCcm8 { 8 } else { 16 }];
                let algorithm = if aead == Aead::AesGcm { Algorithm::Aes256Gcm } else { Algorithm::Aes256Ccm };
                let params = SessionParams::new(algorithm, &key).with_tag_len(tag.len());
                let nonce = [&iv[..], &number.to_be_bytes()].concat();
                gantry.session(params).unwrap().seal(&nonce, &before(content.len()), &mut data, &mut tag).unwrap();
                assert_eq!(rest, [&number.to_be_bytes()[..], &data, &tag].concat());
            }
            Suite::Tls12Cbc(hmac, order) => {
                let algorithm = [Algorithm::HmacSha1, Algorithm::HmacSha256, Algorithm::HmacSha384][hmac as usize];
                let mut mac = vec![0; suite.3];
                let mut own_mac =
                    |parts: &[&[u8]]| session(algorithm, &mac_key).mac(&parts.concat(), &mut mac).unwrap();
                let (own, encrypted) = rest.split_at(16);
                let encrypted = match order {
                    MacOrder::EncryptThenMac => {
                        let (encrypted, tag) = encrypted.split_at(encrypted.len() - suite.3);
                        own_mac(&[&before(16 + encrypted.len()), own, encrypted]);
                        assert_eq!(tag, mac);
                        encrypted
                    }
                    MacOrder::MacThenEncrypt => {
                        own_mac(&[&before(content.len()), content]);
                        data.extend(&mac);
                        encrypted
                    }
                };
                let padding = 16 - data.len() % 16;
                data.extend(vec![padding as u8 - 1; padding]);
                session(Algorithm::Aes256Cbc, &key).encrypt(own, &mut data).unwrap();
                assert_eq!(encrypted, data);
            }
            _ => unreachable!(),
        }
    }
}

/// Builds a TLS 1.2 record with AES-CBC, this padding, and a MAC changed by `forge`. Returns it with a receiving end.
pub(super) fn cbc_record(
    gantry: &Gantry,
    order: MacOrder,
    content: &[u8],
    forge: impl Fn(&mut [u8]),
    padding: &[u8],
) -> (Inbound, Vec<u8>) {
    let (key, mac_key, iv) = ([3; 16], [4; 20], [5; 16]);
    let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
    let (cipher, hmac) = (session(Algorithm::Aes128Cbc, &key), session(Algorithm::HmacSha1, &mac_key));
    let mac = |length: usize, parts: &[&[u8]]| {
        let mut mac = [0; 20];
        let before = [&[0; 8][..], &[APPLICATION_DATA, 3, 3], &(length as u16).to_be_bytes()].concat();
        hmac.mac(&[&before, &parts.concat()[..]].concat(), &mut mac).unwrap();
        forge(&mut mac);
        mac
    };
    let rest = match order {
        MacOrder::EncryptThenMac => {
            let mut data = [content, padding].concat();
            cipher.encrypt(&iv, &mut data).unwrap();
            let mac = mac(16 + data.len(), &[&iv, &data]);
            [&data[..], &mac].concat()
        }
        MacOrder::MacThenEncrypt => {
            let mut data = [content, &mac(content.len(), &[content]), padding].concat();
            cipher.encrypt(&iv, &mut data).unwrap();
            data
        }
    };
    let length = (16 + rest.len()) as u16;
    let wire = [&[APPLICATION_DATA, 3, 3][..], &length.to_be_bytes(), &iv, &rest].concat();
    let inbound = Epoch::new(Suite::Tls12Cbc(Hmac::Sha1, order), &key, &[]).mac_key(&mac_key).inbound(gantry).unwrap();
    (inbound, wire)
}

#[test]
fn opens_every_valid_padding_of_cbc_and_no_other() {
    let all = devices();
    for order in [MacOrder::EncryptThenMac, MacOrder::MacThenEncrypt] {
        let tag = if order == MacOrder::MacThenEncrypt { 20 } else { 0 };
        for padding in 1..=256_usize {
            // Each padding length once, on alternating devices, with the wrong byte at moving places.
            let gantry = &all[padding % all.len()];
            let content = bytes((512 - padding - tag) % 16 + padding % 3 * 16, padding as u8);
            let valid = vec![(padding - 1) as u8; padding];
            let open = |forge: fn(&mut [u8]), padding: &[u8]| {
                let (inbound, wire) = cbc_record(gantry, order, &content, forge, padding);
                opened(&inbound, &wire)
            };
            assert_eq!(open(|_| (), &valid), Ok((content.clone(), APPLICATION_DATA)), "{order:?} {padding}");
            let lies = |result| match order {
                MacOrder::EncryptThenMac => malformed(&result),
                // The verdict does not tell whether padding or MAC was wrong.
                MacOrder::MacThenEncrypt => result == Err(PacketError::Forged),
            };
            let mut wrong = valid.clone();
            wrong[padding * 7 % padding] ^= 0x80;
            assert!(padding == 1 || lies(open(|_| (), &wrong)), "{order:?} {padding}");
            let longer = vec![valid[0].wrapping_add(16); padding];
            assert!(padding > 240 || lies(open(|_| (), &longer)), "{order:?} {padding}");
            assert_eq!(open(|mac| mac[19] ^= 1, &valid), Err(PacketError::Forged), "{order:?} {padding}");
            assert_eq!(open(|mac| mac[0] ^= 0x80, &wrong), Err(PacketError::Forged), "{order:?} {padding}");
        }
        // More padding than record.
        let (inbound, wire) = cbc_record(&all[0], order, &[], |_| (), &vec![0xFF; 48 - tag]);
        assert!(opened(&inbound, &wire).is_err());
    }
}

#[test]
fn pads_records_on_request_and_removes_the_padding() {
    let gantry = gantry();
    for pad_to in [1, 2, 16, 100, 255, 256, 4096, MAX_CONTENT] {
        let (outbound, inbound) = ends(&gantry, || epoch(GCM13, 7).pad_to(pad_to));
        for length in (0..40).chain([99, 100, 101, 4095, 4096, MAX_CONTENT - 1, MAX_CONTENT]) {
            // Trailing zeros of the content are kept.
            let content = vec![0; length];
            let wire = sealed(&outbound, &content, APPLICATION_DATA);
            let inner = (length + 1).next_multiple_of(pad_to).min(MAX_CONTENT + 1);
            assert_eq!(wire.len(), 5 + inner + 16, "{length} padded to {pad_to}");
            assert_eq!(opened(&inbound, &wire), Ok((content, APPLICATION_DATA)));
        }
    }
    for (suite, pad_to) in [(GCM13, 0), (GCM13, MAX_CONTENT + 1), (GCM12, 2), (MAC_THEN_ENCRYPT, 16)] {
        let result = epoch(suite, 7).pad_to(pad_to).outbound(&gantry);
        assert!(matches!(result, Err(ParameterError::Padding(got)) if got == pad_to));
    }
}
