//! Sessions, and batches of their requests.

use std::ffi::c_int;
use std::sync::OnceLock;

use gantry_core::driver::Buffers;
use gantry_core::{Algorithm, Direction, Kind, Lengths, Misuse, Operation, Request, SessionParams};

use super::column_hash::ColumnHash;
use super::handle::{GantryHandle, Handle, HandleType};
use super::memory::{
    array_bytes, bytes, bytes_mut, check_bytes, check_pointer, range, read_struct, size_of_struct, str_from_c,
};
use super::{catch_panic, catch_panic_void};
use crate::abi::{self, direction, flags, operation, result};
use crate::code::{Code, outcome_code};
use crate::ranges::Ranges;

/// The content of a `gantry_session`.
pub struct Session {
    pub(super) session: gantry_core::Session,
    /// The hash function for columns, set at first use; `None` if the algorithm has none.
    column_hash: OnceLock<Option<ColumnHash>>,
}

/// A `gantry_session`.
pub type SessionHandle = Handle<Session>;

impl HandleType for Session {
    const TYPE_MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x02");
}

impl Session {
    pub(super) fn column_hash(&self) -> Option<&ColumnHash> {
        self.column_hash.get_or_init(|| ColumnHash::for_session(self.session.params())).as_ref()
    }
}

/// `gantry_session_open`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_session_open(
    handle: *mut GantryHandle,
    params: *const abi::Params,
    out: *mut *mut SessionHandle,
) -> c_int {
    catch_panic(|| {
        check_pointer(out)?;
        // SAFETY: the handle, and the call.
        let (gantry, c_params) = unsafe { (GantryHandle::get(handle)?, read_struct(params)?) };
        check_bytes(c_params.key, c_params.key_len)?;
        check_bytes(c_params.mac_key, c_params.mac_key_len)?;
        // SAFETY: the call, and lengths were checked.
        let (name, key, mac_key) = unsafe {
            let name = str_from_c(c_params.algorithm, Code::Algorithm)?;
            (name, bytes(c_params.key, c_params.key_len), bytes(c_params.mac_key, c_params.mac_key_len))
        };
        if c_params.flags & !flags::ANY_NONCE != 0 {
            return Err(Code::Argument);
        }
        let direction = match c_params.direction {
            direction::BOTH => Direction::Both,
            direction::ONLY_ENCRYPT => Direction::Encrypt,
            direction::ONLY_DECRYPT => Direction::Decrypt,
            _ => return Err(Code::Argument),
        };
        let mut params = SessionParams::new(find_algorithm(name)?, key).with_mac_key(mac_key).with_direction(direction);
        if c_params.tag_len > 0 {
            params = params.with_tag_len(c_params.tag_len);
        }
        if c_params.flags & flags::ANY_NONCE != 0 {
            params = params.with_any_nonce();
        }
        let session = gantry.session(params)?;
        // SAFETY: the call.
        unsafe { SessionHandle::create(Session { session, column_hash: OnceLock::new() }, out) }
    })
}

/// `gantry_session_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_session_close(session: *mut SessionHandle) {
    // SAFETY: the handle.
    catch_panic_void(|| drop(unsafe { SessionHandle::take(session) }));
}

/// `gantry_session_tag_len`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_session_tag_len(session: *const SessionHandle) -> usize {
    // SAFETY: the handle.
    unsafe { SessionHandle::get(session) }.map_or(0, |session| session.session.params().tag_len())
}

/// `gantry_run`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_run(session: *mut SessionHandle, requests: *mut abi::Request, count: usize) -> c_int {
    catch_panic(|| {
        // SAFETY: the handle.
        let session = &unsafe { SessionHandle::get(session) }?.session;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the call: `count` structs, each of the size that the first one states.
        let list = unsafe { RequestList::new(requests, count) }?;
        // SAFETY: as above.
        unsafe { list.run(session) }
    })
}

