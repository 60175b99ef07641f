//! The sessions of the interface: a cipher, a digest or MAC, or both, and the state between requests.

use gantry_abi_cryptodev::{self as abi, CipherRow, HashRow, SessionInfoOp};
use gantry_core::driver::Class;
use gantry_core::{Algorithm, Gantry, Kind, Operation, Session, SessionParams, Stream};
use zeroize::Zeroize;

/// The immutable part of a session.
#[derive(Debug)]
pub(crate) struct CryptoSession {
    pub(crate) cipher: Option<Cipher>,
    pub(crate) hash: Option<Hash>,
}

#[derive(Debug)]
pub(crate) struct Cipher {
    pub(crate) row: &'static CipherRow,
    pub(crate) algorithm: Algorithm,
    /// `None` for the NULL cipher, which leaves data unchanged and needs no device.
    pub(crate) session: Option<Session>,
}

#[derive(Debug)]
pub(crate) struct Hash {
    pub(crate) row: &'static HashRow,
    pub(crate) session: Session,
}

/// The state between requests.
pub(crate) struct SessionState {
    /// The IV for a request that contains none.
    pub(crate) iv: [u8; abi::MAX_IV_LEN],
    /// An unfinished message.
    pub(crate) stream: Option<Stream>,
}

impl SessionState {
    pub(crate) fn new() -> Self {
        Self { iv: [0; abi::MAX_IV_LEN], stream: None }
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

impl Hash {
    /// Returns the length of the digest in bytes.
    pub(crate) fn digest_length(&self) -> usize {
        self.session.params().tag_len()
    }
}

/// Creates sessions. Digests have no keys, so one session for each algorithm serves all programs: their messages run side
/// by side in it.
pub(crate) struct SessionFactory {
    gantry: Gantry,
    digest_sessions: Vec<(&'static HashRow, Session)>,
}

impl SessionFactory {
    pub(crate) fn new(gantry: Gantry) -> Self {
        Self { gantry, digest_sessions: Vec::new() }
    }

    /// Creates a session. `None` if no device serves it, or if the keys are invalid.
    pub(crate) fn create_session(
        &mut self,
        cipher: u32,
        key: &[u8],
        mac: u32,
        mac_key: &[u8],
    ) -> Option<CryptoSession> {
        let cipher = match abi::cipher(cipher) {
            Some(row) => Some(self.create_cipher(row, key)?),
            None => None,
        };
        let is_aead = cipher.as_ref().is_some_and(|cipher| cipher.row.is_aead());
        let hash = match abi::hash(mac) {
            // The module ignores the MAC in this case.
            Some(_) if is_aead => None,
            Some(row) => Some(self.create_hash(row, mac_key)?),
            None => None,
        };
        Some(CryptoSession { cipher, hash })
    }

    fn create_cipher(&self, row: &'static CipherRow, key: &[u8]) -> Option<Cipher> {
        if row.algorithms == [Algorithm::Null] {
            return Some(Cipher { row, algorithm: Algorithm::Null, session: None });
        }
        let algorithm = row.algorithm_for_key_len(key.len())?;
        let session = self.gantry.session(SessionParams::new(algorithm, key)).ok()?;
        // Some device must serve the algorithm now; the module, too, fixes its driver here.
        session.route(algorithm.kind().operations()[0], 0, 1)?;
        Some(Cipher { row, algorithm, session: Some(session) })
    }

    fn create_hash(&mut self, row: &'static HashRow, key: &[u8]) -> Option<Hash> {
        let is_mac = row.algorithm.kind() == Kind::Mac;
        if let Some((row, session)) =
            self.digest_sessions.iter().find(|(digest_row, _)| digest_row.number == row.number)
        {
            return Some(Hash { row, session: session.clone() });
        }
        let session = self.gantry.session(SessionParams::new(row.algorithm, if is_mac { key } else { &[] })).ok()?;
        // A session must support messages in pieces.
        session.stream(1).ok()?;
        if !is_mac {
            self.digest_sessions.push((row, session.clone()));
        }
        Some(Hash { row, session })
    }
}

/// Computes the IV with which the session continues after `output` was computed from `input`. Both are whole blocks,
/// unless the mode allows partial ones. The kernel's modes leave this IV in the request.
pub(crate) struct IvChain {
    encrypt: bool,
    /// The last block of the input, which in-place operation overwrites.
    last_input: [u8; 16],
    length: usize,
}

/// The source of the next IV, by mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainingMode {
    /// The last block of ciphertext.
    Cbc,
    Cfb,
    /// The last block of key stream.
    Ofb,
    Ctr,
    Unchanged,
}

fn chaining_mode(cipher: &Cipher) -> ChainingMode {
    match cipher.row.number {
        2 | 11 => ChainingMode::Cbc,
        21 => ChainingMode::Ctr,
        24 => ChainingMode::Cfb,
        25 => ChainingMode::Ofb,
        _ => ChainingMode::Unchanged,
    }
}

impl IvChain {
    /// Returns the bytes by which data of this length must be extended to reveal the end of the chain. OFB turns zeros
    /// into its key stream.
    pub(crate) fn padding_length(cipher: &Cipher, length: usize) -> usize {
        if chaining_mode(cipher) == ChainingMode::Ofb { length.next_multiple_of(16) - length } else { 0 }
    }

    /// Saves the last block of the input, before the data is processed.
    pub(crate) fn from_input(cipher: &Cipher, encrypt: bool, input: &[u8]) -> Self {
        let mut last_input = [0; 16];
        if let Some(block) = last_block(cipher, input) {
            last_input[..block.len()].copy_from_slice(block);
        }
        Self { encrypt, last_input, length: input.len() }
    }

    /// Replaces `iv` by the next IV, after the data was processed.
    pub(crate) fn update_iv(self, cipher: &Cipher, output: &[u8], iv: &mut [u8; 16]) {
        let Some(last_output) = last_block(cipher, output) else {
            // Without a whole block, CTR has still used up a counter value.
            if chaining_mode(cipher) == ChainingMode::Ctr && self.length > 0 {
                advance_counter(iv, 1);
            }
            return;
        };
        let ciphertext = if self.encrypt { last_output } else { &self.last_input[..last_output.len()] };
        match chaining_mode(cipher) {
            ChainingMode::Cbc | ChainingMode::Cfb => iv[..ciphertext.len()].copy_from_slice(ciphertext),
            ChainingMode::Ofb => {
                for ((iv, input), output) in iv.iter_mut().zip(self.last_input).zip(last_output) {
                    *iv = input ^ output;
                }
            }
            ChainingMode::Ctr => advance_counter(iv, self.length.div_ceil(16) as u128),
            ChainingMode::Unchanged => {}
        }
    }
}

fn last_block<'d>(cipher: &Cipher, data: &'d [u8]) -> Option<&'d [u8]> {
    let block = if cipher.row.number == 2 { 8 } else { 16 };
    data.rchunks_exact(block)
        .next()
        .filter(|_| data.len().is_multiple_of(block))
        .or_else(|| data.chunks_exact(block).last())
}

