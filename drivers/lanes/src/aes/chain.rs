//! Cipher block chaining (SP 800-38A). Encryption of a block waits for the block before, so only other chains can fill the pipeline
//! of the AES instructions. CMAC uses the last value of a chain.

#[cfg(target_arch = "x86_64")]
use gantry_digest::{LevelName, internal::wipe::overwrite_stack};

use super::keys::{KernelKeys, PerLaneKeys, SharedKey};
use super::register::*;
use super::{Aes, BLOCK_LEN, RoundKeys};

/// Advances chains over `blocks` blocks of their data: `chain = AES(chain xor block)`, for each lane and block in turn.
///
/// `chains` holds one block for each lane. `from` and `to` hold one pointer per lane; `Encrypt` functions write each new
/// chaining value to `to`, which may be the same memory as `from`; `Absorb` functions ignore `to`. `keys` holds the
/// round keys in order: one block each if all lanes share a key, otherwise one block for each lane.
///
/// # Safety
/// The CPU has the instructions for which the function was compiled. `chains` and `from` are valid for all lanes, and so is `to` in an
/// `Encrypt` function. Each pointer in `from` is readable, and each in `to` writable, for `blocks` blocks. `keys` has the number of
/// rounds for which the function was compiled.
pub(crate) type ChainFn = unsafe fn(
    chains: *mut [u8; BLOCK_LEN],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK_LEN],
);

/// Implements all [`ChainFn`] functions, for `REGISTERS * R::BLOCKS` lanes. With `LOW_LATENCY` the last round runs twice, the second time
/// with the next block added to its key. This takes one more instruction per block, but the chain's latency is one instruction shorter.
///
/// # Safety
/// As for [`ChainFn`]; the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn chain<
    R: Register,
    K: KernelKeys<R>,
    const REGISTERS: usize,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const LOW_LATENCY: bool,
>(
    chains: *mut [u8; BLOCK_LEN],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK_LEN],
) {
    // SAFETY: register `r` holds the lanes from `r * R::BLOCKS` on; the caller's promises cover all of them.
    unsafe {
        let keys = K::new(keys);
        let mut x = [R::load(chains); REGISTERS];
        for (r, x) in x.iter_mut().enumerate() {
            *x = R::load(chains.add(r * R::BLOCKS));
        }
        // All lanes are read before any is written, because an idle lane repeats the work of a busy lane, perhaps in place.
        let mut block = 0;
        // A register that holds blocks of several lanes takes four blocks of each lane at once. This needs a fourth of the loads and
        // stores, and fewer shuffles. Messages that begin on page boundaries compete for the same cache sets, and evict each other. This
        // does no harm, because each cache line is needed only once.
        while R::BLOCKS > 1 && blocks - block >= 4 {
            let mut data = [x; 4];
            for r in 0..REGISTERS {
                let four = R::gather_four(from.add(r * R::BLOCKS), block * BLOCK_LEN);
                for (data, four) in data.iter_mut().zip(four) {
                    data[r] = four;
                }
            }
            let [first, second, third, fourth] = data;
            let first = start_first_round::<R, K, REGISTERS>(x, first, keys.reload());
            let (first, second) =
                encrypt_blocks::<R, K, REGISTERS, ROUNDS, LOW_LATENCY>(first, Some(second), keys.reload());
            let (second, third) =
                encrypt_blocks::<R, K, REGISTERS, ROUNDS, LOW_LATENCY>(second, Some(third), keys.reload());
            let (third, fourth) =
                encrypt_blocks::<R, K, REGISTERS, ROUNDS, LOW_LATENCY>(third, Some(fourth), keys.reload());
            (x, _) = encrypt_blocks::<R, K, REGISTERS, ROUNDS, LOW_LATENCY>(fourth, None, keys.reload());
            if ENCRYPT {
                for (r, first) in first.into_iter().enumerate() {
                    let four = [first, second[r], third[r], x[r]];
                    R::scatter_four(four, to.add(r * R::BLOCKS), block * BLOCK_LEN);
                }
            }
            block += 4;
        }
        while block < blocks {
            let mut data = x;
            for (r, data) in data.iter_mut().enumerate() {
                *data = R::gather(from.add(r * R::BLOCKS), block * BLOCK_LEN);
            }
            let data = start_first_round::<R, K, REGISTERS>(x, data, keys.reload());
            (x, _) = encrypt_blocks::<R, K, REGISTERS, ROUNDS, LOW_LATENCY>(data, None, keys.reload());
            if ENCRYPT {
                for (r, x) in x.iter().enumerate() {
                    x.scatter(to.add(r * R::BLOCKS), block * BLOCK_LEN);
                }
            }
            block += 1;
        }
        for (r, x) in x.iter().enumerate() {
            x.store(chains.add(r * R::BLOCKS));
        }
    }
}

