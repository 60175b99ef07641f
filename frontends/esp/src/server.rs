//! The server: sockets, threads, and the loop of the daemon's.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use gantry::Gantry;
use gantry_abi_xfrm::private::Private;
use gantry_abi_xfrm::{Datagram, Message, Prefix, frames};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, umask};

use crate::control::connection::{self, Connection, LONGEST};
use crate::control::requests::State;
use crate::inward::Inward;
use crate::outward::Outward;
use crate::route::Routes;
use crate::shared::Shared;
use crate::status;
use crate::table::{Associations, Policies};
use crate::tun;
use crate::udp::{Port, Socket};

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

/// Connections at once.
const CONNECTIONS: usize = 256;
/// How often time is looked at: limits of SAs are seconds.
const TICK: Duration = Duration::from_millis(500);
/// How often the paths of peers are looked up again: Linux forgets what routers said after ten minutes.
const PATHS: Duration = Duration::from_secs(60);

/// A data path: packets pass from when it is made.
pub struct Server {
    options: Options,
    gantry: Gantry,
    state: State,
    shared: Arc<Shared>,
    daemons: OwnedFd,
    viewers: UnixListener,
    connections: Vec<Connection>,
    /// By family.
    ports: [Option<Port>; 2],
    sockets: Vec<Arc<[Option<Socket>; 2]>>,
}

impl Server {
    /// Makes the device, its routes and its sockets, and starts the threads.
    ///
    /// # Errors
    /// Whatever is missing: the module tun, CAP_NET_ADMIN, or a free port.
    pub fn new(gantry: Gantry, options: Options) -> Result<Self, Failed> {
        let shared = Arc::new(Shared::new().map_err(failed("an event descriptor"))?);
        let folder = &options.folder;
        fs::create_dir_all(folder).map_err(failed(folder.display().to_string()))?;
        let (daemons, viewers) = (folder.join("xfrm"), folder.join("status"));
        let daemons = listen(&daemons).map_err(failed(daemons.display().to_string()))?;
        remove_old(&viewers).map_err(failed(viewers.display().to_string()))?;
        let (viewers, path) = (UnixListener::bind(&viewers), viewers);
        let viewers = viewers.map_err(failed(path.display().to_string()))?;
        viewers.set_nonblocking(true).map_err(failed(path.display().to_string()))?;
        // Everybody may see the counters. Who may see SAs is asked when somebody comes.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(failed(path.display().to_string()))?;

        let device = &options.device;
        let before = [false, true].map(|is_v6| others(options.port, is_v6));
        let sockets = sockets(&options)?;
        let ports = [0, 1].map(|family| {
            let ours: Vec<&Socket> = sockets.iter().filter_map(|pair| pair[family].as_ref()).collect();
            if ours.is_empty() { Ok(None) } else { Port::new(&ours, before[family]).map(Some) }
        });
        let [v4, v6] = ports;
        let ports = [v4, v6].map(|port| port.map_err(failed(format!("port {}", options.port))));
        let [v4, v6] = ports;
        let ports = [v4?, v6?];
        let (name, queues) = tun::open(device, options.queues).map_err(failed("/dev/net/tun"))?;
        let routes = Routes::new(&name, options.mtu).map_err(failed(format!("rules of routes for {name}")))?;
        let mut state = State {
            associations: Associations::new(gantry.clone()),
            policies: Policies::default(),
            routes,
            protect: options.protect.clone(),
            asked: 0,
        };
        let steering = state.steering();
        state.routes.install(steering).map_err(failed(format!("routes into {name}")))?;
        for (queue, sockets) in queues.into_iter().zip(&sockets) {
            let queue = Arc::new(queue);
            let waker = || shared.waker().map_err(failed("an event descriptor"));
            let (tun, sockets) = (queue.clone(), sockets.clone());
            let outward = Outward { tun, sockets: sockets.clone(), shared: shared.clone(), waker: waker()? };
            let inward = Inward { tun: queue, sockets, shared: shared.clone(), waker: waker()? };
            start("esp-out", move || outward.run())?;
            start("esp-in", move || inward.run())?;
        }
        let options = Options { device: name, ..options };
        Ok(Self { options, gantry, state, shared, daemons, viewers, connections: Vec::new(), ports, sockets })
    }

