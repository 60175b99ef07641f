//! Random sessions and requests, made from a seed and the table of algorithms.

use gantry_core::{Algorithm, Esp, Kind, Lengths, Operation, Prehash, SessionParams};

use crate::case::{Case, Placement};
use crate::rng::Rng;
use crate::vectors;

/// Draws the parameters of a session: keys of an allowed length, and in most cases the full length of the tag.
pub(crate) fn params(rng: &mut Rng, algorithm: Algorithm) -> SessionParams {
    let info = algorithm.info();
    let key_len = allowed_length(rng, info.key);
    let mac_key_len = allowed_length(rng, info.mac_key);
    // Random bytes are hardly ever a key of RSA, so a sample is the key.
    let key = match info.kind {
        // Any seed makes a key.
        Kind::Kem => rng.bytes(info.key.min),
        Kind::Signature if info.context.max > 0 => rng.bytes(info.key.min),
        _ => gantry_core::sample_key(algorithm).map_or_else(|| rng.bytes(key_len), <[u8]>::to_vec),
    };
    let mut params = SessionParams::new(algorithm, &key).with_mac_key(&rng.bytes(mac_key_len)).with_any_nonce();
    if info.kind == Kind::Packet {
        // Not every device supports extended numbers with a separate MAC.
        let extended = info.mac_key.max == 0 && rng.below(2) == 0;
        params = params.with_esp(Esp { spi: 256 + rng.below(1 << 31) as u32, extended });
    }
    if info.levels.max > 0 {
        // The highest levels take long.
        params = params.with_level(1 + rng.below(info.levels.max.min(12)));
    }
    if info.context.max > 0 && rng.below(2) == 0 {
        let context_len = allowed_length(rng, info.context);
        params = params.with_context(&rng.bytes(context_len));
        if rng.below(2) == 0 {
            let functions = [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha3_384, Algorithm::Shake256];
            params = params.with_prehash(Prehash::Hash(functions[rng.below(functions.len())]));
        }
    }
    if info.xof.is_some() {
        params = params.with_tag_len(xof_length(rng).clamp(info.tag.min, info.tag.max));
    } else if rng.below(4) == 0 {
        params = params.with_tag_len(allowed_length(rng, info.tag));
    }
    params
}

/// Draws the length of a digest for an algorithm that allows any length: keys, masks, a few blocks, and occasionally the longest.
fn xof_length(rng: &mut Rng) -> usize {
    match rng.below(16) {
        0..6 => 32 * (1 + rng.below(2)),
        6..10 => rng.below(200),
        10..15 => rng.below(700),
        _ if rng.below(8) == 0 => usize::MAX,
        _ => rng.below(9000),
    }
}

/// Makes a request with about `bytes` bytes of data, as far as the algorithm allows. The tag of an `Open` is missing.
pub(crate) fn case(rng: &mut Rng, params: &SessionParams, operation: Operation, bytes: usize) -> Case {
    let info = params.algorithm().info();
    if info.kind == Kind::Kem {
        return kem_case(rng, params.algorithm(), operation);
    }
    if info.kind == Kind::Packet {
        return packet_case(rng, params, bytes);
    }
    if info.kind == Kind::Compression {
        // `make_cases` makes requests to decompress from these requests.
        return Case::compress(compressible(rng, bytes));
    }
    let iv_len = iv_length(rng, params.iv_lengths());
    let aad_len = match rng.below(3) {
        _ if info.kind != Kind::Aead => 0,
        0 => 0,
        1 => rng.below(21),
        _ => rng.below(300),
    };
    let input_len = match params.algorithm() {
        // The longest nonce leaves two bytes for the length of the data.
        Algorithm::Aes128Ccm | Algorithm::Aes192Ccm | Algorithm::Aes256Ccm if iv_len == 13 => bytes.min(0xffff),
        algorithm => algorithm.info().nearest_data_length(bytes),
    };
    let input = match info.kind {
        // Random bytes are hardly ever a public key.
        Kind::Exchange if rng.below(4) > 0 => vectors::draw_public_key(rng, params.algorithm()),
        // Numbers below the modulus of the sample key, which has full length.
        Kind::Encipherment if info.min_data > 0 => {
            let mut number = rng.bytes(input_len);
            number[0] &= 0x7f;
            number
        }
        _ => rng.bytes(input_len),
    };
    Case { operation, iv: rng.bytes(iv_len), aad: rng.bytes(aad_len), input, tag: Vec::new(), room: 0 }
}

/// Returns data that compresses well, a little, or not at all, in turns: repetitions, one byte, few letters, or noise.
fn compressible(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes);
    while data.len() < bytes {
        let length = (1 + rng.below(400)).min(bytes - data.len());
        match rng.below(4) {
            0 if !data.is_empty() => {
                let distance = 1 + rng.below(data.len());
                (0..length).for_each(|_| data.push(data[data.len() - distance]));
            }
            1 => data.resize(data.len() + length, rng.below(256) as u8),
            2 => data.extend((0..length).map(|_| b'a' + rng.below(1 + length % 9) as u8)),
            _ => data.extend(rng.bytes(length)),
        }
    }
    data
}

