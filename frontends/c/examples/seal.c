/* Seals many messages under one key in a batch, and opens them. One is forged in between. */
#include <gantry.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 8, LEN = 100, NONCE = 12, TAG = 16 };

static unsigned char data[COUNT][LEN], tags[COUNT][TAG], nonces[COUNT][NONCE];

/* Runs all requests in place. */
static int run(gantry_session *session, uint32_t operation, gantry_request *requests)
{
    memset(requests, 0, COUNT * sizeof *requests);
    for (int i = 0; i < COUNT; i++) {
        gantry_request *request = &requests[i];
        request->size = sizeof *request;
        request->operation = operation;
        request->iv = nonces[i];
        request->iv_len = NONCE;
        request->aad = "header";
        request->aad_len = 6;
        request->in = request->out = data[i];
        request->in_len = request->out_len = LEN;
        request->tag = tags[i];
        request->tag_len = TAG;
    }
    int error = gantry_run(session, requests, COUNT);
    if (error < 0)
        fprintf(stderr, "gantry_run: %s\n", gantry_strerror(error));
    return error;
}

int main(void)
{
    /* Real keys come from getrandom(2), and real nonces from a counter that is never reset. */
    static const unsigned char key[16] = {7};
    for (int i = 0; i < COUNT; i++) {
        nonces[i][0] = (unsigned char)i;
        memset(data[i], 'a' + i, LEN);
    }

    gantry *devices;
    gantry_session *session;
    gantry_params params = {0};
    params.size = sizeof params;
    params.algorithm = "aes-128-gcm";
    params.key = key;
    params.key_len = sizeof key;
    if (gantry_open(NULL, &devices, NULL, 0) < 0 || gantry_session_open(devices, &params, &session) < 0)
        return 1;

    gantry_request requests[COUNT];
    if (run(session, GANTRY_SEAL, requests) < 0)
        return 1;
    data[3][50] ^= 1;
    if (run(session, GANTRY_OPEN, requests) < 0)
        return 1;
    for (int i = 0; i < COUNT; i++)
        printf("%d: %s\n", i, requests[i].result == GANTRY_DONE ? "opened" : "forged");

    gantry_session_close(session);
    gantry_close(devices);
    return 0;
}
