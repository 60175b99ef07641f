//! Columns: offsets of both widths, slices, nulls, and errors.

use super::*;
use crate::hasher::Hasher;
use crate::random::Random;
use crate::tests::{hash_one, on_every_level};
use crate::{HmacKey, hmac_column};

#[test]
fn column_digests_equal_single_ones_and_missing_values_get_zeros() {
    let random = Random::new(0x636f_6c75);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let mut ends = vec![random.below(9)];
            for _ in 0..random.below(80) {
                // As in a column of names: mostly short, sometimes empty.
                let length = [0, 5, 24, 24, 60, 200][random.below(6)];
                ends.push(ends[ends.len() - 1] + length);
            }
            let count = ends.len() - 1;
            let values = random.bytes(ends[count] + 3);
            let wide: Vec<i64> = ends.iter().map(|&end| end.try_into().unwrap()).collect();
            let narrow: Vec<i32> = ends.iter().map(|&end| end.try_into().unwrap()).collect();
            let shift = random.below(20);
            let bits = random.bytes((count + shift).div_ceil(8));
            let key = HmacKey::new(algorithm, b"the key");
            for validity in [None, Some(Validity { bits: &bits, offset: shift })] {
                for offsets in [Offsets::Bits64(&wide), Offsets::Bits32(&narrow)] {
                    let column = Column::new(&values, offsets, validity).unwrap();
                    assert_eq!(column.len(), count);
                    for hmac in [false, true] {
                        let mut output = vec![0xa5; count * size];
                        if hmac {
                            hmac_column(&key, &column, &mut output).unwrap();
                        } else {
                            digest_column(algorithm, &column, &mut output).unwrap();
                        }
                        for (i, digest) in output.chunks_exact(size).enumerate() {
                            let is_there = validity.is_none() || bits[(i + shift) / 8] >> ((i + shift) % 8) & 1 == 1;
                            assert_eq!(column.value(i).is_some(), is_there);
                            let hasher = if hmac { key.hasher() } else { Hasher::new(algorithm) };
                            let expected = column.value(i).map_or(vec![0; size], |value| hash_one(hasher, value, 50));
                            assert_eq!(digest, expected, "{level} {algorithm}, value {i} of {count}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn invalid_offsets_are_rejected_with_the_index_of_the_value() {
    for (offsets, error) in [
        (&[][..], Error::NoOffsets),
        (&[0, 2, 1, 3], Error::DecreasingOffsets { index: 1 }),
        (&[0, 2, 11], Error::OffsetBeyondData { index: 1, data: 10 }),
        (&[0, 12, 3], Error::OffsetBeyondData { index: 0, data: 10 }),
        (&[-1, 2], Error::OffsetNegative { index: 0 }),
        (&[0, 2, -2, 4], Error::DecreasingOffsets { index: 1 }),
        (&[11], Error::OffsetBeyondData { index: 0, data: 10 }),
        (&[i32::MIN, i32::MAX], Error::OffsetNegative { index: 0 }),
    ] {
        assert_eq!(Column::new(&[0; 10], Offsets::Bits32(offsets), None).unwrap_err(), error, "{offsets:?}");
        let wide: Vec<i64> = offsets.iter().map(|&offset| i64::from(offset)).collect();
        assert_eq!(Column::new(&[0; 10], Offsets::Bits64(&wide), None).unwrap_err(), error, "{offsets:?}");
    }
    let wide = Column::new(&[0; 10], Offsets::Bits64(&[0, i64::MAX]), None);
    assert_eq!(wide.unwrap_err(), Error::OffsetBeyondData { index: 0, data: 10 });
    assert!(Column::new(&[0; 10], Offsets::Bits32(&[10]), None).unwrap().is_empty());
}

#[test]
fn a_validity_bitmap_that_is_too_short_is_refused() {
    let column = |bits: &'static [u8], offset| {
        Column::new(&[], Offsets::Bits32(&[0; 9]), Some(Validity { bits, offset })).map(|column| column.len())
    };
    assert_eq!(column(&[0xff], 0), Ok(8));
    assert_eq!(column(&[0xff], 1), Err(Error::ValidityLength { needed: 8, found: 7 }));
    assert_eq!(column(&[0xff, 0xff], 8), Ok(8));
    assert_eq!(column(&[], 0), Err(Error::ValidityLength { needed: 8, found: 0 }));
    assert_eq!(column(&[0xff; 2], usize::MAX), Err(Error::ValidityLength { needed: 8, found: 0 }));
}

/// The buffers are pages of zeros that are never written, so they take no memory. On emulated CPUs and in Miri these tests would take too
/// long.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod large {
    use super::*;

    #[test]
    fn a_value_of_more_than_4_gib_is_hashed_beside_short_ones() {
        let long = (1_i64 << 32) + 5;
        let values = vec![0; usize::try_from(long).unwrap() + 6];
        let offsets = [0, 3, 3 + long, 6 + long];
        let column = Column::new(&values, Offsets::Bits64(&offsets), None).unwrap();
        let mut digests = [0xff; 3 * 32];
        digest_column(Algorithm::Sha256, &column, &mut digests).unwrap();
        assert_eq!(digests[..32], digests[64..]);
        // `head -c 4294967301 /dev/zero | sha256sum`
        let expected = [
            0x70, 0x9f, 0xc0, 0xb7, 0x4f, 0x7c, 0x91, 0x6c, 0xed, 0xcc, 0xb2, 0x12, 0xd6, 0x81, 0xc0, 0x35, 0xf3, 0x6f,
            0xfb, 0xb3, 0x1e, 0xbf, 0xe8, 0x06, 0xeb, 0x40, 0xc3, 0x15, 0x92, 0x74, 0x4e, 0xb5,
        ];
        assert_eq!(digests[32..64], expected);
        // Offsets of 32 bits cannot reach so far.
        let end = i32::MAX;
        assert_eq!(
            Column::new(&values[..9], Offsets::Bits32(&[0, end]), None).unwrap_err(),
            Error::OffsetBeyondData { index: 0, data: 9 }
        );
    }

    #[test]
    fn two_to_the_31_values_need_an_output_for_all_digests() {
        let count = 1_usize << 31;
        let offsets = vec![0; count + 1];
        let column = Column::new(&[], Offsets::Bits32(&offsets), None).unwrap();
        assert_eq!((column.len(), column.value(count - 1)), (count, Some(&[][..])));
        let mut short = [0; 64];
        let error = digest_column(Algorithm::Sha256, &column, &mut short).unwrap_err();
        assert_eq!(error, Error::OutputLength { needed: count * 32, found: 64 });
        assert_eq!(short, [0; 64], "and nothing is written");
    }
}
