//! Sessions as dispatch sees them: parameters, the devices that offer the algorithm, and the sessions opened on these devices.

#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::framework::Gantry;
use crate::algorithm::{Error, Fault, Operation, Outcome, Refusal, Result, SessionParams, Shape, Unsupported};
use crate::devices::{TEST_RUNNING, TestWait};
use crate::driver::{DeviceSession, Operands};
use crate::request::{Handle, Inbox, Limits, Request};
use crate::route::{Candidate, Question, Route};
use crate::stats::{Event, Site, Stats};
use crate::trust::{Comparison, REFERENCE_CLASS, ShadowCopy, sample_one_in};

/// The state shared by a [`Session`](crate::Session) and its clones.
pub(crate) struct SessionCore {
    pub(crate) params: SessionParams,
    pub(crate) limits: Limits,
    pub(crate) gantry: Gantry,
    pub(crate) candidates: Arc<[Candidate]>,
    /// The sessions on devices, in the order of the candidates.
    device_sessions: Box<[DeviceSessionCell]>,
    /// Held while a thread opens the session on a device, so that only one thread opens it.
    open_lock: Mutex<()>,
    /// Bit mask of devices that do not serve the session.
    declined_devices: AtomicU64,
}

/// The session on one device, or the reason why the device does not serve the session. Empty before the session is opened. If a device
/// limits sessions, its own cache keeps the open session, and only a refusal is stored here.
type DeviceSessionCell = OnceLock<std::result::Result<Arc<dyn DeviceSession>, Box<Unsupported>>>;

/// A session opened by a device. It stays open as long as this value lives.
pub(crate) enum OpenSession<'s> {
    /// Kept by the session core.
    Borrowed(&'s dyn DeviceSession),
    /// From the device's session cache, which may evict it.
    Cached(Arc<dyn DeviceSession>),
}

