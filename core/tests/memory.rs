//! Data in segments of regions, and in buffers other than vectors: their treatment by devices, and copies.

mod devices;

use std::any::Any;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use devices::{Action, Script, Scripted};
use gantry_core::driver::*;
use gantry_core::route::Failover;
use gantry_core::stats::Event;
use gantry_core::{
    Algorithm, Completion, Data, Error, Fault, Gantry, IoBuf, Misuse, Outcome, Queue, QueueOptions, RejectReason,
    Session, SessionParams, Submission, VirtualClock,
};
use zeroize::Zeroizing;

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 23;

type Run = Arc<dyn Fn(&mut Job) -> Result<Outcome, Fault> + Send + Sync>;

/// A ring that takes segments within its limits.
#[derive(Clone)]
struct Segmented {
    info: DeviceInfo,
    /// Treatment of requests of `LENGTH` bytes and of segments.
    action: Run,
    /// Number of jobs in segments.
    scattered_jobs: Arc<AtomicUsize>,
}

impl Segmented {
    fn new(limits: DeviceLimits) -> Self {
        let capabilities = vec![Capability { synchronous: false, ..Capability::new(Algorithm::Null) }];
        let info = DeviceInfo { capabilities, limits, ..DeviceInfo::new("segmented", Class::Model) };
        Self { info, action: Arc::new(|job| Ok(identity(job))), scattered_jobs: Arc::default() }
    }

    fn with_actions(mut self, action: impl Fn(&mut Job) -> Result<Outcome, Fault> + Send + Sync + 'static) -> Self {
        self.action = Arc::new(action);
        self
    }

    fn scattered_jobs(&self) -> usize {
        self.scattered_jobs.load(Ordering::Relaxed)
    }
}

/// Runs the NULL cipher over segments or buffers.
fn identity(job: &mut Job) -> Outcome {
    if let Some(Scattered { input, output }) = job.segments() {
        let mut bytes = vec![0; input.bytes()];
        input.read(&mut bytes).unwrap();
        output.write(&bytes).unwrap();
    } else if let Operands::Cipher { data: Buffers::Separate { input, output }, .. } = job.operands() {
        output.copy_from_slice(input);
    }
    Outcome::Done
}

impl Driver for Segmented {
    fn name(&self) -> &'static str {
        "segmented"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(self.clone()))]
    }
}

impl Device for Segmented {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(NoSession))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(Ring { device: self.clone(), jobs: VecDeque::new() })))
    }
}

struct NoSession;

impl DeviceSession for NoSession {
    fn run(&self, _operands: Operands<'_>) -> Result<Outcome, Fault> {
        unreachable!("not a direct device")
    }
}

struct Ring {
    device: Segmented,
    jobs: VecDeque<Job>,
}

impl QueuePair for Ring {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        while let Some(job) = batch.take() {
            self.jobs.push_back(job);
        }
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        while let Some(mut job) = self.jobs.pop_front() {
            let scattered = job.segments().is_some();
            self.device.scattered_jobs.fetch_add(usize::from(scattered), Ordering::Relaxed);
            let ours = scattered || job.operands().bytes() == LENGTH;
            let result = if ours { (self.device.action)(&mut job) } else { Ok(identity(&mut job)) };
            done.complete(job, result);
        }
        0
    }
}

fn gantry(drivers: &[&dyn Driver], order: &[&str]) -> Gantry {
    let order = order.iter().map(|name| (*name).to_owned()).collect();
    // With the real clock, a device would be late in an interpreter.
    let builder = Gantry::builder().policy(Failover { order }).clock(Arc::new(VirtualClock::default()));
    drivers.iter().fold(builder, |builder, driver| builder.driver(*driver)).build()
}

fn open(gantry: &Gantry) -> (Session, Queue) {
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    (session, gantry.queue(QueueOptions::default()).unwrap())
}

fn run(gantry: &Gantry, submission: Submission) -> Completion {
    let (session, mut queue) = open(gantry);
    queue.submit(&session, submission).unwrap();
    finish(&mut queue)
}

