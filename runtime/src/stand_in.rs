//! The device that serves when no other does, in builds without the software driver: one of the caller's own.

use gantry_core::driver::Class;
use gantry_core::{Gantry, RegisteredDevice};

use crate::drivers::LAST_RESORT;

/// The device that a name of the configuration stands for. Where the software driver is not built, `software` is the last device of its
/// class: those of the caller come after those of the machine.
pub(crate) fn meant<'n>(gantry: &'n Gantry, name: &'n str) -> &'n str {
    if name != LAST_RESORT || gantry.device(name).is_some() {
        return name;
    }
    let stands_in = gantry.devices().iter().rev().find(|device| device.class() == Class::Software);
    stands_in.map_or(name, RegisteredDevice::name)
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

    /// SHA-256 of "message", as `sha256sum` has it.
    const RIGHT: &str = "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d";

    /// What a device does wrong from now on.
    #[derive(Default)]
    struct Wrong {
        fails: AtomicBool,
        miscalculates: AtomicBool,
    }

    /// SHA-256 as lanes have it, under another name.
    #[derive(Clone)]
    struct Own {
        info: DeviceInfo,
        wrong: Arc<Wrong>,
    }

    impl Own {
        fn new(name: &str, class: Class) -> Self {
            let capabilities = vec![Capability::new(Algorithm::Sha256)];
            Self { info: DeviceInfo { capabilities, ..DeviceInfo::new(name, class) }, wrong: Arc::default() }
        }
    }

    impl Driver for Own {
        fn name(&self) -> &'static str {
            "own"
        }

        fn discover(&self) -> Vec<Found> {
            vec![Found::Device(Arc::new(self.clone()))]
        }
    }

    impl Device for Own {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }

        fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
            let Some(Found::Device(lanes)) = LanesDriver::default().discover().pop() else { panic!("no lanes") };
            Ok(Arc::new(OwnSession { session: lanes.open(params)?, wrong: self.wrong.clone() }))
        }
    }

    struct OwnSession {
        session: Arc<dyn DeviceSession>,
        wrong: Arc<Wrong>,
    }

    impl DeviceSession for OwnSession {
        fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
            let Operands::Digest { input, output } = operands else { panic!("digests only") };
            if self.wrong.fails.load(Relaxed) {
                return Err(Fault::failed("made to fail"));
            }
            let outcome = self.session.run(Operands::Digest { input, output: &mut *output })?;
            output[0] ^= u8::from(self.wrong.miscalculates.load(Relaxed));
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
    fn policies_that_name_software_mean_the_callers_own_device() {
        let own = Own::new("own", Class::Software);
        for policy in ["pin:software", "failover:software,lanes", "size-threshold:9,software,lanes"] {
            let gantry = open_with(config(&[("policy", policy), ("devices", "software=on")]), &[&own]).unwrap();
            let session = session(&gantry);
            let route = session.route(Operation::Digest, 7, 1).unwrap();
            assert_eq!(gantry.devices()[route.device].name(), "own", "{policy}");
            assert_eq!(digest(&session), RIGHT);
        }
        let says = open(config(&[("policy", "pin:software")])).unwrap_err().to_string();
        assert!(says.starts_with("--set policy=pin:software: there is no device 'software'"), "{says}");
    }

    #[test]
    fn a_request_that_a_device_fails_to_do_ends_up_at_the_callers_own() {
        let (own, other) = (Own::new("own", Class::Software), Own::new("other", Class::Hardware));
        let gantry = open_with(config(&[("policy", "pin:other"), ("devices", "lanes=off")]), &[&other, &own]).unwrap();
        let session = session(&gantry);
        assert_eq!(digest(&session), RIGHT);
        other.wrong.fails.store(true, Relaxed);
        assert_eq!(digest(&session), RIGHT);
        assert_ne!(gantry.device("other").unwrap().state(), DeviceState::Ready);
    }

    #[test]
    fn what_a_device_computes_wrongly_is_found_and_made_right_by_the_callers_own() {
        let (own, other) = (Own::new("own", Class::Software), Own::new("other", Class::Hardware));
        let settings = [("policy", "pin:other"), ("devices", "lanes=off"), ("verify", "1/1")];
        let gantry = open_with(config(&settings), &[&other, &own]).unwrap();
        let session = session(&gantry);
        assert_eq!(digest(&session), RIGHT);
        other.wrong.miscalculates.store(true, Relaxed);
        assert_eq!(digest(&session), RIGHT);
        assert_ne!(gantry.device("other").unwrap().state(), DeviceState::Ready);
    }
}
