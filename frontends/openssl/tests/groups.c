/*
 * Keys of TLS groups as libssl uses them: shares of peers, damaged ones, agreement on both sides, threads and children of a fork:
 *
 *     groups
 *     groups first|later|child      under a filter that ends the program: from the first key on, from a later one, or in a child
 */
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"

#define MUST(good) must((good), #good)

static const struct {
    const char *name, *keys;
    size_t client, server, secret;
} groups[] = {
    {"X25519MLKEM768", "X25519MLKEM768", 1216, 1120, 64},
    {"SecP256r1MLKEM768", "SecP256r1MLKEM768", 1249, 1153, 64},
    {"SecP384r1MLKEM1024", "SecP384r1MLKEM1024", 1665, 1665, 80},
    {"MLKEM512", "ML-KEM-512", 800, 768, 32},
    {"MLKEM768", "ML-KEM-768", 1184, 1088, 32},
    {"MLKEM1024", "ML-KEM-1024", 1568, 1568, 32},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static EVP_PKEY *make(int group, int pair)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, groups[group].keys, NULL);
    MUST(context && (pair ? EVP_PKEY_keygen_init(context) : EVP_PKEY_paramgen_init(context)) == 1);
    MUST(EVP_PKEY_CTX_set_group_name(context, groups[group].name) == 1);
    MUST((pair ? EVP_PKEY_keygen(context, &key) : EVP_PKEY_paramgen(context, &key)) == 1);
    EVP_PKEY_CTX_free(context);
    return key;
}

/* Returns 1 if a server accepts a share. */
static int accepts(int group, const unsigned char *share, size_t length)
{
    EVP_PKEY *peer = make(group, 0);
    int accepted = EVP_PKEY_set1_encoded_public_key(peer, share, length) == 1;
    if (!accepted)
        MUST(ERR_peek_error() != 0);
    ERR_clear_error();
    EVP_PKEY_free(peer);
    return accepted;
}

/* Returns 1 if a server answers a share that it accepted. */
static int answers(int group, const unsigned char *share, unsigned char *answer, unsigned char *secret)
{
    size_t length = 0, secret_length = 0;
    EVP_PKEY *peer = make(group, 0);
    MUST(EVP_PKEY_set1_encoded_public_key(peer, share, groups[group].client) == 1);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, peer, NULL);
    MUST(EVP_PKEY_encapsulate_init(context, NULL) == 1);
    MUST(EVP_PKEY_encapsulate(context, NULL, &length, NULL, &secret_length) == 1);
    MUST(length == groups[group].server && secret_length == groups[group].secret);
    MUST(EVP_PKEY_encapsulate(context, answer, NULL, secret, NULL) != 1 && ERR_get_error() != 0);
    secret_length--;
    MUST(EVP_PKEY_encapsulate(context, answer, &length, secret, &secret_length) != 1 && ERR_get_error() != 0);
    secret_length = groups[group].secret;
    int done = EVP_PKEY_encapsulate(context, answer, &length, secret, &secret_length) == 1;
    MUST(done || ERR_peek_error() != 0);
    ERR_clear_error();
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(peer);
    return done;
}

static int agrees(EVP_PKEY *pair, const unsigned char *answer, size_t length, unsigned char *secret, size_t room)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, pair, NULL);
    MUST(EVP_PKEY_decapsulate_init(context, NULL) == 1);
    int done = EVP_PKEY_decapsulate(context, secret, &room, answer, length) == 1;
    /* OpenSSL itself refuses an empty answer, without a reason. */
    MUST(done || length == 0 || ERR_peek_error() != 0);
    ERR_clear_error();
    EVP_PKEY_CTX_free(context);
    return done;
}

/* Each refused call leaves a reason. */
static void reasons(int group, EVP_PKEY *pair)
{
    unsigned char bytes[4] = {0};
    size_t length;
    int number = 5;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, groups[group].keys, NULL);
    EVP_PKEY *imported = NULL;
    ERR_clear_error();
    MUST(EVP_PKEY_keygen_init(context) == 1 && EVP_PKEY_CTX_set_group_name(context, "P-256") != 1 && ERR_get_error() != 0);
    ERR_clear_error();
    MUST(EVP_PKEY_get_octet_string_param(pair, "pub", bytes, sizeof bytes, &length) != 1 && ERR_get_error() != 0);
    ERR_clear_error();
    MUST(EVP_PKEY_set_int_param(pair, "encoded-pub-key", number) != 1 && ERR_get_error() != 0);
    ERR_clear_error();
    OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_string("priv", bytes, sizeof bytes), OSSL_PARAM_construct_end()};
    MUST(EVP_PKEY_fromdata_init(context) == 1);
    MUST(EVP_PKEY_fromdata(context, &imported, EVP_PKEY_KEYPAIR, params) != 1 && ERR_get_error() != 0);
    ERR_clear_error();
    EVP_PKEY_CTX_free(context);
}

