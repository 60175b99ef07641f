/* ECDSA and ECDH through gantry and without it: keys on P-256 and on other curves, digests that are signed and messages that are
 * digested first, secrets, what is wrong with them, and what programs say to a context.
 *
 *     p256 CONFIGURATION
 *
 * The configuration is for gantry's library context. */
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sides.h"

static const char *const DIGESTS[] = { "SHA1", "SHA224", "SHA2-256", "sha384", "SHA512", "SHA512-256", "SHA3-256", "SHA3-512" };

/* Of keys that are all the host's, every how many-th case is tried. */
static size_t step;

static EVP_PKEY *made(OSSL_LIB_CTX *library, const char *curve, const char *properties)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library, "EC", properties);
    must(EVP_PKEY_keygen_init(ctx) == 1 && EVP_PKEY_CTX_set_group_name(ctx, curve) == 1 && EVP_PKEY_keygen(ctx, &key) == 1,
        "making a key");
    EVP_PKEY_CTX_free(ctx);
    return key;
}

static void messages(EVP_PKEY *key, EVP_PKEY *theirs)
{
    static const size_t lengths[] = { 0, 1, 64, 300, LONGEST };
    EVP_PKEY *public = moved(key, with, EVP_PKEY_PUBLIC_KEY), *their_public = moved(key, without, EVP_PKEY_PUBLIC_KEY);
    unsigned char signature[ROOM], forged[ROOM + 1];
    size_t size;
    for (size_t d = 0; d < sizeof DIGESTS / sizeof *DIGESTS; d += step)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i += step)
            for (int pieces = 0; pieces < 2; pieces++) {
                must(sign(with, key, DIGESTS[d], lengths[i], pieces, signature, &size), "signing");
                must(ERR_peek_error() == 0, "an error without a failure");
                must(judged(public, their_public, DIGESTS[d], lengths[i], signature, size), "ours");
                must(judged(key, theirs, DIGESTS[d], lengths[i], signature, size), "ours, with the whole key");
                must(sign(without, theirs, DIGESTS[d], lengths[i], pieces, signature, &size), "signing without");
                must(judged(public, their_public, DIGESTS[d], lengths[i], signature, size), "theirs");
            }
    /* Forgeries, and what is no signature at all. */
    must(sign(with, key, "SHA256", 300, 0, signature, &size), "signing");
    for (size_t at = 0; at < size; at += step)
        for (int bit = 0; bit < 8; bit += 5) {
            memcpy(forged, signature, size);
            forged[at] ^= (unsigned char)(1 << bit);
            must(!judged(public, their_public, "SHA256", 300, forged, size), "a forgery");
        }
    memcpy(forged, signature, size);
    forged[size] = 0;
    must(!judged(public, their_public, "SHA256", 300, forged, size + 1), "a long signature");
    must(!judged(public, their_public, "SHA256", 300, forged, size - 1), "a short signature");
    must(!judged(public, their_public, "SHA256", 300, forged, 0), "no signature");
    must(!judged(public, their_public, "SHA256", 299, signature, size), "a short message");
    must(!judged(public, their_public, "SHA384", 300, signature, size), "another digest");

    /* A digest that is none, and a public key that is to sign. */
    EVP_MD_CTX *one = EVP_MD_CTX_new(), *other = EVP_MD_CTX_new();
    must(came(EVP_DigestSignInit_ex(one, NULL, "SHAKE128", with, NULL, key, NULL))
            == came(EVP_DigestSignInit_ex(other, NULL, "SHAKE128", without, NULL, theirs, NULL)),
        "a digest that cannot be");
    must(sign(with, public, "SHA256", 5, 0, signature, &size) == sign(without, their_public, "SHA256", 5, 0, signature, &size),
        "a public key signs");
    ERR_clear_error();
    EVP_MD_CTX_free(one);
    EVP_MD_CTX_free(other);

    /* A copy in the middle of a message; two ends; the same context again. */
    EVP_MD_CTX *ctx = EVP_MD_CTX_new(), *copy = EVP_MD_CTX_new();
    for (int again = 0; again < 2; again++) {
        must(EVP_DigestSignInit_ex(ctx, NULL, "SHA256", with, NULL, key, NULL) == 1, "beginning");
        must(EVP_DigestSignUpdate(ctx, message, 100) == 1 && EVP_MD_CTX_copy_ex(copy, ctx) == 1, "copying a context");
        must(EVP_DigestSignUpdate(ctx, message + 100, 200) == 1 && EVP_DigestSignUpdate(copy, message + 100, 50) == 1, "both");
        size = ROOM;
        must(EVP_DigestSignFinal(ctx, signature, &size) == 1, "the first end");
        must(judged(public, their_public, "SHA256", 300, signature, size), "the first");
        size = ROOM;
        must(EVP_DigestSignFinal(copy, signature, &size) == 1, "the end of a copy");
        must(judged(public, their_public, "SHA256", 150, signature, size), "a copy's");
        EVP_MD_CTX_reset(ctx);
        EVP_MD_CTX_reset(copy);
    }
    EVP_MD_CTX_free(ctx);
    EVP_MD_CTX_free(copy);
    EVP_PKEY_free(public);
    EVP_PKEY_free(their_public);
}

