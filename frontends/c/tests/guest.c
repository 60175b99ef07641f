/* The library starts no thread, handles no signal, writes nothing, and may be used by many threads. */
#define _POSIX_C_SOURCE 200809L
#include "must.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>

static gantry_session *session;
static gantry_stream *stream;

static int entries(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    must(open);
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

static void *hashes(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        unsigned char out[20][32];
        gantry_request requests[20];
        for (int j = 0; j < 20; j++)
            requests[j] = request_of(GANTRY_DIGEST, "abc", 3, out[j], 32);
        must(gantry_run(session, requests, 20) == GANTRY_OK);
        for (int j = 0; j < 20; j++)
            must(is(out[j], SHA256_OF_ABC));
        /* A stream takes one thread at a time: a second thread gets an error. */
        int error = gantry_stream_update(stream, out, sizeof out);
        must(error == GANTRY_OK || error == GANTRY_E_BUSY);
    }
    return NULL;
}

int main(void)
{
    int threads = entries("/proc/self/task");
    gantry *devices = opened(NULL);
    gantry_close(devices);
    /* The first opening has made the process's page of statistics, which stays. */
    int descriptors = entries("/proc/self/fd");
    devices = opened(NULL);
    session = session_of(devices, "sha256", NULL, 0);
    must(gantry_stream_open(session, 1, &stream) == GANTRY_OK);
    hashes(NULL);
    must(entries("/proc/self/task") == threads);
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        must(sigaction(number, NULL, &action) == 0);
        /* A program started in the background ignores some signals. */
        must(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
    }
    pthread_t others[4];
    for (int i = 0; i < 4; i++)
        must(pthread_create(&others[i], NULL, hashes, NULL) == 0);
    for (int i = 0; i < 4; i++)
        must(pthread_join(others[i], NULL) == 0);
    gantry_queue *queue;
    must(gantry_queue_open(devices, 4, &queue) == GANTRY_OK);
    must(gantry_queue_descriptor(queue) >= 0);
    gantry_queue_close(queue);
    gantry_stream_close(stream);
    gantry_session_close(session);
    gantry_close(devices);
    must(entries("/proc/self/fd") == descriptors);
    return 0;
}
