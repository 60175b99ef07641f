//! Keys that Gantry makes in the host, and operations with these keys, for the device that represents the host.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::context::Host;
use super::default::DefaultProvider;
use super::functions::{ContextFns, ExchangeFns, Family, Functions, KeyFns, SignatureFns};
use super::params;
use crate::abi::{self, Param};

/// A key pair of the host that only we use.
pub(crate) struct HostKey {
    key: *mut c_void,
    functions: *const KeyFns,
}

// SAFETY: the host: a key is not bound to a thread.
unsafe impl Send for HostKey {}
// SAFETY: the host: several threads may use a key as long as none changes it.
unsafe impl Sync for HostKey {}

impl HostKey {
    /// Imports a raw private or public key into the host.
    fn new(provider_ctx: *mut c_void, functions: &KeyFns, raw: &[u8], is_private: bool) -> Option<Self> {
        let (name, selection) = if is_private {
            (c"priv", abi::OSSL_KEYMGMT_SELECT_KEYPAIR)
        } else {
            (c"pub", abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY)
        };
        let table = [Param::octets(name, raw.as_ptr().cast_mut().cast(), raw.len()), params::end()];
        Self::import(provider_ctx, functions, selection, &table)
    }

    /// Imports a key from a terminated table.
    pub(super) fn import(
        provider_ctx: *mut c_void,
        functions: &KeyFns,
        selection: c_int,
        table: &[Param],
    ) -> Option<Self> {
        let (new, import) = (functions.new?, functions.import.filter(|_| !provider_ctx.is_null())?);
        // SAFETY: the host, with its own context; the key is new, and only ours.
        let this = unsafe { Self::from_raw(new(provider_ctx), functions) }?;
        // SAFETY: the host, with its own key and a terminated table.
        (unsafe { import(this.key, selection, table.as_ptr()) } == 1).then_some(this)
    }

    /// Takes a key of the host; `None` for null.
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

impl Drop for HostKey {
    fn drop(&mut self) {
        if let Some(free) = self.functions().free {
            // SAFETY: the host, with its own key, once.
            unsafe { free(self.key) };
        }
    }
}

/// The host's key type and its operation, for keys that Gantry makes.
#[derive(Clone, Copy)]
pub(crate) struct HostPair {
    default: *const DefaultProvider,
    keys: *const KeyFns,
    functions: *const Functions,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostPair {}
// SAFETY: as above; the key type is never changed through a reference.
unsafe impl Sync for HostPair {}

impl HostPair {
    /// The provider owns the arguments, and outlives this. Returns `None` if `keys` are not the functions of a key type.
    pub(crate) fn new(default: &DefaultProvider, keys: &Functions, functions: &Functions) -> Option<Self> {
        Some(Self { default, keys: KeyFns::select(keys)?, functions })
    }

    fn default(&self) -> &DefaultProvider {
        // SAFETY: ours: the provider owns it, and outlives its framework.
        unsafe { &*self.default }
    }

    /// Runs `body`, work of Gantry's own, and removes the errors that it leaves on the error stack.
    pub(crate) fn without_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        self.default().without_errors(body)
    }

    /// Imports a private key, or a public key alone.
    pub(crate) fn key(&self, raw: &[u8], is_private: bool) -> Option<HostKey> {
        HostKey::new(self.default().context(), self.key_functions(), raw, is_private)
    }

    pub(super) fn key_functions(&self) -> &KeyFns {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        unsafe { &*self.keys }
    }

    /// Returns the context of the default provider; `None` if there is none.
    pub(super) fn provider_ctx(&self) -> Option<*mut c_void> {
        Some(self.default().context()).filter(|context| !context.is_null())
    }

    /// Makes a context of the host with `begin`, which receives the host's provider context.
    fn context<F: ContextFns>(&self, begin: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>) -> Option<Host<F>> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        let functions = unsafe { &*self.functions };
        // SAFETY: as above; the host made the context for us.
        unsafe { Host::new(self.default().context(), F::select(functions)?, begin) }
    }

    pub(crate) fn sign(&self, key: &HostKey, input: &[u8], output: &mut [u8]) -> bool {
        let Some(host) = self.signature() else { return false };
        let SignatureFns { digest_sign_init: Some(init), digest_sign: Some(sign), .. } = host.functions() else {
            return false;
        };
        let mut written = 0;
        // SAFETY: the host, with its own context and key, a readable message and room for the signature.
        let good = unsafe {
            let (signature, room) = (output.as_mut_ptr(), output.len());
            init(host.context(), ptr::null(), key.as_ptr(), ptr::null()) == 1
                && sign(host.context(), signature, &raw mut written, room, input.as_ptr(), input.len()) == 1
        };
        good && written == output.len()
    }

    pub(crate) fn verify(&self, key: &HostKey, input: &[u8], signature: &[u8]) -> bool {
        let Some(host) = self.signature() else { return false };
        let SignatureFns { digest_verify_init: Some(init), digest_verify: Some(verify), .. } = host.functions() else {
            return false;
        };
        // SAFETY: the host, with its own context and key, a readable message and signature.
        unsafe {
            init(host.context(), ptr::null(), key.as_ptr(), ptr::null()) == 1
                && verify(host.context(), signature.as_ptr(), signature.len(), input.as_ptr(), input.len()) == 1
        }
    }

    fn signature(&self) -> Option<Host<SignatureFns>> {
        self.context(|functions: &SignatureFns, provider_ctx| {
            // SAFETY: the host, with its own context.
            functions.newctx.map(|newctx| unsafe { newctx(provider_ctx, ptr::null()) })
        })
    }

    /// Sets up an agreement on a secret.
    pub(crate) fn agreement(&self, key: &HostKey, peer: &HostKey) -> Option<Agreement> {
        let host = self.context(|functions: &ExchangeFns, provider_ctx| functions.begin(provider_ctx))?;
        let (init, set_peer) = (host.functions().init?, host.functions().set_peer?);
        // SAFETY: the host, with its own context and keys, to which it takes references.
        let good = unsafe {
            init(host.context(), key.as_ptr(), ptr::null()) == 1 && set_peer(host.context(), peer.as_ptr()) == 1
        };
        good.then_some(Agreement(host))
    }
}

/// Two keys, ready to derive their secret.
pub(crate) struct Agreement(Host<ExchangeFns>);

impl Agreement {
    pub(crate) fn derive(&self, output: &mut [u8]) -> bool {
        let Some(derive) = self.0.functions().derive else { return false };
        let mut written = 0;
        // SAFETY: the host, with its own context and room for the secret.
        let good = unsafe { derive(self.0.context(), output.as_mut_ptr(), &raw mut written, output.len()) } == 1;
        good && written == output.len()
    }
}
