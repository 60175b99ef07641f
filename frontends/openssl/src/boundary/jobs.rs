//! Jobs of OpenSSL (ASYNC_start_job(3)): a program that has many of them in a thread gets on with the others while one is paused. So
//! data that are better off in a batch are laid down, and their job is paused. It can be resumed at once, which a program does after
//! it has had a look at its others; the first that comes back runs all that was laid down until then. No thread and no clock is needed.
//!
//! The functions for it are not the core's: they are libcrypto's, and are looked for where the upcalls of this very core are. In a
//! program with libcrypto in it there are none, and nothing is paused.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gantry::{Algorithm, Operation, Session};
use gantry_runtime::forks::GENERATION;

use super::cipher::{CipherCtx, work};
use super::{Io, guard_with_room};
use crate::chain::Ready;
use crate::choice::{Company, Side};
use crate::cipher::{State, Way};
use crate::framework::Framework;
use crate::pipes::{Blocks, batch};

type Job = c_void;
type WaitCtx = c_void;
type Callback = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cleanup = unsafe extern "C" fn(*mut WaitCtx, *const c_void, c_int, *mut c_void);
type Current = unsafe extern "C" fn() -> *mut Job;
type WaitCtxOf = unsafe extern "C" fn(*mut Job) -> *mut WaitCtx;
type Pause = unsafe extern "C" fn() -> c_int;
type GetFd = unsafe extern "C" fn(*mut WaitCtx, *const c_void, *mut c_int, *mut *mut c_void) -> c_int;
type SetFd = unsafe extern "C" fn(*mut WaitCtx, *const c_void, c_int, *mut c_void, Option<Cleanup>) -> c_int;
type GetCallback = unsafe extern "C" fn(*mut WaitCtx, *mut Option<Callback>, *mut *mut c_void) -> c_int;
type SetStatus = unsafe extern "C" fn(*mut WaitCtx, c_int) -> c_int;

/// `ASYNC_STATUS_OK`: a callback will be used.
const STATUS_OK: c_int = 2;

/// libcrypto's functions, as async.h declares them in every release from 3.0 on.
pub(super) struct Jobs {
    current: Current,
    wait_ctx: WaitCtxOf,
    pause: Pause,
    get_fd: GetFd,
    set_fd: SetFd,
    get_callback: GetCallback,
    set_status: SetStatus,
}

