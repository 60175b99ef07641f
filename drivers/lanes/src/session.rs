//! Sessions: an algorithm and its key, prepared for lanes.

mod aead;
mod ccm;
mod chain;
mod ctr;
mod digest;
mod etm;
mod hash;
mod kt128;
mod sponge;

use std::any::Any;
use std::sync::Arc;

use gantry_core::driver::{AeadStream, CipherStream, DeviceSession, DigestStream, Offer, Operands};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams, Unsupported};
use gantry_digest::internal::dispatch::Hash;
use gantry_digest::internal::dispatch::sponge::Function;
use gantry_digest::internal::kernel::blake2b::Blake2b;
use gantry_digest::internal::kernel::keccak::{self, Keccak};
use gantry_digest::internal::kernel::md5::{self, Md5};
use gantry_digest::internal::kernel::sha1::{self, Sha1};
use gantry_digest::internal::kernel::sha2::{self, Sha256, Sha512};
use gantry_digest::internal::kt128::TurboShake128;
use gantry_digest::{Level, LevelName};

#[cfg(target_arch = "x86_64")]
use crate::aes::gcm::GcmKey;
use crate::aes::xts::DataUnit;
use crate::aes::{Aes, BLOCK_LEN};
use crate::cbc::CbcKey;
use crate::ccm::CcmKey;
use crate::cmac::CmacKey;
#[cfg(target_arch = "x86_64")]
use crate::gcm::{self, GcmStream};
use crate::independent::IndependentKey;
use crate::wipe::with_wiped_stack;
use crate::xts::XtsKey;
use ccm::CcmRunner;
use chain::{CbcRunner, Cmac};
use ctr::CtrRunner;
use digest::DigestRunner;

