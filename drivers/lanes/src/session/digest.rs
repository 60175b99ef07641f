//! Sessions of digests and MACs, whatever computes them: whole messages, and messages in pieces.

use std::any::Any;
use std::sync::Arc;

use gantry_core::driver::{DigestStream, Offer, Operands};
use gantry_core::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Work, converted, of_one_length, wrong_operation};

/// What computes digests or MACs, with its key.
pub(super) trait Digester: Send + Sync + Sized + 'static {
    /// A message that arrives in pieces.
    type Stream: Clone + Send;

    /// A request.
    type Job<'a>;

    /// [`Operation::Digest`] or [`Operation::Mac`].
    fn operation(&self) -> Operation;

    /// The beginning of a message.
    fn stream(&self) -> Self::Stream;

    /// `input` is the next piece of `stream`, or the whole message where there is no stream. With an `output` the message ends here.
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut Self::Stream>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> Self::Job<'a>;

    /// Runs one job.
    fn run_one(&self, job: Self::Job<'_>);

    /// Runs so many jobs or fewer side by side, each of its own digester.
    fn run<'a>(&'a self, count: usize, jobs: impl Iterator<Item = Self::Job<'a>>);

    /// Whether [`run`](Self::run) takes jobs of that one, too.
    fn runs_with(&self, _other: &Self) -> bool {
        true
    }
}

/// The work of a session.
pub(super) struct DigestWork<D>(Arc<D>);

impl<D: Digester> DigestWork<D> {
    pub(super) fn boxed(digester: D) -> Box<dyn Work> {
        Box::new(DigestWork(Arc::new(digester)))
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

/// Core sends streams of this device alone.
fn stream_of<D: Digester>(stream: &mut dyn DigestStream) -> Result<&mut LanesStream<D>, Fault> {
    let stream: &mut dyn Any = stream;
    stream.downcast_mut().ok_or_else(|| Fault::failed("a stream of another session"))
}

impl<D: Digester> Work for DigestWork<D> {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.run_one(self.job(operands)?);
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let admit = |work: &Self| of_one_length(self.0.runs_with(&work.0));
        self.0.run(1 + others.len(), converted(self, first, others, exceptions, admit, Self::job));
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
