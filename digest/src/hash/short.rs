//! Whole messages of one start: short ones are padded in a row and go through the lanes without the engine, which would take longer to keep
//! account of one than its block takes. (`cargo bench -p gantry-digest` measures it.)

use core::mem::MaybeUninit;

use super::lanes::Chains;
use super::{Job, Start, TailBlocks, run, run_one, write_length};
use crate::kernel::{HASH_LANES, Hash, Kernels, MAX_BLOCK, Segment};

/// Messages that are padded before the first of them is hashed: what was stored in parts and is read as a whole would be waited for.
const SLOTS: usize = 2 * HASH_LANES;

/// A message, and where its digest goes.
type Message<'a> = (&'a [u8], &'a mut [u8]);

/// Runs whole messages that start in the same way.
pub(crate) fn run_whole<'a, H: Hash>(
    kernels: Kernels<H>,
    start: &'a Start<H>,
    messages: impl Iterator<Item = Message<'a>>,
) {
    let job = |(input, output)| Job { start, stream: None, input, output: Some(output) };
    if kernels.lanes == 1 {
        return messages.for_each(|message| run_one(kernels, job(message)));
    }
    let (mut one, mut two) = (Slots::<H, 1>::new(start), Slots::<H, 2>::new(start));
    let mut long = [const { None }; SLOTS];
    let mut count = 0;
    for message in messages {
        if Slots::<H, 1>::fits(message.0) {
            one.push(kernels, message);
        } else if Slots::<H, 2>::fits(message.0) {
            two.push(kernels, message);
        } else {
            long[count] = Some(message);
            count += 1;
            if count == SLOTS {
                run(kernels, long.iter_mut().filter_map(Option::take).map(job));
                count = 0;
            }
        }
    }
    one.flush(kernels);
    two.flush(kernels);
    run(kernels, long.iter_mut().filter_map(Option::take).map(job));
}

/// Messages that have `BLOCKS` blocks, 1 or 2, with their padding.
struct Slots<'a, H: Hash, const BLOCKS: usize> {
    start: &'a Start<H>,
    padded: [TailBlocks; SLOTS],
    outputs: [Option<&'a mut [u8]>; SLOTS],
    used: usize,
}

impl<'a, H: Hash, const BLOCKS: usize> Slots<'a, H, BLOCKS> {
    fn new(start: &'a Start<H>) -> Self {
        let padded = [[MaybeUninit::uninit(); 2 * MAX_BLOCK]; SLOTS];
        Slots { start, padded, outputs: [const { None }; SLOTS], used: 0 }
    }

    /// Whether a message has no more blocks.
    #[inline(always)]
    fn fits(input: &[u8]) -> bool {
        input.len() < BLOCKS * H::BLOCK - H::LENGTH_FIELD
    }

    /// Takes a message that fits.
    #[inline(always)]
    fn push(&mut self, kernels: Kernels<H>, (input, output): Message<'a>) {
        let padded = &mut self.padded[self.used][..BLOCKS * H::BLOCK];
        padded.fill(MaybeUninit::new(0));
        padded[..input.len()].write_copy_of_slice(input);
        padded[input.len()].write(0x80);
        write_length::<H>(padded, self.start.absorbed + input.len() as u64);
        self.outputs[self.used] = Some(output);
        self.used += 1;
        if self.used == SLOTS {
            self.flush(kernels);
        }
    }

    /// Hashes what is there.
    #[inline(never)]
    fn flush(&mut self, kernels: Kernels<H>) {
        let lanes = kernels.lanes;
        let mut first = 0;
        while first < self.used {
            let count = lanes.min(self.used - first);
            let mut chains = Chains::<H, HASH_LANES>::new();
            chains.fill(&self.start.chain);
            // What is left of the lanes hashes the first message once more.
            let messages: [*const u8; HASH_LANES] = core::array::from_fn(|lane| {
                let slot = if lane < count { first + lane } else { first };
                self.padded[slot].as_ptr().cast()
            });
            let segment = Segment { messages: messages.as_ptr(), blocks: BLOCKS };
            let outer = self.start.outer.as_ref();
            // SAFETY: the CPU has the instructions because `kernels` exists. `chains` has eight rows, no fewer than `WORDS`, as long as those
            // of the kernels. There are no fewer pointers than lanes, each to a slot below `used`, all blocks of which `push` has written.
            unsafe { (kernels.side_by_side)(chains.rows(), &[segment], outer) };
            for (lane, output) in self.outputs[first..first + count].iter_mut().enumerate() {
                if let Some(output) = output.take() {
                    chains.write(lane, output);
                }
            }
            first += count;
        }
        self.used = 0;
    }
}