/* The context of a digest that is signed on either side. */
static EVP_PKEY_CTX *context(OSSL_LIB_CTX *library, EVP_PKEY *key, int verifies, const char *digest)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(library, key, NULL);
    must((verifies ? EVP_PKEY_verify_init(ctx) : EVP_PKEY_sign_init(ctx)) == 1, "beginning");
    if (digest != NULL)
        must(EVP_PKEY_CTX_set_signature_md(ctx, EVP_get_digestbyname(digest)) == 1, "setting a digest");
    return ctx;
}

static void digests(EVP_PKEY *key, EVP_PKEY *theirs)
{
    unsigned char one[ROOM], other[ROOM];
    for (size_t length = 0; length <= 64; length += step == 1 ? 1 : 16) {
        const char *digest = length == 32 ? "SHA256" : length == 48 ? "SHA384" : length == 64 ? "SHA512" : NULL;
        for (int named = 0; named <= (digest != NULL); named++) {
            EVP_PKEY_CTX *signs = context(with, key, 0, named ? digest : NULL);
            EVP_PKEY_CTX *they_sign = context(without, theirs, 0, named ? digest : NULL);
            EVP_PKEY_CTX *verifies = context(with, key, 1, named ? digest : NULL);
            EVP_PKEY_CTX *they_verify = context(without, theirs, 1, named ? digest : NULL);
            size_t size = 0, their_size = 0;
            must(EVP_PKEY_sign(signs, NULL, &size, message, length) == 1
                    && EVP_PKEY_sign(they_sign, NULL, &their_size, message, length) == 1 && size == their_size,
                "the size of signatures");
            size_t little = size - 1, their_little = size - 1;
            must(came(EVP_PKEY_sign(signs, one, &little, message, length))
                    == came(EVP_PKEY_sign(they_sign, other, &their_little, message, length)),
                "too little room");
            EVP_PKEY_CTX *copy = EVP_PKEY_CTX_dup(signs);
            for (int again = 0; again < 3; again++) {
                size = their_size = ROOM;
                must(EVP_PKEY_sign(again == 2 ? copy : signs, one, &size, message, length) == 1, "signing a digest");
                must(EVP_PKEY_sign(they_sign, other, &their_size, message, length) == 1, "signing it without");
                must(size != their_size || memcmp(one, other, size) != 0, "two signatures are the same");
                must(EVP_PKEY_verify(they_verify, one, size, message, length) == 1, "ours");
                must(EVP_PKEY_verify(verifies, other, their_size, message, length) == 1, "theirs");
                must(ERR_peek_error() == 0, "an error without a failure");
                /* A digest of another length than that of its function. */
                must(came(EVP_PKEY_verify(verifies, other, their_size, message, length + 1))
                        == came(EVP_PKEY_verify(they_verify, other, their_size, message, length + 1)),
                    "a longer digest");
                size = their_size = ROOM;
                must(came(EVP_PKEY_sign(signs, one, &size, message, length + 1))
                        == came(EVP_PKEY_sign(they_sign, other, &their_size, message, length + 1)),
                    "signing a longer digest");
            }
            EVP_PKEY_CTX_free(copy);
            EVP_PKEY_CTX_free(signs);
            EVP_PKEY_CTX_free(they_sign);
            EVP_PKEY_CTX_free(verifies);
            EVP_PKEY_CTX_free(they_verify);
        }
    }
}

