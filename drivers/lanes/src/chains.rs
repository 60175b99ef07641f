//! Chains of AES blocks side by side: their keys, their positions in memory, and their chaining values.

use core::mem::MaybeUninit;

use gantry_digest::internal::engine::{self, BlockRun, Lanes, NO_BLOCKS};

use crate::aes::chain::{ChainFn, ChainKernels, ChainMode, LaneKernels};
use crate::aes::{BLOCK_LEN, RoundKeys};

/// Maximum number of lanes of [`ChainKernels::narrow`] and of [`ChainKernels::wide`].
const NARROW_LANES: usize = 16;
const WIDE_LANES: usize = 32;

/// A message for a chain.
///
/// # Safety
/// The blocks of a run, which are contiguous, are readable until the next call of [`next`](Self::next). In [`ChainMode::Encrypt`] the same
/// number of blocks is writable, in the same memory or in memory that does not overlap. A job in that mode has at most one run, because
/// the position of its output is lost at the end of a run. In return, the caller does not move the `State` value between these calls.
pub(crate) unsafe trait ChainJob<'a>: Sized {
    /// The purpose of the chain: encryption or a MAC.
    const MODE: ChainMode;

    /// The state of the job in its lane.
    type State;

    /// Returns the keys of the chain.
    fn keys(&self) -> &'a RoundKeys;

    /// Returns the first run and the address of its output, which [`ChainMode::Absorb`] ignores. Sets the initial chaining value, and
    /// stores in `state` the values that [`next`](Self::next) needs.
    fn start(self, state: &mut Option<Self::State>, chain: &mut [u8; BLOCK_LEN]) -> (BlockRun, *mut u8);

    /// Returns the next run, or [`NO_BLOCKS`] at the end of the job. `chain` is the chaining value after the previous run. The next run
    /// starts from it, and an implementation may change it.
    fn next(state: &mut Self::State, chain: &mut [u8; BLOCK_LEN]) -> BlockRun;
}

/// Runs all `jobs` side by side, each with its own keys. `max_jobs` is the maximum number of jobs, and selects the kernel. All keys are as
/// long as `keys`; jobs that use `keys` itself are fastest. `kernels` is for keys of this length and for the mode of the jobs.
pub(crate) fn run<'a, J: ChainJob<'a>>(
    keys: &'a RoundKeys,
    kernels: ChainKernels,
    max_jobs: usize,
    jobs: impl Iterator<Item = J>,
) {
    fn run_lanes<'a, const N: usize, J: ChainJob<'a>>(
        keys: &'a RoundKeys,
        kernels: ChainKernels,
        max_jobs: usize,
        jobs: impl Iterator<Item = J>,
    ) {
        let mut table = KeyTable::<N>::new();
        engine::run::<N, _>(&mut ChainLanes::new(keys, kernels, kernels.for_chains(max_jobs), &mut table), jobs);
    }
    match kernels.for_chains(max_jobs).lanes {
        _ if max_jobs == 1 => jobs.for_each(|job| run_one(kernels, job, |_| ())),
        ..=NARROW_LANES => run_lanes::<NARROW_LANES, J>(keys, kernels, max_jobs, jobs),
        _ => run_lanes::<WIDE_LANES, J>(keys, kernels, max_jobs, jobs),
    }
}

/// Runs one job with the single-stream kernel. Passes the final chaining value to `end` and returns its result.
pub(crate) fn run_one<'a, J: ChainJob<'a>, T>(
    kernels: ChainKernels,
    job: J,
    end: impl FnOnce(&[u8; BLOCK_LEN]) -> T,
) -> T {
    let mut table = KeyTable::<1>::new();
    let mut lanes = ChainLanes::new(job.keys(), kernels, kernels.narrow, &mut table);
    engine::run_one(&mut lanes, job);
    end(&lanes.chains.values[0])
}

/// At most `N` chains side by side.
struct Chains<'t, 'a, const N: usize> {
    kernels: ChainKernels,
    /// The functions that advance all lanes.
    lane_kernels: LaneKernels,
    /// The round keys of each lane, all of one length.
    keys: [&'a RoundKeys; N],
    /// A copy of the round keys, made only if the lanes have different keys. A reference, because moving the table would copy 4 or 8 KiB.
    table: &'t mut KeyTable<N>,
    /// The chaining value of each lane.
    values: [[u8; BLOCK_LEN]; N],
    /// The positions at which each lane reads and writes next.
    from: [*const u8; N],
    to: [*mut u8; N],
}

/// The round keys of lanes with different keys, ordered by round: block `r * lanes + l` is round key `r` of lane `l`. One load
/// therefore gets the keys for all lanes of a register.
#[repr(align(64))]
struct KeyTable<const N: usize> {
    blocks: [[MaybeUninit<[u8; BLOCK_LEN]>; N]; 15],
    /// The keys that the column of each lane holds.
    loaded: [*const RoundKeys; N],
    /// The number of lanes with a column; initially 0.
    lanes: usize,
}

impl<const N: usize> KeyTable<N> {
    /// Returns an empty table. Most batches belong to one session and never use it.
    fn new() -> Self {
        KeyTable { blocks: [[MaybeUninit::uninit(); N]; 15], loaded: [core::ptr::null(); N], lanes: 0 }
    }

