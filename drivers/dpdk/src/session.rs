//! Sessions, and the layout of requests in a slot.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gantry_core::driver::{DeviceSession, Job, Operands, Origin, Refusal, Scattered, Segment};
use gantry_core::{AlgorithmInfo, Fault, Kind, Operation, Outcome, SessionParams};

use crate::algorithms::{AEAD, AUTH, AlgorithmSupport, CHAIN, CIPHER, CryptodevOp};
use crate::engine::Engine;
use crate::fault::unsupported;
use crate::sys::{DATA_OFFSET, IV_BYTES, Layout, LentMemory, Session, SessionConfig, SlotMemory, Status};

/// Maximum number of bytes of associated data. The room in front of the data also holds CCM's 18 bytes and an IV.
const MAX_AAD_BYTES: usize = 1024;
/// Bytes that CCM needs before its associated data, and the position of its nonce in the IV (rte_crypto_sym.h).
const CCM_AAD_OFFSET: usize = 18;
const CCM_NONCE_OFFSET: usize = 1;
/// Maximum number of DPDK sessions of one Gantry session: two directions with a few lengths of associated data or nonces.
const MAX_VARIANTS: usize = 16;

/// A session of the device.
///
/// A DPDK session has a fixed direction and fixed lengths of nonce and associated data, while Gantry allows any in each
/// request. So each combination gets its own DPDK session on first use.
pub(crate) struct DpdkSession {
    engine: Arc<Engine>,
    params: SessionParams,
    support: AlgorithmSupport,
    /// True if the PMD follows the standards in the cases of `device::handles_edge_cases`.
    handles_edge_cases: bool,
    /// Filled from the front and never changed, so that requests read it without a lock.
    variants: [OnceLock<Variant>; MAX_VARIANTS],
    creation_lock: Mutex<()>,
}

struct Variant {
    shape: Shape,
    session: Session,
}

/// The fixed properties of a DPDK session.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    decrypt: bool,
    iv_len: usize,
    aad_len: usize,
    /// True for a session that computes only the MAC of a chain, without the cipher.
    mac_only: bool,
}

