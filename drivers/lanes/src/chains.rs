//! Chains of AES blocks side by side: whose keys they have, where they read and write, and how far they are.

use core::mem::MaybeUninit;

use gantry_digest::engine::{self, END, Lanes, Run};

use crate::aes::chain::{Chain, Kernels, Mode, SideBySide};
use crate::aes::{BLOCK, RoundKeys};

/// Most lanes of the usual functions, and of those for more.
const USUAL_LANES: usize = 16;
const MOST_LANES: usize = 32;

/// A message for a chain.
///
/// # Safety
/// Until the next run is asked for, its blocks can be read and, in [`Mode::Encrypt`], as many written, to the same memory or apart from it.
/// (What is kept of the message does not move meanwhile.)
pub(crate) unsafe trait ChainJob<'a>: Sized {
    /// What its chain is for.
    const MODE: Mode;

    /// What is kept of it in its lane.
    type Kept;

    /// The keys of the chain.
    fn keys(&self) -> &'a RoundKeys;

    /// The first run, and where it is written, if it is. Sets the chaining value in front of it, and keeps what [`next`](Self::next) needs.
    fn start(self, kept: &mut Option<Self::Kept>, chain: &mut [u8; BLOCK]) -> (Run, *mut u8);

    /// The next run, which is written behind the one before, if it is. `chain` is the chaining value in front of it.
    fn next(kept: &mut Self::Kept, chain: &mut [u8; BLOCK]) -> Run;
}

/// Runs so many jobs or fewer side by side, each with its own keys; all keys are as long as these, and fastest are these. The kernels are
/// for keys of this length and for the mode of the jobs.
pub(crate) fn run<'a, J: ChainJob<'a>>(
    keys: &'a RoundKeys,
    kernels: Kernels,
    count: usize,
    jobs: impl Iterator<Item = J>,
) {
    fn side_by_side<'a, const N: usize, J: ChainJob<'a>>(
        keys: &'a RoundKeys,
        kernels: Kernels,
        count: usize,
        jobs: impl Iterator<Item = J>,
    ) {
        let mut table = KeyTable::<N>::new();
        engine::run::<N, _>(&mut ChainLanes::new(keys, kernels, kernels.side_by_side(count), &mut table), jobs);
    }
    match kernels.side_by_side(count).lanes {
        _ if count == 1 => jobs.for_each(|job| run_one(kernels, job, |_| ())),
        ..=USUAL_LANES => side_by_side::<USUAL_LANES, J>(keys, kernels, count, jobs),
        _ => side_by_side::<MOST_LANES, J>(keys, kernels, count, jobs),
    }
}

/// Runs one job with the single-stream kernel. Answers with what `end` makes of the chaining value behind it.
pub(crate) fn run_one<'a, J: ChainJob<'a>, T>(kernels: Kernels, job: J, end: impl FnOnce(&[u8; BLOCK]) -> T) -> T {
    let mut table = KeyTable::<1>::new();
    let mut lanes = ChainLanes::new(job.keys(), kernels, kernels.usual, &mut table);
    engine::run_one(&mut lanes, job);
    end(&lanes.chains.values[0])
}

/// Chains side by side, `N` of them at most, or one alone.
struct Chains<'t, 'a, const N: usize> {
    kernels: Kernels,
    /// Those for all lanes.
    side_by_side: SideBySide,
    /// The round keys of each lane, all of one length.
    keys: [&'a RoundKeys; N],
    /// For the moments when they are not all the same. Elsewhere, because what is moved is copied, and this is 4 KiB or 8.
    table: &'t mut KeyTable<N>,
    /// The chaining value of each lane.
    values: [[u8; BLOCK]; N],
    /// Where each lane reads and writes next.
    from: [*const u8; N],
    to: [*mut u8; N],
}

/// The round keys of lanes that do not share them, round after round: block `r * lanes + l` is round key `r` of lane `l`, so
/// that one load gives a register of lanes its keys.
#[repr(align(64))]
struct KeyTable<const N: usize> {
    blocks: [[MaybeUninit<[u8; BLOCK]>; N]; 15],
    /// Whose keys are in the column of each lane.
    of: [*const RoundKeys; N],
    /// For how many; none at first.
    lanes: usize,
}

impl<const N: usize> KeyTable<N> {
    /// An empty table. Most batches are of one session, and never look at it.
    fn new() -> Self {
        KeyTable { blocks: [[MaybeUninit::uninit(); N]; 15], of: [core::ptr::null(); N], lanes: 0 }
    }

