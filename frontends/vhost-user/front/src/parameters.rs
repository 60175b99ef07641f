//! The parameters of a session. They are sent as a message of vhost-user, as a request of the control queue, or within a request that
//! has no session.
//!
//! The layouts are written from the specification (virtio 1.3, 5.9.7) and from the sources of QEMU and DPDK, without the back end's
//! parser. Two sides that share one description of a layout would share its errors.

use gantry_abi_virtio_crypto::constants::{akcipher, operation, sym_op};

use crate::bytes::PutFields;

/// VIRTIO_CRYPTO_OP_ENCRYPT and its opposite.
const ENCRYPT: u32 = 1;
const DECRYPT: u32 = 2;
/// VIRTIO_CRYPTO_SYM_HASH_MODE_: a digest, or a MAC.
const HASH_MODE_PLAIN: u32 = 1;
const HASH_MODE_AUTH: u32 = 2;
/// Bytes of the fixed part of a request of the control queue without VIRTIO_CRYPTO_F_REVISION_1.
const LEGACY_CONTROL_BYTES: usize = 56;
/// Room for the keys in the messages of vhost-user, in bytes.
const CIPHER_KEY_FIELD_BYTES: usize = 64;
const AUTH_KEY_FIELD_BYTES: usize = 512;
const RSA_KEY_FIELD_BYTES: usize = 1024;

/// A cipher. Algorithms are the numbers of [`gantry_abi_virtio_crypto::constants`].
#[derive(Clone, Copy)]
pub struct Cipher<'a> {
    /// VIRTIO_CRYPTO_CIPHER_.
    pub algorithm: u32,
    /// The key, of the length that the algorithm requires.
    pub key: &'a [u8],
    /// True to encrypt, false to decrypt.
    pub encrypt: bool,
}

/// A digest, or a MAC if there is a key.
#[derive(Clone, Copy)]
pub struct Digest<'a> {
    /// VIRTIO_CRYPTO_HASH_, or VIRTIO_CRYPTO_MAC_ with a key.
    pub algorithm: u32,
    /// A MAC's key.
    pub key: Option<&'a [u8]>,
    /// Length of the result in bytes.
    pub result_length: u32,
}

