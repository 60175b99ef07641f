//! Messages that arrive in chunks, on a device whose streams succeed, decline or fail as the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use gantry_core::driver::*;
use gantry_core::route::{Ask, Failover, Policy, Route};
use gantry_core::stats::{Event, Reason};
use gantry_core::{
    Algorithm, DeviceState, Error, Fault, Gantry, Operation, Outcome, Request, Session, SessionParams, Unsupported,
    VirtualClock,
};

/// The values of `mood`: the result of all further steps of streams.
const SUCCEEDS: u8 = 0;
const DECLINES: u8 = 1;
const FAILS: u8 = 2;

/// A device of SHA-256.
#[derive(Clone)]
struct ScriptedStream {
    info: DeviceInfo,
    mood: Arc<AtomicU8>,
    /// Has its own type of queue pair.
    queues: bool,
}

impl ScriptedStream {
    fn new(queues: bool) -> Self {
        let capability = Capability { streaming: true, ..Capability::new(Algorithm::Sha256) };
        let info = DeviceInfo { capabilities: vec![capability], ..DeviceInfo::new("moody", Class::Model) };
        Self { info, mood: Arc::default(), queues }
    }
}

impl Driver for ScriptedStream {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(self.clone()))]
    }
}

impl Device for ScriptedStream {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(self.clone()))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(if self.queues { Box::new(InThread(Inline)) } else { Box::new(Inline) }))
    }
}

/// Completes all jobs at once.
struct InThread(Inline);

impl QueuePair for InThread {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        self.0.submit(batch);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        self.0.poll(done)
    }
}

impl DeviceSession for ScriptedStream {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        if let Operands::Digest { input, output } = operands {
            output.copy_from_slice(&sha256(input));
        }
        Ok(Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(Pieces { mood: self.mood.clone(), message: Vec::new() }))
    }
}

/// Collects the message.
struct Pieces {
    mood: Arc<AtomicU8>,
    message: Vec<u8>,
}

impl Pieces {
    fn step(&self) -> Result<(), Fault> {
        match self.mood.load(Ordering::Relaxed) {
            DECLINES => Err(Fault::Declined("not this piece")),
            FAILS => Err(Fault::failed("it broke")),
            _ => Ok(()),
        }
    }
}

impl DigestStream for Pieces {
    fn operation(&self) -> Operation {
        Operation::Digest
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        self.message.extend(input);
        self.step()
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        output.copy_from_slice(&sha256(&std::mem::take(&mut self.message)));
        self.step()
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(Pieces { mood: self.mood.clone(), message: self.message.clone() })
    }
}

