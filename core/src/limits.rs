//! What the requests of a session have to look like, gathered from its parameters and the algorithm table for a quick look at each.

use crate::algorithm::Lengths;
use crate::request::{Operands, Shape};
use crate::{Algorithm, Misuse, Operation, Outcome, SessionParams};

pub(crate) struct Limits {
    algorithm: Algorithm,
    /// A bit for each operation that the session may run.
    operations: u16,
    iv: Lengths,
    /// Bytes of a digest, MAC, tag, signature or secret.
    tag_len: usize,
    /// The bits that are not set in the bytes of whole blocks.
    within_block: usize,
    min_data: usize,
    max_data: u64,
    /// CCM writes the length of the data into as many bytes as the nonce leaves.
    is_ccm: bool,
}

/// The operations of [`Operands::Cipher`].
const CIPHER: u16 = bit(Operation::Encrypt) | bit(Operation::Decrypt);

const fn bit(operation: Operation) -> u16 {
    1 << operation as u16
}

impl Limits {
    pub(crate) fn of(params: &SessionParams) -> Self {
        let algorithm = params.algorithm();
        let info = algorithm.info();
        let operations = info.kind.operations().iter().filter(|operation| params.allows(**operation));
        Self {
            algorithm,
            operations: operations.fold(0, |bits, operation| bits | bit(*operation)),
            iv: info.iv,
            tag_len: params.tag_length(),
            within_block: info.block - 1,
            min_data: info.min_data,
            max_data: info.max_data,
            is_ccm: matches!(algorithm, Algorithm::Aes128Ccm | Algorithm::Aes192Ccm | Algorithm::Aes256Ccm),
        }
    }

    /// Everything that can be wrong with a request before a device is asked. `Some` is its outcome already.
    #[inline(always)]
    pub(crate) fn check(&self, operands: &Operands<'_>, shape: Shape) -> Result<Option<Outcome>, Misuse> {
        let Shape { operation, bytes, .. } = shape;
        if self.operations & bit(operation) == 0 {
            return Err(self.wrong(operation));
        }
        match operands {
            Operands::Cipher { iv, data, .. } => {
                // The operation is a field that anybody can fill in.
                if self.operations & CIPHER == 0 {
                    return Err(self.wrong(operation));
                }
                self.check_iv(iv)?;
                self.check_output(data.output_len(), bytes)?;
                Ok(self.check_data(bytes, iv.len()))
            }
            Operands::Seal { iv, data, tag, .. } => {
                self.check_iv(iv)?;
                self.check_output(data.output_len(), bytes)?;
                self.check_output(tag.len(), self.tag_len)?;
                Ok(self.check_data(bytes, iv.len()))
            }
            Operands::Open { iv, data, tag, .. } => {
                self.check_iv(iv)?;
                self.check_output(data.output_len(), bytes)?;
                // The tag comes from the peer with its length: a short one is a bad one.
                if tag.len() != self.tag_len {
                    return Ok(Some(Outcome::BadTag));
                }
                Ok(self.check_data(bytes, iv.len()))
            }
            Operands::Digest { output, .. } | Operands::Sign { output, .. } | Operands::Finish { output, .. } => {
                self.check_output(output.len(), self.tag_len).map(|()| None)
            }
            // As the tag of an AEAD.
            Operands::Verify { signature, .. } => Ok((signature.len() != self.tag_len).then_some(Outcome::BadTag)),
            Operands::Derive { output, .. } => {
                self.check_output(output.len(), self.tag_len)?;
                Ok(self.check_data(bytes, 0))
            }
            Operands::Mac { iv, output, .. } => {
                self.check_iv(iv)?;
                self.check_output(output.len(), self.tag_len).map(|()| None)
            }
            Operands::Update { .. } => Ok(None),
        }
    }

    #[inline(always)]
    pub(crate) fn check_iv(&self, iv: &[u8]) -> Result<(), Misuse> {
        let Self { algorithm, iv: takes, .. } = *self;
        if takes.allows(iv.len()) { Ok(()) } else { Err(Misuse::IvLength { algorithm, got: iv.len(), takes }) }
    }

    #[inline(always)]
    fn check_output(&self, got: usize, needs: usize) -> Result<(), Misuse> {
        if got == needs { Ok(()) } else { Err(Misuse::OutputLength { algorithm: self.algorithm, got, needs }) }
    }

    #[inline(always)]
    fn check_data(&self, bytes: usize, iv: usize) -> Option<Outcome> {
        // RFC 3610: a nonce of N bytes, from 7 on, leaves 15 - N.
        let max = if self.is_ccm { u64::MAX >> (8 * (iv - 7)) } else { self.max_data };
        let good = bytes & self.within_block == 0 && bytes >= self.min_data && bytes as u64 <= max;
        if good { None } else { Some(Outcome::BadLength) }
    }

    #[cold]
    fn wrong(&self, operation: Operation) -> Misuse {
        Misuse::Operation { algorithm: self.algorithm, operation }
    }
}
