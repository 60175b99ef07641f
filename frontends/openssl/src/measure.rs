//! Measurements for `gantry advise`: how much faster a device is than the host for requests of one size. Device and host take turns.

use std::time::Instant;

use gantry_core::driver::Class;
use gantry_core::route::Pin;
use gantry_core::stats::uncounted;
use gantry_core::{
    AeadStream, Algorithm, CallerDevice, Direction, Gantry, Operation, RegisteredDevice, Session, SessionParams,
};
use gantry_digest::{Algorithm as Hash, pbkdf2};
use zeroize::Zeroizing;

use crate::derivations::LANES;
use crate::driver;
use crate::framework::{Framework, Side, elapsed_ns};
use crate::host::HostKdf;

/// One operation with requests of one size.
pub(crate) struct Cell {
    pub(crate) operation: Operation,
    pub(crate) bytes: usize,
    /// The device that serves the requests, and the reason.
    pub(crate) device: String,
    pub(crate) reason: &'static str,
    /// The fastest device other than the host, and how much faster it is.
    pub(crate) best: Option<(String, Measurement)>,
}

/// Returns a cell for each operation and size: the device that serves it, and how much faster the devices are. SLH-DSA is not measured.
pub(crate) fn cells(framework: &Framework, algorithm: Algorithm, sizes: &[usize]) -> Vec<Cell> {
    let operations = algorithm.kind().operations();
    let each = operations.iter().flat_map(|operation| sizes.iter().map(move |bytes| (*operation, *bytes)));
    each.filter_map(|(operation, bytes)| cell(&framework.caller_device, algorithm, operation, bytes)).collect()
}

fn cell(caller_device: &CallerDevice, algorithm: Algorithm, operation: Operation, bytes: usize) -> Option<Cell> {
    let session = caller_device.gantry().session(keys(algorithm)).ok()?;
    let measured = caller_device.rivals(algorithm).filter(|_| !algorithm.is_slh_dsa()).filter_map(|device| {
        Some((device.name().to_owned(), measure(caller_device.gantry(), device, algorithm, operation, bytes)?))
    });
    let best = measured.max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
    let (device, reason) = decide(caller_device, &session, operation, bytes, best.as_ref());
    Some(Cell { operation, bytes, device, reason, best })
}

/// Returns the device that serves requests of `bytes` bytes, and the reason. A device's savings are stored for later programs.
fn decide(
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
        let may_serve = |device: &RegisteredDevice| device.name() == driver::NAME || caller_device.is_other(device);
        let route = route.filter(|(device, _)| may_serve(device));
        return route
            .map_or((driver::NAME.to_owned(), "only-choice"), |(device, reason)| (device.name().to_owned(), reason));
    }
    if algorithm.is_slh_dsa() {
        // A signature may take a second. Any other device is faster.
        let other = caller_device.rivals(algorithm).next();
        return other
            .map_or((driver::NAME.to_owned(), "only-choice"), |other| (other.name().to_owned(), "not-measured"));
    }
    let Some((name, best)) = best else { return (driver::NAME.to_owned(), "only-choice") };
    #[allow(clippy::cast_possible_truncation, reason = "times of milliseconds")]
    let saves = CallerDevice::is_worth_it(best.host as f32, best.device as f32);
    let worth = caller_device.worth(algorithm, operation);
    if saves && worth.saved_ns(bytes).is_none() {
        // Stores the costs, which later programs use from their first request on.
        caller_device.calibrate(algorithm, operation);
    }
    let is_served = worth.saved_ns(bytes).map_or(saves, |saved| saved > 0);
    (if is_served { name.clone() } else { driver::NAME.to_owned() }, "measured")
}

