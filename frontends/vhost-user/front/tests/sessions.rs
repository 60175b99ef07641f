//! Sessions belong to one guest, end when they are closed, and are limited in number.

mod common;

use common::server::Server;
use common::{ERR, INVSESS, KEY, NOSPC, NOTSUPP, assert_serves_another, assert_session_serves};
use gantry_abi_virtio_crypto::constants::{cipher, mac, operation};
use gantry_vhost_user::Limits;
use gantry_vhost_user_front::parameters::{Cipher, Digest, Layout, Parameters};
use gantry_vhost_user_front::{Error, Guest, Session, Setup};

fn cbc(key: &[u8]) -> Parameters<'_> {
    Parameters::Cipher(Cipher { algorithm: cipher::AES_CBC, key, encrypt: true })
}

/// Returns the status of the known answer's request with a session number that may be wrong.
fn status(guest: &mut Guest, id: u64) -> u8 {
    let request = common::known_answer_request(guest, Session { id, destroy_opcode: 0 });
    guest.run(0, &request).unwrap().status()
}

#[test]
fn a_session_of_another_guest_is_refused() {
    let server = Server::new(&[Limits::default(), Limits::default()]);
    for setup in [Setup::qemu(), Setup::generic()] {
        let mut owner = Guest::connect(&server.socket(0), &setup).unwrap();
        let mut other = Guest::connect(&server.socket(1), &setup).unwrap();
        let sessions: Vec<Session> = (0..20).map(|_| common::open_cbc(&mut owner)).collect();
        for session in &sessions {
            assert_eq!(status(&mut other, session.id), INVSESS);
            assert!(matches!(other.close(*session), Err(Error::SessionRefused(_))));
        }
        for session in sessions {
            assert_session_serves(&mut owner, session);
        }
        common::assert_served(&mut other);
    }
}

#[test]
fn an_unknown_session_number_is_refused() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu()).unwrap();
    let session = common::open_cbc(&mut guest);
    for id in [0, session.id + 1, session.id | 1 << 32, session.id | 1 << 63, i64::MAX as u64, u64::MAX] {
        assert_eq!(status(&mut guest, id), INVSESS, "{id:#x}");
        assert!(guest.close(Session { id, ..session }).is_err(), "{id:#x}");
    }
    assert_session_serves(&mut guest, session);
}

#[test]
fn a_closed_session_is_refused_and_its_number_not_reused() {
    let server = Server::new(&[Limits::default()]);
    for setup in [Setup::qemu(), Setup::generic()] {
        let mut guest = Guest::connect(&server.socket(0), &setup).unwrap();
        let closed = common::open_cbc(&mut guest);
        guest.close(closed).unwrap();
        assert_eq!(status(&mut guest, closed.id), INVSESS);
        assert!(guest.close(closed).is_err(), "a session is closed only once");
        let next = guest.open(&cbc(&[9; 16])).unwrap();
        assert_ne!(next.id, closed.id);
        assert_eq!(status(&mut guest, closed.id), INVSESS);
    }
}