fn finish(queue: &mut Queue) -> Completion {
    let mut completions = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(|completion| completions.push(completion));
    }
    assert_eq!(completions.len(), 1);
    completions.remove(0)
}

fn message() -> Vec<u8> {
    (1..=LENGTH as u8).collect()
}

fn copied(gantry: &Gantry) -> u64 {
    gantry.stats().events(Event::Copied)
}

/// Returns `LENGTH` bytes of a region, cut at these ends, with a gap of one byte between pieces.
fn cut(region: &Region, first: usize, ends: &[usize]) -> Segments {
    let mut segments = Segments::new();
    let mut start = 0;
    for (gap, end) in ends.iter().chain(&[LENGTH]).enumerate() {
        segments.push(region.segment(first + start + gap, end - start).unwrap()).unwrap();
        start = *end;
    }
    segments
}

fn trusted() -> Region {
    Region::owned(vec![0xee; 64].into())
}

fn foreign() -> Region {
    let owner: Arc<Vec<AtomicU8>> = Arc::new((0..64).map(|_| AtomicU8::new(0xee)).collect());
    // SAFETY: the bytes belong to the owner and are accessed only through the region.
    unsafe { Region::foreign(NonNull::from(owner.as_slice()).cast(), 64, owner) }
}

fn with_message(segments: Segments) -> Segments {
    segments.write(&message()).unwrap();
    segments
}

fn bytes_of(segments: &Segments) -> Vec<u8> {
    let mut bytes = vec![0; segments.bytes()];
    segments.read(&mut bytes).unwrap();
    bytes
}

/// Returns limits of three segments.
fn taking() -> DeviceLimits {
    DeviceLimits { segments: 3, memory: MemoryKinds { regions: true, foreign: false }, ..DeviceLimits::default() }
}

#[test]
fn segments_that_a_device_does_not_take_are_copied_and_counted() {
    let both = MemoryKinds { regions: true, foreign: true };
    let none = DeviceLimits { segments: 8, ..DeviceLimits::default() };
    let cases = [
        ("as they are", taking(), trusted(), &[3, 3][..], true),
        ("one", DeviceLimits { segments: 1, ..taking() }, trusted(), &[], true),
        ("foreign and taken so", DeviceLimits { memory: both, ..taking() }, foreign(), &[9], true),
        ("no regions", none, trusted(), &[], false),
        ("too many", taking(), trusted(), &[1, 9, 22], false),
        // One piece begins at an odd address, wherever the region is.
        ("not aligned", DeviceLimits { alignment: 2, ..taking() }, trusted(), &[3, 7], false),
        ("foreign", taking(), foreign(), &[], false),
    ];
    for (what, limits, region, ends, taken) in cases {
        let device = Segmented::new(limits);
        let gantry = gantry(&[&device], &["segmented"]);
        let input = with_message(cut(&region, 0, ends));
        let output = cut(&trusted(), 5, &ends.iter().map(|end| LENGTH - end).rev().collect::<Vec<_>>());
        let completion = run(&gantry, Submission::encrypt(&[], input.clone()).into_output(output.clone()));
        assert_eq!(completion.result, Ok(Outcome::Done), "{what}");
        assert_eq!((bytes_of(&output), bytes_of(&input)), (message(), message()), "{what}");
        let expected = if taken { (1, 0) } else { (0, 2 * LENGTH as u64) };
        assert_eq!((device.scattered_jobs(), copied(&gantry)), expected, "{what}");
    }
}

