//! Sessions, and the two ways in which they run requests on the calling thread: direct and batch.

use std::fmt;
use std::sync::{Arc, OnceLock};

use zeroize::Zeroize;

use crate::driver::{Buffers, Capability, DeviceSession, Operands};
use crate::error::{Error, Fault, Misuse, Result, Unsupported};
use crate::job::run_to_end;
use crate::registry::Gantry;
use crate::request::{Body, Outcome, Request, Shape};
use crate::route::{Ask, Needs, Reason, Route, Sizes};
use crate::stream::{CipherStream, Stream, check_bound};
use crate::{Operation, SessionParams, tags_equal};

/// An algorithm, a direction and keys, checked once. Immutable; clones share it, threads too.
///
/// It opens itself on a device the first time a route leads there.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) params: SessionParams,
    gantry: Gantry,
    candidates: Box<[Candidate]>,
}

/// A device that offers the session's algorithm.
pub(crate) struct Candidate {
    pub(crate) device: usize,
    pub(crate) capability: Capability,
    opened: OnceLock<std::result::Result<Arc<dyn DeviceSession>, Unsupported>>,
}

impl Candidate {
    /// Whether the device has not declined the session.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_none_or(std::result::Result::is_ok)
    }
}

/// The longest MAC: HMAC-SHA512.
const LONGEST_MAC: usize = 64;

impl Session {
    pub(crate) fn new(gantry: Gantry, params: SessionParams) -> Result<Self> {
        params.check()?;
        let algorithm = params.algorithm();
        let candidates: Box<[Candidate]> = (gantry.devices().iter().enumerate())
            .filter_map(|(device, entry)| {
                let capability = entry.capability(algorithm)?.clone();
                Some(Candidate { device, capability, opened: OnceLock::new() })
            })
            .take(u64::BITS as usize) // the bits of `Ask::tried`
            .collect();
        if candidates.is_empty() {
            let operation = algorithm.kind().operations()[0];
            return Err(Error::Unserved { algorithm, operation, reasons: Vec::new() });
        }
        Ok(Self { inner: Arc::new(Inner { params, gantry, candidates }) })
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

    /// Whether `tag` is the MAC of `input`; compared in constant time.
    pub fn verify(&self, input: &[u8], tag: &[u8]) -> Result<()> {
        let mut computed = [0; LONGEST_MAC];
        let computed = &mut computed[..self.inner.params.tag_length()];
        self.mac(input, computed)?;
        let same = tags_equal(computed, tag);
        computed.zeroize();
        if same { Ok(()) } else { Err(Error::Refused(Outcome::BadTag)) }
    }

    /// Encrypts without integrity: `data` is one buffer, or a pair of input and output.
    pub fn encrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        let mut data = data.into();
        self.run(Operands::Cipher { operation: Operation::Encrypt, iv, data: data.reborrow() })?.ok()
    }

    /// Decrypts without integrity: `data` is one buffer, or a pair of input and output.
    pub fn decrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        let mut data = data.into();
        self.run(Operands::Cipher { operation: Operation::Decrypt, iv, data: data.reborrow() })?.ok()
    }

    /// Encrypts and authenticates: `data` is one buffer, or a pair of input and output; `tag` receives the tag.
    pub fn seal<'a>(&self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &mut [u8]) -> Result<()> {
        let mut data = data.into();
        self.run(Operands::Seal { iv, aad, data: data.reborrow(), tag })?.ok()
    }

    /// Verifies and decrypts. With a bad tag the answer is an error, and the output is as it was or zeros.
    pub fn open<'a>(&self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &[u8]) -> Result<()> {
        let mut data = data.into();
        self.run(Operands::Open { iv, aad, data: data.reborrow(), tag })?.ok()
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

    /// Data that arrives in pieces, chained across them.
    pub fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<CipherStream> {
        let mut nothing = [];
        let operands = Operands::Cipher { operation, iv, data: Buffers::InPlace(&mut nothing) };
        self.inner.params.check_operands(&operands, operands.shape())?;
        let (state, route) = self.inner.open_stream(operation, 1, |session| session.cipher_stream(operation, iv))?;
        Ok(CipherStream::new(self.inner.clone(), state, operation, route))
    }

    /// Runs one request on the calling thread. Allocates nothing and takes no lock, once the session is open on the device.
    pub fn run(&self, mut operands: Operands<'_>) -> Result<Outcome> {
        if matches!(operands, Operands::Update { .. } | Operands::Finish { .. }) {
            let (algorithm, operation) = (self.inner.params.algorithm(), operands.operation());
            return Err(Misuse::Stream { algorithm, operation }.into()); // a stream steps by itself, or in a batch
        }
        let shape = operands.shape();
        match self.inner.params.check_operands(&operands, shape)? {
            Some(outcome) => Ok(outcome),
            None => self.inner.run_direct(&mut operands, 0, None),
        }
    }

    /// Runs a batch on the calling thread and returns when every request has its outcome. Parts of the batch may go to
    /// several devices.
    ///
    /// A [`Misuse`] in any request is found before any is run. [`Error::Device`] and [`Error::Unserved`] mean that some
    /// requests have no outcome, because no device could serve them; the others have theirs.
    pub fn process(&self, requests: &mut [Request<'_>]) -> Result<()> {
        let inner = &self.inner;
        let mut all = Group::default();
        let mut alike = 0;
        for (index, request) in requests.iter_mut().enumerate() {
            let Body { operands, bound, broken, outcome, fault, .. } = &mut request.body;
            let shape = operands.shape();
            if let Some(bound) = bound {
                check_bound(shape.operation, *bound, inner)?;
                if broken.as_deref() == Some(&true) {
                    return Err(Error::Device { algorithm: inner.params.algorithm(), last: Fault::Lost });
                }
            }
            *outcome = inner.params.check_operands(operands, shape)?;
            *fault = None;
            if alike == index && all.takes_in(inner, shape, &request.body) {
                alike += 1;
            }
        }
        if alike == requests.len() {
            return inner.run_group(&all, requests);
        }
        let mut verdict = Ok(());
        let mut rest = requests;
        while !rest.is_empty() {
            let mut group = Group::default();
            let alike = (rest.iter().map(|request| &request.body))
                .take_while(|body| group.takes_in(inner, body.operands.shape(), body))
                .count();
            let (now, later) = rest.split_at_mut(alike);
            rest = later;
            if let Err(error) = inner.run_group(&group, now) {
                verdict = Err(error);
            }
        }
        verdict
    }

    /// The route that `requests` requests of `bytes` each would take now.
    pub fn route(&self, operation: Operation, bytes: usize, requests: usize) -> Option<Route> {
        let needs = Needs { in_place: true, streaming: false, max_bytes: bytes };
        self.inner.ask(operation, requests, Sizes::One(bytes), needs, 0)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.params.fmt(f)
    }
}

