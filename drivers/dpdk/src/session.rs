use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gantry_core::driver::{DeviceSession, Job, Operands, Origin, Refusal, Scattered, Segment, Unsupported};
use gantry_core::{Fault, Kind, Operation, Outcome, SessionParams};

use crate::device::{AEAD, AUTH, CHAIN, CIPHER, Offered, Way, has_free_key};
use crate::engine::Engine;
use crate::sys::{DATA, IV, Layout, Lent, Recipe, Room, Session, Status};

/// Most bytes of associated data. In front of the data there is room for them, for CCM's 18 bytes, and for an IV.
const MOST_AAD: usize = 1024;
/// What CCM wants in front of its associated data, and where its nonce stands in the IV (rte_crypto_sym.h).
const CCM_FRONT: usize = 18;
const CCM_NONCE: usize = 1;
/// Sessions of DPDK for one of ours: two directions with a few lengths of associated data or nonces.
const VARIANTS: usize = 16;

/// A session of the device.
///
/// DPDK fixes the direction, the length of the nonce and that of the associated data when a session is made, and Gantry
/// leaves them to each request. So there is a session of DPDK for each combination that a request has asked for.
pub(crate) struct DpdkSession {
    engine: Arc<Engine>,
    params: SessionParams,
    offered: Offered,
    /// See `is_exact`.
    exact: bool,
    /// Filled from the front, and never changed: requests look here without a lock.
    variants: [OnceLock<Variant>; VARIANTS],
    making: Mutex<()>,
}

struct Variant {
    shape: Shape,
    session: Session,
}

/// What a session of DPDK is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    decrypt: bool,
    iv: usize,
    aad: usize,
    /// The MAC of a chain without its cipher.
    mac_only: bool,
}

pub(crate) fn unsupported(why: &'static str) -> Refusal {
    Unsupported::because(why).into()
}

