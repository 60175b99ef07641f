//! The internal functions (FIPS 205, section 9): key generation from seeds, and signatures of framed messages.

use alloc::vec::Vec;

use gantry_digest::internal::prefixed::shake256;
use gantry_digest::{Algorithm, Hasher, HmacKey};

use crate::address::Address;
use crate::batch::Hashes;
use crate::parameters::Parameters;
use crate::{fors, wots};

/// The secret parts of a private key: SK.seed and SK.prf.
pub(crate) struct Secret<'a> {
    pub(crate) seed: &'a [u8],
    pub(crate) prf: &'a [u8],
}

/// Computes PK.root (algorithm 18).
pub(crate) fn root(set: &'static Parameters, secret_seed: &[u8], public_seed: &[u8]) -> Vec<u8> {
    let address = Address { layer: set.d as u32 - 1, ..Address::default() };
    wots::build_tree(&Hashes::new(set, public_seed), secret_seed, address, None, &mut Vec::new())
}

/// Signs a framed message (algorithm 19). `randomness` is `addrnd`, or PK.seed for a deterministic signature.
pub(crate) fn sign(
    set: &'static Parameters,
    secret: &Secret<'_>,
    public: &[u8],
    message: &[&[u8]],
    randomness: &[u8],
) -> Vec<u8> {
    let hashes = Hashes::new(set, &public[..set.n]);
    let mut signature = Vec::with_capacity(set.n + set.fors_bytes() + set.d * set.layer_bytes());
    signature.extend_from_slice(&randomizer(set, secret.prf, randomness, message));
    // The signature consists only of the randomizer so far.
    let target = SigningTarget::new(set, &signature, public, message);
    let mut node = fors::sign(&hashes, secret.seed, target.fors_address(), &target.digest, &mut signature);
    for (address, leaf) in target.layers(set) {
        node = wots::build_tree(&hashes, secret.seed, address, Some((leaf, &node)), &mut signature);
    }
    signature
}

/// Returns true if the signature is valid for the message (algorithm 20). The caller has checked its length.
pub(crate) fn verify(set: &'static Parameters, public: &[u8], message: &[&[u8]], signature: &[u8]) -> bool {
    let hashes = Hashes::new(set, &public[..set.n]);
    let (randomizer, rest) = signature.split_at(set.n);
    let (fors_signature, layers) = rest.split_at(set.fors_bytes());
    let target = SigningTarget::new(set, randomizer, public, message);
    let mut node = fors::public_key_from_signature(&hashes, target.fors_address(), &target.digest, fors_signature);
    for ((address, leaf), signature) in target.layers(set).zip(layers.chunks_exact(set.layer_bytes())) {
        node = wots::root_from_signature(&hashes, address, leaf, &node, signature);
    }
    node == public[set.n..]
}

/// The digest that FORS signs, and the position of the FORS key.
struct SigningTarget {
    digest: Vec<u8>,
    tree: u64,
    leaf: u32,
}

impl SigningTarget {
    /// Derives the target from the digest of randomizer, public key and message.
    fn new(set: &Parameters, randomizer: &[u8], public: &[u8], message: &[&[u8]]) -> Self {
        let (height, digest_bytes) = (set.height(), (set.k * set.a).div_ceil(8));
        let tree_bytes = (set.h - height).div_ceil(8);
        let mut bytes = alloc::vec![0; digest_bytes + tree_bytes + height.div_ceil(8)];
        message_digest(set, &[&[randomizer, public], message].concat(), &mut bytes);
        let number = |bytes: &[u8], bits: usize| {
            let number = bytes.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
            number & (u64::MAX >> (64 - bits))
        };
        let leaf = number(&bytes[digest_bytes + tree_bytes..], height) as u32;
        let tree = number(&bytes[digest_bytes..digest_bytes + tree_bytes], set.h - height);
        bytes.truncate(digest_bytes);
        SigningTarget { digest: bytes, tree, leaf }
    }

    /// Returns the address of the FORS key.
    fn fors_address(&self) -> Address {
        Address { tree: self.tree, key_pair: self.leaf, ..Address::default() }
    }

    /// Yields the tree of each layer and the leaf in it, from the bottom up.
    fn layers(&self, set: &Parameters) -> impl Iterator<Item = (Address, u32)> {
        let height = set.height();
        let (mut tree, mut leaf) = (self.tree, self.leaf);
        (0..set.d as u32).map(move |layer| {
            let current = (Address { layer, tree, ..Address::default() }, leaf);
            leaf = (tree & ((1 << height) - 1)) as u32;
            tree >>= height;
            current
        })
    }
}

/// Returns the hash function for messages in parameter sets with SHA-2.
fn sha2_algorithm(set: &Parameters) -> Algorithm {
    if set.n == 16 { Algorithm::Sha256 } else { Algorithm::Sha512 }
}

/// Derives the randomizer, which makes the digest of a message unpredictable (PRF_msg).
fn randomizer(set: &Parameters, prf: &[u8], randomness: &[u8], message: &[&[u8]]) -> Vec<u8> {
    let mut output = alloc::vec![0; if set.is_shake { set.n } else { sha2_algorithm(set).digest_size() }];
    if set.is_shake {
        shake256(&[&[prf, randomness], message].concat(), &mut output);
    } else {
        let key = HmacKey::new(sha2_algorithm(set), prf);
        finish(key.hasher(), &[&[randomness], message].concat(), &mut output);
    }
    output.truncate(set.n);
    output
}

/// Returns the digest of a message (H_msg). `parts` are the randomizer, the public key, and the parts of the message.
fn message_digest(set: &Parameters, parts: &[&[u8]], output: &mut [u8]) {
    if set.is_shake {
        return shake256(parts, output);
    }
    let algorithm = sha2_algorithm(set);
    let mut inner = [0; 64];
    let inner = &mut inner[..algorithm.digest_size()];
    finish(Hasher::new(algorithm), parts, inner);
    // MGF1 (RFC 8017, B.2.1) over randomizer, PK.seed and digest. PK.seed is the first half of the public key.
    let mut block = [0; 64];
    let block = &mut block[..algorithm.digest_size()];
    for (counter, output) in (0u32..).zip(output.chunks_mut(block.len())) {
        finish(Hasher::new(algorithm), &[parts[0], &parts[1][..set.n], inner, &counter.to_be_bytes()], block);
        output.copy_from_slice(&block[..output.len()]);
    }
}

fn finish(mut hasher: Hasher<'_>, parts: &[&[u8]], digest: &mut [u8]) {
    for part in parts {
        hasher.update(part);
    }
    hasher.finish(digest).expect("the output must have the length of the digest");
}
