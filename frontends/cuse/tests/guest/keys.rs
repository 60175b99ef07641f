//! Keys in the memory of the server: they are there while a session is open, and at no other time.

use std::thread;
use std::time::Duration;

use gantry_lab::secrets;

use crate::client::{Crypto, Server};

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "200"]
    fn a_key_is_gone_when_its_session_is_closed() {
        gone_after(|crypto, sessions| {
            for session in sessions {
                crypto.close(session).unwrap();
            }
            Some(crypto)
        });
    }

    fn a_key_is_gone_when_its_file_is_closed() {
        gone_after(|_, _| None);
    }
}

/// Uses a key in sessions of each kind, and looks for it before and after they end.
fn gone_after(end: impl FnOnce(Crypto, Vec<u32>) -> Option<Crypto>) {
    let server = Server::start();
    // The kernel module has its keys elsewhere.
    let Some(process) = server.pid() else { return };
    let key = &secrets::key(32)[..];
    let copies = || secrets::copies(process, key).unwrap();
    let crypto = Crypto::open();
    // AES-CBC, HMAC-SHA256, and both.
    let sessions = [crypto.cipher(11, key), crypto.hash(18, key), crypto.both((11, key), (18, key))];
    let sessions: Vec<u32> = sessions.into_iter().map(Result::unwrap).collect();
    crypto.run(sessions[0], 0, &[0; 16], &[7; 64]).unwrap();
    crypto.digest(sessions[1], 0, &[7; 100], 32).unwrap();
    assert!(copies() > 0, "the key is nowhere while it is used");
    let _crypto = end(crypto, sessions);
    // The server learns of a closed file by a message of the kernel.
    while copies() > 0 {
        thread::sleep(Duration::from_millis(20));
    }
}
