//! The host's functions, by kind of algorithm: tables, which call nothing.

use std::ffi::{c_int, c_void};

use super::core::{Table, entry};
use crate::abi::fns::*;

/// The host's functions of one algorithm.
pub(crate) enum Functions {
    Cipher(CipherFns),
    Kdf(KdfFns),
    Keys(KeyFns),
    Exchange(ExchangeFns),
    Signature(SignatureFns),
}

/// A table of functions that the host may lack, each under its id; and those of contexts, which all kinds have under ids of their own.
macro_rules! functions {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident: $id:ident, $kind:ty;)*
        $(@context $dup:ident, $free:ident, $get:ident, $set:ident, $gettable:ident, $settable:ident;)?
    }) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $($(#[$about])* pub(super) $field: Option<$kind>,)*
            $(pub(super) common: common!(type $dup),)?
        }

        impl $name {
            pub(super) fn new(table: Table) -> Self {
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
        Common
    };
    ($table:ident, $dup:ident, $free:ident, $get:ident, $set:ident, $gettable:ident, $settable:ident) => {
        Common {
            dupctx: entry!($table, $dup, NewCtx),
            freectx: entry!($table, $free, FreeCtx),
            get_ctx_params: entry!($table, $get, GetParams),
            set_ctx_params: entry!($table, $set, SetParams),
            gettable_ctx_params: entry!($table, $gettable, GettableCtx),
            settable_ctx_params: entry!($table, $settable, GettableCtx),
        }
    };
}

/// The host's functions that contexts of all kinds have.
pub(crate) struct Common {
    pub(super) dupctx: Option<NewCtx>,
    pub(super) freectx: Option<FreeCtx>,
    pub(super) get_ctx_params: Option<GetParams>,
    pub(super) set_ctx_params: Option<SetParams>,
    pub(super) gettable_ctx_params: Option<GettableCtx>,
    pub(super) settable_ctx_params: Option<GettableCtx>,
}

/// Of ciphers.
pub(crate) struct CipherFns {
    pub(super) newctx: Option<NewCtx>,
    encrypt_init: Option<CipherInit>,
    decrypt_init: Option<CipherInit>,
    /// Every cipher has it; called so often that there is no other way.
    pub(super) update: CipherUpdate,
    pub(super) cipher: Option<CipherUpdate>,
    pub(super) finish: Option<Final>,
    pub(super) gettable_params: Option<Gettable>,
    pub(super) common: Common,
}

impl CipherFns {
    pub(super) fn new(table: Table) -> Self {
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

    pub(super) fn init(&self, encrypt: bool) -> Option<CipherInit> {
        if encrypt { self.encrypt_init } else { self.decrypt_init }
    }
}

/// Of a host whose cipher takes no data.
unsafe extern "C" fn no_update(_: *mut c_void, _: *mut u8, _: *mut usize, _: usize, _: *const u8, _: usize) -> c_int {
    0
}

functions! {
/// Of key derivations.
KdfFns {
    newctx: OSSL_FUNC_KDF_NEWCTX, NewCtx;
    reset: OSSL_FUNC_KDF_RESET, FreeCtx;
    derive: OSSL_FUNC_KDF_DERIVE, KdfDerive;
    gettable_params: OSSL_FUNC_KDF_GETTABLE_PARAMS, Gettable;
    @context OSSL_FUNC_KDF_DUPCTX, OSSL_FUNC_KDF_FREECTX, OSSL_FUNC_KDF_GET_CTX_PARAMS, OSSL_FUNC_KDF_SET_CTX_PARAMS,
        OSSL_FUNC_KDF_GETTABLE_CTX_PARAMS, OSSL_FUNC_KDF_SETTABLE_CTX_PARAMS;
}}

functions! {
/// Of key exchange.
ExchangeFns {
    newctx: OSSL_FUNC_KEYEXCH_NEWCTX, NewCtx;
    init: OSSL_FUNC_KEYEXCH_INIT, KeyedInit;
    set_peer: OSSL_FUNC_KEYEXCH_SET_PEER, WithKey;
    derive: OSSL_FUNC_KEYEXCH_DERIVE, Final;
    @context OSSL_FUNC_KEYEXCH_DUPCTX, OSSL_FUNC_KEYEXCH_FREECTX, OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS, OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS,
        OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS, OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS;
}}

functions! {
/// Of a type of keys.
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
/// Of signatures.
SignatureFns {
    newctx: OSSL_FUNC_SIGNATURE_NEWCTX, SignatureNewCtx;
    /// Begins a signature of a digest.
    sign_init: OSSL_FUNC_SIGNATURE_SIGN_INIT, KeyedInit;
    verify_init: OSSL_FUNC_SIGNATURE_VERIFY_INIT, KeyedInit;
    /// The same of a message in one piece, in newer releases.
    sign_message_init: OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT, KeyedInit;
    verify_message_init: OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT, KeyedInit;
    /// The same of a message.
    digest_sign_init: OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, SignatureDigestInit;
    digest_verify_init: OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT, SignatureDigestInit;
    digest_sign: OSSL_FUNC_SIGNATURE_DIGEST_SIGN, SignatureSign;
    digest_verify: OSSL_FUNC_SIGNATURE_DIGEST_VERIFY, SignatureVerify;
    sign: OSSL_FUNC_SIGNATURE_SIGN, SignatureSign;
    verify: OSSL_FUNC_SIGNATURE_VERIFY, SignatureVerify;
    @context OSSL_FUNC_SIGNATURE_DUPCTX, OSSL_FUNC_SIGNATURE_FREECTX, OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS, OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS,
        OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS, OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS;
}}
