//! Trials: which of two devices is faster with requests of one size, and by how much. The host and another device take turns.

use std::time::Instant;

use gantry::driver::{Class, Operands};
use gantry::route::Pin;
use gantry::stats::uncounted;
use gantry::{AeadStream, Algorithm, Direction, Gantry, Kind, Operation, Session, SessionParams};
use zeroize::Zeroizing;

use crate::framework::nanoseconds;
use crate::{host, pair};

/// The shortest times of a request of so many bytes on the host and on `device`, in nanoseconds; `None` where it cannot be tried
/// out. `params` are those of a program's session.
pub(crate) fn times(
    gantry: &Gantry,
    params: &SessionParams,
    device: &str,
    operation: Operation,
    bytes: usize,
) -> Option<(u32, u32)> {
    // It is no request of the program's.
    uncounted(|| shortest(&mut Trial::new(gantry, params, device, operation, bytes)?))
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

/// The same, measured well: by the time of the CPU where the device is a part of it, in rounds.
pub(crate) fn measure(
    gantry: &Gantry,
    params: &SessionParams,
    (device, class): (&str, Class),
    operation: Operation,
    bytes: usize,
) -> Option<Measured> {
    uncounted(|| rounds(&mut Trial::new(gantry, params, device, operation, bytes)?, gantry, class))
}

/// The session of a trial of `operation`, and that of the signer where the trial verifies.
///
/// A trial never uses the program's key, of which `params` takes the lengths only. A trial under that key would encrypt with a
/// nonce that the program may use, too, which gives away the authentication key of GCM (SP 800-38D, 8.2), or sign what nobody
/// asked for.
pub(crate) fn trial_keys(params: &SessionParams, operation: Operation) -> (SessionParams, Option<SessionParams>) {
    let algorithm = params.algorithm();
    let with = |key: &[u8], direction| SessionParams::new(algorithm, key).direction(direction);
    let verifies = operation == Operation::Verify;
    match (algorithm, algorithm.kind()) {
        // The public key of the private one that is 1 is the generator.
        (Algorithm::EcdsaP256, _) if verifies => {
            let mut one = [0; pair::SIZE];
            one[pair::SIZE - 1] = 1;
            let generator = Algorithm::EcdhP256.info().generator;
            (with(generator, Direction::Decrypt), Some(with(&one, Direction::Encrypt)))
        }
        (Algorithm::EcdsaP256, _) => (with(&[0x5A; pair::SIZE], Direction::Encrypt), None),
        (_, Kind::Signature | Kind::Exchange) => {
            let both = with(gantry::sample_key(algorithm).unwrap_or(&[0x5A; pair::SIZE]), Direction::Both);
            (both.clone(), verifies.then_some(both))
        }
        _ => {
            let sample = |length: usize| -> Vec<u8> { (0..length).map(|index| index as u8 ^ 0x3C).collect() };
            let key = with(&sample(params.key().len()), direction_of(params));
            (key.mac_key(&sample(params.second_key().len())).tag_len(params.tag_length()), None)
        }
    }
}

/// Some devices go only one way.
fn direction_of(params: &SessionParams) -> Direction {
    match params.algorithm().kind().operations() {
        [forward, _] if !params.allows(*forward) => Direction::Decrypt,
        [_, back] if !params.allows(*back) => Direction::Encrypt,
        _ => Direction::Both,
    }
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
    fn new(gantry: &Gantry, params: &SessionParams, device: &str, operation: Operation, bytes: usize) -> Option<Self> {
        let on = |name: &str, params: SessionParams| {
            gantry.with_policy(Pin { device: name.to_owned() }).session(params).ok()
        };
        let most = usize::try_from(params.algorithm().info().max_data).unwrap_or(usize::MAX);
        let mut data = Zeroizing::new(vec![0x5A; bytes.min(most)]);
        let mut signature = vec![0; params.tag_length()];
        let (keys, signing) = trial_keys(params, operation);
        if let Some(signing) = signing {
            on(device, signing)?.sign(&data, &mut signature).ok()?;
        }
        let (host, device) = (on(host::NAME, keys.clone())?, on(device, keys)?);
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
            Operation::Mac if on == On::Host => session.run(mac(iv, data, tag)).map(drop),
            // As messages come: in pieces, or held until they are whole. The host begins each, whoever has it then; an
            // empty one takes it somewhat longer than that.
            Operation::Mac => self.host.run(mac(iv, &[], tag)).and_then(|_| match self.nonce_length {
                0 => session.stream(1).and_then(|mut stream| {
                    stream.update(data)?;
                    stream.finish(tag)
                }),
                _ => session.run(mac(iv, &data.clone(), tag)).map(drop),
            }),
            Operation::Sign => session.sign(data, tag),
            Operation::Verify => session.verify(data, &self.signature),
            Operation::Derive => session.derive(session.params().algorithm().info().generator, tag),
            _ => return None,
        }
        .ok()
    }
}

