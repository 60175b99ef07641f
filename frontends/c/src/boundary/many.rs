//! Many whole messages, in an array or a column.

use std::ffi::{c_int, c_void};

use gantry_core::{Kind, Misuse, Request, SessionParams};
use gantry_digest::{Column, Offsets, Validity, digest_column, hmac_column};

use super::catch_panic;
use super::column_hash::ColumnHash;
use super::memory::{array, array_bytes, bytes, bytes_mut, check_bytes, range, read_struct};
use super::session::SessionHandle;
use crate::abi;
use crate::code::Code;
use crate::ranges::Ranges;

/// Requests per batch: they fill the lanes many times over, and fit in the cache.
const MAX_BATCH_REQUESTS: usize = 512;

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
    catch_panic(|| {
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
        requests.try_reserve_exact(count.min(MAX_BATCH_REQUESTS)).map_err(|_| Code::Memory)?;
        for chunk in messages.chunks(MAX_BATCH_REQUESTS) {
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
    catch_panic(|| {
        // SAFETY: the handle, and the call.
        let (session, c_column) = unsafe { (SessionHandle::get(session)?, read_struct(column)?) };
        check_bytes(out, out_len)?;
        let params = session.session.params();
        if !matches!(params.algorithm().kind(), Kind::Digest | Kind::Mac) {
            return Err(Code::Operation);
        }
        check_out_len(params, out_len, array_bytes(c_column.count, params.tag_len())?)?;
        let hash = session.column_hash().ok_or(Code::Unserved)?;
        let digest_size = match hash {
            ColumnHash::Digest(algorithm) => algorithm.digest_size(),
            ColumnHash::Hmac(key) => key.algorithm().digest_size(),
        };
        if params.tag_len() != digest_size {
            return Err(Code::Operation);
        }
        if c_column.count == 0 {
            return Ok(());
        }
        let mut ranges = Ranges::with_capacity(1, 3).map_err(|_| Code::Memory)?;
        ranges.add_written(range(out, out_len));
        // SAFETY: the call.
        let column = unsafe { borrow_column(&c_column, &mut ranges) }?;
        if !ranges.are_disjoint() {
            return Err(Code::Overlap);
        }
        // SAFETY: the call; the length was checked, and `out` overlaps no other memory of the call.
        let out = unsafe { bytes_mut(out, out_len) };
        match hash {
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
unsafe fn borrow_column<'a>(c_column: &abi::Column, ranges: &mut Ranges) -> Result<Column<'a>, Code> {
    check_bytes(c_column.values, c_column.values_len)?;
    if c_column.reserved != 0 {
        return Err(Code::Argument);
    }
    let numbers = c_column.count.checked_add(1).ok_or(Code::Argument)?;
    // SAFETY: the call; all bit patterns are valid integers.
    let (offsets, width) = unsafe {
        match c_column.offset_bits {
            32 => (Offsets::Bits32(array(c_column.offsets.cast(), numbers)?), 4),
            64 => (Offsets::Bits64(array(c_column.offsets.cast(), numbers)?), 8),
            _ => return Err(Code::Argument),
        }
    };
    ranges.add_read(range(c_column.values, c_column.values_len));
    ranges.add_read(range(c_column.offsets, numbers * width));
    let validity = if c_column.validity.is_null() {
        None
    } else {
        let len = c_column.validity_offset.checked_add(c_column.count).ok_or(Code::Argument)?.div_ceil(8);
        check_bytes(c_column.validity.cast(), len)?;
        ranges.add_read(range(c_column.validity.cast(), len));
        // SAFETY: the call: the bitmap contains the bit of the last value.
        Some(Validity { bits: unsafe { bytes(c_column.validity.cast(), len) }, offset: c_column.validity_offset })
    };
    // SAFETY: the call, and the length was checked.
    Ok(Column::new(unsafe { bytes(c_column.values, c_column.values_len) }, offsets, validity)?)
}
