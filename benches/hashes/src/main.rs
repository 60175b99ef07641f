//! Measures gantry-digest against other crates, on one thread: nanoseconds of its CPU time for a message.
//!
//!     cargo run --release -p gantry-bench-hashes -- [WORD...]
//!
//! With words, only rows whose name has one of them run. Each figure is the least of several runs. The environment variable `GANTRY_CPU`
//! limits the kernels of gantry-digest (`base`, `avx2`, `vaes`, `avx512`).

use std::hint::black_box;
use std::time::Duration;

use gantry_digest::{Algorithm, Blake3, MerkleTree, NodeHash, Sha1Checked, digest_many, hash_pairs, limit};
use nix::time::{ClockId, clock_gettime};
use sha2::Digest;

/// Messages of a run, so that a run takes about a millisecond.
const MESSAGES: u16 = 8192;
const COUNT: usize = MESSAGES as usize;
const RUNS: usize = 40;

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock").into()
}

/// The words on the command line.
struct Filter(Vec<String>);

impl Filter {
    /// Measures `work`, which hashes all messages, next to `peer` in turn. Prints both in nanoseconds for a message.
    fn row(&self, name: &str, mut work: impl FnMut(), mut peer: impl FnMut()) {
        if !self.0.is_empty() && !self.0.iter().any(|word| name.contains(word.as_str())) {
            return;
        }
        let mut least = [f64::INFINITY; 2];
        let mut works: [&mut dyn FnMut(); 2] = [&mut work, &mut peer];
        for _ in 0..RUNS {
            for (least, work) in least.iter_mut().zip(&mut works) {
                let begin = cpu_time();
                work();
                let taken = cpu_time().saturating_sub(begin);
                let nanoseconds = taken.as_secs_f64() * 1e9;
                *least = least.min(nanoseconds / f64::from(MESSAGES));
            }
        }
        let [ours, peer] = least;
        println!("{name:44} {ours:8.1} {peer:8.1} {:6.2}", ours / peer);
    }
}

fn main() {
    if let Ok(level) = std::env::var("GANTRY_CPU") {
        limit(level.parse().expect("a level"));
    }
    hashtree_rs::init();
    let filter = Filter(std::env::args().skip(1).collect());
    println!("{:44} {:>8} {:>8} {:>6}", "ns a message, least of 40 runs", "gantry", "peer", "ratio");
    short(&filter);
    digests(&filter);
    nodes(&filter);
    logs(&filter);
    keccak(&filter);
    sha1_checked(&filter);
    blake3(&filter);
}

/// Keccak-256 as in Ethereum, against a loop over the crate `sha3`.
fn keccak(filter: &Filter) {
    for length in [32, 64, 1024] {
        let data: Vec<u8> = (0..COUNT * length).map(|i| (i % 251) as u8).collect();
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 4, 1024] {
            let mut ours = vec![0; COUNT * 32];
            let mut theirs = ours.clone();
            filter.row(
                &format!("keccak-256 of {length} bytes, batches of {batch}; sha3"),
                || {
                    for (messages, output) in messages.chunks(batch).zip(ours.chunks_mut(batch * 32)) {
                        digest_many(Algorithm::Keccak256, black_box(messages), output).expect("a good output");
                    }
                },
                || {
                    for (message, output) in messages.iter().zip(theirs.chunks_exact_mut(32)) {
                        output.copy_from_slice(&sha3::Keccak256::digest(black_box(message)));
                    }
                },
            );
        }
    }
}

/// SHA-1 with collision detection, against a loop over the crate `sha1-checked`.
fn sha1_checked(filter: &Filter) {
    for length in [64, 300, 4096] {
        // Every block must be another: the time depends on the number of suspicious ones.
        let data: Vec<u8> = (0..COUNT * length).map(|i| (i.wrapping_mul(i ^ 0x9e37_79b9) >> 13) as u8).collect();
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 4, 8, 1024] {
            let mut ours = vec![Ok([0; 20]); COUNT];
            filter.row(
                &format!("checked sha1 of {length} bytes, batches of {batch}; sha1-checked"),
                || {
                    for (messages, results) in messages.chunks(batch).zip(ours.chunks_mut(batch)) {
                        Sha1Checked::digest_many(black_box(messages), results).expect("results for all");
                    }
                },
                || messages.iter().for_each(|message| _ = black_box(sha1_checked::Sha1::try_digest(message))),
            );
        }
    }
}

