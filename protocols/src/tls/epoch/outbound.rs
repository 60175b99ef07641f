//! The sending end of a TLS connection.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::Process;

use super::super::record::{HEADER_LEN, Header, MAX_CONTENT, check_content, content_type};
use super::super::suite::Layout;
use super::protection::{PSEUDO_HEADER_LEN, Protection, pseudo_header};
use super::{Epoch, ParameterError};
use crate::burst::{self, FramedPacket};
use crate::crypt::{self, Work};
use crate::packet::{Packet, PacketError};

/// The sending end of an [`Epoch`]. Threads may share it: each record gets its own number. The peer opens records in the order of their
/// numbers, so a program with several sending threads must seal and send under one lock.
pub struct Outbound {
    protection: Protection,
    pad_to: usize,
    /// The number of the next record.
    next_number: AtomicU64,
    /// The first number that no record gets: the limit of the keys, or the number of the first failed record.
    end_number: AtomicU64,
    /// The only process that may use the numbers, also under later keys: another process would derive the same keys from the same secret.
    process: Process,
}

/// A record's final range and its number.
struct FramedRecord {
    whole: Range<usize>,
    number: u64,
}

impl Outbound {
    pub(super) fn new(epoch: &Epoch, protection: Protection, process: Process) -> Self {
        let (next_number, end_number) = (AtomicU64::new(epoch.number), AtomicU64::new(protection.layout.max_records));
        Self { protection, pad_to: epoch.pad_to, next_number, end_number, process }
    }

    /// Returns the number of the next record.
    pub fn number(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }

    /// Returns the count of records left under these keys. In TLS 1.3 the limit keeps AES-GCM (2^24.5; RFC 8446, 5.5) and AES-CCM (2^23;
    /// RFC 9147, 4.5.3) safe. [Replace](Self::rekey) the keys before the count is 0.
    ///
    /// TLS 1.2 cannot replace keys, so its count ignores these limits and includes every number. To transfer terabytes with it, make new
    /// connections.
    pub fn remaining(&self) -> u64 {
        self.end_number.load(Ordering::Relaxed).saturating_sub(self.number())
    }

    /// Returns the most bytes that sealing adds before and after the content.
    pub fn room(&self) -> (usize, usize) {
        let Layout { is_13, block_size, tag_len, .. } = self.protection.layout;
        let behind = match block_size {
            _ if is_13 => self.pad_to,
            1 => 0,
            block => block,
        };
        (self.protection.head_len(), behind + tag_len)
    }

    /// Replaces the keys at a key update (RFC 8446, 7.2): the next record has the number 0. Before the call, send the records sealed under
    /// the old keys. This end changes in place, because a second end under the same keys would use the same nonces.
    ///
    /// # Errors
    /// Fails for keys that the suite does not accept, for AES-CBC, for the key already in use, or if the connection has failed. The keys
    /// then stay.
    pub fn rekey(&mut self, key: &[u8], iv: &[u8]) -> Result<(), ParameterError> {
        if self.has_failed() {
            return Err(ParameterError::Broken);
        }
        self.protection = self.protection.rekey(key, iv)?;
        (self.next_number, self.end_number) = (AtomicU64::new(0), AtomicU64::new(self.protection.layout.max_records));
        Ok(())
    }

    /// Seals content of the packet's [type](Packet::content_type) as a record, in place.
    ///
    /// # Errors
    /// Returns why the content was refused. The content is unchanged and has no number if it was refused before encryption. Otherwise it is
    /// lost, and the connection has failed, because the number is used up and the peer waits for it.
    pub fn seal(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, seal)
    }

    fn has_failed(&self) -> bool {
        self.end_number.load(Ordering::Relaxed) < self.protection.layout.max_records
    }

    /// Takes the next number.
    fn take_number(&self) -> Result<u64, PacketError> {
        let next = |next: u64| (next < self.end_number.load(Ordering::Relaxed)).then(|| next + 1);
        let number = self.next_number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        number.map_err(|_| if self.has_failed() { PacketError::Broken } else { PacketError::Exhausted })
    }

    /// Writes all of the record except the devices' part. Changes nothing if it fails.
    fn frame(&self, packet: &mut Packet<'_>, work: &mut Work) -> Result<FramedPacket<FramedRecord>, PacketError> {
        let Layout { is_13, explicit_iv_len, block_size, encrypts_tag, tag_len, .. } = self.protection.layout;
        if !self.process.is_current() {
            return Err(PacketError::Forked);
        }
        let (length, inner_type) = (packet.data().len(), packet.content_type);
        check_content(inner_type, length, is_13)?;
        // The length of the content and of the encrypted bytes after it.
        let data = if is_13 {
            (length + 1).next_multiple_of(self.pad_to).min(MAX_CONTENT + 1)
        } else if block_size > 1 {
            // The padding has at least one byte, because its last byte states its length.
            (length + if encrypts_tag { tag_len } else { 0 } + 1).next_multiple_of(block_size)
        } else {
            length
        };
        let (head, tail) = (self.protection.head_len(), data - length + if encrypts_tag { 0 } else { tag_len });
        packet.check_room(head, tail)?;
        let whole = packet.range().start - head..packet.range().end + tail;
        let number = self.take_number()?;
        let record = &mut packet.buffer()[whole.clone()];
        let outer_type = if is_13 { content_type::APPLICATION_DATA } else { inner_type };
        Header { content_type: outer_type, length: record.len() }.write(record);
        if explicit_iv_len == 8 {
            // The number is a counter, so the nonce never repeats (RFC 5288, 3).
            record[HEADER_LEN..head].copy_from_slice(&number.to_be_bytes());
        }
        let (content_end, data_end) = (head + length, head + data);
        if is_13 {
            record[content_end] = inner_type;
            record[content_end + 1..data_end].fill(0);
        } else if block_size > 1 {
            let from = content_end + if encrypts_tag { tag_len } else { 0 };
            record[from..data_end].fill((data_end - from - 1) as u8);
        }
        self.protection.fill_work(work, number, record);
        if encrypts_tag {
            // The IV overwrites the pseudo-header later.
            work.mac_range = head - PSEUDO_HEADER_LEN..content_end;
            let pseudo_header = pseudo_header(number, record, length);
            record[head - PSEUDO_HEADER_LEN..head].copy_from_slice(&pseudo_header);
        }
        Ok(FramedPacket { device_range: whole.clone(), state: FramedRecord { whole, number } })
    }

    /// Returns the final range of a record after the devices' work.
    fn finish(
        &self,
        framed: FramedRecord,
        done: Result<Range<usize>, PacketError>,
    ) -> Result<Range<usize>, PacketError> {
        let FramedRecord { whole, number } = framed;
        // The peer opens no record after a missing number.
        let end = self.end_number.fetch_min(if done.is_err() { number } else { u64::MAX }, Ordering::Relaxed);
        if number < end { done.map(|_| whole) } else { Err(PacketError::Broken) }
    }
}

/// Seals records, each on its connection, as [`Outbound::seal`] does. Each record has its own [verdict](Packet::verdict). All
/// connections must belong to one framework.
pub fn seal(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    burst::run(
        burst,
        |connection| &connection.protection.keys,
        |connection, packet, work| connection.frame(packet, work).map(Some),
        |tasks| {
            crypt::draw_random_ivs(tasks, HEADER_LEN);
            crypt::seal(tasks);
        },
        |connection, _, framed, done| connection.finish(framed, done),
    );
}

impl fmt::Debug for Outbound {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS {:?} out, at {}", self.protection.suite, self.number())
    }
}
