/* Key derivations with and without gantry, including errors:
 *
 *     kdf CONFIGURATION
 */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <string.h>

#include "must.h"

enum { ROOM = 20000 };

static OSSL_LIB_CTX *libraries[2];
static const char *const digests[] = {"MD5", "SHA1", "SHA224", "SHA2-256", "SHA384", "SHA512", "SHA512-256", "SHA3-256", "SHA3-512",
    "RIPEMD-160", "BLAKE2b512", "SHAKE128", "none"};
static unsigned char bytes[300];

/* Combines the result of a call and the reason of the error that it left. */
static long came(long result)
{
    long reason = (long)ERR_GET_REASON(ERR_peek_last_error());
    ERR_clear_error();
    return result * 100000L + reason;
}

static OSSL_PARAM text(const char *key, const char *value)
{
    return OSSL_PARAM_construct_utf8_string(key, (char *)(size_t)value, 0);
}

static OSSL_PARAM octets(const char *key, size_t length)
{
    return OSSL_PARAM_construct_octet_string(key, bytes + length % 7, length);
}

/* Derives on both sides, with parameters set before the call or passed to it. Returns 1 if the result is a key. */
static int same(const char *name, const OSSL_PARAM *params, size_t length, int before)
{
    static unsigned char keys[2][ROOM];
    long results[2];
    memset(keys, 0xa5, sizeof keys);
    for (int side = 0; side < 2; side++) {
        EVP_KDF *kdf = EVP_KDF_fetch(libraries[side], name, NULL);
        must(kdf != NULL, "the derivation");
        if (side == 1)
            must(strcmp(OSSL_PROVIDER_get0_name(EVP_KDF_get0_provider(kdf)), "gantry") == 0, "it is not gantry's");
        EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
        long told = before ? came(EVP_KDF_CTX_set_params(ctx, params)) : 0;
        EVP_KDF_CTX *copy = EVP_KDF_CTX_dup(ctx);
        long size = came((long)EVP_KDF_CTX_get_kdf_size(ctx));
        long first = came(EVP_KDF_derive(ctx, keys[side], length, before ? NULL : params));
        unsigned char again[ROOM], copied[ROOM];
        long second = came(EVP_KDF_derive(ctx, again, length, NULL));
        must(first != 100000 || (second == 100000 && memcmp(again, keys[side], length) == 0), "another key the second time");
        /* Older releases cannot copy. */
        if (copy != NULL && before && first == 100000)
            must(EVP_KDF_derive(copy, copied, length, NULL) == 1 && memcmp(copied, again, length) == 0, "another key of a copy");
        EVP_KDF_CTX_free(copy);
        EVP_KDF_CTX_reset(ctx);
        long fresh = came(EVP_KDF_derive(ctx, again, length, NULL));
        results[side] = ((told * 31 + size) * 31 + first) * 31 + fresh;
        if (first != 100000)
            memset(keys[side], 0, ROOM);
        results[side] = results[side] * 2 + (first == 100000);
        EVP_KDF_CTX_free(ctx);
        EVP_KDF_free(kdf);
    }
    must(results[0] == results[1], "another result");
    must(memcmp(keys[0], keys[1], ROOM) == 0, "another key");
    return results[0] & 1;
}

int main(int count, char **words)
{
    int keys = 0, refused = 0;
    must(count == 2, "one configuration");
    for (int side = 0; side < 2; side++)
        libraries[side] = OSSL_LIB_CTX_new();
    must(OSSL_PROVIDER_load(libraries[0], "default") != NULL, "the default provider");
    must(OSSL_LIB_CTX_load_config(libraries[1], words[1]) == 1, "the configuration");
    for (size_t at = 0; at < sizeof bytes; at++)
        bytes[at] = (unsigned char)(at * 7 + 3);
    const size_t lengths[] = {0, 1, 20, 32, 33, 64, 128, 300, 5100, 16320, ROOM};
    const size_t secrets[] = {0, 1, 20, 64, 200};
    const uint64_t iterations[] = {0, 1, 2, 1000};
    for (size_t digest = 0; digest < sizeof digests / sizeof *digests; digest++)
        for (size_t length = 0; length < sizeof lengths / sizeof *lengths; length++)
            for (size_t other = 0; other < 10; other++) {
                size_t secret = secrets[other % 5], salt = secrets[other / 2];
                uint64_t iter = iterations[(other + length) % 4];
                int pkcs5 = (int)(other % 3) - 1, mode = (int)(other % 4);
                if (iter == 1000 && lengths[length] > 20)
                    iter = 3;
                OSSL_PARAM pbkdf2[] = {octets("pass", secret), octets("salt", salt), text("digest", digests[digest]),
                    OSSL_PARAM_construct_uint64("iter", &iter), OSSL_PARAM_construct_end(), OSSL_PARAM_construct_end()};
                /* Without `pkcs5`, the bounds of SP 800-132 are not checked. */
                if (other % 2 == 0)
                    pbkdf2[4] = OSSL_PARAM_construct_int("pkcs5", &pkcs5);
                /* Long keys take long. */
                int good = lengths[length] > 300 && other > 0 ? 0 : same("PBKDF2", pbkdf2, lengths[length], (int)other % 2);
                static const char *const modes[] = {"EXTRACT_AND_EXPAND", "EXTRACT_ONLY", "EXPAND_ONLY", "expand_only"};
                OSSL_PARAM hkdf[] = {octets("key", secret), octets("salt", salt), text("digest", digests[digest]),
                    octets("info", salt / 2), text("mode", modes[mode]), OSSL_PARAM_construct_end(), OSSL_PARAM_construct_end()};
                if (other % 3 == 0)
                    hkdf[4] = OSSL_PARAM_construct_int("mode", &mode);
                /* Several values are concatenated. */
                if (other % 5 == 0)
                    hkdf[5] = octets("info", 3);
                good += same("HKDF", hkdf, lengths[length], (int)other % 2);
                keys += good;
                refused += 2 - good;
            }
    /* Parameters that are missing, empty, or select another provider. */
    OSSL_PARAM end = OSSL_PARAM_construct_end(), pass = octets("pass", 9), salt = octets("salt", 9);
    OSSL_PARAM usual[] = {pass, salt, end}, no_salt[] = {pass, end}, no_pass[] = {salt, end}, nothing[] = {end};
    OSSL_PARAM chosen[] = {pass, salt, text("digest", "SHA256"), text("properties", "provider=default"), end};
    OSSL_PARAM nobodys[] = {pass, salt, text("digest", "SHA256"), text("properties", "provider=nobody"), end};
    OSSL_PARAM unknown[] = {pass, salt, text("colour", "red"), end};
    OSSL_PARAM empty[] = {OSSL_PARAM_construct_octet_string("pass", NULL, 0), OSSL_PARAM_construct_octet_string("salt", NULL, 0), end};
    const OSSL_PARAM *all[] = {usual, no_salt, no_pass, nothing, chosen, nobodys, unknown, empty};
    for (size_t place = 0; place < sizeof all / sizeof *all; place++)
        for (int before = 0; before < 2; before++)
            keys += same("PBKDF2", all[place], 32, before);
    must(keys > 500 && refused > 200, "too few of one kind");
    for (int side = 0; side < 2; side++)
        OSSL_LIB_CTX_free(libraries[side]);
    printf("the same\n");
    return 0;
}
