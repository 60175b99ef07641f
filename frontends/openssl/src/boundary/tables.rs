//! Our dispatch tables of the default provider's algorithms. Except for pipelines, each of our functions stands for one that the default
//! provider also has.

use std::ffi::c_int;

use super::context::{dupctx, freectx, get_ctx_params, gettable_ctx_params, gettable_params, settable_ctx_params};
use super::{cipher, exchange, generator, hybrid_kem, kdf, keys, pipeline, signature, slh_dsa};
use crate::abi::fns::*;
use crate::abi::{self, Dispatch};
use crate::libcrypto::core::DispatchTable;
use crate::libcrypto::functions::{CipherFns, ExchangeFns, Functions, KdfFns, KemFns, KeyFns, SignatureFns};
use crate::provider::WrappedAlgorithm;
use crate::table::{CIPHERS, KDFS, KEMS, KEY_PAIR_ALGORITHMS, KEY_TYPES, Mode};

/// Builds the entries of a dispatch table, without the terminator. Each line has an id, the function, and the function's type.
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

/// Expands to the functions of all rows. OpenSSL's calls do not tell the row, so each function is compiled for the index of its row.
macro_rules! for_rows {
    ($functions:ident: $($row:literal)*) => { [$($functions::<$row>()),*] };
}

/// Returns our dispatch table for an algorithm. `row` is the algorithm's index in its list, for example in `CIPHERS`.
pub(super) fn dispatch_table(wrapped: &WrappedAlgorithm, row: usize) -> Vec<Dispatch> {
    // SAFETY: the default provider: the dispatch table of one of its algorithms.
    let default_table = unsafe { DispatchTable::new(wrapped.default_row.implementation) };
    match wrapped.functions {
        Functions::Cipher(_) => cipher_table(default_table, row, wrapped.version()),
        Functions::Kdf(_) => kdf_table(default_table, row),
        Functions::Keys(_) => keys_table(default_table, row),
        Functions::Exchange(_) => exchange_table(default_table, row),
        Functions::Signature(_) => signature_table(default_table, row),
        Functions::Kem(_) => kem_table(default_table, row),
    }
}

/// Returns a terminated dispatch table: the functions in `entries` that the default provider also has, then its own functions with
/// `passed_ids`. The passed functions take neither context nor provider. The default provider's other functions would receive our contexts,
/// so they are omitted.
fn complete_table(default_table: DispatchTable, entries: &[Dispatch], passed_ids: &[c_int]) -> Vec<Dispatch> {
    let mut table: Vec<Dispatch> =
        entries.iter().copied().filter(|entry| default_table.entry(entry.id).is_some()).collect();
    let passed_entries = passed_ids.iter().map(|id| Dispatch { id: *id, function: default_table.entry(*id) });
    table.extend(passed_entries.filter(|entry| entry.function.is_some()));
    table.push(Dispatch { id: 0, function: None });
    table
}

type CipherRowFns = (NewCtx, Gettable, GettableCtx, GettableCtx);

const fn cipher_row_fns<const ROW: usize>() -> CipherRowFns {
    (
        cipher::newctx::<ROW>,
        gettable_params::<CipherFns, ROW>,
        gettable_ctx_params::<CipherFns, ROW>,
        settable_ctx_params::<CipherFns, ROW>,
    )
}

static CIPHER_FNS_BY_ROW: [CipherRowFns; CIPHERS.len()] =
    for_rows!(cipher_row_fns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);

