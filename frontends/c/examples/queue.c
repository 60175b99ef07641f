/* Keeps requests in flight while the program waits in poll(2), as an event loop does. The argument is the text of a gantry.toml. */
#define _POSIX_C_SOURCE 200809L
#include <gantry.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 100, DEPTH = 16, LEN = 1000 };

/* These belong to the library from gantry_queue_submit to the completion. */
static unsigned char data[COUNT][LEN], digests[COUNT][16];

/* Waits for the descriptor, and takes completions. */
static int take(gantry_queue *queue)
{
    int timeout, armed = gantry_queue_arm(queue, &timeout);
    if (armed < 0)
        return armed;
    if (armed) {
        struct pollfd descriptor = {0};
        descriptor.fd = gantry_queue_descriptor(queue);
        descriptor.events = POLLIN;
        poll(&descriptor, 1, timeout);
    }
    gantry_completion completions[DEPTH];
    int count = gantry_queue_complete(queue, completions, DEPTH);
    for (int i = 0; i < count; i++)
        if (completions[i].result != GANTRY_DONE)
            printf("request %d: %d\n", (int)completions[i].user, (int)completions[i].result);
    return count;
}

int main(int count, char **arguments)
{
    gantry *devices;
    gantry_session *session;
    gantry_queue *queue;
    gantry_params params = {0};
    params.size = sizeof params;
    params.algorithm = "md5";
    if (gantry_open(count > 1 ? arguments[1] : NULL, &devices, NULL, 0) < 0 ||
        gantry_session_open(devices, &params, &session) < 0 || gantry_queue_open(devices, DEPTH, &queue) < 0)
        return 1;

    int done = 0;
    for (int i = 0; done < COUNT;) {
        int error = 0;
        while (i < COUNT) {
            memset(data[i], i, LEN);
            gantry_request request = {0};
            request.size = sizeof request;
            request.operation = GANTRY_DIGEST;
            request.in = data[i];
            request.in_len = LEN;
            request.out = digests[i];
            request.out_len = sizeof digests[i];
            error = gantry_queue_submit(queue, session, &request, (uint64_t)i);
            if (error < 0)
                break;
            i++;
        }
        if (error < 0 && error != GANTRY_E_FULL)
            return 1;
        int taken = take(queue);
        if (taken < 0)
            return 1;
        done += taken;
    }
    for (int i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < sizeof digests[i]; j++)
            printf("%02x", digests[i][j]);
        printf("\n");
    }
    gantry_queue_close(queue);
    gantry_session_close(session);
    gantry_close(devices);
    return 0;
}
