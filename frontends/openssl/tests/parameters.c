/* Ed25519 signatures with parameters, as libssl of OpenSSL 4.0 sets them, with and without gantry.
 *
 *     parameters CONFIGURATION
 *
 * The configuration is for gantry's library context. With it, two signatures and two verifications have only parameters that change
 * nothing, and one of each has another parameter. OpenSSL 3.4 and later also use EVP_PKEY_sign and EVP_PKEY_verify, twice each: the first
 * time with a whole message, then with a digest. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <string.h>

#include "must.h"

enum { SIZE = 32, SIGNATURE = 64 };

static const unsigned char message[100] = "the transcript of a handshake";
static char variant[] = "Ed25519ph";

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

#if OPENSSL_VERSION_NUMBER >= 0x30400000L
/* Signs and verifies with one of two ways to start. The second one signs a digest. */
static void sign_otherwise(OSSL_LIB_CTX *library, EVP_PKEY *key, int of_digest, unsigned char *to)
{
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string("instance", variant, 0),
        OSSL_PARAM_construct_end(),
    };
    size_t written = SIGNATURE, length = of_digest ? 64 : 100;
    EVP_SIGNATURE *algorithm = EVP_SIGNATURE_fetch(library, "ED25519", NULL);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(library, key, NULL);
    must(algorithm != NULL && ctx != NULL, "the algorithm");
    must((of_digest ? EVP_PKEY_sign_init_ex2(ctx, algorithm, params) : EVP_PKEY_sign_message_init(ctx, algorithm, NULL)) == 1,
        "beginning otherwise");
    must(EVP_PKEY_sign(ctx, to, &written, message, length) == 1 && written == SIGNATURE, "signing otherwise");
    must((of_digest ? EVP_PKEY_verify_init_ex2(ctx, algorithm, params) : EVP_PKEY_verify_message_init(ctx, algorithm, NULL)) == 1,
        "beginning to verify otherwise");
    must(EVP_PKEY_verify(ctx, to, SIGNATURE, message, length) == 1, "verifying otherwise");
    EVP_PKEY_CTX_free(ctx);
    EVP_SIGNATURE_free(algorithm);
}
#endif

int main(int argc, char **argv)
{
    int version = 0x0304;
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
#if OPENSSL_VERSION_NUMBER >= 0x30400000L
    for (int of_digest = 0; of_digest < 2; of_digest++) {
        sign_otherwise(with, key, of_digest, ours);
        sign_otherwise(without, their_key, of_digest, theirs);
        must(memcmp(ours, theirs, SIGNATURE) == 0, "signatures differ");
    }
#endif
    must(ERR_peek_error() == 0, "an error without a failure");
    EVP_PKEY_free(key);
    EVP_PKEY_free(their_key);
    OSSL_LIB_CTX_free(with);
    OSSL_LIB_CTX_free(without);
    printf("the same\n");
    return 0;
}
