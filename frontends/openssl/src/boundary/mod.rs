//! Where C and Rust meet: the only part of this crate with `unsafe`.
//!
//! Three promises carry all of it, and the blocks name the one that they rest on.
//!
//! * **The call.** OpenSSL passes pointers that are valid while the call lasts: contexts that our own `newctx` or `dupctx` made
//!   and `freectx` has not seen, used by one thread at a time; buffers as long as it says; tables with the end that their
//!   type has. (provider-cipher(7), provider-kdf(7), provider-keymgmt(7), provider-keyexch(7), provider-signature(7).)
//! * **The host.** What the default provider gave out stays valid while our provider is loaded, because a method or
//!   context that was made from it keeps the library context alive, and the function behind an id has the type that the id
//!   stands for (core_dispatch.h).
//! * **Ours.** What this module made with `Box::into_raw` it frees once, in `freectx` or `teardown`.
//!
//! No panic crosses: [`guard`] is around everything of ours that can.

mod about;
mod cipher;
mod core;
mod default;
mod exchange;
mod family;
mod functions;
mod generator;
mod host_cipher;
mod host_keys;
mod kdf;
mod keys;
mod params;
mod pipeline;
mod provider;
mod signature;
mod slhdsa;
mod stack;
mod wrapped;

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use gantry_core::driver::Buffers;

pub(crate) use exchange::Agreement;
pub(crate) use host_cipher::{Host, HostAlgorithm, HostContext};
pub(crate) use host_keys::{HostKey, HostPair};
pub(crate) use kdf::HostKdf;
pub(crate) use params::{Answer, Answers, Questions};
pub(crate) use stack::with_room;
pub(crate) use wrapped::Wrapped;

/// Runs `body`; a panic becomes `fallen`.
fn guard<T>(fallen: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallen)
}

/// The two calls of OpenSSL that bring data to a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `EVP_CipherUpdate`.
    Update,
    /// `EVP_Cipher`.
    Cipher,
}

/// The data of one call: where it is read, where it is written, and where the number of written bytes goes.
pub(crate) struct Io<'c> {
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
    call: PhantomData<&'c mut [u8]>,
}

impl Io<'_> {
    /// # Safety
    ///
    /// The call: `length` bytes can be read at `input`, `room` bytes written at `output`, and `written` can be written;
    /// all for as long as the result lives.
    unsafe fn new(output: *mut u8, written: *mut usize, room: usize, input: *const u8, length: usize) -> Self {
        Self { output, written, room, input, length, call: PhantomData }
    }

    /// Bytes of input.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Associated data has none.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_null()
    }

    /// The end of a message has none.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_null()
    }

    pub(crate) fn in_place(&self) -> bool {
        self.input == self.output.cast_const()
    }

    /// What is to be read, before anything is written.
    pub(crate) fn input(&self) -> &[u8] {
        if self.length == 0 || self.input.is_null() {
            return &[];
        }
        // SAFETY: the call; output is written through `&mut self` only.
        unsafe { slice::from_raw_parts(self.input, self.length) }
    }

    /// Input and as much output; `None` where there is too little room, or they overlap and are not the same.
    pub(crate) fn buffers(&mut self) -> Option<Buffers<'_>> {
        self.buffers_of(self.length)
    }

    /// The same of the first `length` bytes, of which there are as many; the rest must not overlap either.
    pub(crate) fn buffers_of(&mut self, length: usize) -> Option<Buffers<'_>> {
        if length > self.length
            || self.length > self.room
            || self.output.is_null()
            || self.input.is_null()
            || self.length > isize::MAX as usize
        {
            return None;
        }
        if self.in_place() {
            // SAFETY: the call; one slice over both.
            return Some(Buffers::InPlace(unsafe { slice::from_raw_parts_mut(self.output, length) }));
        }
        let distance = (self.input as usize).abs_diff(self.output as usize);
        if distance < self.length {
            return None;
        }
        // SAFETY: the call; they are further apart than they are long.
        let (input, output) =
            unsafe { (slice::from_raw_parts(self.input, length), slice::from_raw_parts_mut(self.output, length)) };
        Some(Buffers::Separate { input, output })
    }

    /// Whether nothing that one of two writes is read or written by the other.
    pub(crate) fn is_apart(&self, other: &Io<'_>) -> bool {
        let meet = |one: *const u8, one_len: usize, other: *const u8, other_len: usize| {
            let (one, other) = (one as usize, other as usize);
            one < other.saturating_add(other_len) && other < one.saturating_add(one_len)
        };
        let writes_over = |one: &Io<'_>, other: &Io<'_>| {
            let (output, length) = (one.output.cast_const(), one.length);
            meet(output, length, other.input, other.length) || meet(output, length, other.output, other.length)
        };
        !writes_over(self, other) && !writes_over(other, self)
    }

    /// The same for all of them.
    pub(crate) fn are_apart(ios: &[Io<'_>]) -> bool {
        // Most have buffers that nobody shares, which shows when these are in order.
        let place = |at: *const u8, length: usize| (at as usize, (at as usize).saturating_add(length));
        let others = ios.iter().filter(|io| !io.in_place()).map(|io| place(io.input, io.length));
        let mut places: Vec<_> = ios.iter().map(|io| place(io.output, io.length)).chain(others).collect();
        places.sort_unstable();
        if places.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
            return true;
        }
        ios.iter().enumerate().all(|(place, one)| ios[..place].iter().all(|other| one.is_apart(other)))
    }

    /// The call ends well, with so many bytes written.
    pub(crate) fn done(&mut self, written: usize) -> i32 {
        if !self.written.is_null() {
            // SAFETY: the call.
            unsafe { *self.written = written };
        }
        1
    }

    /// The call fails.
    pub(crate) fn refused(&mut self) -> i32 {
        self.done(0);
        0
    }

    /// The first `at` bytes.
    pub(crate) fn first(&mut self, at: usize) -> Io<'_> {
        Io { length: at.min(self.length), call: PhantomData, ..*self }
    }

    /// What comes after the first `at` bytes.
    pub(crate) fn after(&mut self, at: usize) -> Io<'_> {
        let at = at.min(self.length);
        Io {
            output: self.output.wrapping_add(at),
            room: self.room.saturating_sub(at),
            input: self.input.wrapping_add(at),
            length: self.length - at,
            call: PhantomData,
            ..*self
        }
    }

    /// What is in the output, of the length of the input, after it was written there.
    pub(crate) fn output(&mut self) -> &[u8] {
        self.buffers().map_or(&[], |data| match data {
            Buffers::InPlace(output) | Buffers::Separate { output, .. } => output,
        })
    }

    /// What has been written as far as is known.
    pub(crate) fn written(&self) -> usize {
        // SAFETY: the call, and whoever ends it well writes the number.
        if self.written.is_null() { 0 } else { unsafe { *self.written } }
    }
}
