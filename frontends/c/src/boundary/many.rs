//! Many whole messages: in an array, and in a column.

use std::ffi::{c_int, c_void};

use gantry_core::{Kind, Request};
use gantry_digest::{Algorithm, Column, HmacKey, Offsets, Validity, digest_column, hmac_column};

use super::guard;
use super::handle::SessionHandle;
use super::memory::{array, bytes, bytes_mut, check_bytes, extent, range, read};
use crate::abi;
use crate::code::Code;
use crate::ranges::Ranges;

/// Requests that are made and run at a time: they fill the lanes many times over, and stay in the cache.
const AT_A_TIME: usize = 512;

/// What the values of a column are hashed with.
pub(super) enum Hashes {
    Digest(Algorithm),
    Hmac(HmacKey),
}

/// `gantry_digest_many`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_digest_many(
    session: *mut SessionHandle,
    messages: *const abi::Message,
    count: usize,
    out_len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the handle, and the call.
        let (session, messages) = unsafe { (&SessionHandle::of(session)?.session, array(messages, count)?) };
        let request: fn(_, _) -> _ = match session.params().algorithm().kind() {
            Kind::Digest => Request::digest,
            Kind::Mac => Request::mac,
            _ => return Err(Code::Operation),
        };
        if out_len != session.params().tag_length() {
            return Err(Code::Length);
        }
        check_messages(messages, out_len)?;
        let mut requests = Vec::new();
        requests.try_reserve_exact(count.min(AT_A_TIME)).map_err(|_| Code::Memory)?;
        for some in messages.chunks(AT_A_TIME) {
            requests.clear();
            for message in some {
                // SAFETY: the call; lengths were checked, and outputs overlap nothing.
                let (data, out) = unsafe { (bytes(message.data, message.len), bytes_mut(message.out, out_len)) };
                requests.push(request(data, out));
            }
            session.process(&mut requests)?;
        }
        Ok(())
    })
}

/// `gantry_digest_column`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_digest_column(
    session: *mut SessionHandle,
    column: *const abi::Column,
    out: *mut c_void,
    out_len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the handle, and the call.
        let (session, given) = unsafe { (SessionHandle::of(session)?, read(column)?) };
        check_bytes(out, out_len)?;
        let params = session.session.params();
        if !matches!(params.algorithm().kind(), Kind::Digest | Kind::Mac) {
            return Err(Code::Operation);
        }
        if extent(given.count, params.tag_length())? != out_len {
            return Err(Code::Length);
        }
        let hashes = session.hashes.get_or_init(|| hashes(params)).as_ref().ok_or(Code::Unserved)?;
        let full = match hashes {
            Hashes::Digest(algorithm) => algorithm.digest_size(),
            Hashes::Hmac(key) => key.algorithm().digest_size(),
        };
        if params.tag_length() != full {
            return Err(Code::Operation);
        }
        if given.count == 0 {
            return Ok(());
        }
        let mut ranges = Ranges::with_room(1, 3).map_err(|_| Code::Memory)?;
        ranges.writes(range(out, out_len));
        // SAFETY: the call.
        let column = unsafe { borrow(&given, &mut ranges) }?;
        if !ranges.are_apart() {
            return Err(Code::Overlap);
        }
        // SAFETY: the call; the length was checked, and it overlaps nothing.
        let out = unsafe { bytes_mut(out, out_len) };
        match hashes {
            Hashes::Digest(algorithm) => digest_column(*algorithm, &column, out)?,
            Hashes::Hmac(key) => hmac_column(key, &column, out)?,
        }
        Ok(())
    })
}

fn check_messages(messages: &[abi::Message], out_len: usize) -> Result<(), Code> {
    let ranges = Ranges::with_room(messages.len(), messages.len() + 1);
    let mut ranges = ranges.map_err(|_| Code::Memory)?;
    ranges.reads(range(messages.as_ptr().cast(), size_of_val(messages)));
    for message in messages {
        check_bytes(message.data, message.len)?;
        check_bytes(message.out, out_len)?;
        ranges.reads(range(message.data, message.len));
        ranges.writes(range(message.out, out_len));
    }
    if ranges.are_apart() { Ok(()) } else { Err(Code::Overlap) }
}

/// What columns of a session are hashed with.
fn hashes(params: &gantry_core::SessionParams) -> Option<Hashes> {
    let name = params.algorithm().name();
    match params.algorithm().kind() {
        Kind::Digest => name.parse().ok().map(Hashes::Digest),
        Kind::Mac => {
            let algorithm = name.strip_prefix("hmac-")?.parse().ok()?;
            Some(Hashes::Hmac(HmacKey::new(algorithm, params.key())))
        }
        _ => None,
    }
}

/// A column over C's buffers, which are registered.
///
/// # Safety
/// The call.
unsafe fn borrow<'a>(given: &abi::Column, ranges: &mut Ranges) -> Result<Column<'a>, Code> {
    check_bytes(given.values, given.values_len)?;
    if given.reserved != 0 {
        return Err(Code::Argument);
    }
    let numbers = given.count.checked_add(1).ok_or(Code::Argument)?;
    // SAFETY: the call; any bits are a number.
    let (offsets, width) = unsafe {
        match given.offset_bits {
            32 => (Offsets::Bits32(array(given.offsets.cast(), numbers)?), 4),
            64 => (Offsets::Bits64(array(given.offsets.cast(), numbers)?), 8),
            _ => return Err(Code::Argument),
        }
    };
    ranges.reads(range(given.values, given.values_len));
    ranges.reads(range(given.offsets, numbers * width));
    let validity = if given.validity.is_null() {
        None
    } else {
        let len = given.validity_offset.checked_add(given.count).ok_or(Code::Argument)?.div_ceil(8);
        check_bytes(given.validity.cast(), len)?;
        ranges.reads(range(given.validity.cast(), len));
        // SAFETY: the call: the bitmap goes on to the bit of the last value.
        Some(Validity { bits: unsafe { bytes(given.validity.cast(), len) }, offset: given.validity_offset })
    };
    // SAFETY: the call, and the length was checked.
    Ok(Column::new(unsafe { bytes(given.values, given.values_len) }, offsets, validity)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_core::SessionParams;

    #[test]
    fn every_algorithm_of_the_lanes_has_columns_under_the_name_that_sessions_know() {
        for algorithm in Algorithm::ALL {
            let Ok(known) = gantry_core::Algorithm::matching(algorithm.as_str()) else {
                assert_eq!(algorithm, Algorithm::Blake2b512, "the one that no session has");
                continue;
            };
            let found = hashes(&SessionParams::new(known[0], &[]));
            assert!(matches!(found, Some(Hashes::Digest(found)) if found == algorithm), "{algorithm}");
        }
        let found = hashes(&SessionParams::new(gantry_core::Algorithm::HmacSha512, b"key"));
        assert!(matches!(found, Some(Hashes::Hmac(key)) if key.algorithm() == Algorithm::Sha512));
        assert!(hashes(&SessionParams::new(gantry_core::Algorithm::Aes128Cmac, &[0; 16])).is_none());
    }
}