static void one(int group)
{
    size_t client = groups[group].client, server = groups[group].server, secret = groups[group].secret;
    unsigned char *share = NULL, answer[2000], theirs[100], ours[100], other[100];
    EVP_PKEY *pair = make(group, 1);
    MUST(EVP_PKEY_get1_encoded_public_key(pair, &share) == client);
    MUST(answers(group, share, answer, theirs));
    MUST(agrees(pair, answer, server, ours, secret) && !memcmp(theirs, ours, secret));
    reasons(group, pair);
    /* Lengths. */
    MUST(!agrees(pair, answer, server - 1, other, secret) && !agrees(pair, answer, 0, other, secret));
    MUST(!agrees(pair, answer, server, other, secret - 1));
    MUST(accepts(group, share, client) && !accepts(group, share, client - 1) && !accepts(group, share, 0));
    unsigned char *longer = calloc(1, client + 1);
    memcpy(longer, share, client);
    MUST(!accepts(group, longer, client + 1));
    /* A damaged ciphertext yields another secret. */
    size_t place = group == 1 || group == 2 ? server - 1 : 0;
    answer[place] ^= 1;
    MUST(agrees(pair, answer, server, other, secret) && memcmp(ours, other, secret));
    answer[place] ^= 1;
    /* ML-KEM's key is not reduced. */
    size_t begin = group == 1 ? 65 : group == 2 ? 97 : 0;
    memset(longer + begin, 0xff, 3);
    MUST(!accepts(group, longer, client));
    memcpy(longer, share, client);
    if (group == 1 || group == 2) {
        /* The point is not on the curve, compressed, hybrid, or at infinity; in both directions. */
        longer[1] ^= 1;
        MUST(!accepts(group, longer, client));
        longer[1] ^= 1;
        for (int form = 0; form < 8; form++) {
            longer[0] = form;
            MUST(accepts(group, longer, client) == (form == 4));
        }
        answer[5] ^= 1;
        MUST(!agrees(pair, answer, server, other, secret));
    }
    if (group == 0) {
        /* Points of low order lead to a secret of zeros. */
        for (int low = 0; low < 2; low++) {
            memset(longer + 1184, 0, 32);
            longer[1184] = low;
            MUST(accepts(group, longer, client) && !answers(group, longer, answer, other));
            MUST(!memcmp(other, (unsigned char[100]){0}, secret));
            MUST(answers(group, share, answer, theirs));
            memset(answer + 1088, 0, 32);
            answer[1088] = low;
            MUST(!agrees(pair, answer, server, other, secret));
        }
    }
    /* A share does not replace a pair, and a peer's key alone cannot agree on a secret. */
    MUST(EVP_PKEY_set1_encoded_public_key(pair, share, client) != 1);
    EVP_PKEY *peer = make(group, 0);
    MUST(!agrees(peer, answer, server, other, secret));
    MUST(EVP_PKEY_set1_encoded_public_key(peer, share, client) == 1 && EVP_PKEY_eq(pair, peer) == 1);
    MUST(!agrees(peer, answer, server, other, secret));
    EVP_PKEY_free(peer);
    ERR_clear_error();
    EVP_PKEY_free(pair);
    OPENSSL_free(share);
    free(longer);
}

static void *thread(void *group)
{
    for (int round = 0; round < 20; round++)
        one(*(int *)group);
    return NULL;
}

static void all(void)
{
    for (int group = 0; group < GROUPS; group++)
        one(group);
}

static int filtered(const char *when)
{
    int status;
    /* Loads the provider. */
    EVP_PKEY_free(make(0, 0));
    if (!strcmp(when, "later"))
        all();
    pid_t child = strcmp(when, "child") ? 0 : fork();
    if (child) {
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    filter(SECCOMP_RET_KILL_PROCESS, OF_RANDOM);
    all();
    MUST(write(1, "good\n", 5) == 5);
    /* Ends without the handlers of exit, which may make other system calls. */
    _exit(0);
}

int main(int count, char **words)
{
    if (count == 2)
        return filtered(words[1]);
    all();
    /* Children take over a pair; each has its own random numbers. */
    EVP_PKEY *pair = make(0, 1);
    unsigned char *share = NULL, answers_of[2][2000], secrets[2][100];
    MUST(EVP_PKEY_get1_encoded_public_key(pair, &share) == 1216);
    int from[2];
    MUST(!pipe(from));
    for (int child = 0; child < 2; child++) {
        pid_t pid = fork();
        MUST(pid >= 0);
        if (!pid) {
            unsigned char answer[2000], theirs[100], ours[100];
            MUST(answers(0, share, answer, theirs) && agrees(pair, answer, 1120, ours, 64) && !memcmp(ours, theirs, 64));
            MUST(write(from[1], answer, 1120) == 1120);
            all();
            _exit(0);
        }
        int status;
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        MUST(read(from[0], answers_of[child], 1120) == 1120);
        MUST(agrees(pair, answers_of[child], 1120, secrets[child], 64));
    }
    MUST(memcmp(answers_of[0], answers_of[1], 1120) && memcmp(secrets[0], secrets[1], 64));
    int numbers[GROUPS];
    pthread_t threads[GROUPS];
    for (int group = 0; group < GROUPS; group++) {
        numbers[group] = group;
        MUST(!pthread_create(&threads[group], NULL, thread, &numbers[group]));
    }
    for (int group = 0; group < GROUPS; group++)
        MUST(!pthread_join(threads[group], NULL));
    OPENSSL_free(share);
    EVP_PKEY_free(pair);
    puts("good");
    return 0;
}
