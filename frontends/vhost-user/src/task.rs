//! A request of a data queue: copied out of the guest's memory, run side by side with others, copied back.

use std::ops::Range;
use std::sync::Arc;

use gantry_abi_virtio_crypto::constants::operation as op;
use gantry_abi_virtio_crypto::data::{self, Data, Header};
use gantry_abi_virtio_crypto::{Error, Features, Status};
use gantry_core::{Kind, Outcome, Request, Session};
use vm_memory::GuestMemoryMmap;
use zeroize::Zeroize;

use crate::chain::{Chain, Pieces, Reader, room, write_front, write_last};
use crate::session::{Entry, Sessions};

/// Most bytes that the device reads or writes for one request, headers excluded: `max_size` of the configuration.
pub(crate) const MAX_SIZE: u64 = 1 << 20;
/// Bytes of the longest fixed part, which a chain of algorithms without a session has.
const FIXED: usize = 76;
/// Bytes of the longest result: 512 for an RSA key. Digests and MACs have at most 64.
const LONGEST_RESULT: usize = 512;
/// Bytes that buffers keep from one request to the next.
const RETAINED: usize = 128 << 10;

/// A request. Tasks and their buffers are reused.
pub(crate) struct Task {
    /// The index of the chain's first descriptor, by which the chain is returned.
    pub(crate) head: u16,
    writable: Pieces,
    status: Status,
    work: Option<Work>,
    /// The bytes read; only the front belongs to this request.
    bytes: Vec<u8>,
    /// Digest, MAC, tag or signature; or an enciphered or deciphered message, with its length in `written`.
    result: [u8; LONGEST_RESULT],
    written: usize,
    /// Bytes that count against this guest's share.
    pub(crate) load: usize,
}

/// The operation on the bytes.
struct Work {
    entry: Arc<Entry>,
    iv: Range<usize>,
    /// The source, which is processed in place.
    data: Range<usize>,
    /// Associated data, or the signed data.
    aad: Range<usize>,
    /// Parts of the data, for chains of algorithms.
    cipher: Range<usize>,
    hash: Range<usize>,
    /// Length in bytes of the result that the guest gets.
    result: usize,
    /// Room for the destination; the unused rest is not written.
    destination: usize,
    /// Completed steps.
    step: u8,
    encrypt: bool,
    /// True if the operation of an RSA key is signing or verifying.
    signature: bool,
}

impl Task {
    pub(crate) fn new() -> Self {
        Self {
            head: 0,
            writable: Pieces::new(),
            status: Status::Error,
            work: None,
            bytes: Vec::new(),
            result: [0; LONGEST_RESULT],
            written: 0,
            load: 0,
        }
    }

    /// Reads a request from a chain. Any error becomes its status.
    pub(crate) fn begin(
        &mut self,
        head: u16,
        chain: Chain,
        memory: &GuestMemoryMmap,
        sessions: &Sessions,
        features: Features,
    ) {
        (self.head, self.load, self.work, self.written) = (head, 0, None, 0);
        self.status = match self.read(&chain, memory, sessions, features) {
            Ok(work) => {
                self.work = Some(work);
                Status::Ok
            }
            Err(status) => status,
        };
        self.writable = chain.writable;
    }

