//! Routes of a caller that is one of the devices itself: OpenSSL's own code is one behind Gantry's provider.
//!
//! Such a caller serves most requests without a session. It asks one question of each: does another device save time with this size, here
//! and now? The answer is cached; while there is none, the work of the caller pays for measurements, as requests of sessions do.

use super::session::Session;
use crate::algorithm::{Algorithm, Kind, Operation};
use crate::devices::{DeviceState, RegisteredDevice};
use crate::dispatch::Gantry;
use crate::route::{Costs, SizeSet, Worth};

/// What a device has to be faster by, in percent: less may be chance.
const MARGIN: f32 = 4.0;

/// The same in nanoseconds: a session's way to a device, which the caller does not have and which is in no measurement of either. (131 to
/// 157 with AES-128-GCM on a Zen 4.)
const WAY_NS: f32 = 150.0;

/// Nanoseconds that a request is thought to take while nothing is known: with a key pair, or one for each byte and so many more.
const PAIR_NS: u32 = 50_000;
const OTHER_NS: usize = 100;

/// The operator named the policy, which leads elsewhere, whatever that saves.
const NAMED: u32 = u32::MAX;

/// A caller that is one of the devices, beside the others.
pub struct Beside {
    gantry: Gantry,
    own: String,
    follows: bool,
    may_serve: Box<dyn Fn(&RegisteredDevice) -> bool + Send + Sync>,
    worth: Box<[Worth]>,
}

impl Beside {
    /// The caller is the device `own`. `may_serve` says which other devices it may leave requests to. With `follows` the policy decides, for
    /// requests of every size and from the first one on; otherwise the costs do.
    pub fn new(
        gantry: Gantry,
        own: &str,
        follows: bool,
        may_serve: impl Fn(&RegisteredDevice) -> bool + Send + Sync + 'static,
    ) -> Self {
        let asked = if follows { SizeSet::ALL } else { SizeSet::LARGE };
        let worth = (0..Algorithm::PLACES).map(|_| Worth::new(asked)).collect();
        Self { gantry, own: own.to_owned(), follows, may_serve: Box::new(may_serve), worth }
    }

    /// The framework.
    pub fn gantry(&self) -> &Gantry {
        &self.gantry
    }

    /// Whether the policy decides.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// What other devices save, as far as that is known.
    #[inline]
    pub fn worth(&self, algorithm: Algorithm, operation: Operation) -> &Worth {
        &self.worth[algorithm.place(operation)]
    }

    /// Nanoseconds that another device saves in a request; 0 where the caller is to serve it, which then counts as its work. `session`
    /// is asked for where the policy decides.
    pub fn saves(
        &self,
        algorithm: Algorithm,
        operation: Operation,
        bytes: usize,
        session: impl FnOnce() -> Option<Session>,
    ) -> u32 {
        let worth = self.worth(algorithm, operation);
        if !worth.sizes().has(bytes) {
            return 0;
        }
        match worth.saved_ns(bytes) {
            Some(saved) => saved,
            None if self.follows => session().map_or(0, |session| {
                let saved = if self.leads(&session, operation, bytes, 1) { NAMED } else { 0 };
                worth.learn(bytes, saved);
                saved
            }),
            None => self.works(algorithm, operation, bytes),
        }
    }

    /// Whether a request may be worth it, as far as that is known without a session.
    pub fn may_save(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> bool {
        let known = self.worth(algorithm, operation).saved_ns(bytes);
        known.map_or_else(|| self.follows || self.works(algorithm, operation, bytes) > 0, |saved| saved > 0)
    }

    /// Whether the policy leads so many requests to another device that may serve them. The caller is among the devices that it compares.
    pub fn leads(&self, session: &Session, operation: Operation, bytes: usize, requests: usize) -> bool {
        let device = session.route(operation, bytes, requests).map(|route| &self.gantry.devices()[route.device]);
        device.is_some_and(|device| self.is_other(device))
    }

    /// The other devices that have an algorithm now.
    pub fn rivals(&self, algorithm: Algorithm) -> impl Iterator<Item = &RegisteredDevice> {
        let others = self.gantry.devices().iter().filter(|device| self.is_other(device));
        others.filter(move |device| device.capability(algorithm).is_some() && device.state() == DeviceState::Ready)
    }

    /// Whether a device that takes `device` nanoseconds is worth it where the caller takes `own`.
    pub fn is_worth_it(own: f32, device: f32) -> bool {
        saved(own, device) > 0
    }

    /// Measures the devices for an operation now, for this process and for later ones.
    pub fn calibrate(&self, algorithm: Algorithm, operation: Operation) {
        self.gantry.calibrate(algorithm, operation, false);
        self.weigh(algorithm, operation);
    }

    fn is_other(&self, device: &RegisteredDevice) -> bool {
        device.name() != self.own && (self.may_serve)(device)
    }

    /// The caller serves a request. Once its work has paid for the measurements, the answers are known.
    fn works(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> u32 {
        let work = match algorithm.kind() {
            Kind::Signature | Kind::Exchange => PAIR_NS,
            _ => u32::try_from(OTHER_NS + bytes).unwrap_or(u32::MAX),
        };
        if self.own(algorithm, operation).is_none() || self.gantry.worked(algorithm, operation, work) {
            self.weigh(algorithm, operation);
        }
        self.worth(algorithm, operation).saved_ns(bytes).unwrap_or(0)
    }

    fn own(&self, algorithm: Algorithm, operation: Operation) -> Option<&Costs> {
        self.gantry.device(&self.own)?.costs(algorithm, operation)
    }

    /// Caches what the costs come to.
    fn weigh(&self, algorithm: Algorithm, operation: Operation) {
        let own = self.own(algorithm, operation).filter(|own| own.is_known());
        let rivals = self.rivals(algorithm).filter_map(|device| device.costs(algorithm, operation));
        let rivals: Vec<&Costs> = rivals.filter(|costs| costs.is_known()).collect();
        let best = |bytes| rivals.iter().map(|costs| costs.estimate(1, bytes).wall_ns).fold(f32::INFINITY, f32::min);
        let saves = |bytes| own.map_or(0, |own| saved(own.estimate(1, bytes).wall_ns, best(bytes)));
        self.worth(algorithm, operation).learn_all(saves);
    }
}

/// Nanoseconds that a device saves where the caller takes `own`, if that is not chance.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and what is more is as good")]
fn saved(own: f32, device: f32) -> u32 {
    let device = device + WAY_NS;
    if device * (100.0 + MARGIN) < own * 100.0 { (own - device) as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::saved;

    #[test]
    fn chance_and_the_way_to_a_device_save_nothing() {
        assert_eq!((saved(3000.0, 1300.0), saved(3000.0, 2750.0), saved(300.0, 160.0)), (1550, 0, 0));
        assert_eq!((saved(100_000.0, 96_500.0), saved(100_000.0, f32::INFINITY)), (0, 0));
    }
}
