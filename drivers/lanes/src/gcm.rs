//! GCM: whole messages, and messages in pieces.

use std::sync::Arc;

use gantry_core::driver::{AeadStream, Buffers};
use gantry_core::{Fault, Outcome, tags_equal};
use zeroize::Zeroizing;

use crate::aes::gcm::{GcmKey, GcmState, TooLong};

/// Encrypts a message in one piece, and writes its tag, truncated to the length of `tag`.
pub(crate) fn seal(key: &GcmKey, nonce: &[u8], aad: &[u8], data: Buffers<'_>, tag: &mut [u8]) -> Result<(), Fault> {
    write_tag(&key.crypt_message(false, nonce, aad, data).map_err(too_long)?, tag)
}

/// Decrypts a message in one piece. If `tag` is empty, or is neither the tag of the message nor a prefix of that tag, fills the output
/// with zeros.
pub(crate) fn open(
    key: &GcmKey,
    nonce: &[u8],
    aad: &[u8],
    mut data: Buffers<'_>,
    tag: &[u8],
) -> Result<Outcome, Fault> {
    // Wiped on return, because it is the valid tag for a forged message.
    let whole = Zeroizing::new(key.crypt_message(true, nonce, aad, data.reborrow()).map_err(too_long)?);
    if begins_with(&whole, tag) {
        return Ok(Outcome::Done);
    }
    data.output().fill(0);
    Ok(Outcome::BadTag)
}

fn too_long(_: TooLong) -> Fault {
    Fault::failed("more data than GCM allows under one nonce")
}

fn write_tag(whole: &[u8; 16], tag: &mut [u8]) -> Result<(), Fault> {
    let part = whole.get(..tag.len()).ok_or_else(|| Fault::failed("the tag has a wrong length"))?;
    tag.copy_from_slice(part);
    Ok(())
}

fn begins_with(whole: &[u8; 16], tag: &[u8]) -> bool {
    !tag.is_empty() && whole.get(..tag.len()).is_some_and(|part| tags_equal(part, tag))
}

/// A message in pieces.
pub(crate) struct GcmStream {
    message: GcmState,
    key: Arc<GcmKey>,
    decrypt: bool,
}

impl GcmStream {
    pub(crate) fn new(key: Arc<GcmKey>, decrypt: bool) -> Self {
        GcmStream { message: GcmState::empty(), key, decrypt }
    }
}

