//! The threads that do what takes long, or what waits for a caller, so that nobody else waits for it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::ask::{Ask, Refusal, answer, missing, read};
use crate::descriptor::{self, Caller};
use crate::fuse::Kernel;
use crate::plan::{Action, Plan, Sessions, plan};
use crate::session::{Shape, State};
use crate::task::Task;
use crate::wiped::Wiped;

/// A request that takes long.
pub(crate) struct Long {
    pub(crate) ask: Ask,
    pub(crate) session: u32,
    pub(crate) shape: Arc<Shape>,
    pub(crate) state: State,
    pub(crate) got: Wiped,
    pub(crate) load: Load,
}

/// What counts against its user's limit for as long as it is in work.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) uid: u32,
    pub(crate) bytes: usize,
}

/// What comes back of it.
pub(crate) struct Back {
    pub(crate) load: Load,
    /// What a long request had taken of its session: file, number and state.
    pub(crate) state: Option<(u64, u32, State)>,
}

/// Bytes of the stack of a thread that makes a descriptor.
pub(crate) const STACK: usize = 64 << 10;

/// The threads that do what takes long, and those that come and go with descriptors.
pub(crate) struct Workers {
    kernel: Arc<Kernel>,
    work: Sender<Long>,
    outbox: Sender<Back>,
    pub(crate) back: Receiver<Back>,
    pub(crate) woken: Arc<EventFd>,
}

impl Workers {
    pub(crate) fn start(kernel: &Arc<Kernel>) -> io::Result<Self> {
        let (work, inbox) = channel::<Long>();
        let (outbox, back) = channel();
        let woken = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(16) {
            let (inbox, outbox, woken, kernel) = (inbox.clone(), outbox.clone(), woken.clone(), kernel.clone());
            thread::Builder::new().name("long requests".to_owned()).spawn(move || {
                loop {
                    let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(long) = next else { return };
                    let (file, unique) = (long.ask.file, long.ask.who.unique);
                    let (session, load) = (long.session, long.load);
                    let state = catch_unwind(AssertUnwindSafe(|| long.run(&kernel))).unwrap_or_else(|_| {
                        let _ = kernel.failed(unique, Errno::EIO);
                        State::new()
                    });
                    if outbox.send(Back { load, state: Some((file, session, state)) }).is_err() {
                        return;
                    }
                    let _ = woken.write(1);
                }
            })?;
        }
        Ok(Self { kernel: kernel.clone(), work, outbox, back, woken })
    }

    pub(crate) fn send(&self, long: Long) {
        // The threads live as long as this does.
        let _ = self.work.send(long);
    }

    /// Makes a caller duplicate its descriptor, and answers it.
    ///
    /// # Errors
    /// There is no thread for it, and the caller has no answer.
    pub(crate) fn give_descriptor(&self, caller: Caller, load: Load) -> io::Result<()> {
        let (kernel, outbox, woken) = (self.kernel.clone(), self.outbox.clone(), self.woken.clone());
        let give = move || {
            if catch_unwind(AssertUnwindSafe(|| descriptor::give(&kernel, &caller))).is_err() {
                let _ = kernel.failed(caller.unique, Errno::EIO);
            }
            let _ = outbox.send(Back { load, state: None });
            let _ = woken.write(1);
        };
        thread::Builder::new().name("descriptor".to_owned()).stack_size(STACK).spawn(give).map(|_| ())
    }
}

/// The one session that a worker knows.
struct One<'s>(u32, &'s Shape);

impl Sessions for One<'_> {
    fn shape(&self, session: u32) -> Option<&Shape> {
        (session == self.0).then_some(self.1)
    }
}

impl Long {
    /// Reads, works, writes, answers.
    fn run(self, kernel: &Kernel) -> State {
        let Self { ask, session, shape, state, mut got, .. } = self;
        let errno = loop {
            match plan(ask.call, &One(session, &shape), &got) {
                Plan::Fail(errno) => break errno,
                Plan::Read(wanted) => match read(&ask, missing(&wanted, got.len()), &mut got) {
                    Ok(()) => {}
                    Err(Refusal::Errno(errno)) => break errno,
                    Err(Refusal::Denied) => break Errno::EFAULT,
                },
                Plan::Ready { action: Action::Crypt(job), outputs, .. } => {
                    let mut task = Task::new(shape, state, job, got);
                    task.run();
                    // What cannot be answered has nobody who waits.
                    let _ = answer(kernel, true, &ask, &outputs, task.result());
                    return task.into_state();
                }
                Plan::Ready { .. } => break Errno::EINVAL,
            }
        };
        let _ = kernel.failed(ask.who.unique, errno);
        state
    }
}
