//! Counter-mode sessions.

use std::sync::Arc;

use gantry_core::driver::{Buffers, CipherStream, Offer, Operands};
use gantry_core::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Runner, convert_jobs, iv_block, require_equal_lengths, wrong_operation};
use crate::aes::independent::Message;
use crate::independent::{CtrPosition, IndependentKey};

/// AES-CTR.
pub(super) struct CtrRunner(pub(super) Arc<IndependentKey>);

impl CtrRunner {
    /// Returns the message; encryption and decryption are the same operation.
    #[inline(always)]
    fn message<'a>(&'a self, operands: Operands<'a>) -> Result<Message<'a>, Fault> {
        match operands {
            Operands::Cipher { iv, data, .. } => Ok(self.0.message(*iv_block(iv)?, data)),
            _ => Err(wrong_operation()),
        }
    }
}

impl Runner for CtrRunner {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.run(core::iter::once(self.message(operands)?));
        Ok(Outcome::Done)
    }

    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let check_runner = |runner: &Self| require_equal_lengths(self.0.runs_with(&runner.0));
        self.0.run(convert_jobs(self, first, others, exceptions, check_runner, Self::message));
    }

    fn cipher_stream(&self, _operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let iv = iv.try_into().map_err(|_| Unsupported::because("the counter must have 16 bytes"))?;
        Ok(Box::new(CtrStream { key: self.0.clone(), position: CtrPosition::new(iv) }))
    }
}

struct CtrStream {
    key: Arc<IndependentKey>,
    /// Not secret: holds no key stream.
    position: CtrPosition,
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
