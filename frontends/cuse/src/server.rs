//! The main loop: reads pending requests, runs them side by side, and answers them.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use gantry_abi_cryptodev::{Ioctl, MAX_HMAC_KEY_LEN};
use gantry_core::Gantry;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::descriptor::Caller;
use crate::fuse::{self, Kernel, Message, Range};
use crate::limits::{Admission, Limits, Users};
use crate::pending::{
    AccessFailure, PendingIoctl, answer_caller, nonempty_ranges, read_ranges, session_id_of, unread_ranges,
};
use crate::plan::{Action, Call, Plan, RequestedRange, Sessions, plan, total_bytes};
use crate::session::{CryptoSession, SessionFactory, SessionState, fill_session_info};
use crate::task::{Task, run_tasks};
use crate::wiped_bytes::WipedBytes;
use crate::workers::{self, Load, LongRequest, Workers};

/// The smallest request, in bytes, that gets a thread of its own, so that it does not delay others.
const LONG_REQUEST_BYTES: usize = 128 << 10;
/// Bytes after which a round is full. This bounds the wait of the last caller of a round.
const FULL_ROUND_BYTES: usize = 1 << 20;
/// The load of a caller that waits for a descriptor, in bytes: the stack of the server's thread for this caller.
const DESCRIPTOR_LOAD_BYTES: usize = workers::DESCRIPTOR_STACK_BYTES;
/// Requests after which a round is full.
const FULL_ROUND_REQUESTS: usize = 64;

/// The server of one device.
pub struct Server {
    kernel: Arc<Kernel>,
    buffer: WipedBytes,
    factory: SessionFactory,
    users: Users,
    files: HashMap<u64, OpenFile>,
    next_file: u64,
    next_session: u32,
    /// Ioctls to be processed in this round.
    queue: VecDeque<PendingIoctl>,
    /// Long ioctls that exceed their user's limit at the moment.
    deferred: Vec<PendingIoctl>,
    round: Vec<RunningIoctl>,
    round_bytes: usize,
    workers: Workers,
}

/// The state of an open file.
struct OpenFile {
    uid: u32,
    /// True if the memory of the file's callers is accessed directly.
    has_direct_access: bool,
    sessions: HashMap<u32, SessionEntry>,
}

struct SessionEntry {
    crypto: Arc<CryptoSession>,
    /// `None` while a task has it.
    state: Option<SessionState>,
    /// Ioctls that wait for the state.
    waiting_ioctls: VecDeque<PendingIoctl>,
}

impl Sessions for OpenFile {
    fn crypto_session(&self, session: u32) -> Option<&CryptoSession> {
        self.sessions.get(&session).map(|entry| &*entry.crypto)
    }
}

