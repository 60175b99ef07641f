//! Measurements for `gantry advise`: how much faster a device is than the default provider for requests of one size. The two take turns.

use std::time::Instant;

use gantry_core::driver::Class;
use gantry_core::route::Pin;
use gantry_core::stats::uncounted;
use gantry_core::{
    AeadStream, Algorithm, CallerDevice, Direction, Gantry, Operation, RegisteredDevice, Session, SessionParams,
};
use gantry_digest::{Algorithm as Hash, pbkdf2};
use zeroize::Zeroizing;

use crate::derivations::LANES_DEVICE;
use crate::driver;
use crate::framework::{Framework, Side, elapsed_ns};
use crate::libcrypto::DefaultProviderKdf;

/// One operation with requests of one size.
pub(crate) struct MeasurementCell {
    pub(crate) operation: Operation,
    pub(crate) bytes: usize,
    /// The device that serves the requests, and the reason.
    pub(crate) device: String,
    pub(crate) reason: &'static str,
    /// The fastest device other than the default provider, and how much faster it is.
    pub(crate) best: Option<(String, Measurement)>,
}

/// Returns a cell for each operation and size: the device that serves it, and how much faster the devices are. SLH-DSA is not measured.
pub(crate) fn measure_cells(framework: &Framework, algorithm: Algorithm, sizes: &[usize]) -> Vec<MeasurementCell> {
    let operations = algorithm.kind().operations();
    let each = operations.iter().flat_map(|operation| sizes.iter().map(move |bytes| (*operation, *bytes)));
    each.filter_map(|(operation, bytes)| measure_cell(&framework.caller_device, algorithm, operation, bytes)).collect()
}

fn measure_cell(
    caller_device: &CallerDevice,
    algorithm: Algorithm,
    operation: Operation,
    bytes: usize,
) -> Option<MeasurementCell> {
    let session = caller_device.gantry().session(sample_params(algorithm)).ok()?;
    let measured = caller_device.other_devices(algorithm).filter(|_| !algorithm.is_slh_dsa()).filter_map(|device| {
        Some((device.name().to_owned(), measure(caller_device.gantry(), device, algorithm, operation, bytes)?))
    });
    let best = measured.max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
    let (device, reason) = decide_device(caller_device, &session, operation, bytes, best.as_ref());
    Some(MeasurementCell { operation, bytes, device, reason, best })
}

/// Returns the device that serves requests of `bytes` bytes, and the reason. A device's savings are stored for later programs.
fn decide_device(
    caller_device: &CallerDevice,
    session: &Session,
    operation: Operation,
    bytes: usize,
    best: Option<&(String, Measurement)>,
) -> (String, &'static str) {
    let algorithm = session.params().algorithm();
    if caller_device.follows_policy() {
        let route = session.route(operation, bytes, 1);
        let route = route.map(|route| (&caller_device.gantry().devices()[route.device], route.reason.code()));
        let may_serve =
            |device: &RegisteredDevice| device.name() == driver::DEVICE_NAME || caller_device.is_other(device);
        let route = route.filter(|(device, _)| may_serve(device));
        return route.map_or((driver::DEVICE_NAME.to_owned(), "only-choice"), |(device, reason)| {
            (device.name().to_owned(), reason)
        });
    }
    if algorithm.is_slh_dsa() {
        // A signature may take a second. Any other device is faster.
        let other = caller_device.other_devices(algorithm).next();
        return other.map_or((driver::DEVICE_NAME.to_owned(), "only-choice"), |other| {
            (other.name().to_owned(), "not-measured")
        });
    }
    let Some((name, best)) = best else { return (driver::DEVICE_NAME.to_owned(), "only-choice") };
    #[allow(clippy::cast_possible_truncation, reason = "times of milliseconds")]
    let saves = CallerDevice::is_worth_it(best.default_ns as f32, best.device_ns as f32);
    let savings = caller_device.savings(algorithm, operation);
    if saves && savings.saved_ns(bytes).is_none() {
        // Stores the costs, which later programs use from their first request on.
        caller_device.calibrate(algorithm, operation);
    }
    let is_served = savings.saved_ns(bytes).map_or(saves, |saved| saved > 0);
    (if is_served { name.clone() } else { driver::DEVICE_NAME.to_owned() }, "measured")
}

/// Returns the side that derives PBKDF2 keys of `bytes` bytes, and how much faster lanes are.
pub(crate) fn measure_derivation_cell(
    framework: &Framework,
    default_kdf: &DefaultProviderKdf<'_>,
    hash: Hash,
    bytes: usize,
) -> Option<MeasurementCell> {
    let lanes = framework.derivations().filter(|lanes| lanes.is_verified(hash))?;
    let measured = measure_derivation(framework.caller_device.gantry(), default_kdf, hash, bytes)?;
    let device =
        if lanes.is_faster(hash, bytes.div_ceil(hash.digest_size())) { LANES_DEVICE } else { driver::DEVICE_NAME };
    let best = Some((LANES_DEVICE.to_owned(), measured));
    Some(MeasurementCell { operation: Operation::Derive, bytes, device: device.to_owned(), reason: "blocks", best })
}

