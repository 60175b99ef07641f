//! The provider: one for each library context that loads the module.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

use gantry_core::Algorithm;
use gantry_core::route::SizeSet;
use gantry_core::stats::Tally;
use gantry_digest::Algorithm as Hash;
use gantry_runtime::rights::variable;

use super::core::{Core, Table, dispatch, find};
use super::default::DefaultProvider;
use super::functions::{CipherFns, ExchangeFns, Functions, KdfFns, KeyFns, SignatureFns};
use super::guard;
use super::kdf::{self, HostKdf};
use super::wrapped::Wrapped;
use super::{about, cipher, exchange, keys, signature};
use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, CoreHandle, Dispatch};
use crate::config::{self, Settings};
use crate::framework::{Framework, Opened};
use crate::host::HostDriver;
use crate::measure;
use crate::report::{self, Report};
use crate::table::{CIPHERS, KDFS, KEYS, Mode, PAIRS, Row};

/// The operations of which we serve algorithms; those of keys have no requests.
const KINDS: [c_int; 5] =
    [abi::OSSL_OP_CIPHER, abi::OSSL_OP_KEYMGMT, abi::OSSL_OP_KEYEXCH, abi::OSSL_OP_SIGNATURE, abi::OSSL_OP_KDF];

/// What the core calls `provctx`.
pub(crate) struct Provider {
    pub(super) core: Core,
    pub(super) settings: Settings,
    pub(super) version: (u32, u32),
    pub(super) default: DefaultProvider,
    /// By place in [`KINDS`].
    served: [OnceLock<Served>; KINDS.len()],
    /// Null before the first request that may need a framework.
    opened: AtomicPtr<Opened>,
    /// Counts what is left to the host, for other processes to see.
    pub(super) tally: Option<Tally>,
    /// Counts keys that were derived in lanes: no framework knows of them.
    pub(super) derived: Option<Tally>,
}

/// The algorithms of an operation. The core keeps pointers into it as long as the provider lives.
pub(super) struct Served {
    rows: Box<[AlgorithmRow]>,
    /// By place in our own table.
    pub(super) wrapped: Box<[Option<Box<Wrapped>>]>,
}

// SAFETY: written once, before it is shared; the strings behind the pointers are the host's and stay.
unsafe impl Send for Served {}
// SAFETY: as above.
unsafe impl Sync for Served {}

impl Provider {
    pub(super) fn framework(&self) -> Option<&Framework> {
        match self.here() {
            // What could not be opened once is not tried again in this process.
            Some(opened) => opened.framework.as_ref(),
            None => self.open(),
        }
    }

