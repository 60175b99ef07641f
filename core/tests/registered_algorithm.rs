//! A driver with an algorithm of its own, which works like the algorithms of the table.

use std::sync::Arc;

use gantry_core::driver::{
    Answer, Capability, Class, Device, DeviceInfo, DeviceSession, DigestStream, Driver, Found, Operands, Refusal,
    Unsupported,
};
use gantry_core::{
    Algorithm, AlgorithmInfo, Error, Fault, Gantry, Kind, Lengths, Misuse, Operation, Outcome, QueueOptions, Request,
    SessionParams, Submission,
};

/// Computes a sum of bytes, keyed with four bytes. A toy instead of a MAC.
fn sum(key: &[u8], message: &[u8]) -> [u8; 4] {
    let mut sum: [u8; 4] = key.try_into().unwrap();
    message.iter().enumerate().for_each(|(at, byte)| sum[at % 4] = sum[at % 4].wrapping_add(*byte));
    sum
}

/// The driver of the algorithm. `wrong`: its device computes wrong results.
struct SumDriver {
    wrong: bool,
}

// ANCHOR: algorithm
fn algorithm() -> Algorithm {
    let info = AlgorithmInfo {
        aliases: &["sum(4)"],
        key: Lengths::exactly(4),
        tag: Lengths::exactly(4),
        source: "core/tests/registered_algorithm.rs",
        ..AlgorithmInfo::new("sum-32", Kind::Mac)
    };
    let answer = Answer { key: &[1, 2, 3, 4], input: b"abcde", output: &[0xc7, 0x64, 0x66, 0x68], ..Answer::default() };
    Algorithm::register(info, &[answer]).unwrap()
}
// ANCHOR_END: algorithm

impl Driver for SumDriver {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn discover(&self) -> Vec<Found> {
        let capability = Capability { streaming: true, ..Capability::new(algorithm()) };
        let info = DeviceInfo { capabilities: vec![capability], ..DeviceInfo::new("sum", Class::Hardware) };
        vec![Found::Device(Arc::new(SumDevice { info, wrong: self.wrong }))]
    }
}

struct SumDevice {
    info: DeviceInfo,
    wrong: bool,
}

impl Device for SumDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(Sum { key: params.key().to_vec(), wrong: self.wrong }))
    }
}

struct Sum {
    key: Vec<u8>,
    wrong: bool,
}

impl DeviceSession for Sum {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Mac { input, output, .. } = operands else {
            return Err(Fault::failed("only sums are supported"));
        };
        output.copy_from_slice(&sum(&self.key, input));
        output[0] ^= u8::from(self.wrong);
        Ok(Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(Adding { start: self.key.clone(), so_far: Vec::new() }))
    }
}

#[derive(Clone)]
struct Adding {
    start: Vec<u8>,
    so_far: Vec<u8>,
}

impl DigestStream for Adding {
    fn operation(&self) -> Operation {
        Operation::Mac
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        self.so_far.extend_from_slice(input);
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        output.copy_from_slice(&sum(&self.start, &std::mem::take(&mut self.so_far)));
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(self.clone())
    }
}

fn gantry(wrong: bool) -> Gantry {
    Gantry::builder().driver(&SumDriver { wrong }).build()
}

#[test]
fn sessions_batches_queues_and_streams_serve_a_registered_algorithm() {
    let gantry = gantry(false);
    // The name and the alias work like any other.
    let sum_32: Algorithm = "SUM-32".parse().unwrap();
    assert_eq!(Algorithm::matching("sum(4)"), Ok(vec![sum_32]));
    assert!(Algorithm::all().any(|algorithm| algorithm == sum_32));
    let (key, message) = ([5, 6, 7, 8], b"a message of some length");
    let must = sum(&key, message);
    let session = gantry.session(SessionParams::new(sum_32, &key)).unwrap();
    let mut alone = [0; 4];
    session.mac(message, &mut alone).unwrap();
    session.verify(message, &must).unwrap();
    let mut together = [[0; 4]; 5];
    let mut requests: Vec<Request<'_>> = together.iter_mut().map(|output| Request::mac(message, output)).collect();
    session.process(&mut requests).unwrap();
    drop(requests);
    let mut stream = session.stream(1).unwrap();
    let mut pieces = [0; 4];
    message.chunks(7).for_each(|piece| stream.update(piece).unwrap());
    stream.finish(&mut pieces).unwrap();
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    queue.submit(&session, Submission::mac(message.to_vec())).unwrap();
    let mut queued = Vec::new();
    while queued.is_empty() {
        queue.wait(|completion| queued = completion.submission.tag().to_vec());
    }
    assert_eq!((alone, together, pieces, &queued[..]), (must, [must; 5], must, &must[..]));

    let stats = gantry.stats();
    let row = stats.rows.iter().find(|row| row.algorithm == sum_32).expect("the algorithm has a row");
    assert_eq!((row.operation, row.device.as_ref().map(|(name, _)| &**name)), (Operation::Mac, Some("sum")));
    gantry.calibrate(sum_32, Operation::Mac, true);
    assert!(gantry.devices()[0].costs(sum_32, Operation::Mac).is_some_and(gantry_core::route::Costs::is_known));
}

#[test]
fn checks_the_lengths_of_a_registered_algorithm() {
    let (gantry, sum_32) = (gantry(false), algorithm());
    let short = gantry.session(SessionParams::new(sum_32, &[1])).err();
    assert_eq!(short.unwrap().to_string(), "sum-32: a key of 1 bytes; it takes 4");
    let session = gantry.session(SessionParams::new(sum_32, &[1; 4])).unwrap();
    let wrong = session.mac(b"", &mut [0; 5]);
    assert!(matches!(wrong, Err(Error::Misuse(Misuse::OutputLength { got: 5, needs: 4, .. }))));
    assert!(matches!(session.encrypt(&[], &mut [0; 4]), Err(Error::Misuse(Misuse::Operation { .. }))));
}

#[test]
fn a_device_with_wrong_known_answers_serves_no_requests() {
    let gantry = gantry(true);
    let session = gantry.session(SessionParams::new(algorithm(), &[1; 4])).unwrap();
    let error = session.mac(b"", &mut [0; 4]).unwrap_err().to_string();
    assert!(error.contains("sum-32") && error.contains("a wrong result"), "{error}");
}