impl Jobs {
    /// Those of the library that has this function, and of no other: there may be several libcryptos in a process.
    pub(super) fn beside(upcall: *const c_void) -> Option<Self> {
        let library = library(upcall)?;
        // SAFETY: the name of a library that is there.
        let handle = unsafe { libc::dlopen(library.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: a library that is open, and a string.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            // It also looks into what the library depends on.
            let its_own = self::library(found).is_some_and(|other| other.dli_fbase == library.dli_fbase);
            its_own.then_some(found)
        };
        macro_rules! find {
            ($name:literal, $kind:ty) => {
                // SAFETY: the function of that name has this type.
                unsafe { mem::transmute::<*mut c_void, $kind>(find($name)?) }
            };
        }
        let jobs = || {
            Some(Self {
                current: find!(c"ASYNC_get_current_job", Current),
                wait_ctx: find!(c"ASYNC_get_wait_ctx", WaitCtxOf),
                pause: find!(c"ASYNC_pause_job", Pause),
                get_fd: find!(c"ASYNC_WAIT_CTX_get_fd", GetFd),
                set_fd: find!(c"ASYNC_WAIT_CTX_set_wait_fd", SetFd),
                get_callback: find!(c"ASYNC_WAIT_CTX_get_callback", GetCallback),
                set_status: find!(c"ASYNC_WAIT_CTX_set_status", SetStatus),
            })
        };
        let jobs = jobs();
        // The core, which is in there, has us, and not the other way round.
        // SAFETY: opened above.
        unsafe { libc::dlclose(handle) };
        jobs
    }

    /// What a program waits with for the job that runs in this thread, if one does.
    fn waiting(&self) -> Option<*mut WaitCtx> {
        // SAFETY: libcrypto, with the job that it names.
        let context = unsafe {
            let job = (self.current)();
            if job.is_null() { job } else { (self.wait_ctx)(job) }
        };
        // Without one, OpenSSL cannot pause.
        (!context.is_null()).then_some(context)
    }

    /// Tells whoever waits for the job that it can go on: by the callback that the program has set, or by a descriptor, which can be read
    /// until it has been resumed. `None` where neither is to be had.
    fn signal(&self, context: *mut WaitCtx) -> Option<Signal> {
        static KEY: u8 = 0;
        let key = (&raw const KEY).cast();
        // SAFETY: libcrypto, with its own context and places for the answers; the program's callback with what it wants.
        unsafe {
            let (mut callback, mut data) = (None, ptr::null_mut());
            if (self.get_callback)(context, &raw mut callback, &raw mut data) == 1
                && let Some(callback) = callback
            {
                (self.set_status)(context, STATUS_OK);
                callback(data);
                return Some(Signal(None));
            }
            let mut fd = -1;
            if (self.get_fd)(context, key, &raw mut fd, &raw mut data) != 1 {
                fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
                if fd < 0 {
                    return None;
                }
                if (self.set_fd)(context, key, fd, ptr::null_mut(), Some(close)) != 1 {
                    libc::close(fd);
                    return None;
                }
            }
            (libc::eventfd_write(fd, 1) == 0).then_some(Signal(Some(fd)))
        }
    }
}

/// The library in which an address is.
fn library(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: numbers and pointers, for which zeros are values; a place for the answer.
    unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        let found = !address.is_null() && libc::dladdr(address, &raw mut info) != 0 && !info.dli_fname.is_null();
        found.then_some(info)
    }
}

unsafe extern "C" fn close(_: *mut WaitCtx, _: *const c_void, fd: c_int, _: *mut c_void) {
    // SAFETY: ours: made above, and the context that has it is freed.
    unsafe { libc::close(fd) };
}

/// A signal that was given, perhaps by a descriptor.
struct Signal(Option<c_int>);

impl Signal {
    /// The job is resumed, and has its descriptor still.
    fn end(&self) {
        if let Some(fd) = self.0 {
            let mut count = 0;
            // SAFETY: a place for the answer, which nobody needs.
            unsafe { libc::eventfd_read(fd, &raw mut count) };
        }
    }
}

/// What the jobs of a thread have laid down. It is shared only because contexts may be freed by other threads.
#[derive(Default)]
struct Table {
    laid: Vec<Option<Laid>>,
    company: Company,
}

/// Data of a call that has not returned.
struct Laid {
    /// The framework that is to run it, by its address, and the algorithm.
    kind: (usize, Algorithm),
    session: ManuallyDrop<Session>,
    generation: u32,
    ready: Ready,
    io: Io<'static>,
    end: Option<Blocks>,
}

// SAFETY: the call: its data belong to no thread.
unsafe impl Send for Laid {}

impl Drop for Laid {
    fn drop(&mut self) {
        // What was opened before a fork is left alone after it.
        if self.generation == GENERATION.load(Relaxed) {
            // SAFETY: once.
            unsafe { ManuallyDrop::drop(&mut self.session) };
        }
    }
}

thread_local! {
    static TABLE: RefCell<Option<Arc<Mutex<Table>>>> = const { RefCell::new(None) };
}

/// Where the data of a context lie, while it waits. A copy of the context has none there.
#[derive(Default)]
pub(crate) struct Place(Option<Waiting>);

impl Clone for Place {
    fn clone(&self) -> Self {
        Self(None)
    }
}

struct Waiting {
    table: Arc<Mutex<Table>>,
    place: usize,
    signal: Option<Signal>,
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.table).laid[self.place] = None;
    }
}

