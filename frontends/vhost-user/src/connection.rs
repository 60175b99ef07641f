//! A connection of a front end, message by message.
//!
//! The crate `vhost` knows the two messages about crypto sessions, but ends a connection that sends one of them. So this module inspects
//! each header before the crate reads it, and answers these two messages. They carry no descriptors, so plain reads and writes suffice.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use gantry_abi_virtio_crypto::vhost_user::{CLOSE_CRYPTO_SESSION, CREATE_CRYPTO_SESSION, Create, Layout, NO_SESSION};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use vhost::vhost_user::BackendReqHandler;
use zeroize::{Zeroize, Zeroizing};

use crate::backend::Backend;
use crate::guest::Guest;

const HEADER_BYTES: usize = 12;
/// Bytes of the longest valid payload.
const MAX_PAYLOAD_BYTES: usize = 4096;
/// VHOST_USER_VERSION and VHOST_USER_REPLY_MASK.
const REPLY_FLAGS: u32 = 1 | 1 << 2;
/// VHOST_USER_NEED_REPLY_MASK.
const NEED_REPLY: u32 = 1 << 3;

/// Answers messages until the front end disconnects. Fails at an invalid message.
pub(crate) fn serve(mut stream: UnixStream, guest: &Guest, backend: Backend) -> io::Result<()> {
    let mut handler = BackendReqHandler::from_stream(stream.try_clone()?, Arc::new(Mutex::new(backend)));
    while let Some(request) = peek_request_code(&stream)? {
        match request {
            CREATE_CRYPTO_SESSION => create_session(&mut stream, guest)?,
            CLOSE_CRYPTO_SESSION => close_session(&mut stream, guest)?,
            _ => handler.handle_request().map_err(io::Error::other)?,
        }
    }
    Ok(())
}

/// Returns the request code of the next message; `None` at the end of the connection. The message stays in the socket.
fn peek_request_code(stream: &UnixStream) -> io::Result<Option<u32>> {
    let mut header = [0; HEADER_BYTES];
    loop {
        match recv(stream.as_raw_fd(), &mut header, MsgFlags::MSG_PEEK | MsgFlags::MSG_WAITALL) {
            Ok(0) => return Ok(None),
            Ok(HEADER_BYTES) => return Ok(Some(word(&header, 0))),
            // Front ends write each header in one call.
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads the flags and the payload of the next message.
fn read_message(stream: &mut UnixStream) -> io::Result<(u32, Zeroizing<Vec<u8>>)> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let size = word(&header, 8) as usize;
    if size > MAX_PAYLOAD_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = Zeroizing::new(vec![0; size]);
    stream.read_exact(&mut payload)?;
    Ok((word(&header, 4), payload))
}

fn create_session(stream: &mut UnixStream, guest: &Guest) -> io::Result<()> {
    let (_, mut payload) = read_message(stream)?;
    let layout = Layout::detect(&payload).map_err(|_| io::ErrorKind::InvalidData)?;
    let session = Create::parse(&payload).map_or(NO_SESSION, |create| {
        let mut sessions = guest.sessions();
        let number = sessions.open(&create.session, &create.key, &create.auth_key);
        guest.counters.set_sessions(sessions.count());
        number.map_or(NO_SESSION, u64::cast_signed)
    });
    // Front ends read only the session number, so the keys are not sent back.
    payload.as_mut_slice().zeroize();
    layout.write_answer(&mut payload, session).map_err(io::Error::other)?;
    send_reply(stream, CREATE_CRYPTO_SESSION, &payload)
}

fn close_session(stream: &mut UnixStream, guest: &Guest) -> io::Result<()> {
    let (flags, payload) = read_message(stream)?;
    let session = payload.first_chunk().map(|session| u64::from_le_bytes(*session));
    let mut sessions = guest.sessions();
    let closed = session.is_some_and(|session| sessions.close(session));
    guest.counters.set_sessions(sessions.count());
    drop(sessions);
    if flags & NEED_REPLY == 0 {
        return Ok(());
    }
    send_reply(stream, CLOSE_CRYPTO_SESSION, &u64::from(!closed).to_le_bytes())
}

fn send_reply(stream: &mut UnixStream, request: u32, payload: &[u8]) -> io::Result<()> {
    let header = [request, REPLY_FLAGS, payload.len() as u32].map(u32::to_le_bytes).concat();
    stream.write_all(&[&header, payload].concat())
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(word)
}
