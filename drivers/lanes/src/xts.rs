//! XTS: keys and data units.

use gantry_core::Operation;
use gantry_core::driver::Buffers;

use crate::aes::xts::{DataUnit, XtsKernels};
use crate::aes::{Aes, BLOCK_LEN, RoundKeys};
use crate::groups::run_in_groups;

/// A key for XTS: the data keys for the directions in use, and the tweak key.
pub(crate) struct XtsKey {
    encrypt: Option<Box<RoundKeys>>,
    decrypt: Option<Box<RoundKeys>>,
    tweak: Box<RoundKeys>,
    kernels: XtsKernels,
}

impl XtsKey {
    /// Expands a key. `None` unless it has twice 16 or twice 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8], allows: impl Fn(Operation) -> bool) -> Option<Self> {
        if ![32, 64].contains(&key.len()) {
            return None;
        }
        let (data, tweak) = key.split_at(key.len() / 2);
        let (encrypt, tweak) = (RoundKeys::new(aes, data)?, RoundKeys::new(aes, tweak)?);
        let kernels = aes.xts_kernels(&encrypt);
        let decrypt = allows(Operation::Decrypt).then(|| encrypt.inverse(aes));
        Some(XtsKey { encrypt: allows(Operation::Encrypt).then_some(encrypt), decrypt, tweak, kernels })
    }

    /// Returns a request under this key. `None` if the data are shorter than a block, or if the key was not expanded for this direction.
    #[inline(always)]
    pub(crate) fn unit<'a>(
        &'a self,
        decrypt: bool,
        tweak: &'a [u8; BLOCK_LEN],
        data: Buffers<'a>,
    ) -> Option<DataUnit<'a>> {
        let keys = if decrypt { &self.decrypt } else { &self.encrypt }.as_deref()?;
        DataUnit::new(&self.tweak, keys, tweak, data)
    }

    /// Runs units of one direction one after the other, each with its own key. All keys are as long as this one.
    pub(crate) fn run<'a>(&self, decrypt: bool, units: impl Iterator<Item = DataUnit<'a>>) {
        run_in_groups(units, |units| self.kernels.run(decrypt, units));
    }

    /// Returns true if [`run`](Self::run) also accepts units with `other`.
    pub(crate) fn runs_with(&self, other: &XtsKey) -> bool {
        self.tweak.has_same_length(&other.tweak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes::every_aes;
    use crate::cbc::{CbcJob, CbcKey};
    use crate::random::Random;

    #[cfg(target_arch = "x86_64")]
    impl XtsKey {
        /// Returns the values that must be wiped.
        pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
            let keys = [self.encrypt.as_ref(), self.decrypt.as_ref(), Some(&self.tweak)];
            keys.into_iter().flatten().flat_map(|keys| keys.as_blocks()).map(|key| key.to_vec()).collect()
        }
    }

    fn run_one(key: &XtsKey, decrypt: bool, tweak: &[u8; BLOCK_LEN], data: &mut [u8]) {
        key.run(decrypt, key.unit(decrypt, tweak, Buffers::InPlace(data)).into_iter());
    }

    /// IEEE 1619-2007, Annex B: vectors 1, 2 and 15. The last one has a partial block.
    #[test]
    fn xts_matches_ieee_1619() {
        let blocks = |blocks: [u128; 2]| blocks.map(u128::to_be_bytes).concat();
        let repeat = |byte: u8, count: usize| vec![byte; count];
        let down = |from: u8| (0..16).map(move |i| from - i);
        for (key, tweak, plain, cipher) in [
            (
                repeat(0, 32),
                0u128,
                repeat(0, 32),
                blocks([0x917c_f69e_bd68_b2ec_9b9f_e9a3_eadd_a692, 0xcd43_d2f5_9598_ed85_8c02_c265_2fbf_922e]),
            ),
            (
                [repeat(0x11, 16), repeat(0x22, 16)].concat(),
                0x33_3333_3333,
                repeat(0x44, 32),
                blocks([0xc454_185e_6a16_936e_3933_4038_acef_838b, 0xfb18_6fff_7480_adc4_2893_82ec_d6d3_94f0]),
            ),
            (
                down(0xff).chain(down(0xbf)).collect(),
                0x12_3456_789a,
                (0..17).collect(),
                [&0x6c16_25db_4671_522d_3d75_9960_1de7_ca09u128.to_be_bytes()[..], &[0xed]].concat(),
            ),
        ] {
            for aes in every_aes() {
                let key = XtsKey::new(aes, &key, |_| true).unwrap();
                let mut data = plain.clone();
                run_one(&key, false, &tweak.to_le_bytes(), &mut data);
                assert_eq!(data, cipher);
                run_one(&key, true, &tweak.to_le_bytes(), &mut data);
                assert_eq!(data, plain);
            }
        }
    }

    /// Encrypts in XTS as the standard defines it, block by block.
    fn reference_xts(data_key: &CbcKey, tweak_key: &CbcKey, tweak: [u8; BLOCK_LEN], data: &mut [u8]) {
        let encrypt = |key: &CbcKey, block: &mut [u8]| {
            CbcJob { key, iv: [0; BLOCK_LEN], data: Buffers::InPlace(block) }.run();
        };
        let mut mask = tweak;
        encrypt(tweak_key, &mut mask);
        let mut mask = u128::from_le_bytes(mask);
        let mut masked = |block: &mut [u8]| {
            let xor =
                |block: &mut [u8]| block.iter_mut().zip(mask.to_le_bytes()).for_each(|(byte, mask)| *byte ^= mask);
            xor(block);
            encrypt(data_key, block);
            xor(block);
            mask = (mask << 1) ^ ((mask >> 127) * 0x87);
        };
        let whole = data.len() / BLOCK_LEN * BLOCK_LEN;
        data[..whole].chunks_mut(BLOCK_LEN).for_each(&mut masked);
        let part = data.len() - whole;
        if part > 0 {
            let (head, tail) = data.split_at_mut(whole);
            let before = &mut head[whole - BLOCK_LEN..];
            before[..part].swap_with_slice(tail);
            masked(before);
        }
    }

    /// Tests every length up to several rounds of the widest kernel, side by side, in place and in separate buffers, with one key and with
    /// several.
    #[test]
    fn xts_of_every_length_matches_the_standard() {
        let random = Random::new(0x0078_7473);
        for aes in every_aes() {
            for bytes in [16, 32] {
                let secrets = [(); 3].map(|()| [random.bytes(bytes), random.bytes(bytes)]);
                let keys = secrets.each_ref().map(|halves| XtsKey::new(aes, &halves.concat(), |_| true).unwrap());
                let plain: Vec<Vec<u8>> = (BLOCK_LEN..1200).map(|length| random.bytes(length)).collect();
                let of_each: Vec<(usize, [u8; BLOCK_LEN])> =
                    plain.iter().map(|_| (random.below(3), random.bytes(BLOCK_LEN).try_into().unwrap())).collect();
                let mut cipher = plain.clone();
                for ((key, tweak), data) in of_each.iter().zip(&mut cipher) {
                    let [data_key, tweak_key] = secrets[*key].each_ref().map(|key| CbcKey::new(aes, key).unwrap());
                    reference_xts(&data_key, &tweak_key, *tweak, data);
                }
                for (decrypt, from, to) in [(false, &plain, &cipher), (true, &cipher, &plain)] {
                    let mut separate: Vec<Vec<u8>> = from.iter().map(|data| vec![0xee; data.len()]).collect();
                    let mut in_place = from.clone();
                    let out_of_place =
                        from.iter().zip(&mut separate).map(|(input, output)| Buffers::Separate { input, output });
                    let data = out_of_place.chain(in_place.iter_mut().map(|data| Buffers::InPlace(data)));
                    let units = of_each.iter().cycle().zip(data);
                    keys[0]
                        .run(decrypt, units.map(|((key, tweak), data)| keys[*key].unit(decrypt, tweak, data).unwrap()));
                    assert_eq!(separate, *to);
                    assert_eq!(in_place, *to);
                }
            }
        }
    }

    #[test]
    fn keys_and_data_of_other_lengths_and_directions_are_refused() {
        for aes in every_aes() {
            for length in [0, 16, 31, 33, 48, 63, 65] {
                assert!(XtsKey::new(aes, &vec![0; length], |_| true).is_none());
            }
            let key = XtsKey::new(aes, &[1; 32], |_| true).unwrap();
            assert!(key.unit(false, &[0; BLOCK_LEN], Buffers::InPlace(&mut [0; BLOCK_LEN - 1])).is_none());
            for allowed in [Operation::Encrypt, Operation::Decrypt] {
                let key = XtsKey::new(aes, &[1; 32], |operation| operation == allowed).unwrap();
                let takes =
                    |decrypt| key.unit(decrypt, &[0; BLOCK_LEN], Buffers::InPlace(&mut [0; BLOCK_LEN])).is_some();
                assert_eq!([takes(false), takes(true)], [allowed == Operation::Encrypt, allowed == Operation::Decrypt]);
            }
        }
    }
}
