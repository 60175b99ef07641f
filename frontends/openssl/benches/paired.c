/* Measures the default provider and gantry side by side in one process: for each algorithm and size, rounds of two short runs on
 * either side, and the median of the rounds' ratios. Measures CPU time of the thread, so that other load does not matter.
 *
 *     paired CONFIGURATION [all|ALGORITHM [SIZE]]
 *
 * By default: the algorithms that the configuration serves, with three sizes. `all`: every algorithm, with seven sizes. The
 * configuration is for gantry's side. A ratio of 2 means twice as fast through gantry. Rows that miss the goals of
 * docs/src/openssl.md are repeated at the end, with their numbers.
 *
 * `message`: AEADs process a nonce, 13 bytes of associated data and a message; other ciphers one update. `context`: a new context
 * with a key. `memory`: bytes per context with a key and some messages of 16 KiB, and the difference. `sign` and `verify`: a new
 * context and a message. `derive`: a secret under one key. `exchange`: a new key, the peer's key from its bytes, and their secret,
 * as on either side of TLS 1.3.
 *
 * Built with -DCOUNT=N, for callgrind: instead of a table, a dump of the instructions of N operations on either side. */
#ifdef COUNT
#include <valgrind/callgrind.h>
#else
#define COUNT 0
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif
#include <malloc.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDES = 2, ROUNDS = 31, TURNS = 4, BYTES = 65536, CONTEXTS = 256 };
static const double ROUND_NS = 1e6;

static OSSL_LIB_CTX *library[SIDES];
/* Goals for messages, contexts and memory; the number of rows that miss each goal and of all rows; and the rows that miss. */
static const double GOALS[] = { 0.97, 1 / 1.05, 1024 };
static int missed[3], seen[3];
static char misses[1 << 16];
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

/* The algorithm that the arguments name, or NULL for all. `selected_exists` is 1 once this algorithm was found. */
static const char *selected;
static int selected_exists;
/* Set by `all`. */
static int whole;

static int wanted(const char *name)
{
    int is_selected = !selected || !strcmp(selected, name);
    selected_exists |= is_selected;
    return is_selected;
}

/* Returns 1 if the table includes an algorithm of gantry's side. */
static int shown(const OSSL_PROVIDER *provider)
{
    return selected || whole || !strcmp(OSSL_PROVIDER_get0_name(provider), "gantry");
}

/* The smallest size, and the next larger one. */
static int first_size(void)
{
    return selected || whole ? 16 : 64;
}

static int next_size(int bytes)
{
    return bytes * (selected || whole ? 4 : 16);
}

/* Prints a row. */
static void row(int goal, int misses_it, const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
    seen[goal]++;
    if (!misses_it)
        return;
    missed[goal]++;
    strncat(misses, text, sizeof misses - strlen(misses) - 1);
}

struct job {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *cipher_ctx;
    int aead, bytes, encrypt;
    OSSL_LIB_CTX *library;
    const char *type, *properties;
    EVP_PKEY *pair;
    EVP_PKEY_CTX *derive_ctx;
    /* The signature by `pair`. */
    unsigned char signature[64];
    size_t signature_length;
};

static void message(struct job *job)
{
    int written;
    if (!job->aead) {
        must(EVP_CipherUpdate(job->cipher_ctx, data, &written, data, job->bytes), "update");
        return;
    }
    must(EVP_CipherInit_ex(job->cipher_ctx, NULL, NULL, NULL, iv, job->encrypt), "nonce");
    if (!job->encrypt)
        must(EVP_CIPHER_CTX_ctrl(job->cipher_ctx, EVP_CTRL_AEAD_SET_TAG, 16, tag), "tag");
    must(EVP_CipherUpdate(job->cipher_ctx, NULL, &written, aad, sizeof aad), "associated data");
    must(EVP_CipherUpdate(job->cipher_ctx, data, &written, data, job->bytes), "update");
    /* The opened message was never sealed: the time is the same. */
    int good = EVP_CipherFinal_ex(job->cipher_ctx, data, &written);
    if (job->encrypt)
        must(good && EVP_CIPHER_CTX_ctrl(job->cipher_ctx, EVP_CTRL_AEAD_GET_TAG, 16, tag), "final");
}

/* Opens a new context with a key. */
static void open_context(struct job *job)
{
    EVP_CIPHER_CTX *ctx = job->cipher_ctx = EVP_CIPHER_CTX_new();
    must(EVP_CipherInit_ex(ctx, job->cipher, NULL, key, iv, job->encrypt), "context");
    EVP_CIPHER_CTX_set_padding(ctx, 0);
}

