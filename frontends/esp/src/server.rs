//! The server: sockets, threads, and the loop of the daemon's.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::private::Private;
use gantry_abi_xfrm::{Datagram, Message, Prefix, frames};
use gantry_core::Gantry;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control::connection::{self, Connection};
use crate::control::requests::State;
use crate::inward::Inward;
use crate::outward::Outward;
use crate::ports::Ports;
use crate::route::{Changes, Routes};
use crate::shared::{Shared, lock};
use crate::socket;
use crate::status::Status;
use crate::table::{Associations, Policies};
use crate::tun::{self, Queue};
use crate::udp::Socket;
use crate::watch::Watch;
use crate::wipe::overwrite_stack;

/// How a data path is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the TUN device.
    pub device: String,
    /// The longest packet that the device takes; shorter paths are found out.
    pub mtu: u32,
    /// The port of ESP in UDP.
    pub port: u16,
    /// Pairs of threads, each with a queue of the device and sockets.
    pub queues: usize,
    /// Destinations whose packets leave through the tunnel or not at all, whatever policies there are: before the daemon is up, and
    /// after it has ended.
    pub protect: Vec<Prefix>,
    /// The folder of the sockets `xfrm`, for daemons, and `status`.
    pub folder: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: "gantry0".to_owned(),
            mtu: 1400,
            port: 4500,
            queues: 1,
            protect: Vec::new(),
            folder: "/run/gantry-esp".into(),
        }
    }
}

/// Why there is no data path, or no more.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct Failed {
    /// What could not be done.
    pub what: String,
    /// What the system says.
    #[source]
    pub error: io::Error,
}

/// A file or thread that failed.
fn failed<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Failed {
    move |error| Failed { what: what.into(), error: error.into() }
}

/// Most connections at once. Others wait until one ends.
const CONNECTIONS: usize = 256;
/// Most datagrams that are read of one program before it is the turn of the next.
const REQUESTS: usize = 64;
/// How often time is looked at: limits of SAs are seconds.
const TICK: Duration = Duration::from_millis(500);
/// How often the paths of peers are looked up again: Linux forgets what routers said after ten minutes.
const PATHS: Duration = Duration::from_mins(1);

/// A data path: packets pass from when it is made.
pub struct Server {
    options: Options,
    state: State,
    shared: Arc<Shared>,
    daemons: OwnedFd,
    connections: Vec<Connection>,
    ports: Ports,
    queues: Vec<Arc<Queue>>,
}

impl Server {
    /// Makes the device, its routes and its sockets, and starts the threads.
    ///
    /// # Errors
    /// Whatever is missing: the module tun, CAP_NET_ADMIN, or a free port.
    pub fn new(gantry: Gantry, options: Options) -> Result<Self, Failed> {
        let shared = Arc::new(Shared::new().map_err(failed("an event descriptor"))?);
        let folder = &options.folder;
        socket::make(folder).map_err(failed(folder.display().to_string()))?;
        let path = |name: &str| folder.join(name);
        let shown = |name: &str| path(name).display().to_string();
        let daemons = socket::daemons(&path("xfrm")).map_err(failed(shown("xfrm")))?;
        let viewers = socket::viewers(&path("status")).map_err(failed(shown("status")))?;

        let ports = Ports::new(options.port, options.queues).map_err(failed(format!("UDP port {}", options.port)))?;
        let (name, queues) = tun::open(&options.device, options.queues).map_err(failed("/dev/net/tun"))?;
        // Changes by other programs are received from now on.
        let changes = Changes::listen().map_err(failed("changes of routes"))?;
        let routes = Routes::new(&name, options.mtu).map_err(failed(format!("rules of routes for {name}")))?;
        shared.set_own(routes.own().map_err(failed("the addresses of this host"))?);
        let routes = Arc::new(Mutex::new(routes));
        let mut state = State {
            associations: Associations::new(gantry.clone()).map_err(failed("random bytes"))?,
            policies: Policies::default(),
            routes: routes.clone(),
            protect: options.protect.clone(),
            asked: 0,
        };
        state
            .steer(&shared)
            .map_err(|refusal| Failed { what: format!("routes into {name}"), error: io::Error::other(refusal.text) })?;
        let options = Options { device: name, ..options };
        let watch = Watch { changes, routes, shared: shared.clone() };
        start("esp-watch", move || watch.run())?;
        let status = Status { listener: viewers, options: options.clone(), gantry, shared: shared.clone() };
        start("esp-status", move || status.run())?;
        let queues: Vec<_> = queues.into_iter().map(Arc::new).collect();
        let waker = || shared.waker().map_err(failed("an event descriptor"));
        for (at, queue) in queues.iter().enumerate() {
            let sockets = ports.of(at);
            let outward =
                Outward { tun: queue.clone(), sockets: sockets.clone(), shared: shared.clone(), waker: waker()? };
            start("esp-out", move || outward.run())?;
            read(queue, sockets.into_iter().flatten().collect(), &shared)?;
        }
        Ok(Self { options, state, shared, daemons, connections: Vec::new(), ports, queues })
    }

    /// The name of the TUN device.
    pub fn device(&self) -> &str {
        &self.options.device
    }

