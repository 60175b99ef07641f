//! OpenSSL's provider interface as data: the parts of `core.h` and `core_dispatch.h` that are used here.
//!
//! From 3.0 to 4.0, OpenSSL only added numbers, and none changed its meaning. The tests compare the numbers of the macro `numbers` with
//! the headers of OpenSSL 3.6 and 4.0, and of the installed release.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

/// `OSSL_DISPATCH`: an entry of a table that ends with id 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Dispatch {
    pub(crate) id: c_int,
    pub(crate) function: Option<Function>,
}

/// The storage type of all functions; the id tells the real type.
pub(crate) type Function = unsafe extern "C" fn();

/// `OSSL_ALGORITHM`: an entry of a table that ends with null names.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct AlgorithmRow {
    /// The names of the algorithm, separated by colons.
    pub(crate) names: *const c_char,
    pub(crate) properties: *const c_char,
    pub(crate) implementation: *const Dispatch,
    pub(crate) description: *const c_char,
}

impl AlgorithmRow {
    pub(crate) const END: Self =
        Self { names: ptr::null(), properties: ptr::null(), implementation: ptr::null(), description: ptr::null() };
}

/// `OSSL_PARAM`: an entry of a table that ends with a null key.
#[repr(C)]
pub(crate) struct Param {
    pub(crate) key: *const c_char,
    pub(crate) data_type: c_uint,
    pub(crate) data: *mut c_void,
    pub(crate) data_size: usize,
    /// Bytes of the answer to a query; `usize::MAX` (`OSSL_PARAM_UNMODIFIED`) means that there is none.
    pub(crate) return_size: usize,
}

impl Param {
    /// Returns a parameter with bytes, or with room for bytes.
    pub(crate) const fn octets(key: &'static CStr, data: *mut c_void, data_size: usize) -> Self {
        let data_type = OSSL_PARAM_OCTET_STRING as c_uint;
        Self { key: key.as_ptr(), data_type, data, data_size, return_size: usize::MAX }
    }

    /// Returns a parameter with an unsigned integer in native byte order, or with room for one.
    pub(crate) const fn number(key: &'static CStr, data: *mut c_void, data_size: usize) -> Self {
        let data_type = OSSL_PARAM_UNSIGNED_INTEGER as c_uint;
        Self { key: key.as_ptr(), data_type, data, data_size, return_size: usize::MAX }
    }

    /// Returns a parameter with an integer in native byte order, which must outlive it.
    pub(crate) const fn integer(key: &'static CStr, value: &c_int) -> Self {
        let (data, data_size) = (ptr::from_ref(value).cast_mut().cast(), size_of::<c_int>());
        let data_type = OSSL_PARAM_INTEGER as c_uint;
        Self { key: key.as_ptr(), data_type, data, data_size, return_size: usize::MAX }
    }

    /// Returns a parameter with a string, which must outlive it.
    pub(crate) const fn text(key: &'static CStr, text: &CStr) -> Self {
        let (data, data_size) = (text.as_ptr().cast_mut().cast(), text.count_bytes());
        let data_type = OSSL_PARAM_UTF8_STRING as c_uint;
        Self { key: key.as_ptr(), data_type, data, data_size, return_size: usize::MAX }
    }
}

/// `OSSL_CORE_HANDLE`.
#[repr(C)]
pub(crate) struct CoreHandle {
    _opaque: [u8; 0],
}

/// Error reasons that all libraries share (err.h). They contain `ERR_RFLAG_COMMON`, and the last one also contains `ERR_RFLAG_FATAL`.
pub(crate) const ERR_R_CONF_LIB: c_int = 0x0E | 2 << 18;
pub(crate) const ERR_R_PASSED_INVALID_ARGUMENT: c_int = 0x106 | 2 << 18;
pub(crate) const ERR_R_OPERATION_FAIL: c_int = 0x107 | 3 << 18;

/// Defines the constants, and a list of the constants with their names for the test.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)+) => {
        $($(#[$doc])* pub(crate) const $name: c_int = $value;)+

        #[cfg(test)]
        const NUMBERS: &[(&str, c_int)] = &[$((stringify!($name), $value)),+];
    };
}

