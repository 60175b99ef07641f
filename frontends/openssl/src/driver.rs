//! The host's own implementation as a device. A route may choose it, and it repeats requests that another device failed.

use std::sync::{Arc, Mutex};

use gantry_core::driver::{
    Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal, Unsupported,
};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams};

use crate::host::{Agreement, HostAlgorithm, HostContext, HostKey, HostPair};
use crate::table::{Chain, Mode};

/// The name of the device and of its driver.
pub(crate) const NAME: &str = "host";

/// Finds the only device of this driver: the wrapped algorithms.
pub(crate) struct HostDriver(Arc<HostDevice>);

impl HostDriver {
    /// `version` is the host's release.
    pub(crate) fn new(offers: Vec<(Algorithm, Offer)>, version: (u32, u32)) -> Self {
        let info = DeviceInfo {
            description: "the libcrypto of this program".to_owned(),
            version: format!("{}.{}", version.0, version.1),
            capabilities: offers.iter().map(|(algorithm, ..)| Capability::new(*algorithm)).collect(),
            ..DeviceInfo::new(NAME, Class::Software)
        };
        Self(Arc::new(HostDevice { info, offers }))
    }
}

/// The way in which the host computes an algorithm.
#[derive(Clone, Copy)]
pub(crate) enum Offer {
    Cipher(Mode, HostAlgorithm),
    Pair(HostPair),
}

impl Driver for HostDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(self.0.clone())]
    }
}

struct HostDevice {
    info: DeviceInfo,
    offers: Vec<(Algorithm, Offer)>,
}

impl Device for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let offer = self.offers.iter().find(|(algorithm, ..)| *algorithm == params.algorithm());
        let (_, offer) = offer.ok_or(Unsupported::because("the default provider does not have this algorithm"))?;
        let params = params.clone();
        Ok(match *offer {
            Offer::Cipher(mode, host) => Arc::new(HostSession { mode, host, params, idle: Default::default() }),
            Offer::Pair(host) => {
                let is_private = params.allows(Operation::Sign) || params.allows(Operation::Derive);
                let key = host.without_errors(|| host.key(params.key(), is_private));
                let key = key.ok_or(Unsupported::because("the default provider refused this key"))?;
                Arc::new(PairSession { host, key, agreement: Mutex::default() })
            }
        })
    }
}

/// Idle contexts that have a key. A thread takes one for each request.
struct Idle<C>(Mutex<Vec<C>>);

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Idle<C> {
    fn with<T>(&self, make: impl FnOnce() -> Option<C>, run: impl FnOnce(&mut C) -> Option<T>) -> Result<T, Fault> {
        // Does not wait for the lock: a new context is as good.
        let ready = self.0.try_lock().ok().and_then(|mut idle| idle.pop());
        let mut context = ready.or_else(make).ok_or(Fault::failed("the default provider made no context"))?;
        let result = run(&mut context).ok_or(Fault::failed("the default provider failed"))?;
        if let Ok(mut idle) = self.0.try_lock() {
            idle.push(context);
        }
        Ok(result)
    }
}

/// A key that signs, verifies or derives shared secrets.
struct PairSession {
    host: HostPair,
    key: HostKey,
    /// The agreement with the last peer. Programs set the peer before they ask for the secret, so setting it is not part of the
    /// time of a derivation.
    agreement: Mutex<Option<(Vec<u8>, Agreement)>>,
}

impl PairSession {
    /// Returns `None` if the peer's key is invalid or yields no secret.
    fn derive(&self, public: &[u8], output: &mut [u8]) -> Option<()> {
        let last = self.agreement.try_lock().ok().and_then(|mut last| last.take());
        let (bytes, agreement) = match last.filter(|(bytes, _)| bytes == public) {
            Some(same) => same,
            None => (public.to_vec(), self.host.agreement(&self.key, &self.host.key(public, false)?)?),
        };
        agreement.derive(output).then_some(())?;
        if let Ok(mut last) = self.agreement.try_lock() {
            *last = Some((bytes, agreement));
        }
        Some(())
    }
}

impl DeviceSession for PairSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.host.without_errors(|| match operands {
            Operands::Sign { input, output } => {
                let good = self.host.sign(&self.key, input, output);
                good.then_some(Outcome::Done).ok_or(Fault::failed("the default provider failed"))
            }
            Operands::Verify { input, signature } => {
                let good = self.host.verify(&self.key, input, signature);
                Ok(if good { Outcome::Done } else { Outcome::BadTag })
            }
            Operands::Derive { input, output } => {
                if self.derive(input, output).is_some() {
                    return Ok(Outcome::Done);
                }
                output.fill(0);
                Ok(Outcome::BadKey)
            }
            _ => Err(Fault::failed("the session does not support the operation")),
        })
    }
}

/// A cipher key, with the idle contexts of each direction.
struct HostSession {
    mode: Mode,
    host: HostAlgorithm,
    params: SessionParams,
    idle: [Idle<HostContext>; 2],
}

impl HostSession {
    fn with<T>(&self, encrypt: bool, run: impl FnOnce(&mut HostContext) -> Option<T>) -> Result<T, Fault> {
        let make = || {
            let mut context = self.host.context()?;
            context.init(encrypt, Some(self.params.key()), None).then_some(context)
        };
        self.idle[usize::from(encrypt)].with(make, run)
    }
}

fn begin(context: &mut HostContext, encrypt: bool, iv: &[u8], aad: &[u8]) -> bool {
    context.set_nonce_len(iv.len()) && context.init(encrypt, None, Some(iv)) && context.update_aad(aad)
}

impl DeviceSession for HostSession {
    /// Runs quietly: a known-answer test opens forged messages, and libssl attributes any error it finds in the queue to its last call.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.host.without_errors(|| match operands {
            Operands::Cipher { operation, iv, data } => {
                let encrypt = operation == Operation::Encrypt;
                let iv = (self.mode != Mode::Chain(Chain::Ecb)).then_some(iv);
                self.with(encrypt, |context| {
                    (context.init(encrypt, None, iv) && context.process_whole(data)).then_some(Outcome::Done)
                })
            }
            Operands::Seal { iv, aad, data, tag } => self.with(true, |context| {
                let good =
                    begin(context, true, iv, aad) && context.update(data) && context.finish() && context.read_tag(tag);
                good.then_some(Outcome::Done)
            }),
            Operands::Open { iv, aad, mut data, tag } => self.with(false, |context| {
                if !(begin(context, false, iv, aad) && context.set_tag(tag) && context.update(data.reborrow())) {
                    return None;
                }
                if context.finish() {
                    return Some(Outcome::Done);
                }
                data.output().fill(0);
                Some(Outcome::BadTag)
            }),
            _ => Err(Fault::failed("the session does not support the operation")),
        })
    }
}