impl DpdkSession {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        params: &SessionParams,
        support: AlgorithmSupport,
        handles_edge_cases: bool,
    ) -> Result<Self, Refusal> {
        let info = params.algorithm().info();
        let chain = matches!(support.operation, CryptodevOp::Chain { .. });
        let key = mac_key(if chain { params.mac_key() } else { params.key() });
        if (chain || has_variable_key(info)) && !support.auth.key.allows(key.len()) {
            return Err(unsupported("the device takes no MAC keys of this length"));
        }
        if info.kind != Kind::Cipher && !support.auth.tag.allows(params.tag_len()) {
            return Err(unsupported("the device computes no tags of this length"));
        }
        let session = Self {
            engine: engine.clone(),
            params: params.clone(),
            support,
            handles_edge_cases,
            variants: std::array::from_fn(|_| OnceLock::new()),
            creation_lock: Mutex::new(()),
        };
        // Opening the most frequent variant shows if the device supports the algorithm at all.
        let decrypt =
            !info.kind.operations().iter().any(|operation| !operation.is_inverse() && params.allows(*operation));
        let iv_len = if info.iv.min == info.iv.max { info.iv.min } else { 12 };
        match session.variant(Shape { decrypt, iv_len, aad_len: 0, mac_only: false }) {
            Ok(_) => Ok(session),
            Err(_) => Err(unsupported("the device does not support such a session, or cannot open more")),
        }
    }

    #[inline]
    fn variant(&self, shape: Shape) -> Result<&Session, Fault> {
        for variant in &self.variants {
            match variant.get() {
                Some(variant) if variant.shape == shape => return Ok(&variant.session),
                Some(_) => {}
                None => return self.create_variant(shape),
            }
        }
        Err(Fault::Declined("a session has too many different lengths of nonces and associated data"))
    }

    #[cold]
    fn create_variant(&self, shape: Shape) -> Result<&Session, Fault> {
        let _making = self.creation_lock.lock().unwrap_or_else(PoisonError::into_inner);
        for variant in &self.variants {
            match variant.get() {
                Some(variant) if variant.shape == shape => return Ok(&variant.session),
                Some(_) => {}
                None => {
                    let session = self.engine.open_session(&self.session_config(shape));
                    let session =
                        session.ok_or(Fault::Declined("the device cannot open a session for such requests"))?;
                    return Ok(&variant.get_or_init(|| Variant { shape, session }).session);
                }
            }
        }
        Err(Fault::Declined("a session has too many different lengths of nonces and associated data"))
    }

    fn session_config(&self, Shape { decrypt, iv_len, aad_len, mac_only }: Shape) -> SessionConfig<'_> {
        let params = &self.params;
        let config = SessionConfig {
            decrypt,
            iv_len,
            aad_len,
            tag_len: params.tag_len(),
            key: params.key(),
            ..SessionConfig::default()
        };
        match self.support.operation {
            CryptodevOp::Cipher(cipher) => SessionConfig { kind: CIPHER, cipher, ..config },
            CryptodevOp::Auth(auth) => {
                SessionConfig { kind: AUTH, auth, key: &[], auth_key: self.auth_key(), ..config }
            }
            CryptodevOp::Chain { auth, .. } if mac_only => {
                SessionConfig { kind: AUTH, auth, iv_len: 0, key: &[], auth_key: self.auth_key(), ..config }
            }
            CryptodevOp::Aead(aead) => SessionConfig { kind: AEAD, aead, ..config },
            CryptodevOp::Chain { cipher, auth } => {
                SessionConfig { kind: CHAIN, cipher, auth, auth_key: self.auth_key(), ..config }
            }
        }
    }

    fn auth_key(&self) -> &[u8] {
        match self.support.operation {
            CryptodevOp::Chain { .. } => mac_key(self.params.mac_key()),
            operation if operation.is_hmac() => mac_key(self.params.key()),
            _ => self.params.key(),
        }
    }

    /// Returns the data in segments that the device uses in place; `None` if it is copied.
    ///
    /// Copying few bytes costs less than lending them, which needs two more mbufs and counts references to the regions. A result that would
    /// replace the input goes to the slot and is copied from there, because after a fault another device needs the original input. Chains
    /// do the same, because their MAC covers the bytes before the data in one buffer. Authenticated data in foreign memory is copied as a
    /// whole: PMDs read data twice, and could authenticate other bytes than they decrypt or have encrypted.
    pub(crate) fn memory_to_lend(&self, operation: Operation, data: Scattered<'_>) -> Option<LentMemory> {
        let [input] = data.input.list() else { return None };
        let output = data.output.list().first()?;
        let is_cipher = matches!(operation, Operation::Encrypt | Operation::Decrypt);
        let is_foreign = [input, output].iter().any(|segment| segment.region().origin() == Origin::Foreign);
        if input.len() < self.engine.lend_from.max(1)
            || matches!(self.support.operation, CryptodevOp::Chain { .. })
            || is_foreign && !is_cipher
        {
            return None;
        }
        Some(LentMemory::new(input, Some(output).filter(|output| writes_data(operation) && !overlap(input, output))))
    }

    /// Writes a request into its slot. `external_length` is the length of data that are not among the job's operands: such data are already
    /// in the slot, or are used in place.
    pub(crate) fn prepare(
        &self,
        operands: &Operands<'_>,
        external_length: Option<usize>,
        memory: &mut SlotMemory<'_>,
    ) -> Result<(&Session, Layout), Fault> {
        let bytes = external_length.unwrap_or_else(|| operands.bytes());
        if let (None, Some(input)) = (external_length, input(operands)) {
            write_at(memory, DATA_OFFSET, input);
        }
        match operands {
            Operands::Cipher { operation, iv, .. } => {
                let shape =
                    Shape { decrypt: *operation == Operation::Decrypt, iv_len: iv.len(), aad_len: 0, mac_only: false };
                self.check_counter(iv, bytes)?;
                let session = self.variant(shape)?;
                copy(&mut memory.iv[..iv.len()], iv);
                Ok((
                    session,
                    Layout {
                        kind: CIPHER,
                        packet_offset: DATA_OFFSET,
                        data_len: bytes,
                        tag_len: 0,
                        aad_offset: DATA_OFFSET,
                    },
                ))
            }
            Operands::Digest { output, .. } => self.prepare_auth(&[], bytes, output.len(), memory),
            Operands::Mac { iv, output, .. } => self.prepare_auth(iv, bytes, output.len(), memory),
            Operands::Seal { iv, aad, tag, .. } => self.prepare_aead(false, iv, aad, bytes, tag.len(), memory),
            Operands::Open { iv, aad, tag, .. } => {
                let prepared = self.prepare_aead(true, iv, aad, bytes, tag.len(), memory)?;
                write_at(memory, DATA_OFFSET + bytes, tag);
                Ok(prepared)
            }
            _ => Err(Fault::failed("the session does not support the operation")),
        }
    }

    /// Declines requests whose 32-bit counter would wrap, because the 12 bytes before it would not change.
    fn check_counter(&self, iv: &[u8], data_len: usize) -> Result<(), Fault> {
        if self.handles_edge_cases || !self.support.operation.uses_ctr() {
            return Ok(());
        }
        let counter = iv.last_chunk().map_or(0, |counter| u32::from_be_bytes(*counter));
        let blocks = data_len.div_ceil(16) as u64;
        let wraps = u64::from(counter) + blocks > 1 << 32;
        if wraps {
            Err(Fault::Declined("the device has a 32-bit counter, which this request would overflow"))
        } else {
            Ok(())
        }
    }

    fn prepare_auth(
        &self,
        iv: &[u8],
        bytes: usize,
        tag_len: usize,
        memory: &mut SlotMemory<'_>,
    ) -> Result<(&Session, Layout), Fault> {
        if bytes == 0 && self.support.operation.is_hmac() && !self.handles_edge_cases {
            return Err(Fault::Declined("the device computes no HMAC of an empty message"));
        }
        let session = self.variant(Shape { decrypt: false, iv_len: iv.len(), aad_len: 0, mac_only: false })?;
        copy(&mut memory.iv[..iv.len()], iv);
        Ok((
            session,
            Layout { kind: AUTH, packet_offset: DATA_OFFSET, data_len: bytes, tag_len, aad_offset: DATA_OFFSET },
        ))
    }

    fn prepare_aead(
        &self,
        decrypt: bool,
        iv: &[u8],
        aad: &[u8],
        bytes: usize,
        tag_len: usize,
        memory: &mut SlotMemory<'_>,
    ) -> Result<(&Session, Layout), Fault> {
        if aad.len() > MAX_AAD_BYTES {
            return Err(Fault::Declined("the device takes at most 1024 bytes of associated data"));
        }
        if let CryptodevOp::Chain { .. } = self.support.operation {
            // The MAC covers associated data, IV and ciphertext, which are adjacent; DPDK calls none of these three AAD.
            self.check_counter(iv, bytes)?;
            // Without data the cipher has no work, and ipsec-mb mishandles empty data.
            let mac_only = bytes == 0;
            let session = self.variant(Shape { decrypt, iv_len: iv.len(), aad_len: 0, mac_only })?;
            let kind = if mac_only { AUTH } else { CHAIN };
            let packet_offset = DATA_OFFSET - IV_BYTES - aad.len();
            copy(&mut memory.iv[..], iv);
            write_at(memory, packet_offset, aad);
            write_at(memory, DATA_OFFSET - IV_BYTES, iv);
            return Ok((session, Layout { kind, packet_offset, data_len: bytes, tag_len, aad_offset: packet_offset }));
        }
        if !self.support.main.iv.allows(iv.len()) {
            return Err(Fault::Declined("the device takes no nonces of this length"));
        }
        if !self.support.main.aad.allows(aad.len()) {
            return Err(Fault::Declined("the device takes no associated data of this length"));
        }
        let session = self.variant(Shape { decrypt, iv_len: iv.len(), aad_len: aad.len(), mac_only: false })?;
        let (nonce, front) = if self.support.operation.is_ccm() { (CCM_NONCE_OFFSET, CCM_AAD_OFFSET) } else { (0, 0) };
        copy(&mut memory.iv[nonce..nonce + iv.len()], iv);
        // CCM pads associated data to whole blocks in place, and QAT expects zeros after the associated data of GCM (DPDK's guide,
        // "Limitations").
        let start = DATA_OFFSET - (front + aad.len()).next_multiple_of(16);
        write_at(memory, start + front, aad);
        memory.buffer[start + front + aad.len()..DATA_OFFSET].fill(0);
        Ok((session, Layout { kind: AEAD, packet_offset: DATA_OFFSET, data_len: bytes, tag_len, aad_offset: start }))
    }
}

