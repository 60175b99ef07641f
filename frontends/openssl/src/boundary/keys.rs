//! Keys: our entries, and the host's functions behind them.
//!
//! A key is the host's own, and what is known of it here beside it. There is no `load`: objects that decoders made are the
//! default provider's, which gives them to its own keys.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::core::{Table, entry};
use super::family::{Contexts, Family, Host, functions, gettable_params};
use super::guard;
use super::params::{self, Answers};
use super::provider::{Functions, Wrapped, dispatch};
use super::rsa;
use crate::abi::fns::*;
use crate::abi::{self, Dispatch, Param};
use crate::pair::{self, Pair, Raw};
use crate::table::{KEYS, Mode};

/// The type of keys on curves with parameters.
pub(super) const EC: &str = "EC";
const RSA: &str = "RSA";
/// The one of these curves that other devices have.
const P256: &CStr = c"prime256v1";
/// Bytes of what is asked of a key: numbers of the longest curve have fewer, and names, too.
const ROOM: usize = 512;

/// The host's functions of one type of keys.
pub(crate) struct KeyFns {
    new: Option<NewCtx>,
    free: Option<FreeCtx>,
    gen_init: Option<KeyGenInit>,
    gen_set_template: Option<WithKey>,
    gen_set_params: Option<SetParams>,
    gen_get_params: Option<GetParams>,
    gen_gettable_params: Option<GettableCtx>,
    gen_settable_params: Option<GettableCtx>,
    generate: Option<KeyGen>,
    gen_cleanup: Option<FreeCtx>,
    get_params: Option<GetParams>,
    set_params: Option<SetParams>,
    gettable_params: Option<Gettable>,
    settable_params: Option<Gettable>,
    has: Option<KeyHas>,
    validate: Option<KeyValidate>,
    matches: Option<KeyMatch>,
    import: Option<KeyImport>,
    export: Option<KeyExport>,
    dup: Option<KeyDup>,
}

impl KeyFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            new: entry!(table, OSSL_FUNC_KEYMGMT_NEW, NewCtx),
            free: entry!(table, OSSL_FUNC_KEYMGMT_FREE, FreeCtx),
            gen_init: entry!(table, OSSL_FUNC_KEYMGMT_GEN_INIT, KeyGenInit),
            gen_set_template: entry!(table, OSSL_FUNC_KEYMGMT_GEN_SET_TEMPLATE, WithKey),
            gen_set_params: entry!(table, OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS, SetParams),
            gen_get_params: entry!(table, OSSL_FUNC_KEYMGMT_GEN_GET_PARAMS, GetParams),
            gen_gettable_params: entry!(table, OSSL_FUNC_KEYMGMT_GEN_GETTABLE_PARAMS, GettableCtx),
            gen_settable_params: entry!(table, OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS, GettableCtx),
            generate: entry!(table, OSSL_FUNC_KEYMGMT_GEN, KeyGen),
            gen_cleanup: entry!(table, OSSL_FUNC_KEYMGMT_GEN_CLEANUP, FreeCtx),
            get_params: entry!(table, OSSL_FUNC_KEYMGMT_GET_PARAMS, GetParams),
            set_params: entry!(table, OSSL_FUNC_KEYMGMT_SET_PARAMS, SetParams),
            gettable_params: entry!(table, OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, Gettable),
            settable_params: entry!(table, OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS, Gettable),
            has: entry!(table, OSSL_FUNC_KEYMGMT_HAS, KeyHas),
            validate: entry!(table, OSSL_FUNC_KEYMGMT_VALIDATE, KeyValidate),
            matches: entry!(table, OSSL_FUNC_KEYMGMT_MATCH, KeyMatch),
            import: entry!(table, OSSL_FUNC_KEYMGMT_IMPORT, KeyImport),
            export: entry!(table, OSSL_FUNC_KEYMGMT_EXPORT, KeyExport),
            dup: entry!(table, OSSL_FUNC_KEYMGMT_DUP, KeyDup),
        }
    }
}

/// What the core calls `keydata`: an `Arc`, which contexts hold, too.
pub(super) struct KeyData {
    /// The host's own.
    host: *mut c_void,
    wrapped: *const Wrapped,
    pair: Pair,
}

// SAFETY: the host: a key belongs to no thread.
unsafe impl Send for KeyData {}
// SAFETY: the host: a key may be used by several threads as long as nobody changes it.
unsafe impl Sync for KeyData {}

