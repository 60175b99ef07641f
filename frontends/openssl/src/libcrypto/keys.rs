//! Keys that Gantry makes in the default provider, and operations with these keys, for the device that represents this provider.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::context::DefaultProviderCtx;
use super::default::DefaultProvider;
use super::functions::{ContextFns, ExchangeFns, Functions, KeyFns, OperationFns, SignatureFns};
use super::params;
use crate::abi::{self, Param};

/// A key or key pair of the default provider that only we use.
pub(crate) struct DefaultProviderKey {
    key: *mut c_void,
    functions: *const KeyFns,
}

// SAFETY: the default provider: a key is not bound to a thread.
unsafe impl Send for DefaultProviderKey {}
// SAFETY: the default provider: several threads may use a key as long as none changes it.
unsafe impl Sync for DefaultProviderKey {}

impl DefaultProviderKey {
    /// Imports a raw private or public key into the default provider.
    fn new(provctx: *mut c_void, functions: &KeyFns, raw: &[u8], is_private: bool) -> Option<Self> {
        let (name, selection) = if is_private {
            (c"priv", abi::OSSL_KEYMGMT_SELECT_KEYPAIR)
        } else {
            (c"pub", abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY)
        };
        let table = [Param::octets(name, raw.as_ptr().cast_mut().cast(), raw.len()), params::end()];
        Self::import(provctx, functions, selection, &table)
    }

    /// Imports a key from a terminated table.
    pub(super) fn import(provctx: *mut c_void, functions: &KeyFns, selection: c_int, table: &[Param]) -> Option<Self> {
        let (new, import) = (functions.new?, functions.import.filter(|_| !provctx.is_null())?);
        // SAFETY: the default provider, with its own context; the key is new, and only ours.
        let this = unsafe { Self::from_raw(new(provctx), functions) }?;
        // SAFETY: the default provider, with its own key and a terminated table.
        (unsafe { import(this.key, selection, table.as_ptr()) } == 1).then_some(this)
    }

    /// Takes ownership of a key of the default provider. Returns `None` for null.
    ///
    /// # Safety
    ///
    /// `key` is null, or a key with these functions that has no other owner; ours: the provider owns the functions, and outlives
    /// the result.
    pub(super) unsafe fn from_raw(key: *mut c_void, functions: &KeyFns) -> Option<Self> {
        (!key.is_null()).then_some(Self { key, functions })
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.key
    }

    pub(super) fn functions(&self) -> &KeyFns {
        // SAFETY: ours: the provider owns them, and outlives its keys.
        unsafe { &*self.functions }
    }
}

impl Drop for DefaultProviderKey {
    fn drop(&mut self) {
        if let Some(free) = self.functions().free {
            // SAFETY: the default provider, with its own key, once.
            unsafe { free(self.key) };
        }
    }
}

/// The default provider's key type and its operation, for keys that Gantry makes.
#[derive(Clone, Copy)]
pub(crate) struct DefaultProviderKeyAlgorithm {
    default_provider: *const DefaultProvider,
    keys: *const KeyFns,
    functions: *const Functions,
}

// SAFETY: the default provider: contexts may be made and used on any thread.
unsafe impl Send for DefaultProviderKeyAlgorithm {}
// SAFETY: as above; the key type is never changed through a reference.
unsafe impl Sync for DefaultProviderKeyAlgorithm {}

impl DefaultProviderKeyAlgorithm {
    /// The provider owns the arguments, and outlives this. Returns `None` if `keys` are not the functions of a key type.
    pub(crate) fn new(default_provider: &DefaultProvider, keys: &Functions, functions: &Functions) -> Option<Self> {
        Some(Self { default_provider, keys: KeyFns::select(keys)?, functions })
    }

    fn default_provider(&self) -> &DefaultProvider {
        // SAFETY: ours: the provider owns it, and outlives its framework.
        unsafe { &*self.default_provider }
    }