impl Deref for OpenSession<'_> {
    type Target = dyn DeviceSession;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            OpenSession::Borrowed(session) => *session,
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
        let device_sessions = candidates.iter().map(|_| DeviceSessionCell::new()).collect();
        let (open_lock, declined_devices) = (Mutex::new(()), AtomicU64::new(0));
        Ok(Self {
            limits: Limits::new(&params),
            params,
            gantry,
            candidates,
            device_sessions,
            open_lock,
            declined_devices,
        })
    }

    /// Asks the policy about requests that will run.
    #[inline]
    pub(crate) fn ask(&self, question: &Question<'_>) -> Option<Route> {
        self.gantry.retry_quarantined();
        self.ask_with(question, false)
    }

    /// Asks the policy without running anything.
    pub(crate) fn ask_hypothetically(&self, question: &Question<'_>) -> Option<Route> {
        self.ask_with(question, true)
    }

    #[inline]
    fn ask_with(&self, question: &Question<'_>, hypothetical: bool) -> Option<Route> {
        let declined = self.declined_devices.load(Ordering::Relaxed);
        self.gantry.ask(self.params.algorithm(), &self.candidates, question, declined, hypothetical)
    }

    /// Returns the number of requests with this operation and size that a queue collects into a batch.
    pub(crate) fn batch_size(&self, operation: Operation, bytes: usize) -> usize {
        let question = Question::one(Shape { operation, bytes, in_place: true }, 0);
        let declined = self.declined_devices.load(Ordering::Relaxed);
        let ask = self.gantry.policy_question(self.params.algorithm(), &self.candidates, &question, declined, true);
        self.gantry.policy().batch_size(&ask)
    }

    /// Returns `true` if all devices work in the calling thread.
    #[inline]
    pub(crate) fn all_synchronous(&self) -> bool {
        self.candidates.iter().all(|candidate| candidate.capability.synchronous)
    }

    pub(crate) fn quarantine(&self, device: usize, site: Site) {
        self.gantry.devices()[device].health().quarantine(site);
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Stats {
        self.gantry.counters()
    }

    /// Returns the key of the counters for this session's algorithm and an operation on a device.
    #[inline]
    pub(crate) fn site(&self, device: usize, operation: Operation) -> Site {
        Site::new(device, self.params.algorithm(), operation)
    }

    /// Returns `true` if the device is ready and takes requests of `bytes` bytes.
    pub(crate) fn serves(&self, device: usize, bytes: usize) -> bool {
        let takes_size = |index: usize| self.candidates[index].capability.max_bytes >= bytes;
        self.gantry.devices()[device].is_ready() && self.candidate_index(device).is_some_and(takes_size)
    }

    /// Returns the index of a device among the candidates; `None` if a policy chose a device that it was not offered.
    #[inline]
    pub(crate) fn candidate_index(&self, device: usize) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.device == device)
    }

    /// Returns the session on a device, if it is open and kept in this session core.
    #[inline]
    pub(crate) fn device_session_if_open(&self, index: usize) -> Option<&dyn DeviceSession> {
        match self.device_sessions.get(index)?.get() {
            Some(Ok(session)) => Some(&**session),
            _ => None,
        }
    }

    /// Returns the session on a device. The first call opens it; after a fault, a later call may try again.
    #[inline]
    pub(crate) fn device_session(
        &self,
        index: usize,
        test_wait: TestWait,
    ) -> std::result::Result<OpenSession<'_>, Refusal> {
        match self.device_session_if_open(index) {
            Some(session) => Ok(OpenSession::Borrowed(session)),
            None => self.open_device_session(index, test_wait),
        }
    }

    #[cold]
    fn open_device_session(&self, index: usize, test_wait: TestWait) -> std::result::Result<OpenSession<'_>, Refusal> {
        let Some((candidate, cell)) = self.candidates.get(index).zip(self.device_sessions.get(index)) else {
            return Err(Unsupported::because("it was added after the session was created").into());
        };
        let device = &self.gantry.devices()[candidate.device];
        let is_randomized = self.params.is_deterministic()
            && self.params.algorithm().info().randomized
            && !candidate.capability.deterministic;
        let open = || {
            let session = if is_randomized {
                Err(Unsupported::because("its signatures are randomized").into())
            } else {
                device.open(&self.params, test_wait)
            };
            session.inspect_err(|why| {
                if matches!(why, Refusal::Unsupported(_)) {
                    self.declined_devices.fetch_or(candidate.bit(), Ordering::Relaxed);
                }
            })
        };
        if let Some(Err(why)) = cell.get() {
            return Err((**why).clone().into());
        }
        let _guard = self.open_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = device.session_cache() {
            let session = cache.get_or_open(self.id(), open);
            if let Err(Refusal::Unsupported(why)) = &session {
                let _ = cell.set(Err(Box::new(why.clone())));
            }
            return session.map(OpenSession::Cached);
        }
        if cell.get().is_none() {
            let answer = match open() {
                Ok(session) => Ok(session),
                Err(Refusal::Unsupported(why)) => Err(Box::new(why)),
                Err(fault @ Refusal::Fault(_)) => return Err(fault),
            };
            let _ = cell.set(answer);
        }
        let session = cell.get().expect("it has just been set");
        session.as_ref().map(|session| OpenSession::Borrowed(&**session)).map_err(|why| (**why).clone().into())
    }

    /// Opens the session on the device that an in-place request would go to. If no device takes such requests, asks about separate
    /// buffers. If opening the session fails, tries the next device.
    pub(crate) fn prepare(&self, operation: Operation, bytes: usize) -> Result<()> {
        let (mut tried_devices, mut last) = (0, None);
        while let Some(route) =
            self.ask_hypothetically(&Question::one(Shape { operation, bytes, in_place: true }, tried_devices)).or_else(
                || self.ask_hypothetically(&Question::one(Shape { operation, bytes, in_place: false }, tried_devices)),
            )
        {
            let Some(index) = self.candidate_index(route.device).filter(|_| tried_devices >> route.device & 1 == 0)
            else {
                break;
            };
            match self.device_session(index, TestWait::Full) {
                Ok(_) => return Ok(()),
                Err(Refusal::Fault(fault)) => last = Some(fault),
                Err(Refusal::Unsupported(_)) => {}
            }
            tried_devices |= 1 << route.device;
        }
        Err(self.unserved_error(operation, last, Vec::new()))
    }

    /// Opens the session on every device on which `other` is open. Both sessions have the same algorithm. If a device fails to open the
    /// session, a later request tries again.
    pub(crate) fn open_where_open(&self, other: &SessionCore) {
        for (index, candidate) in self.candidates.iter().enumerate() {
            let is_cached =
                self.gantry.devices()[candidate.device].session_cache().is_some_and(|cache| cache.is_open(other.id()));
            if is_cached || other.device_session_if_open(index).is_some() {
                let _ = self.device_session(index, TestWait::Brief);
            }
        }
    }

    /// Returns a number that distinguishes living sessions.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Copies a request if its result is to be verified. The candidate at `index` gets the request afterwards.
    #[inline]
    pub(crate) fn shadow_copy(&self, index: usize, operands: &Operands<'_>) -> Option<Box<ShadowCopy>> {
        if self.sample_for_verification() { self.new_shadow_copy(index, operands) } else { None }
    }

    /// Returns `true` if the next request is to be verified, and counts it.
    #[inline]
    pub(crate) fn sample_for_verification(&self) -> bool {
        let one_in = self.gantry.verify_one_in();
        one_in != 0 && sample_one_in(one_in)
    }

    #[cold]
    fn new_shadow_copy(&self, index: usize, operands: &Operands<'_>) -> Option<Box<ShadowCopy>> {
        // A randomized signature or ciphertext cannot be verified without the other key of the pair.
        let randomized = self.params.is_randomized();
        let is_comparable = !(randomized && matches!(operands.operation(), Operation::Sign | Operation::Encipher));
        let is_reference = self.candidates[index].info.class == REFERENCE_CLASS;
        (is_comparable && !is_reference).then(|| ShadowCopy::new(operands).map(Box::new))?
    }

    /// Stores a [shadow copy](Self::shadow_copy) in a request, if the request is to be verified. For segments that the device takes,
    /// `examine_segments` has already decided this.
    pub(crate) fn keep_shadow_if_due(&self, index: usize, request: &mut Request<'_>) {
        let has_shadow = request.cold.as_ref().is_some_and(|cold| cold.shadow.is_some());
        if request.entry.scattered.is_none()
            && !has_shadow
            && let Some(shadow) = self.shadow_copy(index, &request.entry.operands)
        {
            request.cold_mut().shadow = Some(shadow);
        }
    }

    /// Stores a shadow copy in a request that is to be verified.
    pub(crate) fn keep_shadow(&self, device: usize, request: &mut Request<'_>) {
        if let Some(shadow) =
            self.candidate_index(device).and_then(|index| self.new_shadow_copy(index, &request.entry.operands))
        {
            request.cold_mut().shadow = Some(shadow);
        }
    }

    /// Verifies a request if there is a shadow copy of it. Returns the right outcome.
    #[inline]
    pub(crate) fn verified_outcome(
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
        let counters = self.counters().this_thread();
        match shadow.check(self.params.algorithm(), &*reference, operands, outcome) {
            Comparison::None => outcome,
            Comparison::Same => {
                counters.count_event(site, Event::Verified, 1);
                outcome
            }
            Comparison::Differs(reference_outcome) => {
                counters.count_event(site, Event::Verified, 1);
                counters.count_event(site, Event::Mismatched, 1);
                counters.count_fault(site, &Fault::failed("its result differs from that of software"));
                self.quarantine(device, site);
                reference_outcome
            }
        }
    }

    /// Returns the session on the reference device.
    fn reference(&self) -> Option<OpenSession<'_>> {
        let is_reference = |index: &usize| {
            let candidate = &self.candidates[*index];
            candidate.info.class == REFERENCE_CLASS
                && candidate.capability.synchronous
                && self.gantry.devices()[candidate.device].is_ready()
        };
        let mut indexes = (0..self.candidates.len()).filter(is_reference);
        indexes.find_map(|index| self.device_session(index, TestWait::Brief).ok())
    }

    /// Returns the error of a request that no device serves. `decline_reasons` has the reasons that devices gave for declining this
    /// request.
    pub(crate) fn unserved_error(
        &self,
        operation: Operation,
        last: Option<Fault>,
        decline_reasons: Vec<String>,
    ) -> Error {
        let algorithm = self.params.algorithm();
        if let Some(last) = last {
            return Error::Device { algorithm, last };
        }
        let reasons = (self.candidates.iter().zip(&self.device_sessions))
            .filter_map(|(candidate, cell)| {
                let device = &self.gantry.devices()[candidate.device];
                let why = match cell.get() {
                    Some(Err(why)) => why.to_string(),
                    _ if !device.is_ready() => "it has failed, and is in quarantine".to_owned(),
                    Some(Ok(_)) => return None,
                    None => match device.admit_with(algorithm, TestWait::Brief).err()? {
                        // The test is still running, so it gives no reason.
                        Refusal::Fault(Fault::Declined(TEST_RUNNING)) => return None,
                        why => why.to_string(),
                    },
                };
                Some(format!("{}: {why}", device.name()))
            })
            .chain(decline_reasons)
            .collect();
        Error::Unserved { algorithm, operation, reasons }
    }
}