/// Returns the algorithm with this name. Fails if the name is ambiguous, or if this interface does not support the kind of algorithm.
fn find_algorithm(name: &str) -> Result<Algorithm, Code> {
    let algorithm: Algorithm = name.parse()?;
    match algorithm.kind() {
        Kind::Digest | Kind::Mac | Kind::Cipher | Kind::Aead => Ok(algorithm),
        _ => Err(Code::Algorithm),
    }
}

/// An array of requests in C's memory, whose elements may be larger than `abi::Request`.
struct RequestList {
    first: *mut abi::Request,
    stride: usize,
    count: usize,
}

impl RequestList {
    /// # Safety
    /// The call.
    unsafe fn new(first: *mut abi::Request, count: usize) -> Result<Self, Code> {
        // SAFETY: the call.
        let stride = unsafe { size_of_struct(first.cast_const()) }?;
        check_bytes(first.cast_const().cast(), array_bytes(count, stride)?)?;
        Ok(Self { first, stride, count })
    }

    fn at(&self, index: usize) -> *mut abi::Request {
        debug_assert!(index < self.count, "the index exceeds the list");
        self.first.wrapping_byte_add(index * self.stride)
    }

    /// Writes the result of a request.
    ///
    /// # Safety
    /// The call.
    unsafe fn write_result(&self, index: usize, result: c_int) {
        // SAFETY: the call: within an element of the list, whose alignment `new` has checked.
        unsafe { (&raw mut (*self.at(index)).result).write(result) };
    }

    /// Returns a copy of an element.
    ///
    /// # Safety
    /// The call.
    unsafe fn get(&self, index: usize) -> Result<abi::Request, Code> {
        let at = self.at(index).cast_const();
        // SAFETY: the call.
        unsafe { if size_of_struct(at)? == self.stride { read_struct(at) } else { Err(Code::Version) } }
    }

    /// # Safety
    /// The call.
    unsafe fn run(&self, session: &gantry_core::Session) -> Result<(), Code> {
        // SAFETY: the call.
        (0..self.count).for_each(|index| unsafe { self.write_result(index, result::NOT_RUN) });
        // Written: the list, and an output and a tag per request. Read: data, IV, associated data, tag.
        let ranges = Ranges::with_capacity(1 + 2 * self.count, 4 * self.count);
        let mut ranges = ranges.map_err(|_| Code::Memory)?;
        ranges.add_written(range(self.first.cast(), self.count * self.stride));
        for index in 0..self.count {
            // SAFETY: the call.
            let checked =
                unsafe { self.get(index) }.and_then(|request| check_request(session, &request).map(|()| request));
            match checked {
                Ok(request) => add_buffers(&request, &mut ranges),
                Err(code) => {
                    // SAFETY: the call.
                    unsafe { self.write_result(index, code as c_int) };
                    return Err(code);
                }
            }
        }
        if !ranges.are_disjoint() {
            return Err(Code::Overlap);
        }
        let mut requests = Vec::new();
        requests.try_reserve_exact(self.count).map_err(|_| Code::Memory)?;
        for index in 0..self.count {
            // SAFETY: the call; all requirements of `borrow_request` were checked.
            requests.push(unsafe { borrow_request(&self.get(index)?) });
        }
        let processed = session.process(&mut requests).map_err(Code::from);
        for (index, request) in requests.iter().enumerate() {
            let failed = || processed.err().map_or(Code::Internal as c_int, |code| code as c_int);
            // SAFETY: the call; no slice of the requests lies in the list.
            unsafe { self.write_result(index, request.outcome().map_or_else(failed, outcome_code)) };
        }
        processed
    }
}

