//! Cipher block chaining (SP 800-38A): encryption, where each block waits for the one before, so that only other chains can
//! fill the pipeline of the AES instructions; and the chain alone, for CMAC.

#[cfg(target_arch = "x86_64")]
use gantry_digest::{LevelName, wipe::overwrite};

use super::keys::{Keys, OfLanes, Shared};
use super::register::*;
use super::{Aes, BLOCK, RoundKeys};

/// Advances chains over `blocks` blocks of their data: `chain = AES(chain xor block)`, for each lane and block in turn.
///
/// `chains` holds one block for each lane. `from` and `to` hold one pointer per lane; `Encrypt` functions write each new
/// chaining value to `to`, which may be the same memory as `from`; `Absorb` functions do not look at `to`. `keys` holds the
/// round keys one after the other: one block each where all lanes share a key, one block for each lane where they do not.
///
/// # Safety
/// The CPU has the instructions for which it was compiled; `chains`, `from` and, to encrypt, `to` are valid for all lanes;
/// each pointer in `from` is readable, and in `to` writable, for `blocks` blocks; `keys` are of as many rounds as it was
/// compiled for.
pub(crate) type Chain = unsafe fn(
    chains: *mut [u8; BLOCK],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK],
);

/// The body of all [`Chain`] functions: `REGISTERS * R::BLOCKS` lanes. With `SHORT` a block is added to the next one's data by the
/// last round, which is there a second time for that: one instruction less to wait for, and one more in all.
///
/// # Safety
/// That of [`Chain`], and the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn chain<
    R: Register,
    K: Keys<R>,
    const REGISTERS: usize,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const SHORT: bool,
>(
    chains: *mut [u8; BLOCK],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK],
) {
    // SAFETY: register `r` holds the lanes from `r * R::BLOCKS` on; the caller's promises cover all of them.
    unsafe {
        let keys = K::new(keys);
        let mut x = [R::load(chains); REGISTERS];
        for (r, x) in x.iter_mut().enumerate() {
            *x = R::load(chains.add(r * R::BLOCKS));
        }
        // All lanes are read before any is written: idle lanes shadow a busy one, perhaps in place.
        let mut block = 0;
        // Where a register has blocks of several lanes, four of each lane take a fourth of the loads and stores of single ones, and
        // fewer instructions to bring together and to part. Each line of the cache is needed once, even if the others have its place
        // meanwhile: those of messages that begin on pages fight for the same sets.
        while R::BLOCKS > 1 && blocks - block >= 4 {
            let mut data = [x; 4];
            for r in 0..REGISTERS {
                let four = R::gather_four(from.add(r * R::BLOCKS), block * BLOCK);
                for (data, four) in data.iter_mut().zip(four) {
                    data[r] = four;
                }
            }
            let [first, second, third, fourth] = data;
            let first = added::<R, K, REGISTERS>(x, first, keys.afresh());
            let (first, second) = encrypted::<R, K, REGISTERS, ROUNDS, SHORT>(first, Some(second), keys.afresh());
            let (second, third) = encrypted::<R, K, REGISTERS, ROUNDS, SHORT>(second, Some(third), keys.afresh());
            let (third, fourth) = encrypted::<R, K, REGISTERS, ROUNDS, SHORT>(third, Some(fourth), keys.afresh());
            (x, _) = encrypted::<R, K, REGISTERS, ROUNDS, SHORT>(fourth, None, keys.afresh());
            if ENCRYPT {
                for (r, first) in first.into_iter().enumerate() {
                    let four = [first, second[r], third[r], x[r]];
                    R::scatter_four(four, to.add(r * R::BLOCKS), block * BLOCK);
                }
            }
            block += 4;
        }
        while block < blocks {
            let mut data = x;
            for (r, data) in data.iter_mut().enumerate() {
                *data = R::gather(from.add(r * R::BLOCKS), block * BLOCK);
            }
            let data = added::<R, K, REGISTERS>(x, data, keys.afresh());
            (x, _) = encrypted::<R, K, REGISTERS, ROUNDS, SHORT>(data, None, keys.afresh());
            if ENCRYPT {
                for (r, x) in x.iter().enumerate() {
                    x.scatter(to.add(r * R::BLOCKS), block * BLOCK);
                }
            }
            block += 1;
        }
        for (r, x) in x.iter().enumerate() {
            x.store(chains.add(r * R::BLOCKS));
        }
    }
}

