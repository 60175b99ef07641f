use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use gantry_abi_cryptodev::{
    COP_FLAG_FINAL, COP_FLAG_RESET, COP_FLAG_UPDATE, MAX_AUTH, MAX_DIGEST, MAX_HMAC_KEY, MAX_IV,
};
use gantry_core::driver::{Buffers, CipherStream, DeviceSession, DigestStream, Operands, Refusal, Unsupported};
use gantry_core::{Fault, Kind, Operation, Outcome, SessionParams};
use zeroize::Zeroizing;

use crate::device::{Way, way};
use crate::sys::{Crypto, Handle, Sealed};

/// The number of an algorithm, as the interface has it, with the keys of a session.
struct Recipe {
    crypto: Crypto,
    way: Way,
    params: SessionParams,
}

/// A session of the device.
pub(crate) struct DevcryptoSession {
    recipe: Arc<Recipe>,
    handle: Handle,
    /// Of AEADs: buffers that hold data and tag, as many as threads have used at once.
    buffers: Mutex<Vec<Zeroizing<Vec<u8>>>>,
}

/// Buffers that are kept.
const BUFFERS: usize = 16;

pub(crate) fn open(crypto: &Crypto, params: &SessionParams) -> Result<DevcryptoSession, Refusal> {
    let algorithm = params.algorithm();
    let way = way(algorithm).ok_or(Unsupported::because("the interface has no number for it"))?;
    let tag = params.tag_length();
    match way {
        Way::Hash { .. } if params.key().len() > MAX_HMAC_KEY => {
            return Err(Unsupported::because("a key of more than 512 bytes").into());
        }
        // Others are not refused there but left out, and the length before stays.
        Way::Aead { ccm: false, .. } if !matches!(tag, 4 | 8 | 12..=16) => {
            return Err(Unsupported::because("GCM with a tag of 4, 8 or 12 to 16 bytes only").into());
        }
        _ => {}
    }
    let recipe = Recipe { crypto: crypto.clone(), way, params: params.clone() };
    let handle = recipe.make().map_err(|error| Unsupported::because(format!("CIOCGSESSION: {}", words(&error))))?;
    Ok(DevcryptoSession { recipe: Arc::new(recipe), handle, buffers: Mutex::new(Vec::with_capacity(BUFFERS)) })
}

impl Recipe {
    fn make(&self) -> io::Result<Handle> {
        let key = self.params.key();
        match self.way {
            Way::Hash { number } => self.crypto.session((0, &[]), (number, key)),
            Way::Cipher { number } | Way::Aead { number, .. } => self.crypto.session((number, key), (0, &[])),
        }
    }
}

impl DeviceSession for DevcryptoSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match (self.recipe.way, operands) {
            (Way::Hash { .. }, Operands::Digest { input, output } | Operands::Mac { input, output, .. }) => {
                let mut digest = Zeroizing::new([0; MAX_DIGEST]);
                self.handle.hash(0, input, Some(&mut digest)).map_err(|error| fault(&error))?;
                output.copy_from_slice(&digest[..output.len()]);
                Ok(Outcome::Done)
            }
            (Way::Cipher { .. }, Operands::Cipher { operation, iv, data }) => {
                let mut next = [0; MAX_IV];
                let next = &mut next[..iv.len()];
                next.copy_from_slice(iv);
                self.handle.cipher(operation == Operation::Encrypt, next, data).map_err(|error| fault(&error))?;
                Ok(Outcome::Done)
            }
            (Way::Aead { ccm, .. }, Operands::Seal { iv, aad, mut data, tag }) => {
                let block = Block::new(ccm, iv, aad)?;
                let length = data.len();
                self.with_buffer(length + tag.len(), |buffer| {
                    buffer[..length].copy_from_slice(data.input());
                    let tag_length = tag.len();
                    let sealed = Sealed { encrypt: true, iv: block.bytes(), aad, data: &mut *buffer, tag: tag_length };
                    self.handle.aead(sealed)?;
                    data.output().copy_from_slice(&buffer[..length]);
                    tag.copy_from_slice(&buffer[length..]);
                    Ok(())
                })
            }
            (Way::Aead { ccm, .. }, Operands::Open { iv, aad, mut data, tag }) => {
                let block = Block::new(ccm, iv, aad)?;
                let length = data.len();
                self.with_buffer(length + tag.len(), |buffer| {
                    buffer[..length].copy_from_slice(data.input());
                    buffer[length..].copy_from_slice(tag);
                    let sealed = Sealed { encrypt: false, iv: block.bytes(), aad, data: &mut *buffer, tag: tag.len() };
                    self.handle.aead(sealed)?;
                    data.output().copy_from_slice(&buffer[..length]);
                    Ok(())
                })
            }
            _ => Err(Fault::failed("a request of another kind than its session")),
        }
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        if !matches!(self.recipe.way, Way::Hash { .. }) {
            return Err(Unsupported::because("no streams"));
        }
        let handle =
            self.recipe.make().map_err(|error| Unsupported::because(format!("CIOCGSESSION: {}", words(&error))))?;
        Ok(Box::new(HashStream { recipe: self.recipe.clone(), handle: Ok(handle), fresh: true }))
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let Way::Cipher { .. } = self.recipe.way else { return Err(Unsupported::because("no streams")) };
        let handle =
            self.recipe.make().map_err(|error| Unsupported::because(format!("CIOCGSESSION: {}", words(&error))))?;
        let mut next = Zeroizing::new([0; MAX_IV]);
        next[..iv.len()].copy_from_slice(iv);
        let encrypt = operation == Operation::Encrypt;
        Ok(Box::new(BlockStream { handle: Arc::new(handle), encrypt, iv: next, iv_length: iv.len() }))
    }
}