/// Returns the side that derives PBKDF2 keys of `bytes` bytes, and how much faster lanes are.
pub(crate) fn derivation_cell(framework: &Framework, host: &HostKdf<'_>, hash: Hash, bytes: usize) -> Option<Cell> {
    let lanes = framework.derivations().filter(|lanes| lanes.is_verified(hash))?;
    let measured = derivation(framework.caller_device.gantry(), host, hash, bytes)?;
    let device = if lanes.is_faster(hash, bytes.div_ceil(hash.digest_size())) { LANES } else { driver::NAME };
    let best = Some((LANES.to_owned(), measured));
    Some(Cell { operation: Operation::Derive, bytes, device: device.to_owned(), reason: "blocks", best })
}

pub(crate) struct Measurement {
    /// Median time of a request on either side, in nanoseconds.
    pub(crate) host: f64,
    pub(crate) device: f64,
    /// Host time divided by device time: the median of the rounds.
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
        let mut trial = Trial::new(gantry, device.name(), algorithm, operation, bytes)?;
        let turn = |on: Option<Side>| {
            trial.restore();
            on.map_or(Some(()), |on| trial.run(on))
        };
        rounds(turn, gantry, device.class())
    })
}

/// Measures PBKDF2 keys of `bytes` bytes, by the host and in lanes.
fn derivation(gantry: &Gantry, host: &HostKdf<'_>, hash: Hash, bytes: usize) -> Option<Measurement> {
    const PASSWORD: &[u8] = b"password";
    const SALT: &[u8] = b"of eight or more";
    /// Enough iterations to make the fixed costs small.
    const ITERATIONS: u32 = 1000;
    let mut key = Zeroizing::new(vec![0; bytes]);
    let turn = |on: Option<Side>| match on {
        Some(Side::Host) => host.pbkdf2(hash, PASSWORD, SALT, ITERATIONS, &mut key).then_some(()),
        Some(Side::Device) => pbkdf2(hash, PASSWORD, SALT, ITERATIONS.into(), &mut key).ok(),
        None => Some(()),
    };
    rounds(turn, gantry, Class::Simd)
}

/// Returns parameters with a throw-away key. Nearly any key will do, but the halves of an XTS key must differ.
fn keys(algorithm: Algorithm) -> SessionParams {
    let any: Vec<u8> = (0..).take(algorithm.info().key.max.min(64)).collect();
    SessionParams::new(algorithm, gantry_core::sample_key(algorithm).unwrap_or(&any)).with_direction(Direction::Both)
}

/// A request that either side can run repeatedly.
struct Trial {
    host: Session,
    device: Session,
    operation: Operation,
    /// The interface that programs use most for messages in chunks.
    stream: Option<AeadStream>,
    data: Zeroizing<Vec<u8>>,
    /// The ciphertext to open, restored before each run.
    sealed: Zeroizing<Vec<u8>>,
    tag: Zeroizing<Vec<u8>>,
    signature: Vec<u8>,
    nonce: [u8; 16],
    nonce_length: usize,
}

const AAD: [u8; 13] = [0; 13];

impl Trial {
    fn new(gantry: &Gantry, device: &str, algorithm: Algorithm, operation: Operation, bytes: usize) -> Option<Self> {
        let on = |name: &str, params: SessionParams| {
            gantry.with_policy(Pin { device: name.to_owned() }).session(params).ok()
        };
        let most = usize::try_from(algorithm.info().max_data).unwrap_or(usize::MAX);
        let mut data = Zeroizing::new(vec![0x5A; bytes.min(most)]);
        let keys = keys(algorithm);
        let mut signature = vec![0; keys.tag_len()];
        let (host, device) = (on(driver::NAME, keys.clone())?, on(device, keys)?);
        if operation == Operation::Verify {
            device.sign(&data, &mut signature).ok()?;
        }
        let stream = device.aead_stream(operation).ok();
        let mut tag = Zeroizing::new(vec![0; device.params().tag_len()]);
        let takes = device.params().algorithm().info().iv;
        let (nonce, nonce_length) = ([0; 16], takes.min.max(12).min(takes.max));
        let mut sealed = Zeroizing::new(Vec::new());
        if operation == Operation::Open {
            host.seal(&nonce[..nonce_length], &AAD, &mut data[..], &mut tag).ok()?;
            sealed.clone_from(&data);
        }
        Some(Self { host, device, operation, stream, data, sealed, tag, signature, nonce, nonce_length })
    }

