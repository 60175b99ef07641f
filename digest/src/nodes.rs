//! Nodes of binary hash trees: digests of messages, and of pairs of digests.

use crate::algorithm::Algorithm;
use crate::blake3::Blake3;
use crate::error::Error;
use crate::hash_function::{GenericWork, HashFunction, plain_setup};
use crate::hasher::Hasher;
use crate::internal::blake3::PLAIN_MODE;
use crate::internal::dispatch::node::Kernels;
use crate::level::Level;
use crate::many::{digest_many, digest_many_after};
use crate::messages::Blocks;

/// A digest of 32 bytes: a leaf or an inner node of a tree.
pub type Node = [u8; 32];

/// The hash function of a tree. A leaf is the digest of a message, and a parent is the digest of its two children, 64 bytes together. Only
/// [`Rfc6962`](Self::Rfc6962) puts a prefix before the message or the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeHash {
    /// SHA-256, as in Ethereum's SSZ.
    Sha256,
    /// SHA-256 of the SHA-256, as in Bitcoin's blocks.
    Sha256d,
    /// Keccak-256, as in Ethereum's contracts.
    Keccak256,
    /// SHA3-256.
    Sha3_256,
    /// BLAKE2b with digests of 32 bytes.
    Blake2b256,
    /// BLAKE3. This is the digest of a pair as a message, not a node inside of BLAKE3.
    Blake3,
    /// SHA-256 with a byte before each message (0) and each pair (1), so that no node can pass for a leaf: Certificate Transparency
    /// (RFC 6962, RFC 9162), Go's module database, Sigstore.
    Rfc6962,
}

impl NodeHash {
    /// Every function.
    pub const ALL: [NodeHash; 7] = [
        NodeHash::Sha256,
        NodeHash::Sha256d,
        NodeHash::Keccak256,
        NodeHash::Sha3_256,
        NodeHash::Blake2b256,
        NodeHash::Blake3,
        NodeHash::Rfc6962,
    ];
}

/// Writes the leaf of each message.
///
/// ```
/// use gantry_digest::{NodeHash, hash_leaves};
///
/// let mut leaves = [[0; 32]; 2];
/// hash_leaves(NodeHash::Rfc6962, &["", "L123456"], &mut leaves)?;
/// assert_eq!(leaves[0][..4], [0x6e, 0x34, 0x0b, 0x9c]);
/// assert_eq!(leaves[1][..4], [0x39, 0x5a, 0xa0, 0x64]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn hash_leaves(function: NodeHash, messages: &[impl AsRef<[u8]>], leaves: &mut [Node]) -> Result<(), Error> {
    match function.pair_hash() {
        PairHash::Blake3 => Blake3::new().digest_many(messages, leaves),
        PairHash::Rfc6962 => {
            let mut prefix = Hasher::new(Algorithm::Sha256);
            prefix.update(&[LEAF_PREFIX]);
            digest_many_after(&prefix, messages, leaves.as_flattened_mut())
        }
        PairHash::Messages(algorithm) => digest_many(algorithm, messages, leaves.as_flattened_mut()),
        PairHash::Sha256 { twice } => {
            digest_many(Algorithm::Sha256, messages, leaves.as_flattened_mut())?;
            if twice {
                for leaves in leaves.chunks_mut(2 * PAIRS_PER_COPY) {
                    let mut copy = [[0; 32]; 2 * PAIRS_PER_COPY];
                    let copy = &mut copy[..leaves.len()];
                    copy.copy_from_slice(leaves);
                    digest_many(Algorithm::Sha256, copy, leaves.as_flattened_mut())?;
                }
            }
            Ok(())
        }
    }
}

