//! Requests that change hands: from core to a device and back. All of this crate's lists of requests are here.
//!
//! A device may keep a request beyond the call that brought it: a ring is filled now and emptied later. Rust's borrows
//! end with a call, so a [`Job`] points. What makes that sound:
//!
//! 1. *One hand.* A request is touched through its owner's borrow, or through one [`Handle`], or through one [`Job`]; never by
//!    two of these at a time. While it is a job it is marked `IN_DEVICE`, and core touches nothing of it but that mark and
//!    the link to the next request, both through raw pointers to these very fields.
//! 2. *Long enough.* Whoever makes a [`Handle`] promises that the request, and the sessions that it points to, stay where they
//!    are until the handle has come back. Those who promise are `Session::process`, which does not return before, and
//!    `Queue`, which owns the memory and leaks it where a device keeps something for good.
//! 3. *Visible.* The last touch of a job is a `Release` store to the mark, and core reads it with `Acquire`.

#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::driver::DeviceSession;
use crate::inbox::Inbox;
use crate::request::{Body, IDLE, IN_DEVICE, Operands, Request, Shape};
use crate::route::Route;
use crate::session::Inner;
use crate::{Fault, Outcome};

pub(crate) type Place = NonNull<Request<'static>>;

/// A request that core has in hand.
pub(crate) struct Handle(Place);

// SAFETY: a handle is the only way to its request (rule 1), whose parts (slices, streams, plain values) are Send.
unsafe impl Send for Handle {}

impl Handle {
    /// # Safety
    ///
    /// Until the handle is gone, the request stays where it is, with what it borrows and with the sessions that its link
    /// will point to, and nothing else touches it (rules 1 and 2).
    #[inline]
    pub(crate) unsafe fn new(request: NonNull<Request<'_>>) -> Self {
        Self(request.cast())
    }

    /// Ends the handle; the request is its owner's again.
    #[inline]
    pub(crate) fn into_place(self) -> Place {
        self.0
    }
}

impl Deref for Handle {
    type Target = Request<'static>;

    #[inline]
    fn deref(&self) -> &Request<'static> {
        // SAFETY: rules 1 and 2. The lifetimes inside are longer than those of the truth; core only passes them on shorter.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Handle {
    #[inline]
    fn deref_mut(&mut self) -> &mut Request<'static> {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { self.0.as_mut() }
    }
}

impl Request<'static> {
    /// Whether the request comes back to this inbox.
    #[inline]
    pub(crate) fn is_at_home(&self, home: &Inbox) -> bool {
        self.link.home == Some(NonNull::from(home))
    }
}

impl Iterator for List {
    type Item = Handle;

    #[inline]
    fn next(&mut self) -> Option<Handle> {
        self.pop()
    }
}

/// What core notes about a request while it has it in hand. A device never touches it.
pub(crate) struct Link {
    next: Option<Place>,
    /// As the device opened it, where the request goes next.
    session: Option<NonNull<dyn DeviceSession>>,
    /// The session of the request.
    owner: Option<NonNull<Inner>>,
    /// When it was offered to a ring, or submitted to a queue that has not passed it on.
    pub(crate) since: u64,
    /// What routes go by.
    pub(crate) shape: Shape,
    /// Where the request is to come back to, when another thread than its own has it in hand.
    home: Option<NonNull<Inbox>>,
    /// The candidates of its session that have failed to do it.
    pub(crate) tried: u64,
    /// Its place in the queue that it belongs to.
    pub(crate) slot: u32,
}

