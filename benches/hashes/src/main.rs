//! Compares gantry-digest with other hash libraries (its peers), on one thread.
//!
//!     benches/hashes/run [WORD...]
//!
//! With words, runs only the rows whose names contain one of the words. The first number of a row is the least CPU time of gantry-digest
//! per message, in nanoseconds. A peer's number is the ratio of its CPU time to that of gantry-digest, the median of all rounds: 2.00 means
//! that the peer takes twice as long.

mod openssl;

use std::hint::black_box;

use gantry_digest::{Algorithm, Blake3, Digest, MerkleTree, Node, NodeHash, Sha1Checked, digest_many, hash_pairs};
use nix::time::{ClockId, clock_gettime};
use openssl::Openssl;

/// Messages per run: enough that a run takes about a millisecond.
const MESSAGES: usize = 8192;
const ROUNDS: usize = 40;

/// Hashes messages, or pairs of nodes, and writes their digests.
type HashWork<'a, T> = dyn FnMut(&[T], &mut [u8]) + 'a;

/// Returns the nanoseconds of this thread's CPU time.
fn cpu_time() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// The words on the command line.
struct RowFilter(Vec<String>);

impl RowFilter {
    /// Measures `ours` and each peer in turn, on batches of `batch` digests of `digest_size` bytes. `input` has
    /// the data of [`MESSAGES`] digests.
    fn measure_row<T>(
        &self,
        (name, batch): (&str, usize),
        (input, digest_size): (&[T], usize),
        ours: &mut HashWork<'_, T>,
        peers: &mut [(&str, &mut HashWork<'_, T>)],
    ) {
        let name = format!("{name}, in batches of {batch}");
        if !self.0.is_empty() && !self.0.iter().any(|word| name.contains(word.as_str())) {
            return;
        }
        let measure = |work: &mut HashWork<'_, T>, output: &mut [u8]| {
            let begin = cpu_time();
            for (input, output) in
                input.chunks(input.len() / MESSAGES * batch).zip(output.chunks_mut(batch * digest_size))
            {
                work(black_box(input), output);
            }
            (cpu_time() - begin) as f64
        };
        let (mut output, mut best_ns) = (vec![0; MESSAGES * digest_size], f64::INFINITY);
        let (mut expected, mut ratios) = (output.clone(), vec![Vec::new(); peers.len()]);
        for _ in 0..ROUNDS {
            let time = measure(ours, &mut expected);
            best_ns = best_ns.min(time);
            for ((name, peer), ratios) in peers.iter_mut().zip(&mut ratios) {
                ratios.push(measure(peer, &mut output) / time);
                assert!(output == expected, "{name} has other digests");
            }
        }
        print!("{name:56} {:8.1}", best_ns / MESSAGES as f64);
        for ((name, _), ratios) in peers.iter().zip(&mut ratios) {
            ratios.sort_by(f64::total_cmp);
            print!("  {name} {:.2}", ratios[ROUNDS / 2]);
        }
        println!();
    }
}

/// Returns work that calls `hash` for each message.
fn per_message<H: AsRef<[u8]>>(hash: impl Fn(&[u8]) -> H) -> impl Fn(&[&[u8]], &mut [u8]) {
    move |messages, output| {
        for (message, output) in messages.iter().zip(output.chunks_exact_mut(output.len() / messages.len())) {
            output.copy_from_slice(hash(message).as_ref());
        }
    }
}

/// Returns `MESSAGES * length` bytes without repetition: the time of SHA-1 with collision detection depends on the number of suspicious
/// blocks.
fn varied_bytes(length: usize) -> Vec<u8> {
    (0..MESSAGES * length).map(|i| (i.wrapping_mul(i ^ 0x9e37_79b9) >> 13) as u8).collect()
}

/// Lets hashtree-rs detect the CPU, as gantry-digest does.
#[cfg(feature = "std")]
fn init_hashtree() {
    hashtree_rs::init();
}

/// Selects the kernel of hashtree-rs for the target features, as gantry-digest does. The crate itself would take SHA instructions.
#[cfg(not(feature = "std"))]
fn init_hashtree() {
    type Kernel = unsafe extern "C" fn(*mut u8, *const u8, u64);
    unsafe extern "C" {
        fn hashtree_init(kernel: Kernel);
        fn hashtree_sha256_avx2_x8(output: *mut u8, input: *const u8, count: u64);
        fn hashtree_sha256_avx512_x16(output: *mut u8, input: *const u8, count: u64);
    }
    let kernel =
        if cfg!(target_feature = "avx512f") { hashtree_sha256_avx512_x16 as Kernel } else { hashtree_sha256_avx2_x8 };
    // SAFETY: the signatures are those of hashtree.h, and nothing is hashed yet.
    unsafe { hashtree_init(kernel) };
}

fn main() {
    if let Ok(level) = std::env::var("GANTRY_CPU") {
        gantry_digest::limit_level(level.parse().expect("a level"));
    }
    init_hashtree();
    let (filter, openssl) = (RowFilter(std::env::args().skip(1).collect()), Openssl::load());
    println!(
        "Nanoseconds of gantry-digest per message, and the time of each peer relative to it. {}",
        openssl.version()
    );
    sha2(&filter, &openssl);
    sha256_nodes(&filter);
    rfc6962_trees(&filter);
    keccak(&filter, &openssl);
    sha1_checked(&filter);
    blake3(&filter);
}

fn sha2(filter: &RowFilter, openssl: &Openssl) {
    for length in [24, 64, 256, 1024, 4096] {
        let data = varied_bytes(length);
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 2, 3, 4, 5, 6, 8, 16, 64, 1024] {
            filter.measure_row(
                (&format!("SHA-256 of {length} bytes"), batch),
                (&messages, 32),
                &mut |messages, output| digest_many(Algorithm::Sha256, messages, output).expect("a good output"),
                &mut [
                    ("sha2", &mut per_message(|message| sha2::Sha256::digest(message))),
                    ("ring", &mut per_message(|message| ring::digest::digest(&ring::digest::SHA256, message))),
                    ("openssl", &mut openssl.digest(c"SHA256")),
                ],
            );
            filter.measure_row(
                (&format!("SHA-512 of {length} bytes"), batch),
                (&messages, 64),
                &mut |messages, output| digest_many(Algorithm::Sha512, messages, output).expect("a good output"),
                &mut [
                    ("sha2", &mut per_message(|message| sha2::Sha512::digest(message))),
                    ("ring", &mut per_message(|message| ring::digest::digest(&ring::digest::SHA512, message))),
                    ("openssl", &mut openssl.digest(c"SHA512")),
                ],
            );
        }
        filter.measure_row(
            (&format!("Sha256::digest of {length} bytes"), 1),
            (&messages, 32),
            &mut per_message(|message| gantry_digest::Sha256::digest(message)),
            &mut [("sha2", &mut per_message(|message| sha2::Sha256::digest(message)))],
        );
    }
}

