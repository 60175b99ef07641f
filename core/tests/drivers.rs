//! What drivers may do with the requests that they are given, in safe code, and what comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gantry_core::driver::*;
use gantry_core::{Algorithm, Fault, Gantry, Outcome, Request, SessionParams};

/// Of the requests of these tests; no known answer has this length.
const LENGTH: usize = 5;

/// A device of the NULL cipher whose queue pairs treat a batch as a test says.
#[derive(Clone)]
struct Odd {
    info: DeviceInfo,
    submit: fn(&mut Batch<'_>, &mut Vec<Job>),
    /// Requests that went through the queue pairs, known answers apart.
    served: Arc<AtomicUsize>,
}

impl Odd {
    fn new(submit: fn(&mut Batch<'_>, &mut Vec<Job>)) -> Self {
        let capability = Capability { direct: false, ..Capability::new(Algorithm::Null) };
        let info = DeviceInfo { capabilities: vec![capability], ..DeviceInfo::new("odd", Class::Model) };
        Self { info, submit, served: Arc::default() }
    }
}

impl Driver for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(self.clone()))]
    }
}

impl Device for Odd {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(Copies))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(Pair { device: self.clone(), kept: Vec::new() })))
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
    device: Odd,
    kept: Vec<Job>,
}

impl QueuePair for Pair {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        (self.device.submit)(batch, &mut self.kept);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        for mut job in self.kept.drain(..) {
            if job.operands().bytes() == LENGTH {
                self.device.served.fetch_add(1, Ordering::Relaxed);
            }
            let result = job.run_direct();
            done.complete(job, result);
        }
        0
    }
}

/// Runs three requests, and says how each ended; what is done has its result.
fn run(device: &Odd) -> [Option<Outcome>; 3] {
    let gantry = Gantry::builder().driver(device).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
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
fn one_that_was_finished_as_an_offer_and_then_taken_is_back_when_its_job_is() {
    let well: fn(&mut Batch<'_>, &mut Vec<Job>) = |batch, kept| {
        batch.offers().iter_mut().for_each(|offer| offer.finish(Ok(Outcome::Done)));
        kept.extend(std::iter::from_fn(|| batch.take()));
    };
    let badly: fn(&mut Batch<'_>, &mut Vec<Job>) = |batch, kept| {
        batch.offers().iter_mut().for_each(|offer| offer.finish(Err(Fault::Lost)));
        kept.extend(std::iter::from_fn(|| batch.take()));
    };
    for submit in [well, badly] {
        let device = Odd::new(submit);
        assert_eq!(run(&device), [Some(Outcome::Done); 3]);
        assert_eq!(device.served.load(Ordering::Relaxed), 3, "what the job said holds");
    }
}

#[test]
fn what_was_finished_as_an_offer_and_not_accepted_is_offered_again() {
    let device = Odd::new(|batch, kept| {
        // The last ones stay, and know nothing of what was said of them.
        batch.offers().iter_mut().for_each(|offer| offer.finish(Ok(Outcome::BadTag)));
        kept.extend(batch.take());
    });
    assert_eq!(run(&device), [Some(Outcome::Done); 3]);
    assert_eq!(device.served.load(Ordering::Relaxed), 3);
}

#[test]
fn offers_may_be_accepted_in_any_order_and_more_than_there_are() {
    let device = Odd::new(|batch, _| {
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