/// Checks the operation, pointers and lengths of a single request. [`Ranges`] finds overlaps.
pub(super) fn check_request(session: &gantry_core::Session, request: &abi::Request) -> Result<(), Code> {
    let params = session.params();
    let (operation, has_iv, has_tag) = match request.operation {
        operation::DIGEST => (Operation::Digest, false, false),
        operation::MAC => (Operation::Mac, true, false),
        operation::ENCRYPT => (Operation::Encrypt, true, false),
        operation::DECRYPT => (Operation::Decrypt, true, false),
        operation::SEAL => (Operation::Seal, true, true),
        operation::OPEN => (Operation::Open, true, true),
        _ => return Err(Code::Operation),
    };
    if !params.allows(operation) {
        return Err(Code::Operation);
    }
    check_bytes(request.r#in, request.in_len)?;
    check_bytes(request.out, request.out_len)?;
    for (at, len, is_allowed) in [
        (request.iv, request.iv_len, has_iv),
        (request.aad, request.aad_len, has_tag),
        (request.tag.cast_const(), request.tag_len, has_tag),
    ] {
        check_bytes(at, len)?;
        if !(is_allowed || at.is_null() && len == 0) {
            return Err(Code::Argument);
        }
    }
    let needs = if writes_data(request) { request.in_len } else { params.tag_len() };
    let (algorithm, takes) = (params.algorithm(), params.iv_lengths());
    if !takes.allows(request.iv_len) {
        return Err(Misuse::IvLength { algorithm, got: request.iv_len, takes }.into());
    }
    if request.out_len != needs {
        return Err(Misuse::OutputLength { algorithm, got: request.out_len, needs }.into());
    }
    // A tag to be verified comes from the peer: a wrong length is a bad tag.
    if request.operation == operation::SEAL && request.tag_len != params.tag_len() {
        let takes = Lengths::exactly(params.tag_len());
        return Err(Misuse::TagLength { algorithm, got: request.tag_len, takes }.into());
    }
    Ok(())
}

/// Returns true if the output is as long as the data, and may replace it.
fn writes_data(request: &abi::Request) -> bool {
    !matches!(request.operation, operation::DIGEST | operation::MAC)
}

/// Returns true if the output replaces the data.
pub(super) fn is_in_place(request: &abi::Request) -> bool {
    writes_data(request) && request.r#in == request.out.cast_const()
}

/// Adds the buffers of a request to `ranges`.
pub(super) fn add_buffers(request: &abi::Request, ranges: &mut Ranges) {
    ranges.add_written(range(request.out, request.out_len));
    if !is_in_place(request) {
        ranges.add_read(range(request.r#in, request.in_len));
    }
    ranges.add_read(range(request.iv, request.iv_len));
    ranges.add_read(range(request.aad, request.aad_len));
    let tag = range(request.tag, request.tag_len);
    if request.operation == operation::SEAL { ranges.add_written(tag) } else { ranges.add_read(tag) }
}

/// Returns a request over C's buffers.
///
/// # Safety
/// The call; [`check_request`] has succeeded, and the buffers do not overlap each other or those of other requests of the call.
unsafe fn borrow_request<'a>(request: &abi::Request) -> Request<'a> {
    // SAFETY: the call; lengths were checked.
    let (iv, aad) = unsafe { (bytes(request.iv, request.iv_len), bytes(request.aad, request.aad_len)) };
    // SAFETY: the call; the output overlaps no other slice that is made here.
    let output = unsafe { bytes_mut(request.out, request.out_len) };
    // SAFETY: the call; lengths were checked, and in place only the output becomes a slice.
    let input = if is_in_place(request) { &[] } else { unsafe { bytes(request.r#in, request.in_len) } };
    match request.operation {
        operation::DIGEST => return Request::digest(input, output),
        operation::MAC => return Request::mac_with_iv(iv, input, output),
        _ => {}
    }
    let data = if is_in_place(request) { Buffers::InPlace(output) } else { Buffers::Separate { input, output } };
    match request.operation {
        operation::ENCRYPT => Request::encrypt(iv, data),
        operation::DECRYPT => Request::decrypt(iv, data),
        // SAFETY: the call; the tag overlaps no other memory of the call.
        operation::SEAL => Request::seal(iv, aad, data, unsafe { bytes_mut(request.tag, request.tag_len) }),
        // SAFETY: the call; lengths were checked.
        _ => Request::open(iv, aad, data, unsafe { bytes(request.tag, request.tag_len) }),
    }
}