    /// Returns the function for lanes with these keys, and the address of its round keys.
    fn kernel(&mut self, kernels: LaneKernels, keys: &[&RoundKeys]) -> (ChainFn, *const [u8; BLOCK_LEN]) {
        if keys.iter().all(|of_lane| core::ptr::eq(*of_lane, keys[0])) {
            (kernels.shared, keys[0].as_blocks().as_ptr())
        } else {
            (kernels.per_lane, self.load(keys))
        }
    }

    /// Returns the address of the round keys of all lanes, after copying those that changed.
    #[inline(never)]
    fn load(&mut self, keys: &[&RoundKeys]) -> *const [u8; BLOCK_LEN] {
        if self.lanes != keys.len() {
            (self.lanes, self.loaded) = (keys.len(), [core::ptr::null(); N]);
        }
        let blocks = self.blocks.as_flattened_mut();
        for (lane, (loaded, &keys_of_lane)) in self.loaded.iter_mut().zip(keys).enumerate() {
            if !core::ptr::eq(*loaded, keys_of_lane) {
                *loaded = keys_of_lane;
                for (block, key) in blocks[lane..].iter_mut().step_by(keys.len()).zip(keys_of_lane.as_blocks()) {
                    block.write(*key);
                }
            }
        }
        blocks.as_ptr().cast()
    }
}

impl<const N: usize> Drop for KeyTable<N> {
    fn drop(&mut self) {
        if self.lanes > 0 {
            // `zeroize` would write thousands of single bytes for each batch. `black_box` takes the address, so the compiler must
            // keep the zeros.
            self.blocks.as_flattened_mut().fill(MaybeUninit::new([0; BLOCK_LEN]));
            core::hint::black_box(&self.blocks);
        }
    }
}

impl<'t, 'a, const N: usize> Chains<'t, 'a, N> {
    /// Returns lanes that all have the same keys.
    #[inline(always)] // to construct the value in place instead of copying it
    fn new(keys: &'a RoundKeys, kernels: ChainKernels, lane_kernels: LaneKernels, table: &'t mut KeyTable<N>) -> Self {
        let (from, to) = ([core::ptr::null(); N], [core::ptr::null_mut(); N]);
        Chains { kernels, lane_kernels, keys: [keys; N], table, values: [[0; BLOCK_LEN]; N], from, to }
    }

    /// Returns the maximum number of lanes for [`advance_few`](Self::advance_few): the lanes of the narrow kernel if `lane_kernels` has
    /// more lanes, else 1.
    fn few(&self) -> usize {
        if self.lane_kernels.lanes > self.kernels.narrow.lanes { self.kernels.narrow.lanes } else { 1 }
    }

    /// Returns the number of busy lanes from which advancing all lanes at once is faster than advancing [`few`](Self::few) lanes at a time.
    /// Idle lanes cost nothing, so two chains side by side are never slower than one after the other.
    fn break_even(&self) -> usize {
        self.few() + 1
    }

    /// Makes an idle lane repeat the work of a busy lane.
    fn shadow(&mut self, idle: usize, busy: usize) {
        self.keys[idle] = self.keys[busy];
        self.values[idle] = self.values[busy];
        self.from[idle] = self.from[busy];
        self.to[idle] = self.to[busy];
    }

    /// Advances all lanes by `blocks` blocks. With `end`, the run of every busy lane ends after these blocks.
    ///
    /// # Safety
    /// In each busy lane `from` is readable for `blocks` blocks. In [`ChainMode::Encrypt`] `to` is writable for `blocks` blocks, and is
    /// identical to `from` or does not overlap it. Each idle lane [shadows](Self::shadow) a busy one.
    unsafe fn advance(&mut self, blocks: usize, end: bool) {
        let lanes = self.lane_kernels.lanes;
        assert!(lanes <= N);
        let (chains, from, to) = (self.values.as_mut_ptr(), self.from.as_ptr(), self.to.as_ptr());
        let (kernel, keys) = self.table.kernel(self.lane_kernels, &self.keys[..lanes]);
        // SAFETY: the CPU has the instructions because `kernels` exists. There are `N` chaining values and pointers, and at most `N` lanes.
        // `keys` holds the round keys of all lanes, which have one length. The caller promises the pointers. A lane that shadows another
        // has an equal chain and keys, and all lanes read a block before any lane writes it. Both therefore write equal data to one place.
        unsafe { kernel(chains, from, to, blocks, keys) };
        if end {
            return; // the next run sets `from`, and `to` is set only by the next job
        }
        for lane in 0..lanes {
            self.skip(lane, blocks);
        }
    }

