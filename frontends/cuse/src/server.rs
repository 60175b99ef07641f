//! The main loop: reads pending requests, runs them side by side, and answers them.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use gantry_abi_cryptodev::{Ioctl, MAX_HMAC_KEY};
use gantry_core::Gantry;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::descriptor::Caller;
use crate::fuse::{self, Kernel, Message, Range};
use crate::limits::{Admission, Limits, Users};
use crate::pending::{PendingIoctl, Refusal, answer, missing, ranges, read, session_of};
use crate::plan::{Action, Call, Plan, RequestedRange, Sessions, plan, total};
use crate::session::{CryptoSession, SessionFactory, State, describe};
use crate::task::{Task, side_by_side};
use crate::wiped::Wiped;
use crate::workers::{self, Load, LongRequest, Workers};

/// The smallest request, in bytes, that gets a thread of its own, so that it does not delay others.
const LONG: usize = 128 << 10;
/// Bytes after which a round is full. This bounds the wait of the last caller of a round.
const ROUND: usize = 1 << 20;
/// The load of a caller that waits for a descriptor, in bytes: the stack of the server's thread for this caller.
const DESCRIPTOR: usize = workers::STACK;
/// Requests after which a round is full.
const CALLS: usize = 64;

/// The server of one device.
pub struct Server {
    kernel: Arc<Kernel>,
    buffer: Wiped,
    factory: SessionFactory,
    users: Users,
    files: HashMap<u64, OpenFile>,
    next_file: u64,
    next_session: u32,
    /// Ioctls to be processed in this round.
    queue: VecDeque<PendingIoctl>,
    /// Long ioctls that exceed their user's limit at the moment.
    deferred: Vec<PendingIoctl>,
    round: Vec<Running>,
    round_bytes: usize,
    workers: Workers,
}

/// The state of an open file.
struct OpenFile {
    uid: u32,
    /// True if the memory of the file's callers is accessed directly.
    direct: bool,
    sessions: HashMap<u32, Entry>,
}

struct Entry {
    crypto: Arc<CryptoSession>,
    /// `None` while a task has it.
    state: Option<State>,
    /// Ioctls that wait for the state.
    waiting: VecDeque<PendingIoctl>,
}

impl Sessions for OpenFile {
    fn crypto_session(&self, session: u32) -> Option<&CryptoSession> {
        self.sessions.get(&session).map(|entry| &*entry.crypto)
    }
}

/// A pending ioctl with its task.
struct Running {
    pending: PendingIoctl,
    outputs: Vec<RequestedRange>,
    task: Task,
}

impl Server {
    /// Creates `/dev/NAME`. Programs can open it from now on; [`run`](Self::run) answers them.
    ///
    /// # Errors
    /// Errors of `/dev/cuse`: it is missing (module `cuse`), access is denied, or the name is taken.
    pub fn new(gantry: Gantry, name: &str, limits: Limits) -> io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/cuse")?;
        let kernel = Arc::new(Kernel(device));
        let workers = Workers::start(&kernel)?;
        let factory = SessionFactory::new(gantry);
        let mut server = Self {
            kernel,
            buffer: vec![0; 2 * fuse::LARGEST].into(),
            factory,
            users: Users::new(limits),
            files: HashMap::new(),
            next_file: 1,
            next_session: 1,
            queue: VecDeque::new(),
            deferred: Vec::new(),
            round: Vec::new(),
            round_bytes: 0,
            workers,
        };
        server.wait()?;
        let length = server.read()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match fuse::parse(&server.buffer[..length]) {
            Some((caller, Message::Init)) => server.kernel.init(caller.unique, name)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(server)
    }

