//! Tables of parameters, which end with a null key.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

use crate::abi::{self, Param};

/// Parameters that somebody sets: read only.
#[derive(Clone, Copy)]
pub(crate) struct Answers<'c> {
    first: *const Param,
    call: PhantomData<&'c Param>,
}

/// What is told of one key, if anything.
#[derive(Clone, Copy, Default)]
pub(crate) struct Answer<'c>(Option<&'c Param>);

/// Parameters that somebody asks for.
pub(crate) struct Questions<'c> {
    first: *mut Param,
    call: PhantomData<&'c mut Param>,
}

impl<'c> Answers<'c> {
    /// # Safety
    ///
    /// The call: null, or a table with its end.
    pub(super) unsafe fn new(first: *const Param) -> Self {
        Self { first, call: PhantomData }
    }

    fn find(self, key: &CStr) -> Option<&'c Param> {
        // SAFETY: as `new` demands.
        unsafe { find(self.first, key) }
    }

    /// Whether `key` is told and nothing else.
    #[inline(always)]
    pub(crate) fn is_only(self, key: &CStr) -> bool {
        // SAFETY: as `new` demands.
        unsafe { is_only(self.first, key) }
    }

    /// The bytes of `key`, when nothing else is told.
    #[inline(always)]
    pub(super) fn only_octets(self, key: &CStr) -> Option<&'c [u8]> {
        if self.is_only(key) { self.octets(key) } else { None }
    }

    /// What is told of each of these keys, with one look at everything, and whether there is nothing else.
    #[inline(always)]
    pub(crate) fn of<const N: usize>(self, keys: [&CStr; N]) -> ([Answer<'c>; N], bool) {
        let (mut answers, mut is_all) = ([Answer(None); N], true);
        let mut at = self.first;
        // SAFETY: as `new` demands.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                match keys.iter().position(|key| same((*at).key, key)) {
                    Some(place) => answers[place] = Answer(answers[place].0.or(Some(&*at))),
                    None => is_all = false,
                }
                at = at.add(1);
            }
        }
        (answers, is_all)
    }

    /// Whether a key is told more than once.
    pub(crate) fn has_repeated(self) -> bool {
        let mut at = self.first;
        // SAFETY: as `new` demands.
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

    /// Bytes, as whose type they are given.
    pub(crate) fn octets(self, key: &CStr) -> Option<&'c [u8]> {
        Answer(self.find(key)).octets()
    }

    /// A string.
    pub(crate) fn text(self, key: &CStr) -> Option<&'c [u8]> {
        Answer(self.find(key)).text()
    }

    pub(crate) fn has(self, key: &CStr) -> bool {
        self.find(key).is_some()
    }

    /// A number of any size, if it fits.
    pub(crate) fn number(self, key: &CStr) -> Option<usize> {
        Answer(self.find(key)).number()
    }
}

impl<'c> Answer<'c> {
    pub(crate) fn is_there(self) -> bool {
        self.0.is_some()
    }

    /// Bytes, as whose type they are given.
    pub(crate) fn octets(self) -> Option<&'c [u8]> {
        self.bytes(abi::OSSL_PARAM_OCTET_STRING)
    }

    /// Bytes, or none where nobody looks at the type and the place of none.
    pub(crate) fn octets_or_none(self) -> Option<&'c [u8]> {
        if self.is_empty() { Some(&[]) } else { self.octets() }
    }

    /// Whether there is something of no bytes.
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_some_and(|param| param.data_size == 0)
    }

    /// A string, without its end.
    pub(crate) fn text(self) -> Option<&'c [u8]> {
        // The zero at its end is not always counted.
        self.bytes(abi::OSSL_PARAM_UTF8_STRING)?.split(|byte| *byte == 0).next()
    }

    /// A number of any size, if it fits.
    pub(crate) fn number(self) -> Option<usize> {
        let param = self.0?;
        let kind = param.data_type.cast_signed();
        if param.data.is_null() {
            return None;
        }
        if !(kind == abi::OSSL_PARAM_UNSIGNED_INTEGER || kind == abi::OSSL_PARAM_INTEGER) {
            let is_real = kind == abi::OSSL_PARAM_REAL && param.data_size == size_of::<f64>();
            // SAFETY: the call: the data of a number has the size that is said; it need not be aligned.
            return if is_real { whole(unsafe { param.data.cast::<f64>().read_unaligned() }) } else { None };
        }
        // SAFETY: the call: the data of a number has the size that is said; it need not be aligned.
        unsafe {
            match param.data_size {
                4 => usize::try_from(param.data.cast::<u32>().read_unaligned()).ok(),
                8 => usize::try_from(param.data.cast::<u64>().read_unaligned()).ok(),
                size if isize::try_from(size).is_ok() => number_in(slice::from_raw_parts(param.data.cast(), size)),
                _ => None,
            }
        }
    }

    fn bytes(self, kind: i32) -> Option<&'c [u8]> {
        let param = self.0?;
        let good = param.data_type == kind.cast_unsigned()
            && !param.data.is_null()
            // There are keys with which a size of -1 means the usual one.
            && isize::try_from(param.data_size).is_ok();
        // SAFETY: the call: the data of a string has the size that is said.
        good.then(|| unsafe { slice::from_raw_parts(param.data.cast(), param.data_size) })
    }
}