/// Makes a request to protect a packet. `make_cases` makes requests to open packets from these requests.
fn packet_case(rng: &mut Rng, params: &SessionParams, bytes: usize) -> Case {
    let extended = params.esp().is_some_and(|esp| esp.extended);
    let number = match rng.below(4) {
        0 => 1 + rng.below(9) as u64,
        1 if extended => u64::MAX - rng.below(9) as u64,
        2 if extended => (1 + rng.below(1 << 30) as u64) << 32 | rng.below(9) as u64,
        _ => u64::from(u32::MAX) - rng.below(1 << 20) as u64,
    };
    // The longest packet has 65,535 bytes.
    let payload_len = bytes.min(65_000);
    let payload = rng.bytes(payload_len);
    Case::protect(params, number, &payload, rng.below(256) as u8)
}

/// Makes a request of key encapsulation. Random bytes are hardly ever a public key, so three of four keys consist of valid numbers. Any
/// bytes are a ciphertext.
fn kem_case(rng: &mut Rng, algorithm: Algorithm, operation: Operation) -> Case {
    let info = algorithm.info();
    let mut input = rng.bytes(info.fixed_data_length(operation).unwrap_or(0));
    let random_len = info.length(operation.info().iv, 0, 0);
    if operation == Operation::Encapsulate && rng.below(4) > 0 {
        // FIPS 203, 7.2: numbers of 12 bits below 3329, two in three bytes, then 32 bytes of any kind.
        let numbers = input.len() - 32;
        for bytes in input[..numbers].chunks_exact_mut(3) {
            let (one, other) = (rng.below(3329), rng.below(3329));
            bytes.copy_from_slice(&[one as u8, (one >> 8 | (other & 15) << 4) as u8, (other >> 4) as u8]);
        }
    }
    Case { operation, iv: rng.bytes(random_len), aad: Vec::new(), input, tag: Vec::new(), room: 0 }
}

/// Draws one of the operations.
pub(crate) fn operation(rng: &mut Rng, operations: &[Operation]) -> Operation {
    operations[rng.below(operations.len())]
}

/// Draws a realistic length: empty, a few bytes, about a few blocks, a record, and occasionally more than 64 KiB, the limit of some
/// engines.
pub(crate) fn data_length(rng: &mut Rng) -> usize {
    match rng.below(32) {
        0..4 => 0,
        4..12 => rng.below(70),
        12..22 => (64 * (1 + rng.below(9)) + rng.below(5)).saturating_sub(2),
        22..29 => rng.below(1500),
        29..31 => rng.below(6000),
        _ if rng.below(8) == 0 => 65_000 + rng.below(9000),
        _ => 4096,
    }
}

pub(crate) fn placement(rng: &mut Rng) -> Placement {
    Placement { in_place: rng.below(2) == 0, offset: if rng.below(3) == 0 { 0 } else { rng.below(64) } }
}

/// Flips one bit.
pub(crate) fn flip_bit(rng: &mut Rng, bytes: &mut [u8]) {
    let at = rng.below(bytes.len());
    bytes[at] ^= 1 << rng.below(8);
}

/// Draws the length of an IV. Nonces of AEADs have 12 bytes in nearly all protocols.
fn iv_length(rng: &mut Rng, lengths: Lengths) -> usize {
    if lengths.allows(12) && rng.below(4) > 0 { 12 } else { allowed_length(rng, lengths) }
}

/// Returns an allowed length that is also realistic.
fn allowed_length(rng: &mut Rng, lengths: Lengths) -> usize {
    let steps = (lengths.max - lengths.min) / lengths.step;
    lengths.min + lengths.step * rng.below(steps.min(300) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_requests_are_valid() {
        let mut rng = Rng::new(7);
        for &algorithm in Algorithm::ALL {
            let info = algorithm.info();
            for _ in 0..50 {
                let params = params(&mut rng, algorithm);
                assert!(info.key.allows(params.key().len()) && info.mac_key.allows(params.mac_key().len()));
                assert!(info.tag.allows(params.tag_len()));
                let length = data_length(&mut rng);
                let case = case(&mut rng, &params, info.kind.operations()[0], length);
                assert!(matches!(info.kind, Kind::Kem | Kind::Packet) || params.iv_lengths().allows(case.iv.len()));
                assert!(case.input.len() >= info.min_data);
            }
        }
    }

    #[test]
    fn a_seed_repeats_its_case() {
        let make = || {
            let mut rng = Rng::new(99);
            let params = params(&mut rng, Algorithm::Aes256Gcm);
            case(&mut rng, &params, Operation::Seal, 100)
        };
        assert_eq!(make().input, make().input);
    }
}