/// Starts the first round: adds the data and the first round key to the chaining values.
///
/// # Safety
/// As for [`ChainFn`]; the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn start_first_round<R: Register, K: KernelKeys<R>, const REGISTERS: usize>(
    mut x: [R; REGISTERS],
    data: [R; REGISTERS],
    keys: K,
) -> [R; REGISTERS] {
    for (r, x) in x.iter_mut().enumerate() {
        // SAFETY: as above.
        *x = x.xor(data[r].xor(unsafe { keys.get(0, r) }));
    }
    x
}

/// Returns the next chaining values of all lanes, and the state after the start of the first round of the `next` blocks. Without `next`,
/// the caller must ignore the state.
///
/// # Safety
/// As for [`ChainFn`]; the CPU has the instructions of `R`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "the index refers to two arrays and the keys")]
unsafe fn encrypt_blocks<
    R: Register,
    K: KernelKeys<R>,
    const REGISTERS: usize,
    const ROUNDS: usize,
    const LOW_LATENCY: bool,
>(
    mut x: [R; REGISTERS],
    next: Option<[R; REGISTERS]>,
    keys: K,
) -> ([R; REGISTERS], [R; REGISTERS]) {
    // SAFETY: as above.
    unsafe {
        each_round!(ROUNDS, |round| {
            for r in 0..REGISTERS {
                x[r] = x[r].round(keys.get(round, r));
            }
        });
        let (before, mut started) = (x, x);
        for r in 0..REGISTERS {
            x[r] = x[r].last_round(keys.get(ROUNDS, r));
        }
        match next {
            None => {}
            Some(next) if LOW_LATENCY => {
                for r in 0..REGISTERS {
                    started[r] = before[r].last_round(next[r].xor(keys.get(0, r)).xor(keys.get(ROUNDS, r)));
                }
            }
            Some(next) => started = start_first_round::<R, K, REGISTERS>(x, next, keys),
        }
        (x, started)
    }
}

/// The functions for one CPU level, key length and mode. Only [`Aes::chain_kernels`] makes such a value, so a value proves that this CPU
/// has the instructions.
#[derive(Clone, Copy)]
pub(crate) struct ChainKernels {
    pub(crate) mode: ChainMode,
    /// The functions for few chains: at most as many as these functions have lanes.
    pub(crate) narrow: LaneKernels,
    /// The functions for more chains than `narrow` has lanes.
    pub(crate) wide: LaneKernels,
    /// The function for a single chain.
    pub(crate) single: ChainFn,
}

impl ChainKernels {
    /// Returns the functions for `chains` chains.
    pub(crate) fn for_chains(&self, chains: usize) -> LaneKernels {
        if chains <= self.narrow.lanes { self.narrow } else { self.wide }
    }
}

/// The functions that advance `lanes` chains at once.
#[derive(Clone, Copy)]
pub(crate) struct LaneKernels {
    pub(crate) lanes: usize,
    /// The function for lanes that share one key.
    pub(crate) shared: ChainFn,
    /// The function for lanes with their own keys.
    pub(crate) per_lane: ChainFn,
}

/// Selects whether the chaining values are output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainMode {
    /// CBC encryption: every chaining value is a block of ciphertext.
    Encrypt,
    /// CBC-MAC: only the last chaining value counts.
    Absorb,
}

impl Aes {
    /// Returns the largest number of chains that run side by side.
    pub(crate) fn lanes(self) -> usize {
        self.chain_kernels(&RoundKeys::zeroed(), ChainMode::Encrypt).wide.lanes
    }

