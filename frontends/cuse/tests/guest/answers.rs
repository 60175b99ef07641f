//! Every ioctl with right and wrong arguments.

use gantry_abi_cryptodev::{
    COP_FLAG_AEAD_SRTP_TYPE, COP_FLAG_AEAD_TLS_TYPE, COP_FLAG_FINAL, COP_FLAG_RESET, COP_FLAG_UPDATE,
    COP_FLAG_WRITE_IV, CryptAuthOp, CryptOp, Ioctl, SIOP_FLAG_KERNEL_DRIVER_ONLY, SessionOp, Width,
};
use gantry_core::{Algorithm, Gantry, SessionParams};
use libc::{EBADMSG, EDEADLK, EFAULT, EINVAL, ENOENT};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use crate::client::{Crypto, Rng, Server, UNMAPPED_ADDRESS, address_of, address_of_mut};
use crate::records;

const DES3: u32 = 2;
pub(crate) const CBC: u32 = 11;
const NULL: u32 = 16;
pub(crate) const CTR: u32 = 21;
const ECB: u32 = 23;
const CFB: u32 = 24;
const OFB: u32 = 25;
const GCM: u32 = 50;
const CCM: u32 = 51;
const SHA1: u32 = 14;
pub(crate) const SHA256: u32 = 104;
pub(crate) const HMAC_SHA1: u32 = 7;
const HMAC_SHA256: u32 = 18;

const ENCRYPT: u16 = 0;
pub(crate) const DECRYPT: u16 = 1;

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "300"]
    fn every_ioctl_answers_as_the_module_does() {
        let server = Server::start();
        check_errors(&server);
        check_results();
    }

    /// Repeats the tests through the retry protocol, except for errors that this protocol cannot detect.
    fn a_server_without_rights_gives_the_same_answers() {
        let _server = Server::start_without_rights(&[]);
        check_results();
        let crypto = Crypto::open();
        let session = crypto.cipher(CBC, &[1; 16]).unwrap();
        let data = [0; 32];
        assert_eq!(crypto.run(session, 2, &[0; 16], &data), Err(EINVAL));
        let op = CryptOp { session, len: 16, src: UNMAPPED_ADDRESS, dst: UNMAPPED_ADDRESS, iv: address_of(&data), ..CryptOp::default() };
        assert_eq!(crypto.crypt(op), Err(EFAULT));
        // The kernel copies at most 128 KiB for a server without rights. These data and their structure exceed this limit together.
        assert_eq!(crypto.run(session, ENCRYPT, &[0; 16], &vec![0; 128 << 10]), Err(libc::ENOMEM));
        assert!(crypto.run(session, ENCRYPT, &[0; 16], &vec![0; 120 << 10]).is_ok());
    }

    /// Calls a 64-bit kernel through its system call entry for 32-bit programs.
    fn programs_of_32_bits_are_answered() {
        #[cfg(target_arch = "x86_64")]
        crate::narrow::check_encryption_and_hash();
    }
}

