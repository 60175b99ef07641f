//! Any proof about a tree of any size is accepted exactly if a recursion over the definitions of RFC 9162 leads to the roots.

#![no_main]

use arbitrary::Arbitrary;
use gantry_digest::{MerkleTree, Node, NodeHash, hash_pairs, verify_consistency, verify_inclusion};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    function: u8,
    /// The numbers are shifted right by this number of bits, so that trees are small or large.
    shift: u8,
    /// The index of a leaf and the number of leaves; also the numbers of leaves of an old and a new tree.
    numbers: [u64; 2],
    /// The byte that each node repeats: first the leaf, the old root and the new root, then the nodes of the proof.
    nodes: [u8; 3],
    proof: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let function = NodeHash::ALL[usize::from(input.function) % NodeHash::ALL.len()];
    let [first, second] = input.numbers.map(|number| number >> (input.shift % 64));
    let [leaf, old_root, new_root] = input.nodes.map(|byte| [byte; 32]);
    let proof: Vec<Node> = input.proof.iter().map(|byte| [*byte; 32]).collect();
    let reference = Reference(function);

    let expected = (first < second).then(|| reference.root_from_inclusion(leaf, first, second, &proof)).flatten();
    let verify = |root| verify_inclusion(function, &leaf, first, second, &proof, &root).is_ok();
    assert_eq!(verify(new_root), expected == Some(new_root));
    assert!(expected.is_none_or(verify));

    let verify = |(old, new)| verify_consistency(function, first, second, &proof, &old, &new).is_ok();
    let claimed = (old_root, new_root);
    if first == second {
        assert_eq!(verify(claimed), proof.is_empty() && old_root == new_root);
        assert_eq!(verify((old_root, old_root)), proof.is_empty());
    } else if first == 0 {
        let empty = MerkleTree::new(function).root();
        assert_eq!(verify(claimed), proof.is_empty() && old_root == empty);
        assert_eq!(verify((empty, new_root)), proof.is_empty());
    } else {
        let roots = |old| {
            (first < second).then(|| reference.roots_from_consistency(Some(old), first, second, &proof)).flatten()
        };
        // Both right roots, and each right root together with a wrong one.
        let valid = roots(old_root).into_iter().flat_map(|(old, new)| [(old, new), (new_root, new), (old, new_root)]);
        for claimed in valid.chain([claimed]) {
            assert_eq!(verify(claimed), roots(claimed.0) == Some(claimed));
        }
    }
});

struct Reference(NodeHash);

impl Reference {
    /// Returns the root of the tree whose PATH (RFC 9162, 2.1.3.1) is this proof.
    fn root_from_inclusion(&self, leaf: Node, index: u64, leaves: u64, proof: &[Node]) -> Option<Node> {
        if leaves == 1 {
            return proof.is_empty().then_some(leaf);
        }
        let (left, (&top, rest)) = (left_leaves(leaves), proof.split_last()?);
        Some(if index < left {
            self.parent(self.root_from_inclusion(leaf, index, left, rest)?, top)
        } else {
            self.parent(top, self.root_from_inclusion(leaf, index - left, leaves - left, rest)?)
        })
    }

    /// Returns the roots of the old and the new tree whose SUBPROOF (RFC 9162, 2.1.4.1) is this proof. `known` is the old root, as long as
    /// no subtree lies left of the current one.
    fn roots_from_consistency(&self, known: Option<Node>, old: u64, new: u64, proof: &[Node]) -> Option<(Node, Node)> {
        if old == new {
            return match (known, proof) {
                (Some(node), []) | (None, &[node]) => Some((node, node)),
                _ => None,
            };
        }
        let (left, (&top, rest)) = (left_leaves(new), proof.split_last()?);
        Some(if old <= left {
            let (old_root, new_root) = self.roots_from_consistency(known, old, left, rest)?;
            (old_root, self.parent(new_root, top))
        } else {
            let (old_root, new_root) = self.roots_from_consistency(None, old - left, new - left, rest)?;
            (self.parent(top, old_root), self.parent(top, new_root))
        })
    }

    fn parent(&self, left: Node, right: Node) -> Node {
        let mut parent = [[0; 32]];
        hash_pairs(self.0, &[left, right], &mut parent).expect("a pair");
        parent[0]
    }
}

/// Returns the number of leaves of the left subtree: the largest power of two below `leaves`.
fn left_leaves(leaves: u64) -> u64 {
    1 << (leaves - 1).ilog2()
}
