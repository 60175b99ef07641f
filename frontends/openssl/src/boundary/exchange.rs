//! Our functions for key exchange, which OpenSSL calls.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use gantry_core::driver::Operands;
use gantry_core::{Operation, Outcome};

use super::context::{Context, Contexts, new_context};
use super::keys::KeyData;
use crate::abi::Param;
use crate::framework::Side;
use crate::libcrypto::catch_panic;
use crate::libcrypto::functions::ExchangeFns;
use crate::libcrypto::params::is_empty;
use crate::modes::key_pair::{self, KeyPairState};
use crate::provider::WrappedAlgorithm;

/// The core's `exchctx`.
type ExchangeCtx = Context<ExchangeFns>;

/// The keys of the two parties.
#[derive(Clone, Default)]
pub(crate) struct ExchangeKeys {
    /// Our own key. `None` if no key is set, or after any parameter was set: only the default provider understands parameters.
    key: Option<Arc<KeyData>>,
    peer: Option<Arc<KeyData>>,
}

impl ExchangeKeys {
    /// Derives on a device other than the default provider, if that is faster.
    fn run_on_device(&self, wrapped: &WrappedAlgorithm, output: &mut [u8]) -> Option<Outcome> {
        let (key, peer) = (self.key.as_ref()?, self.peer.as_ref()?);
        let algorithm = wrapped.algorithm()?;
        let public_key_lengths = algorithm.info().public_key;
        // If the peer's raw key is unknown or has another length, the default provider derives.
        let public = || peer.raw()?.public().filter(|bytes| public_key_lengths.allows(bytes.len()));
        let may_use_device = KeyPairState::may_use_device(wrapped, algorithm, Operation::Derive);
        let Some(input) = Some(()).filter(|()| may_use_device).and_then(|()| public()) else {
            wrapped.count(Operation::Derive, Side::DefaultProvider, key_pair::KEY_LEN);
            return None;
        };
        key.pair().run(wrapped, algorithm, || key.raw(), Operands::Derive { input, output })
    }
}

pub(super) unsafe extern "C" fn newctx<const ROW: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call; the default provider, with its own context.
    unsafe { new_context(provider, ROW, ExchangeFns::call_newctx, |_, _| ExchangeKeys::default()) }
}

pub(super) unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::parts(context), KeyData::share(key)) };
        let default_key = key.as_ref().map_or(ptr::null_mut(), |key| key.default_key());
        // SAFETY: the default provider, with its own key and the call's arguments.
        let result = functions.init.map_or(0, |init| unsafe { init(this.default_ctx.as_ptr(), default_key, params) });
        // SAFETY: the call.
        let has_no_params = unsafe { is_empty(params) };
        this.state.key = key.filter(|_| has_no_params && result == 1);
        this.state.peer = None;
        result
    })
}

pub(super) unsafe extern "C" fn set_peer(context: *mut c_void, key: *mut c_void) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::parts(context), KeyData::share(key)) };
        let default_key = key.as_ref().map_or(ptr::null_mut(), |key| key.default_key());
        // SAFETY: the default provider, with its own key.
        let result =
            functions.set_peer.map_or(0, |set_peer| unsafe { set_peer(this.default_ctx.as_ptr(), default_key) });
        this.state.peer = key.filter(|_| result == 1);
        result
    })
}

pub(super) unsafe extern "C" fn derive(
    context: *mut c_void,
    secret: *mut u8,
    written: *mut usize,
    room: usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { ExchangeCtx::parts(context) };
        // Without a buffer, the call only queries the length.
        if !secret.is_null() {
            if wrapped.raise_if_forced() {
                return 0;
            }
            if room >= key_pair::KEY_LEN {
                // SAFETY: the call: there is room for these bytes.
                let output = unsafe { slice::from_raw_parts_mut(secret, key_pair::KEY_LEN) };
                // Otherwise the default provider derives. It also refuses a peer's invalid key, and leaves its own error.
                if this.state.run_on_device(wrapped, output) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = key_pair::KEY_LEN };
                    return 1;
                }
            }
        }
        // SAFETY: the default provider, with the call's arguments.
        functions.derive.map_or(0, |derive| unsafe { derive(this.default_ctx.as_ptr(), secret, written, room) })
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, ..) = unsafe { ExchangeCtx::parts(context) };
        this.state.key = None;
        // SAFETY: the call.
        unsafe { this.default_ctx.set_params(params) }
    })
}

impl Contexts for ExchangeFns {
    type State = ExchangeKeys;
}
