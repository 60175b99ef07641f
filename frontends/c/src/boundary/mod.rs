//! Where C and Rust meet: the only part of this crate with `unsafe`.
//!
//! Three promises carry all of it, and the blocks name the one that they rest on.
//!
//! * **The call.** A pointer is NULL, or leads to as much memory as the length beside it or its type says, which is valid while the call
//!   lasts and which no other thread writes meanwhile. Memory that is written was checked to lie apart from all other memory of
//!   the call.
//! * **The handle.** A pointer to a handle came from the function that opens handles of its type, and is not closed yet. What can be told
//!   of a pointer that did not is told by a word at its beginning.
//! * **The queue.** Buffers of a request in a queue are valid, and used by nobody else, until its completion was given out.
//!
//! `gantry.h` makes them, and each function's safety section is a reference to it. No panic crosses: [`guard`] is around everything.

#![allow(unsafe_code)]

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

pub use handle::{GantryHandle, QueueHandle, SessionHandle, StreamHandle};
pub use many::{gantry_digest_column, gantry_digest_many};
pub use open::{gantry_close, gantry_open};
pub use queue::{
    gantry_queue_arm, gantry_queue_close, gantry_queue_complete, gantry_queue_descriptor, gantry_queue_open,
    gantry_queue_submit, gantry_queue_wait,
};
pub use session::{gantry_run, gantry_session_close, gantry_session_open, gantry_session_tag_len};
pub use stream::{
    gantry_stream_close, gantry_stream_copy, gantry_stream_final, gantry_stream_open, gantry_stream_update,
    gantry_stream_update_many,
};
pub use text::{gantry_strerror, gantry_tags_equal, gantry_version};

use crate::code::Code;

/// Runs `body`. A panic becomes [`Code::Internal`].
fn guard(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    count(|| body().map(|()| 0))
}

/// The same of what returns a number, 0 or more.
fn count(body: impl FnOnce() -> Result<c_int, Code>) -> c_int {
    // What a panic may leave half changed is behind a lock, which is poisoned then.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Code::Internal));
    result.unwrap_or_else(|code| code as c_int)
}

/// The same of what returns nothing.
fn quiet(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}
