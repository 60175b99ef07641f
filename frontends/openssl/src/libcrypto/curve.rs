//! Key exchange on the default provider's curves, for the classical half of hybrid TLS groups.

use std::ffi::CStr;
use std::ptr;

use super::core::{DispatchTable, find_algorithm};
use super::default::DefaultProvider;
use super::functions::{Functions, KeyFns};
use super::keys::{DefaultProviderKey, DefaultProviderKeyAlgorithm};
use super::params;
use crate::abi::{self, Param};
use crate::groups::Curve;

/// The default provider's functions for keys and key exchange of a curve. The results of [`key_algorithm`](Self::key_algorithm) point to
/// these tables.
pub(crate) struct CurveFns {
    keys: Functions,
    exchange: Functions,
}

impl CurveFns {
    /// Returns `None` if the default provider does not have the curve.
    pub(crate) fn new(default_provider: &DefaultProvider, curve: Curve) -> Option<Self> {
        let (keys, exchange) = curve.algorithms();
        let functions = |operation, name| {
            // SAFETY: the default provider: its own table.
            let row = unsafe { find_algorithm(default_provider.algorithms(operation)?, name) }?;
            // SAFETY: the default provider: the dispatch table of one of its algorithms.
            Some(Functions::new(operation, unsafe { DispatchTable::new(row.implementation) }))
        };
        let (keys, exchange) = (functions(abi::OSSL_OP_KEYMGMT, keys)?, functions(abi::OSSL_OP_KEYEXCH, exchange)?);
        Some(Self { keys, exchange })
    }

    /// Returns the operations of the curve. The provider owns the arguments, and outlives the result.
    pub(crate) fn key_algorithm(&self, default_provider: &DefaultProvider) -> Option<DefaultProviderKeyAlgorithm> {
        DefaultProviderKeyAlgorithm::new(default_provider, &self.keys, &self.exchange)
    }
}

impl DefaultProviderKeyAlgorithm {
    /// Returns true if the default provider has the curve, and not only keys of that type: builds leave some curves out.
    pub(crate) fn has_curve(&self, curve: Curve) -> bool {
        let table = [Param::text(c"group", curve.group_name()), params::end()];
        let parameters = |provctx| {
            DefaultProviderKey::import(
                provctx,
                self.key_functions(),
                abi::OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS,
                &table,
            )
        };
        // X25519 is a type of its own.
        curve == Curve::X25519 || self.provctx().and_then(parameters).is_some()
    }

    /// Generates a key pair.
    pub(crate) fn generate(&self, curve: Curve) -> Option<DefaultProviderKey> {
        let functions = self.key_functions();
        let KeyFns { gen_init: Some(init), generate: Some(generate), gen_cleanup: Some(cleanup), .. } = functions
        else {
            return None;
        };
        let provctx = self.provctx()?;
        let table = [Param::text(c"group", curve.group_name()), params::end()];
        // SAFETY: the default provider, with its own contexts and a terminated table; the generator is freed once.
        unsafe {
            let generator = init(provctx, abi::OSSL_KEYMGMT_SELECT_KEYPAIR, table.as_ptr());
            if generator.is_null() {
                return None;
            }
            let key = generate(generator, None, ptr::null_mut());
            cleanup(generator);
            DefaultProviderKey::from_raw(key, functions)
        }
    }

    /// Imports a public key of a curve. The default provider refuses a point that is not on the curve.
    pub(crate) fn import_peer(&self, curve: Curve, public: &[u8]) -> Option<DefaultProviderKey> {
        let table = [
            Param::text(c"group", curve.group_name()),
            Param::octets(c"pub", public.as_ptr().cast_mut().cast(), public.len()),
            params::end(),
        ];
        let selection = abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY | abi::OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS;
        DefaultProviderKey::import(self.provctx()?, self.key_functions(), selection, &table)
    }
}

impl DefaultProviderKey {
    /// Writes the public key as TLS encodes it. Returns false unless the key fills `public`.
    pub(crate) fn encode(&self, public: &mut [u8]) -> bool {
        const KEY: &CStr = c"encoded-pub-key";
        let mut table = [Param::octets(KEY, public.as_mut_ptr().cast(), public.len()), params::end()];
        // SAFETY: the default provider, with its own key and a terminated table, whose data has room.
        let answered =
            self.functions().get_params.is_some_and(|get| unsafe { get(self.as_ptr(), table.as_mut_ptr()) } == 1);
        answered && table[0].return_size == public.len()
    }
}
