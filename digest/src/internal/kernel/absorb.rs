//! The states of Keccak and BLAKE2b, and how they absorb blocks. These functions do not fit [`Compression`](super::Compression).

/// Maximum number of lanes of these functions.
pub(crate) const MAX_SPONGE_LANES: usize = 8;

/// Advances the states of all lanes over whole blocks of their messages.
///
/// `state` is word-major: word `i` of lane `l` is at `i * row_stride(lanes) + l`. `block_size` is the length of a block in bytes, and
/// `rounds` is the number of rounds for a block.
///
/// # Safety
/// The CPU supports the level the function was compiled for. `state` is valid for one row per word of the function. There is one pointer
/// per lane, readable for `blocks` blocks of `block_size` bytes, which is a block length of the function.
pub type AbsorbKernel =
    unsafe fn(state: *mut u64, messages: *const *const u8, blocks: usize, block_size: usize, rounds: usize);

/// Words of the longest state, which is Keccak's.
pub const STATE_WORDS: usize = 25;

/// Words from one row of states to the next.
pub(super) const fn row_stride(lanes: usize) -> usize {
    if lanes > 1 { MAX_SPONGE_LANES } else { 1 }
}

/// How a function absorbs messages: the differences between Keccak and BLAKE2b.
pub trait Absorption: Sized + Send + Sync + 'static {
    /// Bytes of a block.
    const BLOCK_SIZE: usize;
    /// Words of the state, at most [`STATE_WORDS`].
    const WORDS: usize;

    /// Rounds per block.
    const ROUNDS: usize;

    /// Takes the number of message bytes that are ready. Returns how many whole blocks of them can be absorbed before the last block is
    /// known.
    fn whole_blocks(bytes: usize) -> usize;

    /// Pads the last block, which has `rest_len` bytes of the message and then zeros. `domain` comes from the message's setup.
    fn pad(block: &mut [u8], rest_len: usize, domain: u8);

    /// Prepares the state of a lane for the last block, which has `rest_len` bytes of the message.
    fn prepare_last<const N: usize>(states: &mut States<N>, lane: usize, rest_len: usize);
}

/// The states of at most `N` lanes, word-major: word `i` of lane `l` at `[i][l]`.
pub struct States<const N: usize>(pub(crate) [[u64; N]; STATE_WORDS]);

impl<const N: usize> States<N> {
    /// A word of a lane, mutable.
    pub fn word(&mut self, word: usize, lane: usize) -> &mut u64 {
        &mut self.0[word][lane]
    }

    pub(crate) fn get(&self, lane: usize) -> [u64; STATE_WORDS] {
        self.0.each_ref().map(|row| row[lane])
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, words: usize, lane: usize, state: &[u64; STATE_WORDS]) {
        for (word, row) in state[..words].iter().zip(&mut self.0) {
            row[lane] = *word;
        }
    }

    /// Writes the first words of a lane as bytes, cut to the length of `output`.
    #[inline(always)]
    pub(crate) fn write(&self, lane: usize, output: &mut [u8]) {
        for (part, row) in output.chunks_mut(8).zip(&self.0) {
            part.copy_from_slice(&row[lane].to_le_bytes()[..part.len()]);
        }
    }
}