    fn open(&self) -> Option<&Framework> {
        // Whatever a program asks for later, the host is a device for it from the beginning.
        let wrapped = KINDS.into_iter().filter(|operation| *operation != abi::OSSL_OP_KEYMGMT);
        let wrapped =
            wrapped.filter_map(|operation| self.serves(operation)).flat_map(|served| &served.wrapped).flatten();
        let host = HostDriver::new(wrapped.map(|wrapped| &**wrapped), self.version);
        let new = Box::into_raw(Box::new(Opened::new(&self.settings, &host)));
        let old = self.opened.load(Ordering::Acquire);
        // An older one is another process's, and stays where it is: whoever is in it is not in this process.
        // SAFETY: ours.
        if !old.is_null() && unsafe { (*old).is_current() } {
            // SAFETY: ours: just made, and seen by nobody.
            drop(unsafe { Box::from_raw(new) });
        } else if self.opened.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was faster.
            // SAFETY: ours: just made, and seen by nobody.
            drop(unsafe { Box::from_raw(new) });
        }
        self.opened()
    }

    pub(super) fn opened(&self) -> Option<&Framework> {
        self.here()?.framework.as_ref()
    }

    fn here(&self) -> Option<&Opened> {
        // SAFETY: ours: null, or something that is not freed before the provider is.
        let opened = unsafe { self.opened.load(Ordering::Acquire).as_ref() };
        opened.filter(|opened| opened.is_current())
    }

    /// One algorithm, for the functions that are told nothing but its place and the provider.
    ///
    /// # Safety
    ///
    /// The call: `provider` is what `OSSL_provider_init` gave out.
    pub(super) unsafe fn wrapped<'p>(provider: *mut c_void, operation: usize, place: usize) -> Option<&'p Wrapped> {
        // SAFETY: as the caller promises.
        let provider = unsafe { &*provider.cast::<Provider>() };
        provider.served[operation].get()?.wrapped.get(place)?.as_deref()
    }

    fn query(&self, operation: c_int) -> *const AlgorithmRow {
        self.serves(operation).map_or(ptr::null(), |served| served.rows.as_ptr())
    }

    /// The default provider's context, for its `newctx`.
    pub(super) fn default_ctx(&self) -> *mut c_void {
        self.default.context()
    }

    pub(super) fn serves(&self, operation: c_int) -> Option<&Served> {
        let rows: &'static [Row] = match operation {
            abi::OSSL_OP_CIPHER => &CIPHERS,
            abi::OSSL_OP_KDF => &KDFS,
            abi::OSSL_OP_KEYMGMT => &KEYS,
            _ => &PAIRS,
        };
        let kind = KINDS.iter().position(|known| *known == operation)?;
        if let Some(served) = self.served[kind].get() {
            return Some(served);
        }
        if !rows.iter().any(|row| self.selects(operation, row)) {
            return None;
        }
        let theirs = self.default.algorithms(operation)?;
        Some(self.served[kind].get_or_init(|| {
            let mut served = Vec::new();
            let wrapped = rows.iter().enumerate().map(|(place, row)| {
                let serves = self.selects(operation, row);
                // SAFETY: the host: its own table.
                let found = serves.then(|| unsafe { find(theirs, row.name) })??;
                let wrapped = self.wrap(kind, place, row, &found);
                let properties = properties_of(operation).as_ptr();
                served.push(AlgorithmRow { properties, implementation: wrapped.dispatch.as_ptr(), ..found });
                Some(wrapped)
            });
            let wrapped = wrapped.collect();
            served.push(AlgorithmRow::END);
            Served { rows: served.into(), wrapped }
        }))
    }

    /// Whether we are to serve a row in an operation.
    pub(super) fn selects(&self, operation: c_int, row: &Row) -> bool {
        let settings = &self.settings;
        let selection = match (operation, row.mode) {
            (abi::OSSL_OP_CIPHER, _) => &settings.ciphers,
            (abi::OSSL_OP_KDF, _) => &settings.derivations,
            // What is done with keys is served as a whole: with another provider, OpenSSL would take in a copy of each key first.
            (abi::OSSL_OP_SIGNATURE, Mode::Signature | Mode::SlhDsa) | (abi::OSSL_OP_KEYEXCH, Mode::Exchange) => {
                return self.has_keys(row.keys());
            }
            (abi::OSSL_OP_KEYMGMT, Mode::Keys) => return self.has_keys(row),
            _ => return false,
        };
        selection.serves(row, self.version)
    }

    /// Whether we are to serve keys of a type.
    fn has_keys(&self, keys: &Row) -> bool {
        PAIRS.iter().any(|used| ptr::eq(used.keys(), keys) && self.leads(used))
    }

    /// Whether requests of a row that we serve may be led elsewhere.
    pub(super) fn leads(&self, row: &Row) -> bool {
        match row.mode {
            Mode::Signature | Mode::SlhDsa => self.settings.signatures.serves(row, self.version),
            Mode::Exchange => self.settings.exchanges.serves(row, self.version),
            _ => true,
        }
    }

    /// What this machine serves, and by what it gains with the algorithms that `only` names, or with all.
    pub(super) fn measured(&self, only: Option<&str>) -> String {
        const SIZES: [usize; 3] = [64, 1024, 16384];
        // Those of PBKDF2, and bytes of its keys: most are of one block, and some of several.
        const HASHES: [Hash; 3] = [Hash::Sha1, Hash::Sha256, Hash::Sha512];
        const LENGTHS: [usize; 2] = [32, 128];
        let (major, minor) = self.version;
        let mut report = Report { text: format!("openssl {major}.{minor}\n") };
        self.framework()
            .iter()
            .for_each(|framework| framework.beside.gantry().devices().iter().for_each(|device| report.device(device)));
        let shown = [abi::OSSL_OP_CIPHER, abi::OSSL_OP_SIGNATURE, abi::OSSL_OP_KEYEXCH, abi::OSSL_OP_KDF];
        let served = shown.iter().enumerate().filter_map(|(key, operation)| Some((key, self.serves(*operation)?)));
        for (key, wrapped) in
            served.flat_map(|(key, served)| served.wrapped.iter().flatten().map(move |row| (key, row)))
        {
            let row = wrapped.row;
            let served = self.settings.usually_serves(row, self.version);
            // A request of these is always as long.
            let sizes = if PAIRS.iter().any(|pair| ptr::eq(pair, row)) { &SIZES[..1] } else { &SIZES };
            let is_asked = |name: &str, ours: &str| {
                only.is_none_or(|only| only.split(',').any(|one| [name, row.name, ours].contains(&one)))
            };
            let mut add = |name: &str, algorithm: Option<Algorithm>| {
                report.row(config::KEYS[key].0, name, row, algorithm, served);
                let asked = algorithm.filter(|asked| !asked.is_slh_dsa() && is_asked(name, asked.name()));
                let Some((ours, algorithm)) = self.framework().zip(asked) else { return };
                for cell in &measure::cells(ours, algorithm, sizes) {
                    report.cell(cell);
                }
            };
            match row.mode {
                // A key of HKDF is a few blocks, and is not measured.
                Mode::Kdf(_) => {
                    let Some(host) = HostKdf::pbkdf2_of(wrapped) else { continue };
                    for hash in HASHES {
                        let name = format!("{}-{}", row.name, hash.to_string().to_uppercase());
                        report.row(config::KEYS[key].0, &name, row, None, served);
                        if let Some(ours) = self.framework().filter(|_| is_asked(&name, "")) {
                            let cell = |bytes| measure::derives(ours, &host, hash, bytes);
                            LENGTHS.into_iter().filter_map(cell).for_each(|cell| report.cell(&cell));
                        }
                    }
                }
                _ => add(row.name, row.algorithm),
            }
        }
        report.text
    }

    fn wrap(&self, kind: usize, place: usize, row: &'static Row, theirs: &AlgorithmRow) -> Box<Wrapped> {
        // SAFETY: the host: the dispatch table of one of its algorithms.
        let table = unsafe { Table::new(theirs.implementation) };
        let (functions, dispatch) = match KINDS[kind] {
            abi::OSSL_OP_CIPHER => {
                (Functions::Cipher(CipherFns::new(table)), cipher::dispatch(table, place, self.version))
            }
            abi::OSSL_OP_KDF => (Functions::Kdf(KdfFns::new(table)), kdf::dispatch(table, place)),
            abi::OSSL_OP_KEYMGMT => (Functions::Keys(KeyFns::new(table)), keys::dispatch(table, place)),
            abi::OSSL_OP_KEYEXCH => (Functions::Exchange(ExchangeFns::new(table)), exchange::dispatch(table, place)),
            _ => (Functions::Signature(SignatureFns::new(table)), signature::dispatch(table, place)),
        };
        let (place, counter) = (report::place(row), report::first_counter(row));
        let only_counted = self.settings.counts_all && !self.settings.usually_serves(row, self.version);
        let watched = self.settings.force_fail && !only_counted;
        let asked = if only_counted { SizeSet::NONE } else { self.settings.asked() };
        Box::new(Wrapped { provider: self, row, place, counter, functions, dispatch, watched, only_counted, asked })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let opened = *self.opened.get_mut();
        // SAFETY: ours, if it was made in this process; a parent's is left alone.
        unsafe {
            if !opened.is_null() && (*opened).is_current() {
                drop(Box::from_raw(opened));
            }
        }
    }
}

