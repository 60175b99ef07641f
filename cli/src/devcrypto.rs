use gantry_cuse::Limits;

use crate::args::{Devcrypto, DevcryptoCommand, Settings};
use crate::output::Failure;
use crate::serve::serve;

/// Runs `gantry devcrypto serve`, the short form of `gantry serve --devcrypto`.
pub(crate) fn run(args: &Devcrypto, settings: &Settings) -> Result<(), Failure> {
    let DevcryptoCommand::Serve(args) = &args.command;
    serve(Some((&args.name, Limits { sessions: args.sessions, bytes: args.bytes })), &[], settings)
}
