use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use gantry_cuse::{Limits, Server};

use crate::args::{Devcrypto, DevcryptoCommand, Serve, Settings};
use crate::output::{Failure, say};

pub(crate) fn run(args: &Devcrypto, settings: &Settings) -> Result<(), Failure> {
    let DevcryptoCommand::Serve(args) = &args.command;
    serve(args, settings)
}

fn serve(args: &Serve, settings: &Settings) -> Result<(), Failure> {
    let limits = Limits { sessions: args.sessions, bytes: args.bytes };
    let server = Server::new(settings.open()?, &args.name, limits).map_err(|error| match error.kind() {
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

/// Tells systemd, where it started us, that the device is there (sd_notify(3)).
fn ready() -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', hidden @ ..] => SocketAddr::from_abstract_name(hidden)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(|_| ())
}