numbers! {
    /// The number of the error library of OpenSSL's own providers (err.h), and some of its reasons (proverr.h).
    ERR_LIB_PROV = 57;
    PROV_R_CIPHER_OPERATION_FAILED = 102;
    PROV_R_INVALID_TAG = 110;

    OSSL_PARAM_INTEGER = 1;
    OSSL_PARAM_UNSIGNED_INTEGER = 2;
    OSSL_PARAM_REAL = 3;
    OSSL_PARAM_UTF8_STRING = 4;
    OSSL_PARAM_OCTET_STRING = 5;
    OSSL_PARAM_UTF8_PTR = 6;
    OSSL_PARAM_OCTET_PTR = 7;

    OSSL_OP_CIPHER = 2;
    OSSL_OP_KDF = 4;
    OSSL_OP_KEYMGMT = 10;
    OSSL_OP_KEYEXCH = 11;
    OSSL_OP_SIGNATURE = 12;
    OSSL_OP_KEM = 14;

    OSSL_FUNC_CORE_GET_PARAMS = 2;
    OSSL_FUNC_CORE_NEW_ERROR = 5;
    OSSL_FUNC_CORE_SET_ERROR_DEBUG = 6;
    OSSL_FUNC_CORE_VSET_ERROR = 7;
    OSSL_FUNC_CORE_SET_ERROR_MARK = 8;
    OSSL_FUNC_CORE_POP_ERROR_TO_MARK = 10;
    OSSL_FUNC_PROVIDER_REGISTER_CHILD_CB = 105;
    OSSL_FUNC_PROVIDER_DEREGISTER_CHILD_CB = 106;
    OSSL_FUNC_PROVIDER_NAME = 107;
    OSSL_FUNC_PROVIDER_GET0_PROVIDER_CTX = 108;
    OSSL_FUNC_PROVIDER_GET0_DISPATCH = 109;

    OSSL_FUNC_PROVIDER_TEARDOWN = 1024;
    OSSL_FUNC_PROVIDER_GETTABLE_PARAMS = 1025;
    OSSL_FUNC_PROVIDER_GET_PARAMS = 1026;
    OSSL_FUNC_PROVIDER_QUERY_OPERATION = 1027;
    OSSL_FUNC_PROVIDER_GET_CAPABILITIES = 1030;

    OSSL_FUNC_CIPHER_NEWCTX = 1;
    OSSL_FUNC_CIPHER_ENCRYPT_INIT = 2;
    OSSL_FUNC_CIPHER_DECRYPT_INIT = 3;
    OSSL_FUNC_CIPHER_UPDATE = 4;
    OSSL_FUNC_CIPHER_FINAL = 5;
    OSSL_FUNC_CIPHER_CIPHER = 6;
    OSSL_FUNC_CIPHER_FREECTX = 7;
    OSSL_FUNC_CIPHER_DUPCTX = 8;
    OSSL_FUNC_CIPHER_GET_PARAMS = 9;
    OSSL_FUNC_CIPHER_GET_CTX_PARAMS = 10;
    OSSL_FUNC_CIPHER_SET_CTX_PARAMS = 11;
    OSSL_FUNC_CIPHER_GETTABLE_PARAMS = 12;
    OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS = 13;
    OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS = 14;
    /// Since 3.5.
    OSSL_FUNC_CIPHER_PIPELINE_ENCRYPT_INIT = 15;
    /// Since 3.5.
    OSSL_FUNC_CIPHER_PIPELINE_DECRYPT_INIT = 16;
    /// Since 3.5.
    OSSL_FUNC_CIPHER_PIPELINE_UPDATE = 17;
    /// Since 3.5.
    OSSL_FUNC_CIPHER_PIPELINE_FINAL = 18;

    OSSL_FUNC_KDF_NEWCTX = 1;
    OSSL_FUNC_KDF_DUPCTX = 2;
    OSSL_FUNC_KDF_FREECTX = 3;
    OSSL_FUNC_KDF_RESET = 4;
    OSSL_FUNC_KDF_DERIVE = 5;
    OSSL_FUNC_KDF_GETTABLE_PARAMS = 6;
    OSSL_FUNC_KDF_GETTABLE_CTX_PARAMS = 7;
    OSSL_FUNC_KDF_SETTABLE_CTX_PARAMS = 8;
    OSSL_FUNC_KDF_GET_PARAMS = 9;
    OSSL_FUNC_KDF_GET_CTX_PARAMS = 10;
    OSSL_FUNC_KDF_SET_CTX_PARAMS = 11;

    OSSL_FUNC_KEYMGMT_NEW = 1;
    OSSL_FUNC_KEYMGMT_GEN_INIT = 2;
    OSSL_FUNC_KEYMGMT_GEN_SET_TEMPLATE = 3;
    OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS = 4;
    OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS = 5;
    OSSL_FUNC_KEYMGMT_GEN = 6;
    OSSL_FUNC_KEYMGMT_GEN_CLEANUP = 7;
    OSSL_FUNC_KEYMGMT_FREE = 10;
    OSSL_FUNC_KEYMGMT_GET_PARAMS = 11;
    OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS = 12;
    OSSL_FUNC_KEYMGMT_SET_PARAMS = 13;
    OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS = 14;
    /// Since 3.4.
    OSSL_FUNC_KEYMGMT_GEN_GET_PARAMS = 15;
    /// Since 3.4.
    OSSL_FUNC_KEYMGMT_GEN_GETTABLE_PARAMS = 16;
    OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME = 20;
    OSSL_FUNC_KEYMGMT_HAS = 21;
    OSSL_FUNC_KEYMGMT_VALIDATE = 22;
    OSSL_FUNC_KEYMGMT_MATCH = 23;
    OSSL_FUNC_KEYMGMT_IMPORT = 40;
    OSSL_FUNC_KEYMGMT_IMPORT_TYPES = 41;
    OSSL_FUNC_KEYMGMT_EXPORT = 42;
    OSSL_FUNC_KEYMGMT_EXPORT_TYPES = 43;
    OSSL_FUNC_KEYMGMT_DUP = 44;

    OSSL_FUNC_KEYEXCH_NEWCTX = 1;
    OSSL_FUNC_KEYEXCH_INIT = 2;
    OSSL_FUNC_KEYEXCH_DERIVE = 3;
    OSSL_FUNC_KEYEXCH_SET_PEER = 4;
    OSSL_FUNC_KEYEXCH_FREECTX = 5;
    OSSL_FUNC_KEYEXCH_DUPCTX = 6;
    OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS = 7;
    OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS = 8;
    OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS = 9;
    OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS = 10;

    OSSL_FUNC_KEM_NEWCTX = 1;
    OSSL_FUNC_KEM_ENCAPSULATE_INIT = 2;
    OSSL_FUNC_KEM_ENCAPSULATE = 3;
    OSSL_FUNC_KEM_DECAPSULATE_INIT = 4;
    OSSL_FUNC_KEM_DECAPSULATE = 5;
    OSSL_FUNC_KEM_FREECTX = 6;
    OSSL_FUNC_KEM_DUPCTX = 7;
    OSSL_FUNC_KEM_GET_CTX_PARAMS = 8;
    OSSL_FUNC_KEM_GETTABLE_CTX_PARAMS = 9;
    OSSL_FUNC_KEM_SET_CTX_PARAMS = 10;
    OSSL_FUNC_KEM_SETTABLE_CTX_PARAMS = 11;

    OSSL_FUNC_SIGNATURE_NEWCTX = 1;
    OSSL_FUNC_SIGNATURE_SIGN_INIT = 2;
    OSSL_FUNC_SIGNATURE_SIGN = 3;
    OSSL_FUNC_SIGNATURE_VERIFY_INIT = 4;
    OSSL_FUNC_SIGNATURE_VERIFY = 5;
    OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT = 8;
    OSSL_FUNC_SIGNATURE_DIGEST_SIGN = 11;
    OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT = 12;
    OSSL_FUNC_SIGNATURE_DIGEST_VERIFY = 15;
    OSSL_FUNC_SIGNATURE_FREECTX = 16;
    OSSL_FUNC_SIGNATURE_DUPCTX = 17;
    OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS = 18;
    OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS = 19;
    OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS = 20;
    OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS = 21;
    /// Since 3.4.
    OSSL_FUNC_SIGNATURE_QUERY_KEY_TYPES = 26;
    /// Since 3.4.
    OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT = 27;
    /// Since 3.4.
    OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT = 30;
}

