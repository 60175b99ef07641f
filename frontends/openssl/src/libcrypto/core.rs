//! Function tables, and the services of OpenSSL's core: configuration section, error stack, other providers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, CoreHandle, Dispatch, Param};

/// The core's upcalls, and our handle.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    handle: *const CoreHandle,
    get_params: CoreGetParams,
    new_error: Option<CoreNewError>,
    set_error_debug: Option<CoreSetErrorDebug>,
    vset_error: Option<CoreVsetError>,
    set_error_mark: Option<CoreErrorMark>,
    pop_error_to_mark: Option<CoreErrorMark>,
    register_child_cb: RegisterChildCb,
    deregister_child_cb: DeregisterChildCb,
    name: ProviderName,
    get0_ctx: ProviderGet0Ctx,
    get0_dispatch: ProviderGet0Dispatch,
}

#[derive(Clone, Copy)]
pub(crate) struct DispatchTable(*const Dispatch);

impl DispatchTable {
    /// # Safety
    ///
    /// `table` is null, or a terminated table of the core or the default provider, which stays valid.
    pub(crate) unsafe fn new(table: *const Dispatch) -> Self {
        Self(table)
    }

    pub(crate) fn entry(self, id: c_int) -> Option<abi::Function> {
        let mut at = self.0;
        // SAFETY: as `new` requires.
        unsafe {
            while !at.is_null() && (*at).id != 0 {
                if (*at).id == id {
                    return (*at).function;
                }
                at = at.add(1);
            }
        }
        None
    }
}

/// The function behind an id, with the type that the id stands for.
macro_rules! entry {
    ($table:expr, $id:ident, $kind:ty) => {
        $table.entry($crate::abi::$id).map(|function| {
            // SAFETY: the default provider: the function behind an id has the type that the id stands for.
            unsafe { std::mem::transmute::<$crate::abi::Function, $kind>(function) }
        })
    };
}
pub(crate) use entry;

impl Core {
    /// Returns `None` if the core lacks a required function.
    pub(crate) fn new(handle: *const CoreHandle, table: DispatchTable) -> Option<Self> {
        Some(Self {
            handle,
            get_params: entry!(table, OSSL_FUNC_CORE_GET_PARAMS, CoreGetParams)?,
            new_error: entry!(table, OSSL_FUNC_CORE_NEW_ERROR, CoreNewError),
            set_error_debug: entry!(table, OSSL_FUNC_CORE_SET_ERROR_DEBUG, CoreSetErrorDebug),
            vset_error: entry!(table, OSSL_FUNC_CORE_VSET_ERROR, CoreVsetError),
            set_error_mark: entry!(table, OSSL_FUNC_CORE_SET_ERROR_MARK, CoreErrorMark),
            pop_error_to_mark: entry!(table, OSSL_FUNC_CORE_POP_ERROR_TO_MARK, CoreErrorMark),
            register_child_cb: entry!(table, OSSL_FUNC_PROVIDER_REGISTER_CHILD_CB, RegisterChildCb)?,
            deregister_child_cb: entry!(table, OSSL_FUNC_PROVIDER_DEREGISTER_CHILD_CB, DeregisterChildCb)?,
            name: entry!(table, OSSL_FUNC_PROVIDER_NAME, ProviderName)?,
            get0_ctx: entry!(table, OSSL_FUNC_PROVIDER_GET0_PROVIDER_CTX, ProviderGet0Ctx)?,
            get0_dispatch: entry!(table, OSSL_FUNC_PROVIDER_GET0_DISPATCH, ProviderGet0Dispatch)?,
        })
    }

