// Jobs with AES-CBC beside the default provider without jobs, in threads, and what may become of jobs that wait:
//
//     jobs CONFIGURATION

#include <openssl/async.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "threads.h"

enum { JOBS = 20, ROUNDS = 8, PIECES = 3, MOST = 30000, STACK = 32768, PAGE = 4096 };

static EVP_CIPHER *ours[4], *theirs[4];
static int pauses;

// Memory of OpenSSL: a page that nobody may touch lies below the stack of each job. Other memory never begins with a page.
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

// What one job does, and what has come of it.
struct message {
    int (*what)(void *);
    unsigned seed;
    const EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *ctx;
    unsigned char *in, *out;
    size_t length;
    ASYNC_JOB *job;
    ASYNC_WAIT_CTX *wait;
    int signals;
};

static size_t below(unsigned *seed, size_t limit)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % limit;
}

static int run(void *argument)
{
    struct message *message = *(struct message **)argument;
    unsigned seed = message->seed;
    unsigned char key[64], iv[16];
    size_t length = below(&seed, MOST), given = 0;
    int padding = (int)below(&seed, 2), in_place = (int)below(&seed, 2), blocked = below(&seed, 4) == 0, done = 0;
    int version = below(&seed, 3) == 0 ? 0x0303 : 0;

    for (size_t at = 0; at < sizeof key; at++)
        key[at] = (unsigned char)below(&seed, 256);
    memcpy(iv, key, sizeof iv);
    if (!padding)
        length -= length % 16;
    for (size_t at = 0; at < length; at++)
        message->in[at] = (unsigned char)(at * seed >> 16);
    // Each piece is a record of TLS, in place and with padding that the provider writes.
    size_t mac = 0;
    const OSSL_PARAM record[] = {OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_TLS_VERSION, &version),
        OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &mac), OSSL_PARAM_construct_end()};
    padding |= version != 0;
    // The context may be in the middle of another message.
    int good = EVP_EncryptInit_ex2(message->ctx, message->cipher, key, iv, NULL)
        && EVP_CIPHER_CTX_set_padding(message->ctx, padding) && EVP_CIPHER_CTX_set_params(message->ctx, record);
    message->length = 0;
    if (blocked)
        ASYNC_block_pause();
    for (int piece = 0; good && piece < PIECES; piece++) {
        size_t part = piece == PIECES - 1 ? length - given : below(&seed, length - given + 1);
        unsigned char *out = message->out + message->length, *in = message->in + given;
        if (version != 0 || (in_place && message->length == given))
            in = memcpy(out, in, part);
        good = EVP_EncryptUpdate(message->ctx, out, &done, in, (int)part);
        given += part;
        message->length += (size_t)done;
    }
    if (blocked)
        ASYNC_unblock_pause();
    good = good && (version != 0 || EVP_EncryptFinal_ex(message->ctx, message->out + message->length, &done));
    message->length += good && version == 0 ? (size_t)done : 0;
    return good;
}

static int called(void *signals)
{
    (*(int *)signals)++;
    return 1;
}

static struct message *begin(unsigned seed, const EVP_CIPHER *cipher, int callback)
{
    struct message *message = calloc(1, sizeof *message);
    message->what = run;
    message->seed = seed;
    message->cipher = cipher;
    message->ctx = EVP_CIPHER_CTX_new();
    message->in = malloc(MOST);
    message->out = malloc(MOST + PIECES * 32);
    message->wait = ASYNC_WAIT_CTX_new();
    if (callback)
        ASYNC_WAIT_CTX_set_callback(message->wait, called, &message->signals);
    return message;
}

static void end(struct message *message)
{
    ASYNC_WAIT_CTX_free(message->wait);
    EVP_CIPHER_CTX_free(message->ctx);
    free(message->in);
    free(message->out);
    free(message);
}