impl AeadStream for GcmStream {
    fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<(), Fault> {
        self.key.begin(&mut self.message, iv, aad);
        Ok(())
    }

    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        self.key.update(&mut self.message, self.decrypt, data).map_err(too_long)
    }

    fn seal(&mut self, tag: &mut [u8]) -> Result<(), Fault> {
        write_tag(&self.key.tag(&self.message), tag)
    }

    fn open(&mut self, tag: &[u8]) -> Result<Outcome, Fault> {
        let whole = Zeroizing::new(self.key.tag(&self.message));
        Ok(if begins_with(&whole, tag) { Outcome::Done } else { Outcome::BadTag })
    }

    fn duplicate(&self) -> Box<dyn AeadStream> {
        Box::new(GcmStream { message: self.message.clone(), key: self.key.clone(), decrypt: self.decrypt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes::{Aes, every_aes};
    use crate::cbc::{CbcJob, CbcKey};
    use crate::random::Random;

    /// Returns a key of each length for each CPU level that has a kernel.
    fn keys(random: &Random) -> Vec<(Arc<GcmKey>, Reference)> {
        let of = |aes: Aes| {
            [16, 24, 32].into_iter().filter_map(move |bytes| {
                let key = random.bytes(bytes);
                Some((GcmKey::new(aes, &key)?, Reference(CbcKey::new(aes, &key)?)))
            })
        };
        every_aes().into_iter().flat_map(of).collect()
    }

    /// GCM as the standard defines it (SP 800-38D, 6 and 7), bit by bit.
    struct Reference(CbcKey);

    impl Reference {
        fn encrypt(&self, block: u128) -> u128 {
            let mut bytes = block.to_be_bytes();
            CbcJob { key: &self.0, iv: [0; 16], data: Buffers::InPlace(&mut bytes) }.run();
            u128::from_be_bytes(bytes)
        }

        /// Computes GHASH of parts, each padded to whole blocks, and of two lengths in bytes.
        fn hash(&self, parts: &[&[u8]], lengths: [usize; 2]) -> u128 {
            let key = self.encrypt(0);
            let blocks = parts.iter().flat_map(|part| part.chunks(16)).map(|chunk| {
                let mut block = [0; 16];
                block[..chunk.len()].copy_from_slice(chunk);
                u128::from_be_bytes(block)
            });
            let [first, second] = lengths.map(|bytes| bytes as u128 * 8);
            blocks.chain([first << 64 | second]).fold(0, |hash, block| {
                let mut factor = key;
                (0..128).rev().fold(0, |product, bit| {
                    let sum = product ^ if (hash ^ block) >> bit & 1 == 1 { factor } else { 0 };
                    factor = (factor >> 1) ^ if factor & 1 == 1 { 0xe1 << 120 } else { 0 };
                    sum
                })
            })
        }

        fn first_block(&self, nonce: &[u8]) -> u128 {
            if let Ok(nonce) = <[u8; 12]>::try_from(nonce) {
                let mut block = [0; 16];
                block[..12].copy_from_slice(&nonce);
                return u128::from_be_bytes(block) | 1;
            }
            self.hash(&[nonce], [0, nonce.len()])
        }

        /// Returns ciphertext and tag. Encrypts the data with the counters from `counter` on. The encryption of the counter block `mask`
        /// masks the tag.
        fn seal_from(&self, mut counter: u128, mask: u128, aad: &[u8], data: &[u8]) -> (Vec<u8>, [u8; 16]) {
            let mut sealed = data.to_vec();
            for chunk in sealed.chunks_mut(16) {
                let stream = self.encrypt(counter).to_be_bytes();
                chunk.iter_mut().zip(stream).for_each(|(byte, stream)| *byte ^= stream);
                counter = counter >> 32 << 32 | u128::from((counter as u32).wrapping_add(1));
            }
            let tag = self.hash(&[aad, &sealed], [aad.len(), data.len()]) ^ self.encrypt(mask);
            (sealed, tag.to_be_bytes())
        }

        fn seal(&self, nonce: &[u8], aad: &[u8], data: &[u8]) -> (Vec<u8>, [u8; 16]) {
            let first = self.first_block(nonce);
            self.seal_from(first >> 32 << 32 | u128::from((first as u32).wrapping_add(1)), first, aad, data)
        }
    }

    /// "The Galois/Counter Mode of Operation" (McGrew, Viega), test cases 1 and 2.
    #[test]
    fn gcm_matches_the_test_cases_of_its_authors() {
        for aes in every_aes() {
            let Some(key) = GcmKey::new(aes, &[0; 16]) else { continue };
            let mut tag = [0; 16];
            seal(&key, &[0; 12], &[], Buffers::InPlace(&mut []), &mut tag).unwrap();
            assert_eq!(u128::from_be_bytes(tag), 0x58e2_fcce_fa7e_3061_367f_1d57_a4e7_455a);
            let mut data = [0; 16];
            seal(&key, &[0; 12], &[], Buffers::InPlace(&mut data), &mut tag).unwrap();
            assert_eq!(u128::from_be_bytes(data), 0x0388_dace_60b6_a392_f328_c2b9_71b2_fe78);
            assert_eq!(u128::from_be_bytes(tag), 0xab6e_47d4_2cec_13bd_f53a_67b2_1257_bddf);
        }
    }

    /// Tests every length below 700 bytes, and some longer ones, with nonces and associated data of several lengths. Eight lines are 256
    /// or 512 bytes. Runs in place and in separate buffers.
    #[test]
    fn gcm_of_every_length_matches_the_standard() {
        let random = Random::new(0x0067_636d);
        for (key, plain) in keys(&random) {
            for length in (0..700).chain([1023, 1024, 1025, 1535, 1536, 1600, 2049, 5000, 16385]) {
                let nonce = random.bytes([12, 12, 1, 8, 16, 60, 64, 65, 300, 700][length % 10]);
                let aad = random.bytes([0, 13, 16, 20, 64, 65, 1100][length % 7]);
                let data = random.bytes(length);
                let (sealed, tag) = plain.seal(&nonce, &aad, &data);
                let mut output = vec![0xee; length];
                let mut computed = [0; 16];
                let separate = Buffers::Separate { input: &data, output: &mut output };
                seal(&key, &nonce, &aad, separate, &mut computed).unwrap();
                assert_eq!((&output, computed), (&sealed, tag), "{length} bytes");
                let mut in_place = data.clone();
                let mut short = [0; 8];
                seal(&key, &nonce, &aad, Buffers::InPlace(&mut in_place), &mut short).unwrap();
                assert_eq!((&in_place, &short), (&sealed, tag.first_chunk().unwrap()));
                let separate = Buffers::Separate { input: &sealed, output: &mut output };
                assert_eq!(open(&key, &nonce, &aad, separate, &tag[..12]).unwrap(), Outcome::Done);
                assert_eq!(output, data);
                assert_eq!(open(&key, &nonce, &aad, Buffers::InPlace(&mut in_place), &tag).unwrap(), Outcome::Done);
                assert_eq!(in_place, data);
            }
        }
    }

    /// Compares a short message, encrypted in one step (`aes/gcm/short.rs`), with the same message in a stream.
    #[test]
    fn a_short_message_equals_the_same_message_in_pieces() {
        let random = Random::new(0x7368_6f72);
        for (key, _) in keys(&random) {
            for length in 0..330 {
                for associated in [0, 5, 12, 13, 16, 31, 32, 63, 64, random.below(64)] {
                    let (nonce, aad, data) = (random.bytes(12), random.bytes(associated), random.bytes(length));
                    let (mut sealed, mut tag, mut computed) = (data.clone(), [0; 16], [0; 16]);
                    let mut stream = GcmStream::new(key.clone(), false);
                    stream.begin(&nonce, &aad).unwrap();
                    stream.update(Buffers::InPlace(&mut sealed)).unwrap();
                    stream.seal(&mut tag).unwrap();
                    let mut output = vec![0; length];
                    let separate = Buffers::Separate { input: &data, output: &mut output };
                    seal(&key, &nonce, &aad, separate, &mut computed).unwrap();
                    assert_eq!((&output, computed), (&sealed, tag), "{length} bytes, {associated} associated");
                    assert_eq!(open(&key, &nonce, &aad, Buffers::InPlace(&mut sealed), &tag).unwrap(), Outcome::Done);
                    assert_eq!(sealed, data);
                }
            }
        }
    }

    #[test]
    fn the_output_of_a_forged_message_is_zeros() {
        let random = Random::new(0x666f_7267);
        for (key, _) in keys(&random) {
            for length in [0, 1, 16, 63, 64, 600, 2000] {
                let (nonce, aad, mut sealed, mut tag) =
                    (random.bytes(12), random.bytes(9), random.bytes(length), [0; 16]);
                seal(&key, &nonce, &aad, Buffers::InPlace(&mut sealed), &mut tag).unwrap();
                let refused = |nonce: &[u8], aad: &[u8], sealed: &[u8], tag: &[u8]| {
                    let mut data = sealed.to_vec();
                    assert_eq!(open(&key, nonce, aad, Buffers::InPlace(&mut data), tag).unwrap(), Outcome::BadTag);
                    assert!(data.iter().all(|byte| *byte == 0));
                    let mut output = vec![1; length];
                    let separate = Buffers::Separate { input: sealed, output: &mut output };
                    assert_eq!(open(&key, nonce, aad, separate, tag).unwrap(), Outcome::BadTag);
                    assert!(output.iter().all(|byte| *byte == 0));
                };
                for byte in [0, 7, 15] {
                    let mut other = tag;
                    other[byte] ^= 0x80;
                    refused(&nonce, &aad, &sealed, &other);
                }
                refused(&nonce, &aad[1..], &sealed, &tag);
                refused(&nonce[1..], &aad, &sealed, &tag);
                refused(&nonce, &aad, &sealed, &[]);
                refused(&nonce, &aad, &sealed, &[tag, tag].concat());
                for byte in (0..length).step_by(61) {
                    let mut other = sealed.clone();
                    other[byte] ^= 1;
                    refused(&nonce, &aad, &other, &tag);
                }
            }
        }
    }

    /// Compares pieces of any length with the whole message, and continues a copy independently.
    #[test]
    fn a_message_in_pieces_equals_the_whole_message() {
        let random = Random::new(0x7069_6563);
        for (key, _) in keys(&random) {
            for round in 0..200 {
                let data = random.bytes(random.below(3000));
                let (nonce, aad) = (random.bytes([12, 16][round % 2]), random.bytes(random.below(40)));
                let (mut sealed, mut tag) = (data.clone(), [0; 16]);
                seal(&key, &nonce, &aad, Buffers::InPlace(&mut sealed), &mut tag).unwrap();
                let longest = [3, 70, 1500][round % 3];
                for (decrypt, from, to) in [(false, &data, &sealed), (true, &sealed, &data)] {
                    let mut stream = GcmStream::new(key.clone(), decrypt);
                    // `begin` must work in any state of the previous message.
                    stream.begin(&[1; 12], &[1]).unwrap();
                    stream.update(Buffers::InPlace(&mut random.bytes(random.below(100)))).unwrap();
                    stream.begin(&nonce, &aad).unwrap();
                    let mut output = from.clone();
                    let mut rest = &mut output[..];
                    while !rest.is_empty() {
                        let (piece, after) = rest.split_at_mut(random.below(longest + 1).min(rest.len()));
                        let mut copy = stream.duplicate();
                        copy.update(Buffers::InPlace(&mut piece.to_vec())).unwrap();
                        stream.update(Buffers::InPlace(piece)).unwrap();
                        rest = after;
                    }
                    assert_eq!(output, *to);
                    if decrypt {
                        assert_eq!(stream.duplicate().open(&[0; 16]).unwrap(), Outcome::BadTag);
                        assert_eq!(stream.open(&tag[..4]).unwrap(), Outcome::Done);
                    } else {
                        let mut computed = [0; 16];
                        stream.seal(&mut computed).unwrap();
                        assert_eq!(computed, tag);
                        assert!(stream.duplicate().seal(&mut [0; 17]).is_err());
                    }
                }
            }
        }
    }

    /// The counter has 32 bits, and starts at any value for nonces that do not have 12 bytes.
    #[test]
    fn counters_wrap() {
        let random = Random::new(0x7772_6170);
        for (key, plain) in keys(&random) {
            for counter in [0, 2, 3, 31, 0xffff_ff02, 0xffff_ffc2, 0xffff_ffe2, 0xffff_fffe, u32::MAX] {
                let (nonce, aad, data) = (random.bytes(12), random.bytes(5), random.bytes(3000));
                let mask = plain.first_block(&nonce);
                let (sealed, tag) = plain.seal_from(mask >> 32 << 32 | u128::from(counter), mask, &aad, &data);
                for (decrypt, from, to) in [(false, &data, &sealed), (true, &sealed, &data)] {
                    let mut stream = GcmStream::new(key.clone(), decrypt);
                    stream.begin(&nonce, &aad).unwrap();
                    stream.message.set_counter(counter);
                    let mut output = from.clone();
                    stream.update(Buffers::InPlace(&mut output)).unwrap();
                    assert_eq!(output, *to, "from {counter:#x} on");
                    assert_eq!(key.tag(&stream.message), tag, "from {counter:#x} on");
                }
            }
        }
    }

    #[test]
    fn data_beyond_the_limit_of_a_nonce_are_refused() {
        for aes in every_aes() {
            let Some(key) = GcmKey::new(aes, &[7; 32]) else { continue };
            let mut stream = GcmStream::new(key, false);
            stream.begin(&[0; 12], &[]).unwrap();
            stream.message.set_bytes((1 << 36) - 32 - 100);
            stream.update(Buffers::InPlace(&mut [0; 100])).unwrap();
            let fault = stream.update(Buffers::InPlace(&mut [0])).unwrap_err();
            assert!(fault.to_string().contains("more data than GCM allows"), "{fault}");
        }
    }

    /// One accessible page between two guard pages.
    struct Page(*mut u8);

    const PAGE: usize = 4096;

    impl Page {
        fn new() -> Self {
            let (may, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: maps new memory. The page in its middle stays mapped until this value is dropped.
            unsafe {
                let all = libc::mmap(core::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, kind, -1, 0);
                assert_ne!(all, libc::MAP_FAILED);
                let page = all.cast::<u8>().add(PAGE);
                assert_eq!(libc::mprotect(page.cast(), PAGE, may), 0);
                Page(page)
            }
        }

        /// Copies `data` to the beginning or the end of the page, and returns the copy.
        fn at_border(&mut self, last: bool, data: &[u8]) -> &mut [u8] {
            assert!(data.len() <= PAGE);
            // SAFETY: within the page, which no other slice uses while `self` is borrowed.
            let place = unsafe {
                core::slice::from_raw_parts_mut(self.0.add(if last { PAGE - data.len() } else { 0 }), data.len())
            };
            place.copy_from_slice(data);
            place
        }
    }

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: the mapping has this address and this length.
            unsafe { libc::munmap(self.0.sub(PAGE).cast(), 3 * PAGE) };
        }
    }

    /// A kernel that reads or writes past the buffers kills the process.
    #[test]
    fn gcm_stays_within_its_buffers() {
        let random = Random::new(0x7061_6765);
        let [mut nonces, mut aads, mut inputs, mut outputs] = [(); 4].map(|()| Page::new());
        for (key, _) in keys(&random) {
            for (length, last) in (0..600).flat_map(|length| [(length, false), (length, true)]) {
                let (nonce, aad) = if length % 2 == 0 { (12, length % 68) } else { (1 + length % 70, length) };
                let (nonce, aad, data) = (random.bytes(nonce), random.bytes(aad), random.bytes(length));
                let (mut sealed, mut tag, mut computed) = (data.clone(), [0; 16], [0; 16]);
                seal(&key, &nonce, &aad, Buffers::InPlace(&mut sealed), &mut tag).unwrap();
                let (nonce, aad) = (nonces.at_border(last, &nonce), aads.at_border(last, &aad));
                let input = inputs.at_border(last, &data);
                let output = outputs.at_border(last, &vec![0; length]);
                seal(&key, nonce, aad, Buffers::Separate { input, output }, &mut computed).unwrap();
                assert_eq!((&*output, computed), (&sealed[..], tag));
                // Decrypt in two pieces, the second of which begins within a line.
                let (input, first) = (inputs.at_border(last, &sealed), length * 5 / 7);
                let mut stream = GcmStream::new(key.clone(), true);
                stream.begin(nonce, aad).unwrap();
                for piece in [0..first, first..length] {
                    let (input, output) = (&input[piece.clone()], &mut output[piece]);
                    stream.update(Buffers::Separate { input, output }).unwrap();
                }
                assert_eq!(stream.open(&tag).unwrap(), Outcome::Done);
                assert_eq!(&*output, &data[..]);
                assert_eq!(open(&key, nonce, aad, Buffers::InPlace(input), &tag).unwrap(), Outcome::Done);
                assert_eq!(&*input, &data[..]);
            }
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for aes in every_aes() {
            for length in [0, 15, 17, 31, 33, 64] {
                assert!(GcmKey::new(aes, &vec![0; length]).is_none());
            }
        }
    }
}