// SAFETY: what it points to is Sync (sessions), or used by whoever has the request in hand (the next one).
unsafe impl Send for Link {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Link {}

impl Link {
    pub(crate) const fn new() -> Self {
        Self { next: None, session: None, owner: None, since: 0, shape: Shape::NOTHING, home: None, tried: 0, slot: 0 }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Handle {
    /// Notes the session that the request is of, and where it comes back to when another thread had it in hand. Rule 2 holds
    /// for both as for the request.
    #[inline]
    pub(crate) fn belong_to(&mut self, owner: &Inner, home: &Inbox) {
        self.link.owner = Some(NonNull::from(owner));
        self.link.home = Some(NonNull::from(home));
    }

    /// Gives the request back to whoever it belongs to.
    pub(crate) fn deliver(self) {
        let home = self.link.home.expect("a request that left its thread has a home");
        // SAFETY: rule 2 keeps the inbox alive until the request came back through it.
        let home = unsafe { home.as_ref() };
        let mut list = List::new();
        list.push(self);
        home.deliver(list);
    }

    /// Notes where the request goes next, and the session as that device opened it. Rule 2 holds for that as for the request.
    #[inline]
    pub(crate) fn send_to(&mut self, session: &Arc<dyn DeviceSession>, route: Option<Route>) {
        self.link.session = Some(NonNull::from(&**session));
        self.body.route = route;
    }

    /// The session and what to do on it, to run the request in another way.
    pub(crate) fn parts(&mut self) -> (&Inner, &mut Body<'static>) {
        let owner = self.link.owner.expect("a request in hand has a session");
        // SAFETY: as `owner`, which would borrow `self` beside the body.
        (unsafe { owner.as_ref() }, &mut self.body)
    }

    /// The session that the request is of; it was set when core got it in hand.
    #[inline]
    pub(crate) fn owner(&self) -> &Inner {
        let owner = self.link.owner.expect("a request in hand has a session");
        // SAFETY: rule 2 keeps the session alive, which is only ever shared.
        unsafe { owner.as_ref() }
    }
}

/// Handles in a row, linked through the requests themselves.
pub(crate) struct List {
    head: Option<Place>,
    tail: Option<Place>,
    len: usize,
}

// SAFETY: as for the handles that it is made of.
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    #[inline]
    pub(crate) fn push(&mut self, handle: Handle) {
        self.link(handle.into_place());
    }

    #[inline]
    fn link(&mut self, place: Place) {
        set_next(place, None);
        match self.tail {
            Some(tail) => set_next(tail, Some(place)),
            None => self.head = Some(place),
        }
        self.tail = Some(place);
        self.len += 1;
    }

    /// Adds a request before all others.
    pub(crate) fn push_front(&mut self, handle: Handle) {
        let mut rest = std::mem::take(self);
        self.push(handle);
        self.append(&mut rest);
    }

    /// The link of what is popped still leads to what was behind it.
    #[inline]
    fn unlink(&mut self) -> Option<Place> {
        let place = self.head?;
        self.head = next(place);
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(place)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Handle> {
        self.unlink().map(Handle)
    }

    /// Adds all of `other` at the end.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut List) {
        let other = std::mem::take(other);
        match self.tail {
            Some(tail) => {
                set_next(tail, other.head);
                self.tail = other.tail.or(self.tail);
                self.len += other.len;
            }
            None => *self = other,
        }
    }

    /// The first `count`, or all there are.
    pub(crate) fn take_front(&mut self, count: usize) -> List {
        if count >= self.len {
            return std::mem::take(self);
        }
        let head = self.head;
        let mut tail = None;
        for _ in 0..count {
            tail = self.unlink();
        }
        List::of_chain(head, tail, count)
    }

    /// Of so many requests, from the first to the last; nothing where there is no last one.
    #[inline]
    fn of_chain(head: Option<Place>, tail: Option<Place>, len: usize) -> List {
        let Some(last) = tail else { return List::new() };
        set_next(last, None);
        List { head, tail, len }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request<'static>> {
        // SAFETY: the list holds handles; as `Handle::deref`, and `self` is borrowed.
        std::iter::successors(self.head, |place| next(*place)).map(|place| unsafe { place.as_ref() })
    }

    /// Calls `each` for every request.
    #[inline]
    pub(crate) fn each(&mut self, mut each: impl FnMut(&mut Handle)) {
        let mut place = self.head;
        while let Some(here) = place {
            place = next(here);
            each(&mut Handle(here));
        }
    }

    /// The chain of links, for [`from_chain`](Self::from_chain).
    pub(crate) fn into_chain(self) -> Option<(Place, Place)> {
        Some((self.head?, self.tail?))
    }

    /// The list of a chain that begins with `first`, as [`into_chain`](Self::into_chain) gave it, or of several with each last link
    /// leading to the next chain.
    ///
    /// # Safety
    ///
    /// Nobody else has any of these chains any more.
    pub(crate) unsafe fn from_chain(first: *mut Request<'static>) -> Self {
        let mut list = List::new();
        let mut place = NonNull::new(first);
        while let Some(here) = place {
            place = next(here);
            list.link(here);
        }
        list
    }

    /// Takes out the requests for which `out` says so, in order.
    pub(crate) fn extract(&mut self, mut out: impl FnMut(&Request<'static>) -> bool) -> List {
        let mut extracted = List::new();
        let mut rest = std::mem::take(self);
        while let Some(handle) = rest.pop() {
            if out(&handle) { extracted.push(handle) } else { self.push(handle) }
        }
        extracted
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<Handle> for List {
    fn from_iter<I: IntoIterator<Item = Handle>>(handles: I) -> Self {
        let mut list = List::new();
        list.extend(handles);
        list
    }
}

impl Extend<Handle> for List {
    fn extend<I: IntoIterator<Item = Handle>>(&mut self, handles: I) {
        for handle in handles {
            self.push(handle);
        }
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests", self.len)
    }
}

/// Requests of a call that borrows them, about to be handed to devices.
///
/// The call cannot return, not even by a panic, before they are back.
pub(crate) struct Loan<'r> {
    list: List,
    home: &'r Inbox,
    requests: PhantomData<&'r mut Request<'r>>,
}

impl<'r> Loan<'r> {
    /// Of all of them, once `examine` has looked at each and said whose session it is of. An error of its is the end of it.
    #[inline]
    pub(crate) fn of<E>(
        requests: &'r mut [Request<'_>],
        home: &'r Inbox,
        mut examine: impl FnMut(usize, &mut Request<'_>) -> Result<Option<&'r Inner>, E>,
    ) -> Result<Self, E> {
        let len = requests.len();
        // The slice, the owners and the inbox are borrowed for as long as the loan lives, and the slice is not used by its own name
        // meanwhile. What the loan hands out comes back before it ends (`run`), and handles cannot be copied.
        let first: Place = NonNull::from(requests).cast();
        for place in 0..len {
            // SAFETY: within the slice, or right behind it.
            let (here, behind) = unsafe { (first.add(place), first.add(place + 1)) };
            // SAFETY: in the slice, and nobody else has it.
            let request = unsafe { here.cast::<Request<'_>>().as_mut() };
            let owner = examine(place, request)?;
            let link = &mut request.link;
            (link.owner, link.home, link.tried) = (owner.map(NonNull::from), Some(NonNull::from(home)), 0);
            link.next = Some(behind);
        }
        // SAFETY: as above.
        let last = len.checked_sub(1).map(|last| unsafe { first.add(last) });
        Ok(Self { list: List::of_chain(Some(first), last, len), home, requests: PhantomData })
    }

    /// Keeps those that have an outcome already.
    #[cold]
    pub(crate) fn leave_out_ended(&mut self) {
        self.list.extract(|request| request.body.outcome.is_some());
    }

    /// Lends them to `work`, which gives every one of them back.
    #[inline]
    pub(crate) fn run(self, work: impl FnOnce(List) -> List) {
        /// Ends the process when requests are about to be freed that something may still write to.
        struct Bail;
        impl Drop for Bail {
            fn drop(&mut self) {
                std::process::abort();
            }
        }
        let (bail, lent) = (Bail, self.list.len());
        let back = work(self.list);
        self.home.settle();
        if back.len() == lent {
            std::mem::forget(bail);
        }
    }
}

/// Leads the last link of a chain to another one, which nobody else has any more.
pub(crate) fn join(last: Place, next: *mut Request<'static>) {
    set_next(last, NonNull::new(next));
}

#[inline]
fn next(place: Place) -> Option<Place> {
    // SAFETY: rule 2 keeps the request alive. The link is core's own field: a device never touches it, so it may be read while
    // a job has the rest (rule 1).
    unsafe { (&raw const (*place.as_ptr()).link.next).read() }
}

#[inline]
fn set_next(place: Place, next: Option<Place>) {
    // SAFETY: as `next`, and only the thread that has the list writes its links.
    unsafe { (&raw mut (*place.as_ptr()).link.next).write(next) }
}

#[inline]
fn is_back(place: Place) -> bool {
    // SAFETY: the mark is alive as the request is (rule 2), and is only used through shared references to itself.
    unsafe { (*place.as_ptr()).state.load(Ordering::Acquire) == IDLE }
}

/// Requests that are in a device, in the order in which it took them.
#[derive(Debug, Default)]
pub(crate) struct InFlight(List);

impl InFlight {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is at home in this inbox.
    pub(crate) fn has_of(&self, home: &Inbox) -> bool {
        // SAFETY: as `next`.
        let home_of = |place: Place| unsafe { (&raw const (*place.as_ptr()).link.home).read() };
        std::iter::successors(self.0.head, |place| next(*place))
            .any(|place| home_of(place) == Some(NonNull::from(home)))
    }

    /// The request that has been in the device for longest, by its address, and the bytes of its data.
    pub(crate) fn oldest(&self) -> Option<(usize, usize)> {
        let place = self.0.head?;
        // SAFETY: as `next`.
        let shape = unsafe { (&raw const (*place.as_ptr()).link.shape).read() };
        Some((place.addr().get(), shape.bytes))
    }

    /// Moves those to `done` that are back: from the front on until one is not, or with `all` wherever they are.
    pub(crate) fn collect(&mut self, all: bool, done: &mut List) -> usize {
        let mut found = 0;
        while let Some(place) = self.0.head
            && is_back(place)
        {
            self.0.unlink();
            done.link(place);
            found += 1;
        }
        if all && !self.is_empty() {
            let mut rest = std::mem::take(&mut self.0);
            while let Some(place) = rest.unlink() {
                let back = is_back(place);
                found += usize::from(back);
                if back { done.link(place) } else { self.0.link(place) }
            }
        }
        found
    }
}

impl Operands<'_> {
    /// The same operands for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Operands<'_> {
        // SAFETY: the copy is what building each variant anew makes, more slowly, from its reborrowed fields: the original is out
        // of reach as long as the copy lives, which is not longer than what the fields point to.
        unsafe { (&raw const *self).cast::<Operands<'_>>().read() }
    }
}

/// Requests that are offered to a device, in order.
pub struct Batch<'b> {
    offered: &'b mut List,
    first: Option<Place>,
    /// How many there were.
    all: usize,
}

impl<'b> Batch<'b> {
    /// Every request has no outcome yet, and the session in its link that the device opened.
    pub(crate) fn new(offered: &'b mut List) -> Self {
        let (first, all) = (offered.head, offered.len);
        Self { offered, first, all }
    }

    /// Requests that have not been taken.
    #[allow(clippy::len_without_is_empty, reason = "take() tells")]
    pub fn len(&self) -> usize {
        self.offered.len()
    }

    /// The next request.
    #[inline]
    pub fn take(&mut self) -> Option<Job> {
        let place = self.offered.unlink()?;
        // SAFETY: as `is_back`.
        unsafe { (*place.as_ptr()).state.store(IN_DEVICE, Ordering::Relaxed) };
        Some(Job(place))
    }

    /// Gives a job back with its result.
    #[inline]
    #[allow(clippy::unused_self, reason = "where a driver author looks for it, as for `Completions::complete`")]
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        job.complete(result);
    }

    /// What was taken: those that are back already go to `done`, the others to `flight`. Whether all are back, and each
    /// [is done](Body::is_done).
    pub(crate) fn settle(self, flight: &mut InFlight, done: &mut List) -> bool {
        let Batch { offered, first, all } = self;
        let taken = all - offered.len;
        let (mut place, mut last, mut back, mut plain) = (first, None, 0, true);
        // No job writes links, and `unlink` leaves them: those that are back stay the chain that they were.
        while back < taken
            && let Some(here) = place
            && is_back(here)
        {
            // SAFETY: as `Handle::deref`; the request is back.
            plain &= unsafe { here.as_ref() }.body.is_done();
            (last, place, back) = (place, next(here), back + 1);
        }
        done.append(&mut List::of_chain(first, last, back));
        for _ in back..taken {
            let Some(here) = place else { break };
            place = next(here);
            if is_back(here) { done.link(here) } else { flight.0.link(here) }
        }
        plain && back == taken
    }
}

/// Where a device gives back the jobs that it kept.
pub struct Completions {
    completed: usize,
}

impl Completions {
    pub(crate) fn new() -> Self {
        Self { completed: 0 }
    }