/// Writes the parents of `children`: parent `i` is the digest of children `2i` and `2i + 1`.
///
/// ```
/// use gantry_digest::{NodeHash, hash_pairs};
///
/// let mut parent = [[0; 32]];
/// hash_pairs(NodeHash::Sha256, &[[0; 32]; 2], &mut parent)?;
/// assert_eq!(parent[0][..4], [0xf5, 0xa5, 0xfd, 0x42]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
///
/// Parents and children that overlap do not compile; [`hash_pairs_in_place`] takes them.
///
/// ```compile_fail,E0502
/// let mut nodes = [[0; 32]; 2];
/// gantry_digest::hash_pairs(gantry_digest::NodeHash::Sha256, &nodes, &mut nodes[..1]);
/// ```
pub fn hash_pairs(function: NodeHash, children: &[Node], parents: &mut [Node]) -> Result<(), Error> {
    if !children.len().is_multiple_of(2) {
        return Err(Error::OddNodes { nodes: children.len() });
    }
    if parents.len() != children.len() / 2 {
        let (needed, found) = (size_of_val(children) / 2, size_of_val(parents));
        return Err(Error::OutputLength { needed, found });
    }
    function.pair_hash().digest(Level::in_use(), children.as_flattened(), parents.as_flattened_mut());
    Ok(())
}

/// Replaces the first half of the nodes by the parents of all nodes. Returns the parents; the second half then holds unspecified bytes.
///
/// ```
/// let mut nodes = [[0; 32]; 2];
/// let parents = gantry_digest::hash_pairs_in_place(gantry_digest::NodeHash::Sha256, &mut nodes)?;
/// assert_eq!(parents[0][..4], [0xf5, 0xa5, 0xfd, 0x42]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn hash_pairs_in_place(function: NodeHash, nodes: &mut [Node]) -> Result<&mut [Node], Error> {
    if !nodes.len().is_multiple_of(2) {
        return Err(Error::OddNodes { nodes: nodes.len() });
    }
    let (level, parents) = (Level::in_use(), nodes.len() / 2);
    let pair_hash = function.pair_hash();
    if let PairHash::Sha256 { twice } = pair_hash {
        let at = nodes.as_mut_ptr().cast::<u8>();
        // SAFETY: `nodes` holds `parents` pairs, and has room for their digests. These may overwrite the pairs because both start at `at`.
        unsafe { Kernels::new(level).run(at, at, parents, twice) };
        return Ok(&mut nodes[..parents]);
    }
    for first in (0..parents).step_by(PAIRS_PER_COPY) {
        let count = PAIRS_PER_COPY.min(parents - first);
        let mut copy = [[0; 32]; 2 * PAIRS_PER_COPY];
        let copy = &mut copy[..2 * count];
        copy.copy_from_slice(&nodes[2 * first..][..2 * count]);
        pair_hash.digest(level, copy.as_flattened(), nodes[first..first + count].as_flattened_mut());
    }
    Ok(&mut nodes[..parents])
}

/// Writes all inner nodes above the leaves, the lowest level first and the root last: one fewer than there are leaves. The number
/// of leaves must be a power of two. A tree of one leaf is this leaf, and has no inner nodes.
pub fn merkle_tree(function: NodeHash, leaves: &[Node], nodes: &mut [Node]) -> Result<(), Error> {
    if !leaves.len().is_power_of_two() {
        return Err(Error::NotAPowerOfTwo { leaves: leaves.len() });
    }
    if nodes.len() != leaves.len() - 1 {
        let (needed, found) = (size_of_val(leaves) - size_of::<Node>(), size_of_val(nodes));
        return Err(Error::OutputLength { needed, found });
    }
    let (mut below, mut rest) = (leaves, nodes);
    while below.len() > 1 {
        let (level, above) = rest.split_at_mut(below.len() / 2);
        hash_pairs(function, below, level)?;
        (below, rest) = (level, above);
    }
    Ok(())
}

/// Returns the root of the tree over these leaves, whose number must be a power of two. The leaves are overwritten.
///
/// ```
/// use gantry_digest::{NodeHash, merkle_root};
///
/// let mut leaves = vec![[0; 32]; 8];
/// let root = merkle_root(NodeHash::Sha256, &mut leaves)?;
/// assert_eq!(root[..4], [0xc7, 0x80, 0x09, 0xfd]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn merkle_root(function: NodeHash, leaves: &mut [Node]) -> Result<Node, Error> {
    if !leaves.len().is_power_of_two() {
        return Err(Error::NotAPowerOfTwo { leaves: leaves.len() });
    }
    let mut level = leaves;
    while level.len() > 1 {
        level = hash_pairs_in_place(function, level)?;
    }
    Ok(level[0])
}

/// Pairs copied at a time, so that their digests can replace them.
const PAIRS_PER_COPY: usize = 32;

