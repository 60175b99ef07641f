//! A trial: which of two devices is faster with requests of one size. The host and the device that the policy names take turns.

use std::time::{Duration, Instant};

use gantry::driver::Operands;
use gantry::route::Pin;
use gantry::{Algorithm, Direction, Gantry, Kind, Operation, Session, SessionParams};
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
    let on =
        |name: &str, params: SessionParams| gantry.with_policy(Pin { device: name.to_owned() }).session(params).ok();
    let most = usize::try_from(params.algorithm().info().max_data).unwrap_or(usize::MAX);
    let data = Zeroizing::new(vec![0x5A; bytes.min(most)]);
    let mut signature = vec![0; params.tag_length()];
    let (keys, signing) = trial_keys(params, operation);
    if let Some(signing) = signing {
        on(device, signing)?.sign(&data, &mut signature).ok()?;
    }
    shortest(&on(host::NAME, keys.clone())?, &on(device, keys)?, operation, data, &signature)
}

/// The session of a trial of `operation`, and that of the signer where the trial verifies.
///
/// A trial never uses the program's key, of which `params` takes the lengths only. A trial under that key would encrypt with a
/// nonce that the program may use, too, which gives away the authentication key of GCM (SP 800-38D, 8.2), or sign what nobody
/// asked for.
fn trial_keys(params: &SessionParams, operation: Operation) -> (SessionParams, Option<SessionParams>) {
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

/// The shortest times of a request on either side, in nanoseconds; `None` where it cannot be tried out.
fn shortest(
    host: &Session,
    device: &Session,
    operation: Operation,
    mut data: Zeroizing<Vec<u8>>,
    signature: &[u8],
) -> Option<(u32, u32)> {
    const ROUNDS: usize = 16;
    const LONG: Duration = Duration::from_millis(5);
    let mut stream = device.aead_stream(operation).ok();
    let mut tag = Zeroizing::new(vec![0; device.params().tag_length()]);
    let mut nonce = [0; 16];
    let takes = device.params().algorithm().info().iv;
    let iv = &mut nonce[..takes.min.max(12).min(takes.max)];
    let aad = [0; 13];
    let mut sealed = Zeroizing::new(Vec::new());
    if operation == Operation::Open {
        host.seal(iv, &aad, &mut data[..], &mut tag).ok()?;
        sealed.clone_from(&data);
    }
    let mut run = |session: &Session| {
        if operation == Operation::Open {
            data.copy_from_slice(&sealed);
        }
        let begun = Instant::now();
        match operation {
            Operation::Encrypt => session.encrypt(iv, &mut data[..]),
            Operation::Decrypt => session.decrypt(iv, &mut data[..]),
            // A device has most messages in pieces.
            Operation::Seal | Operation::Open => match stream.as_mut().filter(|_| std::ptr::eq(session, device)) {
                Some(stream) => {
                    let begun = stream.begin(iv, &aad).and_then(|()| stream.update(&mut data[..]));
                    begun.and_then(
                        |()| if operation == Operation::Seal { stream.seal(&mut tag) } else { stream.open(&tag) },
                    )
                }
                None if operation == Operation::Seal => session.seal(iv, &aad, &mut data[..], &mut tag),
                None => session.open(iv, &aad, &mut data[..], &tag),
            },
            Operation::Mac if std::ptr::eq(session, host) => session.run(mac(iv, &data, &mut tag)).map(drop),
            // As messages come: in pieces, or held until they are whole. The host begins each, whoever has it then; an
            // empty one takes it somewhat longer than that.
            Operation::Mac => host.run(mac(iv, &[], &mut tag)).and_then(|_| match takes.max {
                0 => session.stream(1).and_then(|mut stream| {
                    stream.update(&data)?;
                    stream.finish(&mut tag)
                }),
                _ => session.run(mac(iv, &data.clone(), &mut tag)).map(drop),
            }),
            Operation::Sign => session.sign(&data, &mut tag),
            Operation::Verify => session.verify(&data, signature),
            Operation::Derive => session.derive(session.params().algorithm().info().generator, &mut tag),
            Operation::Digest => return None,
        }
        .ok()?;
        Some(nanoseconds(begun))
    };
    // The first ones open the sessions, with their known-answer tests.
    run(host)?;
    run(device)?;
    let (mut hosts, mut devices) = (u32::MAX, u32::MAX);
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        hosts = hosts.min(run(host)?);
        devices = devices.min(run(device)?);
        // A long request shows in one round which side is faster.
        if begun.elapsed() > LONG {
            break;
        }
    }
    Some((hosts, devices))
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
