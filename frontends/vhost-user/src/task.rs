//! A request of a data queue: copied out of the guest's memory, run side by side with others, copied back.

use std::ops::Range;
use std::sync::Arc;

use gantry_abi_virtio_crypto::constants::operation as op;
use gantry_abi_virtio_crypto::data::{self, Header, OperandLengths};
use gantry_abi_virtio_crypto::{Error, Features, Status};
use gantry_core::{Kind, Outcome, Request, Session};
use vm_memory::GuestMemoryMmap;
use zeroize::Zeroize;

use crate::chain::{Buffers, Chain, Reader, total_length, write_front, write_last};
use crate::session::{GuestSession, Sessions};

/// Most bytes that the device reads or writes for one request, headers excluded: `max_size` of the configuration.
pub(crate) const MAX_REQUEST_BYTES: u64 = 1 << 20;
/// Bytes of the longest fixed part, which a chain of algorithms without a session has.
const MAX_FIXED_BYTES: usize = 76;
/// Bytes of the longest result: 512 for an RSA key. Digests and MACs have at most 64.
const MAX_RESULT_BYTES: usize = 512;
/// Bytes that buffers keep from one request to the next.
const RETAINED_BYTES: usize = 128 << 10;

/// A request. Tasks and their buffers are reused.
pub(crate) struct Task {
    /// The index of the chain's first descriptor, by which the chain is returned.
    pub(crate) head: u16,
    writable: Buffers,
    status: Status,
    operation: Option<CryptoOperation>,
    /// The bytes read; only the front belongs to this request.
    bytes: Vec<u8>,
    /// Digest, MAC, tag or signature; or an enciphered or deciphered message, with its length in `deciphered_length`.
    result: [u8; MAX_RESULT_BYTES],
    deciphered_length: usize,
    /// Bytes that count against this guest's share.
    pub(crate) charged_bytes: usize,
}

/// The operation on the bytes.
struct CryptoOperation {
    guest_session: Arc<GuestSession>,
    iv: Range<usize>,
    /// The source, which is processed in place.
    data: Range<usize>,
    /// Associated data, or the signed data.
    aad: Range<usize>,
    /// Parts of the data, for chains of algorithms.
    cipher_range: Range<usize>,
    hash_range: Range<usize>,
    /// Length in bytes of the result that the guest gets.
    result_length: usize,
    /// Room for the destination; the unused rest is not written.
    destination_length: usize,
    /// Completed steps.
    step: u8,
    encrypt: bool,
    /// True if the operation of an RSA key is signing or verifying.
    is_signature: bool,
}

impl Task {
    pub(crate) fn new() -> Self {
        Self {
            head: 0,
            writable: Buffers::new(),
            status: Status::Error,
            operation: None,
            bytes: Vec::new(),
            result: [0; MAX_RESULT_BYTES],
            deciphered_length: 0,
            charged_bytes: 0,
        }
    }

    /// Reads a request from a chain. Any error becomes its status.
    pub(crate) fn read_request(
        &mut self,
        head: u16,
        chain: Chain,
        memory: &GuestMemoryMmap,
        sessions: &Sessions,
        features: Features,
    ) {
        (self.head, self.charged_bytes, self.operation, self.deciphered_length) = (head, 0, None, 0);
        self.status = match self.parse(&chain, memory, sessions, features) {
            Ok(operation) => {
                self.operation = Some(operation);
                Status::Ok
            }
            Err(status) => status,
        };
        self.writable = chain.writable;
    }

