//! Measurements for `gantry advise`: by how much a device is faster than the host with requests of one size. The two take turns.

use std::time::Instant;

use gantry_core::driver::Class;
use gantry_core::route::Pin;
use gantry_core::stats::uncounted;
use gantry_core::{
    AeadStream, Algorithm, Beside, Direction, Gantry, Operation, RegisteredDevice, Session, SessionParams,
};
use gantry_digest::{Algorithm as Hash, pbkdf2};
use zeroize::Zeroizing;

use crate::boundary::HostKdf;
use crate::derivations::LANES;
use crate::framework::{Framework, nanoseconds};
use crate::host;

/// One operation with requests of one size.
pub(crate) struct Cell {
    pub(crate) operation: Operation,
    pub(crate) bytes: usize,
    /// Where they go, and why.
    pub(crate) device: String,
    pub(crate) why: &'static str,
    /// The fastest of the devices beside the host.
    pub(crate) best: Option<(String, Measured)>,
}

/// Where requests of these sizes go, both ways, and by what the devices are faster.
pub(crate) fn cells(framework: &Framework, algorithm: Algorithm, sizes: &[usize]) -> Vec<Cell> {
    let operations = algorithm.kind().operations();
    let each = operations.iter().flat_map(|operation| sizes.iter().map(move |bytes| (*operation, *bytes)));
    each.filter_map(|(operation, bytes)| cell(&framework.beside, algorithm, operation, bytes)).collect()
}

fn cell(beside: &Beside, algorithm: Algorithm, operation: Operation, bytes: usize) -> Option<Cell> {
    let session = beside.gantry().session(keys(algorithm)).ok()?;
    let measured = beside.rivals(algorithm).filter_map(|device| {
        Some((device.name().to_owned(), measure(beside.gantry(), device, algorithm, operation, bytes)?))
    });
    let best = measured.max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
    let (device, why) = decided(beside, &session, operation, bytes, best.as_ref());
    Some(Cell { operation, bytes, device, why, best })
}

/// The device that requests of so many bytes go to, and why. The savings of a device are learned, for programs to come.
fn decided(
    beside: &Beside,
    session: &Session,
    operation: Operation,
    bytes: usize,
    best: Option<&(String, Measured)>,
) -> (String, &'static str) {
    let algorithm = session.params().algorithm();
    if beside.follows() {
        let name = |place: usize| beside.gantry().devices()[place].name().to_owned();
        let route = session.route(operation, bytes, 1).map(|route| (name(route.device), route.reason.code()));
        return route.unwrap_or((host::NAME.to_owned(), "only-choice"));
    }
    let Some((name, best)) = best else { return (host::NAME.to_owned(), "only-choice") };
    #[allow(clippy::cast_possible_truncation, reason = "times of milliseconds")]
    let saves = Beside::is_worth_it(best.host as f32, best.device as f32);
    let worth = beside.worth(algorithm, operation);
    if saves && worth.saved_ns(bytes).is_none() {
        // So that programs know it from their first requests on.
        beside.calibrate(algorithm, operation);
    }
    let led = worth.saved_ns(bytes).map_or(saves, |saved| saved > 0);
    (if led { name.clone() } else { host::NAME.to_owned() }, "measured")
}

/// Where PBKDF2 derives keys of so many bytes, and by what lanes are faster.
pub(crate) fn derives(framework: &Framework, host: &HostKdf<'_>, hash: Hash, bytes: usize) -> Option<Cell> {
    let lanes = framework.derivations().filter(|lanes| lanes.knows(hash))?;
    let measured = derivation(framework.beside.gantry(), host, hash, bytes)?;
    let device = if lanes.gains(hash, bytes.div_ceil(hash.digest_size())) { LANES } else { host::NAME };
    let best = Some((LANES.to_owned(), measured));
    Some(Cell { operation: Operation::Derive, bytes, device: device.to_owned(), why: "blocks", best })
}

/// What several rounds have shown.
pub(crate) struct Measured {
    /// A request's time on either side, in nanoseconds: the medians.
    pub(crate) host: f64,
    pub(crate) device: f64,
    /// By what the device is faster: the median of the rounds.
    pub(crate) gain: f64,
    /// The distance between the quartiles of that, as a part of it.
    pub(crate) spread: f64,
    /// Time that other programs had of this CPU meanwhile, as a part of all.
    pub(crate) stolen: f64,
}

/// Measures requests of so many bytes in rounds: by the time of the CPU, where the device is a part of it. `None` where it cannot be done.
fn measure(
    gantry: &Gantry,
    device: &RegisteredDevice,
    algorithm: Algorithm,
    operation: Operation,
    bytes: usize,
) -> Option<Measured> {
    // No program asked for it.
    uncounted(|| {
        let mut trial = Trial::new(gantry, device.name(), algorithm, operation, bytes)?;
        let turn = |on: Option<On>| {
            trial.restore();
            on.map_or(Some(()), |on| trial.run(on))
        };
        rounds(turn, gantry, device.class())
    })
}

/// Measures keys of so many bytes that PBKDF2 derives: by the host, and in lanes.
fn derivation(gantry: &Gantry, host: &HostKdf<'_>, hash: Hash, bytes: usize) -> Option<Measured> {
    const PASSWORD: &[u8] = b"password";
    const SALT: &[u8] = b"of eight or more";
    /// Enough for what is done once to be little of it.
    const ITERATIONS: u32 = 1000;
    let mut key = Zeroizing::new(vec![0; bytes]);
    let turn = |on: Option<On>| match on {
        Some(On::Host) => host.pbkdf2(hash, PASSWORD, SALT, ITERATIONS, &mut key).then_some(()),
        Some(On::Device) => pbkdf2(hash, PASSWORD, SALT, ITERATIONS.into(), &mut key).ok(),
        None => Some(()),
    };
    rounds(turn, gantry, Class::Simd)
}

