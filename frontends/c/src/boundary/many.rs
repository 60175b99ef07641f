//! Many whole messages, in an array or a column.

use std::ffi::{c_int, c_void};

use gantry_core::{Kind, Misuse, Request, SessionParams};
use gantry_digest::{Column, Offsets, Validity, digest_column, hmac_column};

use super::guard;
use super::hashes::ColumnHash;
use super::memory::{array, bytes, bytes_mut, check_bytes, extent, range, read};
use super::session::SessionHandle;
use crate::abi;
use crate::code::Code;
use crate::ranges::Ranges;

/// Requests per batch: they fill the lanes many times over, and fit in the cache.
const BATCH: usize = 512;

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
        let (session, messages) = unsafe { (&SessionHandle::get(session)?.session, array(messages, count)?) };
        let request: fn(_, _) -> _ = match session.params().algorithm().kind() {
            Kind::Digest => Request::digest,
            Kind::Mac => Request::mac,
            _ => return Err(Code::Operation),
        };
        check_out_len(session.params(), out_len, session.params().tag_len())?;
        check_messages(messages, out_len)?;
        let mut requests = Vec::new();
        requests.try_reserve_exact(count.min(BATCH)).map_err(|_| Code::Memory)?;
        for chunk in messages.chunks(BATCH) {
            requests.clear();
            for message in chunk {
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
        let (session, given) = unsafe { (SessionHandle::get(session)?, read(column)?) };
        check_bytes(out, out_len)?;
        let params = session.session.params();
        if !matches!(params.algorithm().kind(), Kind::Digest | Kind::Mac) {
            return Err(Code::Operation);
        }
        check_out_len(params, out_len, extent(given.count, params.tag_len())?)?;
        let hashes = session.hashes().ok_or(Code::Unserved)?;
        let digest_size = match hashes {
            ColumnHash::Digest(algorithm) => algorithm.digest_size(),
            ColumnHash::Hmac(key) => key.algorithm().digest_size(),
        };
        if params.tag_len() != digest_size {
            return Err(Code::Operation);
        }
        if given.count == 0 {
            return Ok(());
        }
        let mut ranges = Ranges::with_capacity(1, 3).map_err(|_| Code::Memory)?;
        ranges.add_written(range(out, out_len));
        // SAFETY: the call.
        let column = unsafe { borrow(&given, &mut ranges) }?;
        if !ranges.are_disjoint() {
            return Err(Code::Overlap);
        }
        // SAFETY: the call; the length was checked, and `out` overlaps no other memory of the call.
        let out = unsafe { bytes_mut(out, out_len) };
        match hashes {
            ColumnHash::Digest(algorithm) => digest_column(*algorithm, &column, out)?,
            ColumnHash::Hmac(key) => hmac_column(key, &column, out)?,
        }
        Ok(())
    })
}

fn check_out_len(params: &SessionParams, got: usize, needs: usize) -> Result<(), Code> {
    if got == needs { Ok(()) } else { Err(Misuse::OutputLength { algorithm: params.algorithm(), got, needs }.into()) }
}

fn check_messages(messages: &[abi::Message], out_len: usize) -> Result<(), Code> {
    let ranges = Ranges::with_capacity(messages.len(), messages.len() + 1);
    let mut ranges = ranges.map_err(|_| Code::Memory)?;
    ranges.add_read(range(messages.as_ptr().cast(), size_of_val(messages)));
    for message in messages {
        check_bytes(message.data, message.len)?;
        check_bytes(message.out, out_len)?;
        ranges.add_read(range(message.data, message.len));
        ranges.add_written(range(message.out, out_len));
    }
    if ranges.are_disjoint() { Ok(()) } else { Err(Code::Overlap) }
}

/// Returns a column over C's buffers, and registers them in `ranges`.
///
/// # Safety
/// The call.
unsafe fn borrow<'a>(given: &abi::Column, ranges: &mut Ranges) -> Result<Column<'a>, Code> {
    check_bytes(given.values, given.values_len)?;
    if given.reserved != 0 {
        return Err(Code::Argument);
    }
    let numbers = given.count.checked_add(1).ok_or(Code::Argument)?;
    // SAFETY: the call; all bit patterns are valid integers.
    let (offsets, width) = unsafe {
        match given.offset_bits {
            32 => (Offsets::Bits32(array(given.offsets.cast(), numbers)?), 4),
            64 => (Offsets::Bits64(array(given.offsets.cast(), numbers)?), 8),
            _ => return Err(Code::Argument),
        }
    };
    ranges.add_read(range(given.values, given.values_len));
    ranges.add_read(range(given.offsets, numbers * width));
    let validity = if given.validity.is_null() {
        None
    } else {
        let len = given.validity_offset.checked_add(given.count).ok_or(Code::Argument)?.div_ceil(8);
        check_bytes(given.validity.cast(), len)?;
        ranges.add_read(range(given.validity.cast(), len));
        // SAFETY: the call: the bitmap contains the bit of the last value.
        Some(Validity { bits: unsafe { bytes(given.validity.cast(), len) }, offset: given.validity_offset })
    };
    // SAFETY: the call, and the length was checked.
    Ok(Column::new(unsafe { bytes(given.values, given.values_len) }, offsets, validity)?)
}
