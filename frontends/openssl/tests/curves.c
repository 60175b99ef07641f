/* Ed25519 and X25519 with and without gantry: generated, imported and exported keys, signatures and secrets, and their errors.
 *
 *     curves CONFIGURATION
 *
 * The configuration is for gantry's library context. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

enum { SIZE = 32, SIGNATURE = 64, LONGEST = 70000 };

/* Library contexts with the default provider, and with the configuration. */
static OSSL_LIB_CTX *without, *with;

static EVP_PKEY *private_key(OSSL_LIB_CTX *library, const char *type, const unsigned char *raw)
{
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key_ex(library, type, NULL, raw, SIZE);
    must(key != NULL, "a private key");
    return key;
}

/* Generates a key with one provider. */
static EVP_PKEY *made(OSSL_LIB_CTX *library, const char *type, const char *properties)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library, type, properties);
    must(EVP_PKEY_keygen_init(ctx) == 1 && EVP_PKEY_keygen(ctx, &key) == 1, "making a key");
    EVP_PKEY_CTX_free(ctx);
    return key;
}

/* Copies a key to another library context. */
static EVP_PKEY *moved(EVP_PKEY *key, OSSL_LIB_CTX *library, const char *type)
{
    unsigned char raw[SIZE];
    size_t length = SIZE;
    must(EVP_PKEY_get_raw_private_key(key, raw, &length) == 1 && length == SIZE, "a raw private key");
    return private_key(library, type, raw);
}

static EVP_PKEY *public_half(EVP_PKEY *key, OSSL_LIB_CTX *library, const char *type)
{
    unsigned char raw[SIZE];
    size_t length = SIZE;
    must(EVP_PKEY_get_raw_public_key(key, raw, &length) == 1 && length == SIZE, "a raw public key");
    return EVP_PKEY_new_raw_public_key_ex(library, type, NULL, raw, SIZE);
}

static int sign(OSSL_LIB_CTX *library, EVP_PKEY *key, const unsigned char *message, size_t length, unsigned char *signature)
{
    size_t written = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int good = EVP_DigestSignInit_ex(ctx, NULL, NULL, library, NULL, key, NULL) == 1
        && EVP_DigestSign(ctx, NULL, &written, message, length) == 1 && written == SIGNATURE
        && EVP_DigestSign(ctx, signature, &written, message, length) == 1 && written == SIGNATURE;
    EVP_MD_CTX_free(ctx);
    return good;
}

static int verify(OSSL_LIB_CTX *library, EVP_PKEY *key, const unsigned char *message, size_t length,
    const unsigned char *signature, size_t size)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestVerifyInit_ex(ctx, NULL, NULL, library, NULL, key, NULL) == 1, "beginning to verify");
    int good = EVP_DigestVerify(ctx, signature, size, message, length) == 1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