#[test]
fn every_path_writes_the_result_to_its_segments_only() {
    for (way, script) in Script::in_every_way("device").into_iter().enumerate() {
        let gantry = gantry(&[&Scripted::new(script.with_actions(|_| Action::Corrupt))], &["device"]);
        let region = trusted();
        let mut segments = Segments::new();
        for (offset, len) in [(1, 1), (9, 0), (11, 2), (30, 20)] {
            segments.push(region.segment(offset, len).unwrap()).unwrap();
        }
        let completion = run(&gantry, Submission::encrypt(&[], segments.clone()));
        assert_eq!(completion.result, Ok(Outcome::Done));
        assert_eq!((completion.submission.data(), bytes_of(&segments)), (&[][..], vec![0xba; LENGTH]), "way {way}");
        let mut all = [0; 64];
        region.read(0, &mut all).unwrap();
        let changed: Vec<usize> = (0..64).filter(|index| all[*index] != 0xee).collect();
        assert_eq!(changed, [1, 11, 12].into_iter().chain(30..50).collect::<Vec<_>>(), "way {way}");
        assert_eq!(copied(&gantry), 2 * LENGTH as u64, "way {way}");
    }
}

#[test]
fn input_and_output_may_be_of_different_kinds() {
    let device = Segmented::new(taking());
    let gantry = gantry(&[&device], &["segmented"]);
    let segments = cut(&trusted(), 3, &[7]);
    let to_segments = Submission::encrypt(&[], message()).into_output(segments.clone());
    assert_eq!(run(&gantry, to_segments).result, Ok(Outcome::Done));
    assert_eq!((bytes_of(&segments), copied(&gantry)), (message(), LENGTH as u64));
    let to_buffer = Submission::encrypt(&[], segments).into_output(vec![0; LENGTH].into_boxed_slice());
    let completion = run(&gantry, to_buffer);
    assert_eq!((completion.submission.data(), copied(&gantry)), (&*message(), 2 * LENGTH as u64));
    let (data, output) = completion.submission.into_data();
    assert!(matches!((data, output), (Data::Segments(_), Some(Data::Vec(_)))));
    assert_eq!(device.scattered_jobs(), 0);
}

#[test]
fn a_failed_request_writes_nothing_back() {
    for (outcome, fault) in [(Some(Outcome::BadTag), None), (None, Some(Fault::failed("it broke")))] {
        let device = Segmented::new(DeviceLimits::default()).with_actions(move |job| {
            if let Operands::Cipher { mut data, .. } = job.operands() {
                data.output().fill(0xba);
            }
            outcome.ok_or_else(|| fault.clone().unwrap())
        });
        let gantry = gantry(&[&device], &["segmented"]);
        let (input, output) = (with_message(cut(&foreign(), 0, &[4])), cut(&trusted(), 0, &[4]));
        for submission in [
            Submission::encrypt(&[], input.clone()),
            Submission::encrypt(&[], input.clone()).into_output(output.clone()),
        ] {
            let completion = run(&gantry, submission);
            assert_eq!(completion.result.ok(), outcome);
            assert_eq!((bytes_of(&input), bytes_of(&output)), (message(), vec![0xee; LENGTH]));
        }
    }
}

#[test]
fn segments_are_copied_for_the_next_device_after_a_fault() {
    let device = Segmented::new(taking()).with_actions(|_| Err(Fault::failed("it broke")));
    for ring in [None, Some(4)] {
        let good = Scripted::new(Script { ring, ..Script::new("good") });
        let gantry = gantry(&[&device, &good], &["segmented", "good"]);
        let (input, output) = (with_message(cut(&trusted(), 0, &[4])), cut(&trusted(), 0, &[10]));
        let completion = run(&gantry, Submission::encrypt(&[], input).into_output(output.clone()));
        assert_eq!(completion.result, Ok(Outcome::Done));
        assert_eq!(bytes_of(&output), message());
        let stats = gantry.stats();
        let of = |name: &str| {
            let rows = stats.rows.iter().filter(|row| row.device.as_ref().is_some_and(|(device, _)| device == name));
            rows.map(|row| row.events(Event::Copied)).sum::<u64>()
        };
        assert_eq!((of("segmented"), of("good")), (0, 2 * LENGTH as u64));
    }
    assert_eq!(device.scattered_jobs(), 2);
}