impl KeyData {
    /// # Safety
    ///
    /// A key of the host that is ours alone, or null; `wrapped` is what serves such keys.
    unsafe fn give(wrapped: &Wrapped, host: *mut c_void) -> *mut c_void {
        if host.is_null() {
            return host;
        }
        Arc::into_raw(Arc::new(Self { host, wrapped, pair: Pair::default() })).cast_mut().cast()
    }

    /// `None` of null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key that was given out, and not freed.
    pub(super) unsafe fn of<'c>(keydata: *const c_void) -> Option<(&'c Self, &'c KeyFns)> {
        // SAFETY: as the caller promises; the provider owns the functions, and outlives its keys.
        let this = unsafe { keydata.cast::<Self>().as_ref() }?;
        Some((this, this.functions()))
    }

    /// One more hold on a key; `None` of null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key that was given out, and not freed.
    pub(super) unsafe fn hold(keydata: *mut c_void) -> Option<Arc<Self>> {
        let this = keydata.cast_const().cast::<Self>();
        if this.is_null() {
            return None;
        }
        // SAFETY: as the caller promises: `give` made it from an `Arc`, of which the core has one.
        unsafe {
            Arc::increment_strong_count(this);
            Some(Arc::from_raw(this))
        }
    }

    pub(super) fn host(&self) -> *mut c_void {
        self.host
    }

    pub(super) fn wrapped(&self) -> &Wrapped {
        // SAFETY: ours: the provider owns it, and outlives its keys.
        unsafe { &*self.wrapped }
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// The raw keys, as far as the host gives them out.
    pub(super) fn raw(&self) -> Option<&Raw> {
        self.pair.raw(|| match self.wrapped().row().name {
            EC => self.p256(),
            RSA => self.exported(),
            _ => self.octets(),
        })
    }

    /// What an export tells.
    fn exported(&self) -> Raw {
        let mut raw = Raw::default();
        if let Some(export) = self.functions().export {
            // SAFETY: the host, with its own key and a place for what it tells.
            unsafe { export(self.host, abi::OSSL_KEYMGMT_SELECT_KEYPAIR, told, (&raw mut raw).cast()) };
        }
        raw
    }

    /// Bytes of the longest signature; of RSA, and of the modulus. 0 where the host does not say.
    pub(super) fn size(&self) -> usize {
        // SAFETY: the host, with its own key and a table of ours.
        let ask = |table| self.functions().get_params.map_or(0, |get| unsafe { get(self.host, table) });
        params::number(c"max-size", ask).unwrap_or(0)
    }

    /// Those of a curve whose keys are octets. (An export would leave a copy of them in memory that was freed.)
    fn octets(&self) -> Raw {
        let (mut public, mut private) = ([0_u8; pair::SIZE], Zeroizing::new([0_u8; pair::SIZE]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), pair::SIZE),
            Param::octets(c"priv", private.as_mut_ptr().cast(), pair::SIZE),
            params::end(),
        ];
        // SAFETY: the host, with its own key and a table with its end, whose data has room.
        let told = self.functions().get_params.is_some_and(|get| unsafe { get(self.host, table.as_mut_ptr()) } == 1);
        // What is not there has no length.
        let is_there = |place: usize| told && table[place].return_size == pair::SIZE;
        Raw::new(is_there(1).then_some(&private[..]), is_there(0).then_some(&public[..]))
    }

    /// Those of a key on P-256. Of another curve, and of one whose parameters are written out, nothing is known. (An export would
    /// tell the parameters, too, which takes longer.)
    fn p256(&self) -> Raw {
        let (mut group, mut encoding) = ([0_u8; ROOM], [0_u8; ROOM]);
        // With room for those of any curve: what does not fit leaves an error.
        let (mut public, mut private) = ([0_u8; ROOM], Zeroizing::new([0_u8; ROOM]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), ROOM),
            Param::number(c"priv", private.as_mut_ptr().cast(), ROOM),
            Param::room_for_text(c"group", &mut group),
            Param::room_for_text(c"encoding", &mut encoding),
            params::end(),
        ];
        // SAFETY: the host, with its own key and a table with its end, whose data has room.
        let told = self.functions().get_params.is_some_and(|get| unsafe { get(self.host, table.as_mut_ptr()) } == 1);
        // What is not there has no length.
        let (public_length, private_length) = (table[0].return_size, table[1].return_size);
        if !told
            || CStr::from_bytes_until_nul(&group) != Ok(P256)
            || CStr::from_bytes_until_nul(&encoding) != Ok(c"named_curve")
        {
            return Raw::default();
        }
        let private = private.first_chunk_mut::<{ pair::SIZE }>().filter(|_| private_length == pair::SIZE);
        let private = private.map(|private| {
            if cfg!(target_endian = "little") {
                private.reverse();
            }
            &private[..]
        });
        Raw::new(private, public.get(..public_length))
    }

    fn functions(&self) -> &KeyFns {
        let Functions::Keys(functions) = &self.wrapped().functions else { unreachable!("a key's") };
        functions
    }
}

