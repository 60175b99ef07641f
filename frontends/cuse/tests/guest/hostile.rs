use std::ffi::c_void;
use std::ptr;

use gantry::{Algorithm, Session, SessionParams};
use gantry_abi_cryptodev::{COP_FLAG_FINAL, COP_FLAG_RESET, COP_FLAG_UPDATE, CryptAuthOp, Ioctl, Width};
use libc::{EBADMSG, EIO};

use crate::client::{Crypto, NOWHERE, Noise, Server, at, at_mut};

/// What all files of a user may have together. After the noise is closed all of it must be free again.
const SESSIONS: usize = 4096;
const BYTES: usize = 1 << 20;
/// Ioctls between two closings of the file that the noise goes to.
const FILE: usize = 500;
/// Ioctls between two that mean something.
const SENSE: usize = 20;

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "1200"]
    fn random_ioctls_break_nothing() {
        random(Server::start_as(0, &limits()), BYTES - 4096);
    }

    /// The kernel copies 128 KiB for a server, and no more.
    fn random_ioctls_break_no_server_without_rights() {
        random(Server::start_without_rights(&limits()), 120 << 10);
    }
}

fn limits() -> [(&'static str, String); 2] {
    [("SESSIONS", SESSIONS.to_string()), ("BYTES", BYTES.to_string())]
}

/// Structures of random fields, most of which mean something, and among them requests whose answers must be right. At the
/// end the server has what it had: memory, descriptors, threads, and room for its users.
fn random(mut server: Server, largest: usize) {
    let (calls, seed) = gantry_lab::random_calls();
    // Both kinds of server share them.
    let count = calls / 2;
    let mut noise = Noise(seed);
    let mut sense = Sense::new();
    let arena = Arena::new();
    let mut crypto = Crypto::open();
    let mut before = None;
    let (mut done, mut refused) = (0, 0);
    for turn in 0..count {
        let (code, mut bytes) = ioctl(&mut noise, arena.base, turn as u32);
        let argument =
            if noise.next().is_multiple_of(50) { noise.pick(&[0, NOWHERE, u64::MAX]) } else { at_mut(&mut bytes) };
        match crypto.raw(code, argument) {
            Ok(()) => done += 1,
            // A thread of the server that panicked says this.
            Err(EIO) => panic!("turn {turn}: {code:x} {bytes:x?}"),
            Err(_) => refused += 1,
        }
        if turn % SENSE == 0 {
            sense.check(&mut noise, turn);
        }
        if turn % FILE == FILE - 1 {
            crypto = Crypto::open();
            assert!(server.lives(), "after {turn}");
        }
        if turn == count / 2 {
            before = server.belongings();
        }
    }
    drop(crypto);
    if let (Some(before), Some(after)) = (before, server.belongings()) {
        println!("{done} done, {refused} refused; the server had {before:?}, and has {after:?}");
        assert!(after.memory < before.memory + 8192, "KiB leak");
        assert_eq!((after.descriptors, after.threads), (before.descriptors, before.threads));
        let room = SESSIONS - sense.sessions();
        let opened = (0..room).filter(|_| sense.crypto.hash(14, &[]).is_ok()).count();
        assert_eq!(opened, room, "sessions of closed files");
        assert!(sense.crypto.hash(14, &[]).is_err(), "one more than there is room for");
    }
    let data = noise.bytes(largest);
    assert!(sense.cbc(&data), "what no longer counts does not stand in the way of this");
    assert!(done > count / 100, "{done} of {count}");
}

/// Any ioctl with any fields.
fn ioctl(noise: &mut Noise, base: u64, turn: u32) -> (u32, Vec<u8>) {
    let ioctl = noise.pick(&Ioctl::ALL);
    let numbers = [0, 1, 2, 11, 14, 21, 22, 23, 25, 50, 51, 104, 7, 18, 108, 9999];
    let lengths = [0, 1, 12, 15, 16, 17, 20, 24, 32, 64, 65, 512, 513, 4096, 65536, 200_000, 1 << 31, 0xFFFF_FFFF];
    let mut bytes = vec![0; ioctl.size(Width::NATIVE).max(8)];
    for place in (0..bytes.len() / 4).map(|word| word * 4) {
        let value = match noise.next() % 6 {
            0 => noise.pick(&numbers),
            1 => noise.pick(&lengths),
            // About as many sessions were opened, this one among the last.
            2 => (turn / 4).wrapping_sub(noise.next() as u32 % 41),
            3 => noise.next() as u32,
            _ => 0,
        };
        bytes[place..place + 4].copy_from_slice(&value.to_ne_bytes());
    }
    for place in (0..bytes.len() / 8).map(|pointer| pointer * 8) {
        let value = match noise.next() % 8 {
            0..=2 => base + noise.next() % 4096,
            3 => noise.pick(&[0, NOWHERE, u64::MAX, u64::MAX - 15, 1 << 47, base + (1 << 20) - 8]),
            _ => continue,
        };
        bytes[place..place + 8].copy_from_slice(&value.to_ne_bytes());
    }
    let code = if noise.next().is_multiple_of(50) { noise.next() as u32 } else { ioctl.code(Width::NATIVE) };
    (code, bytes)
}

/// A mebibyte that anything may be written to, with nothing behind it that a long request could reach.
struct Arena {
    base: u64,
}

impl Arena {
    fn new() -> Self {
        let (bytes, behind) = (1 << 20, 64 << 20);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the system likes, and rights for a part of it that nothing refers to.
        let base: *mut c_void = unsafe {
            let base = libc::mmap(ptr::null_mut(), bytes + behind, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base, bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            base
        };
        Self { base: base.expose_provenance() as u64 }
    }
}

/// A program that makes sense, with sessions of its own, beside the devices themselves.
struct Sense {
    crypto: Crypto,
    cbc: (u32, Session),
    gcm: (u32, Session),
    mac: (u32, Session),
    digest: (u32, Session),
    /// The beginning of a message that the digest's session is in.
    begun: Vec<u8>,
}

impl Sense {
    fn new() -> Self {
        let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
        let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
        let crypto = Crypto::open();
        Self {
            cbc: (crypto.cipher(11, &[1; 16]).unwrap(), session(Algorithm::Aes128Cbc, &[1; 16])),
            gcm: (crypto.cipher(50, &[2; 32]).unwrap(), session(Algorithm::Aes256Gcm, &[2; 32])),
            mac: (crypto.hash(7, &[3; 20]).unwrap(), session(Algorithm::HmacSha1, &[3; 20])),
            digest: (crypto.hash(104, &[]).unwrap(), session(Algorithm::Sha256, &[])),
            crypto,
            begun: Vec::new(),
        }
    }

    /// How many it has.
    fn sessions(&self) -> usize {
        [self.cbc.0, self.gcm.0, self.mac.0, self.digest.0].len()
    }

    fn check(&mut self, noise: &mut Noise, turn: usize) {
        let length = 16 + noise.next() as usize % 1000;
        let data = noise.bytes(length);
        let right = match noise.next() % 4 {
            0 => self.cbc(&data[..length / 16 * 16]),
            1 => self.gcm(&data),
            2 => {
                let mut expected = [0; 20];
                self.mac.1.mac(&data, &mut expected).unwrap();
                self.crypto.digest(self.mac.0, 0, &data, 20) == Ok(expected.to_vec())
            }
            _ => self.digest(&data),
        };
        assert!(right, "a wrong answer after turn {turn}");
    }

    /// There and back.
    fn cbc(&self, data: &[u8]) -> bool {
        let mut expected = data.to_vec();
        self.cbc.1.encrypt(&[3; 16], &mut expected).unwrap();
        self.crypto.run(self.cbc.0, 0, &[3; 16], data).as_ref() == Ok(&expected)
            && self.crypto.run(self.cbc.0, 1, &[3; 16], &expected).as_deref() == Ok(data)
    }

    /// There, back, and not back with a forged tag.
    fn gcm(&self, data: &[u8]) -> bool {
        let (nonce, aad) = ([4; 12], [5; 20]);
        let (mut expected, mut tag) = (data.to_vec(), vec![0; 16]);
        self.gcm.1.seal(&nonce, &aad, &mut expected, &mut tag).unwrap();
        expected.extend(tag);
        let mut buffer = [data, &[0; 16]].concat();
        let place = at_mut(&mut buffer);
        let seal = CryptAuthOp {
            session: self.gcm.0,
            len: data.len() as u32,
            auth_len: 20,
            auth_src: at(&aad),
            src: place,
            dst: place,
            iv: at(&nonce),
            iv_len: 12,
            ..CryptAuthOp::default()
        };
        let open = CryptAuthOp { op: 1, len: expected.len() as u32, ..seal.clone() };
        let sealed = self.crypto.auth_crypt(seal).is_ok() && buffer == expected;
        let opened = self.crypto.auth_crypt(open.clone()).is_ok() && &buffer[..data.len()] == data;
        buffer.copy_from_slice(&expected);
        buffer[data.len()] ^= 1;
        sealed && opened && self.crypto.auth_crypt(open).is_err_and(|errno| errno == EBADMSG)
    }

    /// A message in pieces, with whatever happens in between.
    fn digest(&mut self, data: &[u8]) -> bool {
        let first = if self.begun.is_empty() { COP_FLAG_RESET } else { 0 };
        self.begun.extend(data);
        if self.begun.len() < 2000 {
            return self.crypto.digest(self.digest.0, COP_FLAG_UPDATE | first, data, 32).is_ok();
        }
        let mut expected = [0; 32];
        self.digest.1.digest(&std::mem::take(&mut self.begun), &mut expected).unwrap();
        self.crypto.digest(self.digest.0, COP_FLAG_UPDATE | COP_FLAG_FINAL, data, 32) == Ok(expected.to_vec())
    }
}
