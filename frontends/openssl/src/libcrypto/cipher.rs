//! Cipher contexts of the default provider: those behind a program's cipher contexts, and those that Gantry makes for itself. The `SAFETY`
//! comments name the promises of [`super`]: the call's, the default provider's, and ours.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use gantry_core::driver::Buffers;

use super::context::DefaultProviderCtx;
use super::default::DefaultProvider;
use super::functions::{CipherFns, Functions, OperationFns as _};
use super::io::{CipherCall, Io};
use super::params::{self, ParamQuery};
use crate::abi::Param;

/// A cipher context of the default provider, and its functions.
pub(crate) type DefaultProviderCipherCtx = DefaultProviderCtx<CipherFns>;

impl DefaultProviderCipherCtx {
    /// Forwards a call that passes data, with its arguments unchanged.
    pub(crate) fn forward(&self, call: CipherCall, io: &mut Io<'_>) -> c_int {
        let function = match call {
            CipherCall::Update => Some(self.functions().update),
            CipherCall::Cipher => self.functions().cipher,
        };
        let (output, written, room, input, length) = io.parts();
        // SAFETY: the default provider, with the call's arguments.
        function.map_or(0, |function| unsafe { function(self.as_ptr(), output, written, room, input, length) })
    }

    pub(crate) fn finish(&self, io: &mut Io<'_>) -> c_int {
        let (output, written, room, ..) = io.parts();
        // SAFETY: the default provider, with the call's arguments.
        self.functions().finish.map_or(0, |finish| unsafe { finish(self.as_ptr(), output, written, room) })
    }

    /// Passes associated data that we hold. The default provider requires output room of the same length, although it writes nothing.
    pub(crate) fn update_aad(&self, data: &[u8]) -> c_int {
        let mut written = 0;
        let (input, length) = (data.as_ptr(), data.len());
        // SAFETY: the default provider, with a slice to read.
        unsafe { (self.functions().update)(self.as_ptr(), ptr::null_mut(), &raw mut written, length, input, length) }
    }

    /// Makes the default provider forget the header of a TLS record (GCM) that a device has processed. Passes an empty record: the default
    /// provider refuses it, and forgets the header.
    pub(crate) fn drop_record_header(&self) {
        let (mut unused, mut written) = ([0_u8; 1], 0);
        let pointer = unused.as_mut_ptr();
        if let Some(cipher) = self.functions().cipher {
            // SAFETY: the default provider, with an input and an output of no bytes.
            unsafe { cipher(self.as_ptr(), pointer, &raw mut written, 0, pointer, 0) };
        }
    }

    /// Sets another IV or nonce under the same key.
    pub(crate) fn set_iv(&self, encrypt: bool, iv: &[u8]) -> c_int {
        let init = self.functions().init(encrypt);
        let (iv, length) = (iv.as_ptr(), iv.len());
        // SAFETY: the default provider, with a slice to read and no parameters.
        init.map_or(0, |init| unsafe { init(self.as_ptr(), ptr::null(), 0, iv, length, ptr::null()) })
    }

    pub(crate) fn query_params(&self, mut query: ParamQuery<'_>) -> c_int {
        // SAFETY: the call's table.
        unsafe { self.get_params(query.as_mut_ptr()) }
    }

    /// Returns a parameter of `N` bytes.
    pub(crate) fn octets<const N: usize>(&self, key: &CStr) -> Option<[u8; N]> {
        // SAFETY: a terminated table.
        params::octets(key, |table| unsafe { self.get_params(table) })
    }

    /// Returns the chaining value of a block cipher.
    pub(crate) fn chaining_value<const N: usize>(&self) -> Option<[u8; N]> {
        // SAFETY: a terminated table.
        params::octets_by_pointer(c"updated-iv", |table| unsafe { self.get_params(table) })
    }
}

/// Makes private contexts of one cipher of the default provider, for the device that represents the default provider.
#[derive(Clone, Copy)]
pub(crate) struct DefaultProviderCipher {
    provctx: *mut c_void,
    default_provider: *const DefaultProvider,
    functions: *const CipherFns,
}

// SAFETY: the default provider: contexts may be made and used on any thread.
unsafe impl Send for DefaultProviderCipher {}
// SAFETY: as above; a reference never changes the cipher.
unsafe impl Sync for DefaultProviderCipher {}

impl DefaultProviderCipher {
    /// Returns `None` if `functions` are not those of a cipher, or if the default provider is not active. Gantry's provider must own both
    /// arguments, and outlive the result.
    pub(crate) fn new(default_provider: &DefaultProvider, functions: &Functions) -> Option<Self> {
        let provctx = default_provider.provctx();
        let functions = CipherFns::select(functions).filter(|_| !provctx.is_null())?;
        Some(Self { provctx, default_provider, functions })
    }