/// Measures levels of a tree of SHA-256.
fn sha256_nodes(filter: &RowFilter) {
    let children: Vec<Node> = varied_bytes(64).as_chunks().0.to_vec();
    for batch in [1, 4, 32, MESSAGES] {
        filter.measure_row(
            ("nodes of SHA-256", batch),
            (&children, 32),
            &mut |children, output| {
                hash_pairs(NodeHash::Sha256, children, output.as_chunks_mut().0).expect("pairs");
            },
            &mut [
                ("hashtree-rs", &mut |children: &[Node], output: &mut [u8]| {
                    hashtree_rs::hash(output, children.as_flattened(), children.len() / 2);
                }),
                ("sha2", &mut per_pair(|pair| sha2::Sha256::digest(pair).into())),
            ],
        );
    }
}

/// Returns work that calls `hash` for each pair.
fn per_pair(hash: impl Fn(&[u8]) -> Node) -> impl Fn(&[Node], &mut [u8]) {
    move |children, output| {
        for (pair, output) in children.chunks_exact(2).zip(output.as_chunks_mut().0) {
            *output = hash(pair.as_flattened());
        }
    }
}

/// Measures nodes with a byte before each pair (RFC 6962), and a tree that gets its leaves in pieces.
fn rfc6962_trees(filter: &RowFilter) {
    let children: Vec<Node> = varied_bytes(64).as_chunks().0.to_vec();
    let hash_pair = |pair: &[u8]| sha2::Sha256::new().chain_update([1]).chain_update(pair).finalize().into();
    for batch in [1, 4, MESSAGES] {
        filter.measure_row(
            ("nodes of RFC 6962", batch),
            (&children, 32),
            &mut |children, output| {
                hash_pairs(NodeHash::Rfc6962, children, output.as_chunks_mut().0).expect("pairs");
            },
            &mut [("sha2", &mut per_pair(hash_pair))],
        );
    }
    // A tree has about as many nodes above its leaves as leaves, so the peer hashes a pair for each leaf.
    for batch in [1, 256, MESSAGES] {
        let mut tree = MerkleTree::new(NodeHash::Rfc6962);
        filter.measure_row(
            ("leaves of a MerkleTree of RFC 6962", batch),
            (&children[..MESSAGES], 32),
            &mut |leaves, _| {
                if tree.leaves().len() == MESSAGES {
                    tree = MerkleTree::new(NodeHash::Rfc6962);
                }
                tree.append(leaves);
            },
            &mut [("sha2", &mut |leaves, _| {
                leaves.iter().for_each(|leaf| _ = black_box(hash_pair([*leaf; 2].as_flattened())));
            })],
        );
    }
}

