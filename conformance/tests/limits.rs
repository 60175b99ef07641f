//! Limits on the data under one nonce. Core counts the bytes of all pieces of a message, so no device gets more.

use std::sync::Arc;

use gantry_core::driver::{
    AeadStream, Buffers, CipherStream, Device, DeviceInfo, DeviceSession, Driver, Found, Operands,
};
use gantry_core::{
    Algorithm, DeviceState, Error, Fault, Gantry, Operation, Outcome, Refusal, SessionParams, Unsupported,
};
use gantry_driver_software::SoftwareDriver;

/// The length of a piece in bytes. The pages are never touched, so they take no memory.
const HUGE: usize = 256 << 20;

/// The software device, with streams that skip pieces of 1 MiB and more.
struct SkippingDriver(Arc<dyn Device>);
struct SkippingSession(Arc<dyn DeviceSession>);
struct SkippingStream<S: ?Sized>(Box<S>);

impl Driver for SkippingDriver {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(SkippingDriver(self.0.clone())))]
    }
}

impl Device for SkippingDriver {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(SkippingSession(self.0.open(params)?)))
    }
}

impl DeviceSession for SkippingSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.run(operands)
    }

    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        Ok(Box::new(SkippingStream(self.0.cipher_stream(operation, iv)?)))
    }

    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        Ok(Box::new(SkippingStream(self.0.aead_stream(operation)?)))
    }
}

impl CipherStream for SkippingStream<dyn CipherStream> {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        if data.len() < 1 << 20 { self.0.update(data) } else { Ok(()) }
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(SkippingStream(self.0.duplicate()))
    }
}

impl AeadStream for SkippingStream<dyn AeadStream> {
    fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<(), Fault> {
        self.0.begin(iv, aad)
    }

    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        if data.len() < 1 << 20 { self.0.update(data) } else { Ok(()) }
    }

    fn seal(&mut self, tag: &mut [u8]) -> Result<(), Fault> {
        self.0.seal(tag)
    }

    fn open(&mut self, tag: &[u8]) -> Result<Outcome, Fault> {
        self.0.open(tag)
    }

    fn duplicate(&self) -> Box<dyn AeadStream> {
        Box::new(SkippingStream(self.0.duplicate()))
    }
}

fn gantry() -> Gantry {
    let Some(Found::Device(software)) = SoftwareDriver.discover().pop() else { panic!("there is always software") };
    Gantry::builder().driver(&SkippingDriver(software)).build()
}

/// Feeds `bytes` bytes.
fn feed(bytes: u64, mut update: impl FnMut(&mut [u8]) -> gantry_core::Result<()>) {
    let mut piece = vec![0; HUGE];
    for _ in 0..bytes / HUGE as u64 {
        update(&mut piece).unwrap();
    }
    update(&mut piece[..(bytes % HUGE as u64) as usize]).unwrap();
}

fn is_too_long(result: &gantry_core::Result<()>) -> bool {
    matches!(result, Err(Error::Refused(Outcome::BadLength)))
}

#[test]
fn an_aead_message_is_limited_to_the_data_of_one_nonce() {
    let gantry = gantry();
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::ChaCha20Poly1305] {
        let max = algorithm.info().max_data;
        let session = gantry.session(SessionParams::new(algorithm, &[7; 32][..algorithm.info().key.max])).unwrap();
        let mut stream = session.aead_stream(Operation::Seal).unwrap();
        stream.begin(&[1; 12], b"").unwrap();
        feed(max - 100, |data| stream.update(data));
        let mut copy = stream.clone();
        for stream in [&mut stream, &mut copy] {
            assert!(is_too_long(&stream.update(&mut [0; 101])), "{algorithm}");
            stream.update(&mut [0; 99]).expect("refused data do not count");
            stream.update(&mut [0]).unwrap();
            assert!(is_too_long(&stream.update(&mut [0])), "{algorithm}");
            stream.update(&mut []).unwrap();
            stream.seal(&mut [0; 16]).expect("the message is as long as it may be");
            // The next message starts from zero.
            stream.begin_with(&[2; 12], b"", &mut [0; 1000]).unwrap();
            stream.seal(&mut [0; 16]).unwrap();
        }
        stream.begin_with(&[3; 12], b"", &mut vec![0; HUGE]).unwrap();
        feed(max - HUGE as u64, |data| stream.update(data));
        assert!(is_too_long(&stream.update(&mut [0])), "the first piece counts, too");
    }
    assert!(gantry.devices().iter().all(|device| device.state() == DeviceState::Ready), "no device is quarantined");
}

#[test]
fn a_cipher_stream_is_limited_by_its_counter() {
    let algorithm = Algorithm::ChaCha20;
    let session = gantry().session(SessionParams::new(algorithm, &[7; 32])).unwrap();
    let mut stream = session.cipher_stream(Operation::Encrypt, &[0; 16]).unwrap();
    feed(algorithm.info().max_data - 64, |data| stream.update(data));
    let mut copy = stream.clone();
    for stream in [&mut stream, &mut copy] {
        assert!(is_too_long(&stream.update(&mut [0; 65])));
        stream.update(&mut [0; 64]).unwrap();
        assert!(is_too_long(&stream.update(&mut [0])));
    }
}
