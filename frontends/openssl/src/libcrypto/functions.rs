//! The default provider's functions, by kind of algorithm.

use std::ffi::{c_int, c_void};

use super::core::{DispatchTable, entry};
use crate::abi;
use crate::abi::fns::*;

/// The operations whose algorithms we wrap. Key management has no requests of its own: it provides the keys of the others.
pub(crate) const SERVED_OPERATIONS: [c_int; 6] = [
    abi::OSSL_OP_CIPHER,
    abi::OSSL_OP_KEYMGMT,
    abi::OSSL_OP_KEYEXCH,
    abi::OSSL_OP_SIGNATURE,
    abi::OSSL_OP_KDF,
    abi::OSSL_OP_KEM,
];

/// The default provider's functions for one kind of algorithm.
pub(crate) trait OperationFns: Sized + 'static {
    /// The index of the operation in [`SERVED_OPERATIONS`].
    const OPERATION_INDEX: usize;

    fn select(functions: &Functions) -> Option<&Self>;

    fn gettable_params(&self) -> Option<Gettable> {
        None
    }
}

/// The default provider's functions for a kind of algorithm that is used through contexts.
pub(crate) trait ContextFns: OperationFns {
    fn common(&self) -> &CommonFns;
}

pub(crate) enum Functions {
    Cipher(CipherFns),
    Kdf(KdfFns),
    Keys(KeyFns),
    Exchange(ExchangeFns),
    Signature(SignatureFns),
    Kem(KemFns),
}

impl Functions {
    /// Reads the functions of an algorithm of one of [`SERVED_OPERATIONS`].
    pub(crate) fn new(operation: c_int, table: DispatchTable) -> Self {
        match operation {
            abi::OSSL_OP_CIPHER => Self::Cipher(CipherFns::new(table)),
            abi::OSSL_OP_KDF => Self::Kdf(KdfFns::new(table)),
            abi::OSSL_OP_KEYMGMT => Self::Keys(KeyFns::new(table)),
            abi::OSSL_OP_KEYEXCH => Self::Exchange(ExchangeFns::new(table)),
            abi::OSSL_OP_KEM => Self::Kem(KemFns::new(table)),
            _ => Self::Signature(SignatureFns::new(table)),
        }
    }
}

/// Defines a struct of optional functions of the default provider, each read by its id. A kind that has contexts lists the ids of its
/// `CommonFns` after `@context`.
macro_rules! functions {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident: $id:ident, $kind:ty;)*
        $(@context $dup:ident, $free:ident, $get:ident, $set:ident, $gettable:ident, $settable:ident;)?
    }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $($(#[$about])* pub(crate) $field: Option<$kind>,)*
            $(pub(crate) common: common!(type $dup),)?
        }

        impl $name {
            pub(crate) fn new(table: DispatchTable) -> Self {
                Self {
                    $($field: entry!(table, $id, $kind),)*
                    $(common: common!(table, $dup, $free, $get, $set, $gettable, $settable),)?
                }
            }
        }
    };
}

macro_rules! common {
    (type $dup:ident) => {
        CommonFns
    };
    ($table:ident, $dup:ident, $free:ident, $get:ident, $set:ident, $gettable:ident, $settable:ident) => {
        CommonFns {
            dupctx: entry!($table, $dup, NewCtx),
            freectx: entry!($table, $free, FreeCtx),
            get_ctx_params: entry!($table, $get, GetParams),
            set_ctx_params: entry!($table, $set, SetParams),
            gettable_ctx_params: entry!($table, $gettable, GettableCtx),
            settable_ctx_params: entry!($table, $settable, GettableCtx),
        }
    };
}

/// The default provider's context functions, common to all kinds that have contexts.
pub(crate) struct CommonFns {
    pub(crate) dupctx: Option<NewCtx>,
    pub(crate) freectx: Option<FreeCtx>,
    pub(crate) get_ctx_params: Option<GetParams>,
    pub(crate) set_ctx_params: Option<SetParams>,
    pub(crate) gettable_ctx_params: Option<GettableCtx>,
    pub(crate) settable_ctx_params: Option<GettableCtx>,
}

pub(crate) struct CipherFns {
    pub(crate) newctx: Option<NewCtx>,
    encrypt_init: Option<CipherInit>,
    decrypt_init: Option<CipherInit>,
    /// Not optional, because it is called too often to check: `no_update` if the cipher has none.
    pub(crate) update: CipherUpdate,
    pub(crate) cipher: Option<CipherUpdate>,
    pub(crate) finish: Option<Final>,
    pub(crate) gettable_params: Option<Gettable>,
    pub(crate) common: CommonFns,
}

