//! The three steps of a burst, whatever the protocol: frame, crypt, finish.

use std::ops::Range;

use smallvec::SmallVec;

use crate::crypt::{Keys, Task, Tasks, Work};
use crate::packet::{Packet, Refused};

/// A packet that the first step has taken in hand.
pub(crate) struct Begun<N> {
    /// The part of the buffer that devices get.
    pub(crate) lent: Range<usize>,
    /// What the last step has to know.
    pub(crate) notes: N,
}

/// Leads a burst of packets, each with its end of an association, through three steps.
///
/// `begin` fills in the work on a packet. It changes nothing if it refuses the packet, and leaves out those for which it has `None`.
/// `crypt` is what devices do with all others. `end` says where each lies then, from where its data lie in the part that was lent; what
/// was refused, or is now, is discarded.
pub(crate) fn run<E, N>(
    burst: &mut [(&E, &mut Packet<'_>)],
    keys: impl Fn(&E) -> &Keys,
    mut begin: impl FnMut(&E, &mut Packet<'_>, &mut Work) -> Result<Option<Begun<N>>, Refused>,
    crypt: impl FnOnce(&mut [Task<'_>]),
    mut end: impl FnMut(&E, &mut Packet<'_>, N, Result<Range<usize>, Refused>) -> Result<Range<usize>, Refused>,
) {
    // As many as a burst has in most programs need no memory from the heap.
    let mut works = SmallVec::<[Work; 32]>::new();
    let mut begun = SmallVec::<[Option<Begun<N>>; 32]>::new();
    works.extend(std::iter::repeat_with(Work::default).take(burst.len()));
    for ((association, packet), work) in burst.iter_mut().zip(&mut works) {
        begun.push(begin(association, packet, work).unwrap_or_else(|why| {
            packet.refuse(why);
            None
        }));
    }
    let lent = burst.iter_mut().zip(&mut works).zip(&begun);
    let mut tasks: Tasks<'_> = lent
        .filter_map(|(((association, packet), work), begun)| {
            let packet = &mut packet.buffer()[begun.as_ref()?.lent.clone()];
            Some(Task { keys: keys(association), packet, work })
        })
        .collect();
    crypt(&mut tasks);
    drop(tasks);
    for (((association, packet), work), begun) in burst.iter_mut().zip(works).zip(begun) {
        let Some(Begun { notes, .. }) = begun else { continue };
        match end(association, packet, notes, work.refused.map_or(Ok(work.data), Err)) {
            Ok(range) => packet.is_in(range),
            Err(why) => packet.discard(why),
        }
    }
}

/// The same for one packet, by the function that a protocol has for bursts.
pub(crate) fn one<E>(
    end: &E,
    packet: &mut Packet<'_>,
    run: impl FnOnce(&mut [(&E, &mut Packet<'_>)]),
) -> Result<(), Refused> {
    run(&mut [(end, packet)]);
    packet.verdict().map_err(Clone::clone)
}
