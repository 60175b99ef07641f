//! Tables of parameters, terminated by a null key.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

use crate::abi::{self, Param};

/// Parameters that a caller sets: read only.
#[derive(Clone, Copy)]
pub(crate) struct ParamValues<'c> {
    first: *const Param,
    call: PhantomData<&'c Param>,
}

/// The parameter with one key, if present.
#[derive(Clone, Copy, Default)]
pub(crate) struct ParamValue<'c>(Option<&'c Param>);

/// Parameters that a caller queries.
pub(crate) struct ParamQuery<'c> {
    first: *mut Param,
    call: PhantomData<&'c mut Param>,
}

impl<'c> ParamValues<'c> {
    /// # Safety
    ///
    /// The call: null, or a terminated table.
    pub(crate) unsafe fn new(first: *const Param) -> Self {
        Self { first, call: PhantomData }
    }

    fn find(self, key: &CStr) -> Option<&'c Param> {
        // SAFETY: as `new` requires.
        unsafe { find(self.first, key) }
    }

    /// Returns true if `key` is the only parameter.
    #[inline(always)]
    pub(crate) fn is_only(self, key: &CStr) -> bool {
        // SAFETY: as `new` requires.
        unsafe { is_only(self.first, key) }
    }

    /// Returns the bytes of `key`, if it is the only parameter.
    #[inline(always)]
    pub(crate) fn only_octets(self, key: &CStr) -> Option<&'c [u8]> {
        if self.is_only(key) { self.octets(key) } else { None }
    }

    /// Returns the first parameter with each of these keys, in one pass, and true if no other parameter is present.
    #[inline(always)]
    pub(crate) fn find_all<const N: usize>(self, keys: [&CStr; N]) -> ([ParamValue<'c>; N], bool) {
        let (mut values, mut is_complete) = ([ParamValue(None); N], true);
        let mut at = self.first;
        // SAFETY: as `new` requires.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                match keys.iter().position(|key| key_equals((*at).key, key)) {
                    Some(index) => values[index] = ParamValue(values[index].0.or(Some(&*at))),
                    None => is_complete = false,
                }
                at = at.add(1);
            }
        }
        (values, is_complete)
    }

    pub(crate) fn has_repeated(self) -> bool {
        let mut at = self.first;
        // SAFETY: as `new` requires.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                if find(at.add(1), CStr::from_ptr((*at).key)).is_some() {
                    return true;
                }
                at = at.add(1);
            }
        }
        false
    }

    /// Returns the bytes of an octet string.
    pub(crate) fn octets(self, key: &CStr) -> Option<&'c [u8]> {
        ParamValue(self.find(key)).octets()
    }

    /// Returns the bytes of a string.
    pub(crate) fn text(self, key: &CStr) -> Option<&'c [u8]> {
        ParamValue(self.find(key)).text()
    }

    pub(crate) fn has(self, key: &CStr) -> bool {
        self.find(key).is_some()
    }

    /// Returns a number of any size, if it fits.
    pub(crate) fn number(self, key: &CStr) -> Option<usize> {
        ParamValue(self.find(key)).number()
    }
}

impl<'c> ParamValue<'c> {
    pub(crate) fn is_present(self) -> bool {
        self.0.is_some()
    }

