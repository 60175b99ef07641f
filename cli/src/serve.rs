//! `gantry serve`: serves /dev/crypto and the crypto devices of guests.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread::{self, Builder};

use gantry_core::Gantry;
use gantry_runtime::Config;
use gantry_runtime::rights::variable;
use gantry_vhost_user::Counters;
use nix::sys::signal::{SigSet, Signal};

use crate::args::{Guest, ServeAll, Settings};
use crate::output::{Failure, print_message};

pub(crate) fn run(args: &ServeAll, settings: &Settings) -> Result<(), Failure> {
    let name = args.devcrypto.as_deref();
    serve(name.map(|name| (name, gantry_cuse::Limits::default())), &args.vhost_user, settings)
}

/// Serves /dev/crypto, guests, or both with one framework, until the process ends.
pub(crate) fn serve(
    devcrypto: Option<(&str, gantry_cuse::Limits)>,
    guests: &[Guest],
    settings: &Settings,
) -> Result<(), Failure> {
    let hangup = hangup();
    let config = settings.config()?;
    let stats = config.stats().clone();
    let gantry = gantry_runtime::open(config.clone())?;
    if let Some(hangup) = hangup {
        rescan_on(hangup, gantry.clone(), config);
    }
    let device =
        devcrypto.map(|(name, limits)| device(&gantry, name, limits).map(|device| (name, device))).transpose()?;
    // The server's threads run until the process ends.
    let server = gantry_vhost_user::Server::new(gantry).map_err(|error| Failure::at("threads", &error))?;
    for guest in guests {
        let numbers = gantry_runtime::stats::guest_counters(&stats, &guest.socket.guest_name(), &Counters::NAMES);
        // Without shared memory, count privately.
        let counters = numbers.map_or_else(Counters::default, Counters::in_memory);
        server
            .listen(&guest.socket, guest.limits, counters)
            .map_err(|error| Failure::at(guest.socket.path.display(), &error))?;
    }
    if let Some((name, _)) = &device {
        print_message(&format!("serving /dev/{name}"));
    }
    for guest in guests {
        print_message(&format!("serving {} at {}", guest.socket.guest_name(), guest.socket.path.display()));
    }
    // Ignore a failure: the service manager that started this process may no longer listen.
    let _ = ready();
    let Some((name, device)) = device else {
        loop {
            thread::park();
        }
    };
    let Err(error) = device.run();
    Err(match error.raw_os_error() {
        Some(libc::ENODEV) => Failure::Failed(format!("the kernel ended /dev/{name}; does the device exist already?")),
        _ => Failure::at(format_args!("/dev/{name}"), &error),
    })
}

fn device(gantry: &Gantry, name: &str, limits: gantry_cuse::Limits) -> Result<gantry_cuse::Server, Failure> {
    gantry_cuse::Server::new(gantry.clone(), name, limits).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Failed("there is no /dev/cuse; load its module: modprobe cuse".to_owned()),
        _ => Failure::at("/dev/cuse", &error),
    })
}

/// Blocks SIGHUP and returns it; `None` with a terminal, where SIGHUP ends the server. Call this before other threads start, even threads
/// of drivers, so that they inherit the signal mask.
fn hangup() -> Option<SigSet> {
    let hangup = SigSet::from(Signal::SIGHUP);
    (File::open("/dev/tty").is_err() && hangup.thread_block().is_ok()).then_some(hangup)
}

/// Looks for new devices at every SIGHUP.
fn rescan_on(hangup: SigSet, gantry: Gantry, config: Config) {
    let watch = move || {
        while hangup.wait().is_ok() {
            match gantry_runtime::rescan(&gantry, &config) {
                Ok(come) if come.is_empty() => print_message("SIGHUP: no new device"),
                Ok(come) => print_message(&format!("SIGHUP: new: {}", come.join(", "))),
                Err(error) => print_message(&format!("SIGHUP: {error}")),
            }
        }
    };
    // Without this thread, the server still serves.
    let _ = Builder::new().spawn(watch);
}

/// Tells systemd, if it started this process, that the service is ready (sd_notify(3)).
pub(crate) fn ready() -> io::Result<()> {
    let Some(name) = variable("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', hidden @ ..] => SocketAddr::from_abstract_name(hidden)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(|_| ())
}
