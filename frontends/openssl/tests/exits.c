/* Ends while gantry is in use: without a teardown, and with another thread that works until the process is gone.
 *
 *     exits WAY
 *
 * OPENSSL_CONF names the configuration. WAY is how the program ends: return, exit (called by another thread) or _exit. The first handler
 * of atexit runs last, after libcrypto's own, and reports if everything still works. */
#include <openssl/evp.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "must.h"

enum { BYTES = 65536 };
static const unsigned char key[32] = { 1 }, iv[16] = { 2 };
static sem_t begun, never;
static const char *way;

/* Encrypts a message. With `leave`, stops in the middle of the message and does not free the context. */
static int use(unsigned char *data, int leave)
{
    int written, good;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-GCM", "provider=gantry");
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    good = cipher != NULL && EVP_EncryptInit_ex2(ctx, cipher, key, iv, NULL) && EVP_EncryptUpdate(ctx, data, &written, data, BYTES);
    if (!leave) {
        good = good && EVP_EncryptFinal_ex(ctx, data, &written);
        EVP_CIPHER_CTX_free(ctx);
        EVP_CIPHER_free(cipher);
    }
    return good;
}

static void last(void)
{
    static unsigned char data[BYTES];
    puts(use(data, 0) ? "still there" : "gone");
}

static void *work(void *none)
{
    static unsigned char data[BYTES];
    must(use(data, 1), "another thread");
    sem_post(&begun);
    if (strcmp(way, "exit") == 0)
        exit(0);
    for (;;)
        use(data, 0);
    return none;
}

int main(int count, char **words)
{
    static unsigned char data[BYTES];
    pthread_t thread;
    way = count == 2 ? words[1] : "return";
    must(atexit(last) == 0 && sem_init(&begun, 0, 0) == 0 && sem_init(&never, 0, 0) == 0, "preparations");
    must(use(data, 1), "the first thread");
    must(pthread_create(&thread, NULL, work, NULL) == 0, "a thread");
    sem_wait(&begun);
    if (strcmp(way, "exit") == 0)
        sem_wait(&never);
    if (strcmp(way, "_exit") == 0)
        _exit(0);
    return 0;
}
