//! Sessions: an algorithm and its key, prepared for lanes.

mod aead;
mod ccm;
mod chain;
mod ctr;
mod digest;
mod etm;
mod hash;
mod sponge;
mod tree;

use std::any::Any;
use std::sync::Arc;

use gantry_core::driver::{AeadStream, CipherStream, DeviceSession, DigestStream, Offer, Operands};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams, Unsupported};
use gantry_digest::kernel::Hash;
use gantry_digest::kernel::blake2b::Blake2b;
use gantry_digest::kernel::keccak::{self, Keccak};
use gantry_digest::kernel::md5::{self, Md5};
use gantry_digest::kernel::sha1::{self, Sha1};
use gantry_digest::kernel::sha2::{self, Sha256, Sha512};
use gantry_digest::sponge::Function;
use gantry_digest::tree::Turbo;
use gantry_digest::{Level, LevelName};

#[cfg(target_arch = "x86_64")]
use crate::aes::gcm::GcmKey;
use crate::aes::xts::Unit;
use crate::aes::{Aes, BLOCK};
use crate::cbc::CbcKey;
use crate::ccm::CcmKey;
use crate::cmac::CmacKey;
#[cfg(target_arch = "x86_64")]
use crate::gcm::{self, GcmStream};
use crate::independent::IndependentKey;
use crate::wipe::wiped;
use crate::xts::XtsKey;
use ccm::CcmWork;
use chain::{CbcWork, Cmac};
use ctr::CtrWork;
use digest::DigestWork;