impl DevcryptoSession {
    fn with_buffer(&self, length: usize, work: impl FnOnce(&mut [u8]) -> io::Result<()>) -> Result<Outcome, Fault> {
        let idle = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = idle().pop().unwrap_or_default();
        // Grows in one step: a vector that moves leaves copies behind.
        if buffer.capacity() < length {
            buffer = Zeroizing::new(Vec::with_capacity(length));
        }
        buffer.resize(length, 0);
        let result = work(&mut buffer);
        // Not with `zeroize`, which writes bytes one by one.
        buffer.fill(0);
        zeroize::optimization_barrier(&buffer[..]);
        let mut idle = idle();
        if idle.len() < BUFFERS {
            idle.push(buffer);
        }
        drop(idle);
        match result {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => Ok(Outcome::BadTag),
            Err(error) => Err(fault(&error)),
        }
    }
}

/// The IV of an AEAD as the kernel wants it: GCM's 12 bytes, or the first counter block of CCM (RFC 3610, 2.3).
struct Block {
    bytes: [u8; MAX_IV],
    length: usize,
}

impl Block {
    fn new(ccm: bool, nonce: &[u8], aad: &[u8]) -> Result<Self, Fault> {
        if aad.len() > MAX_AUTH {
            return Err(Fault::Declined("associated data up to 4096 bytes only"));
        }
        let mut bytes = [0; MAX_IV];
        let place = usize::from(ccm);
        if ccm {
            // Core lets 7 to 13 bytes through.
            bytes[0] = (14 - nonce.len()) as u8;
        } else if nonce.len() != 12 {
            return Err(Fault::Declined("GCM with nonces of 12 bytes only"));
        }
        bytes[place..place + nonce.len()].copy_from_slice(nonce);
        Ok(Self { bytes, length: if ccm { MAX_IV } else { nonce.len() } })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A message in pieces: its state is in a session of the kernel that it has for itself.
struct HashStream {
    recipe: Arc<Recipe>,
    /// Or why there is none: `duplicate` cannot say so.
    handle: Result<Handle, Fault>,
    /// The next piece is the first.
    fresh: bool,
}

impl HashStream {
    fn step(&mut self, flags: u16, input: &[u8], digest: Option<&mut [u8; MAX_DIGEST]>) -> Result<(), Fault> {
        let handle = self.handle.as_ref().map_err(Clone::clone)?;
        if !handle.is_ours() {
            return Err(Fault::failed("/dev/crypto: the state of this message is the parent process's"));
        }
        let reset = if self.fresh { COP_FLAG_RESET } else { 0 };
        handle.hash(flags | reset, input, digest).map_err(|error| fault(&error))?;
        self.fresh = flags & COP_FLAG_FINAL != 0;
        Ok(())
    }
}

impl DigestStream for HashStream {
    fn operation(&self) -> Operation {
        if self.recipe.params.algorithm().kind() == Kind::Mac { Operation::Mac } else { Operation::Digest }
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        // Without data the kernel takes it for the end.
        if input.is_empty() { Ok(()) } else { self.step(COP_FLAG_UPDATE, input, None) }
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        let mut digest = Zeroizing::new([0; MAX_DIGEST]);
        self.step(COP_FLAG_UPDATE | COP_FLAG_FINAL, &[], Some(&mut digest))?;
        output.copy_from_slice(&digest[..output.len()]);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let copy = || {
            let from = self.handle.as_ref().map_err(Clone::clone)?;
            let to = self.recipe.make().map_err(|error| fault(&error))?;
            if !self.fresh {
                to.copy_from(from).map_err(|error| fault(&error))?;
            }
            Ok(to)
        };
        Box::new(Self { recipe: self.recipe.clone(), handle: copy(), fresh: self.fresh })
    }
}

/// Whole blocks in pieces. Its state is an IV, which the kernel writes back; the session is shared.
struct BlockStream {
    handle: Arc<Handle>,
    encrypt: bool,
    iv: Zeroizing<[u8; MAX_IV]>,
    iv_length: usize,
}

impl CipherStream for BlockStream {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        let iv = &mut self.iv[..self.iv_length];
        self.handle.cipher(self.encrypt, iv, data).map_err(|error| fault(&error))
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(Self { handle: self.handle.clone(), iv: self.iv.clone(), ..*self })
    }
}

fn fault(error: &io::Error) -> Fault {
    Fault::failed(format!("/dev/crypto: {}", words(error)))
}

/// What the system said, without the number that `std` puts behind it.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
