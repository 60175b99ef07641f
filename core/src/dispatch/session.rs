//! A session as dispatch knows it: parameters, the devices that offer its algorithm, and what they have opened.

#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::framework::Gantry;
use crate::algorithm::{Error, Fault, Operation, Outcome, Refusal, Result, SessionParams, Shape, Unsupported};
use crate::devices::{UNDER_WAY, Urgency};
use crate::driver::{DeviceSession, Operands};
use crate::request::{Handle, Inbox, Limits, Request};
use crate::route::{Candidate, Question, Route};
use crate::stats::{Event, Site, Stats};
use crate::trust::{Comparison, REFERENCE, ShadowCopy, is_due};

/// What a [`Session`](crate::Session) and its clones share.
pub(crate) struct SessionCore {
    pub(crate) params: SessionParams,
    pub(crate) limits: Limits,
    pub(crate) gantry: Gantry,
    pub(crate) candidates: Arc<[Candidate]>,
    /// One for each candidate.
    openings: Box<[Opening]>,
    /// Of the threads that need the session on a device, one opens it.
    turn: Mutex<()>,
    /// Devices that do not serve the session, as bits.
    declined: AtomicU64,
}

/// A session on a device. Empty where the device has a limit of sessions: then the device's cache has it.
type Opening = OnceLock<std::result::Result<Arc<dyn DeviceSession>, Box<Unsupported>>>;

/// A session that a device has opened, and that stays open as long as this lives.
pub(crate) enum OpenSession<'s> {
    /// The session keeps it.
    Kept(&'s dyn DeviceSession),
    /// The device's cache of sessions has it, and may let it go.
    Cached(Arc<dyn DeviceSession>),
}

impl Deref for OpenSession<'_> {
    type Target = dyn DeviceSession;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            OpenSession::Kept(session) => *session,
            OpenSession::Cached(session) => &**session,
        }
    }
}

impl SessionCore {
    pub(crate) fn new(gantry: Gantry, params: SessionParams) -> Result<Self> {
        params.check()?;
        let algorithm = params.algorithm();
        let candidates = gantry.candidates(algorithm);
        if candidates.is_empty() {
            let operation = algorithm.kind().operations()[0];
            return Err(Error::Unserved { algorithm, operation, reasons: Vec::new() });
        }
        let openings = candidates.iter().map(|_| Opening::new()).collect();
        let (turn, declined) = (Mutex::new(()), AtomicU64::new(0));
        Ok(Self { limits: Limits::of(&params), params, gantry, candidates, openings, turn, declined })
    }

    /// Asks the policy about requests that will be run.
    #[inline]
    pub(crate) fn ask(&self, question: &Question<'_>) -> Option<Route> {
        self.gantry.look_after();
        self.ask_with(question, false)
    }

    /// Asks without running anything.
    pub(crate) fn ask_what_if(&self, question: &Question<'_>) -> Option<Route> {
        self.ask_with(question, true)
    }

    #[inline]
    fn ask_with(&self, question: &Question<'_>, hypothetical: bool) -> Option<Route> {
        let declined = self.declined.load(Ordering::Relaxed);
        self.gantry.ask(self.params.algorithm(), &self.candidates, question, declined, hypothetical)
    }

    /// How many requests like this one a queue waits for.
    pub(crate) fn batch_size(&self, operation: Operation, bytes: usize) -> usize {
        let question = Question::one(Shape { operation, bytes, in_place: true }, 0);
        let declined = self.declined.load(Ordering::Relaxed);
        let ask = self.gantry.question(self.params.algorithm(), &self.candidates, &question, declined, true);
        self.gantry.policy().batch_size(&ask)
    }

    /// Whether all devices work in the calling thread.
    #[inline]
    pub(crate) fn has_no_rings(&self) -> bool {
        self.candidates.iter().all(|candidate| candidate.capability.direct)
    }

    pub(crate) fn quarantine(&self, device: usize, site: Site) {
        self.gantry.devices()[device].health().fail(site);
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

    /// The session on a device, if it is open and kept here.
    #[inline]
    pub(crate) fn kept(&self, place: usize) -> Option<&dyn DeviceSession> {
        match self.openings.get(place)?.get() {
            Some(Ok(session)) => Some(&**session),
            _ => None,
        }
    }

    /// The session on a device, opened at the first call, and after a fault when the device may be asked again.
    #[inline]
    pub(crate) fn opened(&self, place: usize, urgency: Urgency) -> std::result::Result<OpenSession<'_>, Refusal> {
        match self.kept(place) {
            Some(session) => Ok(OpenSession::Kept(session)),
            None => self.open_on(place, urgency),
        }
    }