/// How an algorithm runs on lanes.
pub(crate) enum Family {
    Md5,
    Sha1,
    /// The initial value and the bytes of the digest.
    Sha256(&'static [u32; 8], usize),
    Sha512(&'static [u64; 8], usize),
    /// The bytes of the digest.
    Sha3(usize),
    /// SHAKE and TurboSHAKE: the bytes of a block, and the rounds.
    Xof(usize, usize),
    Kt128,
    Blake2b(usize),
    Cbc,
    Cmac,
    Ctr,
    Ccm,
    /// Encrypt-then-authenticate.
    Etm,
    Xts,
    #[cfg(target_arch = "x86_64")]
    Gcm,
}

impl Family {
    /// The family of an algorithm, and whether it is that family's HMAC. `None` for what has no lanes.
    pub(crate) fn of(algorithm: Algorithm) -> Option<(Family, bool)> {
        let info = algorithm.info();
        if info.cipher.is_some() {
            return Some((Family::Etm, false));
        }
        let family = match info.digest.unwrap_or(algorithm) {
            Algorithm::Md5 => Family::Md5,
            Algorithm::Sha1 => Family::Sha1,
            Algorithm::Sha224 => Family::Sha256(&sha2::INITIAL_224, 28),
            Algorithm::Sha256 => Family::Sha256(&sha2::INITIAL_256, 32),
            Algorithm::Sha384 => Family::Sha512(&sha2::INITIAL_384, 48),
            Algorithm::Sha512 => Family::Sha512(&sha2::INITIAL_512, 64),
            Algorithm::Sha512_256 => Family::Sha512(&sha2::INITIAL_512_256, 32),
            Algorithm::Sha3_224 => Family::Sha3(28),
            Algorithm::Sha3_256 => Family::Sha3(32),
            Algorithm::Sha3_384 => Family::Sha3(48),
            Algorithm::Sha3_512 => Family::Sha3(64),
            Algorithm::Shake128 => Family::Xof(168, 24),
            Algorithm::Shake256 => Family::Xof(136, 24),
            Algorithm::TurboShake128 => Family::Xof(168, 12),
            Algorithm::TurboShake256 => Family::Xof(136, 12),
            Algorithm::Kt128 => Family::Kt128,
            Algorithm::Blake2b256 => Family::Blake2b(32),
            Algorithm::Aes128Cbc | Algorithm::Aes192Cbc | Algorithm::Aes256Cbc => Family::Cbc,
            Algorithm::Aes128Cmac | Algorithm::Aes192Cmac | Algorithm::Aes256Cmac => Family::Cmac,
            Algorithm::Aes128Ctr | Algorithm::Aes192Ctr | Algorithm::Aes256Ctr => Family::Ctr,
            Algorithm::Aes128Ccm | Algorithm::Aes192Ccm | Algorithm::Aes256Ccm => Family::Ccm,
            Algorithm::Aes128Xts | Algorithm::Aes256Xts => Family::Xts,
            #[cfg(target_arch = "x86_64")]
            Algorithm::Aes128Gcm | Algorithm::Aes192Gcm | Algorithm::Aes256Gcm => Family::Gcm,
            _ => return None,
        };
        Some((family, info.digest.is_some()))
    }
}

/// The lanes that an algorithm has on a CPU level, and from how many requests on they pay. `None` if it has none.
pub(crate) fn lanes_of(level: Level, algorithm: Algorithm) -> Option<(usize, usize)> {
    fn hash<H: Hash>(level: Level) -> (usize, usize) {
        let kernels = H::kernels(level);
        (kernels.lanes(), kernels.pays_from())
    }
    fn wide<F: Function>(level: Level) -> (usize, usize) {
        let kernels = F::kernels(level);
        (kernels.lanes(), kernels.pays_from())
    }
    let (family, _) = Family::of(algorithm)?;
    Some(match family {
        Family::Md5 => hash::<Md5>(level),
        Family::Sha1 => hash::<Sha1>(level),
        Family::Sha256(..) => hash::<Sha256>(level),
        // Words made ahead make a single message faster than plain software has it (Zen 4: 0.93 GB/s against 0.46).
        Family::Sha512(..) if Sha512::makes_words_ahead(level) => (hash::<Sha512>(level).0, 1),
        Family::Sha512(..) => hash::<Sha512>(level),
        // One message alone is at best as fast as with AWS-LC (Zen 3: 0.8 to 1.06 times).
        Family::Sha3(_) | Family::Xof(_, 24) => wide::<Keccak<136>>(level),
        // A single message is 1.14 to 1.33 times as fast as plain software has it from 1 KiB on, and 0.9 times with 64 bytes. On the lowest
        // level it is 0.8 to 1.1 times as fast (Zen 4).
        Family::Xof(..) if level.name() > LevelName::Base => (wide::<Turbo>(level).0, 1),
        Family::Xof(..) => wide::<Turbo>(level),
        // The chunks of a single message fill the lanes.
        Family::Kt128 => (wide::<Turbo>(level).0, 1),
        // A single message is faster than plain software has it (Zen 3: 1.1 times as fast with 64 bytes, 1.5 with 1 KiB, 1.7 with 16 KiB).
        Family::Blake2b(_) => (wide::<Blake2b>(level).0, 1),
        Family::Cbc | Family::Cmac | Family::Ccm => (Aes::of(level)?.lanes(), 2),
        // Those of HMAC, which takes longer than the cipher. Two messages of 1,400 bytes take 0.85 to 1.3 of the time of plain software, four
        // 0.5 to 0.75; of 64 bytes it takes ten (Zen 4, AVX-512, and AVX2 with VAES).
        Family::Etm => {
            let (lanes, _) = Aes::of(level).and_then(|_| lanes_of(level, algorithm.info().digest?))?;
            (lanes, 4)
        }
        // One request keeps the CPU busy by itself, with four blocks to a register. With one, plain software is faster but for very
        // short data units (Zen 4, AVX2, batches of 32: AWS-LC as fast at 256 bytes, and 1.4 times as fast at 1 KiB, 2.1 at 16 KiB).
        Family::Ctr | Family::Xts => Aes::of(level).map(|_| (1, if level.wide_aes() { 1 } else { usize::MAX }))?,
        // One request keeps the CPU busy by itself.
        #[cfg(target_arch = "x86_64")]
        Family::Gcm => level.vpclmul().then_some((1, 1))?,
    })
}

/// The places in a batch of what is not simply done, with what became of it.
pub(crate) type Exceptions = Vec<(usize, Result<Outcome, Fault>)>;

/// A session on the device.
pub(crate) struct LanesSession(Box<dyn Work>);

impl LanesSession {
    pub(crate) fn open(level: Level, params: &SessionParams) -> Result<Self, Unsupported> {
        wiped(params.algorithm(), || LanesSession::prepare(level, params))
    }

    fn prepare(level: Level, params: &SessionParams) -> Result<Self, Unsupported> {
        let algorithm = params.algorithm();
        let (family, hmac) =
            Family::of(algorithm).ok_or_else(|| Unsupported::because("no kernel for this algorithm"))?;
        let key = params.key();
        let hmac = hmac.then_some(key);
        let aes = || Aes::of(level).ok_or_else(|| Unsupported::because("no AES instructions"));
        let length = || Unsupported::because("a key of no length that AES has");
        Ok(LanesSession(match family {
            Family::Md5 => hash::boxed::<Md5>(level, &md5::INITIAL, 16, hmac),
            Family::Sha1 => hash::boxed::<Sha1>(level, &sha1::INITIAL, 20, hmac),
            Family::Sha256(initial, digest) => hash::boxed::<Sha256>(level, initial, digest, hmac),
            Family::Sha512(initial, digest) => hash::boxed::<Sha512>(level, initial, digest, hmac),
            Family::Sha3(28) => sponge::boxed::<Keccak<144>>(level, keccak::INITIAL, 28, hmac),
            Family::Sha3(32) => sponge::boxed::<Keccak<136>>(level, keccak::INITIAL, 32, hmac),
            Family::Sha3(48) => sponge::boxed::<Keccak<104>>(level, keccak::INITIAL, 48, hmac),
            Family::Sha3(digest) => sponge::boxed::<Keccak<72>>(level, keccak::INITIAL, digest, hmac),
            Family::Xof(rate, rounds) => sponge::xof(level, rate, rounds, params.tag_length()),
            Family::Kt128 => tree::boxed(level),
            Family::Blake2b(digest) => sponge::boxed::<Blake2b>(level, Blake2b::initial(digest), digest, hmac),
            Family::Cbc => Box::new(CbcWork(Arc::new(CbcKey::new(aes()?, key).ok_or_else(length)?))),
            Family::Cmac => DigestWork::boxed(Cmac(CmacKey::new(aes()?, key).ok_or_else(length)?)),
            Family::Ctr => Box::new(CtrWork(Arc::new(IndependentKey::ctr(aes()?, key).ok_or_else(length)?))),
            Family::Ccm => {
                Box::new(CcmWork { key: CcmKey::new(aes()?, key).ok_or_else(length)?, tag: params.tag_length() })
            }
            Family::Etm => etm::boxed(level, aes()?, params).ok_or_else(length)?,
            Family::Xts => {
                let key = XtsKey::new(aes()?, key, |operation| params.allows(operation));
                Box::new(XtsWork(key.ok_or_else(length)?))
            }
            #[cfg(target_arch = "x86_64")]
            Family::Gcm => Box::new(GcmWork(GcmKey::new(aes()?, key).ok_or_else(length)?)),
        }))
    }

    /// The session behind one that the framework has, if it is of this device.
    pub(crate) fn of(session: &dyn DeviceSession) -> Option<&Self> {
        (session as &dyn Any).downcast_ref()
    }

    /// Runs a job of this session, of which `first` is what to do, side by side with others: they are of sessions with its algorithm,
    /// and of its operation. The places of those that are not simply done go into `exceptions`; the first job has place 0.
    pub(crate) fn run_batch<'a>(
        &'a self,
        first: Operands<'a>,
        others: &'a mut [Offer<'_>],
        exceptions: &'a mut Exceptions,
    ) {
        self.0.batch(first, others, exceptions);
    }
}

