//! Encoded structures parse to equal values in every layout, and invalid bytes are rejected.

use gantry_abi_virtio_crypto::constants::{FLAG_SESSION_MODE, operation, service};
use gantry_abi_virtio_crypto::session::*;
use gantry_abi_virtio_crypto::vhost_user::{Create, Layout};
use gantry_abi_virtio_crypto::{Error, Features, Status, control, data};
use zeroize::Zeroizing;

/// REVISION_1 alone.
const REVISION_1: Features = Features::from_bits(1);
/// REVISION_1 with all stateless features.
const STATELESS: Features = Features::from_bits(0x3f);

const CIPHER: Cipher = Cipher { algo: 3, key_len: 16, op: Direction::Encrypt };
const CHAIN: Chain = Chain {
    order: Order::HashThenCipher,
    hash_mode: HashMode::Auth,
    cipher: CIPHER,
    hash_algo: 2,
    hash_result_len: 20,
    auth_key_len: 21,
    aad_len: 22,
};

fn sessions() -> Vec<Session> {
    let rsa = PublicKey::Rsa { padding: Padding::Pkcs1, hash: 6 };
    let other = PublicKey::Other { algo: 2, curve: 3 };
    vec![
        Session::Cipher(CIPHER),
        Session::Chain(CHAIN),
        Session::Chain(Chain { hash_mode: HashMode::Plain, auth_key_len: 0, ..CHAIN }),
        Session::Hash(Hash { algo: 4, result_len: 32 }),
        Session::Mac(Mac { algo: 4, result_len: 32, key_len: 33 }),
        Session::Aead(Aead { algo: 1, key_len: 16, tag_len: 12, aad_len: 13, op: Direction::Decrypt }),
        Session::Akcipher(Akcipher { key_type: KeyType::Public, key_len: 270, algorithm: rsa }),
        Session::Akcipher(Akcipher { key_type: KeyType::Private, key_len: 121, algorithm: other }),
    ]
}

#[test]
fn sessions_round_trip() {
    for features in [Features::LEGACY, REVISION_1] {
        for session in sessions() {
            let request = control::Request::Create(session);
            let bytes = request.encode(0, features);
            let header = control::Header::parse(&bytes).unwrap();
            assert_eq!(bytes.len(), control::HEADER_LEN + header.fixed_length(features).unwrap());
            assert_eq!(control::Request::parse(&header, &bytes[control::HEADER_LEN..]), Ok(request));
        }
        for service in service::CIPHER..=service::AKCIPHER {
            let bytes = control::Request::Destroy(7).encode(service, features);
            let header = control::Header::parse(&bytes).unwrap();
            assert!(header.is_destroy() && header.opcode >> 8 == service);
            let destroy = control::Request::parse(&header, &bytes[control::HEADER_LEN..]);
            assert_eq!(destroy, Ok(control::Request::Destroy(7)));
        }
    }
    assert_eq!(control::parse_created(&control::encode_created(9, Status::Ok)), Ok((9, Status::Ok)));
}

/// Returns for each service an operation, its lengths, and the parameters of a request without a session.
fn requests() -> Vec<(u32, data::OperandLengths, Session)> {
    let chain = data::ChainLengths {
        iv_len: 16,
        source_len: 100,
        destination_len: 101,
        cipher_start: 1,
        cipher_len: 2,
        hash_start: 3,
        hash_len: 4,
        aad_len: 22,
        result_len: 20,
    };
    let aead =
        data::OperandLengths::Aead { iv_len: 12, aad_len: 13, source_len: 100, destination_len: 112, tag_len: 12 };
    let key = sessions().into_iter().find(|session| matches!(session, Session::Akcipher(_))).unwrap();
    vec![
        (
            operation::CIPHER_DECRYPT,
            data::OperandLengths::Cipher { iv_len: 16, source_len: 100, destination_len: 101 },
            Session::Cipher(CIPHER),
        ),
        (
            operation::CIPHER_ENCRYPT,
            data::OperandLengths::Chain(chain),
            Session::Chain(Chain { hash_result_len: 0, ..CHAIN }),
        ),
        (operation::HASH, data::OperandLengths::Hash { source_len: 100, result_len: 32 }, sessions()[3]),
        (operation::MAC, data::OperandLengths::Mac { source_len: 100, result_len: 32 }, sessions()[4]),
        (operation::AEAD_ENCRYPT, aead, sessions()[5]),
        (operation::AKCIPHER_SIGN, data::OperandLengths::Akcipher { source_len: 32, destination_len: 256 }, key),
        (operation::AKCIPHER_VERIFY, data::OperandLengths::Akcipher { source_len: 256, destination_len: 32 }, key),
    ]
}

