//! Sessions. The kernel holds the key; a request goes through an operation socket in two system calls: `sendmsg` with the
//! data and all that belongs to it, and `read`, in which the kernel computes.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use gantry_core::driver::{Buffers, DeviceSession, DigestStream, Operands, Refusal, Unsupported};
use gantry_core::{Algorithm as A, Fault, Kind, Operation, Outcome, Process, SessionParams};
use zeroize::Zeroizing;

use crate::fault::{fault, words};
use crate::stream::HashStream;
use crate::sys::{Channel, Control, Transform};

/// A session on the kernel's `name` of this type. `limit` ends what a request may have in all; `fragile` is an engine that
/// may fail in the middle of its work.
pub(crate) fn open(
    params: &SessionParams,
    kind: &str,
    name: &str,
    limit: usize,
    fragile: bool,
) -> Result<AfalgSession, Refusal> {
    let refused = |call: &str, error: &io::Error| -> Refusal {
        let why = format!("{call} {name}: {}", words(error));
        if is_passing(error) { Fault::failed(why).into() } else { Unsupported::because(why).into() }
    };
    let transform = Transform::bind(kind, name).map_err(|error| refused("bind", &error))?;
    let algorithm = params.algorithm();
    let key = match way(algorithm) {
        Way::Aead(Nonce::Associated) => authenc_key(params),
        _ => Zeroizing::new(params.key().to_vec()),
    };
    if algorithm.kind() != Kind::Digest {
        transform.set_key(&key).map_err(|error| refused("setting a key of", &error))?;
    }
    if algorithm.kind() == Kind::Aead {
        let set = transform.set_tag_length(params.tag_length());
        set.map_err(|_| Unsupported::because("the kernel has no tags of this length"))?;
    }
    let pool = Pool::new(transform);
    // The first socket is made now, so that a lack of them shows here.
    pool.with_station(|_| Ok(())).map_err(|error| refused("accept", &error))?;
    Ok(AfalgSession { way: way(algorithm), tag_len: params.tag_length(), limit, fragile, pool })
}

/// A session on the kernel.
pub(crate) struct AfalgSession {
    way: Way,
    tag_len: usize,
    limit: usize,
    /// In-place requests get their result in a buffer of ours first: after a failure the data must be as it was.
    fragile: bool,
    pool: Pool,
}

/// How requests are put to the kernel.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Hash(Operation),
    Cipher,
    Aead(Nonce),
}

/// How the kernel wants the nonce of an AEAD.
#[derive(Clone, Copy, PartialEq)]
enum Nonce {
    /// As it is, in 12 bytes.
    Plain,
    /// As the first block of CCM's counter mode (RFC 3610, 2.3): L - 1, nonce, zeros.
    Ccm,
    /// For the cipher, and at the end of the associated data: `authenc` does not authenticate its IV.
    Associated,
}

fn way(algorithm: A) -> Way {
    match algorithm.kind() {
        Kind::Digest => Way::Hash(Operation::Digest),
        Kind::Mac => Way::Hash(Operation::Mac),
        Kind::Cipher => Way::Cipher,
        Kind::Aead if algorithm.info().cipher.is_some() => Way::Aead(Nonce::Associated),
        Kind::Aead if matches!(algorithm, A::Aes128Ccm | A::Aes192Ccm | A::Aes256Ccm) => Way::Aead(Nonce::Ccm),
        Kind::Aead => Way::Aead(Nonce::Plain),
        _ => unreachable!("the kernel has no name for it"),
    }
}

/// Both keys as `authenc` takes them: an attribute with the length of the cipher's key, the MAC's key, the cipher's
/// (crypto/authenc.h).
fn authenc_key(params: &SessionParams) -> Zeroizing<Vec<u8>> {
    const LENGTH_AND_TYPE: [u16; 2] = [8, 1];
    let (cipher, mac) = (params.key(), params.second_key());
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
        match (self.way, operands) {
            (Way::Hash(_), Operands::Digest { input, output } | Operands::Mac { input, output, .. }) => {
                self.exchange(|station| {
                    if !input.is_empty() {
                        station.channel.send(&Control::NONE, &[IoSlice::new(input)], false)?;
                    }
                    station.channel.receive(&mut [IoSliceMut::new(output)])
                })
            }
            // Without data the kernel does nothing either.
            (Way::Cipher, Operands::Cipher { data, .. }) if data.len() == 0 => Ok(Outcome::Done),
            (Way::Cipher, Operands::Cipher { operation, iv, mut data }) => self.exchange(|station| {
                let control = Control::new(operation == Operation::Decrypt, iv, 0);
                station.channel.send(&control, &[IoSlice::new(data.input())], false)?;
                self.receive(station, 0, &mut data, &mut [])
            }),
            (Way::Aead(nonce), Operands::Seal { iv, aad, mut data, tag }) => {
                let associated = self.associated(nonce, iv, aad, &data)?;
                let control = Control::new(false, nonce.block(iv).get(iv), associated);
                self.exchange(|station| {
                    let parts = [aad, nonce.extra(iv), data.input()].map(IoSlice::new);
                    station.channel.send(&control, &parts, false)?;
                    self.receive(station, associated, &mut data, tag)
                })
            }
            (Way::Aead(nonce), Operands::Open { iv, aad, mut data, tag }) => {
                let associated = self.associated(nonce, iv, aad, &data)?;
                let control = Control::new(true, nonce.block(iv).get(iv), associated);
                let result = self.exchange(|station| {
                    let parts = [aad, nonce.extra(iv), data.input(), tag].map(IoSlice::new);
                    station.channel.send(&control, &parts, false)?;
                    self.receive(station, associated, &mut data, &mut [])
                });
                if result == Ok(Outcome::BadTag) {
                    // The kernel decrypts before it compares.
                    data.output().fill(0);
                }
                result
            }
            _ => Err(Fault::failed("a request of another kind than its session")),
        }
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let Way::Hash(operation) = self.way else { return Err(Unsupported::because("no streams")) };
        let channel = self.pool.transform.accept();
        let channel = channel.map_err(|error| Unsupported::because(format!("accept: {}", words(&error))))?;
        Ok(Box::new(HashStream::new(operation, self.tag_len, channel)))
    }
}

