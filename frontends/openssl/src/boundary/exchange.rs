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
use crate::host::functions::ExchangeFns;
use crate::host::guard;
use crate::host::params::is_empty;
use crate::modes::pair::{self, Pair};
use crate::provider::Wrapped;

/// The core's `exchctx`.
type ExchangeCtx = Context<ExchangeFns>;

/// The keys of the two parties.
#[derive(Clone, Default)]
pub(crate) struct ExchangeKeys {
    /// `None` if a parameter was set that only the host understands.
    key: Option<Arc<KeyData>>,
    peer: Option<Arc<KeyData>>,
}

impl ExchangeKeys {
    /// Derives on another device, if that is faster.
    fn run_on_device(&self, wrapped: &Wrapped, output: &mut [u8]) -> Option<Outcome> {
        let (key, peer) = (self.key.as_ref()?, self.peer.as_ref()?);
        // A peer's key in another form stays with the host.
        let algorithm = wrapped.algorithm()?;
        let takes = algorithm.info().public_key;
        let public = || peer.raw()?.public().filter(|bytes| takes.allows(bytes.len()));
        let may_use_device = Pair::may_use_device(wrapped, algorithm, Operation::Derive);
        let Some(input) = Some(()).filter(|()| may_use_device).and_then(|()| public()) else {
            wrapped.count(Operation::Derive, Side::Host, pair::SIZE);
            return None;
        };
        key.pair().run(wrapped, algorithm, || key.raw(), Operands::Derive { input, output })
    }
}

pub(super) unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call; the host, with its own context.
    unsafe { new_context(provider, PLACE, ExchangeFns::begin, |_, _| ExchangeKeys::default()) }
}

pub(super) unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::parts(context), KeyData::share(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        // SAFETY: the host, with its own key and the call's arguments.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host.context(), host, params) });
        // SAFETY: the call.
        let plain = unsafe { is_empty(params) };
        this.state.key = key.filter(|_| plain && result == 1);
        this.state.peer = None;
        result
    })
}

pub(super) unsafe extern "C" fn set_peer(context: *mut c_void, key: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::parts(context), KeyData::share(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        // SAFETY: the host, with its own key.
        let result = functions.set_peer.map_or(0, |set_peer| unsafe { set_peer(this.host.context(), host) });
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
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { ExchangeCtx::parts(context) };
        // Without a buffer, the call only queries the length.
        if !secret.is_null() {
            if wrapped.is_forced_to_fail() {
                return 0;
            }
            if room >= pair::SIZE {
                // SAFETY: the call: there is room for these bytes.
                let output = unsafe { slice::from_raw_parts_mut(secret, pair::SIZE) };
                // The host refuses a peer's invalid key, and leaves its own error.
                if this.state.run_on_device(wrapped, output) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = pair::SIZE };
                    return 1;
                }
            }
        }
        // SAFETY: the host, with the call's arguments.
        functions.derive.map_or(0, |derive| unsafe { derive(this.host.context(), secret, written, room) })
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, ..) = unsafe { ExchangeCtx::parts(context) };
        this.state.key = None;
        // SAFETY: the call.
        unsafe { this.host.set_params(params) }
    })
}

impl Contexts for ExchangeFns {
    type State = ExchangeKeys;
}
