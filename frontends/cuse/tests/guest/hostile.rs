//! Random ioctls, most of them nearly valid, mixed with requests whose answers are checked.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use gantry_abi_cryptodev::{
    COP_FLAG_FINAL, COP_FLAG_RESET, COP_FLAG_UPDATE, CopyHashOp, CryptAuthOp, CryptOp, Ioctl, SessionOp, Width,
};
use gantry_core::{Algorithm, Session, SessionParams};
use libc::{EBADMSG, EIO};

use crate::client::{Crypto, Rng, Server, UNMAPPED_ADDRESS, address_of, address_of_mut};

/// Limits of a user. After the random file is closed, all its resources must be free again.
const MAX_SESSIONS: usize = 4096;
const MAX_BYTES: usize = 1 << 20;
/// Ioctls after which the random file is reopened.
const REOPEN_INTERVAL: usize = 500;
/// Ioctls after which a valid request is checked.
const CHECK_INTERVAL: usize = 20;
/// Half of the ioctls are drawn from this list, so that sessions are used, and opened more often than closed.
const FREQUENT: [Ioctl; 8] = [
    Ioctl::OpenSession,
    Ioctl::OpenSession,
    Ioctl::Crypt,
    Ioctl::Crypt,
    Ioctl::AuthCrypt,
    Ioctl::AuthCrypt,
    Ioctl::AuthCrypt,
    Ioctl::CopyHash,
];

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "1200"]
    fn random_ioctls_break_nothing() {
        check_random_ioctls(Server::start_as(0, &limits()), MAX_BYTES - 4096);
    }

    /// The kernel copies at most 128 KiB for a server.
    fn random_ioctls_do_not_break_a_server_without_rights() {
        check_random_ioctls(Server::start_without_rights(&limits()), 120 << 10);
    }
}

