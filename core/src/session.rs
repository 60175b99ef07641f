//! Sessions, and the two ways in which they run requests on the calling thread: direct and batch.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zeroize::Zeroize;

use crate::backlog::Sender;
use crate::dispatch::{Crowd, Dispatcher};
use crate::driver::{Buffers, Capability, DeviceSession, Operands};
use crate::error::{Error, Fault, Misuse, Refusal, Result, Unsupported};
use crate::gather::{self, Beginning, Presence};
use crate::guard::guarded;
use crate::inbox::Inbox;
use crate::job::{List, Loan};
use crate::limits::Limits;
use crate::registry::Gantry;
use crate::request::{Body, Outcome, Request, Shape};
use crate::route::{Ask, Company, Needs, Question, Reason, Route, Sizes, learned};
use crate::stats::{Event, Site, Stats, Watch};
use crate::stream::{AeadStream, CipherStream, Stream, check_bound};
use crate::verify::Witness;
use crate::{Kind, Operation, SessionParams, tags_equal, verify};

/// An algorithm, a direction and keys, checked once. Immutable; clones share it, threads too.
///
/// It opens itself on a device the first time a route leads there.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) params: SessionParams,
    pub(crate) limits: Limits,
    pub(crate) gantry: Gantry,
    pub(crate) candidates: Arc<[Candidate]>,
    /// One for each candidate.
    openings: Box<[Opening]>,
}

/// A device that offers an algorithm.
pub(crate) struct Candidate {
    pub(crate) device: usize,
    pub(crate) capability: Capability,
}

/// A session on a device.
#[derive(Default)]
struct Opening {
    /// In a box, because each session has room for each device's answer.
    opened: OnceLock<std::result::Result<Arc<dyn DeviceSession>, Box<Unsupported>>>,
    /// Of the threads that need the session there, one opens it.
    turn: Mutex<()>,
}

/// Why a device did not do a request that was for it.
enum Setback {
    /// There is none.
    Nobody,
    NotOpened {
        place: usize,
        why: Refusal,
    },
    Declined {
        place: usize,
        why: String,
    },
    Failed {
        place: usize,
        fault: Fault,
        is_spoilt: bool,
    },
}

/// What has gone wrong with a request until now.
#[derive(Default)]
pub(crate) struct Setbacks {
    /// Bit n: candidate n did not do it.
    pub(crate) tried: u64,
    pub(crate) last: Option<Fault>,
    /// What devices said that do not do this very request.
    pub(crate) declined: Vec<String>,
    /// Nobody is left, or nothing to ask for.
    is_end: bool,
}

impl Setbacks {
    pub(crate) fn new(tried: u64) -> Self {
        Self { tried, ..Self::default() }
    }

    fn note(&mut self, setback: Setback) {
        let place = match setback {
            Setback::Nobody => {
                self.is_end = true;
                return;
            }
            Setback::NotOpened { place, why } => {
                if let Refusal::Fault(fault) = why {
                    self.last = Some(fault);
                }
                place
            }
            Setback::Declined { place, why } => {
                self.declined.push(why);
                place
            }
            Setback::Failed { place, fault, is_spoilt } => {
                (self.last, self.is_end) = (Some(fault), is_spoilt);
                place
            }
        };
        self.tried |= 1 << place;
    }
}

/// The longest MAC: HMAC-SHA512.
const LONGEST_MAC: usize = 64;

impl Session {
    pub(crate) fn new(gantry: Gantry, params: SessionParams) -> Result<Self> {
        params.check()?;
        let algorithm = params.algorithm();
        let candidates = gantry.candidates(algorithm).clone();
        if candidates.is_empty() {
            let operation = algorithm.kind().operations()[0];
            return Err(Error::Unserved { algorithm, operation, reasons: Vec::new() });
        }
        let openings = candidates.iter().map(|_| Opening::default()).collect();
        Ok(Self { inner: Arc::new(Inner { limits: Limits::of(&params), params, gantry, candidates, openings }) })
    }

    /// What it was made from.
    pub fn params(&self) -> &SessionParams {
        &self.inner.params
    }

    /// The framework that it belongs to.
    pub fn gantry(&self) -> &Gantry {
        &self.inner.gantry
    }