/// What the first round begins with: the data and the first round key, added to the chaining values.
///
/// # Safety
/// That of [`Chain`], and the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn added<R: Register, K: Keys<R>, const REGISTERS: usize>(
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

/// The chaining values that these blocks of all lanes become, and what the next ones begin with; without `next` data that means nothing.
///
/// # Safety
/// That of [`Chain`], and the CPU has the instructions of `R`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "an index says it best: the same lane of two arrays and the keys")]
unsafe fn encrypted<R: Register, K: Keys<R>, const REGISTERS: usize, const ROUNDS: usize, const SHORT: bool>(
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
        let (before, mut begun) = (x, x);
        for r in 0..REGISTERS {
            x[r] = x[r].last_round(keys.get(ROUNDS, r));
        }
        match next {
            None => {}
            Some(next) if SHORT => {
                for r in 0..REGISTERS {
                    begun[r] = before[r].last_round(next[r].xor(keys.get(0, r)).xor(keys.get(ROUNDS, r)));
                }
            }
            Some(next) => begun = added::<R, K, REGISTERS>(x, next, keys),
        }
        (x, begun)
    }
}

/// The functions of one CPU level and key length. Only [`Aes::chains`] makes it, so that whoever holds one may call
/// its functions on this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub(crate) mode: Mode,
    /// For as many chains as it has lanes, and fewer.
    pub(crate) usual: SideBySide,
    /// For more.
    pub(crate) most: SideBySide,
    /// For a single chain.
    pub(crate) single: Chain,
}

impl Kernels {
    /// Those for so many chains.
    pub(crate) fn side_by_side(&self, chains: usize) -> SideBySide {
        if chains <= self.usual.lanes { self.usual } else { self.most }
    }
}

/// The functions for so many chains.
#[derive(Clone, Copy)]
pub(crate) struct SideBySide {
    pub(crate) lanes: usize,
    /// All with one key.
    pub(crate) shared: Chain,
    /// Each with a key of its own.
    pub(crate) own: Chain,
}

/// Whether the chaining values are output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// CBC encryption: every chaining value is a block of ciphertext.
    Encrypt,
    /// CBC-MAC: only the last chaining value counts.
    Absorb,
}

impl Aes {
    /// The most lanes. Two chains in them are never slower than one after the other: the other lanes cost nothing.
    pub(crate) fn lanes(self) -> usize {
        self.chains(&RoundKeys::none(), Mode::Encrypt).most.lanes
    }

