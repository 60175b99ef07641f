//! The devices' work on a burst of ESP, SRTP or TLS packets: one batch per step.

use std::ops::Range;

use gantry_core::driver::Operands;
use gantry_core::esp::write_trailer;
use gantry_core::{Buffers, Error, Operation, Outcome, Request, Session, tags_equal};
use smallvec::SmallVec;
use zeroize::Zeroize;

use crate::packet::PacketError;
use crate::whole_packet::{self, PacketFields};

/// The keys of one direction of an association.
#[derive(Debug)]
pub(crate) enum Keys {
    /// One operation encrypts and authenticates.
    Combined(Session),
    /// One operation encrypts, unless the suite has no encryption; another authenticates the ciphertext.
    Separate {
        /// Encrypts.
        cipher: Option<Session>,
        /// Authenticates.
        mac: Session,
    },
    /// A device processes the whole packet in one operation, where this takes less time than the parts.
    WholePacket {
        /// Processes the whole packet.
        packet: Session,
        /// Encrypts and authenticates the parts of the packet.
        parts: Box<Keys>,
    },
    /// One operation authenticates; another encrypts the data together with the MAC (MAC-then-encrypt).
    MacThenEncrypt {
        /// Encrypts.
        cipher: Session,
        /// Authenticates.
        mac: Session,
    },
}

impl Keys {
    /// Returns the size of an integrity check value, in bytes.
    pub(crate) fn tag_len(&self) -> usize {
        let session = match self {
            Keys::Combined(session)
            | Keys::Separate { mac: session, .. }
            | Keys::WholePacket { packet: session, .. }
            | Keys::MacThenEncrypt { mac: session, .. } => session,
        };
        session.params().tag_len()
    }
}

/// Bytes of the longest integrity check value: HMAC-SHA-384's in TLS.
const MAX_TAG_LEN: usize = 48;

/// Bytes of an unpredictable IV: AES-CBC's.
pub(crate) const RANDOM_IV_LEN: usize = 16;

/// Up to 16 bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct ShortBytes {
    bytes: [u8; 16],
    length: u8,
}

impl ShortBytes {
    /// Concatenates three fields of at most 16 bytes in all; the third may be empty. The lengths are constants, because a copy of a
    /// constant length is cheaper.
    pub(crate) fn concat<const N: usize>(first: [u8; 4], second: [u8; 8], third: [u8; N]) -> Self {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&first);
        bytes[4..12].copy_from_slice(&second);
        bytes[12..12 + N].copy_from_slice(&third);
        Self { bytes, length: (12 + N) as u8 }
    }

    /// Copies a field of at most 16 bytes.
    pub(crate) fn from_field<const N: usize>(field: [u8; N]) -> Self {
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(&field);
        Self { bytes, length: N as u8 }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

/// Additional authenticated data.
#[derive(Clone)]
pub(crate) enum Aad {
    /// Bytes of the packet before the data.
    Packet(Range<usize>),
    /// Bytes that do not lie in the packet in this form.
    Other(ShortBytes),
    /// All bytes before the integrity check value, including the data, which are not encrypted.
    WholePacket,
}

/// The work on one packet. Ranges are relative to [`Task::packet`].
pub(crate) struct Work {
    /// IV or nonce.
    pub(crate) iv: ShortBytes,
    /// AAD of combined keys.
    pub(crate) aad: Aad,
    /// Range of the data to encrypt or decrypt.
    pub(crate) data: Range<usize>,
    /// Range that the MAC covers, for keys with a separate MAC. With [`Keys::MacThenEncrypt`], [`seal`] writes the MAC after it.
    pub(crate) mac_range: Range<usize>,
    /// The integrity check value, computed by [`seal`], checked by [`open`].
    pub(crate) tag: [u8; MAX_TAG_LEN],
    /// Fields that a device reads or sets if it processes the whole packet.
    pub(crate) fields: PacketFields,
    /// The reason to stop processing the packet, if there is one.
    pub(crate) refusal: Option<PacketError>,
}

impl Default for Work {
    fn default() -> Self {
        let (iv, aad) = (ShortBytes::default(), Aad::Packet(0..0));
        let fields = PacketFields::default();
        Self { iv, aad, data: 0..0, mac_range: 0..0, tag: [0; MAX_TAG_LEN], fields, refusal: None }
    }
}

/// A packet with its work.
pub(crate) struct Task<'p> {
    pub(crate) keys: &'p Keys,
    /// The part of the packet that devices process, including the integrity check value.
    pub(crate) packet: &'p mut [u8],
    pub(crate) work: &'p mut Work,
}

/// The packets of a burst that have work. Most bursts fit without an allocation.
pub(crate) type Tasks<'p> = SmallVec<[Task<'p>; 32]>;

