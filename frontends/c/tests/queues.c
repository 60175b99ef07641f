/* Keeps requests in flight over its own buffers, and prints the number of waits for the descriptor. The argument is the text of a
 * gantry.toml. */
#include "must.h"
#include <poll.h>

enum { COUNT = 60, DEPTH = 8, LEN = 333 };

static unsigned char text[COUNT][LEN], out[COUNT][LEN], tags[COUNT][16], nonces[COUNT][12];
static int results[COUNT], done, waits;

/* Takes completions through the descriptor, or with the waiting call. */
static void take(gantry_queue *queue, int by_descriptor)
{
    gantry_completion completions[3];
    int timeout, count;
    if (by_descriptor) {
        if (gantry_queue_arm(queue, &timeout) == 1) {
            struct pollfd descriptor = {0};
            descriptor.fd = gantry_queue_descriptor(queue);
            descriptor.events = POLLIN;
            must(poll(&descriptor, 1, timeout) >= 0);
            waits++;
        }
        count = gantry_queue_complete(queue, completions, 3);
    } else {
        count = gantry_queue_wait(queue, completions, 3);
        must(count > 0);
    }
    must(count >= 0 && count <= 3);
    for (int i = 0; i < count; i++) {
        must(results[completions[i].user] == -1000);
        results[completions[i].user] = completions[i].result;
    }
    done += count;
}

static void all(gantry_queue *queue, gantry_session *session, gantry_request *requests, int by_descriptor)
{
    int full = 0;
    done = 0;
    for (int i = 0; i < COUNT; i++) {
        results[i] = -1000;
        for (;;) {
            gantry_request copy = requests[i];
            int error = gantry_queue_submit(queue, session, &copy, (uint64_t)i);
            memset(&copy, 0xff, sizeof copy); /* the struct is not kept */
            if (error == GANTRY_OK)
                break;
            must(error == GANTRY_E_FULL);
            full++;
            take(queue, by_descriptor);
        }
    }
    must(full > 0);
    while (done < COUNT)
        take(queue, by_descriptor);
    gantry_completion none;
    must(gantry_queue_wait(queue, &none, 1) == 0 && gantry_queue_complete(queue, &none, 0) == 0);
}

int main(int count, char **arguments)
{
    gantry *devices = opened(count > 1 ? arguments[1] : NULL);
    static const unsigned char key[16] = {9};
    gantry_session *gcm = session_of(devices, "aes-128-gcm", key, 16), *md5 = session_of(devices, "md5", NULL, 0);
    gantry_queue *queue;
    must(gantry_queue_open(devices, DEPTH, &queue) == GANTRY_OK);
    static gantry_request requests[COUNT];
    for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++) {
        /* Digests, compared with a batch. */
        for (int i = 0; i < COUNT; i++) {
            memset(text[i], i + 1, LEN);
            requests[i] = request_of(GANTRY_DIGEST, text[i], LEN, out[i], 16);
        }
        all(queue, md5, requests, by_descriptor);
        for (int i = 0; i < COUNT; i++) {
            unsigned char expected[16];
            gantry_request one = request_of(GANTRY_DIGEST, text[i], LEN, expected, 16);
            must(results[i] == GANTRY_DONE && gantry_run(md5, &one, 1) == GANTRY_OK && !memcmp(expected, out[i], 16));
        }
        /* Seals messages, every second one in place. */
        for (int i = 0; i < COUNT; i++) {
            nonces[i][0] = (unsigned char)i;
            memcpy(out[i], text[i], LEN);
            requests[i] = request_of(GANTRY_SEAL, i % 2 ? text[i] : out[i], LEN, out[i], LEN);
            requests[i].iv = nonces[i];
            requests[i].iv_len = 12;
            requests[i].aad = nonces;
            requests[i].aad_len = 20;
            requests[i].tag = tags[i];
            requests[i].tag_len = 16;
        }
        all(queue, gcm, requests, by_descriptor);
        for (int i = 0; i < COUNT; i++) {
            must(results[i] == GANTRY_DONE && memcmp(out[i], text[i], LEN));
            requests[i].operation = GANTRY_OPEN;
            requests[i].in = out[i];
            if (i % 4 == 0)
                tags[i][0] ^= 1;
        }
        all(queue, gcm, requests, by_descriptor);
        for (int i = 0; i < COUNT; i++) {
            must(results[i] == (i % 4 ? GANTRY_DONE : GANTRY_BAD_TAG));
            must(i % 4 ? !memcmp(out[i], text[i], LEN) : memcmp(out[i], text[i], LEN));
        }
    }
    /* Closing a queue runs its requests in flight. */
    for (int i = 0; i < DEPTH; i++) {
        requests[i] = request_of(GANTRY_DIGEST, "abc", 3, out[i], 16);
        must(gantry_queue_submit(queue, md5, &requests[i], 0) == GANTRY_OK);
    }
    gantry_session_close(md5);
    gantry_session_close(gcm);
    gantry_close(devices);
    gantry_queue_close(queue);
    printf("%d\n", waits);
    return 0;
}
