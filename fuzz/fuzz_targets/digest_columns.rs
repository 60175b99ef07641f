//! Columns with any offsets and bitmaps are refused with the index of a value, or hashed like each value alone.

#![no_main]

use arbitrary::Arbitrary;
use gantry_digest::{Algorithm, Column, Error, Hasher, HmacKey, Offsets, Validity, digest_column, hmac_column};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    algorithm: u8,
    /// The key of an HMAC with this algorithm; without a key, plain digests are computed.
    key: Option<&'a [u8]>,
    wide: bool,
    /// Differences of offsets: small numbers make valid columns.
    steps: Vec<i8>,
    /// An offset to change, and its new value.
    odd: Option<(u8, i64)>,
    validity: Option<(&'a [u8], u8)>,
    values: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let algorithm = Algorithm::ALL[usize::from(input.algorithm) % Algorithm::ALL.len()];
    let mut offsets: Vec<i64> = vec![0];
    for &step in input.steps.iter().take(300) {
        // Most offsets increase, so that many columns are valid.
        offsets.push(
            offsets[offsets.len() - 1] + i64::from(if step > -120 { step.unsigned_abs() as i8 / 4 } else { step }),
        );
    }
    if let Some((place, offset)) = input.odd {
        let place = usize::from(place) % offsets.len();
        offsets[place] = offset;
    }
    let narrow: Vec<i32> = offsets.iter().map(|&offset| offset as i32).collect();
    let (seen, offsets_of): (Vec<i64>, _) = if input.wide {
        (offsets.clone(), Offsets::Bits64(&offsets))
    } else {
        (narrow.iter().map(|&offset| i64::from(offset)).collect(), Offsets::Bits32(&narrow))
    };
    let validity = input.validity.map(|(bits, offset)| Validity { bits, offset: usize::from(offset) });
    let column = Column::new(input.values, offsets_of, validity);
    let data = input.values.len() as i64;
    let good = seen[0] >= 0 && seen.windows(2).all(|pair| pair[0] <= pair[1]) && seen.iter().all(|&end| end <= data);
    let count = seen.len() - 1;
    // A column without values needs no bits.
    let covered = validity.is_none_or(|validity| count == 0 || validity.bits.len() * 8 >= validity.offset + count);
    let column = match column {
        Ok(column) => column,
        Err(Error::DecreasingOffsets { index }) => return assert!(seen[index + 1] < seen[index]),
        Err(Error::OffsetNegative { index }) => return assert!(seen[index] < 0),
        Err(Error::OffsetBeyondData { index, .. }) => return assert!(seen[(index + 1).min(count)] > data),
        Err(Error::ValidityLength { .. }) => return assert!(!covered),
        Err(other) => panic!("{other}"),
    };
    assert!(good && covered);
    let size = algorithm.digest_size();
    let mut output = vec![0xa5; count * size];
    let key = input.key.map(|key| HmacKey::new(algorithm, key));
    match &key {
        Some(key) => hmac_column(key, &column, &mut output).unwrap(),
        None => digest_column(algorithm, &column, &mut output).unwrap(),
    }
    for (i, digest) in output.chunks_exact(size).enumerate() {
        let mut expected = [0; Algorithm::MAX_DIGEST_SIZE];
        if let Some(value) = column.value(i) {
            let mut hasher = key.as_ref().map_or_else(|| Hasher::new(algorithm), HmacKey::hasher);
            hasher.update(value);
            hasher.finish(&mut expected[..size]).unwrap();
        }
        assert_eq!(digest, &expected[..size], "{algorithm}, value {i}");
    }
});
