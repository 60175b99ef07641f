// More threads than CPUs, each with SHA-256 of messages in one to three pieces, beside the default provider:
//
//     digests CONFIGURATION [ROUNDS]

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "threads.h"

enum { FORKS = 100, MOST = 60000 };

static int rounds = 400;
static EVP_MD *ours, *theirs;
static unsigned char data[MOST];

// Copied where `copied` says so, and the copy goes on.
static int digest(const EVP_MD *md, const size_t *cuts, int copied, unsigned char *out)
{
    EVP_MD_CTX *one = EVP_MD_CTX_new(), *other = EVP_MD_CTX_new();
    int good = EVP_DigestInit_ex2(one, md, NULL);
    for (int piece = 0; piece < 3; piece++) {
        good = good && EVP_DigestUpdate(one, data + cuts[piece], cuts[piece + 1] - cuts[piece]);
        if (piece == copied) {
            good = good && EVP_MD_CTX_copy_ex(other, one);
            EVP_MD_CTX *swapped = one;
            one = other;
            other = swapped;
        }
    }
    good = good && EVP_DigestFinal_ex(one, out, NULL);
    // The context is as good as a new one, whatever is left of the first message.
    good = good && EVP_DigestInit_ex2(other, md, NULL) && EVP_DigestUpdate(other, data, cuts[1])
        && EVP_DigestFinal_ex(other, out + 32, NULL);
    EVP_MD_CTX_free(one);
    EVP_MD_CTX_free(other);
    return good;
}

// A child goes on with a message that its parent has begun, among threads that the child does not have.
static int forked(const size_t *cuts, const unsigned char *expected)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char out[32];
    int status = 1;
    int good = EVP_DigestInit_ex2(ctx, ours, NULL) && EVP_DigestUpdate(ctx, data, cuts[1]);
    pid_t child = good ? fork() : -1;
    if (child == 0) {
        alarm(20);
        good = EVP_DigestUpdate(ctx, data + cuts[1], cuts[3] - cuts[1]) && EVP_DigestFinal_ex(ctx, out, NULL)
            && memcmp(out, expected, sizeof out) == 0;
        _exit(!good);
    }
    good = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    EVP_MD_CTX_free(ctx);
    return good;
}

static void *work(void *place)
{
    unsigned state = 1 + (unsigned)(size_t)place;
    for (int round = 0; round < rounds; round++) {
        unsigned char digests[2][64] = {{0}};
        size_t cuts[4] = {0};
        for (int piece = 1; piece < 4; piece++) {
            state = state * 1664525 + 1013904223;
            cuts[piece] = cuts[piece - 1] + (state >> 8) % (MOST / 3);
        }
        int copied = (int)(state >> 28) - 8;
        if (!digest(ours, cuts, copied, digests[0]) || !digest(theirs, cuts, copied, digests[1]))
            return "failed";
        if (memcmp(digests[0], digests[1], sizeof *digests) != 0)
            return "different";
        if (round % FORKS == FORKS / 2 && !forked(cuts, digests[1]))
            return "different after a fork";
    }
    return "the same";
}

int main(int count, char **words)
{
    if (count == 3)
        rounds = atoi(words[2]);
    if (count < 2 || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    for (size_t i = 0; i < MOST; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    ours = EVP_MD_fetch(NULL, "SHA256", "provider=gantry");
    theirs = EVP_MD_fetch(NULL, "SHA256", "provider=default");
    if (ours == NULL || theirs == NULL)
        return 1;
    return in_threads(work);
}