/// A family of algorithms that run on the same kernels.
pub(crate) enum Family {
    Md5,
    Sha1,
    /// The initial value, and the length of the digest in bytes.
    Sha256(&'static [u32; 8], usize),
    Sha512(&'static [u64; 8], usize),
    /// The length of the digest in bytes.
    Sha3(usize),
    /// SHAKE and TurboSHAKE: the length of a block in bytes, and the number of rounds.
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
    /// Returns the family of an algorithm, and true if it is that family's HMAC. `None` for an algorithm without lanes.
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

/// Returns the number of lanes of an algorithm on a CPU level, and the batch size from which lanes are faster than plain software. `None`
/// if the algorithm has no lanes.
pub(crate) fn lanes_of(level: Level, algorithm: Algorithm) -> Option<(usize, usize)> {
    fn hash<H: Hash>(level: Level) -> (usize, usize) {
        let kernels = H::kernels(level);
        (kernels.lanes(), kernels.min_batch())
    }
    fn wide<F: Function>(level: Level) -> (usize, usize) {
        let kernels = F::kernels(level);
        (kernels.lanes(), kernels.min_batch())
    }
    let (family, _) = Family::of(algorithm)?;
    Some(match family {
        Family::Md5 => hash::<Md5>(level),
        Family::Sha1 => hash::<Sha1>(level),
        Family::Sha256(..) => hash::<Sha256>(level),
        // Precomputed message words make a single message faster than in plain software (Zen 4: 0.93 GB/s against 0.46).
        Family::Sha512(..) if Sha512::has_prescheduled_kernel(level) => (hash::<Sha512>(level).0, 1),
        Family::Sha512(..) => hash::<Sha512>(level),
        // A single message is at best about as fast as in AWS-LC (Zen 3: 0.8 to 1.06 times).
        Family::Sha3(_) | Family::Xof(_, 24) => wide::<Keccak<136>>(level),
        // Relative to plain software, a single message is 1.14 to 1.33 times as fast from 1 KiB on, and 0.9 times with 64 bytes. On the
        // lowest level it is 0.8 to 1.1 times as fast (Zen 4).
        Family::Xof(..) if level.name() > LevelName::Base => (wide::<TurboShake128>(level).0, 1),
        Family::Xof(..) => wide::<TurboShake128>(level),
        // The chunks of a single message fill the lanes.
        Family::Kt128 => (wide::<TurboShake128>(level).0, 1),
        // A single message is faster than in plain software (Zen 3: 1.1 times as fast with 64 bytes, 1.5 with 1 KiB, 1.7 with 16 KiB).
        Family::Blake2b(_) => (wide::<Blake2b>(level).0, 1),
        // Two chains side by side are never slower than one after the other, because idle lanes cost nothing.
        Family::Cbc | Family::Cmac | Family::Ccm => (Aes::of(level)?.lanes(), 2),
        // These are the lanes of HMAC, which takes longer than the cipher. Relative to plain software, messages of 1,400 bytes take 0.85 to
        // 1.3 times as long in a batch of two, 0.5 to 0.75 times in a batch of four. Messages of 64 bytes need a batch of ten (Zen 4,
        // AVX-512, and AVX2 with VAES).
        Family::Etm => {
            let (lanes, _) = Aes::of(level).and_then(|_| lanes_of(level, algorithm.info().digest?))?;
            (lanes, 4)
        }
        // A single request keeps the CPU busy, with several blocks per register. With one block per register, plain software is faster
        // except for very short data units. AWS-LC is as fast at 256 bytes, 1.4 times as fast at 1 KiB, and 2.1 times at 16 KiB (Zen 4,
        // AVX2, batches of 32).
        Family::Ctr | Family::Xts => Aes::of(level).map(|_| (1, if level.wide_aes() { 1 } else { usize::MAX }))?,
        // A single request keeps the CPU busy.
        #[cfg(target_arch = "x86_64")]
        Family::Gcm => level.vpclmul().then_some((1, 1))?,
    })
}

/// Opens a session.
pub(crate) fn open(level: Level, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Unsupported> {
    with_wiped_stack(params.algorithm(), || open_unwiped(level, params))
}

fn open_unwiped(level: Level, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Unsupported> {
    let algorithm = params.algorithm();
    let (family, hmac) = Family::of(algorithm).ok_or_else(|| Unsupported::because("no kernel for this algorithm"))?;
    let key = params.key();
    let hmac = hmac.then_some(key);
    let aes = || Aes::of(level).ok_or_else(|| Unsupported::because("no AES instructions"));
    let wrong_key_length = || Unsupported::because("invalid key length for this algorithm");
    Ok(match family {
        Family::Md5 => hash::session::<Md5>(level, &md5::INITIAL, 16, hmac),
        Family::Sha1 => hash::session::<Sha1>(level, &sha1::INITIAL, 20, hmac),
        Family::Sha256(initial, digest_len) => hash::session::<Sha256>(level, initial, digest_len, hmac),
        Family::Sha512(initial, digest_len) => hash::session::<Sha512>(level, initial, digest_len, hmac),
        Family::Sha3(28) => sponge::session::<Keccak<144>>(level, keccak::INITIAL, 28, hmac),
        Family::Sha3(32) => sponge::session::<Keccak<136>>(level, keccak::INITIAL, 32, hmac),
        Family::Sha3(48) => sponge::session::<Keccak<104>>(level, keccak::INITIAL, 48, hmac),
        Family::Sha3(digest_len) => sponge::session::<Keccak<72>>(level, keccak::INITIAL, digest_len, hmac),
        Family::Xof(rate, rounds) => sponge::xof(level, rate, rounds, params.tag_len()),
        Family::Kt128 => kt128::session(level),
        Family::Blake2b(digest_len) => {
            sponge::session::<Blake2b>(level, Blake2b::initial(digest_len), digest_len, hmac)
        }
        Family::Cbc => {
            LanesSession::shared(CbcRunner(Arc::new(CbcKey::new(aes()?, key).ok_or_else(wrong_key_length)?)))
        }
        Family::Cmac => DigestRunner::session(Cmac(CmacKey::new(aes()?, key).ok_or_else(wrong_key_length)?)),
        Family::Ctr => {
            LanesSession::shared(CtrRunner(Arc::new(IndependentKey::ctr(aes()?, key).ok_or_else(wrong_key_length)?)))
        }
        Family::Ccm => LanesSession::shared(CcmRunner {
            key: CcmKey::new(aes()?, key).ok_or_else(wrong_key_length)?,
            tag_len: params.tag_len(),
        }),
        Family::Etm => etm::session(level, aes()?, params).ok_or_else(wrong_key_length)?,
        Family::Xts => {
            let key = XtsKey::new(aes()?, key, |operation| params.allows(operation));
            LanesSession::shared(XtsRunner(key.ok_or_else(wrong_key_length)?))
        }
        #[cfg(target_arch = "x86_64")]
        Family::Gcm => LanesSession::shared(GcmRunner(GcmKey::new(aes()?, key).ok_or_else(wrong_key_length)?)),
    })
}

/// A session on the device.
struct LanesSession<R>(R);

impl<R: Runner> LanesSession<R> {
    fn shared(runner: R) -> Arc<dyn DeviceSession> {
        Arc::new(LanesSession(runner))
    }
}

impl<R: Runner> DeviceSession for LanesSession<R> {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.run(operands)
    }

    fn run_batch(&self, offers: &mut [Offer<'_>]) {
        let Some((first, others)) = offers.split_first_mut() else { return };
        let mut exceptions = Vec::new();
        self.0.run_batch(first.parts().1, others, &mut exceptions);
        let mut next = 0;
        for (index, result) in exceptions {
            finish_done(&mut offers[next..index]);
            offers[index].finish(result);
            next = index + 1;
        }
        finish_done(&mut offers[next..]);
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

fn finish_done(offers: &mut [Offer<'_>]) {
    for offer in offers {
        offer.finish(Ok(Outcome::Done));
    }
}

/// The requests of a batch that did not end with [`Outcome::Done`]: their indices and results, ordered by index.
type Exceptions = Vec<(usize, Result<Outcome, Fault>)>;

/// The contents of a session, for one family of kernels: its key, and the functions that run its jobs.
trait Runner: Send + Sync + Sized + 'static {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault>;

    /// Runs `first`, a job of this session, side by side with `others`. All jobs have the same algorithm and operation. Adds each job that
    /// does not end with [`Outcome::Done`] to `exceptions`; `first` has index 0.
    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions);

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Err(Unsupported::because("no digest streams for this algorithm"))
    }

    fn cipher_stream(&self, _operation: Operation, _iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        Err(Unsupported::because("no cipher streams for this algorithm"))
    }

    fn aead_stream(&self, _operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        Err(Unsupported::because("no AEAD streams for this algorithm"))
    }
}

/// An iterator that converts the jobs that core offers into jobs for lanes, each with the [`Runner`] of its own session. Lanes never fail:
/// only `check_runner` and `convert` add exceptions.
struct JobIterator<'a, 'b, R, A, F> {
    first_runner: &'a R,
    /// The operands of the first job, until they are converted.
    first: Option<Operands<'a>>,
    others: core::iter::Enumerate<core::slice::IterMut<'a, Offer<'b>>>,
    exceptions: &'a mut Exceptions,
    runners: RunnerCache<'a, R>,
    check_runner: A,
    convert: F,
}

/// Returns the jobs of a batch. `check_runner` checks the sessions of `others`: once for successive jobs of one session, if the check
/// succeeds.
fn convert_jobs<'a, 'b, R, T, A, F>(
    first_runner: &'a R,
    first: Operands<'a>,
    others: &'a mut [Offer<'b>],
    exceptions: &'a mut Exceptions,
    check_runner: A,
    convert: F,
) -> JobIterator<'a, 'b, R, A, F>
where
    R: Runner,
    A: Fn(&R) -> Result<(), Fault>,
    F: FnMut(&'a R, Operands<'a>) -> Result<T, Fault>,
{
    JobIterator {
        first_runner,
        first: Some(first),
        others: others.iter_mut().enumerate(),
        exceptions,
        runners: RunnerCache::empty(),
        check_runner,
        convert,
    }
}

impl<'a, R, T, A, F> Iterator for JobIterator<'a, '_, R, A, F>
where
    R: Runner,
    A: Fn(&R) -> Result<(), Fault>,
    F: FnMut(&'a R, Operands<'a>) -> Result<T, Fault>,
{
    type Item = T;

    // Inlined, because passing a job through memory would add the latency of a store and a load.
    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if let Some(first) = self.first.take() {
            match (self.convert)(self.first_runner, first) {
                Ok(job) => return Some(job),
                Err(fault) => self.exceptions.push((0, Err(fault))),
            }
        }
        loop {
            let (index, job) = self.others.next()?;
            let (session, operands) = job.parts();
            let runner = self.runners.of(session, &self.check_runner);
            match runner.and_then(|runner| (self.convert)(runner, operands)) {
                Ok(job) => return Some(job),
                Err(fault) => self.exceptions.push((index + 1, Err(fault))),
            }
        }
    }
}

/// Finds the [`Runner`] of the session of each job.
struct RunnerCache<'a, R> {
    /// The session that was last found: successive jobs mostly share one.
    last: Option<(&'a dyn DeviceSession, &'a R)>,
}

impl<'a, R: Runner> RunnerCache<'a, R> {
    fn empty() -> Self {
        RunnerCache { last: None }
    }

    /// Returns the [`Runner`] of `session`. `check_runner` checks the session, unless it is the one that was last found.
    #[inline(always)]
    fn of(
        &mut self,
        session: &'a dyn DeviceSession,
        check_runner: impl Fn(&R) -> Result<(), Fault>,
    ) -> Result<&'a R, Fault> {
        match self.last {
            Some((last, runner)) if core::ptr::addr_eq(last, session) => Ok(runner),
            _ => runner_of(session).and_then(|runner| {
                check_runner(runner)?;
                self.last = Some((session, runner));
                Ok(runner)
            }),
        }
    }
}

/// Returns the [`Runner`] of a session of this device.
#[inline(never)]
fn runner_of<R: Runner>(session: &dyn DeviceSession) -> Result<&R, Fault> {
    let session = (session as &dyn Any).downcast_ref::<LanesSession<R>>();
    session.map(|session| &session.0).ok_or_else(|| Fault::failed("a session of another algorithm"))
}

/// Returns the fault for an unsupported operation. Core sends only the operations of the capability.
fn wrong_operation() -> Fault {
    Fault::failed("these lanes do not support the operation")
}

/// Fails unless `equal`. Core never mixes key lengths in a batch: AES keys of different lengths are different algorithms.
fn require_equal_lengths(equal: bool) -> Result<(), Fault> {
    if equal { Ok(()) } else { Err(Fault::failed("the batch has keys of different lengths")) }
}

/// Returns the IV as a block. Core has checked its length.
fn iv_block(iv: &[u8]) -> Result<&[u8; BLOCK_LEN], Fault> {
    iv.try_into().map_err(|_| Fault::failed("the IV has a wrong length"))
}

/// AES-XTS.
struct XtsRunner(XtsKey);

impl XtsRunner {
    #[inline(always)]
    fn unit<'a>(&'a self, operands: Operands<'a>) -> Result<(Operation, DataUnit<'a>), Fault> {
        match operands {
            Operands::Cipher { operation: operation @ (Operation::Encrypt | Operation::Decrypt), iv, data } => {
                let unit = self.0.unit(operation == Operation::Decrypt, iv_block(iv)?, data);
                Ok((operation, unit.ok_or_else(|| Fault::failed("the data are shorter than a block"))?))
            }
            _ => Err(wrong_operation()),
        }
    }
}

