//! Sessions, and messages in pieces.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use gantry_abi_cryptodev::{
    COP_FLAG_FINAL, COP_FLAG_RESET, COP_FLAG_UPDATE, MAX_AUTH_LEN, MAX_DIGEST_LEN, MAX_HMAC_KEY_LEN, MAX_IV_LEN,
};
use gantry_core::driver::{Buffers, CipherStream, DeviceSession, DigestStream, Operands, Refusal, Unsupported};
use gantry_core::{Fault, Kind, Operation, Outcome, SessionParams};
use zeroize::Zeroizing;

use crate::session_kind::{SessionKind, session_kind};
use crate::sys::{AeadRequest, CryptoFile, KernelSession};

/// The parameters to open a session of the kernel.
struct SessionConfig {
    crypto: CryptoFile,
    kind: SessionKind,
    params: SessionParams,
}

/// A session of the device.
pub(crate) struct DevcryptoSession {
    config: Arc<SessionConfig>,
    kernel_session: KernelSession,
    /// Unused buffers of AEADs for data and tag. Threads that use the session at the same time take one each.
    buffers: Mutex<Vec<Zeroizing<Vec<u8>>>>,
}

/// Maximum number of unused buffers that a session keeps.
const MAX_IDLE_BUFFERS: usize = 16;

pub(crate) fn open(crypto: &CryptoFile, params: &SessionParams) -> Result<DevcryptoSession, Refusal> {
    let algorithm = params.algorithm();
    let kind = session_kind(algorithm).ok_or(Unsupported::because("/dev/crypto has no number for this algorithm"))?;
    let tag_len = params.tag_len();
    match kind {
        SessionKind::Hash { .. } if params.key().len() > MAX_HMAC_KEY_LEN => {
            return Err(Unsupported::because("/dev/crypto takes keys of at most 512 bytes").into());
        }
        // The kernel ignores any other length without an error, and keeps the previous one.
        SessionKind::Aead { ccm: false, .. } if !matches!(tag_len, 4 | 8 | 12..=16) => {
            return Err(Unsupported::because("/dev/crypto takes GCM tags of 4, 8 or 12 to 16 bytes").into());
        }
        _ => {}
    }
    let config = SessionConfig { crypto: crypto.clone(), kind, params: params.clone() };
    let kernel_session = config
        .open_session()
        .map_err(|error| Unsupported::because(format!("CIOCGSESSION: {}", system_message(&error))))?;
    Ok(DevcryptoSession {
        config: Arc::new(config),
        kernel_session,
        buffers: Mutex::new(Vec::with_capacity(MAX_IDLE_BUFFERS)),
    })
}

impl SessionConfig {
    fn open_session(&self) -> io::Result<KernelSession> {
        let key = self.params.key();
        match self.kind {
            SessionKind::Hash { number } => self.crypto.open_session((0, &[]), (number, key)),
            SessionKind::Cipher { number } | SessionKind::Aead { number, .. } => {
                self.crypto.open_session((number, key), (0, &[]))
            }
        }
    }
}

impl DeviceSession for DevcryptoSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match (self.config.kind, operands) {
            (SessionKind::Hash { .. }, Operands::Digest { input, output } | Operands::Mac { input, output, .. }) => {
                let mut digest = Zeroizing::new([0; MAX_DIGEST_LEN]);
                self.kernel_session.hash(0, input, Some(&mut digest)).map_err(|error| fault(&error))?;
                output.copy_from_slice(&digest[..output.len()]);
                Ok(Outcome::Done)
            }
            (SessionKind::Cipher { .. }, Operands::Cipher { operation, iv, data }) => {
                let mut next_iv = [0; MAX_IV_LEN];
                let next_iv = &mut next_iv[..iv.len()];
                next_iv.copy_from_slice(iv);
                self.kernel_session
                    .cipher(operation == Operation::Encrypt, next_iv, data)
                    .map_err(|error| fault(&error))?;
                Ok(Outcome::Done)
            }
            (SessionKind::Aead { ccm, .. }, Operands::Seal { iv, aad, mut data, tag }) => {
                let kernel_iv = KernelIv::new(ccm, iv, aad)?;
                let length = data.len();
                self.with_buffer(length + tag.len(), |buffer| {
                    buffer[..length].copy_from_slice(data.input());
                    let tag_length = tag.len();
                    let request = AeadRequest {
                        encrypt: true,
                        iv: kernel_iv.bytes(),
                        aad,
                        data: &mut *buffer,
                        tag_len: tag_length,
                    };
                    self.kernel_session.aead(request)?;
                    data.output().copy_from_slice(&buffer[..length]);
                    tag.copy_from_slice(&buffer[length..]);
                    Ok(())
                })
            }
            (SessionKind::Aead { ccm, .. }, Operands::Open { iv, aad, mut data, tag }) => {
                let kernel_iv = KernelIv::new(ccm, iv, aad)?;
                let length = data.len();
                self.with_buffer(length + tag.len(), |buffer| {
                    buffer[..length].copy_from_slice(data.input());
                    buffer[length..].copy_from_slice(tag);
                    let request = AeadRequest {
                        encrypt: false,
                        iv: kernel_iv.bytes(),
                        aad,
                        data: &mut *buffer,
                        tag_len: tag.len(),
                    };
                    self.kernel_session.aead(request)?;
                    data.output().copy_from_slice(&buffer[..length]);
                    Ok(())
                })
            }
            _ => Err(Fault::failed("the session does not support the operation")),
        }
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        if !matches!(self.config.kind, SessionKind::Hash { .. }) {
            return Err(Unsupported::because("the device does not stream this algorithm"));
        }
        let kernel_session = self
            .config
            .open_session()
            .map_err(|error| Unsupported::because(format!("CIOCGSESSION: {}", system_message(&error))))?;
        Ok(Box::new(HashStream { config: self.config.clone(), kernel_session: Ok(kernel_session), at_start: true }))
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let SessionKind::Cipher { .. } = self.config.kind else {
            return Err(Unsupported::because("the device does not stream this algorithm"));
        };
        let kernel_session = self
            .config
            .open_session()
            .map_err(|error| Unsupported::because(format!("CIOCGSESSION: {}", system_message(&error))))?;
        let mut next_iv = Zeroizing::new([0; MAX_IV_LEN]);
        next_iv[..iv.len()].copy_from_slice(iv);
        let encrypt = operation == Operation::Encrypt;
        Ok(Box::new(BlockStream {
            kernel_session: Arc::new(kernel_session),
            encrypt,
            iv: next_iv,
            iv_length: iv.len(),
        }))
    }
}

