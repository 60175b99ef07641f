//! Searches for the MAC of a MAC-then-encrypt record, with all candidates in one batch.

use gantry_core::{Error, Fault, Outcome, Request, Session, Stream};
use zeroize::Zeroizing;

use super::search::MacSearch;
use crate::crypt::{RANDOM_IV, Task};
use crate::packet::PacketError;

/// Returns the length of the message in a decrypted record, if its MAC and its padding are right. The other bytes that the MAC covers,
/// except the length, lie before the data.
///
/// The MACs of all places are one batch. One record fills the lanes of any device, so records are done one after the other.
pub(super) fn find(task: &mut Task<'_>, mac: &Session) -> Result<usize, PacketError> {
    let (covered, data, tag) = (task.work.covered.clone(), task.work.data.clone(), task.keys.tag());
    let search = MacSearch::new(&task.packet[data.clone()], RANDOM_IV, tag);
    let mut search = search.ok_or(PacketError::Malformed("the record is too short"))?;
    // Only the MAC at the place that the padding claims can be right, so all MACs are computed with the length of that message.
    task.packet[data.start - 2..data.start].copy_from_slice(&(search.claimed() as u16).to_be_bytes());
    let places = search.places();
    let mut message = mac.stream(places.len())?;
    message.update(&task.packet[covered.start..data.start + places.start])?;
    let mut trials: Vec<Stream> = Vec::with_capacity(places.len());
    for place in data.start + places.start..data.start + places.end - 1 {
        trials.push(message.clone());
        message.update(&task.packet[place..=place])?;
    }
    trials.push(message);
    // The right tag of a forged record must not leak to its sender.
    let mut computed = Zeroizing::new(vec![0; places.len() * tag]);
    let outputs = computed.chunks_exact_mut(tag);
    let mut requests: Vec<_> =
        trials.iter_mut().zip(outputs).map(|(trial, output)| Request::finish(trial, output)).collect();
    mac.process(&mut requests)?;
    if requests.iter().any(|request| request.outcome() != Some(Outcome::Done)) {
        let algorithm = mac.params().algorithm();
        return Err(Error::Device { algorithm, last: Fault::Lost }.into());
    }
    drop(requests);
    let record = &task.packet[data];
    for (place, computed) in places.zip(computed.chunks_exact(tag)) {
        search.compare(record, place, computed);
    }
    search.message().map(|length| length as usize).ok_or(PacketError::Forged)
}
