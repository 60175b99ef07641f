//! Requests of the data queues (virtio 1.3, 5.9.7.2 to 5.9.7.7), and the device's answers.

use std::ops::Range;

use gantry_abi_virtio_crypto::constants::{FLAG_SESSION_MODE, feature, sym_op};

use crate::bytes::Words;
use crate::parameters::Parameters;

/// Bytes of a request's header, and of its fixed part without VIRTIO_CRYPTO_F_REVISION_1.
const HEADER: usize = 24;
const LEGACY: usize = 48;

/// The lengths of the fixed parts of requests, which follow from the negotiated features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    features: u64,
}

/// The source of a request's parameters.
#[derive(Clone, Copy)]
pub enum ParameterSource<'a> {
    /// The session with this number.
    Session(u64),
    /// The request itself.
    Inline(&'a Parameters<'a>),
}

/// The operands of a request.
#[derive(Clone, Debug)]
pub enum Operands<'a> {
    /// Operands of a cipher; the output has the length of the data.
    Cipher {
        /// Initialisation vector, counter or tweak.
        iv: &'a [u8],
        /// Data.
        data: &'a [u8],
    },
    /// Operands of a cipher and a digest; the output is the data, then the digest.
    Chain {
        /// Initialisation vector.
        iv: &'a [u8],
        /// Data.
        data: &'a [u8],
        /// The part of the data for the cipher.
        cipher: Range<u32>,
        /// The part of the data for the digest.
        hash: Range<u32>,
        /// Length of the digest in bytes.
        result: u32,
    },
    /// Operands of a digest or MAC.
    Digest {
        /// Data.
        data: &'a [u8],
        /// Length of the result in bytes.
        result: u32,
    },
    /// Operands of an AEAD.
    Aead {
        /// Nonce.
        iv: &'a [u8],
        /// Additional data.
        aad: &'a [u8],
        /// Data; to open, followed by the tag.
        data: &'a [u8],
        /// Length of the tag in bytes.
        tag: u32,
        /// Bytes of the output: the data and, to seal, the tag.
        result: u32,
    },
    /// Operands of a public or private key.
    Key {
        /// Data. To verify: the signature, followed by the signed data.
        data: &'a [u8],
        /// Number of bytes at the start of `data` that are the request's source: all bytes or, to verify, the bytes of the signature.
        source: u32,
        /// Bytes of the output or, to verify, of the signed data.
        result: u32,
        /// True if the device writes an output; false for verification.
        output: bool,
    },
}

/// A request: the bytes that the device reads, and the lengths of its output.
#[derive(Clone, Debug)]
pub struct Request {
    /// Header, fixed part, and variable part.
    pub input: Vec<u8>,
    /// The end of each field of `input`: header and fixed part, then the fields of the variable part. Each has a descriptor of its own,
    /// as with Linux' driver: DPDK's back end accepts no other chains.
    pub ends: Vec<usize>,
    /// Bytes of each field that the device writes before the status.
    pub outputs: Vec<usize>,
    /// Length of the status in bytes.
    pub status: usize,
}

/// The output of the device.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The output.
    pub output: Vec<u8>,
    /// The status: one byte, or the structure that answers a request for a session.
    pub status: Vec<u8>,
    /// Number of written bytes according to the device.
    pub written: u32,
}

impl Reply {
    /// Returns the status of a data request: VIRTIO_CRYPTO_OK and so on, or 255 if the device wrote none.
    pub fn status(&self) -> u8 {
        self.status[0]
    }
}

impl Request {
    /// Builds a request of the control queue. `status`: 16 bytes to open a session, one to close it.
    pub fn control(input: Vec<u8>, status: usize) -> Self {
        Self { ends: vec![input.len()], input, outputs: Vec::new(), status }
    }

    /// Returns the bytes that the device writes before the status.
    pub fn output(&self) -> usize {
        self.outputs.iter().sum()
    }
}

impl Format {
    /// Returns the format for the device features that the driver has accepted.
    pub fn for_features(features: u64) -> Self {
        Self { features }
    }