fn cipher_table(default_table: DispatchTable, row: usize, version: (u32, u32)) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = CIPHER_FNS_BY_ROW[row];
    let update = if CIPHERS[row].mode == Mode::Xts { cipher::update::<false> } else { cipher::update::<true> };
    let entries = dispatch! {
        OSSL_FUNC_CIPHER_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_CIPHER_ENCRYPT_INIT => cipher::init_for::<true>, CipherInit;
        OSSL_FUNC_CIPHER_DECRYPT_INIT => cipher::init_for::<false>, CipherInit;
        OSSL_FUNC_CIPHER_UPDATE => update, CipherUpdate;
        OSSL_FUNC_CIPHER_FINAL => cipher::finish, Final;
        OSSL_FUNC_CIPHER_CIPHER => cipher::cipher, CipherUpdate;
        OSSL_FUNC_CIPHER_FREECTX => freectx::<CipherFns>, FreeCtx;
        OSSL_FUNC_CIPHER_DUPCTX => dupctx::<CipherFns>, NewCtx;
        OSSL_FUNC_CIPHER_GET_CTX_PARAMS => cipher::get_ctx_params, GetParams;
        OSSL_FUNC_CIPHER_SET_CTX_PARAMS => cipher::set_ctx_params, SetParams;
        OSSL_FUNC_CIPHER_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    let mut table = complete_table(default_table, &entries, &[abi::OSSL_FUNC_CIPHER_GET_PARAMS]);
    if CIPHERS[row].has_pipelines(version) {
        // The default provider has no functions for pipelines; ours use its functions for single messages.
        let end = table.len() - 1;
        table.splice(
            end..end,
            dispatch! {
                OSSL_FUNC_CIPHER_PIPELINE_ENCRYPT_INIT => pipeline::open::<true>, PipelineInit;
                OSSL_FUNC_CIPHER_PIPELINE_DECRYPT_INIT => pipeline::open::<false>, PipelineInit;
                OSSL_FUNC_CIPHER_PIPELINE_UPDATE => pipeline::update, PipelineUpdate;
                OSSL_FUNC_CIPHER_PIPELINE_FINAL => pipeline::finish, PipelineFinal;
            },
        );
    }
    table
}

type KdfRowFns = (NewCtx, Gettable, GettableCtx, GettableCtx);

const fn kdf_row_fns<const ROW: usize>() -> KdfRowFns {
    (
        kdf::newctx::<ROW>,
        gettable_params::<KdfFns, ROW>,
        gettable_ctx_params::<KdfFns, ROW>,
        settable_ctx_params::<KdfFns, ROW>,
    )
}

static KDF_FNS_BY_ROW: [KdfRowFns; KDFS.len()] = for_rows!(kdf_row_fns: 0 1);

fn kdf_table(default_table: DispatchTable, row: usize) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = KDF_FNS_BY_ROW[row];
    let entries = dispatch! {
        OSSL_FUNC_KDF_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_KDF_DUPCTX => dupctx::<KdfFns>, NewCtx;
        OSSL_FUNC_KDF_FREECTX => freectx::<KdfFns>, FreeCtx;
        OSSL_FUNC_KDF_RESET => kdf::reset, FreeCtx;
        OSSL_FUNC_KDF_DERIVE => kdf::derive, KdfDerive;
        OSSL_FUNC_KDF_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_KDF_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_KDF_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
        OSSL_FUNC_KDF_GET_CTX_PARAMS => get_ctx_params::<KdfFns>, GetParams;
        OSSL_FUNC_KDF_SET_CTX_PARAMS => kdf::set_ctx_params, SetParams;
    };
    complete_table(default_table, &entries, &[abi::OSSL_FUNC_KDF_GET_PARAMS])
}

type KeyRowFns = (NewCtx, KeyGenInit, GettableCtx, GettableCtx, Gettable, Gettable);

const fn key_row_fns<const ROW: usize>() -> KeyRowFns {
    (
        keys::new::<ROW>,
        generator::gen_init::<ROW>,
        generator::gen_gettable_params::<ROW>,
        generator::gen_settable_params::<ROW>,
        gettable_params::<KeyFns, ROW>,
        keys::settable_params::<ROW>,
    )
}

static KEY_FNS_BY_ROW: [KeyRowFns; KEY_TYPES.len()] = for_rows!(key_row_fns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14);

