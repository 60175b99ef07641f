//! Sessions of what is a chain of blocks: CMAC and CBC encryption.

use std::any::Any;
use std::sync::Arc;

use gantry::driver::{Buffers, CipherStream, DigestStream, Offer, Operands};
use gantry::{Fault, Operation, Outcome, Unsupported};

use super::{Exceptions, Work, block, converted, of_one_length, wrong_operation};
use crate::cbc::{CbcJob, CbcKey};
use crate::cmac::{CmacJob, CmacKey, CmacStream};
use crate::kernel::aes::BLOCK;

/// AES-CMAC.
pub(super) struct CmacWork(pub(super) Arc<CmacKey>);

impl CmacWork {
    fn job<'a>(&'a self, operands: Operands<'a>) -> Result<CmacJob<'a>, Fault> {
        let stream_of = |stream: &'a mut dyn DigestStream| {
            let stream: &mut dyn Any = stream;
            stream.downcast_mut::<LanesCmacStream>().ok_or_else(|| Fault::failed("a stream of another session"))
        };
        Ok(match operands {
            Operands::Mac { input, output, .. } => CmacJob { key: &self.0, stream: None, input, output: Some(output) },
            Operands::Update { stream, input } => stream_of(stream)?.job(input, None),
            Operands::Finish { stream, output } => stream_of(stream)?.job(&[], Some(output)),
            _ => return Err(wrong_operation()),
        })
    }
}

impl Work for CmacWork {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.job(operands)?.run();
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let admit = |work: &Self| of_one_length(self.0.runs_with(&work.0));
        self.0.run(1 + others.len(), converted(self, first, others, exceptions, admit, Self::job));
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(LanesCmacStream { key: self.0.clone(), state: CmacStream::new() }))
    }
}

struct LanesCmacStream {
    key: Arc<CmacKey>,
    state: CmacStream,
}

impl LanesCmacStream {
    fn job<'a>(&'a mut self, input: &'a [u8], output: Option<&'a mut [u8]>) -> CmacJob<'a> {
        CmacJob { key: &self.key, stream: Some(&mut self.state), input, output }
    }
}

impl DigestStream for LanesCmacStream {
    fn operation(&self) -> Operation {
        Operation::Mac
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        self.job(input, None).run();
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        self.job(&[], Some(output)).run();
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(LanesCmacStream { key: self.key.clone(), state: self.state.clone() })
    }
}

/// AES-CBC encryption.
pub(super) struct CbcWork(pub(super) Arc<CbcKey>);

impl CbcWork {
    fn job<'a>(&'a self, operands: Operands<'a>) -> Result<CbcJob<'a>, Fault> {
        match operands {
            Operands::Cipher { operation: Operation::Encrypt, iv, data } => {
                Ok(CbcJob { key: &self.0, iv: *block(iv)?, data })
            }
            _ => Err(wrong_operation()),
        }
    }
}

impl Work for CbcWork {
    fn one(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.job(operands)?.run();
        Ok(Outcome::Done)
    }

    fn batch<'a>(&'a self, first: Operands<'a>, others: &'a mut [Offer<'_>], exceptions: &'a mut Exceptions) {
        let admit = |work: &Self| of_one_length(self.0.runs_with(&work.0));
        self.0.run(1 + others.len(), converted(self, first, others, exceptions, admit, Self::job));
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        if operation != Operation::Encrypt {
            return Err(Unsupported::because("CBC decryption needs no lanes: its blocks do not wait for each other"));
        }
        let chain = iv.try_into().map_err(|_| Unsupported::because("an IV has 16 bytes"))?;
        Ok(Box::new(LanesCbcStream { key: self.0.clone(), chain }))
    }
}

struct LanesCbcStream {
    key: Arc<CbcKey>,
    /// The last block of ciphertext, or the IV: nothing secret.
    chain: [u8; BLOCK],
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
