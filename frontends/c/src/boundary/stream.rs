//! Digests and MACs of messages that arrive in chunks. `SAFETY` comments name the promises that [the parent module](super) lists.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use gantry_core::{Request, Stream};

use super::handle::{StreamHandle, try_lock};
use super::memory::{array, bytes, bytes_mut, check_bytes, check_pointer};
use super::session::SessionHandle;
use super::{catch_panic, catch_panic_void};
use crate::code::Code;

/// `gantry_piece`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "gantry.h describes the fields")]
pub struct Piece {
    pub stream: *mut StreamHandle,
    pub data: *const c_void,
    pub len: usize,
}

/// `gantry_stream_open`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_stream_open(
    session: *mut SessionHandle,
    side_by_side: usize,
    out: *mut *mut StreamHandle,
) -> c_int {
    catch_panic(|| {
        check_pointer(out)?;
        // SAFETY: the handle.
        let session = unsafe { SessionHandle::get(session) }?;
        let stream = session.session.stream(side_by_side.max(1))?;
        // SAFETY: the call.
        unsafe { StreamHandle::create(Mutex::new(stream), out) }
    })
}

/// `gantry_stream_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_stream_close(stream: *mut StreamHandle) {
    // SAFETY: the handle.
    catch_panic_void(|| drop(unsafe { StreamHandle::take(stream) }));
}

/// `gantry_stream_copy`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_stream_copy(stream: *mut StreamHandle, out: *mut *mut StreamHandle) -> c_int {
    catch_panic(|| {
        check_pointer(out)?;
        // SAFETY: the handle.
        let copy = try_lock(unsafe { StreamHandle::get(stream) }?)?.clone();
        // SAFETY: the call.
        unsafe { StreamHandle::create(Mutex::new(copy), out) }
    })
}

/// `gantry_stream_update`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_stream_update(stream: *mut StreamHandle, data: *const c_void, len: usize) -> c_int {
    catch_panic(|| {
        check_bytes(data, len)?;
        // SAFETY: the handle.
        let mut stream = try_lock(unsafe { StreamHandle::get(stream) }?)?;
        // SAFETY: the call, and the length was checked.
        stream.update(unsafe { bytes(data, len) })?;
        Ok(())
    })
}

/// `gantry_stream_update_many`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_stream_update_many(pieces: *const Piece, count: usize) -> c_int {
    catch_panic(|| {
        // SAFETY: the call.
        let pieces = unsafe { array(pieces, count) }?;
        let mut streams: Vec<MutexGuard<'_, Stream>> = Vec::new();
        let mut requests = Vec::new();
        streams.try_reserve_exact(count).map_err(|_| Code::Memory)?;
        requests.try_reserve_exact(count).map_err(|_| Code::Memory)?;
        for piece in pieces {
            check_bytes(piece.data, piece.len)?;
            // SAFETY: the handle. A stream that is named twice is already locked the second time.
            streams.push(try_lock(unsafe { StreamHandle::get(piece.stream) }?)?);
        }
        let Some(session) = streams.first().map(|stream| stream.session()) else { return Ok(()) };
        for (stream, piece) in streams.iter_mut().zip(pieces) {
            // SAFETY: the call, and the length was checked.
            requests.push(Request::update(stream, unsafe { bytes(piece.data, piece.len) }));
        }
        session.process(&mut requests)?;
        Ok(())
    })
}

/// `gantry_stream_final`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_stream_final(stream: *mut StreamHandle, out: *mut c_void, out_len: usize) -> c_int {
    catch_panic(|| {
        check_bytes(out, out_len)?;
        // SAFETY: the handle.
        let mut stream = try_lock(unsafe { StreamHandle::get(stream) }?)?;
        // SAFETY: the call, and the length was checked.
        stream.finish(unsafe { bytes_mut(out, out_len) })?;
        Ok(())
    })
}
