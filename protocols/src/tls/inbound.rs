//! The end that receives.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zeroize::Zeroize;

use super::epoch::{Epoch, Unfit};
use super::protection::{PSEUDO, Protection, pseudo};
use super::record::{HEADER, Header, MOST, check, content_type};
use super::suite::Layout;
use super::within;
use crate::burst::{self, Begun};
use crate::crypt::{self, Keys, Task, Work};
use crate::packet::{Packet, Refused};

/// The receiving end of an [`Epoch`]. Records are opened in the order in which they come; threads may share it, but two cannot open
/// records at the same time.
pub struct Inbound {
    protection: Protection,
    numbers: Mutex<Numbers>,
}

/// Which records were opened.
struct Numbers {
    /// The number of the next one.
    next: u64,
    /// The first number that is not opened: the last of all, or that of the first record that failed.
    end: u64,
    /// The burst that has records of this connection, or 0.
    burst: u64,
}

/// The number that no record has: there is none after it.
const LAST: u64 = u64::MAX;

impl Inbound {
    pub(super) fn new(epoch: &Epoch, protection: Protection) -> Self {
        Self { protection, numbers: Mutex::new(Numbers { next: epoch.number, end: LAST, burst: 0 }) }
    }

    /// The number of the next record.
    pub fn number(&self) -> u64 {
        self.numbers().next
    }

    /// Replaces the keys at the peer's key update (RFC 8446, 7.2): the next record has the number 0. No second end is made, because it
    /// would open the same records once more.
    ///
    /// # Errors
    /// Keys that the suite does not take, as those of AES-CBC, the last key once more, or the connection has failed. The keys stay then.
    pub fn rekey(&mut self, key: &[u8], iv: &[u8]) -> Result<(), Unfit> {
        let Numbers { end, burst, .. } = *self.numbers();
        // A burst that is left although no thread has one ended in a panic.
        if end < LAST || burst != 0 {
            return Err(Unfit::Broken);
        }
        self.protection = self.protection.rekey(key, iv)?;
        self.numbers = Mutex::new(Numbers { next: 0, end: LAST, burst: 0 });
        Ok(())
    }

    /// Makes the content from the next record, a whole one with its [header](Header), in place. Its type is
    /// [`Packet::content_type`] then.
    ///
    /// # Errors
    /// Why there is none, with which the connection ends, unless it is [`Refused::Busy`]. Nothing of the record is left, but where it was
    /// refused before a device was asked.
    pub fn open(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, open)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        // Nothing in it is half done when somebody panics; the burst stays, and nothing is opened any more.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is not encrypted, and gives the record its number. Nothing of it is changed if there is an error.
    fn take(&self, packet: &mut Packet<'_>, work: &mut Work, burst: u64) -> Result<Begun<u64>, Refused> {
        let mut numbers = self.numbers();
        if numbers.burst != 0 && numbers.burst != burst {
            return Err(Refused::Busy);
        }
        if numbers.next >= numbers.end {
            return Err(if numbers.end == LAST { Refused::Exhausted } else { Refused::Broken });
        }
        let number = numbers.next;
        let range = packet.range();
        let record = &mut packet.buffer()[range.clone()];
        if let Err(why) = self.check(record) {
            numbers.end = number;
            return Err(why);
        }
        (numbers.next, numbers.burst) = (number + 1, burst);
        drop(numbers);
        self.protection.prepare(work, number, record);
        let Layout { within, tag, .. } = self.protection.layout;
        if within {
            // The IV was copied. What the length is will be seen within.
            work.covered = work.data.start - PSEUDO..work.data.start;
            let pseudo = pseudo(number, record, 0);
            record[work.covered.clone()].copy_from_slice(&pseudo);
        } else {
            work.tag[..tag].copy_from_slice(&record[work.data.end..]);
        }
        Ok(Begun { lent: range, notes: number })
    }

    /// Whether it is a record whose lengths these keys can have made.
    fn check(&self, record: &[u8]) -> Result<(), Refused> {
        let Layout { is_13, block, within, tag, expansion, .. } = self.protection.layout;
        let header = Header::read(record)?.filter(|header| header.length == record.len());
        let header = header.ok_or(Refused::Malformed("not one whole record"))?;
        if is_13 && header.content_type != content_type::APPLICATION_DATA {
            return Err(Refused::Malformed("a record that is not protected"));
        }
        if header.length > HEADER + MOST + expansion {
            return Err(Refused::Malformed("longer than a record can be"));
        }
        // With the type of the content, or the length of the padding.
        let least = usize::from(is_13 || block > 1);
        let protected = header.length.checked_sub(self.protection.head() + tag).filter(|length| *length >= least);
        let encrypted =
            protected.ok_or(Refused::Malformed("a record that is too short"))? + if within { tag } else { 0 };
        if encrypted.is_multiple_of(block) { Ok(()) } else { Err(Refused::Malformed("a record of parts of blocks")) }
    }

