//! The dispatch tables of all algorithms: our functions, each for a function that the host also has.

use std::ffi::c_int;

use super::context::{dupctx, freectx, get_ctx_params, gettable_ctx_params, gettable_params, settable_ctx_params};
use super::{cipher, exchange, generator, kdf, keys, pipeline, signature, slh_dsa};
use crate::abi::fns::*;
use crate::abi::{self, Dispatch};
use crate::host::core::Table;
use crate::host::functions::{CipherFns, ExchangeFns, Functions, KdfFns, KeyFns, SignatureFns};
use crate::provider::Wrapped;
use crate::table::{CIPHERS, KDFS, KEYS, Mode, PAIRS};

/// Builds a function table from pairs of id and function.
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

/// Expands to the functions of each row, which know only its index.
macro_rules! at_places {
    ($at:ident: $($place:literal)*) => { [$($at::<$place>()),*] };
}

/// Returns our table for an algorithm, by its index in our own table.
pub(super) fn dispatch_table(wrapped: &Wrapped, place: usize) -> Vec<Dispatch> {
    // SAFETY: the host: the dispatch table of one of its algorithms.
    let host = unsafe { Table::new(wrapped.host_row.implementation) };
    match wrapped.functions {
        Functions::Cipher(_) => cipher_table(host, place, wrapped.version()),
        Functions::Kdf(_) => kdf_table(host, place),
        Functions::Keys(_) => keys_table(host, place),
        Functions::Exchange(_) => exchange_table(host, place),
        Functions::Signature(_) => signature_table(host, place),
    }
}

/// Returns our table for an algorithm: the functions in `entries` that the host also has, and the host's own functions in `passed`,
/// which take neither context nor provider. Other functions of the host are omitted, because they would receive our contexts.
fn complete(host: Table, entries: &[Dispatch], passed: &[c_int]) -> Vec<Dispatch> {
    let mut table: Vec<Dispatch> = entries.iter().copied().filter(|entry| host.entry(entry.id).is_some()).collect();
    let passed = passed.iter().map(|id| Dispatch { id: *id, function: host.entry(*id) });
    table.extend(passed.filter(|entry| entry.function.is_some()));
    table.push(Dispatch { id: 0, function: None });
    table
}

type CipherAtPlace = (NewCtx, Gettable, GettableCtx, GettableCtx);

const fn cipher_at<const PLACE: usize>() -> CipherAtPlace {
    (
        cipher::newctx::<PLACE>,
        gettable_params::<CipherFns, PLACE>,
        gettable_ctx_params::<CipherFns, PLACE>,
        settable_ctx_params::<CipherFns, PLACE>,
    )
}

static CIPHERS_AT: [CipherAtPlace; CIPHERS.len()] = at_places!(cipher_at: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);

fn cipher_table(host: Table, place: usize, version: (u32, u32)) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = CIPHERS_AT[place];
    let update = if CIPHERS[place].mode == Mode::Xts { cipher::update::<false> } else { cipher::update::<true> };
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
    let mut table = complete(host, &entries, &[abi::OSSL_FUNC_CIPHER_GET_PARAMS]);
    if CIPHERS[place].has_pipelines(version) {
        // The host has no functions for pipelines; ours use the host's functions for single messages.
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

type KdfAtPlace = (NewCtx, Gettable, GettableCtx, GettableCtx);

const fn kdf_at<const PLACE: usize>() -> KdfAtPlace {
    (
        kdf::newctx::<PLACE>,
        gettable_params::<KdfFns, PLACE>,
        gettable_ctx_params::<KdfFns, PLACE>,
        settable_ctx_params::<KdfFns, PLACE>,
    )
}

static KDFS_AT: [KdfAtPlace; KDFS.len()] = at_places!(kdf_at: 0 1);

fn kdf_table(host: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = KDFS_AT[place];
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
    complete(host, &entries, &[abi::OSSL_FUNC_KDF_GET_PARAMS])
}

type KeysAtPlace = (NewCtx, KeyGenInit, GettableCtx, GettableCtx, Gettable, Gettable);

const fn keys_at<const PLACE: usize>() -> KeysAtPlace {
    (
        keys::new::<PLACE>,
        generator::gen_init::<PLACE>,
        generator::gen_gettable_params::<PLACE>,
        generator::gen_settable_params::<PLACE>,
        gettable_params::<KeyFns, PLACE>,
        keys::settable_params::<PLACE>,
    )
}

static KEYS_AT: [KeysAtPlace; KEYS.len()] = at_places!(keys_at: 0 1 2 3 4 5 6 7 8 9 10 11 12 13);

fn keys_table(host: Table, place: usize) -> Vec<Dispatch> {
    let (new, gen_init, gen_gettable_params, gen_settable_params, gettable_params, settable_params) = KEYS_AT[place];
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
    let passed = [
        abi::OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME,
        abi::OSSL_FUNC_KEYMGMT_IMPORT_TYPES,
        abi::OSSL_FUNC_KEYMGMT_EXPORT_TYPES,
    ];
    complete(host, &entries, &passed)
}

type ExchangeAtPlace = (NewCtx, GettableCtx, GettableCtx);

const fn exchange_at<const PLACE: usize>() -> ExchangeAtPlace {
    (exchange::newctx::<PLACE>, gettable_ctx_params::<ExchangeFns, PLACE>, settable_ctx_params::<ExchangeFns, PLACE>)
}

static EXCHANGES_AT: [ExchangeAtPlace; PAIRS.len()] = at_places!(exchange_at: 0 1 2 3 4 5 6 7 8 9 10 11 12 13);

fn exchange_table(host: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = EXCHANGES_AT[place];
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
    complete(host, &entries, &[])
}

type SignatureAtPlace = (SignatureNewCtx, GettableCtx, GettableCtx);

const fn signature_at<const PLACE: usize>() -> SignatureAtPlace {
    (signature::newctx::<PLACE>, gettable_ctx_params::<SignatureFns, PLACE>, settable_ctx_params::<SignatureFns, PLACE>)
}

static SIGNATURES_AT: [SignatureAtPlace; PAIRS.len()] = at_places!(signature_at: 0 1 2 3 4 5 6 7 8 9 10 11 12 13);

fn signature_table(host: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = SIGNATURES_AT[place];
    let mut entries = dispatch! {
        OSSL_FUNC_SIGNATURE_NEWCTX => newctx, SignatureNewCtx;
        OSSL_FUNC_SIGNATURE_DUPCTX => dupctx::<SignatureFns>, NewCtx;
        OSSL_FUNC_SIGNATURE_FREECTX => freectx::<SignatureFns>, FreeCtx;
        OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS => get_ctx_params::<SignatureFns>, GetParams;
        OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    }
    .to_vec();
    match PAIRS[place].mode {
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
    complete(host, &entries, &[abi::OSSL_FUNC_SIGNATURE_QUERY_KEY_TYPES])
}