fn keys_table(default_table: DispatchTable, row: usize) -> Vec<Dispatch> {
    let (new, gen_init, gen_gettable_params, gen_settable_params, gettable_params, settable_params) =
        KEY_FNS_BY_ROW[row];
    let entries = dispatch! {
        OSSL_FUNC_KEYMGMT_NEW => new, NewCtx;
        OSSL_FUNC_KEYMGMT_FREE => keys::free, FreeCtx;
        OSSL_FUNC_KEYMGMT_GEN_INIT => gen_init, KeyGenInit;
        OSSL_FUNC_KEYMGMT_GEN_SET_TEMPLATE => generator::gen_set_template, WithKey;
        OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS => generator::gen_set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GEN_GET_PARAMS => generator::gen_get_params, GetParams;
        OSSL_FUNC_KEYMGMT_GEN_GETTABLE_PARAMS => gen_gettable_params, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS => gen_settable_params, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN => generator::generate, KeyGen;
        OSSL_FUNC_KEYMGMT_GEN_CLEANUP => generator::gen_cleanup, FreeCtx;
        OSSL_FUNC_KEYMGMT_GET_PARAMS => keys::get_params, GetParams;
        OSSL_FUNC_KEYMGMT_SET_PARAMS => keys::set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS => settable_params, Gettable;
        OSSL_FUNC_KEYMGMT_HAS => keys::has, KeyHas;
        OSSL_FUNC_KEYMGMT_VALIDATE => keys::validate, KeyValidate;
        OSSL_FUNC_KEYMGMT_MATCH => keys::matches, KeyMatch;
        OSSL_FUNC_KEYMGMT_IMPORT => keys::import, KeyImport;
        OSSL_FUNC_KEYMGMT_EXPORT => keys::export, KeyExport;
        OSSL_FUNC_KEYMGMT_DUP => keys::dup, KeyDup;
    };
    let passed_ids = [
        abi::OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME,
        abi::OSSL_FUNC_KEYMGMT_IMPORT_TYPES,
        abi::OSSL_FUNC_KEYMGMT_EXPORT_TYPES,
    ];
    complete_table(default_table, &entries, &passed_ids)
}

type ExchangeRowFns = (NewCtx, GettableCtx, GettableCtx);

const fn exchange_row_fns<const ROW: usize>() -> ExchangeRowFns {
    (exchange::newctx::<ROW>, gettable_ctx_params::<ExchangeFns, ROW>, settable_ctx_params::<ExchangeFns, ROW>)
}

static EXCHANGE_FNS_BY_ROW: [ExchangeRowFns; KEY_PAIR_ALGORITHMS.len()] =
    for_rows!(exchange_row_fns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13);

