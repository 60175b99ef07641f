//! Ciphers of the host: its functions, contexts that programs have, and contexts of our own.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use gantry_core::driver::Buffers;

use super::family::{self, Family as _};
use super::functions::CipherFns;
use super::params::{self, Questions};
use super::wrapped::Wrapped;
use super::{Io, Way};
use crate::abi::Param;

/// Asks the host for a context, with its own.
pub(super) fn begin(functions: &CipherFns, theirs: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the host, with its own context.
    functions.newctx.map(|newctx| unsafe { newctx(theirs) })
}

/// A context of the host, and its functions.
pub(crate) type Host = family::Host<CipherFns>;

impl Host {
    /// A call with data, as it came.
    pub(crate) fn data(&self, way: Way, io: &mut Io<'_>) -> c_int {
        let function = match way {
            Way::Update => Some(self.functions().update),
            Way::Cipher => self.functions().cipher,
        };
        let Io { output, written, room, input, length, .. } = *io;
        // SAFETY: the host, with what the call brought.
        function.map_or(0, |function| unsafe { function(self.context(), output, written, room, input, length) })
    }

    /// The end of a message.
    pub(crate) fn finish(&self, io: &mut Io<'_>) -> c_int {
        let Io { output, written, room, .. } = *io;
        // SAFETY: the host, with what the call brought.
        self.functions().finish.map_or(0, |finish| unsafe { finish(self.context(), output, written, room) })
    }

    /// Associated data of ours. The host wants room for as much, although it writes nothing.
    pub(crate) fn associated(&self, data: &[u8]) -> c_int {
        let mut written = 0;
        let (at, length) = (data.as_ptr(), data.len());
        // SAFETY: the host, with a slice to read.
        unsafe { (self.functions().update)(self.context(), ptr::null_mut(), &raw mut written, length, at, length) }
    }

    /// GCM: a device has had the record whose header the host was told. A record that is too short is none, and done with it.
    pub(crate) fn end_record(&self) {
        let (mut nothing, mut written) = ([0_u8; 1], 0);
        let at = nothing.as_mut_ptr();
        if let Some(cipher) = self.functions().cipher {
            // SAFETY: the host, with a place for no bytes.
            unsafe { cipher(self.context(), at, &raw mut written, 0, at, 0) };
        }
    }

    /// Another nonce, under the same key.
    pub(crate) fn restart(&self, encrypt: bool, iv: &[u8]) -> c_int {
        let init = self.functions().init(encrypt);
        let (at, length) = (iv.as_ptr(), iv.len());
        // SAFETY: the host, with a slice to read and no parameters.
        init.map_or(0, |init| unsafe { init(self.context(), ptr::null(), 0, at, length, ptr::null()) })
    }

    /// What it says of itself.
    pub(crate) fn ask(&self, mut questions: Questions<'_>) -> c_int {
        // SAFETY: what the call brought.
        unsafe { self.get_params(questions.as_mut_ptr()) }
    }

    /// A parameter of `N` bytes.
    pub(crate) fn octets<const N: usize>(&self, key: &CStr) -> Option<[u8; N]> {
        // SAFETY: a table with its end.
        params::octets(key, |table| unsafe { self.get_params(table) })
    }

    /// The chain of a block cipher.
    pub(crate) fn chain<const N: usize>(&self) -> Option<[u8; N]> {
        // SAFETY: a table with its end.
        params::octets_at(c"updated-iv", |table| unsafe { self.get_params(table) })
    }
}

