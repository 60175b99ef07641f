//! Sessions. The kernel holds the key. A request goes through an operation socket in two system calls: `sendmsg` with the data and its
//! parameters, and `recv` or `recvmsg` for the result. The kernel computes a hash in the first call, and a cipher
//! or AEAD in the second.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use gantry_core::driver::{Buffers, DeviceSession, DigestStream, Operands, Refusal, Unsupported};
use gantry_core::{Algorithm as A, Fault, Kind, Operation, Outcome, Process, SessionParams};
use zeroize::Zeroizing;

use crate::fault::{fault, system_message};
use crate::stream::HashStream;
use crate::sys::{Channel, ControlMessages, Transform};

/// Opens a session with the kernel's driver `name` of AF_ALG's type `kind`. `max_bytes` is the maximum size of a request.
/// `can_fail_midway` is true if the device may overwrite its input and then fail.
pub(crate) fn open(
    params: &SessionParams,
    kind: &str,
    name: &str,
    max_bytes: usize,
    can_fail_midway: bool,
) -> Result<AfalgSession, Refusal> {
    let refuse = |call: &str, error: &io::Error| -> Refusal {
        let reason = format!("{call} {name}: {}", system_message(error));
        if is_transient(error) { Fault::failed(reason).into() } else { Unsupported::because(reason).into() }
    };
    let transform = Transform::bind(kind, name).map_err(|error| refuse("bind", &error))?;
    let algorithm = params.algorithm();
    let key = match request_kind(algorithm) {
        RequestKind::Aead(NonceForm::Associated) => authenc_key(params),
        _ => Zeroizing::new(params.key().to_vec()),
    };
    if algorithm.kind() != Kind::Digest {
        transform.set_key(&key).map_err(|error| refuse("setting a key of", &error))?;
    }
    if algorithm.kind() == Kind::Aead {
        let set = transform.set_tag_length(params.tag_len());
        set.map_err(|_| Unsupported::because("the kernel has no tags of this length"))?;
    }
    let pool = Pool::new(transform);
    // The first socket is made now, so that a session without one fails to open.
    pool.with_socket(|_| Ok(())).map_err(|error| refuse("accept", &error))?;
    Ok(AfalgSession { kind: request_kind(algorithm), tag_len: params.tag_len(), max_bytes, can_fail_midway, pool })
}

/// A session on the kernel.
pub(crate) struct AfalgSession {
    kind: RequestKind,
    tag_len: usize,
    max_bytes: usize,
    /// If true, in-place requests first write their result to a buffer of the session, because a failure must not change the data.
    can_fail_midway: bool,
    pool: Pool,
}

/// The form of a request to the kernel.
#[derive(Clone, Copy, PartialEq)]
enum RequestKind {
    Hash(Operation),
    Cipher,
    Aead(NonceForm),
}

/// The form in which the kernel takes the nonce of an AEAD.
#[derive(Clone, Copy, PartialEq)]
enum NonceForm {
    /// Unchanged, in 12 bytes.
    Plain,
    /// As the first block of CCM's counter mode (RFC 3610, 2.3): L - 1, nonce, zeros.
    Ccm,
    /// As the IV, and again at the end of the associated data: `authenc` does not authenticate its IV.
    Associated,
}

fn request_kind(algorithm: A) -> RequestKind {
    match algorithm.kind() {
        Kind::Digest => RequestKind::Hash(Operation::Digest),
        Kind::Mac => RequestKind::Hash(Operation::Mac),
        Kind::Cipher => RequestKind::Cipher,
        Kind::Aead if algorithm.info().cipher.is_some() => RequestKind::Aead(NonceForm::Associated),
        Kind::Aead if matches!(algorithm, A::Aes128Ccm | A::Aes192Ccm | A::Aes256Ccm) => {
            RequestKind::Aead(NonceForm::Ccm)
        }
        Kind::Aead => RequestKind::Aead(NonceForm::Plain),
        _ => unreachable!("core opens sessions only for algorithms that the device offers"),
    }
}