    /// Answers programs until the process ends. When the process ends for any reason, the kernel answers waiting callers with
    /// ECONNABORTED.
    ///
    /// # Errors
    /// The kernel ended the device (`ENODEV`), or the communication with it failed.
    pub fn run(mut self) -> io::Result<Infallible> {
        loop {
            self.wait()?;
            self.collect_results();
            self.gather()?;
            while !self.queue.is_empty() || !self.round.is_empty() {
                while self.round_bytes < ROUND
                    && let Some(pending) = self.queue.pop_front()
                {
                    self.process(pending)?;
                }
                self.run_round()?;
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let fds = [self.kernel.0.as_fd(), self.workers.wake_event.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads one message into the buffer; `None` if none is pending.
    fn read(&mut self) -> io::Result<Option<usize>> {
        match (&self.kernel.0).read(&mut self.buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) => match error.raw_os_error() {
                // ENOENT: the caller went away in the meantime.
                Some(libc::EAGAIN | libc::EINTR | libc::ENOENT) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Reads all pending messages.
    fn gather(&mut self) -> io::Result<()> {
        while self.queue.len() < CALLS
            && let Some(length) = self.read()?
        {
            let Some((caller, message)) = fuse::parse(&self.buffer[..length]) else { continue };
            let kernel = &self.kernel;
            match message {
                Message::Interrupt => {} // the ioctl is answered soon in any case
                Message::Open => {
                    let file = OpenFile { uid: caller.uid, direct: true, sessions: HashMap::new() };
                    self.files.insert(self.next_file, file);
                    kernel.opened(caller.unique, self.next_file)?;
                    self.next_file += 1;
                }
                Message::Release { file } => {
                    if let Some(file) = self.files.remove(&file) {
                        self.users.close(file.uid, file.sessions.len());
                    }
                    kernel.done(caller.unique)?;
                }
                Message::Poll => kernel.polled(caller.unique)?,
                Message::Init | Message::Other => kernel.failed(caller.unique, Errno::EINVAL)?,
                Message::Ioctl(ioctl) => match Ioctl::from_code(ioctl.code, ioctl.width) {
                    None => kernel.failed(caller.unique, Errno::EINVAL)?,
                    Some(name) => self.queue.push_back(PendingIoctl {
                        caller,
                        file: ioctl.file,
                        call: Call { ioctl: name, width: ioctl.width, address: ioctl.address },
                        input: ioctl.input.to_vec().into(),
                        output: ioctl.output,
                    }),
                },
            }
        }
        Ok(())
    }

    /// Answers an ioctl, adds it to the round, or queues it.
    fn process(&mut self, mut pending: PendingIoctl) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&pending.file) else {
            return self.kernel.failed(pending.caller.unique, Errno::EINVAL);
        };
        let mut input_bytes = std::mem::take(&mut pending.input);
        loop {
            let requested = match plan(pending.call, file, &input_bytes) {
                Plan::Fail(errno) => return self.kernel.failed(pending.caller.unique, errno),
                Plan::Ready { action, inputs, outputs } => {
                    if !file.direct && pending.output != total(&outputs) {
                        return self.kernel.retry(pending.caller.unique, &ranges(&inputs), &ranges(&outputs));
                    }
                    return self.act(pending, action, outputs, input_bytes);
                }
                Plan::Read(requested) => requested,
            };
            if let Some(entry) =
                session_of(pending.call, &input_bytes).and_then(|session| file.sessions.get_mut(&session))
                && entry.state.is_none()
            {
                // The data is read when the ioctl's turn comes.
                if !file.direct {
                    pending.input = input_bytes;
                }
                entry.waiting.push_back(pending);
                return Ok(());
            }
            if !file.direct {
                return self.kernel.retry(pending.caller.unique, &ranges(&requested), &[]);
            }
            let missing = missing(&requested, input_bytes.len());
            if total(missing) >= LONG {
                return self.process_long(pending, total(missing), input_bytes);
            }
            match read(&pending, missing, &mut input_bytes) {
                Ok(()) => {}
                Err(Refusal::Errno(errno)) => return self.kernel.failed(pending.caller.unique, errno),
                Err(Refusal::Denied) => {
                    file.direct = false;
                    input_bytes.resize(0);
                }
            }
        }
    }

    /// Sends a long request to a worker, with the state of its session.
    fn process_long(&mut self, pending: PendingIoctl, bytes: usize, input_bytes: Wiped) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&pending.file) else { return Ok(()) };
        match self.users.admit(file.uid, bytes) {
            Admission::Never => return self.kernel.failed(pending.caller.unique, Errno::ENOMEM),
            Admission::Later => {
                self.deferred.push(pending);
                return Ok(());
            }
            Admission::Now => {}
        }
        let entry = session_of(pending.call, &input_bytes)
            .and_then(|session| Some((session, file.sessions.get_mut(&session)?)));
        let Some((session, entry)) = entry else { return self.kernel.failed(pending.caller.unique, Errno::EINVAL) };
        let Some(state) = entry.state.take() else {
            entry.waiting.push_back(pending);
            return Ok(());
        };
        self.users.begin(file.uid, bytes);
        let load = Load { uid: file.uid, bytes };
        let request = LongRequest { session, crypto: entry.crypto.clone(), state, load, input_bytes, pending };
        self.workers.send(request);
        Ok(())
    }

    /// Starts a thread that makes the caller duplicate its descriptor.
    fn give_descriptor(&mut self, pending: PendingIoctl) -> io::Result<()> {
        let Some(file) = self.files.get(&pending.file) else { return Ok(()) };
        if !file.direct {
            return self.kernel.failed(pending.caller.unique, Errno::EINVAL);
        }
        match self.users.admit(file.uid, DESCRIPTOR) {
            Admission::Never => return self.kernel.failed(pending.caller.unique, Errno::ENOMEM),
            Admission::Later => {
                self.deferred.push(pending);
                return Ok(());
            }
            Admission::Now => {}
        }
        let place = Range { address: pending.call.address, bytes: pending.call.ioctl.size(pending.call.width) };
        let caller =
            Caller { unique: pending.caller.unique, thread: pending.caller.pid, width: pending.call.width, place };
        match self.workers.give_descriptor(caller, Load { uid: file.uid, bytes: DESCRIPTOR }) {
            Ok(()) => self.users.begin(file.uid, DESCRIPTOR),
            Err(_) => self.kernel.failed(pending.caller.unique, Errno::ENOMEM)?,
        }
        Ok(())
    }

    /// Performs an action immediately if it needs no device. Otherwise adds the action to the round.
    fn act(
        &mut self,
        pending: PendingIoctl,
        action: Action,
        outputs: Vec<RequestedRange>,
        input_bytes: Wiped,
    ) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&pending.file) else { return Ok(()) };
        let unique = pending.caller.unique;
        let bytes = match action {
            Action::Features => vec![0; 4],
            Action::Descriptor => return self.give_descriptor(pending),
            Action::Info(mut op) => {
                if let Some(crypto) = file.crypto_session(op.session) {
                    describe(crypto, &mut op);
                }
                op.to_bytes(pending.call.width)
            }
            Action::Open { mut op, key, mac_key } => {
                if !self.users.open(file.uid) {
                    return self.kernel.failed(unique, Errno::ENOMEM);
                }
                // Without a MAC this length is unchecked.
                let mac_bytes = (op.mac_key_len as usize).min(MAX_HMAC_KEY);
                // A MAC key without address counts as zeros of its length.
                let mac_key =
                    Wiped::from(if mac_key.is_empty() { vec![0; mac_bytes] } else { input_bytes[mac_key].to_vec() });
                let Some(crypto) = self.factory.make(op.cipher, &input_bytes[key], op.mac, &mac_key) else {
                    self.users.close(file.uid, 1);
                    return self.kernel.failed(unique, Errno::EINVAL);
                };
                op.session = self.next_session;
                self.next_session = self.next_session.wrapping_add(1);
                let session = op.session;
                let entry = Entry { crypto: Arc::new(crypto), state: Some(State::new()), waiting: VecDeque::new() };
                let (direct, uid) = (file.direct, file.uid);
                file.sessions.insert(session, entry);
                let delivered =
                    answer(&self.kernel, direct, &pending, &outputs, Ok(vec![&op.to_bytes(pending.call.width)]))?;
                if !delivered && let Some(file) = self.files.get_mut(&pending.file) {
                    file.sessions.remove(&session);
                    self.users.close(uid, 1);
                }
                return Ok(());
            }
            Action::Close(session) => {
                match file.sessions.get_mut(&session) {
                    Some(entry) if entry.state.is_none() => {
                        let input = input_bytes;
                        entry.waiting.push_back(PendingIoctl { input, ..pending });
                        return Ok(());
                    }
                    // Like the module, reports no error for an unknown session.
                    _ => {
                        if let Some(entry) = file.sessions.remove(&session) {
                            self.users.close(file.uid, 1);
                            self.queue.extend(entry.waiting);
                        }
                        Vec::new()
                    }
                }
            }
            Action::CopyHash { to, from } => {
                let taken =
                    [to, from].into_iter().find(|id| file.sessions.get(id).is_some_and(|entry| entry.state.is_none()));
                if let Some(entry) = taken.and_then(|id| file.sessions.get_mut(&id)) {
                    entry.waiting.push_back(PendingIoctl { input: input_bytes, ..pending });
                    return Ok(());
                }
                let stream = file.sessions.get(&from).and_then(|entry| entry.state.as_ref()?.stream.clone());
                if let Some(state) = file.sessions.get_mut(&to).and_then(|entry| entry.state.as_mut()) {
                    state.stream = stream;
                }
                Vec::new()
            }
            Action::Crypt(job) => {
                let Some(entry) = file.sessions.get_mut(&job.session) else {
                    return self.kernel.failed(unique, Errno::EINVAL);
                };
                let Some(state) = entry.state.take() else {
                    entry.waiting.push_back(PendingIoctl { input: input_bytes, ..pending });
                    return Ok(());
                };
                self.round_bytes += input_bytes.len();
                self.round.push(Running {
                    task: Task::new(entry.crypto.clone(), state, job, input_bytes),
                    pending,
                    outputs,
                });
                return Ok(());
            }
        };
        answer(&self.kernel, file.direct, &pending, &outputs, Ok(vec![&bytes])).map(|_| ())
    }

