//! Key exchange on the host's curves, for the classical half of hybrid TLS groups.

use std::ffi::CStr;
use std::ptr;

use super::core::{Table, find};
use super::default::DefaultProvider;
use super::functions::{Functions, KeyFns};
use super::keys::{HostKey, HostPair};
use super::params;
use crate::abi::{self, Param};
use crate::groups::Curve;

/// The host's functions for keys and key exchange of a curve. The default provider keeps these functions as long as this value lives.
pub(crate) struct CurveFns {
    keys: Functions,
    exchange: Functions,
}

impl CurveFns {
    /// Returns `None` if the host does not have the curve.
    pub(crate) fn new(default: &DefaultProvider, curve: Curve) -> Option<Self> {
        let (keys, exchange) = curve.algorithms();
        let functions = |operation, name| {
            // SAFETY: the host: its own table.
            let row = unsafe { find(default.algorithms(operation)?, name) }?;
            // SAFETY: the host: the dispatch table of one of its algorithms.
            Some(Functions::new(operation, unsafe { Table::new(row.implementation) }))
        };
        let (keys, exchange) = (functions(abi::OSSL_OP_KEYMGMT, keys)?, functions(abi::OSSL_OP_KEYEXCH, exchange)?);
        Some(Self { keys, exchange })
    }

    /// Returns the operations of the curve. The provider owns the arguments, and outlives the result.
    pub(crate) fn pair(&self, default: &DefaultProvider) -> Option<HostPair> {
        HostPair::new(default, &self.keys, &self.exchange)
    }
}

impl HostPair {
    /// Returns true if the host has the curve, and not only keys of that type: builds leave some curves out.
    pub(crate) fn has(&self, curve: Curve) -> bool {
        let table = [Param::text(c"group", curve.group()), params::end()];
        let parameters = |provider_ctx| {
            HostKey::import(provider_ctx, self.key_functions(), abi::OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS, &table)
        };
        // X25519 is a type of its own.
        curve == Curve::X25519 || self.provider_ctx().and_then(parameters).is_some()
    }

    /// Generates a key pair.
    pub(crate) fn generate(&self, curve: Curve) -> Option<HostKey> {
        let functions = self.key_functions();
        let KeyFns { gen_init: Some(init), generate: Some(generate), gen_cleanup: Some(cleanup), .. } = functions
        else {
            return None;
        };
        let provider_ctx = self.provider_ctx()?;
        let table = [Param::text(c"group", curve.group()), params::end()];
        // SAFETY: the host, with its own contexts and a terminated table; the generator is freed once.
        unsafe {
            let generator = init(provider_ctx, abi::OSSL_KEYMGMT_SELECT_KEYPAIR, table.as_ptr());
            if generator.is_null() {
                return None;
            }
            let key = generate(generator, None, ptr::null_mut());
            cleanup(generator);
            HostKey::from_raw(key, functions)
        }
    }

    /// Imports a public key of a curve. The host refuses a point that is not on the curve.
    pub(crate) fn peer(&self, curve: Curve, public: &[u8]) -> Option<HostKey> {
        let table = [
            Param::text(c"group", curve.group()),
            Param::octets(c"pub", public.as_ptr().cast_mut().cast(), public.len()),
            params::end(),
        ];
        let selection = abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY | abi::OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS;
        HostKey::import(self.provider_ctx()?, self.key_functions(), selection, &table)
    }
}

impl HostKey {
    /// Writes the public key as TLS encodes it. Returns false unless the key fills `public`.
    pub(crate) fn encode(&self, public: &mut [u8]) -> bool {
        const KEY: &CStr = c"encoded-pub-key";
        let mut table = [Param::octets(KEY, public.as_mut_ptr().cast(), public.len()), params::end()];
        // SAFETY: the host, with its own key and a terminated table, whose data has room.
        let answered =
            self.functions().get_params.is_some_and(|get| unsafe { get(self.as_ptr(), table.as_mut_ptr()) } == 1);
        answered && table[0].return_size == public.len()
    }
}