    /// The function for lanes with these keys, and where it finds them.
    fn kernel(&mut self, kernels: SideBySide, keys: &[&RoundKeys]) -> (Chain, *const [u8; BLOCK]) {
        if keys.iter().all(|of_lane| core::ptr::eq(*of_lane, keys[0])) {
            (kernels.shared, keys[0].as_blocks().as_ptr())
        } else {
            (kernels.own, self.with(keys))
        }
    }

    /// Where the keys of all lanes are, as many rounds as they have.
    #[inline(never)]
    fn with(&mut self, keys: &[&RoundKeys]) -> *const [u8; BLOCK] {
        if self.lanes != keys.len() {
            (self.lanes, self.of) = (keys.len(), [core::ptr::null(); N]);
        }
        let blocks = self.blocks.as_flattened_mut();
        for (lane, (of, &keys_of)) in self.of.iter_mut().zip(keys).enumerate() {
            if !core::ptr::eq(*of, keys_of) {
                *of = keys_of;
                for (block, key) in blocks[lane..].iter_mut().step_by(keys.len()).zip(keys_of.as_blocks()) {
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
            // Not with `zeroize`, which would write thousands of single bytes for each batch. Who has the address may read what
            // is there, so the compiler leaves the zeros in.
            self.blocks.as_flattened_mut().fill(MaybeUninit::new([0; BLOCK]));
            core::hint::black_box(&self.blocks);
        }
    }
}

impl<'t, 'a, const N: usize> Chains<'t, 'a, N> {
    /// Lanes that all have the same keys.
    #[inline(always)] // and so where they are to be, and not copied there
    fn new(keys: &'a RoundKeys, kernels: Kernels, side_by_side: SideBySide, table: &'t mut KeyTable<N>) -> Self {
        let (from, to) = ([core::ptr::null(); N], [core::ptr::null_mut(); N]);
        Chains { kernels, side_by_side, keys: [keys; N], table, values: [[0; BLOCK]; N], from, to }
    }

    /// How many lanes a few are: those of the usual functions where there are more.
    fn few(&self) -> usize {
        if self.side_by_side.lanes > self.kernels.usual.lanes { self.kernels.usual.lanes } else { 1 }
    }

    /// From this many busy lanes on, all of them are faster than a few at a time: two chains side by side are never slower than one
    /// after the other, for the others cost nothing.
    fn break_even(&self) -> usize {
        self.few() + 1
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.keys[idle] = self.keys[busy];
        self.values[idle] = self.values[busy];
        self.from[idle] = self.from[busy];
        self.to[idle] = self.to[busy];
    }

    /// Advances all lanes by so many blocks. With `end` all segments end with these.
    ///
    /// # Safety
    /// In each busy lane `from` is readable, and in [`Mode::Encrypt`] `to` writable, for so many blocks, the same or apart. The others
    /// [shadow](Self::shadow) a busy one.
    unsafe fn advance(&mut self, blocks: usize, end: bool) {
        let lanes = self.side_by_side.lanes;
        assert!(lanes <= N);
        let (chains, from, to) = (self.values.as_mut_ptr(), self.from.as_ptr(), self.to.as_ptr());
        let (kernel, keys) = self.table.kernel(self.side_by_side, &self.keys[..lanes]);
        // SAFETY: the CPU has the instructions because `kernels` exists. There are `N` chaining values and pointers, and no more lanes. The
        // keys are those of all lanes, of one length. The pointers are as the caller promises. Writing twice the same to the same place is
        // harmless: all lanes read a block before any writes it, and the chains and keys of one that shadows are equal.
        unsafe { kernel(chains, from, to, blocks, keys) };
        if end {
            return; // the next segments say where they are
        }
        for lane in 0..lanes {
            self.skip(lane, blocks);
        }
    }

    /// Advances these lanes by so many blocks, no more than [`few`](Self::few).
    ///
    /// # Safety
    /// That of [`advance`](Self::advance), for these lanes.
    unsafe fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        if let [lane] = *lanes {
            let (chain, from, to) = (&raw mut self.values[lane], &raw const self.from[lane], &raw const self.to[lane]);
            // SAFETY: as for `advance`, with one lane.
            unsafe { (self.kernels.single)(chain, from, to, blocks, self.keys[lane].as_blocks().as_ptr()) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.advance_usual(lanes, blocks) };
        }
        for &lane in lanes {
            self.skip(lane, blocks);
        }
    }

    /// The chaining values of these lanes, with the usual functions.
    ///
    /// # Safety
    /// That of [`advance`](Self::advance), for these lanes.
    #[inline(never)]
    unsafe fn advance_usual(&mut self, lanes: &[usize], blocks: usize) {
        let usual = self.kernels.usual;
        let mut keys = [self.keys[lanes[0]]; USUAL_LANES];
        let mut chains = [[0; BLOCK]; USUAL_LANES];
        let (mut from, mut to) = ([core::ptr::null(); USUAL_LANES], [core::ptr::null_mut(); USUAL_LANES]);
        for i in 0..usual.lanes {
            // What is left of them shadows the first.
            let lane = *lanes.get(i).unwrap_or(&lanes[0]);
            keys[i] = self.keys[lane];
            chains[i] = self.values[lane];
            (from[i], to[i]) = (self.from[lane], self.to[lane]);
        }
        let (kernel, keys) = self.table.kernel(usual, &keys[..usual.lanes]);
        // SAFETY: as for `advance`, with the usual lanes, which are no more than there is room for here.
        unsafe { kernel(chains.as_mut_ptr(), from.as_ptr(), to.as_ptr(), blocks, keys) };
        for (chain, &lane) in chains.iter().zip(lanes) {
            self.values[lane] = *chain;
        }
    }

    fn skip(&mut self, lane: usize, blocks: usize) {
        self.from[lane] = self.from[lane].wrapping_add(blocks * BLOCK);
        self.to[lane] = self.to[lane].wrapping_add(blocks * BLOCK);
    }
}

impl<const N: usize> Drop for Chains<'_, '_, N> {
    fn drop(&mut self) {
        // A MAC that was cut, or with the tag of CCM, what masks it. Who has the address may read what is there, so the compiler leaves the
        // zeros in.
        self.values = [[0; BLOCK]; N];
        core::hint::black_box(&self.values);
    }
}

/// Chains, and what is kept of the message that each has, or had.
struct ChainLanes<'t, 'a, J: ChainJob<'a>, const N: usize> {
    chains: Chains<'t, 'a, N>,
    kept: [Option<J::Kept>; N],
}

impl<'t, 'a, J: ChainJob<'a>, const N: usize> ChainLanes<'t, 'a, J, N> {
    #[inline(always)] // as above
    fn new(keys: &'a RoundKeys, kernels: Kernels, side_by_side: SideBySide, table: &'t mut KeyTable<N>) -> Self {
        assert!(kernels.mode == J::MODE);
        ChainLanes { chains: Chains::new(keys, kernels, side_by_side, table), kept: [const { None }; N] }
    }
}