/// A pending ioctl with its task.
struct RunningIoctl {
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
            buffer: vec![0; 2 * fuse::MAX_MESSAGE_BYTES].into(),
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
        server.wait_for_input()?;
        let length = server.read_message()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match fuse::parse(&server.buffer[..length]) {
            Some((caller, Message::Init)) => server.kernel.answer_init(caller.unique, name)?,
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
            self.wait_for_input()?;
            self.collect_results();
            self.read_pending_messages()?;
            while !self.queue.is_empty() || !self.round.is_empty() {
                while self.round_bytes < FULL_ROUND_BYTES
                    && let Some(pending) = self.queue.pop_front()
                {
                    self.process(pending)?;
                }
                self.run_round()?;
            }
        }
    }

    fn wait_for_input(&self) -> io::Result<()> {
        let fds = [self.kernel.0.as_fd(), self.workers.wake_event.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads one message into the buffer; `None` if none is pending.
    fn read_message(&mut self) -> io::Result<Option<usize>> {
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
    fn read_pending_messages(&mut self) -> io::Result<()> {
        while self.queue.len() < FULL_ROUND_REQUESTS
            && let Some(length) = self.read_message()?
        {
            let Some((caller, message)) = fuse::parse(&self.buffer[..length]) else { continue };
            let kernel = &self.kernel;
            match message {
                Message::Interrupt => {} // the ioctl is answered soon in any case
                Message::Open => {
                    let file = OpenFile { uid: caller.uid, has_direct_access: true, sessions: HashMap::new() };
                    self.files.insert(self.next_file, file);
                    kernel.answer_open(caller.unique, self.next_file)?;
                    self.next_file += 1;
                }
                Message::Release { file } => {
                    if let Some(file) = self.files.remove(&file) {
                        self.users.remove_sessions(file.uid, file.sessions.len());
                    }
                    kernel.answer_empty(caller.unique)?;
                }
                Message::Poll => kernel.answer_poll(caller.unique)?,
                Message::Init | Message::Other => kernel.answer_error(caller.unique, Errno::EINVAL)?,
                Message::Ioctl(ioctl) => match Ioctl::from_code(ioctl.code, ioctl.width) {
                    None => kernel.answer_error(caller.unique, Errno::EINVAL)?,
                    Some(name) => self.queue.push_back(PendingIoctl {
                        caller,
                        file: ioctl.file,
                        call: Call { ioctl: name, width: ioctl.width, address: ioctl.address },
                        input: ioctl.input.to_vec().into(),
                        output_bytes: ioctl.output_bytes,
                    }),
                },
            }
        }
        Ok(())
    }

    /// Answers an ioctl, adds it to the round, or queues it.
    fn process(&mut self, mut pending: PendingIoctl) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&pending.file) else {
            return self.kernel.answer_error(pending.caller.unique, Errno::EINVAL);
        };
        let mut input_bytes = std::mem::take(&mut pending.input);
        loop {
            let requested = match plan(pending.call, file, &input_bytes) {
                Plan::Fail(errno) => return self.kernel.answer_error(pending.caller.unique, errno),
                Plan::Ready { action, inputs, outputs } => {
                    if !file.has_direct_access && pending.output_bytes != total_bytes(&outputs) {
                        return self.kernel.request_retry(
                            pending.caller.unique,
                            &nonempty_ranges(&inputs),
                            &nonempty_ranges(&outputs),
                        );
                    }
                    return self.perform_action(pending, action, outputs, input_bytes);
                }
                Plan::Read(requested) => requested,
            };
            if let Some(entry) =
                session_id_of(pending.call, &input_bytes).and_then(|session| file.sessions.get_mut(&session))
                && entry.state.is_none()
            {
                // The data is read when the ioctl's turn comes.
                if !file.has_direct_access {
                    pending.input = input_bytes;
                }
                entry.waiting_ioctls.push_back(pending);
                return Ok(());
            }
            if !file.has_direct_access {
                return self.kernel.request_retry(pending.caller.unique, &nonempty_ranges(&requested), &[]);
            }
            let unread_ranges = unread_ranges(&requested, input_bytes.len());
            if total_bytes(unread_ranges) >= LONG_REQUEST_BYTES {
                return self.process_long(pending, total_bytes(unread_ranges), input_bytes);
            }
            match read_ranges(&pending, unread_ranges, &mut input_bytes) {
                Ok(()) => {}
                Err(AccessFailure::Errno(errno)) => return self.kernel.answer_error(pending.caller.unique, errno),
                Err(AccessFailure::Denied) => {
                    file.has_direct_access = false;
                    input_bytes.resize(0);
                }
            }
        }
    }

    /// Sends a long request to a worker, with the state of its session.
    fn process_long(&mut self, pending: PendingIoctl, bytes: usize, input_bytes: WipedBytes) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&pending.file) else { return Ok(()) };
        match self.users.admission(file.uid, bytes) {
            Admission::Never => return self.kernel.answer_error(pending.caller.unique, Errno::ENOMEM),
            Admission::Later => {
                self.deferred.push(pending);
                return Ok(());
            }
            Admission::Now => {}
        }
        let entry = session_id_of(pending.call, &input_bytes)
            .and_then(|session| Some((session, file.sessions.get_mut(&session)?)));
        let Some((session, entry)) = entry else {
            return self.kernel.answer_error(pending.caller.unique, Errno::EINVAL);
        };
        let Some(state) = entry.state.take() else {
            entry.waiting_ioctls.push_back(pending);
            return Ok(());
        };
        self.users.begin_request(file.uid, bytes);
        let load = Load { uid: file.uid, bytes };
        let request = LongRequest { session, crypto: entry.crypto.clone(), state, load, input_bytes, pending };
        self.workers.send(request);
        Ok(())
    }

    /// Starts a thread that makes the caller duplicate its descriptor.
    fn give_descriptor(&mut self, pending: PendingIoctl) -> io::Result<()> {
        let Some(file) = self.files.get(&pending.file) else { return Ok(()) };
        if !file.has_direct_access {
            return self.kernel.answer_error(pending.caller.unique, Errno::EINVAL);
        }
        match self.users.admission(file.uid, DESCRIPTOR_LOAD_BYTES) {
            Admission::Never => return self.kernel.answer_error(pending.caller.unique, Errno::ENOMEM),
            Admission::Later => {
                self.deferred.push(pending);
                return Ok(());
            }
            Admission::Now => {}
        }
        let destination = Range { address: pending.call.address, bytes: pending.call.ioctl.size(pending.call.width) };
        let caller = Caller {
            unique: pending.caller.unique,
            thread: pending.caller.pid,
            width: pending.call.width,
            destination,
        };
        match self.workers.give_descriptor(caller, Load { uid: file.uid, bytes: DESCRIPTOR_LOAD_BYTES }) {
            Ok(()) => self.users.begin_request(file.uid, DESCRIPTOR_LOAD_BYTES),
            Err(_) => self.kernel.answer_error(pending.caller.unique, Errno::ENOMEM)?,
        }
        Ok(())
    }

    /// Performs an action immediately if it needs no device. Otherwise adds the action to the round.
    fn perform_action(
        &mut self,
        pending: PendingIoctl,
        action: Action,
        outputs: Vec<RequestedRange>,
        input_bytes: WipedBytes,
    ) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&pending.file) else { return Ok(()) };
        let unique = pending.caller.unique;
        let bytes = match action {
            Action::Features => vec![0; 4],
            Action::Descriptor => return self.give_descriptor(pending),
            Action::Info(mut op) => {
                if let Some(crypto) = file.crypto_session(op.session) {
                    fill_session_info(crypto, &mut op);
                }
                op.to_bytes(pending.call.width)
            }
            Action::Open { mut op, key, mac_key } => {
                if !self.users.add_session(file.uid) {
                    return self.kernel.answer_error(unique, Errno::ENOMEM);
                }
                // Without a MAC this length is unchecked.
                let mac_bytes = (op.mac_key_len as usize).min(MAX_HMAC_KEY_LEN);
                // A MAC key without address counts as zeros of its length.
                let mac_key = WipedBytes::from(if mac_key.is_empty() {
                    vec![0; mac_bytes]
                } else {
                    input_bytes[mac_key].to_vec()
                });
                let Some(crypto) = self.factory.create_session(op.cipher, &input_bytes[key], op.mac, &mac_key) else {
                    self.users.remove_sessions(file.uid, 1);
                    return self.kernel.answer_error(unique, Errno::EINVAL);
                };
                op.session = self.next_session;
                self.next_session = self.next_session.wrapping_add(1);
                let session = op.session;
                let entry = SessionEntry {
                    crypto: Arc::new(crypto),
                    state: Some(SessionState::new()),
                    waiting_ioctls: VecDeque::new(),
                };
                let (has_direct_access, uid) = (file.has_direct_access, file.uid);
                file.sessions.insert(session, entry);
                let is_delivered = answer_caller(
                    &self.kernel,
                    has_direct_access,
                    &pending,
                    &outputs,
                    Ok(vec![&op.to_bytes(pending.call.width)]),
                )?;
                if !is_delivered && let Some(file) = self.files.get_mut(&pending.file) {
                    file.sessions.remove(&session);
                    self.users.remove_sessions(uid, 1);
                }
                return Ok(());
            }
            Action::Close(session) => {
                match file.sessions.get_mut(&session) {
                    Some(entry) if entry.state.is_none() => {
                        let input = input_bytes;
                        entry.waiting_ioctls.push_back(PendingIoctl { input, ..pending });
                        return Ok(());
                    }
                    // Like the module, reports no error for an unknown session.
                    _ => {
                        if let Some(entry) = file.sessions.remove(&session) {
                            self.users.remove_sessions(file.uid, 1);
                            self.queue.extend(entry.waiting_ioctls);
                        }
                        Vec::new()
                    }
                }
            }
            Action::CopyHash { to, from } => {
                let busy_session =
                    [to, from].into_iter().find(|id| file.sessions.get(id).is_some_and(|entry| entry.state.is_none()));
                if let Some(entry) = busy_session.and_then(|id| file.sessions.get_mut(&id)) {
                    entry.waiting_ioctls.push_back(PendingIoctl { input: input_bytes, ..pending });
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
                    return self.kernel.answer_error(unique, Errno::EINVAL);
                };
                let Some(state) = entry.state.take() else {
                    entry.waiting_ioctls.push_back(PendingIoctl { input: input_bytes, ..pending });
                    return Ok(());
                };
                self.round_bytes += input_bytes.len();
                self.round.push(RunningIoctl {
                    task: Task::new(entry.crypto.clone(), state, job, input_bytes),
                    pending,
                    outputs,
                });
                return Ok(());
            }
        };
        answer_caller(&self.kernel, file.has_direct_access, &pending, &outputs, Ok(vec![&bytes])).map(|_| ())
    }

    /// Runs all tasks of the round side by side, and answers them.
    fn run_round(&mut self) -> io::Result<()> {
        self.round_bytes = 0;
        let mut round = std::mem::take(&mut self.round);
        run_tasks(round.iter_mut().map(|running| &mut running.task));
        for RunningIoctl { pending, outputs, task } in round {
            let has_direct_access = self.files.get(&pending.file).is_some_and(|file| file.has_direct_access);
            answer_caller(&self.kernel, has_direct_access, &pending, &outputs, task.result())?;
            let session = task.session_id();
            self.return_state(pending.file, session, task.into_state());
        }
        Ok(())
    }

    fn return_state(&mut self, file: u64, session: u32, state: SessionState) {
        if let Some(entry) = self.files.get_mut(&file).and_then(|file| file.sessions.get_mut(&session)) {
            entry.state = Some(state);
            // Waiting ioctls run in their order, and before later ones.
            while let Some(pending) = entry.waiting_ioctls.pop_back() {
                self.queue.push_front(pending);
            }
        }
    }

    /// Takes back the states and loads from workers.
    fn collect_results(&mut self) {
        let _ = self.workers.wake_event.read();
        let mut has_results = false;
        while let Ok(result) = self.workers.results.try_recv() {
            self.users.end_request(result.load.uid, result.load.bytes);
            if let Some((file, session, state)) = result.state {
                self.return_state(file, session, state);
            }
            has_results = true;
        }
        if has_results {
            self.queue.extend(self.deferred.drain(..));
        }
    }
}
