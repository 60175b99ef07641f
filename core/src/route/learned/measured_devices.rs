//! The devices that a learned policy chooses from, as far as their costs are known.

#![allow(clippy::cast_precision_loss, reason = "times and sizes that fit into 24 bits or need no more")]

use super::Learned;
use crate::route::ask::{Ask, Choice};
use crate::route::cost::Costs;
use crate::route::measurement::FULL_LOAD_REQUESTS;

/// A ring is not pipelined under `latency` if one request takes more than this many times as long as on the fastest device.
const MAX_PIPELINED_SLOWDOWN: f32 = 2.0;
/// A ring that keeps the thread busy for more than this share of the requests' time counts as computing in the thread.
const IN_THREAD_SHARE: f32 = 0.75;

/// A device that the policy may choose, with the numbers that matter here.
#[derive(Clone, Copy)]
pub(super) struct Device<'a> {
    pub(super) index: usize,
    pub(super) lanes: usize,
    /// The device computes in the calling thread, with or without a ring.
    pub(super) in_thread: bool,
    /// Nanoseconds for the requests that the device already has.
    pub(super) ahead_ns: f32,
    /// The device has a ring, and the policy counts for each request the cost of a request in a full ring.
    pub(super) is_pipelined: bool,
    pub(super) costs: &'a Costs,
}

impl<'a> Device<'a> {
    fn new(choice: &Choice<'a>, requests: usize, bytes: usize) -> Self {
        let (lanes, costs) = (choice.capability.lanes.max(1), choice.costs);
        let estimate = costs.estimate(requests, bytes);
        let in_thread =
            choice.capability.synchronous || costs.is_known() && estimate.cpu_ns > IN_THREAD_SHARE * estimate.wall_ns;
        // Assumes that the requests in a ring resemble the present ones. They do not count for a device that computes in the thread,
        // because the thread does not compute requests of other threads.
        let ahead_ns = if choice.requests_ahead == 0 || in_thread {
            0.0
        } else {
            costs.estimate(FULL_LOAD_REQUESTS, bytes).wall_ns / FULL_LOAD_REQUESTS as f32 * choice.requests_ahead as f32
        };
        Self { index: choice.device, lanes, in_thread, ahead_ns, is_pipelined: false, costs }
    }

    #[inline]
    pub(super) fn wall_ns(&self, requests: usize, bytes: usize) -> f32 {
        self.costs.estimate(requests, bytes).wall_ns
    }
}

/// The choices whose costs are known: the best [`MAX_DEVICES`](MeasuredDevices::MAX_DEVICES) of them.
pub(super) struct MeasuredDevices<'a> {
    devices: [Option<Device<'a>>; MeasuredDevices::MAX_DEVICES],
    pub(super) len: usize,
    /// Number of the devices in `devices` that work in parallel to the calling thread.
    pub(super) rings: usize,
    /// Number of choices whose costs are not known.
    pub(super) unmeasured: usize,
    /// All devices that offer the operation can serve these requests now: none is in quarantine, for example.
    pub(super) is_complete: bool,
}

impl MeasuredDevices<'_> {
    const MAX_DEVICES: usize = 8;
}

impl<'a> MeasuredDevices<'a> {
    pub(super) fn new(ask: &'a Ask<'_>, policy: Learned, requests: usize, bytes: usize) -> Self {
        let cost = |device: &Device<'a>| policy.cost(device, requests, bytes);
        let mut measured =
            Self { devices: [None; Self::MAX_DEVICES], len: 0, rings: 0, unmeasured: 0, is_complete: false };
        let mut choices = 0;
        for choice in ask.choices() {
            choices += 1;
            let device = Device::new(&choice, requests, bytes);
            if !device.costs.is_known() {
                measured.unmeasured += 1;
            } else if measured.len < Self::MAX_DEVICES {
                measured.devices[measured.len] = Some(device);
                measured.len += 1;
            } else {
                let worst = measured.devices.iter_mut().flatten().max_by(|a, b| cost(a).total_cmp(&cost(b)));
                if let Some(worst) = worst.filter(|worst| cost(worst) > cost(&device)) {
                    *worst = device;
                }
            }
        }
        measured.rings = measured.iter().filter(|device| !device.in_thread).count();
        measured.is_complete = choices == ask.count_offering();
        measured.mark_pipelined(policy, requests, bytes);
        measured
    }

    fn mark_pipelined(&mut self, policy: Learned, requests: usize, bytes: usize) {
        let fastest = self.iter().map(|device| device.wall_ns(1, bytes)).fold(f32::INFINITY, f32::min);
        let is_loaded = requests > 1 || self.iter().any(|device| device.ahead_ns > 0.0);
        for ring in self.devices.iter_mut().flatten().filter(|device| !device.in_thread) {
            ring.is_pipelined = match policy {
                Learned::Latency => is_loaded && ring.wall_ns(1, bytes) <= fastest * MAX_PIPELINED_SLOWDOWN,
                Learned::Throughput => true,
                Learned::Offload => false,
            };
        }
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Device<'a>> {
        self.devices[..self.len].iter().flatten()
    }

    /// Returns the device for which `cost` is least, with its cost.
    pub(super) fn least(&self, cost: impl Fn(&Device<'a>) -> f32) -> Option<(Device<'a>, f32)> {
        let mut least: Option<(Device<'a>, f32)> = None;
        for device in self.iter() {
            let cost = cost(device);
            // Among equals, keep the first device.
            if least.is_none_or(|(_, least)| cost < least) {
                least = Some((*device, cost));
            }
        }
        least
    }
}