/// Parameters of a session.
#[derive(Clone, Copy)]
pub enum Parameters<'a> {
    /// A cipher alone.
    Cipher(Cipher<'a>),
    /// A cipher, and a digest or MAC of the same data.
    Chain {
        /// The cipher.
        cipher: Cipher<'a>,
        /// The digest or MAC.
        digest: Digest<'a>,
        /// True if the digest covers the data before the cipher operation; false if it covers the result of the operation.
        hash_first: bool,
    },
    /// A digest.
    Hash(Digest<'a>),
    /// A MAC.
    Mac(Digest<'a>),
    /// An AEAD.
    Aead {
        /// The AEAD, as VIRTIO_CRYPTO_AEAD_, and its key.
        cipher: Cipher<'a>,
        /// Length of the tag in bytes.
        tag_length: u32,
        /// Length of the additional data in bytes.
        aad_length: u32,
    },
    /// An RSA key.
    Rsa {
        /// True if the key is an RSAPrivateKey; false if it is an RSAPublicKey (RFC 8017, appendix A.1).
        is_private: bool,
        /// The key in DER.
        key: &'a [u8],
        /// VIRTIO_CRYPTO_RSA_..._PADDING: 0 is none, 1 is PKCS #1 v1.5.
        padding: u32,
        /// VIRTIO_CRYPTO_RSA_ and the name of a digest.
        hash: u32,
    },
}

/// The program whose layout of session messages a front end uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// QEMU up to 8.0: 632 bytes, the session's number first.
    Qemu7,
    /// QEMU since 8.1, and DPDK since 25.03: 1,072 bytes, an operation first and the session's number last.
    Qemu10,
    /// DPDK up to 24.11: 632 bytes, the session's number and an operation first.
    Dpdk22,
}

impl Layout {
    /// Returns the offset of the session's number in the payload.
    pub fn session_offset(self) -> usize {
        if self == Self::Qemu10 { 1064 } else { 0 }
    }
}

impl Parameters<'_> {
    /// Returns VIRTIO_CRYPTO_..._CREATE_SESSION.
    pub fn create_opcode(&self) -> u32 {
        match self {
            Self::Cipher(_) | Self::Chain { .. } => operation::CIPHER_CREATE_SESSION,
            Self::Hash(_) => operation::HASH_CREATE_SESSION,
            Self::Mac(_) => operation::MAC_CREATE_SESSION,
            Self::Aead { .. } => operation::AEAD_CREATE_SESSION,
            Self::Rsa { .. } => operation::AKCIPHER_CREATE_SESSION,
        }
    }

    /// Returns VIRTIO_CRYPTO_..._DESTROY_SESSION.
    pub fn destroy_opcode(&self) -> u32 {
        self.create_opcode() + 1
    }

    /// Builds the payload of VHOST_USER_CREATE_CRYPTO_SESSION. `None`: the layout cannot express such a session.
    pub fn message(&self, layout: Layout) -> Option<Vec<u8>> {
        let mut bytes = match layout {
            Layout::Qemu7 => 0_u64.to_le_bytes().to_vec(),
            Layout::Qemu10 => u64::from(self.create_opcode()).to_le_bytes().to_vec(),
            Layout::Dpdk22 => [0_u64.to_le_bytes().as_slice(), &self.create_opcode().to_le_bytes()].concat(),
        };
        let total = if layout == Layout::Qemu10 { 1072 } else { 632 };
        match self {
            Self::Cipher(cipher) => put_symmetric_session(&mut bytes, cipher, None),
            Self::Chain { cipher, digest, hash_first } => {
                put_symmetric_session(&mut bytes, cipher, Some((digest, *hash_first)));
            }
            Self::Rsa { is_private, key, padding, hash } if layout == Layout::Qemu10 => {
                bytes.put_words(&[akcipher::RSA, key_type(*is_private), key.len() as u32]);
                // Padding of the structure, and an unused pointer.
                bytes.resize(32, 0);
                bytes.put_words(&[*padding, *hash]);
                bytes.put_field(key, RSA_KEY_FIELD_BYTES);
            }
            _ => return None,
        }
        bytes.resize(total, 0);
        Some(bytes)
    }

    /// Builds the input of a control request that opens the session.
    pub fn control_request(&self, revision_1: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let algorithm = match self {
            Self::Cipher(cipher) | Self::Chain { cipher, .. } | Self::Aead { cipher, .. } => cipher.algorithm,
            Self::Hash(digest) | Self::Mac(digest) => digest.algorithm,
            Self::Rsa { .. } => akcipher::RSA,
        };
        bytes.put_words(&[self.create_opcode(), algorithm, 0, 0]);
        let begin = bytes.len();
        match self {
            Self::Cipher(cipher) => {
                bytes.put_words(&[cipher.algorithm, cipher.key.len() as u32, direction(cipher), 0]);
                bytes.resize(begin + 48, 0);
                bytes.put_words(&[sym_op::CIPHER, 0]);
            }
            Self::Chain { cipher, digest, hash_first } => {
                bytes.put_words(&[chain_order(*hash_first), hash_mode(digest)]);
                bytes.put_words(&[cipher.algorithm, cipher.key.len() as u32, direction(cipher), 0]);
                bytes.put_words(&[
                    digest.algorithm,
                    digest.result_length,
                    digest.key.unwrap_or_default().len() as u32,
                    0,
                ]);
                // No additional data.
                bytes.put_words(&[0, 0, sym_op::ALGORITHM_CHAINING, 0]);
            }
            Self::Hash(digest) => bytes.put_words(&[digest.algorithm, digest.result_length]),
            Self::Mac(digest) => {
                bytes.put_words(&[
                    digest.algorithm,
                    digest.result_length,
                    digest.key.unwrap_or_default().len() as u32,
                    0,
                ]);
            }
            Self::Aead { cipher, tag_length, aad_length } => {
                bytes.put_words(&[
                    cipher.algorithm,
                    cipher.key.len() as u32,
                    *tag_length,
                    *aad_length,
                    direction(cipher),
                    0,
                ]);
            }
            Self::Rsa { is_private, key, padding, hash } => {
                bytes.put_words(&[akcipher::RSA, key_type(*is_private), key.len() as u32, *padding, *hash]);
                bytes.resize(begin + LEGACY_CONTROL_BYTES, 0);
            }
        }
        if !revision_1 {
            bytes.resize(begin + LEGACY_CONTROL_BYTES, 0);
        }
        for key in self.keys() {
            bytes.extend(key);
        }
        bytes
    }

    /// Returns the keys, in the order in which the variable part of a request contains them.
    pub(crate) fn keys(&self) -> Vec<&[u8]> {
        match self {
            Self::Cipher(cipher) | Self::Aead { cipher, .. } => vec![cipher.key],
            Self::Chain { cipher, digest, .. } => vec![cipher.key, digest.key.unwrap_or_default()],
            Self::Hash(digest) | Self::Mac(digest) => vec![digest.key.unwrap_or_default()],
            Self::Rsa { key, .. } => vec![key],
        }
    }

    /// Returns the parameters within the fixed part of a request without a session (virtio 1.3, 5.9.7.3 to 5.9.7.7: `sess_para`).
    pub(crate) fn stateless_words(&self) -> Vec<u32> {
        let cipher_of = |cipher: &Cipher<'_>| [cipher.algorithm, cipher.key.len() as u32, direction(cipher)];
        match self {
            Self::Cipher(cipher) | Self::Aead { cipher, .. } => cipher_of(cipher).to_vec(),
            Self::Chain { cipher, digest, hash_first } => {
                let digest_of = [digest.algorithm, digest.key.unwrap_or_default().len() as u32, hash_mode(digest)];
                [&[chain_order(*hash_first), 0][..], &cipher_of(cipher), &digest_of].concat()
            }
            Self::Hash(digest) => vec![digest.algorithm],
            Self::Mac(digest) => vec![digest.algorithm, digest.key.unwrap_or_default().len() as u32],
            Self::Rsa { is_private, key, padding, hash } => {
                vec![akcipher::RSA, key_type(*is_private), key.len() as u32, *padding, *hash]
            }
        }
    }
}

