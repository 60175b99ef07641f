//! Data in segments, on the way to a device that takes contiguous buffers only.

#![allow(unsafe_code)]

use super::framework::Gantry;
use super::list::Handle;
use super::request::Lender;
use super::submission::Submission;
use crate::algorithm::{Algorithm, Operation, Outcome};
use crate::driver::DeviceInfo;
use crate::route::Route;
use crate::stats::{Event, Site};

impl Handle {
    /// Copies data that lie in segments, unless the queue pairs of the device they go to take them as they are.
    #[inline]
    pub(super) fn copy_unless_taken(&mut self, device: usize) {
        if self.note.lender.is_some() {
            self.examine_segments(device);
        }
    }

    /// Copies data that lie in segments, for a device that is not asked whether it takes them.
    #[inline]
    pub(super) fn copy_for(&mut self, device: usize) {
        if self.note.lender.is_some() {
            let copied = self.copy_segments();
            self.owner().gantry.count_copied(device, self.note.algorithm, self.note.shape.operation, copied);
        }
    }

    #[cold]
    fn examine_segments(&mut self, device: usize) {
        let registered = &self.owner().gantry.devices()[device];
        let takes = |info: &DeviceInfo| self.entry.scattered.is_some_and(|data| info.limits.takes(&data));
        if registered.is_inline() || !registered.details().is_some_and(takes) {
            self.copy_for(device);
        } else if self.owner().is_verified_now() {
            // What lies in foreign memory may change: to be verified, it is copied once for both.
            self.copy_for(device);
            let (owner, request) = self.parts();
            owner.keep_shadow(device, request);
        }
    }

    /// Copies data that lie in segments, and makes the copies the operands. Returns how many bytes were copied.
    #[cold]
    pub(super) fn copy_segments(&mut self) -> usize {
        let result = self.owner().params.tag_length();
        let Some(Lender { mut submission, .. }) = self.note.lender.take() else { return 0 };
        // What points into the submission goes before it is borrowed.
        self.entry.scattered = None;
        // SAFETY: `Slots::put` noted where the submission is, which stays there until `Slots::take`. The request is in our
        // hands, so nobody looks at its operands, the only other pointers into the submission; they are replaced at once.
        let submission = unsafe { submission.as_mut() };
        let bytes = submission.copy_in();
        self.entry.operands = submission.operands(result);
        bytes
    }
}

impl Gantry {
    /// Ends the copies of a request that ended with this outcome on this route, and counts what went back into segments.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy_out(
        &self,
        submission: &mut Submission,
        algorithm: Algorithm,
        outcome: Option<Outcome>,
        route: Option<Route>,
    ) {
        if let copied @ 1.. = submission.copy_out(outcome)
            && let Some(Route { device, .. }) = route
        {
            self.count_copied(device, algorithm, submission.operation(), copied);
        }
    }

    /// Counts bytes that were copied for a device, or from it.
    #[cold]
    pub(super) fn count_copied(&self, device: usize, algorithm: Algorithm, operation: Operation, bytes: usize) {
        self.counters().here().event(Site::new(device, algorithm, operation), Event::Copied, bytes);
    }
}