/// Checks every possible error.
fn check_errors(server: &Server) {
    let crypto = Crypto::open();
    let (key, iv, data) = ([1; 16], [2; 16], [3; 64]);
    let mut output = [0; 128];
    let cbc = crypto.cipher(CBC, &key).unwrap();
    let gcm = crypto.cipher(GCM, &key).unwrap();
    let sha = crypto.hash(SHA256, &[]).unwrap();
    let unknown = 0xdead_beef;

    // Unsupported ioctls.
    for code in [0xc004_63fa, Ioctl::Key.code(Width::NATIVE), Ioctl::AsyncCrypt.code(Width::NATIVE), 0] {
        assert_eq!(crypto.ioctl(code, address_of_mut(&mut output)), Err(EINVAL), "{code:x}");
    }
    // Every ioctl with an unmapped address.
    for ioctl in Ioctl::ALL {
        let expected = match ioctl {
            Ioctl::Key | Ioctl::AsyncCrypt | Ioctl::AsyncFetch => EINVAL,
            _ => EFAULT,
        };
        assert_eq!(crypto.ioctl(ioctl.code(Width::NATIVE), UNMAPPED_ADDRESS), Err(expected), "{ioctl:?}");
    }
    let mut features = [9; 4];
    assert_eq!(crypto.call(Ioctl::AsymmetricFeatures, &mut features), Ok(()));
    assert_eq!(features, [0; 4]);

    // Sessions.
    let op = |change: fn(&mut SessionOp)| {
        let mut op = SessionOp {
            cipher: CBC,
            key_len: 16,
            key: address_of(&key),
            mac: HMAC_SHA1,
            mac_key_len: 16,
            mac_key: address_of(&key),
            session: 0,
        };
        change(&mut op);
        op
    };
    assert!(crypto.session(op(|_| ())).is_ok());
    for (change, errno) in [
        ((|op| (op.cipher, op.mac) = (0, 0)) as fn(&mut SessionOp), EINVAL),
        (|op| op.cipher = 4, EINVAL),
        (|op| op.cipher = 12, EINVAL),
        (|op| op.cipher = 9999, EINVAL),
        (|op| op.mac = 9, EINVAL),
        (|op| op.mac = CBC, EINVAL),
        (|op| op.cipher = 108, EINVAL),
        (|op| op.key_len = 15, EINVAL),
        (|op| op.key_len = 0, EINVAL),
        (|op| op.key_len = 65, EINVAL),
        (|op| op.key_len = u32::MAX, EINVAL),
        (|op| op.mac_key_len = 513, EINVAL),
        (|op| op.mac_key_len = u32::MAX, EINVAL),
        (|op| op.key = UNMAPPED_ADDRESS, EFAULT),
        (|op| op.key = 0, EFAULT),
        (|op| op.mac_key = UNMAPPED_ADDRESS, EFAULT),
        // The cipher's key is checked first, and the MAC's length only after it.
        (|op| (op.key, op.mac_key_len) = (UNMAPPED_ADDRESS, 513), EFAULT),
        (|op| (op.key_len, op.mac_key) = (15, UNMAPPED_ADDRESS), EINVAL),
    ] {
        let op = op(change);
        assert_eq!(crypto.session(op.clone()), Err(errno), "{op:?}");
    }
    // The length of an unused key is not checked.
    assert!(crypto.session(op(|op| (op.mac, op.mac_key, op.mac_key_len) = (0, 0, u32::MAX))).is_ok());
    // An AEAD ignores the MAC.
    let with_mac =
        SessionOp { cipher: GCM, key_len: 16, key: address_of(&key), mac: HMAC_SHA1, ..SessionOp::default() };
    assert!(crypto.session(with_mac).is_ok());

    assert_eq!(crypto.close(unknown), Ok(()));
    assert_eq!(crypto.info(unknown).err(), Some(EINVAL));
    assert_eq!(crypto.copy_hash(sha, sha), Err(EDEADLK));
    assert_eq!(crypto.copy_hash(sha, unknown), Err(ENOENT));
    assert_eq!(crypto.copy_hash(unknown, sha), Err(ENOENT));
    assert_eq!(crypto.copy_hash(sha, cbc), Err(EINVAL));
    assert_eq!(crypto.copy_hash(cbc, gcm), Err(EINVAL));

    // A session belongs to one file.
    let other = Crypto::open();
    assert_eq!(other.run(cbc, ENCRYPT, &iv, &data), Err(EINVAL));
    assert_eq!(other.info(cbc).err(), Some(EINVAL));
    assert_eq!(other.copy_hash(sha, cbc), Err(ENOENT));
    assert_eq!(other.close(cbc), Ok(()));
    assert!(crypto.run(cbc, ENCRYPT, &iv, &data).is_ok());

    // Requests.
    let plain = |change: &dyn Fn(&mut CryptOp)| {
        let mut op = CryptOp {
            session: cbc,
            len: 64,
            src: address_of(&data),
            dst: address_of(&output),
            iv: address_of(&iv),
            ..CryptOp::default()
        };
        change(&mut op);
        // If the output is not mapped, the module releases pages that it did not take, and the program loses pages.
        if server.is_module() && op.dst == UNMAPPED_ADDRESS && op.len > 0 { None } else { Some(crypto.crypt(op)) }
    };
    assert_eq!(plain(&|_| ()), Some(Ok(())));
    for (errno, change) in [
        (EINVAL, &(|op: &mut CryptOp| op.session = unknown) as &dyn Fn(&mut CryptOp)),
        (EINVAL, &|op| op.op = 2),
        (EINVAL, &|op| op.op = u16::MAX),
        (EINVAL, &|op| op.len = 63),
        (EFAULT, &|op| op.src = UNMAPPED_ADDRESS),
        (EFAULT, &|op| op.dst = UNMAPPED_ADDRESS),
        (EFAULT, &|op| op.iv = UNMAPPED_ADDRESS),
        (EFAULT, &|op| (op.iv, op.op) = (UNMAPPED_ADDRESS, 2)),
        (EFAULT, &|op| (op.iv, op.len) = (UNMAPPED_ADDRESS, 63)),
        (EINVAL, &|op| (op.src, op.len) = (UNMAPPED_ADDRESS, 63)),
        (EFAULT, &|op| (op.session, op.src) = (sha, UNMAPPED_ADDRESS)),
        (EFAULT, &|op| (op.session, op.mac) = (sha, UNMAPPED_ADDRESS)),
        (EFAULT, &|op| (op.session, op.mac) = (sha, 0)),
    ] {
        assert_eq!(plain(change).unwrap_or(Err(errno)), Err(errno));
    }
    // Fields that a digest does not use are not checked.
    assert_eq!(
        plain(&|op| (op.session, op.dst, op.mac) = (sha, UNMAPPED_ADDRESS, address_of(&output))).unwrap_or(Ok(())),
        Ok(())
    );
    // No data.
    assert_eq!(plain(&|op| (op.len, op.src, op.dst) = (0, UNMAPPED_ADDRESS, UNMAPPED_ADDRESS)), Some(Ok(())));

    let auth = |change: &dyn Fn(&mut CryptAuthOp)| {
        let (auth_src, src, dst) = (address_of(&data), address_of(&data), address_of(&output));
        let mut op = CryptAuthOp {
            session: gcm,
            len: 64,
            auth_len: 13,
            auth_src,
            src,
            dst,
            iv: address_of(&iv),
            iv_len: 12,
            ..CryptAuthOp::default()
        };
        change(&mut op);
        let skip = server.is_module() && op.dst == UNMAPPED_ADDRESS;
        if skip { None } else { Some(crypto.auth_crypt(op).map(|op| op.len)) }
    };
    assert_eq!(auth(&|_| ()), Some(Ok(80)));
    let long = vec![0; 5000];
    for (errno, change) in [
        (EINVAL, &(|op: &mut CryptAuthOp| op.session = unknown) as &dyn Fn(&mut CryptAuthOp)),
        (EINVAL, &|op| op.session = sha),
        (EINVAL, &|op| op.session = cbc),
        (EINVAL, &|op| op.op = 2),
        (EINVAL, &|op| op.src = UNMAPPED_ADDRESS),
        (EINVAL, &|op| op.dst = UNMAPPED_ADDRESS),
        (EFAULT, &|op| op.auth_src = UNMAPPED_ADDRESS),
        (EFAULT, &|op| op.iv = UNMAPPED_ADDRESS),
        (EFAULT, &|op| (op.iv, op.op) = (UNMAPPED_ADDRESS, 2)),
        (EINVAL, &|op| op.tag_len = 17),
        (EINVAL, &|op| (op.auth_len, op.auth_src) = (4097, address_of(&long))),
        (EINVAL, &|op| (op.op, op.len) = (DECRYPT, 15)),
        (EBADMSG, &|op| op.op = DECRYPT),
        (EINVAL, &|op| op.flags = COP_FLAG_AEAD_TLS_TYPE),
        (EINVAL, &|op| op.flags = COP_FLAG_AEAD_SRTP_TYPE),
        (EINVAL, &|op| (op.flags, op.src) = (COP_FLAG_AEAD_SRTP_TYPE, op.dst)),
        (EINVAL, &|op| (op.session, op.flags, op.src) = (cbc, COP_FLAG_AEAD_SRTP_TYPE, op.dst)),
    ] {
        assert_eq!(auth(change).unwrap_or(Err(errno)), Err(errno));
    }
    assert_eq!(auth(&|op| (op.auth_len, op.auth_src) = (4096, address_of(&long))), Some(Ok(80)));

    // The device as a file.
    assert_eq!((&crypto.0).read(&mut output).unwrap_err().raw_os_error(), Some(EINVAL));
    assert_eq!((&crypto.0).write(&output).unwrap_err().raw_os_error(), Some(EINVAL));
    let mut poll = libc::pollfd { fd: crypto.0.as_raw_fd(), events: libc::POLLIN | libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer refers to one structure, which is alive.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 1000) }, 1);
    assert_eq!(poll.revents, libc::POLLOUT);

    // The device that serves the session.
    let info = crypto.info(cbc).unwrap();
    let text = |name: [u8; 64]| String::from_utf8(name.into_iter().take_while(|byte| *byte != 0).collect()).unwrap();
    assert_eq!(text(info.cipher_name), "cbc(aes)");
    assert!(server.is_module() || text(info.cipher_driver).starts_with("gantry-"), "{info:?}");
    assert_eq!(info.flags & SIOP_FLAG_KERNEL_DRIVER_ONLY, 0);
    for session in [cbc, sha] {
        assert_eq!(crypto.close(session), Ok(()));
        assert_eq!(crypto.info(session).err(), Some(EINVAL));
    }
    assert_eq!(crypto.run(cbc, ENCRYPT, &iv, &data), Err(EINVAL));
}

