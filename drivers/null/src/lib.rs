//! The null device: the NULL cipher of RFC 2410, which returns the plaintext as ciphertext.
//!
//! It does no work, so the time of a request is the overhead of dispatch. It is also the example for driver authors: a complete
//! driver in one file, with everything that the contract in [`gantry_core::driver`] requires.

#![forbid(unsafe_code)]

use std::sync::Arc;

use gantry_core::driver::{
    Buffers, Capability, CipherStream, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal,
    Unsupported,
};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams};

// ANCHOR: driver
/// Discovers the null device, which every machine has.
#[derive(Debug, Default)]
pub struct NullDriver;

impl Driver for NullDriver {
    fn name(&self) -> &'static str {
        "null"
    }

    fn discover(&self) -> Vec<Found> {
        let info = DeviceInfo {
            description: "the NULL cipher: no confidentiality, no work".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities: vec![Capability { streaming: true, ..Capability::new(Algorithm::Null) }],
            ..DeviceInfo::new("null", Class::Model)
        };
        vec![Found::Device(Arc::new(NullDevice { info }))]
    }
}
// ANCHOR_END: driver

// ANCHOR: session
struct NullDevice {
    info: DeviceInfo,
}

impl Device for NullDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    // Core has checked the parameters against the capabilities. There are no keys to prepare.
    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(NullSession))
    }
}

struct NullSession;

impl DeviceSession for NullSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Cipher { data, .. } => {
                copy(data);
                Ok(Outcome::Done)
            }
            _ => Err(Fault::failed("the null device supports only ciphers")),
        }
    }

    fn cipher_stream(&self, _operation: Operation, _iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        Ok(Box::new(NullStream))
    }
}
// ANCHOR_END: session

struct NullStream;

impl CipherStream for NullStream {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        copy(data);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(NullStream)
    }
}

fn copy(data: Buffers<'_>) {
    if let Buffers::Separate { input, output } = data {
        output.copy_from_slice(input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_core::{Gantry, Request};

    #[test]
    fn ciphertext_equals_plaintext_through_every_api() {
        let gantry = Gantry::builder().driver(&NullDriver).build();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();

        let mut data = *b"direct";
        session.encrypt(&[], &mut data).unwrap();
        assert_eq!(&data, b"direct");

        let mut outputs = [[0; 5]; 40];
        let mut requests: Vec<Request<'_>> =
            outputs.iter_mut().map(|output| Request::decrypt(&[], (&b"batch"[..], &mut output[..]))).collect();
        session.process(&mut requests).unwrap();
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        assert!(outputs.iter().all(|output| output == b"batch"));

        let mut stream = session.cipher_stream(Operation::Encrypt, &[]).unwrap();
        let mut output = [0; 6];
        stream.update((&b"stream"[..], &mut output[..])).unwrap();
        assert_eq!(&output, b"stream");
    }
}
