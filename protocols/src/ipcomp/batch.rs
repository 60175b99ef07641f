//! What devices do for a burst of packets: one batch.

use gantry_core::driver::Operands;
use gantry_core::{Error, Operation, Outcome, Request, Session};
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
    let lent = tasks.iter_mut().zip(&mut written);
    let mut requests: Vec<Request<'_>> = lent
        .map(|(Task { input, output, .. }, written)| Operands::Compression { operation, input, output, written }.into())
        .collect();
    // An error of the call is the result of each request, too.
    let _ = Session::process_each(&sessions, &mut requests);
    let results: Each<_> = requests.iter_mut().map(Request::result).collect();
    drop(requests);
    let ends = results.into_iter().zip(written).zip(rooms);
    ends.map(|((result, written), room)| result.map(|outcome| (outcome, written.min(room)))).collect()
}