/// Compares results with the software device.
fn check_results() {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let crypto = Crypto::open();
    check_iv_chains(&gantry, &crypto);
    check_null_cipher(&gantry, &crypto);
    check_digests(&gantry, &crypto);
    check_cipher_and_mac(&gantry, &crypto);
    check_aeads(&gantry, &crypto);
    records::check_tls_records(&gantry, &crypto);
    records::check_srtp_packets(&gantry, &crypto);
}

/// Encrypts in one piece.
pub(crate) fn encrypt(gantry: &Gantry, algorithm: Algorithm, key: &[u8], iv: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut data = plain.to_vec();
    gantry.session(SessionParams::new(algorithm, key)).unwrap().encrypt(iv, &mut data).unwrap();
    data
}

pub(crate) fn mac(gantry: &Gantry, algorithm: Algorithm, key: &[u8], data: &[u8]) -> Vec<u8> {
    let session = gantry.session(SessionParams::new(algorithm, key)).unwrap();
    let mut mac = vec![0; session.params().tag_len()];
    session.mac(data, &mut mac).unwrap();
    mac
}

/// Checks that a chain of requests equals one request: without IVs, and with IVs that are written back.
fn check_iv_chains(gantry: &Gantry, crypto: &Crypto) {
    let mut rng = Rng(7);
    for (number, algorithm, block) in [
        (CBC, Algorithm::Aes256Cbc, 16),
        (CTR, Algorithm::Aes256Ctr, 16),
        (CFB, Algorithm::Aes256Cfb, 16),
        (OFB, Algorithm::Aes256Ofb, 16),
        (ECB, Algorithm::Aes256Ecb, 16),
        (DES3, Algorithm::DesEde3Cbc, 8),
    ] {
        let info = algorithm.info();
        let (key, iv) = (rng.bytes(info.key.min), rng.bytes(info.iv.min));
        let Ok(session) = crypto.cipher(number, &key) else {
            println!("no device serves {algorithm} here");
            continue;
        };
        let plain = rng.bytes(40 * block);
        let whole = encrypt(gantry, algorithm, &key, &iv, &plain);
        for (op, from, to) in [(ENCRYPT, &plain, &whole), (DECRYPT, &whole, &plain)] {
            assert_eq!(&crypto.run(session, op, &iv, from).unwrap(), to, "{algorithm} {op}");
            let (mut without, mut with, mut next) = (Vec::new(), Vec::new(), iv.clone());
            for blocks in [1, 2, 5, 13, 19] {
                let piece = &from[with.len()..with.len() + blocks * block];
                let mut data = piece.to_vec();
                let (src, dst) = (address_of(&data), address_of_mut(&mut data));
                let (len, iv, flags) = (piece.len() as u32, address_of_mut(&mut next), COP_FLAG_WRITE_IV);
                crypto.crypt(CryptOp { session, op, flags, len, src, dst, iv, ..CryptOp::default() }).unwrap();
                with.extend(data);
            }
            for blocks in [1, 2, 5, 13, 19] {
                let piece = &from[without.len()..without.len() + blocks * block];
                let iv = if without.is_empty() { &iv[..] } else { &[] };
                without.extend(crypto.run(session, op, iv, piece).unwrap());
            }
            assert_eq!((&with, &without), (to, to), "{algorithm} {op} in pieces");
        }
        if block != 16 || matches!(number, CBC | ECB) {
            continue;
        }
        // After a partial block CTR continues with the next counter, and OFB with the next block of key stream; CFB
        // continues from the last whole block.
        let part = crypto.run(session, ENCRYPT, &iv, &plain[..20]).unwrap();
        assert_eq!(part, whole[..20], "{algorithm}");
        let rest = crypto.run(session, ENCRYPT, &[], &plain[32..52]).unwrap();
        match number {
            CFB => assert_eq!(rest, encrypt(gantry, algorithm, &key, &whole[..16], &plain[32..52])),
            _ => assert_eq!(rest, whole[32..52], "{algorithm}"),
        }
    }
    // Long and unaligned.
    let key = [5; 16];
    let session = crypto.cipher(CBC, &key).unwrap();
    let plain = rng.bytes(100_000 + 1);
    let whole = encrypt(gantry, Algorithm::Aes128Cbc, &key, &[6; 16], &plain[1..]);
    assert!(crypto.run(session, ENCRYPT, &[6; 16], &plain[1..]).unwrap() == whole);
}

