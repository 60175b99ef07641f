//! Trees that grow, and proofs about them: the shape of RFC 9162 (Certificate Transparency), 2.1.

use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;
use crate::nodes::{Node, NodeHash, hash_pairs};

/// A tree that grows at its end. It proves that a leaf is part of it, and that a larger tree begins with a smaller one.
///
/// Leaves and nodes are paired from the left. A last node without a neighbour moves up unchanged (RFC 9162, 2.1.1). If the number of
/// leaves is a power of two, [`merkle_root`](crate::merkle_root) returns the same root. The tree keeps the root of each complete subtree,
/// up to 64 bytes a leaf, and hashes whole levels side by side.
///
/// ```
/// use gantry_digest::{MerkleTree, NodeHash, hash_leaves, verify_inclusion};
///
/// let mut leaves = [[0; 32]; 3];
/// hash_leaves(NodeHash::Rfc6962, &["alice", "bob", "carol"], &mut leaves)?;
/// let mut tree = MerkleTree::new(NodeHash::Rfc6962);
/// tree.append(&leaves);
/// let (root, proof) = (tree.root(), tree.inclusion_proof(1, 3)?);
/// assert!(verify_inclusion(NodeHash::Rfc6962, &leaves[1], 1, 3, &proof, &root).is_ok());
/// # Ok::<(), gantry_digest::Error>(())
/// ```
#[derive(Clone)]
pub struct MerkleTree {
    function: NodeHash,
    /// Level `h` has the roots of all complete subtrees of 2^h leaves, from the left.
    levels: Vec<Vec<Node>>,
}

impl MerkleTree {
    /// A tree without leaves.
    pub fn new(function: NodeHash) -> Self {
        MerkleTree { function, levels: Vec::new() }
    }

    /// The hash function.
    pub fn function(&self) -> NodeHash {
        self.function
    }

    /// The leaves.
    pub fn leaves(&self) -> &[Node] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }

    /// Appends leaves, which [`hash_leaves`](crate::hash_leaves) makes of messages. Appending many at a time is faster.
    pub fn append(&mut self, leaves: &[Node]) {
        if leaves.is_empty() {
            return;
        }
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].extend_from_slice(leaves);
        let mut height = 0;
        while self.levels[height].len() > 1 {
            if self.levels.len() == height + 1 {
                self.levels.push(Vec::new());
            }
            let (below, above) = self.levels.split_at_mut(height + 1);
            let (children, parents) = (&below[height], &mut above[0]);
            let (old, new) = (parents.len(), children.len() / 2);
            if old == new {
                break;
            }
            parents.resize(new, [0; 32]);
            let written = hash_pairs(self.function, &children[2 * old..2 * new], &mut parents[old..]);
            debug_assert_eq!(written, Ok(()), "there are two children for each parent");
            height += 1;
        }
    }

    /// The root of all leaves. A tree without leaves has the digest of no bytes as its root.
    pub fn root(&self) -> Node {
        self.subtree_root(0, self.leaves().len())
    }

    /// The root when the tree had `leaves` leaves.
    pub fn root_at(&self, leaves: usize) -> Result<Node, Error> {
        self.check_leaf_count(leaves)?;
        Ok(self.subtree_root(0, leaves))
    }

    /// Proves that leaf `index`, counted from 0, is one of the first `leaves` leaves. The proof has the nodes beside the path from the leaf
    /// up to the root of these leaves, the lowest first (RFC 9162, 2.1.3.1).
    pub fn inclusion_proof(&self, index: usize, leaves: usize) -> Result<Vec<Node>, Error> {
        self.check_leaf_count(leaves)?;
        if index >= leaves {
            return Err(Error::TooFewLeaves { needed: index.saturating_add(1), found: leaves });
        }
        let (mut first, mut end, mut proof) = (0, leaves, Vec::new());
        while end - first > 1 {
            let middle = middle(first, end);
            if index < middle {
                proof.push(self.subtree_root(middle, end));
                end = middle;
            } else {
                proof.push(self.subtree_root(first, middle));
                first = middle;
            }
        }
        proof.reverse();
        Ok(proof)
    }

    /// Proves that the tree of the first `new` leaves begins with the tree of the first `old` leaves (RFC 9162, 2.1.4.1). The proof is
    /// empty if `old` is `new` or 0.
    pub fn consistency_proof(&self, old: usize, new: usize) -> Result<Vec<Node>, Error> {
        self.check_leaf_count(new)?;
        if old > new {
            return Err(Error::TooFewLeaves { needed: old, found: new });
        }
        let (mut first, mut end, mut proof) = (0, new, Vec::new());
        if old == 0 {
            return Ok(proof);
        }
        while old < end {
            let middle = middle(first, end);
            if old <= middle {
                proof.push(self.subtree_root(middle, end));
                end = middle;
            } else {
                proof.push(self.subtree_root(first, middle));
                first = middle;
            }
        }
        // If `first` is 0, this last subtree is the old tree, and the verifier has its root already.
        if first > 0 {
            proof.push(self.subtree_root(first, end));
        }
        proof.reverse();
        Ok(proof)
    }

    fn check_leaf_count(&self, leaves: usize) -> Result<(), Error> {
        let found = self.leaves().len();
        if leaves > found { Err(Error::TooFewLeaves { needed: leaves, found }) } else { Ok(()) }
    }

    /// The root of the leaves in `first..end`. `first` must be a multiple of a power of two, and this power at least the number of these
    /// leaves. Each set bit of the number then stands for a complete subtree.
    fn subtree_root(&self, first: usize, mut end: usize) -> Node {
        let mut root = None;
        while end > first {
            let height = (end - first).trailing_zeros();
            end -= 1 << height;
            let left = &self.levels[height as usize][end >> height];
            root = Some(root.map_or(*left, |right| self.function.parent(left, &right)));
        }
        root.unwrap_or_else(|| self.function.empty_root())
    }
}

impl fmt::Debug for MerkleTree {
    /// Omits the nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaves = self.leaves().len();
        f.debug_struct("MerkleTree").field("function", &self.function).field("leaves", &leaves).finish_non_exhaustive()
    }
}

/// The first leaf of the right subtree of `first..end`, which has at least two leaves. The left subtree's number of leaves is the largest
/// power of two below the whole number.
fn middle(first: usize, end: usize) -> usize {
    first + (1 << (end - first - 1).ilog2())
}

#[cfg(test)]
mod tests;
