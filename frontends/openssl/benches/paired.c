/* The default provider and gantry side by side in one process: for each algorithm and size, short runs on either side in
 * turn, and the median of their ratios. CPU time of the thread, so that a busy machine does not matter.
 *
 *     paired MODULE_FOLDER [ALGORITHM [SIZE]]
 *
 * A ratio of 2 is twice as fast through gantry. `message` is a nonce, 13 bytes of associated data, the data and the tag for
 * AEADs, one update for other ciphers, and init, update, final for digests. `context` is a new context with a key. `sign` and
 * `verify` are a new context and a message; `derive` is a secret under one key, and `exchange` a new key, the peer's from its bytes,
 * and their secret, as TLS 1.3 does on either side. */
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDES = 2, ROUNDS = 61, BYTES = 65536 };
static const double ROUND_NS = 1e6;

static OSSL_LIB_CTX *library[SIDES];
static unsigned char data[BYTES + 64], key[64], iv[16], tag[16], aad[13];

static void must(int good, const char *what)
{
    if (good > 0)
        return;
    fprintf(stderr, "paired: %s failed\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

struct job {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *cipher_ctx;
    EVP_MD *md;
    EVP_MD_CTX *md_ctx;
    int aead, bytes, encrypt;
    OSSL_LIB_CTX *library;
    const char *type, *properties;
    EVP_PKEY *pair;
    EVP_PKEY_CTX *derive_ctx;
};

static void message(struct job *job)
{
    int written;
    unsigned size;
    unsigned char digest[64];

    if (job->md) {
        must(EVP_DigestInit_ex(job->md_ctx, job->md, NULL), "init");
        must(EVP_DigestUpdate(job->md_ctx, data, job->bytes), "update");
        must(EVP_DigestFinal_ex(job->md_ctx, digest, &size), "final");
        return;
    }
    if (!job->aead) {
        must(EVP_CipherUpdate(job->cipher_ctx, data, &written, data, job->bytes), "update");
        return;
    }
    must(EVP_CipherInit_ex(job->cipher_ctx, NULL, NULL, NULL, iv, job->encrypt), "nonce");
    if (!job->encrypt)
        must(EVP_CIPHER_CTX_ctrl(job->cipher_ctx, EVP_CTRL_AEAD_SET_TAG, 16, tag), "tag");
    must(EVP_CipherUpdate(job->cipher_ctx, NULL, &written, aad, sizeof aad), "associated data");
    must(EVP_CipherUpdate(job->cipher_ctx, data, &written, data, job->bytes), "update");
    /* What is opened was never sealed: the time is the same. */
    int good = EVP_CipherFinal_ex(job->cipher_ctx, data, &written);
    if (job->encrypt)
        must(good && EVP_CIPHER_CTX_ctrl(job->cipher_ctx, EVP_CTRL_AEAD_GET_TAG, 16, tag), "final");
}

static void context(struct job *job)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(EVP_CipherInit_ex(ctx, job->cipher, NULL, key, iv, 1), "context");
    EVP_CIPHER_CTX_free(ctx);
}

static EVP_PKEY *made(struct job *job)
{
    EVP_PKEY *pair = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(job->library, job->type, job->properties);
    must(EVP_PKEY_keygen_init(ctx), "key");
    must(EVP_PKEY_keygen(ctx, &pair), "key");
    EVP_PKEY_CTX_free(ctx);
    return pair;
}

static unsigned char signature[64], public[32];

static void sign(struct job *job)
{
    size_t written = sizeof signature;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestSignInit_ex(ctx, NULL, NULL, job->library, job->properties, job->pair, NULL), "init");
    must(EVP_DigestSign(ctx, signature, &written, data, job->bytes), "sign");
    EVP_MD_CTX_free(ctx);
}

static void verify(struct job *job)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestVerifyInit_ex(ctx, NULL, NULL, job->library, job->properties, job->pair, NULL), "init");
    must(EVP_DigestVerify(ctx, signature, sizeof signature, data, job->bytes), "verify");
    EVP_MD_CTX_free(ctx);
}

static EVP_PKEY_CTX *with_peer(struct job *job, EVP_PKEY *pair)
{
    EVP_PKEY *peer = EVP_PKEY_new();
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(job->library, pair, job->properties);
    must(EVP_PKEY_copy_parameters(peer, pair), "peer");
    must(EVP_PKEY_set1_encoded_public_key(peer, public, sizeof public), "peer");
    must(EVP_PKEY_derive_init(ctx), "init");
    must(EVP_PKEY_derive_set_peer(ctx, peer), "peer");
    EVP_PKEY_free(peer);
    return ctx;
}

static void secret(EVP_PKEY_CTX *ctx)
{
    unsigned char shared[32];
    size_t written = sizeof shared;
    must(EVP_PKEY_derive(ctx, shared, &written), "derive");
}

static void derive(struct job *job)
{
    secret(job->derive_ctx);
}

static void exchange(struct job *job)
{
    EVP_PKEY *pair = made(job);
    EVP_PKEY_CTX *ctx = with_peer(job, pair);
    secret(ctx);
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(pair);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void pair(const char *name, const char *what, struct job *jobs, void (*run)(struct job *))
{
    double ratios[ROUNDS], times[SIDES] = { 1e18, 1e18 };
    long count = 1;

    for (int warm = 0; warm < 64; warm++)
        for (int side = 0; side < SIDES; side++)
            run(&jobs[side]);
    for (double spent = 0; spent < ROUND_NS; count *= 2) {
        double begun = now();
        for (long i = 0; i < count; i++)
            run(&jobs[0]);
        spent = now() - begun;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double spent[SIDES];
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (turn + round) % SIDES;
            double begun = now();
            for (long i = 0; i < count; i++)
                run(&jobs[side]);
            spent[side] = (now() - begun) / count;
            if (spent[side] < times[side])
                times[side] = spent[side];
        }
        ratios[round] = spent[0] / spent[1];
    }
    qsort(ratios, ROUNDS, sizeof *ratios, compare);
    printf("%-18s %-8s %6d  %9.1f ns  %9.1f ns  %5.2f\n", name, what, jobs[0].bytes, times[0], times[1],
        ratios[ROUNDS / 2]);
    fflush(stdout);
}