    /// The chains for keys of one length.
    #[allow(clippy::unused_self, reason = "the proof")]
    pub(crate) fn chains(self, keys: &RoundKeys, mode: Mode) -> Kernels {
        /// Picks the function compiled for the rounds and the mode.
        macro_rules! pick {
            ($function:ident $shared:literal) => {
                match (keys.rounds, mode) {
                    (10, Mode::Encrypt) => $function::<10, true, $shared>,
                    (10, Mode::Absorb) => $function::<10, false, $shared>,
                    (12, Mode::Encrypt) => $function::<12, true, $shared>,
                    (12, Mode::Absorb) => $function::<12, false, $shared>,
                    (_, Mode::Encrypt) => $function::<14, true, $shared>,
                    (_, Mode::Absorb) => $function::<14, false, $shared>,
                }
            };
        }
        macro_rules! kernels {
            ($usual:ident $lanes:literal, $most:ident $most_lanes:literal, $single:ident) => {
                Kernels {
                    mode,
                    usual: SideBySide { lanes: $lanes, shared: pick!($usual true), own: pick!($usual false) },
                    most: SideBySide { lanes: $most_lanes, shared: pick!($most true), own: pick!($most false) },
                    single: pick!($single true),
                }
            };
        }
        #[cfg(target_arch = "x86_64")]
        match self.0.name() {
            // Sixteen are not enough to begin two AES instructions in each cycle.
            LevelName::Avx512 if self.0.vaes() && self.0.latency() > 1 => {
                kernels!(sixteen_short 16, thirty_two 32, one_avx2)
            }
            LevelName::Avx512 if self.0.vaes() => kernels!(sixteen 16, sixteen 16, one_avx2),
            LevelName::Vaes => kernels!(eight_avx2 8, sixteen_vaes 16, one_avx2),
            LevelName::Avx512 | LevelName::Avx2 => kernels!(eight_avx2 8, eight_avx2 8, one_avx2),
            LevelName::Base => kernels!(eight 8, eight 8, one),
        }
        // Twelve would not be faster by llvm-mca's models of a Cortex-A55, A72, Neoverse N1 and V2 (0 to 1 %, and with keys of their own up
        // to 6 % slower).
        #[cfg(target_arch = "aarch64")]
        kernels!(eight 8, eight 8, one)
    }
}

/// [`chain`] compiled for one set of CPU features.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, $count:literal, short $short:literal) => {
        /// # Safety
        /// That of [`Chain`].
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROUNDS: usize, const ENCRYPT: bool, const SHARED: bool>(
            chains: *mut [u8; BLOCK],
            from: *const *const u8,
            to: *const *mut u8,
            blocks: usize,
            keys: *const [u8; BLOCK],
        ) {
            // SAFETY: the features of the register are on here; the rest is the caller's promise.
            unsafe {
                if SHARED {
                    chain::<$register, Shared<$register, 0>, $count, ROUNDS, ENCRYPT, $short>(
                        chains, from, to, blocks, keys,
                    );
                } else {
                    chain::<$register, OfLanes<$count>, $count, ROUNDS, ENCRYPT, $short>(
                        chains, from, to, blocks, keys,
                    );
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(sixteen, "avx512f,vaes,aes", Zmm, 4, short false);
#[cfg(target_arch = "x86_64")]
compiled!(sixteen_short, "avx512f,vaes,aes", Zmm, 4, short true);
#[cfg(target_arch = "x86_64")]
compiled!(thirty_two, "avx512f,vaes,aes", Zmm, 8, short false);
#[cfg(target_arch = "x86_64")]
compiled!(sixteen_spilled, "avx2,vaes,aes", Ymm, 8, short false);
#[cfg(target_arch = "x86_64")]
compiled!(eight_avx2, "avx2,aes", Xmm, 8, short false);
#[cfg(target_arch = "x86_64")]
compiled!(one_avx2, "avx2,aes", Xmm, 1, short false);
#[cfg(target_arch = "x86_64")]
compiled!(eight, "aes", Xmm, 8, short false);
#[cfg(target_arch = "x86_64")]
compiled!(one, "aes", Xmm, 1, short false);
#[cfg(target_arch = "aarch64")]
compiled!(eight, "aes,neon", Block, 8, short false);
#[cfg(target_arch = "aarch64")]
compiled!(one, "aes,neon", Block, 1, short false);

/// Bytes of stack on which [`sixteen_spilled`] has what there are not registers enough for: blocks of the lanes with keys added.
#[cfg(target_arch = "x86_64")]
const SPILLED: usize = 2 << 10;

/// [`sixteen_spilled`], with nothing left behind.
///
/// # Safety
/// That of [`Chain`].
#[cfg(target_arch = "x86_64")]
unsafe fn sixteen_vaes<const ROUNDS: usize, const ENCRYPT: bool, const SHARED: bool>(
    chains: *mut [u8; BLOCK],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK],
) {
    // SAFETY: as the caller promises.
    unsafe { sixteen_spilled::<ROUNDS, ENCRYPT, SHARED>(chains, from, to, blocks, keys) };
    overwrite::<SPILLED>();
}