    /// Returns a value of our section in the configuration file, or one of the core's own parameters.
    pub(crate) fn config_value(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        let mut text: *const std::ffi::c_char = ptr::null();
        let data: *mut c_void = (&raw mut text).cast();
        let data_type = abi::OSSL_PARAM_UTF8_PTR as u32;
        let mut params =
            [Param { key: key.as_ptr(), data_type, data, data_size: 0, return_size: 0 }, super::params::end()];
        // SAFETY: our handle, and a terminated table; the answer points to a string that lives as long as the provider.
        unsafe {
            if (self.get_params)(self.handle, params.as_mut_ptr()) != 1 || text.is_null() {
                return None;
            }
            Some(CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// Returns OpenSSL's release, major and minor.
    pub(crate) fn version(&self) -> (u32, u32) {
        let text = self.config_value("openssl-version").unwrap_or_default();
        let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Puts an error on the stack: a reason that all libraries share, and a sentence. Gantry registers no reasons of its own. A second
    /// libcrypto, in a module of the program, would free them after its own teardown, and crash the program at exit.
    pub(crate) fn raise(&self, reason: c_int, sentence: &str) {
        if let Ok(format) = CString::new(sentence.replace('%', "%%").replace('\0', "")) {
            self.set_error(reason, Some(&format));
        }
    }

    /// Puts an error of OpenSSL's own providers on the stack: one of the reasons `PROV_R_*`.
    pub(crate) fn raise_prov_error(&self, reason: c_int) {
        // `ERR_PACK` of err.h.
        self.set_error(abi::ERR_LIB_PROV << 23 | reason, None);
    }

    /// Puts an error on the stack. `format` must have no conversions, because the call passes no arguments for them.
    fn set_error(&self, reason: c_int, format: Option<&CStr>) {
        let (Some(new), Some(vset)) = (self.new_error, self.vset_error) else { return };
        // Never read, because the format has no conversions.
        let mut no_arguments = [0_u64; 4];
        // SAFETY: our handle and strings. A `va_list` is a pointer, or is passed as one, on all platforms that Rust and
        // OpenSSL share, and is at most four words long.
        unsafe {
            new(self.handle);
            if let Some(debug) = self.set_error_debug {
                debug(self.handle, c"gantry".as_ptr(), 0, c"gantry".as_ptr());
            }
            let format = format.map_or(ptr::null(), CStr::as_ptr);
            vset(self.handle, reason.cast_unsigned(), format, no_arguments.as_mut_ptr().cast());
        }
    }

    /// Runs `body`, work of Gantry's own, and removes the errors that it leaves on the error stack.
    pub(crate) fn discarding_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        let Some((mark, pop)) = self.set_error_mark.zip(self.pop_error_to_mark) else { return body() };
        // SAFETY: our handle.
        unsafe { mark(self.handle) };
        let result = body();
        // SAFETY: as above.
        unsafe { pop(self.handle) };
        result
    }

    /// Registers callbacks for every provider that is or will be activated.
    ///
    /// # Safety
    ///
    /// `data` lives until [`deregister_child_callbacks`](Self::deregister_child_callbacks) returns, and the functions are sound with it on
    /// any thread.
    pub(crate) unsafe fn register_child_callbacks(
        &self,
        create: ChildCallback,
        remove: ChildCallback,
        props: PropsCallback,
        data: *mut c_void,
    ) -> bool {
        // OpenSSL returns the number of registrations so far, not 1.
        // SAFETY: our handle, functions of the required types, and as the caller promises.
        unsafe { (self.register_child_cb)(self.handle, create, remove, props, data) > 0 }
    }

    /// Unregisters the callbacks. None of them runs afterwards: the core calls them under the lock that it takes here.
    pub(crate) fn deregister_child_callbacks(&self) {
        // SAFETY: our handle.
        unsafe { (self.deregister_child_cb)(self.handle) };
    }

    /// Returns the default provider's context and dispatch table, if `provider` is the default one. Every release of the core
    /// reads these from the provider without a lock.
    ///
    /// # Safety
    ///
    /// The provider is activated and stays so during this call.
    pub(crate) unsafe fn as_default_provider(
        &self,
        provider: *const CoreHandle,
    ) -> Option<(*mut c_void, *const Dispatch)> {
        // SAFETY: as the caller promises; names are strings.
        unsafe {
            let name = (self.name)(provider);
            let is_default = !name.is_null() && CStr::from_ptr(name) == c"default";
            is_default.then(|| ((self.get0_ctx)(provider), (self.get0_dispatch)(provider)))
        }
    }
}

/// Returns the default provider's row that has `name` among its names.
///
/// # Safety
///
/// `row` is null, or the first row of a terminated table.
pub(crate) unsafe fn find_algorithm(mut row: *const AlgorithmRow, name: &str) -> Option<AlgorithmRow> {
    // SAFETY: as the caller promises; names are strings.
    unsafe {
        while !row.is_null() && !(*row).names.is_null() {
            if has_name((*row).names, name.as_bytes()) {
                return Some(*row);
            }
            row = row.add(1);
        }
    }
    None
}

/// Returns true if `name` is among the names, which are separated by colons.
///
/// # Safety
///
/// `names` points to a string that ends with a zero byte.
pub(crate) unsafe fn has_name(names: *const c_char, name: &[u8]) -> bool {
    // SAFETY: as the caller promises.
    let names = unsafe { CStr::from_ptr(names) }.to_bytes();
    names.split(|byte| *byte == b':').any(|candidate| candidate.eq_ignore_ascii_case(name))
}