impl<'a, J: ChainJob<'a>, const N: usize> Lanes for ChainLanes<'_, 'a, J, N> {
    type Job = J;

    fn lanes(&self) -> usize {
        self.chains.side_by_side.lanes
    }

    fn break_even(&self) -> usize {
        self.chains.break_even()
    }

    fn few(&self) -> usize {
        self.chains.few()
    }

    // Inlined, because a job that goes through memory is waited for: here, and by the jobs.
    #[inline(always)]
    fn start(&mut self, lane: usize, job: J) -> usize {
        self.chains.keys[lane] = job.keys();
        let ((from, blocks), to) = job.start(&mut self.kept[lane], &mut self.chains.values[lane]);
        (self.chains.from[lane], self.chains.to[lane]) = (from, to);
        blocks
    }

    fn next(&mut self, lane: usize) -> usize {
        let chain = &mut self.chains.values[lane];
        let (from, blocks) = self.kept[lane].as_mut().map_or(END, |kept| J::next(kept, chain));
        self.chains.from[lane] = from;
        blocks
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.chains.shadow(idle, busy);
    }

    fn advance(&mut self, blocks: usize, end: bool) {
        // SAFETY: the pointers of a busy lane are those of a run of its job, which is as the trait has it, in the mode of the kernels: the
        // engine asks for no more blocks than the run has, and does not move the lanes.
        unsafe { self.chains.advance(blocks, end) };
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        // SAFETY: as for `advance`.
        unsafe { self.chains.advance_few(lanes, blocks) };
    }
}