/// By what programs and configurations ask for the algorithms of an operation. Keys may lie in hardware, so whoever prefers another
/// provider is to find its keys and what is done with them: these have no second property to be preferred by.
fn properties_of(operation: c_int) -> &'static CStr {
    match operation {
        abi::OSSL_OP_KEYMGMT | abi::OSSL_OP_KEYEXCH | abi::OSSL_OP_SIGNATURE => c"provider=gantry",
        // OpenSSL knows names of its own, and those with a dot in them.
        _ => c"provider=gantry,gantry.serves=yes",
    }
}

unsafe extern "C" fn query(provider: *mut c_void, operation: c_int, no_cache: *mut c_int) -> *const AlgorithmRow {
    guard(ptr::null(), || {
        // SAFETY: the call: what `OSSL_provider_init` gave out.
        let this = unsafe { &*provider.cast::<Provider>() };
        // Without the default provider there is nothing yet; it may come.
        let empty = this.default.query().is_none();
        if !no_cache.is_null() {
            // SAFETY: the call.
            unsafe { *no_cache = c_int::from(empty) };
        }
        if empty { ptr::null() } else { this.query(operation) }
    })
}

unsafe extern "C" fn teardown(provider: *mut c_void) {
    guard((), || {
        let provider = provider.cast::<Provider>();
        // SAFETY: ours: the provider is freed here, and nowhere else, after the last callback that knows it.
        unsafe {
            (*provider).default.unwatch();
            drop(Box::from_raw(provider));
        }
    });
}

