//! Routing for a caller that is itself one of the devices, such as OpenSSL's own code behind Gantry's OpenSSL provider.
//!
//! Such a caller serves most requests without a session. For each request it asks whether another device would save time at this size. The
//! answer is cached. The answer needs measurements, which start only after enough work to make their cost small. Until the answer is
//! known, the caller's own requests count as such work, like requests of sessions.

use super::session::Session;
use crate::algorithm::{Algorithm, Kind, Operation};
use crate::devices::{DeviceState, RegisteredDevice};
use crate::dispatch::Gantry;
use crate::route::{Costs, Savings, SizeSet};

/// Percent by which a device must be faster; a smaller difference may be noise.
const MIN_GAIN_PERCENT: f32 = 4.0;

/// Nanoseconds by which a device must be faster: the cost of a session's dispatch, which the caller does not pay and which neither
/// measurement contains. (131 to 157 ns with AES-128-GCM on a Zen 4.)
const DISPATCH_NS: f32 = 150.0;

/// Estimated nanoseconds of a request before any measurement: `ASSUMED_KEY_PAIR_NS` for signatures and key exchange, and `ASSUMED_OTHER_NS`
/// plus 1 ns per byte for other kinds.
const ASSUMED_KEY_PAIR_NS: u32 = 50_000;
const ASSUMED_OTHER_NS: usize = 100;

/// The saving that is returned if a policy set by the operator selects another device.
const POLICY_SAVING_NS: u32 = u32::MAX;

/// A caller that is one of the devices, and the other devices.
pub struct CallerDevice {
    gantry: Gantry,
    own_name: String,
    follows_policy: bool,
    may_serve: Box<dyn Fn(&RegisteredDevice) -> bool + Send + Sync>,
    savings: Box<[Savings]>,
}

impl CallerDevice {
    /// Creates a `CallerDevice` for the caller that is the device `own_name`. `may_serve` selects the other devices that may take requests.
    /// With `follows_policy` the policy decides for every request of any size; without it, the measured costs decide.
    pub fn new(
        gantry: Gantry,
        own_name: &str,
        follows_policy: bool,
        may_serve: impl Fn(&RegisteredDevice) -> bool + Send + Sync + 'static,
    ) -> Self {
        let initial = if follows_policy { SizeSet::ALL } else { SizeSet::LARGE };
        let savings = (0..Algorithm::ENTRY_COUNT).map(|_| Savings::new(initial)).collect();
        Self { gantry, own_name: own_name.to_owned(), follows_policy, may_serve: Box::new(may_serve), savings }
    }

    /// Returns the framework.
    pub fn gantry(&self) -> &Gantry {
        &self.gantry
    }

    /// Returns `true` if the policy decides.
    pub fn follows_policy(&self) -> bool {
        self.follows_policy
    }

    /// Returns the cached savings by other devices.
    #[inline]
    pub fn savings(&self, algorithm: Algorithm, operation: Operation) -> &Savings {
        &self.savings[algorithm.entry_index(operation)]
    }

    /// Returns the nanoseconds that another device saves in a request; 0 if the caller should serve the request. While the measured saving
    /// is not known, the request counts as work of the caller. Calls `session` only if the policy decides and its decision is not cached.
    pub fn saved_ns(
        &self,
        algorithm: Algorithm,
        operation: Operation,
        bytes: usize,
        session: impl FnOnce() -> Option<Session>,
    ) -> u32 {
        let savings = self.savings(algorithm, operation);
        if !savings.sizes().has(bytes) {
            return 0;
        }
        match savings.saved_ns(bytes) {
            Some(saved) => saved,
            None if self.follows_policy => session().map_or(0, |session| {
                let saved = if self.routes_elsewhere(&session, operation, bytes, 1) { POLICY_SAVING_NS } else { 0 };
                savings.learn(bytes, saved);
                saved
            }),
            None => self.learn_saving(algorithm, operation, bytes),
        }
    }

