//! Compares a direct request through Gantry with the same call of AWS-LC: nanoseconds, and the ratio of the speeds. Values are
//! medians of paired rounds on one thread. `cargo bench -p gantry-driver-software`.

use std::ffi::{c_int, c_uint};
use std::hint::black_box;
use std::ptr;
use std::time::Instant;

use aws_lc_sys as lc;
use gantry_core::{Algorithm, Gantry, Operation, SessionParams};
use gantry_driver_software::SoftwareDriver;

const ROUNDS: usize = 301;
/// Calls per timing, of slow and of fast operations.
const SLOW_CALLS: u32 = 20;
const FAST_CALLS: u32 = 2000;

fn mean_ns(calls: u32, call: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

fn compare(name: &str, bytes: usize, raw: &mut dyn FnMut(), ours: &mut dyn FnMut()) {
    let calls = if mean_ns(SLOW_CALLS, raw) > 10e3 { SLOW_CALLS } else { FAST_CALLS };
    let mut pairs: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (mean_ns(calls, raw), mean_ns(calls, ours))).collect();
    pairs.sort_by(|one, other| (one.1 - one.0).total_cmp(&(other.1 - other.0)));
    let (raw, ours) = pairs[ROUNDS / 2];
    let mut ratios: Vec<f64> = pairs.iter().map(|(raw, ours)| raw / ours).collect();
    ratios.sort_by(f64::total_cmp);
    println!("{name:<24} {bytes:>6} {raw:>10.1} {ours:>10.1} {:>10.1} {:>7.3}", ours - raw, ratios[ROUNDS / 2]);
}

/// Measures ML-KEM-768 with a new peer key, and ML-DSA-65 over a message of 32 bytes.
fn post_quantum(gantry: &Gantry) {
    let seed: Vec<u8> = (0..64).collect();
    let kem =
        gantry.session(SessionParams::new(Algorithm::MlKem768, &[]).with_direction(Operation::Encapsulate)).unwrap();
    let (mut private, mut peer) = ([0; 64], [0; 1184]);
    kem.key_gen(&mut private, &mut peer).unwrap();
    let (mut ciphertext, mut secret, mut lengths) = ([0; 1088], [0; 32], (1088, 32));
    compare(
        "ml-kem-768 encapsulate",
        peer.len(),
        // SAFETY: a public key with its length, and buffers for both results.
        &mut || unsafe {
            let key = lc::EVP_PKEY_kem_new_raw_public_key(lc::NID_MLKEM768, peer.as_ptr(), peer.len());
            let context = lc::EVP_PKEY_CTX_new(key, ptr::null_mut());
            let (long, short) = (black_box(&mut ciphertext).as_mut_ptr(), secret.as_mut_ptr());
            lc::EVP_PKEY_encapsulate(context, long, &raw mut lengths.0, short, &raw mut lengths.1);
            lc::EVP_PKEY_CTX_free(context);
            lc::EVP_PKEY_free(key);
        },
        &mut || kem.encapsulate(&peer, black_box(&mut [0; 1088]), &mut [0; 32]).unwrap(),
    );

    let signing_session = gantry.session(SessionParams::new(Algorithm::MlDsa65, &seed[..32])).unwrap();
    // SAFETY: a seed with its length.
    let key = unsafe { lc::EVP_PKEY_pqdsa_new_raw_private_key(lc::NID_MLDSA65, seed.as_ptr(), 32) };
    assert!(!key.is_null());
    let mut signature = vec![0; 3309];
    compare(
        "ml-dsa-65 sign",
        32,
        // SAFETY: a key, a message and a buffer for a signature, with their lengths.
        &mut || unsafe {
            let context = lc::EVP_MD_CTX_new();
            lc::EVP_DigestSignInit(context, ptr::null_mut(), ptr::null(), ptr::null_mut(), key);
            let mut length = signature.len();
            lc::EVP_DigestSign(context, signature.as_mut_ptr(), &raw mut length, seed.as_ptr(), 32);
            lc::EVP_MD_CTX_free(context);
        },
        &mut || signing_session.sign(&seed[..32], black_box(&mut [0; 3309])).unwrap(),
    );
}