impl DpdkSession {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        params: &SessionParams,
        offered: Offered,
        exact: bool,
    ) -> Result<Self, Refusal> {
        let info = params.algorithm().info();
        let chain = matches!(offered.way, Way::Chain { .. });
        let free_key = mac_key(if chain { params.second_key() } else { params.key() });
        if (chain || has_free_key(info)) && !offered.auth.key.allows(free_key.len()) {
            return Err(unsupported("the device takes no MAC key of this length"));
        }
        if info.kind != Kind::Cipher && !offered.auth.tag.allows(params.tag_length()) {
            return Err(unsupported("the device makes no tag of this length"));
        }
        let session = Self {
            engine: engine.clone(),
            params: params.clone(),
            offered,
            exact,
            variants: std::array::from_fn(|_| OnceLock::new()),
            making: Mutex::new(()),
        };
        // One that most requests will have: whether the device takes it at all shows here.
        let decrypt = !info.kind.operations().iter().any(|operation| !operation.is_back() && params.allows(*operation));
        let iv = if info.iv.min == info.iv.max { info.iv.min } else { 12 };
        match session.variant(Shape { decrypt, iv, aad: 0, mac_only: false }) {
            Ok(_) => Ok(session),
            Err(_) => Err(unsupported("the device opens no such session, or has no room for more")),
        }
    }

    #[inline]
    fn variant(&self, shape: Shape) -> Result<&Session, Fault> {
        for variant in &self.variants {
            match variant.get() {
                Some(variant) if variant.shape == shape => return Ok(&variant.session),
                Some(_) => {}
                None => return self.make(shape),
            }
        }
        Err(Fault::Declined("a session with that many lengths of nonces and associated data"))
    }

    #[cold]
    fn make(&self, shape: Shape) -> Result<&Session, Fault> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        for variant in &self.variants {
            match variant.get() {
                Some(variant) if variant.shape == shape => return Ok(&variant.session),
                Some(_) => {}
                None => {
                    let session = self.engine.open(&self.recipe(shape));
                    let session = session.ok_or(Fault::Declined("the device opens no session for such requests"))?;
                    return Ok(&variant.get_or_init(|| Variant { shape, session }).session);
                }
            }
        }
        Err(Fault::Declined("a session with that many lengths of nonces and associated data"))
    }

    fn recipe(&self, Shape { decrypt, iv, aad, mac_only }: Shape) -> Recipe<'_> {
        let params = &self.params;
        let recipe = Recipe { decrypt, iv, aad, tag: params.tag_length(), key: params.key(), ..Recipe::default() };
        match self.offered.way {
            Way::Cipher(cipher) => Recipe { kind: CIPHER, cipher, ..recipe },
            Way::Auth(auth) => Recipe { kind: AUTH, auth, key: &[], auth_key: self.auth_key(), ..recipe },
            Way::Chain { auth, .. } if mac_only => {
                Recipe { kind: AUTH, auth, iv: 0, key: &[], auth_key: self.auth_key(), ..recipe }
            }
            Way::Aead(aead) => Recipe { kind: AEAD, aead, ..recipe },
            Way::Chain { cipher, auth } => Recipe { kind: CHAIN, cipher, auth, auth_key: self.auth_key(), ..recipe },
        }
    }

    fn auth_key(&self) -> &[u8] {
        match self.offered.way {
            Way::Chain { .. } => mac_key(self.params.second_key()),
            way if way.is_hmac() => mac_key(self.params.key()),
            _ => self.params.key(),
        }
    }

    /// What of the data in segments the device uses where they lie; `None`: they are copied.
    ///
    /// A copy of few bytes costs less than what lending them does: two more mbufs, and the count of the regions' owners.
    /// The result goes into the slot and is copied from there where it would take the place of the input: whoever runs the request
    /// after a fault needs the input as it was. So do chains, whose MAC goes over what stands before the data in one buffer. What
    /// is authenticated in foreign memory is copied as a whole: PMDs read data twice, and could authenticate other bytes than
    /// they decrypt or have encrypted.
    pub(crate) fn lendable(&self, operation: Operation, data: Scattered<'_>) -> Option<Lent> {
        let [input] = data.input.list() else { return None };
        let output = data.output.list().first()?;
        let is_cipher = matches!(operation, Operation::Encrypt | Operation::Decrypt);
        let is_foreign = [input, output].iter().any(|segment| segment.region().origin() == Origin::Foreign);
        if input.len() < self.engine.lend_from.max(1)
            || matches!(self.offered.way, Way::Chain { .. })
            || is_foreign && !is_cipher
        {
            return None;
        }
        Some(Lent::new(input, Some(output).filter(|output| writes_data(operation) && !overlap(input, output))))
    }

    /// Writes a request into its slot. `outside` are bytes of data that are not among its operands: they are in the slot already,
    /// or stay where they are.
    pub(crate) fn prepare(
        &self,
        operands: &Operands<'_>,
        outside: Option<usize>,
        room: &mut Room<'_>,
    ) -> Result<(&Session, Layout), Fault> {
        let bytes = outside.unwrap_or_else(|| operands.bytes());
        if let (None, Some(input)) = (outside, input(operands)) {
            put(room, DATA, input);
        }
        match operands {
            Operands::Cipher { operation, iv, .. } => {
                let shape = Shape { decrypt: *operation == Operation::Decrypt, iv: iv.len(), aad: 0, mac_only: false };
                self.check_counter(iv, bytes)?;
                let session = self.variant(shape)?;
                copy(&mut room.iv[..iv.len()], iv);
                Ok((session, Layout { kind: CIPHER, packet: DATA, data: bytes, tag: 0, aad: DATA }))
            }
            Operands::Digest { output, .. } => self.prepare_auth(&[], bytes, output.len(), room),
            Operands::Mac { iv, output, .. } => self.prepare_auth(iv, bytes, output.len(), room),
            Operands::Seal { iv, aad, tag, .. } => self.prepare_aead(false, iv, aad, bytes, tag.len(), room),
            Operands::Open { iv, aad, tag, .. } => {
                let prepared = self.prepare_aead(true, iv, aad, bytes, tag.len(), room)?;
                put(room, DATA + bytes, tag);
                Ok(prepared)
            }
            _ => Err(Fault::failed("a request of another kind than its session")),
        }
    }

    /// Declines what would make a counter of 32 bits wrap: the 12 bytes before it would not change.
    fn check_counter(&self, iv: &[u8], data: usize) -> Result<(), Fault> {
        if self.exact || !self.offered.way.counts() {
            return Ok(());
        }
        let counter = iv.last_chunk().map_or(0, |counter| u32::from_be_bytes(*counter));
        let blocks = data.div_ceil(16) as u64;
        let wraps = u64::from(counter) + blocks > 1 << 32;
        if wraps { Err(Fault::Declined("a counter of 32 bits, which this request would exceed")) } else { Ok(()) }
    }

    fn prepare_auth(
        &self,
        iv: &[u8],
        bytes: usize,
        tag: usize,
        room: &mut Room<'_>,
    ) -> Result<(&Session, Layout), Fault> {
        if bytes == 0 && self.offered.way.is_hmac() && !self.exact {
            return Err(Fault::Declined("no HMAC of an empty message"));
        }
        let session = self.variant(Shape { decrypt: false, iv: iv.len(), aad: 0, mac_only: false })?;
        copy(&mut room.iv[..iv.len()], iv);
        Ok((session, Layout { kind: AUTH, packet: DATA, data: bytes, tag, aad: DATA }))
    }

    fn prepare_aead(
        &self,
        decrypt: bool,
        iv: &[u8],
        aad: &[u8],
        bytes: usize,
        tag: usize,
        room: &mut Room<'_>,
    ) -> Result<(&Session, Layout), Fault> {
        if aad.len() > MOST_AAD {
            return Err(Fault::Declined("associated data up to 1024 bytes only"));
        }
        if let Way::Chain { .. } = self.offered.way {
            // The MAC goes over associated data, IV and ciphertext, which lie in a row; DPDK calls none of it AAD.
            self.check_counter(iv, bytes)?;
            // Without data, nothing is left for the cipher, and ipsec-mb does not stop at nothing.
            let mac_only = bytes == 0;
            let session = self.variant(Shape { decrypt, iv: iv.len(), aad: 0, mac_only })?;
            let kind = if mac_only { AUTH } else { CHAIN };
            let packet = DATA - IV - aad.len();
            copy(&mut room.iv[..], iv);
            put(room, packet, aad);
            put(room, DATA - IV, iv);
            return Ok((session, Layout { kind, packet, data: bytes, tag, aad: packet }));
        }
        if !self.offered.main.iv.allows(iv.len()) {
            return Err(Fault::Declined("the device takes no nonce of this length"));
        }
        if !self.offered.main.aad.allows(aad.len()) {
            return Err(Fault::Declined("the device takes no associated data of this length"));
        }
        let session = self.variant(Shape { decrypt, iv: iv.len(), aad: aad.len(), mac_only: false })?;
        let (nonce, front) = if self.offered.way.is_ccm() { (CCM_NONCE, CCM_FRONT) } else { (0, 0) };
        copy(&mut room.iv[nonce..nonce + iv.len()], iv);
        // CCM pads it to whole blocks, where it lies, and QAT reads zeros behind that of GCM (DPDK's guide, "Limitations").
        let start = DATA - (front + aad.len()).next_multiple_of(16);
        put(room, start + front, aad);
        room.buffer[start + front + aad.len()..DATA].fill(0);
        Ok((session, Layout { kind: AEAD, packet: DATA, data: bytes, tag, aad: start }))
    }
}