impl Questions<'_> {
    /// # Safety
    ///
    /// The call: null, or a table with its end, whose data can be written.
    pub(super) unsafe fn new(first: *mut Param) -> Self {
        Self { first, call: PhantomData }
    }

    /// The same ones for a shorter time.
    pub(crate) fn again(&mut self) -> Questions<'_> {
        Questions { first: self.first, call: PhantomData }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut Param {
        self.first
    }

    /// Answers at once when nothing but `key` is asked for, and a `size_t` is wanted.
    #[inline(always)]
    pub(super) fn only_number(&mut self, key: &CStr, value: usize) -> bool {
        // SAFETY: as `new` demands.
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

    /// Answers `key`, when nothing else is asked for, with the beginning of `value`, as much as is asked for.
    #[inline(always)]
    pub(super) fn only_octets(&mut self, key: &CStr, value: &[u8]) -> bool {
        // SAFETY: as `new` demands.
        unsafe { is_only(self.first, key) && fill(&mut *self.first, value) }
    }

    pub(crate) fn has(&self, key: &CStr) -> bool {
        // SAFETY: as `new` demands.
        unsafe { find(self.first, key) }.is_some()
    }

    /// Whether nothing but `key` is asked for.
    #[inline(always)]
    pub(super) fn is_only(&self, key: &CStr) -> bool {
        // SAFETY: as `new` demands.
        unsafe { is_only(self.first, key) }
    }

    /// Answers `key` with the beginning of `value`, as much as is asked for, and the others through `others`, one by one.
    /// Gives 1 when all were answered.
    pub(crate) fn answer(&mut self, key: &CStr, value: &[u8], mut others: impl FnMut(Questions<'_>) -> i32) -> i32 {
        let mut at = self.first;
        // SAFETY: as `new` demands: entries up to the end are valid, and their data has room for `data_size`.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                if same((*at).key, key) {
                    if !fill(&mut *at, value) {
                        return 0;
                    }
                } else {
                    let alone = Param { key: (*at).key, return_size: (*at).return_size, ..copy(&*at) };
                    let mut pair = [alone, end()];
                    if others(Questions::new(pair.as_mut_ptr())) != 1 {
                        return 0;
                    }
                    (*at).return_size = pair[0].return_size;
                }
                at = at.add(1);
            }
        }
        1
    }

    /// Puts `value`, which lives in the context, in place of what the host answered for `key`: bytes, or where they are.
    pub(crate) fn overwrite(&mut self, key: &CStr, value: &[u8]) {
        // SAFETY: as `new` demands.
        let Some(param) = (unsafe { find(self.first, key) }) else { return };
        if param.data.is_null() {
            return;
        }
        // SAFETY: as `new` demands: there is room for `data_size` bytes, or for a pointer.
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

/// The number that so many bytes are, in the order of this machine, if it fits.
#[cold]
fn number_in(bytes: &[u8]) -> Option<usize> {
    let add = |number: usize, byte: &u8| Some(number.checked_mul(256)? | usize::from(*byte));
    if cfg!(target_endian = "big") { bytes.iter().try_fold(0, add) } else { bytes.iter().rev().try_fold(0, add) }
}

/// The same number, if it is whole: the host takes it then, up to 32 bits.
#[cold]
fn whole(real: f64) -> Option<usize> {
    let whole = (0.0..=f64::from(u32::MAX)).contains(&real) && real.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked at")]
    whole.then_some(real as usize)
}

/// What `ask` answers for `key`, if it is `N` bytes.
pub(super) fn octets<const N: usize>(key: &CStr, ask: impl FnOnce(*mut Param) -> i32) -> Option<[u8; N]> {
    let mut value = [0; N];
    let data: *mut c_void = (&raw mut value).cast();
    let data_type = abi::OSSL_PARAM_OCTET_STRING as u32;
    let mut params = [Param { key: key.as_ptr(), data_type, data, data_size: N, return_size: usize::MAX }, end()];
    // Some answers leave the length as it was.
    (ask(params.as_mut_ptr()) == 1 && [N, usize::MAX].contains(&params[0].return_size)).then_some(value)
}

/// The same, by a pointer to them: what OpenSSL 3.5's block ciphers are asked for as a string, they answer, but leave an error.
pub(super) fn octets_at<const N: usize>(key: &CStr, ask: impl FnOnce(*mut Param) -> i32) -> Option<[u8; N]> {
    let mut at: *const [u8; N] = ptr::null();
    let data: *mut c_void = (&raw mut at).cast();
    let data_type = abi::OSSL_PARAM_OCTET_PTR as u32;
    let mut params = [Param { key: key.as_ptr(), data_type, data, data_size: N, return_size: usize::MAX }, end()];
    let good = ask(params.as_mut_ptr()) == 1 && params[0].return_size == N && !at.is_null();
    // SAFETY: the host: so many bytes are in its context, and stay there until the next call.
    good.then(|| unsafe { at.read() })
}

fn copy(param: &Param) -> Param {
    Param { key: param.key, data_type: param.data_type, data: param.data, data_size: param.data_size, return_size: 0 }
}

pub(super) const fn end() -> Param {
    Param { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 }
}

/// # Safety
///
/// The parameter's data has room for `data_size` bytes.
unsafe fn fill(param: &mut Param, value: &[u8]) -> bool {
    if param.data_type.cast_signed() != abi::OSSL_PARAM_OCTET_STRING || param.data.is_null() {
        return false;
    }
    let Some(value) = value.get(..param.data_size) else { return false };
    // SAFETY: as the caller promises.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), param.data.cast(), value.len()) };
    param.return_size = value.len();
    true
}

/// Whether a key of a table is this one. Tables are short and asked for often: no call is made for it.
///
/// # Safety
///
/// A string.
#[inline(always)]
pub(super) unsafe fn same(found: *const c_char, key: &CStr) -> bool {
    // SAFETY: both end with a zero, and nothing is read behind the first difference.
    key.to_bytes_with_nul().iter().enumerate().all(|(at, byte)| unsafe { *found.add(at).cast::<u8>() } == *byte)
}

/// Whether a table has this key and no other.
///
/// # Safety
///
/// Null, or a table with its end.
#[inline(always)]
unsafe fn is_only(first: *const Param, key: &CStr) -> bool {
    // SAFETY: as the caller promises; the second entry is there, because the first one is not the end.
    unsafe { !first.is_null() && !(*first).key.is_null() && same((*first).key, key) && (*first.add(1)).key.is_null() }
}

/// # Safety
///
/// Null, or a table with its end, valid for `'c`, that nobody else uses.
pub(super) unsafe fn find_mut<'c>(mut at: *mut Param, key: &CStr) -> Option<&'c mut Param> {
    // SAFETY: as the caller promises.
    unsafe {
        while !at.is_null() && !(*at).key.is_null() {
            if same((*at).key, key) {
                return Some(&mut *at);
            }
            at = at.add(1);
        }
    }
    None
}

/// # Safety
///
/// Null, or a table with its end, valid for `'c`.
unsafe fn find<'c>(mut at: *const Param, key: &CStr) -> Option<&'c Param> {
    // SAFETY: as the caller promises.
    unsafe {
        while !at.is_null() && !(*at).key.is_null() {
            if same((*at).key, key) {
                return Some(&*at);
            }
            at = at.add(1);
        }
    }
    None
}