pub(crate) const OSSL_KEYMGMT_SELECT_PRIVATE_KEY: c_int = 0x01;
pub(crate) const OSSL_KEYMGMT_SELECT_PUBLIC_KEY: c_int = 0x02;
pub(crate) const OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS: c_int = 0x04;
pub(crate) const OSSL_KEYMGMT_SELECT_KEYPAIR: c_int = OSSL_KEYMGMT_SELECT_PRIVATE_KEY | OSSL_KEYMGMT_SELECT_PUBLIC_KEY;

/// The functions behind the ids, as C declares them. Each is called and stored with exactly this type.
pub(crate) mod fns {
    use super::*;

    pub(crate) type CoreGetParams = unsafe extern "C" fn(*const CoreHandle, *mut Param) -> c_int;
    pub(crate) type CoreNewError = unsafe extern "C" fn(*const CoreHandle);
    pub(crate) type CoreSetErrorDebug = unsafe extern "C" fn(*const CoreHandle, *const c_char, c_int, *const c_char);
    /// `set_error_mark` and `pop_error_to_mark`.
    pub(crate) type CoreErrorMark = unsafe extern "C" fn(*const CoreHandle) -> c_int;
    /// The last argument is a `va_list`: a pointer, or a structure that is passed as one.
    pub(crate) type CoreVsetError = unsafe extern "C" fn(*const CoreHandle, u32, *const c_char, *mut c_void);
    pub(crate) type ChildCallback = unsafe extern "C" fn(*const CoreHandle, *mut c_void) -> c_int;
    pub(crate) type PropsCallback = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
    pub(crate) type RegisterChildCb =
        unsafe extern "C" fn(*const CoreHandle, ChildCallback, ChildCallback, PropsCallback, *mut c_void) -> c_int;
    pub(crate) type DeregisterChildCb = unsafe extern "C" fn(*const CoreHandle);
    pub(crate) type ProviderName = unsafe extern "C" fn(*const CoreHandle) -> *const c_char;
    pub(crate) type ProviderGet0Ctx = unsafe extern "C" fn(*const CoreHandle) -> *mut c_void;
    pub(crate) type ProviderGet0Dispatch = unsafe extern "C" fn(*const CoreHandle) -> *const Dispatch;