static void close_context(struct job *job)
{
    EVP_CIPHER_CTX_free(job->cipher_ctx);
    job->cipher_ctx = NULL;
}

static void context(struct job *job)
{
    struct job other = *job;
    open_context(&other);
    close_context(&other);
}

/* Returns the bytes per context, each with its own key. */
static double held(const struct job *job)
{
    static struct job jobs[CONTEXTS];
    size_t before = 0;
    /* The first contexts allocate shared data. */
    for (int i = -8; i < CONTEXTS; i++) {
        struct job *one = &jobs[i < 0 ? 0 : i];
        if (i == 0)
            before = mallinfo2().uordblks;
        *one = *job;
        one->bytes = 16384;
        memcpy(key, &i, sizeof i);
        open_context(one);
        for (int messages = 0; messages < 8; messages++)
            message(one);
        if (i < 0)
            close_context(one);
    }
    double bytes = (double)(mallinfo2().uordblks - before) / CONTEXTS;
    for (int i = 0; i < CONTEXTS; i++)
        close_context(&jobs[i]);
    return bytes;
}

static void memory(const char *name, struct job *jobs)
{
    double bytes[SIDES];
    if (COUNT)
        return;
    for (int side = 0; side < SIDES; side++)
        bytes[side] = held(&jobs[side]);
    char text[128];
    snprintf(text, sizeof text, "%-18s %-8s %6s  %9.0f B   %9.0f B   %+5.0f\n", name, "memory", "", bytes[0], bytes[1],
        bytes[1] - bytes[0]);
    row(2, bytes[1] - bytes[0] > GOALS[2], text);
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

static unsigned char public[80];
static size_t public_length;

static void sign_with(struct job *job, EVP_PKEY *pair)
{
    job->signature_length = sizeof job->signature;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestSignInit_ex(ctx, NULL, NULL, job->library, job->properties, pair, NULL), "init");
    must(EVP_DigestSign(ctx, job->signature, &job->signature_length, data, job->bytes), "sign");
    EVP_MD_CTX_free(ctx);
}

static void sign(struct job *job)
{
    sign_with(job, job->pair);
}

static void verify_with(struct job *job, EVP_PKEY *pair)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(EVP_DigestVerifyInit_ex(ctx, NULL, NULL, job->library, job->properties, pair, NULL), "init");
    must(EVP_DigestVerify(ctx, job->signature, job->signature_length, data, job->bytes), "verify");
    EVP_MD_CTX_free(ctx);
}

static void verify(struct job *job)
{
    verify_with(job, job->pair);
}

