//! Sessions of KT128.

use std::any::Any;

use gantry::driver::{DigestStream, Offer, Operands};
use gantry::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Work, converted, wrong_operation};
use crate::kernel::wide::Kernels;
use crate::level::Level;
use crate::sponge::Function;
use crate::tree::{self, Job, Tree, Turbo};

pub(super) struct TreeWork(Kernels);

impl TreeWork {
    pub(super) fn boxed(level: Level) -> Box<dyn Work> {
        Box::new(TreeWork(Turbo::kernels(level)))
    }

    fn job(operands: Operands<'_>) -> Result<Job<'_>, Fault> {
        Ok(match operands {
            Operands::Digest { input, output } => Job { tree: None, input, output: Some(output) },
            Operands::Update { stream, input } => Job { tree: Some(tree_of(stream)?), input, output: None },
            Operands::Finish { stream, output } => {
                Job { tree: Some(tree_of(stream)?), input: &[], output: Some(output) }
            }
            _ => return Err(wrong_operation()),
        })
    }
}

impl Work for TreeWork {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        tree::run_one(self.0, Self::job(operands)?);
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        tree::run(self.0, converted(self, first, others, exceptions, |_| Ok(()), |_, operands| Self::job(operands)));
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(TreeStream { kernels: self.0, tree: Tree::new() }))
    }
}

/// Core sends streams of this device alone.
fn tree_of(stream: &mut dyn DigestStream) -> Result<&mut Tree, Fault> {
    let stream: &mut dyn Any = stream;
    let stream = stream.downcast_mut::<TreeStream>();
    stream.map(|stream| &mut stream.tree).ok_or_else(|| Fault::failed("a stream of another session"))
}

struct TreeStream {
    kernels: Kernels,
    tree: Tree,
}

impl DigestStream for TreeStream {
    fn operation(&self) -> Operation {
        Operation::Digest
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        tree::run_one(self.kernels, Job { tree: Some(&mut self.tree), input, output: None });
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        tree::run_one(self.kernels, Job { tree: Some(&mut self.tree), input: &[], output: Some(output) });
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(TreeStream { kernels: self.kernels, tree: self.tree.clone() })
    }
}
