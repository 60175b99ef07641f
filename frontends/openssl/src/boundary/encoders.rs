//! Encoders of keys on curves with parameters: our entries, and the host's functions behind them.
//!
//! OpenSSL hands a key to another provider's encoder as a copy that is exported and imported, and the default provider does not import
//! every key of the type EC that it makes: it refuses those on the curve SM2. So our keys of this type have encoders here, which hand the
//! host's own key to the host's encoder. A context of theirs is the host's own. They import nothing, so OpenSSL offers them to no keys but
//! ours.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;

use super::core::{Table, complete, dispatch, entry, has_name};
use super::guard;
use super::keys::{EC, KeyData};
use super::provider::Provider;
use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, Dispatch, Function, Param};

/// More than any release has: text, blob, and seven structures, each as DER and as PEM.
const PLACES: usize = 24;

/// The host's encoders of these keys, and ours in front of them. The core keeps pointers into it as long as the provider lives.
pub(super) struct Encoders {
    rows: Box<[AlgorithmRow]>,
    encoders: Box<[Encoder]>,
}

/// An encoder of the host.
struct Encoder {
    newctx: Option<NewCtx>,
    does_selection: Option<DoesSelection>,
    settable_ctx_params: Option<Gettable>,
    encode: Option<Encode>,
    /// Our row, as the core has it.
    properties: CString,
    dispatch: Vec<Dispatch>,
}

impl Encoders {
    /// # Safety
    ///
    /// The host: null, or its table of encoders, that stays.
    pub(super) unsafe fn new(mut theirs: *const AlgorithmRow) -> Self {
        let (mut names, mut encoders) = (Vec::new(), Vec::new());
        // SAFETY: as the caller promises; names and properties are strings, and each row has a dispatch table.
        unsafe {
            while !theirs.is_null() && !(*theirs).names.is_null() && encoders.len() < PLACES {
                if has_name((*theirs).names, EC.as_bytes()) {
                    let properties = ours(CStr::from_ptr((*theirs).properties));
                    encoders.push(Encoder::new(Table::new((*theirs).implementation), properties, encoders.len()));
                    names.push(*theirs);
                }
                theirs = theirs.add(1);
            }
        }
        let row = |(theirs, encoder): (&AlgorithmRow, &Encoder)| AlgorithmRow {
            properties: encoder.properties.as_ptr(),
            implementation: encoder.dispatch.as_ptr(),
            ..*theirs
        };
        let rows = names.iter().zip(&encoders).map(row).chain([AlgorithmRow::END]).collect();
        Self { rows, encoders: encoders.into() }
    }

    /// Our table: one with its end.
    pub(super) fn rows(&self) -> *const AlgorithmRow {
        self.rows.as_ptr()
    }
}

/// Properties of ours from the host's: which output and which structure an encoder makes stays, and whose it is does not. FIPS is promised
/// of nothing here.
fn ours(theirs: &CStr) -> CString {
    let theirs = theirs.to_string_lossy();
    let kept = theirs.split(',').filter(|property| !property.starts_with("provider=") && !property.starts_with("fips"));
    let all: Vec<&str> = ["provider=gantry"].into_iter().chain(kept).collect();
    CString::new(all.join(",")).unwrap_or_default()
}

impl Encoder {
    fn new(theirs: Table, properties: CString, place: usize) -> Self {
        let (newctx, does_selection, settable_ctx_params, encode) = AT[place];
        let ours = dispatch! {
            OSSL_FUNC_ENCODER_NEWCTX => newctx, NewCtx;
            OSSL_FUNC_ENCODER_SETTABLE_CTX_PARAMS => settable_ctx_params, Gettable;
            OSSL_FUNC_ENCODER_DOES_SELECTION => does_selection, DoesSelection;
            OSSL_FUNC_ENCODER_ENCODE => encode, Encode;
        };
        Self {
            newctx: entry!(theirs, OSSL_FUNC_ENCODER_NEWCTX, NewCtx),
            does_selection: entry!(theirs, OSSL_FUNC_ENCODER_DOES_SELECTION, DoesSelection),
            settable_ctx_params: entry!(theirs, OSSL_FUNC_ENCODER_SETTABLE_CTX_PARAMS, Gettable),
            encode: entry!(theirs, OSSL_FUNC_ENCODER_ENCODE, Encode),
            properties,
            // What is told nothing but the host's own context.
            dispatch: complete(theirs, &ours, &[abi::OSSL_FUNC_ENCODER_FREECTX, abi::OSSL_FUNC_ENCODER_SET_CTX_PARAMS]),
        }
    }
}

/// The host's encoder at a place, and its provider's context.
///
/// # Safety
///
/// The call: `provider` is what `OSSL_provider_init` gave out.
unsafe fn at_place<'p>(provider: *mut c_void, place: usize) -> Option<(&'p Encoder, *mut c_void)> {
    // SAFETY: as the caller promises.
    let provider = unsafe { &*provider.cast::<Provider>() };
    Some((provider.encoders()?.encoders.get(place)?, provider.default_ctx()))
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((encoder, theirs)) = at_place(provider, PLACE) else { return ptr::null_mut() };
            encoder.newctx.map_or(ptr::null_mut(), |newctx| newctx(theirs))
        }
    })
}

unsafe extern "C" fn does_selection<const PLACE: usize>(provider: *mut c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((encoder, theirs)) = at_place(provider, PLACE) else { return 0 };
            encoder.does_selection.map_or(0, |does| does(theirs, selection))
        }
    })
}

unsafe extern "C" fn settable_ctx_params<const PLACE: usize>(provider: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((encoder, theirs)) = at_place(provider, PLACE) else { return ptr::null() };
            encoder.settable_ctx_params.map_or(ptr::null(), |settable| settable(theirs))
        }
    })
}

unsafe extern "C" fn encode<const PLACE: usize>(
    context: *mut c_void,
    out: *mut c_void,
    key: *const c_void,
    parts: *const Param,
    selection: c_int,
    passphrase: Option<Function>,
    data: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: the call: a key of ours; the host, with its own context and key, and what the call brought.
        unsafe {
            let Some((key, _)) = KeyData::of(key) else { return 0 };
            let encode = key.wrapped().encoders().and_then(|encoders| encoders.encoders.get(PLACE)?.encode);
            encode.map_or(0, |encode| encode(context, out, key.host(), parts, selection, passphrase, data))
        }
    })
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, DoesSelection, Gettable, Encode);

const fn at<const PLACE: usize>() -> AtPlace {
    (newctx::<PLACE>, does_selection::<PLACE>, settable_ctx_params::<PLACE>, encode::<PLACE>)
}

static AT: [AtPlace; PLACES] = super::family::at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_says_what_it_makes_and_whose_it_is() {
        for (theirs, expected) in [
            (
                c"provider=default,fips=yes,output=der,structure=PrivateKeyInfo",
                c"provider=gantry,output=der,structure=PrivateKeyInfo",
            ),
            (c"provider=default,output=text", c"provider=gantry,output=text"),
        ] {
            assert_eq!(&*ours(theirs), expected);
        }
    }
}
