//! Searches for the MAC of a MAC-then-encrypt record, with all candidates in one batch.

use gantry_core::{Error, Fault, Outcome, Request, Session, Stream};
use zeroize::Zeroizing;

use super::search::MacSearch;
use crate::crypt::{RANDOM_IV_LEN, Task};
use crate::packet::PacketError;

/// Returns the length of the message in a decrypted record, if its MAC and its padding are right. The pseudo-header lies before the
/// data, and this function writes its length field.
///
/// The MACs of all places are one batch. One record fills the lanes of any device, so records are done one after the other.
pub(super) fn find_message_len(task: &mut Task<'_>, mac: &Session) -> Result<usize, PacketError> {
    let (mac_range, data, tag_len) = (task.work.mac_range.clone(), task.work.data.clone(), task.keys.tag_len());
    let search = MacSearch::new(&task.packet[data.clone()], RANDOM_IV_LEN, tag_len);
    let mut search = search.ok_or(PacketError::Malformed("the record is too short"))?;
    // Only the MAC at the place that the padding claims can be right, so all MACs are computed with the length of that message.
    task.packet[data.start - 2..data.start].copy_from_slice(&(search.claimed_message_len() as u16).to_be_bytes());
    let offsets = search.candidate_offsets();
    let mut message = mac.stream(offsets.len())?;
    message.update(&task.packet[mac_range.start..data.start + offsets.start])?;
    let mut trials: Vec<Stream> = Vec::with_capacity(offsets.len());
    for offset in data.start + offsets.start..data.start + offsets.end - 1 {
        trials.push(message.clone());
        message.update(&task.packet[offset..=offset])?;
    }
    trials.push(message);
    // The right tag of a forged record must not leak to its sender.
    let mut computed = Zeroizing::new(vec![0; offsets.len() * tag_len]);
    let outputs = computed.chunks_exact_mut(tag_len);
    let mut requests: Vec<_> =
        trials.iter_mut().zip(outputs).map(|(trial, output)| Request::finish(trial, output)).collect();
    mac.process(&mut requests)?;
    if requests.iter().any(|request| request.outcome() != Some(Outcome::Done)) {
        let algorithm = mac.params().algorithm();
        return Err(Error::Device { algorithm, last: Fault::Lost }.into());
    }
    drop(requests);
    let record = &task.packet[data];
    for (offset, computed) in offsets.zip(computed.chunks_exact(tag_len)) {
        search.compare(record, offset, computed);
    }
    search.message_len().map(|length| length as usize).ok_or(PacketError::Forged)
}