    /// Gives a job back with its result.
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        self.completed += 1;
        job.complete(result);
    }

    /// Jobs given back through this value.
    pub fn completed(&self) -> usize {
        self.completed
    }
}

/// A request in the hands of a device, to be given back through [`Batch::complete`] or [`Completions::complete`].
/// Dropping it reports [`Fault::Lost`].
pub struct Job(Place);

// SAFETY: a job is the only way to its request (rule 1), whose parts (slices, streams, plain values) are Send; the session
// is Sync; the mark is atomic. Core sees what another thread wrote because of rule 3.
unsafe impl Send for Job {}

impl Job {
    /// What to do, with the buffers to do it on.
    #[inline]
    pub fn operands(&mut self) -> Operands<'_> {
        // SAFETY: rule 1 makes this job the only way to the body, rule 2 keeps it alive.
        unsafe { &mut (*self.0.as_ptr()).body.operands }.reborrow()
    }

    /// The session, as the device opened it.
    #[inline]
    pub fn session(&self) -> &dyn DeviceSession {
        // SAFETY: rule 2 keeps the session alive, which core put into the link before it offered the request (`Batch::new`),
        // and does not change while it is in the device; it is only ever shared.
        unsafe { (&raw const (*self.0.as_ptr()).link.session).read().unwrap_unchecked().as_ref() }
    }

