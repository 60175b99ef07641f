//! The software device with one mistake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gantry_core::driver::{
    AeadStream, Batch, Buffers, Capability, CipherStream, Completions, Device, DeviceInfo, DeviceSession, DigestStream,
    Driver, Found, Operands, QueuePair,
};
use gantry_core::{Fault, Operation, Outcome, Refusal, SessionParams, Unsupported};
use gantry_driver_software::SoftwareDriver;

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    None,
    /// Flips a bit of every result.
    WrongAlways,
    /// Flips a bit if there is more data than in a known-answer test.
    WrongWhenLong,
    /// Flips a bit if there are more than 20,000 bytes of data, the same bit each time: only a second device can tell.
    WrongWhenHuge,
    /// Flips a bit if input and output are different buffers.
    WrongWhenSeparate,
    /// Flips a bit if the output begins at an odd address.
    WrongWhenUnaligned,
    /// Flips a bit of an empty message's result in a batch of several.
    WrongWhenEmptyInBatch,
    /// Changes the byte after its output, unless it works in place.
    WritesBehind,
    /// Changes its input, unless it works in place.
    WritesInput,
    /// Accepts every tag, unless it works in place.
    AcceptsAnyTag,
    /// Accepts every tag in a batch.
    AcceptsAnyTagInBatches,
    /// Refuses a bad tag, but fills the output, unless it works in place.
    LeaksPlaintext,
    /// Compares only the first half of the tag.
    ComparesHalfATag,
    /// Reports one request of a large batch as done without running it.
    ForgetsARequest,
    /// Drops one request of a large batch.
    LosesARequest,
    /// Reports a fault for long data.
    ReportsFault,
    /// Reports a bad length for long data.
    RefusesLong,
    /// A stream that ignores pieces of two bytes.
    StreamLosesBytes,
    /// A stream with copies that start from the beginning if the last piece had five bytes.
    CopyBeginsAnew,
    /// A stream that is not reset at its end if the last piece had five bytes.
    StreamNeverEnds,
    /// A cipher stream that starts from the beginning at a piece of 48 bytes.
    ChainBreaks,
    /// Flips a bit while another thread uses the session.
    NotThreadSafe,
    /// Reports success for truncated compressed data.
    AcceptsTruncated,
    /// Reports success if there is no room for the result.
    IgnoresMissingRoom,
    /// Changes the byte after an empty output buffer.
    Overflows,
    /// Reports one byte too many as the length of a result. In compression, does so only for results longer than every known answer.
    ReportsLongerResult,
    /// Refuses sessions with a truncated tag.
    NoTruncatedTags,
    /// Refuses every session.
    RefusesSessions,
}

/// Discovers the software device with a mistake.
pub(crate) struct WrongDriver(pub(crate) Mistake);

impl Driver for WrongDriver {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn discover(&self) -> Vec<Found> {
        let wrong = |found| match found {
            Found::Device(inner) => {
                let capabilities = inner.info().capabilities.iter();
                let capabilities =
                    capabilities.map(|capability| Capability { lanes: 4, ..capability.clone() }).collect();
                let info = DeviceInfo { name: "wrong".into(), capabilities, ..inner.info().clone() };
                Found::Device(Arc::new(WrongDevice { inner, info, mistake: self.0 }) as Arc<dyn Device>)
            }
            excluded @ Found::Excluded { .. } => excluded,
        };
        SoftwareDriver.discover().into_iter().map(wrong).collect()
    }
}

struct WrongDevice {
    inner: Arc<dyn Device>,
    info: DeviceInfo,
    mistake: Mistake,
}

impl Device for WrongDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let short_tag = params.tag_len() < params.algorithm().info().tag.max;
        match self.mistake {
            Mistake::RefusesSessions => return Err(Unsupported::because("out of order").into()),
            Mistake::NoTruncatedTags if short_tag => return Err(Unsupported::because("full tags only").into()),
            _ => {}
        }
        let half_tag_session = match self.mistake {
            Mistake::ComparesHalfATag => Some(self.inner.open(&params.clone().with_tag_len(params.tag_len() / 2))?),
            _ => None,
        };
        let inner = self.inner.open(params)?;
        Ok(Arc::new(WrongSession { inner, half_tag_session, mistake: self.mistake, busy: AtomicBool::new(false) }))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(WrongQueue { mistake: self.mistake })))
    }
}

