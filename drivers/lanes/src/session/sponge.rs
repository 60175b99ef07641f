//! Sessions of SHA-3, of HMAC over it, of SHAKE and TurboSHAKE, and of BLAKE2b.

use std::any::Any;
use std::sync::Arc;

use gantry::driver::{DigestStream, Offer, Operands};
use gantry::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Work, converted, wrong_operation};
use crate::kernel::keccak::{self, Keccak};
use crate::kernel::wide::Kernels;
use crate::level::Level;
use crate::sponge::{self, Function, Job, Start, Stream};

/// Digests and HMACs.
pub(super) struct SpongeWork<F: Function> {
    kernels: Kernels,
    start: Arc<Start<F>>,
    operation: Operation,
}

/// SHAKE, or TurboSHAKE: functions of Keccak whose digests have any length, `digest` bytes in this session.
pub(super) fn xof(level: Level, rate: usize, rounds: usize, digest: usize) -> Box<dyn Work> {
    fn of<F: Function>(level: Level, digest: usize) -> Box<dyn Work> {
        let start = Arc::new(Start::<F>::xof(digest, 0, keccak::SHAKE));
        Box::new(SpongeWork { kernels: F::kernels(level), start, operation: Operation::Digest })
    }
    match (rate, rounds) {
        (168, 24) => of::<Keccak<168>>(level, digest),
        (_, 24) => of::<Keccak<136>>(level, digest),
        (168, _) => of::<Keccak<168, 12>>(level, digest),
        _ => of::<Keccak<136, 12>>(level, digest),
    }
}

impl<F: Function> SpongeWork<F> {
    pub(super) fn boxed(
        level: Level,
        initial: [u64; keccak::WORDS],
        digest: usize,
        hmac: Option<&[u8]>,
    ) -> Box<dyn Work> {
        let kernels = F::kernels(level);
        let (start, operation) = match hmac {
            Some(key) => (Start::<F>::hmac(kernels, initial, digest, key), Operation::Mac),
            None => (Start::<F>::digest(initial, digest), Operation::Digest),
        };
        Box::new(SpongeWork { kernels, start: Arc::new(start), operation })
    }

    #[inline(always)]
    fn job<'a>(&'a self, operands: Operands<'a>) -> Result<Job<'a, F>, Fault> {
        let stream_of = |stream: &'a mut dyn DigestStream| {
            let stream: &mut dyn Any = stream;
            stream.downcast_mut::<SpongeStream<F>>().ok_or_else(|| Fault::failed("a stream of another session"))
        };
        Ok(match operands {
            Operands::Digest { input, output } | Operands::Mac { input, output, .. } => {
                Job { start: &self.start, stream: None, input, output: Some(output) }
            }
            Operands::Update { stream, input } => stream_of(stream)?.job(input, None),
            Operands::Finish { stream, output } => stream_of(stream)?.job(&[], Some(output)),
            _ => return Err(wrong_operation()),
        })
    }
}

impl<F: Function> Work for SpongeWork<F> {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        sponge::run_one(self.kernels, self.job(operands)?);
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        sponge::run(
            self.kernels,
            self.start.is_keyed(),
            converted(self, first, others, exceptions, |_| Ok(()), Self::job),
        );
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let (start, state) = (self.start.clone(), Stream::new(&self.start));
        Ok(Box::new(SpongeStream { kernels: self.kernels, start, state, operation: self.operation }))
    }
}

struct SpongeStream<F: Function> {
    kernels: Kernels,
    start: Arc<Start<F>>,
    state: Stream<F>,
    operation: Operation,
}

impl<F: Function> SpongeStream<F> {
    fn job<'a>(&'a mut self, input: &'a [u8], output: Option<&'a mut [u8]>) -> Job<'a, F> {
        Job { start: &self.start, stream: Some(&mut self.state), input, output }
    }
}

impl<F: Function> DigestStream for SpongeStream<F> {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        sponge::run_one(self.kernels, self.job(input, None));
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        sponge::run_one(self.kernels, self.job(&[], Some(output)));
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let (start, state) = (self.start.clone(), self.state.clone());
        Box::new(SpongeStream { kernels: self.kernels, start, state, operation: self.operation })
    }
}