    /// Returns the bytes of an octet string.
    pub(crate) fn octets(self) -> Option<&'c [u8]> {
        self.bytes(abi::OSSL_PARAM_OCTET_STRING)
    }

    /// Returns the bytes of an octet string. An empty parameter may have any type and pointer.
    pub(crate) fn octets_or_none(self) -> Option<&'c [u8]> {
        if self.is_empty() { Some(&[]) } else { self.octets() }
    }

    /// Returns true if the parameter is present and has no bytes.
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_some_and(|param| param.data_size == 0)
    }

    /// Returns the bytes of a string, without the NUL.
    pub(crate) fn text(self) -> Option<&'c [u8]> {
        // The size may or may not include the NUL.
        self.bytes(abi::OSSL_PARAM_UTF8_STRING)?.split(|byte| *byte == 0).next()
    }

    /// Returns a number of any size, if it fits.
    pub(crate) fn number(self) -> Option<usize> {
        let param = self.0?;
        let kind = param.data_type.cast_signed();
        if param.data.is_null() {
            return None;
        }
        if !(kind == abi::OSSL_PARAM_UNSIGNED_INTEGER || kind == abi::OSSL_PARAM_INTEGER) {
            let is_real = kind == abi::OSSL_PARAM_REAL && param.data_size == size_of::<f64>();
            // SAFETY: the call: the data of a number has the given size; it need not be aligned.
            return if is_real { whole_number(unsafe { param.data.cast::<f64>().read_unaligned() }) } else { None };
        }
        // SAFETY: the call: the data of a number has the given size; it need not be aligned.
        unsafe {
            match param.data_size {
                4 => usize::try_from(param.data.cast::<u32>().read_unaligned()).ok(),
                8 => usize::try_from(param.data.cast::<u64>().read_unaligned()).ok(),
                size if isize::try_from(size).is_ok() => parse_number(slice::from_raw_parts(param.data.cast(), size)),
                _ => None,
            }
        }
    }

    fn bytes(self, kind: i32) -> Option<&'c [u8]> {
        let param = self.0?;
        let is_valid = param.data_type == kind.cast_unsigned()
            && !param.data.is_null()
            // For some keys a size of -1 means the default size.
            && isize::try_from(param.data_size).is_ok();
        // SAFETY: the call: the data of a string has the given size.
        is_valid.then(|| unsafe { slice::from_raw_parts(param.data.cast(), param.data_size) })
    }
}