impl AfalgSession {
    /// One request on a socket of its own.
    fn exchange(&self, exchange: impl FnOnce(&mut Station) -> io::Result<()>) -> Result<Outcome, Fault> {
        match self.pool.with_station(exchange) {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.raw_os_error() == Some(libc::EBADMSG) => Ok(Outcome::BadTag),
            Err(error) => Err(fault(&error)),
        }
    }

    /// The result: the associated data, which the kernel gives back in front, the data, and the tag of what was sealed.
    fn receive(
        &self,
        station: &mut Station,
        associated: usize,
        data: &mut Buffers<'_>,
        tag: &mut [u8],
    ) -> io::Result<()> {
        let Station { channel, scratch, .. } = station;
        if !self.fragile || matches!(data, Buffers::Separate { .. }) {
            if associated == 0 && tag.is_empty() {
                return channel.receive(&mut [IoSliceMut::new(data.output())]);
            }
            resize(scratch, associated);
            return channel.receive(&mut [scratch, data.output(), tag].map(IoSliceMut::new));
        }
        resize(scratch, associated + data.len());
        channel.receive(&mut [scratch, tag].map(IoSliceMut::new))?;
        data.output().copy_from_slice(&scratch[associated..]);
        Ok(())
    }

    /// Bytes that the kernel takes for associated data.
    fn associated(&self, nonce: Nonce, iv: &[u8], aad: &[u8], data: &Buffers<'_>) -> Result<usize, Fault> {
        if nonce == Nonce::Plain && iv.len() != 12 {
            return Err(Fault::Declined("the kernel takes nonces of 12 bytes"));
        }
        let associated = aad.len() + nonce.extra(iv).len();
        if associated + data.len() + self.tag_len > self.limit {
            return Err(Fault::Declined("data and associated data do not fit into a socket together"));
        }
        Ok(associated)
    }
}

impl Nonce {
    fn extra(self, iv: &[u8]) -> &[u8] {
        if self == Nonce::Associated { iv } else { &[] }
    }

    fn block(self, iv: &[u8]) -> Block {
        let mut block = [0; 16];
        if self == Nonce::Ccm && iv.len() < 15 {
            block[0] = 14 - iv.len() as u8;
            block[1..=iv.len()].copy_from_slice(iv);
            return Block(Some(block));
        }
        Block(None)
    }
}

/// The IV for the kernel, where it is another one than the caller's.
struct Block(Option<[u8; 16]>);

impl Block {
    fn get<'a>(&'a self, iv: &'a [u8]) -> &'a [u8] {
        self.0.as_ref().map_or(iv, |block| block)
    }
}

/// Sockets that a session keeps.
const POOLED: usize = 16;

/// A transform and its sockets. A thread locks one for a request, the first that is free, and nobody waits: where all are busy, a
/// socket is made, and afterwards closed.
struct Pool {
    transform: Transform,
    stations: [Mutex<Option<Station>>; POOLED],
}

/// A socket, and room for what the kernel gives back and is not to be written where the caller reads.
struct Station {
    channel: Channel,
    scratch: Zeroizing<Vec<u8>>,
    /// In which the socket was made.
    process: Process,
}

impl Pool {
    fn new(transform: Transform) -> Self {
        Self { transform, stations: Default::default() }
    }

    /// Works with a socket of this process. One on which something went wrong is closed, and with it goes whatever is left in it.
    fn with_station<T>(&self, work: impl FnOnce(&mut Station) -> io::Result<T>) -> io::Result<T> {
        let mut pooled = self.stations.iter().find_map(|station| station.try_lock().ok());
        let mut own = None;
        let place = pooled.as_deref_mut().unwrap_or(&mut own);
        let station = match place {
            Some(station) if station.process.is_current() => station,
            // One from before a fork is the parent's, too.
            _ => place.insert(Station {
                channel: self.transform.accept()?,
                scratch: Zeroizing::default(),
                process: Process::current(),
            }),
        };
        let result = work(station);
        if result.is_err() {
            *place = None;
        }
        result
    }
}

/// Makes room for `bytes`. Memory that becomes too small is overwritten before it is given back.
fn resize(scratch: &mut Zeroizing<Vec<u8>>, bytes: usize) {
    if scratch.capacity() < bytes {
        *scratch = Zeroizing::new(Vec::with_capacity(bytes.next_power_of_two()));
    }
    scratch.resize(bytes, 0);
}

/// Whether the process or the machine is short of something just now, which says nothing about the engine.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EINTR))
}

/// A session is shared by threads.
const _: fn(Arc<AfalgSession>) -> Arc<dyn DeviceSession> = |session| session;