impl Place {
    /// Whoever waited waits in vain.
    pub(super) fn withdraw(&mut self) {
        self.0 = None;
    }
}

impl Table {
    /// Runs all that is of a kind and has not been run, if that is better and no two of them are of the same bytes; otherwise everybody is
    /// to do it alone. What else becomes of a paused job's bytes is the program's business.
    fn run(&mut self, framework: &Framework, kind: (usize, Algorithm)) {
        let theirs = self.laid.iter_mut().flatten();
        let mut laid: Vec<&mut Laid> = theirs.filter(|laid| laid.kind == kind && laid.end.is_none()).collect();
        let (requests, bytes) = (laid.len(), laid.iter().map(|laid| laid.ready.whole).sum::<usize>());
        let Some(lead) = laid.first() else { return };
        let each = bytes / requests;
        let gains = requests > 1 && framework.leads_several(&lead.session, Operation::Encrypt, each, requests);
        self.company.came(each, gains);
        let apart = || Io::are_apart(&laid.iter().map(|laid| Io { call: PhantomData, ..laid.io }).collect::<Vec<_>>());
        let together = gains && apart();
        // What is not put right below has been in the hands of a device that panicked.
        for laid in &mut laid {
            laid.end = Some(if together { Blocks::Spoilt } else { Blocks::Alone });
        }
        if together {
            let sessions: Vec<Session> = laid.iter().map(|laid| Session::clone(&laid.session)).collect();
            let data = laid.iter_mut().map(|laid| Some((&mut laid.io, &laid.ready)));
            // What has no outcome is looked at one by one.
            let ends = batch(true, data, |requests| {
                let _ = Session::process_each(&sessions, requests);
                true
            });
            laid.into_iter().zip(ends).for_each(|(laid, end)| laid.end = Some(end));
        }
    }
}

/// A call with data in a job, or on some other stack with little room.
///
/// # Safety
///
/// The call.
pub(super) unsafe fn data(context: *mut c_void, way: Way, io: Io<'_>) -> c_int {
    // SAFETY: the call.
    if let Some(pause) = guard_with_room(None, || unsafe { lay(context, way, &io) }) {
        // SAFETY: libcrypto. Nothing of ours is borrowed or locked meanwhile, and nothing of ours is on this stack but what is here. If it
        // does not pause, nothing is lost.
        unsafe { pause() };
        // SAFETY: the call, which lasts.
        return guard_with_room(0, || unsafe { collect(context, way, io) });
    }
    // SAFETY: the call.
    guard_with_room(0, || unsafe { work(context, way, io) })
}

/// Lays the data down, if others may come. Then the job is to be paused.
///
/// # Safety
///
/// The call, which does not return before [`collect`].
unsafe fn lay(context: *mut c_void, way: Way, io: &Io<'_>) -> Option<Pause> {
    // SAFETY: the call.
    let (this, _, wrapped) = unsafe { CipherCtx::of(context) };
    if wrapped.fails() || !this.state.message.meets(wrapped).has(io.len()) {
        return None;
    }
    let (jobs, algorithm) = (wrapped.jobs()?, wrapped.algorithm()?);
    let waiting = jobs.waiting()?;
    let State::Chain(message) = &mut this.state.message else { return None };
    let of_thread = |table: &RefCell<Option<Arc<Mutex<Table>>>>| table.borrow_mut().get_or_insert_default().clone();
    let table = TABLE.try_with(of_thread).ok()?;
    let place = {
        let mut here = lock(&table);
        if !here.company.may_come(io.len()) {
            return None;
        }
        let framework = wrapped.framework()?;
        let session = message.session(wrapped, framework)?;
        let mut io = Io { call: PhantomData, ..*io };
        let ready = message.ready_call(&this.host, way, &mut io, this.state.fed)?;
        let laid = Laid {
            kind: (ptr::from_ref(framework).addr(), algorithm),
            session: ManuallyDrop::new(session),
            generation: framework.generation,
            ready,
            io,
            end: None,
        };
        let free = here.laid.iter().position(Option::is_none);
        let place = free.unwrap_or(here.laid.len());
        if free.is_none() {
            here.laid.push(None);
        }
        here.laid[place] = Some(laid);
        place
    };
    let mut there = Waiting { table, place, signal: None };
    there.signal = Some(jobs.signal(waiting)?);
    this.state.place = Place(Some(there));
    Some(jobs.pause)
}