    /// Advances these lanes, at most [`few`](Self::few), by `blocks` blocks.
    ///
    /// # Safety
    /// As for [`advance`](Self::advance), for these lanes.
    unsafe fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        if let [lane] = *lanes {
            let (chain, from, to) = (&raw mut self.values[lane], &raw const self.from[lane], &raw const self.to[lane]);
            // SAFETY: as for `advance`, with one lane.
            unsafe { (self.kernels.single)(chain, from, to, blocks, self.keys[lane].as_blocks().as_ptr()) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.advance_narrow(lanes, blocks) };
        }
        for &lane in lanes {
            self.skip(lane, blocks);
        }
    }

    /// Advances the chaining values of these lanes with the narrow kernel.
    ///
    /// # Safety
    /// As for [`advance`](Self::advance), for these lanes.
    #[inline(never)]
    unsafe fn advance_narrow(&mut self, lanes: &[usize], blocks: usize) {
        let narrow = self.kernels.narrow;
        let mut keys = [self.keys[lanes[0]]; NARROW_LANES];
        let mut chains = [[0; BLOCK_LEN]; NARROW_LANES];
        let (mut from, mut to) = ([core::ptr::null(); NARROW_LANES], [core::ptr::null_mut(); NARROW_LANES]);
        for i in 0..narrow.lanes {
            // The remaining lanes of the function shadow the first lane.
            let lane = *lanes.get(i).unwrap_or(&lanes[0]);
            keys[i] = self.keys[lane];
            chains[i] = self.values[lane];
            (from[i], to[i]) = (self.from[lane], self.to[lane]);
        }
        let (kernel, keys) = self.table.kernel(narrow, &keys[..narrow.lanes]);
        // SAFETY: as for `advance`, with the lanes of the narrow kernel, at most `NARROW_LANES`.
        unsafe { kernel(chains.as_mut_ptr(), from.as_ptr(), to.as_ptr(), blocks, keys) };
        for (chain, &lane) in chains.iter().zip(lanes) {
            self.values[lane] = *chain;
        }
    }

    fn skip(&mut self, lane: usize, blocks: usize) {
        self.from[lane] = self.from[lane].wrapping_add(blocks * BLOCK_LEN);
        self.to[lane] = self.to[lane].wrapping_add(blocks * BLOCK_LEN);
    }
}

impl<const N: usize> Drop for Chains<'_, '_, N> {
    fn drop(&mut self) {
        // The values may be a MAC before truncation, or the mask of a CCM tag. `black_box` takes their address, so the compiler must keep
        // the zeros.
        self.values = [[0; BLOCK_LEN]; N];
        core::hint::black_box(&self.values);
    }
}

/// Chains, and the state of the current or last job of each.
struct ChainLanes<'t, 'a, J: ChainJob<'a>, const N: usize> {
    chains: Chains<'t, 'a, N>,
    states: [Option<J::State>; N],
}

impl<'t, 'a, J: ChainJob<'a>, const N: usize> ChainLanes<'t, 'a, J, N> {
    #[inline(always)] // as above
    fn new(keys: &'a RoundKeys, kernels: ChainKernels, lane_kernels: LaneKernels, table: &'t mut KeyTable<N>) -> Self {
        assert!(kernels.mode == J::MODE);
        ChainLanes { chains: Chains::new(keys, kernels, lane_kernels, table), states: [const { None }; N] }
    }
}

impl<'a, J: ChainJob<'a>, const N: usize> Lanes for ChainLanes<'_, 'a, J, N> {
    type Job = J;

    fn lanes(&self) -> usize {
        self.chains.lane_kernels.lanes
    }

    fn break_even(&self) -> usize {
        self.chains.break_even()
    }

    fn few_lanes(&self) -> usize {
        self.chains.few()
    }

    // Inlined here and in the jobs: passing a job through memory would add the latency of a store and a load.
    #[inline(always)]
    fn start_job(&mut self, lane: usize, job: J) -> usize {
        self.chains.keys[lane] = job.keys();
        let ((from, blocks), to) = job.start(&mut self.states[lane], &mut self.chains.values[lane]);
        (self.chains.from[lane], self.chains.to[lane]) = (from, to);
        blocks
    }

    fn next_segment(&mut self, lane: usize) -> usize {
        let chain = &mut self.chains.values[lane];
        let (from, blocks) = self.states[lane].as_mut().map_or(NO_BLOCKS, |state| J::next(state, chain));
        self.chains.from[lane] = from;
        blocks
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.chains.shadow(idle, busy);
    }

    fn advance(&mut self, blocks: usize, end: bool) {
        // SAFETY: the pointers of a busy lane point into a run of its job. `ChainJob` guarantees the memory of the run, in the mode of the
        // kernels. The engine requests at most the blocks that remain in the run. It makes each idle lane shadow a busy one, and does not
        // move the lanes.
        unsafe { self.chains.advance(blocks, end) };
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        // SAFETY: as for `advance`.
        unsafe { self.chains.advance_few(lanes, blocks) };
    }
}
