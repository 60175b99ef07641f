//! Verifies proofs about trees from their roots, without the trees (RFC 9162, 2.1).

use core::fmt;

use crate::nodes::{Node, NodeHash};

/// A proof does not lead to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidProof;

impl fmt::Display for InvalidProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the proof does not lead to the root")
    }
}

impl core::error::Error for InvalidProof {}

/// Verifies that `leaf` is leaf `index`, counted from 0, of the tree with `leaves` leaves and this root (RFC 9162, 2.1.3.2).
///
/// The caller must know the number of leaves from the source of the root. With a function other than [`NodeHash::Rfc6962`], an inner node
/// can pass for a leaf. The caller must then also know that `leaf` is the digest of a message, not of a pair.
pub fn verify_inclusion(
    function: NodeHash,
    leaf: &Node,
    index: u64,
    leaves: u64,
    proof: &[Node],
    root: &Node,
) -> Result<(), InvalidProof> {
    if index >= leaves {
        return Err(InvalidProof);
    }
    let (mut path, mut node) = (Path { index, last_index: leaves - 1 }, *leaf);
    for sibling in proof {
        node = match path.next_side()? {
            Side::Left => function.parent(sibling, &node),
            Side::Right => function.parent(&node, sibling),
        };
        path.move_up(1);
    }
    accept_if(path.last_index == 0 && node == *root)
}

/// Verifies that the tree with `new` leaves and the root `new_root` begins with the tree of `old` leaves and the root `old_root` (RFC 9162,
/// 2.1.4.2).
///
/// The caller must know both numbers from the sources of the roots.
pub fn verify_consistency(
    function: NodeHash,
    old: u64,
    new: u64,
    proof: &[Node],
    old_root: &Node,
    new_root: &Node,
) -> Result<(), InvalidProof> {
    if old == new {
        return accept_if(proof.is_empty() && old_root == new_root);
    }
    if old == 0 {
        return accept_if(proof.is_empty() && *old_root == function.empty_root());
    }
    if old > new {
        return Err(InvalidProof);
    }
    // `first` is the root of the last complete subtree of the old tree, and both paths start there. If `old` is a power of two, this
    // subtree is the old tree, and the proof omits its root.
    let (first, rest) =
        if old.is_power_of_two() { (old_root, proof) } else { proof.split_first().ok_or(InvalidProof)? };
    let mut path = Path { index: old - 1, last_index: new - 1 };
    path.move_up(path.index.trailing_ones());
    let (mut from_old, mut from_new) = (*first, *first);
    for sibling in rest {
        match path.next_side()? {
            Side::Left => {
                from_old = function.parent(sibling, &from_old);
                from_new = function.parent(sibling, &from_new);
            }
            Side::Right => from_new = function.parent(&from_new, sibling),
        }
        path.move_up(1);
    }
    accept_if(path.last_index == 0 && from_old == *old_root && from_new == *new_root)
}

fn accept_if(is_valid: bool) -> Result<(), InvalidProof> {
    if is_valid { Ok(()) } else { Err(InvalidProof) }
}

/// The position of a node on the path up to the root.
struct Path {
    /// The node's index in its level.
    index: u64,
    /// The index of the last node in this level: 0 in the level of the root.
    last_index: u64,
}

/// The side of a sibling.
enum Side {
    Left,
    Right,
}

impl Path {
    /// Returns the side of the next sibling, or an error at the root. A last node without a neighbour first moves up to the level where it
    /// has one.
    fn next_side(&mut self) -> Result<Side, InvalidProof> {
        if self.last_index == 0 {
            return Err(InvalidProof);
        }
        if self.index == self.last_index {
            self.move_up(self.index.trailing_zeros());
        }
        Ok(if self.index & 1 == 1 { Side::Left } else { Side::Right })
    }

    fn move_up(&mut self, levels: u32) {
        self.index >>= levels;
        self.last_index >>= levels;
    }
}
