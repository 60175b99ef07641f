use std::any::Any;
use std::sync::{Arc, OnceLock};

use gantry_core::driver::{DeviceSession, Job, Operands, Refusal};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams, rsa};
use zeroize::Zeroizing;

use crate::engine::Engine;
use crate::session::unsupported;
use crate::sys::{DATA, Pair, Request, Room, RsaKey, Session, Slot, Status};

/// Algorithms, with the bytes of their modulus. RFC 8017, 8.2: its padding needs no hash function, and DPDK's PMDs agree on none.
/// PSS needs one, and no PMD has it.
pub(crate) const ALGORITHMS: [(Algorithm, usize); 3] =
    [(Algorithm::Rsa2048Pkcs1, 256), (Algorithm::Rsa3072Pkcs1, 384), (Algorithm::Rsa4096Pkcs1, 512)];

/// A session of RSA.
///
/// A signature is the private power of the padded digest. It leaves only once the device's public power of it has led back to the same
/// digest: a faulty one would tell a prime of the key (Boneh, DeMillo, Lipton, 1997). To verify is to compute the public power of
/// a signature, and to compare.
pub(crate) struct RsaSession {
    engine: Arc<Engine>,
    params: SessionParams,
    /// Bytes of the modulus.
    size: usize,
    /// One for each queue pair, by its number: OpenSSL's PMD computes in its session, so that two queue pairs cannot share it.
    sessions: Box<[OnceLock<Session>]>,
}

/// What a slot is used to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Sign,
    /// Of a signature that was made here.
    Check,
    Verify,
}

impl RsaSession {
    pub(crate) fn new(engine: &Arc<Engine>, params: &SessionParams, size: usize) -> Result<Self, Refusal> {
        let signs = params.allows(Operation::Sign);
        let length = if signs { rsa::private_length(size) } else { rsa::public_length(size) };
        if params.key().len() != length {
            return Err(unsupported("no key of RSA, or of another size"));
        }
        let sessions = (0..engine.queues).map(|_| OnceLock::new()).collect();
        let session = Self { engine: engine.clone(), params: params.clone(), size, sessions };
        if !is_sound(&session.key()) {
            return Err(unsupported("no key of RSA, or of another size"));
        }
        match session.of_pair(0) {
            Ok(_) => Ok(session),
            Err(_) => Err(unsupported("the device opens no such session, or has no room for more")),
        }
    }

    /// The session of a queue pair, which the caller has to himself.
    fn of_pair(&self, number: u32) -> Result<&Session, Fault> {
        let place =
            self.sessions.get(number as usize).ok_or_else(|| Fault::failed("a queue pair of another device"))?;
        if let Some(session) = place.get() {
            return Ok(session);
        }
        let session = self.engine.open_rsa(&self.key()).ok_or(Fault::Declined("the device opens no more sessions"))?;
        if let Err(session) = place.set(session) {
            // Somebody was faster.
            self.engine.close(session);
        }
        place.get().ok_or_else(|| Fault::failed("a session that was just opened"))
    }

    fn key(&self) -> RsaKey<'_> {
        let (modulus, rest) = self.params.key().split_at(self.size);
        let (exponent, private) = rest.split_at(rsa::EXPONENT);
        let exponent = &exponent[exponent.iter().take_while(|byte| **byte == 0).count().min(rsa::EXPONENT - 1)..];
        RsaKey { modulus, exponent, primes: (!private.is_empty()).then(|| &private[self.size..]) }
    }

    /// Writes a request into its slot of a queue pair, and says what is computed first; or how it ends, where that is nothing.
    fn prepare(
        &self,
        operands: &Operands<'_>,
        digest: &[u8],
        pair: u32,
        room: &mut Room<'_>,
    ) -> Result<(&Session, Step), Result<Outcome, Fault>> {
        let [number, _, padded] = self.numbers(room);
        pad(digest, padded).map_err(Err)?;
        let step = match operands {
            Operands::Sign { .. } => {
                number.copy_from_slice(padded);
                Step::Sign
            }
            // No signature is as large as the modulus (RFC 8017, 5.2.2). Devices need not say so.
            Operands::Verify { signature, .. } if signature.len() != self.size || !self.is_below_modulus(signature) => {
                return Err(Ok(Outcome::BadTag));
            }
            Operands::Verify { signature, .. } => {
                number.copy_from_slice(signature);
                Step::Verify
            }
            _ => return Err(Err(Fault::failed("a request of another kind than its session"))),
        };
        Ok((self.of_pair(pair).map_err(Err)?, step))
    }

    /// After a step that went well: a signature takes the place of its digest, to be checked.
    fn check(&self, pair: u32, room: &mut Room<'_>) -> Result<&Session, Fault> {
        let session = self.of_pair(pair)?;
        let [number, result, _] = self.numbers(room);
        number.copy_from_slice(result);
        result.fill(0);
        Ok(session)
    }

    /// The result of the last step of a request.
    fn finish(&self, operands: Operands<'_>, room: &mut Room<'_>) -> Result<Outcome, Fault> {
        let [number, result, padded] = self.numbers(room);
        match operands {
            Operands::Sign { output, .. } if output.len() == self.size => {
                if result != padded {
                    // Of a key whose numbers do not belong together, too: the device is not blamed for what a caller may cause.
                    return Err(Fault::Declined("a signature that does not fit its key"));
                }
                output.copy_from_slice(number);
                Ok(Outcome::Done)
            }
            Operands::Verify { .. } => Ok(if result == padded { Outcome::Done } else { Outcome::BadTag }),
            _ => Err(Fault::failed("a request of another kind than its session")),
        }
    }

    /// Of a slot: what a device computes with, its result, and the padded digest. The last is kept because the caller's may change: it
    /// may lie in foreign memory.
    fn numbers<'a>(&self, room: &'a mut Room<'_>) -> [&'a mut [u8]; 3] {
        let (number, rest) = room.buffer[DATA..].split_at_mut(self.size);
        let (result, rest) = rest.split_at_mut(self.size);
        [number, result, &mut rest[..self.size]]
    }

    fn wipe(&self, pair: &mut Pair, slot: &Slot) {
        for number in self.numbers(&mut pair.room(slot)) {
            number.fill(0);
        }
    }

    fn is_below_modulus(&self, number: &[u8]) -> bool {
        // Of equal length, with their high bytes first. Both are public.
        number < &self.params.key()[..self.size]
    }
}