impl ParamQuery<'_> {
    /// # Safety
    ///
    /// The call: null, or a terminated table whose data can be written.
    pub(crate) unsafe fn new(first: *mut Param) -> Self {
        Self { first, call: PhantomData }
    }

    pub(crate) fn reborrow(&mut self) -> ParamQuery<'_> {
        ParamQuery { first: self.first, call: PhantomData }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut Param {
        self.first
    }

    /// Answers the query if it is for `key` alone, as a `size_t`. Returns false otherwise.
    #[inline(always)]
    pub(crate) fn answer_number(&mut self, key: &CStr, value: usize) -> bool {
        // SAFETY: as `new` requires.
        unsafe {
            let first = self.first;
            if !is_only(first, key) {
                return false;
            }
            let fits = (*first).data_size == size_of::<usize>() && !(*first).data.is_null();
            let fits = fits && (*first).data_type == abi::OSSL_PARAM_UNSIGNED_INTEGER as u32;
            if fits {
                (*first).data.cast::<usize>().write_unaligned(value);
                (*first).return_size = size_of::<usize>();
            }
            fits
        }
    }

    /// Answers the query, if it is for `key` alone, with as many bytes of `value` as requested. Returns false otherwise.
    #[inline(always)]
    pub(crate) fn answer_octets(&mut self, key: &CStr, value: &[u8]) -> bool {
        // SAFETY: as `new` requires.
        unsafe { is_only(self.first, key) && fill(&mut *self.first, value) }
    }

    pub(crate) fn has(&self, key: &CStr) -> bool {
        // SAFETY: as `new` requires.
        unsafe { find(self.first, key) }.is_some()
    }

    /// Writes `value`, if `key` is queried, as an integer of the size of a C `int`. Returns false if the query is for another type.
    pub(crate) fn put_number(&mut self, key: &CStr, value: u16) -> bool {
        // SAFETY: as `new` requires.
        let Some(param) = (unsafe { find_mut(self.first, key) }) else { return true };
        let kind = param.data_type.cast_signed();
        param.return_size = size_of::<i32>();
        if param.data.is_null() {
            return true;
        }
        let fits = param.data_size == size_of::<i32>()
            && (kind == abi::OSSL_PARAM_INTEGER || kind == abi::OSSL_PARAM_UNSIGNED_INTEGER);
        if fits {
            // SAFETY: as `new` requires; it need not be aligned.
            unsafe { param.data.cast::<i32>().write_unaligned(value.into()) };
        }
        fits
    }

    /// Writes `value`, if `key` is queried. Without a buffer, the query is for its length. Returns false if the buffer is too short.
    pub(crate) fn put_octets(&mut self, key: &CStr, value: &[u8]) -> bool {
        // SAFETY: as `new` requires.
        let Some(param) = (unsafe { find_mut(self.first, key) }) else { return true };
        param.return_size = value.len();
        if param.data.is_null() {
            return true;
        }
        let fits = param.data_type.cast_signed() == abi::OSSL_PARAM_OCTET_STRING && param.data_size >= value.len();
        if fits {
            // SAFETY: as `new` requires: there is room for `data_size` bytes.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), param.data.cast(), value.len()) };
        }
        fits
    }

    /// Returns true if the query is for `key` alone.
    #[inline(always)]
    pub(crate) fn is_only(&self, key: &CStr) -> bool {
        // SAFETY: as `new` requires.
        unsafe { is_only(self.first, key) }
    }

    /// Answers `key` with as many bytes of `value` as requested. The other parameters, and a request for no bytes or too many, go to
    /// `others`, one by one. Returns 1 if all were answered.
    pub(crate) fn answer(&mut self, key: &CStr, value: &[u8], mut others: impl FnMut(ParamQuery<'_>) -> i32) -> i32 {
        let mut at = self.first;
        // SAFETY: as `new` requires: entries before the terminator are valid, and their data has room for `data_size` bytes.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                if !key_equals((*at).key, key) || !fill(&mut *at, value) {
                    let single = Param { key: (*at).key, return_size: (*at).return_size, ..copy_param(&*at) };
                    let mut pair = [single, end()];
                    if others(ParamQuery::new(pair.as_mut_ptr())) != 1 {
                        return 0;
                    }
                    (*at).return_size = pair[0].return_size;
                }
                at = at.add(1);
            }
        }
        1
    }

    /// Replaces the default provider's answer for `key` by `value`, which lives in the context: its bytes, or a pointer to them.
    pub(crate) fn overwrite(&mut self, key: &CStr, value: &[u8]) {
        // SAFETY: as `new` requires.
        let Some(param) = (unsafe { find(self.first, key) }) else { return };
        if param.data.is_null() {
            return;
        }
        // SAFETY: as `new` requires: there is room for `data_size` bytes, or for a pointer.
        unsafe {
            match param.data_type.cast_signed() {
                abi::OSSL_PARAM_OCTET_STRING => {
                    ptr::copy_nonoverlapping(value.as_ptr(), param.data.cast(), value.len().min(param.data_size));
                }
                abi::OSSL_PARAM_OCTET_PTR => param.data.cast::<*const u8>().write(value.as_ptr()),
                _ => {}
            }
        }
    }
}

/// Returns the native-endian integer in `bytes`, if it fits.
#[cold]
fn parse_number(bytes: &[u8]) -> Option<usize> {
    let add = |number: usize, byte: &u8| Some(number.checked_mul(256)? | usize::from(*byte));
    if cfg!(target_endian = "big") { bytes.iter().try_fold(0, add) } else { bytes.iter().rev().try_fold(0, add) }
}

/// Returns the number, if it is whole and fits into 32 bits; OpenSSL accepts such numbers too.
#[cold]
fn whole_number(real: f64) -> Option<usize> {
    let is_whole = (0.0..=f64::from(u32::MAX)).contains(&real) && real.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its range is checked above")]
    is_whole.then_some(real as usize)
}

/// Returns the answer of `query` for `key`, if it has `N` bytes.
pub(crate) fn octets<const N: usize>(key: &CStr, query: impl FnOnce(*mut Param) -> i32) -> Option<[u8; N]> {
    let mut value = [0; N];
    let data: *mut c_void = (&raw mut value).cast();
    let data_type = abi::OSSL_PARAM_OCTET_STRING as u32;
    let mut params = [Param { key: key.as_ptr(), data_type, data, data_size: N, return_size: usize::MAX }, end()];
    // Some answers do not set the length.
    (query(params.as_mut_ptr()) == 1 && [N, usize::MAX].contains(&params[0].return_size)).then_some(value)
}