    fn parse(
        &mut self,
        chain: &Chain,
        memory: &GuestMemoryMmap,
        sessions: &Sessions,
        features: Features,
    ) -> Result<CryptoOperation, Status> {
        if chain.is_malformed {
            return Err(Status::Error);
        }
        let mut reader = Reader::new(memory, chain);
        // Header and parameters are read once, and only the copy is used.
        let mut header = [0; data::HEADER_LEN];
        let mut fixed = [0; MAX_FIXED_BYTES];
        let require = |is_ok: bool| if is_ok { Ok(()) } else { Err(Status::Error) };
        require(reader.read(&mut header))?;
        let header = Header::parse(&header).map_err(Error::status)?;
        if header.is_stateless(features) && !features.has_stateless_mode(header.service()) {
            return Err(Status::NotSupported);
        }
        let length = header.fixed_length(features).map_err(Error::status)?;
        let fixed = &mut fixed[..length];
        require(reader.read(fixed))?;
        let request = data::Request::parse(&header, fixed, features).map_err(Error::status)?;
        let ranges = request.readable_ranges(&header);
        let (destination_length, result_length) = request.writable_lengths(&header);
        let writable_length = u64::from(destination_length) + u64::from(result_length);
        // Drivers may provide more buffers than the lengths require: Linux repeats pieces of scattered buffers.
        if ranges.total_len > MAX_REQUEST_BYTES
            || writable_length > MAX_REQUEST_BYTES
            || reader.remaining() < ranges.total_len
            || total_length(&chain.writable) <= writable_length
        {
            return Err(Status::Error);
        }
        // The lengths are at most 1 MiB, so the casts below are lossless.
        let to_usize = |range: Range<u64>| range.start as usize..range.end as usize;
        let length = ranges.total_len as usize;
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        require(reader.read(&mut self.bytes[..length]))?;
        self.charged_bytes = length + writable_length as usize;
        let guest_session = match &request.session_parameters {
            None => sessions.get(header.session_id).cloned().ok_or(Status::InvalidSession)?,
            Some(inline_params) => {
                let keys = to_usize(ranges.key.start..ranges.auth_key.end);
                let session = sessions.create_stateless(
                    inline_params,
                    &self.bytes[to_usize(ranges.key)],
                    &self.bytes[to_usize(ranges.auth_key)],
                );
                self.bytes[keys].zeroize();
                session?
            }
        };
        let mut operation = CryptoOperation {
            guest_session,
            iv: to_usize(ranges.iv),
            data: to_usize(ranges.source),
            aad: to_usize(ranges.aad),
            cipher_range: 0..0,
            hash_range: 0..0,
            result_length: result_length as usize,
            destination_length: destination_length as usize,
            step: 0,
            encrypt: false,
            is_signature: false,
        };
        operation.check_and_complete(&header, &request.lengths)?;
        self.pad_number(&mut operation, length);
        Ok(operation)
    }

    /// Pads a number for RSA that is shorter than its modulus with leading zeros, behind the `length` bytes that were read.
    fn pad_number(&mut self, operation: &mut CryptoOperation, length: usize) {
        let Some(size) = operation.raw_rsa_modulus_length().filter(|size| operation.data.len() < *size) else { return };
        let all = length..length + size;
        if self.bytes.len() < all.end {
            self.bytes.resize(all.end, 0);
        }
        let start = all.end - operation.data.len();
        self.bytes.copy_within(operation.data.clone(), start);
        self.bytes[length..start].fill(0);
        operation.data = all;
    }

    fn has_step(&self) -> bool {
        self.status == Status::Ok && self.operation.as_ref().is_some_and(|operation| operation.session().is_some())
    }

    /// Builds the request of the next step, with its session.
    pub(crate) fn build_request(&mut self) -> Option<(&Session, Request<'_>)> {
        let Self { operation, bytes, result, deciphered_length, .. } = self;
        let operation = operation.as_ref()?;
        let session = operation.session()?;
        let request = match &*operation.guest_session {
            GuestSession::Cipher { .. } => operation.cipher_request(bytes, &operation.data),
            GuestSession::CipherAndHash { cipher_first, .. } if *cipher_first == (operation.step == 0) => {
                operation.cipher_request(bytes, &operation.cipher_range)
            }
            GuestSession::CipherAndHash { is_mac: true, hash, .. } => {
                Request::mac(&bytes[operation.hash_range.clone()], &mut result[..hash.params().tag_len()])
            }
            GuestSession::CipherAndHash { hash, .. } => {
                Request::digest(&bytes[operation.hash_range.clone()], &mut result[..hash.params().tag_len()])
            }
            GuestSession::Hash { session } => {
                Request::digest(&bytes[operation.data.clone()], &mut result[..session.params().tag_len()])
            }
            GuestSession::Mac { session, .. } => {
                Request::mac(&bytes[operation.data.clone()], &mut result[..session.params().tag_len()])
            }
            GuestSession::Aead { tag_length, encrypt, .. } => {
                // IV, source and associated data are consecutive.
                let (front, aad) = bytes.split_at_mut(operation.data.end);
                let (iv, data) = front.split_at_mut(operation.data.start);
                let (iv, aad) = (&iv[operation.iv.clone()], &aad[..operation.aad.len()]);
                if *encrypt {
                    Request::seal(iv, aad, data, &mut result[..*tag_length])
                } else {
                    let (data, tag) = data.split_at_mut(data.len() - tag_length);
                    Request::open(iv, aad, data, tag)
                }
            }
            GuestSession::Rsa(_) => {
                let (data, result) = (&bytes[operation.data.clone()], &mut result[..session.params().tag_len()]);
                match (operation.is_signature, operation.encrypt) {
                    (true, true) => Request::sign(data, result),
                    (true, false) => Request::verify(&bytes[operation.aad.clone()], data),
                    (false, true) => Request::encipher(data, result),
                    (false, false) => Request::decipher(data, result, deciphered_length),
                }
            }
        };
        Some((session, request))
    }