/// Bytes of a pair.
const PAIR_SIZE: usize = 2 * size_of::<Node>();

/// The byte before a message; `PAIR_PREFIX` is the byte before a pair (RFC 9162, 2.1.1).
const LEAF_PREFIX: u8 = 0;
const PAIR_PREFIX: u8 = 1;

/// How a function digests pairs.
enum PairHash {
    /// SHA-256 has kernels for pairs. With `twice`, they digest each digest again.
    Sha256 {
        twice: bool,
    },
    /// Each pair is a message.
    Messages(Algorithm),
    Blake3,
    Rfc6962,
}

impl PairHash {
    /// Digests pairs that lie one after the other.
    fn digest(&self, level: Level, pairs: &[u8], output: &mut [u8]) {
        debug_assert_eq!(pairs.len(), 2 * output.len());
        let blocks = Blocks { data: pairs, block_size: PAIR_SIZE };
        match *self {
            PairHash::Sha256 { twice } => {
                let count = output.len() / size_of::<Node>();
                // SAFETY: all callers pass twice as many bytes in `pairs` as in `output`, which has room for `count` digests. The slices do
                // not overlap.
                unsafe { Kernels::new(level).run(pairs.as_ptr(), output.as_mut_ptr(), count, twice) };
            }
            PairHash::Messages(algorithm) => {
                plain_setup(algorithm).run(HashPairs { level, prefix: None, blocks, output });
            }
            // A single pair is faster as a whole message of 65 bytes than as the continuation of a prefix.
            PairHash::Rfc6962 if pairs.len() == PAIR_SIZE => {
                let mut message = [PAIR_PREFIX; 1 + PAIR_SIZE];
                message[1..].copy_from_slice(pairs);
                let blocks = Blocks { data: &message, block_size: message.len() };
                plain_setup(Algorithm::Sha256).run(HashPairs { level, prefix: None, blocks, output });
            }
            PairHash::Rfc6962 => {
                plain_setup(Algorithm::Sha256).run(HashPairs { level, prefix: Some(PAIR_PREFIX), blocks, output });
            }
            PairHash::Blake3 => PLAIN_MODE.digest_pairs(level, pairs, output),
        }
    }
}

impl NodeHash {
    fn pair_hash(self) -> PairHash {
        match self {
            NodeHash::Sha256 => PairHash::Sha256 { twice: false },
            NodeHash::Sha256d => PairHash::Sha256 { twice: true },
            NodeHash::Keccak256 => PairHash::Messages(Algorithm::Keccak256),
            NodeHash::Sha3_256 => PairHash::Messages(Algorithm::Sha3_256),
            NodeHash::Blake2b256 => PairHash::Messages(Algorithm::Blake2b256),
            NodeHash::Blake3 => PairHash::Blake3,
            NodeHash::Rfc6962 => PairHash::Rfc6962,
        }
    }

    /// The root of a tree without leaves: the digest of no bytes, without a prefix (RFC 9162, 2.1.1).
    pub(crate) fn empty_root(self) -> Node {
        let mut root = [[0; 32]];
        let function = if self == NodeHash::Rfc6962 { NodeHash::Sha256 } else { self };
        let written = hash_leaves(function, &[[]], &mut root);
        debug_assert_eq!(written, Ok(()), "there is one root");
        root[0]
    }

    /// The digest of one pair.
    pub(crate) fn parent(self, left: &Node, right: &Node) -> Node {
        let mut parent = [0; 32];
        self.pair_hash().digest(Level::in_use(), [*left, *right].as_flattened(), &mut parent);
        parent
    }
}

struct HashPairs<'a> {
    level: Level,
    /// A byte before each pair.
    prefix: Option<u8>,
    blocks: Blocks<'a>,
    output: &'a mut [u8],
}

impl GenericWork for HashPairs<'_> {
    type Output = ();

    fn run<F: HashFunction>(self, setup: &F::Setup) {
        let prefix = self.prefix.map(|byte| {
            let mut prefix = F::stream(setup);
            F::append(|| self.level, setup, &mut prefix, &[byte]);
            prefix
        });
        F::run_whole(self.level, setup, prefix.as_ref(), &self.blocks, self.output);
    }
}

#[cfg(test)]
pub(crate) mod tests;