/// What requests have in common that can share a route: the same operation, and streams of one device, with whole messages
/// among them as they come.
#[derive(Default)]
struct Group {
    operation: Option<Operation>,
    needs: Needs,
    /// The route of the streams: their state is on that device already.
    bound: Option<Route>,
    /// Some are whole messages.
    whole: bool,
}

impl Group {
    /// Whether the request can go along; if so, what it needs is needed by all.
    #[inline]
    fn takes_in(&mut self, inner: &Inner, shape: Shape, body: &Body<'_>) -> bool {
        let Shape { operation, bytes, in_place } = shape;
        if *self.operation.get_or_insert(operation) != operation {
            return false;
        }
        if body.outcome.is_some() {
            return true; // it goes nowhere, and needs nothing
        }
        let max_bytes = self.needs.max_bytes.max(bytes);
        let theirs = body.bound.map(|bound| bound.route);
        if let Some(route) = self.bound.or(theirs) {
            // Whole messages go along only where they may go by themselves.
            let mixed = self.bound.is_none() && self.whole || theirs.is_none();
            let elsewhere = theirs.is_some_and(|theirs| theirs.device != route.device);
            if elsewhere || mixed && !inner.serves(route.device, max_bytes) {
                return false;
            }
            self.bound = Some(route);
        }
        self.whole |= theirs.is_none();
        self.needs = Needs { in_place: self.needs.in_place || in_place, max_bytes, ..self.needs };
        true
    }
}

impl Inner {
    fn ask(&self, operation: Operation, requests: usize, sizes: Sizes<'_>, needs: Needs, tried: u64) -> Option<Route> {
        let algorithm = self.params.algorithm();
        let (devices, candidates) = (self.gantry.devices(), &*self.candidates);
        let ask = Ask { algorithm, operation, requests, sizes, needs, devices, candidates, tried };
        self.gantry.policy().route(&ask)
    }

    pub(crate) fn quarantine(&self, device: usize) {
        self.gantry.devices()[device].quarantine();
    }

    /// Whether a device may be sent requests of so many bytes.
    fn serves(&self, device: usize, bytes: usize) -> bool {
        let capability = &self.candidates[self.place(device)].capability;
        self.gantry.devices()[device].is_ready() && capability.max_bytes >= bytes
    }

    /// The place of a device among the candidates.
    fn place(&self, device: usize) -> usize {
        let place = self.candidates.iter().position(|candidate| candidate.device == device);
        place.expect("a policy answers with one of the choices it was given")
    }

    /// The session on a device, opened at the first call.
    fn opened(&self, place: usize) -> std::result::Result<&Arc<dyn DeviceSession>, &Unsupported> {
        let candidate = &self.candidates[place];
        let open = || self.gantry.devices()[candidate.device].open(&self.params);
        candidate.opened.get_or_init(open).as_ref()
    }