    pub(crate) type Teardown = unsafe extern "C" fn(*mut c_void);
    pub(crate) type QueryOperation = unsafe extern "C" fn(*mut c_void, c_int, *mut c_int) -> *const AlgorithmRow;

    /// `OSSL_CALLBACK`.
    pub(crate) type ParamsCallback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;
    pub(crate) type GetCapabilities =
        unsafe extern "C" fn(*mut c_void, *const c_char, ParamsCallback, *mut c_void) -> c_int;

    /// Every `dupctx`, every `newctx` except that of signatures, and `new` of keys. Returns a context or key, or null.
    pub(crate) type NewCtx = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    /// Every `freectx`, `reset` of a key derivation, and `free` and `gen_cleanup` of keys.
    pub(crate) type FreeCtx = unsafe extern "C" fn(*mut c_void);
    /// Every `get_ctx_params`, `get_params` of a provider and of keys, and `gen_get_params`.
    pub(crate) type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
    /// Every `set_ctx_params`, and `set_params` and `gen_set_params` of keys.
    pub(crate) type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
    /// Every `gettable_params`, and `settable_params` of keys.
    pub(crate) type Gettable = unsafe extern "C" fn(*mut c_void) -> *const Param;
    /// Every `gettable_ctx_params` and `settable_ctx_params`, and `gen_gettable_params` and `gen_settable_params` of keys.
    pub(crate) type GettableCtx = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const Param;

    pub(crate) type CipherInit =
        unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, *const Param) -> c_int;
    /// `update` and `cipher`.
    pub(crate) type CipherUpdate =
        unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
    pub(crate) type PipelineInit =
        unsafe extern "C" fn(*mut c_void, *const u8, usize, usize, *const *const u8, usize, *const Param) -> c_int;
    pub(crate) type PipelineUpdate = unsafe extern "C" fn(
        *mut c_void,
        usize,
        *const *mut u8,
        *mut usize,
        *const usize,
        *const *const u8,
        *const usize,
    ) -> c_int;
    pub(crate) type PipelineFinal =
        unsafe extern "C" fn(*mut c_void, usize, *const *mut u8, *mut usize, *const usize) -> c_int;
    /// `final` of ciphers, and `derive` of key exchange.
    pub(crate) type Final = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;

    pub(crate) type KeyGenInit = unsafe extern "C" fn(*mut c_void, c_int, *const Param) -> *mut c_void;
    pub(crate) type KeyGen = unsafe extern "C" fn(*mut c_void, Option<ParamsCallback>, *mut c_void) -> *mut c_void;
    pub(crate) type KeyHas = unsafe extern "C" fn(*const c_void, c_int) -> c_int;
    pub(crate) type KeyValidate = unsafe extern "C" fn(*const c_void, c_int, c_int) -> c_int;
    pub(crate) type KeyMatch = unsafe extern "C" fn(*const c_void, *const c_void, c_int) -> c_int;
    pub(crate) type KeyImport = unsafe extern "C" fn(*mut c_void, c_int, *const Param) -> c_int;
    pub(crate) type KeyExport = unsafe extern "C" fn(*mut c_void, c_int, ParamsCallback, *mut c_void) -> c_int;
    /// `import_types`.
    pub(crate) type KeyTypes = unsafe extern "C" fn(c_int) -> *const Param;
    pub(crate) type KeyDup = unsafe extern "C" fn(*const c_void, c_int) -> *mut c_void;
    /// Every `init` that takes a key object, except those that also take a digest.
    pub(crate) type KeyedInit = unsafe extern "C" fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    /// `set_peer` of key exchange, and `gen_set_template` of keys.
    pub(crate) type WithKey = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
    pub(crate) type SignatureNewCtx = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    pub(crate) type SignatureDigestInit =
        unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, *const Param) -> c_int;
    /// `sign` and `digest_sign`.
    pub(crate) type SignatureSign =
        unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
    /// `verify` and `digest_verify`.
    pub(crate) type SignatureVerify = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;
    pub(crate) type KemEncapsulate =
        unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *mut u8, *mut usize) -> c_int;
    pub(crate) type KemDecapsulate = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *const u8, usize) -> c_int;
    pub(crate) type KdfDerive = unsafe extern "C" fn(*mut c_void, *mut u8, usize, *const Param) -> c_int;
}

#[cfg(test)]
mod tests;
