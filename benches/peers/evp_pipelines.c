/* Messages under one key: a pipeline through gantry against the default provider with one message at a time. JSON on stdout. OpenSSL 3.5
 * or later.
 *
 *     evp_pipelines CONFIGURATION ALGORITHM PIPES SECONDS ROUNDS BYTES...
 *
 * CONFIGURATION is a file of OpenSSL that activates the module. The two sides take turns in slices of SECONDS, ROUNDS times for each
 * number of bytes. Each message has a nonce of its own. Rates are by CPU time of the only thread. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 32 };

static const unsigned char key[32];
static unsigned char ivs[MOST][16];
static const unsigned char *iv[MOST], *in[MOST];
static unsigned char *out[MOST];
static size_t pipes, length[MOST], room[MOST], written[MOST];

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "evp_pipelines: %s failed\n", what);
    exit(1);
}

static void one_by_one(EVP_CIPHER_CTX *ctx)
{
    int done;
    for (size_t pipe = 0; pipe < pipes; pipe++)
        must(EVP_EncryptInit_ex2(ctx, NULL, NULL, iv[pipe], NULL)
                && EVP_EncryptUpdate(ctx, out[pipe], &done, in[pipe], (int)length[pipe]),
            "a message");
}

static void together(EVP_CIPHER_CTX *ctx)
{
    must(EVP_CipherPipelineEncryptInit(ctx, NULL, NULL, 0, pipes, iv, 16)
            && EVP_CipherPipelineUpdate(ctx, out, written, room, in, length),
        "a pipeline");
}

static double cpu(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void slice(const char *name, EVP_CIPHER_CTX *ctx, void (*run)(EVP_CIPHER_CTX *), double seconds, const char *more)
{
    unsigned long messages = 0;
    double begun = cpu(), spent = 0;
    for (; spent < seconds; spent = cpu() - begun, messages += pipes)
        run(ctx);
    if (more)
        printf("\"%s\": {\"messages\": %lu, \"cpu_s\": %.6f}%s", name, messages, spent, more);
}

int main(int count, char **words)
{
    if (count < 7)
        return 2;
    pipes = (size_t)atol(words[3]);
    must(pipes > 0 && pipes <= MOST && OSSL_LIB_CTX_load_config(NULL, words[1]), "the configuration");
    EVP_CIPHER *theirs = EVP_CIPHER_fetch(NULL, words[2], "provider=default");
    EVP_CIPHER *ours = EVP_CIPHER_fetch(NULL, words[2], "provider=gantry");
    EVP_CIPHER_CTX *one = EVP_CIPHER_CTX_new(), *many = EVP_CIPHER_CTX_new();
    must(theirs && ours, "the algorithm");
    for (int word = 6; word < count; word++) {
        size_t bytes = (size_t)atol(words[word]);
        for (size_t pipe = 0; pipe < pipes; pipe++) {
            iv[pipe] = ivs[pipe];
            in[pipe] = out[pipe] = realloc(out[pipe], bytes);
            must(in[pipe] != NULL, "memory");
            memset(out[pipe], 1, bytes);
            length[pipe] = room[pipe] = bytes;
        }
        must(EVP_EncryptInit_ex2(one, theirs, key, iv[0], NULL), "init");
        must(EVP_CipherPipelineEncryptInit(many, ours, key, (size_t)EVP_CIPHER_get_key_length(ours), pipes, iv, 16), "init");
        /* Routes are learned in the first round, which does not count. */
        for (int round = -1; round < atoi(words[5]); round++) {
            if (round >= 0)
                printf("%s{\"bytes\": %zu, ", word == 6 && round == 0 ? "[" : ",\n", bytes);
            slice("default", one, one_by_one, atof(words[4]), round < 0 ? NULL : ", ");
            slice("gantry", many, together, atof(words[4]), round < 0 ? NULL : "}");
        }
    }
    puts("]");
    return 0;
}
