//! The server: sockets, threads, and the loop that answers daemons.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::preload::PreloadMessage;
use gantry_abi_xfrm::{Datagram, Message, frames};
use gantry_core::Gantry;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control::connection::{self, Connection};
use crate::control::requests::State;
use crate::inbound::InboundPath;
use crate::options::Options;
use crate::outbound::OutboundPath;
use crate::route::{Changes, Routes, check_alone};
use crate::shared::{Shared, lock};
use crate::shared_port::SharedPort;
use crate::socket;
use crate::status::StatusServer;
use crate::table::{Associations, Policies};
use crate::tun::{self, Queue};
use crate::udp::Socket;
use crate::watch::Watcher;
use crate::wipe::overwrite_stack;

/// The error that prevents or ends a data path.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct ServerError {
    /// The file, thread or resource that failed.
    pub what: String,
    /// The error of the system.
    #[source]
    pub error: io::Error,
}

/// Returns a function that adds the name of a file or thread to an error.
fn context<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ServerError {
    move |error| ServerError { what: what.into(), error: error.into() }
}

/// Maximum number of connections at once. Further connections wait until one ends.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of datagrams that are read from one program before the next one gets its turn.
const MAX_DATAGRAMS_PER_TURN: usize = 64;
/// Interval between checks of the SAs' time limits, which are whole seconds.
const TICK: Duration = Duration::from_millis(500);
/// Interval between lookups of the peers' path MTUs: Linux forgets a path MTU after ten minutes.
const PATH_MTU_INTERVAL: Duration = Duration::from_mins(1);

/// A data path. It passes packets as soon as it is created.
pub struct Server {
    options: Options,
    state: State,
    shared: Arc<Shared>,
    daemon_listener: OwnedFd,
    connections: Vec<Connection>,
    shared_port: SharedPort,
    queues: Vec<Arc<Queue>>,
}

impl Server {
    /// Creates the device, its routes and its sockets, and starts the threads.
    ///
    /// # Errors
    /// A missing prerequisite: the tun module, CAP_NET_ADMIN, or a free port.
    pub fn new(gantry: Gantry, options: Options) -> Result<Self, ServerError> {
        check_alone().map_err(context("this network namespace"))?;
        let queues = options.queues as u32;
        let raw_sockets: Vec<[Option<Arc<Socket>>; 2]> =
            (0..queues).map(|queue| open_raw_sockets(queue, queues)).collect::<Result<_, _>>()?;
        let mut associations = Associations::new(gantry.clone(), options.port).map_err(context("random bytes"))?;
        if let Some(first) = raw_sockets.first() {
            associations.sockets.has_raw = first.each_ref().map(Option::is_some);
        }
        let shared = Arc::new(Shared::new(associations.view.clone()).map_err(context("an event descriptor"))?);
        let folder = &options.folder;
        socket::create_folder(folder).map_err(context(folder.display().to_string()))?;
        let path = |name: &str| folder.join(name);
        let display = |name: &str| path(name).display().to_string();
        let daemon_listener = socket::listen_to_daemons(&path("xfrm")).map_err(context(display("xfrm")))?;
        let viewer_listener = socket::listen_to_viewers(&path("status")).map_err(context(display("status")))?;

        let shared_port =
            SharedPort::new(options.port, options.queues).map_err(context(format!("UDP port {}", options.port)))?;
        let (name, queues) = tun::open(&options.device, options.queues).map_err(context("/dev/net/tun"))?;
        // Changes by other programs are received from now on.
        let changes = Changes::listen().map_err(context("changes of routes"))?;
        let routes =
            Routes::new(&name, options.mtu, options.port).map_err(context(format!("routing rules for {name}")))?;
        let local_addresses = routes.local_addresses().map_err(context("the addresses of this host"))?;
        shared.view.change(|view| view.local_addresses = local_addresses);
        let routes = Arc::new(Mutex::new(routes));
        let mut state = State {
            associations,
            policies: Policies::default(),
            routes: routes.clone(),
            protected: options.protected.clone(),
            last_acquire: 0,
        };
        state.install_routes(&shared).map_err(|refusal| ServerError {
            what: format!("routes into {name}"),
            error: io::Error::other(refusal.text),
        })?;
        let options = Options { device: name, ..options };
        let watcher = Watcher { changes, routes, shared: shared.clone() };
        start_thread("esp-watch", move || watcher.run())?;
        let status =
            StatusServer { listener: viewer_listener, options: options.clone(), gantry, shared: shared.clone() };
        start_thread("esp-status", move || status.run())?;
        let queues: Vec<_> = queues.into_iter().map(Arc::new).collect();
        let waker = || shared.view.new_waker().map_err(context("an event descriptor"));
        for ((at, queue), raw_sockets) in queues.iter().enumerate().zip(raw_sockets) {
            let sockets = shared_port.wildcard_sockets(at);
            let receiving = sockets.iter().chain(&raw_sockets).flatten().cloned().collect();
            let outbound =
                OutboundPath { tun: queue.clone(), sockets, raw_sockets, shared: shared.clone(), waker: waker()? };
            start_thread("esp-out", move || outbound.run())?;
            start_receiver(queue, receiving, &shared)?;
        }
        Ok(Self { options, state, shared, daemon_listener, connections: Vec::new(), shared_port, queues })
    }

