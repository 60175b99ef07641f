/* Threads that ask EVP for one digest at a time, with and without gantry: JSON on stdout.
 *
 *     evp_threads CONFIGURATION ALGORITHM THREADS SECONDS ROUNDS BYTES...
 *
 * CONFIGURATION is a file of OpenSSL that activates the module. The two sides take turns in slices of SECONDS, ROUNDS times for each
 * number of bytes. A message is init, update and final in a context that the thread keeps. */
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { SIDES = 2, MOST = 256 };

static const char *const names[SIDES] = { "default", "gantry" };
static EVP_MD *digests[SIDES];
static size_t bytes;
static atomic_int ended;
static pthread_barrier_t begin;

struct work {
    pthread_t thread;
    EVP_MD *digest;
    unsigned long messages;
};

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "evp_threads: %s failed\n", what);
    exit(1);
}

static void *run(void *place)
{
    struct work *work = place;
    unsigned char *message = malloc(bytes), digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(message && ctx, "memory");
    memset(message, 1, bytes);
    pthread_barrier_wait(&begin);
    while (!atomic_load_explicit(&ended, memory_order_relaxed)) {
        must(EVP_DigestInit_ex2(ctx, work->digest, NULL) && EVP_DigestUpdate(ctx, message, bytes)
                && EVP_DigestFinal_ex(ctx, digest, NULL), "a digest");
        work->messages++;
    }
    EVP_MD_CTX_free(ctx);
    free(message);
    return NULL;
}

static double wall(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void slice(int side, int threads, double seconds, int shown)
{
    static struct work work[MOST];
    struct timespec pause = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
    unsigned long messages = 0;

    atomic_store(&ended, 0);
    must(pthread_barrier_init(&begin, NULL, (unsigned)threads + 1) == 0, "a barrier");
    for (int i = 0; i < threads; i++) {
        work[i] = (struct work) { .digest = digests[side] };
        must(pthread_create(&work[i].thread, NULL, run, &work[i]) == 0, "a thread");
    }
    double since = wall(), spent = cpu();
    pthread_barrier_wait(&begin);
    nanosleep(&pause, NULL);
    atomic_store(&ended, 1);
    for (int i = 0; i < threads; i++) {
        pthread_join(work[i].thread, NULL);
        messages += work[i].messages;
    }
    if (shown)
        printf("%s\"%s\": {\"messages\": %lu, \"wall_s\": %.6f, \"cpu_s\": %.6f}", side ? ", " : "", names[side], messages,
            wall() - since, cpu() - spent);
    pthread_barrier_destroy(&begin);
}

int main(int count, char **words)
{
    if (count < 7)
        return 2;
    int threads = atoi(words[3]), rounds = atoi(words[5]);
    double seconds = atof(words[4]);
    must(threads > 0 && threads <= MOST, "the number of threads");
    for (int side = 0; side < SIDES; side++) {
        OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
        must(side == 0 || OSSL_LIB_CTX_load_config(library, words[1]), "the configuration");
        digests[side] = EVP_MD_fetch(library, words[2], side ? "provider=gantry" : "provider=default");
        must(digests[side] != NULL, "the algorithm");
    }
    for (int word = 6; word < count; word++) {
        bytes = (size_t)atol(words[word]);
        /* The first round is for whatever is found out in it. */
        for (int round = -1; round < rounds; round++) {
            if (round >= 0)
                printf("%s{\"bytes\": %zu, ", word == 6 && round == 0 ? "[" : ",\n", bytes);
            for (int side = 0; side < SIDES; side++)
                slice(side, threads, seconds, round >= 0);
            if (round >= 0)
                printf("}");
        }
    }
    puts("]");
    return 0;
}