/// The way in: called once for each library context that loads the module.
///
/// # Safety
///
/// The core calls it as provider-base(7) says.
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "the module's only symbol")]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const CoreHandle,
    upcalls: *const Dispatch,
    table: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    static TABLE: OnceLock<[Dispatch; 6]> = OnceLock::new();
    // A panic, should there be one, is caught, and says nothing. The hook is that of this module's own copy of std.
    static QUIET: Once = Once::new();
    guard(0, || {
        QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
        // SAFETY: the call: a table with its end, that stays.
        let Some(core) = Core::new(handle, unsafe { Table::new(upcalls) }) else { return 0 };
        let functions = TABLE.get_or_init(|| {
            let [a, b, c, d, e] = dispatch! {
                OSSL_FUNC_PROVIDER_TEARDOWN => teardown, Teardown;
                OSSL_FUNC_PROVIDER_GETTABLE_PARAMS => about::gettable, Gettable;
                OSSL_FUNC_PROVIDER_GET_PARAMS => about::get, GetParams;
                OSSL_FUNC_PROVIDER_QUERY_OPERATION => query, QueryOperation;
                OSSL_FUNC_PROVIDER_GET_CAPABILITIES => about::capabilities, GetCapabilities;
            };
            let end = Dispatch { id: 0, function: None };
            [a, b, c, d, e, end]
        });
        let off = variable("GANTRY_DISABLE").is_some_and(|value| value == "1");
        let settings = if off { Ok(Settings::nothing()) } else { Settings::read(|key| core.value(key)) };
        let settings = match settings {
            Ok(settings) => settings,
            Err(sentence) => {
                core.raise(abi::ERR_R_CONF_LIB, &format!("gantry: {sentence}"));
                gantry_runtime::stats::tell(&sentence);
                return 0;
            }
        };
        let tallies = if off { None } else { report::tallies(settings.runtime.stats()) };
        let (tally, derived) = tallies.unzip();
        let provider = Box::into_raw(Box::new(Provider {
            core,
            version: core.version(),
            settings,
            default: DefaultProvider::new(core),
            served: Default::default(),
            opened: AtomicPtr::default(),
            tally,
            derived,
        }));
        // SAFETY: ours: it stays there until `teardown`, which asks the core to stop first.
        if !unsafe { (*provider).default.watch() } {
            // SAFETY: ours: nobody else has seen it.
            unsafe { teardown(provider.cast()) };
            return 0;
        }
        // SAFETY: the call.
        unsafe {
            *table = functions.as_ptr();
            *context = provider.cast();
        }
        1
    })
}