/// Keys that are nobody's. Nearly any key will do, but XTS wants its halves to differ.
fn keys(algorithm: Algorithm) -> SessionParams {
    let any: Vec<u8> = (0..).take(algorithm.info().key.max.min(64)).collect();
    SessionParams::new(algorithm, gantry_core::sample_key(algorithm).unwrap_or(&any)).direction(Direction::Both)
}

/// Requests that either side can run, again and again.
struct Trial {
    host: Session,
    device: Session,
    operation: Operation,
    /// What a device has most messages in pieces by.
    stream: Option<AeadStream>,
    data: Zeroizing<Vec<u8>>,
    /// What is opened, each time anew.
    sealed: Zeroizing<Vec<u8>>,
    tag: Zeroizing<Vec<u8>>,
    signature: Vec<u8>,
    nonce: [u8; 16],
    nonce_length: usize,
}

/// One of two sides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Host,
    Device,
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
        let mut signature = vec![0; keys.tag_length()];
        let (host, device) = (on(host::NAME, keys.clone())?, on(device, keys)?);
        if operation == Operation::Verify {
            device.sign(&data, &mut signature).ok()?;
        }
        let stream = device.aead_stream(operation).ok();
        let mut tag = Zeroizing::new(vec![0; device.params().tag_length()]);
        let takes = device.params().algorithm().info().iv;
        let (nonce, nonce_length) = ([0; 16], takes.min.max(12).min(takes.max));
        let mut sealed = Zeroizing::new(Vec::new());
        if operation == Operation::Open {
            host.seal(&nonce[..nonce_length], &AAD, &mut data[..], &mut tag).ok()?;
            sealed.clone_from(&data);
        }
        Some(Self { host, device, operation, stream, data, sealed, tag, signature, nonce, nonce_length })
    }

    /// What a request of this operation spoils.
    fn restore(&mut self) {
        if self.operation == Operation::Open {
            self.data.copy_from_slice(&self.sealed);
        }
    }

    fn run(&mut self, on: On) -> Option<()> {
        let Self { data, tag, .. } = self;
        let iv = &self.nonce[..self.nonce_length];
        let session = if on == On::Host { &self.host } else { &self.device };
        match self.operation {
            Operation::Encrypt => session.encrypt(iv, &mut data[..]),
            Operation::Decrypt => session.decrypt(iv, &mut data[..]),
            Operation::Seal | Operation::Open => match self.stream.as_mut().filter(|_| on == On::Device) {
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

/// The shortest times of a request on either side, in nanoseconds.
fn shortest(mut turn: impl FnMut(Option<On>) -> Option<()>) -> Option<(u32, u32)> {
    const ROUNDS: u64 = 16;
    const LONG: u64 = 5_000_000;
    let mut run = |on: On| {
        let begun = Instant::now();
        turn(Some(on))?;
        Some(nanoseconds(begun))
    };
    // The first ones open the sessions, with their known-answer tests.
    run(On::Host)?;
    run(On::Device)?;
    let (mut hosts, mut devices) = (u32::MAX, u32::MAX);
    for round in 1..=ROUNDS {
        hosts = hosts.min(run(On::Host)?);
        devices = devices.min(run(On::Device)?);
        // A long request shows in one round which side is faster. One during which others had the CPU only looks long, the first time.
        if round * (u64::from(hosts) + u64::from(devices)) > LONG {
            break;
        }
    }
    Some((hosts, devices))
}

/// Rounds, in each of which either side has a block of requests, the first one first and last in turn. A request is a turn, and one of nobody
/// is what goes before a request.
#[allow(clippy::cast_precision_loss, reason = "times of milliseconds")]
fn rounds(mut turn: impl FnMut(Option<On>) -> Option<()>, gantry: &Gantry, class: Class) -> Option<Measured> {
    const ROUNDS: usize = 9;
    /// A block takes as long: reading the clock is then a thousandth of it.
    const BLOCK: u32 = 400_000;
    const MOST: u32 = 10_000;
    // What another processor does takes none of this one's time.
    let on_the_cpu = matches!(class, Class::Software | Class::Simd);
    let cpu = || gantry.clock().cpu();
    let now = || if on_the_cpu { cpu() } else { None }.unwrap_or_else(|| gantry.clock().now());
    let (wall, had) = (gantry.clock().now(), cpu());
    let (hosts, devices) = shortest(&mut turn)?;
    let count = |ns: u32| (BLOCK / ns.max(1)).clamp(1, MOST);
    let (on_host, on_device) = (count(hosts), count(devices));
    let mut block = |on: Option<On>, requests: u32| {
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
            let (on, requests) = [(On::Host, on_host), (On::Device, on_device)][side];
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
    let ours = had.zip(cpu()).map_or(wall, |(before, after)| after.saturating_sub(before) as f64);
    let stolen = if on_the_cpu { (1.0 - ours / wall.max(1.0)).max(0.0) } else { 0.0 };
    Some(Measured { host: host[1], device: device[1], gain: gain[1], spread: (gain[2] - gain[0]) / gain[1], stolen })
}