    /// Returns the name of the TUN device.
    pub fn device(&self) -> &str {
        &self.options.device
    }

    /// Returns one sentence for each guard that the kernel lacks. Guards stop packets that bypass the tunnel.
    pub fn missing_guards(&self) -> Vec<String> {
        lock(&self.state.routes).missing_guards()
    }

    /// Returns the path by which daemons find the data path (`GANTRY_XFRM`).
    pub fn path(&self) -> PathBuf {
        self.options.folder.join("xfrm")
    }

    /// Answers daemons until the process ends.
    ///
    /// # Errors
    /// Errors of the sockets.
    pub fn run(mut self) -> Result<std::convert::Infallible, ServerError> {
        let (mut last_tick, mut path_mtus_updated, mut has_descriptors) = (Instant::now(), Instant::now(), true);
        loop {
            self.wait(has_descriptors).map_err(context("sockets"))?;
            let _ = self.shared.daemon_waker.read();
            for event in self.shared.take_events() {
                for message in self.state.handle_event(event) {
                    self.notify(&message);
                }
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                for message in self.state.apply_time_limits(&self.shared) {
                    self.notify(&message);
                }
            }
            if path_mtus_updated.elapsed() >= PATH_MTU_INTERVAL {
                path_mtus_updated = Instant::now();
                self.state.associations.all().iter().for_each(|entry| entry.update_path_mtu());
            }
            has_descriptors = self.accept();
            for at in 0..self.connections.len() {
                self.connections[at].flush();
                for _ in 0..MAX_DATAGRAMS_PER_TURN {
                    let Some(datagram) = self.connections[at].read() else { break };
                    self.serve(at, &datagram);
                }
            }
            overwrite_stack();
            self.connections.retain(|connection| !connection.is_closed);
        }
    }

