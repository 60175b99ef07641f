//! Our functions for pipelines, which OpenSSL calls. A pipeline processes several messages, the pipes, under one key: each call has the
//! next data of all of them. The default provider has no such functions.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use super::cipher::{CipherCtx, init};
use crate::abi::Param;
use crate::libcrypto::{Io, catch_panic};
use crate::modes::cipher::CipherModeState;

/// Opens the pipes. The call has one nonce per pipe, or none at all: then no pipe is open afterwards.
pub(super) unsafe extern "C" fn open<const ENCRYPT: bool>(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    pipes: usize,
    ivs: *const *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ivs = if ivs.is_null() { &[] } else { unsafe { slice::from_raw_parts(ivs, pipes) } };
        let first = ivs.first().map_or((ptr::null(), 0), |iv| (*iv, iv_len));
        // The context itself keeps the key and the parameters for all pipes.
        // SAFETY: the call.
        if ivs.iter().any(|iv| iv.is_null()) || unsafe { init(context, ENCRYPT, (key, key_len), first, params) } != 1 {
            return 0;
        }
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { CipherCtx::parts(context) };
        let CipherModeState::Chain(message) = &this.state.message else { return 0 };
        // SAFETY: the call.
        let ivs = ivs.iter().map(|iv| unsafe { slice::from_raw_parts(*iv, iv_len) });
        c_int::from(this.state.pipes.open(wrapped, (&this.default_ctx, message), ivs))
    })
}

pub(super) unsafe extern "C" fn update(
    context: *mut c_void,
    pipes: usize,
    outputs: *const *mut u8,
    written: *mut usize,
    rooms: *const usize,
    inputs: *const *const u8,
    lengths: *const usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { CipherCtx::parts(context) };
        if wrapped.raise_if_forced() || pipes != this.state.pipes.len() || inputs.is_null() || lengths.is_null() {
            return 0;
        }
        // SAFETY: the call: arrays with an element per pipe.
        let input_of = |pipe: usize| unsafe { (*inputs.add(pipe), *lengths.add(pipe)) };
        // SAFETY: the call.
        let Some(mut ios) = (unsafe { ios(pipes, (outputs, written, rooms), input_of) }) else { return 0 };
        let CipherModeState::Chain(parent) = &mut this.state.message else { return 0 };
        c_int::from(this.state.pipes.update(wrapped, parent, &mut ios))
    })
}

pub(super) unsafe extern "C" fn finish(
    context: *mut c_void,
    pipes: usize,
    outputs: *const *mut u8,
    written: *mut usize,
    rooms: *const usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { CipherCtx::parts(context) };
        if wrapped.raise_if_forced() || pipes != this.state.pipes.len() {
            return 0;
        }
        // SAFETY: the call.
        let ios = unsafe { ios(pipes, (outputs, written, rooms), |_| (ptr::null(), 0)) };
        ios.map_or(0, |mut ios| c_int::from(this.state.pipes.finish(&mut ios)))
    })
}

/// Returns the data of each pipe.
///
/// # Safety
///
/// The call: arrays with an element per pipe, each as [`Io::new`] requires.
unsafe fn ios<'c>(
    pipes: usize,
    (outputs, written, rooms): (*const *mut u8, *mut usize, *const usize),
    input: impl Fn(usize) -> (*const u8, usize),
) -> Option<Vec<Io<'c>>> {
    if outputs.is_null() || written.is_null() || rooms.is_null() {
        return None;
    }
    let io = |pipe: usize| {
        let (input, length) = input(pipe);
        // SAFETY: as the caller promises.
        unsafe { Io::new(*outputs.add(pipe), written.add(pipe), *rooms.add(pipe), input, length) }
    };
    Some((0..pipes).map(io).collect())
}
