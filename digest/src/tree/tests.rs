//! Trees and proofs against the recursive definitions of RFC 9162, and roots against those of Certificate Transparency.

use super::*;
use crate::nodes::tests::{node, parent};
use crate::random::Random;
use crate::tests::on_every_level;
use crate::{InvalidProof, hash_leaves, merkle_root, verify_consistency, verify_inclusion};

const RFC: NodeHash = NodeHash::Rfc6962;

/// MTH of RFC 9162, 2.1.1, of one leaf or more.
fn root(function: NodeHash, leaves: &[Node]) -> Node {
    if let [leaf] = leaves {
        return *leaf;
    }
    let (left, right) = leaves.split_at(largest_power_below(leaves.len()));
    parent(function, [root(function, left), root(function, right)].as_flattened())
}

fn largest_power_below(count: usize) -> usize {
    (0..usize::BITS).map(|exponent| 1 << exponent).take_while(|power| *power < count).last().unwrap()
}

/// PATH of RFC 9162, 2.1.3.1.
fn path(function: NodeHash, index: usize, leaves: &[Node]) -> Vec<Node> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let power = largest_power_below(leaves.len());
    let (left, right) = leaves.split_at(power);
    if index < power {
        [path(function, index, left), vec![root(function, right)]].concat()
    } else {
        [path(function, index - power, right), vec![root(function, left)]].concat()
    }
}

/// SUBPROOF of RFC 9162, 2.1.4.1.
fn subproof(function: NodeHash, old: usize, leaves: &[Node], is_old_root_known: bool) -> Vec<Node> {
    if old == leaves.len() {
        return if is_old_root_known { Vec::new() } else { vec![root(function, leaves)] };
    }
    let power = largest_power_below(leaves.len());
    let (left, right) = leaves.split_at(power);
    if old <= power {
        [subproof(function, old, left, is_old_root_known), vec![root(function, right)]].concat()
    } else {
        [subproof(function, old - power, right, false), vec![root(function, left)]].concat()
    }
}

fn random_leaves(count: usize) -> Vec<Node> {
    let random = Random::new(count as u64);
    (0..count).map(|_| random.bytes(32).try_into().unwrap()).collect()
}

/// A tree that got its leaves in unequal pieces.
fn tree_grown_in_pieces(function: NodeHash, leaves: &[Node]) -> MerkleTree {
    let (random, mut tree, mut rest) = (Random::new(7), MerkleTree::new(function), leaves);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.below(6).min(rest.len()));
        tree.append(piece);
        rest = after;
    }
    tree
}

#[test]
fn roots_and_proofs_are_those_of_the_definition() {
    let leaves = random_leaves(35);
    for function in NodeHash::ALL {
        let tree = tree_grown_in_pieces(function, &leaves);
        assert_eq!(tree.leaves(), leaves);
        for new in 1..=leaves.len() {
            let part = &leaves[..new];
            let new_root = root(function, part);
            assert_eq!(tree.root_at(new), Ok(new_root), "{function:?}, {new}");
            for index in 0..new {
                let proof = tree.inclusion_proof(index, new).unwrap();
                assert_eq!(proof, path(function, index, part), "{function:?}, {index} of {new}");
                let verdict = verify_inclusion(function, &part[index], index as u64, new as u64, &proof, &new_root);
                assert_eq!(verdict, Ok(()), "{function:?}, {index} of {new}");
                let old = index + 1;
                let proof = tree.consistency_proof(old, new).unwrap();
                assert_eq!(proof, subproof(function, old, part, true), "{function:?}, {old} to {new}");
                let old_root = root(function, &part[..old]);
                let verdict = verify_consistency(function, old as u64, new as u64, &proof, &old_root, &new_root);
                assert_eq!(verdict, Ok(()), "{function:?}, {old} to {new}");
            }
        }
    }
}

#[test]
fn pieces_of_any_size_grow_the_same_tree_on_every_level() {
    let leaves = random_leaves(300);
    on_every_level(|level| {
        for function in NodeHash::ALL {
            let mut at_once = MerkleTree::new(function);
            at_once.append(&leaves);
            assert_eq!(at_once.root(), root(function, &leaves), "{level} {function:?}");
            assert_eq!(tree_grown_in_pieces(function, &leaves).levels, at_once.levels, "{level} {function:?}");
            let mut whole = leaves[..256].to_vec();
            assert_eq!(at_once.root_at(256), merkle_root(function, &mut whole), "{level} {function:?}");
        }
    });
}

/// The eight entries in the tests of Certificate Transparency's logs, and the roots of the first 0 to 8 of them.
#[test]
fn roots_are_those_of_certificate_transparency() {
    let entries: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];
    let roots = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let (mut leaves, mut tree) = ([[0; 32]; 8], MerkleTree::new(RFC));
    hash_leaves(RFC, &entries, &mut leaves).unwrap();
    for (count, root) in roots.into_iter().enumerate() {
        assert_eq!(tree.root(), node(root), "{count}");
        tree.append(&leaves[count..8.min(count + 1)]);
    }
}

