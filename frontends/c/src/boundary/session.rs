//! Sessions, and batches of their requests.

use std::ffi::c_int;
use std::sync::OnceLock;

use gantry_core::driver::Buffers;
use gantry_core::{Algorithm, Direction, Kind, Operation, Request, SessionParams};

use super::handle::{GantryHandle, SessionHandle};
use super::memory::{bytes, bytes_mut, check_bytes, check_pointer, extent, range, read, size_of_struct, text};
use super::{guard, quiet};
use crate::abi::{self, direction, operation, result};
use crate::code::{Code, of_outcome};
use crate::ranges::Ranges;

/// What is behind a `gantry_session`.
pub struct Session {
    pub(super) session: gantry_core::Session,
    /// For columns, once one was asked for; `None` if there are none of the algorithm.
    pub(super) hashes: OnceLock<Option<super::many::Hashes>>,
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
    guard(|| {
        check_pointer(out)?;
        // SAFETY: the handle, and the call.
        let (gantry, given) = unsafe { (GantryHandle::of(handle)?, read(params)?) };
        check_bytes(given.key, given.key_len)?;
        check_bytes(given.mac_key, given.mac_key_len)?;
        // SAFETY: the call, and lengths were checked.
        let (name, key, mac_key) = unsafe {
            let name = text(given.algorithm, Code::Algorithm)?;
            (name, bytes(given.key, given.key_len), bytes(given.mac_key, given.mac_key_len))
        };
        if given.reserved != 0 {
            return Err(Code::Argument);
        }
        let direction = match given.direction {
            direction::BOTH => Direction::Both,
            direction::ONLY_ENCRYPT => Direction::Encrypt,
            direction::ONLY_DECRYPT => Direction::Decrypt,
            _ => return Err(Code::Argument),
        };
        let mut params = SessionParams::new(algorithm(name)?, key).mac_key(mac_key).direction(direction);
        if given.tag_len > 0 {
            params = params.tag_len(given.tag_len);
        }
        let session = gantry.session(params)?;
        // SAFETY: the call.
        unsafe { SessionHandle::give(Session { session, hashes: OnceLock::new() }, out) }
    })
}

/// `gantry_session_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_session_close(session: *mut SessionHandle) {
    // SAFETY: the handle.
    quiet(|| drop(unsafe { SessionHandle::take(session) }));
}

/// `gantry_session_tag_len`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_session_tag_len(session: *const SessionHandle) -> usize {
    // SAFETY: the handle.
    unsafe { SessionHandle::of(session) }.map_or(0, |session| session.session.params().tag_length())
}

/// `gantry_run`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_run(session: *mut SessionHandle, requests: *mut abi::Request, count: usize) -> c_int {
    guard(|| {
        // SAFETY: the handle.
        let session = &unsafe { SessionHandle::of(session) }?.session;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the call: as many structs as it says, each of the size that the first one says.
        let list = unsafe { List::new(requests, count) }?;
        // SAFETY: as above.
        unsafe { list.run(session) }
    })
}

/// The one algorithm of a name, of the kinds that this interface has.
fn algorithm(name: &str) -> Result<Algorithm, Code> {
    let matching = Algorithm::matching(name).map_err(|_| Code::Algorithm)?;
    match matching[..] {
        [algorithm] if matches!(algorithm.kind(), Kind::Digest | Kind::Mac | Kind::Cipher | Kind::Aead) => {
            Ok(algorithm)
        }
        _ => Err(Code::Algorithm),
    }
}

/// An array of requests in C's memory, whose elements may be larger than they are known here.
struct List {
    first: *mut abi::Request,
    stride: usize,
    count: usize,
}

impl List {
    /// # Safety
    /// The call.
    unsafe fn new(first: *mut abi::Request, count: usize) -> Result<Self, Code> {
        // SAFETY: the call.
        let stride = unsafe { size_of_struct(first.cast_const()) }?;
        check_bytes(first.cast_const().cast(), extent(count, stride)?)?;
        Ok(Self { first, stride, count })
    }

    /// One of them.
    fn at(&self, index: usize) -> *mut abi::Request {
        debug_assert!(index < self.count, "an element of the list");
        self.first.wrapping_byte_add(index * self.stride)
    }

    /// Writes how one of them went.
    ///
    /// # Safety
    /// The call.
    unsafe fn answer(&self, index: usize, result: c_int) {
        // SAFETY: the call: within an element of the list, which `new` has found to be aligned.
        unsafe { (&raw mut (*self.at(index)).result).write(result) };
    }

