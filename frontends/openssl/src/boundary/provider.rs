//! The provider: one for each library context that loads the module.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use gantry::stats::Tally;
use gantry::{Algorithm, Operation};
use gantry_runtime::forks::{self, GENERATION};

use super::cipher::{self, CipherFns};
use super::core::{Core, Table};
use super::default::DefaultProvider;
use super::digest::{self, DigestFns, HostDigest, HostDigests};
use super::encoders::Encoders;
use super::exchange::{self, ExchangeFns};
use super::guard;
use super::jobs::Jobs;
use super::keys::{self, KeyFns};
use super::mac::{self, MacFns};
use super::params::Answers;
use super::signature::{self, SignatureFns};
use super::system::secure;

use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, CoreHandle, Dispatch, Item, Param};
use crate::choice::{Side, Sizes};
use crate::config::{self, Settings};
use crate::framework::{Closed, Framework};
use crate::host::HostDriver;
use crate::report::{self, Report};
use crate::table::{CIPHERS, DIGESTS, KEYS, MACS, Mode, PAIRS, RSA, Row};

/// Reasons on the error stack.
const BAD_CONFIGURATION: u32 = 1;
const FORCED: u32 = 2;

static REASONS: Items<3> = Items([
    Item { id: BAD_CONFIGURATION, text: c"bad gantry configuration".as_ptr() },
    Item { id: FORCED, text: c"gantry: made to fail by FORCE_FAIL".as_ptr() },
    Item { id: 0, text: ptr::null() },
]);

struct Items<const N: usize>([Item; N]);

// SAFETY: pointers to constant strings.
unsafe impl<const N: usize> Sync for Items<N> {}

/// The operations of which we serve algorithms; those of keys have no requests.
const KINDS: [c_int; 6] = [
    abi::OSSL_OP_DIGEST,
    abi::OSSL_OP_CIPHER,
    abi::OSSL_OP_MAC,
    abi::OSSL_OP_KEYMGMT,
    abi::OSSL_OP_KEYEXCH,
    abi::OSSL_OP_SIGNATURE,
];

/// What the core calls `provctx`.
pub(crate) struct Provider {
    core: Core,
    settings: Settings,
    version: (u32, u32),
    default: DefaultProvider,
    /// By place in [`KINDS`].
    served: [OnceLock<Served>; KINDS.len()],
    /// Of our keys on curves with parameters.
    encoders: OnceLock<Encoders>,
    digests: OnceLock<Digests>,
    jobs: OnceLock<Option<Jobs>>,
    framework: AtomicPtr<Framework>,
    /// One more than the generation in which no framework could be opened.
    closed: AtomicU32,
    /// Counts what is left to the host, for other processes to see.
    tally: Option<Tally>,
}

/// The algorithms of an operation. The core keeps pointers into it as long as the provider lives.
struct Served {
    rows: Box<[AlgorithmRow]>,
    /// By place in our own table.
    wrapped: Box<[Option<Box<Wrapped>>]>,
}

// SAFETY: written once, before it is shared; the strings behind the pointers are the host's and stay.
unsafe impl Send for Served {}
// SAFETY: as above.
unsafe impl Sync for Served {}

/// The default provider's digests, each with its names.
struct Digests(Vec<(*const c_char, DigestFns)>);

// SAFETY: written once, before it is shared; the strings behind the pointers are the host's and stay.
unsafe impl Send for Digests {}
// SAFETY: as above.
unsafe impl Sync for Digests {}

/// An algorithm of the default provider, and ours in front of it.
pub(crate) struct Wrapped {
    provider: *const Provider,
    row: &'static Row,
    /// The row's place among those that are counted. Keys are not.
    place: Option<usize>,
    /// Its first counter among those of the operations that the host served.
    counter: usize,
    pub(super) functions: Functions,
    dispatch: Vec<Dispatch>,
    /// Each call is looked at.
    watched: bool,
    /// It comes by here only to be counted: the configuration leaves it to the host.
    only_counted: bool,
    /// Of the row's own algorithm, what may be led elsewhere as long as nothing else is known.
    asked: Sizes,
}

/// The default provider's functions of one algorithm.
pub(crate) enum Functions {
    Cipher(CipherFns),
    Digest(DigestFns),
    Mac(MacFns),
    Keys(KeyFns),
    Exchange(ExchangeFns),
    Signature(SignatureFns),
}

impl Wrapped {
    fn provider(&self) -> &Provider {
        // SAFETY: ours: the provider owns this, and stays where it is.
        unsafe { &*self.provider }
    }

