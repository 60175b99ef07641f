//! RSA signatures: the padding, and the powers that a device computes.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use gantry_core::driver::{DeviceSession, Job, Operands, Refusal};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams, rsa};
use zeroize::Zeroizing;

use crate::engine::Engine;
use crate::fault::unsupported;
use crate::sys::{DATA_OFFSET, Pair, Request, RsaKey, Session, Slot, SlotMemory, Status};

/// Algorithms, each with the length of its modulus in bytes. PKCS #1 v1.5 padding (RFC 8017, 8.2) needs no hash function of the device, and
/// no hash function is common to all PMDs of DPDK. PSS needs a hash function, and no PMD supports PSS.
pub(crate) const ALGORITHMS: [(Algorithm, usize); 3] =
    [(Algorithm::Rsa2048Pkcs1, 256), (Algorithm::Rsa3072Pkcs1, 384), (Algorithm::Rsa4096Pkcs1, 512)];

/// An RSA session.
///
/// A signature is the private power of the padded digest. It is returned only if the signature's public power, which the device computes,
/// is the padded digest again. Without this check, a faulty signature would reveal a prime of the key (Boneh, DeMillo, Lipton, 1997).
/// Verification computes the public power of a signature and compares.
pub(crate) struct RsaSession {
    engine: Arc<Engine>,
    params: SessionParams,
    /// Length of the modulus in bytes.
    modulus_bytes: usize,
    /// DPDK sessions, indexed by the number of the queue pair. OpenSSL's PMD computes in the memory of the session, so queue pairs cannot
    /// share a session.
    sessions: Box<[OnceLock<Session>]>,
}

/// The device's current computation for the request in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RsaStep {
    Sign,
    /// The public power of a new signature.
    Check,
    Verify,
}

impl RsaSession {
    pub(crate) fn new(engine: &Arc<Engine>, params: &SessionParams, modulus_bytes: usize) -> Result<Self, Refusal> {
        let can_sign = params.allows(Operation::Sign);
        let length = if can_sign { rsa::private_length(modulus_bytes) } else { rsa::public_length(modulus_bytes) };
        if params.key().len() != length {
            return Err(unsupported("the key is not an RSA key of the right length"));
        }
        let sessions = (0..engine.queue_pairs).map(|_| OnceLock::new()).collect();
        let session = Self { engine: engine.clone(), params: params.clone(), modulus_bytes, sessions };
        if !is_valid_key(&session.key()) {
            return Err(unsupported("the key is not an RSA key of the right length"));
        }
        match session.session_for_pair(0) {
            Ok(_) => Ok(session),
            Err(_) => Err(unsupported("the device does not support such a session, or cannot open more")),
        }
    }

    /// Returns the DPDK session of a queue pair, which the caller must own.
    fn session_for_pair(&self, index: u32) -> Result<&Session, Fault> {
        let cell = self
            .sessions
            .get(index as usize)
            .ok_or_else(|| Fault::failed("the queue pair belongs to another device"))?;
        if let Some(session) = cell.get() {
            return Ok(session);
        }
        let session =
            self.engine.open_rsa_session(&self.key()).ok_or(Fault::Declined("the device cannot open more sessions"))?;
        if let Err(session) = cell.set(session) {
            // Another thread was faster.
            self.engine.close_session(session);
        }
        cell.get().ok_or_else(|| Fault::failed("the session that was just opened is missing"))
    }

