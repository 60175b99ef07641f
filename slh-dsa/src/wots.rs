//! One-time signatures (WOTS+, FIPS 205, section 5), and trees over them (XMSS, section 6), with the chains of many leaves side by side.

use alloc::vec::Vec;
use core::hint::black_box;

use crate::address::{Address, AddressKind};
use crate::batch::Hashes;
use crate::tree::{Leaf, hash_level_above, roots_from_paths};

/// Number of hashes in a whole chain.
const CHAIN_HASHES: u8 = 15;

/// Leaves whose chains are computed at a time.
const LEAVES_PER_BATCH: usize = 16;

/// Returns the root of a tree. With `to_sign`, a leaf and a message, also appends the one-time signature and its path to `signature`.
/// `address` has the layer and the tree.
pub(crate) fn build_tree(
    hashes: &Hashes,
    secret_seed: &[u8],
    address: Address,
    to_sign: Option<(u32, &[u8])>,
    signature: &mut Vec<u8>,
) -> Vec<u8> {
    let set = hashes.set;
    let (n, height) = (set.n, set.height());
    let mut nodes = alloc::vec![0; n << height];
    let lengths = to_sign.map(|(leaf, message)| (leaf as usize, chain_lengths(message)));
    let leaves_per_batch = LEAVES_PER_BATCH.min(1 << height);
    for (i, nodes) in nodes.chunks_exact_mut(leaves_per_batch * n).enumerate() {
        let first = i * leaves_per_batch;
        let signed = lengths.as_ref().filter(|(leaf, _)| (first..first + leaves_per_batch).contains(leaf));
        let signed = signed.map(|(leaf, lengths)| (leaf - first, &lengths[..]));
        fill_leaves(hashes, secret_seed, address, first as u32, nodes, signed, signature);
    }
    for level in 0..height {
        if let Some((leaf, _)) = to_sign {
            signature.extend_from_slice(&nodes[n * (leaf as usize >> level ^ 1)..][..n]);
        }
        hash_level_above(hashes, AddressKind::Tree, Address { row: level as u32 + 1, ..address }, &mut nodes);
    }
    nodes
}

/// Fills `leaves` with the public keys of one-time signatures, from leaf `first` on. With `to_sign`, the position of a leaf in `leaves` and
/// the lengths of its chains, also appends the one-time signature.
fn fill_leaves(
    hashes: &Hashes,
    secret_seed: &[u8],
    address: Address,
    first: u32,
    leaves: &mut [u8],
    to_sign: Option<(usize, &[u8])>,
    signature: &mut Vec<u8>,
) {
    let (n, chains) = (hashes.set.n, hashes.set.chain_count());
    let count = leaves.len() / n;
    let all = 0..count * chains;
    let address_of =
        |call: usize| Address { key_pair: first + (call / chains) as u32, row: (call % chains) as u32, ..address };
    let mut batch = hashes.short_batch(all.end);
    for call in all.clone() {
        batch.set_address(call, AddressKind::WotsSecret, &address_of(call));
        batch.set_message(call, secret_seed);
    }
    batch.hash_in_place(all.clone());
    for call in all.clone() {
        batch.set_address(call, AddressKind::WotsHash, &address_of(call));
    }
    let begin = signature.len();
    if to_sign.is_some() {
        signature.resize(begin + chains * n, 0);
    }
    for step in 0..=CHAIN_HASHES {
        if let Some((leaf, lengths)) = to_sign {
            // The lengths are secret until the signature is published, so a mask selects the value of each chain. `black_box` hides
            // that a mask has only two values; otherwise the compiler might branch on it.
            let parts = signature[begin..].chunks_exact_mut(n).zip(lengths);
            for (chain, (part, length)) in parts.enumerate() {
                let value = batch.message(leaf * chains + chain);
                let mask = black_box(0u8.wrapping_sub((length ^ step).wrapping_sub(1) >> 7));
                part.iter_mut().zip(value).for_each(|(byte, value)| *byte |= value & mask);
            }
        }
        if step < CHAIN_HASHES {
            batch.set_hash_index(all.clone(), step);
            batch.hash_in_place(all.clone());
        }
    }
    let mut ends = hashes.long_batch(chains, count);
    let mut values = Vec::with_capacity(chains * n);
    for leaf in 0..count {
        values.clear();
        (0..chains).for_each(|chain| values.extend_from_slice(batch.message(leaf * chains + chain)));
        ends.set_address(leaf, AddressKind::WotsPublicKey, &Address { key_pair: first + leaf as u32, ..address });
        ends.set_message(leaf, &values);
    }
    ends.hash(leaves);
}

/// Computes the root of a tree from a one-time signature of `message` and its path, which together have
/// [`layer_bytes`](crate::parameters::Parameters::layer_bytes) bytes.
pub(crate) fn root_from_signature(
    hashes: &Hashes,
    address: Address,
    leaf: u32,
    message: &[u8],
    signature: &[u8],
) -> Vec<u8> {
    let set = hashes.set;
    let (n, chains) = (set.n, set.chain_count());
    let (signature, path) = signature.split_at(chains * n);
    let lengths = chain_lengths(message);
    // Chains with the most hashes left come first, so the active chains are always the first calls.
    let mut order: Vec<usize> = (0..chains).collect();
    order.sort_by_key(|&chain| lengths[chain]);
    let mut batch = hashes.short_batch(chains);
    for (call, &chain) in order.iter().enumerate() {
        batch.set_address(call, AddressKind::WotsHash, &Address { key_pair: leaf, row: chain as u32, ..address });
        batch.set_message(call, &signature[chain * n..][..n]);
    }
    for step in 0..CHAIN_HASHES {
        let active = 0..order.partition_point(|&chain| lengths[chain] <= step);
        batch.set_hash_index(active.clone(), step);
        batch.hash_in_place(active);
    }
    let mut values = alloc::vec![0; chains * n];
    for (call, &chain) in order.iter().enumerate() {
        values[chain * n..][..n].copy_from_slice(batch.message(call));
    }
    let mut ends = hashes.long_batch(chains, 1);
    ends.set_address(0, AddressKind::WotsPublicKey, &Address { key_pair: leaf, ..address });
    ends.set_message(0, &values);
    let mut node = ends.hash_one();
    roots_from_paths(
        hashes,
        AddressKind::Tree,
        address,
        &[Leaf { index: leaf, first_of_tree: 0 }],
        &mut node,
        set.height(),
        |_| path,
    );
    node
}

/// Returns the length of each chain: the digits of the message in base 16, and three digits of their checksum (algorithm 7).
fn chain_lengths(message: &[u8]) -> Vec<u8> {
    let mut lengths: Vec<u8> = message.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
    let sum: u16 = lengths.iter().map(|&length| u16::from(CHAIN_HASHES - length)).sum();
    lengths.extend([sum >> 8, sum >> 4 & 15, sum & 15].map(|digit| digit as u8));
    lengths
}