// Whether the program is told that the job can go on.
static int signalled(struct message *message, int callback)
{
    int fd = -1;
    size_t fds = 0;
    if (callback)
        return message->signals > 0;
    if (!ASYNC_WAIT_CTX_get_all_fds(message->wait, NULL, &fds) || fds != 1
        || !ASYNC_WAIT_CTX_get_all_fds(message->wait, &fd, &fds))
        return 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

// Lets a job go on: 1 when it has ended well, 0 when it pauses, -1 when something is wrong.
static int step(struct message *message, int callback)
{
    int good = 0, goes_on = message->job != NULL;
    if (goes_on && !signalled(message, callback))
        return -1;
    message->signals = 0;
    switch (ASYNC_start_job(&message->job, message->wait, &good, message->what, &message, sizeof message)) {
    case ASYNC_PAUSE:
        __atomic_add_fetch(&pauses, 1, __ATOMIC_RELAXED);
        return 0;
    case ASYNC_FINISH:
        // Who polls is not woken for nothing.
        return good && (callback || !signalled(message, 0)) ? 1 : -1;
    default:
        return -1;
    }
}

// Compares what a job did with what the default provider does.
static const char *compare(struct message *message, size_t cipher)
{
    struct message *alone = begin(message->seed, theirs[cipher], 0);
    const char *said = run(&alone) && alone->length == message->length && memcmp(alone->out, message->out, alone->length) == 0
        ? "the same" : "different";
    end(alone);
    return said;
}

static void *work(void *place)
{
    unsigned seed = 1 + (unsigned)(size_t)place;
    const char *said = "the same";
    for (int round = 0; round < ROUNDS && strcmp(said, "the same") == 0; round++) {
        struct message *messages[JOBS];
        size_t ciphers[JOBS], left = JOBS;
        int callback = (int)below(&seed, 2), one = (int)below(&seed, 2);
        for (size_t job = 0; job < JOBS; job++) {
            ciphers[job] = one ? (size_t)one : below(&seed, 3);
            messages[job] = begin(seed, ours[ciphers[job]], callback);
        }
        int finished[JOBS] = {0};
        while (left > 0) {
            // In any order.
            size_t first = below(&seed, JOBS);
            for (size_t turn = 0; turn < JOBS; turn++) {
                size_t job = (first + turn) % JOBS;
                if (finished[job])
                    continue;
                int stepped = step(messages[job], callback);
                if (stepped < 0)
                    return "failed";
                if (stepped == 1) {
                    finished[job] = 1;
                    left--;
                    said = strcmp(said, "the same") == 0 ? compare(messages[job], ciphers[job]) : said;
                }
            }
        }
        for (size_t job = 0; job < JOBS; job++)
            end(messages[job]);
    }
    ASYNC_cleanup_thread();
    return (void *)said;
}

// The bytes where they are, of which a job may not know that they are others', too.
static int again(void *argument)
{
    struct message *message = *(struct message **)argument;
    static const unsigned char key[16] = {7};
    int done;
    return EVP_EncryptInit_ex2(message->ctx, message->cipher, key, key, NULL)
        && EVP_CIPHER_CTX_set_padding(message->ctx, 0)
        && EVP_EncryptUpdate(message->ctx, message->in, &done, message->in, MOST / 16 * 16);
}

// Jobs that all encrypt the same bytes in place: that is done once for each, one after the other.
static const char *shared(void)
{
    struct message *messages[JOBS], *alone = begin(0, theirs[0], 0);
    const char *said = "the same";
    memset(alone->in, 1, MOST);
    for (size_t job = 0; job < JOBS; job++) {
        messages[job] = begin(0, ours[0], 0);
        messages[job]->what = again;
        if (job == 0) {
            memset(messages[job]->in, 1, MOST);
        } else {
            free(messages[job]->in);
            messages[job]->in = messages[0]->in;
        }
        again(&alone);
    }
    int stepped[JOBS] = {0}, left = JOBS;
    while (left > 0 && strcmp(said, "the same") == 0) {
        for (size_t job = 0; job < JOBS; job++) {
            if (stepped[job] != 0)
                continue;
            stepped[job] = step(messages[job], 0);
            left -= stepped[job] == 1;
            if (stepped[job] < 0)
                said = "failed";
        }
    }
    if (strcmp(said, "the same") == 0 && memcmp(alone->in, messages[0]->in, MOST) != 0)
        said = "different";
    for (size_t job = JOBS; job-- > 0;) {
        if (job > 0)
            messages[job]->in = NULL;
        end(messages[job]);
    }
    end(alone);
    return said;
}

// A message whose job has been paused.
static struct message *paused(unsigned *seed, size_t cipher)
{
    for (int tries = 0; tries < 100; tries++) {
        struct message *message = begin(*seed, ours[cipher], 0);
        below(seed, 2);
        int stepped = step(message, 0);
        if (stepped == 0)
            return message;
        end(message);
        if (stepped < 0)
            break;
    }
    return NULL;
}

static int finish(struct message *message)
{
    int stepped = 0;
    while (stepped == 0)
        stepped = step(message, 0);
    return stepped;
}

static void *free_elsewhere(void *message)
{
    EVP_CIPHER_CTX_free(((struct message *)message)->ctx);
    return NULL;
}

// Contexts that are freed or used for something else, and a fork, while jobs wait.
static const char *mishaps(void)
{
    unsigned seed = 77;
    struct message *waiting[5];
    for (size_t job = 0; job < 5; job++)
        if ((waiting[job] = paused(&seed, 0)) == NULL)
            return "never paused";
    // In a child they go on, with the same result; here, too.
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        for (size_t job = 0; job < 5; job++)
            if (finish(waiting[job]) != 1 || strcmp(compare(waiting[job], 0), "the same") != 0)
                _exit(1);
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return "different after a fork";
    // The child has taken the signals.
    for (size_t job = 0; job < 5; job++) {
        int fd;
        size_t fds;
        uint64_t one = 1;
        if (!ASYNC_WAIT_CTX_get_all_fds(waiting[job]->wait, &fd, &fds) || write(fd, &one, sizeof one) != sizeof one)
            return "failed";
    }
    // One is given up, with its data; another one, by another thread; a third one begins something else.
    pthread_t thread;
    EVP_CIPHER_CTX_free(waiting[0]->ctx);
    free(waiting[0]->out);
    free(waiting[0]->in);
    if (pthread_create(&thread, NULL, free_elsewhere, waiting[1]) != 0 || pthread_join(thread, NULL) != 0)
        return "failed";
    unsigned char key[32] = {1};
    // (With a cipher, EVP would free what the job stands in.)
    if (!EVP_EncryptInit_ex2(waiting[2]->ctx, NULL, key, key, NULL))
        return "failed";
    waiting[0]->out = NULL;
    if (finish(waiting[2]) == 1)
        return "good, and it was given up";
    if (finish(waiting[3]) != 1 || finish(waiting[4]) != 1)
        return "failed";
    if (strcmp(compare(waiting[3], 0), "the same") != 0)
        return "different after others were given up";
    end(waiting[3]);
    end(waiting[4]);
    return "the same";
}

// Data units, on a stack as small as that of a job, whatever the device needs. Not all that is drawn are some.
static const char *units(void)
{
    const char *said = "never";
    for (unsigned seed = 0; seed < 20 && (strcmp(said, "never") == 0 || strcmp(said, "the same") == 0); seed++) {
        struct message *alone = begin(seed, theirs[3], 0), *message = begin(seed, ours[3], 0);
        if (run(&alone))
            said = finish(message) == 1 ? compare(message, 3) : "failed";
        end(alone);
        end(message);
    }
    return said;
}

int main(int count, char **words)
{
    static const char *const names[] = {"AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "AES-256-XTS"};
    if (count != 2 || !CRYPTO_set_mem_functions(allocate, reallocate, release)
        || !OSSL_LIB_CTX_load_config(NULL, words[1]))
        return 1;
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        ours[name] = EVP_CIPHER_fetch(NULL, names[name], "provider=gantry");
        theirs[name] = EVP_CIPHER_fetch(NULL, names[name], "provider=default");
        if (ours[name] == NULL || theirs[name] == NULL)
            return 1;
    }
    int status = in_threads(work);
    puts(units());
    puts(shared());
    puts(pauses > 0 ? mishaps() : "never paused");
    return status;
}
