//! Drivers with bugs beyond a device's normal faults: core stays sound, and no caller gets a wrong result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gantry_core::driver::*;
use gantry_core::{Algorithm, DeviceState, Error, Fault, Gantry, Operation, Outcome, Request, SessionParams};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// The jobs of all queue pairs, and a flag that is set once a job was completed through another batch.
#[derive(Default)]
struct Shared {
    jobs: Mutex<Vec<Job>>,
    swapped: AtomicBool,
}

struct BuggyDevice {
    info: DeviceInfo,
    shared: Arc<Shared>,
}

impl BuggyDevice {
    fn gantry(shared: &Arc<Shared>) -> Gantry {
        struct BuggyDriver(Arc<Shared>);
        impl Driver for BuggyDriver {
            fn name(&self) -> &'static str {
                "careless"
            }
            fn discover(&self) -> Vec<Found> {
                let capabilities = vec![Capability { streaming: true, ..Capability::new(Algorithm::Null) }];
                let info = DeviceInfo { capabilities, ..DeviceInfo::new("careless", Class::Model) };
                vec![Found::Device(Arc::new(BuggyDevice { info, shared: self.0.clone() }))]
            }
        }
        Gantry::builder().driver(&BuggyDriver(shared.clone())).build()
    }
}

impl Device for BuggyDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(Identity))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(Mixer(self.shared.clone()))))
    }
}

struct Identity;

impl DeviceSession for Identity {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        if let Operands::Cipher { data: Buffers::Separate { input, output }, .. } = operands {
            output.copy_from_slice(input);
        }
        Ok(Outcome::Done)
    }

    fn cipher_stream(&self, _: Operation, _: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        Ok(Box::new(Breaking))
    }
}

/// Fails at a chunk of `LENGTH` bytes.
struct Breaking;

impl CipherStream for Breaking {
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        if data.len() == LENGTH { Err(Fault::failed("a cable")) } else { Ok(()) }
    }

    fn duplicate(&self) -> Box<dyn CipherStream> {
        Box::new(Breaking)
    }
}

/// Completes, through its own batch, a job of another batch. Keeps its own job until after that.
struct Mixer(Arc<Shared>);

impl QueuePair for Mixer {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        while let Some(mut job) = batch.take() {
            if job.operands().bytes() != LENGTH {
                let result = job.run_direct();
                batch.complete(job, result);
                continue;
            }
            let other = {
                let mut jobs = self.0.jobs.lock().unwrap();
                let other = jobs.pop();
                jobs.push(job);
                other
            };
            if let Some(other) = other {
                batch.complete(other, Ok(Outcome::Done));
                self.0.swapped.store(true, Ordering::Release);
            }
        }
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        let mut jobs = self.0.jobs.lock().unwrap();
        if self.0.swapped.load(Ordering::Acquire)
            && let Some(job) = jobs.pop()
        {
            done.complete(job, Ok(Outcome::Done));
        }
        jobs.len()
    }
}

#[test]
fn a_batch_does_not_complete_with_the_job_of_another_one() {
    let shared = Arc::new(Shared::default());
    let session = BuggyDevice::gantry(&shared).session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    // During its known-answer test, a device does not get requests through a queue pair.
    session.prepare(Operation::Encrypt, LENGTH).unwrap();
    let run = || {
        let mut data = [0; LENGTH];
        let mut requests = [Request::encrypt(&[], &mut data)];
        session.process(&mut requests).unwrap();
        assert_eq!(requests[0].outcome(), Some(Outcome::Done));
    };
    std::thread::scope(|scope| {
        scope.spawn(run);
        scope.spawn(run);
    });
    assert!(shared.jobs.lock().unwrap().is_empty(), "no caller returned while a device had its request");
}

#[test]
fn a_stream_that_lost_a_chunk_closes_and_quarantines_its_device() {
    let gantry = BuggyDevice::gantry(&Arc::default());
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let mut stream = session.cipher_stream(Operation::Encrypt, &[]).unwrap();
    stream.update(&mut [0; 3]).unwrap();
    let lost = |last| Err(Error::Device { algorithm: Algorithm::Null, last });
    assert_eq!(stream.update(&mut [0; LENGTH]), lost(Fault::failed("a cable")));
    assert_eq!(stream.update(&mut [0; 3]), lost(Fault::Lost), "a later chunk would not continue the message");
    assert_eq!(stream.clone().update(&mut [0; 3]), lost(Fault::Lost));
    assert_eq!(gantry.devices()[0].state(), DeviceState::Quarantined);
}