#[test]
fn altered_proofs_are_refused() {
    let leaves = random_leaves(13);
    let tree = tree_grown_in_pieces(RFC, &leaves);
    let refused = |verdict: Result<(), InvalidProof>| assert_eq!(verdict, Err(InvalidProof));
    for new in 1..=13 {
        let new_root = tree.root_at(new).unwrap();
        for index in 0..new {
            let proof = tree.inclusion_proof(index, new).unwrap();
            let verify = |index: usize, proof: &[Node], root: &Node| {
                verify_inclusion(RFC, &leaves[index.min(12)], index as u64, new as u64, proof, root)
            };
            for altered in altered_proofs(&proof) {
                refused(verify(index, &altered, &new_root));
            }
            refused(verify(index, &proof, &[0; 32]));
            for other in (0..=new).filter(|other| *other != index) {
                refused(verify_inclusion(RFC, &leaves[index], other as u64, new as u64, &proof, &new_root));
                refused(verify(other, &proof, &new_root));
            }
            let old = index + 1;
            let old_root = tree.root_at(old).unwrap();
            let proof = tree.consistency_proof(old, new).unwrap();
            let verify = |proof: &[Node], old_root: &Node, new_root: &Node| {
                verify_consistency(RFC, old as u64, new as u64, proof, old_root, new_root)
            };
            for altered in altered_proofs(&proof) {
                refused(verify(&altered, &old_root, &new_root));
            }
            refused(verify(&proof, &[0; 32], &new_root));
            refused(verify(&proof, &old_root, &[0; 32]));
            if old < new {
                refused(verify_consistency(RFC, new as u64, old as u64, &proof, &new_root, &old_root));
            }
        }
    }
}

/// Altered copies of the proof: each has one node added or removed at an end, or one bit of one node changed.
fn altered_proofs(proof: &[Node]) -> Vec<Vec<Node>> {
    let mut all = vec![[proof, &[[0; 32]]].concat(), [&[[0; 32]], proof].concat()];
    if !proof.is_empty() {
        all.extend([proof[1..].to_vec(), proof[..proof.len() - 1].to_vec()]);
    }
    for place in 0..proof.len() {
        let mut copy = proof.to_vec();
        copy[place][place % 32] ^= 1;
        all.push(copy);
    }
    all
}

/// In a tree of 2^63 equal leaves all nodes of a level are equal, so the test needs one node for each level.
#[test]
fn proofs_about_the_largest_trees_are_verified() {
    let mut nodes = vec![[0; 32]];
    for height in 0..63 {
        nodes.push(RFC.parent(&nodes[height], &nodes[height]));
    }
    let (leaves, siblings, root) = (1 << 63, &nodes[..63], &nodes[63]);
    for index in [0, 1, leaves / 2, leaves - 1] {
        assert_eq!(verify_inclusion(RFC, &nodes[0], index, leaves, siblings, root), Ok(()));
    }
    assert_eq!(verify_inclusion(RFC, &nodes[0], leaves, leaves, siblings, root), Err(InvalidProof));
    assert_eq!(verify_consistency(RFC, leaves / 2, leaves, &[nodes[62]], &nodes[62], root), Ok(()));
    let (last, most) = (RFC.parent(root, &[1; 32]), leaves + 1);
    assert_eq!(verify_inclusion(RFC, &[1; 32], leaves, most, &[*root], &last), Ok(()));
    assert_eq!(verify_consistency(RFC, leaves, most, &[[1; 32]], root, &last), Ok(()));
    assert_eq!(verify_inclusion(RFC, &[1; 32], u64::MAX - 1, u64::MAX, &[], &[1; 32]), Err(InvalidProof));
}

#[test]
fn an_empty_tree_has_proofs_and_leaves_beyond_the_end_have_none() {
    let mut tree = MerkleTree::new(RFC);
    tree.append(&[]);
    let empty = tree.root();
    assert_eq!(tree.inclusion_proof(0, 0), Err(Error::TooFewLeaves { needed: 1, found: 0 }));
    assert_eq!(tree.consistency_proof(0, 0), Ok(Vec::new()));
    assert_eq!(verify_consistency(RFC, 0, 0, &[], &empty, &empty), Ok(()));
    tree.append(&random_leaves(3));
    let root = tree.root();
    assert_eq!(tree.consistency_proof(0, 3), Ok(Vec::new()));
    assert_eq!(verify_consistency(RFC, 0, 3, &[], &empty, &root), Ok(()));
    assert_eq!(verify_consistency(RFC, 0, 3, &[], &root, &root), Err(InvalidProof));
    assert_eq!(verify_inclusion(RFC, &empty, 0, 0, &[], &empty), Err(InvalidProof));
    assert_eq!(tree.root_at(4), Err(Error::TooFewLeaves { needed: 4, found: 3 }));
    assert_eq!(tree.inclusion_proof(0, 4), Err(Error::TooFewLeaves { needed: 4, found: 3 }));
    assert_eq!(tree.inclusion_proof(3, 3), Err(Error::TooFewLeaves { needed: 4, found: 3 }));
    assert_eq!(tree.inclusion_proof(usize::MAX, 3), Err(Error::TooFewLeaves { needed: usize::MAX, found: 3 }));
    assert_eq!(tree.consistency_proof(3, 2), Err(Error::TooFewLeaves { needed: 3, found: 2 }));
    assert_eq!(tree.consistency_proof(2, 4), Err(Error::TooFewLeaves { needed: 4, found: 3 }));
}
