//! Merkle trees of the hypertree and of FORS (FIPS 205, 6.1 and 8.2), level by level.

use alloc::vec::Vec;

use crate::address::{Address, AddressKind};
use crate::batch::Hashes;

/// Nodes hashed at a time.
const NODES_PER_BATCH: usize = 64;

/// Replaces each pair of `nodes` by its parent. `address` is the address of the first parent.
pub(crate) fn hash_level_above(hashes: &Hashes, kind: AddressKind, address: Address, nodes: &mut Vec<u8>) {
    let n = hashes.set.n;
    let above = nodes.len() / (2 * n);
    let mut batch = hashes.long_batch(2, NODES_PER_BATCH.min(above));
    for first in (0..above).step_by(NODES_PER_BATCH) {
        let count = NODES_PER_BATCH.min(above - first);
        for (i, pair) in nodes[2 * n * first..].chunks_exact(2 * n).take(count).enumerate() {
            batch.set_address(i, kind, &Address { index: address.index + (first + i) as u32, ..address });
            batch.set_message(i, pair);
        }
        // The digests overwrite only pairs that were read: parent `i` ends at byte `n * (i + 1)`, and its pair ends at `2 * n * (i + 1)`.
        batch.hash(&mut nodes[n * first..n * (first + count)]);
    }
    nodes.truncate(n * above);
}

/// The position of a leaf: its index in its tree, and the number of the tree's first leaf, counted over all trees side by side.
#[derive(Clone, Copy)]
pub(crate) struct Leaf {
    pub(crate) index: u32,
    pub(crate) first_of_tree: u32,
}

/// Computes the roots of trees side by side, from leaves and their paths. `nodes` holds the leaves, which are replaced by the roots.
/// `path(i)` returns path `i`, with a node for each level.
pub(crate) fn roots_from_paths<'a>(
    hashes: &Hashes,
    kind: AddressKind,
    address: Address,
    leaves: &[Leaf],
    nodes: &mut [u8],
    levels: usize,
    path: impl Fn(usize) -> &'a [u8],
) {
    let n = hashes.set.n;
    let mut batch = hashes.long_batch(2, leaves.len());
    for level in 0..levels {
        for (i, (leaf, node)) in leaves.iter().zip(nodes.chunks_exact(n)).enumerate() {
            let sibling = &path(i)[level * n..][..n];
            let mut pair = [0; 64];
            let (left, right) = if leaf.index >> level & 1 == 0 { (node, sibling) } else { (sibling, node) };
            pair[..n].copy_from_slice(left);
            pair[n..2 * n].copy_from_slice(right);
            let index = (leaf.first_of_tree + leaf.index) >> (level + 1);
            batch.set_address(i, kind, &Address { row: level as u32 + 1, index, ..address });
            batch.set_message(i, &pair[..2 * n]);
        }
        batch.hash(nodes);
    }
}