/// The shortest times of a request on either side, in nanoseconds.
fn shortest(trial: &mut Trial) -> Option<(u32, u32)> {
    const ROUNDS: u64 = 16;
    const LONG: u64 = 5_000_000;
    let mut run = |on: On| {
        trial.restore();
        let begun = Instant::now();
        trial.run(on)?;
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

/// Rounds, in each of which either side has a block of requests, the first one first and last in turn.
#[allow(clippy::cast_precision_loss, reason = "times of milliseconds")]
fn rounds(trial: &mut Trial, gantry: &Gantry, class: Class) -> Option<Measured> {
    const ROUNDS: usize = 9;
    /// A block takes as long: reading the clock is then a thousandth of it.
    const BLOCK: u32 = 400_000;
    const MOST: u32 = 10_000;
    // What another processor does takes none of this one's time.
    let on_the_cpu = matches!(class, Class::Software | Class::Simd);
    let cpu = || gantry.clock().cpu();
    let now = || if on_the_cpu { cpu() } else { None }.unwrap_or_else(|| gantry.clock().now());
    let (wall, had) = (gantry.clock().now(), cpu());
    let (hosts, devices) = shortest(trial)?;
    let count = |ns: u32| (BLOCK / ns.max(1)).clamp(1, MOST);
    let (on_host, on_device) = (count(hosts), count(devices));
    let mut block = |on: Option<On>, requests: u32| {
        let begun = now();
        for _ in 0..requests {
            trial.restore();
            if let Some(on) = on {
                trial.run(on)?;
            }
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

fn mac<'a>(iv: &'a [u8], input: &'a [u8], output: &'a mut [u8]) -> Operands<'a> {
    Operands::Mac { iv, input, output }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use gantry::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Refusal};
    use gantry::{Fault, Outcome, tags_equal};
    use gantry_runtime::Config;

    use super::*;
    use crate::config::Settings;
    use crate::framework::{Engine, Framework};
    use crate::table::{CIPHERS, MACS, Mac, Mode, PAIRS, RSA, software_may_gain};

    /// Keys under which something was run.
    type Keys = Arc<Mutex<Vec<Vec<u8>>>>;

    /// A host that takes down every key that it uses. It computes on the software device.
    struct Watched {
        info: DeviceInfo,
        gantry: Gantry,
        used: Keys,
    }

    struct WatchedDriver(Arc<Watched>);

    struct WatchedSession {
        session: Session,
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
            Ok(Arc::new(WatchedSession { session, used: self.used.clone() }))
        }
    }

    impl DeviceSession for WatchedSession {
        fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
            self.used.lock().unwrap().push(self.session.params().key().to_vec());
            self.session.run(operands).map_err(|_| Fault::failed("the software device failed"))
        }
    }

    /// A framework whose policy is to be tried out, and the keys that its host uses.
    fn framework() -> (Framework, Keys) {
        let used = Keys::default();
        let capabilities = Algorithm::ALL.iter().map(|algorithm| Capability::new(*algorithm)).collect();
        let info = DeviceInfo { capabilities, ..DeviceInfo::new(host::NAME, Class::Software) };
        let gantry = gantry_runtime::open_with(Config::default(), &[]).unwrap();
        let host = WatchedDriver(Arc::new(Watched { info, gantry, used: used.clone() }));
        let mut settings = Settings::nothing();
        settings.runtime.set("policy", "pin:software", "the test").unwrap();
        (Framework::open(&settings, &host).unwrap_or_else(|_| panic!("no framework")), used)
    }

    /// A key of the right length that is nobody else's.
    fn programs_key(algorithm: Algorithm) -> Vec<u8> {
        let lengths = algorithm.info().key;
        let length = if lengths.max == usize::MAX { 40 } else { lengths.max };
        (0..length).map(|index| index as u8 ^ 0xA7).collect()
    }

    #[test]
    fn a_trial_uses_keys_of_its_own() {
        let (framework, used) = framework();
        let gantry = gantry_runtime::open_with(Config::default(), &[]).unwrap();
        let software = gantry.device("software").unwrap();
        let macs = MACS.iter().filter_map(|row| if let Mode::Mac(mac) = row.mode { Some(mac) } else { None });
        let algorithms = CIPHERS.iter().chain(&PAIRS).filter_map(|row| row.algorithm);
        let algorithms = algorithms.chain(macs.flat_map(Mac::algorithms).map(|(mac, _)| mac)).chain(RSA.concat());
        // Those of which there is a trial.
        let algorithms =
            algorithms.filter(|algorithm| software.capability(*algorithm).is_some() && software_may_gain(*algorithm));
        for algorithm in algorithms {
            let program = programs_key(algorithm);
            for operation in algorithm.kind().operations() {
                used.lock().unwrap().clear();
                let params = || SessionParams::new(algorithm, &program);
                Engine::default().side(&framework, *operation, 4096, params, algorithm);
                let used = used.lock().unwrap();
                assert!(!used.is_empty(), "{algorithm:?}, {operation:?}: nothing was tried out");
                assert!(!used.iter().any(|key| tags_equal(key, &program)), "{algorithm:?}, {operation:?}");
            }
        }
    }

    #[test]
    fn keys_of_a_trial_are_like_those_of_the_session() {
        let of = |algorithm, length| SessionParams::new(algorithm, &vec![0xA7; length]);
        for (params, operation) in [
            (of(Algorithm::Aes128Ccm, 16).tag_len(8), Operation::Seal),
            (of(Algorithm::Aes128Cbc, 16).direction(Direction::Encrypt), Operation::Encrypt),
            (of(Algorithm::Aes128Cbc, 16).direction(Direction::Decrypt), Operation::Decrypt),
            (of(Algorithm::HmacSha256, 1), Operation::Mac),
            (of(Algorithm::HmacSha256, 200), Operation::Mac),
        ] {
            let (trial, signer) = trial_keys(&params, operation);
            assert!(signer.is_none());
            assert_eq!(format!("{trial:?}"), format!("{params:?}"), "Debug shows all but the keys");
            assert_ne!(trial.key(), params.key());
        }
    }
}
