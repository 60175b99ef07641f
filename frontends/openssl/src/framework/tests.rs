//! What is learned about a host, which is another device here.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal};
use gantry_core::route::Pin;
use gantry_core::{Algorithm, Fault, Gantry, Operation, Outcome, Session, SessionParams, tags_equal};
use gantry_runtime::Config;

use super::{Engine, Framework, Side, saved};
use crate::config::Settings;
use crate::host;

/// Keys under which something was run.
type Keys = Arc<Mutex<Vec<Vec<u8>>>>;

/// A host that computes on the software device, with a rest before each request, and takes down every key that it uses.
struct Watched {
    info: DeviceInfo,
    gantry: Gantry,
    rest: Duration,
    used: Keys,
}

struct WatchedDriver(Arc<Watched>);

struct WatchedSession {
    session: Session,
    rest: Duration,
    used: Keys,
}

impl Driver for WatchedDriver {
    fn name(&self) -> &'static str {
        host::NAME
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(self.0.clone())]
    }
}

impl Device for Watched {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let pinned = self.gantry.with_policy(Pin { device: "software".to_owned() });
        let session = pinned.session(params.clone()).map_err(|_| Fault::failed("no session"))?;
        Ok(Arc::new(WatchedSession { session, rest: self.rest, used: self.used.clone() }))
    }
}

impl DeviceSession for WatchedSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        sleep(self.rest);
        self.used.lock().unwrap().push(self.session.params().key().to_vec());
        self.session.run(operands).map_err(|_| Fault::failed("the software device failed"))
    }
}

/// A framework whose host rests so long before each request, and the keys that this uses.
fn framework(rest: Duration) -> (Framework, Keys) {
    let used = Keys::default();
    let capabilities = [Algorithm::Aes128Gcm, Algorithm::Ed25519].map(Capability::new).into();
    let info = DeviceInfo { capabilities, ..DeviceInfo::new(host::NAME, Class::Software) };
    let gantry = gantry_runtime::open_with(Config::default(), &[]).unwrap();
    let host = WatchedDriver(Arc::new(Watched { info, gantry, rest, used: used.clone() }));
    let mut settings = Settings::nothing();
    settings.runtime.set("devices", "lanes=off", "the test").unwrap();
    (Framework::open(&settings, &host).unwrap_or_else(|_| panic!("no framework")), used)
}

const CASES: [(Algorithm, Operation, u8); 2] =
    [(Algorithm::Aes128Gcm, Operation::Seal, 16), (Algorithm::Ed25519, Operation::Sign, 32)];

/// Who serves a request after some seconds of work at most, and whether it was the host at first.
fn learned(framework: &Framework, algorithm: Algorithm, operation: Operation, key: &[u8]) -> (Side, Side) {
    let mut engine = Engine::default();
    let mut ask = || engine.side(framework, operation, 4096, || SessionParams::new(algorithm, key), algorithm);
    let first = ask();
    let end = Instant::now() + Duration::from_mins(1);
    while framework.gain(algorithm, operation).saved_ns(4096).is_none() && Instant::now() < end {
        ask();
    }
    // A session is opened when that has paid.
    (first, (0..100).map(|_| ask()).last().unwrap())
}

/// Runs a test once more in a process that keeps what it measures in a folder of its own; whether this is that process.
fn is_by_itself(name: &str) -> bool {
    const MARK: &str = "GANTRY_TEST_BY_ITSELF";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let folder = std::env::temp_dir().join(format!("gantry-openssl-costs-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name]).env(MARK, "1").env("XDG_CACHE_HOME", &folder);
    let output = command.output().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

#[test]
fn a_host_that_is_slow_is_left_as_soon_as_that_is_known() {
    if !is_by_itself("framework::tests::a_host_that_is_slow_is_left_as_soon_as_that_is_known") {
        return;
    }
    let (framework, used) = framework(Duration::from_micros(300));
    for (algorithm, operation, length) in CASES {
        let key: Vec<u8> = (0..length).map(|at| at ^ 0xA7).collect();
        assert_eq!(learned(&framework, algorithm, operation, &key), (Side::Host, Side::Device), "{algorithm:?}");
        let used = used.lock().unwrap();
        assert!(
            !used.is_empty() && !used.iter().any(|other| tags_equal(other, &key)),
            "measured under a program's key"
        );
    }
}

#[test]
fn what_may_be_chance_or_the_way_to_a_device_saves_nothing() {
    assert_eq!((saved(3000.0, 1300.0), saved(3000.0, 2750.0), saved(300.0, 160.0)), (1550, 0, 0));
    assert_eq!((saved(100_000.0, 96_500.0), saved(100_000.0, f32::INFINITY)), (0, 0));
}