static void signatures(EVP_PKEY *key)
{
    static const size_t lengths[] = { 0, 1, 63, 64, 300, 5000, LONGEST };
    static unsigned char message[LONGEST];
    EVP_PKEY *theirs = moved(key, without, "ED25519");
    EVP_PKEY *public = public_half(key, with, "ED25519"), *their_public = public_half(key, without, "ED25519");
    unsigned char one[SIGNATURE], other[SIGNATURE];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length = lengths[i];
        for (size_t at = 0; at < length; at++)
            message[at] = (unsigned char)(at * 7 + i);
        for (int again = 0; again < 3; again++) {
            must(sign(with, key, message, length, one) && sign(without, theirs, message, length, other), "signing");
            must(memcmp(one, other, SIGNATURE) == 0, "signatures differ");
            must(ERR_peek_error() == 0, "an error without a failure");
            must(verify(with, public, message, length, other, SIGNATURE), "verifying theirs");
            must(verify(with, key, message, length, other, SIGNATURE), "verifying with the whole key");
            must(verify(without, their_public, message, length, one, SIGNATURE), "verifying ours");
        }
        for (size_t at = 0; at < SIGNATURE; at++) {
            memcpy(other, one, SIGNATURE);
            other[at] ^= 1 << at % 8;
            must(!verify(with, public, message, length, other, SIGNATURE), "a forgery");
        }
        must(!verify(with, public, message, length, one, SIGNATURE - 1), "a short signature");
        must(length == 0 || !verify(with, public, message, length - 1, one, SIGNATURE), "a short message");
    }

    /* Too little room; many messages in one context; a copy of the context. */
    size_t written = SIGNATURE - 1;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new(), *copy = EVP_MD_CTX_new();
    must(EVP_DigestSignInit_ex(ctx, NULL, NULL, with, NULL, key, NULL) == 1, "beginning to sign");
    must(EVP_DigestSign(ctx, one, &written, message, 5) != 1, "too little room");
    ERR_clear_error();
    must(EVP_MD_CTX_copy_ex(copy, ctx) == 1, "copying a context");
    for (size_t length = 0; length < 5; length++) {
        must(sign(without, theirs, message, length, other), "signing");
        written = SIGNATURE;
        must(EVP_DigestSign(ctx, one, &written, message, length) == 1, "signing again");
        must(memcmp(one, other, SIGNATURE) == 0, "signatures of one context differ");
        written = SIGNATURE;
        must(EVP_DigestSign(copy, one, &written, message, length) == 1, "signing with a copy");
        must(memcmp(one, other, SIGNATURE) == 0, "signatures of a copy differ");
        if (length == 2)
            EVP_MD_CTX_reset(ctx), must(EVP_DigestSignInit_ex(ctx, NULL, NULL, with, NULL, key, NULL) == 1, "anew");
    }
    EVP_MD_CTX_free(ctx);
    EVP_MD_CTX_free(copy);

    /* A public key cannot sign. */
    must(!sign(with, public, message, 5, one) && !sign(without, their_public, message, 5, one), "signed by a public key");
    ERR_clear_error();
    EVP_PKEY_free(theirs);
    EVP_PKEY_free(public);
    EVP_PKEY_free(their_public);
}

static int derive(OSSL_LIB_CTX *library, EVP_PKEY *key, EVP_PKEY *peer, unsigned char *secret)
{
    size_t written = 0;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(library, key, NULL);
    int good = EVP_PKEY_derive_init(ctx) == 1 && EVP_PKEY_derive_set_peer(ctx, peer) == 1
        && EVP_PKEY_derive(ctx, NULL, &written) == 1 && written == SIZE;
    if (good) {
        /* A copy of the context works as well, and too little room is refused. */
        unsigned char again[SIZE];
        size_t little = SIZE - 1;
        EVP_PKEY_CTX *copy = EVP_PKEY_CTX_dup(ctx);
        must(EVP_PKEY_derive(ctx, again, &little) != 1, "a secret without room");
        ERR_clear_error();
        good = EVP_PKEY_derive(ctx, secret, &written) == 1 && written == SIZE;
        written = SIZE;
        must(!good || (EVP_PKEY_derive(copy, again, &written) == 1 && memcmp(secret, again, SIZE) == 0), "a copy's secret");
        EVP_PKEY_CTX_free(copy);
    }
    EVP_PKEY_CTX_free(ctx);
    return good;
}

/* OpenSSL up to 4.0.3 keeps a key that it exported to another provider even after the key has changed (keymgmt_lib.c reads the cache
 * without checking `dirty_cnt`). With `refills`, the key is gantry's own from the start, and filled twice. */
