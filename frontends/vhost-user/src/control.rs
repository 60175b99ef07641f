//! Requests of the control queue: front ends without crypto support leave the management of sessions to the device.

use gantry_abi_virtio_crypto::control::{self, Header, Request, encode_created};
use gantry_abi_virtio_crypto::{Error, Features, Status};
use vm_memory::GuestMemoryMmap;
use zeroize::Zeroizing;

use crate::chain::{Chain, Reader, write_front};
use crate::session::Sessions;

/// Most requests of one visit.
pub(crate) const MAX_REQUESTS_PER_VISIT: usize = 32;
/// Most bytes of a key: an RSAPrivateKey of 4096 bits has 2,400.
const MAX_KEY_BYTES: u64 = 4096;

/// Serves the request of a chain. Returns the number of bytes written into the chain.
pub(crate) fn answer(chain: &Chain, memory: &GuestMemoryMmap, sessions: &mut Sessions, features: Features) -> u32 {
    let mut header = [0; control::HEADER_LEN];
    let mut reader = Reader::new(memory, chain);
    let header =
        reader.read(&mut header).then(|| Header::parse(&header).ok()).flatten().filter(|_| !chain.is_malformed);
    let result = header.ok_or(Status::Error).and_then(|header| run(&header, &mut reader, sessions, features));
    let is_destroy = header.is_some_and(|header| header.is_destroy());
    let (number, status) = match result {
        Ok(number) => (number, Status::Ok),
        Err(status) => (0, status),
    };
    let bytes = if is_destroy { &[status as u8][..] } else { &encode_created(number, status)[..] };
    if write_front(memory, &chain.writable, &[bytes]) { bytes.len() as u32 } else { 0 }
}

/// Returns the number of the session that was opened or closed.
fn run(header: &Header, reader: &mut Reader<'_>, sessions: &mut Sessions, features: Features) -> Result<u64, Status> {
    let length = header.fixed_length(features).map_err(Error::status)?;
    let mut fixed = [0; control::LEGACY_FIXED_LEN];
    let fixed = &mut fixed[..length];
    if !reader.read(fixed) {
        return Err(Status::Error);
    }
    match Request::parse(header, fixed).map_err(Error::status)? {
        Request::Create(session) => {
            let lengths = [session.key_len(), session.auth_key_len()].map(u64::from);
            if lengths.iter().any(|length| *length > MAX_KEY_BYTES) {
                return Err(Status::Error);
            }
            let [mut key, mut auth_key] = lengths.map(|length| Zeroizing::new(vec![0; length as usize]));
            if !reader.read(&mut key) || !reader.read(&mut auth_key) {
                return Err(Status::Error);
            }
            sessions.open(&session, &key, &auth_key)
        }
        Request::Destroy(number) => sessions.close(number).then_some(number).ok_or(Status::InvalidSession),
    }
}
