//! The default provider's own implementation as a device. A route may choose this device, which also repeats the requests that failed on
//! another one.

use std::sync::{Arc, Mutex};

use gantry_core::driver::{
    Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal, Unsupported,
};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams};

use crate::libcrypto::{
    Agreement, DefaultProviderCipher, DefaultProviderKey, DefaultProviderKeyAlgorithm, PrivateCipherCtx,
};
use crate::table::{Chain, Mode};

/// The name of the device and of its driver.
pub(crate) const DEVICE_NAME: &str = "host";

/// The driver of one device, which has the wrapped algorithms.
pub(crate) struct DefaultProviderDriver(Arc<DefaultProviderDevice>);

impl DefaultProviderDriver {
    /// `version` is OpenSSL's release.
    pub(crate) fn new(algorithms: Vec<(Algorithm, DefaultProviderAlgorithm)>, version: (u32, u32)) -> Self {
        let info = DeviceInfo {
            description: "the libcrypto of this program".to_owned(),
            version: format!("{}.{}", version.0, version.1),
            capabilities: algorithms.iter().map(|(algorithm, ..)| Capability::new(*algorithm)).collect(),
            ..DeviceInfo::new(DEVICE_NAME, Class::Software)
        };
        Self(Arc::new(DefaultProviderDevice { info, algorithms }))
    }
}

/// An algorithm of the default provider: a cipher, or an operation with key pairs.
#[derive(Clone, Copy)]
pub(crate) enum DefaultProviderAlgorithm {
    Cipher(Mode, DefaultProviderCipher),
    KeyPair(DefaultProviderKeyAlgorithm),
}

impl Driver for DefaultProviderDriver {
    fn name(&self) -> &'static str {
        DEVICE_NAME
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(self.0.clone())]
    }
}

struct DefaultProviderDevice {
    info: DeviceInfo,
    algorithms: Vec<(Algorithm, DefaultProviderAlgorithm)>,
}

impl Device for DefaultProviderDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let found = self.algorithms.iter().find(|(algorithm, ..)| *algorithm == params.algorithm());
        let (_, implementation) =
            found.ok_or(Unsupported::because("the default provider does not have this algorithm"))?;
        let params = params.clone();
        Ok(match *implementation {
            DefaultProviderAlgorithm::Cipher(mode, cipher) => {
                Arc::new(CipherSession { mode, cipher, params, idle: Default::default() })
            }
            DefaultProviderAlgorithm::KeyPair(algorithm) => {
                let is_private = params.allows(Operation::Sign) || params.allows(Operation::Derive);
                let key = algorithm.discarding_errors(|| algorithm.import(params.key(), is_private));
                let key = key.ok_or(Unsupported::because("the default provider refused this key"))?;
                Arc::new(KeyPairSession { algorithm, key, agreement: Mutex::default() })
            }
        })
    }
}

/// Idle contexts that have a key. A thread takes one for each request.
struct IdleContexts<C>(Mutex<Vec<C>>);

impl<C> Default for IdleContexts<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> IdleContexts<C> {
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
struct KeyPairSession {
    algorithm: DefaultProviderKeyAlgorithm,
    key: DefaultProviderKey,
    /// The agreement with the last peer, for the next derivation with the same peer. Programs set the peer before they ask for the secret,
    /// so a measurement, which repeats one derivation, must not count the time to set it.
    agreement: Mutex<Option<(Vec<u8>, Agreement)>>,
}

impl KeyPairSession {
    /// Returns `None` if the peer's key is invalid or yields no secret.
    fn derive(&self, public: &[u8], output: &mut [u8]) -> Option<()> {
        let last = self.agreement.try_lock().ok().and_then(|mut last| last.take());
        let (bytes, agreement) = match last.filter(|(bytes, _)| bytes == public) {
            Some(same) => same,
            None => (public.to_vec(), self.algorithm.agreement(&self.key, &self.algorithm.import(public, false)?)?),
        };
        agreement.derive(output).then_some(())?;
        if let Ok(mut last) = self.agreement.try_lock() {
            *last = Some((bytes, agreement));
        }
        Some(())
    }
}

impl DeviceSession for KeyPairSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.algorithm.discarding_errors(|| match operands {
            Operands::Sign { input, output } => {
                let is_signed = self.algorithm.sign(&self.key, input, output);
                is_signed.then_some(Outcome::Done).ok_or(Fault::failed("the default provider failed"))
            }
            Operands::Verify { input, signature } => {
                let is_valid = self.algorithm.verify(&self.key, input, signature);
                Ok(if is_valid { Outcome::Done } else { Outcome::BadTag })
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
struct CipherSession {
    mode: Mode,
    cipher: DefaultProviderCipher,
    params: SessionParams,
    idle: [IdleContexts<PrivateCipherCtx>; 2],
}

impl CipherSession {
    fn with<T>(&self, encrypt: bool, run: impl FnOnce(&mut PrivateCipherCtx) -> Option<T>) -> Result<T, Fault> {
        let make = || {
            let mut context = self.cipher.new_context()?;
            context.init(encrypt, Some(self.params.key()), None).then_some(context)
        };
        self.idle[usize::from(encrypt)].with(make, run)
    }
}

fn begin_message(context: &mut PrivateCipherCtx, encrypt: bool, iv: &[u8], aad: &[u8]) -> bool {
    context.set_nonce_len(iv.len()) && context.init(encrypt, None, Some(iv)) && context.update_aad(aad)
}

impl DeviceSession for CipherSession {
    /// Leaves no error on the error stack. Known-answer tests open forged messages, which fail, and libssl attributes any error on the
    /// stack to its own last call.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.cipher.discarding_errors(|| match operands {
            Operands::Cipher { operation, iv, data } => {
                let encrypt = operation == Operation::Encrypt;
                let iv = (self.mode != Mode::Chain(Chain::Ecb)).then_some(iv);
                self.with(encrypt, |context| {
                    (context.init(encrypt, None, iv) && context.process_whole(data)).then_some(Outcome::Done)
                })
            }
            Operands::Seal { iv, aad, data, tag } => self.with(true, |context| {
                let is_sealed = begin_message(context, true, iv, aad)
                    && context.update(data)
                    && context.finish()
                    && context.read_tag(tag);
                is_sealed.then_some(Outcome::Done)
            }),
            Operands::Open { iv, aad, mut data, tag } => self.with(false, |context| {
                if !(begin_message(context, false, iv, aad) && context.set_tag(tag) && context.update(data.reborrow()))
                {
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