#[test]
fn writes_after_the_copy_do_not_change_the_result() {
    let device = Segmented::new(DeviceLimits::default());
    let gantry = gantry(&[&device], &["segmented"]);
    let (session, mut queue) = open(&gantry);
    let region = foreign();
    let (input, output) = (with_message(cut(&region, 1, &[2])), cut(&region, 31, &[20]));
    queue.submit(&session, Submission::encrypt(&[], input).into_output(output.clone())).unwrap();
    queue.flush();
    region.write(0, &[0x99; 64]).unwrap();
    assert_eq!(finish(&mut queue).result, Ok(Outcome::Done));
    assert_eq!(bytes_of(&output), message());
}

#[test]
fn foreign_memory_may_change_while_it_is_copied() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };
    let gantry = gantry(&[&Scripted::new(Script::new("device"))], &["device"]);
    let (region, stop) = (foreign(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while stop.load(Ordering::Relaxed) == 0 {
                round ^= 1;
                region.write(0, &[round; 64]).unwrap();
                std::thread::yield_now();
            }
        });
        for _ in 0..ROUNDS {
            let submission = Submission::encrypt(&[], cut(&region, 3, &[11])).into_output(vec![7; LENGTH]);
            let completion = run(&gantry, submission);
            assert_eq!(completion.result, Ok(Outcome::Done));
            assert!(completion.submission.data().iter().all(|byte| [0, 1, 0xee].contains(byte)));
        }
        stop.store(1, Ordering::Relaxed);
    });
}

/// Segments to be verified are copied once for both runs, so that a concurrent write does not look like a wrong result.
#[test]
#[cfg_attr(miri, ignore = "minutes, and others lend memory in the same way")]
fn segments_are_verified() {
    for (lies, memory) in [(false, trusted()), (true, trusted()), (false, foreign()), (true, foreign())] {
        let segments = with_message(cut(&memory, 0, &[5]));
        let meddled = segments.clone();
        let both = MemoryKinds { regions: true, foreign: true };
        let device = Segmented::new(DeviceLimits { memory: both, ..taking() }).with_actions(move |job| {
            meddled.write(&[7; LENGTH]).unwrap();
            let outcome = identity(job);
            if let (true, Operands::Cipher { mut data, .. }) = (lies, job.operands()) {
                data.output()[LENGTH - 1] ^= 1;
            }
            Ok(outcome)
        });
        let software = Scripted::new(Script { class: Class::Software, ..Script::new("software") });
        let policy = Failover { order: vec!["segmented".into()] };
        let builder = Gantry::builder().policy(policy).verify(1).clock(Arc::new(VirtualClock::default()));
        let gantry = builder.driver(&software).driver(&device).build();
        let completion = run(&gantry, Submission::encrypt(&[], segments.clone()));
        assert_eq!(completion.result, Ok(Outcome::Done));
        assert_eq!(bytes_of(&segments), message(), "lies: {lies}");
        let (verified, mismatched) = (gantry.stats().events(Event::Verified), gantry.stats().events(Event::Mismatched));
        assert_eq!((verified, mismatched, device.scattered_jobs()), (1, u64::from(lies), 0));
    }
}

#[test]
fn a_cancelled_request_drops_its_copies() {
    let device = Scripted::new(Script { ring: Some(1), ..Script::new("device") });
    let gantry = gantry(&[&device], &["device"]);
    let (session, mut queue) = open(&gantry);
    for _ in 0..4 {
        queue.submit(&session, Submission::encrypt(&[], vec![1; LENGTH])).unwrap();
    }
    let (input, output) = (with_message(cut(&trusted(), 0, &[8])), cut(&trusted(), 0, &[]));
    let submission = Submission::encrypt(&[], input.clone()).into_output(output.clone());
    let ticket = queue.submit(&session, submission).unwrap();
    let submission = queue.cancel(ticket).expect("the request waits for room");
    assert_eq!(copied(&gantry), LENGTH as u64, "the request had been copied");
    while queue.in_flight() > 0 {
        queue.wait(|_| {});
    }
    assert_eq!(bytes_of(&output), [0xee; LENGTH]);
    input.write(&[5; LENGTH]).unwrap();
    queue.submit(&session, submission).unwrap();
    assert_eq!(finish(&mut queue).result, Ok(Outcome::Done));
    assert_eq!(bytes_of(&output), [5; LENGTH]);
}

