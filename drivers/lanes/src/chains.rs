//! Chains of AES blocks side by side: whose keys they have, where they read and write, and how far they are.

use core::mem::MaybeUninit;

use crate::kernel::aes::chain::{Chain, Kernels, SideBySide};
use crate::kernel::aes::{BLOCK, RoundKeys};

/// Most lanes of the usual functions, and of those for more.
pub(crate) const USUAL_LANES: usize = 16;
pub(crate) const MOST_LANES: usize = 32;

/// Chains side by side, `N` of them at most, or one alone.
pub(crate) struct Chains<'t, 'a, const N: usize> {
    kernels: Kernels,
    /// Those for all lanes.
    pub(crate) side_by_side: SideBySide,
    /// The round keys of each lane, all of one length.
    pub(crate) keys: [&'a RoundKeys; N],
    /// For the moments when they are not all the same. Elsewhere, because what is moved is copied, and this is 4 KiB or 8.
    table: &'t mut KeyTable<N>,
    /// The chaining value of each lane.
    pub(crate) values: [[u8; BLOCK]; N],
    /// Where each lane reads and writes next.
    pub(crate) from: [*const u8; N],
    pub(crate) to: [*mut u8; N],
}

/// The round keys of lanes that do not share them, round after round: block `r * lanes + l` is round key `r` of lane `l`, so
/// that one load gives a register of lanes its keys.
#[repr(align(64))]
pub(crate) struct KeyTable<const N: usize> {
    blocks: [[MaybeUninit<[u8; BLOCK]>; N]; 15],
    /// Whose keys are in the column of each lane.
    of: [*const RoundKeys; N],
    /// For how many; none at first.
    lanes: usize,
}

impl<const N: usize> KeyTable<N> {
    /// An empty table. Most batches are of one session, and never look at it.
    pub(crate) fn new() -> Self {
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
    pub(crate) fn new(
        keys: &'a RoundKeys,
        kernels: Kernels,
        side_by_side: SideBySide,
        table: &'t mut KeyTable<N>,
    ) -> Self {
        let (from, to) = ([core::ptr::null(); N], [core::ptr::null_mut(); N]);
        Chains { kernels, side_by_side, keys: [keys; N], table, values: [[0; BLOCK]; N], from, to }
    }

    /// How many lanes a few are: those of the usual functions where there are more.
    pub(crate) fn few(&self) -> usize {
        if self.side_by_side.lanes > self.kernels.usual.lanes { self.kernels.usual.lanes } else { 1 }
    }

    /// From this many busy lanes on, all of them are faster than a few at a time: two chains side by side are never slower than one
    /// after the other, for the others cost nothing.
    pub(crate) fn break_even(&self) -> usize {
        self.few() + 1
    }

    pub(crate) fn shadow(&mut self, idle: usize, busy: usize) {
        self.keys[idle] = self.keys[busy];
        self.values[idle] = self.values[busy];
        self.from[idle] = self.from[busy];
        self.to[idle] = self.to[busy];
    }

    /// Advances all lanes by so many blocks. With `end` all segments end with these.
    ///
    /// # Safety
    /// In each busy lane `from` is readable, and with functions that encrypt `to` writable, for so many blocks, the same or apart. The others
    /// [shadow](Self::shadow) a busy one.
    pub(crate) unsafe fn advance(&mut self, blocks: usize, end: bool) {
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
    pub(crate) unsafe fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
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
