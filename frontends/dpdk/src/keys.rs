//! Keys: the transforms of a session of DPDK, as sessions of the framework.

use gantry::driver::Class;
use gantry::{Algorithm, Direction, Gantry, Kind, Misuse, Operation, Session, SessionParams};

use crate::framework::serves;

/// Why there are no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No device serves it, or the transforms do not go together.
    Unsupported,
    /// A length is one that the algorithm does not have.
    Wrong,
}

/// A transform as DPDK has it.
pub(crate) struct Transform<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: &'a [u8],
    /// Bytes of the IV.
    pub(crate) iv: usize,
    /// Bytes of the tag, MAC or digest; 0 for ciphers.
    pub(crate) tag: usize,
    /// Decrypt or verify.
    pub(crate) backward: bool,
}

/// What is done with an operation, or with a part of it.
pub(crate) struct Step {
    pub(crate) session: Session,
    pub(crate) operation: Operation,
    /// Of a MAC or digest: it is compared with the one that came.
    pub(crate) verifies: bool,
    /// Bytes of the IV.
    pub(crate) iv: usize,
}

/// The keys of a session of DPDK. The framework zeroizes them when the last session of its own that has them ends.
pub(crate) struct Keys {
    /// In the order in which they are applied.
    pub(crate) steps: Vec<Step>,
    /// Both at once: encrypt-then-authenticate, of `aad ‖ iv ‖ ciphertext`; if a burst would go to a device beside the CPU, which
    /// then moves the data once. On the CPU two steps are faster (`lab/notebook/engines.md`).
    pub(crate) joint: Option<Step>,
}

/// The IV of the joint algorithms.
const JOINT_IV: usize = 16;

impl Keys {
    /// The keys of one transform, or of a cipher and a MAC in either order.
    pub(crate) fn new(gantry: &Gantry, transforms: &[Transform<'_>]) -> Result<Self, Refused> {
        let steps: Result<Vec<Step>, Refused> =
            transforms.iter().map(|transform| Step::new(gantry, params(transform), transform)).collect();
        let joint = match transforms {
            [cipher, mac] if !cipher.backward && !mac.backward => joint(gantry, cipher, mac),
            [mac, cipher] if cipher.backward && mac.backward => joint(gantry, cipher, mac),
            _ => None,
        };
        Ok(Self { steps: steps?, joint: joint.filter(|step| leaves_cpu(gantry, step)) })
    }

    /// A step of an operation, in the order in which they are done.
    #[inline]
    pub(crate) fn step(&self, joint: bool, number: usize) -> Option<&Step> {
        match &self.joint {
            Some(step) if joint => (number == 0).then_some(step),
            _ => self.steps.get(number),
        }
    }

    /// Whether plaintext is there before the MAC is verified.
    #[inline]
    pub(crate) fn reveals(&self) -> bool {
        self.steps[0].operation == Operation::Decrypt
    }
}

fn params(transform: &Transform<'_>) -> SessionParams {
    let params = SessionParams::new(transform.algorithm, transform.key);
    let params = if transform.algorithm.kind() == Kind::Cipher { params } else { params.tag_len(transform.tag) };
    match transform.algorithm.kind() {
        // A MAC is computed to verify it.
        Kind::Mac | Kind::Digest => params,
        _ if transform.backward => params.direction(Direction::Decrypt),
        _ => params.direction(Direction::Encrypt),
    }
}

/// Both transforms as one, where the framework has that and a device serves it.
fn joint(gantry: &Gantry, cipher: &Transform<'_>, mac: &Transform<'_>) -> Option<Step> {
    let digest = mac.algorithm.info().digest?;
    let is_joint = |algorithm: &&Algorithm| {
        let info = algorithm.info();
        let parts = (info.kind, info.cipher, info.digest);
        parts == (Kind::Aead, Some(cipher.algorithm), Some(digest)) && info.iv.allows(JOINT_IV)
    };
    let algorithm = *Algorithm::ALL.iter().find(is_joint).filter(|algorithm| serves(gantry, **algorithm))?;
    let transform = Transform { algorithm, tag: mac.tag, ..*cipher };
    Step::new(gantry, params(&transform).mac_key(mac.key), &transform).ok()
}

/// Whether a burst of packets would go to a device that is not the CPU.
fn leaves_cpu(gantry: &Gantry, step: &Step) -> bool {
    let route = step.session.route(step.operation, 1500, 32);
    route.is_some_and(|route| !matches!(gantry.devices()[route.device].class(), Class::Software | Class::Simd))
}

impl Step {
    fn new(gantry: &Gantry, params: SessionParams, transform: &Transform<'_>) -> Result<Self, Refused> {
        let (operation, verifies) = match (transform.algorithm.kind(), transform.backward) {
            (Kind::Cipher, false) => (Operation::Encrypt, false),
            (Kind::Cipher, true) => (Operation::Decrypt, false),
            (Kind::Aead, false) => (Operation::Seal, false),
            (Kind::Aead, true) => (Operation::Open, false),
            (Kind::Mac, backward) => (Operation::Mac, backward),
            (Kind::Digest, backward) => (Operation::Digest, backward),
            _ => return Err(Refused::Unsupported),
        };
        if !transform.algorithm.info().iv.allows(transform.iv) {
            return Err(Refused::Wrong);
        }
        let session = gantry.session(params).map_err(|error| match error {
            gantry::Error::Misuse(
                Misuse::KeyLength { .. }
                | Misuse::MacKeyLength { .. }
                | Misuse::TagLength { .. }
                | Misuse::XtsKeyHalves { .. },
            ) => Refused::Wrong,
            _ => Refused::Unsupported,
        })?;
        // The first operation of a burst should not wait for a known-answer test.
        session.prepare(operation, 1024).map_err(|_| Refused::Unsupported)?;
        Ok(Self { session, operation, verifies, iv: transform.iv })
    }
}