    fn read(
        &mut self,
        chain: &Chain,
        memory: &GuestMemoryMmap,
        sessions: &Sessions,
        features: Features,
    ) -> Result<Work, Status> {
        if chain.broken {
            return Err(Status::Error);
        }
        let mut reader = Reader::new(memory, chain);
        // Header and parameters are read once, and only the copy is used.
        let mut header = [0; data::HEADER];
        let mut fixed = [0; FIXED];
        let read = |done: bool| if done { Ok(()) } else { Err(Status::Error) };
        read(reader.read(&mut header))?;
        let header = Header::parse(&header).map_err(Error::status)?;
        if header.is_stateless(features) && !features.stateless(header.service()) {
            return Err(Status::NotSupported);
        }
        let length = header.fixed_length(features).map_err(Error::status)?;
        let fixed = &mut fixed[..length];
        read(reader.read(fixed))?;
        let request = data::Request::parse(&header, fixed, features).map_err(Error::status)?;
        let parts = request.readable(&header);
        let (destination, result) = request.writable(&header);
        let writes = u64::from(destination) + u64::from(result);
        // Drivers may provide more buffers than the lengths require: Linux repeats pieces of scattered buffers.
        if parts.length > MAX_SIZE
            || writes > MAX_SIZE
            || reader.remaining() < parts.length
            || room(&chain.writable) <= writes
        {
            return Err(Status::Error);
        }
        // The lengths are at most 1 MiB, so the casts below are lossless.
        let place = |range: Range<u64>| range.start as usize..range.end as usize;
        let length = parts.length as usize;
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        read(reader.read(&mut self.bytes[..length]))?;
        self.load = length + writes as usize;
        let entry = match &request.session_parameters {
            None => sessions.get(header.session_id).cloned().ok_or(Status::InvalidSession)?,
            Some(own) => {
                let keys = place(parts.key.start..parts.auth_key.end);
                let made = sessions.make(own, &self.bytes[place(parts.key)], &self.bytes[place(parts.auth_key)]);
                self.bytes[keys].zeroize();
                made?
            }
        };
        let mut work = Work {
            entry,
            iv: place(parts.iv),
            data: place(parts.source),
            aad: place(parts.aad),
            cipher: 0..0,
            hash: 0..0,
            result: result as usize,
            destination: destination as usize,
            step: 0,
            encrypt: false,
            signature: false,
        };
        work.check(&header, &request.lengths)?;
        self.pad_number(&mut work, length);
        Ok(work)
    }

    /// Pads a number for RSA that is shorter than its modulus with leading zeros, behind the `length` bytes that were read.
    fn pad_number(&mut self, work: &mut Work, length: usize) {
        let Some(size) = work.raw_rsa_size().filter(|size| work.data.len() < *size) else { return };
        let all = length..length + size;
        if self.bytes.len() < all.end {
            self.bytes.resize(all.end, 0);
        }
        let start = all.end - work.data.len();
        self.bytes.copy_within(work.data.clone(), start);
        self.bytes[length..start].fill(0);
        work.data = all;
    }

    fn has_step(&self) -> bool {
        self.status == Status::Ok && self.work.as_ref().is_some_and(|work| work.session().is_some())
    }

    /// Builds the request of the next step, with its session.
    pub(crate) fn request(&mut self) -> Option<(&Session, Request<'_>)> {
        let Self { work, bytes, result, written, .. } = self;
        let work = work.as_ref()?;
        let session = work.session()?;
        let request = match &*work.entry {
            Entry::Cipher { .. } => work.cipher(bytes, &work.data),
            Entry::Chain { cipher_first, .. } if *cipher_first == (work.step == 0) => work.cipher(bytes, &work.cipher),
            Entry::Chain { keyed: true, hash, .. } => {
                Request::mac(&bytes[work.hash.clone()], &mut result[..hash.params().tag_len()])
            }
            Entry::Chain { hash, .. } => {
                Request::digest(&bytes[work.hash.clone()], &mut result[..hash.params().tag_len()])
            }
            Entry::Hash { session } => {
                Request::digest(&bytes[work.data.clone()], &mut result[..session.params().tag_len()])
            }
            Entry::Mac { session, .. } => {
                Request::mac(&bytes[work.data.clone()], &mut result[..session.params().tag_len()])
            }
            Entry::Aead { tag, encrypt, .. } => {
                // IV, source and associated data are consecutive.
                let (front, aad) = bytes.split_at_mut(work.data.end);
                let (iv, data) = front.split_at_mut(work.data.start);
                let (iv, aad) = (&iv[work.iv.clone()], &aad[..work.aad.len()]);
                if *encrypt {
                    Request::seal(iv, aad, data, &mut result[..*tag])
                } else {
                    let (data, tag) = data.split_at_mut(data.len() - tag);
                    Request::open(iv, aad, data, tag)
                }
            }
            Entry::Rsa(_) => {
                let (data, result) = (&bytes[work.data.clone()], &mut result[..session.params().tag_len()]);
                match (work.signature, work.encrypt) {
                    (true, true) => Request::sign(data, result),
                    (true, false) => Request::verify(&bytes[work.aad.clone()], data),
                    (false, true) => Request::encipher(data, result),
                    (false, false) => Request::decipher(data, result, written),
                }
            }
        };
        Some((session, request))
    }