impl Drop for KeyData {
    fn drop(&mut self) {
        if let Some(free) = self.functions().free {
            // SAFETY: the host, with its own key, once.
            unsafe { free(self.host) };
        }
    }
}

/// Takes down what an export of a key of RSA tells.
unsafe extern "C" fn told(params: *const Param, raw: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the host: a table with its end; `raw` is where the caller wants it.
        unsafe {
            *raw.cast::<Raw>() = rsa::raw(Answers::new(params));
        }
        1
    })
}

/// What the core calls `genctx`.
struct Generator {
    host: *mut c_void,
    wrapped: *const Wrapped,
}

impl Generator {
    /// # Safety
    ///
    /// The call: what `gen_init` gave out.
    unsafe fn of<'c>(context: *mut c_void) -> (&'c Self, &'c Wrapped, &'c KeyFns) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        let (this, wrapped) = unsafe { (&*context.cast::<Self>(), &*(*context.cast::<Self>()).wrapped) };
        let Functions::Keys(functions) = &wrapped.functions else { unreachable!("a key's") };
        (this, wrapped, functions)
    }
}

unsafe extern "C" fn new<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null_mut() };
            let host = functions.new.map_or(ptr::null_mut(), |new| new(wrapped.default_ctx()));
            KeyData::give(wrapped, host)
        }
    })
}

unsafe extern "C" fn free(keydata: *mut c_void) {
    guard((), || {
        if !keydata.is_null() {
            // SAFETY: ours: the core's hold, which it gives up once.
            drop(unsafe { Arc::from_raw(keydata.cast_const().cast::<KeyData>()) });
        }
    });
}

unsafe extern "C" fn gen_init<const PLACE: usize>(
    provider: *mut c_void,
    selection: c_int,
    params: *const Param,
) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own context and what the call brought.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null_mut() };
            let init = functions.gen_init;
            let host = init.map_or(ptr::null_mut(), |init| init(wrapped.default_ctx(), selection, params));
            if host.is_null() { host } else { Box::into_raw(Box::new(Generator { host, wrapped })).cast() }
        }
    })
}

unsafe extern "C" fn gen_set_template(context: *mut c_void, template: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own context and key.
        unsafe {
            let (this, _, functions) = Generator::of(context);
            let theirs = KeyData::of(template).map_or(ptr::null_mut(), |(template, _)| template.host);
            functions.gen_set_template.map_or(0, |set| set(this.host, theirs))
        }
    })
}

unsafe extern "C" fn gen_get_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let (this, _, functions) = Generator::of(context);
            functions.gen_get_params.map_or(0, |get| get(this.host, params))
        }
    })
}

unsafe extern "C" fn gen_set_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let (this, _, functions) = Generator::of(context);
            functions.gen_set_params.map_or(0, |set| set(this.host, params))
        }
    })
}

unsafe extern "C" fn gen_settable_params<const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { gen_params::<PLACE>(context, provider, |functions| functions.gen_settable_params) }
}

unsafe extern "C" fn gen_gettable_params<const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { gen_params::<PLACE>(context, provider, |functions| functions.gen_gettable_params) }
}

/// # Safety
///
/// The call: a context of ours or null.
unsafe fn gen_params<const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
    which: fn(&KeyFns) -> Option<GettableCtx>,
) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own contexts.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null() };
            let host = if context.is_null() { context } else { Generator::of(context).0.host };
            which(functions).map_or(ptr::null(), |which| which(host, wrapped.default_ctx()))
        }
    })
}

unsafe extern "C" fn generate(
    context: *mut c_void,
    progress: Option<ParamsCallback>,
    data: *mut c_void,
) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let (this, wrapped, functions) = Generator::of(context);
            let host = functions.generate.map_or(ptr::null_mut(), |generate| generate(this.host, progress, data));
            KeyData::give(wrapped, host)
        }
    })
}

