//! The configuration space.

use crate::Error;
use crate::bytes::{Reader, Write};

/// The configuration space, `struct virtio_crypto_config`. A mask has bit `n` set for number `n` of the named module of
/// [`constants`](crate::constants).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// [`HW_READY`](crate::constants::HW_READY), or 0 for a device that takes no requests.
    pub status: u32,
    /// The number of data queues; the control queue follows them.
    pub max_dataqueues: u32,
    /// Mask of [`service`](crate::constants::service).
    pub services: u32,
    /// Mask of [`cipher`](crate::constants::cipher).
    pub ciphers: u64,
    /// Mask of [`hash`](crate::constants::hash).
    pub hashes: u32,
    /// Mask of [`mac`](crate::constants::mac).
    pub macs: u64,
    /// Mask of [`aead`](crate::constants::aead).
    pub aeads: u32,
    /// The maximum length of a cipher's key, in bytes.
    pub max_cipher_key_len: u32,
    /// The maximum length of a MAC's key, in bytes.
    pub max_auth_key_len: u32,
    /// Mask of [`akcipher`](crate::constants::akcipher).
    pub akciphers: u32,
    /// The maximum length of a data request's variable part, in bytes.
    pub max_size: u64,
}

impl Config {
    /// Bytes of the structure.
    pub const LENGTH: usize = 56;

    /// Parses the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        Ok(Self {
            status: reader.u32()?,
            max_dataqueues: reader.u32()?,
            services: reader.u32()?,
            ciphers: reader.u64()?,
            hashes: reader.u32()?,
            macs: reader.u64()?,
            aeads: reader.u32()?,
            max_cipher_key_len: reader.u32()?,
            max_auth_key_len: reader.u32()?,
            akciphers: reader.u32()?,
            max_size: reader.u64()?,
        })
    }

    /// Encodes all [`LENGTH`](Self::LENGTH) bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LENGTH);
        bytes.put_words(&[self.status, self.max_dataqueues, self.services]);
        bytes.extend(self.ciphers.to_le_bytes());
        bytes.put_words(&[self.hashes]);
        bytes.extend(self.macs.to_le_bytes());
        bytes.put_words(&[self.aeads, self.max_cipher_key_len, self.max_auth_key_len, self.akciphers]);
        bytes.extend(self.max_size.to_le_bytes());
        bytes
    }
}