    /// Writes the digest of `input` to `output`.
    pub fn digest(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Digest { input, output })?.ok()
    }

    /// Writes the MAC of `input` to `output`.
    pub fn mac(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Mac { iv: &[], input, output })?.ok()
    }

    /// Whether `tag` is the MAC of `input`, compared in constant time, or the signature of it.
    pub fn verify(&self, input: &[u8], tag: &[u8]) -> Result<()> {
        if self.inner.params.algorithm().kind() == Kind::Signature {
            return self.run(Operands::Verify { input, signature: tag })?.ok();
        }
        let mut computed = [0; LONGEST_MAC];
        let computed = &mut computed[..self.inner.params.tag_length()];
        self.mac(input, computed)?;
        let same = tags_equal(computed, tag);
        computed.zeroize();
        if same { Ok(()) } else { Err(Error::Refused(Outcome::BadTag)) }
    }

    /// Writes the signature of `input` to `output`.
    pub fn sign(&self, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Sign { input, output })?.ok()
    }

    /// Writes the secret shared with the owner of the public key `peer` to `output`.
    pub fn derive(&self, peer: &[u8], output: &mut [u8]) -> Result<()> {
        self.run(Operands::Derive { input: peer, output })?.ok()
    }

    /// Encrypts without integrity: `data` is one buffer, or a pair of input and output.
    pub fn encrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        self.run(Operands::Cipher { operation: Operation::Encrypt, iv, data: data.into() })?.ok()
    }

    /// Decrypts without integrity: `data` is one buffer, or a pair of input and output.
    pub fn decrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        self.run(Operands::Cipher { operation: Operation::Decrypt, iv, data: data.into() })?.ok()
    }

    /// Encrypts and authenticates: `data` is one buffer, or a pair of input and output; `tag` receives the tag.
    pub fn seal<'a>(&self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &mut [u8]) -> Result<()> {
        self.run(Operands::Seal { iv, aad, data: data.into(), tag })?.ok()
    }

    /// Verifies and decrypts. With a bad tag the answer is an error, and the output is as it was or zeros.
    pub fn open<'a>(&self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &[u8]) -> Result<()> {
        self.run(Operands::Open { iv, aad, data: data.into(), tag })?.ok()
    }

    /// A message that arrives in pieces. `company` is the number of streams that the caller means to feed side by side:
    /// routes go by it.
    pub fn stream(&self, company: usize) -> Result<Stream> {
        let params = &self.inner.params;
        let algorithm = params.algorithm();
        let wrong = || Misuse::Stream { algorithm, operation: algorithm.kind().operations()[0] };
        let operation = params.stream_operation().ok_or_else(wrong)?;
        let (state, route) = self.inner.open_stream(operation, company, DeviceSession::digest_stream)?;
        Ok(Stream::new(self.inner.clone(), state, route))
    }

    /// Begins a message that arrives in pieces with the first of them, if that meets others of other threads: for a caller who has a
    /// place of his own for messages, as good as plain software, and is told when our devices are better.
    pub fn begin(&self, input: &[u8]) -> Beginning<'_> {
        let operation = self.inner.params.stream_operation();
        let presence = match operation.filter(|operation| self.gathers(*operation, input.len())) {
            Some(operation) => {
                self.inner.counters().here(); // there is a thread more
                self.inner.presence_of_work(Shape { operation, bytes: input.len(), in_place: false })
            }
            None => Presence::default(),
        };
        if let Some(company) = presence.company()
            && let Ok(mut stream) = self.stream(company)
            && stream.has_lanes()
            && stream.meet(company, input).is_ok()
        {
            return Beginning::Together(stream);
        }
        Beginning::Alone(presence)
    }

    /// Whether requests of so many bytes, or pieces of messages, meet those of other threads when these are there.
    pub fn gathers(&self, operation: Operation, bytes: usize) -> bool {
        bytes >= gather::SMALLEST && self.inner.has_lanes(operation)
    }

    /// Data that arrives in pieces, chained across them.
    pub fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<CipherStream> {
        let mut nothing = [];
        let operands = Operands::Cipher { operation, iv, data: Buffers::InPlace(&mut nothing) };
        self.inner.limits.check(&operands)?;
        let (state, route) = self.inner.open_stream(operation, 1, |session| session.cipher_stream(operation, iv))?;
        Ok(CipherStream::new(self.inner.clone(), state, operation, iv.len(), route))
    }

    /// Messages of an AEAD that arrive in pieces, one after the other. [`AeadStream`] says what opening so means.
    pub fn aead_stream(&self, operation: Operation) -> Result<AeadStream> {
        let params = &self.inner.params;
        let algorithm = params.algorithm();
        if algorithm.kind() != Kind::Aead || !params.allows(operation) {
            return Err(Misuse::Operation { algorithm, operation }.into());
        }
        let (state, route) = self.inner.open_stream(operation, 1, |session| session.aead_stream(operation))?;
        Ok(AeadStream::new(self.inner.clone(), state, operation, route))
    }

    /// Runs one request on the calling thread. Allocates nothing and takes no lock, once the session is open on the device.
    pub fn run(&self, mut operands: Operands<'_>) -> Result<Outcome> {
        if matches!(operands, Operands::Update { .. } | Operands::Finish { .. }) {
            let (algorithm, operation) = (self.inner.params.algorithm(), operands.operation());
            return Err(Misuse::Stream { algorithm, operation }.into()); // a stream steps by itself, or in a batch
        }
        let mut watch = self.inner.counters().watch(1);
        let (shape, outcome) = self.inner.limits.check(&operands)?;
        if let Some(outcome) = outcome {
            watch.here().outcome(Site::nowhere(self.inner.params.algorithm(), shape.operation), outcome);
            return Ok(outcome);
        }
        if self.gathers(shape.operation, shape.bytes) {
            return self.inner.run_in_company(&mut operands, shape, &mut watch);
        }
        self.inner.run_direct(&mut operands, shape, &mut watch)
    }

    /// Runs a batch on the calling thread and returns when every request has its outcome. Parts of the batch may go to
    /// several devices.
    ///
    /// A [`Misuse`] in any request is found before any is run. [`Error::Device`] and [`Error::Unserved`] mean that some
    /// requests have no outcome, because no device could serve them; the others have theirs.
    pub fn process(&self, requests: &mut [Request<'_>]) -> Result<()> {
        self.inner.process(false, |_| &self.inner, requests)
    }

    /// [`process`](Self::process) of requests under many keys: each with the session in its place, all of one algorithm and one
    /// framework.
    ///
    /// # Errors
    /// As `process`; and [`Misuse::Framework`] where the sessions are not as said, or not as many as requests.
    pub fn process_each(sessions: &[Session], requests: &mut [Request<'_>]) -> Result<()> {
        let Some(lead) = sessions.first() else { return Ok(()) };
        let algorithm = lead.params().algorithm();
        let like = |session: &Session| {
            session.params().algorithm() == algorithm && session.gantry().shares_devices_with(lead.gantry())
        };
        if sessions.len() != requests.len() || !sessions.iter().all(like) {
            return Err(Misuse::Framework { algorithm }.into());
        }
        lead.inner.process(true, |place| &sessions[place].inner, requests)
    }

    /// The route that `requests` requests of `bytes` each would take now.
    pub fn route(&self, operation: Operation, bytes: usize, requests: usize) -> Option<Route> {
        let needs = Needs { in_place: true, streaming: false, max_bytes: bytes };
        let (sizes, requests) = (Sizes::One(bytes), requests.max(1));
        let question = Question { operation, requests, bytes: bytes.saturating_mul(requests), sizes, needs, tried: 0 };
        self.gantry().policy().route(&self.inner.hypothetical(&question))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.params.fmt(f)
    }
}

/// What a batch seldom has. In memory, which costs those nothing that have none of it.
#[derive(Default)]
struct Rare {
    /// Requests that have an outcome before a device is asked.
    ended: bool,
    /// Requests that cannot share a route.
    apart: bool,
}

impl Rare {
    #[cold]
    #[inline(never)]
    fn some_ended(&mut self) {
        self.ended = true;
    }

    #[cold]
    #[inline(never)]
    fn some_apart(&mut self) {
        self.apart = true;
    }
}

impl Inner {
    /// Runs a batch. `owner` is the session of the request in a place; they are `mixed` if that is not always `self`.
    #[inline]
    fn process<'s>(&self, mixed: bool, owner: impl Fn(usize) -> &'s Inner, requests: &mut [Request<'_>]) -> Result<()> {
        let mut watch = self.counters().watch(requests.len());
        let here = watch.here();
        let home = Inbox::new();
        let mut dispatcher = Dispatcher::new(&home, Sender::default());
        let (mut crowd, mut rare) = (Crowd::new(mixed), Rare::default());
        let mut loan = Loan::of(requests, &home, |place, request| {
            let (inner, body) = (owner(place), &mut request.body);
            body.begin();
            let (shape, outcome) = inner.limits.check(&body.operands)?;
            if let Some(bound) = &body.bound {
                check_bound(shape.operation, bound, inner)?;
                if *bound.broken {
                    return Err(Error::Device { algorithm: inner.params.algorithm(), last: Fault::Lost });
                }
            }
            // Field by field: as a whole, what lies between the fields would be copied, too.
            let Shape { operation, bytes, in_place } = shape;
            request.link.shape = Shape { operation, bytes, in_place };
            if let Some(outcome) = outcome {
                here.outcome(Site::nowhere(inner.params.algorithm(), shape.operation), outcome);
                request.body.outcome = Some(outcome);
                rare.some_ended();
            } else if !crowd.takes_in(self, request) {
                rare.some_apart();
            }
            Ok::<_, Error>(Some(inner))
        })?;
        if rare.ended {
            loan.leave_out_ended();
        }
        loan.run(|list| {
            let mut done = List::new();
            if rare.apart {
                dispatcher.send_all(self, list, mixed, &mut watch, &mut done);
            } else {
                crowd.list = list;
                dispatcher.send(self, crowd, &mut watch, &mut done);
            }
            dispatcher.finish(&self.gantry, &mut done);
            done
        });
        if dispatcher.amiss
            && let Some(error) = requests.iter_mut().filter_map(|request| request.body.take_error()).last()
        {
            return Err(error);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn ask(&self, question: &Question<'_>) -> Option<Route> {
        self.gantry.look_after();
        self.gantry.policy().route(&Ask { hypothetical: false, ..self.hypothetical(question) })
    }

    /// The company that is worth waiting for, for a request like this one, where no more than `most` can come.
    pub(crate) fn company(&self, operation: Operation, bytes: usize, most: usize) -> Company {
        let question = Question::one(Shape { operation, bytes, in_place: true }, 0);
        self.gantry.policy().company(&self.hypothetical(&question), most)
    }

    /// A question of somebody who only wants to know.
    #[inline]
    fn hypothetical<'a>(&'a self, question: &'a Question<'a>) -> Ask<'a> {
        Ask { algorithm: self.params.algorithm(), question, session: self, hypothetical: true }
    }

    /// Whether all devices work in the calling thread.
    #[inline]
    pub(crate) fn has_no_rings(&self) -> bool {
        self.candidates.iter().all(|candidate| candidate.capability.direct)
    }

    /// Whether a device runs several such requests side by side.
    fn has_lanes(&self, operation: Operation) -> bool {
        let offers = |capability: &Capability| capability.lanes > 1 && capability.operations.contains(&operation);
        self.candidates.iter().any(|candidate| offers(&candidate.capability))
    }

    pub(crate) fn quarantine(&self, device: usize, site: Site) {
        self.gantry.devices()[device].fail(site);
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Stats {
        self.gantry.counters()
    }

    /// What is counted of this session on a device.
    #[inline]
    pub(crate) fn site(&self, device: usize, operation: Operation) -> Site {
        Site::new(device, self.params.algorithm(), operation)
    }

    /// Whether a device may be sent requests of so many bytes.
    pub(crate) fn serves(&self, device: usize, bytes: usize) -> bool {
        let offers = |place: usize| self.candidates[place].capability.max_bytes >= bytes;
        self.gantry.devices()[device].is_ready() && self.place(device).is_some_and(offers)
    }

    /// The place of a device among the candidates; `None` if a policy answers with a device that it was not offered.
    #[inline]
    pub(crate) fn place(&self, device: usize) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.device == device)
    }

    /// Whether a device has not declined the session.
    #[inline]
    pub(crate) fn has_not_declined(&self, place: usize) -> bool {
        self.openings[place].opened.get().is_none_or(std::result::Result::is_ok)
    }

    /// The session on a device, opened at the first call, and after a fault when the device may be asked again.
    #[inline]
    pub(crate) fn opened(&self, place: usize) -> std::result::Result<&Arc<dyn DeviceSession>, Refusal> {
        match self.openings[place].opened.get() {
            Some(Ok(session)) => Ok(session),
            _ => self.open_on(place),
        }
    }

    #[cold]
    fn open_on(&self, place: usize) -> std::result::Result<&Arc<dyn DeviceSession>, Refusal> {
        let (device, Opening { opened, turn }) = (self.candidates[place].device, &self.openings[place]);
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.get().is_none() {
            let answer = match self.gantry.devices()[device].open(&self.params) {
                Ok(session) => Ok(session),
                Err(Refusal::Unsupported(why)) => Err(Box::new(why)),
                Err(fault @ Refusal::Fault(_)) => return Err(fault),
            };
            let _ = opened.set(answer);
        }
        let opened = opened.get().expect("it has just been set");
        opened.as_ref().map_err(|why| (**why).clone().into())
    }

    /// Runs one request, on one device after the other until one gives an outcome.
    #[inline]
    pub(crate) fn run_direct(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome> {
        self.attempt(operands, shape, watch, (0, false), |_| {}).or_else(|setback| {
            let mut setbacks = Setbacks::new(0);
            setbacks.note(setback);
            self.run_after(setbacks, operands, shape, watch, &mut None)
        })
    }

    /// The same after what has gone wrong before. `ran` becomes the last route.
    #[cold]
    pub(crate) fn run_after(
        &self,
        mut setbacks: Setbacks,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
        ran: &mut Option<Route>,
    ) -> Result<Outcome> {
        while !setbacks.is_end {
            match self
                .attempt(operands, shape, watch, (setbacks.tried, setbacks.last.is_some()), |route| *ran = Some(route))
            {
                Ok(outcome) => return Ok(outcome),
                Err(setback) => setbacks.note(setback),
            }
        }
        Err(self.nobody(shape.operation, setbacks.last, setbacks.declined))
    }

    /// Runs one request on the device that comes first for it, of those that have not been `tried`.
    /// `again`: one of these has failed.
    #[inline(always)]
    fn attempt(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
        (tried, again): (u64, bool),
        ran: impl FnOnce(Route),
    ) -> std::result::Result<Outcome, Setback> {
        let Some(route) = self.ask(&Question::one(shape, tried)) else { return Err(Setback::Nobody) };
        // Unless the policy was not offered that one.
        let Some(place) = self.place(route.device).filter(|place| tried >> place & 1 == 0) else {
            return Err(Setback::Nobody);
        };
        ran(route);
        let session = match self.opened(place) {
            Ok(session) => session,
            Err(why) => return Err(Setback::NotOpened { place, why }),
        };
        let site = self.site(route.device, shape.operation);
        watch.sent(site, route.reason, 1, shape.bytes);
        if again {
            watch.here().event(site, Event::Retried, 1);
        }
        let witness = self.witness(place, operands);
        let started = route.measure.then(|| self.gantry.clock().now());
        let failed = |fault| self.failed(place, site, shape, fault);
        let result = if self.candidates[place].capability.direct {
            guarded(|| session.run(operands.reborrow())).map_err(failed)
        } else {
            self.run_by_queue(route.device, operands.reborrow()).map_err(failed)
        };
        if let Some(started) = started {
            let what = (self.params.algorithm(), shape.operation);
            learned::learn(&self.gantry, what, (route.device, route.reason), (1, shape.bytes), started, 0, None);
        }
        watch.back(site, 1);
        match result {
            Ok(Outcome::Done) if witness.is_none() => Ok(Outcome::Done),
            Ok(outcome) => {
                watch.here().outcome(site, outcome);
                Ok(self.verified(witness, site, operands, outcome, route.device))
            }
            failed => failed,
        }
    }

    /// Counts what a device says of itself that did not do a request, and puts it into quarantine if it is not well.
    #[cold]
    fn failed(&self, place: usize, site: Site, shape: Shape, fault: Fault) -> Setback {
        self.counters().here().fault(site, &fault);
        let device = self.candidates[place].device;
        if let Fault::Declined(why) = fault {
            return Setback::Declined { place, why: format!("{}: {why}", self.gantry.devices()[device].name()) };
        }
        self.quarantine(device, site);
        Setback::Failed { place, is_spoilt: fault.spoils(shape), fault }
    }

    /// A copy of a request that is to be verified, before the device at `place` has it.
    #[inline]
    pub(crate) fn witness(&self, place: usize, operands: &Operands<'_>) -> Option<Box<Witness>> {
        let every = self.gantry.verifies();
        if every == 0 || !verify::is_due(every) { None } else { self.summon(place, operands) }
    }

    #[cold]
    fn summon(&self, place: usize, operands: &Operands<'_>) -> Option<Box<Witness>> {
        let device = &self.gantry.devices()[self.candidates[place].device];
        // Of a signature that is another one each time, nothing can be said without the public key.
        let compares = !(self.params.algorithm().info().randomized && operands.operation() == Operation::Sign);
        (compares && device.class() != verify::REFERENCE).then(|| Witness::of(operands).map(Box::new))?
    }

    /// Keeps a [`witness`](Self::witness) beside a request.
    pub(crate) fn attest(&self, place: usize, body: &mut Body<'_>) {
        if let Some(witness) = self.witness(place, &body.operands) {
            body.aside().witness = Some(witness);
        }
    }

    /// The outcome of a request after a second look, if there is a witness.
    #[inline]
    pub(crate) fn verified(
        &self,
        witness: Option<Box<Witness>>,
        site: Site,
        operands: &mut Operands<'_>,
        outcome: Outcome,
        device: usize,
    ) -> Outcome {
        let Some(witness) = witness else { return outcome };
        match witness.check(self, (site, self.counters().here()), operands, outcome) {
            None => outcome,
            Some((right, fault)) => {
                self.counters().here().fault(site, &fault);
                self.quarantine(device, site);
                right
            }
        }
    }

    /// The session on the device that is believed.
    pub(crate) fn reference(&self) -> Option<&Arc<dyn DeviceSession>> {
        let is_believed = |place: &usize| {
            let device = &self.gantry.devices()[self.candidates[*place].device];
            device.class() == verify::REFERENCE && device.is_ready() && self.candidates[*place].capability.direct
        };
        (0..self.candidates.len()).filter(is_believed).find_map(|place| self.opened(place).ok())
    }

    /// Runs one request on a device that has no direct way.
    fn run_by_queue(&self, device: usize, operands: Operands<'_>) -> std::result::Result<Outcome, Fault> {
        let shape = operands.shape();
        let mut request = Request::new(operands, None);
        self.dispatch(&mut request, shape, |dispatcher, list, _, done| {
            dispatcher.try_on(self, device, shape.operation, list, done);
        });
        request.body.result()
    }

    /// Lends one request of this session to `work`, which leaves it in the list of what is done.
    pub(crate) fn dispatch(
        &self,
        request: &mut Request<'_>,
        shape: Shape,
        work: impl FnOnce(&mut Dispatcher<&Inbox>, List, &Inbox, &mut List),
    ) {
        let home = Inbox::new();
        let mut dispatcher = Dispatcher::new(&home, Sender::default());
        request.link.shape = shape;
        let Ok(loan) = Loan::of(std::slice::from_mut(request), &home, |_, _| Ok::<_, Infallible>(Some(self)));
        loan.run(|list| {
            let mut done = List::new();
            work(&mut dispatcher, list, &home, &mut done);
            done
        });
    }

    fn open_stream<S>(
        &self,
        operation: Operation,
        company: usize,
        open: impl Fn(&dyn DeviceSession) -> std::result::Result<S, Unsupported>,
    ) -> Result<(S, Route)> {
        let needs = Needs { in_place: false, streaming: true, max_bytes: 0 };
        let requests = company.max(1);
        let (mut tried, mut last) = (0, None);
        loop {
            let sizes = Sizes::One(0);
            let question = Question { operation, requests, bytes: 0, sizes, needs, tried };
            let Some(route) = self.ask(&question) else { break };
            let Some(place) = self.place(route.device).filter(|place| tried >> place & 1 == 0) else { break };
            tried |= 1 << place;
            match self.opened(place) {
                Ok(session) => match guarded(|| open(&**session).map_err(Refusal::from)) {
                    Ok(state) => return Ok((state, Route { reason: Reason::Stream, ..route })),
                    Err(Refusal::Fault(fault)) => {
                        self.quarantine(route.device, self.site(route.device, operation));
                        last = Some(fault);
                    }
                    Err(Refusal::Unsupported(_)) => {}
                },
                Err(Refusal::Fault(fault)) => last = Some(fault),
                Err(Refusal::Unsupported(_)) => {}
            }
        }
        Err(self.nobody(operation, last, Vec::new()))
    }

    /// `declined`: what devices said that do not do this very request.
    fn nobody(&self, operation: Operation, last: Option<Fault>, declined: Vec<String>) -> Error {
        let algorithm = self.params.algorithm();
        if let Some(last) = last {
            return Error::Device { algorithm, last };
        }
        let reasons = (self.candidates.iter().zip(&self.openings))
            .filter_map(|(candidate, opening)| {
                let device = &self.gantry.devices()[candidate.device];
                let why = match opening.opened.get() {
                    Some(Err(why)) => why.to_string(),
                    _ if !device.is_ready() => "it has failed, and is in quarantine".to_owned(),
                    Some(Ok(_)) => return None,
                    None => device.admit(algorithm).err()?.to_string(),
                };
                Some(format!("{}: {why}", device.name()))
            })
            .chain(declined)
            .collect();
        Error::Unserved { algorithm, operation, reasons }
    }
}
