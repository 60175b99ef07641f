//! Compares the adapters with RustCrypto's own types, in generic code.

use aead::{AeadInOut, KeyInit};
use cipher::{BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser, KeyIvInit, StreamCipher};
use gantry::aead::rustcrypto as aeads;
use gantry::cipher::rustcrypto as ciphers;
use gantry::signature::{SignatureBytes, SigningKey, VerifyingKey};
use gantry::{Config, Gantry, Signature};

const PLAINTEXT: [u8; 64] = *b"sixty-four bytes are four blocks of AES, and one of ChaCha20....";

fn sealed<A: AeadInOut + KeyInit>() -> Vec<u8> {
    let (key, nonce) = (aead::Key::<A>::from_fn(|at| at as u8), aead::Nonce::<A>::from_fn(|at| at as u8 + 100));
    let aead = A::new(&key);
    let mut buffer = PLAINTEXT;
    let tag = aead.encrypt_inout_detached(&nonce, b"header", (&mut buffer[..]).into()).unwrap();
    // Decrypts from one buffer into another.
    let mut other = [0; 64];
    let data = aead::inout::InOutBuf::new(&buffer, &mut other).unwrap();
    aead.decrypt_inout_detached(&nonce, b"header", data, &tag).unwrap();
    assert_eq!(other, PLAINTEXT);
    let forged = aead.decrypt_inout_detached(&nonce, b"other", (&mut { buffer }[..]).into(), &tag);
    assert!(forged.is_err());
    [&buffer[..], &tag].concat()
}

#[test]
fn aeads_match_rustcrypto() {
    assert_eq!(sealed::<aeads::Aes128Gcm>(), sealed::<aes_gcm::Aes128Gcm>());
    assert_eq!(sealed::<aeads::Aes256Gcm>(), sealed::<aes_gcm::Aes256Gcm>());
    // The tests have no RustCrypto types to compare these AEADs with; only test the round trip.
    sealed::<aeads::Aes192Gcm>();
    sealed::<aeads::Aes128Ccm>();
    sealed::<aeads::Aes192Ccm>();
    sealed::<aeads::Aes256Ccm>();
    sealed::<aeads::ChaCha20Poly1305>();
    sealed::<aeads::XChaCha20Poly1305>();
}

/// Encrypts and decrypts in chunks.
fn streamed<C: KeyIvInit + StreamCipher>() -> Vec<u8> {
    let (key, iv) = (cipher::Key::<C>::from_fn(|at| at as u8), cipher::Iv::<C>::from_fn(|at| at as u8 + 100));
    let mut data = PLAINTEXT;
    let mut stream = C::new(&key, &iv);
    for piece in data.chunks_mut(7) {
        stream.apply_keystream(piece);
    }
    let mut key_stream = [0xFF; 64];
    C::new(&key, &iv).write_keystream(&mut key_stream);
    assert!(data.iter().zip(&PLAINTEXT).zip(&key_stream).all(|((data, plain), key)| data ^ plain == *key));
    let mut decrypted = [0; 64];
    C::new(&key, &iv).apply_keystream_b2b(&data, &mut decrypted);
    assert_eq!(decrypted, PLAINTEXT);
    data.to_vec()
}

#[test]
fn stream_ciphers_match_rustcrypto() {
    assert_eq!(streamed::<ciphers::Aes128Ctr>(), streamed::<ctr::Ctr128BE<aes_gcm::aes::Aes128>>());
    assert_eq!(streamed::<ciphers::Aes192Ctr>(), streamed::<ctr::Ctr128BE<aes_gcm::aes::Aes192>>());
    assert_eq!(streamed::<ciphers::Aes256Ctr>(), streamed::<ctr::Ctr128BE<aes_gcm::aes::Aes256>>());
    assert_eq!(streamed::<ciphers::ChaCha20>(), streamed::<chacha20::ChaCha20>());
    streamed::<ciphers::Aes128Ofb>();
    streamed::<ciphers::Aes192Ofb>();
    streamed::<ciphers::Aes256Ofb>();
}

#[test]
fn the_end_of_a_key_stream_is_an_error() {
    let stream = ciphers::ChaCha20::new(&[1; 32].into(), &[2; 12].into());
    let all: u64 = 64 << 32;
    if let Ok(all) = usize::try_from(all) {
        assert!(stream.check_remaining(all).is_ok() && stream.check_remaining(all + 1).is_err());
    }
}