    fn key(&self) -> RsaKey<'_> {
        let (modulus, rest) = self.params.key().split_at(self.modulus_bytes);
        let (exponent, private) = rest.split_at(rsa::EXPONENT_LEN);
        let exponent = &exponent[exponent.iter().take_while(|byte| **byte == 0).count().min(rsa::EXPONENT_LEN - 1)..];
        RsaKey { modulus, exponent, crt_numbers: (!private.is_empty()).then(|| &private[self.modulus_bytes..]) }
    }

    /// Writes a request into its slot of a queue pair, and returns the first computation, or the outcome if there is none.
    fn prepare(
        &self,
        operands: &Operands<'_>,
        digest: &[u8],
        pair_index: u32,
        memory: &mut SlotMemory<'_>,
    ) -> Result<(&Session, RsaStep), Result<Outcome, Fault>> {
        let [number, _, padded] = self.numbers(memory);
        pad_pkcs1(digest, padded).map_err(Err)?;
        let step = match operands {
            Operands::Sign { .. } => {
                number.copy_from_slice(padded);
                RsaStep::Sign
            }
            // A signature must be below the modulus (RFC 8017, 5.2.2). Devices need not check this.
            Operands::Verify { signature, .. }
                if signature.len() != self.modulus_bytes || !self.is_below_modulus(signature) =>
            {
                return Err(Ok(Outcome::BadTag));
            }
            Operands::Verify { signature, .. } => {
                number.copy_from_slice(signature);
                RsaStep::Verify
            }
            _ => return Err(Err(Fault::failed("the session does not support the operation"))),
        };
        Ok((self.session_for_pair(pair_index).map_err(Err)?, step))
    }

    /// Moves a new signature to the place of the input, to be checked.
    fn prepare_check(&self, pair_index: u32, memory: &mut SlotMemory<'_>) -> Result<&Session, Fault> {
        let session = self.session_for_pair(pair_index)?;
        let [number, result, _] = self.numbers(memory);
        number.copy_from_slice(result);
        result.fill(0);
        Ok(session)
    }

    /// Delivers the result of a request's last step.
    fn finish(&self, operands: Operands<'_>, memory: &mut SlotMemory<'_>) -> Result<Outcome, Fault> {
        let [number, result, padded] = self.numbers(memory);
        match operands {
            Operands::Sign { output, .. } if output.len() == self.modulus_bytes => {
                if result != padded {
                    // A key with inconsistent numbers also causes this, so the device is not at fault.
                    return Err(Fault::Declined("the signature does not verify with its key"));
                }
                output.copy_from_slice(number);
                Ok(Outcome::Done)
            }
            Operands::Verify { .. } => Ok(if result == padded { Outcome::Done } else { Outcome::BadTag }),
            _ => Err(Fault::failed("the session does not support the operation")),
        }
    }

    /// Returns the numbers in a slot: the input of the computation, its result, and the padded digest. The digest is a copy, because the
    /// caller's digest may change if it is in foreign memory.
    fn numbers<'a>(&self, memory: &'a mut SlotMemory<'_>) -> [&'a mut [u8]; 3] {
        let (number, rest) = memory.buffer[DATA_OFFSET..].split_at_mut(self.modulus_bytes);
        let (result, rest) = rest.split_at_mut(self.modulus_bytes);
        [number, result, &mut rest[..self.modulus_bytes]]
    }

    fn wipe(&self, pair: &mut Pair, slot: &Slot) {
        for number in self.numbers(&mut pair.memory(slot)) {
            number.fill(0);
        }
    }

    fn is_below_modulus(&self, number: &[u8]) -> bool {
        // Both numbers are big-endian, of equal length, and public.
        number < &self.params.key()[..self.modulus_bytes]
    }
}

/// Writes a job into its slot, or returns the slot with the job's result.
pub(crate) fn begin(
    job: &mut Job,
    pair: &mut Pair,
    slot: Slot,
) -> Result<(Request, RsaStep), (Slot, Result<Outcome, Fault>)> {
    let mut scattered = [0; MAX_DIGEST_BYTES];
    let scattered = job.segments().map(|data| {
        let digest = scattered.get_mut(..data.input.bytes()).unwrap_or_default();
        data.input.read(digest).map(|()| &*digest).unwrap_or_default()
    });
    let (session, operands) = job.parts();
    let Some(rsa) = (session as &dyn Any).downcast_ref::<RsaSession>() else {
        return Err((slot, Err(Fault::failed("the session belongs to another device"))));
    };
    let digest = match (&operands, scattered) {
        (_, Some(digest)) => digest,
        (Operands::Sign { input, .. } | Operands::Verify { input, .. }, None) => input,
        _ => &[],
    };
    match rsa.prepare(&operands, digest, pair.index, &mut pair.memory(&slot)) {
        Ok((session, step)) => {
            Ok((Request::modular_power(slot, session, step == RsaStep::Sign, rsa.modulus_bytes), step))
        }
        Err(end) => {
            rsa.wipe(pair, &slot);
            Err((slot, end))
        }
    }
}

