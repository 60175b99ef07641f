//! The devices' work on a burst of IPComp packets: one batch.

use gantry_core::driver::Operands;
use gantry_core::{Error, Operation, Outcome, Request, Session};
use smallvec::{SmallVec, smallvec};

/// A packet with work for a device.
pub(super) struct Task<'t> {
    pub(super) session: &'t Session,
    pub(super) input: &'t [u8],
    pub(super) output: &'t mut [u8],
}

/// The result of a task: its outcome, and the bytes written to its output.
pub(super) type TaskResult = Result<(Outcome, usize), Error>;

/// A value per packet. Most bursts fit without an allocation.
pub(super) type PerPacket<T> = SmallVec<[T; 32]>;

/// Compresses or decompresses every task's input.
pub(super) fn run(operation: Operation, tasks: &mut [Task<'_>]) -> PerPacket<TaskResult> {
    // A device may report a wrong number of bytes written, so the number is limited to the length of the output.
    if let [Task { session, input, output }] = tasks {
        let (room, mut written) = (output.len(), 0);
        let result = session.run(Operands::Compression { operation, input, output, written: &mut written });
        return smallvec![result.map(|outcome| (outcome, written.min(room)))];
    }
    let sessions: PerPacket<&Session> = tasks.iter().map(|task| task.session).collect();
    let rooms: PerPacket<usize> = tasks.iter().map(|task| task.output.len()).collect();
    let mut written = PerPacket::from_elem(0, tasks.len());
    let operands = tasks.iter_mut().zip(&mut written);
    let mut requests: Vec<Request<'_>> = operands
        .map(|(Task { input, output, .. }, written)| Operands::Compression { operation, input, output, written }.into())
        .collect();
    // If the call fails, each request has its error as the result.
    let _ = Session::process_each(&sessions, &mut requests);
    let results: PerPacket<_> = requests.iter_mut().map(Request::result).collect();
    drop(requests);
    let results = results.into_iter().zip(written).zip(rooms);
    results.map(|((result, written), room)| result.map(|outcome| (outcome, written.min(room)))).collect()
}
