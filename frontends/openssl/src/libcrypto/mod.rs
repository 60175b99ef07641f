//! OpenSSL's objects: the core, the default provider with its functions and contexts, tables of parameters, the data of a call.
//! Nothing here knows our own contexts.
//!
//! Only this folder, `provider` and `boundary` have `unsafe` code. The `unsafe` code rests on three promises. Each block names the
//! promises that it relies on.
//!
//! * **The call.** OpenSSL passes pointers that are valid during the call. Contexts were made by our own `newctx` or `dupctx`,
//!   are not freed yet, and are used by one thread at a time. Buffers have the given length, and tables the terminator of their
//!   type. See provider-cipher(7), provider-kdf(7), provider-keymgmt(7), provider-keyexch(7), provider-kem(7), provider-signature(7).
//! * **The default provider.** Objects of the default provider stay valid while our provider is loaded: the library context owns both
//!   providers, and keeps a deactivated one until it is freed itself. The function behind an id has the type that the id stands for
//!   (core_dispatch.h).
//! * **Ours.** Objects that we made with `Box::into_raw` or `Arc::into_raw` are freed once, in `freectx`, `free` or `teardown`.
//!   The provider owns its algorithms with their functions, and outlives its contexts and its framework.

#![allow(unsafe_code)]

pub(crate) mod cipher;
pub(crate) mod context;
pub(crate) mod core;
mod curve;
pub(crate) mod default;
pub(crate) mod functions;
mod io;
mod kdf;
mod keys;
pub(crate) mod params;
pub(crate) mod stack;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use cipher::{DefaultProviderCipher, DefaultProviderCipherCtx, PrivateCipherCtx};
pub(crate) use curve::CurveFns;
pub(crate) use io::{CipherCall, Io};
pub(crate) use kdf::DefaultProviderKdf;
pub(crate) use keys::{Agreement, DefaultProviderKey, DefaultProviderKeyAlgorithm};
pub(crate) use params::{ParamQuery, ParamValue, ParamValues};
pub(crate) use stack::with_enough_stack;

/// Runs `body`, and returns `fallback` if it panics.
pub(crate) fn catch_panic<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}
