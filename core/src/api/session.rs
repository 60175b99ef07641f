//! Sessions, and the two ways to run requests on the calling thread: direct and batch.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroize;

use super::stream::{AeadStream, CipherStream, Stream};
use crate::algorithm::{Buffers, Error, Kind, Misuse, Operation, Outcome, Result, SessionParams, tags_equal};
use crate::dispatch::{Gantry, SessionCore};
use crate::driver::{DeviceSession, Operands};
use crate::request::Request;
use crate::route::{Needs, Question, Route, Sizes};
use crate::stats::Site;

/// An algorithm, a direction and keys, checked once. Immutable; clones share it across threads.
///
/// A device opens the session when a request is first routed to it.
#[derive(Clone)]
pub struct Session {
    pub(crate) core: Arc<SessionCore>,
}

/// The length of the longest MAC, HMAC-SHA512, in bytes.
const MAX_MAC_LEN: usize = 64;

impl Session {
    pub(crate) fn new(gantry: Gantry, params: SessionParams) -> Result<Self> {
        Ok(Self { core: Arc::new(SessionCore::new(gantry, params)?) })
    }

    /// Returns the parameters of the session.
    pub fn params(&self) -> &SessionParams {
        &self.core.params
    }

    /// Returns the framework of the session.
    pub fn gantry(&self) -> &Gantry {
        &self.core.gantry
    }

