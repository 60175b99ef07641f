/* Forks midway: the child continues with sessions and streams, and cannot use queues. A bare clone behaves likewise. */
#define _GNU_SOURCE
#include "must.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static gantry *devices;
static gantry_session *session;
static gantry_stream *stream;
static gantry_queue *queue;

static void goes_on(void)
{
    unsigned char out[32];
    must(gantry_stream_update(stream, "c", 1) == GANTRY_OK);
    must(gantry_stream_final(stream, out, 32) == GANTRY_OK && is(out, SHA256_OF_ABC));
    gantry_request request = request_of(GANTRY_DIGEST, "abc", 3, out, 32);
    must(gantry_run(session, &request, 1) == GANTRY_OK && is(out, SHA256_OF_ABC));
    gantry_message messages[] = {{"abc", 3, out}};
    must(gantry_digest_many(session, messages, 1, 32) == GANTRY_OK && is(out, SHA256_OF_ABC));
}

static void close_all(void)
{
    gantry_queue_close(queue);
    gantry_stream_close(stream);
    gantry_session_close(session);
    gantry_close(devices);
}

static pid_t bare_clone(void)
{
    return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
}

static void with_child(pid_t (*make)(void))
{
    unsigned char out[32];
    gantry_completion completion;
    devices = opened(NULL);
    session = session_of(devices, "sha256", NULL, 0);
    must(gantry_stream_open(session, 1, &stream) == GANTRY_OK && gantry_stream_update(stream, "ab", 2) == GANTRY_OK);
    must(gantry_queue_open(devices, 4, &queue) == GANTRY_OK);
    gantry_request request = request_of(GANTRY_DIGEST, "abc", 3, out, 32);
    must(gantry_queue_submit(queue, session, &request, 5) == GANTRY_OK);

    pid_t child = make();
    must(child >= 0);
    if (child == 0) {
        int timeout;
        must(gantry_queue_submit(queue, session, &request, 6) == GANTRY_E_FORKED);
        must(gantry_queue_wait(queue, &completion, 1) == GANTRY_E_FORKED);
        must(gantry_queue_arm(queue, &timeout) == GANTRY_E_FORKED);
        goes_on();
        /* A queue opened by the child. */
        gantry_queue *own;
        must(gantry_queue_open(devices, 4, &own) == GANTRY_OK);
        must(gantry_queue_submit(own, session, &request, 7) == GANTRY_OK);
        must(gantry_queue_wait(own, &completion, 1) == 1 && completion.user == 7 && is(out, SHA256_OF_ABC));
        gantry_queue_close(own);
        close_all();
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(gantry_queue_wait(queue, &completion, 1) == 1 && completion.user == 5 && is(out, SHA256_OF_ABC));
    goes_on();
    close_all();
}

int main(void)
{
    with_child(fork);
    with_child(bare_clone);
    return 0;
}
