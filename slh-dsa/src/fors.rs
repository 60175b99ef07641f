//! Few-time signatures (FORS, FIPS 205, section 8): trees side by side.

use alloc::vec::Vec;

use crate::address::{Address, AddressKind};
use crate::batch::Hashes;
use crate::tree::{Leaf, hash_level_above, roots_from_paths};

/// Leaves computed at a time.
const LEAVES_PER_BATCH: usize = 64;

/// Maximum bytes of leaves of the trees that are hashed side by side. The leaves and the messages that contain them then fit into the
/// cache.
const MAX_LEAF_BYTES: usize = 256 << 10;

/// Signs a digest, and returns the public key. Every `a` bits of the digest select a leaf, whose secret and path are appended to
/// `signature`. `address` has the tree and the key pair.
pub(crate) fn sign(
    hashes: &Hashes,
    secret_seed: &[u8],
    address: Address,
    digest: &[u8],
    signature: &mut Vec<u8>,
) -> Vec<u8> {
    let set = hashes.set;
    let (n, a) = (set.n, set.a);
    let leaves = leaf_indices(digest, a, set.k);
    let part = (a + 1) * n;
    let begin = signature.len();
    signature.resize(begin + set.fors_bytes(), 0);
    let trees_per_batch = (MAX_LEAF_BYTES / (n << a)).clamp(1, set.k);
    let mut roots = Vec::with_capacity(set.k * n);
    let parts = signature[begin..].chunks_mut(trees_per_batch * part);
    for (trees, (parts, leaves)) in parts.zip(leaves.chunks(trees_per_batch)).enumerate() {
        let first = ((trees * trees_per_batch) << a) as u32;
        let mut nodes = alloc::vec![0; (leaves.len() * n) << a];
        let selected: Vec<usize> = leaves.iter().enumerate().map(|(tree, leaf)| (tree << a) + *leaf as usize).collect();
        secrets_and_leaves(hashes, secret_seed, Address { index: first, ..address }, &mut nodes, |index, secret| {
            let tree = index >> a;
            if selected[tree] == index {
                parts[tree * part..][..n].copy_from_slice(secret);
            }
        });
        for level in 0..a {
            for (tree, leaf) in selected.iter().enumerate() {
                let sibling = &nodes[n * (leaf >> level ^ 1)..][..n];
                parts[tree * part + (level + 1) * n..][..n].copy_from_slice(sibling);
            }
            let above = Address { row: level as u32 + 1, index: first >> (level + 1), ..address };
            hash_level_above(hashes, AddressKind::ForsTree, above, &mut nodes);
        }
        roots.extend_from_slice(&nodes);
    }
    public_key(hashes, address, &roots)
}

/// Fills `leaves`, from the leaf in `address` on. Calls `secret` for each leaf with its position in `leaves` and its secret.
fn secrets_and_leaves(
    hashes: &Hashes,
    secret_seed: &[u8],
    address: Address,
    leaves: &mut [u8],
    mut secret: impl FnMut(usize, &[u8]),
) {
    let n = hashes.set.n;
    let mut batch = hashes.short_batch(LEAVES_PER_BATCH);
    for (i, leaves) in leaves.chunks_mut(LEAVES_PER_BATCH * n).enumerate() {
        let first = i * LEAVES_PER_BATCH;
        let all = 0..leaves.len() / n;
        let address_of = |call: usize| Address { index: address.index + (first + call) as u32, ..address };
        for call in all.clone() {
            batch.set_address(call, AddressKind::ForsSecret, &address_of(call));
            batch.set_message(call, secret_seed);
        }
        batch.hash_in_place(all.clone());
        for call in all {
            secret(first + call, batch.message(call));
            batch.set_address(call, AddressKind::ForsTree, &address_of(call));
        }
        batch.hash(leaves);
    }
}

/// Computes the public key from a signature of [`fors_bytes`](crate::parameters::Parameters::fors_bytes) bytes.
pub(crate) fn public_key_from_signature(hashes: &Hashes, address: Address, digest: &[u8], signature: &[u8]) -> Vec<u8> {
    let set = hashes.set;
    let (n, a) = (set.n, set.a);
    let leaf = |(tree, index)| Leaf { index, first_of_tree: (tree << a) as u32 };
    let leaves: Vec<Leaf> = leaf_indices(digest, a, set.k).into_iter().enumerate().map(leaf).collect();
    let parts: Vec<&[u8]> = signature.chunks_exact((a + 1) * n).collect();
    let mut batch = hashes.short_batch(set.k);
    for (i, (leaf, part)) in leaves.iter().zip(&parts).enumerate() {
        batch.set_address(i, AddressKind::ForsTree, &Address { index: leaf.first_of_tree + leaf.index, ..address });
        batch.set_message(i, &part[..n]);
    }
    let mut nodes = alloc::vec![0; set.k * n];
    batch.hash(&mut nodes);
    roots_from_paths(hashes, AddressKind::ForsTree, address, &leaves, &mut nodes, a, |i| &parts[i][n..]);
    public_key(hashes, address, &nodes)
}

/// Returns the public key, which is the digest of all roots.
fn public_key(hashes: &Hashes, address: Address, roots: &[u8]) -> Vec<u8> {
    let mut batch = hashes.long_batch(hashes.set.k, 1);
    batch.set_address(0, AddressKind::ForsRoots, &address);
    batch.set_message(0, roots);
    batch.hash_one()
}

/// Splits a digest into numbers of `bits` bits each (algorithm 4, base_2b).
fn leaf_indices(digest: &[u8], bits: usize, count: usize) -> Vec<u32> {
    let bit = |i: usize| u32::from(digest[i / 8] >> (7 - i % 8) & 1);
    (0..count).map(|i| (i * bits..(i + 1) * bits).fold(0, |number, i| number << 1 | bit(i))).collect()
}