impl CipherFns {
    pub(crate) fn new(table: DispatchTable) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_CIPHER_NEWCTX, NewCtx),
            encrypt_init: entry!(table, OSSL_FUNC_CIPHER_ENCRYPT_INIT, CipherInit),
            decrypt_init: entry!(table, OSSL_FUNC_CIPHER_DECRYPT_INIT, CipherInit),
            update: entry!(table, OSSL_FUNC_CIPHER_UPDATE, CipherUpdate).unwrap_or(no_update),
            cipher: entry!(table, OSSL_FUNC_CIPHER_CIPHER, CipherUpdate),
            finish: entry!(table, OSSL_FUNC_CIPHER_FINAL, Final),
            gettable_params: entry!(table, OSSL_FUNC_CIPHER_GETTABLE_PARAMS, Gettable),
            common: common!(
                table,
                OSSL_FUNC_CIPHER_DUPCTX,
                OSSL_FUNC_CIPHER_FREECTX,
                OSSL_FUNC_CIPHER_GET_CTX_PARAMS,
                OSSL_FUNC_CIPHER_SET_CTX_PARAMS,
                OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS,
                OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS
            ),
        }
    }

    /// Makes a context of the default provider, with its provider context.
    pub(crate) fn call_newctx(&self, provctx: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: the default provider, with its own context.
        self.newctx.map(|newctx| unsafe { newctx(provctx) })
    }

    pub(crate) fn init(&self, encrypt: bool) -> Option<CipherInit> {
        if encrypt { self.encrypt_init } else { self.decrypt_init }
    }
}

/// Stands in for the `update` of a cipher that has none.
unsafe extern "C" fn no_update(_: *mut c_void, _: *mut u8, _: *mut usize, _: usize, _: *const u8, _: usize) -> c_int {
    0
}

functions! {
KdfFns {
    newctx: OSSL_FUNC_KDF_NEWCTX, NewCtx;
    reset: OSSL_FUNC_KDF_RESET, FreeCtx;
    derive: OSSL_FUNC_KDF_DERIVE, KdfDerive;
    gettable_params: OSSL_FUNC_KDF_GETTABLE_PARAMS, Gettable;
    @context OSSL_FUNC_KDF_DUPCTX, OSSL_FUNC_KDF_FREECTX, OSSL_FUNC_KDF_GET_CTX_PARAMS, OSSL_FUNC_KDF_SET_CTX_PARAMS,
        OSSL_FUNC_KDF_GETTABLE_CTX_PARAMS, OSSL_FUNC_KDF_SETTABLE_CTX_PARAMS;
}}

functions! {
ExchangeFns {
    newctx: OSSL_FUNC_KEYEXCH_NEWCTX, NewCtx;
    init: OSSL_FUNC_KEYEXCH_INIT, KeyedInit;
    set_peer: OSSL_FUNC_KEYEXCH_SET_PEER, WithKey;
    derive: OSSL_FUNC_KEYEXCH_DERIVE, Final;
    @context OSSL_FUNC_KEYEXCH_DUPCTX, OSSL_FUNC_KEYEXCH_FREECTX, OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS, OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS,
        OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS, OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS;
}}

functions! {
KeyFns {
    new: OSSL_FUNC_KEYMGMT_NEW, NewCtx;
    free: OSSL_FUNC_KEYMGMT_FREE, FreeCtx;
    gen_init: OSSL_FUNC_KEYMGMT_GEN_INIT, KeyGenInit;
    gen_set_template: OSSL_FUNC_KEYMGMT_GEN_SET_TEMPLATE, WithKey;
    gen_set_params: OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS, SetParams;
    gen_get_params: OSSL_FUNC_KEYMGMT_GEN_GET_PARAMS, GetParams;
    gen_gettable_params: OSSL_FUNC_KEYMGMT_GEN_GETTABLE_PARAMS, GettableCtx;
    gen_settable_params: OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS, GettableCtx;
    generate: OSSL_FUNC_KEYMGMT_GEN, KeyGen;
    gen_cleanup: OSSL_FUNC_KEYMGMT_GEN_CLEANUP, FreeCtx;
    get_params: OSSL_FUNC_KEYMGMT_GET_PARAMS, GetParams;
    set_params: OSSL_FUNC_KEYMGMT_SET_PARAMS, SetParams;
    gettable_params: OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, Gettable;
    settable_params: OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS, Gettable;
    has: OSSL_FUNC_KEYMGMT_HAS, KeyHas;
    validate: OSSL_FUNC_KEYMGMT_VALIDATE, KeyValidate;
    matches: OSSL_FUNC_KEYMGMT_MATCH, KeyMatch;
    import: OSSL_FUNC_KEYMGMT_IMPORT, KeyImport;
    export: OSSL_FUNC_KEYMGMT_EXPORT, KeyExport;
    dup: OSSL_FUNC_KEYMGMT_DUP, KeyDup;
}}