    /// Restores the data that a request of this operation overwrites.
    fn restore(&mut self) {
        if self.operation == Operation::Open {
            self.data.copy_from_slice(&self.sealed);
        }
    }

    fn run(&mut self, on: Side) -> Option<()> {
        let Self { data, tag, .. } = self;
        let iv = &self.nonce[..self.nonce_length];
        let session = if on == Side::Host { &self.host } else { &self.device };
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

/// Returns the shortest times of a request on either side, in nanoseconds.
fn shortest_times(mut turn: impl FnMut(Option<Side>) -> Option<()>) -> Option<(u32, u32)> {
    const ROUNDS: u64 = 16;
    const LONG: u64 = 5_000_000;
    let mut run = |on: Side| {
        let begun = Instant::now();
        turn(Some(on))?;
        Some(elapsed_ns(begun))
    };
    // The first runs open the sessions, including their known-answer tests.
    run(Side::Host)?;
    run(Side::Device)?;
    let (mut host_ns, mut device_ns) = (u32::MAX, u32::MAX);
    for round in 1..=ROUNDS {
        host_ns = host_ns.min(run(Side::Host)?);
        device_ns = device_ns.min(run(Side::Device)?);
        // One round is enough for a long request. A short request that other programs delayed gets more rounds.
        if round * (u64::from(host_ns) + u64::from(device_ns)) > LONG {
            break;
        }
    }
    Some((host_ns, device_ns))
}

/// Runs rounds. In each, either side runs a block of requests; the sides take turns at going first. `turn(Some(side))` prepares and runs a
/// request; `turn(None)` only prepares it.
#[allow(clippy::cast_precision_loss, reason = "times of milliseconds")]
fn rounds(mut turn: impl FnMut(Option<Side>) -> Option<()>, gantry: &Gantry, class: Class) -> Option<Measurement> {
    const ROUNDS: usize = 9;
    /// Nanoseconds of a block: reading the clock then takes a thousandth of the block.
    const BLOCK: u32 = 400_000;
    const MOST: u32 = 10_000;
    // Work on another processor takes no time of this CPU.
    let on_the_cpu = matches!(class, Class::Software | Class::Simd);
    let cpu = || gantry.clock().cpu();
    let now = || if on_the_cpu { cpu() } else { None }.unwrap_or_else(|| gantry.clock().now());
    let (wall, cpu_before) = (gantry.clock().now(), cpu());
    let (host_ns, device_ns) = shortest_times(&mut turn)?;
    let count = |ns: u32| (BLOCK / ns.max(1)).clamp(1, MOST);
    let (on_host, on_device) = (count(host_ns), count(device_ns));
    let mut block = |on: Option<Side>, requests: u32| {
        let begun = now();
        for _ in 0..requests {
            turn(on)?;
        }
        Some(now().saturating_sub(begun) as f64 / f64::from(requests))
    };
    let copying = block(None, on_host)?;
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let mut pair = [0.0; 2];
        for side in [round % 2, 1 - round % 2] {
            let (on, requests) = [(Side::Host, on_host), (Side::Device, on_device)][side];
            pair[side] = (block(Some(on), requests)? - copying).max(1.0);
        }
        times[0].push(pair[0]);
        times[1].push(pair[1]);
        times[2].push(pair[0] / pair[1]);
    }
    let [host, device, gain] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[ROUNDS / 4], times[ROUNDS / 2], times[ROUNDS - 1 - ROUNDS / 4]]
    });
    let wall = gantry.clock().now().saturating_sub(wall) as f64;
    let used = cpu_before.zip(cpu()).map_or(wall, |(before, after)| after.saturating_sub(before) as f64);
    let stolen = if on_the_cpu { (1.0 - used / wall.max(1.0)).max(0.0) } else { 0.0 };
    Some(Measurement { host: host[1], device: device[1], gain: gain[1], spread: (gain[2] - gain[0]) / gain[1], stolen })
}