    /// Writes the digest of `input` to `output`.
    pub fn digest(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Digest { input, output })?.ok()
    }

    /// Writes the MAC of `input` to `output`.
    pub fn mac(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Mac { iv: &[], input, output })?.ok()
    }

    /// Checks that `tag` is a signature of `input`, or compares it with the MAC of `input` in constant time.
    ///
    /// # Errors
    /// [`Error::Refused`] with [`Outcome::BadTag`] if `tag` is wrong.
    pub fn verify(&self, input: &[u8], tag: &[u8]) -> Result<()> {
        if self.core.params.algorithm().kind() == Kind::Signature {
            return self.run(Operands::Verify { input, signature: tag })?.ok();
        }
        let mut computed = [0; MAX_MAC_LEN];
        // In a session of a digest, the length can exceed that of any MAC. `mac` below refuses such a session.
        let computed = &mut computed[..self.core.params.tag_len().min(MAX_MAC_LEN)];
        self.mac(input, computed)?;
        let is_equal = tags_equal(computed, tag);
        computed.zeroize();
        if is_equal { Ok(()) } else { Err(Error::Refused(Outcome::BadTag)) }
    }

    /// Writes the signature of `input` to `output`.
    pub fn sign(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Sign { input, output })?.ok()
    }

    /// Writes the secret shared with the owner of the public key `peer` to `output`.
    pub fn derive(&self, peer: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Derive { input: peer, output })?.ok()
    }

    /// Generates a key pair with the device's random number generator. If a private key has two encodings, the length of `private` selects
    /// the seed or the expanded key.
    ///
    /// ```no_run
    /// # fn main() -> gantry_core::Result<()> {
    /// # let gantry = gantry_core::Gantry::builder().build();
    /// use gantry_core::{Algorithm, Operation, SessionParams};
    /// let server = gantry.session(SessionParams::new(Algorithm::MlKem768, &[]).with_direction(Operation::KeyGen))?;
    /// let (mut private, mut public) = ([0; 64], [0; 1184]);
    /// server.key_gen(&mut private, &mut public)?;
    /// let (mut ciphertext, mut theirs, mut ours) = ([0; 1088], [0; 32], [0; 32]);
    /// server.encapsulate(&public, &mut ciphertext, &mut theirs)?;
    /// gantry.session(SessionParams::new(Algorithm::MlKem768, &private))?.decapsulate(&ciphertext, &mut ours)?;
    /// assert_eq!(ours, theirs);
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_gen(&self, private: &mut [u8], public: &mut [u8]) -> Result<()> {
        self.run(Operands::KeyGen { seed: &[], private, public })?.ok()
    }

    /// Encapsulates a fresh secret to the public key `peer`: writes the secret to `secret`, and its encapsulation to `ciphertext`.
    pub fn encapsulate(&self, peer: &[u8], ciphertext: &mut [u8], secret: &mut [u8]) -> Result<()> {
        self.run(Operands::Encapsulate { input: peer, seed: &[], ciphertext, output: secret })?.ok()
    }

    /// Writes the encapsulated secret to `secret`. An invalid ciphertext yields a pseudorandom secret (implicit rejection).
    pub fn decapsulate(&self, ciphertext: &[u8], secret: &mut [u8]) -> Result<()> {
        self.run(Operands::Decapsulate { input: ciphertext, output: secret })?.ok()
    }

    /// Encrypts a short message to the session's public key. `ciphertext` is as long as the modulus
    /// ([`AlgorithmInfo::tag`](crate::AlgorithmInfo::tag)).
    pub fn encipher(&self, message: &[u8], ciphertext: &mut [u8]) -> Result<()> {
        self.run(Operands::Encipher { input: message, output: ciphertext })?.ok()
    }

    /// Decrypts `ciphertext` into `message`, which must be as long as `ciphertext`; returns the length of the message in bytes. See
    /// [`rsa`](crate::rsa) for the handling of [`Outcome::Malformed`](crate::Outcome::Malformed).
    pub fn decipher(&self, ciphertext: &[u8], message: &mut [u8]) -> Result<usize> {
        let (room, mut written) = (message.len(), 0);
        self.run(Operands::Decipher { input: ciphertext, output: message, written: &mut written })?.ok()?;
        // Do not trust the device's length.
        Ok(written.min(room))
    }

    /// Compresses `input`; returns the number of bytes written to `output`. An output of
    /// [`compressed_max`](crate::AlgorithmInfo::compressed_max) bytes always suffices. If `output` is too short, the error is
    /// [`Error::Refused`] with [`Outcome::NoRoom`](crate::Outcome::NoRoom).
    ///
    /// ```no_run
    /// # fn main() -> gantry_core::Result<()> {
    /// # let gantry = gantry_core::Gantry::builder().build();
    /// use gantry_core::{Algorithm, AlgorithmInfo, SessionParams};
    /// let session = gantry.session(SessionParams::new(Algorithm::Zstd, &[]).with_level(9))?;
    /// let text = [b'a'; 5000];
    /// let mut compressed = vec![0; AlgorithmInfo::compressed_max(text.len())];
    /// let length = session.compress(&text, &mut compressed)?;
    /// let mut decompressed = [0; 5000];
    /// assert_eq!(session.decompress(&compressed[..length], &mut decompressed)?, 5000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compress(&self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        self.run_compression(Operation::Compress, input, output)
    }

    /// Decompresses `input`; returns the number of bytes written to `output`. The error is [`Error::Refused`] with
    /// [`Outcome::NoRoom`](crate::Outcome::NoRoom) if `output` is too short, and with [`Outcome::Malformed`](crate::Outcome::Malformed) if
    /// `input` is not compressed data.
    pub fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        self.run_compression(Operation::Decompress, input, output)
    }

    fn run_compression(&self, operation: Operation, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let (room, mut written) = (output.len(), 0);
        self.run(Operands::Compression { operation, input, output, written: &mut written })?.ok()?;
        // Do not trust the device's length.
        Ok(written.min(room))
    }

    /// Builds a packet in place from a payload of `payload_len` bytes. The payload [begins](crate::AlgorithmInfo::payload_start) at a fixed
    /// offset of `packet`, which has the [length of the finished packet](crate::AlgorithmInfo::packet_length).
    pub fn protect(&self, number: u64, next_header: u8, packet: &mut [u8], mut payload_len: usize) -> Result<()> {
        let (operation, payload_len, next_header) = (Operation::Protect, &mut payload_len, &mut { next_header });
        self.run(Operands::Packet { operation, number, packet, payload_len, next_header })?.ok()
    }

    /// Opens a packet in place. Returns the length of the payload, which [begins](crate::AlgorithmInfo::payload_start) at a fixed offset,
    /// and the next header. Detecting replays is up to the caller.
    pub fn unprotect(&self, number: u64, packet: &mut [u8]) -> Result<(usize, u8)> {
        let (room, mut payload_len, mut next_header) = (packet.len(), 0, 0);
        let operation = Operation::Unprotect;
        let (length, next) = (&mut payload_len, &mut next_header);
        self.run(Operands::Packet { operation, number, packet, payload_len: length, next_header: next })?.ok()?;
        // Do not trust the device's length.
        let max_len = room.saturating_sub(self.params().algorithm().info().payload_start());
        Ok((payload_len.min(max_len), next_header))
    }

    /// Encrypts without integrity: `data` is one buffer, or a pair of input and output.
    pub fn encrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        self.run(Operands::Cipher { operation: Operation::Encrypt, iv, data: data.into() })?.ok()
    }

    /// Decrypts without integrity: `data` is one buffer, or a pair of input and output.
    pub fn decrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        self.run(Operands::Cipher { operation: Operation::Decrypt, iv, data: data.into() })?.ok()
    }

    /// Encrypts and authenticates: `data` is one buffer, or a pair of input and output; `tag` receives the tag.
    pub fn seal<'a>(&self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &mut [u8]) -> Result<()> {
        self.run(Operands::Seal { iv, aad, data: data.into(), tag })?.ok()
    }

    /// Verifies and decrypts. If the tag is wrong, returns an error; the output is then unchanged or zeroed.
    pub fn open<'a>(&self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &[u8]) -> Result<()> {
        self.run(Operands::Open { iv, aad, data: data.into(), tag })?.ok()
    }

    /// Starts a message that arrives in chunks. `side_by_side` is the number of streams that the caller will feed concurrently; routing
    /// takes it into account.
    pub fn stream(&self, side_by_side: usize) -> Result<Stream> {
        let params = &self.core.params;
        let algorithm = params.algorithm();
        let wrong = || Misuse::Stream { algorithm, operation: algorithm.kind().operations()[0] };
        let operation = params.stream_operation().ok_or_else(wrong)?;
        let (state, route) = self.core.open_stream(operation, side_by_side, DeviceSession::digest_stream)?;
        Ok(Stream::new(self.core.clone(), state, route))
    }

    /// Starts a cipher over data that arrives in chunks. The cipher is chained across the chunks.
    pub fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<CipherStream> {
        let mut nothing = [];
        let operands = Operands::Cipher { operation, iv, data: Buffers::InPlace(&mut nothing) };
        self.core.limits.check(&operands)?;
        let (state, route) = self.core.open_stream(operation, 1, |session| session.cipher_stream(operation, iv))?;
        Ok(CipherStream::new(self.core.clone(), state, operation, iv.len(), route))
    }

    /// Starts an AEAD whose messages arrive in chunks, one message after the other. See [`AeadStream`] for the risk of opening this way.
    pub fn aead_stream(&self, operation: Operation) -> Result<AeadStream> {
        let params = &self.core.params;
        let algorithm = params.algorithm();
        if algorithm.kind() != Kind::Aead || !params.allows(operation) {
            return Err(Misuse::Operation { algorithm, operation }.into());
        }
        let (state, route) = self.core.open_stream(operation, 1, |session| session.aead_stream(operation))?;
        Ok(AeadStream::new(self.core.clone(), state, operation, route))
    }

    /// Opens the session on the device that its next request of `bytes` bytes would go to. The request then waits neither for the
    /// preparation of keys nor for a known-answer test. Any thread may prepare sessions ahead of their use.
    ///
    /// # Errors
    /// No device serves the session; the error has each device's reason.
    pub fn prepare(&self, operation: Operation, bytes: usize) -> Result<()> {
        self.core.prepare(operation, bytes)
    }

    /// Returns a session with the same algorithm, direction and tag length under new keys, open on every device where this session is open.
    /// No request pauses while a caller switches sessions: requests in flight finish under the old keys. The old keys are zeroized when
    /// these requests have finished and the last clone of this session is dropped.
    ///
    /// # Errors
    /// The keys are wrong ([`Misuse`]).
    pub fn rekey(&self, key: &[u8], mac_key: &[u8]) -> Result<Self> {
        let next = Self::new(self.core.gantry.clone(), self.core.params.with_keys(key, mac_key))?;
        next.core.open_where_open(&self.core);
        Ok(next)
    }

    /// Runs one request on the calling thread. Once the session is open on the device, a call that does not also measure or verify the
    /// device allocates nothing and takes no lock.
    pub fn run(&self, mut operands: Operands<'_>) -> Result<Outcome> {
        if matches!(operands, Operands::Update { .. } | Operands::Finish { .. }) {
            let (algorithm, operation) = (self.core.params.algorithm(), operands.operation());
            return Err(Misuse::Stream { algorithm, operation }.into()); // the stream itself or a batch runs these
        }
        let mut timer = self.core.counters().timer(1);
        let (shape, outcome) = self.core.limits.check(&operands)?;
        if let Some(outcome) = outcome {
            timer
                .counters()
                .count_outcome(Site::without_device(self.core.params.algorithm(), shape.operation), outcome);
            return Ok(outcome);
        }
        self.core.run_direct(&mut operands, shape, &mut timer)
    }

    /// Runs a batch on the calling thread and returns when every request has an outcome. Parts of the batch may go to several devices.
    ///
    /// A [`Misuse`] in any request is reported before any request runs. After [`Error::Device`] or [`Error::Unserved`], the requests that
    /// no device could serve have no outcome; the other requests have one.
    pub fn process(&self, requests: &mut [Request<'_>]) -> Result<()> {
        self.core.process(requests)
    }

    /// Runs a batch whose requests belong to different sessions, and so may differ in algorithm and key: `requests[i]` runs with
    /// `sessions[i]`. Requests of one algorithm and operation run side by side. Each request has its own [result](Request::result), which
    /// may be a [`Misuse`].
    ///
    /// # Errors
    /// [`Misuse::Framework`], also as the result of each request, if the slices differ in length or the sessions belong to several
    /// frameworks. Without any session, returns `Ok` and runs nothing.
    pub fn process_each<S: AsRef<Session>>(sessions: &[S], requests: &mut [Request<'_>]) -> Result<()> {
        let Some(lead) = sessions.first().map(AsRef::as_ref) else { return Ok(()) };
        let shares_devices = |session: &S| session.as_ref().gantry().shares_devices_with(lead.gantry());
        if sessions.len() != requests.len() || !sessions.iter().all(shares_devices) {
            let wrong = Misuse::Framework { algorithm: lead.params().algorithm() };
            for request in requests {
                request.refuse(wrong.into());
            }
            return Err(wrong.into());
        }
        lead.core.process_each(|index| &sessions[index].as_ref().core, requests);
        Ok(())
    }

    /// Returns the route that `requests` requests of `bytes` bytes each would take now.
    pub fn route(&self, operation: Operation, bytes: usize, requests: usize) -> Option<Route> {
        let needs = Needs { in_place: operation.may_be_in_place(), streaming: false, max_bytes: bytes };
        let (sizes, requests) = (Sizes::One(bytes), requests.max(1));
        let question =
            Question { operation, requests, bytes: bytes.saturating_mul(requests), sizes, needs, tried_devices: 0 };
        self.core.ask_hypothetically(&question)
    }
}

/// Lets a batch borrow its sessions.
impl AsRef<Session> for Session {
    fn as_ref(&self) -> &Session {
        self
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.params.fmt(f)
    }
}

impl Stream {
    /// Returns the session of the stream.
    pub fn session(&self) -> Session {
        Session { core: self.session.clone() }
    }
}