    /// The name of the TUN device.
    pub fn device(&self) -> &str {
        &self.options.device
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
        let mut buffer = vec![0; LONGEST];
        let (mut ticked, mut looked) = (Instant::now(), Instant::now());
        loop {
            self.wait().map_err(failed("sockets"))?;
            let _ = self.shared.told.read();
            for event in self.shared.events() {
                if let Some(message) = self.state.tell(event, &self.shared) {
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
            while self.connections.len() < CONNECTIONS
                && let Some(fd) = connection::accept(&self.daemons).map_err(failed("the socket of daemons"))?
            {
                self.connections.push(Connection::new(fd));
            }
            while let Ok((viewer, _)) = self.viewers.accept() {
                status::show(viewer, || status::report(&self.options, &self.gantry, &self.state, &self.shared));
            }
            for at in 0..self.connections.len() {
                self.connections[at].flush();
                while let Some(datagram) = self.connections[at].read(&mut buffer) {
                    let datagram = datagram.to_vec();
                    self.serve(at, &datagram);
                    use zeroize::Zeroize as _;
                    // It may have had keys.
                    {
                        let mut datagram = datagram;
                        datagram.zeroize();
                    }
                }
            }
            buffer.fill(0);
            self.connections.retain(|connection| !connection.is_closed);
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![
            PollFd::new(self.daemons.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.viewers.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.shared.told.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.connections.iter().map(|connection| {
            let out = if connection.is_behind() { PollFlags::POLLOUT } else { PollFlags::empty() };
            PollFd::new(connection.as_fd(), PollFlags::POLLIN | out)
        }));
        match poll(&mut fds, PollTimeout::from(TICK.as_millis() as u16)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what one datagram of a program asks for.
    fn serve(&mut self, at: usize, datagram: &[u8]) {
        for frame in frames(datagram) {
            if let Ok(private) = Private::parse(&frame) {
                self.serve_library(at, private);
                continue;
            }
            let Connection { port, texts, .. } = self.connections[at];
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
                (connection.port, connection.groups, connection.texts) = (port, groups, texts)
            }
            Private::Binding(address) => answer.push_private(&Private::Share(self.shares(address))),
            Private::Bound(..) => answer.push_private(&Private::Share(true)),
            Private::Share(_) | Private::Lost => {}
        }
        self.connections[at].send(answer);
    }

    /// Makes place for a daemon's socket behind ours. Whether there is one.
    fn shares(&self, address: SocketAddr) -> bool {
        let family = usize::from(address.is_ipv6());
        let sockets: Vec<&Socket> = self.sockets.iter().filter_map(|pair| pair[family].as_ref()).collect();
        address.port() == self.options.port
            && address.ip().is_unspecified()
            && self.ports[family].as_ref().is_some_and(|port| port.expect(&sockets).is_ok())
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

/// The sockets of each queue, of IPv4 and of IPv6, where the host has it.
fn sockets(options: &Options) -> Result<Vec<Arc<[Option<Socket>; 2]>>, Failed> {
    let bind = |is_v6| match Socket::bind(options.port, is_v6) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if is_v6 && matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
            Ok(None)
        }
        Err(error) => Err(failed(format!("UDP port {}", options.port))(error)),
    };
    (0..options.queues).map(|_| Ok(Arc::new([bind(false)?, bind(true)?]))).collect()
}

/// Sockets of others that are bound to a port of every address: daemons that were there before.
fn others(port: u16, is_v6: bool) -> usize {
    let (file, any) = if is_v6 { ("/proc/net/udp6", "0".repeat(32)) } else { ("/proc/net/udp", "0".repeat(8)) };
    let wanted = format!("{any}:{port:04X}");
    // Where it cannot be read, there are none that share the port with us.
    let table = fs::read_to_string(file).unwrap_or_default();
    table.lines().filter(|line| line.split_whitespace().nth(1) == Some(&wanted)).count()
}

/// Listens for daemons: as root, or as the user who runs this.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    remove_old(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    // Nobody else may connect, not even for a moment.
    let before = umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let bound = socket::bind(fd.as_raw_fd(), &UnixAddr::new(path)?);
    umask(before);
    bound?;
    socket::listen(&fd, Backlog::new(64)?)?;
    Ok(fd)
}

/// Takes away a socket that nobody listens to any more.
fn remove_old(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    for kind in [SockType::SeqPacket, SockType::Stream] {
        let fd = socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        if socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another data path is at work"));
        }
    }
    fs::remove_file(path)
}