/// CRYPTO_NULL, alone and with a MAC.
fn check_null_cipher(gantry: &Gantry, crypto: &Crypto) {
    let data = Rng(2).bytes(1001);
    let (alone, with_mac) =
        (crypto.cipher(NULL, &[]).unwrap(), crypto.cipher_and_mac((NULL, &[]), (HMAC_SHA1, &[2; 20])).unwrap());
    for op in [ENCRYPT, DECRYPT] {
        assert_eq!(crypto.run(alone, op, &[], &data).as_ref(), Ok(&data));
        let (mut output, mut digest) = (vec![0; 1001], [0; 20]);
        let (src, dst, mac_at) = (address_of(&data), address_of_mut(&mut output), address_of_mut(&mut digest));
        crypto
            .crypt(CryptOp { session: with_mac, op, len: 1001, src, dst, mac: mac_at, ..CryptOp::default() })
            .unwrap();
        assert_eq!((output, &digest[..]), (data.clone(), &mac(gantry, Algorithm::HmacSha1, &[2; 20], &data)[..]));
    }
}

fn check_digests(gantry: &Gantry, crypto: &Crypto) {
    let mut rng = Rng(8);
    let key = rng.bytes(20);
    let message = rng.bytes(10_000);
    for (number, algorithm) in [
        (13, Algorithm::Md5),
        (SHA1, Algorithm::Sha1),
        (103, Algorithm::Sha224),
        (SHA256, Algorithm::Sha256),
        (105, Algorithm::Sha384),
        (106, Algorithm::Sha512),
        (6, Algorithm::HmacMd5),
        (HMAC_SHA1, Algorithm::HmacSha1),
        (107, Algorithm::HmacSha224),
        (HMAC_SHA256, Algorithm::HmacSha256),
        (19, Algorithm::HmacSha384),
        (20, Algorithm::HmacSha512),
    ] {
        let keyed = algorithm.kind() == gantry_core::Kind::Mac;
        let key = if keyed { &key[..] } else { &[] };
        let reference = gantry.session(SessionParams::new(algorithm, key)).unwrap();
        let bytes = reference.params().tag_len();
        let digest = |message: &[u8]| {
            let mut digest = vec![0; bytes];
            let result =
                if keyed { reference.mac(message, &mut digest) } else { reference.digest(message, &mut digest) };
            result.unwrap();
            digest
        };
        let session = crypto.hash(number, key).unwrap();
        let copy = crypto.hash(number, key).unwrap();
        assert_eq!(crypto.digest(session, 0, &message, bytes), Ok(digest(&message)), "{algorithm}");
        assert_eq!(crypto.digest(session, 0, &[], bytes), Ok(digest(&[])), "{algorithm} of nothing");
        // Digests the message in pieces, with a copy in between that continues differently; then again.
        for _ in 0..2 {
            let first = COP_FLAG_UPDATE | COP_FLAG_RESET;
            assert_eq!(
                crypto.digest(session, first, &message[..777], bytes),
                Ok(vec![0; bytes]),
                "nothing is written yet"
            );
            assert_eq!(crypto.copy_hash(copy, session), Ok(()));
            assert_eq!(crypto.digest(session, COP_FLAG_UPDATE, &message[777..], bytes), Ok(vec![0; bytes]));
            assert_eq!(
                crypto.digest(session, COP_FLAG_FINAL, &[], bytes),
                Ok(digest(&message)),
                "{algorithm} in pieces"
            );
            let last = crypto.digest(copy, COP_FLAG_UPDATE | COP_FLAG_FINAL, &message[777..1000], bytes);
            assert_eq!(last, Ok(digest(&message[..1000])), "{algorithm}, the copy");
            crypto.digest(copy, first, &message[..10], bytes).unwrap();
            // A piece without data ends the message.
            assert_eq!(crypto.digest(copy, COP_FLAG_UPDATE, &[], bytes), Ok(digest(&message[..10])), "{algorithm}");
        }
    }
}