    /// Runs one request, on one device after the other until one gives an outcome. `tried` are the candidates that failed
    /// already, `last` is what the last of them said.
    fn run_direct(&self, operands: &mut Operands<'_>, mut tried: u64, mut last: Option<Fault>) -> Result<Outcome> {
        let Shape { operation, bytes, in_place } = operands.shape();
        let needs = Needs { in_place, streaming: false, max_bytes: bytes };
        while let Some(route) = self.ask(operation, 1, Sizes::One(bytes), needs, tried) {
            let place = self.place(route.device);
            tried |= 1 << place;
            let Ok(session) = self.opened(place) else { continue };
            let result = if self.candidates[place].capability.direct {
                session.run(operands.reborrow())
            } else {
                let mut request = [Request::new(operands.reborrow(), None)];
                self.run_on(place, session, &mut request);
                request[0].body.result()
            };
            match result {
                Ok(outcome) => return Ok(outcome),
                Err(fault) => {
                    self.gantry.devices()[route.device].quarantine();
                    last = Some(fault);
                }
            }
        }
        Err(self.nobody(operation, last))
    }

    fn run_group(&self, group: &Group, requests: &mut [Request<'_>]) -> Result<()> {
        let Some(operation) = group.operation else { return Ok(()) };
        let mut rest = requests;
        let mut tried = 0;
        let mut verdict = Ok(());
        while !rest.is_empty() {
            let route = match group.bound {
                Some(route) => Some(Route { requests: rest.len(), ..route }),
                None => self.ask(operation, rest.len(), Sizes::Many(rest), group.needs, tried),
            };
            let Some(route) = route else {
                // Nobody can take all of them. Perhaps somebody can take each.
                return self.run_singly(rest).and(verdict);
            };
            let place = self.place(route.device);
            let Ok(session) = self.opened(place) else {
                if group.bound.is_some() {
                    return Err(self.nobody(operation, None));
                }
                tried |= 1 << place;
                continue;
            };
            let (now, later) = rest.split_at_mut(route.requests.clamp(1, rest.len()));
            rest = later;
            for request in now.iter_mut() {
                request.body.route = Some(route);
            }
            self.run_on(place, session, now);
            if let Err(error) = self.repair(place, now) {
                verdict = Err(error);
            }
        }
        verdict
    }

    /// Runs requests one by one.
    fn run_singly(&self, requests: &mut [Request<'_>]) -> Result<()> {
        let mut verdict = Ok(());
        for Request { body, .. } in requests.iter_mut().filter(|request| request.body.outcome.is_none()) {
            match self.run_direct(&mut body.operands, 0, None) {
                Ok(outcome) => body.outcome = Some(outcome),
                Err(error) => verdict = Err(error),
            }
        }
        verdict
    }

    /// Hands requests to one device, and waits until it has given all of them back.
    fn run_on(&self, place: usize, session: &Arc<dyn DeviceSession>, requests: &mut [Request<'_>]) {
        let device = &self.gantry.devices()[self.candidates[place].device];
        match device.take_queue() {
            Ok(queue) => device.put_queue(run_to_end(queue, session, requests)),
            Err(fault) => {
                for request in requests.iter_mut().filter(|request| request.body.outcome.is_none()) {
                    request.body.fault = Some(fault.clone());
                }
            }
        }
    }

    /// Runs again, one by one and elsewhere, what a device failed to do.
    fn repair(&self, place: usize, requests: &mut [Request<'_>]) -> Result<()> {
        let mut verdict = Ok(());
        for request in requests {
            let Some(fault) = request.body.fault.take() else { continue };
            self.gantry.devices()[self.candidates[place].device].quarantine();
            let again = if let Some(broken) = &mut request.body.broken {
                // A piece is missing: what would come now is the digest of another message.
                **broken = true;
                Err(Error::Device { algorithm: self.params.algorithm(), last: fault })
            } else {
                self.run_direct(&mut request.body.operands, 1 << place, Some(fault))
            };
            match again {
                Ok(outcome) => request.body.outcome = Some(outcome),
                Err(error) => verdict = Err(error),
            }
        }
        verdict
    }

    fn open_stream<S>(
        &self,
        operation: Operation,
        company: usize,
        open: impl Fn(&dyn DeviceSession) -> std::result::Result<S, Unsupported>,
    ) -> Result<(S, Route)> {
        let needs = Needs { in_place: false, streaming: true, max_bytes: 0 };
        let mut tried = 0;
        while let Some(route) = self.ask(operation, company.max(1), Sizes::One(0), needs, tried) {
            let place = self.place(route.device);
            tried |= 1 << place;
            if let Ok(session) = self.opened(place)
                && let Ok(state) = open(&**session)
            {
                return Ok((state, Route { reason: Reason::Stream, ..route }));
            }
        }
        Err(self.nobody(operation, None))
    }

    fn nobody(&self, operation: Operation, last: Option<Fault>) -> Error {
        let algorithm = self.params.algorithm();
        if let Some(last) = last {
            return Error::Device { algorithm, last };
        }
        let reasons = (self.candidates.iter())
            .filter_map(|candidate| {
                let why = candidate.opened.get()?.as_ref().err()?;
                Some(format!("{}: {why}", self.gantry.devices()[candidate.device].name()))
            })
            .collect();
        Error::Unserved { algorithm, operation, reasons }
    }
}