    pub(crate) fn row(&self) -> &'static Row {
        self.row
    }

    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.row.algorithm
    }

    /// The host's release.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.provider().version
    }

    /// The default provider's context, for its `newctx`.
    pub(super) fn default_ctx(&self) -> *mut c_void {
        self.provider().default_ctx()
    }

    pub(super) fn encoders(&self) -> Option<&Encoders> {
        self.provider().encoders()
    }

    /// The host's own, for the device that it is.
    pub(crate) fn host_algorithm(&self) -> Option<cipher::HostAlgorithm> {
        cipher::HostAlgorithm::new(self)
    }

    /// The same for a MAC.
    pub(crate) fn host_mac(&self) -> Option<mac::HostMac> {
        mac::HostMac::new(self)
    }

    /// What serves the keys of a signature or key exchange.
    pub(super) fn keys(&self) -> Option<&Wrapped> {
        let served = self.provider().serves(abi::OSSL_OP_KEYMGMT)?;
        served.wrapped.iter().flatten().find(|keys| ptr::eq(keys.row, self.row.keys())).map(|keys| &**keys)
    }

    /// The host's digest of this name, begun.
    pub(super) fn host_digest(&self, name: &CStr) -> Option<HostDigest> {
        let digests = self.provider().digests.get_or_init(|| self.provider().host_digests());
        // SAFETY: the host: its names are strings, and stay.
        let (_, functions) = digests.0.iter().find(|(names, _)| unsafe { has_name(*names, name.to_bytes()) })?;
        HostDigest::begin(functions, self.default_ctx())
    }

    /// The framework, opened if it was not. `None` also where nothing of this is to be led elsewhere.
    pub(crate) fn framework(&self) -> Option<&Framework> {
        if self.only_counted { None } else { self.provider().framework() }
    }

    /// The framework, if it is open.
    pub(crate) fn opened(&self) -> Option<&Framework> {
        if self.only_counted { None } else { self.provider().opened() }
    }

    /// The host's jobs, if it has any.
    pub(super) fn jobs(&self) -> Option<&Jobs> {
        let provider = self.provider();
        provider.jobs.get_or_init(|| Jobs::beside(provider.core.address())).as_ref()
    }

    /// The requests that may meet those of other jobs.
    pub(crate) fn meet(&self) -> Sizes {
        if self.provider().settings.policy_named { Sizes::ALL } else { Sizes::JOBS }
    }

    /// The requests that may be led elsewhere, as long as nothing else is known.
    pub(crate) fn asked(&self, algorithm: Option<Algorithm>) -> Sizes {
        if self.only_counted || algorithm == self.row.algorithm {
            self.asked
        } else {
            self.provider().settings.asked(algorithm)
        }
    }

    /// Whether each call must be looked at: it is made to fail.
    #[inline(always)]
    pub(crate) fn watches(&self) -> bool {
        self.watched
    }

    /// Whether requests may be led elsewhere: they may not where only the keys are served, for something else that is done with
    /// them.
    pub(crate) fn leads(&self) -> bool {
        self.provider().leads(self.row)
    }

    /// Whether operations are made to fail; if so, it is on the error stack.
    pub(super) fn fails(&self) -> bool {
        let provider = self.provider();
        let fails = provider.settings.force_fail && self.leads() && !self.only_counted;
        if fails {
            provider.core.raise(FORCED, self.row.name);
        }
        fails
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(super) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        self.provider().core.quietly(body)
    }

    /// A request was served by one side or the other.
    pub(crate) fn count(&self, operation: Operation, side: Side, bytes: usize) {
        // What devices do their framework counts.
        if side == Side::Host {
            self.hosts(operation.index(), 1, bytes);
        }
    }

    /// So many requests of an operation, named by its [index](Operation::index), went to the host.
    pub(super) fn hosts(&self, operation: usize, requests: usize, bytes: usize) {
        if let (Some(tally), Some(_)) = (&self.provider().tally, self.place) {
            tally.count(self.counter + operation, requests as u64, bytes as u64);
        }
    }
}

