//! Requests of the data queues (virtio 1.3, 5.9.7.2 to 5.9.7.7), and the device's answers.

use std::ops::Range;

use gantry_abi_virtio_crypto::constants::{FLAG_SESSION_MODE, feature, sym_op};

use crate::bytes::PutFields;
use crate::parameters::Parameters;

/// Bytes of a request's header, and of its fixed part without VIRTIO_CRYPTO_F_REVISION_1.
const HEADER_BYTES: usize = 24;
const LEGACY_FIXED_BYTES: usize = 48;

/// The lengths of the fixed parts of requests, which follow from the negotiated features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFormat {
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
        cipher_range: Range<u32>,
        /// The part of the data for the digest.
        hash_range: Range<u32>,
        /// Length of the digest in bytes.
        result_length: u32,
    },
    /// Operands of a digest or MAC.
    Digest {
        /// Data.
        data: &'a [u8],
        /// Length of the result in bytes.
        result_length: u32,
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
        tag_length: u32,
        /// Bytes of the output: the data and, to seal, the tag.
        result_length: u32,
    },
    /// Operands of a public or private key.
    Key {
        /// Data. To verify: the signature, followed by the signed data.
        data: &'a [u8],
        /// Number of bytes at the start of `data` that are the request's source: all bytes or, to verify, the bytes of the signature.
        source_length: u32,
        /// Bytes of the output or, to verify, of the signed data.
        result_length: u32,
        /// True if the device writes an output; false for verification.
        has_output: bool,
    },
}

/// A request: the bytes that the device reads, and the lengths of its output.
#[derive(Clone, Debug)]
pub struct Request {
    /// Header, fixed part, and variable part.
    pub input: Vec<u8>,
    /// The end of each field of `input`: header and fixed part, then the fields of the variable part. Each has a descriptor of its own,
    /// as with Linux' driver: DPDK's back end accepts no other chains.
    pub field_ends: Vec<usize>,
    /// Bytes of each field that the device writes before the status.
    pub output_lengths: Vec<usize>,
    /// Length of the status in bytes.
    pub status_length: usize,
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
    /// Builds a request of the control queue. `status_length`: 16 bytes to open a session, one to close it.
    pub fn control(input: Vec<u8>, status_length: usize) -> Self {
        Self { field_ends: vec![input.len()], input, output_lengths: Vec::new(), status_length }
    }

    /// Returns the bytes that the device writes before the status.
    pub fn output_length(&self) -> usize {
        self.output_lengths.iter().sum()
    }
}

impl RequestFormat {
    /// Returns the format for the device features that the driver has accepted.
    pub fn for_features(features: u64) -> Self {
        Self { features }
    }

    /// Returns whether VIRTIO_CRYPTO_F_REVISION_1 is negotiated.
    pub fn has_revision_1(self) -> bool {
        self.features >> feature::REVISION_1 & 1 == 1
    }

    /// Returns whether requests of this service need no session. `service` is VIRTIO_CRYPTO_SERVICE_.
    pub fn is_stateless(self, service: u32) -> bool {
        // Stateless modes have the bits from CIPHER_STATELESS_MODE on, in the order of the services.
        self.has_revision_1() && self.features >> (feature::CIPHER_STATELESS_MODE + service) & 1 == 1
    }

    /// Builds a request of a data queue. `operation` is VIRTIO_CRYPTO_CIPHER_ENCRYPT and so on.
    pub fn build_request(self, operation: u32, source: ParameterSource<'_>, operands: &Operands<'_>) -> Request {
        let (session, flag) = match source {
            ParameterSource::Session(session) => (session, FLAG_SESSION_MODE),
            ParameterSource::Inline(_) => (0, 0),
        };
        let mut input = Vec::new();
        input.put_words(&[operation, 0]);
        input.extend(session.to_le_bytes());
        input.put_words(&[if self.has_revision_1() { flag } else { 0 }, 0]);
        if self.is_stateless(operation >> 8) {
            input.put_words(&stateless_fixed_part(operation, source, operands));
        } else {
            input.put_words(&fixed_part(operands));
        }
        if !self.has_revision_1() {
            input.resize(HEADER_BYTES + LEGACY_FIXED_BYTES, 0);
        }
        let mut fields: Vec<&[u8]> = match source {
            ParameterSource::Inline(parameters) => parameters.keys(),
            ParameterSource::Session(_) => Vec::new(),
        };
        let output_lengths = match operands {
            Operands::Cipher { iv, data } => {
                fields.extend([*iv, *data]);
                vec![data.len()]
            }
            Operands::Chain { iv, data, result_length, .. } => {
                fields.extend([*iv, *data]);
                vec![data.len(), *result_length as usize]
            }
            Operands::Digest { data, result_length } => {
                fields.push(data);
                vec![*result_length as usize]
            }
            Operands::Aead { iv, aad, data, result_length, .. } => {
                fields.extend([*iv, *data, *aad]);
                vec![*result_length as usize]
            }
            Operands::Key { data, result_length, has_output, .. } => {
                fields.push(data);
                if *has_output { vec![*result_length as usize] } else { Vec::new() }
            }
        };
        let mut field_ends = vec![input.len()];
        for field in fields {
            input.extend(field);
            field_ends.push(input.len());
        }
        Request { input, field_ends, output_lengths, status_length: 1 }
    }
}

