//! Sessions of counter mode.

use std::sync::Arc;

use gantry_core::driver::{Buffers, CipherStream, Offer, Operands};
use gantry_core::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Work, block, converted, of_one_length, wrong_operation};
use crate::aes::independent::Message;
use crate::independent::{IndependentKey, Position};

/// AES-CTR.
pub(super) struct CtrWork(pub(super) Arc<IndependentKey>);

impl CtrWork {
    /// To encrypt and to decrypt are the same.
    #[inline(always)]
    fn message<'a>(&'a self, operands: Operands<'a>) -> Result<Message<'a>, Fault> {
        match operands {
            Operands::Cipher { iv, data, .. } => Ok(self.0.message(*block(iv)?, data)),
            _ => Err(wrong_operation()),
        }
    }
}

impl Work for CtrWork {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.run(core::iter::once(self.message(operands)?));
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let admit = |work: &Self| of_one_length(self.0.runs_with(&work.0));
        self.0.run(converted(self, first, others, exceptions, admit, Self::message));
    }

    fn cipher_stream(&self, _operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let iv = iv.try_into().map_err(|_| Unsupported::because("a counter has 16 bytes"))?;
        Ok(Box::new(CtrStream { key: self.0.clone(), position: Position::new(iv) }))
    }
}

struct CtrStream {
    key: Arc<IndependentKey>,
    /// Nothing secret.
    position: Position,
}

impl CipherStream for CtrStream {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        self.position.run(&self.key, data);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(CtrStream { key: self.key.clone(), position: self.position })
    }
}