    pub(crate) fn new_context(&self) -> Option<PrivateCipherCtx> {
        // SAFETY: the default provider: the context has no other owner; ours: Gantry's provider owns the functions, and outlives the
        // context.
        let ctx = unsafe { DefaultProviderCipherCtx::new(self.provctx, self.functions, CipherFns::call_newctx) };
        ctx.map(|ctx| PrivateCipherCtx { ctx, nonce_len: None })
    }

    /// Runs `body`, work of Gantry's own, and removes the errors that it leaves on the error stack.
    pub(crate) fn discarding_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        // SAFETY: ours: Gantry's provider owns it, and outlives its framework.
        unsafe { &*self.default_provider }.discarding_errors(body)
    }
}

/// A cipher context of the default provider that only we use.
pub(crate) struct PrivateCipherCtx {
    ctx: DefaultProviderCipherCtx,
    nonce_len: Option<usize>,
}

impl PrivateCipherCtx {
    pub(crate) fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> bool {
        let functions = self.ctx.functions();
        let init = functions.init(encrypt);
        let pointer_and_len =
            |slice: Option<&[u8]>| slice.map_or((ptr::null(), 0), |slice| (slice.as_ptr(), slice.len()));
        let ((key, key_len), (iv, iv_len)) = (pointer_and_len(key), pointer_and_len(iv));
        // SAFETY: the default provider, with readable slices and no parameters.
        init.is_some_and(|init| unsafe { init(self.ctx.as_ptr(), key, key_len, iv, iv_len, ptr::null()) == 1 })
    }

    /// Processes all data in one call, without padding.
    pub(crate) fn process_whole(&mut self, data: Buffers<'_>) -> bool {
        self.process(CipherCall::Cipher, data)
    }

    pub(crate) fn update(&mut self, data: Buffers<'_>) -> bool {
        self.process(CipherCall::Update, data)
    }

    fn process(&mut self, call: CipherCall, mut data: Buffers<'_>) -> bool {
        let (input, length) = (data.input().as_ptr(), data.len());
        let (output, mut written) = (data.output().as_mut_ptr(), 0);
        // In place, the read pointer must be derived from the write pointer.
        let input = if input == output.cast_const() { output.cast_const() } else { input };
        // SAFETY: both have this length, and are borrowed for this call.
        let mut io = unsafe { Io::new(output, &raw mut written, length, input, length) };
        // An empty update may change the state. An empty `EVP_Cipher` changes it only after a TLS header, which these contexts never have.
        (length == 0 && call == CipherCall::Cipher) || self.ctx.forward(call, &mut io) == 1
    }

    pub(crate) fn update_aad(&mut self, aad: &[u8]) -> bool {
        aad.is_empty() || self.ctx.update_aad(aad) == 1
    }

    pub(crate) fn finish(&mut self) -> bool {
        let (mut block, mut written) = ([0; 16], 0);
        // SAFETY: a local buffer, for this call.
        let mut io = unsafe { Io::new(block.as_mut_ptr(), &raw mut written, block.len(), ptr::null(), 0) };
        self.ctx.finish(&mut io) == 1
    }

    /// Copies the tag to `tag`, after sealing.
    pub(crate) fn read_tag(&mut self, tag: &mut [u8]) -> bool {
        let mut table = [Param::octets(c"tag", tag.as_mut_ptr().cast(), tag.len()), params::end()];
        // SAFETY: a terminated table, whose data has room.
        unsafe { self.ctx.get_params(table.as_mut_ptr()) == 1 }
    }

    /// Sets the tag before opening.
    pub(crate) fn set_tag(&mut self, tag: &[u8]) -> bool {
        self.set_param(Param::octets(c"tag", tag.as_ptr().cast_mut().cast(), tag.len()))
    }

    pub(crate) fn set_nonce_len(&mut self, mut bytes: usize) -> bool {
        if self.nonce_len == Some(bytes) {
            return true;
        }
        // Recorded even if setting fails, because callers drop a context that has failed.
        self.nonce_len = Some(bytes);
        let data: *mut c_void = (&raw mut bytes).cast();
        let data_type = crate::abi::OSSL_PARAM_UNSIGNED_INTEGER as u32;
        self.set_param(Param { data_type, ..Param::octets(c"ivlen", data, size_of::<usize>()) })
    }

    fn set_param(&mut self, param: Param) -> bool {
        let table = [param, params::end()];
        // SAFETY: a terminated table.
        unsafe { self.ctx.set_params(table.as_ptr()) == 1 }
    }
}