    /// Takes the outcome of the step; `None` if no device could run it.
    pub(crate) fn settle(&mut self, outcome: Option<Outcome>) {
        let Some(work) = &mut self.work else { return };
        work.step += 1;
        self.status = match outcome {
            Some(Outcome::Done) => Status::Ok,
            Some(Outcome::BadTag) if matches!(*work.entry, Entry::Rsa(_)) => Status::KeyRejected,
            Some(Outcome::BadTag) => Status::BadMessage,
            _ => Status::Error,
        };
    }

    /// Writes the answer into the guest's memory. Returns the number of bytes written; `None` if there is no room even for the status.
    pub(crate) fn answer(&mut self, memory: &GuestMemoryMmap) -> Option<u32> {
        let mut written = 0;
        let work = self.work.take();
        if let Some(work) = &work
            && self.status == Status::Ok
        {
            let data = &self.bytes[work.data.clone()];
            let mut result = &self.result[..work.result];
            let destination = match &*work.entry {
                Entry::Cipher { .. } | Entry::Chain { .. } => data,
                Entry::Aead { encrypt: true, tag, .. } => {
                    result = &self.result[..*tag];
                    data
                }
                Entry::Aead { tag, .. } => &data[..data.len() - tag],
                Entry::Rsa(_) if work.deciphers() => {
                    result = &self.result[..self.written.min(LONGEST_RESULT)];
                    &[]
                }
                Entry::Hash { .. } | Entry::Mac { .. } | Entry::Rsa(_) => &[],
            };
            // The length of a message is known only after deciphering.
            let has_room = !work.deciphers() || result.len() <= work.destination;
            if has_room && write_front(memory, &self.writable, &[destination, result]) {
                written = (destination.len() + result.len()) as u32;
            } else {
                self.status = Status::Error;
            }
        }
        if work.is_some_and(|work| work.deciphers()) {
            self.result.zeroize();
        }
        if self.bytes.len() > RETAINED {
            self.bytes.truncate(RETAINED);
            self.bytes.shrink_to(RETAINED);
        }
        write_last(memory, &self.writable, self.status as u8).then_some(written + 1)
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }
}

impl Work {
    /// Compares the request's parameters with the parameters of its session.
    fn check(&mut self, header: &Header, lengths: &Data) -> Result<(), Status> {
        let fits = |fits: bool| if fits { Ok(()) } else { Err(Status::Error) };
        match (&*self.entry, lengths) {
            (Entry::Cipher { session, encrypt }, Data::Cipher { .. }) => {
                fits(*encrypt == (header.opcode == op::CIPHER_ENCRYPT))?;
                fits(self.accepts_data(session, self.data.len()) && self.destination >= self.data.len())?;
                (self.encrypt, self.result) = (*encrypt, 0);
            }
            (Entry::Chain { cipher, encrypt, result, .. }, Data::Chain(chain)) => {
                fits(*encrypt == (header.opcode == op::CIPHER_ENCRYPT))?;
                let part = |start: u32, length: u32| {
                    let range = self.data.start + start as usize..self.data.start + start as usize + length as usize;
                    (range.end <= self.data.end).then_some(range).ok_or(Status::Error)
                };
                (self.cipher, self.hash) =
                    (part(chain.cipher_start, chain.cipher_len)?, part(chain.hash_start, chain.hash_len)?);
                fits(self.accepts_data(cipher, self.cipher.len()) && self.aad.is_empty())?;
                // Requests without a session give the length only here.
                fits(self.destination == self.data.len() && (1..=*result).contains(&self.result))?;
                self.encrypt = *encrypt;
            }
            (Entry::Hash { session }, Data::Hash { .. }) => fits(self.result == session.params().tag_len())?,
            (Entry::Mac { result, .. }, Data::Mac { .. }) => fits(self.result == *result)?,
            (Entry::Aead { session, encrypt, tag }, Data::Aead { tag: tag_length, .. }) => {
                fits(*encrypt == (header.opcode == op::AEAD_ENCRYPT))?;
                fits(*tag_length == 0 || *tag_length as usize == *tag)?;
                fits(session.params().iv_lengths().allows(self.iv.len()))?;
                let written = if *encrypt { Some(self.data.len() + tag) } else { self.data.len().checked_sub(*tag) };
                fits(written.is_some_and(|written| written <= self.destination))?;
                self.encrypt = *encrypt;
            }
            (Entry::Rsa(rsa), Data::Akcipher { .. }) => {
                let (data, room) = (self.data.len(), self.destination);
                (self.signature, self.encrypt) = match header.opcode {
                    op::AKCIPHER_SIGN if rsa.private => (true, true),
                    op::AKCIPHER_VERIFY if !rsa.private => (true, false),
                    op::AKCIPHER_ENCRYPT => (false, true),
                    op::AKCIPHER_DECRYPT if rsa.private => (false, false),
                    _ => return Err(Status::NotSupported),
                };
                let info = self.session().ok_or(Status::NotSupported)?.params().algorithm().info();
                let (modulus, digest) = (info.tag.max, rsa.signature.as_ref().map_or(0, |(_, digest)| *digest));
                fits(match (self.signature, self.encrypt) {
                    (true, true) => data == digest && room >= modulus,
                    (true, false) => data == modulus && self.aad.len() == digest,
                    // Numbers without leading zeros are shorter.
                    _ if !info.randomized => (1..=modulus).contains(&data) && room >= modulus,
                    (false, true) => data as u64 <= info.max_data && room >= modulus,
                    (false, false) => data == modulus,
                })?;
                self.result = if self.encrypt { modulus } else { 0 };
            }
            // A session of another service.
            _ => return Err(Status::InvalidSession),
        }
        Ok(())
    }

