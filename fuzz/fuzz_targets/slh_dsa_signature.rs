//! Any bytes as a public key and a signature of any length are refused or verified. Our own signature with a byte changed or
//! cut off is invalid.

#![no_main]

use arbitrary::Arbitrary;
use gantry_slh_dsa::{ParameterSet, PrivateKey, PublicKey};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    set: u8,
    key: &'a [u8],
    message: &'a [u8],
    context: &'a [u8],
    signature: &'a [u8],
    /// A byte of a valid signature to change.
    place: u16,
    flipped: u8,
    /// The number of bytes to cut off.
    cut: u8,
}

static KEY_AND_SIGNATURE: LazyLock<(PrivateKey, Vec<u8>)> = LazyLock::new(|| {
    let key = PrivateKey::generate(ParameterSet::Sha2_128f, &[7; 48]).expect("seeds");
    let signature = key.sign(b"message", b"", None).expect("a short context");
    (key, signature)
});

fuzz_target!(|input: Input<'_>| {
    let set = ParameterSet::ALL[usize::from(input.set) % ParameterSet::ALL.len()];
    let mut key = input.key.to_vec();
    assert_eq!(PublicKey::from_bytes(set, &key).is_ok(), key.len() == set.public_key_bytes());
    key.resize(set.public_key_bytes(), 0);
    let key = PublicKey::from_bytes(set, &key).expect("its length is right");
    assert!(key.verify(input.message, input.context, input.signature).is_err());
    // A valid length, so that its parts are checked.
    let mut signature = input.signature.to_vec();
    signature.resize(set.signature_bytes(), input.flipped);
    assert!(key.verify(input.message, input.context, &signature).is_err());

    let (key, signature) = &*KEY_AND_SIGNATURE;
    let mut changed = signature.clone();
    let place = usize::from(input.place) % changed.len();
    changed[place] ^= input.flipped;
    changed.truncate(signature.len() - usize::from(input.cut));
    assert_eq!(key.public_key().verify(b"message", b"", &changed).is_ok(), changed == *signature);
});
