//! The structures and numbers of `gantry.h`.

use std::ffi::{c_char, c_void};

/// `gantry_params`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "gantry.h describes the fields")]
pub struct Params {
    pub size: usize,
    pub algorithm: *const c_char,
    pub key: *const c_void,
    pub key_len: usize,
    pub mac_key: *const c_void,
    pub mac_key_len: usize,
    pub tag_len: usize,
    pub direction: u32,
    pub flags: u32,
}

/// `gantry_request`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "gantry.h describes the fields")]
pub struct Request {
    pub size: usize,
    pub operation: u32,
    pub result: i32,
    pub iv: *const c_void,
    pub iv_len: usize,
    pub aad: *const c_void,
    pub aad_len: usize,
    pub r#in: *const c_void,
    pub in_len: usize,
    pub out: *mut c_void,
    pub out_len: usize,
    pub tag: *mut c_void,
    pub tag_len: usize,
}

/// `gantry_message`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "gantry.h describes the fields")]
pub struct Message {
    pub data: *const c_void,
    pub len: usize,
    pub out: *mut c_void,
}

/// `gantry_column`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "gantry.h describes the fields")]
pub struct Column {
    pub size: usize,
    pub count: usize,
    pub values: *const c_void,
    pub values_len: usize,
    pub offsets: *const c_void,
    pub validity: *const u8,
    pub validity_offset: usize,
    pub offset_bits: u32,
    pub reserved: u32,
}

/// `gantry_completion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "gantry.h describes the fields")]
pub struct Completion {
    pub user: u64,
    pub result: i32,
    pub reserved: u32,
}

/// Results of requests.
#[allow(missing_docs, reason = "gantry.h describes them")]
pub mod result {
    pub const DONE: i32 = 0;
    pub const BAD_TAG: i32 = 1;
    pub const BAD_LENGTH: i32 = 2;
    pub const NOT_RUN: i32 = 3;
}

/// Operations of requests.
#[allow(missing_docs, reason = "gantry.h describes them")]
pub mod operation {
    pub const DIGEST: u32 = 0;
    pub const MAC: u32 = 1;
    pub const ENCRYPT: u32 = 2;
    pub const DECRYPT: u32 = 3;
    pub const SEAL: u32 = 4;
    pub const OPEN: u32 = 5;
}

/// Directions of sessions.
#[allow(missing_docs, reason = "gantry.h describes them")]
pub mod direction {
    pub const BOTH: u32 = 0;
    pub const ONLY_ENCRYPT: u32 = 1;
    pub const ONLY_DECRYPT: u32 = 2;
}

/// Flags of sessions.
#[allow(missing_docs, reason = "gantry.h describes them")]
pub mod flags {
    pub const ANY_NONCE: u32 = 1;
}