#[test]
fn checks_the_lengths_of_segments() {
    let gantry = gantry(&[&Scripted::new(Script::new("device"))], &["device"]);
    let (session, mut queue) = open(&gantry);
    let input = cut(&trusted(), 0, &[8]);
    for (output, got) in
        [(Data::from(vec![0; LENGTH - 1]), LENGTH - 1), (Data::from(trusted().segment(0, 1).unwrap()), 1)]
    {
        let rejected = queue.submit(&session, Submission::encrypt(&[], input.clone()).into_output(output)).unwrap_err();
        let misuse = Misuse::OutputLength { algorithm: Algorithm::Null, got, needs: LENGTH };
        assert_eq!(rejected.why, RejectReason::Misuse(misuse));
    }
    let rejected = queue.submit(&session, Submission::encrypt(&[1], input)).unwrap_err();
    assert!(matches!(rejected.why, RejectReason::Misuse(Misuse::IvLength { .. })));
    let nothing = run(&gantry, Submission::encrypt(&[], Segments::new()));
    assert_eq!((nothing.result, copied(&gantry)), (Ok(Outcome::Done), 0));

    let mut small = gantry.queue(QueueOptions { bytes: LENGTH, ..QueueOptions::default() }).unwrap();
    small.submit(&session, Submission::encrypt(&[], cut(&trusted(), 0, &[]))).unwrap();
    let rejected = small.submit(&session, Submission::encrypt(&[], trusted().segment(0, 1).unwrap())).unwrap_err();
    assert_eq!(rejected.why, RejectReason::Full, "segments count towards the queue's bytes");
}

/// A buffer that records when it is freed.
struct Recorded(Vec<u8>, Arc<Mutex<Vec<&'static str>>>);

impl IoBuf for Recorded {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.1.lock().unwrap().push("freed");
    }
}

#[test]
fn any_buffer_type_comes_back_with_the_result() {
    let freed: Arc<Mutex<Vec<&str>>> = Arc::default();
    for script in Script::in_every_way("device") {
        let gantry = gantry(&[&Scripted::new(script.with_actions(|_| Action::Corrupt))], &["device"]);
        freed.lock().unwrap().clear();
        let buffer = Data::buffer(Recorded(vec![1; LENGTH], freed.clone()));
        let completion = run(&gantry, Submission::encrypt(&[], buffer));
        assert_eq!((completion.submission.data(), copied(&gantry)), (&[0xba; LENGTH][..], 0));
        let (Data::Buffer(buffer), None) = completion.submission.into_data() else { panic!("a buffer") };
        let buffer = (buffer as Box<dyn Any>).downcast::<Recorded>().expect("the same buffer");
        assert_eq!((&buffer.0[..], freed.lock().unwrap().len()), (&[0xba; LENGTH][..], 0));
        drop(buffer);
        assert_eq!(*freed.lock().unwrap(), ["freed"]);

        let other =
            Submission::encrypt(&[], Zeroizing::new(vec![1; LENGTH])).into_output(Data::buffer(vec![2; LENGTH]));
        assert_eq!(run(&gantry, other).submission.data(), [0xba; LENGTH]);
    }
}

#[test]
fn segments_without_a_device_are_an_error_of_the_request() {
    let device = Segmented::new(taking()).with_actions(Job::run_direct);
    let gantry = gantry(&[&device], &["segmented"]);
    let input = with_message(cut(&trusted(), 0, &[8]));
    let completion = run(&gantry, Submission::encrypt(&[], input.clone()));
    assert!(matches!(completion.result, Err(Error::Unserved { .. })), "{:?}", completion.result);
    assert_eq!(bytes_of(&input), message());
}
