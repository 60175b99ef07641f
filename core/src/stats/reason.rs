//! The reasons for the choice of a device. Requests are counted by reason.

use crate::coded::coded;

coded! {
    /// The reason of a route: why requests went to this device.
    pub enum Reason {
        /// No other device can serve the requests.
        OnlyChoice = "only-choice";
        /// The batch reaches the device's break-even.
        EnoughRequests = "enough-requests";
        /// The batch is too small for any device that needs several requests.
        TooFew = "too-few";
        /// The policy names the device. No other device will do, so requests wait for the whole known-answer test.
        Pinned = "pinned";
        /// The device is the first in the policy's order that works, or replaces a named device that cannot serve the requests.
        FirstInOrder = "first-in-order";
        /// It was the device's turn.
        Turn = "turn";
        /// The request is smaller than the policy's size threshold.
        BelowThreshold = "below-threshold";
        /// The request is as large as the policy's size threshold, or larger.
        AboveThreshold = "above-threshold";
        /// The device has the state of the stream.
        Stream = "stream";
        /// The device finishes first, according to measurements.
        Fastest = "fastest";
        /// The device gets a part of the requests, so that all of them are done earlier.
        Split = "split";
        /// Another device is faster, according to measurements, but has too many earlier requests.
        Busy = "busy";
        /// The device takes the least time of the calling thread, according to measurements.
        LeastCpu = "least-cpu";
        /// The request measures a device that is thought to be slower.
        Trial = "trial";
    }
}