/// Writes a job into its slot; or says how it ends, and gives the slot back.
pub(crate) fn begin(
    job: &mut Job,
    pair: &mut Pair,
    slot: Slot,
) -> Result<(Request, Step), (Slot, Result<Outcome, Fault>)> {
    let mut scattered = [0; MOST_DIGEST];
    let scattered = job.segments().map(|data| {
        let digest = scattered.get_mut(..data.input.bytes()).unwrap_or_default();
        data.input.read(digest).map(|()| &*digest).unwrap_or_default()
    });
    let (session, operands) = job.parts();
    let Some(rsa) = (session as &dyn Any).downcast_ref::<RsaSession>() else {
        return Err((slot, Err(Fault::failed("a session of another device"))));
    };
    let digest = match (&operands, scattered) {
        (_, Some(digest)) => digest,
        (Operands::Sign { input, .. } | Operands::Verify { input, .. }, None) => input,
        _ => &[],
    };
    match rsa.prepare(&operands, digest, pair.number, &mut pair.room(&slot)) {
        Ok((session, step)) => Ok((Request::power(slot, session, step == Step::Sign, rsa.size), step)),
        Err(end) => {
            rsa.wipe(pair, &slot);
            Err((slot, end))
        }
    }
}

/// After a step: the request of the next one; or how the job ends, with its slot.
pub(crate) fn proceed(
    job: &mut Job,
    step: Step,
    status: Status,
    pair: &mut Pair,
    slot: Slot,
) -> Result<Request, (Slot, Result<Outcome, Fault>)> {
    let (session, operands) = job.parts();
    let Some(rsa) = (session as &dyn Any).downcast_ref::<RsaSession>() else {
        return Err((slot, Err(Fault::failed("a session of another device"))));
    };
    let number = pair.number;
    let end = match (status, step) {
        (Status::Failed(why), _) => Err(Fault::failed(why)),
        (Status::BadTag, _) => Err(Fault::failed("DPDK: a tag, of RSA")),
        (Status::Done, Step::Sign) => match rsa.check(number, &mut pair.room(&slot)) {
            Ok(session) => return Ok(Request::power(slot, session, false, rsa.size)),
            Err(fault) => Err(fault),
        },
        (Status::Done, Step::Check | Step::Verify) => rsa.finish(operands, &mut pair.room(&slot)),
    };
    rsa.wipe(pair, &slot);
    Err((slot, end))
}

/// Whether a modulus has its length and is odd, and is the product of the primes: with other numbers a device would fail, and be
/// left by everybody. No branch and no index depends on a prime.
fn is_sound(key: &RsaKey<'_>) -> bool {
    let [first, .., last] = key.modulus else { return false };
    if first >> 7 == 0 || last & 1 == 0 {
        return false;
    }
    let Some(primes) = key.primes else { return true };
    let half = key.modulus.len() / 2;
    let (p, q) = (&primes[..half], &primes[half..2 * half]);
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

/// Bytes of the longest digest.
const MOST_DIGEST: usize = 64;

/// `EMSA-PKCS1-v1_5` of a digest (RFC 8017, 9.2), whose function its length tells.
fn pad(digest: &[u8], number: &mut [u8]) -> Result<(), Fault> {
    // What stands before a digest in DigestInfo (RFC 8017, 9.2, note 1): 2.16.840.1.101.3.4.2.N, and the lengths.
    let (last, length) = match digest.len() {
        32 => (1, 32),
        48 => (2, 48),
        64 => (3, 64),
        _ => return Err(Fault::Declined("no digest of SHA-256, SHA-384 or SHA-512")),
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
    let ones = front.len() - 1;
    front.fill(0xff);
    (front[0], front[1], front[ones]) = (0, 1, 0);
    end[..info.len()].copy_from_slice(&info);
    end[info.len()..].copy_from_slice(digest);
    Ok(())
}

impl DeviceSession for RsaSession {
    fn run(&self, _operands: Operands<'_>) -> Result<Outcome, Fault> {
        // Core does not call this of a device that is not direct.
        Err(Fault::failed("a cryptodev works through its queues only"))
    }
}

impl Drop for RsaSession {
    fn drop(&mut self) {
        for place in &mut self.sessions {
            if let Some(session) = place.take() {
                self.engine.close(session);
            }
        }
    }
}

#[cfg(test)]
mod tests;
