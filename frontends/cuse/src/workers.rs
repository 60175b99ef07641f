//! The threads for long requests, and for requests that wait for a caller.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::descriptor::{self, Caller};
use crate::fuse::Kernel;
use crate::pending::{AccessFailure, PendingIoctl, answer_caller, read_ranges, unread_ranges};
use crate::plan::{Action, Plan, Sessions, plan};
use crate::session::{CryptoSession, SessionState};
use crate::task::Task;
use crate::wiped_bytes::WipedBytes;

/// A long request.
pub(crate) struct LongRequest {
    pub(crate) pending: PendingIoctl,
    pub(crate) session: u32,
    pub(crate) crypto: Arc<CryptoSession>,
    pub(crate) state: SessionState,
    pub(crate) input_bytes: WipedBytes,
    pub(crate) load: Load,
}

/// The load of a request in progress, which counts against its user's limit.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) uid: u32,
    pub(crate) bytes: usize,
}

/// The result of a worker.
pub(crate) struct WorkerResult {
    pub(crate) load: Load,
    /// The state that a long request had taken from its session, with file and session number.
    pub(crate) state: Option<(u64, u32, SessionState)>,
}

/// Stack size in bytes of a thread that creates a descriptor.
pub(crate) const DESCRIPTOR_STACK_BYTES: usize = 64 << 10;

/// The threads for long requests, and the temporary threads that create descriptors.
pub(crate) struct Workers {
    kernel: Arc<Kernel>,
    requests: Sender<LongRequest>,
    outbox: Sender<WorkerResult>,
    pub(crate) results: Receiver<WorkerResult>,
    pub(crate) wake_event: Arc<EventFd>,
}

impl Workers {
    pub(crate) fn start(kernel: &Arc<Kernel>) -> io::Result<Self> {
        let (requests, inbox) = channel::<LongRequest>();
        let (outbox, results) = channel();
        let wake_event = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(16) {
            let (inbox, outbox, wake_event, kernel) =
                (inbox.clone(), outbox.clone(), wake_event.clone(), kernel.clone());
            thread::Builder::new().name("long requests".to_owned()).spawn(move || {
                loop {
                    let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(request) = next else { return };
                    let (file, unique) = (request.pending.file, request.pending.caller.unique);
                    let (session, load) = (request.session, request.load);
                    let state = catch_unwind(AssertUnwindSafe(|| request.run(&kernel))).unwrap_or_else(|_| {
                        let _ = kernel.answer_error(unique, Errno::EIO);
                        SessionState::new()
                    });
                    if outbox.send(WorkerResult { load, state: Some((file, session, state)) }).is_err() {
                        return;
                    }
                    let _ = wake_event.write(1);
                }
            })?;
        }
        Ok(Self { kernel: kernel.clone(), requests, outbox, results, wake_event })
    }

    pub(crate) fn send(&self, request: LongRequest) {
        // This cannot fail: the threads live as long as `self`.
        let _ = self.requests.send(request);
    }

    /// Starts a thread that makes a caller duplicate its descriptor, and answers the caller.
    ///
    /// # Errors
    /// The thread could not be started; the caller has not been answered.
    pub(crate) fn give_descriptor(&self, caller: Caller, load: Load) -> io::Result<()> {
        let (kernel, outbox, wake_event) = (self.kernel.clone(), self.outbox.clone(), self.wake_event.clone());
        let give = move || {
            if catch_unwind(AssertUnwindSafe(|| descriptor::give_descriptor(&kernel, &caller))).is_err() {
                let _ = kernel.answer_error(caller.unique, Errno::EIO);
            }
            let _ = outbox.send(WorkerResult { load, state: None });
            let _ = wake_event.write(1);
        };
        thread::Builder::new().name("descriptor".to_owned()).stack_size(DESCRIPTOR_STACK_BYTES).spawn(give).map(|_| ())
    }
}

/// The only session that a worker knows.
struct SingleSession<'s>(u32, &'s CryptoSession);

impl Sessions for SingleSession<'_> {
    fn crypto_session(&self, session: u32) -> Option<&CryptoSession> {
        (session == self.0).then_some(self.1)
    }
}

impl LongRequest {
    /// Reads the caller's memory, runs the request, and answers it.
    fn run(self, kernel: &Kernel) -> SessionState {
        let Self { pending, session, crypto, state, mut input_bytes, .. } = self;
        let errno = loop {
            match plan(pending.call, &SingleSession(session, &crypto), &input_bytes) {
                Plan::Fail(errno) => break errno,
                Plan::Read(requested) => {
                    match read_ranges(&pending, unread_ranges(&requested, input_bytes.len()), &mut input_bytes) {
                        Ok(()) => {}
                        Err(AccessFailure::Errno(errno)) => break errno,
                        Err(AccessFailure::Denied) => break Errno::EFAULT,
                    }
                }
                Plan::Ready { action: Action::Crypt(job), outputs, .. } => {
                    let mut task = Task::new(crypto, state, job, input_bytes);
                    task.run();
                    // If this fails, the caller no longer waits.
                    let _ = answer_caller(kernel, true, &pending, &outputs, task.result());
                    return task.into_state();
                }
                Plan::Ready { .. } => break Errno::EINVAL,
            }
        };
        let _ = kernel.answer_error(pending.caller.unique, errno);
        state
    }
}