/// Returns the fixed part of a request for a service that requires a session.
fn fixed_part(operands: &Operands<'_>) -> Vec<u32> {
    match operands {
        Operands::Cipher { iv, data } => {
            let mut words = vec![iv.len() as u32, data.len() as u32, data.len() as u32];
            words.resize(10, 0);
            words.extend([sym_op::CIPHER, 0]);
            words
        }
        Operands::Chain { .. } => [&chain_data(operands)[..], &[sym_op::ALGORITHM_CHAINING, 0]].concat(),
        Operands::Digest { data, result_length } => vec![data.len() as u32, *result_length],
        Operands::Aead { iv, aad, data, tag_length, result_length } => {
            vec![iv.len() as u32, aad.len() as u32, data.len() as u32, *result_length, *tag_length, 0]
        }
        Operands::Key { source_length, result_length, .. } => vec![*source_length, *result_length],
    }
}

/// Returns the fixed part for a service that requires no session. With a session the parameters are zero.
fn stateless_fixed_part(operation: u32, source: ParameterSource<'_>, operands: &Operands<'_>) -> Vec<u32> {
    let parameters = |words: usize| match source {
        ParameterSource::Inline(parameters) => parameters.stateless_words(),
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
        Operands::Chain { .. } => [&parameters(8)[..], &chain_data(operands), &[sym_op::ALGORITHM_CHAINING]].concat(),
        Operands::Digest { data, result_length } => {
            let is_mac = operation == gantry_abi_virtio_crypto::constants::operation::MAC;
            let operands = [data.len() as u32, *result_length];
            // A digest has a reserved word at the place of a MAC's key length.
            if is_mac {
                [&parameters(2)[..], &operands].concat()
            } else {
                [&parameters(1)[..], &operands, &[0]].concat()
            }
        }
        Operands::Aead { iv, aad, data, tag_length, result_length } => {
            let operands = [iv.len() as u32, *tag_length, aad.len() as u32, data.len() as u32, *result_length];
            [&parameters(3)[..], &operands].concat()
        }
        Operands::Key { source_length, result_length, .. } => {
            [&parameters(5)[..], &[*source_length, *result_length]].concat()
        }
    }
}

/// Returns `struct virtio_crypto_alg_chain_data_flf`; empty for other operands.
fn chain_data(operands: &Operands<'_>) -> Vec<u32> {
    let Operands::Chain { iv, data, cipher_range, hash_range, result_length } = operands else { return Vec::new() };
    let (iv, data) = (iv.len() as u32, data.len() as u32);
    let cipher = [cipher_range.start, cipher_range.end - cipher_range.start];
    let hash = [hash_range.start, hash_range.end - hash_range.start];
    // No additional data; a reserved word at the end.
    [&[iv, data, data][..], &cipher, &hash, &[0, *result_length, 0]].concat()
}

#[cfg(test)]
mod tests {
    use gantry_abi_virtio_crypto::constants::operation;

    use super::*;
    use crate::parameters::{Cipher, Digest};

    /// Returns the bytes of the fixed part, behind the header of 24 bytes.
    fn fixed_bytes(features: u64, operation: u32, operands: &Operands<'_>) -> usize {
        RequestFormat::for_features(features).build_request(operation, ParameterSource::Session(1), operands).field_ends
            [0]
            - HEADER_BYTES
    }

    #[test]
    fn fixed_parts_have_the_lengths_of_the_specification() {
        let cipher = Operands::Cipher { iv: &[0; 16], data: &[0; 32] };
        let chain =
            Operands::Chain { iv: &[0; 16], data: &[0; 32], cipher_range: 0..32, hash_range: 0..32, result_length: 20 };
        let digest = Operands::Digest { data: &[0; 32], result_length: 20 };
        let aead = Operands::Aead { iv: &[0; 12], aad: &[], data: &[0; 32], tag_length: 16, result_length: 48 };
        let key = Operands::Key { data: &[0; 256], source_length: 256, result_length: 256, has_output: true };
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
            digest: Digest { algorithm: 2, key: Some(&[2; 20]), result_length: 20 },
            hash_first: false,
        };
        let operands =
            Operands::Chain { iv: &[3; 16], data: &[4; 32], cipher_range: 0..32, hash_range: 0..32, result_length: 20 };
        let request = RequestFormat::for_features(3).build_request(
            operation::CIPHER_ENCRYPT,
            ParameterSource::Inline(&parameters),
            &operands,
        );
        let variable = [&[1; 16][..], &[2; 20], &[3; 16], &[4; 32]].concat();
        assert_eq!(request.input[request.field_ends[0]..], variable);
        assert_eq!(request.output_length(), 52);
    }
}
