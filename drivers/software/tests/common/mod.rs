//! Helpers of the tests: a framework with only the software device, and requests for any algorithm.

#![allow(dead_code, reason = "each test file uses its own part")]

use gantry_core::{Algorithm, Esp, Gantry, Kind, Operation, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

pub(crate) fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// Returns every offered algorithm, except for key encapsulation, compression, packets and encipherment, which have their own
/// tests.
pub(crate) fn offered(gantry: &Gantry) -> impl Iterator<Item = Algorithm> {
    let algorithms = gantry.devices()[0].capabilities().iter().map(|capability| capability.algorithm);
    let other = |kind| matches!(kind, Kind::Kem | Kind::Compression | Kind::Packet | Kind::Encipherment);
    // `slhdsa.rs` tests SLH-DSA, because its requests take long.
    algorithms.filter(move |algorithm| !other(algorithm.kind()) && !algorithm.is_slh_dsa())
}

/// Returns bytes without a simple pattern, the same each time.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Returns parameters with a key of the usual length.
pub(crate) fn params(algorithm: Algorithm) -> SessionParams {
    let info = algorithm.info();
    let usual = |lengths: gantry_core::Lengths| if lengths.max == usize::MAX { 20 } else { lengths.min };
    let any = bytes(usual(info.key), algorithm as u64);
    let key = gantry_core::sample_key(algorithm).unwrap_or(&any);
    let mac_key = bytes(usual(info.mac_key), 1000 + algorithm as u64);
    let params = SessionParams::new(algorithm, key).with_mac_key(&mac_key);
    if info.kind == Kind::Packet { params.with_esp(Esp { spi: 256, extended: false }) } else { params }
}

/// The operands that a request reads.
pub(crate) struct Case {
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) input: Vec<u8>,
}

impl Case {
    /// Creates a case with about `len` bytes of data, as far as the algorithm allows.
    pub(crate) fn new(algorithm: Algorithm, len: usize) -> Self {
        let info = algorithm.info();
        let len = info.nearest_data_length(len);
        let iv = bytes(if info.iv.allows(12) { 12 } else { info.iv.min }, 7);
        let input = if algorithm == Algorithm::EcdhP256 { info.generator.to_vec() } else { bytes(len, 9) };
        Self { iv, aad: bytes(len % 37, 8), input }
    }

    /// Returns the buffers that the request writes: digest, MAC or data, and tag.
    pub(crate) fn buffers(&self, session: &Session) -> (Vec<u8>, Vec<u8>) {
        let size = session.params().tag_len();
        match session.params().algorithm().kind() {
            Kind::Cipher | Kind::Aead => (self.input.clone(), vec![0; size]),
            _ => (vec![0; size], Vec::new()),
        }
    }

    /// Runs the request directly, in place.
    pub(crate) fn run_direct(
        &self,
        session: &Session,
        operation: Operation,
        output: &mut [u8],
        tag: &mut [u8],
    ) -> gantry_core::Result<()> {
        match operation {
            Operation::Digest => session.digest(&self.input, output),
            Operation::Mac => {
                let operands = gantry_core::driver::Operands::Mac { iv: &self.iv, input: &self.input, output };
                session.run(operands)?.ok()
            }
            Operation::Sign => session.sign(&self.input, output),
            Operation::Verify => session.verify(&self.input, output),
            Operation::Derive => session.derive(&self.input, output),
            Operation::Encrypt => session.encrypt(&self.iv, output),
            Operation::Decrypt => session.decrypt(&self.iv, output),
            Operation::Seal => session.seal(&self.iv, &self.aad, output, tag),
            Operation::Open => session.open(&self.iv, &self.aad, output, tag),
            other => panic!("a case of {other}"),
        }
    }
}