    /// A copy of one of them.
    ///
    /// # Safety
    /// The call.
    unsafe fn get(&self, index: usize) -> Result<abi::Request, Code> {
        let at = self.at(index).cast_const();
        // SAFETY: the call.
        unsafe { if size_of_struct(at)? == self.stride { read(at) } else { Err(Code::Version) } }
    }

    /// # Safety
    /// The call.
    unsafe fn run(&self, session: &gantry_core::Session) -> Result<(), Code> {
        // SAFETY: the call.
        (0..self.count).for_each(|index| unsafe { self.answer(index, result::NOT_RUN) });
        // Written: the list, a result and a tag of each. Read: data, IV, associated data, tag.
        let ranges = Ranges::with_room(1 + 2 * self.count, 4 * self.count);
        let mut ranges = ranges.map_err(|_| Code::Memory)?;
        ranges.writes(range(self.first.cast(), self.count * self.stride));
        for index in 0..self.count {
            // SAFETY: the call.
            let checked = unsafe { self.get(index) }.and_then(|request| check(session, &request).map(|()| request));
            match checked {
                Ok(request) => register(&request, &mut ranges),
                Err(code) => {
                    // SAFETY: the call.
                    unsafe { self.answer(index, code as c_int) };
                    return Err(code);
                }
            }
        }
        if !ranges.are_apart() {
            return Err(Code::Overlap);
        }
        let mut requests = Vec::new();
        requests.try_reserve_exact(self.count).map_err(|_| Code::Memory)?;
        for index in 0..self.count {
            // SAFETY: the call, and all that `borrow` asks for was checked.
            requests.push(unsafe { borrow(&self.get(index)?) });
        }
        let ran = session.process(&mut requests).map_err(Code::from);
        for (index, request) in requests.iter().enumerate() {
            let failed = || ran.err().map_or(Code::Internal as c_int, |code| code as c_int);
            // SAFETY: the call; no slice of the requests lies in the list.
            unsafe { self.answer(index, request.outcome().map_or_else(failed, of_outcome)) };
        }
        ran
    }
}

/// Everything that can be wrong with a request alone.
pub(super) fn check(session: &gantry_core::Session, request: &abi::Request) -> Result<(), Code> {
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
    for (at, len, known) in [
        (request.iv, request.iv_len, has_iv),
        (request.aad, request.aad_len, has_tag),
        (request.tag.cast_const(), request.tag_len, has_tag),
    ] {
        check_bytes(at, len)?;
        if !(known || at.is_null() && len == 0) {
            return Err(Code::Argument);
        }
    }
    let result = if writes_data(request) { request.in_len } else { params.tag_length() };
    // The tag to be verified comes from the peer with its length: another one is a bad tag.
    let tag_fits = request.operation != operation::SEAL || request.tag_len == params.tag_length();
    let iv_fits = params.algorithm().info().iv.allows(request.iv_len);
    if request.out_len == result && tag_fits && iv_fits { Ok(()) } else { Err(Code::Length) }
}

/// Whether the result takes the place of the data, or could.
fn writes_data(request: &abi::Request) -> bool {
    !matches!(request.operation, operation::DIGEST | operation::MAC)
}

/// Whether it does.
pub(super) fn is_in_place(request: &abi::Request) -> bool {
    writes_data(request) && request.r#in == request.out.cast_const()
}

/// Names the buffers of a request.
pub(super) fn register(request: &abi::Request, ranges: &mut Ranges) {
    ranges.writes(range(request.out, request.out_len));
    if !is_in_place(request) {
        ranges.reads(range(request.r#in, request.in_len));
    }
    ranges.reads(range(request.iv, request.iv_len));
    ranges.reads(range(request.aad, request.aad_len));
    let tag = range(request.tag, request.tag_len);
    if request.operation == operation::SEAL { ranges.writes(tag) } else { ranges.reads(tag) }
}

/// A request over C's buffers.
///
/// # Safety
/// The call, [`check`] was content, and the buffers lie apart from each other and from those of all other requests of the call.
unsafe fn borrow<'a>(request: &abi::Request) -> Request<'a> {
    // SAFETY: the call; lengths were checked.
    let (iv, aad) = unsafe { (bytes(request.iv, request.iv_len), bytes(request.aad, request.aad_len)) };
    // SAFETY: the call; what is written overlaps nothing that is not made a slice of here.
    let output = unsafe { bytes_mut(request.out, request.out_len) };
    // SAFETY: the call; lengths were checked, and in place there is only the one slice of the output.
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
        // SAFETY: the call; what is written overlaps nothing.
        operation::SEAL => Request::seal(iv, aad, data, unsafe { bytes_mut(request.tag, request.tag_len) }),
        // SAFETY: the call; lengths were checked.
        _ => Request::open(iv, aad, data, unsafe { bytes(request.tag, request.tag_len) }),
    }
}