/// Returns both keys in the format of `authenc`: an attribute with the length of the cipher's key, the MAC's key, the cipher's key
/// (crypto/authenc.h).
fn authenc_key(params: &SessionParams) -> Zeroizing<Vec<u8>> {
    // The header of the attribute: its length in bytes, and CRYPTO_AUTHENC_KEYA_PARAM.
    const LENGTH_AND_TYPE: [u16; 2] = [8, 1];
    let (cipher, mac) = (params.key(), params.mac_key());
    let mut key = Zeroizing::new(Vec::with_capacity(8 + mac.len() + cipher.len()));
    for number in LENGTH_AND_TYPE {
        key.extend(number.to_ne_bytes());
    }
    key.extend((cipher.len() as u32).to_be_bytes());
    key.extend_from_slice(mac);
    key.extend_from_slice(cipher);
    key
}

impl DeviceSession for AfalgSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match (self.kind, operands) {
            (RequestKind::Hash(_), Operands::Digest { input, output } | Operands::Mac { input, output, .. }) => self
                .exchange(|socket| {
                    if !input.is_empty() {
                        socket.channel.send(&ControlMessages::NONE, &[IoSlice::new(input)], false)?;
                    }
                    socket.channel.receive(&mut [IoSliceMut::new(output)])
                }),
            // The kernel has nothing to do without data, so this makes no system calls.
            (RequestKind::Cipher, Operands::Cipher { data, .. }) if data.len() == 0 => Ok(Outcome::Done),
            (RequestKind::Cipher, Operands::Cipher { operation, iv, mut data }) => self.exchange(|socket| {
                let control = ControlMessages::new(operation == Operation::Decrypt, iv, 0);
                socket.channel.send(&control, &[IoSlice::new(data.input())], false)?;
                self.receive(socket, 0, &mut data, &mut [])
            }),
            (RequestKind::Aead(nonce), Operands::Seal { iv, aad, mut data, tag }) => {
                let aad_len = self.kernel_aad_len(nonce, iv, aad, &data)?;
                let control = ControlMessages::new(false, nonce.kernel_iv(iv).get(iv), aad_len);
                self.exchange(|socket| {
                    let parts = [aad, nonce.associated_part(iv), data.input()].map(IoSlice::new);
                    socket.channel.send(&control, &parts, false)?;
                    self.receive(socket, aad_len, &mut data, tag)
                })
            }
            (RequestKind::Aead(nonce), Operands::Open { iv, aad, mut data, tag }) => {
                let aad_len = self.kernel_aad_len(nonce, iv, aad, &data)?;
                let control = ControlMessages::new(true, nonce.kernel_iv(iv).get(iv), aad_len);
                let result = self.exchange(|socket| {
                    let parts = [aad, nonce.associated_part(iv), data.input(), tag].map(IoSlice::new);
                    socket.channel.send(&control, &parts, false)?;
                    self.receive(socket, aad_len, &mut data, &mut [])
                });
                if result == Ok(Outcome::BadTag) {
                    // The kernel decrypts before it compares the tags.
                    data.output().fill(0);
                }
                result
            }
            _ => Err(Fault::failed("the session does not support the operation")),
        }
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let RequestKind::Hash(operation) = self.kind else {
            return Err(Unsupported::because("the device does not stream this algorithm"));
        };
        let channel = self.pool.transform.accept();
        let channel = channel.map_err(|error| Unsupported::because(format!("accept: {}", system_message(&error))))?;
        Ok(Box::new(HashStream::new(operation, self.tag_len, channel)))
    }
}

impl AfalgSession {
    /// Runs one request on its own socket.
    fn exchange(&self, exchange: impl FnOnce(&mut PooledSocket) -> io::Result<()>) -> Result<Outcome, Fault> {
        match self.pool.with_socket(exchange) {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => Ok(Outcome::BadTag),
            Err(error) => Err(fault(&error)),
        }
    }