/// Advances a CTR counter, which has all 16 bytes.
fn advance_counter(iv: &mut [u8; 16], blocks: u128) {
    *iv = u128::from_be_bytes(*iv).wrapping_add(blocks).to_be_bytes();
}

/// Fills in the answer of CIOCGSESSINFO: the kernel's names of the algorithms, and the device for a single request.
pub(crate) fn fill_session_info(crypto: &CryptoSession, info: &mut SessionInfoOp) {
    (info.align_mask, info.flags) = (0, 0);
    if let Some(cipher) = &crypto.cipher {
        let device = match &cipher.session {
            Some(session) => device_name(session, cipher.algorithm.kind().operations()[0], info),
            None => padded_name("gantry"),
        };
        (info.cipher_name, info.cipher_driver) = (padded_name(cipher.row.name), device);
    }
    if let Some(hash) = &crypto.hash {
        let algorithm = hash.row.algorithm;
        let device = device_name(&hash.session, algorithm.kind().operations()[0], info);
        (info.hash_name, info.hash_driver) = (padded_name(algorithm.info().kernel), device);
    }
}

/// Returns `gantry-` and the device's name, and sets the flag for engines if the device is one.
fn device_name(session: &Session, operation: Operation, info: &mut SessionInfoOp) -> [u8; abi::NAME_SIZE] {
    // Programs ask for the device that processes bulk data.
    const BULK_BYTES: usize = 16 << 10;
    let Some(route) = session.route(operation, BULK_BYTES, 1) else { return padded_name("gantry") };
    let device = &session.gantry().devices()[route.device];
    if matches!(device.class(), Class::Hardware | Class::Gpu) {
        info.flags |= abi::SIOP_FLAG_KERNEL_DRIVER_ONLY;
    }
    padded_name(&format!("gantry-{}", device.name()))
}

fn padded_name(text: &str) -> [u8; abi::NAME_SIZE] {
    let mut name = [0; abi::NAME_SIZE];
    let length = text.len().min(abi::NAME_SIZE - 1);
    name[..length].copy_from_slice(&text.as_bytes()[..length]);
    name
}