    /// Takes the outcome of the step; `None` if no device could run it.
    pub(crate) fn record_outcome(&mut self, outcome: Option<Outcome>) {
        let Some(operation) = &mut self.operation else { return };
        operation.step += 1;
        self.status = match outcome {
            Some(Outcome::Done) => Status::Ok,
            Some(Outcome::BadTag) if matches!(*operation.guest_session, GuestSession::Rsa(_)) => Status::KeyRejected,
            Some(Outcome::BadTag) => Status::BadMessage,
            _ => Status::Error,
        };
    }

    /// Writes the answer into the guest's memory. Returns the number of bytes written; `None` if there is no room even for the status.
    pub(crate) fn answer(&mut self, memory: &GuestMemoryMmap) -> Option<u32> {
        let mut written = 0;
        let operation = self.operation.take();
        if let Some(operation) = &operation
            && self.status == Status::Ok
        {
            let data = &self.bytes[operation.data.clone()];
            let mut result = &self.result[..operation.result_length];
            let destination = match &*operation.guest_session {
                GuestSession::Cipher { .. } | GuestSession::CipherAndHash { .. } => data,
                GuestSession::Aead { encrypt: true, tag_length, .. } => {
                    result = &self.result[..*tag_length];
                    data
                }
                GuestSession::Aead { tag_length, .. } => &data[..data.len() - tag_length],
                GuestSession::Rsa(_) if operation.is_deciphering() => {
                    result = &self.result[..self.deciphered_length.min(MAX_RESULT_BYTES)];
                    &[]
                }
                GuestSession::Hash { .. } | GuestSession::Mac { .. } | GuestSession::Rsa(_) => &[],
            };
            // The length of a message is known only after deciphering.
            let has_room = !operation.is_deciphering() || result.len() <= operation.destination_length;
            if has_room && write_front(memory, &self.writable, &[destination, result]) {
                written = (destination.len() + result.len()) as u32;
            } else {
                self.status = Status::Error;
            }
        }
        if operation.is_some_and(|operation| operation.is_deciphering()) {
            self.result.zeroize();
        }
        if self.bytes.len() > RETAINED_BYTES {
            self.bytes.truncate(RETAINED_BYTES);
            self.bytes.shrink_to(RETAINED_BYTES);
        }
        write_last(memory, &self.writable, self.status as u8).then_some(written + 1)
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }
}

impl CryptoOperation {
    /// Compares the request's parameters with the parameters of its session.
    fn check_and_complete(&mut self, header: &Header, lengths: &OperandLengths) -> Result<(), Status> {
        let require = |is_valid: bool| if is_valid { Ok(()) } else { Err(Status::Error) };
        match (&*self.guest_session, lengths) {
            (GuestSession::Cipher { session, encrypt }, OperandLengths::Cipher { .. }) => {
                require(*encrypt == (header.opcode == op::CIPHER_ENCRYPT))?;
                require(self.accepts_data(session, self.data.len()) && self.destination_length >= self.data.len())?;
                (self.encrypt, self.result_length) = (*encrypt, 0);
            }
            (GuestSession::CipherAndHash { cipher, encrypt, result_length, .. }, OperandLengths::Chain(chain)) => {
                require(*encrypt == (header.opcode == op::CIPHER_ENCRYPT))?;
                let part = |start: u32, length: u32| {
                    let range = self.data.start + start as usize..self.data.start + start as usize + length as usize;
                    (range.end <= self.data.end).then_some(range).ok_or(Status::Error)
                };
                (self.cipher_range, self.hash_range) =
                    (part(chain.cipher_start, chain.cipher_len)?, part(chain.hash_start, chain.hash_len)?);
                require(self.accepts_data(cipher, self.cipher_range.len()) && self.aad.is_empty())?;
                // Requests without a session give the length only here.
                require(
                    self.destination_length == self.data.len() && (1..=*result_length).contains(&self.result_length),
                )?;
                self.encrypt = *encrypt;
            }
            (GuestSession::Hash { session }, OperandLengths::Hash { .. }) => {
                require(self.result_length == session.params().tag_len())?;
            }
            (GuestSession::Mac { result_length, .. }, OperandLengths::Mac { .. }) => {
                require(self.result_length == *result_length)?;
            }
            (GuestSession::Aead { session, encrypt, tag_length }, OperandLengths::Aead { tag_len, .. }) => {
                require(*encrypt == (header.opcode == op::AEAD_ENCRYPT))?;
                require(*tag_len == 0 || *tag_len as usize == *tag_length)?;
                require(session.params().iv_lengths().allows(self.iv.len()))?;
                let written = if *encrypt {
                    Some(self.data.len() + tag_length)
                } else {
                    self.data.len().checked_sub(*tag_length)
                };
                require(written.is_some_and(|written| written <= self.destination_length))?;
                self.encrypt = *encrypt;
            }
            (GuestSession::Rsa(rsa), OperandLengths::Akcipher { .. }) => {
                let (data_length, destination_length) = (self.data.len(), self.destination_length);
                (self.is_signature, self.encrypt) = match header.opcode {
                    op::AKCIPHER_SIGN if rsa.is_private => (true, true),
                    op::AKCIPHER_VERIFY if !rsa.is_private => (true, false),
                    op::AKCIPHER_ENCRYPT => (false, true),
                    op::AKCIPHER_DECRYPT if rsa.is_private => (false, false),
                    _ => return Err(Status::NotSupported),
                };
                let info = self.session().ok_or(Status::NotSupported)?.params().algorithm().info();
                let (modulus_length, digest_length) =
                    (info.tag.max, rsa.signature.as_ref().map_or(0, |(_, digest)| *digest));
                require(match (self.is_signature, self.encrypt) {
                    (true, true) => data_length == digest_length && destination_length >= modulus_length,
                    (true, false) => data_length == modulus_length && self.aad.len() == digest_length,
                    // Numbers without leading zeros are shorter.
                    _ if !info.randomized => {
                        (1..=modulus_length).contains(&data_length) && destination_length >= modulus_length
                    }
                    (false, true) => data_length as u64 <= info.max_data && destination_length >= modulus_length,
                    (false, false) => data_length == modulus_length,
                })?;
                self.result_length = if self.encrypt { modulus_length } else { 0 };
            }
            // A session of another service.
            _ => return Err(Status::InvalidSession),
        }
        Ok(())
    }