/// One operation on a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Seal,
    Open,
    Encrypt,
    Decrypt,
    Mac,
    /// The MAC that is encrypted with the data.
    EncryptedMac,
    /// Seals the whole packet.
    SealWholePacket,
    /// Opens the whole packet.
    OpenWholePacket,
}

/// Replaces the keys of a whole packet by the keys of its parts if devices need less time for the parts.
pub(crate) fn choose_whole_or_parts(tasks: &mut [Task<'_>], operation: Operation) {
    let (mut requests, mut bytes) = (0, 0);
    for task in tasks.iter().filter(|task| task.is_whole_packet()) {
        (requests, bytes) = (requests + 1, bytes + task.packet.len());
    }
    for task in tasks {
        // A task for a whole packet was counted above, so `requests` is not 0 in the division.
        if let Keys::WholePacket { packet: whole, parts } = task.keys
            && let Keys::Combined(combined) = &**parts
            && !whole_packet::is_faster(whole, combined, operation, requests, bytes / requests)
        {
            task.keys = parts;
        }
    }
}

/// Draws unpredictable IVs for the packets that have room for an IV between the first `header_len` bytes and the data.
pub(crate) fn draw_random_ivs(tasks: &mut [Task<'_>], header_len: usize) {
    let needs_iv = |task: &&mut Task<'_>| task.work.data.start == header_len + RANDOM_IV_LEN && !task.is_whole_packet();
    let count = tasks.iter_mut().filter(needs_iv).count();
    if count == 0 {
        return;
    }
    let mut ivs = SmallVec::<[u8; 32 * RANDOM_IV_LEN]>::from_elem(0, count * RANDOM_IV_LEN);
    let result = getrandom::fill(&mut ivs);
    for (task, iv) in tasks.iter_mut().filter(needs_iv).zip(ivs.as_chunks::<RANDOM_IV_LEN>().0) {
        if result.is_err() {
            task.work.refusal = Some(PacketError::Entropy);
        }
        task.work.iv = ShortBytes::from_field(*iv);
        // With `Keys::MacThenEncrypt`, the place of the IV still holds the pseudo-header.
        if !task.is_mac_then_encrypt() {
            task.write_iv();
        }
    }
}

/// Encrypts the data of every packet, and writes the tags into the packets.
pub(crate) fn seal(tasks: &mut [Task<'_>]) {
    run_step(tasks, Step::SealWholePacket);
    run_step(tasks, Step::EncryptedMac);
    for task in tasks.iter_mut().filter(|task| task.is_mac_then_encrypt()) {
        let (offset, length) = (task.work.mac_range.end, task.keys.tag_len());
        task.packet[offset..offset + length].copy_from_slice(&task.work.tag[..length]);
        task.write_iv();
    }
    for step in [Step::Seal, Step::Encrypt, Step::Mac] {
        run_step(tasks, step);
    }
    for Task { keys, packet, work } in
        tasks.iter_mut().filter(|task| !task.is_mac_then_encrypt() && !task.is_whole_packet())
    {
        let (length, offset) = (keys.tag_len(), packet.len() - keys.tag_len());
        packet[offset..].copy_from_slice(&work.tag[..length]);
    }
}

/// Checks every tag, and decrypts the data of packets with a right tag. With [`Keys::MacThenEncrypt`] the caller checks the MAC
/// afterwards.
pub(crate) fn open(tasks: &mut [Task<'_>]) {
    run_step(tasks, Step::OpenWholePacket);
    for task in tasks.iter_mut().filter(|task| task.is_whole_packet() && task.work.refusal.is_none()) {
        // The device returns length and next header, and need not leave the trailer in the packet. The caller reads it there.
        let PacketFields { payload_len, next_header, .. } = task.work.fields;
        write_trailer(&mut task.packet[task.work.data.clone()], payload_len, next_header);
    }
    run_step(tasks, Step::Open);
    if tasks.iter().all(|task| matches!(task.keys, Keys::Combined(_) | Keys::WholePacket { .. })) {
        return;
    }
    // The computed tag overwrites the received one.
    let received: SmallVec<[_; 32]> = tasks.iter().map(|task| task.work.tag).collect();
    run_step(tasks, Step::Mac);
    for (task, received) in tasks.iter_mut().zip(received) {
        let length = task.keys.tag_len();
        if task.is_separate()
            && task.work.refusal.is_none()
            && !tags_equal(&task.work.tag[..length], &received[..length])
        {
            task.work.refusal = Some(PacketError::Forged);
        }
        // The right tag of a forged packet must not leak to its sender.
        task.work.tag.zeroize();
    }
    run_step(tasks, Step::Decrypt);
}

impl<'p> Task<'p> {
    fn is_separate(&self) -> bool {
        matches!(self.keys, Keys::Separate { .. })
    }

    fn is_whole_packet(&self) -> bool {
        matches!(self.keys, Keys::WholePacket { .. })
    }

    fn is_mac_then_encrypt(&self) -> bool {
        matches!(self.keys, Keys::MacThenEncrypt { .. })
    }

    /// Writes the IV before the data.
    fn write_iv(&mut self) {
        let (iv, end) = (self.work.iv.bytes(), self.work.data.start);
        self.packet[end - iv.len()..end].copy_from_slice(iv);
    }

    /// Returns the IV, the AAD, the data, and the tag.
    fn iv_aad_data_tag(&mut self) -> (&[u8], &[u8], &mut [u8], &mut [u8]) {
        let work = &mut *self.work;
        let start = if matches!(work.aad, Aad::WholePacket) { work.data.end } else { work.data.start };
        let (before, data) = self.packet.split_at_mut(start);
        let aad = match &work.aad {
            Aad::Packet(range) => &before[range.clone()],
            Aad::Other(bytes) => bytes.bytes(),
            Aad::WholePacket => before,
        };
        (work.iv.bytes(), aad, &mut data[..work.data.end - start], &mut work.tag[..self.keys.tag_len()])
    }

    /// Returns the session for a step if these keys have one and the packet is not refused.
    fn session(&self, step: Step) -> Option<&'p Session> {
        let session = match (self.keys, step) {
            (Keys::Combined(session), Step::Seal | Step::Open) => Some(session),
            (Keys::WholePacket { packet: whole, .. }, Step::SealWholePacket | Step::OpenWholePacket) => Some(whole),
            (Keys::Separate { cipher, .. }, Step::Encrypt | Step::Decrypt) => cipher.as_ref(),
            (Keys::MacThenEncrypt { cipher, .. }, Step::Encrypt | Step::Decrypt) => Some(cipher),
            (Keys::Separate { mac, .. }, Step::Mac) | (Keys::MacThenEncrypt { mac, .. }, Step::EncryptedMac) => {
                Some(mac)
            }
            _ => None,
        };
        // A packet without payload has nothing to encrypt.
        let is_empty = matches!(step, Step::Encrypt | Step::Decrypt) && self.work.data.is_empty();
        session.filter(|_| self.work.refusal.is_none() && !is_empty)
    }

    fn operands(&mut self, step: Step) -> Operands<'_> {
        if matches!(step, Step::Mac | Step::EncryptedMac) {
            let length = self.keys.tag_len();
            let Work { mac_range, tag, .. } = &mut *self.work;
            return Operands::Mac { iv: &[], input: &self.packet[mac_range.clone()], output: &mut tag[..length] };
        }
        if matches!(step, Step::SealWholePacket | Step::OpenWholePacket) {
            let operation = if step == Step::SealWholePacket { Operation::Protect } else { Operation::Unprotect };
            let PacketFields { number, payload_len, next_header } = &mut self.work.fields;
            return Operands::Packet { operation, number: *number, packet: self.packet, payload_len, next_header };
        }
        let (iv, aad, data, tag) = self.iv_aad_data_tag();
        let data = Buffers::InPlace(data);
        match step {
            Step::Seal => Operands::Seal { iv, aad, data, tag },
            Step::Open => Operands::Open { iv, aad, data, tag },
            Step::Encrypt => Operands::Cipher { operation: Operation::Encrypt, iv, data },
            _ => Operands::Cipher { operation: Operation::Decrypt, iv, data },
        }
    }

    /// Records the result of a step.
    fn record_result(&mut self, result: Result<Outcome, Error>) {
        self.work.refusal = match result {
            Ok(Outcome::Done) => return,
            Ok(Outcome::BadTag) => Some(PacketError::Forged),
            Ok(Outcome::Malformed) => Some(PacketError::Malformed("invalid padding")),
            Ok(Outcome::BadLength) => Some(PacketError::Malformed("not a whole number of cipher blocks")),
            Ok(outcome) => Some(PacketError::Device(Error::Refused(outcome))),
            Err(error) => Some(PacketError::Device(error)),
        };
    }
}

/// Runs one step as one batch, on all packets whose keys have this step.
fn run_step(tasks: &mut [Task<'_>], step: Step) {
    if let [task] = tasks {
        if let Some(session) = task.session(step) {
            let result = session.run(task.operands(step));
            task.record_result(result);
        }
        return;
    }
    let sessions: SmallVec<[&Session; 32]> = tasks.iter().filter_map(|task| task.session(step)).collect();
    if sessions.is_empty() {
        return;
    }
    let has_step = |task: &&mut Task<'_>| task.session(step).is_some();
    let mut requests = Vec::with_capacity(sessions.len());
    requests.extend(tasks.iter_mut().filter(has_step).map(|task| Request::from(task.operands(step))));
    // If the call fails, each request has its error as the result.
    let _ = Session::process_each(&sessions, &mut requests);
    let results: SmallVec<[_; 32]> = requests.iter_mut().map(Request::result).collect();
    drop(requests);
    for (task, result) in tasks.iter_mut().filter(has_step).zip(results) {
        task.record_result(result);
    }
}
