//! Other load of a machine while requests run, on a virtual clock. Every run is the same.

use std::sync::Mutex;

use gantry_core::{Clock, VirtualClock};

/// Pseudorandom numbers, the same at every run.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number (SplitMix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.share()
    }
}

/// One kind of disturbance, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Calm,
    /// Other programs get the CPU for some milliseconds, a fifth of the time.
    Preemptions,
    /// The CPU runs at full speed, or takes 1.3 or 2 times as long.
    Frequency,
    /// A neighbour shares the caches: while it runs, any request may take up to twice as long.
    Neighbour,
    All,
    /// The first request on a device after requests on another device takes 10 µs more: the caches are cold.
    Cold,
}

/// The disturbances of a machine.
#[derive(Debug, Default)]
pub(crate) struct Disturbances {
    kind: Kind,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    /// The times of the next changes.
    preemption: u64,
    step: u64,
    comes_or_goes: u64,
    factor: f64,
    neighbour: bool,
    /// The device that ran last.
    last: &'static str,
}

impl Default for State {
    fn default() -> Self {
        let random = Random::new(7);
        Self { random, preemption: 0, step: 0, comes_or_goes: 0, factor: 1.0, neighbour: false, last: "" }
    }
}

impl Disturbances {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, state: Mutex::default() }
    }

    /// Lets the time of a request pass, which is `ns` nanoseconds on an otherwise idle machine.
    pub(super) fn spend(&self, device: &'static str, ns: u64, clock: &VirtualClock) {
        const MS: f64 = 1e6;
        const COLD: u64 = 10_000;
        if self.kind == Kind::Calm {
            return clock.spend(ns);
        }
        let (now, has) = (clock.now(), |kind| self.kind == kind || self.kind == Kind::All);
        let mut state = self.state.lock().unwrap();
        let State { random, preemption, step, comes_or_goes, factor, neighbour, last } = &mut *state;
        let mut times = 1.0;
        if self.kind == Kind::Cold && std::mem::replace(last, device) != device {
            clock.spend(COLD);
        }
        if has(Kind::Frequency) {
            if now >= *step {
                *factor = [1.0, 1.3, 2.0][(random.next() % 3) as usize];
                *step = now + random.between(20.0 * MS, 200.0 * MS) as u64;
            }
            times *= *factor;
        }
        if has(Kind::Neighbour) {
            if now >= *comes_or_goes {
                *neighbour = !*neighbour;
                *comes_or_goes = now + random.between(5.0 * MS, 100.0 * MS) as u64;
            }
            times *= if *neighbour { random.between(1.0, 2.0) } else { 1.0 };
        }
        clock.spend((ns as f64 * times) as u64);
        if has(Kind::Preemptions) && clock.now() >= *preemption {
            // Time passes without the CPU.
            clock.advance_to(clock.now() + random.between(MS, 4.0 * MS) as u64);
            *preemption = clock.now() + random.between(2.0 * MS, 18.0 * MS) as u64;
        }
    }
}