    /// Runs `body`, work of Gantry's own, and removes the errors that it leaves on the error stack.
    pub(crate) fn discarding_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        self.default_provider().discarding_errors(body)
    }

    /// Imports a private key, or a public key alone.
    pub(crate) fn import(&self, raw: &[u8], is_private: bool) -> Option<DefaultProviderKey> {
        DefaultProviderKey::new(self.default_provider().provctx(), self.key_functions(), raw, is_private)
    }

    pub(super) fn key_functions(&self) -> &KeyFns {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        unsafe { &*self.keys }
    }

    /// Returns the context of the default provider; `None` if there is none.
    pub(super) fn provctx(&self) -> Option<*mut c_void> {
        Some(self.default_provider().provctx()).filter(|context| !context.is_null())
    }

    /// Makes a context of the default provider with `newctx`, which receives its provider context.
    fn context<F: ContextFns>(
        &self,
        newctx: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    ) -> Option<DefaultProviderCtx<F>> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        let functions = unsafe { &*self.functions };
        // SAFETY: as above; the default provider made the context for us.
        unsafe { DefaultProviderCtx::new(self.default_provider().provctx(), F::select(functions)?, newctx) }
    }

    pub(crate) fn sign(&self, key: &DefaultProviderKey, input: &[u8], output: &mut [u8]) -> bool {
        let Some(ctx) = self.signature() else { return false };
        let SignatureFns { digest_sign_init: Some(init), digest_sign: Some(sign), .. } = ctx.functions() else {
            return false;
        };
        let mut written = 0;
        // SAFETY: the default provider, with its own context and key, a readable message and room for the signature.
        let good = unsafe {
            let (signature, room) = (output.as_mut_ptr(), output.len());
            init(ctx.as_ptr(), ptr::null(), key.as_ptr(), ptr::null()) == 1
                && sign(ctx.as_ptr(), signature, &raw mut written, room, input.as_ptr(), input.len()) == 1
        };
        good && written == output.len()
    }

    pub(crate) fn verify(&self, key: &DefaultProviderKey, input: &[u8], signature: &[u8]) -> bool {
        let Some(ctx) = self.signature() else { return false };
        let SignatureFns { digest_verify_init: Some(init), digest_verify: Some(verify), .. } = ctx.functions() else {
            return false;
        };
        // SAFETY: the default provider, with its own context and key, a readable message and signature.
        unsafe {
            init(ctx.as_ptr(), ptr::null(), key.as_ptr(), ptr::null()) == 1
                && verify(ctx.as_ptr(), signature.as_ptr(), signature.len(), input.as_ptr(), input.len()) == 1
        }
    }

    fn signature(&self) -> Option<DefaultProviderCtx<SignatureFns>> {
        self.context(|functions: &SignatureFns, provctx| {
            // SAFETY: the default provider, with its own context.
            functions.newctx.map(|newctx| unsafe { newctx(provctx, ptr::null()) })
        })
    }

    /// Sets up an agreement on a secret.
    pub(crate) fn agreement(&self, key: &DefaultProviderKey, peer: &DefaultProviderKey) -> Option<Agreement> {
        let ctx = self.context(|functions: &ExchangeFns, provctx| functions.call_newctx(provctx))?;
        let (init, set_peer) = (ctx.functions().init?, ctx.functions().set_peer?);
        // SAFETY: the default provider, with its own context and keys, to which it takes references.
        let good =
            unsafe { init(ctx.as_ptr(), key.as_ptr(), ptr::null()) == 1 && set_peer(ctx.as_ptr(), peer.as_ptr()) == 1 };
        good.then_some(Agreement(ctx))
    }
}

/// Two keys, ready to derive their secret.
pub(crate) struct Agreement(DefaultProviderCtx<ExchangeFns>);

impl Agreement {
    pub(crate) fn derive(&self, output: &mut [u8]) -> bool {
        let Some(derive) = self.0.functions().derive else { return false };
        let mut written = 0;
        // SAFETY: the default provider, with its own context and room for the secret.
        let good = unsafe { derive(self.0.as_ptr(), output.as_mut_ptr(), &raw mut written, output.len()) } == 1;
        good && written == output.len()
    }
}
