//! The device of last resort in builds without the software driver: one of the caller's devices.

use gantry_core::driver::Class;
use gantry_core::{Gantry, RegisteredDevice};

use crate::config::devices::FALLBACK_DEVICE;

/// Returns the device that a name of the configuration stands for. Without the software driver, `software` stands for the last device of
/// its class, because the caller's devices come after those of the machine.
pub(crate) fn resolve_name<'n>(gantry: &'n Gantry, name: &'n str) -> &'n str {
    if name != FALLBACK_DEVICE || gantry.device(name).is_some() {
        return name;
    }
    let replacement = gantry.devices().iter().rev().find(|device| device.class() == Class::Software);
    replacement.map_or(name, RegisteredDevice::name)
}

#[cfg(all(test, not(feature = "software"), feature = "lanes", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use gantry_core::driver::{Capability, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal};
    use gantry_core::{Algorithm, DeviceState, Fault, Operation, Outcome, Session, SessionParams};
    use gantry_driver_lanes::LanesDriver;

    use super::*;
    use crate::{Config, open, open_with};

    /// SHA-256 of "message" (from `sha256sum`).
    const EXPECTED: &str = "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d";

    /// The misbehaviour of a device from now on.
    #[derive(Default)]
    struct Misbehaviour {
        fails: AtomicBool,
        miscalculates: AtomicBool,
    }

    /// A device that computes SHA-256 with the lanes, under another name.
    #[derive(Clone)]
    struct CallerDevice {
        info: DeviceInfo,
        misbehaviour: Arc<Misbehaviour>,
    }

    impl CallerDevice {
        fn new(name: &str, class: Class) -> Self {
            let capabilities = vec![Capability::new(Algorithm::Sha256)];
            Self { info: DeviceInfo { capabilities, ..DeviceInfo::new(name, class) }, misbehaviour: Arc::default() }
        }
    }

    impl Driver for CallerDevice {
        fn name(&self) -> &'static str {
            "own"
        }

        fn discover(&self) -> Vec<Found> {
            vec![Found::Device(Arc::new(self.clone()))]
        }
    }

    impl Device for CallerDevice {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }

        fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
            let Some(Found::Device(lanes)) = LanesDriver::default().discover().pop() else { panic!("no lanes") };
            Ok(Arc::new(CallerSession { session: lanes.open(params)?, misbehaviour: self.misbehaviour.clone() }))
        }
    }

    struct CallerSession {
        session: Arc<dyn DeviceSession>,
        misbehaviour: Arc<Misbehaviour>,
    }

    impl DeviceSession for CallerSession {
        fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
            let Operands::Digest { input, output } = operands else { panic!("digests only") };
            if self.misbehaviour.fails.load(Relaxed) {
                return Err(Fault::failed("made to fail"));
            }
            let outcome = self.session.run(Operands::Digest { input, output: &mut *output })?;
            output[0] ^= u8::from(self.misbehaviour.miscalculates.load(Relaxed));
            Ok(outcome)
        }
    }

    fn config(settings: &[(&str, &str)]) -> Config {
        let mut config = Config::default();
        for (key, value) in settings {
            config.set(key, value, format!("--set {key}={value}")).unwrap();
        }
        config
    }

    fn session(gantry: &Gantry) -> Session {
        gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap()
    }

    fn digest(session: &Session) -> String {
        let mut digest = [0; 32];
        session.digest(b"message", &mut digest).unwrap();
        digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    #[test]
    fn software_in_a_policy_stands_for_the_callers_device() {
        let own = CallerDevice::new("own", Class::Software);
        for policy in ["pin:software", "failover:software,lanes", "size-threshold:9,software,lanes"] {
            let gantry = open_with(config(&[("policy", policy), ("devices", "software=on")]), &[&own], None).unwrap();
            let session = session(&gantry);
            let route = session.route(Operation::Digest, 7, 1).unwrap();
            assert_eq!(gantry.devices()[route.device].name(), "own", "{policy}");
            assert_eq!(digest(&session), EXPECTED);
        }
        let message = open(config(&[("policy", "pin:software")])).unwrap_err().to_string();
        assert!(message.starts_with("--set policy=pin:software: there is no device 'software'"), "{message}");
    }

    #[test]
    fn failed_requests_end_up_at_the_callers_device() {
        let (own, other) = (CallerDevice::new("own", Class::Software), CallerDevice::new("other", Class::Hardware));
        let gantry =
            open_with(config(&[("policy", "pin:other"), ("devices", "lanes=off")]), &[&other, &own], None).unwrap();
        let session = session(&gantry);
        assert_eq!(digest(&session), EXPECTED);
        other.misbehaviour.fails.store(true, Relaxed);
        assert_eq!(digest(&session), EXPECTED);
        assert_ne!(gantry.device("other").unwrap().state(), DeviceState::Ready);
    }

    #[test]
    fn wrong_results_are_corrected_by_the_callers_device() {
        let (own, other) = (CallerDevice::new("own", Class::Software), CallerDevice::new("other", Class::Hardware));
        let settings = [("policy", "pin:other"), ("devices", "lanes=off"), ("verify", "1/1")];
        let gantry = open_with(config(&settings), &[&other, &own], None).unwrap();
        let session = session(&gantry);
        assert_eq!(digest(&session), EXPECTED);
        other.misbehaviour.miscalculates.store(true, Relaxed);
        assert_eq!(digest(&session), EXPECTED);
        assert_ne!(gantry.device("other").unwrap().state(), DeviceState::Ready);
    }
}