#[test]
fn requests_round_trip() {
    for (opcode, lengths, session) in requests() {
        for (features, flag, session_parameters) in [
            (Features::LEGACY, 0, None),
            (REVISION_1, FLAG_SESSION_MODE, None),
            (STATELESS, FLAG_SESSION_MODE, None),
            (STATELESS, 0, Some(session)),
        ] {
            let header = data::Header { opcode, algo: 5, session_id: 6, flag };
            let request = data::Request { session_parameters, lengths, has_stateless_layout: features == STATELESS };
            let bytes = request.encode(&header, features);
            assert_eq!(data::Header::parse(&bytes), Ok(header));
            assert_eq!(bytes.len(), data::HEADER_LEN + header.fixed_length(features).unwrap());
            assert_eq!(
                data::Request::parse(&header, &bytes[data::HEADER_LEN..], features),
                Ok(request),
                "{features:?}"
            );
        }
    }
}

#[test]
fn parts_have_the_order_of_the_specification() {
    let header = |opcode| data::Header { opcode, algo: 0, session_id: 0, flag: 0 };
    let [cipher, chain, .., verify] = &requests()[..] else { unreachable!() };
    let ranges = |request: &(u32, data::OperandLengths, Session), session_parameters| {
        data::Request { session_parameters, lengths: request.1, has_stateless_layout: session_parameters.is_some() }
            .readable_ranges(&header(request.0))
    };
    let session = ranges(chain, None);
    assert_eq!((session.iv, session.source, session.aad, session.total_len), (0..16, 16..116, 116..138, 138));
    let stateless = ranges(chain, Some(chain.2));
    assert_eq!((stateless.key, stateless.auth_key, stateless.iv), (0..16, 16..37, 37..53));
    assert_eq!((stateless.aad, stateless.source, stateless.total_len), (53..75, 75..175, 175));
    let verification = ranges(verify, None);
    assert_eq!((verification.source, verification.aad, verification.total_len), (0..256, 256..288, 288));
    let writable = |request: &(u32, data::OperandLengths, Session)| {
        data::Request { session_parameters: None, lengths: request.1, has_stateless_layout: false }
            .writable_lengths(&header(request.0))
    };
    assert_eq!((writable(cipher), writable(chain), writable(verify)), ((101, 0), (101, 20), (0, 0)));
}

#[test]
fn lengths_of_four_gibibytes_do_not_wrap() {
    let lengths = data::OperandLengths::Aead {
        iv_len: u32::MAX,
        aad_len: u32::MAX,
        source_len: u32::MAX,
        destination_len: 0,
        tag_len: 0,
    };
    let header = data::Header { opcode: operation::AEAD_ENCRYPT, algo: 0, session_id: 0, flag: 0 };
    let ranges =
        data::Request { session_parameters: None, lengths, has_stateless_layout: false }.readable_ranges(&header);
    assert_eq!(ranges.total_len, 3 * u64::from(u32::MAX));
}