#[allow(clippy::cast_sign_loss, reason = "bits of a positive number")]
fn sha256(message: &[u8]) -> [u8; 32] {
    // The first bits of the fractional parts of the cube roots of the first primes.
    let primes: Vec<u32> = (2..312).filter(|n| (2..*n).all(|divisor| n % divisor != 0)).collect();
    let behind_the_point = |root: f64| (root.fract() * 4_294_967_296.0) as u32;
    let constants: Vec<u32> = primes.iter().map(|prime| behind_the_point(f64::from(*prime).cbrt())).collect();
    let mut state: Vec<u32> = primes[..8].iter().map(|prime| behind_the_point(f64::from(*prime).sqrt())).collect();
    let mut padded = [message, &[0x80]].concat();
    padded.resize((message.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let mut words: Vec<u32> =
            block.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        let mix = |x: u32, a, b, c: u32| x.rotate_right(a) ^ x.rotate_right(b) ^ (x >> c);
        for n in 16..64 {
            let (older, newer) = (mix(words[n - 15], 7, 18, 3), mix(words[n - 2], 17, 19, 10));
            words.push(words[n - 16].wrapping_add(older).wrapping_add(words[n - 7]).wrapping_add(newer));
        }
        let mut s = state.clone();
        for (word, constant) in words.iter().zip(&constants) {
            let turn = |x: u32, a, b, c| x.rotate_right(a) ^ x.rotate_right(b) ^ x.rotate_right(c);
            let choice = (s[4] & s[5]) ^ (!s[4] & s[6]);
            let one = [turn(s[4], 6, 11, 25), choice, *constant, *word].into_iter().fold(s[7], u32::wrapping_add);
            let majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
            let other = turn(s[0], 2, 13, 22).wrapping_add(majority);
            s.rotate_right(1);
            s[4] = s[4].wrapping_add(one);
            s[0] = one.wrapping_add(other);
        }
        state.iter_mut().zip(s).for_each(|(sum, s)| *sum = sum.wrapping_add(s));
    }
    let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.try_into().unwrap()
}

fn session(device: &ScriptedStream) -> Session {
    let policy = Failover { order: vec!["moody".into()] };
    let gantry = Gantry::builder().policy(policy).clock(Arc::new(VirtualClock::default())).driver(device).build();
    gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap()
}

fn state(session: &Session) -> DeviceState {
    session.gantry().devices()[0].state()
}

#[test]
fn a_declined_step_ends_the_message_without_quarantine() {
    let device = ScriptedStream::new(false);
    let session = session(&device);
    let (mut stream, mut other) = (session.stream(1).unwrap(), session.stream(1).unwrap());
    stream.update(b"abc").unwrap();
    device.mood.store(DECLINES, Ordering::Relaxed);
    let declined = Error::Device { algorithm: Algorithm::Sha256, last: Fault::Declined("not this piece") };
    assert_eq!(stream.update(b"abc"), Err(declined));
    device.mood.store(SUCCEEDS, Ordering::Relaxed);
    assert_eq!(state(&session), DeviceState::Ready);
    let mut digest = [0; 32];
    let lost = Error::Device { algorithm: Algorithm::Sha256, last: Fault::Lost };
    assert_eq!(stream.finish(&mut digest), Err(lost), "a chunk is missing");
    other.update(b"abc").unwrap();
    other.finish(&mut digest).unwrap();
    assert_eq!(digest, sha256(b"abc"));
    let stats = session.gantry().stats();
    let [declined, faults, quarantined] =
        [Event::Declined, Event::Fault, Event::Quarantined].map(|event| stats.events(event));
    assert_eq!((declined, faults, quarantined), (1, 0, 0));

    device.mood.store(FAILS, Ordering::Relaxed);
    assert!(other.update(b"abc").is_err());
    assert_eq!(state(&session), DeviceState::Quarantined, "a fault quarantines");
}

#[test]
fn a_declined_step_in_a_batch_ends_only_its_message() {
    for queues in [false, true] {
        let device = ScriptedStream::new(queues);
        let session = session(&device);
        let mut streams = [(); 3].map(|()| session.stream(3).unwrap());
        device.mood.store(DECLINES, Ordering::Relaxed);
        let mut steps: Vec<Request<'_>> = streams[..2].iter_mut().map(|one| Request::update(one, b"abc")).collect();
        let error = session.process(&mut steps).unwrap_err();
        assert!(
            matches!(&error, Error::Unserved { reasons, .. } if reasons[..] == ["moody: not this piece"]),
            "{error}"
        );
        drop(steps);
        device.mood.store(SUCCEEDS, Ordering::Relaxed);
        assert_eq!(state(&session), DeviceState::Ready);
        assert_eq!(session.gantry().stats().events(Event::Quarantined), 0);
        for stream in &mut streams[..2] {
            assert!(matches!(stream.update(b"abc"), Err(Error::Device { last: Fault::Lost, .. })));
        }
        let mut digest = [0; 32];
        session.process(&mut [Request::update(&mut streams[2], b"abc")]).unwrap();
        session.process(&mut [Request::finish(&mut streams[2], &mut digest)]).unwrap();
        assert_eq!(digest, sha256(b"abc"));

        device.mood.store(FAILS, Ordering::Relaxed);
        assert!(session.process(&mut [Request::update(&mut streams[2], b"abc")]).is_err());
        assert_eq!(state(&session), DeviceState::Quarantined, "a fault quarantines");
    }
}

/// Sends four requests or more to the second device, and fewer to the first.
#[derive(Debug)]
struct ByNumber;

impl Policy for ByNumber {
    fn name(&self) -> &'static str {
        "by-number"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let choice = ask.choices().nth(usize::from(ask.requests() >= 4))?;
        Some(Route { device: choice.device, requests: ask.requests(), reason: Reason::Turn, measure: false })
    }
}

#[test]
fn whole_messages_run_beside_streams_only_where_the_policy_would_send_all() {
    let (first, mut second) = (ScriptedStream::new(false), ScriptedStream::new(true));
    second.info.name = "second".into();
    let clock = Arc::new(VirtualClock::default());
    let gantry = Gantry::builder().policy(ByNumber).clock(clock).driver(&first).driver(&second).build();
    let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    // Streams as they were opened, the number of messages, and the device of the messages.
    for (opened, messages, device) in [(&[1][..], 2, 0), (&[1], 4, 1), (&[9], 2, 0), (&[9], 3, 1), (&[1, 9, 1], 5, 1)] {
        let mut streams: Vec<_> = opened.iter().map(|number| session.stream(*number).unwrap()).collect();
        let homes: Vec<usize> = streams.iter().map(|stream| stream.route().device).collect();
        let mut digests = vec![[0; 32]; messages];
        let mut requests: Vec<Request<'_>> = streams.iter_mut().map(|stream| Request::update(stream, b"abc")).collect();
        requests.extend(digests.iter_mut().map(|digest| Request::digest(b"abc", digest)));
        session.process(&mut requests).unwrap();
        let ran: Vec<usize> = requests.iter().map(|request| request.route().unwrap().device).collect();
        assert_eq!(ran, [homes, vec![device; messages]].concat(), "{opened:?}, {messages} messages");
        drop(requests);
        assert!(digests.iter().all(|digest| *digest == sha256(b"abc")));
    }
}