impl Drop for SessionCore {
    /// Closes the session in the caches of devices, so that its keys are zeroized there, too.
    fn drop(&mut self) {
        for candidate in &*self.candidates {
            if let Some(cache) = self.gantry.devices()[candidate.device].session_cache() {
                cache.close(self.id());
            }
        }
    }
}

impl Handle {
    /// Sets the session of a request, and the inbox to which another thread returns it.
    ///
    /// # Safety
    ///
    /// The session and the inbox must live until the request has come back to its owner (rule 2 of `driver/entry.rs`).
    #[inline]
    pub(crate) unsafe fn set_session(&mut self, session: &SessionCore, inbox: &Inbox) {
        self.meta.session = Some(NonNull::from(session).cast());
        self.meta.inbox = Some(NonNull::from(inbox).cast());
        self.meta.algorithm = session.params.algorithm();
    }

    /// Returns the session of the request, which was set when core got the request.
    #[inline]
    pub(crate) fn session(&self) -> &SessionCore {
        let session = self.meta.session.expect("a request in flight has a session");
        // SAFETY: only `set_session` and `BorrowedBatch::new` set it, to the address of a session that lives until the request is back. A
        // session is only ever shared.
        unsafe { session.cast().as_ref() }
    }

    /// Returns the session and the request together, for code that needs both at once.
    pub(crate) fn parts(&mut self) -> (&SessionCore, &mut Request<'static>) {
        let session = self.meta.session.expect("a request in flight has a session");
        // SAFETY: as in `session`, which is not called here because it would borrow `self` at the same time as the request.
        (unsafe { session.cast().as_ref() }, &mut **self)
    }
}
