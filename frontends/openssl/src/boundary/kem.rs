//! Our functions for key encapsulation of TLS groups, which OpenSSL calls. In TLS, the encapsulated key is the server's share, which
//! answers the client's share. Here it is called the answer.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use zeroize::Zeroize;

use super::agreement::{Buffer, encapsulate_to};
use super::context::bytes;
use super::group_keys::GroupKeyData;
use super::tables::dispatch;
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::libcrypto::catch_panic;
use crate::modes::group::RefusalReason;

/// The core's `kemctx`: the key, once it is set.
#[derive(Clone, Default)]
struct KemCtx {
    key: Option<Arc<GroupKeyData>>,
}

unsafe extern "C" fn newctx(_: *mut c_void) -> *mut c_void {
    catch_panic(ptr::null_mut(), || Box::into_raw(Box::<KemCtx>::default()).cast())
}

unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    // SAFETY: the call: a context from `newctx` or `dupctx`.
    catch_panic(ptr::null_mut(), || Box::into_raw(Box::new(unsafe { &*context.cast::<KemCtx>() }.clone())).cast())
}

unsafe extern "C" fn freectx(context: *mut c_void) {
    catch_panic((), || {
        if !context.is_null() {
            // SAFETY: ours: made by `newctx` or `dupctx`; the core frees it once.
            drop(unsafe { Box::from_raw(context.cast::<KemCtx>()) });
        }
    });
}

unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, _: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call: a context from `newctx` or `dupctx`, and one of our keys.
        unsafe {
            let this = &mut *context.cast::<KemCtx>();
            this.key = GroupKeyData::share(key);
            c_int::from(this.key.is_some())
        }
    })
}

/// Runs `work` with the key of a context. If `work` refuses, puts the reason on the error stack.
///
/// # Safety
///
/// The call: a context from `newctx` or `dupctx`.
unsafe fn with_key(context: *mut c_void, work: impl FnOnce(&GroupKeyData) -> Result<(), RefusalReason>) -> c_int {
    // SAFETY: as the caller promises.
    let Some(key) = (unsafe { &(*context.cast::<KemCtx>()).key }) else { return 0 };
    match work(key) {
        Ok(()) => 1,
        Err(reason) => {
            key.provider().raise_refusal(key.key.group, reason);
            0
        }
    }
}

unsafe extern "C" fn encapsulate(
    context: *mut c_void,
    answer: *mut u8,
    answer_length: *mut usize,
    secret: *mut u8,
    secret_length: *mut usize,
) -> c_int {
    let (answer, secret) =
        (Buffer { start: answer, length: answer_length }, Buffer { start: secret, length: secret_length });
    // SAFETY: the call.
    catch_panic(0, || unsafe {
        with_key(context, |data| {
            if !answer.start.is_null() && data.provider().raise_if_forced(data.key.group) {
                return Err("made to fail");
            }
            encapsulate_to(&data.key, data.provider(), &answer, &secret)
        })
    })
}

unsafe extern "C" fn decapsulate(
    context: *mut c_void,
    secret: *mut u8,
    secret_length: *mut usize,
    answer: *const u8,
    answer_length: usize,
) -> c_int {
    let secret = Buffer { start: secret, length: secret_length };
    // SAFETY: the call.
    catch_panic(0, || unsafe {
        with_key(context, |data| {
            let group = data.key.group;
            if !secret.start.is_null() {
                if data.provider().raise_if_forced(group) {
                    return Err("made to fail");
                }
                let (answer, secret) = (bytes(answer, answer_length), secret.slice_mut(group.secret_len())?);
                data.key.decapsulate(data.provider(), answer, secret).inspect_err(|_| secret.zeroize())?;
            }
            secret.write_len(group.secret_len());
            Ok(())
        })
    })
}

/// Returns our table, which is the same for all groups.
pub(super) fn tables() -> &'static [Box<[Dispatch]>] {
    static TABLE: OnceLock<[Box<[Dispatch]>; 1]> = OnceLock::new();
    TABLE.get_or_init(|| {
        let entries = dispatch! {
            OSSL_FUNC_KEM_NEWCTX => newctx, NewCtx;
            OSSL_FUNC_KEM_DUPCTX => dupctx, NewCtx;
            OSSL_FUNC_KEM_FREECTX => freectx, FreeCtx;
            OSSL_FUNC_KEM_ENCAPSULATE_INIT => init, KeyedInit;
            OSSL_FUNC_KEM_ENCAPSULATE => encapsulate, KemEncapsulate;
            OSSL_FUNC_KEM_DECAPSULATE_INIT => init, KeyedInit;
            OSSL_FUNC_KEM_DECAPSULATE => decapsulate, KemDecapsulate;
        };
        [entries.into_iter().chain([Dispatch { id: 0, function: None }]).collect()]
    })
}