    /// Returns whether the operation is RSA deciphering.
    fn deciphers(&self) -> bool {
        matches!(*self.entry, Entry::Rsa(_)) && !self.signature && !self.encrypt
    }

    /// Returns the length of the modulus in bytes if the data is a number for RSA without padding.
    fn raw_rsa_size(&self) -> Option<usize> {
        let info = self.session()?.params().algorithm().info();
        (info.kind == Kind::Encipherment && !info.randomized).then_some(info.tag.max)
    }

    /// Returns whether a cipher accepts these lengths.
    fn accepts_data(&self, session: &Session, data: usize) -> bool {
        let info = session.params().algorithm().info();
        info.iv.allows(self.iv.len())
            && data > 0
            && data >= info.min_data
            && data.is_multiple_of(info.block)
            && data as u64 <= info.max_data
    }

    /// Returns the session of the next step.
    fn session(&self) -> Option<&Session> {
        match (&*self.entry, self.step) {
            (Entry::Chain { cipher, hash, cipher_first, .. }, step @ (0 | 1)) => {
                Some(if *cipher_first == (step == 0) { cipher } else { hash })
            }
            (
                Entry::Cipher { session, .. }
                | Entry::Hash { session }
                | Entry::Mac { session, .. }
                | Entry::Aead { session, .. },
                0,
            ) => Some(session),
            (Entry::Rsa(rsa), 0) if self.signature => rsa.signature.as_ref().map(|(session, _)| session),
            (Entry::Rsa(rsa), 0) => rsa.encryption.as_ref(),
            _ => None,
        }
    }

    fn cipher<'b>(&self, bytes: &'b mut [u8], part: &Range<usize>) -> Request<'b> {
        let (front, data) = bytes.split_at_mut(part.start);
        let (iv, data) = (&front[self.iv.clone()], &mut data[..part.len()]);
        if self.encrypt { Request::encrypt(iv, data) } else { Request::decrypt(iv, data) }
    }
}

/// Runs all steps of all tasks, side by side.
pub(crate) fn side_by_side(tasks: &mut [Task]) {
    let mut active: Vec<&mut Task> = tasks.iter_mut().collect();
    loop {
        active.retain(|task| task.has_step());
        if active.is_empty() {
            return;
        }
        let steps = active.iter_mut().filter_map(|task| task.request());
        let (sessions, mut requests): (Vec<&Session>, Vec<Request<'_>>) = steps.unzip();
        // This cannot fail: all sessions belong to the server's framework.
        let _ = Session::process_each(&sessions, &mut requests);
        let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
        for (task, outcome) in active.iter_mut().zip(outcomes) {
            task.settle(outcome);
        }
    }
}
