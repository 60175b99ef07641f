//! What devices do for a burst of packets: one batch.

use gantry::driver::Operands;
use gantry::{Algorithm, Error, Fault, Operation, Outcome, Request, Session};
use smallvec::{SmallVec, smallvec};

/// A packet with work for a device.
pub(super) struct Task<'t> {
    pub(super) session: &'t Session,
    pub(super) input: &'t [u8],
    pub(super) output: &'t mut [u8],
}

/// How a task ended, and how many bytes of its output are the result.
pub(super) type Ended = Result<(Outcome, usize), Error>;

/// As many as a burst has in most programs need no memory from the heap.
pub(super) type Each<T> = SmallVec<[T; 32]>;

/// Compresses or decompresses for every task.
pub(super) fn run(operation: Operation, tasks: &mut [Task<'_>]) -> Each<Ended> {
    // The lengths are a device's word.
    if let [Task { session, input, output }] = tasks {
        let (room, mut written) = (output.len(), 0);
        let result = session.run(Operands::Compression { operation, input, output, written: &mut written });
        return smallvec![result.map(|outcome| (outcome, written.min(room)))];
    }
    let sessions: Each<&Session> = tasks.iter().map(|task| task.session).collect();
    let rooms: Each<usize> = tasks.iter().map(|task| task.output.len()).collect();
    let mut written = Each::from_elem(0, tasks.len());
    let request = match operation {
        Operation::Compress => Request::compress,
        _ => Request::decompress,
    };
    let lent = tasks.iter_mut().zip(&mut written);
    let mut requests: Vec<_> = lent.map(|(task, written)| request(task.input, &mut *task.output, written)).collect();
    let error = Session::process_each(&sessions, &mut requests).err();
    let outcomes: Each<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
    drop(requests);
    // Only a device that lost a request leaves none.
    let error = error.unwrap_or(Error::Device { algorithm: Algorithm::Deflate, last: Fault::Lost });
    let ends = outcomes.into_iter().zip(written).zip(rooms);
    ends.map(|((outcome, written), room)| {
        outcome.map(|outcome| (outcome, written.min(room))).ok_or_else(|| error.clone())
    })
    .collect()
}
