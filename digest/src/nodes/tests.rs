use super::*;
use crate::Hasher;
use crate::random::Random;
use crate::tests::on_every_level;

pub(crate) fn node(hex: &str) -> Node {
    core::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
}

/// The digest of two nodes, hashed as a single message.
pub(crate) fn parent(function: NodeHash, pair: &[u8]) -> Node {
    digest(function, PAIR_PREFIX, pair)
}

/// The digest of one message, with the byte `prefix` before it if the function has prefixes.
fn digest(function: NodeHash, prefix: u8, message: &[u8]) -> Node {
    let one = |algorithm, message: &[u8]| {
        let (mut digest, mut hasher) = ([0; 32], Hasher::new(algorithm));
        hasher.update(message);
        hasher.finish(&mut digest).unwrap();
        digest
    };
    match function.pair_hash() {
        PairHash::Sha256 { twice: false } => one(Algorithm::Sha256, message),
        PairHash::Sha256 { twice: true } => one(Algorithm::Sha256, &one(Algorithm::Sha256, message)),
        PairHash::Messages(algorithm) => one(algorithm, message),
        PairHash::Blake3 => ::blake3::hash(message).into(),
        PairHash::Rfc6962 => one(Algorithm::Sha256, &[&[prefix], message].concat()),
    }
}

#[test]
fn leaves_are_digests_of_the_messages() {
    let random = Random::new(0x6c65_6166);
    on_every_level(|level| {
        for function in NodeHash::ALL {
            for count in [0, 1, 2, 63, 64, 65, 150] {
                let messages: Vec<Vec<u8>> = (0..count).map(|_| random.bytes(random.below(200))).collect();
                let expected: Vec<Node> =
                    messages.iter().map(|message| digest(function, LEAF_PREFIX, message)).collect();
                let mut leaves = vec![[0; 32]; count];
                assert_eq!(hash_leaves(function, &messages, &mut leaves), Ok(()));
                assert_eq!(leaves, expected, "{level} {function:?}, {count}");
                leaves.push([7; 32]);
                let wrong = Error::OutputLength { needed: 32 * count, found: 32 * count + 32 };
                assert_eq!(hash_leaves(function, &messages, &mut leaves), Err(wrong));
            }
        }
    });
}

#[test]
fn parents_in_and_out_of_place_equal_digests_of_pairs() {
    let random = Random::new(0x6e6f_6465);
    on_every_level(|level| {
        for function in NodeHash::ALL {
            for count in (0..=36).chain([100]) {
                let mut nodes: Vec<Node> = (0..2 * count).map(|_| random.bytes(32).try_into().unwrap()).collect();
                let expected: Vec<Node> = nodes.chunks(2).map(|pair| parent(function, pair.as_flattened())).collect();
                // A node on each side of the output shows writes outside of it.
                let mut parents = vec![[0xa5; 32]; count + 2];
                hash_pairs(function, &nodes, &mut parents[1..=count]).unwrap();
                assert_eq!(parents[1..=count], expected, "{level} {function:?}, {count}");
                assert_eq!([parents[0], parents[count + 1]], [[0xa5; 32]; 2], "{level} {function:?}, {count}");
                assert_eq!(
                    hash_pairs_in_place(function, &mut nodes).unwrap(),
                    expected,
                    "{level} {function:?}, {count}"
                );
            }
        }
    });
}

/// The roots over 2, 4 and 8 leaves of zeros: entries 1, 2 and 3 of `zerohashes` in Ethereum's consensus-specs (`merkle_minimal.py`).
#[test]
fn roots_of_zeros_are_those_of_ethereum() {
    let roots = [
        "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b",
        "db56114e00fdd4c1f85c892bf35ac9a89289aaecb1ebd0a96cde606a748b5d71",
        "c78009fdf07fc56a11f122370658a353aaa542ed63e44c4bc15ff4cd105ab33c",
    ];
    on_every_level(|_| {
        for (height, root) in roots.into_iter().enumerate() {
            assert_eq!(merkle_root(NodeHash::Sha256, &mut vec![[0; 32]; 2 << height]), Ok(node(root)));
        }
    });
}

/// The transactions of block 100,000 of Bitcoin and the root in its header. Bitcoin writes digests from the last byte.
#[test]
fn a_block_of_bitcoin_has_the_root_of_its_header() {
    let reversed = |hex| {
        let mut node = node(hex);
        node.reverse();
        node
    };
    let transactions = [
        "8c14f0db3df150123e6f3dbbf30f8b955a8249b62ac1d1ff16284aefa3d06d87",
        "fff2525b8931402dd09222c50775608f75787bd2b87e56995a7bdd30f79702c4",
        "6359f0868171b1d194cbee1af2f16ea598ae8fad666d9b012c8ed2b79a236ec4",
        "e9a66845e05d5abc0ad04ec80f774a7e585c6e8db975962d069a522137b80c1d",
    ]
    .map(reversed);
    let root = reversed("f3e94742aca4b5ef85488dc37c06c3282295ffec960994b2c0d5ac2a25a95766");
    on_every_level(|_| {
        let mut nodes = [[0; 32]; 3];
        merkle_tree(NodeHash::Sha256d, &transactions, &mut nodes).unwrap();
        assert_eq!(nodes[2], root);
        assert_eq!(merkle_root(NodeHash::Sha256d, &mut transactions.clone()), Ok(root));
    });
}

#[test]
fn numbers_of_nodes_that_make_no_tree_are_refused() {
    let mut nodes = [[7; 32]; 6];
    assert_eq!(hash_pairs(NodeHash::Sha256, &[[0; 32]; 3], &mut nodes), Err(Error::OddNodes { nodes: 3 }));
    let wrong = hash_pairs(NodeHash::Sha256, &[[0; 32]; 4], &mut nodes[..1]);
    assert_eq!(wrong, Err(Error::OutputLength { needed: 64, found: 32 }));
    assert_eq!(hash_pairs_in_place(NodeHash::Sha256, &mut nodes[..5]), Err(Error::OddNodes { nodes: 5 }));
    assert_eq!(merkle_root(NodeHash::Sha256, &mut nodes), Err(Error::NotAPowerOfTwo { leaves: 6 }));
    assert_eq!(merkle_root(NodeHash::Sha256, &mut []), Err(Error::NotAPowerOfTwo { leaves: 0 }));
    assert_eq!(merkle_tree(NodeHash::Sha256, &[], &mut nodes), Err(Error::NotAPowerOfTwo { leaves: 0 }));
    let wrong = merkle_tree(NodeHash::Sha256, &[[0; 32]; 4], &mut nodes[..2]);
    assert_eq!(wrong, Err(Error::OutputLength { needed: 96, found: 64 }));
    assert_eq!(nodes, [[7; 32]; 6]);
    assert_eq!(merkle_root(NodeHash::Sha256, &mut [[9; 32]]), Ok([9; 32]));
    assert_eq!(merkle_tree(NodeHash::Sha256, &[[9; 32]], &mut []), Ok(()));
}
