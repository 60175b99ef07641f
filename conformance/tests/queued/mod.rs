//! Helpers for tests with queues and with data in segments.

#![allow(dead_code, reason = "each test file uses its own part")]

use gantry_core::{Completion, QueueOptions, Region, Segments, Session, Submission};

/// Runs the submissions, and returns the completions in the order of the submissions.
pub(crate) fn run(session: &Session, submissions: impl IntoIterator<Item = Submission>) -> Vec<Completion> {
    let mut queue = session.gantry().queue(QueueOptions::default()).unwrap();
    for (number, submission) in submissions.into_iter().enumerate() {
        queue.submit(session, submission.user(number as u64)).unwrap();
    }
    let mut completions = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(|completion| completions.push(completion));
    }
    completions.sort_by_key(|completion| completion.user);
    completions
}

/// Returns segments that hold `bytes`: pieces of one region at odd offsets, with gaps between them.
pub(crate) fn scattered(bytes: &[u8]) -> Segments {
    let region = Region::owned(vec![0xee; 2 * bytes.len() + 64].into());
    let (mut segments, mut at, mut left) = (Segments::new(), 3, bytes.len());
    for piece in [1, 0, 15, 33, usize::MAX] {
        let piece = piece.min(left);
        segments.push(region.segment(at, piece).unwrap()).unwrap();
        (at, left) = (at + piece + 5, left - piece);
    }
    segments.write(bytes).unwrap();
    segments
}

pub(crate) fn bytes_of(segments: &Segments) -> Vec<u8> {
    let mut bytes = vec![0; segments.bytes()];
    segments.read(&mut bytes).unwrap();
    bytes
}