functions! {
SignatureFns {
    newctx: OSSL_FUNC_SIGNATURE_NEWCTX, SignatureNewCtx;
    /// Starts signing a digest.
    sign_init: OSSL_FUNC_SIGNATURE_SIGN_INIT, KeyedInit;
    verify_init: OSSL_FUNC_SIGNATURE_VERIFY_INIT, KeyedInit;
    /// Starts signing a whole message with `EVP_PKEY_sign` (OpenSSL 3.4 and later).
    sign_message_init: OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT, KeyedInit;
    verify_message_init: OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT, KeyedInit;
    /// Starts signing a whole message with `EVP_DigestSign`.
    digest_sign_init: OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, SignatureDigestInit;
    digest_verify_init: OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT, SignatureDigestInit;
    digest_sign: OSSL_FUNC_SIGNATURE_DIGEST_SIGN, SignatureSign;
    digest_verify: OSSL_FUNC_SIGNATURE_DIGEST_VERIFY, SignatureVerify;
    sign: OSSL_FUNC_SIGNATURE_SIGN, SignatureSign;
    verify: OSSL_FUNC_SIGNATURE_VERIFY, SignatureVerify;
    @context OSSL_FUNC_SIGNATURE_DUPCTX, OSSL_FUNC_SIGNATURE_FREECTX, OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS, OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS,
        OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS, OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS;
}}

functions! {
KemFns {
    newctx: OSSL_FUNC_KEM_NEWCTX, NewCtx;
    encapsulate_init: OSSL_FUNC_KEM_ENCAPSULATE_INIT, KeyedInit;
    encapsulate: OSSL_FUNC_KEM_ENCAPSULATE, KemEncapsulate;
    decapsulate_init: OSSL_FUNC_KEM_DECAPSULATE_INIT, KeyedInit;
    decapsulate: OSSL_FUNC_KEM_DECAPSULATE, KemDecapsulate;
    @context OSSL_FUNC_KEM_DUPCTX, OSSL_FUNC_KEM_FREECTX, OSSL_FUNC_KEM_GET_CTX_PARAMS, OSSL_FUNC_KEM_SET_CTX_PARAMS,
        OSSL_FUNC_KEM_GETTABLE_CTX_PARAMS, OSSL_FUNC_KEM_SETTABLE_CTX_PARAMS;
}}

impl SignatureFns {
    /// Returns the default provider's function that starts signing or verifying a digest.
    pub(crate) fn init<const SIGN: bool>(&self) -> Option<KeyedInit> {
        if SIGN { self.sign_init } else { self.verify_init }
    }

    pub(crate) fn message_init<const SIGN: bool>(&self) -> Option<KeyedInit> {
        if SIGN { self.sign_message_init } else { self.verify_message_init }
    }

    pub(crate) fn digest_init<const SIGN: bool>(&self) -> Option<SignatureDigestInit> {
        if SIGN { self.digest_sign_init } else { self.digest_verify_init }
    }
}

impl OperationFns for CipherFns {
    const OPERATION_INDEX: usize = 0;

    fn select(functions: &Functions) -> Option<&Self> {
        if let Functions::Cipher(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl ContextFns for CipherFns {
    fn common(&self) -> &CommonFns {
        &self.common
    }
}

impl OperationFns for KeyFns {
    const OPERATION_INDEX: usize = 1;

    fn select(functions: &Functions) -> Option<&Self> {
        if let Functions::Keys(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl ExchangeFns {
    /// Makes a context of the default provider, with its provider context.
    pub(crate) fn call_newctx(&self, provctx: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: the default provider, with its own context.
        self.newctx.map(|newctx| unsafe { newctx(provctx) })
    }
}

impl OperationFns for ExchangeFns {
    const OPERATION_INDEX: usize = 2;

    fn select(functions: &Functions) -> Option<&Self> {
        if let Functions::Exchange(functions) = functions { Some(functions) } else { None }
    }
}

impl ContextFns for ExchangeFns {
    fn common(&self) -> &CommonFns {
        &self.common
    }
}

impl OperationFns for SignatureFns {
    const OPERATION_INDEX: usize = 3;

    fn select(functions: &Functions) -> Option<&Self> {
        if let Functions::Signature(functions) = functions { Some(functions) } else { None }
    }
}

impl ContextFns for SignatureFns {
    fn common(&self) -> &CommonFns {
        &self.common
    }
}

impl KdfFns {
    /// Makes a context of the default provider, with its provider context.
    pub(crate) fn call_newctx(&self, provctx: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: the default provider, with its own context.
        self.newctx.map(|newctx| unsafe { newctx(provctx) })
    }
}

impl OperationFns for KdfFns {
    const OPERATION_INDEX: usize = 4;

    fn select(functions: &Functions) -> Option<&Self> {
        if let Functions::Kdf(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl ContextFns for KdfFns {
    fn common(&self) -> &CommonFns {
        &self.common
    }
}

impl KemFns {
    /// Makes a context of the default provider, with its provider context.
    pub(crate) fn call_newctx(&self, provctx: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: the default provider, with its own context.
        self.newctx.map(|newctx| unsafe { newctx(provctx) })
    }
}

impl OperationFns for KemFns {
    const OPERATION_INDEX: usize = 5;

    fn select(functions: &Functions) -> Option<&Self> {
        if let Functions::Kem(functions) = functions { Some(functions) } else { None }
    }
}

impl ContextFns for KemFns {
    fn common(&self) -> &CommonFns {
        &self.common
    }
}