    /// Runs all tasks of the round side by side, and answers them.
    fn run_round(&mut self) -> io::Result<()> {
        self.round_bytes = 0;
        let mut round = std::mem::take(&mut self.round);
        side_by_side(round.iter_mut().map(|running| &mut running.task));
        for Running { pending, outputs, task } in round {
            let direct = self.files.get(&pending.file).is_some_and(|file| file.direct);
            answer(&self.kernel, direct, &pending, &outputs, task.result())?;
            let session = task.session_id();
            self.return_state(pending.file, session, task.into_state());
        }
        Ok(())
    }

    fn return_state(&mut self, file: u64, session: u32, state: State) {
        if let Some(entry) = self.files.get_mut(&file).and_then(|file| file.sessions.get_mut(&session)) {
            entry.state = Some(state);
            // Waiting ioctls run in their order, and before later ones.
            while let Some(pending) = entry.waiting.pop_back() {
                self.queue.push_front(pending);
            }
        }
    }

    /// Takes back the states and loads from workers.
    fn collect_results(&mut self) {
        let _ = self.workers.wake_event.read();
        let mut any = false;
        while let Ok(result) = self.workers.results.try_recv() {
            self.users.end(result.load.uid, result.load.bytes);
            if let Some((file, session, state)) = result.state {
                self.return_state(file, session, state);
            }
            any = true;
        }
        if any {
            self.queue.extend(self.deferred.drain(..));
        }
    }
}