struct WrongSession {
    inner: Arc<dyn DeviceSession>,
    /// A session with half of the tag, for `ComparesHalfATag`.
    half_tag_session: Option<Arc<dyn DeviceSession>>,
    mistake: Mistake,
    busy: AtomicBool,
}

impl DeviceSession for WrongSession {
    fn run(&self, mut operands: Operands<'_>) -> Result<Outcome, Fault> {
        let bytes = operands.bytes();
        let is_long = bytes > 300;
        match self.mistake {
            Mistake::ReportsFault if is_long => return Err(Fault::failed("out of order")),
            Mistake::RefusesLong if is_long => return Ok(Outcome::BadLength),
            _ => {}
        }
        if let (Some(half_tag_session), Operands::Open { iv, aad, data, tag }) = (&self.half_tag_session, &mut operands)
        {
            return half_tag_session.run(Operands::Open { iv, aad, data: data.reborrow(), tag: &tag[..tag.len() / 2] });
        }
        let is_shared = self.mistake == Mistake::NotThreadSafe && self.busy.swap(true, Ordering::SeqCst);
        if self.mistake == Mistake::NotThreadSafe {
            std::thread::sleep(Duration::from_micros(20));
        }
        let outcome = self.inner.run(operands.reborrow())?;
        self.busy.store(false, Ordering::SeqCst);

        if let Operands::Compression { output, written, .. } = &mut operands {
            match (self.mistake, outcome) {
                (Mistake::AcceptsTruncated, Outcome::Malformed) | (Mistake::IgnoresMissingRoom, Outcome::NoRoom) => {
                    return Ok(Outcome::Done);
                }
                (Mistake::Overflows, Outcome::NoRoom) if output.is_empty() => flip_byte_outside(output.as_ptr()),
                (Mistake::ReportsLongerResult, _) if **written > 320 && **written < output.len() => **written += 1,
                _ => {}
            }
        }
        if let (Mistake::ReportsLongerResult, Operands::Decipher { written, .. }) = (self.mistake, &mut operands) {
            **written += 1;
        }
        let from = input(&operands).as_ptr();
        let (separate, output) = output(&mut operands);
        let wrong = match self.mistake {
            Mistake::WrongAlways => true,
            Mistake::WrongWhenLong => is_long,
            Mistake::WrongWhenHuge => bytes > 20_000,
            Mistake::WrongWhenSeparate => separate && is_long,
            Mistake::WrongWhenUnaligned => output.as_ptr() as usize % 2 == 1,
            Mistake::NotThreadSafe => is_shared,
            _ => false,
        };
        if let (true, Some(first)) = (wrong, output.first_mut()) {
            *first ^= 1;
        }
        match (self.mistake, outcome) {
            (Mistake::WritesBehind, _) if separate => flip_byte_outside(output.as_ptr_range().end),
            (Mistake::WritesInput, _) if separate && bytes > 0 => flip_byte_outside(from),
            (Mistake::AcceptsAnyTag, Outcome::BadTag) if separate => return Ok(Outcome::Done),
            (Mistake::LeaksPlaintext, Outcome::BadTag) if separate => output.fill(b'p'),
            _ => {}
        }
        Ok(outcome)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let inner = self.inner.digest_stream()?;
        let initial = inner.duplicate();
        Ok(Box::new(WrongStream { inner, initial, last_had_five_bytes: false, mistake: self.mistake }))
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let inner = self.inner.cipher_stream(operation, iv)?;
        let initial = inner.duplicate();
        Ok(Box::new(WrongCipherStream { inner, initial, last_had_five_bytes: false, mistake: self.mistake }))
    }

    /// Makes no mistake: AEAD mistakes concern whole messages.
    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        self.inner.aead_stream(operation)
    }
}

/// Runs requests in order, with the mistakes of batches.
struct WrongQueue {
    mistake: Mistake,
}

