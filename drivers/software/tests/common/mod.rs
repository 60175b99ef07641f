//! What the tests share: a framework with the software device only, and requests for any algorithm.

use gantry::{Algorithm, Gantry, Operation, Request, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

pub fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// Every algorithm that the device offers.
pub fn offered(gantry: &Gantry) -> impl Iterator<Item = Algorithm> {
    gantry.devices()[0].capabilities().iter().map(|capability| capability.algorithm)
}

/// Bytes that are no pattern, and the same each time.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A session with keys of the usual length.
pub fn session(gantry: &Gantry, algorithm: Algorithm) -> Session {
    let info = algorithm.info();
    let usual = |min: usize, max: usize| if max == usize::MAX { 20 } else { min };
    let key = bytes(usual(info.key.min, info.key.max), algorithm as u64);
    let mac_key = bytes(usual(info.mac_key.min, info.mac_key.max), 1000 + algorithm as u64);
    gantry.session(SessionParams::new(algorithm, &key).mac_key(&mac_key)).unwrap()
}

/// Operands without the buffers that are written.
pub struct Case {
    pub iv: Vec<u8>,
    pub aad: Vec<u8>,
    pub input: Vec<u8>,
}

impl Case {
    /// About `len` bytes of data: as many as the algorithm can have.
    pub fn new(algorithm: Algorithm, len: usize) -> Self {
        let info = algorithm.info();
        let len = match algorithm.kind() {
            gantry::Kind::Digest | gantry::Kind::Mac => len,
            _ => (len / info.block * info.block).max(info.min_data),
        };
        let iv = bytes(if info.iv.allows(12) { 12 } else { info.iv.min }, 7);
        Self { iv, aad: bytes(len % 37, 8), input: bytes(len, 9) }
    }

    /// One request on `output`, which holds its input if it is `in_place`.
    pub fn request<'a>(&'a self, operation: Operation, output: &'a mut [u8], tag: &'a mut [u8]) -> Request<'a> {
        match operation {
            Operation::Digest => Request::digest(&self.input, output),
            Operation::Mac => Request::mac_with_iv(&self.iv, &self.input, output),
            Operation::Encrypt => Request::encrypt(&self.iv, output),
            Operation::Decrypt => Request::decrypt(&self.iv, output),
            Operation::Seal => Request::seal(&self.iv, &self.aad, output, tag),
            Operation::Open => Request::open(&self.iv, &self.aad, output, tag),
        }
    }

    /// The result of the forward operation: data (or digest or MAC), and tag.
    pub fn forward(&self, session: &Session) -> (Vec<u8>, Vec<u8>) {
        let operation = session.params().algorithm().kind().operations()[0];
        let size = session.params().tag_length();
        match operation {
            Operation::Digest | Operation::Mac => {
                let mut output = vec![0; size];
                let operands = match operation {
                    Operation::Digest => gantry::driver::Operands::Digest { input: &self.input, output: &mut output },
                    _ => gantry::driver::Operands::Mac { iv: &self.iv, input: &self.input, output: &mut output },
                };
                session.run(operands).unwrap().ok().unwrap();
                (output, Vec::new())
            }
            Operation::Encrypt => {
                let mut output = self.input.clone();
                session.encrypt(&self.iv, &mut output).unwrap();
                (output, Vec::new())
            }
            _ => {
                let (mut output, mut tag) = (self.input.clone(), vec![0; size]);
                session.seal(&self.iv, &self.aad, &mut output, &mut tag).unwrap();
                (output, tag)
            }
        }
    }
}