/* What a context says of itself, before and after it is told something, and in the middle of a message. */
static void words(EVP_PKEY *key, EVP_PKEY *theirs)
{
    unsigned char ids[2][128], signatures[2][ROOM];
    char names[2][32];
    size_t id_sizes[2], digest_sizes[2], sizes[2];
    for (int side = 0; side < 2; side++) {
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        EVP_PKEY_CTX *inside = NULL;
        OSSL_PARAM params[] = {
            OSSL_PARAM_construct_octet_string(OSSL_SIGNATURE_PARAM_ALGORITHM_ID, ids[side], sizeof ids[side]),
            OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_DIGEST, names[side], sizeof names[side]),
            OSSL_PARAM_construct_size_t(OSSL_SIGNATURE_PARAM_DIGEST_SIZE, &digest_sizes[side]),
            OSSL_PARAM_construct_end(),
        };
        must(EVP_DigestSignInit_ex(ctx, &inside, "SHA384", side ? with : without, NULL, side ? key : theirs, NULL) == 1,
            "beginning");
        must(EVP_PKEY_CTX_get_params(inside, params) == 1, "what a context says");
        id_sizes[side] = params[0].return_size;
        /* RFC 6979 since 3.2: the same signatures on either side, even when it is asked for late. */
        unsigned nonce = 1;
        OSSL_PARAM deterministic[] = { OSSL_PARAM_construct_uint("nonce-type", &nonce), OSSL_PARAM_construct_end() };
        must(EVP_DigestSignUpdate(ctx, message, 77) == 1, "a piece");
        int known = OSSL_PARAM_locate_const(EVP_PKEY_CTX_settable_params(inside), "nonce-type") != NULL;
        must(!known || EVP_PKEY_CTX_set_params(inside, deterministic) == 1, "deterministic signatures");
        sizes[side] = ROOM;
        must(EVP_DigestSignFinal(ctx, signatures[side], &sizes[side]) == 1, "signing");
        if (side)
            must(known == (sizes[0] == sizes[1] && memcmp(signatures[0], signatures[1], sizes[0]) == 0), "random numbers");
        EVP_MD_CTX_free(ctx);
    }
    must(id_sizes[0] == id_sizes[1] && memcmp(ids[0], ids[1], id_sizes[0]) == 0, "names of the algorithm differ");
    must(strcmp(names[0], names[1]) == 0 && digest_sizes[0] == digest_sizes[1], "digests differ");
    must(judged(key, theirs, "SHA384", 77, signatures[1], sizes[1]), "a signature after words");
    ERR_clear_error();
}

/* What came of a derivation with a byte too little room: releases differ, and both sides must not. */
static long without_room;

static int derive(OSSL_LIB_CTX *library, EVP_PKEY *key, EVP_PKEY *peer, const OSSL_PARAM *params, unsigned char *secret,
    size_t *written)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(library, key, NULL);
    int good = EVP_PKEY_derive_init_ex(ctx, params) == 1 && EVP_PKEY_derive_set_peer(ctx, peer) == 1
        && EVP_PKEY_derive(ctx, NULL, written) == 1 && *written <= ROOM;
    if (good) {
        unsigned char again[ROOM];
        size_t size = *written, little = *written - 1;
        EVP_PKEY_CTX *copy = EVP_PKEY_CTX_dup(ctx);
        memset(again, 0, sizeof again);
        without_room = came(EVP_PKEY_derive(ctx, again, &little)) + again[size - 2];
        good = EVP_PKEY_derive(ctx, secret, written) == 1;
        must(!good || (EVP_PKEY_derive(copy, again, &size) == 1 && size == *written && memcmp(secret, again, size) == 0),
            "a copy's secret");
        EVP_PKEY_CTX_free(copy);
    }
    EVP_PKEY_CTX_free(ctx);
    return good;
}

static void secrets(EVP_PKEY *key, EVP_PKEY *theirs, const char *curve)
{
    unsigned char one[ROOM], other[ROOM];
    size_t length, their_length;
    size_t wanted = 50;
    int cofactor = 1;
    OSSL_PARAM kdf[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_EXCHANGE_PARAM_KDF_TYPE, (char *)OSSL_KDF_NAME_X963KDF, 0),
        OSSL_PARAM_construct_utf8_string(OSSL_EXCHANGE_PARAM_KDF_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_size_t(OSSL_EXCHANGE_PARAM_KDF_OUTLEN, &wanted),
        OSSL_PARAM_construct_end(),
    };
    OSSL_PARAM mode[] = {
        OSSL_PARAM_construct_int(OSSL_EXCHANGE_PARAM_EC_ECDH_COFACTOR_MODE, &cofactor),
        OSSL_PARAM_construct_end(),
    };
    const OSSL_PARAM *said[] = { NULL, mode, kdf };
    for (size_t i = 0; i < 6; i += step) {
        EVP_PKEY *peer = made(without, curve, NULL), *ours = moved(peer, with, EVP_PKEY_PUBLIC_KEY);
        /* As TLS has it: an empty key of the same kind, filled with what the peer sent. */
        EVP_PKEY *filled = EVP_PKEY_new();
        unsigned char *encoded = NULL;
        size_t size = EVP_PKEY_get1_encoded_public_key(peer, &encoded);
        must(EVP_PKEY_copy_parameters(filled, key) == 1, "copying parameters");
        must(EVP_PKEY_set1_encoded_public_key(filled, encoded, size) == 1, "filling a key");
        OPENSSL_free(encoded);
        for (int how = 0; how < 3; how++) {
            must(derive(without, theirs, peer, said[how], other, &their_length), "deriving without");
            long their_little = without_room;
            must(derive(with, key, ours, said[how], one, &length), "deriving");
            must(without_room == their_little, "a secret without room");
            must(length == their_length && memcmp(one, other, length) == 0, "secrets differ");
            must(derive(with, key, filled, said[how], one, &length), "deriving with a filled key");
            must(length == their_length && memcmp(one, other, length) == 0, "secrets of a filled key differ");
            must(ERR_peek_error() == 0, "an error without a failure");
        }
        EVP_PKEY_free(peer);
        EVP_PKEY_free(ours);
        EVP_PKEY_free(filled);
    }
    /* A peer on another curve. */
    EVP_PKEY *stranger = made(with, "brainpoolP256t1", NULL), *their_stranger = made(without, "brainpoolP256t1", NULL);
    must(came(derive(with, key, stranger, NULL, one, &length))
            == came(derive(without, theirs, their_stranger, NULL, other, &their_length)),
        "a stranger");
    EVP_PKEY_free(stranger);
    EVP_PKEY_free(their_stranger);
}