impl DeviceSession for LanesSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.one(operands)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        self.0.digest_stream()
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        self.0.cipher_stream(operation, iv)
    }

    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        self.0.aead_stream(operation)
    }
}

/// The work of one family of kernels.
trait Work: Send + Sync + Any {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault>;

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions);

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Err(Unsupported::because("no streams of a digest"))
    }

    fn cipher_stream(&self, _operation: Operation, _iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        Err(Unsupported::because("no streams of a cipher"))
    }

    fn aead_stream(&self, _operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        Err(Unsupported::because("no streams of an AEAD"))
    }
}

/// Turns offers of the framework into jobs for lanes, each with the work of its own session. Nothing can go wrong in a lane:
/// there are only the exceptions of `convert`.
struct Converted<'a, 'b, W, A, F> {
    lead: &'a W,
    /// What to do for the job of `lead`, until that is asked for.
    first: Option<Operands<'a>>,
    others: core::iter::Enumerate<core::slice::IterMut<'a, Offer<'b>>>,
    exceptions: &'a mut Exceptions,
    works: Works<'a, W>,
    admit: A,
    convert: F,
}

/// `admit` looks at each session but that of `lead`, where it is not that of the job before.
fn converted<'a, 'b, W, T, A, F>(
    lead: &'a W,
    first: Operands<'a>,
    others: &'a mut [Offer<'b>],
    exceptions: &'a mut Exceptions,
    admit: A,
    convert: F,
) -> Converted<'a, 'b, W, A, F>
where
    W: Work,
    A: Fn(&W) -> Result<(), Fault>,
    F: FnMut(&'a W, Operands<'a>) -> Result<T, Fault>,
{
    Converted {
        lead,
        first: Some(first),
        others: others.iter_mut().enumerate(),
        exceptions,
        works: Works::none(),
        admit,
        convert,
    }
}