/// Measures Keccak-256 as in Ethereum.
fn keccak(filter: &RowFilter, openssl: &Openssl) {
    for length in [32, 64, 1024] {
        let data = varied_bytes(length);
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 4, 1024] {
            filter.measure_row(
                (&format!("Keccak-256 of {length} bytes"), batch),
                (&messages, 32),
                &mut |messages, output| digest_many(Algorithm::Keccak256, messages, output).expect("a good output"),
                &mut [
                    ("keccak-batch", &mut |messages: &[&[u8]], output: &mut [u8]| {
                        keccak_batch::keccak256_many_into(messages, output.as_chunks_mut().0);
                    }),
                    ("sha3", &mut per_message(|message| sha3::Keccak256::digest(message))),
                    ("openssl", &mut openssl.digest(c"KECCAK-256")),
                ],
            );
        }
    }
    let children: Vec<Node> = varied_bytes(64).as_chunks().0.to_vec();
    filter.measure_row(
        ("nodes of Keccak-256", MESSAGES),
        (&children, 32),
        &mut |children, output| hash_pairs(NodeHash::Keccak256, children, output.as_chunks_mut().0).expect("pairs"),
        &mut [("keccak-batch", &mut |children: &[Node], output: &mut [u8]| {
            let pairs: Vec<&[u8]> = children.as_flattened().chunks_exact(64).collect();
            keccak_batch::keccak256_many_into(&pairs, output.as_chunks_mut().0);
        })],
    );
}

/// Measures SHA-1 with collision detection.
fn sha1_checked(filter: &RowFilter) {
    for length in [64, 300, 4096] {
        let data = varied_bytes(length);
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 4, 8, 64, 1024] {
            let mut results = vec![Ok([0; 20]); batch];
            filter.measure_row(
                (&format!("SHA-1 with collision detection of {length} bytes"), batch),
                (&messages, 20),
                &mut |messages, output| {
                    Sha1Checked::digest_many(messages, &mut results).expect("results for all");
                    for (output, result) in output.as_chunks_mut().0.iter_mut().zip(&results) {
                        *output = result.expect("no collision");
                    }
                },
                &mut [
                    ("sha1dc", &mut per_message(|message| sha1dc::digest(message).expect("no collision"))),
                    ("sha1-checked", &mut per_message(|message| *sha1_checked::Sha1::try_digest(message).hash())),
                ],
            );
        }
    }
}

fn blake3(filter: &RowFilter) {
    for length in [64, 256, 1024, 16384] {
        let data = varied_bytes(length);
        let messages: Vec<&[u8]> = data.chunks_exact(length).collect();
        for batch in [1, 4, 8, 64, 1024] {
            filter.measure_row(
                (&format!("BLAKE3 of {length} bytes"), batch),
                (&messages, 32),
                &mut |messages, output| {
                    Blake3::new().digest_many(messages, output.as_chunks_mut().0).expect("digests for all");
                },
                &mut [("blake3", &mut per_message(|message| *::blake3::hash(message).as_bytes()))],
            );
        }
    }
    let children: Vec<Node> = varied_bytes(64).as_chunks().0.to_vec();
    filter.measure_row(
        ("nodes of BLAKE3", MESSAGES),
        (&children, 32),
        &mut |children, output| hash_pairs(NodeHash::Blake3, children, output.as_chunks_mut().0).expect("pairs"),
        &mut [("blake3", &mut per_pair(|pair| *::blake3::hash(pair).as_bytes()))],
    );
}
