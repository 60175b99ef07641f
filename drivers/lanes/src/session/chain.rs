//! Sessions of algorithms that chain blocks: CMAC and CBC encryption.

use std::sync::Arc;

use gantry_core::driver::{Buffers, CipherStream, Offer, Operands};
use gantry_core::{Fault, Operation, Outcome, Unsupported};

use super::digest::Digester;
use super::{Exceptions, Runner, convert_jobs, iv_block, require_equal_lengths, wrong_operation};
use crate::aes::BLOCK_LEN;
use crate::cbc::{CbcJob, CbcKey};
use crate::cmac::{CmacJob, CmacKey, CmacStream};

/// AES-CMAC.
pub(super) struct Cmac(pub(super) CmacKey);

impl Digester for Cmac {
    type Stream = CmacStream;
    type Job<'a> = CmacJob<'a>;

    fn operation(&self) -> Operation {
        Operation::Mac
    }

    fn stream(&self) -> CmacStream {
        CmacStream::new()
    }

    #[inline(always)]
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut CmacStream>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> CmacJob<'a> {
        CmacJob { key: &self.0, stream, input, output }
    }

    fn run_one(&self, job: CmacJob<'_>) {
        job.run();
    }

    fn run<'a>(&'a self, count: usize, jobs: impl Iterator<Item = CmacJob<'a>>) {
        self.0.run(count, jobs);
    }

    fn runs_with(&self, other: &Self) -> bool {
        self.0.runs_with(&other.0)
    }
}

/// AES-CBC encryption.
pub(super) struct CbcRunner(pub(super) Arc<CbcKey>);

impl CbcRunner {
    fn job<'a>(&'a self, operands: Operands<'a>) -> Result<CbcJob<'a>, Fault> {
        match operands {
            Operands::Cipher { operation: Operation::Encrypt, iv, data } => {
                Ok(CbcJob { key: &self.0, iv: *iv_block(iv)?, data })
            }
            _ => Err(wrong_operation()),
        }
    }
}

impl Runner for CbcRunner {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.job(operands)?.run();
        Ok(Outcome::Done)
    }

    fn run_batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let check_runner = |runner: &Self| require_equal_lengths(self.0.runs_with(&runner.0));
        self.0.run(1 + others.len(), convert_jobs(self, first, others, exceptions, check_runner, Self::job));
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        if operation != Operation::Encrypt {
            return Err(Unsupported::because("lanes do not decrypt CBC, because its blocks are independent"));
        }
        let chain = iv.try_into().map_err(|_| Unsupported::because("the IV must have 16 bytes"))?;
        Ok(Box::new(LanesCbcStream { key: self.0.clone(), chain }))
    }
}

struct LanesCbcStream {
    key: Arc<CbcKey>,
    /// The last block of ciphertext, or the IV before the first block. Not secret.
    chain: [u8; BLOCK_LEN],
}

impl CipherStream for LanesCbcStream {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        self.chain = CbcJob { key: &self.key, iv: self.chain, data }.run();
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(LanesCbcStream { key: self.key.clone(), chain: self.chain })
    }
}