/// BLAKE3, against a loop over the crate `blake3`.
fn blake3(filter: &Filter) {
    for length in [64, 256, 1024, 16384] {
        let data: Vec<u8> = (0..COUNT * length).map(|i| (i % 251) as u8).collect();
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 4, 8, 1024] {
            let mut ours = vec![[0; 32]; COUNT];
            filter.row(
                &format!("blake3 of {length} bytes, batches of {batch}; blake3"),
                || {
                    for (messages, digests) in messages.chunks(batch).zip(ours.chunks_mut(batch)) {
                        Blake3::new().digest_many(black_box(messages), digests).expect("digests for all");
                    }
                },
                || messages.iter().for_each(|message| _ = black_box(::blake3::hash(message))),
            );
        }
    }
    let children: Vec<[u8; 32]> = (0..2 * COUNT).map(|i| [i as u8; 32]).collect();
    let mut parents = vec![[0; 32]; COUNT];
    filter.row(
        &format!("nodes of blake3, {COUNT} at once; blake3"),
        || hash_pairs(NodeHash::Blake3, black_box(&children), &mut parents).expect("pairs"),
        || children.chunks_exact(2).for_each(|pair| _ = black_box(::blake3::hash(pair.as_flattened()))),
    );
}

/// One message at a time through RustCrypto's trait.
fn digests(filter: &Filter) {
    for length in [24, 256] {
        let data: Vec<u8> = (0..COUNT * length).map(|i| (i % 251) as u8).collect();
        let name = format!("Digest of sha256, {length} bytes; sha2");
        filter.row(
            &name,
            || data.chunks_exact(length).for_each(|message| _ = black_box(gantry_digest::Sha256::digest(message))),
            || data.chunks_exact(length).for_each(|message| _ = black_box(sha2::Sha256::digest(message))),
        );
    }
}

/// Levels of a tree of SHA-256.
fn nodes(filter: &Filter) {
    for count in [1, 4, 32, COUNT] {
        let children: Vec<[u8; 32]> = (0..2 * COUNT).map(|i| [i as u8; 32]).collect();
        let mut ours = vec![[0; 32]; COUNT];
        let mut theirs = ours.clone();
        let name = format!("nodes of sha256, {count} at once; hashtree-rs");
        filter.row(
            &name,
            || {
                for (children, parents) in children.chunks(2 * count).zip(ours.chunks_mut(count)) {
                    hash_pairs(NodeHash::Sha256, black_box(children), parents).expect("pairs");
                }
            },
            || {
                for (children, parents) in children.chunks(2 * count).zip(theirs.chunks_mut(count)) {
                    hashtree_rs::hash(parents.as_flattened_mut(), black_box(children.as_flattened()), count);
                }
            },
        );
    }
}

/// Nodes with a byte before each pair (RFC 6962), and a tree that gets its leaves in pieces, against a loop over the crate `sha2`.
fn logs(filter: &Filter) {
    let children: Vec<[u8; 32]> = (0..2 * COUNT).map(|i| [i as u8; 32]).collect();
    let one = |pair: &[[u8; 32]]| sha2::Sha256::new().chain_update([1]).chain_update(pair.as_flattened()).finalize();
    let mut parents = vec![[0; 32]; COUNT];
    for count in [1, 4, COUNT] {
        filter.row(
            &format!("nodes of rfc6962, {count} at once; sha2"),
            || {
                for (children, parents) in children.chunks(2 * count).zip(parents.chunks_mut(count)) {
                    hash_pairs(NodeHash::Rfc6962, black_box(children), parents).expect("pairs");
                }
            },
            || children.chunks_exact(2).for_each(|pair| _ = black_box(one(pair))),
        );
    }
    // As many leaves as nodes are hashed.
    let leaves = &children[..COUNT];
    for count in [1, 256, COUNT] {
        filter.row(
            &format!("a tree of rfc6962 that grows by {count} leaves; sha2"),
            || {
                let mut tree = MerkleTree::new(NodeHash::Rfc6962);
                leaves.chunks(count).for_each(|leaves| tree.append(black_box(leaves)));
            },
            || leaves.chunks_exact(2).cycle().take(COUNT).for_each(|pair| _ = black_box(one(pair))),
        );
    }
}

/// Messages of one length in batches, against a loop over the crate `sha2`.
fn short(filter: &Filter) {
    for length in [24, 64, 256, 1024] {
        let data: Vec<u8> = (0..COUNT * length).map(|i| (i % 251) as u8).collect();
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for (algorithm, size) in [(Algorithm::Sha256, 32), (Algorithm::Sha512, 64)] {
            let mut ours = vec![0; COUNT * size];
            let mut theirs = ours.clone();
            for batch in [1, 2, 3, 4, 5, 6, 8, 16, 64, 1024] {
                filter.row(
                    &format!("{algorithm} of {length} bytes, batches of {batch}; sha2"),
                    || {
                        for (messages, output) in messages.chunks(batch).zip(ours.chunks_mut(batch * size)) {
                            digest_many(algorithm, black_box(messages), output).expect("a good output");
                        }
                    },
                    || {
                        for (message, output) in messages.iter().zip(theirs.chunks_exact_mut(size)) {
                            if size == 32 {
                                output.copy_from_slice(&sha2::Sha256::digest(black_box(message)));
                            } else {
                                output.copy_from_slice(&sha2::Sha512::digest(black_box(message)));
                            }
                        }
                    },
                );
            }
        }
    }
}
