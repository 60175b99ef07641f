//! The loop: read what is waiting, do it side by side, answer.

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

use crate::ask::{Ask, Refusal, answer, missing, ranges, read, worked_on};
use crate::descriptor::Caller;
use crate::fuse::{self, Kernel, Message, Range};
use crate::limits::{Limits, Room, Users};
use crate::plan::{Action, Call, Plan, Sessions, Wanted, plan, total};
use crate::session::{Maker, Shape, State, describe};
use crate::task::{Task, side_by_side};
use crate::wiped::Wiped;
use crate::workers::{self, Load, Long, Workers};

/// Bytes from which a request gets a thread of its own, so that others need not wait for it.
const LONG: usize = 128 << 10;
/// Bytes after which a round is full: what the last caller of a round waits for at most.
const ROUND: usize = 1 << 20;
/// What a caller counts for that waits for a descriptor: the stack of the thread that it gets.
const DESCRIPTOR: usize = workers::STACK;
/// Requests after which a round is full.
const CALLS: usize = 64;

/// The server of one device.
pub struct Server {
    kernel: Arc<Kernel>,
    buffer: Wiped,
    maker: Maker,
    users: Users,
    files: HashMap<u64, OpenFile>,
    next_file: u64,
    next_session: u32,
    /// To be looked at in this round.
    asks: VecDeque<Ask>,
    /// Long ones that do not fit beside what their user has in work.
    held: Vec<Ask>,
    round: Vec<Running>,
    round_bytes: usize,
    workers: Workers,
}

/// What one open of the device has.
struct OpenFile {
    uid: u32,
    /// The memory of its callers can be read directly.
    direct: bool,
    sessions: HashMap<u32, Entry>,
}

struct Entry {
    shape: Arc<Shape>,
    /// Away while a task has it.
    state: Option<State>,
    /// For when it is back.
    waiting: VecDeque<Ask>,
}

impl Sessions for OpenFile {
    fn shape(&self, session: u32) -> Option<&Shape> {
        self.sessions.get(&session).map(|entry| &*entry.shape)
    }
}

/// An ask with its task.
struct Running {
    ask: Ask,
    outputs: Vec<Wanted>,
    task: Task,
}

impl Server {
    /// Makes `/dev/NAME`. Programs can open it when this returns, and are answered by [`run`](Self::run).
    ///
    /// # Errors
    /// Those of `/dev/cuse`: it is not there (module `cuse`), not ours, or the name is taken.
    pub fn new(gantry: Gantry, name: &str, limits: Limits) -> io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/cuse")?;
        let kernel = Arc::new(Kernel(device));
        let workers = Workers::start(&kernel)?;
        let maker = Maker::new(gantry);
        let mut server = Self {
            kernel,
            buffer: vec![0; 2 * fuse::LARGEST].into(),
            maker,
            users: Users::new(limits),
            files: HashMap::new(),
            next_file: 1,
            next_session: 1,
            asks: VecDeque::new(),
            held: Vec::new(),
            round: Vec::new(),
            round_bytes: 0,
            workers,
        };
        server.wait()?;
        let length = server.read()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match fuse::parse(&server.buffer[..length]) {
            Some((who, Message::Init)) => server.kernel.init(who.unique, name)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(server)
    }