#[test]
fn a_hundred_thousand_requests_open_no_more_sessions_than_the_limit() {
    let max_sessions = 100;
    let server = Server::new(&[Limits { sessions: max_sessions, ..Limits::default() }, Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu()).unwrap();
    let mut open = Vec::new();
    for number in 0..100_000_u32 {
        let mut key = KEY;
        key[..4].copy_from_slice(&number.to_le_bytes());
        match guest.open(&cbc(&key)) {
            Ok(session) => open.push(session),
            Err(Error::SessionRefused(status)) => assert!(status < 0, "{status}"),
            Err(error) => panic!("session {number}: {error}"),
        }
    }
    assert_eq!(open.len(), max_sessions);
    assert_serves_another(&server.socket(1));
    // Closing a session makes room for another.
    guest.close(open[0]).unwrap();
    let session = common::open_cbc(&mut guest);
    assert_session_serves(&mut guest, session);
    assert!(matches!(guest.open(&cbc(&KEY)), Err(Error::SessionRefused(_))));
}

#[test]
fn opening_and_closing_many_sessions_keeps_the_limit() {
    let server = Server::new(&[Limits { sessions: 4, ..Limits::default() }]);
    for setup in [Setup::qemu(), Setup::generic()] {
        let mut guest = Guest::connect(&server.socket(0), &setup).unwrap();
        for _ in 0..20_000 {
            let session = common::open_cbc(&mut guest);
            guest.close(session).unwrap();
        }
        for _ in 0..4 {
            common::open_cbc(&mut guest);
        }
        assert!(guest.open(&cbc(&KEY)).is_err());
    }
}

#[test]
fn the_control_queue_reports_why_it_opens_no_session() {
    let server = Server::new(&[Limits { sessions: 1, ..Limits::default() }]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::generic()).unwrap();
    let mut refused = |parameters: &Parameters<'_>| match guest.open(parameters) {
        Err(Error::SessionRefused(status)) => u8::try_from(status).unwrap(),
        other => panic!("{other:?}"),
    };
    let digest = |algorithm, result_length| Digest { algorithm, key: Some(&[1; 20]), result_length };
    assert_eq!(refused(&Parameters::Cipher(Cipher { algorithm: cipher::ARC4, key: &KEY, encrypt: true })), NOTSUPP);
    assert_eq!(refused(&Parameters::Cipher(Cipher { algorithm: 99, key: &KEY, encrypt: true })), NOTSUPP);
    assert_ne!(refused(&cbc(&[1; 17])), 0, "no AES has a key of 17 bytes");
    assert_ne!(refused(&cbc(&[])), 0);
    assert_eq!(refused(&Parameters::Mac(digest(mac::HMAC_SHA1, 21))), ERR, "SHA-1 has 20 bytes");
    assert_ne!(refused(&Parameters::Rsa { is_private: false, key: b"no DER", padding: 1, hash: 6 }), 0);
    let session = common::open_cbc(&mut guest);
    assert!(matches!(guest.open(&cbc(&KEY)), Err(Error::SessionRefused(status)) if status == i64::from(NOSPC)));
    assert_session_serves(&mut guest, session);
}

/// Lengths in a message that exceed the room for its keys.
#[test]
fn a_message_with_wrong_lengths_opens_no_session() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu()).unwrap();
    let digest = Digest { algorithm: mac::HMAC_SHA1, key: Some(&[1; 20]), result_length: 20 };
    let chain = Parameters::Chain {
        cipher: Cipher { algorithm: cipher::AES_CBC, key: &KEY, encrypt: true },
        digest,
        hash_first: false,
    };
    for layout in [Layout::Qemu7, Layout::Qemu10, Layout::Dpdk22] {
        let shift = if layout == Layout::Dpdk22 { 4 } else { 0 };
        let good = chain.message(layout).unwrap();
        // The length of the cipher's key, and of the MAC's.
        for at in [12 + shift, 24 + shift] {
            for lie in [65, 513, 0x8000_0000, u32::MAX - 3, u32::MAX] {
                let mut message = good.clone();
                message[at..at + 4].copy_from_slice(&u32::to_le_bytes(lie));
                let opened = guest.open_with_message(&message, layout.session_offset());
                // A MAC may have a key of 65 bytes: the message has room for 512.
                assert!(opened.is_err() || (lie == 65 && at == 24 + shift), "{layout:?}: {lie} at {at}");
            }
        }
        assert!(guest.open_with_message(&good, layout.session_offset()).is_ok());
    }
    common::assert_served(&mut guest);
}

#[test]
fn a_control_request_closes_only_sessions_of_its_own_guest() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::generic()).unwrap();
    let session = common::open_cbc(&mut guest);
    assert!(guest.close(Session { id: session.id + 7, destroy_opcode: operation::CIPHER_DESTROY_SESSION }).is_err());
    assert_session_serves(&mut guest, session);
    guest.close(session).unwrap();
}