    /// Returns whether VIRTIO_CRYPTO_F_REVISION_1 is negotiated.
    pub fn revision_1(self) -> bool {
        self.features >> feature::REVISION_1 & 1 == 1
    }

    /// Returns whether requests of this service need no session. `service` is VIRTIO_CRYPTO_SERVICE_.
    pub fn stateless(self, service: u32) -> bool {
        // Stateless modes have the bits from CIPHER_STATELESS_MODE on, in the order of the services.
        self.revision_1() && self.features >> (feature::CIPHER_STATELESS_MODE + service) & 1 == 1
    }

    /// Builds a request of a data queue. `operation` is VIRTIO_CRYPTO_CIPHER_ENCRYPT and so on.
    pub fn request(self, operation: u32, by: ParameterSource<'_>, operands: &Operands<'_>) -> Request {
        let (session, flag) = match by {
            ParameterSource::Session(session) => (session, FLAG_SESSION_MODE),
            ParameterSource::Inline(_) => (0, 0),
        };
        let mut input = Vec::new();
        input.words(&[operation, 0]);
        input.extend(session.to_le_bytes());
        input.words(&[if self.revision_1() { flag } else { 0 }, 0]);
        if self.stateless(operation >> 8) {
            input.words(&fixed_without_session(operation, by, operands));
        } else {
            input.words(&fixed(operands));
        }
        if !self.revision_1() {
            input.resize(HEADER + LEGACY, 0);
        }
        let mut fields: Vec<&[u8]> = match by {
            ParameterSource::Inline(parameters) => parameters.keys(),
            ParameterSource::Session(_) => Vec::new(),
        };
        let outputs = match operands {
            Operands::Cipher { iv, data } => {
                fields.extend([*iv, *data]);
                vec![data.len()]
            }
            Operands::Chain { iv, data, result, .. } => {
                fields.extend([*iv, *data]);
                vec![data.len(), *result as usize]
            }
            Operands::Digest { data, result } => {
                fields.push(data);
                vec![*result as usize]
            }
            Operands::Aead { iv, aad, data, result, .. } => {
                fields.extend([*iv, *data, *aad]);
                vec![*result as usize]
            }
            Operands::Key { data, result, output, .. } => {
                fields.push(data);
                if *output { vec![*result as usize] } else { Vec::new() }
            }
        };
        let mut ends = vec![input.len()];
        for field in fields {
            input.extend(field);
            ends.push(input.len());
        }
        Request { input, ends, outputs, status: 1 }
    }
}

/// Returns the fixed part of a request for a service that requires a session.
fn fixed(operands: &Operands<'_>) -> Vec<u32> {
    match operands {
        Operands::Cipher { iv, data } => {
            let mut words = vec![iv.len() as u32, data.len() as u32, data.len() as u32];
            words.resize(10, 0);
            words.extend([sym_op::CIPHER, 0]);
            words
        }
        Operands::Chain { .. } => [&chain(operands)[..], &[sym_op::ALGORITHM_CHAINING, 0]].concat(),
        Operands::Digest { data, result } => vec![data.len() as u32, *result],
        Operands::Aead { iv, aad, data, tag, result } => {
            vec![iv.len() as u32, aad.len() as u32, data.len() as u32, *result, *tag, 0]
        }
        Operands::Key { source, result, .. } => vec![*source, *result],
    }
}