pub(crate) struct Measurement {
    /// Median time of a request on the default provider, in nanoseconds.
    pub(crate) default_ns: f64,
    /// Median time of a request on the device, in nanoseconds.
    pub(crate) device_ns: f64,
    /// The default provider's time divided by the device's: the median of the rounds.
    pub(crate) gain: f64,
    /// The interquartile range of `gain`, as a fraction of `gain`.
    pub(crate) spread: f64,
    /// The fraction of the time in which other programs had this CPU.
    pub(crate) stolen: f64,
}

/// Measures requests of `bytes` bytes in rounds: CPU time if the device runs on this CPU, wall time otherwise. Returns `None` on failure.
fn measure(
    gantry: &Gantry,
    device: &RegisteredDevice,
    algorithm: Algorithm,
    operation: Operation,
    bytes: usize,
) -> Option<Measurement> {
    // The statistics do not count these requests, because no program made them.
    uncounted(|| {
        let mut trial = TrialRequest::new(gantry, device.name(), algorithm, operation, bytes)?;
        let run_turn = |on: Option<Side>| {
            trial.restore();
            on.map_or(Some(()), |on| trial.run(on))
        };
        measure_rounds(run_turn, gantry, device.class())
    })
}

/// Measures PBKDF2 keys of `bytes` bytes, by the default provider and in lanes.
fn measure_derivation(
    gantry: &Gantry,
    default_kdf: &DefaultProviderKdf<'_>,
    hash: Hash,
    bytes: usize,
) -> Option<Measurement> {
    const PASSWORD: &[u8] = b"password";
    const SALT: &[u8] = b"of eight or more";
    /// Enough iterations to make the fixed costs small.
    const ITERATIONS: u32 = 1000;
    let mut key = Zeroizing::new(vec![0; bytes]);
    let run_turn = |on: Option<Side>| match on {
        Some(Side::DefaultProvider) => default_kdf.pbkdf2(hash, PASSWORD, SALT, ITERATIONS, &mut key).then_some(()),
        Some(Side::Device) => pbkdf2(hash, PASSWORD, SALT, ITERATIONS.into(), &mut key).ok(),
        None => Some(()),
    };
    measure_rounds(run_turn, gantry, Class::Simd)
}

/// Returns parameters with a throw-away key. Nearly any key will do, but the halves of an XTS key must differ.
fn sample_params(algorithm: Algorithm) -> SessionParams {
    let any: Vec<u8> = (0..).take(algorithm.info().key.max.min(64)).collect();
    SessionParams::new(algorithm, gantry_core::sample_key(algorithm).unwrap_or(&any)).with_direction(Direction::Both)
}

/// A request that either side can run repeatedly.
struct TrialRequest {
    default_session: Session,
    device_session: Session,
    operation: Operation,
    /// For AEADs, a stream on the device: contexts of programs use streams too.
    stream: Option<AeadStream>,
    data: Zeroizing<Vec<u8>>,
    /// The ciphertext to open, restored before each run.
    sealed: Zeroizing<Vec<u8>>,
    tag: Zeroizing<Vec<u8>>,
    signature: Vec<u8>,
    nonce: [u8; 16],
    nonce_len: usize,
}

const AAD: [u8; 13] = [0; 13];

impl TrialRequest {
    fn new(gantry: &Gantry, device: &str, algorithm: Algorithm, operation: Operation, bytes: usize) -> Option<Self> {
        let session_on = |name: &str, params: SessionParams| {
            gantry.with_policy(Pin { device: name.to_owned() }).session(params).ok()
        };
        let max_len = usize::try_from(algorithm.info().max_data).unwrap_or(usize::MAX);
        let mut data = Zeroizing::new(vec![0x5A; bytes.min(max_len)]);
        let params = sample_params(algorithm);
        let mut signature = vec![0; params.tag_len()];
        let (default_session, device_session) =
            (session_on(driver::DEVICE_NAME, params.clone())?, session_on(device, params)?);
        if operation == Operation::Verify {
            device_session.sign(&data, &mut signature).ok()?;
        }
        let stream = device_session.aead_stream(operation).ok();
        let mut tag = Zeroizing::new(vec![0; device_session.params().tag_len()]);
        let iv_lengths = device_session.params().algorithm().info().iv;
        let (nonce, nonce_len) = ([0; 16], iv_lengths.min.max(12).min(iv_lengths.max));
        let mut sealed = Zeroizing::new(Vec::new());
        if operation == Operation::Open {
            default_session.seal(&nonce[..nonce_len], &AAD, &mut data[..], &mut tag).ok()?;
            sealed.clone_from(&data);
        }
        Some(Self {
            default_session,
            device_session,
            operation,
            stream,
            data,
            sealed,
            tag,
            signature,
            nonce,
            nonce_len,
        })
    }

    /// Restores the data that a request of this operation overwrites.
    fn restore(&mut self) {
        if self.operation == Operation::Open {
            self.data.copy_from_slice(&self.sealed);
        }
    }

