//! Keys of the host that no program made: those of the device that the host is.

use std::ffi::c_void;
use std::ptr;

use gantry_core::Algorithm;
use zeroize::Zeroizing;

use super::family::{Contexts, Host};
use super::keys::{EC, KeyFns, P256, RSA};
use super::params;
use super::rsa;
use super::wrapped::{Functions, Wrapped};
use crate::abi::{self, Param};
use crate::der;
use crate::table::Mode;

/// A key pair of the host that is ours alone.
pub(crate) struct HostKey {
    key: *mut c_void,
    functions: *const KeyFns,
}

// SAFETY: the host: a key belongs to no thread.
unsafe impl Send for HostKey {}
// SAFETY: the host: a key may be used by several threads as long as nobody changes it.
unsafe impl Sync for HostKey {}

impl HostKey {
    /// The host's key from a private or a public one.
    pub(super) fn new(wrapped: &Wrapped, raw: &[u8], is_private: bool) -> Option<Self> {
        let Functions::Keys(functions) = &wrapped.functions else { return None };
        let theirs = wrapped.default_ctx();
        let (new, import) = (functions.new?, functions.import.filter(|_| !theirs.is_null())?);
        // SAFETY: the host, with its own context.
        let key = unsafe { new(theirs) };
        let this = (!key.is_null()).then_some(Self { key, functions })?;
        if wrapped.row().name == RSA {
            // SAFETY: the host, with its own key and a table with its end.
            let import = |table| unsafe { import(this.key, abi::OSSL_KEYMGMT_SELECT_KEYPAIR, table) } == 1;
            return rsa::tell(raw, is_private, import).filter(|good| *good).map(|_| this);
        }
        let is_ec = wrapped.row().name == EC;
        let mut raw = Zeroizing::new(raw.to_vec());
        if is_ec && is_private && cfg!(target_endian = "little") {
            raw.reverse();
        }
        let (data, length) = (raw.as_mut_ptr().cast(), raw.len());
        let (name, mut selection) = if is_private {
            (c"priv", abi::OSSL_KEYMGMT_SELECT_KEYPAIR)
        } else {
            (c"pub", abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY)
        };
        let mut table = [Param::octets(name, data, length), params::end(), params::end()];
        if is_ec {
            selection |= abi::OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS;
            table[1] = Param::text(c"group", P256);
            if is_private {
                table[0] = Param::number(name, data, length);
            }
        }
        // SAFETY: the host, with its own key and a table with its end.
        (unsafe { import(this.key, selection, table.as_ptr()) } == 1).then_some(this)
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.key
    }
}

impl Drop for HostKey {
    fn drop(&mut self) {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        if let Some(free) = unsafe { (*self.functions).free } {
            // SAFETY: the host, with its own key, once.
            unsafe { free(self.key) };
        }
    }
}

/// The host's keys of one type and what it does with them, for keys that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostPair {
    theirs: *const Wrapped,
    keys: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostPair {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostPair {}

impl HostPair {
    pub(crate) fn new(theirs: &Wrapped) -> Option<Self> {
        Some(Self { theirs, keys: theirs.keys()? })
    }

    pub(crate) fn mode(&self) -> Mode {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        unsafe { (*self.theirs).row() }.mode
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(crate) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        unsafe { &*self.theirs }.quietly(body)
    }

    /// A private key, or one that is only public.
    pub(crate) fn key(&self, raw: &[u8], is_private: bool) -> Option<HostKey> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        HostKey::new(unsafe { &*self.keys }, raw, is_private)
    }

    /// A context of the host, from `begin`, which gets the host's own context.
    pub(super) fn context<F: Contexts>(
        &self,
        begin: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    ) -> Option<Host<F>> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        let wrapped = unsafe { &*self.theirs };
        // SAFETY: as above; the host made the context for us.
        unsafe { Host::new(wrapped.default_ctx(), F::of(&wrapped.functions)?, begin) }
    }
}

impl HostPair {
    /// A signature of a digest, for which no program asked.
    pub(super) fn sign_digest(&self, algorithm: Algorithm, key: &HostKey, digest: &[u8], output: &mut [u8]) -> bool {
        let Some(host) = self.signature() else { return false };
        let functions = host.functions();
        let Some((init, sign)) = functions.to_sign.init.zip(functions.sign) else { return false };
        let sign = |params, signature: &mut [u8]| {
            let (room, mut written) = (signature.len(), 0);
            // SAFETY: the host, with its own context and key, a digest to read and room for the signature.
            let good = unsafe {
                init(host.context(), key.as_ptr(), params) == 1
                    && sign(
                        host.context(),
                        signature.as_mut_ptr(),
                        &raw mut written,
                        room,
                        digest.as_ptr(),
                        digest.len(),
                    ) == 1
            };
            if good { written } else { 0 }
        };
        if self.mode() == Mode::Rsa {
            return rsa::like_devices(algorithm, digest.len(), |params| sign(params, output)) == output.len();
        }
        let mut der = [0; der::LONGEST];
        let written = sign(ptr::null(), &mut der);
        match der.get(..written).and_then(der::decode) {
            Some(both) if both.len() == output.len() => {
                output.copy_from_slice(&both);
                true
            }
            _ => false,
        }
    }

    pub(super) fn verify_digest(&self, algorithm: Algorithm, key: &HostKey, digest: &[u8], signature: &[u8]) -> bool {
        let Some(host) = self.signature() else { return false };
        let functions = host.functions();
        let Some((init, verify)) = functions.to_verify.init.zip(functions.verify) else { return false };
        let verify = |params, signature: &[u8]| {
            // SAFETY: the host, with its own context and key, a digest and a signature to read.
            unsafe {
                init(host.context(), key.as_ptr(), params) == 1
                    && verify(host.context(), signature.as_ptr(), signature.len(), digest.as_ptr(), digest.len()) == 1
            }
        };
        if self.mode() == Mode::Rsa {
            return rsa::like_devices(algorithm, digest.len(), |params| verify(params, signature));
        }
        let Ok(both) = signature.try_into() else { return false };
        let (der, length) = der::encode(both);
        verify(ptr::null(), &der[..length])
    }
}