    /// Receives the result. The kernel returns the associated data first, then the data, and then the tag of a sealed message.
    fn receive(
        &self,
        socket: &mut PooledSocket,
        aad_len: usize,
        data: &mut Buffers<'_>,
        tag: &mut [u8],
    ) -> io::Result<()> {
        let PooledSocket { channel, scratch, .. } = socket;
        if !self.can_fail_midway || matches!(data, Buffers::Separate { .. }) {
            if aad_len == 0 && tag.is_empty() {
                return channel.receive(&mut [IoSliceMut::new(data.output())]);
            }
            resize(scratch, aad_len);
            return channel.receive(&mut [scratch, data.output(), tag].map(IoSliceMut::new));
        }
        resize(scratch, aad_len + data.len());
        channel.receive(&mut [scratch, tag].map(IoSliceMut::new))?;
        data.output().copy_from_slice(&scratch[aad_len..]);
        Ok(())
    }

    /// Returns the number of bytes that the kernel treats as associated data. Declines a request that does not fit the kernel's limits.
    fn kernel_aad_len(&self, nonce: NonceForm, iv: &[u8], aad: &[u8], data: &Buffers<'_>) -> Result<usize, Fault> {
        if nonce == NonceForm::Plain && iv.len() != 12 {
            return Err(Fault::Declined("the kernel takes only nonces of 12 bytes"));
        }
        let aad_len = aad.len() + nonce.associated_part(iv).len();
        if aad_len + data.len() + self.tag_len > self.max_bytes {
            return Err(Fault::Declined("data and associated data exceed the socket's buffer"));
        }
        Ok(aad_len)
    }
}

impl NonceForm {
    fn associated_part(self, iv: &[u8]) -> &[u8] {
        if self == NonceForm::Associated { iv } else { &[] }
    }

    fn kernel_iv(self, iv: &[u8]) -> KernelIv {
        let mut block = [0; 16];
        if self == NonceForm::Ccm && iv.len() < 15 {
            block[0] = 14 - iv.len() as u8;
            block[1..=iv.len()].copy_from_slice(iv);
            return KernelIv(Some(block));
        }
        KernelIv(None)
    }
}

/// The IV for the kernel, if it differs from the caller's.
struct KernelIv(Option<[u8; 16]>);

impl KernelIv {
    fn get<'a>(&'a self, iv: &'a [u8]) -> &'a [u8] {
        self.0.as_ref().map_or(iv, |block| block)
    }
}

/// Maximum number of sockets that a session keeps.
const POOL_SIZE: usize = 16;

/// A transform and its sockets. A thread locks the first free one for a request, and does not wait. If all are busy, it opens a socket and
/// closes it afterwards.
struct Pool {
    transform: Transform,
    sockets: [Mutex<Option<PooledSocket>>; POOL_SIZE],
}

/// A socket, and room for results that must not go directly into the caller's buffer.
struct PooledSocket {
    channel: Channel,
    scratch: Zeroizing<Vec<u8>>,
    /// The process that made the socket.
    process: Process,
}

impl Pool {
    fn new(transform: Transform) -> Self {
        Self { transform, sockets: Default::default() }
    }

    /// Runs `work` with a socket of this process. After an error the socket is closed, which discards its remaining data.
    fn with_socket<T>(&self, work: impl FnOnce(&mut PooledSocket) -> io::Result<T>) -> io::Result<T> {
        let mut pooled = self.sockets.iter().find_map(|socket| socket.try_lock().ok());
        let mut temporary = None;
        let entry = pooled.as_deref_mut().unwrap_or(&mut temporary);
        let socket = match entry {
            Some(socket) if socket.process.is_current() => socket,
            // There is no socket yet, or it is from before a fork, and the parent process uses it too.
            _ => entry.insert(PooledSocket {
                channel: self.transform.accept()?,
                scratch: Zeroizing::default(),
                process: Process::current(),
            }),
        };
        let result = work(socket);
        if result.is_err() {
            *entry = None;
        }
        result
    }
}

/// Makes room for `bytes` bytes. Memory that is too small is wiped before it is freed.
fn resize(scratch: &mut Zeroizing<Vec<u8>>, bytes: usize) {
    if scratch.capacity() < bytes {
        *scratch = Zeroizing::new(Vec::with_capacity(bytes.next_power_of_two()));
    }
    scratch.resize(bytes, 0);
}

/// Returns whether the error is temporary: a shortage in the process or the machine, or a signal, and not a failure of the engine.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EINTR))
}

/// Checks at compile time that threads can share a session.
const _: fn(Arc<AfalgSession>) -> Arc<dyn DeviceSession> = |session| session;
