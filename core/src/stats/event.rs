//! Events that are counted, and stages that are timed.

use crate::coded::coded;

coded! {
    /// The parts of a request's time.
    pub enum Stage {
        /// From the call into the framework to the call into the device.
        Dispatch = "dispatch";
        /// In the device.
        Invoke = "invoke";
        /// From the answer of a device on a queue pair to the delivery of the completion.
        Done = "done";
        /// In the caller's completion function.
        Callback = "callback";
    }
}

coded! {
    /// Events that are counted in addition to requests and bytes.
    pub enum Event {
        /// A request ended with [`Outcome::BadTag`](crate::Outcome::BadTag).
        BadTag = "bad-tag";
        /// A request ended with [`Outcome::BadLength`](crate::Outcome::BadLength). If core itself refuses the length, the event is
        /// counted without a device.
        BadLength = "bad-length";
        /// A request ended with [`Outcome::BadKey`](crate::Outcome::BadKey).
        BadKey = "bad-key";
        /// A request ended with [`Outcome::Malformed`](crate::Outcome::Malformed).
        Malformed = "malformed";
        /// A request ended with [`Outcome::NoRoom`](crate::Outcome::NoRoom).
        NoRoom = "no-room";
        /// The device failed with a [`Fault`](crate::Fault), other than by [declining](Self::Declined) a request. A
        /// [wrong result](Self::Mismatched) counts as a fault, too.
        Fault = "fault";
        /// The device declined a request that it does not serve, without being at fault.
        Declined = "declined";
        /// A request that had failed on another device was run again on this device.
        Retried = "retried";
        /// The device was put into quarantine.
        Quarantined = "quarantined";
        /// The device came back from quarantine.
        Returned = "returned";
        /// A request had to wait: the device was full, other requests waited already, or the request was sent together with requests
        /// of other threads.
        Full = "full";
        /// A request went to the device together with requests of another session or queue.
        Coalesced = "coalesced";
        /// A batch of coalesced requests went to the device. [`Coalesced`](Self::Coalesced) divided by this number is the mean size of a
        /// batch.
        CoalescedBatch = "coalescing";
        /// A request was cancelled before it reached a device.
        Cancelled = "cancelled";
        /// A request was handed back to its caller because the queue was full.
        Rejected = "rejected";
        /// A request was computed again in software to verify the device's result.
        Verified = "verified";
        /// The result of the device differed from the result in software.
        Mismatched = "mismatched";
        /// Bytes copied from segments into buffers for the device, or back.
        Copied = "copied";
    }
}