    /// Returns whether the operation is RSA deciphering.
    fn is_deciphering(&self) -> bool {
        matches!(*self.guest_session, GuestSession::Rsa(_)) && !self.is_signature && !self.encrypt
    }

    /// Returns the length of the modulus in bytes if the data is a number for RSA without padding.
    fn raw_rsa_modulus_length(&self) -> Option<usize> {
        let info = self.session()?.params().algorithm().info();
        (info.kind == Kind::Encipherment && !info.randomized).then_some(info.tag.max)
    }

    /// Returns whether a cipher accepts these lengths.
    fn accepts_data(&self, session: &Session, data_length: usize) -> bool {
        let info = session.params().algorithm().info();
        info.iv.allows(self.iv.len())
            && data_length > 0
            && data_length >= info.min_data
            && data_length.is_multiple_of(info.block)
            && data_length as u64 <= info.max_data
    }

    /// Returns the session of the next step.
    fn session(&self) -> Option<&Session> {
        match (&*self.guest_session, self.step) {
            (GuestSession::CipherAndHash { cipher, hash, cipher_first, .. }, step @ (0 | 1)) => {
                Some(if *cipher_first == (step == 0) { cipher } else { hash })
            }
            (
                GuestSession::Cipher { session, .. }
                | GuestSession::Hash { session }
                | GuestSession::Mac { session, .. }
                | GuestSession::Aead { session, .. },
                0,
            ) => Some(session),
            (GuestSession::Rsa(rsa), 0) if self.is_signature => rsa.signature.as_ref().map(|(session, _)| session),
            (GuestSession::Rsa(rsa), 0) => rsa.encryption.as_ref(),
            _ => None,
        }
    }

    fn cipher_request<'b>(&self, bytes: &'b mut [u8], part: &Range<usize>) -> Request<'b> {
        let (front, data) = bytes.split_at_mut(part.start);
        let (iv, data) = (&front[self.iv.clone()], &mut data[..part.len()]);
        if self.encrypt { Request::encrypt(iv, data) } else { Request::decrypt(iv, data) }
    }
}

/// Runs all steps of all tasks, side by side.
pub(crate) fn run_tasks(tasks: &mut [Task]) {
    let mut active: Vec<&mut Task> = tasks.iter_mut().collect();
    loop {
        active.retain(|task| task.has_step());
        if active.is_empty() {
            return;
        }
        let steps = active.iter_mut().filter_map(|task| task.build_request());
        let (sessions, mut requests): (Vec<&Session>, Vec<Request<'_>>) = steps.unzip();
        // This cannot fail: all sessions belong to the server's framework.
        let _ = Session::process_each(&sessions, &mut requests);
        let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
        for (task, outcome) in active.iter_mut().zip(outcomes) {
            task.record_outcome(outcome);
        }
    }
}
