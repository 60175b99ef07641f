//! The receiving end of a TLS connection.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zeroize::Zeroize;

use super::super::mac_then_encrypt;
use super::super::record::{HEADER_LEN, Header, MAX_CONTENT, check_content, content_type};
use super::super::suite::Layout;
use super::protection::{PSEUDO_HEADER_LEN, Protection, pseudo_header};
use super::{Epoch, ParameterError};
use crate::burst::{self, FramedPacket};
use crate::crypt::{self, Keys, Task, Work};
use crate::packet::{Packet, PacketError};

/// The receiving end of an [`Epoch`]. Records are opened in the order in which they arrive. Threads may share an end, but only one thread
/// at a time can open records.
pub struct Inbound {
    protection: Protection,
    state: Mutex<RecordState>,
}

/// The progress of a connection, as record numbers.
struct RecordState {
    /// The number of the next record.
    next_number: u64,
    /// The first number that must not be opened: the limit, or the number of the first failed record.
    end_number: u64,
    /// The burst that is opening records of this connection, or 0.
    current_burst: u64,
}

/// The number that no record may have, because no number could follow it.
const END_OF_NUMBERS: u64 = u64::MAX;

impl Inbound {
    pub(super) fn new(epoch: &Epoch, protection: Protection) -> Self {
        Self {
            protection,
            state: Mutex::new(RecordState { next_number: epoch.number, end_number: END_OF_NUMBERS, current_burst: 0 }),
        }
    }

    /// Returns the number of the next record.
    pub fn number(&self) -> u64 {
        self.state().next_number
    }

    /// Replaces the keys at the peer's key update (RFC 8446, 7.2): the next record has the number 0. This end changes in
    /// place, because a second end under the same keys would open the same records again.
    ///
    /// # Errors
    /// Fails for keys that the suite does not accept, for AES-CBC, for the key already in use, or if the connection has failed. The keys
    /// then stay.
    pub fn rekey(&mut self, key: &[u8], iv: &[u8]) -> Result<(), ParameterError> {
        let RecordState { end_number, current_burst, .. } = *self.state();
        // No thread can be opening records here, so a burst that is still set ended in a panic.
        if end_number < END_OF_NUMBERS || current_burst != 0 {
            return Err(ParameterError::Broken);
        }
        self.protection = self.protection.rekey(key, iv)?;
        self.state = Mutex::new(RecordState { next_number: 0, end_number: END_OF_NUMBERS, current_burst: 0 });
        Ok(())
    }

    /// Opens the next record in place: one whole record with its [header](Header). [`Packet::content_type`] is then the content's type.
    ///
    /// # Errors
    /// Returns why the record was refused. Every error except [`PacketError::Busy`] ends the connection. The record's contents are lost,
    /// unless it was refused before decryption.
    pub fn open(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, open)
    }

    fn state(&self) -> MutexGuard<'_, RecordState> {
        // A panic cannot leave the numbers inconsistent. The field `current_burst` stays set, so that no further record is opened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the unencrypted fields, and takes the record's number. Does not change the record if it fails.
    fn parse(&self, packet: &mut Packet<'_>, work: &mut Work, burst: u64) -> Result<FramedPacket<u64>, PacketError> {
        let mut state = self.state();
        if state.current_burst != 0 && state.current_burst != burst {
            return Err(PacketError::Busy);
        }
        if state.next_number >= state.end_number {
            return Err(if state.end_number == END_OF_NUMBERS { PacketError::Exhausted } else { PacketError::Broken });
        }
        let number = state.next_number;
        let range = packet.range();
        let record = &mut packet.buffer()[range.clone()];
        if let Err(error) = self.check_record(record) {
            state.end_number = number;
            return Err(error);
        }
        (state.next_number, state.current_burst) = (number + 1, burst);
        drop(state);
        self.protection.fill_work(work, number, record);
        let Layout { encrypts_tag, tag_len, .. } = self.protection.layout;
        if encrypts_tag {
            // The pseudo-header overwrites the IV, which `fill_work` has copied. The length in it is not known yet, and is written later.
            work.mac_range = work.data.start - PSEUDO_HEADER_LEN..work.data.start;
            let pseudo_header = pseudo_header(number, record, 0);
            record[work.mac_range.clone()].copy_from_slice(&pseudo_header);
        } else {
            work.tag[..tag_len].copy_from_slice(&record[work.data.end..]);
        }
        Ok(FramedPacket { device_range: range, state: number })
    }

    /// Refuses a record with a type or length that these keys cannot have produced.
    fn check_record(&self, record: &[u8]) -> Result<(), PacketError> {
        let Layout { is_13, block_size, encrypts_tag, tag_len, max_expansion, .. } = self.protection.layout;
        let header = Header::read(record)?.filter(|header| header.length == record.len());
        let header = header.ok_or(PacketError::Malformed("not exactly one complete record"))?;
        if is_13 && header.content_type != content_type::APPLICATION_DATA {
            return Err(PacketError::Malformed("an unprotected record"));
        }
        if header.length > HEADER_LEN + MAX_CONTENT + max_expansion {
            return Err(PacketError::Malformed("longer than a record may be"));
        }
        // The data has at least one byte: the type of the content, or the length of the padding.
        let min_len = usize::from(is_13 || block_size > 1);
        let protected =
            header.length.checked_sub(self.protection.head_len() + tag_len).filter(|length| *length >= min_len);
        let encrypted = protected.ok_or(PacketError::Malformed("the record is too short"))?
            + if encrypts_tag { tag_len } else { 0 };
        if encrypted.is_multiple_of(block_size) {
            Ok(())
        } else {
            Err(PacketError::Malformed("not a whole number of cipher blocks"))
        }
    }

    /// Returns the range of a decrypted record's content. `done` is the range of its data in the record.
    fn finish(
        &self,
        packet: &mut Packet<'_>,
        number: u64,
        done: Result<Range<usize>, PacketError>,
    ) -> Result<Range<usize>, PacketError> {
        let mut state = self.state();
        // If no higher number was taken, this record is the last of its burst, because a burst finishes its records in order.
        if number + 1 == state.next_number {
            state.current_burst = 0;
        }
        if number >= state.end_number {
            return Err(PacketError::Broken);
        }
        done.and_then(|data| self.content(packet, data)).inspect_err(|_| state.end_number = number)
    }

    /// Returns the range of the content without its padding, and stores the content's type in the packet.
    fn content(&self, packet: &mut Packet<'_>, data: Range<usize>) -> Result<Range<usize>, PacketError> {
        let Layout { is_13, block_size, encrypts_tag, .. } = self.protection.layout;
        let start = packet.range().start + data.start;
        let (record, data) = (packet.data(), &packet.data()[data]);
        let (length, content_type) = if is_13 {
            let offset = data
                .iter()
                .rposition(|byte| *byte != 0)
                .ok_or(PacketError::Malformed("a record without a content type"))?;
            if data.len() > MAX_CONTENT + 1 {
                return Err(PacketError::Malformed("more content than a record may have"));
            }
            (offset, data[offset])
        } else if block_size > 1 && !encrypts_tag {
            // The padding was authenticated, so this check need not take constant time.
            let padding = usize::from(data[data.len() - 1]) + 1;
            let length = data.len().checked_sub(padding).ok_or(PacketError::Malformed("more padding than data"))?;
            if data[length..].iter().any(|byte| usize::from(*byte) + 1 != padding) {
                return Err(PacketError::Malformed("invalid padding"));
            }
            (length, record[0])
        } else {
            (data.len(), record[0])
        };
        check_content(content_type, length, is_13)?;
        packet.content_type = content_type;
        Ok(start..start + length)
    }
}