static void cipher(const char *name, int only)
{
    for (int encrypt = 1; encrypt >= 0; encrypt--) {
        struct job jobs[SIDES] = { 0 };
        for (int side = 0; side < SIDES; side++) {
            jobs[side].cipher = EVP_CIPHER_fetch(library[side], name, side ? "?provider=gantry" : NULL);
            if (!jobs[side].cipher)
                return;
            jobs[side].cipher_ctx = EVP_CIPHER_CTX_new();
            jobs[side].encrypt = encrypt;
            jobs[side].aead = (EVP_CIPHER_get_flags(jobs[side].cipher) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0;
            must(EVP_CipherInit_ex(jobs[side].cipher_ctx, jobs[side].cipher, NULL, key, iv, encrypt), "init");
            EVP_CIPHER_CTX_set_padding(jobs[side].cipher_ctx, 0);
        }
        for (int bytes = 16; bytes <= BYTES; bytes *= 4)
            if (!only || only == bytes) {
                jobs[0].bytes = jobs[1].bytes = bytes;
                pair(name, encrypt ? "encrypt" : "decrypt", jobs, message);
            }
        jobs[0].bytes = jobs[1].bytes = 0;
        if (encrypt && !only)
            pair(name, "context", jobs, context);
        for (int side = 0; side < SIDES; side++) {
            EVP_CIPHER_CTX_free(jobs[side].cipher_ctx);
            EVP_CIPHER_free(jobs[side].cipher);
        }
    }
}

static void digest(const char *name, int only)
{
    struct job jobs[SIDES] = { 0 };
    for (int side = 0; side < SIDES; side++) {
        jobs[side].md = EVP_MD_fetch(library[side], name, side ? "?provider=gantry" : NULL);
        if (!jobs[side].md)
            return;
        jobs[side].md_ctx = EVP_MD_CTX_new();
    }
    for (int bytes = 16; bytes <= BYTES; bytes *= 4)
        if (!only || only == bytes) {
            jobs[0].bytes = jobs[1].bytes = bytes;
            pair(name, "digest", jobs, message);
        }
    for (int side = 0; side < SIDES; side++) {
        EVP_MD_CTX_free(jobs[side].md_ctx);
        EVP_MD_free(jobs[side].md);
    }
}

static void curve(const char *name, int signs)
{
    struct job jobs[SIDES] = { 0 };
    size_t length = sizeof public;
    for (int side = 0; side < SIDES; side++) {
        jobs[side] = (struct job) { .library = library[side], .type = name, .properties = side ? "?provider=gantry" : NULL };
        jobs[side].bytes = signs ? 64 : 32;
        unsigned char raw[32];
        if (side == 0)
            jobs[0].pair = made(&jobs[0]);
        must(EVP_PKEY_get_raw_private_key(jobs[0].pair, raw, &length), "raw");
        if (side == 1)
            jobs[1].pair = EVP_PKEY_new_raw_private_key_ex(library[1], name, jobs[1].properties, raw, sizeof raw);
        must(EVP_PKEY_get_raw_public_key(jobs[0].pair, public, &length), "raw");
        if (!signs)
            jobs[side].derive_ctx = with_peer(&jobs[side], jobs[side].pair);
    }
    if (signs) {
        pair(name, "sign", jobs, sign);
        pair(name, "verify", jobs, verify);
    } else {
        pair(name, "derive", jobs, derive);
        pair(name, "exchange", jobs, exchange);
    }
    for (int side = 0; side < SIDES; side++) {
        EVP_PKEY_CTX_free(jobs[side].derive_ctx);
        EVP_PKEY_free(jobs[side].pair);
    }
}

int main(int argc, char **argv)
{
    static const char *const ciphers[] = { "AES-128-GCM", "AES-256-GCM", "AES-256-XTS", "AES-128-CBC", "AES-256-CTR",
        "ChaCha20-Poly1305" };
    static const char *const digests[] = { "SHA1", "SHA256", "SHA512" };
    int only = argc > 3 ? atoi(argv[3]) : 0;

    if (argc < 2)
        return 2;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (unsigned char)i;
    for (int side = 0; side < SIDES; side++) {
        library[side] = OSSL_LIB_CTX_new();
        must(OSSL_PROVIDER_load(library[side], "default") != NULL, "default");
    }
    OSSL_PROVIDER_set_default_search_path(library[1], argv[1]);
    must(OSSL_PROVIDER_load(library[1], "gantry") != NULL, "gantry");
    printf("%-18s %-8s %6s  %12s  %12s  ratio\n", "algorithm", "", "bytes", "default", "gantry");
    for (size_t i = 0; i < sizeof ciphers / sizeof *ciphers; i++)
        if (argc < 3 || !strcmp(argv[2], ciphers[i]))
            cipher(ciphers[i], only);
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (argc < 3 || !strcmp(argv[2], digests[i]))
            digest(digests[i], only);
    if (argc < 3 || !strcmp(argv[2], "ED25519"))
        curve("ED25519", 1);
    if (argc < 3 || !strcmp(argv[2], "X25519"))
        curve("X25519", 0);
    return 0;
}
