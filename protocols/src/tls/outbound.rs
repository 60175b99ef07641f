//! The end that sends.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::Process;

use super::epoch::{Epoch, Unfit};
use super::protection::{PSEUDO, Protection, pseudo};
use super::record::{HEADER, Header, MOST, check, content_type};
use super::suite::Layout;
use crate::burst::{self, Begun};
use crate::crypt::{self, Work};
use crate::packet::{Packet, Refused};

/// The sending end of an [`Epoch`]. Threads may share it, and each record has a number of its own; but the peer opens records in the
/// order of their numbers, so that whoever sends from several threads seals and sends under one lock.
pub struct Outbound {
    protection: Protection,
    pad_to: usize,
    /// The number of the next record.
    next: AtomicU64,
    /// The first number that no record gets: the limit of the keys, or of the first record that failed.
    end: AtomicU64,
    /// The only process that has its numbers, also of later keys: another one would get the same keys from the same secret.
    process: Process,
}

/// Where a record lies when it is done, and its number.
struct Framed {
    whole: Range<usize>,
    number: u64,
}

impl Outbound {
    pub(super) fn new(epoch: &Epoch, protection: Protection, process: Process) -> Self {
        let (next, end) = (AtomicU64::new(epoch.number), AtomicU64::new(protection.layout.most));
        Self { protection, pad_to: epoch.pad_to, next, end, process }
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Records that are left under these keys: in TLS 1.3 so many that AES-GCM stays safe (2^24.5; RFC 8446, 5.5) or AES-CCM
    /// (2^23; RFC 9147, 4.5.3). Keys are [replaced](Self::rekey) before there are none.
    ///
    /// TLS 1.2 cannot replace keys, and every number may be used; a caller who transfers terabytes with it makes new connections.
    pub fn remaining(&self) -> u64 {
        self.end.load(Ordering::Relaxed).saturating_sub(self.number())
    }

    /// Most bytes that sealing adds before the content, and behind it.
    pub fn room(&self) -> (usize, usize) {
        let Layout { is_13, block, tag, .. } = self.protection.layout;
        let behind = match block {
            _ if is_13 => self.pad_to,
            1 => 0,
            block => block,
        };
        (self.protection.head(), behind + tag)
    }

    /// Replaces the keys at a key update (RFC 8446, 7.2): the next record has the number 0. Records that were sealed before it are sent
    /// before. No second end is made, because it would use the same nonces.
    ///
    /// # Errors
    /// Keys that the suite does not take, as those of AES-CBC, the last key once more, or the connection has failed. The keys stay then.
    pub fn rekey(&mut self, key: &[u8], iv: &[u8]) -> Result<(), Unfit> {
        if self.has_failed() {
            return Err(Unfit::Broken);
        }
        self.protection = self.protection.rekey(key, iv)?;
        (self.next, self.end) = (AtomicU64::new(0), AtomicU64::new(self.protection.layout.most));
        Ok(())
    }

    /// Makes a record of the packet, which holds content of its [type](Packet::content_type), in place.
    ///
    /// # Errors
    /// Why there is none. Where no device was asked yet the packet is as it was, and has no number; else nothing of it is left, and the
    /// connection has failed, because its number is used up and the peer waits for it.
    pub fn seal(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, seal)
    }

    fn has_failed(&self) -> bool {
        self.end.load(Ordering::Relaxed) < self.protection.layout.most
    }

    /// The next number, which nobody else gets.
    fn take_number(&self) -> Result<u64, Refused> {
        let next = |next: u64| (next < self.end.load(Ordering::Relaxed)).then(|| next + 1);
        let number = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        number.map_err(|_| if self.has_failed() { Refused::Broken } else { Refused::Exhausted })
    }

    /// Writes all of the record but what devices do. Nothing is changed if there is an error.
    fn frame(&self, packet: &mut Packet<'_>, work: &mut Work) -> Result<Begun<Framed>, Refused> {
        let Layout { is_13, explicit, block, within, tag, .. } = self.protection.layout;
        if !self.process.is_current() {
            return Err(Refused::Forked);
        }
        let (length, inner_type) = (packet.data().len(), packet.content_type);
        check(inner_type, length, is_13)?;
        // The content with what is encrypted behind it.
        let data = if is_13 {
            (length + 1).next_multiple_of(self.pad_to).min(MOST + 1)
        } else if block > 1 {
            // One byte of padding at least, which says how many there are.
            (length + if within { tag } else { 0 } + 1).next_multiple_of(block)
        } else {
            length
        };
        let (head, tail) = (self.protection.head(), data - length + if within { 0 } else { tag });
        packet.has_room(head, tail)?;
        let whole = packet.range().start - head..packet.range().end + tail;
        let number = self.take_number()?;
        let record = &mut packet.buffer()[whole.clone()];
        let outer_type = if is_13 { content_type::APPLICATION_DATA } else { inner_type };
        Header { content_type: outer_type, length: record.len() }.write(record);
        if explicit == 8 {
            // A counter never comes twice, and the number is one (RFC 5288, 3).
            record[HEADER..head].copy_from_slice(&number.to_be_bytes());
        }
        let (content_end, data_end) = (head + length, head + data);
        if is_13 {
            record[content_end] = inner_type;
            record[content_end + 1..data_end].fill(0);
        } else if block > 1 {
            let from = content_end + if within { tag } else { 0 };
            record[from..data_end].fill((data_end - from - 1) as u8);
        }
        self.protection.prepare(work, number, record);
        if within {
            // The IV comes later to where this is.
            work.covered = head - PSEUDO..content_end;
            let pseudo = pseudo(number, record, length);
            record[head - PSEUDO..head].copy_from_slice(&pseudo);
        }
        Ok(Begun { lent: whole.clone(), notes: Framed { whole, number } })
    }

    /// Where a record lies that devices are done with.
    fn finish(&self, framed: Framed, done: Result<Range<usize>, Refused>) -> Result<Range<usize>, Refused> {
        let Framed { whole, number } = framed;
        // The peer will not open what comes behind a number that is missing.
        let end = self.end.fetch_min(if done.is_err() { number } else { u64::MAX }, Ordering::Relaxed);
        if number < end { done.map(|_| whole) } else { Err(Refused::Broken) }
    }
}

/// Seals records, each of its connection, as [`Outbound::seal`] does; the [verdict](Packet::verdict) is in each. All connections are of
/// one framework.
pub fn seal(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    burst::run(
        burst,
        |connection| &connection.protection.keys,
        |connection, packet, work| connection.frame(packet, work).map(Some),
        |tasks| {
            crypt::randomize(tasks, HEADER);
            crypt::seal(tasks);
        },
        |connection, _, framed, done| connection.finish(framed, done),
    );
}

impl fmt::Debug for Outbound {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS {:?} out, at {}", self.protection.suite, self.number())
    }
}
