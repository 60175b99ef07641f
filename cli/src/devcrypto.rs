use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread::Builder;

use gantry::Gantry;
use gantry_cuse::{Limits, Server};
use gantry_runtime::Config;
use nix::sys::signal::{SigSet, Signal};

use crate::args::{Devcrypto, DevcryptoCommand, Serve, Settings};
use crate::output::{Failure, say};

pub(crate) fn run(args: &Devcrypto, settings: &Settings) -> Result<(), Failure> {
    let DevcryptoCommand::Serve(args) = &args.command;
    serve(args, settings)
}

fn serve(args: &Serve, settings: &Settings) -> Result<(), Failure> {
    let limits = Limits { sessions: args.sessions, bytes: args.bytes };
    let hangup = hangup();
    let config = settings.config()?;
    let gantry = gantry_runtime::open(config.clone())?;
    if let Some(hangup) = hangup {
        look_again_at(hangup, gantry.clone(), config);
    }
    let server = Server::new(gantry, &args.name, limits).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Failed("there is no /dev/cuse: modprobe cuse".to_owned()),
        _ => Failure::at("/dev/cuse", &error),
    })?;
    say(&format!("serving /dev/{}", args.name));
    // Nobody waits for it where this fails.
    let _ = ready();
    let Err(error) = server.run();
    Err(match error.raw_os_error() {
        Some(libc::ENODEV) => Failure::Failed(format!("the kernel ended /dev/{0}: is there one already?", args.name)),
        _ => Failure::at(format_args!("/dev/{}", args.name), &error),
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
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', hidden @ ..] => SocketAddr::from_abstract_name(hidden)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(|_| ())
}
