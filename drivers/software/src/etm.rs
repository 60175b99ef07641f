//! Encrypt then authenticate: tag = HMAC(aad ‖ iv ‖ ciphertext).

use std::sync::Arc;

use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams, tags_equal};

use crate::cipher::{AesCbc, AesStream, Cipher, StreamMode};
use crate::mac::{Hmac, MAX_HMAC_BYTES};
use crate::session::{RawBuffers, Secret, SessionResult, unsupported_operation};

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    match params.algorithm().info().cipher {
        Some(Algorithm::Aes128Cbc | Algorithm::Aes192Cbc | Algorithm::Aes256Cbc) => {
            session(params, AesCbc::new(params.key())?)
        }
        Some(Algorithm::Aes128Ctr | Algorithm::Aes192Ctr | Algorithm::Aes256Ctr) => {
            session(params, AesStream::new(StreamMode::Ctr, params.key())?)
        }
        _ => Err(Unsupported::because("not a cipher of encrypt-then-authenticate")),
    }
}

fn session(params: &SessionParams, cipher: impl Cipher) -> SessionResult {
    let info = params.algorithm().info();
    if !info.tag.allows(params.tag_len()) {
        return Err(Unsupported::because("the tag has a wrong length"));
    }
    let hmac = Hmac::new(info.digest, params.mac_key())?;
    Ok(Arc::new(EtmSession { cipher, hmac, block: info.block, tag_len: params.tag_len() }))
}

struct EtmSession<C> {
    cipher: C,
    hmac: Hmac,
    block: usize,
    tag_len: usize,
}

impl<C: Cipher> DeviceSession for EtmSession<C> {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Seal { iv, aad, data, tag } => {
                let mut data = RawBuffers::new(data)?;
                if tag.len() != self.tag_len {
                    return Err(Fault::failed("the tag has a wrong length"));
                }
                let mut state = self.cipher.start(iv)?;
                let outcome = self.cipher.run(Operation::Encrypt, &mut state, data.reborrow())?;
                if outcome == Outcome::Done {
                    self.hmac.mac(&[aad, iv, data.output()], tag)?;
                }
                Ok(outcome)
            }
            Operands::Open { iv, aad, data, tag } => {
                let data = RawBuffers::new(data)?;
                if !data.len.is_multiple_of(self.block) {
                    return Ok(Outcome::BadLength);
                }
                let mut state = self.cipher.start(iv)?;
                let mut computed = Secret::<[u8; MAX_HMAC_BYTES]>::zeroed();
                let computed = &mut computed[..self.tag_len];
                self.hmac.mac(&[aad, iv, data.input()], computed)?;
                if !tags_equal(computed, tag) {
                    return Ok(Outcome::BadTag);
                }
                self.cipher.run(Operation::Decrypt, &mut state, data)
            }
            _ => unsupported_operation(),
        }
    }
}
