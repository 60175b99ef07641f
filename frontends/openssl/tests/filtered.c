// A program that filters its own system calls after it has loaded the provider:
//
//     filtered first|later allow|refuse|kill here|child|thread
//
// The filter is in force from the first request on, or from a later one. It allows memory, clocks, threads, and output. Any other call
// works, fails with EPERM, or ends the process. `here` filters and makes requests in this process, `child` in a child of a fork.
// `thread` makes the requests in a thread that starts under the filter, which then also allows the calls that start a thread.

#include "filter.h"
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Seals a message and opens it again.
static void message(const EVP_CIPHER *cipher, EVP_CIPHER_CTX *ctx, int size)
{
    static unsigned char plain[16384], sealed[16384], opened[16384], tag[16];
    const unsigned char key[32] = { 1 }, iv[12] = { 2 };
    int length;
    must(EVP_EncryptInit_ex(ctx, cipher, NULL, key, iv) && EVP_EncryptUpdate(ctx, sealed, &length, plain, size), "seal");
    must(EVP_EncryptFinal_ex(ctx, sealed, &length) && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, tag), "tag");
    must(EVP_DecryptInit_ex(ctx, cipher, NULL, key, iv) && EVP_DecryptUpdate(ctx, opened, &length, sealed, size), "open");
    must(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, tag) && EVP_DecryptFinal_ex(ctx, opened, &length), "tag");
    must(!memcmp(plain, opened, size) && memcmp(plain, sealed, size), "data");
}

static EVP_CIPHER *cipher;

// Enough requests to measure costs, in all sizes.
static void *messages(void *ctx)
{
    for (int i = 0; i < 10000; i++)
        message(cipher, ctx, i % 8 ? 16384 : 1 + i % 1000);
    return NULL;
}

int main(int count, char **words)
{
    must(count == 4, "words");
    cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    must(cipher && ctx && !strcmp(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(cipher)), "gantry"), "gantry");
    if (!strcmp(words[1], "later"))
        message(cipher, ctx, 16384);
    int threads = !strcmp(words[3], "thread"), status;
    pid_t child = strcmp(words[3], "child") ? 0 : fork();
    if (child) {
        must(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status), "child");
        _exit(0);
    }
    filter(!strcmp(words[2], "allow") ? SECCOMP_RET_ALLOW : !strcmp(words[2], "refuse") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS, threads ? OF_THREADS : 0);
    if (threads) {
        pthread_t thread;
        must(!pthread_create(&thread, NULL, messages, ctx) && !pthread_join(thread, NULL), "thread");
    } else {
        messages(ctx);
    }
    must(write(1, "good\n", 5) == 5, "output");
    // Ends without the handlers of exit, which may make other system calls.
    _exit(0);
}
