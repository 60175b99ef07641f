//! Helpers of the simulations: a clock that detects lost requests, reproducible randomness, and a policy that routes at random.

#![allow(dead_code, reason = "each simulation uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::driver::{Device, Driver, Found};
use gantry_core::route::{Ask, Policy, Reason, Route};
use gantry_core::{Clock, VirtualClock};
use gantry_driver_software::SoftwareDriver;

/// Returns the software device, which computes the right results.
pub(crate) fn software() -> Arc<dyn Device> {
    match SoftwareDriver.discover().remove(0) {
        Found::Device(device) => device,
        Found::Excluded { reason, .. } => panic!("{reason}"),
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug)]
pub(crate) struct Rng(AtomicU64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Virtual time that panics after `MAX_WAITS` waits without a call of [`progress`](Self::progress), because a request is then lost.
#[derive(Debug, Default)]
pub(crate) struct WatchdogClock {
    pub(crate) time: Arc<VirtualClock>,
    waits: AtomicU64,
}

impl WatchdogClock {
    const MAX_WAITS: u64 = 2_000_000;

    pub(crate) fn progress(&self) {
        self.waits.store(0, Ordering::Relaxed);
    }
}

impl Clock for WatchdogClock {
    fn now(&self) -> u64 {
        self.time.now()
    }

    fn wait(&self, until: Option<u64>) {
        let waits = self.waits.fetch_add(1, Ordering::Relaxed);
        assert!(waits < Self::MAX_WAITS, "a request is lost: no completion after many waits");
        self.time.wait(until);
    }

    fn spend(&self, ns: u64) {
        self.time.spend(ns);
    }
}

/// A policy that sends a random number of the requests to a random candidate, and asks for random batch sizes.
#[derive(Debug)]
pub(crate) struct RandomPolicy(pub(crate) Rng);

impl Policy for RandomPolicy {
    fn name(&self) -> &'static str {
        "anywhere"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let choices = ask.choices().count();
        let choice = ask.choices().nth(self.0.below(choices.max(1)))?;
        let requests = 1 + self.0.below(ask.requests());
        Some(Route { device: choice.device, requests, reason: Reason::Turn, measure: false })
    }

    fn batch_size(&self, _: &Ask<'_>) -> usize {
        1 + self.0.below(5)
    }
}
