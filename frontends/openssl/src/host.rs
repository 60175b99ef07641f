//! The host's own implementation as a device, beside the others: for routes, and for requests that another device failed.

use std::sync::{Arc, Mutex};

use gantry_core::driver::{
    Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal, Unsupported,
};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams};

use crate::boundary::{
    Agreement, HostAlgorithm, HostContext, HostDigest, HostDigests, HostKey, HostMac, HostMacContext, HostPair, Wrapped,
};
use crate::table::{Mac, Mode, RSA};

/// Its name.
pub(crate) const NAME: &str = "host";

/// Finds the one device that there is: the algorithms that were wrapped.
pub(crate) struct HostDriver(Arc<HostDevice>);

impl HostDriver {
    /// `version` is the host's release.
    pub(crate) fn new<'w>(wrapped: impl Iterator<Item = &'w Wrapped>, version: (u32, u32)) -> Self {
        let offers: Vec<(Algorithm, Offer)> = wrapped.flat_map(offers).collect();
        let info = DeviceInfo {
            description: "the libcrypto of this program".to_owned(),
            version: format!("{}.{}", version.0, version.1),
            capabilities: offers.iter().map(|(algorithm, ..)| Capability::new(*algorithm)).collect(),
            ..DeviceInfo::new(NAME, Class::Software)
        };
        Self(Arc::new(HostDevice { info, offers }))
    }
}

/// How the host computes an algorithm.
#[derive(Clone, Copy)]
enum Offer {
    Cipher(Mode, HostAlgorithm),
    Digest(HostDigests),
    /// With what is inside.
    Mac(HostMac, Option<Algorithm>),
    Pair(HostPair),
}

/// What a wrapped algorithm is on this device.
fn offers(wrapped: &Wrapped) -> Vec<(Algorithm, Offer)> {
    let mode = wrapped.row().mode;
    match mode {
        Mode::Aead(_) | Mode::Ccm | Mode::Xts | Mode::Chain(_) => {
            let offer = wrapped.algorithm().zip(wrapped.host_algorithm());
            offer.map(|(algorithm, host)| (algorithm, Offer::Cipher(mode, host))).into_iter().collect()
        }
        Mode::Mac(mac) => {
            let Some(host) = wrapped.host_mac() else { return Vec::new() };
            mac.algorithms().map(|(algorithm, inside)| (algorithm, Offer::Mac(host, inside))).collect()
        }
        Mode::Rsa => {
            let Some(host) = HostPair::new(wrapped) else { return Vec::new() };
            RSA.as_flattened().iter().map(|algorithm| (*algorithm, Offer::Pair(host))).collect()
        }
        Mode::Signature | Mode::Ecdsa | Mode::Exchange => {
            let offer = wrapped.algorithm().zip(HostPair::new(wrapped));
            offer.map(|(algorithm, host)| (algorithm, Offer::Pair(host))).into_iter().collect()
        }
        Mode::Digest => {
            let offer = wrapped.algorithm().zip(HostDigests::new(wrapped));
            offer.map(|(algorithm, host)| (algorithm, Offer::Digest(host))).into_iter().collect()
        }
        // Of SLH-DSA nobody asks which side is faster.
        Mode::Kdf(_) | Mode::SlhDsa | Mode::Keys => Vec::new(),
    }
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
        let (_, offer) = offer.ok_or(Unsupported::because("the host does not have it"))?;
        let params = params.clone();
        Ok(match *offer {
            Offer::Cipher(mode, host) => Arc::new(HostSession { mode, host, params, idle: Default::default() }),
            Offer::Digest(host) => Arc::new(DigestSession { host, idle: Idle::default() }),
            Offer::Mac(host, inside) => {
                let session = MacSession { host, inside, params, idle: Idle::default() };
                // What is inside may be missing in this libcrypto.
                let made = host.quietly(|| session.idle.with(|| session.context(), |_| Some(())));
                made.map_err(|_| Unsupported::because("not there"))?;
                Arc::new(session)
            }
            Offer::Pair(host) => {
                let is_private = params.allows(Operation::Sign) || params.allows(Operation::Derive);
                if host.mode() == Mode::Ecdsa && params.allows(Operation::Sign) && params.allows(Operation::Verify) {
                    return Err(Unsupported::because("the host would need the public key, too").into());
                }
                let key = host.quietly(|| host.key(params.key(), is_private));
                let key = key.ok_or(Unsupported::because("no such key"))?;
                Arc::new(PairSession { algorithm: params.algorithm(), host, key, agreement: Mutex::default() })
            }
        })
    }
}

/// Contexts that have a key: threads take one for each request.
struct Idle<C>(Mutex<Vec<C>>);

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Idle<C> {
    fn with<T>(&self, make: impl FnOnce() -> Option<C>, run: impl FnOnce(&mut C) -> Option<T>) -> Result<T, Fault> {
        // Nobody waits for a context: another one is as good.
        let ready = self.0.try_lock().ok().and_then(|mut idle| idle.pop());
        let mut context = ready.or_else(make).ok_or(Fault::failed("the host has no context"))?;
        let result = run(&mut context).ok_or(Fault::failed("the host failed"))?;
        if let Ok(mut idle) = self.0.try_lock() {
            idle.push(context);
        }
        Ok(result)
    }
}

