//! Helpers for tests under loom: requests that belong to no queue, of a session with the NULL cipher. `scripts/loom` runs the tests.
//!
//! Three tests cover races from the history of FreeBSD's framework. `backlog.rs` tests two of them: an unblock that is lost between the
//! device's answer "full" and the mark "blocked", and a queue that is drained while a device unblocks. `inbox.rs` tests the third: a
//! completion before the submitter waits.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Wake;

use loom::sync::Notify;

use crate::algorithm::{Algorithm, Fault, Outcome, Refusal, SessionParams};
use crate::api::Session;
use crate::clock::Clock;
use crate::dispatch::Gantry;
use crate::driver::{Buffers, Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands};
use crate::request::{Handle, Inbox, List, Request};
use crate::sync::pause;

/// Returns a list of one request of `session`, which comes back to the inbox `inbox`. The memory of the request is never freed.
pub(crate) fn request(session: &Session, inbox: &Inbox, slot: u32) -> List {
    let operands = Operands::Digest { input: &[], output: &mut [] };
    let request = Box::leak(Box::new(Request::new(operands, None)));
    request.meta.slot = slot;
    // SAFETY: the request has no other reference and is never freed; the tests keep session and inbox for as long as it is used.
    let mut handle = unsafe { Handle::new(NonNull::from(request)) };
    // SAFETY: as above.
    unsafe { handle.set_session(&session.core, inbox) };
    List::from_iter([handle])
}

/// A waker for tests. If a wake-up is lost, `wait` never returns, which loom reports.
pub(crate) struct Bell(Notify);

impl Bell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Notify::new()))
    }

    pub(crate) fn wait(&self) {
        self.0.wait();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Returns the slots of the requests in a list, sorted.
pub(crate) fn slots(list: List) -> Vec<u32> {
    let mut slots: Vec<u32> = list.map(|handle| handle.meta.slot).collect();
    slots.sort_unstable();
    slots
}

pub(crate) fn session() -> Session {
    Gantry::builder()
        .driver(&Idle)
        .clock(Arc::new(Still))
        .build()
        .session(SessionParams::new(Algorithm::Null, &[]))
        .expect("`Idle` offers the NULL cipher")
}

/// A clock that stands still, so that every run of a model is the same.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> u64 {
        0
    }

    fn wait(&self, _until: Option<u64>) {
        pause();
    }

    fn spend(&self, _ns: u64) {}
}

struct Idle;

impl Driver for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn discover(&self) -> Vec<Found> {
        let capabilities = vec![Capability::new(Algorithm::Null)];
        vec![Found::Device(Arc::new(TheDevice(DeviceInfo { capabilities, ..DeviceInfo::new("idle", Class::Model) })))]
    }
}

struct TheDevice(DeviceInfo);

impl Device for TheDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(TheSession))
    }
}

struct TheSession;

impl DeviceSession for TheSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        if let Operands::Cipher { data: Buffers::Separate { input, output }, .. } = operands {
            output.copy_from_slice(input);
        }
        Ok(Outcome::Done)
    }
}