unsafe extern "C" fn gen_cleanup(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `gen_init`, and the core frees it once; the host, with its own context, once.
        unsafe {
            let (this, _, functions) = Generator::of(context);
            if let Some(cleanup) = functions.gen_cleanup {
                cleanup(this.host);
            }
            drop(Box::from_raw(context.cast::<Generator>()));
        }
    });
}

unsafe extern "C" fn get_params(keydata: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.get_params.map_or(0, |get| get(this.host, params))
        }
    })
}

unsafe extern "C" fn set_params(keydata: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            this.pair.change();
            functions.set_params.map_or(0, |set| set(this.host, params))
        }
    })
}

unsafe extern "C" fn settable_params<const PLACE: usize>(provider: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null() };
            functions.settable_params.map_or(ptr::null(), |settable| settable(wrapped.default_ctx()))
        }
    })
}

unsafe extern "C" fn has(keydata: *const c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.has.map_or(0, |has| has(this.host, selection))
        }
    })
}

unsafe extern "C" fn validate(keydata: *const c_void, selection: c_int, kind: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.validate.map_or(0, |validate| validate(this.host, selection, kind))
        }
    })
}

unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own keys.
        unsafe {
            let Some(((one, functions), (other, _))) = KeyData::of(one).zip(KeyData::of(other)) else { return 0 };
            functions.matches.map_or(0, |matches| matches(one.host, other.host, selection))
        }
    })
}

unsafe extern "C" fn import(keydata: *mut c_void, selection: c_int, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            this.pair.change();
            functions.import.map_or(0, |import| import(this.host, selection, params))
        }
    })
}

unsafe extern "C" fn export(keydata: *mut c_void, selection: c_int, tell: ParamsCallback, data: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.export.map_or(0, |export| export(this.host, selection, tell, data))
        }
    })
}

unsafe extern "C" fn dup(keydata: *const c_void, selection: c_int) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own key, of which it makes another one.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return ptr::null_mut() };
            let host = functions.dup.map_or(ptr::null_mut(), |dup| dup(this.host, selection));
            KeyData::give(&*this.wrapped, host)
        }
    })
}

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

impl Family for KeyFns {
    const KIND: usize = 3;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Keys(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, KeyGenInit, GettableCtx, GettableCtx, Gettable, Gettable);

const fn at<const PLACE: usize>() -> AtPlace {
    (
        new::<PLACE>,
        gen_init::<PLACE>,
        gen_gettable_params::<PLACE>,
        gen_settable_params::<PLACE>,
        gettable_params::<KeyFns, PLACE>,
        settable_params::<PLACE>,
    )
}

static AT: [AtPlace; KEYS.len()] = [at::<0>(), at::<1>(), at::<2>(), at::<3>()];

/// Our table for a type of keys: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (new, gen_init, gen_gettable_params, gen_settable_params, gettable_params, settable_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_KEYMGMT_NEW => new, NewCtx;
        OSSL_FUNC_KEYMGMT_FREE => free, FreeCtx;
        OSSL_FUNC_KEYMGMT_GEN_INIT => gen_init, KeyGenInit;
        OSSL_FUNC_KEYMGMT_GEN_SET_TEMPLATE => gen_set_template, WithKey;
        OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS => gen_set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GEN_GET_PARAMS => gen_get_params, GetParams;
        OSSL_FUNC_KEYMGMT_GEN_GETTABLE_PARAMS => gen_gettable_params, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS => gen_settable_params, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN => generate, KeyGen;
        OSSL_FUNC_KEYMGMT_GEN_CLEANUP => gen_cleanup, FreeCtx;
        OSSL_FUNC_KEYMGMT_GET_PARAMS => get_params, GetParams;
        OSSL_FUNC_KEYMGMT_SET_PARAMS => set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS => settable_params, Gettable;
        OSSL_FUNC_KEYMGMT_HAS => has, KeyHas;
        OSSL_FUNC_KEYMGMT_VALIDATE => validate, KeyValidate;
        OSSL_FUNC_KEYMGMT_MATCH => matches, KeyMatch;
        OSSL_FUNC_KEYMGMT_IMPORT => import, KeyImport;
        OSSL_FUNC_KEYMGMT_EXPORT => export, KeyExport;
        OSSL_FUNC_KEYMGMT_DUP => dup, KeyDup;
    };
    let passed = [
        abi::OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME,
        abi::OSSL_FUNC_KEYMGMT_IMPORT_TYPES,
        abi::OSSL_FUNC_KEYMGMT_EXPORT_TYPES,
    ];
    super::provider::complete(theirs, &ours, &passed)
}