impl<'a, W, T, A, F> Iterator for Converted<'a, '_, W, A, F>
where
    W: Work,
    A: Fn(&W) -> Result<(), Fault>,
    F: FnMut(&'a W, Operands<'a>) -> Result<T, Fault>,
{
    type Item = T;

    // Inlined, because a job that goes through memory is waited for.
    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if let Some(first) = self.first.take() {
            match (self.convert)(self.lead, first) {
                Ok(job) => return Some(job),
                Err(fault) => self.exceptions.push((0, Err(fault))),
            }
        }
        loop {
            let (place, job) = self.others.next()?;
            let (session, operands) = job.parts();
            let work = self.works.of(session, &self.admit);
            match work.and_then(|work| (self.convert)(work, operands)) {
                Ok(job) => return Some(job),
                Err(fault) => self.exceptions.push((place + 1, Err(fault))),
            }
        }
    }
}

/// What is behind the sessions of jobs.
struct Works<'a, W> {
    /// That of the job before, which is mostly that of the next one.
    last: Option<(&'a dyn DeviceSession, &'a W)>,
}

impl<'a, W: Work> Works<'a, W> {
    fn none() -> Self {
        Works { last: None }
    }

    /// `admit` looks at each session that is not that of the job before.
    #[inline(always)]
    fn of(&mut self, session: &'a dyn DeviceSession, admit: impl Fn(&W) -> Result<(), Fault>) -> Result<&'a W, Fault> {
        match self.last {
            Some((last, work)) if core::ptr::addr_eq(last, session) => Ok(work),
            _ => work_of(session).and_then(|work| {
                admit(work)?;
                self.last = Some((session, work));
                Ok(work)
            }),
        }
    }
}

/// What is behind a session of this device.
#[inline(never)]
fn work_of<W: Work>(session: &dyn DeviceSession) -> Result<&W, Fault> {
    let work = LanesSession::of(session).and_then(|session| (&*session.0 as &dyn Any).downcast_ref());
    work.ok_or_else(|| Fault::failed("a session of another algorithm"))
}

/// Core does not send such a request: the capability says which operations there are.
fn wrong_operation() -> Fault {
    Fault::failed("an operation that these lanes do not have")
}

/// Core does not send such a batch: AES keys of different lengths are different algorithms.
fn of_one_length(is: bool) -> Result<(), Fault> {
    if is { Ok(()) } else { Err(Fault::failed("keys of different lengths in one batch")) }
}

/// Core has checked the length of the IV.
fn block(iv: &[u8]) -> Result<&[u8; BLOCK], Fault> {
    iv.try_into().map_err(|_| Fault::failed("an IV of a wrong length"))
}

/// AES-XTS.
struct XtsWork(XtsKey);

impl XtsWork {
    #[inline(always)]
    fn unit<'a>(&'a self, operands: Operands<'a>) -> Result<(Operation, Unit<'a>), Fault> {
        match operands {
            Operands::Cipher { operation: operation @ (Operation::Encrypt | Operation::Decrypt), iv, data } => {
                let unit = self.0.unit(operation == Operation::Decrypt, block(iv)?, data);
                Ok((operation, unit.ok_or_else(|| Fault::failed("less data than a block"))?))
            }
            _ => Err(wrong_operation()),
        }
    }
}

impl Work for XtsWork {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let (operation, unit) = self.unit(operands)?;
        self.0.run(operation == Operation::Decrypt, core::iter::once(unit));
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let decrypt = matches!(first, Operands::Cipher { operation: Operation::Decrypt, .. });
        let admit = |work: &Self| of_one_length(self.0.runs_with(&work.0));
        let units = converted(self, first, others, exceptions, admit, |work: &Self, operands| {
            let (operation, unit) = work.unit(operands)?;
            if (operation == Operation::Decrypt) == decrypt { Ok(unit) } else { Err(wrong_operation()) }
        });
        self.0.run(decrypt, units);
    }
}

/// AES-GCM.
#[cfg(target_arch = "x86_64")]
struct GcmWork(Arc<GcmKey>);

#[cfg(target_arch = "x86_64")]
impl Work for GcmWork {
    #[inline]
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Seal { iv, aad, data, tag } => gcm::seal(&self.0, iv, aad, data, tag).map(|()| Outcome::Done),
            Operands::Open { iv, aad, data, tag } => gcm::open(&self.0, iv, aad, data, tag),
            _ => Err(wrong_operation()),
        }
    }

    /// One after the other.
    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let mut note = |place, result| {
            if !matches!(result, Ok(Outcome::Done)) {
                exceptions.push((place, result));
            }
        };
        note(0, self.one(first));
        let mut works = Works::<Self>::none();
        for (place, job) in others.iter_mut().enumerate() {
            let (session, operands) = job.parts();
            note(place + 1, works.of(session, |_| Ok(())).and_then(|work| work.one(operands)));
        }
    }

    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        Ok(Box::new(GcmStream::new(self.0.clone(), operation == Operation::Open)))
    }
}