static EVP_PKEY_CTX *with_peer(struct job *job, EVP_PKEY *pair)
{
    EVP_PKEY *peer = EVP_PKEY_new();
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(job->library, pair, job->properties);
    must(EVP_PKEY_copy_parameters(peer, pair), "peer");
    must(EVP_PKEY_set1_encoded_public_key(peer, public, public_length), "peer");
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

/* Counts the instructions of either side. */
static void count(const char *name, const char *what, struct job *jobs, void (*run)(struct job *))
{
    /* Dumps the caller's own instructions, which zeroing does not clear. */
    CALLGRIND_DUMP_STATS;
    for (int side = 0; side < SIDES; side++) {
        char text[128];
        snprintf(text, sizeof text, "%s,%s,%d,%d", name, what, jobs[0].bytes, side);
        CALLGRIND_ZERO_STATS;
        for (int i = 0; i < COUNT; i++)
            run(&jobs[side]);
        CALLGRIND_DUMP_STATS_AT(text);
    }
}

static void pair(const char *name, const char *what, struct job *jobs, void (*run)(struct job *))
{
    double ratios[ROUNDS], times[SIDES] = { 1e18, 1e18 };
    long times_each = 1;

    /* Devices take short messages only after some hundred of them, so the round also needs a minimum number. */
    for (int warm = 0; warm < (COUNT && jobs[0].bytes <= 1024 ? 1024 : 64); warm++)
        for (int side = 0; side < SIDES; side++)
            run(&jobs[side]);
    if (COUNT) {
        count(name, what, jobs, run);
        return;
    }
    for (double spent = 0; spent < ROUND_NS; times_each *= 2) {
        double begun = now();
        for (long i = 0; i < times_each; i++)
            run(&jobs[0]);
        spent = now() - begun;
    }
    /* Runs one side, the other one twice, and the first one again. Rare work of a side (RSA's blinding is renewed every 32 uses)
    * then occurs equally often on either side of a round. */
    for (int round = 0; round < ROUNDS; round++) {
        double spent[SIDES] = { 0, 0 };
        for (int turn = 0; turn < TURNS; turn++) {
            int side = (round + (turn == 1 || turn == 2)) % SIDES;
            double begun = now();
            for (long i = 0; i < times_each; i++)
                run(&jobs[side]);
            double took = (now() - begun) / times_each;
            spent[side] += took;
            if (took < times[side])
                times[side] = took;
        }
        ratios[round] = spent[0] / spent[1];
    }
    qsort(ratios, ROUNDS, sizeof *ratios, compare);
    char text[128];
    double ratio = ratios[ROUNDS / 2];
    int goal = run == context;
    snprintf(text, sizeof text, "%-18s %-8s %6d  %9.1f ns  %9.1f ns  %5.2f\n", name, what, jobs[0].bytes, times[0], times[1],
        ratio);
    row(goal, ratio < GOALS[goal], text);
}

static void cipher(const char *name, int only)
{
    for (int encrypt = 1; encrypt >= 0; encrypt--) {
        struct job jobs[SIDES] = { 0 };
        for (int side = 0; side < SIDES; side++) {
            jobs[side].cipher = EVP_CIPHER_fetch(library[side], name, side ? "?provider=gantry" : NULL);
            if (!jobs[side].cipher)
                return;
            jobs[side].encrypt = encrypt;
            jobs[side].aead = (EVP_CIPHER_get_flags(jobs[side].cipher) & EVP_CIPH_FLAG_AEAD_CIPHER) != 0;
            open_context(&jobs[side]);
        }
        if (!shown(EVP_CIPHER_get0_provider(jobs[1].cipher)))
            return;
        for (int bytes = first_size(); bytes <= BYTES; bytes = next_size(bytes))
            if (!only || only == bytes) {
                jobs[0].bytes = jobs[1].bytes = bytes;
                pair(name, encrypt ? "encrypt" : "decrypt", jobs, message);
            }
        jobs[0].bytes = jobs[1].bytes = 0;
        if (encrypt && !only) {
            pair(name, "context", jobs, context);
            memory(name, jobs);
        }
        for (int side = 0; side < SIDES; side++) {
            close_context(&jobs[side]);
            EVP_CIPHER_free(jobs[side].cipher);
        }
    }
}

static void curve(const char *name, int signs)
{
    struct job jobs[SIDES] = { 0 };
    size_t length = public_length = 32;
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
    static const char *const ciphers[] = { "AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "ChaCha20-Poly1305", "AES-128-XTS", "AES-256-XTS", "AES-128-ECB", "AES-192-ECB", "AES-256-ECB",
        "AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "AES-128-CTR", "AES-192-CTR", "AES-256-CTR", "DES-EDE3-CBC", "ChaCha20" };
    int only = argc > 3 ? atoi(argv[3]) : 0;

    if (argc < 2)
        return 2;
    whole = argc > 2 && !strcmp(argv[2], "all");
    selected = argc > 2 && !whole ? argv[2] : NULL;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (unsigned char)i;
    for (int side = 0; side < SIDES; side++) {
        library[side] = OSSL_LIB_CTX_new();
        must(OSSL_PROVIDER_load(library[side], "default") != NULL, "default");
    }
    must(OSSL_LIB_CTX_load_config(library[1], argv[1]) && OSSL_PROVIDER_available(library[1], "gantry"), "gantry");
    printf("%-18s %-8s %6s  %12s  %12s  ratio\n", "algorithm", "", "bytes", "default", "gantry");
    for (size_t i = 0; i < sizeof ciphers / sizeof *ciphers; i++)
        if (wanted(ciphers[i]))
            cipher(ciphers[i], only);
    static const char *const curves[] = { "ED25519", "X25519" };
    for (int i = 0; i < 2; i++) {
        EVP_KEYMGMT *keys = EVP_KEYMGMT_fetch(library[1], curves[i], "?provider=gantry");
        if (wanted(curves[i]) && keys && shown(EVP_KEYMGMT_get0_provider(keys)))
            curve(curves[i], i == 0);
        EVP_KEYMGMT_free(keys);
    }
    if (!selected_exists) {
        fprintf(stderr, "paired: %s is not among the algorithms here\n", selected);
        return 2;
    }
    printf("\nBelow the goals:\n%s\nbelow 0.97: %d of %d; contexts more than 5 %% dearer: %d of %d; more than 1 KiB larger: %d of %d\n",
        misses, missed[0], seen[0], missed[1], seen[1], missed[2], seen[2]);
    return 0;
}
