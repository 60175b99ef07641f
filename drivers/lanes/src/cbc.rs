//! CBC encryption on lanes.

use gantry_core::driver::Buffers;
use gantry_digest::internal::engine::{BlockRun, NO_BLOCKS};

use crate::aes::buffers::RawBuffers;
use crate::aes::chain::{ChainKernels, ChainMode};
use crate::aes::{Aes, BLOCK_LEN, RoundKeys};
use crate::chains::{self, ChainJob};

/// A key for CBC encryption.
pub(crate) struct CbcKey {
    keys: Box<RoundKeys>,
    kernels: ChainKernels,
}

impl CbcKey {
    /// Expands a key. `None` unless it has 16, 24 or 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        let keys = RoundKeys::new(aes, key)?;
        Some(CbcKey { kernels: aes.chain_kernels(&keys, ChainMode::Encrypt), keys })
    }

    /// Encrypts all messages side by side, each with its own key. `max_jobs` is the maximum number of messages, and selects the kernel. All
    /// keys are as long as this one; messages under this key itself are fastest.
    pub(crate) fn run<'a>(&'a self, max_jobs: usize, jobs: impl Iterator<Item = CbcJob<'a>>) {
        chains::run(&self.keys, self.kernels, max_jobs, jobs);
    }

    /// Returns true if [`run`](Self::run) also accepts messages with `other`.
    pub(crate) fn runs_with(&self, other: &CbcKey) -> bool {
        self.keys.has_same_length(&other.keys)
    }
}

/// A message for CBC encryption, of whole blocks.
pub(crate) struct CbcJob<'a> {
    pub(crate) key: &'a CbcKey,
    pub(crate) iv: [u8; BLOCK_LEN],
    pub(crate) data: Buffers<'a>,
}

impl CbcJob<'_> {
    /// Encrypts one message, and returns the final chaining value: the last block of ciphertext, or the IV of an empty message.
    pub(crate) fn run(self) -> [u8; BLOCK_LEN] {
        chains::run_one(self.key.kernels, self, |chain| *chain)
    }
}

// SAFETY: the only run is the data, which the job borrows for as long as the key.
unsafe impl<'a> ChainJob<'a> for CbcJob<'a> {
    const MODE: ChainMode = ChainMode::Encrypt;

    type State = ();

    fn keys(&self) -> &'a RoundKeys {
        &self.key.keys
    }

    #[inline(always)]
    fn start(self, _state: &mut Option<()>, chain: &mut [u8; BLOCK_LEN]) -> (BlockRun, *mut u8) {
        *chain = self.iv;
        let RawBuffers { from, to, bytes, .. } = self.data.into();
        ((from, bytes / BLOCK_LEN), to)
    }

    fn next((): &mut (), _chain: &mut [u8; BLOCK_LEN]) -> BlockRun {
        NO_BLOCKS
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::aes::{every_aes, keys_of_one_length};
    use crate::random::Random;

    #[cfg(target_arch = "x86_64")]
    impl CbcKey {
        /// Returns the values that must be wiped after messages with these data.
        pub(crate) fn secrets(&self, iv: [u8; BLOCK_LEN], data: &[Vec<u8>]) -> Vec<Vec<u8>> {
            let with_chains = |data: &Vec<u8>| {
                let plain = data.as_chunks::<BLOCK_LEN>().0.to_vec();
                let mut cipher = plain.clone();
                CbcJob { key: self, iv, data: Buffers::InPlace(cipher.as_flattened_mut()) }.run();
                core::iter::once(iv).chain(cipher).zip(plain)
            };
            self.keys.secrets_of_chains(data.iter().flat_map(with_chains))
        }
    }

    /// Decodes hexadecimal bytes of a test vector.
    pub(crate) fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    /// The plaintext of SP 800-38A, appendix F, also used by SP 800-38B and RFC 4493.
    pub(crate) const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
    pub(crate) const KEY_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
    pub(crate) const KEY_192: &str = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
    pub(crate) const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";

    #[test]
    fn cbc_matches_sp_800_38a() {
        let iv = core::array::from_fn(|i| i as u8);
        for (key, cipher) in [
            (
                KEY_128,
                "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
                 73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
            ),
            (
                KEY_192,
                "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
                 571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
            ),
            (
                KEY_256,
                "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
                 39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
            ),
        ] {
            for aes in every_aes() {
                let key = CbcKey::new(aes, &bytes(key)).unwrap();
                for count in [1, 2, 7, 16, 17, 32, 33, 50] {
                    let mut data = vec![bytes(PLAIN); count];
                    key.run(count, data.iter_mut().map(|data| CbcJob { key: &key, iv, data: Buffers::InPlace(data) }));
                    for data in &data {
                        assert_eq!(*data, bytes(cipher), "{count} at once");
                    }
                }
            }
        }
    }

    /// Compares messages that run side by side with messages processed one by one: random lengths, in place and in separate buffers, with
    /// one key and with several.
    #[test]
    fn cbc_side_by_side_equals_one_message_at_a_time() {
        let random = Random::new(0x6362_6373);
        for aes in every_aes() {
            for _ in 0..120 {
                let keys = keys_of_one_length(&random, |key| CbcKey::new(aes, key));
                let plain: Vec<(&CbcKey, [u8; BLOCK_LEN], Vec<u8>)> = (0..random.below(60))
                    .map(|_| {
                        let data = random.bytes(random.length() / BLOCK_LEN * BLOCK_LEN);
                        (&keys[random.below(keys.len())], random.bytes(BLOCK_LEN).try_into().unwrap(), data)
                    })
                    .collect();
                let mut expected: Vec<Vec<u8>> = plain.iter().map(|(_, _, data)| data.clone()).collect();
                for (data, &(key, iv, _)) in expected.iter_mut().zip(&plain) {
                    let chain = CbcJob { key, iv, data: Buffers::InPlace(data) }.run();
                    assert_eq!(chain, data.last_chunk().copied().unwrap_or(iv));
                }
                let mut separate: Vec<Vec<u8>> = plain.iter().map(|(_, _, data)| vec![0xee; data.len()]).collect();
                let mut in_place: Vec<Vec<u8>> = plain.iter().map(|(_, _, data)| data.clone()).collect();
                let jobs = plain.iter().zip(&mut separate);
                let jobs = jobs.map(|(&(key, iv, ref input), output)| CbcJob {
                    key,
                    iv,
                    data: Buffers::Separate { input, output },
                });
                let more = plain.iter().zip(&mut in_place);
                let more = more.map(|(&(key, iv, _), data)| CbcJob { key, iv, data: Buffers::InPlace(data) });
                keys[0].run(2 * plain.len(), jobs.chain(more));
                assert_eq!(separate, expected);
                assert_eq!(in_place, expected);
            }
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for aes in every_aes() {
            for length in [0, 15, 17, 33] {
                assert!(CbcKey::new(aes, &vec![0; length]).is_none());
            }
        }
    }
}