fn main() {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let key: Vec<u8> = (0..64).collect();
    let session = |algorithm: Algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
    println!("{:<24} {:>6} {:>10} {:>10} {:>10} {:>7}", "ns", "bytes", "AWS-LC", "Gantry", "more", "ratio");
    post_quantum(&gantry);
    for bytes in [64, 1024, 16384] {
        let input = vec![7; bytes];
        let (mut one, mut other) = (input.clone(), input.clone());
        let (mut digest, mut tag) = ([0; 32], [0; 16]);
        let iv = [9; 16];

        let sha256 = session(Algorithm::Sha256, &[]);
        compare(
            "sha256",
            bytes,
            // SAFETY: the buffers have the given lengths.
            &mut || unsafe {
                lc::SHA256(input.as_ptr(), input.len(), black_box(&mut digest).as_mut_ptr());
            },
            &mut || sha256.digest(&input, black_box(&mut [0; 32])).unwrap(),
        );

        let hmac = session(Algorithm::HmacSha256, &key[..32]);
        // SAFETY: all zeros are an empty context.
        let mut raw_hmac = unsafe { std::mem::zeroed::<lc::HMAC_CTX>() };
        // SAFETY: an empty context, and a key of the given length.
        unsafe { lc::HMAC_Init_ex(&raw mut raw_hmac, key.as_ptr().cast(), 32, lc::EVP_sha256(), ptr::null_mut()) };
        compare(
            "hmac-sha256",
            bytes,
            // SAFETY: the context has its key, and the buffers have the given lengths.
            &mut || unsafe {
                lc::HMAC_Init_ex(&raw mut raw_hmac, ptr::null(), 0, ptr::null(), ptr::null_mut());
                lc::HMAC_Update(&raw mut raw_hmac, input.as_ptr(), input.len());
                lc::HMAC_Final(&raw mut raw_hmac, black_box(&mut digest).as_mut_ptr(), ptr::null_mut());
            },
            &mut || hmac.mac(&input, black_box(&mut [0; 32])).unwrap(),
        );

        let gcm = session(Algorithm::Aes128Gcm, &key[..16]);
        // SAFETY: a key of 16 bytes.
        let raw_gcm = unsafe { lc::EVP_AEAD_CTX_new(lc::EVP_aead_aes_128_gcm(), key.as_ptr(), 16, 16) };
        let mut written = 0;
        compare(
            "aes-128-gcm",
            bytes,
            // SAFETY: the context has its key, and the buffers have the given lengths.
            &mut || unsafe {
                let data = black_box(&mut one).as_mut_ptr();
                lc::EVP_AEAD_CTX_seal_scatter(
                    raw_gcm,
                    data,
                    tag.as_mut_ptr(),
                    &raw mut written,
                    16,
                    iv.as_ptr(),
                    12,
                    data,
                    bytes,
                    ptr::null(),
                    0,
                    ptr::null(),
                    0,
                );
            },
            &mut || gcm.seal(&iv[..12], &[], black_box(&mut other), &mut [0; 16]).unwrap(),
        );

        let cbc = session(Algorithm::Aes128Cbc, &key[..16]);
        // SAFETY: all zeros are a valid value.
        let mut raw_key = unsafe { std::mem::zeroed::<lc::AES_KEY>() };
        // SAFETY: a key of 128 bits.
        unsafe { lc::AES_set_encrypt_key(key.as_ptr(), 128 as c_uint, &raw mut raw_key) };
        compare(
            "aes-128-cbc",
            bytes,
            // SAFETY: a key, an IV, and buffers of the given length.
            &mut || unsafe {
                let data = black_box(&mut one).as_mut_ptr();
                lc::AES_cbc_encrypt(data, data, bytes, &raw const raw_key, iv.clone().as_mut_ptr(), lc::AES_ENCRYPT);
            },
            &mut || cbc.encrypt(&iv, black_box(&mut other)).unwrap(),
        );

        let xts = session(Algorithm::Aes256Xts, &key);
        // SAFETY: a new context, and a key of 64 bytes.
        let raw_xts = unsafe {
            let context = lc::EVP_CIPHER_CTX_new();
            let cipher = lc::EVP_aes_256_xts();
            lc::EVP_CipherInit_ex(context, cipher, ptr::null_mut(), key.as_ptr(), ptr::null(), 1 as c_int);
            context
        };
        compare(
            "aes-256-xts",
            bytes,
            // SAFETY: a context with its keys, and buffers of the given length.
            &mut || unsafe {
                let data = black_box(&mut one).as_mut_ptr();
                lc::EVP_CipherInit_ex(raw_xts, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr(), -1);
                lc::EVP_Cipher(raw_xts, data, data, bytes);
            },
            &mut || xts.encrypt(&iv, black_box(&mut other)).unwrap(),
        );
    }
}
