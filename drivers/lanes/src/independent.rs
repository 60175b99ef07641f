//! Counter mode and CBC decryption: keys, and messages that run one after the other.

use gantry_core::driver::Buffers;
use zeroize::Zeroizing;

use crate::aes::independent::{IndependentKernel, IndependentMode, Message};
use crate::aes::{Aes, BLOCK_LEN, RoundKeys};
use crate::groups::run_in_groups;

/// A key for a mode with independent blocks.
pub(crate) struct IndependentKey {
    keys: Box<RoundKeys>,
    kernel: IndependentKernel,
}

impl IndependentKey {
    /// Expands a key for counter mode. `None` unless it has 16, 24 or 32 bytes.
    pub(crate) fn ctr(aes: Aes, key: &[u8]) -> Option<Self> {
        let keys = RoundKeys::new(aes, key)?;
        Some(IndependentKey { kernel: aes.independent_kernel(IndependentMode::Ctr, &keys), keys })
    }

    /// Expands a key for CBC decryption. `None` unless it has 16, 24 or 32 bytes.
    pub(crate) fn cbc(aes: Aes, key: &[u8]) -> Option<Self> {
        let keys = RoundKeys::new(aes, key)?.inverse(aes);
        Some(IndependentKey { kernel: aes.independent_kernel(IndependentMode::Cbc, &keys), keys })
    }

    pub(crate) fn keys(&self) -> &RoundKeys {
        &self.keys
    }

    /// Returns a message, or a piece of one, under this key. `iv` is the first counter, or in CBC the ciphertext before the first block.
    /// CBC requires whole blocks.
    #[inline(always)]
    pub(crate) fn message<'a>(&'a self, iv: [u8; BLOCK_LEN], data: Buffers<'a>) -> Message<'a> {
        Message::new(&self.keys, iv, data)
    }

    /// Runs messages one after the other, each with its own key. All keys are for this mode, and as long as this one.
    pub(crate) fn run<'a>(&self, messages: impl Iterator<Item = Message<'a>>) {
        run_in_groups(messages, |messages| self.kernel.run(messages));
    }

    /// Returns true if [`run`](Self::run) also accepts messages with `other`, provided that it is for this mode.
    pub(crate) fn runs_with(&self, other: &IndependentKey) -> bool {
        self.keys.has_same_length(&other.keys)
    }
}

/// The position in a counter-mode message that arrives in pieces. Stores no key stream: a block that is partly used is computed again.
#[derive(Clone, Copy)]
pub(crate) struct CtrPosition {
    /// The counter of the next block, or of the block that is partly used.
    counter: u128,
    /// Bytes of that block that are used.
    used_bytes: usize,
}

impl CtrPosition {
    /// Returns the position at the beginning of a message.
    pub(crate) fn new(iv: [u8; BLOCK_LEN]) -> Self {
        CtrPosition { counter: u128::from_be_bytes(iv), used_bytes: 0 }
    }

    /// Encrypts or decrypts the next piece, of any length.
    pub(crate) fn run(&mut self, key: &IndependentKey, data: Buffers<'_>) {
        let head_bytes = if self.used_bytes > 0 { data.len().min(BLOCK_LEN - self.used_bytes) } else { 0 };
        let (mut first, rest) = split_at(data, head_bytes);
        if head_bytes > 0 {
            let mut block = Zeroizing::new([0; BLOCK_LEN]);
            let end = self.used_bytes + head_bytes;
            block[self.used_bytes..end].copy_from_slice(first.input());
            self.advance(key, Buffers::InPlace(&mut block[..end]), end);
            first.output().copy_from_slice(&block[self.used_bytes..end]);
        }
        self.used_bytes = (self.used_bytes + head_bytes) % BLOCK_LEN;
        if rest.len() > 0 {
            let bytes = rest.len();
            self.advance(key, rest, bytes);
            self.used_bytes = bytes % BLOCK_LEN;
        }
    }

    /// Processes data that begin at a block boundary.
    fn advance(&mut self, key: &IndependentKey, data: Buffers<'_>, bytes: usize) {
        key.run(core::iter::once(key.message(self.counter.to_be_bytes(), data)));
        self.counter = self.counter.wrapping_add((bytes / BLOCK_LEN) as u128);
    }
}