fn exchange_table(default_table: DispatchTable, row: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = EXCHANGE_FNS_BY_ROW[row];
    let entries = dispatch! {
        OSSL_FUNC_KEYEXCH_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_KEYEXCH_DUPCTX => dupctx::<ExchangeFns>, NewCtx;
        OSSL_FUNC_KEYEXCH_FREECTX => freectx::<ExchangeFns>, FreeCtx;
        OSSL_FUNC_KEYEXCH_INIT => exchange::init, KeyedInit;
        OSSL_FUNC_KEYEXCH_SET_PEER => exchange::set_peer, WithKey;
        OSSL_FUNC_KEYEXCH_DERIVE => exchange::derive, Final;
        OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS => get_ctx_params::<ExchangeFns>, GetParams;
        OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS => exchange::set_ctx_params, SetParams;
        OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    complete_table(default_table, &entries, &[])
}

type SignatureRowFns = (SignatureNewCtx, GettableCtx, GettableCtx);

const fn signature_row_fns<const ROW: usize>() -> SignatureRowFns {
    (signature::newctx::<ROW>, gettable_ctx_params::<SignatureFns, ROW>, settable_ctx_params::<SignatureFns, ROW>)
}

static SIGNATURE_FNS_BY_ROW: [SignatureRowFns; KEY_PAIR_ALGORITHMS.len()] =
    for_rows!(signature_row_fns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13);

fn signature_table(default_table: DispatchTable, row: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = SIGNATURE_FNS_BY_ROW[row];
    let mut entries = dispatch! {
        OSSL_FUNC_SIGNATURE_NEWCTX => newctx, SignatureNewCtx;
        OSSL_FUNC_SIGNATURE_DUPCTX => dupctx::<SignatureFns>, NewCtx;
        OSSL_FUNC_SIGNATURE_FREECTX => freectx::<SignatureFns>, FreeCtx;
        OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS => get_ctx_params::<SignatureFns>, GetParams;
        OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    }
    .to_vec();
    match KEY_PAIR_ALGORITHMS[row].mode {
        Mode::SlhDsa => entries.extend(dispatch! {
            OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT => slh_dsa::message_init::<true>, KeyedInit;
            OSSL_FUNC_SIGNATURE_SIGN => signature::sign_message::<false>, SignatureSign;
            OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT => slh_dsa::message_init::<false>, KeyedInit;
            OSSL_FUNC_SIGNATURE_VERIFY => signature::verify_message::<false>, SignatureVerify;
            OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT => slh_dsa::digest_init::<true>, SignatureDigestInit;
            OSSL_FUNC_SIGNATURE_DIGEST_SIGN => signature::sign_message::<true>, SignatureSign;
            OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT => slh_dsa::digest_init::<false>, SignatureDigestInit;
            OSSL_FUNC_SIGNATURE_DIGEST_VERIFY => signature::verify_message::<true>, SignatureVerify;
            OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS => slh_dsa::set_ctx_params, SetParams;
        }),
        _ => entries.extend(dispatch! {
            OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT => signature::digest_init::<true>, SignatureDigestInit;
            OSSL_FUNC_SIGNATURE_DIGEST_SIGN => signature::sign_message::<true>, SignatureSign;
            OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT => signature::digest_init::<false>, SignatureDigestInit;
            OSSL_FUNC_SIGNATURE_DIGEST_VERIFY => signature::verify_message::<true>, SignatureVerify;
            OSSL_FUNC_SIGNATURE_SIGN_INIT => signature::init::<true>, KeyedInit;
            OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT => signature::message_init::<true>, KeyedInit;
            OSSL_FUNC_SIGNATURE_SIGN => signature::sign_message::<false>, SignatureSign;
            OSSL_FUNC_SIGNATURE_VERIFY_INIT => signature::init::<false>, KeyedInit;
            OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT => signature::message_init::<false>, KeyedInit;
            OSSL_FUNC_SIGNATURE_VERIFY => signature::verify_message::<false>, SignatureVerify;
            OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS => signature::set_ctx_params, SetParams;
        }),
    }
    complete_table(default_table, &entries, &[abi::OSSL_FUNC_SIGNATURE_QUERY_KEY_TYPES])
}

type KemRowFns = (NewCtx, GettableCtx, GettableCtx);

const fn kem_row_fns<const ROW: usize>() -> KemRowFns {
    (hybrid_kem::newctx::<ROW>, gettable_ctx_params::<KemFns, ROW>, settable_ctx_params::<KemFns, ROW>)
}

static KEM_FNS_BY_ROW: [KemRowFns; KEMS.len()] = for_rows!(kem_row_fns: 0);

fn kem_table(default_table: DispatchTable, row: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = KEM_FNS_BY_ROW[row];
    let entries = dispatch! {
        OSSL_FUNC_KEM_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_KEM_DUPCTX => dupctx::<KemFns>, NewCtx;
        OSSL_FUNC_KEM_FREECTX => freectx::<KemFns>, FreeCtx;
        OSSL_FUNC_KEM_ENCAPSULATE_INIT => hybrid_kem::encapsulate_init, KeyedInit;
        OSSL_FUNC_KEM_ENCAPSULATE => hybrid_kem::encapsulate, KemEncapsulate;
        OSSL_FUNC_KEM_DECAPSULATE_INIT => hybrid_kem::decapsulate_init, KeyedInit;
        OSSL_FUNC_KEM_DECAPSULATE => hybrid_kem::decapsulate, KemDecapsulate;
        OSSL_FUNC_KEM_GET_CTX_PARAMS => get_ctx_params::<KemFns>, GetParams;
        OSSL_FUNC_KEM_SET_CTX_PARAMS => hybrid_kem::set_ctx_params, SetParams;
        OSSL_FUNC_KEM_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_KEM_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    complete_table(default_table, &entries, &[])
}
