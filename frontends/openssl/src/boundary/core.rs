//! Tables of functions, and what the host's core offers: the section of the configuration, the error stack, the other providers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, CoreHandle, Dispatch, Param};

/// The upcalls, and the handle by which the core knows us.
#[derive(Clone, Copy)]
pub(super) struct Core {
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

/// A dispatch table of the host.
#[derive(Clone, Copy)]
pub(super) struct Table(*const Dispatch);

impl Table {
    /// # Safety
    ///
    /// The host: null, or a table with its end, that stays.
    pub(super) unsafe fn new(table: *const Dispatch) -> Self {
        Self(table)
    }

    /// The function behind an id.
    pub(super) fn entry(self, id: c_int) -> Option<abi::Function> {
        let mut at = self.0;
        // SAFETY: as `new` demands.
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

/// The function behind an id, as the type that the id stands for.
macro_rules! entry {
    ($table:expr, $id:ident, $kind:ty) => {
        $table.entry($crate::abi::$id).map(|function| {
            // SAFETY: the host: the function behind an id has the type that the id stands for.
            unsafe { std::mem::transmute::<$crate::abi::Function, $kind>(function) }
        })
    };
}
pub(super) use entry;

impl Core {
    /// `None` when the host lacks something without which nothing can be wrapped.
    pub(super) fn new(handle: *const CoreHandle, table: Table) -> Option<Self> {
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

    /// A value of our section in the configuration file, or one of the core's own.
    pub(super) fn value(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        let mut text: *const std::ffi::c_char = ptr::null();
        let data: *mut c_void = (&raw mut text).cast();
        let data_type = abi::OSSL_PARAM_UTF8_PTR as u32;
        let mut params =
            [Param { key: key.as_ptr(), data_type, data, data_size: 0, return_size: 0 }, super::params::end()];
        // SAFETY: our handle, and a table with its end; the answer is a pointer to a string that lives as long as we do.
        unsafe {
            if (self.get_params)(self.handle, params.as_mut_ptr()) != 1 || text.is_null() {
                return None;
            }
            Some(CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// The host's release.
    pub(super) fn version(&self) -> (u32, u32) {
        let text = self.value("openssl-version").unwrap_or_default();
        let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Puts an error on the stack: one of the reasons that all libraries have, and a sentence. With reasons of its own, the module would end
    /// programs: where a program has one libcrypto and a module of OpenSSL's another, that one forgets them after it was torn down itself.
    pub(super) fn raise(&self, reason: c_int, sentence: &str) {
        let (Some(new), Some(vset)) = (self.new_error, self.vset_error) else { return };
        // The sentence is a format without anything to fill in, so the arguments are never looked at.
        let Ok(format) = CString::new(sentence.replace('%', "%%").replace('\0', "")) else { return };
        let mut no_arguments = [0_u64; 4];
        // SAFETY: our handle and strings. A `va_list` is passed as a pointer, or is one, on all platforms that Rust and
        // OpenSSL share, and none is larger than four words.
        unsafe {
            new(self.handle);
            if let Some(debug) = self.set_error_debug {
                debug(self.handle, c"gantry".as_ptr(), 0, c"gantry".as_ptr());
            }
            vset(self.handle, reason.cast_unsigned(), format.as_ptr(), no_arguments.as_mut_ptr().cast());
        }
    }

    /// Runs what no program asked for: the errors that it leaves on the stack are taken off.
    pub(super) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        let Some((mark, pop)) = self.set_error_mark.zip(self.pop_error_to_mark) else { return body() };
        // SAFETY: our handle.
        unsafe { mark(self.handle) };
        let result = body();
        // SAFETY: as above.
        unsafe { pop(self.handle) };
        result
    }

    /// Asks to be told of every provider that is and will be activated.
    ///
    /// # Safety
    ///
    /// `data` lives until [`unwatch`](Self::unwatch) returns, and the functions are sound with it in any thread.
    pub(super) unsafe fn watch(
        &self,
        create: ChildCallback,
        remove: ChildCallback,
        props: PropsCallback,
        data: *mut c_void,
    ) -> bool {
        // OpenSSL answers with the number of providers that are told, not with 1.
        // SAFETY: our handle, functions of the types that are asked for, and as the caller promises.
        unsafe { (self.register_child_cb)(self.handle, create, remove, props, data) > 0 }
    }

    /// No callback comes after this, and none is under way: the core calls them under the lock that it takes here.
    pub(super) fn unwatch(&self) {
        // SAFETY: our handle.
        unsafe { (self.deregister_child_cb)(self.handle) };
    }

    /// The default provider's context and dispatch table, if `provider` is the default one. Every release of the core reads these
    /// from the provider, and takes no lock.
    ///
    /// # Safety
    ///
    /// A provider that is activated, and stays so for this call.
    pub(super) unsafe fn default_provider(
        &self,
        provider: *const CoreHandle,
    ) -> Option<(*mut c_void, *const Dispatch)> {
        // SAFETY: as the caller promises; names are strings.
        unsafe {
            let name = (self.name)(provider);
            let default = !name.is_null() && CStr::from_ptr(name) == c"default";
            default.then(|| ((self.get0_ctx)(provider), (self.get0_dispatch)(provider)))
        }
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

/// The row of the host that has `name` among its names.
///
/// # Safety
///
/// Null, or a table with its end.
pub(super) unsafe fn find(mut theirs: *const AlgorithmRow, name: &str) -> Option<AlgorithmRow> {
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