impl Provider {
    fn framework(&self) -> Option<&Framework> {
        let opened = self.opened();
        if opened.is_some() {
            return opened;
        }
        // What could not be opened once is not tried again in this process.
        let generation = GENERATION.load(Ordering::Relaxed);
        if self.closed.load(Ordering::Relaxed) == generation + 1 {
            return None;
        }
        forks::count();
        // Whatever a program asks for later, the host is a device for it from the beginning.
        let wrapped = KINDS.into_iter().filter(|operation| *operation != abi::OSSL_OP_KEYMGMT);
        let wrapped =
            wrapped.filter_map(|operation| self.serves(operation)).flat_map(|served| &served.wrapped).flatten();
        let host = HostDriver::new(wrapped.map(|wrapped| &**wrapped), self.version);
        let framework = Framework::open(&self.settings, &host);
        let framework = match framework {
            Ok(framework) => framework,
            Err(closed) => {
                self.closed.store(generation + 1, Ordering::Relaxed);
                if let Closed::Without(error) = closed {
                    gantry_runtime::stats::tell(&format!("everything is the host's: {error}"));
                }
                return None;
            }
        };
        let new = Box::into_raw(Box::new(framework));
        let old = self.framework.load(Ordering::Acquire);
        // An older one is another process's, and stays where it is: whoever is in it is not in this process.
        // SAFETY: ours.
        if !old.is_null() && unsafe { (*old).generation } == GENERATION.load(Ordering::Relaxed) {
            // SAFETY: ours: just made, and seen by nobody.
            drop(unsafe { Box::from_raw(new) });
        } else if self.framework.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was faster.
            // SAFETY: ours: just made, and seen by nobody.
            drop(unsafe { Box::from_raw(new) });
        }
        self.opened()
    }

    fn opened(&self) -> Option<&Framework> {
        // SAFETY: ours: null, or a framework that is not freed before the provider is.
        let framework = unsafe { self.framework.load(Ordering::Acquire).as_ref() };
        framework.filter(|framework| framework.generation == GENERATION.load(Ordering::Relaxed))
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
        match operation {
            abi::OSSL_OP_ENCODER => self.encoders().map_or(ptr::null(), Encoders::rows),
            _ => self.serves(operation).map_or(ptr::null(), |served| served.rows.as_ptr()),
        }
    }

    /// The default provider's context, for its `newctx`.
    pub(super) fn default_ctx(&self) -> *mut c_void {
        self.default.context()
    }

    /// The encoders of keys on curves with parameters, where we serve such keys.
    pub(super) fn encoders(&self) -> Option<&Encoders> {
        let keys = KEYS.iter().find(|row| row.name == keys::EC)?;
        if self.encoders.get().is_none() && self.has_keys(keys) {
            let theirs = self.default.algorithms(abi::OSSL_OP_ENCODER)?;
            // SAFETY: the host: its own table.
            self.encoders.get_or_init(|| unsafe { Encoders::new(theirs) });
        }
        self.encoders.get()
    }

    fn serves(&self, operation: c_int) -> Option<&Served> {
        let rows: &'static [Row] = match operation {
            abi::OSSL_OP_DIGEST => &DIGESTS,
            abi::OSSL_OP_CIPHER => &CIPHERS,
            abi::OSSL_OP_MAC => &MACS,
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

    /// Those of the digests that have a row here.
    fn host_digests(&self) -> Digests {
        let theirs = self.default.algorithms(abi::OSSL_OP_DIGEST).unwrap_or(ptr::null());
        let digest = |row: &Row| {
            // SAFETY: the host: its own table, and the dispatch table of one of its algorithms.
            let found = unsafe { find(theirs, row.name) }?;
            // SAFETY: as above.
            Some((found.names, DigestFns::new(unsafe { Table::new(found.implementation) })))
        };
        Digests(DIGESTS.iter().filter_map(digest).collect())
    }

    /// Whether we are to serve a row in an operation.
    fn selects(&self, operation: c_int, row: &Row) -> bool {
        let settings = &self.settings;
        let selection = match (operation, row.mode) {
            (abi::OSSL_OP_DIGEST, _) => &settings.digests,
            (abi::OSSL_OP_CIPHER, _) => &settings.ciphers,
            (abi::OSSL_OP_MAC, _) => &settings.macs,
            // What is done with keys is served as a whole: with another provider, OpenSSL would take in a copy of each key first.
            (abi::OSSL_OP_SIGNATURE, Mode::Signature | Mode::Ecdsa | Mode::Rsa)
            | (abi::OSSL_OP_KEYEXCH, Mode::Exchange) => {
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
    fn leads(&self, row: &Row) -> bool {
        match row.mode {
            Mode::Signature | Mode::Ecdsa | Mode::Rsa => self.settings.signatures.serves(row, self.version),
            Mode::Exchange => self.settings.exchanges.serves(row, self.version),
            _ => true,
        }
    }

    /// What this machine serves, and by what it gains with the algorithms that `only` names, or with all.
    fn measured(&self, only: Option<&str>) -> String {
        const SIZES: [usize; 3] = [64, 1024, 16384];
        // Of all digests, those that most programs have: company takes seconds to measure.
        const COMMON: [Algorithm; 3] = [Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];
        let (major, minor) = self.version;
        let mut report = Report { text: format!("openssl {major}.{minor}\n") };
        self.framework().iter().for_each(|framework| framework.devices().for_each(|device| report.device(device)));
        let shown =
            [abi::OSSL_OP_CIPHER, abi::OSSL_OP_DIGEST, abi::OSSL_OP_MAC, abi::OSSL_OP_SIGNATURE, abi::OSSL_OP_KEYEXCH];
        let served = shown.iter().enumerate().filter_map(|(key, operation)| Some((key, self.serves(*operation)?)));
        for (key, wrapped) in
            served.flat_map(|(key, served)| served.wrapped.iter().flatten().map(move |row| (key, row)))
        {
            let row = wrapped.row;
            let served = self.settings.usually_serves(row, self.version);
            // A request of these is always as long.
            let sizes = if PAIRS.iter().any(|pair| ptr::eq(pair, row)) { &SIZES[..1] } else { &SIZES };
            let mut add = |name: &str, algorithm: Option<Algorithm>| {
                let ours = algorithm.map_or("", Algorithm::name);
                let named = |only: &str| only.split(',').any(|one| [name, row.name, ours].contains(&one));
                report.row(config::KEYS[key].0, name, row, algorithm, served);
                let asked = algorithm.filter(|_| only.is_none_or(named));
                let Some((ours, algorithm)) = self.framework().zip(asked) else { return };
                ours.cells(algorithm, sizes).iter().for_each(|cell| report.cell(cell));
                if (only.is_some() || COMMON.contains(&algorithm))
                    && let Some(host) = HostDigests::new(wrapped)
                    && let Some(company) = ours.company(algorithm, &host)
                {
                    report.company(&company);
                }
            };
            match row.mode {
                // One number, and an algorithm for each thing that can be inside.
                Mode::Mac(mac) => mac.algorithms().for_each(|(mac, _)| add(mac.name(), Some(mac))),
                Mode::Rsa => RSA.as_flattened().iter().for_each(|rsa| add(rsa.name(), Some(*rsa))),
                _ => add(row.name, row.algorithm),
            }
        }
        report.text
    }

    fn wrap(&self, kind: usize, place: usize, row: &'static Row, theirs: &AlgorithmRow) -> Box<Wrapped> {
        // SAFETY: the host: the dispatch table of one of its algorithms.
        let table = unsafe { Table::new(theirs.implementation) };
        let (functions, dispatch) = match KINDS[kind] {
            abi::OSSL_OP_DIGEST => (Functions::Digest(DigestFns::new(table)), digest::dispatch(table, place)),
            abi::OSSL_OP_CIPHER => {
                (Functions::Cipher(CipherFns::new(table)), cipher::dispatch(table, place, self.version))
            }
            abi::OSSL_OP_MAC => (Functions::Mac(MacFns::new(table)), mac::dispatch(table, place)),
            abi::OSSL_OP_KEYMGMT => (Functions::Keys(KeyFns::new(table)), keys::dispatch(table, place)),
            abi::OSSL_OP_KEYEXCH => (Functions::Exchange(ExchangeFns::new(table)), exchange::dispatch(table, place)),
            _ => (Functions::Signature(SignatureFns::new(table)), signature::dispatch(table, place)),
        };
        let (place, counter) = (report::place(row), report::first_counter(row));
        let only_counted = self.settings.counts_all && !self.settings.usually_serves(row, self.version);
        let watched = self.settings.force_fail && !only_counted;
        let asked = if only_counted { Sizes::NONE } else { self.settings.asked(row.algorithm) };
        Box::new(Wrapped { provider: self, row, place, counter, functions, dispatch, watched, only_counted, asked })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let wrapped = self.served.iter().filter_map(OnceLock::get).flat_map(|served| &served.wrapped).flatten();
        for wrapped in wrapped {
            if let Functions::Digest(functions) = &wrapped.functions {
                digest::release(functions);
            }
        }
        let framework = *self.framework.get_mut();
        // SAFETY: ours, if it was made in this process; a parent's is left alone.
        unsafe {
            if !framework.is_null() && (*framework).generation == GENERATION.load(Ordering::Relaxed) {
                drop(Box::from_raw(framework));
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

/// The row of the host that has `name` among its names.
///
/// # Safety
///
/// Null, or a table with its end.
unsafe fn find(mut theirs: *const AlgorithmRow, name: &str) -> Option<AlgorithmRow> {
    // SAFETY: as the caller promises; names are strings.
    unsafe {
        while !theirs.is_null() && !(*theirs).names.is_null() {
            if has_name((*theirs).names, name.as_bytes()) {
                return Some(*theirs);
            }
            theirs = theirs.add(1);
        }
    }
    None
}

/// Whether `name` is among names with colons between.
///
/// # Safety
///
/// A string.
pub(super) unsafe fn has_name(names: *const c_char, name: &[u8]) -> bool {
    // SAFETY: as the caller promises.
    let names = unsafe { CStr::from_ptr(names) }.to_bytes();
    names.split(|byte| *byte == b':').any(|known| known.eq_ignore_ascii_case(name))
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

/// Groups of TLS: libssl uses a group only if the provider that names it is the one from which it gets the keys of that group.
/// We name those of the default provider of which we serve the keys.
unsafe extern "C" fn capabilities(
    provider: *mut c_void,
    capability: *const c_char,
    tell: ParamsCallback,
    data: *mut c_void,
) -> c_int {
    struct Asked<'c> {
        this: &'c Provider,
        tell: ParamsCallback,
        data: *mut c_void,
    }
    unsafe extern "C" fn told(params: *const Param, asked: *mut c_void) -> c_int {
        guard(0, || {
            // SAFETY: what is given below; the host: a table with its end.
            let (asked, told) = unsafe { (&*asked.cast::<Asked<'_>>(), Answers::new(params)) };
            let row = told.text(c"tls-group-alg").and_then(|name| KEYS.iter().find(|row| row.name.as_bytes() == name));
            let ours = row.is_some_and(|row| asked.this.selects(abi::OSSL_OP_KEYMGMT, row));
            // SAFETY: the call, with what the host says.
            if ours { unsafe { (asked.tell)(params, asked.data) } } else { 1 }
        })
    }
    guard(0, || {
        // SAFETY: the call: what `OSSL_provider_init` gave out, and a string.
        let (this, name) = unsafe { (&*provider.cast::<Provider>(), CStr::from_ptr(capability)) };
        let theirs = this.default.capabilities().filter(|_| name.to_bytes().eq_ignore_ascii_case(b"TLS-GROUP"));
        let Some(theirs) = theirs else { return 1 };
        let mut asked = Asked { this, tell, data };
        // SAFETY: the host, with its own context, what the call brought, and a function that is called before it returns.
        unsafe { theirs(this.default_ctx(), capability, told, (&raw mut asked).cast()) }
    })
}

unsafe extern "C" fn reasons(_: *mut c_void) -> *const Item {
    REASONS.0.as_ptr()
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

/// The names and values that a program can ask a provider for.
mod about {
    use std::ffi::{c_char, c_int, c_void};

    use crate::abi::{self, Param};
    use crate::boundary::guard_with_room;
    use crate::boundary::params;

    const ABOUT: [(&std::ffi::CStr, &std::ffi::CStr); 3] =
        [(c"name", c"Gantry"), (c"version", VERSION), (c"buildinfo", VERSION)];

    const VERSION: &std::ffi::CStr =
        match std::ffi::CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero inside"),
        };

    struct Table([Param; 5]);

    // SAFETY: constant names, and no data.
    unsafe impl Sync for Table {}

    const fn text(key: &'static std::ffi::CStr) -> Param {
        let data_type = abi::OSSL_PARAM_UTF8_PTR as u32;
        Param { key: key.as_ptr(), data_type, data: std::ptr::null_mut(), data_size: 0, return_size: 0 }
    }

    static GETTABLE: Table = Table([
        text(c"name"),
        text(c"version"),
        text(c"buildinfo"),
        Param { data_type: abi::OSSL_PARAM_INTEGER as u32, ..text(c"status") },
        params::end(),
    ]);

    pub(super) unsafe extern "C" fn gettable(_: *mut c_void) -> *const Param {
        GETTABLE.0.as_ptr()
    }

    pub(super) unsafe extern "C" fn get(provider: *mut c_void, table: *mut Param) -> c_int {
        guard_with_room(0, || {
            // SAFETY: the call: what `OSSL_provider_init` gave out.
            let provider = unsafe { &*provider.cast::<super::Provider>() };
            if let Some((file, only)) = provider.settings.measure.as_ref().filter(|(file, _)| !file.exists()) {
                crate::report::write(file, &provider.measured(only.as_deref()));
            }
            for (key, value) in ABOUT {
                // SAFETY: the call: a table with its end.
                if let Some(param) = unsafe { params::find_mut(table, key) }
                    && param.data_type.cast_signed() == abi::OSSL_PARAM_UTF8_PTR
                    && !param.data.is_null()
                {
                    // SAFETY: the call: there is room for a pointer.
                    unsafe { param.data.cast::<*const c_char>().write(value.as_ptr()) };
                    param.return_size = value.count_bytes();
                }
            }
            // SAFETY: the call: a table with its end.
            if let Some(param) = unsafe { params::find_mut(table, c"status") }
                && param.data_size == size_of::<c_int>()
                && !param.data.is_null()
            {
                // SAFETY: the call: there is room for a number of this size.
                unsafe { param.data.cast::<c_int>().write_unaligned(1) };
                param.return_size = size_of::<c_int>();
            }
            1
        })
    }
}

/// Our table for an algorithm: of `ours` what the host has, too, and as they are the host's own that are `passed`, which are told
/// neither context nor provider. What the host has and we do not know is left out: it would be given contexts of ours.
pub(super) fn complete(theirs: Table, ours: &[Dispatch], passed: &[c_int]) -> Vec<Dispatch> {
    let mut table: Vec<Dispatch> = ours.iter().copied().filter(|entry| theirs.entry(entry.id).is_some()).collect();
    let passed = passed.iter().map(|id| Dispatch { id: *id, function: theirs.entry(*id) });
    table.extend(passed.filter(|entry| entry.function.is_some()));
    table.push(Dispatch { id: 0, function: None });
    table
}

/// Makes a table of functions out of pairs of id and function.
macro_rules! dispatch {
    ($($id:ident => $function:expr, $kind:ty;)*) => {
        [$($crate::abi::Dispatch {
            id: $crate::abi::$id,
            function: Some({
                let function: $kind = $function;
                // SAFETY: all functions are stored as one type, and called as the type that their id stands for.
                unsafe { std::mem::transmute::<$kind, $crate::abi::Function>(function) }
            }),
        }),*]
    };
}
pub(super) use dispatch;

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
    static TABLE: OnceLock<[Dispatch; 7]> = OnceLock::new();
    // A panic, should there be one, is caught, and says nothing. The hook is that of this module's own copy of std.
    static QUIET: Once = Once::new();
    guard(0, || {
        QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
        // SAFETY: the call: a table with its end, that stays.
        let Some(core) = Core::new(handle, unsafe { Table::new(upcalls) }) else { return 0 };
        let functions = TABLE.get_or_init(|| {
            let [a, b, c, d, e, f] = dispatch! {
                OSSL_FUNC_PROVIDER_TEARDOWN => teardown, Teardown;
                OSSL_FUNC_PROVIDER_GETTABLE_PARAMS => about::gettable, Gettable;
                OSSL_FUNC_PROVIDER_GET_PARAMS => about::get, GetParams;
                OSSL_FUNC_PROVIDER_QUERY_OPERATION => query, QueryOperation;
                OSSL_FUNC_PROVIDER_GET_REASON_STRINGS => reasons, ReasonStrings;
                OSSL_FUNC_PROVIDER_GET_CAPABILITIES => capabilities, GetCapabilities;
            };
            let end = Dispatch { id: 0, function: None };
            [a, b, c, d, e, f, end]
        });
        let off = !secure() && std::env::var_os("GANTRY_DISABLE").is_some_and(|value| value == "1");
        let settings = if off { Ok(Settings::nothing()) } else { Settings::read(|key| core.value(key), secure()) };
        let settings = match settings {
            Ok(settings) => settings,
            Err(sentence) => {
                core.raise(BAD_CONFIGURATION, &sentence);
                gantry_runtime::stats::tell(&sentence);
                return 0;
            }
        };
        let tally = if off { None } else { report::tally(settings.runtime.stats()) };
        let provider = Box::into_raw(Box::new(Provider {
            core,
            version: core.version(),
            settings,
            default: DefaultProvider::new(core),
            served: Default::default(),
            encoders: OnceLock::new(),
            digests: OnceLock::new(),
            jobs: OnceLock::new(),
            framework: AtomicPtr::default(),
            closed: AtomicU32::default(),
            tally,
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