    fn run(&mut self, on: Side) -> Option<()> {
        let Self { data, tag, .. } = self;
        let iv = &self.nonce[..self.nonce_len];
        let session = if on == Side::DefaultProvider { &self.default_session } else { &self.device_session };
        match self.operation {
            Operation::Encrypt => session.encrypt(iv, &mut data[..]),
            Operation::Decrypt => session.decrypt(iv, &mut data[..]),
            Operation::Seal | Operation::Open => match self.stream.as_mut().filter(|_| on == Side::Device) {
                Some(stream) => {
                    let begun = stream.begin(iv, &AAD).and_then(|()| stream.update(&mut data[..]));
                    begun.and_then(
                        |()| if self.operation == Operation::Seal { stream.seal(tag) } else { stream.open(tag) },
                    )
                }
                None if self.operation == Operation::Seal => session.seal(iv, &AAD, &mut data[..], tag),
                None => session.open(iv, &AAD, &mut data[..], tag),
            },
            Operation::Sign => session.sign(data, tag),
            Operation::Verify => session.verify(data, &self.signature),
            Operation::Derive => session.derive(session.params().algorithm().info().generator, tag),
            _ => return None,
        }
        .ok()
    }
}

/// Returns the shortest time of a request on the default provider and on the device, in nanoseconds.
fn shortest_times(mut run_turn: impl FnMut(Option<Side>) -> Option<()>) -> Option<(u32, u32)> {
    const ROUNDS: u64 = 16;
    const MAX_TOTAL_NS: u64 = 5_000_000;
    let mut run = |on: Side| {
        let begun = Instant::now();
        run_turn(Some(on))?;
        Some(elapsed_ns(begun))
    };
    // The first runs open the sessions, including their known-answer tests.
    run(Side::DefaultProvider)?;
    run(Side::Device)?;
    let (mut default_ns, mut device_ns) = (u32::MAX, u32::MAX);
    for round in 1..=ROUNDS {
        default_ns = default_ns.min(run(Side::DefaultProvider)?);
        device_ns = device_ns.min(run(Side::Device)?);
        // One round is enough for a long request. A short request that other programs delayed gets more rounds.
        if round * (u64::from(default_ns) + u64::from(device_ns)) > MAX_TOTAL_NS {
            break;
        }
    }
    Some((default_ns, device_ns))
}

/// Runs rounds. In each round, both sides run a block of requests, and the sides take turns at going first. `run_turn(Some(side))` prepares
/// and runs a request; `run_turn(None)` only prepares it.
#[allow(clippy::cast_precision_loss, reason = "times of milliseconds")]
fn measure_rounds(
    mut run_turn: impl FnMut(Option<Side>) -> Option<()>,
    gantry: &Gantry,
    class: Class,
) -> Option<Measurement> {
    const ROUNDS: usize = 9;
    /// Nanoseconds of a block: so long that reading the clock takes only a thousandth of it.
    const BLOCK_NS: u32 = 400_000;
    const MAX_BLOCK_REQUESTS: u32 = 10_000;
    // Work on another processor takes no time of this CPU.
    let on_the_cpu = matches!(class, Class::Software | Class::Simd);
    let cpu = || gantry.clock().thread_cpu_time();
    let now = || if on_the_cpu { cpu() } else { None }.unwrap_or_else(|| gantry.clock().now());
    let (wall, cpu_before) = (gantry.clock().now(), cpu());
    let (default_ns, device_ns) = shortest_times(&mut run_turn)?;
    let requests_per_block = |ns: u32| (BLOCK_NS / ns.max(1)).clamp(1, MAX_BLOCK_REQUESTS);
    let (default_requests, device_requests) = (requests_per_block(default_ns), requests_per_block(device_ns));
    let mut block = |on: Option<Side>, requests: u32| {
        let begun = now();
        for _ in 0..requests {
            run_turn(on)?;
        }
        Some(now().saturating_sub(begun) as f64 / f64::from(requests))
    };
    let preparation_ns = block(None, default_requests)?;
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let mut pair = [0.0; 2];
        for side in [round % 2, 1 - round % 2] {
            let (on, requests) = [(Side::DefaultProvider, default_requests), (Side::Device, device_requests)][side];
            pair[side] = (block(Some(on), requests)? - preparation_ns).max(1.0);
        }
        times[0].push(pair[0]);
        times[1].push(pair[1]);
        times[2].push(pair[0] / pair[1]);
    }
    let [default_ns, device_ns, gain] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[ROUNDS / 4], times[ROUNDS / 2], times[ROUNDS - 1 - ROUNDS / 4]]
    });
    let wall = gantry.clock().now().saturating_sub(wall) as f64;
    let used = cpu_before.zip(cpu()).map_or(wall, |(before, after)| after.saturating_sub(before) as f64);
    let stolen = if on_the_cpu { (1.0 - used / wall.max(1.0)).max(0.0) } else { 0.0 };
    Some(Measurement {
        default_ns: default_ns[1],
        device_ns: device_ns[1],
        gain: gain[1],
        spread: (gain[2] - gain[0]) / gain[1],
        stolen,
    })
}
