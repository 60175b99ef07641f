/* SLH-DSA of a libcrypto, for `openssl.rs`, and for comparison with `cargo bench -p gantry-slh-dsa`.
 *
 *     openssl key SET SEEDS                             prints the private key made from the seeds
 *     openssl sign SET PRIVATE MESSAGE CONTEXT [RANDOM] prints a signature; deterministic if there is no RANDOM
 *     openssl verify SET PUBLIC MESSAGE CONTEXT         reads a signature; prints "valid" or "invalid"
 *     openssl speed SET                                 prints milliseconds of CPU time of key, sign and verify: the best of seven
 *
 * Operands and signatures are hexadecimal; a signature is one line. Empty operands are "-". */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 100000

struct bytes {
    unsigned char at[MOST];
    size_t length;
};

static void must(int good, const char *what) {
    if (good <= 0) {
        fprintf(stderr, "openssl: %s failed\n", what);
        exit(1);
    }
}

static struct bytes *unhex(const char *text) {
    struct bytes *bytes = calloc(1, sizeof(*bytes));
    must(bytes != NULL, "calloc");
    if (strcmp(text, "-") != 0)
        for (; text[0] && text[0] != '\n'; text += 2) {
            unsigned byte;
            must(bytes->length < MOST && sscanf(text, "%2x", &byte) == 1, "hexadecimal");
            bytes->at[bytes->length++] = byte;
        }
    return bytes;
}

static void print(const unsigned char *at, size_t length) {
    while (length--)
        printf("%02x", *at++);
    printf("\n");
}

static EVP_PKEY *key_of(const char *set, const char *what, struct bytes *bytes) {
    OSSL_PARAM parameters[] = {OSSL_PARAM_octet_string(what, bytes->at, bytes->length), OSSL_PARAM_END};
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, set, NULL);
    must(context != NULL, set);
    if (strcmp(what, OSSL_PKEY_PARAM_SLH_DSA_SEED) == 0) {
        must(EVP_PKEY_keygen_init(context), "keygen_init");
        must(EVP_PKEY_CTX_set_params(context, parameters), "seeds");
        must(EVP_PKEY_generate(context, &key), "generate");
    } else {
        int public = strcmp(what, OSSL_PKEY_PARAM_PUB_KEY) == 0;
        must(EVP_PKEY_fromdata_init(context), "fromdata_init");
        must(EVP_PKEY_fromdata(context, &key, public ? EVP_PKEY_PUBLIC_KEY : EVP_PKEY_KEYPAIR, parameters), "fromdata");
    }
    EVP_PKEY_CTX_free(context);
    return key;
}

/* Returns a context for signing or verifying with a key. */
static EVP_PKEY_CTX *ready(const char *set, EVP_PKEY *key, int sign, struct bytes *label, struct bytes *random) {
    int deterministic = random == NULL;
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_octet_string(OSSL_SIGNATURE_PARAM_CONTEXT_STRING, label->at, label->length),
        OSSL_PARAM_END,
        OSSL_PARAM_END,
        OSSL_PARAM_END,
    };
    EVP_SIGNATURE *signature = EVP_SIGNATURE_fetch(NULL, set, NULL);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    if (sign) {
        parameters[1] = OSSL_PARAM_construct_int(OSSL_SIGNATURE_PARAM_DETERMINISTIC, &deterministic);
        if (random)
            parameters[2] = OSSL_PARAM_construct_octet_string(OSSL_SIGNATURE_PARAM_TEST_ENTROPY, random->at, random->length);
        must(EVP_PKEY_sign_message_init(context, signature, parameters), "sign_message_init");
    } else
        must(EVP_PKEY_verify_message_init(context, signature, parameters), "verify_message_init");
    EVP_SIGNATURE_free(signature);
    return context;
}

static double milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

/* Does one operation for `speed`: 0 makes a key, 1 signs, 2 verifies. */
static void once(int what, const char *set, EVP_PKEY *key, struct bytes *seeds, struct bytes *signature) {
    static struct bytes none;
    EVP_PKEY_CTX *context = NULL;
    if (what == 0)
        EVP_PKEY_free(key_of(set, OSSL_PKEY_PARAM_SLH_DSA_SEED, seeds));
    else if (what == 1) {
        context = ready(set, key, 1, &none, NULL);
        signature->length = MOST;
        must(EVP_PKEY_sign(context, signature->at, &signature->length, (unsigned char *)"message", 7), "sign");
    } else {
        context = ready(set, key, 0, &none, NULL);
        must(EVP_PKEY_verify(context, signature->at, signature->length, (unsigned char *)"message", 7), "verify");
    }
    EVP_PKEY_CTX_free(context);
}

static void speed(const char *set) {
    static struct bytes signature;
    struct bytes seeds = {{0}, strstr(set, "128") ? 48 : strstr(set, "192") ? 72 : 96};
    memset(seeds.at, 7, seeds.length);
    EVP_PKEY *key = key_of(set, OSSL_PKEY_PARAM_SLH_DSA_SEED, &seeds);
    printf("%-20s openssl ", set);
    for (int what = 0; what < 3; what++) {
        double begin = milliseconds(), best = 1e9;
        once(what, set, key, &seeds, &signature);
        double calls = 20 / (milliseconds() - begin);
        calls = calls < 1 ? 1 : calls > 1000 ? 1000 : calls;
        for (int run = 0; run < 7; run++) {
            begin = milliseconds();
            for (int call = 0; call < (int)calls; call++)
                once(what, set, key, &seeds, &signature);
            double each = (milliseconds() - begin) / (int)calls;
            best = each < best ? each : best;
        }
        printf(" %10.3f", best);
    }
    printf("\n");
    EVP_PKEY_free(key);
}

int main(int count, char **arguments) {
    static char line[2 * MOST + 2];
    static struct bytes signature;
    if (count < 3)
        return 2;
    const char *what = arguments[1], *set = arguments[2];
    if (strcmp(what, "speed") == 0)
        speed(set);
    else if (strcmp(what, "key") == 0 && count == 4) {
        EVP_PKEY *key = key_of(set, OSSL_PKEY_PARAM_SLH_DSA_SEED, unhex(arguments[3]));
        must(EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PRIV_KEY, signature.at, MOST, &signature.length), "private");
        print(signature.at, signature.length);
    } else if (strcmp(what, "sign") == 0 && count >= 6) {
        EVP_PKEY *key = key_of(set, OSSL_PKEY_PARAM_PRIV_KEY, unhex(arguments[3]));
        struct bytes *message = unhex(arguments[4]);
        EVP_PKEY_CTX *context = ready(set, key, 1, unhex(arguments[5]), count > 6 ? unhex(arguments[6]) : NULL);
        signature.length = MOST;
        must(EVP_PKEY_sign(context, signature.at, &signature.length, message->at, message->length), "sign");
        print(signature.at, signature.length);
    } else if (strcmp(what, "verify") == 0 && count == 6) {
        EVP_PKEY *key = key_of(set, OSSL_PKEY_PARAM_PUB_KEY, unhex(arguments[3]));
        struct bytes *message = unhex(arguments[4]);
        must(fgets(line, sizeof(line), stdin) != NULL, "a signature");
        struct bytes *given = unhex(line);
        EVP_PKEY_CTX *context = ready(set, key, 0, unhex(arguments[5]), NULL);
        int valid = EVP_PKEY_verify(context, given->at, given->length, message->at, message->length);
        printf("%s\n", valid == 1 ? "valid" : "invalid");
    } else
        return 2;
    return 0;
}
