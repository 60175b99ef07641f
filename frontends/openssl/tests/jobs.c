// Compares messages of several jobs in several threads with those of the default provider without jobs:
//
//     jobs CONFIGURATION inside|across
//
// With `inside`, a context lives in a job only; with `across`, it gets its first chunk outside the job.

#include <openssl/async.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "threads.h"

enum { JOBS = 12, ROUNDS = 4, PIECES = 4, PIECE = 4096, ROOM = PIECES * PIECE + 64, STACK = 32768, PAGE = 4096 };

static const char *const names[] = {"AES-256-XTS", "AES-128-CBC", "AES-128-GCM", "AES-256-CTR"};
enum { KINDS = 4 };
static void *ours[KINDS], *theirs[KINDS];
static int across;

// OpenSSL's allocator. A guard page lies below the stack of each job. Other memory never starts at a page boundary.
static void *allocate(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    if (size == STACK) {
        unsigned char *at = mmap(NULL, PAGE + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return at == MAP_FAILED || mprotect(at, PAGE, PROT_NONE) != 0 ? NULL : at + PAGE;
    }
    unsigned char *at = malloc(size + 32);
    if (at == NULL)
        return NULL;
    unsigned char *place = at + ((uintptr_t)at % 32 == 0 ? 16 : 32);
    memcpy(place - 8, &size, sizeof size);
    place[-9] = (unsigned char)(place - at);
    return place;
}

static void release(void *place, const char *file, int line)
{
    (void)file, (void)line;
    unsigned char *bytes = place;
    if (bytes != NULL && (uintptr_t)bytes % PAGE == 0)
        munmap(bytes - PAGE, PAGE + STACK);
    else if (bytes != NULL)
        free(bytes - bytes[-9]);
}

static void *reallocate(void *place, size_t size, const char *file, int line)
{
    size_t before = 0;
    if (place != NULL)
        memcpy(&before, (unsigned char *)place - 8, sizeof before);
    void *other = size == 0 ? NULL : allocate(size, file, line);
    if (other != NULL && place != NULL)
        memcpy(other, place, before < size ? before : size);
    if (other != NULL || size == 0)
        release(place, file, line);
    return other;
}

struct message {
    unsigned seed;
    int kind, pieces;
    const void *algorithm;
    EVP_CIPHER_CTX *cipher;
    unsigned char in[PIECE], out[ROOM];
    int length;
    ASYNC_JOB *job;
    ASYNC_WAIT_CTX *wait;
};

static int begin(struct message *message)
{
    unsigned char key[64], iv[16];
    for (size_t at = 0; at < sizeof key; at++)
        key[at] = (unsigned char)((message->seed + at) * 2654435761u >> 11);
    memcpy(iv, key, sizeof iv);
    for (size_t at = 0; at < PIECE; at++)
        message->in[at] = (unsigned char)((message->seed + at) * 2654435761u >> 19);
    return EVP_EncryptInit_ex2(message->cipher, message->algorithm, key, iv, NULL);
}

static int piece(struct message *message)
{
    int done = 0;
    message->pieces--;
    int good = EVP_EncryptUpdate(message->cipher, message->out + message->length, &done, message->in, PIECE);
    message->length += done;
    return good;
}

static int finish(struct message *message)
{
    int done = 0;
    if (!EVP_EncryptFinal_ex(message->cipher, message->out + message->length, &done))
        return 0;
    message->length += done;
    if (message->kind != 2)
        return 1;
    int good = EVP_CIPHER_CTX_ctrl(message->cipher, EVP_CTRL_AEAD_GET_TAG, 16, message->out + message->length);
    message->length += 16;
    return good;
}

// Runs in a job: processes a message or the rest of one, and pauses after each chunk.
static int run(void *argument)
{
    struct message *message = *(struct message **)argument;
    int good = message->length >= 0 || (message->length = 0, begin(message));
    while (good && message->pieces > 0)
        good = piece(message) && (ASYNC_get_current_job() == NULL || ASYNC_pause_job());
    return good && finish(message);
}

static struct message *message_of(unsigned seed, int kind, void *const *algorithms)
{
    struct message *message = calloc(1, sizeof *message);
    message->seed = seed;
    message->kind = kind;
    message->pieces = PIECES;
    message->length = -1;
    message->algorithm = algorithms[kind];
    message->cipher = EVP_CIPHER_CTX_new();
    message->wait = ASYNC_WAIT_CTX_new();
    return message;
}

static void end(struct message *message)
{
    ASYNC_WAIT_CTX_free(message->wait);
    EVP_CIPHER_CTX_free(message->cipher);
    free(message);
}

// Compares a job's result with the default provider's.
static const char *compare(struct message *message)
{
    struct message *alone = message_of(message->seed, message->kind, theirs);
    int good = run(&alone) && alone->length == message->length
        && memcmp(alone->out, message->out, (size_t)alone->length) == 0;
    end(alone);
    return good ? "the same" : "different";
}

static void *work(void *place)
{
    unsigned seed = 1 + 1000 * (unsigned)(size_t)place;
    const char *said = "the same";
    for (int round = 0; round < ROUNDS && strcmp(said, "the same") == 0; round++) {
        struct message *messages[JOBS];
        int finished[JOBS] = {0}, left = JOBS;
        for (int job = 0; job < JOBS; job++) {
            messages[job] = message_of(++seed, job % KINDS, ours);
            if (across && (messages[job]->length = 0, !begin(messages[job]) || !piece(messages[job])))
                return "failed";
        }
        while (left > 0) {
            for (int job = 0; job < JOBS; job++) {
                int good = 0;
                struct message *message = messages[job];
                if (finished[job])
                    continue;
                switch (ASYNC_start_job(&message->job, message->wait, &good, run, &message, sizeof message)) {
                case ASYNC_PAUSE:
                    break;
                case ASYNC_FINISH:
                    finished[job] = 1;
                    left--;
                    if (!good)
                        return "failed";
                    said = strcmp(said, "the same") == 0 ? compare(message) : said;
                    break;
                default:
                    return "failed";
                }
            }
        }
        for (int job = 0; job < JOBS; job++)
            end(messages[job]);
    }
    ASYNC_cleanup_thread();
    return (void *)said;
}

int main(int count, char **words)
{
    if (count != 3 || !CRYPTO_set_mem_functions(allocate, reallocate, release)
        || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    across = strcmp(words[2], "across") == 0;
    for (int kind = 0; kind < KINDS; kind++) {
        ours[kind] = EVP_CIPHER_fetch(NULL, names[kind], "provider=gantry");
        theirs[kind] = EVP_CIPHER_fetch(NULL, names[kind], "provider=default");
        if (ours[kind] == NULL || theirs[kind] == NULL)
            return 1;
    }
    return in_threads(work);
}