/// Returns the fixed part for a service that requires no session. With a session the parameters are zero.
fn fixed_without_session(operation: u32, by: ParameterSource<'_>, operands: &Operands<'_>) -> Vec<u32> {
    let parameters = |words: usize| match by {
        ParameterSource::Inline(parameters) => parameters.stateless(),
        ParameterSource::Session(_) => vec![0; words],
    };
    match operands {
        Operands::Cipher { iv, data } => {
            let operands = [iv.len() as u32, data.len() as u32, data.len() as u32];
            let mut words = [&parameters(3)[..], &operands].concat();
            words.resize(18, 0);
            words.push(sym_op::CIPHER);
            words
        }
        Operands::Chain { .. } => [&parameters(8)[..], &chain(operands), &[sym_op::ALGORITHM_CHAINING]].concat(),
        Operands::Digest { data, result } => {
            let is_mac = operation == gantry_abi_virtio_crypto::constants::operation::MAC;
            let operands = [data.len() as u32, *result];
            // A digest has a reserved word at the place of a MAC's key length.
            if is_mac {
                [&parameters(2)[..], &operands].concat()
            } else {
                [&parameters(1)[..], &operands, &[0]].concat()
            }
        }
        Operands::Aead { iv, aad, data, tag, result } => {
            let operands = [iv.len() as u32, *tag, aad.len() as u32, data.len() as u32, *result];
            [&parameters(3)[..], &operands].concat()
        }
        Operands::Key { source, result, .. } => [&parameters(5)[..], &[*source, *result]].concat(),
    }
}

/// Returns `struct virtio_crypto_alg_chain_data_flf`; empty for other operands.
fn chain(operands: &Operands<'_>) -> Vec<u32> {
    let Operands::Chain { iv, data, cipher, hash, result } = operands else { return Vec::new() };
    let (iv, data) = (iv.len() as u32, data.len() as u32);
    let cipher = [cipher.start, cipher.end - cipher.start];
    let hash = [hash.start, hash.end - hash.start];
    // No additional data; a reserved word at the end.
    [&[iv, data, data][..], &cipher, &hash, &[0, *result, 0]].concat()
}

#[cfg(test)]
mod tests {
    use gantry_abi_virtio_crypto::constants::operation;

    use super::*;
    use crate::parameters::{Cipher, Digest};

    /// Returns the bytes of the fixed part, behind the header of 24 bytes.
    fn fixed_bytes(features: u64, operation: u32, operands: &Operands<'_>) -> usize {
        Format::for_features(features).request(operation, ParameterSource::Session(1), operands).ends[0] - HEADER
    }

    #[test]
    fn fixed_parts_have_the_lengths_of_the_specification() {
        let cipher = Operands::Cipher { iv: &[0; 16], data: &[0; 32] };
        let chain = Operands::Chain { iv: &[0; 16], data: &[0; 32], cipher: 0..32, hash: 0..32, result: 20 };
        let digest = Operands::Digest { data: &[0; 32], result: 20 };
        let aead = Operands::Aead { iv: &[0; 12], aad: &[], data: &[0; 32], tag: 16, result: 48 };
        let key = Operands::Key { data: &[0; 256], source: 256, result: 256, output: true };
        // Operands; legacy, revision 1, and with stateless mode.
        for (operation, operands, revision_1, stateless) in [
            (operation::CIPHER_ENCRYPT, cipher, 48, 76),
            (operation::CIPHER_ENCRYPT, chain, 48, 76),
            (operation::HASH, digest.clone(), 8, 16),
            (operation::MAC, digest, 8, 16),
            (operation::AEAD_ENCRYPT, aead, 24, 32),
            (operation::AKCIPHER_SIGN, key, 8, 28),
        ] {
            let bytes = [0, 1, 0x3f].map(|features| fixed_bytes(features, operation, &operands));
            assert_eq!(bytes, [48, revision_1, stateless], "{operation:#x} {operands:?}");
        }
    }

    #[test]
    fn a_request_without_a_session_has_its_keys_before_the_operands() {
        let parameters = Parameters::Chain {
            cipher: Cipher { algorithm: 3, key: &[1; 16], encrypt: true },
            digest: Digest { algorithm: 2, key: Some(&[2; 20]), result: 20 },
            hash_first: false,
        };
        let operands = Operands::Chain { iv: &[3; 16], data: &[4; 32], cipher: 0..32, hash: 0..32, result: 20 };
        let request =
            Format::for_features(3).request(operation::CIPHER_ENCRYPT, ParameterSource::Inline(&parameters), &operands);
        let variable = [&[1; 16][..], &[2; 20], &[3; 16], &[4; 32]].concat();
        assert_eq!(request.input[request.ends[0]..], variable);
        assert_eq!(request.output(), 52);
    }
}