/// A digest, of whole messages.
struct DigestSession {
    host: HostDigests,
    idle: Idle<HostDigest>,
}

impl DeviceSession for DigestSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Digest { input, output } = operands else {
            return Err(Fault::failed("a request of another kind than its session"));
        };
        let digest = |context: &mut HostDigest| {
            let (digest, length) = context.whole(input).filter(|(_, length)| *length == output.len())?;
            output.copy_from_slice(&digest[..length]);
            Some(Outcome::Done)
        };
        self.idle.with(|| self.host.context(), digest)
    }
}

/// A key of a MAC.
struct MacSession {
    host: HostMac,
    inside: Option<Algorithm>,
    params: SessionParams,
    idle: Idle<HostMacContext>,
}

impl MacSession {
    fn context(&self) -> Option<HostMacContext> {
        self.host.context(self.inside, self.params.key())
    }
}

impl DeviceSession for MacSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Mac { iv, input, output } = operands else {
            return Err(Fault::failed("a request of another kind than its session"));
        };
        // A context of Poly1305 wants a key for each message.
        let key = (self.host.mac() == Mac::Poly1305).then(|| self.params.key());
        let run = |context: &mut HostMacContext| context.whole(key, iv, input, output).then_some(Outcome::Done);
        self.host.quietly(|| self.idle.with(|| self.context(), run))
    }
}

/// A key that signs, or verifies, or makes shared secrets.
struct PairSession {
    algorithm: Algorithm,
    host: HostPair,
    key: HostKey,
    /// With the last peer: programs have introduced the two before they ask for the secret, so that this is no part of how long that
    /// takes.
    agreement: Mutex<Option<(Vec<u8>, Agreement)>>,
}

impl PairSession {
    /// `None` when the peer's key is none, or makes no secret.
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
        self.host.quietly(|| match operands {
            Operands::Sign { input, output } => {
                let good = self.host.sign(self.algorithm, &self.key, input, output);
                good.then_some(Outcome::Done).ok_or(Fault::failed("the host failed"))
            }
            Operands::Verify { input, signature } => {
                let good = self.host.verify(self.algorithm, &self.key, input, signature);
                Ok(if good { Outcome::Done } else { Outcome::BadTag })
            }
            Operands::Derive { input, output } => {
                if self.derive(input, output).is_some() {
                    return Ok(Outcome::Done);
                }
                output.fill(0);
                Ok(Outcome::BadKey)
            }
            _ => Err(Fault::failed("a request of another kind than its session")),
        })
    }
}

/// A key of a cipher, with contexts by direction.
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

impl HostSession {
    /// Begins a message of an AEAD. CCM makes its key schedule for the lengths that are in force then.
    fn begin(&self, context: &mut HostContext, encrypt: bool, iv: &[u8], aad: &[u8], bytes: usize) -> bool {
        let ccm = self.mode == Mode::Ccm;
        let key = ccm.then(|| self.params.key());
        context.nonce_length(iv.len())
            && (!ccm || context.tag_length(self.params.tag_length()))
            && context.init(encrypt, key, Some(iv))
            && (!ccm || context.announce(bytes))
            && context.associated(aad)
    }
}

impl DeviceSession for HostSession {
    /// Quietly: a known-answer test opens forged messages, which CCM reports as errors at once. libssl takes any error that it
    /// finds after a call for one of that call.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.host.quietly(|| match operands {
            Operands::Cipher { operation, iv, data } => {
                let encrypt = operation == Operation::Encrypt;
                let iv = (self.mode != Mode::Chain(crate::table::Chain::Ecb)).then_some(iv);
                self.with(encrypt, |context| {
                    (context.init(encrypt, None, iv) && context.whole(data)).then_some(Outcome::Done)
                })
            }
            Operands::Seal { iv, aad, data, tag } => self.with(true, |context| {
                let good = self.begin(context, true, iv, aad, data.len())
                    && context.feed(data)
                    && context.end()
                    && context.tag(tag);
                good.then_some(Outcome::Done)
            }),
            Operands::Open { iv, aad, mut data, tag } => self.with(false, |context| {
                // CCM says how it is with the tag at once, the others at the end.
                let ccm = self.mode == Mode::Ccm;
                if !(self.begin(context, false, iv, aad, data.len()) && context.expect(tag)) {
                    return None;
                }
                let fed = context.feed(data.reborrow());
                if !fed && !ccm {
                    return None;
                }
                if fed && context.end() {
                    return Some(Outcome::Done);
                }
                data.output().fill(0);
                Some(Outcome::BadTag)
            }),
            _ => Err(Fault::failed("a request of another kind than its session")),
        })
    }
}
