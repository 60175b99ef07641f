use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use gantry_cuse::Limits;
use gantry_runtime::rights::variable;

use crate::args::{Devcrypto, DevcryptoCommand, Settings};
use crate::output::Failure;
use crate::serve::serve;

/// `gantry devcrypto serve`, the short form of `gantry serve --devcrypto`.
pub(crate) fn run(args: &Devcrypto, settings: &Settings) -> Result<(), Failure> {
    let DevcryptoCommand::Serve(args) = &args.command;
    serve(Some((&args.name, Limits { sessions: args.sessions, bytes: args.bytes })), &[], settings)
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