    /// Answers programs until the process ends. When it ends, however it does, the kernel answers those who wait: with
    /// ECONNABORTED.
    ///
    /// # Errors
    /// The kernel ended the device (`ENODEV`), or cannot be talked to.
    pub fn run(mut self) -> io::Result<Infallible> {
        loop {
            self.wait()?;
            self.welcome_back();
            self.gather()?;
            while !self.asks.is_empty() || !self.round.is_empty() {
                while self.round_bytes < ROUND
                    && let Some(ask) = self.asks.pop_front()
                {
                    self.look_at(ask)?;
                }
                self.run_round()?;
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let fds = [self.kernel.0.as_fd(), self.workers.woken.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads one message into the buffer; `None` when none is waiting.
    fn read(&mut self) -> io::Result<Option<usize>> {
        match (&self.kernel.0).read(&mut self.buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) => match error.raw_os_error() {
                // ENOENT: who asked went away in the meantime.
                Some(libc::EAGAIN | libc::EINTR | libc::ENOENT) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Everything that is waiting.
    fn gather(&mut self) -> io::Result<()> {
        while self.asks.len() < CALLS
            && let Some(length) = self.read()?
        {
            let Some((who, message)) = fuse::parse(&self.buffer[..length]) else { continue };
            let kernel = &self.kernel;
            match message {
                Message::Interrupt => {} // it is answered soon in any case
                Message::Open => {
                    let file = OpenFile { uid: who.uid, direct: true, sessions: HashMap::new() };
                    self.files.insert(self.next_file, file);
                    kernel.opened(who.unique, self.next_file)?;
                    self.next_file += 1;
                }
                Message::Release { file } => {
                    if let Some(file) = self.files.remove(&file) {
                        self.users.close(file.uid, file.sessions.len());
                    }
                    kernel.done(who.unique)?;
                }
                Message::Poll => kernel.polled(who.unique)?,
                Message::Init | Message::Other => kernel.failed(who.unique, Errno::EINVAL)?,
                Message::Ioctl(ioctl) => match Ioctl::from_code(ioctl.code, ioctl.width) {
                    None => kernel.failed(who.unique, Errno::EINVAL)?,
                    Some(name) => self.asks.push_back(Ask {
                        who,
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

    /// Answers an ask, or makes it part of the round, or puts it where it waits.
    fn look_at(&mut self, mut ask: Ask) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&ask.file) else {
            return self.kernel.failed(ask.who.unique, Errno::EINVAL);
        };
        let mut got = std::mem::take(&mut ask.input);
        loop {
            let wanted = match plan(ask.call, file, &got) {
                Plan::Fail(errno) => return self.kernel.failed(ask.who.unique, errno),
                Plan::Ready { action, inputs, outputs } => {
                    if !file.direct && ask.output != total(&outputs) {
                        return self.kernel.retry(ask.who.unique, &ranges(&inputs), &ranges(&outputs));
                    }
                    return self.act(ask, action, outputs, got);
                }
                Plan::Read(wanted) => wanted,
            };
            if let Some(entry) = worked_on(ask.call, &got).and_then(|session| file.sessions.get_mut(&session))
                && entry.state.is_none()
            {
                // What comes along of its data is read when it is its turn.
                if !file.direct {
                    ask.input = got;
                }
                entry.waiting.push_back(ask);
                return Ok(());
            }
            if !file.direct {
                return self.kernel.retry(ask.who.unique, &ranges(&wanted), &[]);
            }
            let missing = missing(&wanted, got.len());
            if total(missing) >= LONG {
                return self.look_at_long(ask, total(missing), got);
            }
            match read(&ask, missing, &mut got) {
                Ok(()) => {}
                Err(Refusal::Errno(errno)) => return self.kernel.failed(ask.who.unique, errno),
                Err(Refusal::Denied) => {
                    file.direct = false;
                    got.resize(0);
                }
            }
        }
    }

    /// Sends what takes long to a worker, with the state of its session.
    fn look_at_long(&mut self, ask: Ask, bytes: usize, got: Wiped) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&ask.file) else { return Ok(()) };
        match self.users.room(file.uid, bytes) {
            Room::Never => return self.kernel.failed(ask.who.unique, Errno::ENOMEM),
            Room::Later => {
                self.held.push(ask);
                return Ok(());
            }
            Room::Now => {}
        }
        let entry = worked_on(ask.call, &got).and_then(|session| Some((session, file.sessions.get_mut(&session)?)));
        let Some((session, entry)) = entry else { return self.kernel.failed(ask.who.unique, Errno::EINVAL) };
        let Some(state) = entry.state.take() else {
            entry.waiting.push_back(ask);
            return Ok(());
        };
        self.users.begin(file.uid, bytes);
        let load = Load { uid: file.uid, bytes };
        let long = Long { session, shape: entry.shape.clone(), state, load, got, ask };
        self.workers.send(long);
        Ok(())
    }

    /// Has a thread make the caller duplicate its descriptor.
    fn give_descriptor(&mut self, ask: Ask) -> io::Result<()> {
        let Some(file) = self.files.get(&ask.file) else { return Ok(()) };
        if !file.direct {
            return self.kernel.failed(ask.who.unique, Errno::EINVAL);
        }
        match self.users.room(file.uid, DESCRIPTOR) {
            Room::Never => return self.kernel.failed(ask.who.unique, Errno::ENOMEM),
            Room::Later => {
                self.held.push(ask);
                return Ok(());
            }
            Room::Now => {}
        }
        let place = Range { address: ask.call.address, bytes: ask.call.ioctl.size(ask.call.width) };
        let caller = Caller { unique: ask.who.unique, thread: ask.who.pid, width: ask.call.width, place };
        match self.workers.give_descriptor(caller, Load { uid: file.uid, bytes: DESCRIPTOR }) {
            Ok(()) => self.users.begin(file.uid, DESCRIPTOR),
            Err(_) => self.kernel.failed(ask.who.unique, Errno::ENOMEM)?,
        }
        Ok(())
    }

    /// Does what needs no device at once, and gives the rest to the round.
    fn act(&mut self, ask: Ask, action: Action, outputs: Vec<Wanted>, got: Wiped) -> io::Result<()> {
        let Some(file) = self.files.get_mut(&ask.file) else { return Ok(()) };
        let unique = ask.who.unique;
        let bytes = match action {
            Action::Features => vec![0; 4],
            Action::Descriptor => return self.give_descriptor(ask),
            Action::Info(mut op) => {
                if let Some(shape) = file.shape(op.session) {
                    describe(shape, &mut op);
                }
                op.to_bytes(ask.call.width)
            }
            Action::Open { mut op, key, mac_key } => {
                if !self.users.open(file.uid) {
                    return self.kernel.failed(unique, Errno::ENOMEM);
                }
                // Without a MAC nobody has looked at this.
                let mac_bytes = (op.mac_key_len as usize).min(MAX_HMAC_KEY);
                // A MAC key that is nowhere is as many zeros.
                let mac_key = Wiped::from(if mac_key.is_empty() { vec![0; mac_bytes] } else { got[mac_key].to_vec() });
                let Some(shape) = self.maker.make(op.cipher, &got[key], op.mac, &mac_key) else {
                    self.users.close(file.uid, 1);
                    return self.kernel.failed(unique, Errno::EINVAL);
                };
                op.session = self.next_session;
                self.next_session = self.next_session.wrapping_add(1);
                let session = op.session;
                let entry = Entry { shape: Arc::new(shape), state: Some(State::new()), waiting: VecDeque::new() };
                let (direct, uid) = (file.direct, file.uid);
                file.sessions.insert(session, entry);
                let given = answer(&self.kernel, direct, &ask, &outputs, Ok(vec![&op.to_bytes(ask.call.width)]))?;
                if !given && let Some(file) = self.files.get_mut(&ask.file) {
                    file.sessions.remove(&session);
                    self.users.close(uid, 1);
                }
                return Ok(());
            }
            Action::Close(session) => {
                match file.sessions.get_mut(&session) {
                    Some(entry) if entry.state.is_none() => {
                        let input = got;
                        entry.waiting.push_back(Ask { input, ..ask });
                        return Ok(());
                    }
                    // The module has no error for a session that is not there.
                    _ => {
                        if let Some(entry) = file.sessions.remove(&session) {
                            self.users.close(file.uid, 1);
                            self.asks.extend(entry.waiting);
                        }
                        Vec::new()
                    }
                }
            }
            Action::CopyHash { to, from } => {
                let away =
                    [to, from].into_iter().find(|id| file.sessions.get(id).is_some_and(|entry| entry.state.is_none()));
                if let Some(entry) = away.and_then(|id| file.sessions.get_mut(&id)) {
                    entry.waiting.push_back(Ask { input: got, ..ask });
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
                    entry.waiting.push_back(Ask { input: got, ..ask });
                    return Ok(());
                };
                self.round_bytes += got.len();
                self.round.push(Running { task: Task::new(entry.shape.clone(), state, job, got), ask, outputs });
                return Ok(());
            }
        };
        answer(&self.kernel, file.direct, &ask, &outputs, Ok(vec![&bytes])).map(|_| ())
    }

    /// Does everything of the round side by side, and answers.
    fn run_round(&mut self) -> io::Result<()> {
        self.round_bytes = 0;
        let mut round = std::mem::take(&mut self.round);
        side_by_side(round.iter_mut().map(|running| &mut running.task));
        for Running { ask, outputs, task } in round {
            let direct = self.files.get(&ask.file).is_some_and(|file| file.direct);
            answer(&self.kernel, direct, &ask, &outputs, task.result())?;
            let session = task.session_id();
            self.come_home(ask.file, session, task.into_state());
        }
        Ok(())
    }

    fn come_home(&mut self, file: u64, session: u32, state: State) {
        if let Some(entry) = self.files.get_mut(&file).and_then(|file| file.sessions.get_mut(&session)) {
            entry.state = Some(state);
            // In their order, and before those that came later.
            while let Some(ask) = entry.waiting.pop_back() {
                self.asks.push_front(ask);
            }
        }
    }

    /// Takes back what workers have done.
    fn welcome_back(&mut self) {
        let _ = self.workers.woken.read();
        let mut any = false;
        while let Ok(back) = self.workers.back.try_recv() {
            self.users.end(back.load.uid, back.load.bytes);
            if let Some((file, session, state)) = back.state {
                self.come_home(file, session, state);
            }
            any = true;
        }
        if any {
            self.asks.extend(self.held.drain(..));
        }
    }
}