/// The MAC covers the plaintext in both directions.
fn check_cipher_and_mac(gantry: &Gantry, crypto: &Crypto) {
    let (key, mac_key, iv, plain) = ([1; 16], [2; 20], [3; 16], [4; 64]);
    let session = crypto.cipher_and_mac((CBC, &key), (HMAC_SHA1, &mac_key)).unwrap();
    let whole = encrypt(gantry, Algorithm::Aes128Cbc, &key, &iv, &plain);
    let expected = mac(gantry, Algorithm::HmacSha1, &mac_key, &plain);
    for (op, from, to) in [(ENCRYPT, &plain[..], &whole[..]), (DECRYPT, &whole, &plain)] {
        let (mut output, mut mac) = ([0; 64], [0; 20]);
        let (src, dst, mac_at, iv) =
            (address_of(from), address_of_mut(&mut output), address_of_mut(&mut mac), address_of(&iv));
        crypto.crypt(CryptOp { session, op, len: 64, src, dst, mac: mac_at, iv, ..CryptOp::default() }).unwrap();
        assert_eq!((&output[..], &mac[..]), (to, &expected[..]));
    }
}

fn check_aeads(gantry: &Gantry, crypto: &Crypto) {
    let mut rng = Rng(9);
    let (key, nonce, aad, plain) = (rng.bytes(16), rng.bytes(12), rng.bytes(29), rng.bytes(1000));
    // CCM's IV is its first counter block: 14 less the nonce's length, the nonce, zeros.
    let ccm_iv: Vec<u8> = [2].into_iter().chain(nonce.iter().copied()).chain([0; 3]).collect();
    for (number, algorithm, iv) in [(GCM, Algorithm::Aes128Gcm, &nonce), (CCM, Algorithm::Aes128Ccm, &ccm_iv)] {
        let session = crypto.cipher(number, &key).unwrap();
        for tag_bytes in [16, 12, 8] {
            let reference = gantry.session(SessionParams::new(algorithm, &key).with_tag_len(tag_bytes)).unwrap();
            let (mut expected, mut tag) = (plain.clone(), vec![0; tag_bytes]);
            reference.seal(&nonce, &aad, &mut expected, &mut tag).unwrap();
            expected.extend(&tag);
            let mut sealed = vec![0; 1016];
            let op = CryptAuthOp {
                session,
                len: 1000,
                auth_len: 29,
                auth_src: address_of(&aad),
                src: address_of(&plain),
                dst: address_of_mut(&mut sealed),
                tag_len: tag_bytes as u32,
                iv: address_of(iv),
                iv_len: iv.len() as u32,
                ..CryptAuthOp::default()
            };
            let back = crypto.auth_crypt(op.clone()).unwrap();
            assert_eq!((back.len as usize, back.tag), (expected.len(), address_of(&sealed) + 1000), "{algorithm}");
            assert_eq!(sealed[..expected.len()], expected, "{algorithm}");
            let mut opened = vec![0xEE; 1016];
            let len = expected.len() as u32;
            let op = CryptAuthOp { op: DECRYPT, len, src: address_of(&sealed), dst: address_of_mut(&mut opened), ..op };
            assert_eq!(crypto.auth_crypt(op.clone()).unwrap().len, 1000);
            assert_eq!(opened[..1000], plain, "{algorithm}");
            // Changed, in place.
            let data = address_of_mut(&mut sealed);
            let forged = CryptAuthOp { auth_len: 28, dst: data, src: data, ..op.clone() };
            assert_eq!(crypto.auth_crypt(forged), Err(EBADMSG));
        }
    }
    let session = crypto.cipher(GCM, &key).unwrap();
    let mut tag = [0; 16];
    let op = CryptAuthOp {
        session,
        dst: address_of_mut(&mut tag),
        src: address_of(&[0]),
        iv: address_of(&nonce),
        ..CryptAuthOp::default()
    };
    assert_eq!(crypto.auth_crypt(op).unwrap().len, 16);
    let reference = gantry.session(SessionParams::new(Algorithm::Aes128Gcm, &key)).unwrap();
    assert!(reference.open(&nonce, &[], &mut [], &tag).is_ok());
}
