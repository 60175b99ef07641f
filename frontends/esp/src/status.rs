//! The status of the data path as JSON: counters for every user, SAs and policies for root and for the data path's own user.
//!
//! A separate thread serves viewers, so that they delay nothing else. Root and the data path's own user get a fresh report; the number of
//! these viewers and their time are bounded. Other users get a single write with a report that may be 0.1 s old.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::{Action, Direction, SaId, Selector};
use gantry_core::Gantry;
use gantry_core::stats::Snapshot;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;
use serde_json::{Map, Value, json};

use crate::options::Options;
use crate::shared::Shared;
use crate::table::{IncomingSa, InstalledPolicy, OutgoingSa, SaInfo, SharedView, Usage, unix_seconds};

/// The time that a viewer has to read its report.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of viewers that read at once. Further viewers wait until one is done.
const MAX_VIEWERS: usize = 16;
/// The time for which other users get a cached report.
const MAX_REPORT_AGE: Duration = Duration::from_millis(100);
/// The pause after a system error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct StatusServer {
    pub(crate) listener: UnixListener,
    pub(crate) options: Options,
    pub(crate) gantry: Gantry,
    pub(crate) shared: Arc<Shared>,
}

/// A viewer that has not read its whole report yet.
struct Viewer {
    stream: UnixStream,
    text: Vec<u8>,
    /// Bytes sent so far.
    sent: usize,
    deadline: Instant,
}

impl StatusServer {
    /// Answers viewers until the process ends.
    ///
    /// # Errors
    /// The thread cannot wait for the sockets.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut viewers: Vec<Viewer> = Vec::new();
        let mut cached_report: Option<(Instant, Vec<u8>)> = None;
        loop {
            let has_room = viewers.len() < MAX_VIEWERS;
            let mut fds: Vec<_> =
                viewers.iter().map(|viewer| PollFd::new(viewer.stream.as_fd(), PollFlags::POLLOUT)).collect();
            if has_room {
                fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
            }
            let next = viewers.iter().map(|viewer| viewer.deadline.saturating_duration_since(Instant::now())).min();
            let timeout = next.map_or(PollTimeout::NONE, |next| PollTimeout::from(next.as_millis() as u16 + 1));
            match poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            viewers.retain_mut(|viewer| !viewer.write() && Instant::now() < viewer.deadline);
            if has_room {
                match self.listener.accept() {
                    Ok((stream, _)) => viewers.extend(self.send_report(stream, &mut cached_report)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        }
    }

    /// Sends a viewer the report for its user. Returns the viewer if it has more to read.
    fn send_report(&self, stream: UnixStream, cached_report: &mut Option<(Instant, Vec<u8>)>) -> Option<Viewer> {
        let credentials = getsockopt(&stream.as_fd(), PeerCredentials).ok()?;
        stream.set_nonblocking(true).ok()?;
        let may_see_all = credentials.uid() == 0 || credentials.uid() == Uid::effective().as_raw();
        if may_see_all {
            let mut report = self.public_report();
            report.extend(private_report(&self.shared.view));
            let mut viewer = Viewer { stream, text: text(report), sent: 0, deadline: Instant::now() + READ_TIMEOUT };
            return if viewer.write() { None } else { Some(viewer) };
        }
        let (built, text) = cached_report.get_or_insert_with(|| (Instant::now(), text(self.public_report())));
        if built.elapsed() > MAX_REPORT_AGE {
            (*built, *text) = (Instant::now(), self::text(self.public_report()));
        }
        // The report is short, and the buffer of a new socket is empty.
        let _ = (&stream).write(text);
        None
    }

    /// Builds the part for every user.
    fn public_report(&self) -> Map<String, Value> {
        let counters: Map<_, _> =
            self.shared.counters.all().into_iter().map(|(name, _, value)| (name.to_owned(), value.into())).collect();
        let guards = self.shared.guard_status();
        let view = self.shared.view.read();
        let (incoming, outgoing, policies) = (view.incoming.len(), view.outgoing.len(), view.policy_count());
        drop(view);
        object(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "device": self.options.device,
            "port": self.options.port,
            "queues": self.options.queues,
            "associations": { "in": incoming, "out": outgoing },
            "policies": policies,
            "guarded": guards.are_complete(),
            "guards": {
                "nf_tables": guards.firewall,
                "policies": guards.policies,
                "routes": guards.routes,
                "filters": guards.filters,
            },
            "counters": counters,
            "devices": devices(&self.gantry.stats()),
        }))
    }
}