/// One algorithm of the host, for contexts that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostAlgorithm {
    theirs: *mut c_void,
    wrapped: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostAlgorithm {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostAlgorithm {}

impl HostAlgorithm {
    pub(super) fn new(wrapped: &Wrapped) -> Option<Self> {
        let theirs = wrapped.default_ctx();
        CipherFns::of(&wrapped.functions).filter(|_| !theirs.is_null())?;
        Some(Self { theirs, wrapped })
    }

    fn wrapped(&self) -> &Wrapped {
        // SAFETY: ours: the provider owns it, and outlives its framework.
        unsafe { &*self.wrapped }
    }

    pub(crate) fn context(&self) -> Option<HostContext> {
        let functions = CipherFns::of(&self.wrapped().functions)?;
        // SAFETY: the host made the context for us; ours: the provider owns the functions, and outlives its framework.
        unsafe { Host::new(self.theirs, functions, begin) }.map(|host| HostContext { host, nonce_len: None })
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(crate) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        self.wrapped().quietly(body)
    }
}

/// A context of the host that is ours alone.
pub(crate) struct HostContext {
    host: Host,
    /// The length of nonces, once it was set.
    nonce_len: Option<usize>,
}

impl HostContext {
    pub(crate) fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> bool {
        let functions = self.host.functions();
        let init = functions.init(encrypt);
        let parts = |slice: Option<&[u8]>| slice.map_or((ptr::null(), 0), |slice| (slice.as_ptr(), slice.len()));
        let ((key, key_len), (iv, iv_len)) = (parts(key), parts(iv));
        // SAFETY: the host, with slices to read and no parameters.
        init.is_some_and(|init| unsafe { init(self.host.context(), key, key_len, iv, iv_len, ptr::null()) == 1 })
    }

    /// All data in one call, without padding.
    pub(crate) fn whole(&mut self, data: Buffers<'_>) -> bool {
        self.data(Way::Cipher, data)
    }

    /// Some data.
    pub(crate) fn feed(&mut self, data: Buffers<'_>) -> bool {
        self.data(Way::Update, data)
    }

    fn data(&mut self, way: Way, mut data: Buffers<'_>) -> bool {
        let (input, length) = (data.input().as_ptr(), data.len());
        let (output, mut written) = (data.output().as_mut_ptr(), 0);
        // In place, the pointer for reading must come from the one for writing.
        let input = if input == output.cast_const() { output.cast_const() } else { input };
        // SAFETY: both are as long as each other, and borrowed for this call.
        let mut io = unsafe { Io::new(output, &raw mut written, length, input, length) };
        (length == 0 && way == Way::Cipher) || self.host.data(way, &mut io) == 1
    }

    pub(crate) fn associated(&mut self, aad: &[u8]) -> bool {
        aad.is_empty() || self.host.associated(aad) == 1
    }

    pub(crate) fn end(&mut self) -> bool {
        let (mut block, mut written) = ([0; 16], 0);
        // SAFETY: a place of its own, for this call.
        let mut io = unsafe { Io::new(block.as_mut_ptr(), &raw mut written, block.len(), ptr::null(), 0) };
        self.host.finish(&mut io) == 1
    }

    /// The tag of what was sealed.
    pub(crate) fn tag(&mut self, tag: &mut [u8]) -> bool {
        let mut table = [Param::octets(c"tag", tag.as_mut_ptr().cast(), tag.len()), params::end()];
        // SAFETY: a table with its end, whose data has room.
        unsafe { self.host.get_params(table.as_mut_ptr()) == 1 }
    }

    /// The tag of what will be opened.
    pub(crate) fn expect(&mut self, tag: &[u8]) -> bool {
        self.set(Param::octets(c"tag", tag.as_ptr().cast_mut().cast(), tag.len()))
    }

    pub(crate) fn nonce_length(&mut self, mut bytes: usize) -> bool {
        if self.nonce_len == Some(bytes) {
            return true;
        }
        self.nonce_len = Some(bytes);
        let data: *mut c_void = (&raw mut bytes).cast();
        let data_type = crate::abi::OSSL_PARAM_UNSIGNED_INTEGER as u32;
        self.set(Param { data_type, ..Param::octets(c"ivlen", data, size_of::<usize>()) })
    }

    fn set(&mut self, param: Param) -> bool {
        let table = [param, params::end()];
        // SAFETY: a table with its end.
        unsafe { self.host.set_params(table.as_ptr()) == 1 }
    }
}
