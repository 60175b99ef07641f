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
use crate::output::{Failure, say};

/// `gantry serve`.
pub(crate) fn run(args: &ServeAll, settings: &Settings) -> Result<(), Failure> {
    let name = args.devcrypto.as_deref();
    serve(name.map(|name| (name, gantry_cuse::Limits::default())), &args.vhost_user, settings)
}

/// Serves /dev/crypto, guests, or both by one framework, until the process ends.
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
        look_again_at(hangup, gantry.clone(), config);
    }
    let device =
        devcrypto.map(|(name, limits)| device(&gantry, name, limits).map(|device| (name, device))).transpose()?;
    // Its threads serve as long as the process runs.
    let server = gantry_vhost_user::Server::new(gantry).map_err(|error| Failure::at("threads", &error))?;
    for guest in guests {
        let numbers = gantry_runtime::stats::guest(&stats, &guest.socket.guest(), &Counters::NAMES);
        // Without a page nobody else reads them.
        let counters = numbers.map_or_else(Counters::default, Counters::in_memory);
        server
            .listen(&guest.socket, guest.limits, counters)
            .map_err(|error| Failure::at(guest.socket.path.display(), &error))?;
    }
    if let Some((name, _)) = &device {
        say(&format!("serving /dev/{name}"));
    }
    for guest in guests {
        say(&format!("serving {} at {}", guest.socket.guest(), guest.socket.path.display()));
    }
    // Nobody waits for it where this fails.
    let _ = ready();
    let Some((name, device)) = device else {
        loop {
            thread::park();
        }
    };
    let Err(error) = device.run();
    Err(match error.raw_os_error() {
        Some(libc::ENODEV) => Failure::Failed(format!("the kernel ended /dev/{name}: is there one already?")),
        _ => Failure::at(format_args!("/dev/{name}"), &error),
    })
}

fn device(gantry: &Gantry, name: &str, limits: gantry_cuse::Limits) -> Result<gantry_cuse::Server, Failure> {
    gantry_cuse::Server::new(gantry.clone(), name, limits).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Failed("there is no /dev/cuse: modprobe cuse".to_owned()),
        _ => Failure::at("/dev/cuse", &error),
    })
}

/// SIGHUP, blocked; `None` with a terminal, where it is the server's end. Called before there are other threads, which drivers may
/// start: they inherit that the signal is not theirs.
fn hangup() -> Option<SigSet> {
    let hangup = SigSet::from(Signal::SIGHUP);
    (File::open("/dev/tty").is_err() && hangup.thread_block().is_ok()).then_some(hangup)
}

/// Looks for devices that have come whenever the process gets a SIGHUP.
fn look_again_at(hangup: SigSet, gantry: Gantry, config: Config) {
    let watch = move || {
        while hangup.wait().is_ok() {
            match gantry_runtime::rescan(&gantry, &config) {
                Ok(come) if come.is_empty() => say("SIGHUP: no device has come"),
                Ok(come) => say(&format!("SIGHUP: {} has come", come.join(", "))),
                Err(error) => say(&format!("SIGHUP: {error}")),
            }
        }
    };
    // A server that cannot do this serves all the same.
    let _ = Builder::new().spawn(watch);
}

/// Tells systemd, where it started us, that the service is there (sd_notify(3)).
pub(crate) fn ready() -> io::Result<()> {
    let Some(name) = variable("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', hidden @ ..] => SocketAddr::from_abstract_name(hidden)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(|_| ())
}