/* A public key that is no point of the curve is taken in by nobody. */
static void no_point(OSSL_LIB_CTX *library)
{
    unsigned char point[65] = { 4 };
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library, "EC", NULL);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)"prime256v1", 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point),
        OSSL_PARAM_construct_end(),
    };
    must(EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1, "no point");
    ERR_clear_error();
    EVP_PKEY_CTX_free(ctx);
}

/* What else is done with keys. */
static void keys(EVP_PKEY *key, EVP_PKEY *theirs, const char *curve)
{
    EVP_PKEY *copy = EVP_PKEY_dup(key), *other = made(with, curve, NULL), *generated = NULL;
    must(copy != NULL && EVP_PKEY_eq(key, copy) == 1 && EVP_PKEY_eq(key, theirs) == 1, "the same key");
    must(EVP_PKEY_eq(key, other) == 0, "another key");
    char names[2][64];
    must(EVP_PKEY_get_group_name(key, names[0], sizeof *names, NULL) == 1
            && EVP_PKEY_get_group_name(theirs, names[1], sizeof *names, NULL) == 1 && strcmp(names[0], names[1]) == 0,
        "its curve");
    must(EVP_PKEY_get_bits(key) == EVP_PKEY_get_bits(theirs) && EVP_PKEY_get_size(key) == EVP_PKEY_get_size(theirs), "its sizes");
    unsigned char *one = NULL, *two = NULL;
    int length = i2d_PrivateKey(key, &one);
    must(length > 0 && length == i2d_PrivateKey(theirs, &two) && memcmp(one, two, (size_t)length) == 0, "its DER");
    const unsigned char *at = one;
    EVP_PKEY *back = d2i_AutoPrivateKey_ex(NULL, &at, length, with, NULL);
    must(back != NULL && EVP_PKEY_eq(back, key) == 1, "back from DER");
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(with, key, NULL);
    must(EVP_PKEY_check(ctx) == 1 && EVP_PKEY_pairwise_check(ctx) == 1, "checking it");
    /* Another one on its curve. */
    must(EVP_PKEY_keygen_init(ctx) == 1 && EVP_PKEY_keygen(ctx, &generated) == 1, "one like it");
    must(EVP_PKEY_parameters_eq(key, generated) == 1 && EVP_PKEY_eq(key, generated) == 0, "is another one on its curve");
    EVP_PKEY_CTX_free(ctx);
    OPENSSL_free(one);
    OPENSSL_free(two);
    EVP_PKEY_free(copy);
    EVP_PKEY_free(other);
    EVP_PKEY_free(back);
    EVP_PKEY_free(generated);
}

static void all(EVP_PKEY *key, const char *curve, int ours)
{
    step = ours ? 1 : 4;
    EVP_PKEY *theirs = moved(key, without, EVP_PKEY_KEYPAIR);
    keys(key, theirs, curve);
    messages(key, theirs);
    digests(key, theirs);
    words(key, theirs);
    secrets(key, theirs, curve);
    EVP_PKEY_free(theirs);
}

int main(int argc, char **argv)
{
    static const char *const makers[] = { NULL, "provider=default", "provider=gantry" };
    static const char *const curves[] = { "P-256", "P-384", "secp256k1" };
    begin(argc, argv);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        for (size_t c = 0; c < sizeof curves / sizeof *curves; c++) {
            EVP_PKEY *key = made(with, curves[c], makers[i]);
            all(key, curves[c], c == 0);
            EVP_PKEY_free(key);
        }
    /* Points in another form, and a curve whose parameters are written out. */
    EVP_PKEY *key = made(with, "P-256", "provider=gantry");
    must(EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "compressed") == 1, "compressing");
    all(key, "P-256", 0);
    must(EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_ENCODING, "explicit") == 1, "writing parameters out");
    all(key, "P-256", 0);
    EVP_PKEY_free(key);
    no_point(with);
    no_point(without);
    return end();
}