    /// Returns `true` if another device may save time, judged without a session.
    pub fn may_save(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> bool {
        let cached = self.savings(algorithm, operation).saved_ns(bytes);
        cached.map_or_else(
            || self.follows_policy || self.learn_saving(algorithm, operation, bytes) > 0,
            |saved| saved > 0,
        )
    }

    /// Returns `true` if the policy routes `requests` requests to another device that may serve them, and `false` if it chooses the caller.
    pub fn routes_elsewhere(&self, session: &Session, operation: Operation, bytes: usize, requests: usize) -> bool {
        let device = session.route(operation, bytes, requests).map(|route| &self.gantry.devices()[route.device]);
        device.is_some_and(|device| self.is_other(device))
    }

    /// Returns the ready devices, other than the caller, that may take requests and serve an algorithm.
    pub fn other_devices(&self, algorithm: Algorithm) -> impl Iterator<Item = &RegisteredDevice> {
        let others = self.gantry.devices().iter().filter(|device| self.is_other(device));
        others.filter(move |device| device.capability(algorithm).is_some() && device.state() == DeviceState::Ready)
    }

    /// Returns `true` if a device that takes `device_ns` nanoseconds saves enough time when the caller takes `own_ns` nanoseconds.
    pub fn is_worth_it(own_ns: f32, device_ns: f32) -> bool {
        saved_ns_between(own_ns, device_ns) > 0
    }

    /// Measures the devices for an operation now. The result also serves later processes.
    pub fn calibrate(&self, algorithm: Algorithm, operation: Operation) {
        self.gantry.calibrate(algorithm, operation, false);
        self.compare_costs(algorithm, operation);
    }

    /// Returns `true` if `device` is not the caller and may take requests.
    pub fn is_other(&self, device: &RegisteredDevice) -> bool {
        device.name() != self.own_name && (self.may_serve)(device)
    }

    /// Counts a request as work of the caller. Caches the savings once this work has paid for the measurements, or at once if the caller's
    /// device does not offer the algorithm.
    fn learn_saving(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> u32 {
        let work = match algorithm.kind() {
            Kind::Signature | Kind::Exchange => ASSUMED_KEY_PAIR_NS,
            _ => u32::try_from(ASSUMED_OTHER_NS + bytes).unwrap_or(u32::MAX),
        };
        if self.own_costs(algorithm, operation).is_none()
            || self.gantry.count_work(&self.own_name, algorithm, operation, work)
        {
            self.compare_costs(algorithm, operation);
        }
        self.savings(algorithm, operation).saved_ns(bytes).unwrap_or(0)
    }

    fn own_costs(&self, algorithm: Algorithm, operation: Operation) -> Option<&Costs> {
        self.gantry.device(&self.own_name)?.costs(algorithm, operation)
    }

    /// Caches the savings that follow from the measured costs.
    fn compare_costs(&self, algorithm: Algorithm, operation: Operation) {
        let own = self.own_costs(algorithm, operation).filter(|own| own.is_known());
        let other_devices = self.other_devices(algorithm).filter_map(|device| device.costs(algorithm, operation));
        let other_devices: Vec<&Costs> = other_devices.filter(|costs| costs.is_known()).collect();
        let best =
            |bytes| other_devices.iter().map(|costs| costs.estimate(1, bytes).wall_ns).fold(f32::INFINITY, f32::min);
        let saved_ns = |bytes| own.map_or(0, |own| saved_ns_between(own.estimate(1, bytes).wall_ns, best(bytes)));
        self.savings(algorithm, operation).learn_all(saved_ns);
    }
}

/// Returns the nanoseconds that a device saves when it takes `device_ns` and the caller takes `own_ns` nanoseconds; 0 within the margins.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and may saturate")]
fn saved_ns_between(own_ns: f32, device_ns: f32) -> u32 {
    let device_ns = device_ns + DISPATCH_NS;
    if device_ns * (100.0 + MIN_GAIN_PERCENT) < own_ns * 100.0 { (own_ns - device_ns) as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::saved_ns_between;

    #[test]
    fn savings_exclude_the_margin_and_the_dispatch() {
        assert_eq!(
            (saved_ns_between(3000.0, 1300.0), saved_ns_between(3000.0, 2750.0), saved_ns_between(300.0, 160.0)),
            (1550, 0, 0)
        );
        assert_eq!((saved_ns_between(100_000.0, 96_500.0), saved_ns_between(100_000.0, f32::INFINITY)), (0, 0));
    }
}