/// As [`octets`], but queries a pointer: OpenSSL 3.5's block ciphers answer a query for a string, but leave an error on the stack.
pub(crate) fn octets_by_pointer<const N: usize>(key: &CStr, query: impl FnOnce(*mut Param) -> i32) -> Option<[u8; N]> {
    let mut at: *const [u8; N] = ptr::null();
    let data: *mut c_void = (&raw mut at).cast();
    let data_type = abi::OSSL_PARAM_OCTET_PTR as u32;
    let mut params = [Param { key: key.as_ptr(), data_type, data, data_size: N, return_size: usize::MAX }, end()];
    let is_valid = query(params.as_mut_ptr()) == 1 && params[0].return_size == N && !at.is_null();
    // SAFETY: the default provider: the bytes are in its context, and stay there until the next call.
    is_valid.then(|| unsafe { at.read() })
}

fn copy_param(param: &Param) -> Param {
    Param { key: param.key, data_type: param.data_type, data: param.data, data_size: param.data_size, return_size: 0 }
}

pub(crate) const fn end() -> Param {
    Param { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 }
}

/// Writes as many bytes of `value` as requested. Returns false for a parameter of another type, and for a request for no bytes or too many.
///
/// # Safety
///
/// The parameter's data has room for `data_size` bytes.
unsafe fn fill(param: &mut Param, value: &[u8]) -> bool {
    if param.data_type.cast_signed() != abi::OSSL_PARAM_OCTET_STRING || param.data.is_null() {
        return false;
    }
    let Some(value) = value.get(..param.data_size).filter(|value| !value.is_empty()) else { return false };
    // SAFETY: as the caller promises.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), param.data.cast(), value.len()) };
    param.return_size = value.len();
    true
}

/// Returns true if the table has no parameters.
///
/// # Safety
///
/// The call: null, or a terminated table.
pub(crate) unsafe fn is_empty(params: *const Param) -> bool {
    // SAFETY: as the caller promises.
    params.is_null() || unsafe { (*params).key.is_null() }
}

/// Returns true if a table's key equals `key`. Inlined: tables are short and searched often.
///
/// # Safety
///
/// `found` is a string.
#[inline(always)]
pub(crate) unsafe fn key_equals(found: *const c_char, key: &CStr) -> bool {
    // SAFETY: both end with a NUL, and nothing is read after the first difference.
    key.to_bytes_with_nul().iter().enumerate().all(|(at, byte)| unsafe { *found.add(at).cast::<u8>() } == *byte)
}

/// Returns true if a table has this key and no other.
///
/// # Safety
///
/// Null, or a terminated table.
#[inline(always)]
unsafe fn is_only(first: *const Param, key: &CStr) -> bool {
    // SAFETY: as the caller promises; there is a second entry, because the first one is not the terminator.
    unsafe {
        !first.is_null() && !(*first).key.is_null() && key_equals((*first).key, key) && (*first.add(1)).key.is_null()
    }
}

/// # Safety
///
/// Null, or a terminated table, valid for `'c`, without other users.
pub(crate) unsafe fn find_mut<'c>(mut at: *mut Param, key: &CStr) -> Option<&'c mut Param> {
    // SAFETY: as the caller promises.
    unsafe {
        while !at.is_null() && !(*at).key.is_null() {
            if key_equals((*at).key, key) {
                return Some(&mut *at);
            }
            at = at.add(1);
        }
    }
    None
}

/// # Safety
///
/// Null, or a terminated table, valid for `'c`.
unsafe fn find<'c>(mut at: *const Param, key: &CStr) -> Option<&'c Param> {
    // SAFETY: as the caller promises.
    unsafe {
        while !at.is_null() && !(*at).key.is_null() {
            if key_equals((*at).key, key) {
                return Some(&*at);
            }
            at = at.add(1);
        }
    }
    None
}