/// Builds the input of a control request that closes a session. `operation` is [`Parameters::destroy_opcode`].
pub fn destroy_request(operation: u32, session: u64, revision_1: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_words(&[operation, 0, 0, 0]);
    bytes.extend(session.to_le_bytes());
    if !revision_1 {
        bytes.resize(16 + LEGACY_CONTROL_BYTES, 0);
    }
    bytes
}

/// Appends QEMU's `CryptoDevBackendSymSessionInfo` and the two keys behind it.
fn put_symmetric_session(bytes: &mut Vec<u8>, cipher: &Cipher<'_>, digest: Option<(&Digest<'_>, bool)>) {
    let begin = bytes.len();
    bytes.put_words(&[cipher.algorithm, cipher.key.len() as u32]);
    let auth_key = digest.and_then(|(digest, _)| digest.key).unwrap_or_default();
    let (algorithm, result_length) = digest.map_or((0, 0), |(digest, _)| (digest.algorithm, digest.result_length));
    bytes.put_words(&[algorithm, result_length, auth_key.len() as u32, 0]);
    let kind = if digest.is_some() { sym_op::ALGORITHM_CHAINING } else { sym_op::CIPHER };
    let (mode, order) = digest.map_or((0, 0), |(digest, first)| (hash_mode(digest), chain_order(first)));
    bytes.extend([kind, direction(cipher), mode, order].map(|number| number as u8));
    // Two unused pointers at a multiple of eight bytes of the message. In DPDK's layout, the operation field moves the bytes before them.
    bytes.resize((begin + 28).next_multiple_of(8) + 16, 0);
    bytes.put_field(cipher.key, CIPHER_KEY_FIELD_BYTES);
    bytes.put_field(auth_key, AUTH_KEY_FIELD_BYTES);
}

