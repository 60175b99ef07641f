//! Keys in the memory of the server: they exist only while a session is open.

use gantry_lab::{secrets, wait_until};

use crate::client::{Crypto, Server};

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "200"]
    fn a_key_is_wiped_when_its_session_is_closed() {
        assert_wiped_after(|crypto, sessions| {
            for session in sessions {
                crypto.close(session).unwrap();
            }
            Some(crypto)
        });
    }

    fn a_key_is_wiped_when_its_file_is_closed() {
        assert_wiped_after(|_, _| None);
    }
}

/// Uses a key in sessions of each kind, and looks for it before and after they end.
fn assert_wiped_after(end: impl FnOnce(Crypto, Vec<u32>) -> Option<Crypto>) {
    let server = Server::start();
    // The kernel module keeps its keys in the kernel's memory.
    let Some(process) = server.pid() else { return };
    let key = &secrets::key(32)[..];
    let copies = || secrets::count_copies(process, key).unwrap();
    let crypto = Crypto::open();
    // AES-CBC, HMAC-SHA256, and both.
    let sessions = [crypto.cipher(11, key), crypto.hash(18, key), crypto.cipher_and_mac((11, key), (18, key))];
    let sessions: Vec<u32> = sessions.into_iter().map(Result::unwrap).collect();
    crypto.run(sessions[0], 0, &[0; 16], &[7; 64]).unwrap();
    crypto.digest(sessions[1], 0, &[7; 100], 32).unwrap();
    assert!(copies() > 0, "the key is not in memory while it is used");
    let _crypto = end(crypto, sessions);
    // The server learns of a closed file by a message of the kernel.
    wait_until("no copy of the key is left", || copies() == 0);
}
