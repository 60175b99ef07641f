/* Signatures through gantry and without it: what tests of them have in common. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/provider.h>
#include <string.h>

#include "must.h"

enum { LONGEST = 70000, ROOM = 512 };

/* The default provider's, and the one that is configured. */
static OSSL_LIB_CTX *without, *with;
static unsigned char message[LONGEST];
/* What a context is told with the key, or before it verifies; null for nothing. */
static const OSSL_PARAM *told;

/* The same key, or its public half, on the other side. */
static EVP_PKEY *moved(EVP_PKEY *key, OSSL_LIB_CTX *library, int selection)
{
    EVP_PKEY *copy = NULL;
    OSSL_PARAM *params = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(library, EVP_PKEY_get0_type_name(key), NULL);
    must(EVP_PKEY_todata(key, selection, &params) == 1, "giving out a key");
    must(EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &copy, selection, params) == 1, "taking in a key");
    OSSL_PARAM_free(params);
    EVP_PKEY_CTX_free(ctx);
    return copy;
}

/* What came of a call: its value and the reason that it left. */
static long came(int result)
{
    long reason = (long)ERR_GET_REASON(ERR_peek_last_error());
    ERR_clear_error();
    return result * 100000L + reason;
}

static int sign(OSSL_LIB_CTX *library, EVP_PKEY *key, const char *digest, size_t length, int pieces, unsigned char *signature,
    size_t *written)
{
    size_t size = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int good = EVP_DigestSignInit_ex(ctx, NULL, digest, library, NULL, key, told) == 1;
    *written = ROOM;
    if (good && pieces) {
        for (size_t at = 0, piece = 1; good && at < length; at += piece, piece = piece * 2 + 1) {
            if (piece > length - at)
                piece = length - at;
            good = EVP_DigestSignUpdate(ctx, message + at, piece) == 1;
        }
        good = good && EVP_DigestSignFinal(ctx, NULL, &size) == 1 && EVP_DigestSignFinal(ctx, signature, written) == 1;
    } else if (good) {
        good = EVP_DigestSign(ctx, NULL, &size, message, length) == 1
            && EVP_DigestSign(ctx, signature, written, message, length) == 1;
    }
    must(!good || (*written <= size && size <= ROOM), "the size of a signature");
    EVP_MD_CTX_free(ctx);
    return good;
}

static long verify(OSSL_LIB_CTX *library, EVP_PKEY *key, const char *digest, size_t length, int pieces,
    const unsigned char *signature, size_t size)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *inside;
    must(EVP_DigestVerifyInit_ex(ctx, &inside, digest, library, NULL, key, NULL) == 1, "beginning to verify");
    must(told == NULL || EVP_PKEY_CTX_set_params(inside, told) == 1, "telling a context");
    ERR_clear_error();
    long result;
    if (pieces) {
        must(EVP_DigestVerifyUpdate(ctx, message, length / 3) == 1, "a piece");
        must(EVP_DigestVerifyUpdate(ctx, message + length / 3, length - length / 3) == 1, "another piece");
        result = came(EVP_DigestVerifyFinal(ctx, signature, size));
    } else {
        result = came(EVP_DigestVerify(ctx, signature, size, message, length));
    }
    EVP_MD_CTX_free(ctx);
    return result;
}

/* Both sides say the same of it; whether it is good. */
static int judged(EVP_PKEY *ours, EVP_PKEY *theirs, const char *digest, size_t length, const unsigned char *signature, size_t size)
{
    long result = verify(without, theirs, digest, length, 0, signature, size);
    for (int pieces = 0; pieces < 2; pieces++)
        must(verify(with, ours, digest, length, pieces, signature, size) == result, "another verdict");
    return result == 100000;
}

static void begin(int argc, char **argv)
{
    must(argc == 2, "one configuration");
    without = OSSL_LIB_CTX_new();
    with = OSSL_LIB_CTX_new();
    must(OSSL_PROVIDER_load(without, "default") != NULL, "the default provider");
    must(OSSL_LIB_CTX_load_config(with, argv[1]) == 1, "the configuration");
    for (size_t at = 0; at < LONGEST; at++)
        message[at] = (unsigned char)(at * 7 + at / 251);
}

static int end(void)
{
    OSSL_LIB_CTX_free(with);
    OSSL_LIB_CTX_free(without);
    printf("the same\n");
    return 0;
}