impl Runner for XtsRunner {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let (operation, unit) = self.unit(operands)?;
        self.0.run(operation == Operation::Decrypt, core::iter::once(unit));
        Ok(Outcome::Done)
    }

    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let decrypt = matches!(first, Operands::Cipher { operation: Operation::Decrypt, .. });
        let check_runner = |runner: &Self| require_equal_lengths(self.0.runs_with(&runner.0));
        let units = convert_jobs(self, first, others, exceptions, check_runner, |runner: &Self, operands| {
            let (operation, unit) = runner.unit(operands)?;
            if (operation == Operation::Decrypt) == decrypt { Ok(unit) } else { Err(wrong_operation()) }
        });
        self.0.run(decrypt, units);
    }
}

/// AES-GCM.
#[cfg(target_arch = "x86_64")]
struct GcmRunner(Arc<GcmKey>);

#[cfg(target_arch = "x86_64")]
impl Runner for GcmRunner {
    #[inline]
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Seal { iv, aad, data, tag } => gcm::seal(&self.0, iv, aad, data, tag).map(|()| Outcome::Done),
            Operands::Open { iv, aad, data, tag } => gcm::open(&self.0, iv, aad, data, tag),
            _ => Err(wrong_operation()),
        }
    }

    /// Runs the jobs one after the other.
    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let mut record_exception = |index, result| {
            if !matches!(result, Ok(Outcome::Done)) {
                exceptions.push((index, result));
            }
        };
        record_exception(0, self.run(first));
        let mut runners = RunnerCache::<Self>::empty();
        for (index, job) in others.iter_mut().enumerate() {
            let (session, operands) = job.parts();
            record_exception(index + 1, runners.of(session, |_| Ok(())).and_then(|runner| runner.run(operands)));
        }
    }

    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        Ok(Box::new(GcmStream::new(self.0.clone(), operation == Operation::Open)))
    }
}