    /// Accepts connections. Returns `false` if the system has no descriptors left. Any user can cause this, so the server continues,
    /// and new connections wait.
    fn accept(&mut self) -> bool {
        while self.has_room() {
            match connection::accept(&self.daemon_listener) {
                Ok(Some(fd)) => self.connections.push(Connection::new(fd)),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        true
    }

    fn has_room(&self) -> bool {
        self.connections.len() < MAX_CONNECTIONS
    }

    fn wait(&self, has_descriptors: bool) -> io::Result<()> {
        let accepts = has_descriptors && self.has_room();
        let mut fds = vec![PollFd::new(self.shared.daemon_waker.as_fd(), PollFlags::POLLIN)];
        fds.extend(accepts.then(|| PollFd::new(self.daemon_listener.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.connections.iter().map(|connection| {
            let events = if connection.has_queued_datagrams() { PollFlags::POLLOUT } else { PollFlags::POLLIN };
            PollFd::new(connection.as_fd(), events)
        }));
        match poll(&mut fds, PollTimeout::from(TICK.as_millis() as u16)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Serves the requests in one datagram of a program.
    fn serve(&mut self, at: usize, datagram: &[u8]) {
        for frame in frames(datagram) {
            let Connection { port, wants_texts, .. } = self.connections[at];
            match PreloadMessage::parse(&frame) {
                // An earlier server ended before it had answered a request of this program. The program still waits for the answer,
                // so this server answers with an error.
                Ok(PreloadMessage::Lost) => {
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
            let answer = self.state.answer(&frame, port, wants_texts, &self.shared);
            for datagram in answer.datagrams {
                self.connections[at].send(datagram);
            }
            for event in answer.events {
                self.notify(&event);
            }
        }
    }

    fn serve_library(&mut self, at: usize, message: PreloadMessage) {
        let connection = &mut self.connections[at];
        let mut answer = Datagram::new();
        match message {
            PreloadMessage::Socket { port, groups, texts } => {
                (connection.port, connection.groups, connection.wants_texts) = (port, groups, texts);
            }
            PreloadMessage::Binding(address) => {
                answer.push_preload_message(&PreloadMessage::Share(self.share_port(address)));
            }
            PreloadMessage::Bound(..) => answer.push_preload_message(&PreloadMessage::Share(true)),
            PreloadMessage::Share(_) | PreloadMessage::Lost => {}
        }
        self.connections[at].send(answer);
    }

    /// Prepares for a daemon's socket at the data path's port. Returns whether the daemon shares the port.
    fn share_port(&mut self, address: SocketAddr) -> bool {
        if address.port() != self.shared_port.number() {
            return false;
        }
        let started =
            self.shared_port.prepare_for_daemon(address.ip()).map_err(context("a port")).and_then(|sockets| {
                self.queues
                    .iter()
                    .zip(sockets)
                    .try_for_each(|(queue, socket)| start_receiver(queue, vec![socket], &self.shared))
            });
        started.is_ok()
    }

    fn notify(&mut self, message: &Message) {
        for connection in &mut self.connections {
            connection.notify(message);
        }
    }
}

/// Opens the raw sockets of a queue, for IPv4 and IPv6. Without CAP_NET_RAW a queue has no raw socket, and SAs without UDP are refused.
fn open_raw_sockets(queue: u32, queues: u32) -> Result<[Option<Arc<Socket>>; 2], ServerError> {
    let open = |is_v6| match Socket::raw(is_v6, queue, queues) {
        Ok(socket) => Ok(Some(Arc::new(socket))),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT)) => Ok(None),
        Err(error) => Err(context("a raw socket")(error)),
    };
    Ok([open(false)?, open(true)?])
}

/// Starts a thread. When the thread ends, the process exits. Only routes of type `unreachable` then remain, and block the packets.
fn start_thread(name: &str, run: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), ServerError> {
    let guarded = move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let reason = match ended {
            Ok(Ok(())) => "it returned".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it panicked".to_owned(),
        };
        eprintln!("gantry esp: a thread of the data path ended: {reason}");
        std::process::exit(1);
    };
    Builder::new().name(name.to_owned()).spawn(guarded).map(drop).map_err(context("a thread"))
}

/// Starts a thread that reads sockets for a queue.
fn start_receiver(queue: &Arc<Queue>, sockets: Vec<Arc<Socket>>, shared: &Arc<Shared>) -> Result<(), ServerError> {
    let waker = shared.view.new_waker().map_err(context("an event descriptor"))?;
    let inbound = InboundPath { tun: queue.clone(), sockets, shared: shared.clone(), waker };
    start_thread("esp-in", move || inbound.run())
}