impl QueuePair for WrongQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        // Known-answer tests have 9 requests, which is not large.
        let (large, alone) = (batch.len() > 20, batch.len() == 1);
        let mut position = 0;
        while let Some(mut job) = batch.take() {
            position += 1;
            let empty = job.operands().bytes() == 0;
            let result = match self.mistake {
                Mistake::ForgetsARequest if large && position == 13 => Ok(Outcome::Done),
                Mistake::LosesARequest if large && position == 13 => {
                    drop(job);
                    continue;
                }
                _ => job.run_direct(),
            };
            let result = match result {
                Ok(Outcome::BadTag) if self.mistake == Mistake::AcceptsAnyTagInBatches => Ok(Outcome::Done),
                result => result,
            };
            if self.mistake == Mistake::WrongWhenEmptyInBatch && empty && !alone {
                let mut operands = job.operands();
                output(&mut operands).1.iter_mut().take(1).for_each(|first| *first ^= 1);
            }
            batch.complete(job, result);
        }
    }

    fn poll(&mut self, _done: &mut Completions<'_>) -> usize {
        0
    }
}

struct WrongStream {
    inner: Box<dyn DigestStream>,
    initial: Box<dyn DigestStream>,
    /// True if the last piece had five bytes.
    last_had_five_bytes: bool,
    mistake: Mistake,
}

impl DigestStream for WrongStream {
    fn operation(&self) -> Operation {
        self.inner.operation()
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        if self.mistake == Mistake::StreamLosesBytes && input.len() == 2 {
            return Ok(());
        }
        self.last_had_five_bytes = input.len() == 5;
        self.inner.update(input)
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        let kept_state =
            (self.mistake == Mistake::StreamNeverEnds && self.last_had_five_bytes).then(|| self.inner.duplicate());
        self.inner.finish(output)?;
        if let Some(kept_state) = kept_state {
            self.inner = kept_state;
        }
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let inner = match self.mistake {
            Mistake::CopyBeginsAnew if self.last_had_five_bytes => self.initial.duplicate(),
            _ => self.inner.duplicate(),
        };
        Box::new(WrongStream {
            inner,
            initial: self.initial.duplicate(),
            last_had_five_bytes: self.last_had_five_bytes,
            mistake: self.mistake,
        })
    }
}

struct WrongCipherStream {
    inner: Box<dyn CipherStream>,
    initial: Box<dyn CipherStream>,
    /// True if the last piece had five bytes.
    last_had_five_bytes: bool,
    mistake: Mistake,
}

impl CipherStream for WrongCipherStream {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        if self.mistake == Mistake::ChainBreaks && data.len() == 48 {
            self.inner = self.initial.duplicate();
        }
        self.last_had_five_bytes = data.len() == 5;
        self.inner.update(data)
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        let inner = match self.mistake {
            Mistake::CopyBeginsAnew if self.last_had_five_bytes => self.initial.duplicate(),
            _ => self.inner.duplicate(),
        };
        Box::new(WrongCipherStream {
            inner,
            initial: self.initial.duplicate(),
            last_had_five_bytes: self.last_had_five_bytes,
            mistake: self.mistake,
        })
    }
}

/// Returns the output, and whether it is another buffer than the input.
fn output<'a>(operands: &'a mut Operands<'_>) -> (bool, &'a mut [u8]) {
    match operands {
        Operands::Digest { output, .. }
        | Operands::Mac { output, .. }
        | Operands::Sign { output, .. }
        | Operands::Compression { output, .. }
        | Operands::Derive { output, .. }
        | Operands::Encipher { output, .. }
        | Operands::Decipher { output, .. } => (false, output),
        Operands::Cipher { data, .. } | Operands::Seal { data, .. } | Operands::Open { data, .. } => {
            (matches!(data, Buffers::Separate { .. }), data.output())
        }
        Operands::Packet { packet, .. } => (true, packet),
        Operands::Verify { .. } => (true, &mut []),
        _ => (false, &mut []),
    }
}

fn input<'a>(operands: &'a Operands<'_>) -> &'a [u8] {
    match operands {
        Operands::Cipher { data, .. } | Operands::Seal { data, .. } | Operands::Open { data, .. } => data.input(),
        _ => &[],
    }
}

/// Writes outside the buffers, as an engine with a wrong address or length does.
fn flip_byte_outside(at: *const u8) {
    // SAFETY: the suite places every buffer inside its own allocation with guard bytes on both sides. So this byte exists, and
    // no code reads it before the device returns. The write is the mistake under test.
    #[allow(unsafe_code)]
    unsafe {
        let at = at.cast_mut();
        at.write_volatile(at.read_volatile() ^ 1);
    }
}