static void secrets(EVP_PKEY *key, int refills)
{
    unsigned char one[SIZE], other[SIZE], raw[SIZE];
    size_t length = SIZE;
    EVP_PKEY *theirs = moved(key, without, "X25519");
    for (int i = 0; i < 8; i++) {
        EVP_PKEY *peer = made(without, "X25519", NULL);
        EVP_PKEY *ours = public_half(peer, with, "X25519");
        must(derive(with, key, ours, one) && derive(without, theirs, peer, other), "deriving");
        must(memcmp(one, other, SIZE) == 0, "secrets differ");
        must(ERR_peek_error() == 0, "an error without a failure");
        /* As in TLS: an empty key of the same kind, filled with the peer's share. */
        EVP_PKEY *filled = EVP_PKEY_new();
        must(EVP_PKEY_get_raw_public_key(peer, raw, &length) == 1, "a raw public key");
        must(EVP_PKEY_copy_parameters(filled, key) == 1, "copying parameters");
        must(EVP_PKEY_set1_encoded_public_key(filled, raw, SIZE) == 1, "filling a key");
        must(derive(with, key, filled, one) && memcmp(one, other, SIZE) == 0, "a secret with a filled key");
        if (refills) {
            EVP_PKEY *second = made(without, "X25519", NULL);
            must(EVP_PKEY_get_raw_public_key(second, raw, &length) == 1, "a raw public key");
            must(EVP_PKEY_set1_encoded_public_key(filled, raw, SIZE) == 1, "filling a key again");
            must(derive(without, theirs, second, other), "deriving");
            must(derive(with, key, filled, one) && memcmp(one, other, SIZE) == 0, "a secret with a key filled again");
            EVP_PKEY_free(second);
        }
        EVP_PKEY_free(peer);
        EVP_PKEY_free(ours);
        EVP_PKEY_free(filled);
    }
    /* Points of small order. */
    for (int low = 0; low < 2; low++) {
        memset(raw, 0, SIZE);
        raw[0] = (unsigned char)low;
        EVP_PKEY *peer = EVP_PKEY_new_raw_public_key_ex(with, "X25519", NULL, raw, SIZE);
        must(peer != NULL && !derive(with, key, peer, one), "a secret of small order");
        must(ERR_peek_error() != 0, "no error for a point of small order");
        ERR_clear_error();
        EVP_PKEY_free(peer);
    }
    EVP_PKEY_free(theirs);
}

/* Other operations on keys. */
static void keys(EVP_PKEY *key, const char *type)
{
    EVP_PKEY *copy = EVP_PKEY_dup(key), *theirs = moved(key, without, type);
    must(copy != NULL && EVP_PKEY_eq(key, copy) == 1 && EVP_PKEY_eq(key, theirs) == 1, "the same key");
    EVP_PKEY *other = made(with, type, NULL);
    must(EVP_PKEY_eq(key, other) == 0, "another key");
    must(EVP_PKEY_get_bits(key) == EVP_PKEY_get_bits(theirs), "its bits");
    unsigned char *one = NULL, *two = NULL;
    int length = i2d_PrivateKey(key, &one);
    must(length > SIZE && length == i2d_PrivateKey(theirs, &two) && memcmp(one, two, (size_t)length) == 0, "its DER");
    const unsigned char *at = one;
    EVP_PKEY *back = d2i_AutoPrivateKey_ex(NULL, &at, length, with, NULL);
    must(back != NULL && EVP_PKEY_eq(back, key) == 1, "back from DER");
    EVP_PKEY_CTX *check = EVP_PKEY_CTX_new_from_pkey(with, key, NULL);
    must(EVP_PKEY_check(check) == 1, "checking it");
    EVP_PKEY_CTX_free(check);
    OPENSSL_free(one);
    OPENSSL_free(two);
    EVP_PKEY_free(copy);
    EVP_PKEY_free(theirs);
    EVP_PKEY_free(other);
    EVP_PKEY_free(back);
}

int main(int argc, char **argv)
{
    static const char *const makers[] = { NULL, "provider=default", "provider=gantry" };
    must(argc == 2, "one configuration");
    without = OSSL_LIB_CTX_new();
    with = OSSL_LIB_CTX_new();
    must(OSSL_PROVIDER_load(without, "default") != NULL, "the default provider");
    must(OSSL_LIB_CTX_load_config(with, argv[1]) == 1, "the configuration");
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        EVP_PKEY *key = made(with, "ED25519", makers[i]);
        keys(key, "ED25519");
        signatures(key);
        EVP_PKEY_free(key);
        key = made(with, "X25519", makers[i]);
        keys(key, "X25519");
        secrets(key, i != 1);
        EVP_PKEY_free(key);
    }
    OSSL_LIB_CTX_free(with);
    OSSL_LIB_CTX_free(without);
    printf("the same\n");
    return 0;
}