/// Returns whether an algorithm takes keys of more than one length.
fn has_variable_key(info: &AlgorithmInfo) -> bool {
    info.key.min != info.key.max
}

/// Replaces an empty key, which DPDK does not support, by one zero byte: HMAC pads keys with zeros, so both are the same key.
fn mac_key(key: &[u8]) -> &[u8] {
    if key.is_empty() { &[0] } else { key }
}

fn write_at(memory: &mut SlotMemory<'_>, at: usize, bytes: &[u8]) {
    copy(&mut memory.buffer[at..at + bytes.len()], bytes);
}

/// Copies `from` to `to`. The listed lengths occur for nonces, headers and tags: copies of constant length compile to a few instructions,
/// others to a call.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        0 => {}
        8 => to[..8].copy_from_slice(&from[..8]),
        12 => to[..12].copy_from_slice(&from[..12]),
        13 => to[..13].copy_from_slice(&from[..13]),
        16 => to[..16].copy_from_slice(&from[..16]),
        _ => to.copy_from_slice(from),
    }
}

/// Takes the result of a job out of its slot, and wipes the secrets in the slot. Returns the result, with the number of message bytes that
/// were copied.
pub(crate) fn finish(
    job: &mut Job,
    memory: &mut SlotMemory<'_>,
    status: Status,
    lent_memory: Option<&LentMemory>,
) -> (Result<Outcome, Fault>, usize) {
    let operation = job.operands().operation();
    let Some(Scattered { input, output }) = job.segments() else {
        return deliver(job.operands(), None, memory, status);
    };
    let bytes = input.bytes();
    let mut copied = 0;
    match (lent_memory, status) {
        (Some(lent_memory), Status::Done) if lent_memory.takes_result() => {}
        (_, Status::Done) if writes_data(operation) => {
            output.write(&memory.buffer[DATA_OFFSET..DATA_OFFSET + bytes]).expect("core has compared the lengths");
            copied = bytes;
        }
        // A PMD decrypts before it has checked the tag.
        (Some(lent_memory), _) => lent_memory.wipe(),
        _ => {}
    }
    (deliver(job.operands(), Some(bytes), memory, status).0, copied)
}

