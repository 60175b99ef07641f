//! The fixed policies of other systems, for comparison, and for operators who prefer their own choice to a measured one.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::answer::Route;
use super::ask::Ask;
use super::policy::Policy;
use crate::stats::Reason;

/// Sends all requests to one device, like a hard-wired engine or code selected by `OPENSSL_ia32cap`. Another device serves only the
/// requests that this one cannot serve. Requests wait for the device's known-answer test, so that no other device serves them before the
/// end of the test.
#[derive(Debug)]
pub struct Pin {
    /// The device's name.
    pub device: String,
}

impl Policy for Pin {
    fn name(&self) -> &'static str {
        "pin"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        match ask.choice(&self.device) {
            Some(choice) => Some(ask.all_to(&choice, Reason::Pinned)),
            None => ask.choices().next().map(|choice| ask.all_to(&choice, Reason::FirstInOrder)),
        }
    }
}

/// Sends requests to the first working device in a given order (FreeBSD's OCF, DPDK's fail-over scheduler). Devices that the order does not
/// name come last, in the order of registration.
#[derive(Debug)]
pub struct Failover {
    /// Names of devices.
    pub order: Vec<String>,
}

impl Policy for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let first = self.order.iter().find_map(|name| ask.choice(name)).or_else(|| ask.choices().next())?;
        Some(ask.all_to(&first, Reason::FirstInOrder))
    }
}

/// Sends small requests to one device, and large ones to another (DPDK's packet-size scheduler, QAT_Engine's thresholds). A batch is split
/// where sizes cross the threshold.
#[derive(Debug)]
pub struct SizeThreshold {
    /// Minimum bytes of data in a large request.
    pub bytes: usize,
    /// The device for small requests.
    pub small: String,
    /// The device for large requests.
    pub large: String,
}

impl Policy for SizeThreshold {
    fn name(&self) -> &'static str {
        "size-threshold"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let mut is_large = ask.sizes().map(|bytes| bytes >= self.bytes);
        let large = is_large.next()?;
        let requests = 1 + is_large.take_while(|other| *other == large).count();
        let (name, reason) =
            if large { (&self.large, Reason::AboveThreshold) } else { (&self.small, Reason::BelowThreshold) };
        let all = match ask.choice(name) {
            Some(choice) => ask.all_to(&choice, reason),
            None => ask.all_to(&ask.choices().next()?, Reason::FirstInOrder),
        };
        Some(Route { requests, ..all })
    }
}

/// Sends each batch, and each direct request, to the next device (DPDK's round-robin scheduler).
#[derive(Debug, Default)]
pub struct RoundRobin {
    turn: AtomicUsize,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let choices = ask.choices().count().max(1);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % choices;
        let next = ask.choices().nth(turn).or_else(|| ask.choices().next());
        next.map(|choice| ask.all_to(&choice, Reason::Turn))
    }
}