/// The number of the next burst.
static NEXT_BURST: AtomicU64 = AtomicU64::new(1);

/// Opens records, each on its connection, as [`Inbound::open`] does. Each record has its own [verdict](Packet::verdict). Records of one
/// connection must be in order. All connections must belong to one framework.
pub fn open(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    let id = NEXT_BURST.fetch_add(1, Ordering::Relaxed);
    burst::run(
        burst,
        |connection| &connection.protection.keys,
        |connection, packet, work| connection.parse(packet, work, id).map(Some),
        |tasks| {
            crypt::open(tasks);
            tasks.iter_mut().for_each(find_mac);
        },
        |connection, packet, number, done| {
            connection.finish(packet, number, done).inspect_err(|_| {
                // The record may have been decrypted before it was found to be undeliverable.
                let range = packet.range();
                packet.buffer()[range].zeroize();
            })
        },
    );
}

/// Shortens the data to the content before its MAC, for MAC-then-encrypt.
fn find_mac(task: &mut Task<'_>) {
    if let Keys::MacThenEncrypt { mac, .. } = task.keys
        && task.work.refusal.is_none()
    {
        match mac_then_encrypt::find_message_len(task, mac) {
            Ok(length) => task.work.data.end = task.work.data.start + length,
            Err(error) => task.work.refusal = Some(error),
        }
    }
}

impl fmt::Debug for Inbound {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS {:?} in, at {}", self.protection.suite, self.number())
    }
}

#[cfg(test)]
mod tests {
    use gantry_core::Gantry;
    use gantry_driver_software::SoftwareDriver;

    use super::super::super::{Aead, Suite};
    use super::*;

    #[test]
    fn only_one_burst_at_a_time_opens_records_of_a_connection() {
        let gantry = Gantry::builder().driver(&SoftwareDriver).build();
        let epoch = || Epoch::new(Suite::Tls13(Aead::AesGcm), &[1; 16], &[2; 12]);
        let inbound = epoch().inbound(&gantry).unwrap();
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
            inbound.parse(&mut packets[at], &mut work, burst).map(|framed| framed.state)
        };
        let (first, second) = (take(0, 1).unwrap(), take(1, 1).unwrap());
        assert_eq!(take(2, 2), Err(PacketError::Busy));
        let mut whole = [0; 40];
        // The decrypted data: a byte of content, its type, and zeros.
        whole[5..7].copy_from_slice(&[1, 23]);
        let mut finish = |number, error: Option<PacketError>| {
            inbound.finish(&mut Packet::new(&mut whole, 0..40), number, error.map_or(Ok(5..24), Err))
        };
        assert_eq!(finish(first, None), Ok(5..6));
        assert_eq!(take(2, 2), Err(PacketError::Busy), "another record is not verified yet");
        assert_eq!(finish(second, None), Ok(5..6));
        assert_eq!((take(2, 2), take(3, 2), inbound.number()), (Ok(2), Ok(3), 4));
        assert_eq!(finish(2, Some(PacketError::Forged)), Err(PacketError::Forged));
        assert_eq!(finish(3, None), Err(PacketError::Broken));
        assert_eq!(take(3, 3), Err(PacketError::Broken));
    }
}