/// Moves results from a slot to the operands, and wipes the secrets in the slot. `external_length` is the number of data bytes that are not
/// in the slot. Returns the number of message bytes that were copied.
pub(crate) fn deliver(
    operands: Operands<'_>,
    external_length: Option<usize>,
    memory: &mut SlotMemory<'_>,
    status: Status,
) -> (Result<Outcome, Fault>, usize) {
    let (data_len, tag_length) = (external_length.unwrap_or_else(|| operands.bytes()), tag_length(&operands));
    let (text, tag) = memory.buffer[DATA_OFFSET..DATA_OFFSET + data_len + tag_length].split_at_mut(data_len);
    let result = match status {
        Status::Done => Ok(Outcome::Done),
        Status::BadTag => Ok(Outcome::BadTag),
        Status::Failed(reason) => Err(Fault::failed(reason)),
    };
    let is_done = status == Status::Done;
    let mut copied = 0;
    let is_secret = match operands {
        Operands::Cipher { operation, data: mut to, .. } => {
            if is_done && external_length.is_none() {
                to.output().copy_from_slice(text);
                copied = data_len;
            }
            operation == Operation::Decrypt
        }
        Operands::Seal { data: mut to, tag: to_tag, .. } => {
            if is_done {
                copy(to_tag, tag);
            }
            if is_done && external_length.is_none() {
                to.output().copy_from_slice(text);
                copied = data_len + tag.len();
            }
            false
        }
        Operands::Open { data: mut to, .. } => {
            if is_done && external_length.is_none() {
                to.output().copy_from_slice(text);
                copied = data_len;
            }
            true
        }
        Operands::Digest { output, .. } | Operands::Mac { output, .. } => {
            if is_done {
                output.copy_from_slice(tag);
                copied = tag.len();
            }
            true
        }
        _ => true,
    };
    // Ciphertext may stay in the slot, plaintext may not.
    if is_secret || !is_done {
        text.fill(0);
    }
    (result, copied)
}

/// Returns the input data among the operands.
fn input<'a>(operands: &'a Operands<'_>) -> Option<&'a [u8]> {
    match operands {
        Operands::Cipher { data, .. } | Operands::Seal { data, .. } | Operands::Open { data, .. } => Some(data.input()),
        Operands::Digest { input, .. } | Operands::Mac { input, .. } => Some(input),
        _ => None,
    }
}

fn writes_data(operation: Operation) -> bool {
    matches!(operation, Operation::Encrypt | Operation::Decrypt | Operation::Seal | Operation::Open)
}

/// Returns whether two segments have common bytes.
fn overlap(one: &Segment, other: &Segment) -> bool {
    let [at, other_at] = [one, other].map(|segment| segment.address().addr().get());
    at < other_at + other.len() && other_at < at + one.len()
}

fn tag_length(operands: &Operands<'_>) -> usize {
    match operands {
        Operands::Seal { tag, .. } => tag.len(),
        Operands::Open { tag, .. } => tag.len(),
        Operands::Digest { output, .. } | Operands::Mac { output, .. } => output.len(),
        _ => 0,
    }
}

impl DeviceSession for DpdkSession {
    fn run(&self, _operands: Operands<'_>) -> Result<Outcome, Fault> {
        // Core does not call this on a device that is not direct.
        Err(Fault::failed("a cryptodev takes requests through its queues only"))
    }
}

impl Drop for DpdkSession {
    fn drop(&mut self) {
        for variant in &mut self.variants {
            if let Some(Variant { session, .. }) = variant.take() {
                self.engine.close_session(session);
            }
        }
    }
}
