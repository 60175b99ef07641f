//! What the data path says of itself, as JSON: counters for everybody, SAs and policies for root and for the user who runs it.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::Duration;

use gantry::Gantry;
use gantry::stats::Snapshot;
use gantry_abi_xfrm::{Action, Direction, Selector};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;
use serde_json::{Value, json};

use crate::control::requests::State;
use crate::server::Options;
use crate::shared::Shared;
use crate::table::{End, Entry};

/// How long somebody may take to read it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Both parts of a report.
pub(crate) struct Report {
    counters: Value,
    private: Value,
}

/// Shows somebody what he may see. It is written by a thread, because nobody waits for who does not read.
pub(crate) fn show(viewer: UnixStream, report: impl FnOnce() -> Report) {
    let Ok(credentials) = getsockopt(&viewer.as_fd(), PeerCredentials) else { return };
    let may_see = credentials.uid() == 0 || credentials.uid() == Uid::effective().as_raw();
    let Report { mut counters, private } = report();
    if may_see && let (Value::Object(all), Value::Object(private)) = (&mut counters, private) {
        all.extend(private);
    }
    let write = move || {
        let mut viewer = viewer;
        let _ = viewer.set_nonblocking(false);
        let _ = viewer.set_write_timeout(Some(PATIENCE));
        let _ = viewer.write_all(format!("{counters}\n").as_bytes());
    };
    // Who gets none reads the end of the file.
    let _ = Builder::new().spawn(write);
}

/// All that there is to say.
pub(crate) fn report(options: &Options, gantry: &Gantry, state: &State, shared: &Shared) -> Report {
    let counters: serde_json::Map<_, _> =
        shared.counters.all().into_iter().map(|(name, _, value)| (name.to_owned(), value.into())).collect();
    let associations = state.associations.all();
    let incoming = associations.iter().filter(|entry| matches!(entry.end, Some(End::In(_)))).count();
    let outgoing = associations.iter().filter(|entry| matches!(entry.end, Some(End::Out(_)))).count();
    let counters = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": options.device,
        "port": options.port,
        "queues": options.queues,
        "associations": { "in": incoming, "out": outgoing },
        "policies": state.policies.all().len(),
        "guarded": state.routes.guard.missing().is_none(),
        "counters": counters,
        "devices": devices(&gantry.stats()),
    });
    let policies = state.policies.all().iter().map(|registered| {
        let policy = &registered.policy;
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
            "packets": registered.used.packets.load(Ordering::Relaxed),
        })
    });
    let private = json!({
        "sas": associations.into_iter().map(association).collect::<Vec<_>>(),
        "rules": policies.collect::<Vec<_>>(),
    });
    Report { counters, private }
}

fn association(entry: &Entry) -> Value {
    let sa = entry.snapshot();
    let algorithm = match (&sa.aead, &sa.cipher, &sa.authentication) {
        (Some(aead), ..) => format!("{} {}", aead.name, aead.key.bits()),
        (None, Some(cipher), Some(authentication)) => {
            format!("{} {} {}", cipher.name, cipher.key.bits(), authentication.name)
        }
        (None, None, Some(authentication)) => authentication.name.clone(),
        _ => String::new(),
    };
    let (direction, peer, mtu) = match &entry.end {
        Some(End::Out(sa)) => ("out", Some(sa.way.to.to_string()), Some(sa.mtu.load(Ordering::Relaxed))),
        Some(End::In(sa)) => ("in", Some(sa.peer.to_string()), None),
        None => ("larval", None, None),
    };
    json!({
        "direction": direction,
        "spi": format!("{:#010x}", sa.id.spi),
        "source": sa.source.to_string(),
        "destination": sa.id.destination.to_string(),
        "peer": peer,
        "reqid": sa.reqid,
        "algorithm": algorithm,
        "packets": sa.counters.packets,
        "bytes": sa.counters.bytes,
        "replayed": sa.stats.replay,
        "forged": sa.stats.integrity_failed,
        "age": entry.added.elapsed().as_secs(),
        "path_mtu": mtu,
    })
}

/// Source and destination, with ports where they count.
fn selector(selector: &Selector) -> (String, String) {
    let side = |prefix: gantry_abi_xfrm::Prefix, port: gantry_abi_xfrm::Port| {
        let port = if port.mask == 0 { String::new() } else { format!(" port {}", port.value) };
        format!("{}/{}{port}", prefix.address, prefix.length)
    };
    (side(selector.source, selector.source_port), side(selector.destination, selector.destination_port))
}

/// Which device did how much.
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