    /// The session as the type that this device opens. A job only ever reaches the device that opened its session, so
    /// `None` means a mistake in the driver.
    #[inline]
    pub fn session_as<S: DeviceSession>(&self) -> Option<&S> {
        (self.session() as &dyn Any).downcast_ref()
    }

    /// The session and what to do, both at once: for a device that works on the jobs of several sessions side by side.
    #[inline]
    pub fn parts(&mut self) -> (&dyn DeviceSession, Operands<'_>) {
        // SAFETY: as `session`, which would borrow `self` beside `operands`.
        let session = unsafe { (&raw const (*self.0.as_ptr()).link.session).read().unwrap_unchecked().as_ref() };
        (session, self.operands())
    }

    /// Does the work where it stands: [`DeviceSession::run`] of this job's session, or the next step of its stream.
    #[inline]
    pub fn run_direct(&mut self) -> Result<Outcome, Fault> {
        let (session, operands) = self.parts();
        operands.run_by(session)
    }

    #[inline]
    fn complete(self, result: Result<Outcome, Fault>) {
        self.finish(result);
        std::mem::forget(self);
    }

    #[inline]
    fn finish(&self, result: Result<Outcome, Fault>) {
        // SAFETY: rules 1 and 2; after the store below nothing is touched through this job any more.
        unsafe {
            (*self.0.as_ptr()).body.finish(result);
            (*self.0.as_ptr()).state.store(IDLE, Ordering::Release);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.finish(Err(Fault::Lost));
    }
}