/// Returns the request of the step that follows `step`, or the slot with the job's result.
pub(crate) fn advance(
    job: &mut Job,
    step: RsaStep,
    status: Status,
    pair: &mut Pair,
    slot: Slot,
) -> Result<Request, (Slot, Result<Outcome, Fault>)> {
    let (session, operands) = job.parts();
    let Some(rsa) = (session as &dyn Any).downcast_ref::<RsaSession>() else {
        return Err((slot, Err(Fault::failed("the session belongs to another device"))));
    };
    let pair_index = pair.index;
    let end = match (status, step) {
        (Status::Failed(reason), _) => Err(Fault::failed(reason)),
        (Status::BadTag, _) => Err(Fault::failed("DPDK: an RSA operation reports a bad tag")),
        (Status::Done, RsaStep::Sign) => match rsa.prepare_check(pair_index, &mut pair.memory(&slot)) {
            Ok(session) => return Ok(Request::modular_power(slot, session, false, rsa.modulus_bytes)),
            Err(fault) => Err(fault),
        },
        (Status::Done, RsaStep::Check | RsaStep::Verify) => rsa.finish(operands, &mut pair.memory(&slot)),
    };
    rsa.wipe(pair, &slot);
    Err((slot, end))
}

/// Returns whether a modulus has its full length, is odd, and is the product of the primes. With other numbers a device would fail, and be
/// quarantined for all callers. No branch and no index depends on a prime.
fn is_valid_key(key: &RsaKey<'_>) -> bool {
    let [first, .., last] = key.modulus else { return false };
    if first >> 7 == 0 || last & 1 == 0 {
        return false;
    }
    let Some(crt_numbers) = key.crt_numbers else { return true };
    let half = key.modulus.len() / 2;
    let (p, q) = (&crt_numbers[..half], &crt_numbers[half..2 * half]);
    let mut product = Zeroizing::new(vec![0; 2 * half]);
    for (i, a) in p.iter().enumerate().rev() {
        let mut carry = 0;
        for (j, b) in q.iter().enumerate().rev() {
            let sum = u32::from(*a) * u32::from(*b) + u32::from(product[i + j + 1]) + carry;
            (product[i + j + 1], carry) = (sum as u8, sum >> 8);
        }
        product[i] = carry as u8;
    }
    *product == *key.modulus
}

/// Length of the longest digest in bytes.
const MAX_DIGEST_BYTES: usize = 64;

/// Writes `EMSA-PKCS1-v1_5` of a digest (RFC 8017, 9.2). The length of the digest determines the hash function.
fn pad_pkcs1(digest: &[u8], number: &mut [u8]) -> Result<(), Fault> {
    // The prefix of a digest in DigestInfo (RFC 8017, 9.2, note 1): 2.16.840.1.101.3.4.2.N, and the lengths.
    let (last, length) = match digest.len() {
        32 => (1, 32),
        48 => (2, 48),
        64 => (3, 64),
        _ => return Err(Fault::Declined("the digest is not one of SHA-256, SHA-384 or SHA-512")),
    };
    let info = [
        0x30,
        17 + length,
        0x30,
        13,
        0x06,
        9,
        0x60,
        0x86,
        0x48,
        0x01,
        0x65,
        0x03,
        0x04,
        0x02,
        last,
        0x05,
        0,
        0x04,
        length,
    ];
    let (front, end) = number.split_at_mut(number.len() - info.len() - digest.len());
    let separator = front.len() - 1;
    front.fill(0xff);
    (front[0], front[1], front[separator]) = (0, 1, 0);
    end[..info.len()].copy_from_slice(&info);
    end[info.len()..].copy_from_slice(digest);
    Ok(())
}

impl DeviceSession for RsaSession {
    fn run(&self, _operands: Operands<'_>) -> Result<Outcome, Fault> {
        // Core does not call this on a device that is not direct.
        Err(Fault::failed("a cryptodev takes requests through its queues only"))
    }
}

impl Drop for RsaSession {
    fn drop(&mut self) {
        for cell in &mut self.sessions {
            if let Some(session) = cell.take() {
                self.engine.close_session(session);
            }
        }
    }
}

#[cfg(test)]
mod tests;
