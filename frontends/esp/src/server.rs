//! The server: sockets, threads, and the loop of the daemon's.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
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

use crate::control::connection::{self, Connection};
use crate::control::requests::State;
use crate::inward::Inward;
use crate::outward::Outward;
use crate::ports::Ports;
use crate::route::Routes;
use crate::shared::Shared;
use crate::status;
use crate::table::{Associations, Policies};
use crate::tun::{self, Queue};
use crate::udp::Socket;
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

/// Connections at once.
const CONNECTIONS: usize = 256;
/// How often time is looked at: limits of SAs are seconds.
const TICK: Duration = Duration::from_millis(500);
/// How often the paths of peers are looked up again: Linux forgets what routers said after ten minutes.
const PATHS: Duration = Duration::from_mins(1);

/// A data path: packets pass from when it is made.
pub struct Server {
    options: Options,
    gantry: Gantry,
    state: State,
    shared: Arc<Shared>,
    daemons: OwnedFd,
    viewers: UnixListener,
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
        make(folder).map_err(failed(folder.display().to_string()))?;
        let (daemons, viewers) = (folder.join("xfrm"), folder.join("status"));
        let daemons = listen(&daemons).map_err(failed(daemons.display().to_string()))?;
        remove_old(&viewers).map_err(failed(viewers.display().to_string()))?;
        let (viewers, path) = (UnixListener::bind(&viewers), viewers);
        let viewers = viewers.map_err(failed(path.display().to_string()))?;
        viewers.set_nonblocking(true).map_err(failed(path.display().to_string()))?;
        // Everybody may see the counters. Who may see SAs is asked when somebody comes.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(failed(path.display().to_string()))?;

        let ports = Ports::new(options.port, options.queues).map_err(failed(format!("UDP port {}", options.port)))?;
        let (name, queues) = tun::open(&options.device, options.queues).map_err(failed("/dev/net/tun"))?;
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
        let queues: Vec<_> = queues.into_iter().map(Arc::new).collect();
        let waker = || shared.waker().map_err(failed("an event descriptor"));
        for (at, queue) in queues.iter().enumerate() {
            let sockets = ports.of(at);
            let outward =
                Outward { tun: queue.clone(), sockets: sockets.clone(), shared: shared.clone(), waker: waker()? };
            start("esp-out", move || outward.run())?;
            read(queue, sockets.into_iter().flatten().collect(), &shared)?;
        }
        let options = Options { device: name, ..options };
        Ok(Self { options, gantry, state, shared, daemons, viewers, connections: Vec::new(), ports, queues })
    }

    /// The name of the TUN device.
    pub fn device(&self) -> &str {
        &self.options.device
    }

    /// Why the firewall does not stop what is sent past the tunnel, by sockets that are bound to another device.
    pub fn unguarded(&self) -> Option<&io::Error> {
        self.state.routes.guard.missing()
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
        let (mut ticked, mut looked) = (Instant::now(), Instant::now());
        loop {
            self.wait().map_err(failed("sockets"))?;
            let _ = self.shared.told.read();
            for event in self.shared.events() {
                if let Some(message) = self.state.tell(event, &self.shared) {
                    self.tell(&message);
                }
            }
            self.state.routes.guard.restore().map_err(failed("the firewall"))?;
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
                while let Some(datagram) = self.connections[at].read() {
                    self.serve(at, &datagram);
                }
            }
            overwrite_stack();
            self.connections.retain(|connection| !connection.is_closed);
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![
            PollFd::new(self.daemons.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.viewers.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.shared.told.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.state.routes.guard.changes().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
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

/// Listens for daemons: as root, or as the user who runs this.
/// Makes the folder, in which others find the sockets. One in which another user could put other sockets is an error.
fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    gantry_rights::is_ours(&fs::metadata(folder)?)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_one_in_which_only_its_user_puts_sockets() {
        let above = std::env::temp_dir().join(format!("gantry-esp-folder-{}", std::process::id()));
        let folder = above.join("deep/down");
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o022, 0);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make(&folder).unwrap_err().to_string(), "other users may write to it");
        fs::remove_dir_all(&above).unwrap();
    }
}