fn direction(cipher: &Cipher<'_>) -> u32 {
    if cipher.encrypt { ENCRYPT } else { DECRYPT }
}

/// VIRTIO_CRYPTO_SYM_ALG_CHAIN_ORDER_.
fn chain_order(hash_first: bool) -> u32 {
    if hash_first { 1 } else { 2 }
}

fn hash_mode(digest: &Digest<'_>) -> u32 {
    if digest.key.is_some() { HASH_MODE_AUTH } else { HASH_MODE_PLAIN }
}

/// VIRTIO_CRYPTO_AKCIPHER_KEY_TYPE_.
fn key_type(is_private: bool) -> u32 {
    if is_private { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use gantry_abi_virtio_crypto::constants::{cipher, mac};

    use super::*;

    const CIPHER: Cipher<'_> = Cipher { algorithm: cipher::AES_CBC, key: &[7; 16], encrypt: true };
    const MAC: Digest<'_> = Digest { algorithm: mac::HMAC_SHA1, key: Some(&[8; 20]), result_length: 20 };

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn fields_of_messages_are_at_the_offsets_of_their_program() {
        let chain = Parameters::Chain { cipher: CIPHER, digest: MAC, hash_first: false };
        // Offsets in QEMU 7.2, QEMU 10.0 and DPDK 22.11: algorithm, kind, cipher's key, MAC's key.
        let offsets = [(Layout::Qemu7, 632, 8, 32), (Layout::Qemu10, 1072, 8, 32), (Layout::Dpdk22, 632, 12, 36)];
        for (layout, total, algorithm, kind) in offsets {
            let message = chain.message(layout).unwrap();
            assert_eq!(message.len(), total, "{layout:?}");
            let numbers = [word(&message, algorithm), word(&message, algorithm + 4), word(&message, algorithm + 8)];
            assert_eq!(numbers, [3, 16, 2], "{layout:?}");
            assert_eq!(message[kind..kind + 4], [2, 1, 2, 2], "{layout:?}");
            assert_eq!(message[56..72], [7; 16], "{layout:?}");
            assert_eq!(message[120..140], [8; 20], "{layout:?}");
        }
    }

    #[test]
    fn only_the_new_layout_has_room_for_a_public_key() {
        let key = Parameters::Rsa { is_private: false, key: &[9; 270], padding: 1, hash: 6 };
        let message = key.message(Layout::Qemu10).unwrap();
        assert_eq!([word(&message, 0), word(&message, 8), word(&message, 12), word(&message, 16)], [0x404, 1, 1, 270]);
        assert_eq!([word(&message, 32), word(&message, 36)], [1, 6]);
        assert_eq!(message[40..310], [9; 270]);
        assert_eq!(key.message(Layout::Qemu7), None);
        assert_eq!(key.message(Layout::Dpdk22), None);
    }

    #[test]
    fn control_requests_are_padded_only_without_revision_1() {
        let hash = Parameters::Hash(Digest { algorithm: 4, key: None, result_length: 32 });
        assert_eq!(hash.control_request(false).len(), 16 + 56);
        assert_eq!(hash.control_request(true).len(), 16 + 8);
        assert_eq!(Parameters::Mac(MAC).control_request(true).len(), 16 + 16 + 20);
        for revision_1 in [false, true] {
            assert_eq!(Parameters::Cipher(CIPHER).control_request(revision_1).len(), 16 + 56 + 16);
            let chain = Parameters::Chain { cipher: CIPHER, digest: MAC, hash_first: true };
            assert_eq!(chain.control_request(revision_1).len(), 16 + 56 + 36);
        }
        assert_eq!((destroy_request(3, 1, false).len(), destroy_request(3, 1, true).len()), (72, 24));
    }
}
