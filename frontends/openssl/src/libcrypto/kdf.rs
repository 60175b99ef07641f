//! Key derivations of the default provider for measurements.

use std::ffi::CString;

use gantry_digest::Algorithm;

use super::context::DefaultProviderCtx;
use super::default::DefaultProvider;
use super::functions::{Functions, KdfFns, OperationFns as _};
use super::params::end;
use crate::abi::Param;

/// The default provider's PBKDF2, for measurements.
pub(crate) struct DefaultProviderKdf<'w> {
    default_provider: &'w DefaultProvider,
    functions: &'w KdfFns,
}

impl<'w> DefaultProviderKdf<'w> {
    /// `functions` are PBKDF2's. Returns `None` for another kind of algorithm.
    pub(crate) fn new(default_provider: &'w DefaultProvider, functions: &'w Functions) -> Option<Self> {
        Some(Self { default_provider, functions: KdfFns::select(functions)? })
    }

    /// Derives a key with PBKDF2 and HMAC of `hash`. Returns false if it fails, for example because the default provider does not
    /// have the hash.
    pub(crate) fn pbkdf2(
        &self,
        hash: Algorithm,
        secret: &[u8],
        salt: &[u8],
        mut iterations: u32,
        key: &mut [u8],
    ) -> bool {
        let octets = |name, bytes: &[u8]| Param::octets(name, bytes.as_ptr().cast_mut().cast(), bytes.len());
        let Ok(name) = CString::new(hash.to_string()) else { return false };
        let table = [
            Param::text(c"digest", &name),
            octets(c"pass", secret),
            octets(c"salt", salt),
            Param::number(c"iter", (&raw mut iterations).cast(), size_of::<u32>()),
            end(),
        ];
        // SAFETY: the default provider made the context for us; ours: the provider owns the functions, and outlives the measurement.
        let Some(ctx) =
            (unsafe { DefaultProviderCtx::new(self.default_provider.provctx(), self.functions, KdfFns::call_newctx) })
        else {
            return false;
        };
        let (room, length) = (key.as_mut_ptr(), key.len());
        // SAFETY: the default provider, with its own context, room for the key, and a terminated table whose data it only reads.
        self.functions.derive.is_some_and(|derive| unsafe { derive(ctx.as_ptr(), room, length, table.as_ptr()) == 1 })
    }
}