/// DPDK knows no empty keys, and HMAC fills up a key with zeros: one of them is the same key.
fn mac_key(key: &[u8]) -> &[u8] {
    if key.is_empty() { &[0] } else { key }
}

fn put(room: &mut Room<'_>, at: usize, bytes: &[u8]) {
    copy(&mut room.buffer[at..at + bytes.len()], bytes);
}

/// `to.copy_from_slice(from)`. Copies of a length that the compiler knows are a few instructions, others a call, and nonces,
/// headers and tags are as long as these.
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

/// Takes the result of a job out of its slot, and wipes what is secret of it. Returns the result with the bytes of messages that
/// were copied.
pub(crate) fn finish(
    job: &mut Job,
    room: &mut Room<'_>,
    status: Status,
    lent: Option<&Lent>,
) -> (Result<Outcome, Fault>, usize) {
    let operation = job.operands().operation();
    let Some(Scattered { input, output }) = job.segments() else {
        return deliver(job.operands(), None, room, status);
    };
    let bytes = input.bytes();
    let mut copied = 0;
    match (lent, status) {
        (Some(lent), Status::Done) if lent.takes_result() => {}
        (_, Status::Done) if writes_data(operation) => {
            output.write(&room.buffer[DATA..DATA + bytes]).expect("core has compared the lengths");
            copied = bytes;
        }
        // A PMD decrypts before it knows whether the tag fits.
        (Some(lent), _) => lent.wipe(),
        _ => {}
    }
    (deliver(job.operands(), Some(bytes), room, status).0, copied)
}

/// Takes what belongs to the operands out of a slot, and wipes what is secret of it. `outside` are bytes of data that are not among
/// them. Returns the bytes of messages that were copied.
pub(crate) fn deliver(
    operands: Operands<'_>,
    outside: Option<usize>,
    room: &mut Room<'_>,
    status: Status,
) -> (Result<Outcome, Fault>, usize) {
    let (data, tag_length) = (outside.unwrap_or_else(|| operands.bytes()), tag_length(&operands));
    let (text, tag) = room.buffer[DATA..DATA + data + tag_length].split_at_mut(data);
    let result = match status {
        Status::Done => Ok(Outcome::Done),
        Status::BadTag => Ok(Outcome::BadTag),
        Status::Failed(why) => Err(Fault::failed(why)),
    };
    let done = status == Status::Done;
    let mut copied = 0;
    let secret = match operands {
        Operands::Cipher { operation, data: mut to, .. } => {
            if done && outside.is_none() {
                to.output().copy_from_slice(text);
                copied = data;
            }
            operation == Operation::Decrypt
        }
        Operands::Seal { data: mut to, tag: to_tag, .. } => {
            if done {
                copy(to_tag, tag);
            }
            if done && outside.is_none() {
                to.output().copy_from_slice(text);
                copied = data + tag.len();
            }
            false
        }
        Operands::Open { data: mut to, .. } => {
            if done && outside.is_none() {
                to.output().copy_from_slice(text);
                copied = data;
            }
            true
        }
        Operands::Digest { output, .. } | Operands::Mac { output, .. } => {
            if done {
                output.copy_from_slice(tag);
                copied = tag.len();
            }
            true
        }
        _ => true,
    };
    // Ciphertext may stay where it is, plaintext not.
    if secret || !done {
        text.fill(0);
    }
    (result, copied)
}

/// The data among the operands.
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

/// Whether two segments have bytes in common.
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
        // Core does not call this of a device that is not direct.
        Err(Fault::failed("a cryptodev works through its queues only"))
    }
}

impl Drop for DpdkSession {
    fn drop(&mut self) {
        for variant in &mut self.variants {
            if let Some(Variant { session, .. }) = variant.take() {
                self.engine.close(session);
            }
        }
    }
}
