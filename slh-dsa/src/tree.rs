//! Merkle trees: those of the hypertree, and those of FORS (FIPS 205, 6.1 and 8.2), level by level.

use alloc::vec::Vec;

use crate::address::{Address, Kind};
use crate::batch::Hashes;

/// Nodes that are hashed at a time.
const TOGETHER: usize = 64;

/// Digests each pair of `nodes` into the node above them, so that half as many are left. `address` is that of the nodes above, with the
/// index of the first.
pub(crate) fn level_above(hashes: &Hashes, kind: Kind, address: Address, nodes: &mut Vec<u8>) {
    let n = hashes.set.n;
    let above = nodes.len() / (2 * n);
    let mut batch = hashes.of_many(2, TOGETHER.min(above));
    for first in (0..above).step_by(TOGETHER) {
        let count = TOGETHER.min(above - first);
        for (i, pair) in nodes[2 * n * first..].chunks_exact(2 * n).take(count).enumerate() {
            batch.set_address(i, kind, &Address { index: address.index + (first + i) as u32, ..address });
            batch.set_message(i, pair);
        }
        // The pairs that lie here have been read: the nodes above a pair come no later than it.
        batch.hash(&mut nodes[n * first..n * (first + count)]);
    }
    nodes.truncate(n * above);
}

/// Where a leaf is in its tree: its index, and the number of the tree's first leaf among those of all trees that lie side by side.
#[derive(Clone, Copy)]
pub(crate) struct Leaf {
    pub(crate) index: u32,
    pub(crate) first: u32,
}

/// Goes from leaves up to the roots by their paths, one tree beside the other (`nodes` are the leaves and then the roots). Path `i` begins
/// at `path(i)` and has a node for each level.
pub(crate) fn climb<'a>(
    hashes: &Hashes,
    kind: Kind,
    address: Address,
    leaves: &[Leaf],
    nodes: &mut [u8],
    levels: usize,
    path: impl Fn(usize) -> &'a [u8],
) {
    let n = hashes.set.n;
    let mut batch = hashes.of_many(2, leaves.len());
    for level in 0..levels {
        for (i, (leaf, node)) in leaves.iter().zip(nodes.chunks_exact(n)).enumerate() {
            let sibling = &path(i)[level * n..][..n];
            let mut pair = [0; 64];
            let (left, right) = if leaf.index >> level & 1 == 0 { (node, sibling) } else { (sibling, node) };
            pair[..n].copy_from_slice(left);
            pair[n..2 * n].copy_from_slice(right);
            let index = (leaf.first + leaf.index) >> (level + 1);
            batch.set_address(i, kind, &Address { row: level as u32 + 1, index, ..address });
            batch.set_message(i, &pair[..2 * n]);
        }
        batch.hash(nodes);
    }
}