fn limits() -> [(&'static str, String); 2] {
    [("SESSIONS", MAX_SESSIONS.to_string()), ("BYTES", MAX_BYTES.to_string())]
}

/// Issues structures of random fields, most of them valid, mixed with requests whose answers are checked. At the end the
/// server must have the same resources: memory, descriptors, threads, and room for its users.
fn check_random_ioctls(mut server: Server, max_request_bytes: usize) {
    let (calls, seed) = gantry_lab::random_calls();
    // The ioctls are split between both kinds of server.
    let count = calls / 2;
    let mut rng = Rng(seed);
    let mut checker = Checker::new();
    let arena = Arena::new();
    let mut crypto = Crypto::open();
    // Sessions of the currently open file.
    let mut sessions = Vec::new();
    let mut before = None;
    // Successes of each ioctl.
    let mut successes: BTreeMap<u32, usize> = BTreeMap::new();
    for turn in 0..count {
        let (code, mut bytes) = IoctlGenerator { rng: &mut rng, base: arena.base, sessions: &sessions }.ioctl();
        let argument = if rng.next().is_multiple_of(50) {
            rng.pick(&[0, UNMAPPED_ADDRESS, u64::MAX])
        } else {
            address_of_mut(&mut bytes)
        };
        match crypto.ioctl(code, argument) {
            Ok(()) => {
                *successes.entry(code).or_default() += 1;
                if code == Ioctl::OpenSession.code(Width::NATIVE) {
                    sessions.push(SessionOp::from_bytes(&bytes, Width::NATIVE).unwrap().session);
                }
                if code == Ioctl::GetDescriptor.code(Width::NATIVE) {
                    let number = i32::from_ne_bytes(bytes[..4].try_into().unwrap());
                    // SAFETY: a new descriptor without another owner. It keeps the file open until it is closed.
                    drop(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
            // EIO is the answer of a server thread that panicked.
            Err(EIO) => panic!("turn {turn}: {code:x} {bytes:x?}"),
            Err(_) => {}
        }
        if turn % CHECK_INTERVAL == 0 {
            checker.check(&mut rng, turn);
        }
        if turn % REOPEN_INTERVAL == REOPEN_INTERVAL - 1 {
            crypto = Crypto::open();
            sessions.clear();
            assert!(server.is_running(), "after {turn}");
        }
        if turn == count / 2 {
            before = server.resources();
        }
    }
    drop(crypto);
    let successes: Vec<(Ioctl, usize)> =
        Ioctl::ALL.into_iter().filter_map(|ioctl| Some((ioctl, *successes.get(&ioctl.code(Width::NATIVE))?))).collect();
    println!("successes among {count}: {successes:?}");
    if let (Some(before), Some(after)) = (before, server.resources()) {
        println!("the server had {before:?}, and has {after:?}");
        assert!(after.memory < before.memory + 8192, "KiB leak");
        assert_eq!((after.descriptors, after.threads), (before.descriptors, before.threads));
        let room = MAX_SESSIONS - checker.session_count();
        let opened = (0..room).filter(|_| checker.crypto.hash(14, &[]).is_ok()).count();
        assert_eq!(opened, room, "sessions of closed files");
        assert!(checker.crypto.hash(14, &[]).is_err(), "one more than the limit");
    }
    let data = rng.bytes(max_request_bytes);
    assert!(checker.check_cbc(&data), "finished requests no longer count");
    // Ioctls that are always invalid would test little.
    for ioctl in
        [Ioctl::OpenSession, Ioctl::CloseSession, Ioctl::SessionInfo, Ioctl::Crypt, Ioctl::AuthCrypt, Ioctl::CopyHash]
    {
        let times = successes.iter().find(|(name, _)| *name == ioctl).map_or(0, |(_, times)| *times);
        assert!(times > count / 500, "{ioctl:?} succeeded {times} times");
    }
}

/// Draws ioctls. Each field has a usual value in seven of eight cases, so that many structures are valid, and many nearly
/// so.
struct IoctlGenerator<'a> {
    rng: &'a mut Rng,
    /// The usual target of pointers.
    base: u64,
    sessions: &'a [u32],
}

impl IoctlGenerator<'_> {
    /// Draws the number and the structure of an ioctl.
    fn ioctl(mut self) -> (u32, Vec<u8>) {
        if self.rng.next().is_multiple_of(50) {
            return (self.rng.next() as u32, self.rng.bytes(256));
        }
        let ioctl = match self.rng.next() % 2 {
            0 => self.rng.pick(&Ioctl::ALL),
            _ => self.rng.pick(&FREQUENT),
        };
        let mut bytes = match ioctl {
            Ioctl::OpenSession => self.open().to_bytes(Width::NATIVE),
            Ioctl::Crypt | Ioctl::AsyncCrypt | Ioctl::AsyncFetch => self.crypt().to_bytes(Width::NATIVE),
            Ioctl::AuthCrypt => self.auth_crypt().to_bytes(Width::NATIVE),
            Ioctl::CopyHash => CopyHashOp { to: self.session(), from: self.session() }.to_bytes(Width::NATIVE),
            _ => self.session().to_ne_bytes().to_vec(),
        };
        bytes.resize(ioctl.size(Width::NATIVE).max(8), 0);
        (ioctl.code(Width::NATIVE), bytes)
    }

    fn open(&mut self) -> SessionOp {
        SessionOp {
            cipher: self.number(&[0, 0, 2, 11, 16, 21, 22, 23, 24, 25, 50, 50, 51]),
            mac: self.number(&[0, 0, 0, 6, 7, 8, 14, 14, 14, 20, 104, 104, 104]),
            key_len: self.number(&[16, 16, 24, 32]),
            key: self.pointer(),
            mac_key_len: self.number(&[0, 1, 20, 64]),
            mac_key: self.pointer(),
            session: self.session(),
        }
    }

    fn crypt(&mut self) -> CryptOp {
        CryptOp {
            session: self.session(),
            op: self.number(&[0, 1]) as u16,
            flags: self.number(&[0, 0, 1, 2, 3, 4, 64, 65]) as u16,
            len: self.length(),
            src: self.pointer(),
            dst: self.pointer(),
            mac: self.pointer(),
            iv: self.pointer(),
        }
    }

    fn auth_crypt(&mut self) -> CryptAuthOp {
        let src = self.pointer();
        CryptAuthOp {
            session: self.session(),
            op: self.number(&[0, 1]) as u16,
            flags: self.number(&[0, 0, 16, 32]) as u16,
            len: self.length(),
            auth_len: self.number(&[0, 13, 20, 4096]),
            auth_src: self.pointer(),
            src,
            dst: if self.rng.next().is_multiple_of(2) { src } else { self.pointer() },
            tag: self.pointer(),
            tag_len: self.number(&[0, 8, 12, 16]),
            iv: self.pointer(),
            iv_len: self.number(&[0, 12, 16]),
        }
    }

    fn session(&mut self) -> u32 {
        let recent = self.sessions.len().min(20);
        if recent == 0 { self.number(&[1, 2, 3]) } else { self.number(&self.sessions[self.sessions.len() - recent..]) }
    }

    fn length(&mut self) -> u32 {
        let blocks = self.rng.next() as u32 % 64;
        let usual = [16 * blocks, 16 * blocks, 16 * blocks, 16 * blocks, 16 * blocks + 5, 0, 4096, 65536];
        self.number(&usual)
    }

    fn number(&mut self, usual: &[u32]) -> u32 {
        match self.rng.next() % 16 {
            0 => self.rng.pick(&[0, 1, 15, 17, 33, 65, 513, 4097, 9999, 131_072, 200_000, 1 << 31, u32::MAX]),
            1 => self.rng.next() as u32,
            _ => self.rng.pick(usual),
        }
    }

    fn pointer(&mut self) -> u64 {
        match self.rng.next() % 16 {
            0 => self.rng.pick(&[0, 0, UNMAPPED_ADDRESS, u64::MAX, u64::MAX - 15, 1 << 47, self.base + (1 << 20) - 8]),
            _ => self.base + self.rng.next() % 4096,
        }
    }
}

/// A mebibyte of writable memory, followed by unmapped memory beyond the reach of a long request.
struct Arena {
    base: u64,
}

impl Arena {
    fn new() -> Self {
        let (bytes, behind) = (1 << 20, 64 << 20);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the system's choice; the protection changes for a part of it that is
        // not referenced yet.
        let base: *mut c_void = unsafe {
            let base = libc::mmap(ptr::null_mut(), bytes + behind, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base, bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            base
        };
        Self { base: base.expose_provenance() as u64 }
    }
}

/// A well-behaved program with its own sessions, which compares answers with the devices.
struct Checker {
    crypto: Crypto,
    cbc: (u32, Session),
    gcm: (u32, Session),
    mac: (u32, Session),
    digest: (u32, Session),
    /// The unfinished message of the digest's session.
    unfinished: Vec<u8>,
}

impl Checker {
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
            unfinished: Vec::new(),
        }
    }

    fn session_count(&self) -> usize {
        [self.cbc.0, self.gcm.0, self.mac.0, self.digest.0].len()
    }

    fn check(&mut self, rng: &mut Rng, turn: usize) {
        let length = 16 + rng.next() as usize % 1000;
        let data = rng.bytes(length);
        let is_correct = match rng.next() % 4 {
            0 => self.check_cbc(&data[..length / 16 * 16]),
            1 => self.check_gcm(&data),
            2 => {
                let mut expected = [0; 20];
                self.mac.1.mac(&data, &mut expected).unwrap();
                self.crypto.digest(self.mac.0, 0, &data, 20) == Ok(expected.to_vec())
            }
            _ => self.check_digest(&data),
        };
        assert!(is_correct, "a wrong answer after turn {turn}");
    }

    fn check_cbc(&self, data: &[u8]) -> bool {
        let mut expected = data.to_vec();
        self.cbc.1.encrypt(&[3; 16], &mut expected).unwrap();
        self.crypto.run(self.cbc.0, 0, &[3; 16], data).as_ref() == Ok(&expected)
            && self.crypto.run(self.cbc.0, 1, &[3; 16], &expected).as_deref() == Ok(data)
    }

    /// Encrypts, decrypts, and fails with a forged tag.
    fn check_gcm(&self, data: &[u8]) -> bool {
        let (nonce, aad) = ([4; 12], [5; 20]);
        let (mut expected, mut tag) = (data.to_vec(), vec![0; 16]);
        self.gcm.1.seal(&nonce, &aad, &mut expected, &mut tag).unwrap();
        expected.extend(tag);
        let mut buffer = [data, &[0; 16]].concat();
        let place = address_of_mut(&mut buffer);
        let seal = CryptAuthOp {
            session: self.gcm.0,
            len: data.len() as u32,
            auth_len: 20,
            auth_src: address_of(&aad),
            src: place,
            dst: place,
            iv: address_of(&nonce),
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

    /// Hashes a message in pieces, with random ioctls in between.
    fn check_digest(&mut self, data: &[u8]) -> bool {
        let first = if self.unfinished.is_empty() { COP_FLAG_RESET } else { 0 };
        self.unfinished.extend(data);
        if self.unfinished.len() < 2000 {
            return self.crypto.digest(self.digest.0, COP_FLAG_UPDATE | first, data, 32).is_ok();
        }
        let mut expected = [0; 32];
        self.digest.1.digest(&std::mem::take(&mut self.unfinished), &mut expected).unwrap();
        self.crypto.digest(self.digest.0, COP_FLAG_UPDATE | COP_FLAG_FINAL, data, 32) == Ok(expected.to_vec())
    }
}
