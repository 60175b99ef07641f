//! A folder with a socket, a server at the socket that records all messages, and programs under the library.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gantry_abi_xfrm::constants::{flag, message};
use gantry_abi_xfrm::preload::PreloadMessage;
use gantry_abi_xfrm::*;
use nix::sys::socket::{self, AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr};

/// A folder, deleted at the end of the test.
pub(crate) struct Lab {
    folder: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gantry-xfrm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the path for GANTRY_XFRM.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path("xfrm")
    }

    /// Runs a shell command under the library, with GANTRY_XFRM.
    pub(crate) fn sh(&self, line: &str) -> Output {
        self.command(line).env("GANTRY_XFRM", self.socket()).output().unwrap()
    }

    /// Starts a shell command under the library, with GANTRY_XFRM. The command begins with `exec`, so that killing the child
    /// ends the program.
    pub(crate) fn start(&self, line: &str) -> Running {
        assert!(line.starts_with("exec "));
        Running(self.command(line).env("GANTRY_XFRM", self.socket()).spawn().unwrap())
    }

    /// Builds a shell command under the library, without GANTRY_XFRM.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.folder).env("LD_PRELOAD", library()).env_remove("GANTRY_XFRM");
        command.env("TZ", "UTC").env("LC_ALL", "C");
        command
    }

    /// Compiles a program from `tests/programs`.
    pub(crate) fn compile(&self, name: &str) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
        let output =
            Command::new("cc").args(["-O2", "-Wall", "-Werror", "-o"]).arg(self.path(name)).arg(source).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A program, killed at the end of the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libgantry_xfrm.so")
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn is_installed(program: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/lib/ipsec"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

/// Returns whether all of `needs`, programs or "root", are available. Reports and counts a missing one.
pub(crate) fn is_possible(needs: &[&str]) -> bool {
    for need in needs {
        let is_available = if *need == "root" { nix::unistd::geteuid().is_root() } else { is_installed(need) };
        if !is_available {
            gantry_lab::skip(need);
            return false;
        }
    }
    true
}

/// The state of a server, and the messages that it received.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) sas: Vec<Sa>,
    pub(crate) policies: Vec<Policy>,
    /// XFRM messages in the order of arrival; malformed ones as errors.
    pub(crate) received: Vec<Result<Message, Error>>,
    /// Messages of the library itself, in the order of arrival.
    pub(crate) private_messages: Vec<PreloadMessage>,
    /// Datagrams of XFRM messages, as they arrived.
    pub(crate) raw_datagrams: Vec<Vec<u8>>,
    /// Open connections, each with its port, its groups, and whether its program wants texts.
    pub(crate) connections: Vec<(Arc<OwnedFd>, u32, u32, bool)>,
    /// The error with which all requests are answered: its number and its text.
    pub(crate) refusal: Option<(i32, &'static str)>,
    /// True if the server answers no request.
    pub(crate) is_silent: bool,
    /// The delay of answers.
    pub(crate) answer_delay: Duration,
    /// UDP ports that programs are to share.
    pub(crate) shared_ports: Vec<u16>,
}

/// A server. Dropping it ends its connections.
pub(crate) struct Server {
    pub(crate) state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    accepting: Option<thread::JoinHandle<()>>,
    path: PathBuf,
}

impl Server {
    pub(crate) fn new(lab: &Lab) -> Self {
        let path = lab.socket();
        let _ = fs::remove_file(&path);
        let listener = socket::socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        socket::listen(&listener, Backlog::new(16).unwrap()).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (states, stopped) = (Arc::clone(&state), Arc::clone(&stop));
        let accepting = Some(thread::spawn(move || accept(&listener, &states, &stopped)));
        Self { state, stop, accepting, path }
    }

    /// Sends an event to all connections that have joined its group.
    pub(crate) fn send_event(&self, event: &Message) {
        let mut datagram = Datagram::new();
        datagram.push(event, 0, 0, 0, KeyVisibility::Shown);
        let group = event.group().unwrap();
        for (connection, _, groups, _) in &self.state.lock().unwrap().connections {
            if groups & 1 << (group - 1) != 0 {
                socket::send(connection.as_raw_fd(), datagram.as_bytes(), MsgFlags::MSG_NOSIGNAL).unwrap();
            }
        }
    }

    /// Returns the groups that any open connection has joined.
    pub(crate) fn groups(&self) -> u32 {
        self.state.lock().unwrap().connections.iter().fold(0, |all, (_, _, groups, _)| all | groups)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A connection wakes the accepting thread.
        let waker = socket::socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        let _ = socket::connect(waker.as_raw_fd(), &UnixAddr::new(&self.path).unwrap());
        let _ = fs::remove_file(&self.path);
        // Connections in the backlog end with the thread's socket.
        let _ = self.accepting.take().unwrap().join();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (connection, ..) in state.connections.drain(..) {
            let _ = socket::shutdown(connection.as_raw_fd(), socket::Shutdown::Both);
        }
    }
}

fn accept(listener: &OwnedFd, state: &Arc<Mutex<State>>, stop: &AtomicBool) {
    use std::os::fd::FromRawFd as _;
    while let Ok(connection) = socket::accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
        // SAFETY: `accept4` returns a new descriptor without another owner.
        let connection = Arc::new(unsafe { OwnedFd::from_raw_fd(connection) });
        if stop.load(Ordering::Acquire) {
            return;
        }
        state.lock().unwrap().connections.push((Arc::clone(&connection), 0, 0, false));
        let state = Arc::clone(state);
        thread::spawn(move || serve(&connection, &state));
    }
}