impl DevcryptoSession {
    fn with_buffer(&self, length: usize, work: impl FnOnce(&mut [u8]) -> io::Result<()>) -> Result<Outcome, Fault> {
        let lock = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = lock().pop().unwrap_or_default();
        // Growing the old vector would copy its content, which is only zeros.
        if buffer.capacity() < length {
            buffer = Zeroizing::new(Vec::with_capacity(length));
        }
        buffer.resize(length, 0);
        let result = work(&mut buffer);
        // `zeroize` would write single bytes. The barrier keeps the compiler from removing the zeros of `fill`.
        buffer.fill(0);
        zeroize::optimization_barrier(&buffer[..]);
        let mut idle = lock();
        if idle.len() < MAX_IDLE_BUFFERS {
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

/// The IV of an AEAD in the kernel's form: GCM's 12 bytes, or the first counter block of CCM (RFC 3610, 2.3).
struct KernelIv {
    bytes: [u8; MAX_IV_LEN],
    length: usize,
}

impl KernelIv {
    /// Declines nonces and associated data of lengths that the kernel does not take.
    fn new(ccm: bool, nonce: &[u8], aad: &[u8]) -> Result<Self, Fault> {
        if aad.len() > MAX_AUTH_LEN {
            return Err(Fault::Declined("/dev/crypto takes at most 4096 bytes of associated data"));
        }
        let mut bytes = [0; MAX_IV_LEN];
        let nonce_start = usize::from(ccm);
        if ccm {
            // Core has checked that the nonce has 7 to 13 bytes.
            bytes[0] = (14 - nonce.len()) as u8;
        } else if nonce.len() != 12 {
            return Err(Fault::Declined("/dev/crypto takes only GCM nonces of 12 bytes"));
        }
        bytes[nonce_start..nonce_start + nonce.len()].copy_from_slice(nonce);
        Ok(Self { bytes, length: if ccm { MAX_IV_LEN } else { nonce.len() } })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A message in pieces. Its state is in its own session of the kernel.
struct HashStream {
    config: Arc<SessionConfig>,
    /// `Err` if copying the session failed, because `duplicate` cannot return an error.
    kernel_session: Result<KernelSession, Fault>,
    /// True if the next piece is the first.
    at_start: bool,
}

impl HashStream {
    fn hash_piece(&mut self, flags: u16, input: &[u8], digest: Option<&mut [u8; MAX_DIGEST_LEN]>) -> Result<(), Fault> {
        let kernel_session = self.kernel_session.as_ref().map_err(Clone::clone)?;
        if !kernel_session.belongs_to_this_process() {
            return Err(Fault::failed("/dev/crypto: the state of this stream belongs to the parent process"));
        }
        let reset = if self.at_start { COP_FLAG_RESET } else { 0 };
        kernel_session.hash(flags | reset, input, digest).map_err(|error| fault(&error))?;
        self.at_start = flags & COP_FLAG_FINAL != 0;
        Ok(())
    }
}

impl DigestStream for HashStream {
    fn operation(&self) -> Operation {
        if self.config.params.algorithm().kind() == Kind::Mac { Operation::Mac } else { Operation::Digest }
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        // The kernel treats a piece without data as the end of the message.
        if input.is_empty() { Ok(()) } else { self.hash_piece(COP_FLAG_UPDATE, input, None) }
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        let mut digest = Zeroizing::new([0; MAX_DIGEST_LEN]);
        self.hash_piece(COP_FLAG_UPDATE | COP_FLAG_FINAL, &[], Some(&mut digest))?;
        output.copy_from_slice(&digest[..output.len()]);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let copy = || {
            let from = self.kernel_session.as_ref().map_err(Clone::clone)?;
            let to = self.config.open_session().map_err(|error| fault(&error))?;
            if !self.at_start {
                to.copy_from(from).map_err(|error| fault(&error))?;
            }
            Ok(to)
        };
        Box::new(Self { config: self.config.clone(), kernel_session: copy(), at_start: self.at_start })
    }
}

/// A message in pieces of whole blocks. Its state is an IV, which the kernel writes back, so a stream and its duplicates share one session.
struct BlockStream {
    kernel_session: Arc<KernelSession>,
    encrypt: bool,
    iv: Zeroizing<[u8; MAX_IV_LEN]>,
    iv_length: usize,
}

impl CipherStream for BlockStream {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        let iv = &mut self.iv[..self.iv_length];
        self.kernel_session.cipher(self.encrypt, iv, data).map_err(|error| fault(&error))
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(Self { kernel_session: self.kernel_session.clone(), iv: self.iv.clone(), ..*self })
    }
}

fn fault(error: &io::Error) -> Fault {
    Fault::failed(format!("/dev/crypto: {}", system_message(error)))
}

/// Returns the system's message without the number that `std` appends.
pub(crate) fn system_message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