    /// One sentence for each guard against sockets bound to another device that the kernel lacks.
    pub fn unguarded(&self) -> Vec<String> {
        lock(&self.state.routes).unguarded()
    }

    /// Where daemons find the data path (`GANTRY_XFRM`).
    pub fn path(&self) -> PathBuf {
        self.options.folder.join("xfrm")
    }

    /// Answers daemons until the process ends.
    ///
    /// # Errors
    /// What the sockets say.
    pub fn run(mut self) -> Result<std::convert::Infallible, Failed> {
        let (mut ticked, mut looked, mut has_files) = (Instant::now(), Instant::now(), true);
        loop {
            self.wait(has_files).map_err(failed("sockets"))?;
            let _ = self.shared.told.read();
            for event in self.shared.events() {
                for message in self.state.tell(event, &self.shared) {
                    self.tell(&message);
                }
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                for message in self.state.age(&self.shared) {
                    self.tell(&message);
                }
            }
            if looked.elapsed() >= PATHS {
                looked = Instant::now();
                self.state.associations.all().iter().for_each(|entry| entry.find_path());
            }
            has_files = self.accept();
            for at in 0..self.connections.len() {
                self.connections[at].flush();
                for _ in 0..REQUESTS {
                    let Some(datagram) = self.connections[at].read() else { break };
                    self.serve(at, &datagram);
                }
            }
            overwrite_stack();
            self.connections.retain(|connection| !connection.is_closed);
        }
    }

    /// Accepts programs. Returns `false` if the system has no descriptors left, as any user can bring about; then they have to wait.
    fn accept(&mut self) -> bool {
        while self.has_room() {
            match connection::accept(&self.daemons) {
                Ok(Some(fd)) => self.connections.push(Connection::new(fd)),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        true
    }

    fn has_room(&self) -> bool {
        self.connections.len() < CONNECTIONS
    }

    fn wait(&self, has_files: bool) -> io::Result<()> {
        let accepts = has_files && self.has_room();
        let mut fds = vec![PollFd::new(self.shared.told.as_fd(), PollFlags::POLLIN)];
        fds.extend(accepts.then(|| PollFd::new(self.daemons.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.connections.iter().map(|connection| {
            let events = if connection.is_behind() { PollFlags::POLLOUT } else { PollFlags::POLLIN };
            PollFd::new(connection.as_fd(), events)
        }));
        match poll(&mut fds, PollTimeout::from(TICK.as_millis() as u16)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what one datagram of a program asks for.
    fn serve(&mut self, at: usize, datagram: &[u8]) {
        for frame in frames(datagram) {
            let Connection { port, texts, .. } = self.connections[at];
            match Private::parse(&frame) {
                // The library tells its program that a request was lost with another server: in our words, because its wait is for us.
                Ok(Private::Lost) => {
                    let mut answer = Datagram::new();
                    answer.acknowledge(&frame, port, libc::ECONNREFUSED, None);
                    self.connections[at].send(answer);
                    continue;
                }
                Ok(private) => {
                    self.serve_library(at, private);
                    continue;
                }
                Err(_) => {}
            }
            let answer = self.state.answer(&frame, port, texts, &self.shared);
            for datagram in answer.datagrams {
                self.connections[at].send(datagram);
            }
            for event in answer.events {
                self.tell(&event);
            }
        }
    }

    fn serve_library(&mut self, at: usize, message: Private) {
        let connection = &mut self.connections[at];
        let mut answer = Datagram::new();
        match message {
            Private::Socket { port, groups, texts } => {
                (connection.port, connection.groups, connection.texts) = (port, groups, texts);
            }
            Private::Binding(address) => answer.push_private(&Private::Share(self.shares(address))),
            Private::Bound(..) => answer.push_private(&Private::Share(true)),
            Private::Share(_) | Private::Lost => {}
        }
        self.connections[at].send(answer);
    }

    /// Makes place for a daemon's socket behind ours. Whether there is one.
    fn shares(&mut self, address: SocketAddr) -> bool {
        if address.port() != self.ports.number() {
            return false;
        }
        let started = self.ports.expect(address.ip()).map_err(failed("a port")).and_then(|sockets| {
            self.queues.iter().zip(sockets).try_for_each(|(queue, socket)| read(queue, vec![socket], &self.shared))
        });
        started.is_ok()
    }

    fn tell(&mut self, message: &Message) {
        for connection in &mut self.connections {
            connection.tell(message);
        }
    }
}

/// Starts a thread whose end is that of the process: routes lead to nowhere then.
fn start(name: &str, run: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), Failed> {
    let guarded = move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let why = match ended {
            Ok(Ok(())) => "it ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it panicked".to_owned(),
        };
        eprintln!("gantry esp: a thread of the data path is gone: {why}");
        std::process::exit(1);
    };
    Builder::new().name(name.to_owned()).spawn(guarded).map(drop).map_err(failed("a thread"))
}

/// Starts a thread that reads sockets, for a queue.
fn read(queue: &Arc<Queue>, sockets: Vec<Arc<Socket>>, shared: &Arc<Shared>) -> Result<(), Failed> {
    let waker = shared.waker().map_err(failed("an event descriptor"))?;
    let inward = Inward { tun: queue.clone(), sockets, shared: shared.clone(), waker };
    start("esp-in", move || inward.run())
}