fn serve(connection: &Arc<OwnedFd>, state: &Mutex<State>) {
    let mut buffer = vec![0; 65536];
    while let Ok(length) = socket::recv(connection.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
        if length == 0 {
            break;
        }
        let answer_delay = state.lock().unwrap().answer_delay;
        thread::sleep(answer_delay);
        let mut state = state.lock().unwrap();
        let datagram = &buffer[..length];
        // The library's own messages have numbers from 0xff00.
        if frames(datagram).all(|frame| frame.header.kind < 0xff00) {
            state.raw_datagrams.push(datagram.to_vec());
        }
        for frame in frames(datagram) {
            for answer in answers(&frame, connection, &mut state) {
                let _ = socket::send(connection.as_raw_fd(), answer.as_bytes(), MsgFlags::MSG_NOSIGNAL);
            }
        }
    }
    state.lock().unwrap().connections.retain(|(other, ..)| !Arc::ptr_eq(other, connection));
}

fn answers(frame: &Frame<'_>, connection: &Arc<OwnedFd>, state: &mut State) -> Vec<Datagram> {
    let header = frame.header;
    let mut answer = Datagram::new();
    if let Ok(private) = PreloadMessage::parse(frame) {
        state.private_messages.push(private);
        match private {
            PreloadMessage::Socket { port, groups, texts } => {
                for entry in state.connections.iter_mut().filter(|(other, ..)| Arc::ptr_eq(other, connection)) {
                    *entry = (Arc::clone(connection), port, groups, texts);
                }
                return Vec::new();
            }
            PreloadMessage::Binding(address) => {
                answer.push_preload_message(&PreloadMessage::Share(state.shared_ports.contains(&address.port())));
            }
            PreloadMessage::Bound(..) => answer.push_preload_message(&PreloadMessage::Share(true)),
            PreloadMessage::Lost => answer.acknowledge(frame, 0, 111, None),
            PreloadMessage::Share(_) => panic!("only a server sends this message"),
        }
        return vec![answer];
    }
    let read = Message::parse(frame);
    state.received.push(read.clone());
    if state.is_silent {
        return Vec::new();
    }
    let entry = state.connections.iter().find(|(other, ..)| Arc::ptr_eq(other, connection));
    let Some(&(_, port, _, texts)) = entry else { return Vec::new() };
    if let Some((errno, why)) = state.refusal {
        answer.acknowledge(frame, port, errno, texts.then_some(why));
        return vec![answer];
    }
    let one =
        |answer: &mut Datagram, message: &Message| answer.push(message, 0, header.sequence, port, KeyVisibility::Shown);
    let mut errno = 0;
    match read {
        Ok(Message::NewSa(sa) | Message::UpdSa(sa)) => state.sas.push(*sa),
        Ok(Message::NewPolicy(policy) | Message::UpdPolicy(policy)) => state.policies.push(*policy),
        Ok(Message::GetSa(wanted)) => match state.sas.iter().find(|sa| sa.id == wanted.id) {
            Some(sa) => one(&mut answer, &Message::NewSa(sa.clone().into())),
            None => errno = 3,
        },
        Ok(Message::GetPolicy(wanted)) => {
            let is_wanted =
                |policy: &&Policy| (policy.selector, policy.direction) == (wanted.selector, wanted.direction);
            match state.policies.iter().find(is_wanted) {
                Some(policy) => one(&mut answer, &Message::NewPolicy(policy.clone().into())),
                None => errno = 2,
            }
        }
        Ok(Message::AllocSpi(request)) => {
            let mut sa = request.sa;
            sa.id.spi = request.lowest;
            one(&mut answer, &Message::NewSa(sa.into()));
        }
        Ok(Message::DumpSa(filter)) => {
            let entries = state.sas.iter().filter(|sa| filter.matches(sa));
            return dump(entries.map(|sa| Message::NewSa(sa.clone().into())), &header, port);
        }
        Ok(Message::DumpPolicy) => {
            // Among equal priorities Linux dumps the newest policy first; `ip` prints in the order of the dump.
            return dump(state.policies.iter().map(|policy| Message::NewPolicy(policy.clone().into())), &header, port);
        }
        Ok(Message::GetSadInfo(flags)) => {
            let info = SadInfo { flags, count: state.sas.len() as u32, buckets: 8, max_buckets: 1 << 20 };
            one(&mut answer, &Message::NewSadInfo(info));
        }
        Ok(Message::GetSpdInfo(flags)) => {
            let info =
                SpdInfo { flags, counts: Some([1, 2, 3, 4, 5, 6]), buckets: Some([8, 1 << 20]), ..SpdInfo::default() };
            one(&mut answer, &Message::NewSpdInfo(info));
        }
        Ok(Message::GetAe(wanted)) => match state.sas.iter().find(|sa| sa.id == wanted.id) {
            Some(sa) => one(&mut answer, &Message::NewAe(AsyncEvent::of(sa, wanted.flags).into())),
            None => errno = 3,
        },
        Ok(Message::GetDefault(_)) => {
            let verdicts = Verdicts { input: Verdict::Accept, forward: Verdict::Block, output: Verdict::Accept };
            one(&mut answer, &Message::GetDefault(verdicts));
        }
        Ok(_) => {}
        Err(error) => errno = error.errno(),
    }
    if errno != 0 || header.wants_ack() {
        answer.acknowledge(frame, port, errno, None);
    }
    vec![answer]
}

fn dump(entries: impl Iterator<Item = Message>, request: &Header, port: u32) -> Vec<Datagram> {
    let mut all = vec![Datagram::new()];
    for entry in entries {
        let datagram = all.last_mut().unwrap();
        let before = datagram.len();
        datagram.push(&entry, flag::MULTI, request.sequence, port, KeyVisibility::Shown);
        if datagram.len() > 4096 && before > 0 {
            datagram.truncate(before);
            let mut next = Datagram::new();
            next.push(&entry, flag::MULTI, request.sequence, port, KeyVisibility::Shown);
            all.push(next);
        }
    }
    all.last_mut().unwrap().done(request, port);
    assert_eq!(frames(all.last().unwrap().as_bytes()).last().unwrap().header.kind, message::DONE);
    all
}