    /// Where the content lies when the record was decrypted, from where its data lie in it.
    fn finish(
        &self,
        packet: &mut Packet<'_>,
        number: u64,
        done: Result<Range<usize>, Refused>,
    ) -> Result<Range<usize>, Refused> {
        let mut numbers = self.numbers();
        if number + 1 == numbers.next {
            numbers.burst = 0;
        }
        if number >= numbers.end {
            return Err(Refused::Broken);
        }
        done.and_then(|data| self.content(packet, data)).inspect_err(|_| numbers.end = number)
    }

    /// Where the content lies, without its padding; and notes its type.
    fn content(&self, packet: &mut Packet<'_>, data: Range<usize>) -> Result<Range<usize>, Refused> {
        let Layout { is_13, block, within, .. } = self.protection.layout;
        let start = packet.range().start + data.start;
        let (record, data) = (packet.data(), &packet.data()[data]);
        let (length, content_type) = if is_13 {
            let place =
                data.iter().rposition(|byte| *byte != 0).ok_or(Refused::Malformed("a record without a type"))?;
            if data.len() > MOST + 1 {
                return Err(Refused::Malformed("more content than a record can have"));
            }
            (place, data[place])
        } else if block > 1 && !within {
            // It was authenticated, so that it may be looked at as it is.
            let padding = usize::from(data[data.len() - 1]) + 1;
            let length = data.len().checked_sub(padding).ok_or(Refused::Malformed("more padding than data"))?;
            if data[length..].iter().any(|byte| usize::from(*byte) + 1 != padding) {
                return Err(Refused::Malformed("padding that is none"));
            }
            (length, record[0])
        } else {
            (data.len(), record[0])
        };
        check(content_type, length, is_13)?;
        packet.content_type = content_type;
        Ok(start..start + length)
    }
}

/// The next burst's own number.
static BURST: AtomicU64 = AtomicU64::new(1);

/// Opens records, each of its connection, as [`Inbound::open`] does; the [verdict](Packet::verdict) is in each. Records of one
/// connection come in their order. All connections are of one framework.
pub fn open(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    let id = BURST.fetch_add(1, Ordering::Relaxed);
    burst::run(
        burst,
        |connection| &connection.protection.keys,
        |connection, packet, work| connection.take(packet, work, id).map(Some),
        |tasks| {
            crypt::open(tasks);
            tasks.iter_mut().for_each(find);
        },
        |connection, packet, number, done| {
            connection.finish(packet, number, done).inspect_err(|_| {
                // It may have been decrypted before somebody saw that it cannot be delivered.
                let range = packet.range();
                packet.buffer()[range].zeroize();
            })
        },
    );
}

/// Leaves of the data what comes before their MAC, if that is within.
fn find(task: &mut Task<'_>) {
    if let Keys::Within { mac, .. } = task.keys
        && task.work.refused.is_none()
    {
        match within::find(task, mac) {
            Ok(length) => task.work.data.end = task.work.data.start + length,
            Err(why) => task.work.refused = Some(why),
        }
    }
}

impl fmt::Debug for Inbound {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS {:?} in, at {}", self.protection.suite, self.number())
    }
}

#[cfg(test)]
mod tests {
    use gantry_core::Gantry;
    use gantry_driver_software::SoftwareDriver;

    use super::super::{Aead, Suite};
    use super::*;

    #[test]
    fn the_records_of_a_connection_are_in_one_burst_at_a_time() {
        let gantry = Gantry::builder().driver(&SoftwareDriver).build();
        let epoch = || Epoch::new(Suite::Tls13(Aead::AesGcm), &[1; 16], &[2; 12]);
        let back = epoch().inbound(&gantry).unwrap();
        let mut records = [[0; 40]; 4];
        let mut packets: Vec<Packet<'_>> = records
            .iter_mut()
            .map(|record| {
                Header { content_type: 23, length: 40 }.write(record);
                Packet::new(record, 0..40)
            })
            .collect();
        let mut take = |at: usize, burst| {
            let mut work = Work::default();
            back.take(&mut packets[at], &mut work, burst).map(|begun| begun.notes)
        };
        let (first, second) = (take(0, 1).unwrap(), take(1, 1).unwrap());
        assert_eq!(take(2, 2), Err(Refused::Busy));
        let mut whole = [0; 40];
        // What was decrypted: a byte of content, its type, and zeros.
        whole[5..7].copy_from_slice(&[1, 23]);
        let mut finish = |number, why: Option<Refused>| {
            back.finish(&mut Packet::new(&mut whole, 0..40), number, why.map_or(Ok(5..24), Err))
        };
        assert_eq!(finish(first, None), Ok(5..6));
        assert_eq!(take(2, 2), Err(Refused::Busy), "another is not known to be right");
        assert_eq!(finish(second, None), Ok(5..6));
        assert_eq!((take(2, 2), take(3, 2), back.number()), (Ok(2), Ok(3), 4));
        assert_eq!(finish(2, Some(Refused::Forged)), Err(Refused::Forged));
        assert_eq!(finish(3, None), Err(Refused::Broken));
        assert_eq!(take(3, 3), Err(Refused::Broken));
    }
}