    #[cold]
    fn open_on(&self, place: usize, urgency: Urgency) -> std::result::Result<OpenSession<'_>, Refusal> {
        let Some((candidate, opened)) = self.candidates.get(place).zip(self.openings.get(place)) else {
            return Err(Unsupported::because("it came when the session was there").into());
        };
        let device = &self.gantry.devices()[candidate.device];
        let draws = self.params.is_deterministic()
            && self.params.algorithm().info().randomized
            && !candidate.capability.deterministic;
        let open = || {
            let session = if draws {
                Err(Unsupported::because("it signs with a random number").into())
            } else {
                device.open(&self.params, urgency)
            };
            session.inspect_err(|why| {
                if matches!(why, Refusal::Unsupported(_)) {
                    self.declined.fetch_or(candidate.bit(), Ordering::Relaxed);
                }
            })
        };
        if let Some(Err(why)) = opened.get() {
            return Err((**why).clone().into());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = device.session_cache() {
            let session = cache.get_or_open(self.id(), open);
            if let Err(Refusal::Unsupported(why)) = &session {
                let _ = opened.set(Err(Box::new(why.clone())));
            }
            return session.map(OpenSession::Cached);
        }
        if opened.get().is_none() {
            let answer = match open() {
                Ok(session) => Ok(session),
                Err(Refusal::Unsupported(why)) => Err(Box::new(why)),
                Err(fault @ Refusal::Fault(_)) => return Err(fault),
            };
            let _ = opened.set(answer);
        }
        let opened = opened.get().expect("it has just been set");
        opened.as_ref().map(|session| OpenSession::Kept(&**session)).map_err(|why| (**why).clone().into())
    }

    /// Opens the session where a request would go, and where it cannot be opened there, where it would go next.
    pub(crate) fn prepare(&self, operation: Operation, bytes: usize) -> Result<()> {
        let (mut tried, mut last) = (0, None);
        while let Some(route) = self
            .ask_what_if(&Question::one(Shape { operation, bytes, in_place: true }, tried))
            .or_else(|| self.ask_what_if(&Question::one(Shape { operation, bytes, in_place: false }, tried)))
        {
            let Some(place) = self.place(route.device).filter(|_| tried >> route.device & 1 == 0) else { break };
            match self.opened(place, Urgency::Patient) {
                Ok(_) => return Ok(()),
                Err(Refusal::Fault(fault)) => last = Some(fault),
                Err(Refusal::Unsupported(_)) => {}
            }
            tried |= 1 << route.device;
        }
        Err(self.nobody(operation, last, Vec::new()))
    }

    /// Opens the session on every device where `other`, of the same algorithm, is open. A device that does not open it now is
    /// asked again when a request comes.
    pub(crate) fn open_where_open(&self, other: &SessionCore) {
        for (place, candidate) in self.candidates.iter().enumerate() {
            let is_cached =
                self.gantry.devices()[candidate.device].session_cache().is_some_and(|cache| cache.has(other.id()));
            if is_cached || other.kept(place).is_some() {
                let _ = self.opened(place, Urgency::Brief);
            }
        }
    }

    /// What tells sessions apart while they live.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// A copy of a request that is to be verified, before the device at `place` has it.
    #[inline]
    pub(crate) fn shadow(&self, place: usize, operands: &Operands<'_>) -> Option<Box<ShadowCopy>> {
        if self.is_verified_now() { self.copy(place, operands) } else { None }
    }

    /// Whether the next request is one of those that are verified.
    #[inline]
    pub(crate) fn is_verified_now(&self) -> bool {
        let every = self.gantry.verifies();
        every != 0 && is_due(every)
    }

    #[cold]
    fn copy(&self, place: usize, operands: &Operands<'_>) -> Option<Box<ShadowCopy>> {
        // Of a signature or a ciphertext that is another one each time, nothing can be said without the other key.
        let randomized = self.params.is_randomized();
        let compares = !(randomized && matches!(operands.operation(), Operation::Sign | Operation::Encipher));
        let is_reference = self.candidates[place].info.class == REFERENCE;
        (compares && !is_reference).then(|| ShadowCopy::of(operands).map(Box::new))?
    }

    /// Keeps a [shadow copy](Self::shadow) beside a request. Of segments that is done before, by whoever [copied](super::copies) them.
    pub(crate) fn attest(&self, place: usize, request: &mut Request<'_>) {
        let has_shadow = request.rare.as_ref().is_some_and(|rare| rare.shadow.is_some());
        if request.entry.scattered.is_none()
            && !has_shadow
            && let Some(shadow) = self.shadow(place, &request.entry.operands)
        {
            request.rare().shadow = Some(shadow);
        }
    }