    /// Returns the functions for keys as long as `keys`.
    #[allow(clippy::unused_self, reason = "`self` proves that the CPU has the instructions")]
    pub(crate) fn chain_kernels(self, keys: &RoundKeys, mode: ChainMode) -> ChainKernels {
        /// Picks the function compiled for the rounds and the mode.
        macro_rules! pick {
            ($function:ident $shared:literal) => {
                match (keys.rounds, mode) {
                    (10, ChainMode::Encrypt) => $function::<10, true, $shared>,
                    (10, ChainMode::Absorb) => $function::<10, false, $shared>,
                    (12, ChainMode::Encrypt) => $function::<12, true, $shared>,
                    (12, ChainMode::Absorb) => $function::<12, false, $shared>,
                    (_, ChainMode::Encrypt) => $function::<14, true, $shared>,
                    (_, ChainMode::Absorb) => $function::<14, false, $shared>,
                }
            };
        }
        macro_rules! kernels {
            ($narrow:ident $lanes:literal, $wide:ident $wide_lanes:literal, $single:ident) => {
                ChainKernels {
                    mode,
                    narrow: LaneKernels { lanes: $lanes, shared: pick!($narrow true), per_lane: pick!($narrow false) },
                    wide: LaneKernels { lanes: $wide_lanes, shared: pick!($wide true), per_lane: pick!($wide false) },
                    single: pick!($single true),
                }
            };
        }
        #[cfg(target_arch = "x86_64")]
        match self.0.name() {
            // A CPU with this latency (Zen 5) starts two AES instructions in each cycle, for which 16 lanes are too few.
            LevelName::Avx512 if self.0.vaes() && self.0.latency() > 1 => {
                kernels!(lanes_16_low_latency 16, lanes_32 32, lanes_1_avx2)
            }
            LevelName::Avx512 if self.0.vaes() => kernels!(lanes_16 16, lanes_16 16, lanes_1_avx2),
            LevelName::Vaes => kernels!(lanes_8_avx2 8, lanes_16_vaes 16, lanes_1_avx2),
            LevelName::Avx512 | LevelName::Avx2 => kernels!(lanes_8_avx2 8, lanes_8_avx2 8, lanes_1_avx2),
            LevelName::Base => kernels!(lanes_8 8, lanes_8 8, lanes_1),
        }
        // According to llvm-mca's models of Cortex-A55, A72, Neoverse N1 and V2, 12 lanes with a shared key would differ by at most 1 %.
        // With a key per lane they would be up to 6 % slower.
        #[cfg(target_arch = "aarch64")]
        kernels!(lanes_8 8, lanes_8 8, lanes_1)
    }
}

/// [`chain`] compiled for one set of CPU features.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, $count:literal, low_latency $low_latency:literal) => {
        /// # Safety
        /// As for [`ChainFn`].
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROUNDS: usize, const ENCRYPT: bool, const SHARED: bool>(
            chains: *mut [u8; BLOCK_LEN],
            from: *const *const u8,
            to: *const *mut u8,
            blocks: usize,
            keys: *const [u8; BLOCK_LEN],
        ) {
            // SAFETY: the attribute enables the features that the register needs; the caller promises the rest.
            unsafe {
                if SHARED {
                    chain::<$register, SharedKey<$register, 0>, $count, ROUNDS, ENCRYPT, $low_latency>(
                        chains, from, to, blocks, keys,
                    );
                } else {
                    chain::<$register, PerLaneKeys<$count>, $count, ROUNDS, ENCRYPT, $low_latency>(
                        chains, from, to, blocks, keys,
                    );
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(lanes_16, "avx512f,vaes,aes", Zmm, 4, low_latency false);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_16_low_latency, "avx512f,vaes,aes", Zmm, 4, low_latency true);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_32, "avx512f,vaes,aes", Zmm, 8, low_latency false);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_16_spilled, "avx2,vaes,aes", Ymm, 8, low_latency false);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_8_avx2, "avx2,aes", Xmm, 8, low_latency false);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_1_avx2, "avx2,aes", Xmm, 1, low_latency false);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_8, "aes", Xmm, 8, low_latency false);
#[cfg(target_arch = "x86_64")]
compiled!(lanes_1, "aes", Xmm, 1, low_latency false);
#[cfg(target_arch = "aarch64")]
compiled!(lanes_8, "aes,neon", Block, 8, low_latency false);
#[cfg(target_arch = "aarch64")]
compiled!(lanes_1, "aes,neon", Block, 1, low_latency false);

/// Bytes of stack to which [`lanes_16_spilled`] spills registers: blocks of the lanes with keys added.
#[cfg(target_arch = "x86_64")]
const SPILLED_BYTES: usize = 2 << 10;

/// Runs [`lanes_16_spilled`] and wipes the stack that it used.
///
/// # Safety
/// As for [`ChainFn`].
#[cfg(target_arch = "x86_64")]
unsafe fn lanes_16_vaes<const ROUNDS: usize, const ENCRYPT: bool, const SHARED: bool>(
    chains: *mut [u8; BLOCK_LEN],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK_LEN],
) {
    // SAFETY: as the caller promises.
    unsafe { lanes_16_spilled::<ROUNDS, ENCRYPT, SHARED>(chains, from, to, blocks, keys) };
    overwrite_stack::<SPILLED_BYTES>();
}
