//! Unusual treatment of requests by drivers in safe code, and its results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gantry_core::driver::*;
use gantry_core::{Algorithm, Fault, Gantry, Outcome, Request, SessionParams};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// A device of the NULL cipher whose queue pairs treat a batch as a test describes.
#[derive(Clone)]
struct BatchDriver {
    info: DeviceInfo,
    submit: fn(&mut Batch<'_>, &mut Vec<Job>),
    /// Requests that went through the queue pairs, without known answers.
    served: Arc<AtomicUsize>,
}

impl BatchDriver {
    fn new(submit: fn(&mut Batch<'_>, &mut Vec<Job>)) -> Self {
        let capability = Capability { synchronous: false, ..Capability::new(Algorithm::Null) };
        let info = DeviceInfo { capabilities: vec![capability], ..DeviceInfo::new("odd", Class::Model) };
        Self { info, submit, served: Arc::default() }
    }
}

impl Driver for BatchDriver {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(self.clone()))]
    }
}

impl Device for BatchDriver {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(Copies))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(Pair { device: self.clone(), jobs: Vec::new() })))
    }
}

struct Copies;

impl DeviceSession for Copies {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        if let Operands::Cipher { data: Buffers::Separate { input, output }, .. } = operands {
            output.copy_from_slice(input);
        }
        Ok(Outcome::Done)
    }
}

struct Pair {
    device: BatchDriver,
    jobs: Vec<Job>,
}

impl QueuePair for Pair {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        (self.device.submit)(batch, &mut self.jobs);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        for mut job in self.jobs.drain(..) {
            if job.operands().bytes() == LENGTH {
                self.device.served.fetch_add(1, Ordering::Relaxed);
            }
            let result = job.run_direct();
            done.complete(job, result);
        }
        0
    }
}

/// Runs three requests and returns their outcomes. Checks the results of those that are done.
fn run(device: &BatchDriver) -> [Option<Outcome>; 3] {
    let gantry = Gantry::builder().driver(device).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    // A single request waits for the known-answer test, however long it takes. A batch would continue one by one.
    let mut output = [0; LENGTH - 1];
    let _ = session.process(&mut [Request::encrypt(&[], (&[7; LENGTH - 1][..], &mut output[..]))]);
    let mut outputs = [[0; LENGTH]; 3];
    let mut requests = outputs.each_mut().map(|output| Request::encrypt(&[], (&[7; LENGTH][..], &mut output[..])));
    let _ = session.process(&mut requests);
    let outcomes = requests.each_ref().map(Request::outcome);
    drop(requests);
    for (output, outcome) in outputs.iter().zip(outcomes) {
        assert!(outcome.is_none() || *output == [7; LENGTH], "{outcome:?} {output:?}");
    }
    outcomes
}

#[test]
fn the_result_of_a_job_replaces_that_of_its_offer() {
    let succeeds: fn(&mut Batch<'_>, &mut Vec<Job>) = |batch, jobs| {
        batch.offers().iter_mut().for_each(|offer| offer.finish(Ok(Outcome::Done)));
        jobs.extend(std::iter::from_fn(|| batch.take()));
    };
    let fails: fn(&mut Batch<'_>, &mut Vec<Job>) = |batch, jobs| {
        batch.offers().iter_mut().for_each(|offer| offer.finish(Err(Fault::Lost)));
        jobs.extend(std::iter::from_fn(|| batch.take()));
    };
    for submit in [succeeds, fails] {
        let device = BatchDriver::new(submit);
        assert_eq!(run(&device), [Some(Outcome::Done); 3]);
        assert_eq!(device.served.load(Ordering::Relaxed), 3, "the result of the job counts");
    }
}

#[test]
fn offers_that_were_finished_but_not_accepted_are_offered_again() {
    let device = BatchDriver::new(|batch, jobs| {
        // The last offers are not accepted, so their result does not count.
        batch.offers().iter_mut().for_each(|offer| offer.finish(Ok(Outcome::BadTag)));
        jobs.extend(batch.take());
    });
    assert_eq!(run(&device), [Some(Outcome::Done); 3]);
    assert_eq!(device.served.load(Ordering::Relaxed), 3);
}

#[test]
fn accepts_offers_in_any_order_and_tolerates_excess_counts() {
    let device = BatchDriver::new(|batch, _| {
        batch.offers().reverse();
        for offer in batch.offers() {
            let (session, operands) = offer.parts();
            let result = session.run(operands);
            offer.finish(result);
        }
        batch.accept(usize::MAX);
        batch.accept(1);
    });
    assert_eq!(run(&device), [Some(Outcome::Done); 3]);
}

#[test]
fn a_batch_runs_on_the_calling_thread_after_requests_that_the_device_keeps() {
    let device = BatchDriver::new(|batch, _| batch.run_direct());
    assert_eq!(run(&device), [Some(Outcome::Done); 3]);
    assert_eq!(device.served.load(Ordering::Relaxed), 0, "none was kept");
    let device = BatchDriver::new(|batch, jobs| {
        jobs.extend(batch.take());
        batch.run_direct();
        batch.run_direct();
    });
    assert_eq!(run(&device), [Some(Outcome::Done); 3]);
    assert_eq!(device.served.load(Ordering::Relaxed), 1);
}