#[test]
fn truncated_or_unknown_input_is_an_error() {
    for (opcode, lengths, session) in requests() {
        for (flag, session_parameters) in [(FLAG_SESSION_MODE, None), (0, Some(session))] {
            let header = data::Header { opcode, algo: 0, session_id: 0, flag };
            let bytes =
                data::Request { session_parameters, lengths, has_stateless_layout: true }.encode(&header, STATELESS);
            // The shortest fixed part has 16 bytes, so each is truncated to all lengths below 8 bytes.
            let needed = bytes.len() - data::HEADER_LEN - 8;
            for length in 0..needed.min(8) {
                let cut = data::Request::parse(&header, &bytes[data::HEADER_LEN..data::HEADER_LEN + length], STATELESS);
                assert_eq!(cut, Err(Error::Short), "{opcode:#x}");
            }
        }
    }
    for opcode in [4, 0x104, 0x500, u32::MAX] {
        let header = data::Header { opcode, algo: 0, session_id: 0, flag: 0 };
        assert_eq!(header.fixed_length(STATELESS), Err(Error::Operation(opcode)));
        assert_eq!(Error::Operation(opcode).status(), Status::NotSupported);
        let header = control::Header { opcode, algo: 0, flag: 0, queue_id: 0 };
        assert_eq!(control::Request::parse(&header, &[0; 56]), Err(Error::Operation(opcode)));
    }
    for (at, field) in [(control::HEADER_LEN + 8, "op"), (control::HEADER_LEN + 48, "op_type")] {
        let mut bytes = control::Request::Create(Session::Cipher(CIPHER)).encode(0, Features::LEGACY);
        bytes[at] = 9;
        let header = control::Header::parse(&bytes).unwrap();
        assert_eq!(control::Request::parse(&header, &bytes[control::HEADER_LEN..]), Err(Error::Value(field)));
    }
}

fn create(layout: Layout, session: Session) -> Create {
    let key = |length| Zeroizing::new((1..=length as u8).collect::<Vec<_>>());
    Create { layout, session, key: key(session.key_len() % 200), auth_key: key(session.auth_key_len()) }
}

#[test]
fn vhost_user_messages_round_trip_in_all_layouts() {
    for layout in [Layout::Symmetric, Layout::Shifted, Layout::Tagged] {
        for session in [Session::Cipher(CIPHER), Session::Chain(CHAIN)] {
            let create = create(layout, session);
            let mut payload = create.encode().unwrap();
            assert_eq!(payload.len(), layout.length());
            let read = Create::parse(&payload).unwrap();
            assert_eq!((read.layout, read.session), (layout, session));
            assert_eq!((&read.key, &read.auth_key), (&create.key, &create.auth_key));
            layout.write_answer(&mut payload, -1).unwrap();
            assert_eq!(layout.parse_answer(&payload), Ok(-1));
            assert!(Create::parse(&payload[..payload.len() - 1]).is_err());
        }
    }
}

/// The offsets are those of QEMU 10's `VhostUserCryptoSession`: the key follows 32 bytes of parameters.
#[test]
fn public_keys_use_the_tagged_layout() {
    let rsa = PublicKey::Rsa { padding: Padding::Raw, hash: 0 };
    let session = Session::Akcipher(Akcipher { key_type: KeyType::Private, key_len: 100, algorithm: rsa });
    let create = create(Layout::Tagged, session);
    let payload = create.encode().unwrap();
    assert_eq!(payload[..2], [4, 4]);
    assert_eq!(payload[40..43], [1, 2, 3]);
    let read = Create::parse(&payload).unwrap();
    assert_eq!((read.session, &read.key), (session, &create.key));
    assert!(Create { layout: Layout::Symmetric, ..create }.encode().is_none());
}

#[test]
fn an_ecb_session_in_the_symmetric_layout_is_not_detected_as_shifted() {
    let ecb = Session::Cipher(Cipher { algo: 2, ..CIPHER });
    let read = Create::parse(&create(Layout::Symmetric, ecb).encode().unwrap()).unwrap();
    assert_eq!((read.layout, read.session), (Layout::Symmetric, ecb));
}

#[test]
fn keys_longer_than_their_field_are_refused_and_never_printed() {
    let long = Session::Cipher(Cipher { key_len: 65, ..CIPHER });
    let payload = create(Layout::Tagged, long).encode().unwrap();
    assert_eq!(Create::parse(&payload).unwrap_err(), Error::Value("key_len"));
    let printed = format!("{:?}", create(Layout::Tagged, Session::Cipher(CIPHER)));
    assert!(!printed.contains("3, 4, 5"), "{printed}");
}