impl Viewer {
    /// Sends as much as the socket accepts. Returns whether the viewer is done.
    fn write(&mut self) -> bool {
        loop {
            match self.stream.write(&self.text[self.sent..]) {
                Ok(0) => return true,
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }
}

fn text(report: Map<String, Value>) -> Vec<u8> {
    format!("{}\n", Value::Object(report)).into_bytes()
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

/// Builds the part for root and for the data path's own user.
fn private_report(view: &SharedView) -> Map<String, Value> {
    // The view is locked only while references are copied.
    let locked = view.read();
    let incoming: Vec<_> = locked.incoming.values().cloned().collect();
    let outgoing: Vec<_> = locked.outgoing.values().cloned().collect();
    let directions = [Direction::Out, Direction::In, Direction::Forward];
    let policies: Vec<_> = directions.into_iter().flat_map(|direction| locked.policies(direction)).cloned().collect();
    drop(locked);
    let mut sas: Vec<(u64, Value)> = incoming.iter().map(|sa| (sa.serial, incoming_sa(sa))).collect();
    sas.extend(outgoing.iter().map(|sa| (sa.serial, outgoing_sa(sa))));
    sas.sort_unstable_by_key(|(serial, _)| *serial);
    object(json!({
        "sas": sas.into_iter().map(|(_, sa)| sa).collect::<Vec<_>>(),
        "rules": policies.iter().map(|installed| policy(installed)).collect::<Vec<_>>(),
    }))
}

fn policy(installed: &InstalledPolicy) -> Value {
    let policy = &installed.policy;
    json!({
        "direction": match policy.direction {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Forward => "forward",
        },
        "source": selector(&policy.selector).0,
        "destination": selector(&policy.selector).1,
        "protocol": policy.selector.protocol,
        "priority": policy.priority,
        "action": match policy.action {
            Action::Block => "block",
            Action::Allow if policy.templates.is_empty() => "pass",
            Action::Allow => "protect",
        },
        "packets": installed.usage.packets.load(Ordering::Relaxed),
    })
}

fn outgoing_sa(sa: &OutgoingSa) -> Value {
    let mut value = association("out", &sa.id, &sa.info, &sa.usage);
    value["peer"] = peer(sa.endpoints().to, sa.info.is_in_udp).into();
    value["path_mtu"] = sa.path_mtu.load(Ordering::Relaxed).into();
    value
}

fn incoming_sa(sa: &IncomingSa) -> Value {
    let mut value = association("in", &sa.id, &sa.info, &sa.usage);
    value["peer"] = peer(sa.peer(), sa.info.is_in_udp).into();
    value["replayed"] = sa.replayed.load(Ordering::Relaxed).into();
    value["forged"] = sa.forged.load(Ordering::Relaxed).into();
    value
}

/// Formats the address of a peer, with the port if there is UDP.
fn peer(address: SocketAddr, is_in_udp: bool) -> String {
    if is_in_udp { address.to_string() } else { address.ip().to_string() }
}

fn association(direction: &str, id: &SaId, info: &SaInfo, usage: &Usage) -> Value {
    json!({
        "direction": direction,
        "spi": format!("{:#010x}", id.spi),
        "source": info.source.to_string(),
        "destination": id.destination.to_string(),
        "peer": null,
        "reqid": info.reqid,
        "algorithm": info.algorithm,
        "packets": usage.packets.load(Ordering::Relaxed),
        "bytes": usage.bytes.load(Ordering::Relaxed),
        "replayed": 0,
        "forged": 0,
        "age": unix_seconds().saturating_sub(info.added),
        "path_mtu": null,
    })
}

/// Formats source and destination, with ports if they are restricted.
fn selector(selector: &Selector) -> (String, String) {
    let side = |prefix: gantry_abi_xfrm::Prefix, port: gantry_abi_xfrm::Port| {
        let port = if port.mask == 0 { String::new() } else { format!(" port {}", port.value) };
        format!("{}/{}{port}", prefix.address, prefix.length)
    };
    (side(selector.source, selector.source_port), side(selector.destination, selector.destination_port))
}

/// Lists the requests and bytes of each device.
fn devices(snapshot: &Snapshot) -> Vec<Value> {
    let rows = snapshot.rows.iter().filter_map(|row| Some((row, row.device.as_ref()?)));
    rows.map(|(row, (device, _))| {
        json!({
            "device": device,
            "algorithm": row.algorithm.name(),
            "operation": row.operation.name(),
            "requests": row.requests(),
            "bytes": row.bytes,
        })
    })
    .collect()
}