/// Splits data after `bytes` bytes.
fn split_at(data: Buffers<'_>, bytes: usize) -> (Buffers<'_>, Buffers<'_>) {
    match data {
        Buffers::InPlace(data) => {
            let (first, rest) = data.split_at_mut(bytes);
            (Buffers::InPlace(first), Buffers::InPlace(rest))
        }
        Buffers::Separate { input, output } => {
            let ((first, input), (to, output)) = (input.split_at(bytes), output.split_at_mut(bytes));
            (Buffers::Separate { input: first, output: to }, Buffers::Separate { input, output })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes::every_aes;
    use crate::cbc::tests::{KEY_128, KEY_192, KEY_256, PLAIN, bytes};
    use crate::cbc::{CbcJob, CbcKey};
    use crate::random::Random;

    #[cfg(target_arch = "x86_64")]
    impl IndependentKey {
        /// Returns the values that must be wiped.
        pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
            self.keys.as_blocks().iter().map(|key| key.to_vec()).collect()
        }

        /// Replaces the round keys by those of another key of the same length, in place. Does not invert them for CBC decryption: only
        /// tests that ignore the result call this.
        pub(crate) fn set(&mut self, aes: Aes, key: &[u8]) {
            assert!(self.keys.expand(aes, key));
        }
    }

    fn run_one(key: &IndependentKey, iv: [u8; BLOCK_LEN], data: &mut [u8]) {
        key.run(core::iter::once(key.message(iv, Buffers::InPlace(data))));
    }

    /// SP 800-38A, F.5.
    #[test]
    fn ctr_matches_sp_800_38a() {
        let plain = bytes(PLAIN);
        let first: [u8; BLOCK_LEN] = core::array::from_fn(|i| 0xf0 + i as u8);
        for (key, cipher) in [
            (
                KEY_128,
                "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
                 5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
            ),
            (
                KEY_192,
                "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94\
                 1e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050",
            ),
            (
                KEY_256,
                "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
                 2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
            ),
        ] {
            for aes in every_aes() {
                let key = IndependentKey::ctr(aes, &bytes(key)).unwrap();
                let mut data = plain.clone();
                run_one(&key, first, &mut data);
                assert_eq!(data, bytes(cipher));
                run_one(&key, first, &mut data);
                assert_eq!(data, plain);
            }
        }
    }

    /// Encrypts in counter mode as the standard defines it, block by block.
    fn reference_ctr(key: &CbcKey, iv: [u8; BLOCK_LEN], data: &mut [u8]) {
        let mut counter = u128::from_be_bytes(iv);
        for chunk in data.chunks_mut(BLOCK_LEN) {
            let mut block = counter.to_be_bytes();
            CbcJob { key, iv: [0; BLOCK_LEN], data: Buffers::InPlace(&mut block) }.run();
            chunk.iter_mut().zip(block).for_each(|(byte, stream)| *byte ^= stream);
            counter = counter.wrapping_add(1);
        }
    }

    /// Returns a random first counter. Most of them carry out of the lowest 8, 32, 64 or 128 bits after 1 to 80 blocks.
    fn first_counter(random: &Random) -> [u8; BLOCK_LEN] {
        let any = u128::from_be_bytes(random.bytes(BLOCK_LEN).try_into().unwrap());
        let before = |bits: u32| (any >> bits << bits).wrapping_sub(1 + random.below(80) as u128);
        let counter = match random.below(5) {
            0 => before(32),
            1 => before(64),
            2 => 0u128.wrapping_sub(1 + random.below(80) as u128),
            3 => before(8),
            _ => any,
        };
        counter.to_be_bytes()
    }

    /// Runs messages of every length up to more than two passes of the widest kernel (512 bytes), in place and in separate buffers, with
    /// three keys.
    #[test]
    fn ctr_of_every_length_matches_the_standard() {
        let random = Random::new(0x6374_7273);
        for aes in every_aes() {
            for bytes in [16, 24, 32] {
                let secrets = [(); 3].map(|()| random.bytes(bytes));
                let keys = secrets.each_ref().map(|key| IndependentKey::ctr(aes, key).unwrap());
                let plain: Vec<Vec<u8>> = (0..1200).map(|length| random.bytes(length)).collect();
                let of_each: Vec<(usize, [u8; BLOCK_LEN])> =
                    plain.iter().map(|_| (random.below(3), first_counter(&random))).collect();
                let mut cipher = plain.clone();
                for ((key, iv), data) in of_each.iter().zip(&mut cipher) {
                    reference_ctr(&CbcKey::new(aes, &secrets[*key]).unwrap(), *iv, data);
                }
                assert_crypts(&keys, &of_each, &plain, &cipher);
            }
        }
    }

    /// Asserts that the keys turn `from` into `to`, in place and in separate buffers.
    fn assert_crypts(
        keys: &[IndependentKey; 3],
        of_each: &[(usize, [u8; BLOCK_LEN])],
        from: &[Vec<u8>],
        to: &[Vec<u8>],
    ) {
        let mut separate: Vec<Vec<u8>> = from.iter().map(|data| vec![0xee; data.len()]).collect();
        let mut in_place = from.to_vec();
        let out_of_place = from.iter().zip(&mut separate).map(|(input, output)| Buffers::Separate { input, output });
        let data = out_of_place.chain(in_place.iter_mut().map(|data| Buffers::InPlace(data)));
        let messages = of_each.iter().cycle().zip(data);
        keys[0].run(messages.map(|((key, iv), data)| keys[*key].message(*iv, data)));
        assert_eq!(separate, to);
        assert_eq!(in_place, to);
    }

    /// Compares decryption with encryption, which has test vectors.
    #[test]
    fn cbc_decryption_of_every_length_reverses_encryption() {
        let random = Random::new(0x6362_6364);
        for aes in every_aes() {
            for bytes in [16, 24, 32] {
                let secrets = [(); 3].map(|()| random.bytes(bytes));
                let keys = secrets.each_ref().map(|key| IndependentKey::cbc(aes, key).unwrap());
                let plain: Vec<Vec<u8>> = (0..100).map(|blocks| random.bytes(blocks * BLOCK_LEN)).collect();
                let of_each: Vec<(usize, [u8; BLOCK_LEN])> =
                    plain.iter().map(|_| (random.below(3), random.bytes(BLOCK_LEN).try_into().unwrap())).collect();
                let mut cipher = plain.clone();
                for ((key, iv), data) in of_each.iter().zip(&mut cipher) {
                    let key = CbcKey::new(aes, &secrets[*key]).unwrap();
                    CbcJob { key: &key, iv: *iv, data: Buffers::InPlace(data) }.run();
                }
                assert_crypts(&keys, &of_each, &cipher, &plain);
            }
        }
    }

    #[test]
    fn ctr_in_pieces_equals_the_whole_message() {
        let random = Random::new(0x7069_6563);
        for aes in every_aes() {
            let key = IndependentKey::ctr(aes, &random.bytes(16)).unwrap();
            for _ in 0..200 {
                let (plain, iv) = (random.bytes(random.below(700)), first_counter(&random));
                let mut whole = plain.clone();
                run_one(&key, iv, &mut whole);
                let mut in_pieces = plain.clone();
                let (mut position, mut rest) = (CtrPosition::new(iv), &mut in_pieces[..]);
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at_mut(rest.len().min(random.below(90)));
                    let input = piece.to_vec();
                    let data = if random.below(2) == 0 {
                        piece.into()
                    } else {
                        Buffers::Separate { input: &input, output: piece }
                    };
                    position.run(&key, data);
                    rest = after;
                }
                assert_eq!(in_pieces, whole);
            }
        }
    }

    /// Runs kernels on data next to inaccessible memory.
    #[test]
    #[cfg(unix)]
    fn ctr_and_cbc_stay_within_their_buffers() {
        let page = Page::new();
        let random = Random::new(0x7061_6765);
        for aes in every_aes() {
            let secret = random.bytes(16);
            let (ctr, cbc) = (IndependentKey::ctr(aes, &secret).unwrap(), IndependentKey::cbc(aes, &secret).unwrap());
            for length in 0..600 {
                for at_end in [false, true] {
                    run_one(&ctr, [7; BLOCK_LEN], page.bytes(length, at_end));
                    run_one(&cbc, [7; BLOCK_LEN], page.bytes(length / BLOCK_LEN * BLOCK_LEN, at_end));
                }
            }
        }
    }

    /// Memory between two inaccessible pages.
    #[cfg(unix)]
    struct Page(*mut u8);

    #[cfg(unix)]
    impl Page {
        /// The largest page size of x86-64 and AArch64 kernels.
        const BYTES: usize = 64 << 10;

        fn new() -> Self {
            // SAFETY: maps new memory, and makes only the middle of it accessible.
            unsafe {
                let at = libc::mmap(
                    core::ptr::null_mut(),
                    3 * Self::BYTES,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                );
                assert_ne!(at, libc::MAP_FAILED);
                let middle = at.add(Self::BYTES);
                assert_eq!(libc::mprotect(middle, Self::BYTES, libc::PROT_READ | libc::PROT_WRITE), 0);
                Page(middle.cast())
            }
        }

        /// Returns `length` bytes at the beginning or the end of the page.
        #[allow(clippy::mut_from_ref, reason = "one at a time")]
        fn bytes(&self, length: usize, at_end: bool) -> &mut [u8] {
            assert!(length <= Self::BYTES);
            let begin = if at_end { Self::BYTES - length } else { 0 };
            // SAFETY: within the page, and the test looks at one slice at a time.
            unsafe { core::slice::from_raw_parts_mut(self.0.add(begin), length) }
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for aes in every_aes() {
            for length in [0, 15, 17, 33] {
                assert!(IndependentKey::ctr(aes, &vec![0; length]).is_none());
                assert!(IndependentKey::cbc(aes, &vec![0; length]).is_none());
            }
        }
    }
}
