//! What `pmd/gantry_pmd.h` declares, as Rust has it. No panic crosses it.

#![allow(unsafe_code, reason = "C calls")]

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use gantry::{Algorithm, Lengths};

use crate::batch::{Batch, LONGEST_TAG};
use crate::framework;
use crate::keys::{Keys, Refused, Transform};

/// `struct gantry_range`.
#[repr(C)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    min: u32,
    max: u32,
    step: u32,
}

impl From<Lengths> for Range {
    fn from(lengths: Lengths) -> Self {
        let short = |length| u32::try_from(length).unwrap_or(u32::MAX);
        Self { min: short(lengths.min), max: short(lengths.max), step: short(lengths.step).max(1) }
    }
}

/// `struct gantry_algorithm`.
#[repr(C)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    key: Range,
    iv: Range,
    tag: Range,
    block: u32,
}

/// `struct gantry_transform`.
#[repr(C)]
pub(crate) struct RawTransform {
    name: *const c_char,
    key: *const u8,
    key_length: u32,
    iv_length: u32,
    tag_length: u32,
    backward: u32,
}

/// `struct gantry_session`.
#[repr(C)]
pub(crate) struct RawSession {
    keys: *mut Keys,
    joint: u32,
}

/// `enum gantry_status`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The result is complete.
    Done = 0,
    /// The tag is not the tag of these data.
    BadTag = 1,
    /// A length is one that the algorithm does not have.
    BadArguments = 2,
    /// No device could do it.
    Error = 3,
}

/// `struct gantry_op`.
#[repr(C)]
pub(crate) struct Op {
    pub(crate) keys: *const Keys,
    pub(crate) iv: *const u8,
    pub(crate) auth_iv: *const u8,
    pub(crate) aad: *const u8,
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) auth: *const u8,
    pub(crate) tag: *mut u8,
    pub(crate) length: u32,
    pub(crate) auth_length: u32,
    pub(crate) aad_length: u32,
    pub(crate) joint: u8,
    pub(crate) status: Status,
    /// The PMD's own.
    pub(crate) after: u8,
    pub(crate) spare: u8,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    size_of::<Description>() == 40
        && size_of::<RawTransform>() == 32
        && size_of::<RawSession>() == 16
        && size_of::<Op>() == 80,
    "as gantry_pmd.h has them"
);

/// Opens the framework of this process.
///
/// # Safety
///
/// `why` has room for `size` bytes, at least one.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gantry_pmd_open(why: *mut c_char, size: u32) -> c_int {
    let opened = catch_unwind(framework::open).unwrap_or_else(|_| Err("a panic".to_owned()));
    let Err(text) = opened else { return 0 };
    // SAFETY: as the caller promises.
    let why = unsafe { slice::from_raw_parts_mut(why.cast::<u8>(), size as usize) };
    let length = text.floor_char_boundary(why.len() - 1);
    why[..length].copy_from_slice(&text.as_bytes()[..length]);
    why[length] = 0;
    -1
}

/// Describes an algorithm that a device serves.
///
/// # Safety
///
/// `name` is a string of C, and `to` has room.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gantry_pmd_served(name: *const c_char, to: *mut Description) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(algorithm) = catch_unwind(|| framework::served(name.to_str().ok()?)).ok().flatten() else { return 0 };
    // SAFETY: as the caller promises.
    unsafe { to.write(describe(algorithm)) };
    1
}

/// Makes keys.
///
/// # Safety
///
/// There are `count` transforms, each with a name that is a string of C and a key of its length, and `to` has room.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gantry_pmd_session_new(
    transforms: *const RawTransform,
    count: u32,
    to: *mut RawSession,
) -> c_int {
    // SAFETY: as the caller promises.
    let raw = unsafe { slice::from_raw_parts(transforms, count as usize) };
    let make = || {
        let gantry = framework::get().ok_or(Refused::Unsupported)?;
        // SAFETY: as the caller promises.
        let transforms: Option<Vec<_>> = raw.iter().map(|raw| unsafe { raw.read() }).collect();
        Keys::new(gantry, &transforms.ok_or(Refused::Unsupported)?)
    };
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(Ok(keys)) => {
            let joint = keys.joint.is_some().into();
            // SAFETY: as the caller promises.
            unsafe { to.write(RawSession { keys: Box::into_raw(Box::new(keys)), joint }) };
            0
        }
        Ok(Err(Refused::Wrong)) => -libc::EINVAL,
        Ok(Err(Refused::Unsupported)) | Err(_) => -libc::ENOTSUP,
    }
}

/// Ends keys.
///
/// # Safety
///
/// They are of `gantry_pmd_session_new`, and no operation has them any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gantry_pmd_session_free(keys: *mut Keys) {
    // SAFETY: as the caller promises.
    let keys = unsafe { Box::from_raw(keys) };
    // A panic leaks them, and what they hold.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(keys)));
}

/// Makes the memory of a queue pair.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn gantry_pmd_batch_new() -> *mut Batch {
    Box::into_raw(Box::default())
}

/// Frees it.
///
/// # Safety
///
/// It is null, or of `gantry_pmd_batch_new` and in nobody's use.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gantry_pmd_batch_free(batch: *mut Batch) {
    if !batch.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(batch) });
    }
}

/// Runs operations.
///
/// # Safety
///
/// There are `count` operations as `gantry_pmd.h` says, and no other thread uses them, their data, or the batch.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn gantry_pmd_run(batch: *mut Batch, ops: *mut Op, count: u32) {
    if count == 0 {
        return;
    }
    // SAFETY: as the caller promises.
    let (batch, ops) = unsafe { (&mut *batch, slice::from_raw_parts_mut(ops, count as usize)) };
    // SAFETY: as the caller promises.
    let run = || unsafe { batch.run(ops) };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        // What is known of them is nothing; and the requests of the next call must not meet those of this one.
        *batch = Batch::default();
        for op in ops {
            op.status = Status::Error;
        }
    }
}

impl RawTransform {
    /// # Safety
    ///
    /// The name is a string of C, and the key has its length.
    unsafe fn read(&self) -> Option<Transform<'_>> {
        // SAFETY: as the caller promises.
        let name = unsafe { CStr::from_ptr(self.name) };
        let algorithm = framework::served(name.to_str().ok()?)?;
        let key = match self.key_length {
            0 => &[][..],
            // SAFETY: as the caller promises.
            length if !self.key.is_null() => unsafe { slice::from_raw_parts(self.key, length as usize) },
            _ => return None,
        };
        let (iv, tag) = (self.iv_length as usize, self.tag_length as usize);
        Some(Transform { algorithm, key, iv, tag, backward: self.backward != 0 })
    }
}

fn describe(algorithm: Algorithm) -> Description {
    let info = algorithm.info();
    // Tags pass through memory of the PMD's own.
    let tag = Lengths { max: info.tag.max.min(LONGEST_TAG), ..info.tag };
    Description { key: info.key.into(), iv: info.iv.into(), tag: tag.into(), block: info.block as u32 }
}