/// Encrypts the first block alone and the others together, and decrypts them.
fn chained<
    E: KeyIvInit + BlockModeEncrypt,
    D: KeyIvInit + BlockModeDecrypt + BlockSizeUser<BlockSize = E::BlockSize>,
>() -> Vec<u8> {
    let mut data = PLAINTEXT;
    let (blocks, _) = cipher::Block::<E>::slice_as_chunks_mut(&mut data);
    let (first, others) = blocks.split_first_mut().unwrap();
    let mut mode = E::new(&cipher::Key::<E>::from_fn(|at| at as u8), &cipher::Iv::<E>::from_fn(|at| at as u8 + 100));
    mode.encrypt_block(first);
    mode.encrypt_blocks(others);
    let encrypted = data.to_vec();
    let (blocks, _) = cipher::Block::<D>::slice_as_chunks_mut(&mut data);
    let mut mode = D::new(&cipher::Key::<D>::from_fn(|at| at as u8), &cipher::Iv::<D>::from_fn(|at| at as u8 + 100));
    mode.decrypt_blocks(blocks);
    assert_eq!(data, PLAINTEXT);
    encrypted
}

#[test]
fn block_modes_match_rustcrypto() {
    use aes_gcm::aes::{Aes128, Aes192, Aes256};
    let ours = chained::<ciphers::Aes128CbcEnc, ciphers::Aes128CbcDec>();
    assert_eq!(ours, chained::<cbc::Encryptor<Aes128>, cbc::Decryptor<Aes128>>());
    let ours = chained::<ciphers::Aes192CbcEnc, ciphers::Aes192CbcDec>();
    assert_eq!(ours, chained::<cbc::Encryptor<Aes192>, cbc::Decryptor<Aes192>>());
    let ours = chained::<ciphers::Aes256CbcEnc, ciphers::Aes256CbcDec>();
    assert_eq!(ours, chained::<cbc::Encryptor<Aes256>, cbc::Decryptor<Aes256>>());
    chained::<ciphers::DesEde3CbcEnc, ciphers::DesEde3CbcDec>();
}

/// Signs with one side and verifies with the other, through the traits only.
fn passes<S>(signer: &impl signature::Signer<S>, verifier: &impl signature::Verifier<S>) -> bool {
    let signature = signer.sign(b"a message");
    verifier.verify(b"another message", &signature).is_err() && verifier.verify(b"a message", &signature).is_ok()
}

#[test]
fn signatures_interoperate_with_rustcrypto() {
    let gantry = Gantry::open(Config::default()).unwrap();
    let theirs = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let public = theirs.verifying_key();
    let signer = gantry.signer(&SigningKey::new(Signature::Ed25519, &[7; 32]).unwrap()).unwrap();
    let verifier = gantry.verifier(&VerifyingKey::new(Signature::Ed25519, public.as_bytes()).unwrap()).unwrap();
    assert!(passes::<ed25519_dalek::Signature>(&signer, &public));
    assert!(passes::<ed25519_dalek::Signature>(&theirs, &verifier));
    assert!(passes::<SignatureBytes>(&signer, &verifier));
}

#[test]
fn signatures_of_every_family_pass_through_the_traits() {
    let gantry = Gantry::open(Config::default()).unwrap();
    let rsa = gantry::core::sample_key(gantry::core::Algorithm::Rsa2048Pss).unwrap();
    let public = &rsa[..gantry::core::rsa::public_length(256)];
    let signer = gantry.signer(&SigningKey::new(Signature::Rsa2048Pss, rsa).unwrap()).unwrap();
    let verifier = gantry.verifier(&VerifyingKey::new(Signature::Rsa2048Pss, public).unwrap()).unwrap();
    assert!(passes::<SignatureBytes>(&signer, &verifier));
    // The expanded private key of SLH-DSA ends with the public key. The seeds alone do not have the public key's root, so only sign.
    let seeds = gantry.signer(&SigningKey::new(Signature::SlhDsaSha2_128f, &[3; 48]).unwrap()).unwrap();
    let signature: SignatureBytes = signature::Signer::sign(&seeds, b"a message");
    assert_eq!(signature.len(), 17088);
}
