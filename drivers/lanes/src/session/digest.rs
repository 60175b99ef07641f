//! Digest and MAC sessions of all families: whole messages, and messages in pieces.

use std::any::Any;
use std::sync::Arc;

use gantry_core::driver::{DeviceSession, DigestStream, Offer, Operands};
use gantry_core::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, LanesSession, Runner, convert_jobs, require_equal_lengths, wrong_operation};

/// An implementation of a digest or a MAC, with its key.
pub(super) trait Digester: Send + Sync + Sized + 'static {
    /// A message that arrives in pieces.
    type Stream: Clone + Send;

    /// A request.
    type Job<'a>;

    /// [`Operation::Digest`] or [`Operation::Mac`].
    fn operation(&self) -> Operation;

    /// Returns a stream at the beginning of a message.
    fn stream(&self) -> Self::Stream;

    /// Returns a request. `input` is the next piece of `stream`, or the whole message without a stream. An `output` ends the message.
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut Self::Stream>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> Self::Job<'a>;

    /// Runs one job.
    fn run_one(&self, job: Self::Job<'_>);

    /// Runs all `jobs` side by side, each with its own digester. `count` is the maximum number of jobs.
    fn run<'a>(&'a self, count: usize, jobs: impl Iterator<Item = Self::Job<'a>>);

    /// Returns true if [`run`](Self::run) also accepts jobs of `other`.
    fn runs_with(&self, _other: &Self) -> bool {
        true
    }
}

/// The runner of a session.
pub(super) struct DigestRunner<D>(Arc<D>);

impl<D: Digester> DigestRunner<D> {
    pub(super) fn session(digester: D) -> Arc<dyn DeviceSession> {
        LanesSession::shared(DigestRunner(Arc::new(digester)))
    }

    #[inline(always)]
    fn job<'a>(&'a self, operands: Operands<'a>) -> Result<D::Job<'a>, Fault> {
        Ok(match operands {
            Operands::Digest { input, output } | Operands::Mac { input, output, .. } => {
                self.0.job(None, input, Some(output))
            }
            Operands::Update { stream, input } => stream_of::<D>(stream)?.job(input, None),
            Operands::Finish { stream, output } => stream_of::<D>(stream)?.job(&[], Some(output)),
            _ => return Err(wrong_operation()),
        })
    }
}

/// Returns the stream as one of this device. Core sends no others.
fn stream_of<D: Digester>(stream: &mut dyn DigestStream) -> Result<&mut LanesStream<D>, Fault> {
    let stream: &mut dyn Any = stream;
    stream.downcast_mut().ok_or_else(|| Fault::failed("the stream belongs to another session"))
}

impl<D: Digester> Runner for DigestRunner<D> {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.run_one(self.job(operands)?);
        Ok(Outcome::Done)
    }

    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let check_runner = |runner: &Self| require_equal_lengths(self.0.runs_with(&runner.0));
        self.0.run(1 + others.len(), convert_jobs(self, first, others, exceptions, check_runner, Self::job));
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(LanesStream { stream: self.0.stream(), digester: self.0.clone() }))
    }
}

struct LanesStream<D: Digester> {
    digester: Arc<D>,
    stream: D::Stream,
}

impl<D: Digester> LanesStream<D> {
    fn job<'a>(&'a mut self, input: &'a [u8], output: Option<&'a mut [u8]>) -> D::Job<'a> {
        self.digester.job(Some(&mut self.stream), input, output)
    }
}

impl<D: Digester> DigestStream for LanesStream<D> {
    fn operation(&self) -> Operation {
        self.digester.operation()
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        self.digester.run_one(self.digester.job(Some(&mut self.stream), input, None));
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        self.digester.run_one(self.digester.job(Some(&mut self.stream), &[], Some(output)));
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(LanesStream { digester: self.digester.clone(), stream: self.stream.clone() })
    }
}