    /// Keeps a shadow copy beside a request that is verified now.
    pub(crate) fn keep_shadow(&self, device: usize, request: &mut Request<'_>) {
        if let Some(shadow) = self.place(device).and_then(|place| self.copy(place, &request.entry.operands)) {
            request.rare().shadow = Some(shadow);
        }
    }

    /// The outcome of a request after a second look, if there is a shadow copy.
    #[inline]
    pub(crate) fn verified(
        &self,
        shadow: Option<Box<ShadowCopy>>,
        site: Site,
        operands: &mut Operands<'_>,
        outcome: Outcome,
        device: usize,
    ) -> Outcome {
        let Some(shadow) = shadow else { return outcome };
        self.verify(*shadow, site, operands, outcome, device)
    }

    #[cold]
    fn verify(
        &self,
        shadow: ShadowCopy,
        site: Site,
        operands: &mut Operands<'_>,
        outcome: Outcome,
        device: usize,
    ) -> Outcome {
        let Some(reference) = self.reference() else { return outcome };
        let here = self.counters().here();
        match shadow.check(self.params.algorithm(), &*reference, operands, outcome) {
            Comparison::None => outcome,
            Comparison::Same => {
                here.event(site, Event::Verified, 1);
                outcome
            }
            Comparison::Differs(right) => {
                here.event(site, Event::Verified, 1);
                here.event(site, Event::Mismatched, 1);
                here.fault(site, &Fault::failed("its result was another than that of software"));
                self.quarantine(device, site);
                right
            }
        }
    }

    /// The session on the device that is believed.
    fn reference(&self) -> Option<OpenSession<'_>> {
        let is_believed = |place: &usize| {
            let candidate = &self.candidates[*place];
            candidate.info.class == REFERENCE
                && candidate.capability.direct
                && self.gantry.devices()[candidate.device].is_ready()
        };
        let mut places = (0..self.candidates.len()).filter(is_believed);
        places.find_map(|place| self.opened(place, Urgency::Brief).ok())
    }

    /// The error of a request that no device serves. `declined`: what devices said that do not do this very request.
    pub(crate) fn nobody(&self, operation: Operation, last: Option<Fault>, declined: Vec<String>) -> Error {
        let algorithm = self.params.algorithm();
        if let Some(last) = last {
            return Error::Device { algorithm, last };
        }
        let reasons = (self.candidates.iter().zip(&self.openings))
            .filter_map(|(candidate, opening)| {
                let device = &self.gantry.devices()[candidate.device];
                let why = match opening.get() {
                    Some(Err(why)) => why.to_string(),
                    _ if !device.is_ready() => "it has failed, and is in quarantine".to_owned(),
                    Some(Ok(_)) => return None,
                    None => match device.admit_with(algorithm, Urgency::Brief).err()? {
                        // It was not asked, and nothing is wrong with it as far as anybody knows.
                        Refusal::Fault(Fault::Declined(UNDER_WAY)) => return None,
                        why => why.to_string(),
                    },
                };
                Some(format!("{}: {why}", device.name()))
            })
            .chain(declined)
            .collect();
        Error::Unserved { algorithm, operation, reasons }
    }
}

impl Drop for SessionCore {
    /// Keys are zeroized when their session ends, also those that a device's cache has.
    fn drop(&mut self) {
        for candidate in &*self.candidates {
            if let Some(cache) = self.gantry.devices()[candidate.device].session_cache() {
                cache.close(self.id());
            }
        }
    }
}

impl Handle {
    /// Notes the session that the request is of, and where it comes back to when another thread had it in hand.
    ///
    /// # Safety
    ///
    /// Both live until the request has come back to its owner (rule 2 of `driver/entry.rs`).
    #[inline]
    pub(crate) unsafe fn belong_to(&mut self, owner: &SessionCore, home: &Inbox) {
        self.note.owner = Some(NonNull::from(owner).cast());
        self.note.home = Some(NonNull::from(home).cast());
        self.note.algorithm = owner.params.algorithm();
    }

    /// The session that the request is of; it was set when core got it in hand.
    #[inline]
    pub(crate) fn owner(&self) -> &SessionCore {
        let owner = self.note.owner.expect("a request in hand has a session");
        // SAFETY: only `belong_to` and `Loan::of` set it, with the address of a session that lives until the request is back;
        // a session is only ever shared.
        unsafe { owner.cast().as_ref() }
    }

    /// The session and the request, to run it in another way.
    pub(crate) fn parts(&mut self) -> (&SessionCore, &mut Request<'static>) {
        let owner = self.note.owner.expect("a request in hand has a session");
        // SAFETY: as `owner`, which would borrow `self` beside the request.
        (unsafe { owner.cast().as_ref() }, &mut **self)
    }
}
