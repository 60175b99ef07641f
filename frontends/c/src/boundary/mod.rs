//! The C interface: the only part of this crate with `unsafe`.
//!
//! The `unsafe` code rests on three promises. Each block names the promises that it relies on.
//!
//! * **The call.** A pointer is NULL, or points to memory as large as its length or type says. The memory is valid during the call. No
//!   other thread writes to it in that time, or uses the buffers that the call writes. The library itself ensures that a slice for writing
//!   overlaps no other slice of the call.
//! * **The handle.** A pointer to a handle came from a function that makes handles of its type, and the handle is not closed yet. A mark at
//!   the start of each handle detects some pointers that break this promise.
//! * **The queue.** Until the completion of a queued request is returned, the request's buffers are valid, and nothing else uses them.
//!
//! `gantry.h` states these promises, and each function's safety section refers to the header. No panic crosses into C: [`catch_panic`]
//! or a variant of it wraps every function that can panic.

#![allow(unsafe_code)]

mod column_hash;
mod handle;
mod many;
mod memory;
mod open;
mod queue;
mod session;
mod stream;
mod text;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use handle::{GantryHandle, StreamHandle};
pub use many::{gantry_digest_column, gantry_digest_many};
pub use open::{gantry_close, gantry_open};
pub use queue::{
    QueueHandle, gantry_queue_arm, gantry_queue_close, gantry_queue_complete, gantry_queue_descriptor,
    gantry_queue_open, gantry_queue_submit, gantry_queue_wait,
};
pub use session::{SessionHandle, gantry_run, gantry_session_close, gantry_session_open, gantry_session_tag_len};
pub use stream::{
    Piece, gantry_stream_close, gantry_stream_copy, gantry_stream_final, gantry_stream_open, gantry_stream_update,
    gantry_stream_update_many,
};
pub use text::{gantry_last_error, gantry_strerror, gantry_tags_equal, gantry_version};

use crate::code::{Code, description};
use crate::last_error;

/// Runs `body`, and turns a panic into [`Code::Internal`].
fn catch_panic(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    catch_panic_count(|| body().map(|()| 0))
}

/// As [`catch_panic`], for functions that return a number of 0 or more.
fn catch_panic_count(body: impl FnOnce() -> Result<c_int, Code>) -> c_int {
    last_error::reset();
    // State that a panic may leave half changed is behind a lock, which is then poisoned.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Code::Internal));
    result.unwrap_or_else(|code| {
        last_error::set_default(description(code as c_int));
        code as c_int
    })
}

/// As [`catch_panic`], for functions that return nothing.
fn catch_panic_void(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}
