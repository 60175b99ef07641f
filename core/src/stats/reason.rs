//! Why a request went where it went. Routes give reasons, and counters go by them.

use crate::coded::coded;

coded! {
    /// Why a route leads where it does.
    pub enum Reason {
        /// No other device can.
        OnlyChoice = "only-choice";
        /// Enough requests are in hand for the device's break-even.
        EnoughRequests = "enough-requests";
        /// Too few requests are in hand for any device that needs several.
        TooFew = "too-few";
        /// The policy names the device: requests wait for its known-answer test.
        Pinned = "pinned";
        /// First in the policy's order of those that work.
        FirstInOrder = "first-in-order";
        /// It was the device's turn.
        Turn = "turn";
        /// Smaller than the policy's size threshold.
        BelowThreshold = "below-threshold";
        /// At or above the policy's size threshold.
        AboveThreshold = "above-threshold";
        /// The state of the stream lives there.
        Stream = "stream";
        /// By what was measured, it is done first.
        Fastest = "fastest";
        /// A part of the requests, so that all of them are done first.
        Split = "split";
        /// By what was measured, the device that would be done first has too many other requests before these.
        Busy = "busy";
        /// By what was measured, it takes the least time of the calling thread.
        LeastCpu = "least-cpu";
        /// To measure a device that is thought to be slower.
        Trial = "trial";
    }
}
