/* Ed25519 signatures with parameters, as libssl of OpenSSL 4.0 sets them, with and without gantry.
 *
 *     parameters CONFIGURATION
 *
 * The configuration is for gantry's library context. With it, two signatures and two verifications have only parameters that change
 * nothing, and one of each has another parameter. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <string.h>

#include "must.h"

enum { SIZE = 32, SIGNATURE = 64 };

static const unsigned char message[] = "the transcript of a handshake";

/* Signs twice in one context: with `params`, and after a start without key and parameters, as the command `speed` of 4.0 does. */
static void sign(OSSL_LIB_CTX *library, EVP_PKEY *key, const OSSL_PARAM *params, int times, unsigned char *to)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestSignInit_ex(ctx, NULL, NULL, library, NULL, key, params) == 1, "beginning to sign");
    for (int i = 0; i < times; i++) {
        size_t written = 0;
        must(i == 0 || EVP_DigestSignInit_ex(ctx, NULL, NULL, NULL, NULL, NULL, NULL) == 1, "beginning again");
        must(EVP_DigestSign(ctx, NULL, &written, message, sizeof message) == 1 && written == SIGNATURE, "the size");
        must(EVP_DigestSign(ctx, to + i * SIGNATURE, &written, message, sizeof message) == 1, "signing");
    }
    EVP_MD_CTX_free(ctx);
}

static void verify(OSSL_LIB_CTX *library, EVP_PKEY *key, const OSSL_PARAM *params, int times, const unsigned char *from)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestVerifyInit_ex(ctx, NULL, NULL, library, NULL, key, params) == 1, "beginning to verify");
    for (int i = 0; i < times; i++) {
        must(i == 0 || EVP_DigestVerifyInit_ex(ctx, NULL, NULL, NULL, NULL, NULL, NULL) == 1, "beginning again");
        must(EVP_DigestVerify(ctx, from + i * SIGNATURE, SIGNATURE, message, sizeof message) == 1, "verifying");
    }
    EVP_MD_CTX_free(ctx);
}

int main(int argc, char **argv)
{
    int version = 0x0304;
    char variant[] = "Ed25519ph";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int("tls-version", &version),
        OSSL_PARAM_construct_end(),
        OSSL_PARAM_construct_end(),
    };
    unsigned char raw[SIZE] = {7}, ours[2 * SIGNATURE], theirs[2 * SIGNATURE];
    OSSL_LIB_CTX *without = OSSL_LIB_CTX_new(), *with = OSSL_LIB_CTX_new();
    must(argc == 2 && OSSL_PROVIDER_load(without, "default") != NULL, "the default provider");
    must(OSSL_LIB_CTX_load_config(with, argv[1]) == 1, "the configuration");
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key_ex(with, "ED25519", NULL, raw, SIZE);
    EVP_PKEY *their_key = EVP_PKEY_new_raw_private_key_ex(without, "ED25519", NULL, raw, SIZE);
    must(key != NULL && their_key != NULL, "the key");
    for (int times = 2; times > 0; times--) {
        sign(with, key, params, times, ours);
        sign(without, their_key, params, times, theirs);
        must(memcmp(ours, theirs, (size_t)times * SIGNATURE) == 0, "signatures differ");
        verify(with, key, params, times, theirs);
        verify(without, their_key, params, times, ours);
        /* Releases before 3.2 ignore this. */
        params[1] = OSSL_PARAM_construct_utf8_string("instance", variant, 0);
    }
    must(ERR_peek_error() == 0, "an error without a failure");
    EVP_PKEY_free(key);
    EVP_PKEY_free(their_key);
    OSSL_LIB_CTX_free(with);
    OSSL_LIB_CTX_free(without);
    printf("the same\n");
    return 0;
}