/// The job goes on: its data have been run, or are run now with all that lie there.
///
/// # Safety
///
/// The call.
unsafe fn collect(context: *mut c_void, way: Way, mut io: Io<'_>) -> c_int {
    // SAFETY: the call.
    let (this, _, wrapped) = unsafe { CipherCtx::of(context) };
    // Another message has begun meanwhile.
    let Some(waiting) = this.state.place.0.take() else { return io.refused() };
    if let Some(signal) = &waiting.signal {
        signal.end();
    }
    let laid = {
        let mut here = lock(&waiting.table);
        let kind = here.laid[waiting.place].as_ref().filter(|laid| laid.end.is_none()).map(|laid| laid.kind);
        // In the child of a fork it is another one.
        let framework =
            wrapped.opened().filter(|framework| kind.is_some_and(|kind| kind.0 == ptr::from_ref(*framework).addr()));
        if let (Some(kind), Some(framework)) = (kind, framework) {
            here.run(framework, kind);
        }
        here.laid[waiting.place].take()
    };
    drop(waiting);
    let (State::Chain(message), Some(mut laid)) = (&mut this.state.message, laid) else { return io.refused() };
    match laid.end {
        Some(Blocks::Done) => {
            wrapped.count(Operation::Encrypt, Side::Device, laid.ready.whole);
            let length = laid.io.len();
            let Laid { io, ready, .. } = &mut laid;
            let result = message.done(&this.host, way, io, ready);
            this.state.moved_on(wrapped, length);
            result
        }
        Some(Blocks::Spoilt) => io.refused(),
        // SAFETY: the call.
        Some(Blocks::Alone) | None => unsafe { work(context, way, io) },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    /// As the types above have it, in the headers of the releases that this was written for.
    #[test]
    fn every_function_is_declared_as_it_is_called_here() {
        for folder in [openssl_3_6::source_dir(), openssl_4_0::source_dir()] {
            let text = fs::read_to_string(folder.join("include/openssl/async.h")).unwrap();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for declared in [
                "#define ASYNC_STATUS_OK 2",
                "#define OSSL_ASYNC_FD int",
                "typedef int (*ASYNC_callback_fn)(void *arg);",
                "ASYNC_JOB *ASYNC_get_current_job(void);",
                "ASYNC_WAIT_CTX *ASYNC_get_wait_ctx(ASYNC_JOB *job);",
                "int ASYNC_pause_job(void);",
                "int ASYNC_WAIT_CTX_get_fd(ASYNC_WAIT_CTX *ctx, const void *key, OSSL_ASYNC_FD *fd, void **custom_data);",
                "int ASYNC_WAIT_CTX_set_wait_fd(ASYNC_WAIT_CTX *ctx, const void *key, OSSL_ASYNC_FD fd, void *custom_data, \
                 void (*cleanup)(ASYNC_WAIT_CTX *, const void *, OSSL_ASYNC_FD, void *));",
                "int ASYNC_WAIT_CTX_get_callback(ASYNC_WAIT_CTX *ctx, ASYNC_callback_fn *callback, void **callback_arg);",
                "int ASYNC_WAIT_CTX_set_status(ASYNC_WAIT_CTX *ctx, int status);",
            ] {
                assert!(text.contains(declared), "{declared} in {}", folder.display());
            }
        }
    }
}
