//! Sessions of hash functions of the MD4 family, and of HMAC over them.

use std::any::Any;
use std::sync::Arc;

use gantry::driver::{DigestStream, Offer, Operands};
use gantry::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Work, converted, wrong_operation};
use crate::hash::{self, Start, Stream};
use crate::kernel::{Hash, Kernels};
use crate::level::Level;

/// Digests and HMACs.
pub(super) struct HashWork<H: Hash> {
    kernels: Kernels<H>,
    start: Arc<Start<H>>,
    operation: Operation,
}

impl<H: Hash> HashWork<H> {
    pub(super) fn boxed(level: Level, initial: &[H::Word; 8], digest: usize, hmac: Option<&[u8]>) -> Box<dyn Work> {
        let kernels = H::kernels(level);
        let (start, operation) = match hmac {
            Some(key) => (Start::hmac(kernels, *initial, digest, key), Operation::Mac),
            None => (Start::digest(*initial, digest), Operation::Digest),
        };
        Box::new(HashWork { kernels, start: Arc::new(start), operation })
    }

    #[inline(always)]
    fn job<'a>(&'a self, operands: Operands<'a>) -> Result<hash::Job<'a, H>, Fault> {
        let stream_of = |stream: &'a mut dyn DigestStream| {
            let stream: &mut dyn Any = stream;
            stream.downcast_mut::<HashStream<H>>().ok_or_else(|| Fault::failed("a stream of another session"))
        };
        Ok(match operands {
            Operands::Digest { input, output } | Operands::Mac { input, output, .. } => {
                hash::Job { start: &self.start, stream: None, input, output: Some(output) }
            }
            Operands::Update { stream, input } => stream_of(stream)?.job(input, None),
            Operands::Finish { stream, output } => stream_of(stream)?.job(&[], Some(output)),
            _ => return Err(wrong_operation()),
        })
    }
}

impl<H: Hash> Work for HashWork<H> {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        hash::run_one(self.kernels, self.job(operands)?);
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        hash::run(self.kernels, converted(self, first, others, exceptions, |_| Ok(()), Self::job));
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let (start, state) = (self.start.clone(), Stream::new(&self.start));
        Ok(Box::new(HashStream { kernels: self.kernels, start, state, operation: self.operation }))
    }
}

struct HashStream<H: Hash> {
    kernels: Kernels<H>,
    start: Arc<Start<H>>,
    state: Stream<H>,
    operation: Operation,
}

impl<H: Hash> HashStream<H> {
    fn job<'a>(&'a mut self, input: &'a [u8], output: Option<&'a mut [u8]>) -> hash::Job<'a, H> {
        hash::Job { start: &self.start, stream: Some(&mut self.state), input, output }
    }
}

impl<H: Hash> DigestStream for HashStream<H> {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        hash::run_one(self.kernels, self.job(input, None));
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        hash::run_one(self.kernels, self.job(&[], Some(output)));
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let (start, state) = (self.start.clone(), self.state.clone());
        Box::new(HashStream { kernels: self.kernels, start, state, operation: self.operation })
    }
}
